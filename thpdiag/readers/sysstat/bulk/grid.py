"""Rows of sar that are nothing but a time and plain numbers, taken as numbers all at once."""

from __future__ import annotations

import numpy as np

from thpdiag.readers.sysstat.bulk.gather import Floats


def grid_of(rows: bytes, columns: int, *, half: bool) -> Floats | None:
    """The rows as numbers: hour, minute, second, cells; `all` is -1. None unless every cell is a plain number."""
    if not _timed(rows):
        return None
    text = rows
    if half:
        text = text.replace(b" AM ", b":0 ").replace(b" PM ", b":1 ")
    if b"-" in text or (b"," in text and b"." in text):
        return None
    text = text.replace(b",", b".").replace(b":", b" ").replace(b" all ", b" -1 ")
    if text.translate(None, b"0123456789. \n-"):
        return None
    count, width = rows.count(b"\n") + 1, columns + 3 + half
    if not _even(text, count, width):
        return None
    grid = np.fromstring(text, sep=" ").reshape(count, width)
    if half:
        grid[:, 0] = grid[:, 0] % 12 + 12 * grid[:, 3]
        grid = np.delete(grid, 3, axis=1)
    return grid if _clock_like(grid) else None


def _timed(rows: bytes) -> bool:
    """Whether each row begins with a time, dd:dd:dd, and has no other colon."""
    letters = np.frombuffer(rows + b"\n", np.uint8)
    ends = np.flatnonzero(letters == 10)
    starts = np.concatenate([[0], ends[:-1] + 1])
    if (ends - starts < 9).any() or rows.count(b":") != 2 * len(starts):
        return False
    times = letters[starts[:, None] + np.arange(8)]
    digits = times[:, [0, 1, 3, 4, 6, 7]]
    return bool((times[:, [2, 5]] == ord(":")).all() and ((digits >= ord("0")) & (digits <= ord("9"))).all())


def _even(text: bytes, count: int, width: int) -> bool:
    """Whether each row has that many cells, and no cell more than one dot, with digits around it."""
    letters = np.frombuffer(b" " + text + b"\n", np.uint8)
    blank = letters <= 32
    cells = np.cumsum(blank[:-1] & ~blank[1:])
    dots = np.flatnonzero(letters == ord("."))
    if (letters[dots - 1] < ord("0")).any() or (letters[dots + 1] < ord("0")).any():
        return False
    if (np.diff(cells[dots - 1]) == 0).any():
        return False
    counts = np.diff(cells[np.flatnonzero(letters == 10) - 1], prepend=0)
    return len(counts) == count and bool((counts == width).all())


def _clock_like(grid: Floats) -> bool:
    return bool((grid[:, 0] < 24).all() and (grid[:, 1] < 60).all() and (grid[:, 2] < 61).all())


def seconds_of(grid: Floats) -> Floats:
    found: Floats = grid[:, 0] * 3600 + grid[:, 1] * 60 + grid[:, 2]
    return found
