"""Lines of a syslog with a stamp and seconds since boot join the clocks of one boot of one host."""

from __future__ import annotations

from collections.abc import Iterable

from thpdiag.host.clock.anchors import boot_times
from thpdiag.model import Citation, Clock, Fact, Moment, Record, Sample
from thpdiag.model.parser import Source
from thpdiag.parsers.kernel_log import log as kernel_log

BOOT = 1_795_153_220.0  # 2026-11-20 05:40:20 UTC
HUNG = "INFO: task java:7 blocked for more than 120 seconds."


def told(lines: Iterable[str], member: str = "messages") -> list[Record]:
    """What the reader of kernel logs finds."""
    return list(kernel_log.KERNEL_LOG.read(Source(member), enumerate(lines, 1)))


def clocks(records: Iterable[Record]) -> list[Fact]:
    return [r for r in records if isinstance(r, Fact) and r.name == "log.boot_time"]


def line(stamp: str, boot: float, host: str = "host") -> str:
    return f"{stamp} {host} kernel: [{boot:12.6f}] {HUNG}"


def dated(minute: int, boot: float) -> str:
    """A line of RFC 3339, of 2026-11-20 05:`minute`:00."""
    return line(f"2026-11-20T05:{minute}:00.000000+00:00", boot)


def test_a_dated_stamp_and_a_bracket_tell_when_the_boot_was() -> None:
    """The middle of the differences, and how far they lie apart."""
    (fact,) = clocks(told([dated(50, 580.0), dated(55, 879.5), dated(56, 940.0)]))
    assert fact.value == BOOT
    assert (fact.label("clock"), fact.label("within")) == ("utc", "1.5")
    assert fact.time == Moment(BOOT + 940, Clock.UTC)


def test_a_stamp_without_year_tells_the_time_of_day() -> None:
    """Over midnight too: the difference stays."""
    (fact,) = clocks(told([line("Nov 20 23:59:50", 1000.0), line("Nov 21 00:00:10", 1020.0)]))
    assert (fact.label("clock"), fact.value) == ("day", 86390.0 - 1000.0)


def test_of_several_boots_in_a_log_the_last_counts() -> None:
    """The bracket begins anew."""
    (fact,) = clocks(told([dated(10, 90_000.0), dated(50, 580.0)]))
    assert fact.value == BOOT


def test_lines_from_before_the_daemon_ran_are_late() -> None:
    """They count only where there are no others, and then are less sure."""
    (late,) = clocks(told([dated(41, 0.5)]))
    (sure,) = clocks(told([dated(41, 0.5), dated(50, 580.0)]))
    assert (late.value, late.label("within")) == (BOOT + 39.5, "61")
    assert (sure.value, sure.label("within")) == (BOOT, "1")


def test_nothing_joins_the_lines_of_two_hosts_or_of_a_clock_that_was_set() -> None:
    """A log server's file, and differences an hour apart."""
    assert clocks(told([dated(50, 580.0), line("2026-11-20T05:51:00Z", 640.0, "other")])) == []
    assert clocks(told([dated(10, 580.0), dated(50, 600.0)])) == []


def test_a_line_with_one_time_joins_nothing() -> None:
    """dmesg, and syslog without brackets."""
    assert clocks(told([f"[ 1055.188049] {HUNG}", f"Nov 20 05:50:00 host kernel: {HUNG}"])) == []


def test_a_log_is_a_join_of_the_boot_and_an_older_one_is_none() -> None:
    """Rotated logs tell of other boots: with btime they are left out, without it the latest counts."""
    now, old = told([dated(50, 580.0)]), told([dated(20, 90_000.0)], "messages.1")
    btime = Sample("system", {"node_boot_time_seconds": BOOT}, Citation("proc/stat", 9), "proc_stat")
    for records, ways in (([*now, *old], 1), ([btime, *now, *old], 2)):
        anchors, problems = boot_times(records)
        assert problems == []
        assert [join.zero for join in anchors] == [Moment(BOOT, Clock.UTC)] * ways


def test_logs_without_dates_that_tell_of_two_boots_join_nothing() -> None:
    """Nobody knows which is the later."""
    logs = [line("Nov 20 05:50:00", 580.0)], [line("Nov 12 03:00:00", 90_000.0)]
    one, other = (told(log, f"messages-{n}") for n, log in enumerate(logs))
    assert [join.how for join in boot_times(one)[0]] == ["by lines of the kernel log with both times"]
    assert boot_times([*one, *other]) == ([], [])
