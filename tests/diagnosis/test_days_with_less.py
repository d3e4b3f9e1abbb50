"""The law of DESIGN 4 for recordings of hours: a source taken away makes no finding surer.

Three recordings of one host, of different lengths and intervals, that all see the same storms.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping

import numpy as np
import pytest

from analyze_bytes import sure
from recorded_days import BUSY, FALLBACKS, FAULTS, HUGE, SHARE, STALLS, START, SYS, case, confidences, diagnosis
from thpdiag.model import Clock, Series

HOURS = 4 * 3600
DISKS, SOFT = "cpu_ratio.iowait", "cpu_ratio.softirq"
STORMS: Mapping[str, tuple[float, ...]] = {
    STALLS: (3.0, 40.0, 400.0), FAULTS: (60.0, 900.0), FALLBACKS: (400.0,), SYS: (0.4, 0.75), DISKS: (0.5,),
    SOFT: (0.4,),
}  # fmt: skip


def host(chance: random.Random) -> dict[str, np.ndarray]:
    """What happened in each second."""
    found = {name: np.zeros(HOURS) for name in STORMS}
    for name, values in STORMS.items():
        for _ in range(chance.randrange(3)):
            at = chance.randrange(HOURS - 1800)
            found[name][at : at + chance.randrange(120, 1800)] = chance.choice(values)
    return found


def source(chance: random.Random, seconds: Mapping[str, np.ndarray], member: str) -> Series:
    """What a recorder saw of it: all the time or a part of it, counters, shares, or both."""
    first = chance.choice([0, 0, chance.randrange(HOURS - 3600)])
    last = chance.choice([HOURS - 1, first + chance.randrange(600, 3600)])
    at = np.arange(first, last, chance.choice([10, 60, 300]) if last - first > 1800 else 10)
    sums = {name: np.concatenate(([0.0], np.cumsum(values)))[at] for name, values in seconds.items()}
    step = float(at[1] - at[0])
    shares = {name: np.diff(total, prepend=total[0]) / step for name, total in sums.items()}
    columns = {name: 1e6 + sums[name] for name in (STALLS, FAULTS, FALLBACKS)} | {HUGE: np.full(len(at), 2000.0)}
    if chance.random() < 0.6:
        kernel = shares[SYS]
        parts = {SYS: kernel, SHARE: kernel / (kernel + 0.1), BUSY: kernel + 0.1, DISKS: shares[DISKS]}
        columns = parts | {SOFT: shares[SOFT]} | (columns if chance.random() < 0.5 else {})
    times = np.array([START + second for second in at.tolist()])
    return Series("system", columns, member, np.arange(1, len(at) + 1), "test", seconds=times, clock=Clock.UTC)


@pytest.mark.parametrize("seed", range(12 if os.environ.get("THPDIAG_PROOF") == "1" else 6))
def test_a_host_with_a_recording_less_is_not_surer(seed: int) -> None:
    """Each of three recordings is taken away."""
    chance = random.Random(seed)
    seconds = host(chance)
    sources = [source(chance, seconds, f"{name}.txt") for name in "abc"]
    full = sure(confidences(diagnosis(case(sources))))
    for gone in range(len(sources)):
        rest = sure(confidences(diagnosis(case(sources[:gone] + sources[gone + 1 :]))))
        assert {rule: level for rule, level in rest.items() if level > full.get(rule, 0)} == {}


def test_there_are_findings_to_lose() -> None:
    """Of these hosts several have sure findings; a law about nothing proves nothing."""
    found = []
    for seed in range(12):
        chance = random.Random(seed)
        found.append(sure(confidences(diagnosis(case([source(chance, host(chance), "a.txt")])))))
    assert sum(map(bool, found)) >= 3
