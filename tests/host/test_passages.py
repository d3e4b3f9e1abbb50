"""Which lines of a text a report quotes, and that they are those that an editor shows under their numbers."""

from __future__ import annotations

import pytest

from parse_bytes import member
from thpdiag.bundle import Limits
from thpdiag.bundle.member import LineDamage, number_lines
from thpdiag.host.excerpts import (
    BLOCK_BYTES,
    MAX_SCANNED_LINES,
    find_excerpts,
    line_blocks,
)
from thpdiag.model.facts import Excerpt, ExcerptRequest

LIMIT = Limits().line
VMSTAT = b"""procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 1  0      0 171287  17996 975208    0    0  2774     0  703  972 83 17  0  0  0
 2  0      0 171287  17996 975208    0    0    84     8  795  968 78 22  0  0  0
"""
SCRIPT = b"""hog  7643 [001]  1050.057982:    2500000 cpu-clock:ppp:
\tffffffff815ceeb2 compact_zone+0x52 ([kernel.kallsyms])
\tffffffff815ceeb3 try_to_compact_pages+0x12 ([kernel.kallsyms])

        hog 7643 [001]  1050.067982:    2500000 cpu-clock:ppp: ffffffff815ceeb2 compact_zone
        hog 7643 [001]  1050.077982:    2500000 cpu-clock:ppp: ffffffff815ceeb2 compact_zone
"""
REPORT = b"""# Overhead  Command  Shared Object      Symbol
    34.20%  hog      [kernel.kallsyms]  [k] compact_zone
            |
            ---compact_zone
               try_to_compact_pages

    10.00%  hog      hog                [.] main
"""
SNAPSHOTS = b"""nr_free_pages 5
thp_fault_alloc 7
compact_stall 10
nr_free_pages 4
thp_fault_alloc 8
compact_stall 20
MemTotal:       100 kB
compact_stall 30
"""


def quoted(data: bytes, *wanted: ExcerptRequest) -> list[Excerpt | None]:
    """What is quoted of a text that is read once from its start."""
    given = member(data)
    found = find_excerpts(given.head(), given.chunks_of_lines(), wanted, LIMIT)
    return [found.get(passage) for passage in wanted]


def at(line: int, kind: str = "", *names: str) -> ExcerptRequest:
    return ExcerptRequest("a.txt", line, kind, names)


@pytest.mark.parametrize(
    ("data", "line", "text"),
    [
        pytest.param(b"one\ntwo\nthree\n", 2, "two", id="line feeds"),
        pytest.param(b"one\r\ntwo\r\nthree\r\n", 2, "two", id="of Windows"),
        pytest.param(b"one\rtwo\rthree\r", 2, "two", id="of an old Mac"),
        pytest.param(b"\xef\xbb\xbfone\ntwo\n", 1, "one", id="byte order mark"),
        pytest.param("one\ntwö\n".encode("utf-16"), 2, "twö", id="UTF-16"),
        pytest.param(b"one\n 10 %\r 20 %\r 30 %\nthree\n", 2, " 10 %\r 20 %\r 30 %", id="progress in one line"),
        pytest.param(b"one\nx\x0by\x0cz\xc2\x85\xe2\x80\xa8\n", 2, "x\x0by\x0cz\x85\u2028", id="breaks of other kinds"),
        pytest.param(b"one\n\x1b[31m\xff\xfe red \xc3\xa9\n", 2, "\x1b[31m\\xff\\xfe red é", id="bad bytes"),
        pytest.param(b"one\n<b>two</b>\n", 2, "<b>two</b>", id="HTML"),
        pytest.param(b"one\n> > two\n", 2, "> > two", id="quoted mail"),
        pytest.param(b"one\n\ttwo ", 2, "\ttwo ", id="no line end, blanks"),
    ],
)
def test_a_line_is_quoted_as_it_stands_there(data: bytes, line: int, text: str) -> None:
    """Its number is that of the readers, for which line feeds count; only its end is taken off."""
    assert quoted(data, at(line)) == [Excerpt(line, (text,))]


def test_lines_that_are_not_there() -> None:
    """Behind the end, and a line that came through half."""
    assert quoted(b"one\ntwo\n", at(3), at(2)) == [None, Excerpt(2, ("two",))]
    assert b"".join(line_blocks(b"one\ntw")) == b"one\ntw"


def test_a_long_line_is_cut() -> None:
    """300 characters, the last of which says so."""
    (found,) = quoted(b"x" * 300 + b"\n" + b"y" * 301 + b"\n", at(2))
    assert found == Excerpt(2, ("y" * 299 + "…",))
    assert quoted(b"x" * 300, at(1)) == [Excerpt(1, ("x" * 300,))]


def test_a_row_of_a_table_comes_with_its_columns() -> None:
    """The last line above that has as many words and no number; a table may be prefixed by times, or quoted."""
    head, first, second = VMSTAT.decode().splitlines()[1:]
    assert quoted(VMSTAT, at(3, "cpu"), at(4, "cpu")) == [Excerpt(3, (head, first), 1), Excerpt(4, (head, second), 1)]
    mail = "\n".join(f"> {line}" for line in VMSTAT.decode().splitlines())
    assert quoted(mail.encode(), at(4, "cpu")) == [Excerpt(4, (f"> {head}", f"> {second}"), 1)]


@pytest.mark.parametrize(
    ("text", "line", "heading"),
    [
        pytest.param("11:55:24 AM CPU %usr %idle\n11:55:26 AM all 83.25 16.75\n", 2, 1, id="sar"),
        pytest.param("11:55:24 CPU %usr %idle\nAverage: all 83.25 16.75\n", 2, 1, id="sar, averages"),
        pytest.param("  total used free\nMem: 10 5 5\n", 2, 1, id="free"),
        pytest.param("#Date Time Cpu Sys Ctx\n20261120 10:00:00 1 2 3\n", 2, 1, id="collectl"),
        pytest.param("  PID %CPU COMMAND\n   12 1.5 java -Xmx1g Main\n", 2, 1, id="a command of several words"),
        pytest.param("a b c\n\n1 2 3\n", 3, 0, id="an empty line between"),
        pytest.param("a b c\nthe kernel said so\n1 2 3\n", 3, 0, id="prose between"),
        pytest.param("a b c d\n1 2 3\n", 2, 0, id="other columns"),
        pytest.param("a b c\nx y z\n", 2, 0, id="no row"),
        pytest.param("a b c\n> 1 2 3\n", 2, 0, id="another speaker"),
    ],
)
def test_only_what_names_the_columns_stands_above(text: str, line: int, heading: int) -> None:
    """Better no heading than that of another table."""
    lines = text.splitlines()
    wanted = (lines[heading - 1], lines[line - 1]) if heading else (lines[line - 1],)
    assert quoted(text.encode(), at(line, "cpu")) == [Excerpt(line, wanted, len(wanted) - 1)]


def test_a_sample_comes_with_its_stack() -> None:
    """Up to the empty line; a sample that is one line has no further ones."""
    lines = SCRIPT.decode().splitlines()
    assert quoted(SCRIPT, at(1, "stack"), at(5, "stack")) == [Excerpt(1, tuple(lines[:3])), Excerpt(5, (lines[4],))]


def test_a_deep_stack_is_cut() -> None:
    """Twelve lines, the innermost frames."""
    deep = SCRIPT.splitlines()[0] + b"\n" + b"".join(b"\tffffffff815ceeb2 f%d\n" % n for n in range(40))
    (found,) = quoted(deep, at(1, "stack"))
    assert found is not None
    assert len(found.lines) == 12
    assert found.lines[-1].endswith("f10")


def test_a_row_of_perf_report_comes_with_its_graph() -> None:
    """The graph stands below the row, old versions of perf leave an empty line between."""
    lines = REPORT.decode().splitlines()
    apart = REPORT.replace(b"_zone\n            |\n", b"_zone\n\n            |\n", 1)
    assert quoted(REPORT, at(2, "stack"), at(7, "stack")) == [Excerpt(2, tuple(lines[1:5])), Excerpt(7, (lines[6],))]
    assert quoted(apart, at(2, "stack")) == [Excerpt(2, tuple(lines[1:5]))]


def test_of_a_snapshot_the_rows_that_are_meant_are_quoted() -> None:
    """In the order asked for, from this snapshot and no other one."""
    two = at(1, "counter", "compact_stall", "thp_fault_alloc")
    missing = at(1, "counter", "pgscan_direct")
    assert quoted(SNAPSHOTS, two, at(4, "counter", "compact_stall"), missing) == [
        Excerpt(3, ("compact_stall 10", "thp_fault_alloc 7")),
        Excerpt(6, ("compact_stall 20",)),
        None,
    ]


def test_a_row_of_another_counter_is_not_quoted() -> None:
    """nr_free_pages shows nothing of compact_stall; a setting that is cited by its own row is quoted."""
    assert quoted(SNAPSHOTS, at(1, "counter")) == [None]
    assert quoted(SNAPSHOTS, at(1, "state")) == [Excerpt(1, ("nr_free_pages 5",))]


def test_the_first_row_may_be_the_one_that_is_meant() -> None:
    """Of a file that holds one counter."""
    assert quoted(b"compact_stall 10\n", at(1, "counter", "compact_stall")) == [Excerpt(1, ("compact_stall 10",))]


@pytest.mark.parametrize("kind", ["stack", "cpu"])
def test_far_lines_are_found_by_counting(kind: str) -> None:
    """In a text longer than what is looked at line by line: the same lines as read one by one, across pieces too."""
    row = b"%9d 2 3 4 5 6 7 8\n"
    long = b"a b c d e f g h\n" + b"".join(row % n for n in range(MAX_SCANNED_LINES + 20_000))
    long += SCRIPT
    last = long.count(b"\n") - 5
    edges = {long[:size].count(b"\n") for size in range(BLOCK_BYTES, len(long), BLOCK_BYTES * 7)}
    wanted = [at(line, kind) for line in sorted({2, last, *edges, *(edge + 1 for edge in edges)})]
    plain = dict(number_lines(long[:99], [long], LIMIT, LineDamage()))
    for passage, quote in zip(wanted, quoted(long, *wanted), strict=True):
        assert quote is not None
        assert quote.lines[quote.cited] == plain[passage.line]
        assert quote.line == passage.line
    headed = [quote for quote in quoted(long, *wanted) if quote and len(quote.lines) == 2]
    assert all(quote.line <= MAX_SCANNED_LINES for quote in headed)
    assert bool(headed) == (kind == "cpu")
    assert quoted(long, at(last, "stack")) == [Excerpt(last, tuple(SCRIPT.decode().splitlines()[:3]))]


def test_what_may_go_on_behind_the_end_is_left_out() -> None:
    """Of a text of which only the beginning was kept: it is read again, so that no stack is cut at random."""
    wanted = at(1, "stack")
    assert find_excerpts(SCRIPT, [SCRIPT[:120]], [wanted], LIMIT, is_cut=True) == {}
    assert wanted in find_excerpts(SCRIPT, [SCRIPT[:120]], [wanted], LIMIT)
    assert wanted in find_excerpts(SCRIPT, [SCRIPT], [wanted], LIMIT, is_cut=True)
