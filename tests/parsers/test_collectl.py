"""collectl on the terminal: shares, clocks, cut numbers and their resolution."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import pytest

from conftest import ROOT
from table_parsing import GIB, blocks, column, problems, read, samples, seconds
from thpdiag.model import Clock

FIXTURES = ROOT / "fixtures" / "readers"


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
