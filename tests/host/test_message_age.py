"""What the kernel said long ago is no present state of affairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyze_bytes import rules
from thpdiag.host.options import Options
from thpdiag.host.recency import are_old_messages
from thpdiag.model import Case, Citation, Clock, Event, Fact, Moment, Sample, State
from thpdiag.pipeline import analyze

CITE = Citation("var/log/messages", 7)
CAPTURED = Fact("capture.time", "x", Citation("sos_commands/date/date", 1), time=Moment(1e9, Clock.UTC))
UPTIME = Fact("uptime.seconds", 90_000.0, Citation("proc/uptime", 1))


def case(event: Event, *facts: Fact, sample: Sample | None = None) -> Case:
    state = State("all", {}, 0, samples=(sample,) if sample else (), events=(event,))
    return Case("demo", facts, (state,))


def lockup(time: Moment | None, kind: str = "soft_lockup") -> Event:
    return Event(kind, CITE, time)


@pytest.mark.parametrize(
    ("time", "old"),
    [
        (Moment(1e9 - 60, Clock.UTC), False),
        (Moment(1e9 - 86_400, Clock.UTC), True),
        (Moment(1e9 - 60, Clock.LOCAL), True),  # of a zone that nobody knows: it may be hours
        (Moment(43_200.0, Clock.DAY), True),  # of a day that nobody knows
        (None, True),
    ],
)
def test_a_message_is_present_only_if_it_is_known_to_be_of_the_last_hour(time: Moment | None, old: bool) -> None:
    """Before the capture; what cannot be compared is not known."""
    assert are_old_messages(case(lockup(time), CAPTURED), [CITE]) is old


@pytest.mark.parametrize(("seconds", "old"), [(89_000.0, False), (2_000.0, True)])
def test_seconds_since_boot_are_compared_with_the_uptime(seconds: float, old: bool) -> None:
    """Where nothing joins the boot to the wall clock."""
    assert are_old_messages(case(lockup(Moment(seconds, Clock.BOOT)), UPTIME), [CITE]) is old


def test_what_a_recording_shows_is_not_judged_by_its_age() -> None:
    """Only messages are: a stack of a recording is of the recording."""
    assert not are_old_messages(case(lockup(None), CAPTURED), [CITE, Citation("perf.data", 3)])
    assert not are_old_messages(case(lockup(None, "task_stack"), CAPTURED), [CITE])


def test_the_end_of_a_recording_stands_for_the_capture() -> None:
    """If nothing says when the capture was made; what the log itself lists is as old as the log."""
    told = lockup(Moment(1e9, Clock.UTC))
    row = Sample("system", {"node_load1": 1.0}, Citation("vmstat.txt", 1), "x", time=Moment(1e9 + 60, Clock.UTC))
    assert not are_old_messages(case(told, sample=row), [CITE])
    listed = Sample("zone", {"x": 1.0}, Citation(CITE.member, 9), "kernel_log", time=Moment(1e9, Clock.UTC))
    assert are_old_messages(case(told, sample=listed), [CITE])


def test_the_excerpt_of_a_log_makes_no_present_verdict(tmp_path: Path) -> None:
    """Of a mail with a lockup of some year the report says what it was, and that nobody knows whether it is over."""
    log = tmp_path / "messages"
    log.write_text(
        "Feb  3 09:00:01 demo kernel: BUG: soft lockup - CPU#3 stuck for 67s! [java:4711]\n"
        "Feb  3 09:00:01 demo kernel: Call Trace:\n"
        "Feb  3 09:00:01 demo kernel:  compact_zone+0x2e5/0x400\n"
        "Feb  3 09:00:01 demo kernel:  do_huge_pmd_anonymous_page+0xf3/0x420\n"
    )
    verdict = analyze([log], rules(), Options(strict=True))["verdict"]
    assert (verdict["status"], verdict["rule"], verdict["state"]) == ("found", "THP-060", "unknown")
