"""Prefixes of kernel messages and headers of tasks: text, clock, name, number, state."""

from __future__ import annotations

import pytest

from thpdiag.model import Clock, Moment
from thpdiag.parsers.kernel_log.lines import Times, parse_on_cpu, parse_task_header, split_line


@pytest.mark.parametrize(
    ("line", "moment"),
    [
        ("[ 1055.188049] x", Moment(1055.188049, Clock.BOOT)),
        ("[    1.5][  T12] x", None),
        ("[Fri Nov 20 05:57:55 2026] x", Moment(1795154275.0, Clock.LOCAL)),
        ("[  +0.000944] x", None),
        ("Nov 20 05:57:55 host kernel: x", Moment(21475.0, Clock.DAY)),
        ("Nov 20 05:57:55 host kernel: [ 1055.188049] x", Moment(1055.188049, Clock.BOOT)),
        ("Nov 20 05:57:55 kernel: x", Moment(21475.0, Clock.DAY)),
        ("kernel: [ 1055.188049] x", Moment(1055.188049, Clock.BOOT)),
        ("2026-11-20T05:57:55+02:00 host kernel: x", Moment(1795147075.0, Clock.UTC)),
        ("2026-11-20T05:57:55.5Z host kernel: [    1.000000] x", Moment(1795154275.5, Clock.UTC)),
        ("2026-11-20T05:57:55 host kernel: x", Moment(1795154275.0, Clock.LOCAL)),
        ("1795154275.188049 host kernel: x", Moment(1795154275.188049, Clock.UTC)),
        ("Fri 2026-11-20 05:57:55 UTC host kernel: x", Moment(1795154275.0, Clock.UTC)),
        ("Fri 2026-11-20 05:57:55 CET host kernel: x", Moment(1795154275.0, Clock.LOCAL)),
        ("<6>1 2026-11-20T05:57:55Z host kernel - - - x", Moment(1795154275.0, Clock.UTC)),
        ("/var/log/messages-20261121:Nov 20 05:57:55 host kernel: x", Moment(21475.0, Clock.DAY)),
        ("messages.1-Nov 20 05:57:55 host kernel: x", Moment(21475.0, Clock.DAY)),
        ("412:[ 1055.188049] x", Moment(1055.188049, Clock.BOOT)),
        ("2026-02-30T05:57:55Z host kernel: x", None),
    ],
)
def test_a_prefix_gives_the_clock_it_was_read_from(line: str, moment: Moment | None) -> None:
    """Offset and epoch are UTC, a date without zone is local, a bracket counts from boot, no year is a time of day."""
    found = split_line(line)
    assert found.text == "x" or moment is None
    assert Times().moment(found) == moment


def test_a_log_without_years_counts_on_over_midnight_and_new_year() -> None:
    """Events stay in order; the date itself is not known."""
    times = Times()
    seconds = [times.moment(split_line(f"{day} 00:00:10 host kernel: x")) for day in ("Dec 31", "Jan  1", "Jan  2")]
    assert [m.seconds for m in seconds if m] == [10.0, 86410.0, 172810.0]


@pytest.mark.parametrize(
    ("line", "task"),
    [
        ("java          D ffff88083e786800     0 20433  20401 0x00000080", ("java", "20433", "D")),
        ("Web Content     R  running task        0  2211   2100 0x00000088", ("Web Content", "2211", "R")),
        ("kworker/0:1     I    0   301      2 0x80004000", ("kworker/0:1", "301", "I")),
        ("task:java            state:D stack:    0 pid: 4711 ppid:  4700 flags:0x00000080", ("java", "4711", "D")),
        ("task:kworker/u4:1state:D stack:0 pid:11ppid:2  flags:0x00004000", ("kworker/u4:1", "11", "D")),
        ("task:x state:R pid:1 state:D stack:0 pid:51 ppid:2 flags:0x0", ("x state:R pid:1", "51", "D")),
        ("task:a               state:R  running task     stack:0 pid:9 ppid:1 flags:0x0", ("a", "9", "R")),
    ],
)  # fmt: skip
def test_a_task_header_of_any_era_names_the_task(line: str, task: tuple[str, str, str]) -> None:
    """Columns, words, blanks lost on the way, and a name that looks like the rest."""
    found = parse_task_header(line)
    assert found is not None
    assert (found.comm, found.pid, found.state) == task


@pytest.mark.parametrize(
    ("line", "cpu", "pid", "comm"),
    [
        ("Pid: 4711, comm: java Not tainted 2.6.32-220.el6.x86_64 #1", "", "4711", "java"),
        ("CPU: 3 PID: 4711 Comm: Web Content Tainted: G        W 4.4.0 #1", "3", "4711", "Web Content"),
        ("CPU: 0 UID: 0 PID: 7144 Comm: python3 Not tainted 6.18.44 #1", "0", "7144", "python3"),
        ("CPU: 0 PID: 1 Comm: x Comm: y Kdump: loaded Not tainted 4.18.0 #1", "0", "1", "x Comm: y"),
    ],
)
def test_the_task_on_a_cpu_is_named(line: str, cpu: str, pid: str, comm: str) -> None:
    """From 3.10 with the CPU, from 6.12 with the user."""
    found = parse_on_cpu(line)
    assert found is not None
    assert (found.cpu, found.pid, found.comm) == (cpu, pid, comm)
