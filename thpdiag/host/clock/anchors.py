"""Clock anchors: the wall clock's time of the boot, which joins perf and kernel messages to the other sources.

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
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from statistics import median

from thpdiag.host.clock.timezone import MAX_UTC_OFFSET, QUARTER
from thpdiag.host.series import series_rows_having
from thpdiag.knowledge.paths import root_of
from thpdiag.model import Citation, Clock, Event, Fact, Moment, Problem, ProblemKind, Profile, Record, Sample, Series
from thpdiag.model.facts import DAY, ClockAnchor
from thpdiag.model.numeric import np
from thpdiag.model.text import path_name, sentence

STEADY_CLOCKS = ("monotonic", "boottime", "tai")  # clocks of `perf record -k` that are kept in step with the wall clock
MAX_DISAGREEMENT_SECONDS = 60.0  # seconds between two anchors that do not agree
BY_BTIME = "by btime"
MINUTE = 60.0  # seconds: `uptime` and top count in minutes
MAX_DATE_DELAY_SECONDS = 5.0  # seconds between a date and what was printed below it
_REFERENCE = re.compile(r".* = (\d{9,11}\.\d{1,9}) \(TOD\) = (\d{1,12}\.\d{1,9}) \(")


def boot_times(records: Iterable[Record]) -> tuple[list[ClockAnchor], list[Problem]]:
    """When the host was booted, an anchor for each way to know it, the most exact first; and what contradicts.

    An anchor counts if no more of the others contradict it than agree with it.
    """
    all_records = list(records)
    anchors = [*_anchors_by_btime(all_records), *_anchors_by_uptime(all_records), *_anchors_by_messages(all_records)]
    anchors += _anchors_by_syslog(all_records, anchors)
    apart = [pair for pair in combinations(anchors, 2) if not anchors_agree(*pair) and not _are_successive_boots(*pair)]
    problems = [_contradiction(one, other) for one, other in apart]
    supported = [anchor for anchor in anchors if 2 * sum(anchor in pair for pair in apart) <= max(len(anchors) - 1, 0)]
    for profile in (r for r in all_records if isinstance(r, Profile)):
        problems += _against_recording(profile, anchors_of_boot(supported, profile.cite))
    return sorted(supported, key=lambda anchor: anchor.within), problems


def boot_facts(anchors: Iterable[ClockAnchor]) -> list[Fact]:
    """The same as facts, for rules and for people."""
    facts = []
    for anchor in anchors:
        labels = (("clock", anchor.zero.clock.value), ("within", f"{anchor.within:g}"), ("how", anchor.how))
        facts.append(Fact("boot.time", anchor.zero.seconds, anchor.cite, labels, anchor.read))
    return facts


def anchors_of_profile(profile: Profile, known: Sequence[ClockAnchor]) -> list[ClockAnchor]:
    """The anchors for a recording, the most exact first: its own, else those of the host that fit its file's time."""
    if own := recorded_anchor(profile):
        return [own]
    return [
        anchor
        for anchor in _without_drift(profile, anchors_of_boot(known, profile.cite))
        if not _ends_after_file_time(anchor, profile)
    ]


def anchors_of_boot(anchors: Sequence[ClockAnchor], cite: Citation) -> Sequence[ClockAnchor]:
    """The anchors for what a member says, if it is known of which boot it speaks: of several that of its bundle."""
    root = root_of(cite.member)
    for candidates in (anchors, [anchor for anchor in anchors if root and root_of(anchor.cite.member) == root]):
        if all(anchors_agree(one, other) for one, other in combinations(candidates, 2)):
            return candidates
    return ()


def reboots(known: Iterable[ClockAnchor]) -> list[Moment]:
    """The boots of the host on the wall clock, of several anchors of one boot the most exact, in time."""
    boots: list[ClockAnchor] = []
    for anchor in (j for clock in (Clock.UTC, Clock.LOCAL) for j in known if j.zero.clock is clock):
        if not any(anchors_agree(anchor, other) for other in boots):
            boots.append(anchor)
    return sorted(replace(anchor.zero, within=anchor.within) for anchor in boots)


def exclude_one_machine(some: Sequence[ClockAnchor], others: Sequence[ClockAnchor]) -> bool:
    """Whether what was told of boots in two places cannot be of one machine: nowhere the same boot, and none of the
    boots that both tell of was over when the next one began.
    """
    pairs = [(one, other) for one in some for other in others if one.zero.clock is other.zero.clock is not Clock.DAY]
    if not pairs or any(anchors_agree(*pair) or _are_successive_boots(*pair) for pair in pairs):
        return False
    return all(min(pair, key=lambda anchor: anchor.zero.seconds).read is not None for pair in pairs)


def same_boot(some: Sequence[ClockAnchor], others: Sequence[ClockAnchor]) -> bool:
    """Whether two places tell of one boot, as far as its time goes."""
    return any(anchors_agree(one, other) for one in some for other in others)


def _without_drift(profile: Profile, known: Iterable[ClockAnchor]) -> list[ClockAnchor]:
    steady = profile.facts.get("clock") in STEADY_CLOCKS
    return [replace(anchor, drift=0.0) if steady else anchor for anchor in known]


def recorded_anchor(profile: Profile) -> ClockAnchor | None:
    """The anchor that the recording brings along (CLOCK_DATA; `reference time` in perf's texts)."""
    facts = profile.facts
    if "clock_data_wall_ns" in facts and "clock_data_clock_ns" in facts:
        wall, clock = (int(facts[f"clock_data_{name}_ns"]) for name in ("wall", "clock"))
        zero = (wall - clock) / 1e9
    elif found := _REFERENCE.match(facts.get("reference_time", "")):
        zero = float(found[1]) - float(found[2])
    else:
        return None
    return ClockAnchor(Moment(zero, Clock.UTC), 0.001, "by its own clock data", profile.cite, drift=0.0)


def file_time(profile: Profile) -> Moment | None:
    """The time of the file as perf printed it, in the zone of whoever did: the recording ended before it."""
    try:
        written = datetime.strptime(profile.facts.get("captured_on", ""), "%a %b %d %H:%M:%S %Y")
    except ValueError:
        return None
    return Moment(written.replace(tzinfo=UTC).timestamp(), Clock.LOCAL)


def _anchors_by_btime(records: Iterable[Record]) -> list[ClockAnchor]:
    """The boot in whole seconds; of columns that say the same row after row the first and the last."""
    name, anchors = "node_boot_time_seconds", []
    for record in records:
        if not isinstance(record, Sample | Series) or name not in record.values:
            continue
        rows = series_rows_having(record, name) if isinstance(record, Series) else (record,)
        if isinstance(rows, Series) and len(rows) > 2:
            differs = np.diff(rows.values[name]) != 0
            rows = rows.only(np.concatenate(([True], differs)) | np.concatenate((differs, [True])))
        anchors += [
            ClockAnchor(Moment(s.values[name], Clock.UTC), 1.0, BY_BTIME, s.cite, read=_wall_time(s.time)) for s in rows
        ]
    return _distinct_anchors(anchors)


def _wall_time(moment: Moment | None) -> Moment | None:
    return None if moment is None or moment.clock is Clock.SESSION else moment


def _anchors_by_uptime(records: Iterable[Record]) -> list[ClockAnchor]:
    """A time of day that has no date (`uptime`, top) gives a boot without one."""
    anchors = []
    for fact in (r for r in records if isinstance(r, Fact) and r.name == "uptime.seconds" and not r.provenance):
        if fact.time is None or fact.time.clock is Clock.BOOT:
            continue
        up = float(fact.value)
        within = (MINUTE if up % MINUTE == 0 else MAX_DATE_DELAY_SECONDS) + fact.time.within
        zero, how = Moment(fact.time.seconds - up, fact.time.clock), "by an uptime with a time of day"
        anchors.append(ClockAnchor(zero, within, how, fact.cite, read=fact.time))
    return _distinct_anchors(anchors)


def _anchors_by_syslog(records: Iterable[Record], others: Sequence[ClockAnchor]) -> list[ClockAnchor]:
    """Syslogs with seconds since boot, of the boot that the others tell of."""
    how = "by lines of the kernel log with both times"
    told = [fact for fact in records if isinstance(fact, Fact) and fact.name == "log.boot_time"]
    zeros = [Moment(float(fact.value), Clock(fact.label("clock") or "")) for fact in told]
    anchors = _distinct_anchors(
        [
            ClockAnchor(zero, float(fact.label("within") or 0), how, fact.cite, read=fact.time)
            for zero, fact in zip(zeros, told, strict=True)
        ]
    )
    if others or not anchors:
        return [anchor for anchor in anchors if any(anchors_agree(anchor, other) for other in others)]
    latest = max(anchors, key=lambda anchor: anchor.read.seconds if anchor.read else 0.0)
    undated = any(anchor.zero.clock is Clock.DAY for anchor in anchors)
    fits = [anchor for anchor in anchors if anchors_agree(anchor, latest)]
    return [] if undated and len(fits) < len(anchors) else fits


def _anchors_by_messages(records: Iterable[Record]) -> list[ClockAnchor]:
    """Messages that stand in one log with seconds since boot and in another with a date.

    Of two logs the middle one; none if they lie so far apart that they cannot be the same messages.
    """
    places: dict[tuple[object, ...], dict[str, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for event in (r for r in records if isinstance(r, Event) and r.time is not None):
        same = (event.kind, tuple(sorted(event.fields.items())), event.stack)
        places[same][event.cite.member].append(event)
    pairs_of_logs: dict[tuple[str, str, Clock], list[ClockAnchor]] = defaultdict(list)
    for logs in places.values():
        for one, other in combinations(logs.values(), 2):
            for anchor in _pair_messages(one, other):
                first_member = min(one[0].cite.member, other[0].cite.member)
                pairs_of_logs[first_member, anchor.cite.member, anchor.zero.clock].append(anchor)
    anchors = []
    for pairs in pairs_of_logs.values():
        middle = median(anchor.zero.seconds for anchor in pairs)
        spread = max(abs(anchor.zero.seconds - middle) for anchor in pairs)
        if spread <= MAX_DISAGREEMENT_SECONDS:
            zero = Moment(middle, pairs[0].zero.clock)
            anchors.append(replace(pairs[0], zero=zero, within=pairs[0].within + spread))
    return anchors


def _pair_messages(one: Sequence[Event], other: Sequence[Event]) -> Iterator[ClockAnchor]:
    """The same messages in two logs, in order; nothing if one log has more of them, for then nobody knows which."""
    for first, second in zip(one, other, strict=True) if len(one) == len(other) else ():
        boot, wall = (first, second) if first.time and first.time.clock is Clock.BOOT else (second, first)
        if not boot.time or not wall.time or boot.time.clock is not Clock.BOOT:
            continue
        if wall.time.clock in (Clock.UTC, Clock.LOCAL):
            how = sentence(f"by the messages that are also in {path_name(boot.cite.member)}")
            zero = Moment(wall.time.seconds - boot.time.seconds, wall.time.clock)
            yield ClockAnchor(zero, 1.0 + wall.time.within, how, wall.cite, read=wall.time)


def _distinct_anchors(anchors: Sequence[ClockAnchor]) -> list[ClockAnchor]:
    """The first of those that say the same, read when the last of them was."""
    kept: list[ClockAnchor] = []
    for anchor in anchors:
        same = (n for n, one in enumerate(kept) if anchor.zero.clock is one.zero.clock and anchors_agree(anchor, one))
        if (number := next(same, None)) is None:
            kept.append(anchor)
        else:
            before, read = kept[number].read, anchor.read
            last = max(before, read) if before and read and before.clock is read.clock else None
            kept[number] = replace(kept[number], read=last)
    return kept


def anchors_agree(one: ClockAnchor, other: ClockAnchor) -> bool:
    """Whether two anchors can both be right, as far as their clocks can be compared."""
    apart = one.zero.seconds - other.zero.seconds
    clocks = {one.zero.clock, other.zero.clock}
    if Clock.DAY in clocks:
        apart = (apart + DAY / 2) % DAY - DAY / 2
    if len(clocks) > 1 and abs(apart) <= MAX_UTC_OFFSET + MAX_DISAGREEMENT_SECONDS:
        apart -= round(apart / QUARTER) * QUARTER
    return abs(apart) <= MAX_DISAGREEMENT_SECONDS + one.within + other.within


def _are_successive_boots(one: ClockAnchor, other: ClockAnchor) -> bool:
    """Whether they are two boots, one after the other: the first was last read before the second began."""
    first, second = sorted((one, other), key=lambda anchor: anchor.zero.seconds)
    if first.read is None or {first.zero.clock, second.zero.clock, first.read.clock} != {second.zero.clock}:
        return False
    return first.read.seconds - first.read.within <= second.zero.seconds + second.within


def _contradiction(one: ClockAnchor, other: ClockAnchor) -> Problem:
    apart = abs(one.zero.seconds - other.zero.seconds)
    text = (
        f"two times of the boot, {apart:.0f} s apart: {one.how} here, {other.how} in {path_name(other.cite.member)}; "
        "times since boot are joined to the wall clock by neither, unless a third agrees"
    )
    return Problem(one.cite, text, ProblemKind.DISAGREEMENT)


def _against_recording(profile: Profile, good: Sequence[ClockAnchor]) -> Iterator[Problem]:
    """What the recording's own clock data, or the time of its file, says against the boot of the host."""
    own = recorded_anchor(profile)
    for anchor in _without_drift(profile, good):
        member = path_name(anchor.cite.member)
        if own is None and _ends_after_file_time(anchor, profile):
            text = f"its file was written before the time of its end in {member} ({anchor.how})"
        elif own and profile.end and not anchors_agree(own, replace(anchor, within=anchor.uncertainty(profile.end))):
            text = f"its clock data are of another boot than {member} ({anchor.how})"
        else:
            continue
        yield Problem(profile.cite, f"{text}; that boot is not taken for the recording's", ProblemKind.DISAGREEMENT)


def _ends_after_file_time(anchor: ClockAnchor, profile: Profile) -> bool:
    """Whether the recording ended later than its file was written, in whatever zone that was."""
    written, end = file_time(profile), profile.end
    if written is None or end is None or end.clock is not Clock.BOOT or anchor.zero.clock is Clock.DAY:
        return False
    latest = written.seconds + MAX_UTC_OFFSET + MAX_DISAGREEMENT_SECONDS
    return anchor.wall_time(end).seconds - anchor.uncertainty(end) > latest
