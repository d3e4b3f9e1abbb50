"""sadf's forms: all say the same, times are what they say, and trees of strangers do no harm."""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import ROOT
from parse_bytes import faults, line_count
from sysstat_rows import by_lines, cells, in_bulk, problems, samples
from text_damage import MUTATIONS, SLOW, mutant
from thpdiag.model import Clock, Event, Fact, Moment, Problem, Record
from thpdiag.model.parser import Foreign
from thpdiag.parsers.sysstat.sadf import BULK_PARSER, PARSER
from thpdiag.parsers.sysstat.sar import PARSER as SAR

FIXTURES = ROOT / "fixtures" / "readers" / "sadf"
BYTE_ORDER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
XML = (FIXTURES / "xml" / "sa20.xml").read_bytes()
JSON = (FIXTURES / "json" / "sa20.json").read_bytes()
ROWS = (FIXTURES / "rows" / "sadf-d.csv").read_bytes()
FILES = {"xml": XML, "json": JSON, "rows": ROWS}
SOME = settings(
    max_examples=150, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
ROWS_OF_PAGING = "# hostname;interval;timestamp;pswpin/s;pswpout/s\n{}\n"


def without_bytes(found: list[Record | Foreign]) -> object:
    """All values but those that need the machine, which rows do not name."""
    return {
        key: {name: v for name, v in values.items() if not name.startswith("swap_")}
        for key, values in cells(found).items()
    }


def records(found: list[Record | Foreign]) -> list[Record]:
    return [record for record in found if not isinstance(record, Foreign)]


def test_all_forms_say_the_same() -> None:
    """Rows, JSON, XML and sar's own text of one file, cell for cell."""
    text = in_bulk(BULK_PARSER, XML)
    sar = by_lines(SAR, (FIXTURES.parent / "sar" / "everything" / "sar.txt").read_bytes())
    assert len(samples(text)) == 78
    assert cells(text) == cells(in_bulk(BULK_PARSER, JSON)) == cells(sar)
    assert without_bytes(text) == cells(by_lines(PARSER, ROWS)) == cells(in_bulk(BULK_PARSER, ROWS))


@pytest.mark.parametrize(("case", "file"), [("one-line", "sadf-dh.csv"), ("awk", "sadf-p.txt"), ("rows", "sadf-d.csv")])
def test_rows_in_bulk_are_the_rows_of_lines(case: str, file: str) -> None:
    """Row for row, whatever the size of the pieces."""
    data = (FIXTURES / case / file).read_bytes()
    expected = samples(by_lines(PARSER, data))
    for piece in (1, 100, 1 << 16):
        assert samples(in_bulk(BULK_PARSER, data, piece=piece)) == expected


@pytest.mark.parametrize("piece", [1, 7, 1000, 1 << 16])
def test_trees_do_not_depend_on_how_they_come(piece: int) -> None:
    """Tokens may be cut anywhere."""
    for data in (XML, JSON):
        assert samples(in_bulk(BULK_PARSER, data, piece=piece)) == samples(in_bulk(BULK_PARSER, data))


@pytest.mark.parametrize("indent", [None, 0, 1, 4])
def test_any_layout_of_json_is_read(indent: int | None) -> None:
    """What jq and other programs make of it."""
    separators = (",", ":") if indent is None else None
    data = json.dumps(json.loads(JSON, parse_float=lambda text: f"<{text}>"), indent=indent, separators=separators)
    plain = re.sub(r'"<([\d.]+)>"', r"\1", data).encode()
    assert BULK_PARSER.claims("x.json", plain[: 1 << 16], len(plain))
    assert cells(in_bulk(BULK_PARSER, plain)) == cells(in_bulk(BULK_PARSER, JSON))
    assert problems(in_bulk(BULK_PARSER, plain)) == []


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        ("2026-11-20 03:35:44 UTC", Moment(1795145744.0, Clock.UTC)),
        ("1795145744", Moment(1795145744.0, Clock.UTC)),
        ("2026-11-20 03:35:44", Moment(1795145744.0, Clock.LOCAL)),
        ("2026-11-20 03:35:44 CET", Moment(1795145744.0, Clock.LOCAL)),
    ],
)
def test_times_say_whether_they_are_utc(stamp: str, time: Moment) -> None:
    """-T and -t give local time, of a zone that is named since 12.7.1 by a word that is ambiguous."""
    rows = samples(by_lines(PARSER, ROWS_OF_PAGING.format(f"web1;600;{stamp};1.00;2.00").encode()))
    assert [row.time for row in rows] == [time]
    assert rows[0].values == {"node_vmstat_pswpin:rate": 1.0, "node_vmstat_pswpout:rate": 2.0}


@pytest.mark.parametrize(("utc", "clock"), [('utc="1" ', Clock.UTC), ('utc="0" ', Clock.LOCAL), ("", Clock.UTC)])
def test_trees_are_utc_unless_they_say_no(utc: str, clock: Clock) -> None:
    """Also DTD 2.5, which has no such attribute."""
    found = samples(in_bulk(BULK_PARSER, XML.replace(b'utc="1" ', utc.encode())))
    assert {row.time.clock for row in found if row.time} == {clock}


def test_a_restart_of_trees_and_rows_is_one_event() -> None:
    """Rows tell it once per table, trees at the end."""
    for case in ("rhel6", "restarts"):
        file = next((FIXTURES / case).iterdir())
        data = file.read_bytes()
        found = in_bulk(BULK_PARSER, data) if file.suffix == ".xml" else by_lines(PARSER, data)
        events = [record for record in found if isinstance(record, Event)]
        assert [(event.kind, event.time) for event in events] == [("restart", Moment(1410496307.0, Clock.UTC))]


def test_several_tables_that_repeat_in_one_row_are_refused() -> None:
    """-dh with CPUs and devices does not tell which cell is whose."""
    head = "# hostname;interval;timestamp;CPU;%user;%nice;%system;%idle[...];DEV;tps[...]\n"
    found = by_lines(PARSER, f"{head}h;1;1795145744;0;1.00;1.00;1.00;97.00;sda;3.00\n".encode())
    assert samples(found) == []
    assert [p.text for p in problems(found)] == ["a row with other columns than its header"]


def test_a_tree_that_ends_early_gives_what_stands_before() -> None:
    """And says so at its last line."""
    for data in (XML, JSON):
        found = in_bulk(BULK_PARSER, data[: len(data) * 2 // 3])
        assert 40 <= len(samples(found)) < 78
        assert [p.kind for p in problems(found)] == ["damaged"]
        assert (problems(found)[0].cite.line or 0) > 20


LAUGHS = b"".join(b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 9) for n in range(1, 30))
HOSTILE = {
    "entities": b'<?xml version="1.0"?><!DOCTYPE sysstat [<!ENTITY a0 "ha">' + LAUGHS + b"]><sysstat>&a29;</sysstat>",
    "outside": b'<!DOCTYPE sysstat [<!ENTITY x SYSTEM "file:///etc/passwd">]><sysstat><a>&x;</a></sysstat>',
    "dtd": b'<!DOCTYPE sysstat [<!ENTITY % x SYSTEM "file:///etc/passwd"> %x;]><sysstat></sysstat>',
    "deep": b"<sysstat>" + b"<a>" * 100_000,
    "long": b"<sysstat><a b='" + b"x" * (5 << 20),
    "json-deep": b'{"sysstat": ' + b"[" * 100_000,
    "json-deep-2": b'{"sysstat": ' + b'{"a":' * 100_000,
    "json-long": b'{"sysstat": {"hosts": [{"nodename": "' + b"x" * (5 << 20),
    "json-number": b'{"sysstat": {"hosts": [{"number-of-cpus": ' + b"9" * (1 << 19) + b', "a": {}}]}}',
    "json-none": b'{"sysstat": ]}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_trees_are_ended(name: str) -> None:
    """Entities, endless nesting and endless tokens end with a word, and nothing of this machine is shown."""
    found = in_bulk(BULK_PARSER, HOSTILE[name], piece=1 << 16)
    assert [p.kind for p in problems(found)] == ["damaged"]
    assert not any(isinstance(record, Fact) and len(str(record.value)) > 255 for record in found)
    assert b"root" not in repr(found).encode()


def test_entities_are_not_left_to_the_parser() -> None:
    """The problem is the declaration, before anything of it is expanded."""
    for name in ("entities", "outside"):
        assert "declares entities" in problems(in_bulk(BULK_PARSER, HOSTILE[name]))[0].text


@SOME
@given(st.sampled_from(sorted(FILES)), st.integers(0, 1 << 40), st.sampled_from([1 << 16, 333]))
def test_damaged_files_are_read_without_a_mistake(name: str, seed: int, piece: int) -> None:
    """No exception, no number that is none, no line that is not there."""
    damaged = mutant(FILES[name][:9000], seed, MUTATIONS if seed % 5 else SLOW)
    if damaged.startswith(BYTE_ORDER_MARKS):  # read line by line
        assert not BULK_PARSER.claims("sar", damaged, len(damaged))
        return
    assert list(faults(records(in_bulk(BULK_PARSER, damaged, piece=piece)), line_count(damaged) + 1)) == []


@SOME
@given(st.one_of(st.binary(max_size=500), st.text(max_size=500).map(str.encode)), st.sampled_from(["xml", "json"]))
def test_any_bytes_behind_a_tree_are_survived(data: bytes, tree: str) -> None:
    """Whatever follows, what stood before is given."""
    found = in_bulk(BULK_PARSER, FILES[tree][:6000] + data)
    assert len(samples(found)) >= 20
    assert all(isinstance(p, Problem) for p in problems(found))


def test_files_of_the_corpus(corpus: Path) -> None:
    """A day of RHEL 6 as DTD 2.5: every timestamp is a row of each table, in UTC."""
    data = (corpus / "metrics" / "sysstat" / "rhel6-sadf-x.xml").read_bytes()
    found = in_bulk(BULK_PARSER, data)
    stamps = data.count(b"<timestamp ")
    assert problems(found) == []
    assert len(cells(found)) == 2 * stamps
    assert {len(v) for k, v in cells(found).items() if k[1] == "system"} == {max(map(len, cells(found).values()))}
    assert {row.time.clock for row in samples(found) if row.time} == {Clock.UTC}
