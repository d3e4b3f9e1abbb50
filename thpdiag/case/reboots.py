"""What a reboot means for the settings that were read after it: that they may not have held before.

A bundle tells of the host as it was booted last; its recordings (sar of a month) may be older. `never` that is read
after the boot may be the cure, with the reboot that brought it: what was recorded before is a state of its own, in
which that setting is not known. A setting that allows huge pages is taken to have held before as well, so that nothing
is surer for a boot that is not in the input. Counters start anew at a boot; that is a gap (`thpdiag.derive.rates`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from thpdiag.derive.boot_clock import reboots
from thpdiag.derive.clock import HostClock
from thpdiag.knowledge.paths import root_of
from thpdiag.model import Fact, Moment, Record, Series

FORBIDS = frozenset({("thp.enabled", "never"), ("thp.defrag", "never")})


@dataclass(frozen=True, slots=True)
class Past:
    """The records from before the boot and those since, and the settings that may have held all the time."""

    before: list[Record]
    after: list[Record]
    kept: list[Fact]


def before_reboot(settings: Sequence[Fact], records: Iterable[Record], clock: HostClock) -> Past | None:
    """What was recorded before the boot under which the settings were read; None if nothing was, or it is not known."""
    roots = {root_of(fact.cite.member) for fact in settings}
    boots = reboots(join for join in clock.joins if root_of(join.cite.member) in roots)
    if not boots:
        return None
    kept = [fact for fact in settings if (fact.name, str(fact.value)) not in FORBIDS or _earlier(fact, boots[-1])]
    if len(kept) == len(settings):
        return None
    before: list[Record] = []
    after: list[Record] = []
    for record in records:
        early, late = _cut(record, boots[-1], clock)
        before += early
        after += late
    return Past(before, after, kept) if before else None


def _cut(record: Record, boot: Moment, clock: HostClock) -> tuple[list[Record], list[Record]]:
    """A record before the boot and since; what may be of both is since."""
    if isinstance(record, Series) and record.seconds is not None and record.clock is boot.clock:
        early = record.seconds < boot.seconds - boot.within - record.within
        if early.any() and not early.all():
            return [record.only(early)], [record.only(~early)]
    ended = clock.ended(record)
    if ended is None or ended.clock is not boot.clock or _since(ended, boot):
        return [], [record]
    return [record], []


def _earlier(fact: Fact, boot: Moment) -> bool:
    """Whether it was read before the boot."""
    return fact.time is not None and fact.time.clock is boot.clock and not _since(fact.time, boot)


def _since(ended: Moment, boot: Moment) -> bool:
    return ended.seconds + ended.within >= boot.seconds - boot.within
