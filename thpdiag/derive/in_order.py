"""Rows in the order of their times: files that were appended twice, in the wrong order, or sorted by something else.

What grew is summed over rows that follow each other; a second copy would double it, and rows in any order make it
anything. But a clock that was set back (or the hour that comes twice in autumn) goes back too, and there the order of
the file is right. They are told apart by what sorting does: a counter falls less often, or the stretches of the file
come to lie behind each other instead of between each other's rows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from thpdiag.derive.series import Samples
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Series

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def in_order(samples: Samples, metric: str) -> Samples:
    """The rows of a metric, all on one clock, by their times, and what was said twice once; else as they were."""
    if _forward(samples):
        return samples
    import numpy as np

    if isinstance(samples, Series):
        seconds, values = samples.seconds, samples.values[metric]
    else:
        seconds = np.array([s.time.seconds for s in samples if s.time], np.float64)
        values = np.array([s.values[metric] for s in samples], np.float64)
    order = None if seconds is None else _order(seconds, values, counted=_is_counter(metric))
    if order is None:
        return samples
    return samples.only(order) if isinstance(samples, Series) else tuple(samples[at] for at in order.tolist())


def _forward(samples: Samples) -> bool:
    """Whether the times never go back."""
    if isinstance(samples, Series):
        return samples.seconds is None or not (samples.seconds[1:] < samples.seconds[:-1]).any()
    times = [s.time.seconds for s in samples if s.time]
    return all(one <= other for one, other in pairwise(times))


def _is_counter(metric: str) -> bool:
    known = term(metric)
    return known is not None and known.kind == "counter"


def _order(seconds: Floats, values: Floats, *, counted: bool) -> NDArray[np.int64] | None:
    """Which rows in which order; None if they had better stay."""
    import numpy as np

    order = np.lexsort((values, seconds))
    again = (np.diff(seconds[order]) == 0) & (np.diff(values[order]) == 0)
    order = order[np.concatenate(([True], ~again))]
    if counted:
        before, after = int((np.diff(values) < 0).sum()), int((np.diff(values[order]) < 0).sum())
        if before != after:
            return order if after < before else None
    back = np.diff(seconds) < 0
    stretch = np.concatenate(([0], np.cumsum(back)))[order]
    return order if int((np.diff(stretch) != 0).sum()) <= 2 * int(back.sum()) else None
