"""Clock anchors: the wall-clock time of a boot, which converts times since boot (perf, kernel messages) to wall time.

perf and dmesg count seconds since boot; collectl, sar and people use the wall clock. Five sources connect the two, each
with an uncertainty. An anchor that others contradict is not used.

- Clock data of the recording itself (`perf record -k`): both clocks read at once. Valid for that recording.
- `btime` of /proc/stat: the wall-clock time of the boot in whole seconds; it changes when the wall clock is set.
- An uptime with a date: the boot was that long before.
- `dmesg -T` and `dmesg`: the same message on both clocks.
- A syslog whose lines also have seconds since boot. Rotated logs describe earlier boots: those that agree with no other
  anchor are left out; without another anchor the latest one counts.

The last four belong to the boot in which they were read. The scheduler's clock, which perf and the kernel log use, is
never adjusted: it drifts, and it stops while the machine is suspended. perf's `captured on` is a hint only: the time of
the file, which was written at the end of the recording, unless it was copied. Sources: kernel fs/proc/stat.c,
kernel/sched/clock.c, kernel/printk; util-linux sys-utils/dmesg.c; perf util/header.c.
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

STEADY_CLOCKS = ("monotonic", "boottime", "tai")  # of `perf record -k`: adjusted together with the wall clock
MAX_DISAGREEMENT_SECONDS = 60.0  # between two anchors that agree
BY_BTIME = "by btime"
MINUTE = 60.0  # in seconds; `uptime` and top print whole minutes
MAX_DATE_DELAY_SECONDS = 5.0  # between a printed date and the output below it
_REFERENCE_TIME = re.compile(r".* = (\d{9,11}\.\d{1,9}) \(TOD\) = (\d{1,12}\.\d{1,9}) \(")


def boot_times(records: Iterable[Record]) -> tuple[list[ClockAnchor], list[Problem]]:
    """Return an anchor for each source of the boot time, most exact first, and the contradictions.

    An anchor is used if at least as many of the others agree with it as contradict it.
    """
    all_records = list(records)
    anchors = [*_anchors_by_btime(all_records), *_anchors_by_uptime(all_records), *_anchors_by_messages(all_records)]
    anchors += _anchors_by_syslog(all_records, anchors)
    pairs = [pair for pair in combinations(anchors, 2) if not anchors_agree(*pair)]
    contradictions = [pair for pair in pairs if not _are_successive_boots(*pair)]
    problems = [_contradiction(left, right) for left, right in contradictions]
    tolerated = max(len(anchors) - 1, 0)
    supported = [a for a in anchors if 2 * sum(a in pair for pair in contradictions) <= tolerated]
    for profile in (r for r in all_records if isinstance(r, Profile)):
        problems += _recording_contradictions(profile, anchors_of_boot(supported, profile.cite))
    return sorted(supported, key=lambda anchor: anchor.within), problems


def boot_facts(anchors: Iterable[ClockAnchor]) -> list[Fact]:
    """Return the anchors as facts, for rules and reports."""
    facts = []
    for anchor in anchors:
        labels = (("clock", anchor.zero.clock.value), ("within", f"{anchor.within:g}"), ("how", anchor.how))
        facts.append(Fact("boot.time", anchor.zero.seconds, anchor.cite, labels, anchor.read))
    return facts


def anchors_of_profile(profile: Profile, known: Sequence[ClockAnchor]) -> list[ClockAnchor]:
    """Return the anchors for a recording, most exact first: its own, else the host's that fit its file time."""
    if anchor := recorded_anchor(profile):
        return [anchor]
    anchors = _without_drift(profile, anchors_of_boot(known, profile.cite))
    return [anchor for anchor in anchors if not _ends_after_file_time(anchor, profile)]


def anchors_of_boot(anchors: Sequence[ClockAnchor], cite: Citation) -> Sequence[ClockAnchor]:
    """Return the anchors of a citation's boot: all, else those of its bundle; empty if these disagree."""
    root = root_of(cite.member)
    for candidates in (anchors, [anchor for anchor in anchors if root and root_of(anchor.cite.member) == root]):
        if all(anchors_agree(left, right) for left, right in combinations(candidates, 2)):
            return candidates
    return ()


def reboots(known: Iterable[ClockAnchor]) -> list[Moment]:
    """Return the boots of the host on the wall clock in order of time, each with its most exact anchor."""
    boots: list[ClockAnchor] = []
    for anchor in (j for clock in (Clock.UTC, Clock.LOCAL) for j in known if j.zero.clock is clock):
        if not any(anchors_agree(anchor, other) for other in boots):
            boots.append(anchor)
    return sorted(replace(anchor.zero, within=anchor.within) for anchor in boots)


def exclude_one_machine(left: Sequence[ClockAnchor], right: Sequence[ClockAnchor]) -> bool:
    """Whether the boots in two places cannot be of one machine: none is in both places, and none of the boots on a
    common clock was over when the next one began."""
    pairs = [(a, b) for a in left for b in right if a.zero.clock is b.zero.clock is not Clock.DAY]
    if not pairs or any(anchors_agree(*pair) or _are_successive_boots(*pair) for pair in pairs):
        return False
    return all(min(pair, key=lambda anchor: anchor.zero.seconds).read is not None for pair in pairs)


def same_boot(left: Sequence[ClockAnchor], right: Sequence[ClockAnchor]) -> bool:
    """Whether two places have an anchor of the same boot, according to its time."""
    return any(anchors_agree(a, b) for a in left for b in right)


def _without_drift(profile: Profile, known: Iterable[ClockAnchor]) -> list[ClockAnchor]:
    steady = profile.facts.get("clock") in STEADY_CLOCKS
    return [replace(anchor, drift=0.0) if steady else anchor for anchor in known]


def recorded_anchor(profile: Profile) -> ClockAnchor | None:
    """Return the anchor in the recording itself (CLOCK_DATA; `reference time` in perf's texts)."""
    facts = profile.facts
    if "clock_data_wall_ns" in facts and "clock_data_clock_ns" in facts:
        wall, clock = (int(facts[f"clock_data_{name}_ns"]) for name in ("wall", "clock"))
        zero = (wall - clock) / 1e9
    elif match := _REFERENCE_TIME.match(facts.get("reference_time", "")):
        zero = float(match[1]) - float(match[2])
    else:
        return None
    return ClockAnchor(Moment(zero, Clock.UTC), 0.001, "by its own clock data", profile.cite, drift=0.0)


def file_time(profile: Profile) -> Moment | None:
    """Return the time of the file as perf printed it, in the time zone of that perf: the recording ended before it."""
    try:
        written = datetime.strptime(profile.facts.get("captured_on", ""), "%a %b %d %H:%M:%S %Y")
    except ValueError:
        return None
    return Moment(written.replace(tzinfo=UTC).timestamp(), Clock.LOCAL)


def _anchors_by_btime(records: Iterable[Record]) -> list[ClockAnchor]:
    """Return the boot in whole seconds; of consecutive rows with the same value the first and the last."""
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
    """Return anchors from uptimes; a time of day without a date (`uptime`, top) gives a boot without one."""
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
    """Return anchors from syslogs with seconds since boot, of the boot that the other anchors state."""
    how = "by lines of the kernel log with both times"
    facts = [fact for fact in records if isinstance(fact, Fact) and fact.name == "log.boot_time"]
    anchors = []
    for fact in facts:
        zero = Moment(float(fact.value), Clock(fact.label("clock") or ""))
        anchors.append(ClockAnchor(zero, float(fact.label("within") or 0), how, fact.cite, read=fact.time))
    anchors = _distinct_anchors(anchors)
    if others or not anchors:
        return [anchor for anchor in anchors if any(anchors_agree(anchor, other) for other in others)]
    latest = max(anchors, key=lambda anchor: anchor.read.seconds if anchor.read else 0.0)
    undated = any(anchor.zero.clock is Clock.DAY for anchor in anchors)
    fits = [anchor for anchor in anchors if anchors_agree(anchor, latest)]
    return [] if undated and len(fits) < len(anchors) else fits


def _anchors_by_messages(records: Iterable[Record]) -> list[ClockAnchor]:
    """Return anchors from messages that are in one log with seconds since boot and in another with a date.

    Two logs give the median; they give none if the differences vary so much that these cannot be the same messages.
    """
    logs_by_message: dict[tuple[object, ...], dict[str, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for event in (r for r in records if isinstance(r, Event) and r.time is not None):
        message = (event.kind, tuple(sorted(event.fields.items())), event.stack)
        logs_by_message[message][event.cite.member].append(event)
    pairs_of_logs: dict[tuple[str, str, Clock], list[ClockAnchor]] = defaultdict(list)
    for logs in logs_by_message.values():
        for left, right in combinations(logs.values(), 2):
            for anchor in _pair_messages(left, right):
                first_member = min(left[0].cite.member, right[0].cite.member)
                pairs_of_logs[first_member, anchor.cite.member, anchor.zero.clock].append(anchor)
    anchors = []
    for pairs in pairs_of_logs.values():
        center = median(anchor.zero.seconds for anchor in pairs)
        spread = max(abs(anchor.zero.seconds - center) for anchor in pairs)
        if spread <= MAX_DISAGREEMENT_SECONDS:
            zero = Moment(center, pairs[0].zero.clock)
            anchors.append(replace(pairs[0], zero=zero, within=pairs[0].within + spread))
    return anchors


def _pair_messages(left: Sequence[Event], right: Sequence[Event]) -> Iterator[ClockAnchor]:
    """Yield an anchor per message in both logs, in order; none if one log has more of them."""
    for first, second in zip(left, right, strict=True) if len(left) == len(right) else ():
        boot, wall = (first, second) if first.time and first.time.clock is Clock.BOOT else (second, first)
        if not boot.time or not wall.time or boot.time.clock is not Clock.BOOT:
            continue
        if wall.time.clock in (Clock.UTC, Clock.LOCAL):
            how = sentence(f"by the messages that are also in {path_name(boot.cite.member)}")
            zero = Moment(wall.time.seconds - boot.time.seconds, wall.time.clock)
            yield ClockAnchor(zero, 1.0 + wall.time.within, how, wall.cite, read=wall.time)


def _distinct_anchors(anchors: Sequence[ClockAnchor]) -> list[ClockAnchor]:
    """Return the first of equal anchors each, with the time of the last reading."""
    kept: list[ClockAnchor] = []
    for anchor in anchors:
        same = (n for n, k in enumerate(kept) if anchor.zero.clock is k.zero.clock and anchors_agree(anchor, k))
        if (number := next(same, None)) is None:
            kept.append(anchor)
        else:
            earlier, read = kept[number].read, anchor.read
            last = max(earlier, read) if earlier and read and earlier.clock is read.clock else None
            kept[number] = replace(kept[number], read=last)
    return kept


def anchors_agree(left: ClockAnchor, right: ClockAnchor) -> bool:
    """Whether two anchors can both be right, as far as their clocks can be compared."""
    difference = left.zero.seconds - right.zero.seconds
    clocks = {left.zero.clock, right.zero.clock}
    if Clock.DAY in clocks:
        difference = (difference + DAY / 2) % DAY - DAY / 2
    if len(clocks) > 1 and abs(difference) <= MAX_UTC_OFFSET + MAX_DISAGREEMENT_SECONDS:
        difference -= round(difference / QUARTER) * QUARTER
    return abs(difference) <= MAX_DISAGREEMENT_SECONDS + left.within + right.within


def _are_successive_boots(left: ClockAnchor, right: ClockAnchor) -> bool:
    """Whether they are two boots, one after the other: the first was last read before the second began."""
    first, second = sorted((left, right), key=lambda anchor: anchor.zero.seconds)
    if first.read is None or {first.zero.clock, second.zero.clock, first.read.clock} != {second.zero.clock}:
        return False
    return first.read.seconds - first.read.within <= second.zero.seconds + second.within


def _contradiction(left: ClockAnchor, right: ClockAnchor) -> Problem:
    seconds = abs(left.zero.seconds - right.zero.seconds)
    member = path_name(right.cite.member)
    text = (
        f"two times of the boot, {seconds:.0f} s apart: {left.how} here, {right.how} in {member}; "
        "times since boot are joined to the wall clock by neither, unless a third agrees"
    )
    return Problem(left.cite, text, ProblemKind.DISAGREEMENT)


def _recording_contradictions(profile: Profile, anchors: Sequence[ClockAnchor]) -> Iterator[Problem]:
    """Yield contradictions of a recording's own clock data, or of its file's time, with the boot of the host."""
    own, end = recorded_anchor(profile), profile.end
    for anchor in _without_drift(profile, anchors):
        member = path_name(anchor.cite.member)
        if own is None and _ends_after_file_time(anchor, profile):
            text = f"its file was written before the time of its end in {member} ({anchor.how})"
        elif own and end and not anchors_agree(own, replace(anchor, within=anchor.uncertainty(end))):
            text = f"its clock data are of another boot than {member} ({anchor.how})"
        else:
            continue
        yield Problem(profile.cite, f"{text}; that boot is not taken for the recording's", ProblemKind.DISAGREEMENT)


def _ends_after_file_time(anchor: ClockAnchor, profile: Profile) -> bool:
    """Whether the recording ended after its file was written, whatever the zone of that time."""
    written, end = file_time(profile), profile.end
    if written is None or end is None or end.clock is not Clock.BOOT or anchor.zero.clock is Clock.DAY:
        return False
    latest = written.seconds + MAX_UTC_OFFSET + MAX_DISAGREEMENT_SECONDS
    return anchor.wall_time(end).seconds - anchor.uncertainty(end) > latest
