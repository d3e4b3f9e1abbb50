"""Captures of one host: order, growth of counters between two of them, what the collector says of itself, repeats.

- Snapshots of a capture have no time of their own. What is asked for the latest value gets that of the latest capture;
  growth of counters from one capture to the next, under one boot, is a note without influence: an average over hours
  says nothing about the seconds that hurt.
- "sos gave up" is not "this host has none": the output of a command that was stopped says nothing by what it lacks.
- One kernel message in several logs (dmesg, syslog, journal) is one: the same report with the same stack at the same
  time. Where the times cannot be compared (seconds since boot, a day without a year) only stacks of single tasks are
  taken for the same, as many as the other log has: two reports of a hung task may be of two days.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from thpdiag.detect import TaggedRecord
from thpdiag.host.clock.anchors import anchors_of_boot, boot_times
from thpdiag.knowledge.claims import answer, impossible_release
from thpdiag.knowledge.paths import SOS, SUPPORTCONFIG, is_tail, of_interest, output_name, root_of, system_path
from thpdiag.model import Citation, Clock, Event, Fact, InputRecord, Moment, Note, Problem, ProblemKind, Record, Sample
from thpdiag.model.case import member_of
from thpdiag.model.text import path_name, quoted

AnyRecord = TypeVar("AnyRecord", bound=Record)
COUNTERS = (
    "node_vmstat_thp_fault_alloc", "node_vmstat_thp_fault_fallback", "node_vmstat_thp_collapse_alloc",
    "node_vmstat_compact_stall", "node_vmstat_compact_fail",
)  # fmt: skip
BOOT = "node_boot_time_seconds"
MIN_SECONDS_BETWEEN = 60.0  # seconds between two captures: those of one moment show no growth


def order_by_capture(records: Sequence[AnyRecord]) -> Sequence[AnyRecord]:
    """The same records, those of later captures before those of earlier ones, as far as it is known when they were."""
    times = capture_times(records)
    if len(times) < 2:
        return records
    rank = {root: number for number, root in enumerate(sorted(times, key=lambda r: -times[r].seconds))}
    return sorted(records, key=lambda record: rank.get(root_of(record.cite.member), len(rank)))


def capture_times(records: Iterable[Record]) -> Mapping[str, Moment]:
    """When each capture was made, by its root; of those on the clock of most of them.

    One that does not say so was made when its host had been up for so long, if it tells both.
    """
    found: dict[Clock, dict[str, Moment]] = {}
    boots: dict[str, float] = {}
    ups: dict[str, float] = {}
    for record in records:
        if isinstance(record, Sample) and BOOT in record.values and (root := root_of(record.cite.member)):
            boots[root] = record.values[BOOT]
        elif not isinstance(record, Fact) or not (root := root_of(record.cite.member)):
            continue
        elif record.name == "uptime.seconds" and not record.provenance:
            ups[root] = max(ups.get(root, 0.0), float(record.value))
        elif record.name == "capture.time" and record.time:
            of_clock = found.setdefault(record.time.clock, {})
            of_clock[root] = max(of_clock.get(root, record.time), record.time)
    known = {root for times in found.values() for root in times}
    for root in (boots.keys() & ups.keys()) - known:
        found.setdefault(Clock.UTC, {})[root] = Moment(boots[root] + ups[root], Clock.UTC)
    return max(found.values(), key=len, default={})


def growth_notes(records: Sequence[Record]) -> Iterator[Note]:
    """What counters did from one capture to the next, where nothing was booted in between.

    Of a counter that fell nothing is told, for it began anew; nor of captures with several snapshots, which are a
    recording.
    """
    times = capture_times(records)
    if len(times) < 2:
        return
    snapshots: dict[str, list[Sample]] = defaultdict(list)
    for record in records:
        if isinstance(record, Sample) and record.reader == "proc_vmstat" and record.kind == "system":
            snapshots[root_of(record.cite.member)].append(record)
    ordered = sorted((root for root in times if len(snapshots[root]) == 1), key=lambda root: times[root].seconds)
    for one, other in pairwise(ordered):
        seconds = times[other].seconds - times[one].seconds
        (before,), (after,) = snapshots[one], snapshots[other]
        grown = {n: after.values[n] - before.values[n] for n in COUNTERS if n in before.values and n in after.values}
        if not grown or min(grown.values()) < 0 or seconds < MIN_SECONDS_BETWEEN:
            continue
        if _is_one_boot(records, one, other, times[one]):
            told = ", ".join(f"{name.removeprefix('node_vmstat_')} +{by:.0f}" for name, by in grown.items())
            span = f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.0f} minutes"
            text = (
                f"in the {span} since the capture before, under the same boot: {told}; averages over "
                "such a time are no evidence about single seconds and are not used"
            )
            yield Note(text, after.cite)


def _is_one_boot(records: Sequence[Record], one: str, other: str, made_first: Moment) -> bool:
    """Whether both captures tell of the same boot, which was before the first of them."""
    each = [boot_times([r for r in records if root_of(r.cite.member) == root])[0] for root in (one, other)]
    every = [anchor for known in each for anchor in known]
    if not all(each) or not anchors_of_boot(every, Citation("")):
        return False
    return all(j.zero.clock is made_first.clock and j.zero.seconds + j.within < made_first.seconds for j in every)


def drop_link_copies(
    readings: Mapping[str, Sequence[TaggedRecord]], inputs: Iterable[InputRecord]
) -> dict[str, Sequence[TaggedRecord]]:
    """The readings without those of links that somebody's unpacker made files of.

    sos has `free -> sos_commands/memory/free` beside the tree, and `var/log/messages -> sos_strings/...`.
    """
    same: dict[tuple[str, str], set[str]] = defaultdict(set)
    for item in inputs:
        if item.reader and item.sha256 and (root := root_of(item.member)):
            same[root, item.sha256].add(item.member)
    copies: set[str] = set()
    for members in (members for members in same.values() if len(members) > 1):
        # What has no place on the host beside what has, and the log beside its tail, which says by its name that it is.
        paths = {member: system_path(member) for member in members}
        tails = {path for member, path in paths.items() if is_tail(member)}
        placed = any(path is not None for path in paths.values())
        copies |= {m for m, path in paths.items() if (path is None and placed) or (path in tails and not is_tail(m))}
    return {member: () if member in copies else found for member, found in readings.items()}


def collector_failures(readings: Mapping[str, Sequence[TaggedRecord]]) -> list[Problem]:
    """What each collector gave up on, once, if it could have told something of memory."""
    gave_up = [
        r.record
        for found in readings.values()
        for r in found
        if isinstance(r.record, Fact) and r.record.name == "capture.timed_out"
    ]
    if not gave_up:
        return []
    outputs = {(root_of(m), path.rpartition("/")[2]): m for m in readings if (path := system_path(m) or "")}
    problems: dict[tuple[str, str, str], Problem] = {}
    for fact in gave_up:
        root, plugin, command = root_of(fact.cite.member), fact.label("plugin") or "", fact.label("command") or ""
        tool = fact.label("tool") or SOS
        if not of_interest(plugin, command, tool):
            continue
        after = f" after {seconds} s" if (seconds := fact.label("seconds")) else ""
        output = outputs.get((root, output_name(command))) if command else None
        text = f"{tool} stopped `{quoted(command)}`{after}; its output is {'incomplete' if output else 'missing'}"
        if not command:
            text = f"{tool} stopped waiting for its plugin {quoted(plugin)}{after}; the rest of its output is missing"
        cite = Citation(output) if output else fact.cite
        problem = Problem(cite, text, ProblemKind.UNREADABLE, hides=output is not None)
        problems.setdefault((root, plugin, command), problem)
    return list(problems.values())


def collector_notes(records: Iterable[Record]) -> list[Note]:
    """What a reader of the report must know of the capture of one host."""
    notes: dict[str, Note] = {}
    records = list(records)
    for record in records:
        member = member_of(record)
        if is_tail(member):
            text = f"only the end of {path_name(system_path(member))} is in the capture; earlier events are unknown"
            notes.setdefault(member, Note(text, Citation(member)))
        if isinstance(record, Fact) and record.name == "capture.tail":
            path = path_name(str(record.value))
            text = f"only the end of {path} is in the capture; earlier events are unknown"
            notes.setdefault(path, Note(text, record.cite))
        if isinstance(record, Fact) and record.name == "host.container":
            text = (
                f"the capture was made inside a container ({quoted(record.value)}): settings and counters are those "
                "of its host, sizes and processes its own"
            )
            notes.setdefault("container", Note(text, record.cite))
    return [*_doubts(records), *notes.values(), *_excluded_parts(records)]


def _doubts(records: Iterable[Record]) -> Iterator[Note]:
    """What the input says that is known to be wrong: a claim that people repeat, a release that was never made."""
    doubted = set[str]()
    for fact in (r for r in records if isinstance(r, Fact) and r.name in ("claim.repeated", "os.name")):
        is_claim, text = fact.name == "claim.repeated", str(fact.value)
        reason = answer(text) if is_claim else impossible_release(text)
        if reason and text not in doubted:
            doubted.add(text)
            what = "the text repeats a wrong statement" if is_claim else f"there is no release {quoted(text)}"
            rest = "" if is_claim else ", so the release of this host is not known; commands may need changes"
            yield Note(f"{what}: {reason}{rest}", fact.cite)


def _excluded_parts(records: Iterable[Record]) -> Iterator[Note]:
    """The parts of supportconfig that would have told something and were switched off."""
    facts = [
        r for r in records if isinstance(r, Fact) and r.name == "capture.left_out" and r.label("how") == "excluded"
    ]
    facts = [fact for fact in facts if of_interest(str(fact.value), tool=SUPPORTCONFIG)]
    if facts:
        parts = ", ".join(dict.fromkeys(quoted(str(fact.value).replace("_", " ")) for fact in facts))
        text = f"{SUPPORTCONFIG} was configured to leave out these parts: {parts}; their content is unknown"
        yield Note(text, facts[0].cite)


SAME_MESSAGE_SECONDS = 2.0  # seconds: stamps of the syslog are whole seconds, and it writes a little later
LOG_MESSAGE_KINDS = frozenset(
    {
        "hung_task", "soft_lockup", "hard_lockup", "rcu_stall", "allocation_failure", "allocation_stall", "oom_kill",
        "oops", "workqueue_lockup", "min_free_raised", "kernel_trace", "task_stack",
    }
)  # fmt: skip
LOGGED = frozenset({"log", "sysrq"})  # stacks of tasks that the kernel's log tells
LOG_DEPENDENT_FIELDS = frozenset({"host", "how", "unreliable"})  # fields that depend on the log


def drop_repeated_messages(records: Iterable[Record]) -> Iterator[Record]:
    """The records without those messages that stand in an earlier member too."""
    known: dict[tuple[object, ...], dict[str, list[Event]]] = defaultdict(dict)  # like it, by member
    passed: Counter[tuple[object, ...]] = Counter()
    for record in records:
        # Stacks that somebody read from /proc are samples, each a new one.
        sampled = isinstance(record, Event) and record.kind == "task_stack" and record.fields.get("how") not in LOGGED
        if isinstance(record, Event) and record.kind in LOG_MESSAGE_KINDS and not sampled:
            fields = sorted((k, v) for k, v in record.fields.items() if k not in LOG_DEPENDENT_FIELDS)
            key = (record.kind, record.stack, *fields)
            number = passed[key, record.cite.member]
            passed[key, record.cite.member] += 1
            if _is_repeated(record, number, known[key]):
                continue
            known[key].setdefault(record.cite.member, []).append(record)
        yield record


def _is_repeated(event: Event, number: int, known: Mapping[str, Sequence[Event]]) -> bool:
    """Whether another member has it; `number` of its like stand before it in its own."""
    for member, events in known.items():
        if member == event.cite.member:
            continue
        for other in events:
            apart = event.time.minus(other.time) if event.time and other.time else None
            if apart is not None and event.time and other.time:
                if abs(apart) - event.time.within - other.time.within <= SAME_MESSAGE_SECONDS:
                    return True
            elif event.kind == "task_stack" and number < len(events):
                return True
    return False
