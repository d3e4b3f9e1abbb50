"""Tables and call graphs whose beginning was cut off, or whose header was damaged: not read, and said so."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import ROOT
from thpdiag.host.options import Options
from thpdiag.host.reading import read_input
from thpdiag.model import ProblemKind, Profile

FIXTURES = ROOT / "fixtures"
STORY = FIXTURES / "stories/redis-shop-first-test/bundle/session.txt"
BROWSER = FIXTURES / "recordings/fault-compaction/report-browser-comm.txt"


def remains(tmp_path: Path, lines: list[str]) -> list[tuple[int | None, str]]:
    """The problems of a text, by line."""
    file = tmp_path / "session.txt"
    file.write_text("\n".join(lines), encoding="utf-8")
    found = read_input([file], Options()).problems
    return [(one.cite.line, one.text) for one in found if one.kind is ProblemKind.UNRECOGNISED]


def lines_of(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def sentence(lines: int) -> str:
    return f"{lines} lines belong to tables or call graphs whose beginning is missing or unknown; not read"


def later_rows(count: int) -> list[str]:
    """The last rows of an mpstat, an empty line, and the next header with a few rows."""
    lines = lines_of(STORY)
    header = next(at for at, line in enumerate(lines) if "%usr" in line)
    rows = [line for line in lines[header + 1 : header + 25] if " all " in line]
    return [*rows[-count:], "", lines[header], *rows[:5]]


def test_rows_above_the_first_header(tmp_path: Path) -> None:
    """`tail` of a long mpstat begins in the middle of a screen."""
    assert remains(tmp_path, later_rows(9)) == [(1, sentence(9))]
    assert remains(tmp_path, later_rows(9)[10:]) == []


def test_few_rows_are_no_table(tmp_path: Path) -> None:
    """Four lines of numbers may be anything."""
    assert remains(tmp_path, later_rows(4)) == []


@pytest.mark.parametrize("damage", ["%sys", "%usr"])
def test_rows_below_a_damaged_header(tmp_path: Path, damage: str) -> None:
    """The columns have no names: the rows are of a table, of which nobody can say which."""
    session = lines_of(STORY)
    header = next(at for at, line in enumerate(session) if damage in line)
    rows = sum(" all " in line for line in session[header + 1 : header + 25])
    session[header] = session[header].replace(damage, "\x00\x01")
    assert remains(tmp_path, session) == [(header + 2, sentence(rows))]


def test_a_call_graph_without_its_row(tmp_path: Path) -> None:
    """A copy from the browser that begins in the middle of the first graph."""
    lines = lines_of(BROWSER)
    row = next(at for at, line in enumerate(lines) if at and line[0] in "+-")
    assert remains(tmp_path, lines[100:]) == [(1, sentence(row - 100))]
    assert remains(tmp_path, lines) == []


def test_a_branch_that_stands_twice(tmp_path: Path) -> None:
    """The other branches stay what they are, and the sum that cannot be is said."""
    lines = lines_of(BROWSER)
    branch = next(at for at, line in enumerate(lines) if "copy_mc_enhanced_fast_string" in line and "%" in line)
    chains = []
    for number, text in enumerate((lines, [*lines[:branch], lines[branch], *lines[branch:]])):
        (tmp_path / f"{number}.txt").write_text("\n".join(text), encoding="utf-8")
        found = read_input([tmp_path / f"{number}.txt"], Options())
        (profile,) = [r.record for each in found.readings.values() for r in each if isinstance(r.record, Profile)]
        chains.append(len(profile.chains))
        assert profile.facts["shares"] == "absolute"
        assert ["add up to more than the whole" in one.text for one in found.problems] == [True] * number
    assert chains[1] >= chains[0] > 50


@pytest.mark.parametrize(("rows", "named"), [(9, []), (10, [3])])
def test_figures_in_no_known_format(tmp_path: Path, rows: int, named: list[int]) -> None:
    """Where nothing but sentences was read, a list of some length is named."""
    words = "The host, kernel 4.18.0-553.el8.x86_64, has been slow since Monday."
    found = remains(
        tmp_path, [words, "", *(f"shard-{at} rebuilt {at} of 80 in {at / 3:.2f} s; ok" for at in range(rows))]
    )
    assert [line for line, text in found if "in no known format" in text] == named


DAMAGED = ("\x00\x01", "")  # of a name in the header


@pytest.mark.parametrize("damaged", DAMAGED)
@pytest.mark.parametrize("form", ["alx", "elfL", "columns"])
def test_few_rows_below_a_line_of_names(tmp_path: Path, form: str, damaged: str) -> None:
    """A header that no parser knows any more says that they are rows, even of few processes."""
    (file,) = (FIXTURES / "readers/ps" / form).iterdir()
    lines = lines_of(file)[:5]
    lines[0] = lines[0].replace("PID", damaged)
    assert remains(tmp_path, [*lines, "", *lines_of(STORY)]) == [(2, sentence(len(lines) - 1))]


@pytest.mark.parametrize("names", ["1.5.2     CPU    %usr   %nice    %sys %iowait", "rrqm/s  wrqm/s  \x00 r/s w/s rkB"])
def test_few_rows_below_names_of_sysstat(tmp_path: Path, names: str) -> None:
    """A share or a rate is a column's name also where its letters are small."""
    rows = [f"10:54:3{at}     all   57.50   26.50   1{at}.00    0.00" for at in range(3)]
    assert remains(tmp_path, [names, *rows, "", *lines_of(STORY)]) == [(2, sentence(3))]
    assert remains(tmp_path, ["of what they took:", *rows, "", *lines_of(STORY)]) == []


@pytest.mark.parametrize(("tool", "rows"), [("compactsnoop", 9), ("compactsnoop", 10), ("drsnoop", 12)])
def test_rows_with_words_between_their_numbers(tmp_path: Path, tool: str, rows: int) -> None:
    """A trace without its header: the same words of each line are numbers; nine such lines may be anything."""
    row = {"compactsnoop": "java {0} 0 ZONE_NORMAL 9 ASYNC 1.{0} success", "drsnoop": "{0}.25 java 17491 0.24 50"}[tool]
    trace = [row.format(at) for at in range(rows)]
    found = remains(tmp_path, [*trace, "", *lines_of(STORY)])
    assert found == ([(1, sentence(rows))] if rows >= 10 else [])


def test_messages_with_numbers_are_no_table(tmp_path: Path) -> None:
    """Most of their words are none, and of files that ls lists neither."""
    lines = [f"Nov 29 12:00:{at:02} web app[71]: took {at} ms for {at} rows of 3" for at in range(20)]
    files = [f"-rw-r--r-- 1 root root {at} Nov 29 12:00 file{at}" for at in range(20)]
    assert remains(tmp_path, [*lines, "", *files, "", *lines_of(STORY)]) == []


def test_stacks_without_their_head(tmp_path: Path) -> None:
    """`profile` of bcc whose first line was damaged: its stacks and counts are of nobody knows what."""
    lines = lines_of(FIXTURES / "readers/bcc/profile/out.txt")
    head = next(at for at, line in enumerate(lines) if line.startswith("Sampling at"))
    lines[head] = lines[head].replace("99 Hertz", "\x01\x00")
    ((_, text),) = remains(tmp_path, [*lines_of(STORY), *lines[head:]])
    assert int(text.split()[0]) > 100
