"""A long recording of vmstat, whose plain rows are taken as arrays, says what the same rows say one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from conftest import ROOT
from parse_bytes import member
from thpdiag.detect import Detector
from thpdiag.model import Clock, Problem, ProblemKind, Record, Sample, Series
from thpdiag.model.parser import Content, Foreign, Source
from thpdiag.parsers import all_parsers, vmstat
from thpdiag.parsers.vmstat import BULK_PARSER

VMSTAT_ONLY = Detector([parser for parser in all_parsers() if parser.name == "vmstat"], strict=True)
FIXTURES = sorted(f for f in (ROOT / "fixtures/readers/vmstat").glob("*/*.txt"))
BANNER = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----"
HEADER = " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st"
ROW = " 2  0      0 {} 311900 907128    0    0    12   340 1021 {} 71 24  5  0  0"
START = datetime(2026, 11, 20, 23, 59, 30, tzinfo=UTC)


def rows(count: int, *, timed: bool = False, first: int = 0) -> list[str]:
    """Rows that differ, seconds apart."""
    found = [ROW.format(24_171_200 + 4 * (i % 50), 2000 + i % 90) for i in range(first, first + count)]
    if timed:
        found = [f"{row} {START + timedelta(seconds=i):%Y-%m-%d %H:%M:%S}" for i, row in enumerate(found, first)]
    return found


def recording(count: int, screen: int = 21, zone: str = "") -> list[str]:
    """A whole recording, its header before every screenful."""
    head = [BANNER + " -----timestamp-----" * bool(zone), HEADER + f"                 {zone}" * bool(zone)]
    every = rows(count, timed=bool(zone))
    return [line for at in range(0, count, screen) for line in (*head, *every[at : at + screen])]


def records(data: bytes, command: str = "", size: int = 1 << 16) -> Iterator[Record | Foreign]:
    chunks = (data[at : at + size] for at in range(0, len(data), size))
    return BULK_PARSER.read(Source("vmstat.txt", command=command), Content(chunks, len(data)))


def canonical(found: Iterable[Record]) -> tuple[list[object], list[object]]:
    """Rows in the order of their lines, and problems."""
    rows: list[Sample] = []
    for record in found:
        rows += record if isinstance(record, Series) else [record] if isinstance(record, Sample) else []
    odd = [(r.text, r.cite.line, r.cite.text, r.count) for r in found if isinstance(r, Problem)]
    rows.sort(key=lambda row: row.cite.line or 0)
    return [(r.cite, r.time, r.since_boot, r.values, {n: r.resolution.get(n) for n in r.values}) for r in rows], sorted(
        odd, key=str
    )


def by_lines(data: bytes) -> tuple[list[object], list[object]]:
    """As rows of a session."""
    read = VMSTAT_ONLY.read("vmstat.txt", member(data, "vmstat.txt").lines(), "")
    return canonical([r.record for r in read if r.reader == "vmstat"])


def in_bulk(data: bytes) -> tuple[list[object], list[object]]:
    """As a whole member; what it leaves to other parsers is read as a session."""
    found: list[Record] = []
    for record in records(data):
        if isinstance(record, Foreign):
            found += [r.record for r in VMSTAT_ONLY.read("vmstat.txt", record.lines) if r.reader == "vmstat"]
        else:
            found.append(record)
    return canonical(found)


def same(lines: list[str] | bytes) -> None:
    data = lines if isinstance(lines, bytes) else ("\n".join(lines) + "\n").encode()
    assert in_bulk(data) == by_lines(data)


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda f: f.parent.name)
@pytest.mark.parametrize("times", [1, 40])
def test_a_fixture_reads_the_same(fixture: Path, times: int) -> None:
    """Once, and repeated as by a loop that appends to one file; what stands before a prompt is not for bulk."""
    data = fixture.read_bytes()
    kept = b"\n".join(line for line in data.splitlines() if not line.startswith(b"[")) + b"\n"
    assert by_lines(kept * times)[0]
    same(kept * times)


@pytest.mark.parametrize("zone", ["", "UTC", "CET"])
@pytest.mark.parametrize("screen", [9, 10, 21, 500])
def test_a_recording_with_repeated_headers_reads_the_same(zone: str, screen: int) -> None:
    """A header every screenful, with and without times, over midnight."""
    lines = recording(300, screen, zone)
    same(lines)
    found = [r for r in records("\n".join(lines).encode()) if isinstance(r, Series)]
    assert [len(r) for r in found] == [300]
    assert found[0].clock is {"": None, "UTC": Clock.UTC, "CET": Clock.LOCAL}[zone]


VARIANTS = {
    "two runs": recording(60) + recording(60),
    "two runs apart": [*recording(60), "", *recording(30)],
    "run without header": [BANNER, *rows(5), HEADER, *rows(5)],
    "summer time": recording(63, zone="CEST") + recording(63, zone="CET"),
    "from GMT to BST": recording(63, zone="BST") + recording(63, zone="GMT"),
    "inactive memory": [line.replace("buff  cache", "inact active") for line in recording(100)],
    "other columns later": recording(42) + [line.replace("buff  cache", "inact active") for line in recording(42)],
    "gu": [line + " gu" if "swpd" in line else line + " 0" if "0" in line else line for line in recording(99)],
    "without st": [line[: line.rindex(" ")].removesuffix("wa st") for line in recording(99)],
    "lines ends of Windows": [line + "\r" for line in recording(99)],
    "tabs": [line.replace("    ", "\t") + "\t" for line in recording(99)],
    "megabytes": [line.replace("24171", "2417").replace(" 311900", " 311") for line in recording(60)],
    "frozen": [BANNER, HEADER] + [ROW.format(24_171_200, 2000 + i) for i in range(50)],
    "at rest": [BANNER, HEADER] + [ROW.format(24_171_200, 2000) for i in range(50)],
    "negative": [line.replace("24171244", "-4") for line in recording(99)],
    "no 100 %": [line.replace(" 71 24 ", "171 24 ") if "2011" in line else line for line in recording(99)],
    "joined": [line.replace(" 311900", "311900") if "2011" in line else line for line in recording(99)],
    "too large": [line.replace("1021", "18446744073709551615") if "2011" in line else line for line in recording(99)],
    "zeros before it": [line.replace("1021", "0" * 20 + "7") if "2011" in line else line for line in recording(99)],
    "a word": [*recording(99)[:30], "Broadcast message from root: going down", *recording(99)[30:]],
    "words": [*recording(99)[:30], "a word", "and another", *recording(99)[30:]],
    "a date": [*recording(99)[:30], "Fri Nov 20 10:01:55 UTC 2026", *recording(99)[30:]],
    "an empty line": [*recording(99)[:30], "", *recording(99)[30:]],
    "a table of disks": [
        *recording(99),
        "disk- ------------reads------------ ------------writes-----------",
        "sda 1 2",
    ],
    "no time": [line.replace("23:59:40", "23:61:40") for line in recording(99, zone="CET")],
    "no day": [line.replace("2026-11-21", "2026-11-31") for line in recording(99, zone="CET")],
    "zone in the row": [line + " CET" if line.endswith(("5", "6")) else line for line in recording(99, zone=" ")],
    "time on some rows": recording(42) + recording(42, zone="CET"),
    "longer fraction": [line + ".5" if line.endswith("55") else line for line in recording(99, zone="CET")],
    "escape": [line.replace(" 71", " \x1b[1m71\x1b[0m") if "2011" in line else line for line in recording(99)],
    "NUL": [line.replace(" 71", " \x0071") if "2011" in line else line for line in recording(99)],
    "carriage return": [line + "\r" + line if "2011" in line else line for line in recording(99)],
    "sign": [line.replace(" 1021", " +1021") if "2011" in line else line for line in recording(99)],
    "uneven screens": [*recording(21), *recording(30), *recording(12), *recording(60, 15)],
    "only a header": [BANNER, HEADER],
    "word of a header in a row": [*recording(30), " r b swpd free buff cache si so bi bo in cs us sy id wa st x y z"],
}


@pytest.mark.parametrize("name", VARIANTS)
def test_what_may_befall_a_recording_reads_the_same(name: str) -> None:
    """Runs, units, languages, times, damage."""
    same(VARIANTS[name])


def test_a_recording_without_a_last_line_end_reads_the_same() -> None:
    """And one that was cut within a number."""
    data = "\n".join(recording(100, zone="UTC")).encode()
    for cut in (0, 1, 5, 30, 60):
        same(data[: len(data) - cut])


def test_citations_hold_no_control_characters() -> None:
    """A line end that became a carriage return joins lines; the note on frozen memory cites the first of them."""
    frozen = "\n".join(VARIANTS["frozen"]).encode().replace(b"\n", b"\r", 1).replace(b"\n", b"\r", 1)
    found = [record for record in records(BANNER.encode() + b"\n" + frozen) if not isinstance(record, Foreign)]
    texts = [row.cite.text for r in found for row in (r if isinstance(r, Series) else (r,))]
    assert any("never change" in record.text for record in found if isinstance(record, Problem))
    assert all(text.isprintable() for text in texts)


def test_what_is_not_of_vmstat_is_left_to_other_readers() -> None:
    """With its own line numbers."""
    lines = [*recording(42), "", "MemTotal:       24684092 kB", "MemFree:        1468409 kB", "", *recording(42)]
    found = list(records("\n".join(lines).encode()))
    foreign = [r.lines for r in found if isinstance(r, Foreign)]
    assert [[text for _, text in part if text] for part in foreign] == [lines[47:49]]
    assert (48, lines[47]) in foreign[0]
    assert [len(r) for r in found if isinstance(r, Series)] == [84]


def test_the_command_tells_unit_and_first_row() -> None:
    """`vmstat -y -S M`, as a member's path may tell."""
    data = "\n".join([BANNER, HEADER, *(ROW.format(18990 + i, 2204) for i in range(3))]).encode()
    (found,) = (r for r in records(data, "vmstat -y -S M 1") if isinstance(r, Series))
    assert found[0].values["node_memory_MemFree_bytes"] == 18990 * 2**20
    assert not any(sample.since_boot for sample in found)


def test_long_recordings_are_claimed_and_others_are_not() -> None:
    """A megabyte of vmstat; not a session, not one that is short, not another table."""

    def claimed(lines: list[str], size: int = 2 << 20) -> bool:
        return bool(BULK_PARSER.claims("a/vmstat.log", "\n".join(lines).encode()[:65536], size))

    day = recording(1000)
    assert claimed(day)
    assert claimed(["nohup: ignoring input", *day])
    assert claimed(day, 3 << 20)
    assert not claimed(day, 1000)
    assert not claimed(["[root@db1 ~]# vmstat 1", *day])
    assert not claimed([line for row in day for line in (row, "word")])
    assert not claimed(["cpu 1 2 3 4"] * 9000)
    assert not claimed([HEADER, *(["1.5 2.5 3.5"] * 9000)])


def test_a_recording_that_is_too_long_says_up_to_where_it_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line that was not read, and the time of the last row that was."""
    lines = recording(200, zone="UTC")
    data = ("\n".join(lines) + "\n").encode()
    kept = "\n".join(lines[:100])
    monkeypatch.setattr(vmstat, "MAX_BYTES", len(kept) + 30)
    found = list(records(data))
    (problem,) = (record for record in found if isinstance(record, Problem))
    assert (problem.cite.line, problem.kind, problem.hides_data) == (101, ProblemKind.LIMIT, True)
    assert f"100 lines, up to {kept[-19:]} by its clock" in problem.text
    assert f"of {len(data)} were read" in problem.text
    assert sum(len(record) for record in found if isinstance(record, Series)) == 90
