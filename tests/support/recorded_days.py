"""A host recorded for a day, calm except in the stretches that a test names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from analyze_bytes import rules
from thpdiag.diagnosis.diagnose import Diagnosis, diagnose
from thpdiag.engine.evaluate import evaluate_with_windows
from thpdiag.engine.state_view import state_views
from thpdiag.host.derived import add_derived_facts
from thpdiag.model import Case, Citation, Clock, Fact, Profile, Series, State

START = 1_790_000_000.0
DAY = 1440  # minutes
STALLS, FAULTS, FALLBACKS = (
    f"node_vmstat_{name}" for name in ("compact_stall", "thp_fault_alloc", "thp_fault_fallback")
)
HUGE = "node_vmstat_nr_anon_transparent_hugepages"
SYS, SHARE, BUSY = (f"cpu_ratio.{name}" for name in ("sys_total", "sys_share", "busy"))
Minutes = Mapping[tuple[int, int], float]  # first and last minute, and the value then
OLD = (("kernel.release", "2.6.32-220.el6.x86_64"), ("thp.enabled", "always"), ("thp.defrag", "always"))


def level(calm: float, storms: Minutes, minutes: int = DAY) -> np.ndarray:
    """Return one value per minute."""
    found = np.full(minutes, float(calm))
    for (first, last), value in storms.items():
        found[first:last] = value
    return found


def counter(calm: float, storms: Minutes, minutes: int = DAY, before: float = 1e6) -> np.ndarray:
    """Return a counter that is read once a minute and grows by this much per second."""
    return before + np.cumsum(60 * level(calm, storms, minutes))


def recording(
    member: str, columns: Mapping[str, np.ndarray], *, start: float = START, clock: Clock = Clock.UTC,
    reader: str = "test",
) -> Series:  # fmt: skip
    count = len(next(iter(columns.values())))
    seconds = np.linspace(start, start + 60.0 * (count - 1), count)
    return Series("system", columns, member, np.arange(1, count + 1), reader, seconds=seconds, clock=clock)


def stormy(stalls: Minutes, sys: Minutes, disks: tuple[float, Minutes] = (0.0, {})) -> list[Series]:
    """Return compaction stalls (with huge page faults) and kernel time, in two files; `disks` is the I/O wait time."""
    counters = {
        STALLS: counter(0, stalls),
        FAULTS: counter(20, dict.fromkeys(stalls, 900.0)),
        FALLBACKS: counter(0, {}),
    }
    counters[HUGE] = level(2000.0, {})
    share = {when: value / (value + 0.1) for when, value in sys.items()}
    shares = {SYS: level(0.02, sys), SHARE: level(0.09, share), BUSY: level(0.22, dict.fromkeys(sys, 0.9))}
    shares |= {"cpu_ratio.softirq": level(0.0, {}), "cpu_ratio.iowait": level(*disks)}
    return [recording("counters.txt", counters), recording("cpu.txt", shares)]


def case(samples: Sequence[Series], profiles: Sequence[Profile] = (), facts: Mapping[str, str] | None = None) -> Case:
    told = tuple(
        Fact(name, value, Citation("settings.txt", 1)) for name, value in {**dict(OLD), **(facts or {})}.items()
    )
    own = tuple(f for f in told if f.name.startswith("thp."))
    state = State("all", {f.name: str(f.value) for f in own}, 0, own, tuple(samples), tuple(profiles))
    return add_derived_facts(Case("demo", tuple(f for f in told if f not in own), (state,)))


def diagnosis(given: Case) -> Diagnosis:
    return diagnose(given, rules(), [(scene, evaluate_with_windows(rules(), scene)) for scene in state_views(given)])


def confidences(found: Diagnosis) -> dict[str, str]:
    return {f.outcome.rule: f.confidence for f in found.findings}
