"""Which time of day it was on the clock of the boot: what joins recordings and kernel messages to the other sources.

perf and dmesg count seconds since boot; collectl, sar and people go by the wall clock. Five things join them, each with
an uncertainty, and none is believed that another contradicts:

- clock data of the recording itself (`perf record -k`): both clocks read at once. Holds for that recording.
- `btime` of /proc/stat: the wall clock's time of the boot in whole seconds, moved when the wall clock is set.
- an uptime with a date: the boot was so long before.
- `dmesg -T` beside `dmesg`: the same message on both clocks.
- a syslog whose lines also have seconds since boot. Rotated ones tell of earlier boots: what fits no other join is
  left out, without another the latest counts.

The last four are of the boot under which they were read. The scheduler's clock, by which perf and the kernel's log
count, is set right by nobody: it drifts, and stands still while the machine is suspended. perf's `captured on` is a
hint only: the time of the file, which was written at the end of the recording, if it was not copied.
Sources: kernel fs/proc/stat.c, kernel/sched/clock.c, kernel/printk; util-linux sys-utils/dmesg.c; perf util/header.c.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import combinations
from statistics import median

from thpdiag.derive.series import having, rows_with
from thpdiag.knowledge.paths import root_of
from thpdiag.model import Citation, Clock, Event, Fact, Moment, Problem, ProblemKind, Profile, Record, Sample, Series

DRIFT = 1e-4  # of the time since boot: a crystal is good to 50 parts in a million, its calibration adds as much
STEADY = ("monotonic", "boottime", "tai")  # clocks of `perf record -k` that are kept in step with the wall clock
APART = 60.0  # seconds between two joins that do not agree
ZONES = 900.0  # seconds: time zones differ by quarters of an hour
FARTHEST = 14 * 3600.0  # seconds from UTC to a zone
DAY = 86_400.0
MINUTE = 60.0  # seconds: `uptime` and top count in minutes
DATED = 5.0  # seconds between a date and what was printed below it
_REFERENCE = re.compile(r".* = (\d{9,11}\.\d{1,9}) \(TOD\) = (\d{1,12}\.\d{1,9}) \(")


@dataclass(frozen=True, slots=True)
class Join:
    """The wall clock's time at second 0 of the boot's clock, right to `within` seconds and `drift` per second since.

    `read` is when it was read, if that is known: the boot lasted until then.
    """

    zero: Moment
    within: float
    how: str
    cite: Citation
    drift: float = DRIFT
    read: Moment | None = None

    def wall(self, boot: Moment) -> Moment:
        """The time of day of a moment on the boot's clock; of a clock without date that of its first day."""
        at = self.zero.seconds + boot.seconds
        return Moment(at % DAY if self.zero.clock is Clock.DAY else at, self.zero.clock)

    def off(self, boot: Moment) -> float:
        """By how many seconds `wall` may be wrong, either way."""
        return self.within + self.drift * abs(boot.seconds)


def boot_times(records: Iterable[Record]) -> tuple[list[Fact], list[Problem]]:
    """When the host was booted, one fact for each way to know it, the most exact first; and what contradicts."""
    known = list(records)
    found = [*_by_btime(known), *_by_uptime(known), *_by_messages(known)]
    found += _by_stamps(known, found)
    apart = [pair for pair in combinations(found, 2) if not _agree(*pair) and not _in_turn(*pair)]
    problems = [_contradiction(one, other) for one, other in apart]
    good = [join for join in found if _supported(join, found, apart)]
    for profile in (r for r in known if isinstance(r, Profile)):
        problems += _against_recording(profile, of_one_boot(good, profile.cite))
    return [_fact(join) for join in sorted(good, key=lambda j: j.within)], problems


def joins(facts: Iterable[Record], name: str = "boot.time") -> list[Join]:
    """The joins that `boot_times` found, from its facts."""
    return [
        Join(
            Moment(float(fact.value), Clock(fact.label("clock") or "")),
            float(fact.label("within") or 0),
            fact.label("how") or "",
            fact.cite,
            read=fact.time,
        )
        for fact in facts
        if isinstance(fact, Fact) and fact.name == name
    ]


def joins_of(profile: Profile, known: Sequence[Join]) -> list[Join]:
    """The joins for a recording, the most exact first: its own, else those of the host that fit its file's time."""
    if own := own_join(profile):
        return [own]
    return [join for join in _of_clock(profile, of_one_boot(known, profile.cite)) if not _after(join, profile)]


def of_one_boot(known: Sequence[Join], cite: Citation) -> Sequence[Join]:
    """The joins for what a member says, if it is known of which boot it speaks: of several that of its bundle."""
    root = root_of(cite.member)
    for joins_ in (known, [join for join in known if root and root_of(join.cite.member) == root]):
        if all(_agree(one, other) for one, other in combinations(joins_, 2)):
            return joins_
    return ()


def reboots(known: Iterable[Join]) -> list[Moment]:
    """The boots of the host on the wall clock, of several joins of one boot the most exact, in time."""
    boots: list[Join] = []
    for join in (j for clock in (Clock.UTC, Clock.LOCAL) for j in known if j.zero.clock is clock):
        if not any(_agree(join, other) for other in boots):
            boots.append(join)
    return sorted(replace(join.zero, within=join.within) for join in boots)


def exclude(some: Sequence[Join], others: Sequence[Join]) -> bool:
    """Whether what was told of boots in two places cannot be of one machine: nowhere the same boot, and none of the
    boots that both tell of was over when the next one began.
    """
    pairs = [(one, other) for one in some for other in others if one.zero.clock is other.zero.clock is not Clock.DAY]
    if not pairs or any(_agree(*pair) or _in_turn(*pair) for pair in pairs):
        return False
    return all(min(pair, key=lambda join: join.zero.seconds).read is not None for pair in pairs)


def same_boot(some: Sequence[Join], others: Sequence[Join]) -> bool:
    """Whether two places tell of one boot, as far as its time goes."""
    return any(_agree(one, other) for one in some for other in others)


def _of_clock(profile: Profile, known: Iterable[Join]) -> list[Join]:
    steady = profile.facts.get("clock") in STEADY
    return [replace(join, drift=0.0) if steady else join for join in known]


def own_join(profile: Profile) -> Join | None:
    """The join that the recording brings along (CLOCK_DATA; `reference time` in perf's texts)."""
    facts = profile.facts
    if "clock_data_wall_ns" in facts and "clock_data_clock_ns" in facts:
        wall, clock = (int(facts[f"clock_data_{name}_ns"]) for name in ("wall", "clock"))
        zero = (wall - clock) / 1e9
    elif found := _REFERENCE.match(facts.get("reference_time", "")):
        zero = float(found[1]) - float(found[2])
    else:
        return None
    return Join(Moment(zero, Clock.UTC), 0.001, "by its own clock data", profile.cite, drift=0.0)


def captured(profile: Profile) -> Moment | None:
    """The time of the file as perf printed it, in the zone of whoever did: the recording ended before it."""
    try:
        told = datetime.strptime(profile.facts.get("captured_on", ""), "%a %b %d %H:%M:%S %Y")
    except ValueError:
        return None
    return Moment(told.replace(tzinfo=UTC).timestamp(), Clock.LOCAL)


def _by_btime(records: Iterable[Record]) -> list[Join]:
    name = "node_boot_time_seconds"
    rows = (_changes(r, name) if isinstance(r, Series) else r for r in records if isinstance(r, (Sample, Series)))
    samples = having(rows, name)
    told = [Join(Moment(s.values[name], Clock.UTC), 1.0, "by btime", s.cite, read=s.time) for s in samples]
    return _distinct(told)


def _changes(series: Series, metric: str) -> Series:
    """Of rows that say the same one after the other the first and the last."""
    rows = rows_with(series, metric)
    if len(rows) < 3:
        return rows
    import numpy as np

    differs = np.diff(rows.values[metric]) != 0
    return rows.only(np.concatenate(([True], differs)) | np.concatenate((differs, [True])))


def _by_uptime(records: Iterable[Record]) -> list[Join]:
    """A time of day that has no date (`uptime`, top) gives a boot without one."""
    told = []
    for fact in (r for r in records if isinstance(r, Fact) and r.name == "uptime.seconds" and not r.provenance):
        if fact.time is None or fact.time.clock is Clock.BOOT:
            continue
        up = float(fact.value)
        within = (MINUTE if up % MINUTE == 0 else DATED) + fact.time.within
        zero, how = Moment(fact.time.seconds - up, fact.time.clock), "by an uptime with a time of day"
        told.append(Join(zero, within, how, fact.cite, read=fact.time))
    return _distinct(told)


def _by_stamps(records: Iterable[Record], others: Sequence[Join]) -> list[Join]:
    """Syslogs with seconds since boot, of the boot that the others tell of."""
    how = "by lines of the kernel log with both times"
    told = _distinct([replace(join, how=how) for join in joins(records, "log.boot_time")])
    if others or not told:
        return [join for join in told if any(_agree(join, other) for other in others)]
    latest = max(told, key=lambda join: join.read.seconds if join.read else 0.0)
    undated = any(join.zero.clock is Clock.DAY for join in told)
    fits = [join for join in told if _agree(join, latest)]
    return [] if undated and len(fits) < len(told) else fits


def _by_messages(records: Iterable[Record]) -> list[Join]:
    """Messages that stand in one log with seconds since boot and in another with a date."""
    places: dict[tuple[object, ...], dict[str, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for event in (r for r in records if isinstance(r, Event) and r.time is not None):
        same = (event.kind, tuple(sorted(event.fields.items())), event.stack)
        places[same][event.cite.member].append(event)
    told: dict[tuple[str, str, Clock], list[Join]] = defaultdict(list)
    for logs in places.values():
        for one, other in combinations(logs.values(), 2):
            for join in _paired(one, other):
                told[min(one[0].cite.member, other[0].cite.member), join.cite.member, join.zero.clock].append(join)
    return [middle for pairs in told.values() if (middle := _middle(pairs))]


def _paired(one: Sequence[Event], other: Sequence[Event]) -> Iterator[Join]:
    """The same messages in two logs, in order; nothing if one log has more of them, for then nobody knows which."""
    if len(one) != len(other):
        return
    for first, second in zip(one, other, strict=True):
        boot, wall = (first, second) if _clock(first) is Clock.BOOT else (second, first)
        if boot.time and wall.time and _clock(boot) is Clock.BOOT and _clock(wall) in (Clock.UTC, Clock.LOCAL):
            how = f"by the messages that also stand in {boot.cite.member}"
            zero = Moment(wall.time.seconds - boot.time.seconds, wall.time.clock)
            yield Join(zero, 1.0 + wall.time.within, how, wall.cite, read=wall.time)


def _middle(pairs: Sequence[Join]) -> Join | None:
    """One join of many messages; none if they lie so far apart that they cannot be the same ones."""
    middle = median(join.zero.seconds for join in pairs)
    spread = max(abs(join.zero.seconds - middle) for join in pairs)
    if spread > APART:
        return None
    return replace(pairs[0], zero=Moment(middle, pairs[0].zero.clock), within=pairs[0].within + spread)


def _clock(event: Event) -> Clock | None:
    return event.time.clock if event.time else None


def _distinct(told: Sequence[Join]) -> list[Join]:
    """The first of those that say the same, read when the last of them was."""
    kept: list[Join] = []
    for join in told:
        same = (n for n, one in enumerate(kept) if join.zero.clock is one.zero.clock and _agree(join, one))
        if (known := next(same, None)) is None:
            kept.append(join)
        else:
            kept[known] = replace(kept[known], read=_later(kept[known].read, join.read))
    return kept


def _later(one: Moment | None, other: Moment | None) -> Moment | None:
    """The later reading; none if one of them is not known."""
    return max(one, other) if one and other and one.clock is other.clock else None


def _agree(one: Join, other: Join) -> bool:
    """Whether two joins can both be right, as far as their clocks can be compared."""
    apart = one.zero.seconds - other.zero.seconds
    clocks = {one.zero.clock, other.zero.clock}
    if Clock.DAY in clocks:
        apart = (apart + DAY / 2) % DAY - DAY / 2
    if len(clocks) > 1 and abs(apart) <= FARTHEST + APART:
        apart -= round(apart / ZONES) * ZONES
    return abs(apart) <= APART + one.within + other.within


def _in_turn(one: Join, other: Join) -> bool:
    """Whether they are two boots, one after the other: the first was last read before the second began."""
    first, second = sorted((one, other), key=lambda join: join.zero.seconds)
    if first.read is None or {first.zero.clock, second.zero.clock, first.read.clock} != {second.zero.clock}:
        return False
    return first.read.seconds - first.read.within <= second.zero.seconds + second.within


def _supported(join: Join, every: Sequence[Join], apart: Sequence[tuple[Join, Join]]) -> bool:
    """Whether no more joins contradict it than agree with it."""
    against = sum(join in pair for pair in apart)
    return against <= len(every) - 1 - against if against else True


def _contradiction(one: Join, other: Join) -> Problem:
    apart = abs(one.zero.seconds - other.zero.seconds)
    text = (
        f"two times of the boot, {apart:.0f} s apart: {one.how} here, {other.how} in {other.cite.member}; times since "
        "boot are joined to the wall clock by neither, unless a third agrees"
    )
    return Problem(one.cite, text, ProblemKind.DISAGREEMENT)


def _against_recording(profile: Profile, good: Sequence[Join]) -> Iterator[Problem]:
    """What the recording's own clock data, or the time of its file, says against the boot of the host."""
    own = own_join(profile)
    for join in _of_clock(profile, good):
        if own is None and _after(join, profile):
            text = f"its file was written before the time of its end that {join.cite.member} tells ({join.how})"
        elif own is not None and profile.end and not _agree(own, replace(join, within=join.off(profile.end))):
            text = f"its clock data tell of another boot than {join.cite.member} ({join.how})"
        else:
            continue
        yield Problem(profile.cite, f"{text}; that boot is not taken for the recording's", ProblemKind.DISAGREEMENT)


def _after(join: Join, profile: Profile) -> bool:
    """Whether the recording ended later than its file was written, in whatever zone that was."""
    written, end = captured(profile), profile.end
    if written is None or end is None or end.clock is not Clock.BOOT or join.zero.clock is Clock.DAY:
        return False
    return join.wall(end).seconds - join.off(end) > written.seconds + FARTHEST + APART


def _fact(join: Join) -> Fact:
    labels = (("clock", join.zero.clock.value), ("within", f"{join.within:g}"), ("how", join.how))
    return Fact("boot.time", join.zero.seconds, join.cite, labels, join.read)
