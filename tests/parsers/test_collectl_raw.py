"""collectl's raw recordings: what a row stands for, logs put together, clocks that are set, damage."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from collectl_files import GROWTH, HOST, ROLLED, changed_times, growth, intervals, of, problems, raw, series
from thpdiag.host.options import Options
from thpdiag.host.reading import read_input
from thpdiag.model import Clock, Event, Fact, Problem, ProblemKind, Series
from thpdiag.parsers import bulk_parsers
from thpdiag.parsers.collectl import raw as collectl_raw

RSS, FAULTS = "process_resident_memory_bytes", "process_minor_faults_total"
HUGE = "node_memory_AnonHugePages_bytes"


def test_memory_grows_without_faults() -> None:
    """The recording of khugepaged at work: steps of 16 MiB every 10 s, no fault, the host's huge pages grow."""
    rows = series(raw(growth()))["process", (("pid", "18615"), ("comm", "sparse"))]
    steps = np.diff(rows.values[RSS])
    assert set(steps.tolist()) == {0.0, 16744448.0}
    assert (np.diff(rows.values[FAULTS]) == 0).all()
    assert len(rows) == 13


def test_a_row_of_the_host_cites_its_time() -> None:
    """One row per time with the counters of all files, on the clock of UTC."""
    host = series(raw(growth()))[HOST]
    assert len(host) == 61
    first = host[0]
    assert first.cite.text == ">>> 1795168442.064 <<<"
    assert growth().split(b"\n")[(first.cite.line or 0) - 1] == first.cite.text.encode()
    assert first.time is not None
    assert (first.time.seconds, first.time.clock) == (1795168442.064, Clock.UTC)
    wanted = {HUGE, "node_cpu_seconds_total.system", "node_vmstat_pgfault", "node_load1", "node_boot_time_seconds"}
    assert wanted <= first.values.keys()
    assert not [name for name in first.values if "thp_" in name or "compact_" in name]


def test_processes_cite_their_line() -> None:
    """The number of the line is that of /proc/PID/stat in the recording."""
    lines = growth().split(b"\n")
    for (kind, _), rows in series(raw(growth())).items():
        if kind == "process":
            for row in rows:
                assert lines[(row.cite.line or 0) - 1].decode().startswith(row.cite.text[:200])


def test_the_size_of_the_pieces_changes_nothing() -> None:
    """Lines run over the ends of what is read at once."""
    data = ROLLED.read_bytes()
    whole = [r for r in raw(data, 1 << 20) if isinstance(r, Series)]
    for piece in (1, 7, 100):
        found = [r for r in raw(data, piece) if isinstance(r, Series)]
        assert [list(rows) for rows in found] == [list(rows) for rows in whole]


def test_logs_one_after_another() -> None:
    """A rolled log goes on at the time at which the first ended; a reboot is an event; starts count from the boot."""
    records = raw(ROLLED.read_bytes())
    host = of(records, "system")[0]
    assert np.diff(host.seconds if host.seconds is not None else []).tolist() == [10, 50, 10, 10, 40, 940, 10]
    assert [e.time.seconds for e in records if isinstance(e, Event) and e.time] == [1446501000.5]
    boots = host.values["node_boot_time_seconds"]
    assert [boots[0], boots[3], boots[-1]] == [1446350400.25, 1446350400.31, 1446501000.5]
    assert sorted(dict(rows.entity)["comm"] for rows in of(records, "process")) == [
        "khugepaged",
        "khugepaged",
        "postmaster",
        "sh (x) y",
    ]


def test_the_header_tells_of_the_host() -> None:
    """Zones of half an hour, options of the daemon, the distribution."""
    facts = {f.name: f for f in raw(ROLLED.read_bytes()) if isinstance(f, Fact)}
    assert facts["host.utc_offset"].value == 5.5 * 3600
    assert facts["host.name"].value == "app7"
    assert facts["kernel.release"].value == "2.6.32-504.el6.x86_64"
    assert str(facts["recorder.options"].value).endswith("-s+YZ")
    assert facts["os.name"].provenance == "recorder"
    assert len([f for f in raw(ROLLED.read_bytes()) if isinstance(f, Fact) and f.name == "host.name"]) == 1


def test_damage_is_told_and_nothing_else_is_lost() -> None:
    """A damaged time loses its interval, an end in mid-line its last line."""
    found = [p for p in raw(ROLLED.read_bytes()) if isinstance(p, Problem)]
    assert {p.kind for p in found} == {ProblemKind.DAMAGED}
    assert [p.text.split(":")[0] for p in found] == [
        "a damaged time",
        "ends in the middle of a line, which is left out",
    ]


def test_resident_memory_of_status_comes_first() -> None:
    """VmRSS, not the rss of stat, which lags; where status is missing that of stat."""
    data = growth()
    assert series(raw(data))["process", (("pid", "18615"), ("comm", "sparse"))].values[RSS][0] == 2352 * 1024
    without = re.sub(rb"proc:18615 Vm.*\n", b"", data)
    stat = re.search(rb"proc:18615 stat .*", data)
    assert stat
    pages = int(stat[0].rpartition(b") ")[2].split()[21])
    rows = series(raw(without))["process", (("pid", "18615"), ("comm", "sparse"))]
    assert rows.values[RSS][0] == pages * 4096
    assert "process_swap_bytes" not in rows.values


def test_ticks_and_pages_of_the_header() -> None:
    """HZ and the page size are those of the recorded host."""
    data = (
        growth().replace(b"# HZ:         100 ", b"# HZ:         1000 ").replace(b"PageSize: 4096", b"PageSize: 65536")
    )
    data = re.sub(rb"proc:18615 Vm.*\n", b"", data)
    one, other = series(raw(growth())), series(raw(data))
    name = "node_cpu_seconds_total.user"
    assert other[HOST].values[name][0] * 10 == pytest.approx(one[HOST].values[name][0])
    key = ("process", (("pid", "18615"), ("comm", "sparse")))
    assert other[key].values[RSS][-1] % 65536 == 0


def test_parts_in_the_wrong_order_are_sorted() -> None:
    """Logs that were put together the wrong way: counters fall where time does."""
    head, parts = intervals(growth())
    records = raw(head + b"".join(parts[40:] + parts[:40]))
    times = series(records)[HOST].seconds
    assert times is not None
    assert (np.diff(times) > 0).all()
    assert series(records)[HOST].values[HUGE].tolist() == series(raw(growth()))[HOST].values[HUGE].tolist()
    assert [text for text, _ in problems(records)] == [
        "parts of the recording are in the wrong order; they were sorted by time"
    ]


def test_repeated_intervals_are_kept_once() -> None:
    """A log that was appended twice."""
    head, parts = intervals(growth())
    records = raw(head + b"".join(parts) + head + b"".join(parts[:-1]))
    assert len(series(records)[HOST]) == 61
    assert len(problems(records)) == 1


def test_a_clock_that_was_set_back() -> None:
    """Counters go on: rows stay as they were made, and a problem says so."""
    head, parts = intervals(growth())
    records = raw(head + b"".join([*parts[:30], *changed_times(parts[30:], -3600)]))
    host = series(records)[HOST]
    assert len(host) == 61
    assert (np.diff(host.values["node_context_switches_total"]) > 0).all()
    assert [text for text, _ in problems(records)] == [
        "the clock was set back, by up to 3599 s; times after that come twice"
    ]


def test_a_clock_that_was_set_forward() -> None:
    """Time goes on much faster than the CPUs count; a pause of the recorder does not."""
    head, parts = intervals(growth())
    found = problems(raw(head + b"".join([*parts[:30], *changed_times(parts[30:], 7200)])))
    assert [text.split(":")[0] for text, _ in found] == [
        "the clock went forward up to 7200 s more than the CPUs counted"
    ]
    assert problems(raw(head + b"".join([*parts[:10], *parts[50:]]))) == []


def test_two_hosts_in_one_file() -> None:
    """A header of another host begins another recording."""
    data = growth()
    other = data.replace(b"# Host:       db1 ", b"# Host:       db2 ")
    records = raw(data + other)
    assert [len(rows) for rows in of(records, "system")] == [61, 61]
    assert [f.value for f in records if isinstance(f, Fact) and f.name == "host.name"] == ["db1", "db2"]
    names = [type(r).__name__ + getattr(r, "name", "") for r in records]
    assert names.index("Series") < len(names) - 1 - names[::-1].index("Facthost.name")


def test_two_sets_under_one_time() -> None:
    """A lost time: the second set of counters is left out, and told."""
    head, parts = intervals(growth())
    lost = parts[1].partition(b"\n")[2]
    records = raw(head + parts[0] + lost + b"".join(parts[2:]))
    assert len(series(records)[HOST]) == 60
    assert any("twice under one time" in text and count > 50 for text, count in problems(records))


def test_lines_that_are_cut() -> None:
    """A short CPU line, a size without its unit, a zone with too few orders, a process without its end."""
    data = growth()
    for line, short in (
        (rb"\ncpu  (\d+ \d+ \d+ \d+).*\n", rb"\ncpu  \1\n"),
        (rb"\nAnonHugePages: +(\d+) kB\n", rb"\nAnonHugePages: \1\n"),
        (rb"\n(buddy Node 0, zone +Normal +\d+ +\d+ +\d+ ).*\n", rb"\n\1\n"),
        (rb"\n(proc:18615 stat 18615 .sparse. S 1).*\n", rb"\n\1\n"),
    ):
        at = re.search(line, data)
        assert at
        later = [m for m in re.finditer(line, data)][2]
        damaged = data[: later.start()] + later.expand(short) + data[later.end() :]
        assert [count for _, count in problems(raw(damaged))] == [1], short


def test_windows_line_ends() -> None:
    """A recording that went through Windows."""
    data = growth().replace(b"\n", b"\r\n")
    assert collectl_raw.claims("x.raw", data[:65536], None)
    host = series(raw(data))[HOST]
    assert host.values[HUGE].tolist() == series(raw(growth()))[HOST].values[HUGE].tolist()


def test_a_recording_without_a_head() -> None:
    """The tail of a log: times are there, the host is not."""
    _, parts = intervals(growth())
    data = parts[3][40:] + b"".join(parts[4:])
    assert collectl_raw.claims("x.raw", b"".join(parts[4:])[:65536], None)
    records = raw(data)
    assert len(series(records)[HOST]) == 57
    assert not [f for f in records if isinstance(f, Fact) and f.name == "host.name"]
    assert [text for text, _ in problems(records)] == ["lines above the first time; they are left out"]


def test_only_recordings_are_claimed() -> None:
    """A header alone is a recording by its name; plot files and sessions are none."""
    head, parts = intervals(growth())
    assert collectl_raw.claims("var/log/collectl/db1-20261120-095401.raw.gz", head, len(head))
    assert not collectl_raw.claims("notes.txt", head, len(head))
    assert not collectl_raw.claims("x.tab", head + b"#Date Time [CPU]User%\n20261120 09:54:03 74\n", None)
    assert not collectl_raw.claims("ticket.txt", b"[root@db1 ~]# zcat x.raw.gz\n" + head + parts[0], None)
    path = "var/log/collectl/x.raw.gz"
    assert [r.name for r in bulk_parsers() if r.claims(path, growth()[:65536], None)] == ["collectl_raw"]


def test_lines_of_nobody_are_counted() -> None:
    """What collectl never writes is told; other subsystems are not."""
    head, parts = intervals(growth())
    records = raw(head + parts[0] + b"disk 8 0 sda 1 2\nSlab dentry 1 2\nhello there\n" + b"".join(parts[1:]))
    assert problems(records) == [("a line of an unknown subsystem; it is left out", 1)]


def test_the_compressed_fixture_is_the_one() -> None:
    """The fixture that the tests change is gzip."""
    assert GROWTH.read_bytes()[:2] == b"\x1f\x8b"


def test_rows_are_in_the_order_of_time() -> None:
    """All entities of a recording."""
    for rows in series(raw(growth())).values():
        assert rows.seconds is not None
        assert all(a < b for a, b in pairwise(rows.seconds.tolist()))


def test_a_recording_in_a_sosreport(tmp_path: Path) -> None:
    """sos 4.4 and later copy /var/log/collectl; the recording is found and read."""
    folder = tmp_path / "sosreport-db1-2026-11-20-abcdefg" / "var" / "log" / "collectl"
    folder.mkdir(parents=True)
    (folder / GROWTH.name).write_bytes(GROWTH.read_bytes())
    found = read_input([tmp_path], Options(strict=True))
    (given,) = found.inputs
    assert (given.reader, given.member.rpartition("/")[2]) == ("collectl_raw", GROWTH.name)
    assert given.first is not None
    assert given.last is not None
    assert given.last.seconds - given.first.seconds == pytest.approx(61, abs=0.5)  # from the header on
