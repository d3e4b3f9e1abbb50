"""vmstat: which rows count since boot, times, units, languages, and what is refused."""

from __future__ import annotations

import pytest

from conftest import ROOT
from table_parsing import blocks, problems, read, samples, seconds
from thpdiag.model import Clock, Moment

FIXTURES = ROOT / "fixtures" / "readers"
VMSTAT = """\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
"""


def test_only_the_first_row_of_vmstat_is_since_boot() -> None:
    """The first row is an average since boot and must not be taken for the present."""
    rows = samples(read("vmstat", (FIXTURES / "vmstat/interval/vmstat.txt").read_text()))
    assert [row.since_boot for row in rows] == [True] + [False] * 7


def test_vmstat_without_the_first_report_has_no_row_since_boot() -> None:
    """`vmstat -y` leaves that row out."""
    text = (FIXTURES / "vmstat/interval/vmstat.txt").read_text()
    assert not any(row.since_boot for row in samples(read("vmstat", text, "vmstat -y 1 8")))


@pytest.mark.parametrize(
    ("command", "since_boot"),
    [
        ("while true; do vmstat | tail -1; sleep 10; done", [True] * 3), ("while :; do vmstat -n; done", [True] * 3),
        ("for i in 1 2 3; do vmstat 1 2 | tail -1; done", [True, False, False]), ("vmstat 10", [True, False, False]),
    ],
)  # fmt: skip
def test_vmstat_without_a_delay_counts_since_boot_in_each_row(command: str, since_boot: list[bool]) -> None:
    """However often a loop starts it."""
    row = " 2  0      0 241712 311900 907128    0    0    12   340 1021 2204 71 24  5  0  0\n"
    assert [row.since_boot for row in samples(read("vmstat", VMSTAT + row * 3, command))] == since_boot


def test_a_repeated_header_is_no_new_run_but_an_early_one_is() -> None:
    """A screenful ends with a header; two runs pasted together have one as well, only sooner."""
    row = " 2  0      0 241712 311900 907128    0    0    12   340 1021 2204 71 24  5  0  0\n"
    rows = samples(read("vmstat", VMSTAT + row * 21 + VMSTAT + row * 21 + VMSTAT + row * 3 + VMSTAT + row))
    assert [i for i, r in enumerate(rows) if r.since_boot] == [0, 45]


@pytest.mark.parametrize("width", [16, 17, 18])
def test_rows_without_a_header_are_known_by_their_numbers(width: int) -> None:
    """`tail` cut it off. The first may be the average since boot; which memory columns were printed is not known."""
    row = "4 0 0 20068048 13064 877308 0 0 0 8 669 734 22 77 1 0 0 0".rsplit(" ", 18 - width)[0] + "\n"
    found = [record for _, record in blocks(row * 4)]
    assert [sample.since_boot for sample in samples(found)] == [True, False, False, False]
    last = samples(found)[-1].values
    assert (last["cpu_ratio.sys_total"], last["node_memory_MemFree_bytes"]) == (0.77, 20068048 * 1024)
    assert not {"node_memory_Buffers_bytes", "node_memory_Active_bytes"} & last.keys()


@pytest.mark.parametrize(
    "rows",
    [
        ["4 0 0 20068048 13064 877308 0 0 0 8 669 734 22 77 1 0 0"] * 2,  # too few to be sure
        ["4 0 0 20068048 13064 877308 0 0 0 8 669 734 22 47 1 0 0"] * 9,  # 70 % of the time
        ["4 0 0 20068048 13064 877308 0 0 0 8 669 734 22 77 1"] * 9,
        ["4 0 0 20068048 13064 877308 0 0 0 8 669 734 22 77 1 0 0", "1 2 3"] * 5,
    ],
)
def test_other_rows_of_numbers_are_not_of_vmstat(rows: list[str]) -> None:
    """The columns of CPU time must be all of it, in three rows of one width."""
    assert blocks("\n".join(rows)) == []


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
