"""Samples over time, for a subsecond-offset heat map: second by second, fifty parts of each.

Only cells with samples are there, as three columns of equal length. Bins are 10 ms from the start of the profile
(`thpdiag.model.profile.BIN`); rows begin at whole seconds of its clock.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thpdiag.model import Profile, Rows
from thpdiag.model.profile import BIN, UNKNOWN

PARTS = 50  # of a second
BINS = round(1 / BIN)


def heat(profile: Profile, rows: Rows) -> dict[str, Any] | None:
    """The cells, None if the profile has no times or no numbers of samples."""
    known = rows.only(rows.bin != UNKNOWN)
    if not profile.has_time or not len(known) or known.samples.max() <= 0:
        return None
    seconds = profile.start.seconds if profile.start else 0.0
    bins = known.bin.astype(np.int64) + round(seconds % 1 * BINS)
    cells, place = np.unique(bins // BINS * PARTS + bins % BINS * PARTS // BINS, return_inverse=True)
    samples = np.zeros(len(cells), np.int64)
    np.add.at(samples, place, known.samples)
    return {
        "from": int(seconds // 1),
        **({"clock": str(profile.start.clock)} if profile.start else {}),
        "parts": PARTS,
        "second": (cells // PARTS).tolist(),
        "part": (cells % PARTS).tolist(),
        "samples": samples.tolist(),
    }
