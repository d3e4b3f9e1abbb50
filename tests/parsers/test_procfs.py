"""What the readers of /proc files make of values, units, loops, cuts and odd numbers."""

from __future__ import annotations

import pytest

from parse_bytes import readings
from thpdiag.model import Clock, Fact, Moment, Problem, Record, Sample
from thpdiag.model.parser import Parser, Source
from thpdiag.parsers import all_parsers
from thpdiag.parsers.host.process_groups import PROC_CGROUP
from thpdiag.parsers.procfs import memory as proc_meminfo
from thpdiag.parsers.procfs import memory as proc_vmstat
from thpdiag.parsers.procfs import process as pid_stat
from thpdiag.parsers.procfs import process as pid_status
from thpdiag.parsers.procfs import process as smaps
from thpdiag.parsers.procfs import system as pressure
from thpdiag.parsers.procfs import system as proc_stat
from thpdiag.parsers.procfs import system as uptime
from thpdiag.parsers.procfs import zones as buddyinfo
from thpdiag.parsers.procfs import zones as pagetypeinfo
from thpdiag.parsers.procfs import zones as zoneinfo

NOON = Moment(1_300_000_000, Clock.UTC)
NUMBERED = {  # a line with one number in it, for each reader of numbers
    "proc_vmstat": "thp_fault_alloc {}",
    "proc_meminfo": "AnonHugePages: {} kB",
    "pid_status": "VmRSS:\t{} kB",
    "smaps": "Rss:      {} kB",
    "proc_stat": "ctxt {}",
    "loadavg": "{} 0.01 0.03 2/111 2039",
    "buddyinfo": "Node 0, zone   Normal {} 1 1 1 1 1 1 1 1 1 1",
    "pressure": "/proc/pressure/cpu:some avg10={} avg60=0.00 avg300=0.00 total=0",
}
STAT = "{pid} ({comm}) S 1 1 1 0 -1 4194304 {minflt} 0 2 0 150 250 0 0 20 0 3 0 193405 2990080 {rss} " + "1 " * 28


def read(reader: Parser, text: str, path: str = "", time: Moment | None = NOON) -> list[Record]:
    source = Source("bundle/file", time=time, path=path)
    return list(reader.read(source, enumerate(text.split("\n"), 1)))


def samples(records: list[Record]) -> list[Sample]:
    return [r for r in records if isinstance(r, Sample)]


def problems(records: list[Record]) -> list[Problem]:
    return [r for r in records if isinstance(r, Problem)]


def test_sizes_are_bytes_and_page_counts_stay_counts() -> None:
    """kB becomes bytes, HugePages_Total has no unit and no _bytes in its name."""
    found = read(proc_meminfo.MEMINFO, "MemTotal:       100 kB\nActive(anon):   3 kB\nHugePages_Total:       7")
    assert samples(found)[0].values == {
        "node_memory_MemTotal_bytes": 102400,
        "node_memory_Active_anon_bytes": 3072,
        "node_memory_HugePages_Total": 7,
    }
    assert samples(found)[0].time == NOON


def test_a_size_without_its_unit_is_a_problem() -> None:
    """A last line cut before `kB` may have lost digits too, so it gives no value."""
    found = read(proc_meminfo.MEMINFO, "MemTotal:       100 kB\nMemFree:        5")
    assert "node_memory_MemFree_bytes" not in samples(found)[0].values
    assert [p.cite.line for p in problems(found)] == [2]


def test_snapshots_without_dates_have_an_order_and_no_time() -> None:
    """The first key that repeats begins a new snapshot, and one date above says nothing about several."""
    found = samples(read(proc_vmstat.VMSTAT, "compact_stall 1\ncompact_fail 1\ncompact_stall 5\ncompact_fail 4"))
    assert [s.values["node_vmstat_compact_stall"] for s in found] == [1, 5]
    assert [(s.time, s.cite.line) for s in found] == [(None, 1), (None, 3)]


def test_one_snapshot_has_the_time_of_the_line_above() -> None:
    """The block's time is the sample's."""
    assert [s.time for s in samples(read(proc_vmstat.VMSTAT, "compact_stall 1\ncompact_fail 1"))] == [NOON]


@pytest.mark.parametrize("note", ["", "   -> 81 % of the faults", "  <- rises", "\t# since Monday", " ← this one"])
def test_a_note_behind_a_counter_is_no_part_of_its_value(note: str) -> None:
    """People comment on what they paste; a second number is still no counter."""
    found = samples(read(proc_vmstat.VMSTAT, f"thp_fault_alloc 12\nthp_fault_fallback 73{note}"))
    assert [s.values["node_vmstat_thp_fault_fallback"] for s in found] == [73]
    assert problems(read(proc_vmstat.VMSTAT, "thp_fault_alloc 12\nthp_fault_fallback 73 81"))


def test_counters_of_a_cgroup_are_not_the_systems() -> None:
    """memory.stat has the same names and another meaning."""
    found = read(proc_vmstat.VMSTAT, "pgfault 12\nthp_fault_alloc 3", path="sys/fs/cgroup/x/memory.stat")
    assert not samples(found)
    assert len(problems(found)) == 1


@pytest.mark.parametrize(("orders", "read_out"), [(9, 9), (11, 11), (14, 14), (5, 0), (30, 0)])
def test_free_blocks_of_any_usual_number_of_orders(orders: int, read_out: int) -> None:
    """Kernels have 9 to 17 orders; fewer are a cut row, more are no row of this file."""
    found = read(buddyinfo.BUDDYINFO, "Node 0, zone   Normal " + " ".join(str(n) for n in range(orders)))
    assert sum(len(s.values) for s in samples(found)) == read_out
    assert len(problems(found)) == (0 if read_out else 1)


def test_a_shorter_last_row_is_left_out() -> None:
    """Its last number may be half of one."""
    row = "Node {}, zone   Normal 1 2 3 4 5 6 7 8 9 10{}"
    found = read(buddyinfo.BUDDYINFO, row.format(0, " 11") + "\n" + row.format(1, ""))
    assert [dict(s.entity)["node"] for s in samples(found)] == ["0"]
    assert [p.cite.line for p in problems(found)] == [2]


def test_zones_of_one_snapshot_keep_the_time() -> None:
    """Another zone is no repetition."""
    row = "Node {}, zone   Normal 1 2 3 4 5 6 7 8 9 10 11"
    assert [s.time for s in samples(read(buddyinfo.BUDDYINFO, row.format(0) + "\n" + row.format(1)))] == [NOON, NOON]
    assert [s.time for s in samples(read(buddyinfo.BUDDYINFO, row.format(0) + "\n" + row.format(0)))] == [None, None]


def test_page_blocks_need_their_heading() -> None:
    """The second table names its types in the heading only; a capped count is its cap."""
    text = (
        "Page block order: 9\n"
        "Node    0, zone   Normal, type      Movable >100000 2 3 4 5 6 7 8 9 10 11\n"
        "Node 0, zone   Normal            1            7            0\n"
        "Number of blocks type     Unmovable      Movable  Reclaimable\n"
        "Node 0, zone   Normal            1            7            0"
    )
    found = read(pagetypeinfo.PAGETYPEINFO, text)
    values = samples(found)[0].values
    assert values["node_pagetypeinfo_free_Movable_order0"] == 100000
    assert values["node_pagetypeinfo_blocks_Movable"] == 7
    assert [p.cite.line for p in problems(found)] == [3]


def test_zone_watermarks_are_not_those_of_the_page_sets() -> None:
    """`high` below `pagesets` is a per-CPU number, and per-node statistics are no zone's."""
    text = (
        "Node 0, zone   Normal\n  per-node stats\n      nr_dirty     3\n  pages free     50\n        min      10\n"
        "        high     30\n      nr_free_pages 50\n  pagesets\n    cpu: 0\n              high:  186"
    )
    assert samples(read(zoneinfo.ZONEINFO, text))[0].values == {
        "node_zoneinfo_nr_free_pages": 50,
        "node_zoneinfo_min_pages": 10,
        "node_zoneinfo_high_pages": 30,
    }


def test_cpu_time_is_in_seconds_and_cpus_are_counted_when_all_are_there() -> None:
    """100 ticks are a second; an excerpt that ends among the CPU lines does not tell their number."""
    text = "cpu  100 0 250 1000 0 0 0 0 0 0\ncpu0 100 0 250 1000 0 0 0 0 0 0"
    whole = read(proc_stat.PROC_STAT, f"{text}\nintr 12 1 1\nctxt 8")
    assert samples(whole)[0].values["node_cpu_seconds_total.system"] == 2.5
    assert samples(whole)[0].values["node_intr_total"] == 12
    assert [r.value for r in whole if isinstance(r, Fact)] == [1]
    assert not [r for r in read(proc_stat.PROC_STAT, text) if isinstance(r, Fact)]


@pytest.mark.parametrize("comm", ["sleep", "my file", "a) S 1 1", "two\nlines", "a b) S\n1 (c", "((", ""])
def test_a_command_may_hold_anything(comm: str) -> None:
    """Blanks, brackets and newlines in the command do not shift the fields."""
    text = STAT.format(pid=7, comm=comm, minflt=428, rss=16)
    reader = pid_stat.PID_STAT
    assert reader.confirm is not None
    assert reader.confirm(text.split("\n"))
    sample = samples(read(reader, text))[0]
    assert sample.entity == (("pid", "7"), ("comm", comm))
    assert sample.values["process_minor_faults_total"] == 428
    assert sample.values["process_resident_memory_bytes"] == 65536
    assert sample.values["process_cpu_seconds_total.system"] == 2.5
    assert all(reader.continues(line) for line in text.split("\n")[1:])


def test_a_cut_process_line_gives_nothing_but_a_problem() -> None:
    """The process before it is still read."""
    line = STAT.format(pid=7, comm="sleep", minflt=1, rss=16)
    found = read(pid_stat.PID_STAT, f"{line}\n{line[:70]}")
    assert len(samples(found)) == 1
    assert [p.cite.line for p in problems(found)] == [2]


def test_status_excerpts_of_several_processes_are_told_apart() -> None:
    """By the path that grep prints, by the Pid line, else nobody's name is invented."""
    grep = read(pid_status.PID_STATUS, "/proc/7/status:VmRSS:\t4 kB\n/proc/8/status:VmRSS:\t8 kB")
    assert [(dict(s.entity)["pid"], s.time) for s in samples(grep)] == [("7", NOON), ("8", NOON)]
    cats = read(pid_status.PID_STATUS, "Name:\ta\\\\b\nPid:\t7\nVmRSS:\t4 kB\nName:\tc\nPid:\t8\nVmRSS:\t8 kB")
    assert [s.entity for s in samples(cats)] == [(("pid", "7"), ("comm", "a\\b")), (("pid", "8"), ("comm", "c"))]
    bare = read(pid_status.PID_STATUS, "VmRSS:\t4 kB\nVmRSS:\t8 kB")
    assert [(dict(s.entity)["pid"], s.time) for s in samples(bare)] == [("?", None), ("?", None)]
    named = read(pid_status.PID_STATUS, "VmRSS:\t4 kB", path="proc/9/status")
    assert dict(samples(named)[0].entity) == {"pid": "9"}


def test_mappings_are_summed_until_the_addresses_start_again() -> None:
    """Two mappings are one process; a lower address is the next snapshot."""
    mapping = "{}000-{}fff rw-p 00000000 00:00 0 \nRss: 4 kB\nAnonHugePages: 2048 kB\nSwap: 0 kB\n"
    text = mapping.format("0040", "0040") + mapping.format("7f00", "7f00")
    found = samples(read(smaps.SMAPS, text, path="proc/7/smaps"))
    assert [s.values["process_anon_huge_bytes"] for s in found] == [4 * 2**20]
    assert len(samples(read(smaps.SMAPS, text + text))) == 2


def test_the_same_line_of_meminfo_is_not_added_to_a_process() -> None:
    """AnonHugePages stands in smaps and in meminfo: the path decides, and a mapping has it once."""
    line = "AnonHugePages: 2048 kB"
    assert samples(read(proc_meminfo.MEMINFO, line, path="proc/7/smaps"))[0].kind == "process"
    assert samples(read(proc_meminfo.MEMINFO, line, path="proc/meminfo"))[0].kind == "system"
    mapping = "00400000-00401000 rw-p 00000000 00:00 0 [rollup]\nRss: 4 kB\nAnonHugePages: 0 kB"
    found = read(smaps.SMAPS, f"{mapping}\n{line}")
    assert samples(found)[0].values["process_anon_huge_bytes"] == 0
    assert [p.cite.line for p in problems(found)] == [4]


def test_memory_that_asked_for_huge_pages_is_told_by_its_flags() -> None:
    """`hg` counts the resident memory of its mapping; a smaps without flags (before 3.8) says nothing of it."""
    rows = ("10000-20000 rw-p 00000000 00:00 0\nRss: 8 kB\n{}", "30000-50000 rw-p 00000000 00:00 0\nRss: 4 kB\n{}")
    for flags, asked in (("VmFlags: rd wr mr hg\n", 8192), ("VmFlags: rd wr nh\n", 0), ("", None)):
        text = rows[0].format(flags) + rows[1].format("VmFlags: rd wr\n" if flags else "")
        (found,) = samples(read(smaps.SMAPS, text, path="proc/7/smaps"))
        assert found.values.get("process_asked_huge_bytes") == asked


def test_a_map_without_sizes_is_not_smaps() -> None:
    """/proc/PID/maps has the same address lines."""
    address = "00400000-00401000 r-xp 00000000 fd:00 12 /bin/x"
    assert smaps.SMAPS.confirm is not None
    assert not smaps.SMAPS.confirm([address, address])
    assert smaps.SMAPS.confirm([address, "Size:                  4 kB"])


def test_pressure_needs_to_know_of_what() -> None:
    """The resource is in the path; without it there is a Problem and no value."""
    line = "some avg10=50.00 avg60=0.00 avg300=0.00 total=2000000"
    assert samples(read(pressure.PRESSURE, line, path="proc/pressure/memory"))[0].values == {
        "node_pressure_memory_some_avg10": 0.5,
        "node_pressure_memory_some_avg60": 0.0,
        "node_pressure_memory_some_avg300": 0.0,
        "node_pressure_memory_waiting_seconds_total": 2.0,
    }
    nameless = read(pressure.PRESSURE, line)
    assert not samples(nameless)
    assert len(problems(nameless)) == 1


@pytest.mark.parametrize(
    ("line", "seconds", "load"),
    [
        (" 10:33:08 up 190 days,  3:12,  2 users,  load average: 0.00, 0.01, 0.05", 190 * 86400 + 3 * 3600 + 720, 0.0),
        (" 3:05pm  up 4 days 11 hrs,  1 user,  load average: 12.04, 9.01, 4.44", 4 * 86400 + 11 * 3600, 12.04),
        ("05:56:39 up 16 min,  0 users,  load average: 1,50, 0,03, 0,00", 960, 1.5),
    ],
)
def test_the_uptime_command(line: str, seconds: float, load: float) -> None:
    """Days, hours and minutes in all the ways it prints them; a comma may be the decimal sign."""
    found = read(uptime.UPTIME, line, time=None)
    assert [r.value for r in found if isinstance(r, Fact)] == [seconds]
    assert samples(found)[0].values == {"node_load1": load}


def test_less_than_a_minute_of_uptime() -> None:
    """`0 min` must not place the boot in the second of the command: what was recorded before it would be of no boot."""
    found = read(uptime.UPTIME, " 00:21:34 up 0 min,  0 users,  load average: 0.91, 0.22, 0.07", time=None)
    assert [record.value for record in found if isinstance(record, Fact)] == [59]
    assert [record.values["node_load1"] for record in found if isinstance(record, Sample)] == [0.91]


def test_the_time_of_day_of_the_uptime_command() -> None:
    """Without a date above, the command's own clock is a time of an unknown day."""
    found = read(uptime.UPTIME, " 3:05pm  up 4 days 11 hrs,  1 user,  load average: 12.04, 9.01, 4.44", time=None)
    assert {r.time for r in found if isinstance(r, Fact | Sample)} == {Moment(15 * 3600 + 300, Clock.DAY)}


@pytest.mark.parametrize("number", ["-7", "9" * 30, "0x10", "many", "1e5", "-", "18446744073709551615"])
@pytest.mark.parametrize("name", NUMBERED)
def test_a_number_that_cannot_be_is_a_problem_and_no_value(name: str, number: str) -> None:
    """Negative, huge and non-numeric values are left out and named."""
    reader = next(r for r in all_parsers() if r.name == name)
    found = read(reader, NUMBERED[name].format(number))
    whole = {v for s in samples(found) for v in s.values.values()}
    assert whole <= {0.0, 0.01, 1}
    assert problems(found)
    assert all(p.cite.line == 1 and p.reader == name for p in problems(found))


@pytest.mark.parametrize("name", NUMBERED)
def test_any_cut_of_a_line_raises_nothing_and_hides_nothing(name: str) -> None:
    """A half last line is read as far as it makes sense, or it is a Problem."""
    reader = next(r for r in all_parsers() if r.name == name)
    line = NUMBERED[name].format("12.00" if name in {"loadavg", "pressure"} else "12")
    for end in range(1, len(line) + 1):
        assert read(reader, f"{line}\n{line[:end]}")


def test_blocks_end_where_the_next_format_begins() -> None:
    """Outputs printed one after the other by a loop do not swallow each other."""
    first_lines = {
        "proc_vmstat": "nr_free_pages 12",
        "proc_meminfo": "MemTotal:       100 kB",
        "buddyinfo": "Node 0, zone   Normal 1 2 3 4 5 6 7 8 9 10 11",
        "pagetypeinfo": "Page block order: 9",
        "proc_stat": "cpu  100 0 250 1000 0 0 0 0 0 0",
        "pid_stat": STAT.format(pid=7, comm="sleep", minflt=1, rss=1),
        "pid_status": "Name:\tsleep",
        "smaps": "00400000-00401000 r-xp 00000000 fd:00 12 /bin/x",
        "uptime": " 10:33:08 up 190 days,  3:12,  2 users,  load average: 0.00, 0.01, 0.05",
        "loadavg": "0.00 0.01 0.03 2/111 2039",
        "pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0",
        "thp_sysfs": "/sys/kernel/mm/transparent_hugepage/enabled:[always] madvise never",
        "uname": "Linux host 2.6.32-279.el6.x86_64 #1 SMP Fri Jun 22 12:19:21 UTC 2012 x86_64 x86_64 x86_64 GNU/Linux",
        "sysctl": "vm.swappiness = 60",
        "tuned": "Current active profile: balanced",
        "cpu_info": "CPU(s):                16",
    }
    others = [
        "Fri Nov 20 03:35:43 UTC 2026",
        "1795145743",
        "procs -----------memory----------",
        "[root@host ~]# date",
        "",
    ]
    readers = {r.name: r for r in all_parsers()}
    swallowed = [
        (name, line)
        for name, first in first_lines.items()
        for line in [*(x for other, x in first_lines.items() if other != name), *others]
        if readers[name].continues(line) and not (name == "pagetypeinfo" and not line)
    ]
    assert not swallowed
    for name, line in first_lines.items():
        opens = readers[name].opens
        assert opens is not None
        assert opens.match(line), name


@pytest.mark.parametrize(
    ("lines", "group"),
    [
        (("1:name=systemd:/system.slice/a.service", "4:memory:/a/path/that/is/longer"), "/system.slice/a.service"),
        (("9:name=systemd:/", "4:cpu,memory:/docker/0123", "0::/"), "/docker/0123"),
        (("0::/user.slice/user-1.slice/session-2.scope",), "/user.slice/user-1.slice/session-2.scope"),
        (("5:cpuset:/elsewhere", "0::/"), "/"),
    ],
)  # fmt: skip
def test_the_group_of_a_process_is_that_of_who_starts_services(lines: tuple[str, ...], group: str) -> None:
    """systemd's own hierarchy before that of memory, however long its path is; one that is `/` says nothing."""
    for order in (lines, lines[::-1]):
        found = read(PROC_CGROUP, "\n".join(order), "/proc/742/cgroup")
        assert [(r.name, r.value, r.label("pid")) for r in found if isinstance(r, Fact)] == [
            ("process.cgroup", group, "742")
        ]


def test_counters_of_cpu_stat_are_not_those_of_the_system() -> None:
    """A control group's nr_throttled begins as counters of /proc/vmstat do; nr_throttled_written is one of them."""
    stat = b"nr_periods 120\nnr_throttled 102\nthrottled_usec 8123344\nnr_bursts 0\n"
    assert readings(stat) == []
    (sample,) = [
        r.record for r in readings(b"nr_free_pages 900\nnr_throttled_written 7\n") if isinstance(r.record, Sample)
    ]
    assert set(sample.values) == {"node_vmstat_nr_throttled_written", "node_vmstat_nr_free_pages"}
