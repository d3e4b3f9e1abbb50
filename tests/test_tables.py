"""What the readers of tables say about their input: shares, clocks, units, truncation, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import pytest

from conftest import ROOT
from thpdiag.model import Clock, Fact, Moment, Problem, Record, Sample
from thpdiag.reader import Source
from thpdiag.readers import all_readers
from thpdiag.recognise import Recogniser

FIXTURES = ROOT / "fixtures" / "readers"
TABLES = (
    "vmstat", "vmstat_stats", "collectl_text", "collectl_verbose", "ps", "top", "pidstat", "mpstat", "iostat", "free",
    "work_time",
)  # fmt: skip
READERS = {reader.name: reader for reader in all_readers()}
GIB = 2**30
VMSTAT = """\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
"""


def read(reader: str, text: str, command: str = "", time: Moment | None = None) -> list[Record]:
    """Records of a text given to one reader."""
    source = Source("table.txt", command=command, time=time)
    return list(READERS[reader].read(source, enumerate(text.splitlines(), 1)))


def blocks(text: str) -> list[tuple[str, Record]]:
    """Records of a text as the recogniser splits it, each with its reader."""
    recogniser = Recogniser(all_readers(), strict="yes")
    return [(r.reader, r.record) for r in recogniser.read("ticket.txt", enumerate(text.splitlines(), 1))]


def samples(records: Iterable[Record], kind: str = "system") -> list[Sample]:
    return [r for r in records if isinstance(r, Sample) and r.kind == kind]


def problems(records: Iterable[Record]) -> list[Problem]:
    return [r for r in records if isinstance(r, Problem)]


def column(rows: Sequence[Sample], name: str) -> list[float]:
    return [row.values[name] for row in rows]


def seconds(rows: Sequence[Sample]) -> list[float]:
    return [row.time.seconds for row in rows if row.time]


def collectl(rows: Iterable[tuple[int, int]], clock: str = "10:33") -> str:
    """A table of collectl -scm -oT with these cpu and sys columns."""
    lines = [
        f"{clock}:{2 * i:02} {cpu:4} {sys:3} 46083   6964  24G 324M  61G  60G 563M  25G"
        for i, (cpu, sys) in enumerate(rows)
    ]
    head = (
        "#         <----CPU[HYPER]-----><-----------Memory----------->\n"
        "#Time     cpu sys inter  ctxsw Free Buff Cach Inac Slab  Map\n"
    )
    return f"waiting for 2 second sample...\n{head}" + "\n".join(lines) + "\n"


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


def test_only_the_first_row_of_vmstat_is_since_boot() -> None:
    """The first row is an average since boot and must not be taken for the present."""
    rows = samples(read("vmstat", (FIXTURES / "vmstat/interval/vmstat.txt").read_text()))
    assert [row.since_boot for row in rows] == [True] + [False] * 7


def test_vmstat_without_the_first_report_has_no_row_since_boot() -> None:
    """`vmstat -y` leaves that row out."""
    text = (FIXTURES / "vmstat/interval/vmstat.txt").read_text()
    assert not any(row.since_boot for row in samples(read("vmstat", text, "vmstat -y 1 8")))


def test_a_repeated_header_is_no_new_run_but_an_early_one_is() -> None:
    """A screenful ends with a header; two runs pasted together have one as well, only sooner."""
    row = " 2  0      0 241712 311900 907128    0    0    12   340 1021 2204 71 24  5  0  0\n"
    rows = samples(read("vmstat", VMSTAT + row * 21 + VMSTAT + row * 21 + VMSTAT + row * 3 + VMSTAT + row))
    assert [i for i, r in enumerate(rows) if r.since_boot] == [0, 45]


def test_vmstat_rows_get_times_from_the_interval_that_was_typed() -> None:
    """Without -t a row has no time; the command tells how far they are apart."""
    text = (FIXTURES / "vmstat/interval/vmstat.txt").read_text()
    start = Moment(1000.0, Clock.UTC)
    assert seconds(samples(read("vmstat", text, "vmstat -n 5 60", start)))[:3] == [1000, 1005, 1010]
    assert seconds(samples(read("vmstat", text, "", start))) == []


def test_a_unit_of_vmstat_that_nobody_told_is_not_guessed() -> None:
    """Numbers of -S M are no multiples of a page in KiB: they are used only where the command is known."""
    text = "\n".join((FIXTURES / "vmstat/megabytes/session.txt").read_text().splitlines()[1:-1])
    unknown = read("vmstat", text)
    assert "node_memory_MemFree_bytes" not in samples(unknown)[0].values
    assert "cpu_ratio.sys_total" in samples(unknown)[0].values
    assert "unit" in problems(unknown)[0].text
    known = samples(read("vmstat", text, "vmstat -S M -n 1 4"))
    assert known[0].values["node_memory_MemFree_bytes"] == 18990 * 2**20


def test_memory_columns_that_never_change_are_not_believed() -> None:
    """procps 4.0.0 to 4.0.2 show the first value for ever."""
    found = read("vmstat", (FIXTURES / "vmstat/frozen/vmstat.txt").read_text())
    with_memory = [row for row in samples(found) if "node_memory_MemFree_bytes" in row.values]
    assert len(samples(found)) == 30
    assert len(with_memory) == 1
    assert "never change" in problems(found)[0].text


def test_memory_that_changes_late_is_kept_from_the_start() -> None:
    """A host at rest may have the same free memory for a minute; the first change proves the columns live."""
    row = " 2  0      0 {} 311900 907128    0    0    12   340 1021 {} 71 24  5  0  0"
    text = VMSTAT + "\n".join(row.format(241712 if i < 29 else 241708, 2204 + i) for i in range(30))
    found = read("vmstat", text)
    assert len([r for r in samples(found) if "node_memory_MemFree_bytes" in r.values]) == 30
    assert problems(found) == []


def test_german_words_in_the_header_of_vmstat() -> None:
    """Words are translated, the order of columns is not."""
    rows = samples(read("vmstat", (FIXTURES / "vmstat/german/vmstat.txt").read_text()))
    assert rows[1].values["node_memory_MemFree_bytes"] == 18209236 * 1024
    assert rows[1].values["vmstat_cache_bytes"] == 850816 * 1024


def test_vmstat_that_lost_its_blanks_and_first_header_line() -> None:
    """Tickets arrive with runs of blanks collapsed."""
    text = "r b swpd free buff cache si so bi bo in cs us sy id wa\n1 0 0 241712 311900 907128 0 0 0 0 1 2 10 90 0 0\n"
    rows = [r for name, r in blocks(f"Dear support,\n\n{text}\nkind regards") if name == "vmstat"]
    assert len(rows) == 1
    assert samples(rows)[0].values["cpu_ratio.sys_share"] == 0.9
    assert "cpu_ratio.steal" not in samples(rows)[0].values


def test_guests_count_as_busy_where_they_have_a_column() -> None:
    """Since 4.0.4 guest time is no longer part of us; a host of virtual machines is not idle."""
    rows = samples(read("vmstat", (FIXTURES / "vmstat/guest-column/vmstat.txt").read_text()))
    assert rows[1].values["cpu_ratio.busy"] == pytest.approx(0.79)
    assert rows[1].values["cpu_ratio.user_total"] == pytest.approx(0.70)


@pytest.mark.parametrize(
    ("bad", "lost"),
    [
        ("1 0 0 -4 311900 907128 0 0 0 0 1 2 10 85 5 0 0", "node_memory_MemFree_bytes"),
        ("1 0 0 241712 311900 907128 0 18446744073709551615 0 0 1 2 10 85 5 0 0", "swap_out_bytes:rate"),
        ("1 0 0 241712 311900 907128 0 0 0 0 1 2 -10 85 5 0 0", "cpu_ratio.user_total"),
        ("1 0 0 241712 311900 907128 0 0 0 0 1 2 900 85 5 0 0", "cpu_ratio.sys_total"),
    ],
)
def test_impossible_numbers_become_problems_not_values(bad: str, lost: str) -> None:
    """The rest of the row is kept."""
    good = "1 0 0 241708 311900 907128 0 0 0 0 1 2 10 85 5 0 0\n"
    found = read("vmstat", VMSTAT + good * 2 + bad + "\n")
    assert len(problems(found)) == 1
    assert lost not in samples(found)[2].values
    assert samples(found)[2].values["node_procs_running"] == 1


def test_joined_columns_are_a_problem_not_a_shifted_row() -> None:
    """A row with fewer cells than the header is left out: nobody knows which two were joined."""
    good = "1 0 0 241708 311900 907128 0 0 0 0 1 2 10 85 5 0 0\n"
    found = read("vmstat", VMSTAT + good + "1 0 0 241708311900 907128 0 0 0 0 1 2 10 85 5 0 0\n" * 2)
    assert len(samples(found)) == 1
    assert [p.count for p in problems(found)] == [2]


@pytest.mark.parametrize(
    "text",
    [
        "disk- ------------reads------------ ------------writes----------- -----IO------\n"
        "       total merged sectors      ms  total merged sectors      ms    cur    sec\n"
        "vda     1525    100  841035    8395  50851   5502 1648657  146540      0     44\n",
        "Cache                       Num  Total   Size  Pages\nnsproxy                     292    292     56     73\n",
    ],
)
def test_other_tables_of_vmstat_are_known_and_hold_nothing(text: str) -> None:
    """-d and -m have no use here, and no row of theirs is odd."""
    assert [record for _, record in blocks(text)] == []


def test_tables_like_story_1_give_its_means() -> None:
    """cpu is the total and contains sys: the shares of the story come out of the two columns."""
    never = [(76, 5)] * 20 + [(75, 6), (77, 6)]
    always = [(94, 66)] * 15 + [(95, 68)] * 5 + [(95, 66), (95, 67)]
    for table, sys_mean, share in ((never, 0.051, 0.067), (always, 0.665, 0.705)):
        rows = samples(read("collectl_text", collectl(table)))
        assert len(rows) == 22
        assert fmean(column(rows, "cpu_ratio.sys_total_steal")) == pytest.approx(sys_mean, abs=0.001)
        total = sum(column(rows, "cpu_ratio.sys_total_steal")) / sum(column(rows, "cpu_ratio.busy"))
        assert total == pytest.approx(share, abs=0.001)
        user = fmean(column(rows, "cpu_ratio.user_total"))
        assert user == pytest.approx(fmean(column(rows, "cpu_ratio.busy")) - sys_mean, abs=0.001)


def test_the_tables_of_story_1_as_published(stories: Path) -> None:
    """The text as it stands, banners eaten or not: two blocks with the published means."""
    text = (stories / "1-hadoop-centos62.txt").read_text()
    rows = samples(record for name, record in blocks(text) if name == "collectl_text")
    assert len(rows) == 44
    for table, sys_mean, share in ((rows[:22], 0.051, 0.067), (rows[22:], 0.665, 0.705)):
        assert fmean(column(table, "cpu_ratio.sys_total_steal")) == pytest.approx(sys_mean, abs=0.001)
        total = sum(column(table, "cpu_ratio.sys_total_steal")) / sum(column(table, "cpu_ratio.busy"))
        assert total == pytest.approx(share, abs=0.001)
    assert seconds(rows[:2]) == [10 * 3600 + 33 * 60 + 8, 10 * 3600 + 33 * 60 + 10]


def test_a_cut_number_carries_the_size_of_its_unit() -> None:
    """`24G` may be anything from 24 up to 25 GiB."""
    row = samples(read("collectl_text", collectl([(84, 4)])))[0]
    assert row.values["node_memory_MemFree_bytes"] == 24 * GIB
    assert row.resolution["node_memory_MemFree_bytes"] == GIB
    assert row.resolution["node_memory_Slab_bytes"] == 2**20


def test_fractions_of_collectl_are_finer() -> None:
    """-oG prints `9.4G`, -og `9g37`."""
    text = collectl([(84, 4)])
    row = samples(read("collectl_text", text.replace(" 24G", "9.4G")))[0]
    assert row.values["node_memory_MemFree_bytes"] == pytest.approx(9.4 * GIB)
    assert row.resolution["node_memory_MemFree_bytes"] == pytest.approx(GIB / 10)
    row = samples(read("collectl_text", text.replace(" 24G", "9g37")))[0]
    assert row.values["node_memory_MemFree_bytes"] == pytest.approx(9.37 * GIB)


def test_fragments_stand_for_ranges() -> None:
    """One sign per order: digits are exact, letters are the lower end of tens, hundreds, thousands."""
    table = "#<--Memory-->\n#  Fragments\n 0a9ijrstz00\n"
    zone = samples(read("collectl_text", table), "zone")[0]
    expected = [0, 10, 9, 90, 100, 900, 1e3, 1e4, 1e10, 0, 0]
    assert [zone.values[f"node_buddyinfo_blocks_order{i}"] for i in range(11)] == expected
    assert zone.resolution["node_buddyinfo_blocks_order4"] == 100


def test_collectl_over_midnight_goes_on_counting() -> None:
    """Clock times without a date grow beyond a day."""
    rows = samples(r for _, r in blocks((FIXTURES / "collectl_text/eaten-banner/ticket.txt").read_text()))
    assert [b - a for a, b in pairwise(seconds(rows))] == [2, 2]
    assert {row.time.clock for row in rows if row.time} == {Clock.DAY}


def test_collectl_without_times_counts_from_the_start_of_the_command() -> None:
    """The first row comes one interval after the date above."""
    records = [r for _, r in blocks((FIXTURES / "collectl_text/wide/session.txt").read_text())]
    rows = samples(records)
    assert [b - a for a, b in pairwise(seconds(rows))] == [1, 1]
    assert {row.time.clock for row in rows if row.time} == {Clock.UTC}


def test_two_collectl_tables_and_prose_stay_apart() -> None:
    """The words between and after the tables are no rows."""
    text = f"before\n{collectl([(80, 5)])}\nThen 2 hours later:\n{collectl([(99, 90)])}That was 3 times slower.\n"
    assert problems(record for _, record in blocks(text)) == []
    assert column(samples(r for _, r in blocks(text)), "cpu_ratio.busy") == [0.8, 0.99]


def test_impossible_cpu_columns_of_collectl() -> None:
    """More kernel time than CPU time, or more than everything, is no share."""
    found = read("collectl_text", collectl([(10, 90), (900, 5), (50, 5)]))
    assert [("cpu_ratio.busy" in row.values) for row in samples(found)] == [False, False, True]
    assert problems(found)[0].count == 2


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
