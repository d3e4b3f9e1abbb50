"""Inputs without several parts, chosen by a seed."""

from __future__ import annotations

import random

from reduced_inputs import Readings, cuts
from thpdiag.host.reading import ParsedInput

MOST = 4  # cuts at once; more leave nothing of most bundles


def less_at_random(given: ParsedInput, chance: random.Random) -> tuple[str, ParsedInput]:
    """Return the rest after one to four cuts, with a description of the cuts."""
    readings: Readings = given.readings
    gone: list[str] = []
    for _ in range(chance.randint(1, MOST)):
        every = list(cuts(readings))
        if not every:
            break
        words, keep = chance.choice(every)
        left = {m: [r for n, r in enumerate(rows) if keep(m, n, r)] for m, rows in readings.items()}
        readings = {m: rows for m, rows in left.items() if rows}
        gone.append(words)
    return ", ".join(gone), ParsedInput(readings, given.inputs, given.problems)
