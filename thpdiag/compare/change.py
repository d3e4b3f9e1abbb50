"""Whether a figure changed, by how much, and whether that is more than the noise of its samples."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot

from thpdiag.compare.figures import SHARE, Figure

CLEAR = 1.5  # times: what changed less is not called better or worse
ERRORS = 2.0  # standard errors of the difference, about 95 %
FEW = 3.0  # more errors for few samples, whose spread is told badly
FEWEST = 3  # samples by which a spread can be told
MUCH = 2.0  # times, where the samples do not tell the spread
WORK = ("node_vmstat_pgalloc", "node_vmstat_pgfault")  # begin the names of counters of work
# What is nothing: 0.1/s is what a cured host shows (compaction stalls), 100/s of huge faults are a tenth of a CPU of
# clearing, 2 % of samples cannot be felt.
NOTHING = {
    "node_vmstat_compact_stall": 0.1, "node_vmstat_compact_fail": 0.1, "node_allocstall_total": 0.1,
    "node_vmstat_thp_collapse_alloc": 0.05, "node_vmstat_thp_fault_alloc": 1.0, "node_vmstat_thp_fault_fallback": 1.0,
    "node_memory_AnonHugePages_bytes": 64.0 * 1024**2, "node_memory_MemFree_bytes": 256.0 * 1024**2,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """A figure on both sides. `ratio` is None where it was nothing before; `direction` is up, down, same or noise, of
    a rate for the same work; `alone` is what it would be without regard to the work."""

    before: Figure
    after: Figure
    direction: str
    alone: str

    @property
    def difference(self) -> float:
        return self.after.value - self.before.value

    @property
    def ratio(self) -> float | None:
        return self.after.value / self.before.value if self.before.value else None


def change(before: Figure, after: Figure, work: float | None = None) -> Change:
    """`work` is how many times the work was done after: a rate is compared by what it is for the same work.

    What counts the work is no exact measure of it (huge pages hand out more pages for the same work), so nothing went
    up for the same work only, nor down though there is more of it.
    """
    alone = _direction(before, after, 1.0)
    if work and per_work(before):
        way = _direction(before, after, 1.0 / work)
        against = (way == "up" and alone != "up") or (way == "down" and alone == "up")
        return Change(before, after, "same" if against else way, alone)
    if work and work > 1.0 and before.name.startswith(SHARE) and alone == "down":
        return Change(before, after, _thinned(before, after, work), alone)
    return Change(before, after, alone, alone)


def _thinned(before: Figure, after: Figure, work: float) -> str:
    """A share that fell, where more work of another kind may have thinned it."""
    return "down" if _direction(before, after, work) == "down" else "same"


def per_work(figure: Figure) -> bool:
    """Whether more work makes more of it: a rate does, a share or a level does not; what counts the work is no rate
    of it."""
    return figure.unit == "1/s" and not figure.name.startswith(WORK)


def nothing(figure: Figure) -> float:
    """Up to which value a figure is as good as nothing."""
    if figure.unit == "ratio":
        return 0.02
    return NOTHING.get(figure.name, 0.0)


def _direction(before: Figure, after: Figure, scale: float) -> str:
    """For the same work, by at least `CLEAR` times, by more than nothing, and by more than noise."""
    old, new = before.value, after.value * scale
    low, high = sorted((old, new))
    if low < 0 or high - low <= nothing(before) or high < CLEAR * low:
        return "same"
    if not _beyond_noise(before, after, scale):
        return "noise"
    return "up" if new > old else "down"


def _beyond_noise(before: Figure, after: Figure, scale: float) -> bool:
    if before.name.startswith(SHARE) and not (before.samples and after.samples):
        return _much(before.value, after.value) and abs(after.value - before.value) >= 0.05
    counts = (before.samples or 0, after.samples or 0)
    if before.error is None or after.error is None:
        return before.unit != "1/s" and _much(before.value, after.value * scale)
    if min(counts) < 2:
        return False
    if min(counts) < FEWEST:
        return _apart(before, after, scale)
    errors = ERRORS + FEW / (sum(counts) - 2)  # near the quantiles of Student's t
    return abs(after.value * scale - before.value) > errors * hypot(before.error, after.error * scale)


def _much(old: float, new: float) -> bool:
    low, high = sorted((old, new))
    return high >= MUCH * low


def _apart(before: Figure, after: Figure, scale: float) -> bool:
    """Whether no sample of the one reaches into the range of the other."""
    ends = (before.low, before.high, after.low, after.high)
    if any(end is None for end in ends):
        return False
    low, high, later_low, later_high = (float(end or 0.0) for end in ends)
    return high < later_low * scale or later_high * scale < low
