"""Several Series of one source about one entity as one: a recorder that was read in parts, or in sets of metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from thpdiag.model import Series

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def joined(parts: Sequence[Series]) -> Series:
    """One Series of all rows in the order of their lines, NaN where a part does not have a metric.

    All must be of one member, reader, entity and clock.
    """
    import numpy as np

    if len(parts) == 1:
        return parts[0]
    lines = np.concatenate([part.lines for part in parts])
    order = np.argsort(lines, kind="stable")
    names = dict.fromkeys(name for part in parts for name in part.values)
    sizes = [len(part) for part in parts]
    timed = any(part.seconds is not None for part in parts)
    marked = any(part.since_boot is not None for part in parts)
    text, starts, ends = _texts(parts)
    return replace(
        parts[0],
        entity=parts[-1].entity,
        values={name: _column([part.values.get(name) for part in parts], sizes)[order] for name in names},
        lines=lines[order],
        seconds=_column([part.seconds for part in parts], sizes)[order] if timed else None,
        clock=next((part.clock for part in parts if part.clock), None),
        resolution=_coarsest(parts),
        since_boot=_marks(parts)[order] if marked else None,
        within=max(part.within for part in parts),
        text=text,
        starts=None if starts is None else starts[order],
        ends=None if ends is None else ends[order],
    )


def _column(parts: Sequence[NDArray[np.float64] | None], sizes: Sequence[int]) -> NDArray[np.float64]:
    import numpy as np

    filled = [np.full(size, np.nan) if part is None else part for part, size in zip(parts, sizes, strict=True)]
    return np.concatenate(filled)


def _coarsest(parts: Sequence[Series]) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in parts:
        for name, quantum in part.resolution.items():
            found[name] = max(quantum, found.get(name, 0.0))
    return found


def _marks(parts: Sequence[Series]) -> NDArray[np.bool_]:
    import numpy as np

    return np.concatenate([np.zeros(len(p), np.bool_) if p.since_boot is None else p.since_boot for p in parts])


def _texts(parts: Sequence[Series]) -> tuple[bytes, NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """The texts behind each other, one that several have once; none if a part keeps no text."""
    import numpy as np

    if any(part.starts is None or part.ends is None for part in parts):
        return b"", None, None
    offsets: dict[int, int] = {}
    texts, length = [], 0
    for part in parts:
        if id(part.text) not in offsets:
            offsets[id(part.text)] = length
            texts.append(part.text)
            length += len(part.text)
    starts = [part.starts + offsets[id(part.text)] for part in parts if part.starts is not None]
    ends = [part.ends + offsets[id(part.text)] for part in parts if part.ends is not None]
    return texts[0] if len(texts) == 1 else b"".join(texts), np.concatenate(starts), np.concatenate(ends)
