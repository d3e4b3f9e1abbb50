"""A message that dmesg, syslog and journal all hold is one message."""

from __future__ import annotations

from thpdiag.host.captures import drop_repeated_messages
from thpdiag.model import Citation, Clock, Event, Moment

UTC, BOOT, DAY = Clock.UTC, Clock.BOOT, Clock.DAY
STACK = ("compact_zone", "do_huge_pmd_anonymous_page")


def said(
    member: str, line: int, time: Moment | None, kind: str = "hung_task", pid: str = "7", how: str = "sysrq"
) -> Event:
    fields = {"comm": "java", "pid": pid, "host": member, "how": how}
    return Event(kind, Citation(member, line), time, fields, STACK)


def places(*events: Event) -> list[tuple[str, int | None]]:
    return [(event.cite.member, event.cite.line) for event in drop_repeated_messages(events)]


def test_the_same_report_at_the_same_time_in_two_logs_is_one() -> None:
    """The first log's is kept; in one log the same words twice are two reports."""
    one, two = said("dmesg", 3, Moment(100.0, UTC, 0.5)), said("messages", 90, Moment(102.2, UTC))
    assert places(one, two) == [("dmesg", 3)]
    assert places(one, said("dmesg", 9, Moment(100.1, UTC))) == [("dmesg", 3), ("dmesg", 9)]


def test_reports_at_other_times_or_of_others_are_kept() -> None:
    """A task may hang again; a log of another week tells of another report."""
    one = said("dmesg", 3, Moment(100.0, UTC))
    assert len(places(one, said("messages", 90, Moment(220.0, UTC)))) == 2
    assert len(places(one, said("messages", 90, Moment(100.0, UTC), pid="8"))) == 2


def test_without_comparable_times_only_dumps_of_tasks_are_the_same() -> None:
    """As many as the other log has: three logs of one dump are no three samples."""
    dumps = [
        said(member, line, Moment(5.0, clock), "task_stack")
        for member, clock in (("dmesg", BOOT), ("messages", DAY))
        for line in (1, 2)
    ]
    assert places(*dumps, said("messages", 3, Moment(9.0, DAY), "task_stack")) == [
        ("dmesg", 1), ("dmesg", 2), ("messages", 3),
    ]  # fmt: skip
    hung = [said(member, 1, Moment(5.0, clock)) for member, clock in (("dmesg", BOOT), ("messages", DAY))]
    assert len(places(*hung)) == 2


def test_stacks_from_proc_are_samples_each() -> None:
    """`for i in 1 2 3; do cat /proc/7/stack > stack.$i; done` looks three times."""
    assert len(places(*(said(f"stack.{i}", 1, None, "task_stack", how="proc") for i in range(3)))) == 3
