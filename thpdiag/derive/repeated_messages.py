"""One message of the kernel in several logs is one: dmesg, syslog and journal of a capture all hold it.

The same report of the same task with the same stack, in another member and at the same time, is the same one. Where the
two times cannot be compared (seconds since boot, a day without a year) only stacks of single tasks are taken for the
same, as many as the other log has: a dump of all tasks must not count three times as so many samples, while two
reports of a hung task may be of two days.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from thpdiag.model import Event, Record

SAME = 2.0  # seconds: stamps of the syslog are whole seconds, and it writes a little later
OF_LOGS = frozenset(
    {
        "hung_task", "soft_lockup", "hard_lockup", "rcu_stall", "allocation_failure", "allocation_stall", "oom_kill",
        "min_free_raised", "kernel_trace", "task_stack",
    }
)  # fmt: skip
UNLIKE = frozenset({"host", "how", "unreliable"})  # fields that depend on the log

Known = dict[str, list[Event]]  # by member


def once(records: Iterable[Record]) -> Iterator[Record]:
    """The records without those messages that stand in an earlier member too."""
    known: dict[tuple[object, ...], Known] = defaultdict(dict)
    passed: Counter[tuple[object, ...]] = Counter()
    for record in records:
        if isinstance(record, Event) and _of_log(record):
            key = _key(record)
            number = passed[key, record.cite.member]
            passed[key, record.cite.member] += 1
            if _again(record, number, known[key]):
                continue
            known[key].setdefault(record.cite.member, []).append(record)
        yield record


def _of_log(event: Event) -> bool:
    """Whether the kernel's log tells it: stacks that somebody read from /proc are samples, each a new one."""
    return event.kind in OF_LOGS and (event.kind != "task_stack" or event.fields.get("how") in {"log", "sysrq"})


def _key(event: Event) -> tuple[object, ...]:
    told = sorted((name, value) for name, value in event.fields.items() if name not in UNLIKE)
    return event.kind, event.stack, *told


def _again(event: Event, number: int, known: Known) -> bool:
    """Whether another member has it; `number` of its like stand before it in its own."""
    for member, events in known.items():
        if member == event.cite.member:
            continue
        times = [_apart(event, other) for other in events]
        if any(apart is not None and apart <= SAME for apart in times):
            return True
        if event.kind == "task_stack" and None in times and number < len(events):
            return True
    return False


def _apart(one: Event, other: Event) -> float | None:
    """Seconds between two messages beyond what their times may be wrong by; None if nobody can tell."""
    if one.time is None or other.time is None or (seconds := one.time.minus(other.time)) is None:
        return None
    return abs(seconds) - one.time.within - other.time.within
