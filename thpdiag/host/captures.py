"""Captures of one host: their order, growth of counters between them, failures of the collector, repeated messages.

- Snapshots of a capture have no time of their own. The latest value of a metric is that of the latest capture. Growth
  of counters between two captures under one boot is a note without influence: an average over hours does not describe
  the seconds of a problem.
- Output of a command that the collector stopped is incomplete: what it lacks is no evidence.
- A kernel message in several logs (dmesg, syslog, journal) is one message if the report, the stack and the time are
  equal. If the times are not comparable (seconds since boot, a day without a year), only stacks of single tasks are
  merged, as many as the other log has: two reports of a hung task may be of two days.
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
BOOT_TIME = "node_boot_time_seconds"
MIN_CAPTURE_INTERVAL_SECONDS = 60.0  # captures that are closer show no growth


def order_by_capture(records: Sequence[AnyRecord]) -> Sequence[AnyRecord]:
    """Return the records with those of later captures first, as far as the times of the captures are known."""
    times = capture_times(records)
    if len(times) < 2:
        return records
    rank = {root: number for number, root in enumerate(sorted(times, key=lambda r: -times[r].seconds))}
    return sorted(records, key=lambda record: rank.get(root_of(record.cite.member), len(rank)))


def capture_times(records: Iterable[Record]) -> Mapping[str, Moment]:
    """Return when each capture was made, by its root, on the clock that most captures have.

    A capture without a time but with a boot time and an uptime was made at their sum.
    """
    by_clock: dict[Clock, dict[str, Moment]] = {}
    boots: dict[str, float] = {}
    ups: dict[str, float] = {}
    for record in records:
        if isinstance(record, Sample) and BOOT_TIME in record.values and (root := root_of(record.cite.member)):
            boots[root] = record.values[BOOT_TIME]
        elif not isinstance(record, Fact) or not (root := root_of(record.cite.member)):
            continue
        elif record.name == "uptime.seconds" and not record.provenance:
            ups[root] = max(ups.get(root, 0.0), float(record.value))
        elif record.name == "capture.time" and record.time:
            times = by_clock.setdefault(record.time.clock, {})
            times[root] = max(times.get(root, record.time), record.time)
    known = {root for roots in by_clock.values() for root in roots}
    for root in (boots.keys() & ups.keys()) - known:
        by_clock.setdefault(Clock.UTC, {})[root] = Moment(boots[root] + ups[root], Clock.UTC)
    return max(by_clock.values(), key=len, default={})


def growth_notes(records: Sequence[Record]) -> Iterator[Note]:
    """Yield the growth of counters between consecutive captures of one boot.

    Left out are counters that fell, because they were reset, and captures with several snapshots, which are a
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
    for earlier, later in pairwise(ordered):
        seconds = times[later].seconds - times[earlier].seconds
        (before,), (after,) = snapshots[earlier], snapshots[later]
        grown = {n: after.values[n] - before.values[n] for n in COUNTERS if n in before.values and n in after.values}
        if not grown or min(grown.values()) < 0 or seconds < MIN_CAPTURE_INTERVAL_SECONDS:
            continue
        if _is_one_boot(records, earlier, later, times[earlier]):
            growth = ", ".join(f"{name.removeprefix('node_vmstat_')} +{delta:.0f}" for name, delta in grown.items())
            span = f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.0f} minutes"
            text = (
                f"in the {span} since the capture before, under the same boot: {growth}; averages over "
                "such a time are no evidence about single seconds and are not used"
            )
            yield Note(text, after.cite)


def _is_one_boot(records: Sequence[Record], earlier: str, later: str, first_time: Moment) -> bool:
    """Whether both captures were made in the same boot, which was before the first of them."""
    anchors = [boot_times([r for r in records if root_of(r.cite.member) == root])[0] for root in (earlier, later)]
    all_anchors = [anchor for capture_anchors in anchors for anchor in capture_anchors]
    if not all(anchors) or not anchors_of_boot(all_anchors, Citation("")):
        return False
    return all(j.zero.clock is first_time.clock and j.zero.seconds + j.within < first_time.seconds for j in all_anchors)


def drop_link_copies(
    readings: Mapping[str, Sequence[TaggedRecord]], inputs: Iterable[InputRecord]
) -> dict[str, Sequence[TaggedRecord]]:
    """Return the readings without those of symbolic links that were unpacked as files.

    sos has `free -> sos_commands/memory/free` next to the tree, and `var/log/messages -> sos_strings/...`.
    """
    same: dict[tuple[str, str], set[str]] = defaultdict(set)
    for item in inputs:
        if item.reader and item.sha256 and (root := root_of(item.member)):
            same[root, item.sha256].add(item.member)
    copies: set[str] = set()
    for members in (members for members in same.values() if len(members) > 1):
        # A copy is a file without a path on the host that equals one with a path, or a log that equals its named tail.
        paths = {member: system_path(member) for member in members}
        tails = {path for member, path in paths.items() if is_tail(member)}
        has_path = any(path is not None for path in paths.values())
        copies |= {m for m, path in paths.items() if (path is None and has_path) or (path in tails and not is_tail(m))}
    return {member: () if member in copies else readings_of_member for member, readings_of_member in readings.items()}


def collector_failures(readings: Mapping[str, Sequence[TaggedRecord]]) -> list[Problem]:
    """Return a problem for each output that a collector did not finish and that may concern memory."""
    timeouts = [
        r.record
        for readings_of_member in readings.values()
        for r in readings_of_member
        if isinstance(r.record, Fact) and r.record.name == "capture.timed_out"
    ]
    if not timeouts:
        return []
    outputs = {(root_of(m), path.rpartition("/")[2]): m for m in readings if (path := system_path(m) or "")}
    problems: dict[tuple[str, str, str], Problem] = {}
    for fact in timeouts:
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
    """Return notes about the capture of one host, for the report."""
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
    return [*_wrong_statements(records), *notes.values(), *_excluded_parts(records)]


def _wrong_statements(records: Iterable[Record]) -> Iterator[Note]:
    """Yield notes about wrong statements in the input: a common myth, or a release that never existed."""
    known = set[str]()
    for fact in (r for r in records if isinstance(r, Fact) and r.name in ("claim.repeated", "os.name")):
        is_claim, text = fact.name == "claim.repeated", str(fact.value)
        reason = answer(text) if is_claim else impossible_release(text)
        if reason and text not in known:
            known.add(text)
            what = "the text repeats a wrong statement" if is_claim else f"there is no release {quoted(text)}"
            rest = "" if is_claim else ", so the release of this host is not known; commands may need changes"
            yield Note(f"{what}: {reason}{rest}", fact.cite)


def _excluded_parts(records: Iterable[Record]) -> Iterator[Note]:
    """Yield a note about relevant parts of supportconfig that were switched off."""
    facts = [
        r for r in records if isinstance(r, Fact) and r.name == "capture.left_out" and r.label("how") == "excluded"
    ]
    facts = [fact for fact in facts if of_interest(str(fact.value), tool=SUPPORTCONFIG)]
    if facts:
        parts = ", ".join(dict.fromkeys(quoted(str(fact.value).replace("_", " ")) for fact in facts))
        text = f"{SUPPORTCONFIG} was configured to leave out these parts: {parts}; their content is unknown"
        yield Note(text, facts[0].cite)


SAME_MESSAGE_SECONDS = 2.0  # syslog timestamps are whole seconds and slightly later
LOG_MESSAGE_KINDS = frozenset(
    {
        "hung_task", "soft_lockup", "hard_lockup", "rcu_stall", "allocation_failure", "allocation_stall", "oom_kill",
        "oops", "workqueue_lockup", "min_free_raised", "kernel_trace", "task_stack",
    }
)  # fmt: skip
LOGGED_STACK_SOURCES = frozenset({"log", "sysrq"})  # sources of task stacks that are printed to the kernel log
LOG_DEPENDENT_FIELDS = frozenset({"host", "how", "unreliable"})


def drop_repeated_messages(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records without messages that are also in an earlier member."""
    known: dict[tuple[object, ...], dict[str, list[Event]]] = defaultdict(dict)  # equal messages by member
    counts: Counter[tuple[object, ...]] = Counter()
    for record in records:
        if isinstance(record, Event) and record.kind in LOG_MESSAGE_KINDS and _is_logged(record):
            fields = sorted((k, v) for k, v in record.fields.items() if k not in LOG_DEPENDENT_FIELDS)
            key = (record.kind, record.stack, *fields)
            number = counts[key, record.cite.member]
            counts[key, record.cite.member] += 1
            if _is_repeated(record, number, known[key]):
                continue
            known[key].setdefault(record.cite.member, []).append(record)
        yield record


def _is_logged(event: Event) -> bool:
    """Whether an event is from a log; stacks read from /proc are samples, each of them a new one."""
    return event.kind != "task_stack" or event.fields.get("how") in LOGGED_STACK_SOURCES


def _is_repeated(event: Event, number: int, known: Mapping[str, Sequence[Event]]) -> bool:
    """Whether another member has the event; `number` counts the equal events before it in its own member."""
    for member, events in known.items():
        if member == event.cite.member:
            continue
        for other in events:
            difference = event.time.minus(other.time) if event.time and other.time else None
            if difference is not None and event.time and other.time:
                if abs(difference) - event.time.within - other.time.within <= SAME_MESSAGE_SECONDS:
                    return True
            elif event.kind == "task_stack" and number < len(events):
                return True
    return False
