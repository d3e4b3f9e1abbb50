"""collectl's plot format: separators, times, what its columns do not say, processes."""

from __future__ import annotations

import numpy as np
import pytest

from collectl_files import FIXTURES, HOST, of, plot, problems, series
from table_parsing import blocks
from thpdiag.model import Clock, Fact, Series
from thpdiag.parsers import bulk_parsers
from thpdiag.parsers.collectl import plot as collectl_plot

FILES = FIXTURES / "collectl_plot" / "files"
TAB, PRC = ((FILES / f"db1-20261120.{suffix}").read_text() for suffix in ("tab", "prc"))
ROWS = "#Date Time [CPU]User% [CPU]Nice% [CPU]Sys% [CPU]Idle% [CPU]Intrpt/sec [MEM]Free [MEM]AnonH\n"
TASKS = "#Date Time PID User THRD S VmSize VmRSS PCT AccumT MajF MinF Command\n"
ZONED = "# Date:       20251026-000000  Secs: 1761429600 TZ: +0200\n"


def rows(*lines: str, head: str = ROWS) -> bytes:
    return (head + "".join(f"{line}\n" for line in lines)).encode()


def host(data: bytes) -> Series:
    return series(plot(data))[HOST]


def times(found: Series) -> list[float]:
    assert found.seconds is not None
    return [float(second) for second in found.seconds]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", ":"])
def test_any_separator(separator: str) -> None:
    """The one behind `#Date`; a colon also stands in the clock time, and is refused rather than read wrong."""
    data = rows("20261120 09:54:03 74 0 3 23 633 16601676 454656", "20261120 09:54:04 59 0 5 36 1273 16872356 352256")
    other = data.replace(b" ", separator.encode())
    if separator == ":":
        assert problems(plot(other))[-1][1] == 2
        return
    assert collectl_plot.claims("x.tab", other, len(other))
    assert host(other).values.keys() == host(data).values.keys()
    assert times(host(other)) == times(host(data))
    assert host(other).values["node_memory_AnonHugePages_bytes"].tolist() == [454656 * 1024, 352256 * 1024]


def test_times_with_and_without_a_zone() -> None:
    """The wall clock of the host; with its zone in a header, UTC."""
    line = "20251026 01:00:00.250 74 0 3 23 633 16601676 454656"
    bare, zoned = host(rows(line)), host(rows(line, head=ZONED + ROWS))
    assert (bare.clock, zoned.clock) == (Clock.LOCAL, Clock.UTC)
    assert times(bare)[0] - times(zoned)[0] == 7200
    utc = rows("1761440400 74 0 3 23 633 16601676 454656", head=ROWS.replace("#Date Time", "#UTC"))
    assert (host(utc).clock, times(host(utc))) == (Clock.UTC, [1761440400])


def test_the_hour_that_comes_twice() -> None:
    """In autumn the wall clock goes back; in UTC time goes on."""
    clocks = ("02:59:40", "02:59:50", "02:00:00", "02:00:10")
    data = rows(*(f"20251026 {c} 74 0 3 23 633 16601676 454656" for c in clocks), head=ZONED + ROWS)
    assert np.diff(times(host(data))).tolist() == [10, 10, 10]
    assert problems(plot(data)) == []


def test_zero_processes_and_missing_columns_are_not_zero() -> None:
    """Columns that a version did not have are absent."""
    old = rows(
        "20261120 09:54:03 74 0 3 23 16601676", head=ROWS.replace(" [MEM]AnonH", "").replace(" [CPU]Intrpt/sec", "")
    )
    assert "node_memory_AnonHugePages_bytes" not in host(old).values
    assert "node_intr_total:rate" not in host(old).values


def test_rates_per_interval_are_no_rates() -> None:
    """-on does not divide by the interval; the header says so for CPUs, its options for memory."""
    head = ROWS.replace("/sec", "/int")
    assert "node_intr_total:rate" not in host(rows("20261120 09:54:03 74 0 3 23 633 16601676 454656", head=head)).values
    data = TAB.replace("Options: z Interval", "Options: nz Interval").encode()
    assert not [name for name in host(data).values if name.endswith(":rate")]
    assert [text for text, _ in problems(plot(data))] == [
        "rates are per interval, not per second (-on); they are left out"
    ]


def test_inactive_is_that_of_files() -> None:
    """collectl keeps the last line of meminfo that begins with Inactive."""
    values = host(TAB.encode()).values
    assert "node_memory_Inactive_bytes" not in values
    assert values["node_memory_Inactive_file_bytes"][0] == 2245172 * 1024


def test_columns_of_a_cpu_that_stand_in_the_wrong_place() -> None:
    """Behind Totl% the rows have interrupts where the header has guests."""
    data = (FILES / "db1-20261120.cpu").read_bytes()
    for found in series(plot(data)).values():
        assert set(found.values) <= {f"cpu_ratio.{m}" for m in (
            "user", "nice", "system", "iowait", "irq", "softirq", "steal", "idle", "busy", "sys_total", "user_total",
            "sys_share",
        )}  # fmt: skip


def test_times_of_the_playback_are_not_used() -> None:
    """-p --utc stamps processes with the time of printing."""
    records = plot((FIXTURES / "collectl_plot" / "utc" / "processes.txt").read_bytes())
    assert [(rows.seconds, len(rows)) for rows in of(records, "process")] == [(None, 12), (None, 12)]
    assert len(problems(records)) == 1
    live = PRC.splitlines()[-1].split(" ", 2)[2]
    head = TASKS.replace("#Date Time", "#UTC")
    assert live
    good = plot(rows("1761440400 7 u 0 S 10 5 0 0:00:00 0 0 x", "1761440460 7 u 0 S 10 5 0 0:00:00 0 0 x", head=head))
    assert times(of(good, "process")[0]) == [1761440400, 1761440460]


def test_commands_may_hold_the_separator() -> None:
    """The command is the rest of the line; threads count the process itself; faults are cut by thousands."""
    line = "20261120,09:54:07,7,root,3,S,1000,500,98,0:01:05,0,12K,/opt/x --list a,b,c"
    records = plot(rows(line, head=TASKS.replace(" ", ",")))
    (found,) = of(records, "process")
    assert found.entity == (("pid", "7"), ("comm", "x"))
    assert [f.value for f in records if isinstance(f, Fact) and f.name == "process.command"] == ["/opt/x --list a,b,c"]
    assert found[0].values == {
        "process_virtual_memory_bytes": 1000 * 1024,
        "process_resident_memory_bytes": 500 * 1024,
        "process_cpu_ratio": 0.98,
        "process_cpu_seconds_total": 65,
        "process_threads": 4,
        "process_major_faults_total:rate": 0,
        "process_minor_faults_total:rate": 12000,
    }
    assert found.resolution["process_minor_faults_total:rate"] == 1000


def test_a_pid_that_is_used_again() -> None:
    """CPU time falls, or the name changes, or another log begins."""
    lines = ["7 u 0 S 10 5 0 0:09:00 0 0 a", "7 u 0 S 10 5 0 0:00:01 0 0 a", "7 u 0 S 10 5 0 0:00:02 0 0 b"]
    data = rows(*(f"20261120 09:5{i}:00 {line}" for i, line in enumerate(lines)), head=TASKS)
    data += b"# >>> NEW LOG <<<\n20261120 09:59:00 7 u 0 S 10 5 0 0:00:03 0 0 b\n"
    assert [len(rows) for rows in of(plot(data), "process")] == [1, 1, 1, 1]


def test_totals_of_faults() -> None:
    """`--procopts f` prints totals: only the command line tells."""
    data = PRC.replace("-P -sZ", "-P -sZ --procopts f").encode()
    assert "process_minor_faults_total" in of(plot(data), "process")[0].values


def test_rows_that_do_not_fit() -> None:
    """Short rows, no times, impossible numbers: counted, and the rest is read."""
    good = "20261120 09:54:03 74 0 3 23 633 16601676 454656"
    data = rows(
        good,
        "20261120 09:54:04 74 0 3",
        "20269999 09:54:05 74 0 3 23 633 1 1",
        "20261120 09:54:06 74 0 3 23 -1 7 7",
        "20261120 09:54:07 740 0 3 23 633 7 7",
    )
    found = host(data)
    assert len(found) == 3
    assert sum(count for _, count in problems(plot(data))) == 4
    assert np.isnan(found.values["node_intr_total:rate"]).tolist() == [False, True, False]
    assert np.isnan(found.values["cpu_ratio.busy"]).tolist() == [False, False, True]


def test_a_cut_last_row_is_left_out() -> None:
    """A number may be cut too."""
    data = TAB.encode()[:-3]
    assert len(host(data)) == 59
    assert [text for text, _ in problems(plot(data))] == ["ends in the middle of a line, which is left out"]


def test_text_and_bytes_say_the_same() -> None:
    """What is pasted into a session is read like the file."""
    by_line = [r for name, r in blocks(f"some words before\n\n{TAB}") if name == "collectl_plot"]
    ours, theirs = of(by_line, "system")[0], host(TAB.encode())
    assert ours.values.keys() == theirs.values.keys()
    for name, column in ours.values.items():
        assert column.tolist() == theirs.values[name].tolist()
    assert times(ours) == times(theirs)
    assert [f.name for f in by_line if isinstance(f, Fact)] == [
        f.name for f in plot(TAB.encode()) if isinstance(f, Fact)
    ]


def test_what_is_claimed_as_a_whole() -> None:
    """A table with prose below it goes to the reader of lines; slabs are claimed and told."""
    assert [r.name for r in bulk_parsers() if r.claims("x.tab", TAB.encode(), len(TAB))] == ["collectl_plot"]
    assert not collectl_plot.claims("x.txt", TAB.encode() + b"That was slow.\n", len(TAB) + 15)
    slabs = rows("20261120 10:00:44 dentry 25 4000 25", head="#Date Time SlabName ObjInUse ObjInUseB ObjAll\n")
    assert collectl_plot.claims("x.slb", slabs, len(slabs))
    assert [text for text, _ in problems(plot(slabs))] == ["rows of slabs; nothing here needs them"]
