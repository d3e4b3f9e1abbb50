"""What the readers of tables say about their input: shares, clocks, units, processes, and what they refuse."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from conftest import ROOT
from table_parsing import GIB, blocks, column, problems, read, samples, seconds
from thpdiag.model import Clock, Fact, Moment, Sample

FIXTURES = ROOT / "fixtures" / "readers"
TABLES = (
    "vmstat", "vmstat_stats", "collectl_text", "collectl_verbose", "ps", "top", "pidstat", "mpstat", "iostat", "free",
    "work_time",
)  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_every_share_in_the_fixtures_is_between_0_and_1(name: str) -> None:
    """CPU shares of the host are ratios; what is printed in percent is divided by 100 exactly once."""
    found = [
        (metric, value)
        for path in sorted((FIXTURES / name).glob("*/*.txt"))
        for _, record in blocks(path.read_text())
        if isinstance(record, Sample)
        for metric, value in record.values.items()
        if metric.startswith("cpu_ratio.")
    ]
    assert [f for f in found if not 0 <= f[1] <= 1] == []
    assert found or name not in {"vmstat", "collectl_text", "collectl_verbose", "top", "mpstat", "iostat"}


def test_ps_names_processes_and_what_they_wait_for() -> None:
    """Commands, resident memory and wait channels, by the header's words."""
    found = read("ps", (FIXTURES / "ps/columns/ps.txt").read_text())
    waits = {f.label("comm"): f.value for f in found if isinstance(f, Fact) and f.name == "process.wchan"}
    assert waits["khugepaged"] == "khugepaged"
    churn = next(s for s in samples(found, "process") if ("comm", "churn") in s.entity)
    assert churn.values["process_resident_memory_bytes"] == 259196 * 1024
    assert churn.values["process_minor_faults_total"] == 28603892


def test_a_loop_of_ps_takes_the_time_above_it() -> None:
    """Each listing is one moment: that of the date line before it."""
    rows = samples((r for _, r in blocks((FIXTURES / "ps/loop/ps-loop.txt").read_text())), "process")
    assert [b - a for a, b in pairwise(seconds(rows))] == [2, 2]
    faults = column(rows, "process_minor_faults_total")
    assert faults == sorted(faults)


def test_rows_of_ps_without_a_header() -> None:
    """`ps aux | grep java` is what tickets hold."""
    found = read("ps", (FIXTURES / "ps/no-header/session.txt").read_text().splitlines()[1])
    java = next(f for f in found if isinstance(f, Fact))
    assert java.label("comm") == "java"
    assert str(java.value).endswith("127.0.0.1 40123")


def test_threads_do_not_count_a_process_twice() -> None:
    """ps -L repeats the process for each thread; faults and CPU time are then the thread's."""
    text = (
        "  PID   LWP STAT WCHAN   RSS  MINFL COMMAND\n"
        " 4711  4711 Sl   futex_ 1000     10 java\n"
        " 4711  4712 Dl   compac 1000     20 java\n"
    )
    found = read("ps", text)
    assert [dict(s.values) for s in samples(found, "process")] == [{"process_resident_memory_bytes": 1024000}]
    assert [f.label("tid") for f in found if isinstance(f, Fact) and f.name == "process.wchan"] == [None, "4712"]


def test_the_first_frame_of_top_says_nothing_about_cpu() -> None:
    """It is an average since boot in old versions, an instant in new ones; memory of it is current."""
    for case in ("batch", "rhel6"):
        rows = samples(read("top", (FIXTURES / f"top/{case}/top.txt").read_text()))
        assert [row.since_boot for row in rows][:3] == [True, False, False]
        assert "node_memory_MemFree_bytes" in rows[1].values
        assert "cpu_ratio.busy" not in rows[1].values


def test_top_over_midnight_and_its_generations() -> None:
    """The clock wraps; `93.6%sy`, `1.2g` and `11872` percent are read."""
    found = read("top", (FIXTURES / "top/rhel6/top.txt").read_text())
    last = samples(found)[-1]
    assert last.time == Moment(86400 + 3, Clock.DAY)
    assert last.values["cpu_ratio.sys_total"] == pytest.approx(0.937)
    assert last.values["node_memory_MemTotal_bytes"] == 98953456 * 1024
    java = next(s for s in reversed(samples(found, "process")) if ("comm", "java") in s.entity)
    assert java.values["process_cpu_ratio"] == pytest.approx(11.872)
    assert java.values["process_resident_memory_bytes"] == pytest.approx(1.2 * GIB)
    assert (
        next(f.value for f in found if isinstance(f, Fact) and f.name == "uptime.seconds")
        == 10 * 86400 + 3 * 3600 + 240
    )


def test_top_in_german_with_decimal_commas() -> None:
    """`%CPU(s):100,0 us,  0,0 sy`, `MiB Spch:` and `BEFEHL`."""
    text = (
        "top - 03:42:48 up  1:18,  2 Benutzer,  Durchschnittslast: 0,05, 0,10, 0,15\n"
        "Tasks:  90 gesamt,   1 laufend,  89 schlafend,   0 gestoppt,   0 Zombie\n"
        "%CPU(s): 12,5 us, 80,5 sy,  0,0 ni,  7,0 id,  0,0 wa,  0,0 hi,  0,0 si,  0,0 st\n"
        "MiB Spch:  24105,6 gesamt,  23666,7 frei,    415,3 belegt,    277,9 Puff/Cache\n"
        "MiB Ausl:   1024,0 gesamt,   1024,0 frei,      0,0 belegt.  23690,3 verf. Spch\n\n"
        "  PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     ZEIT+ BEFEHL\n"
        " 4711 user      20   0    1,2g   500m   9216 S  93,3   0,9   0:58,72 java\n"
    )
    found = read("top", text)
    assert samples(found)[0].values["cpu_ratio.system"] == pytest.approx(0.805)
    assert samples(found)[0].values["node_memory_MemTotal_bytes"] == pytest.approx(24105.6 * 2**20)
    assert samples(found)[0].values["node_memory_SwapTotal_bytes"] == 2**30
    assert samples(found, "process")[0].values["process_cpu_seconds_total"] == pytest.approx(58.72)
    assert problems(found) == []


def test_minor_faults_of_pidstat() -> None:
    """Rates per second with their quantum; -1.00 is not available, not a rate."""
    rows = samples(read("pidstat", (FIXTURES / "pidstat/rhel7/pidstat.txt").read_text()), "process")
    mero = [row for row in rows if ("comm", "mero") in row.entity]
    assert column(mero, "process_minor_faults_total:rate") == [412.5, 410.0]
    assert mero[0].resolution["process_minor_faults_total:rate"] == pytest.approx(0.01)
    assert seconds(mero) == [1646859221, 1646859231]
    assert not any("process_minor_faults_total:rate" in row.values for row in rows if row not in mero)


@pytest.mark.parametrize(
    ("total", "free", "size"),
    [
        (25276510208, 22723657728, 25276510208),  # -b
        (24684092, 22190880, 24684092 * 1024),
        (25276510, 22723657, None),  # --kilo
        (24105, 21672, None),  # -m
    ],
)
def test_the_unit_of_free(total: int, free: int, size: float | None) -> None:
    """Whole pages are bytes, not KiB; what is neither is not used."""
    head = "               total        used        free      shared  buff/cache   available\n"
    row = f"Mem:  {total} {total - free} {free} 0 0 {free}\n"
    assert [s.values["node_memory_MemTotal_bytes"] for s in samples(read("free", head + row))] == [size] * bool(size)


@pytest.mark.parametrize(
    ("printed", "comm"),
    [
        ("./load 600 12 1", "load"),
        ("../bin/load 600", "load"),
        ("load", "load"),
        ("Socket Thread", "Socket Thread"),
        ("kworker/0:1-mm_percpu_wq", "kworker/0:1-mm_percpu_wq"),
        ("postgres: writer process", "postgres"),
    ],
)
def test_command_lines_of_pidstat(printed: str, comm: str) -> None:
    """pidstat -l prints command lines: the process has its task name all the same."""
    head = "Linux 5.14.0 (node1) \t2026-11-20 \t_x86_64_\t(2 CPU)\n\n"
    names = "11:42:57      UID       PID  minflt/s  majflt/s     VSZ     RSS   %MEM  Command\n"
    rows = samples(
        read(
            "pidstat",
            f"{head}{names}11:42:58        0     28463    200.00      0.00  618792  451756   1.83  {printed}\n",
        ),
        "process",
    )
    assert [dict(row.entity)["comm"] for row in rows] == [comm]


def test_pidstat_with_units_and_without_an_interval() -> None:
    """--human prints `258.3M` and `2.8%`; the one report of a run without interval is an average."""
    row = samples(read("pidstat", (FIXTURES / "pidstat/human/pidstat.txt").read_text()), "process")[0]
    assert row.since_boot
    assert row.values["process_virtual_memory_bytes"] == pytest.approx(258.3 * 2**20)
    assert row.values["process_cpu_ratio.system"] == pytest.approx(0.028)


def test_a_twelve_hour_clock_over_midnight() -> None:
    """11:59:59 PM is followed by 12:00:01 AM of the next day; the date beside AM and PM is month first."""
    rows = samples(read("mpstat", (FIXTURES / "mpstat/twelve-hour/mpstat.txt").read_text()))
    assert seconds(rows) == [1422748799, 1422748801]
    assert rows[0].values["cpu_ratio.softirq"] == pytest.approx(0.085)
    assert rows[0].values["cpu_ratio.sys_total"] == pytest.approx(0.29)
    assert rows[0].values["cpu_ratio.steal"] == pytest.approx(0.02)


def test_a_date_that_could_be_two_days_is_not_guessed() -> None:
    """`03/09/2022` with a 24-hour clock is March or September: the time stays without a date."""
    text = (FIXTURES / "pidstat/tables/pidstat.txt").read_text().replace("11/20/26", "03/09/2022")
    rows = samples(read("pidstat", text), "process")
    assert {row.time.clock for row in rows if row.time} == {Clock.DAY}


def test_times_of_jobs() -> None:
    """bash, zsh and GNU time tell the same three figures, each with the job."""
    for case, real in (("bash", 1.674), ("zsh", 60.12), ("gnu", 0.98), ("gnu-verbose", 0.99)):
        path = next((FIXTURES / f"work_time/{case}").iterdir())
        facts = [r for _, r in blocks(path.read_text()) if isinstance(r, Fact)]
        kinds = {f.label("kind"): f.value for f in facts if f.name == "work.seconds"}
        assert kinds["real"] == pytest.approx(real), case
        assert set(kinds) == {"real", "user", "sys"}
        assert {"./churn" in str(f.label("job")) for f in facts} == {True}


@pytest.mark.parametrize(
    ("file", "reader", "rows"),
    [
        ("procps/centos7-vmstat-a.txt", "vmstat", 1),
        ("procps/centos7-vmstat-at.txt", "vmstat", 4),
        ("procps/centos7-vmstat-w.txt", "vmstat", 1),
        ("procps/ubuntu18-vmstat-1.txt", "vmstat", 37),
        ("procps/vmstat-extra-wide.txt", "vmstat", 1),
        ("procps/centos7-top-b-n3.txt", "top", 3),
        ("procps/ubuntu20-top-b.txt", "top", 1),
        ("procps/centos7-top-gib.txt", "top", 1),
        ("procps/centos7-ps-axu.txt", "ps", 109),
        ("procps/centos7-free-h.txt", "free", 1),
        ("sysstat/centos7-pidstat.txt", "pidstat", 41),
        ("sysstat/centos7-pidstat-h.txt", "pidstat", 36),
        ("sysstat/centos7-mpstat-A.txt", "mpstat", 5),
        ("sysstat/centos7-iostat-x.txt", "iostat", 1),
    ],
)
def test_real_tables_of_others(corpus: Path, file: str, reader: str, rows: int) -> None:
    """Tables that nobody here wrote are claimed by the right reader, whole and without a Problem."""
    found = blocks((corpus / "metrics" / file).read_text())
    assert {name for name, _ in found} == {reader}
    kind = "process" if reader in {"ps", "pidstat"} else "system"
    counted = [s for s in samples((r for _, r in found), kind) if reader != "top" or "node_load1" in s.values]
    assert len(counted) == rows
    problem_texts = [p.text for p in problems(r for _, r in found)]
    assert [text for text in problem_texts if "never change" not in text] == []


def test_dstat_on_a_terminal() -> None:
    """Two groups of one name, units of 1024 and of 1000, and the names of programs that one group shows instead of
    numbers; the first row is an average since the boot."""
    text = (
        "----system---- --total-cpu-usage-- ------memory-usage----- ---system-- -most-expensive-\n"
        "     time     |usr sys idl wai stl| used  free  buff  cach| int   csw |  cpu process\n"
        "11-06 10:22:10| 50   9  41   0   0|41.2G 33.1G  311M 51.2G|  29k  31k|java           82\n"
        "11-06 10:22:11|  8  82  10   0   0|41.2G 33.1G  311M 51.2G|  29k  39k|java           85\n"
        "missed 2 ticks\n"
        "11-06 10:22:14|  8  92   0   0   0|41.2G 33.0G  311M 51.2G|  29k  40k|worker 7       85\n"
    )
    found = samples(read("dstat_table", text), "system")
    first, *rows = [row for row in found if "cpu_ratio.sys_total" in row.values]
    assert first.since_boot
    assert column(rows, "cpu_ratio.sys_total") == [0.82, 0.92]
    assert column(rows, "node_context_switches_total:rate") == [39000, 40000]
    assert column(rows, "node_memory_MemFree_bytes") == pytest.approx([33.1 * 2**30, 33.0 * 2**30])
    assert rows[0].resolution["node_memory_MemFree_bytes"] == pytest.approx(0.1 * 2**30)
    assert [row.time.clock for row in rows if row.time] == [Clock.DAY, Clock.DAY]
    assert seconds(rows) == [37331, 37334]
