"""A recording of many rows cut where the states of its host change; each part lies in one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from thpdiag.derive.series import marked
from thpdiag.model import Series

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def at_lines(series: Series, lines: Sequence[int]) -> list[Series]:
    """The rows above the first of these lines, from there up to the second, and so on."""
    import numpy as np

    return _parts(series, np.searchsorted(np.array(lines), series.lines, "right"))


def at_times(series: Series, spans: Iterable[tuple[float, float]]) -> list[Series]:
    """The rows by which of these stretches of time (first and last second) they are in."""
    import numpy as np

    code = np.zeros(len(series), np.int64)
    for first, last in spans:
        if series.seconds is not None:
            inside = (series.seconds >= first) & (series.seconds <= last)
            code = np.unique(code * 2 + inside, return_inverse=True)[1]  # which of the stretches, as a small number
    return _parts(series, code)


def _parts(series: Series, code: NDArray[np.int64]) -> list[Series]:
    import numpy as np

    return [marked(series, code == one) for one in np.unique(code)]
