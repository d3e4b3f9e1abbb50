"""Hours of process lists: read as bytes they say what they say block by block, and what is long is kept as columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import ROOT
from parse_bytes import STRICT, alone, faults, member, readings
from text_damage import mutant
from thpdiag.detect import TaggedRecord
from thpdiag.host import reading
from thpdiag.model import Fact, Problem, Record, Sample, Series
from thpdiag.model.parser import BulkParser, Content, Source
from thpdiag.parsers import bulk_parsers
from thpdiag.parsers.processes import ps as ps_frames
from thpdiag.parsers.processes import top as top_frames

ARCHIVE = ROOT / "fixtures" / "collectors" / "oswatcher" / "archive"
FILES = {
    reader.name: next((ARCHIVE / f"osw{reader.name}").iterdir())
    for reader in (ps_frames.PS_FRAMES, top_frames.TOP_FRAMES)
}
LONG = 2 << 20
CASES = [pytest.param(ps_frames.PS_FRAMES, id="ps"), pytest.param(top_frames.TOP_FRAMES, id="top")]
SMALL = settings(
    max_examples=40, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


def changed(path: Path) -> bytes:
    """The file with a damaged row and a changed header in its middle."""
    text = path.read_text()
    at = text.rindex("zzz ")
    wider = text[at:].replace("%CPU  %MEM", "%MEM  %CPU").replace("PRI  NI", "NI PRI")
    return (text[:at] + wider + "\n      7 root\n" + text[text.index("zzz ") :]).encode()


def whole(reader: BulkParser, data: bytes, path: str) -> list[Record]:
    """What a reader of bytes makes of them."""
    records = reader.read(Source(path), Content(iter([data[:5000], data[5000:]]), len(data)))
    return [record for record in records if isinstance(record, Fact | Problem | Series)]


def samples(records: list[Record]) -> list[str]:
    """Rows in words, without their order."""
    rows = [row for r in records for row in (r if isinstance(r, Series) else [r]) if isinstance(row, Sample)]
    return sorted(
        repr((r.kind, r.entity, r.time, sorted((n, float(v)) for n, v in r.values.items()), r.cite, r.since_boot))
        for r in rows
    )


def commands(records: list[Record]) -> set[tuple[object, ...]]:
    return {(r.name, r.value, r.labels) for r in records if isinstance(r, Fact) and r.name.startswith("process.")}


@pytest.mark.parametrize("reader", CASES)
def test_a_long_file_says_what_its_blocks_say(reader: BulkParser) -> None:
    """The same rows, times, lines and commands, also behind another header."""
    path = FILES[reader.name]
    data = changed(path)
    by_block = [reading.record for reading in readings(data, path.name)]
    found = whole(reader, data, path.name)
    assert len(samples(by_block)) > 50
    assert samples(found) == samples(by_block)
    assert commands(found) == commands(by_block)


@pytest.mark.parametrize("reader", CASES)
def test_a_long_file_is_claimed_and_a_short_one_is_not(reader: BulkParser) -> None:
    """By its first lines and its size; by one reader only."""
    path = FILES[reader.name]
    head = path.read_bytes()
    assert [r.name for r in bulk_parsers() if r.claims(path.name, head, LONG)] == [reader.name]
    assert [r.name for r in bulk_parsers() if r.claims(path.name, head, len(head))] == []
    assert [r.name for r in bulk_parsers() if r.claims(path.name, head.replace(b"zzz", b"zz"), LONG)] == []


@pytest.mark.parametrize("reader", CASES)
def test_a_damaged_long_file_is_read_without_a_mistake(reader: BulkParser) -> None:
    """Mutants of the file."""
    path = FILES[reader.name]
    data = path.read_bytes()

    @SMALL
    @given(st.integers(0, 1 << 40))
    def run(seed: int) -> None:
        damaged = mutant(data, seed)
        lines = damaged.count(b"\n") + damaged.count(b"\r") + 1
        assert list(faults(whole(reader, damaged, path.name), lines)) == []

    run()


def test_many_readings_become_columns_and_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number, rows are kept as columns, and a command that is said again is kept once."""
    path = FILES["ps"]
    given_ = readings(path.read_bytes(), path.name)
    assert reading.fold_rows(given_) == given_
    monkeypatch.setattr(reading, "MAX_ROW_NUMBERS", 10)
    kept = reading.fold_rows(given_)
    before, after = ([r.record for r in these] for these in (given_, kept))
    assert samples(after) == samples(before)
    assert any(isinstance(record, Series) for record in after)
    assert commands(after) == commands(before)
    facts = [r for r in after if isinstance(r, Fact)]
    assert len(facts) == len(commands(after)) < len([r for r in before if isinstance(r, Fact)])


@pytest.mark.parametrize("output", ["iostat", "meminfo", "mpstat", "slabinfo", "vmstat"])
def test_outputs_of_a_recorder_become_columns(output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows; what the first line of each report says of the host is kept once, with the first of them."""
    path = next((ARCHIVE / f"osw{output}").iterdir())
    given_ = readings(path.read_bytes() * 2, path.name)
    monkeypatch.setattr(reading, "MAX_ROW_NUMBERS", 10)
    before, after = ([r.record for r in these] for these in (given_, reading.fold_rows(given_)))
    assert samples(after) == samples(before)
    said = [r for r in given_ if isinstance(r.record, Fact) and r.record.name in reading.BANNER_FACTS]
    kept = [
        r for r in reading.fold_rows(given_) if isinstance(r.record, Fact) and r.record.name in reading.BANNER_FACTS
    ]
    words = [(r.record.name, r.record.value, r.group) for r in said if isinstance(r.record, Fact)]
    assert [said[words.index(one)] for one in dict.fromkeys(words)] == kept
    assert len(said) > 2 * len(kept) or output not in ("iostat", "mpstat")


def test_another_name_of_the_host_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of two hosts behind each other: each name is kept where it begins, also the first when it comes again."""
    path = next((ARCHIVE / "oswmpstat").iterdir())
    one = path.read_bytes()
    data = one + one.replace(b"(node1)", b"(node2)") + one
    monkeypatch.setattr(reading, "MAX_ROW_NUMBERS", 10)
    kept = [r for r in reading.fold_rows(readings(data, path.name)) if isinstance(r.record, Fact)]
    names = [str(r.record.value) for r in kept if isinstance(r.record, Fact) and r.record.name == "host.name"]
    assert set(names) == {"node1", "node2"}
    groups = {r.group[1] for r in reading.fold_rows(readings(data, path.name)) if isinstance(r.record, Series)}
    assert groups >= {"node1", "node2"}


def test_columns_stay_with_their_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of two hosts in one text do not meet."""
    monkeypatch.setattr(reading, "MAX_ROW_NUMBERS", 2)
    path = FILES["top"]
    ours = readings(path.read_bytes(), path.name)
    theirs = [TaggedRecord(r.record, r.reader, ("", "other")) for r in ours]
    kept = reading.fold_rows([*ours, *theirs])
    by_group = [samples([r.record for r in kept if r.group == group]) for group in (ours[0].group, ("", "other"))]
    assert by_group[0] == by_group[1] == samples([r.record for r in ours])


TASKS = """\
    45 root      20   0       0      0      0 R  35.5   0.0  99:12.00 kcompactd0
  1000 app       20   0   1.2g   {size}   8000 S   1.4   5.9   0:12.00 /opt/jdk/bin/java -Xmx1g
  {pid} app       20   0    2124    708    600 S   0.4   0.1   0:12.00 sh
"""


def top_text(rows: Sequence[str]) -> bytes:
    """A frame of top for each of these rows."""
    head = (ROOT / "fixtures" / "readers" / "top" / "batch" / "top.txt").read_text().partition("PID USER")[0]
    titles = "PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n"
    return "".join(f"{head}{titles}{row}\n" for row in rows).encode()


@pytest.mark.parametrize(
    "odd", ["", "  77 app  20   0  99999999999999999999999 1 1 S 1.0 1.0 0:01.00 x\n", "  78 app 20 0 7 7 7\n"]
)
def test_rows_that_are_taken_at_once_say_what_single_ones_say(odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of frames in which processes come and go and sizes are rounded, also with a row that does not fit."""
    rows = [TASKS.format(size=size, pid=pid) for size, pid in (("612340", 77), ("1.25g", 78), ("612340", 77))]
    data = top_text([rows[0], rows[1] + odd, rows[2]])
    single = alone(top_frames.TOP, data)
    given_ = readings(data)
    assert samples([r.record for r in given_]) == samples(single)
    assert [r.record for r in given_ if isinstance(r.record, Fact | Problem)] == [
        r for r in single if isinstance(r, Fact | Problem)
    ]
    monkeypatch.setattr(reading, "MAX_ROW_NUMBERS", 10)
    text = member(data)
    listed = [r.record for r in reading.fold_rows(STRICT.read_listings(text.path, text.lines()))]
    assert any(isinstance(record, Series) for record in listed)
    assert samples(listed) == samples(single)
    largest = {name: q for r in single if isinstance(r, Sample) for name, q in sorted(r.resolution.items())}
    java = [r for r in listed if isinstance(r, Series) and ("pid", "1000") in r.entity]
    assert max(r.resolution["process_resident_memory_bytes"] for r in java) == 2**30 / 100
    assert largest.keys() >= java[0].resolution.keys()


LISTED = """\
USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
root          45 12.0  0.0      0     0 ?        S    09:00   0:12 [kcompactd0]
app         1000  1.4  5.9 9363840 3121703 ?     Sl   {start}   1-02:03:04 /opt/jdk/bin/java -Xmx1g
app         {pid}  0.4  0.1   2124   708 pts/0    S+   09:00   0:12 sh -c top | head
"""


@pytest.mark.parametrize(
    "change", [("", ""), ("  0.0      0     0", "  0.0 9e9 -"), (" 1000 ", "   45 "), ("TTY", "WCHAN")]
)
def test_rows_of_ps_that_are_taken_at_once_say_what_single_ones_say(change: tuple[str, str]) -> None:
    """Of listings with a date of two words, an odd number, a process that stands twice, or wait channels."""
    lists = [LISTED.format(start=start, pid=pid) for start, pid in (("09:00", 77), ("Nov 25", 78), ("Nov25", 77))]
    data = "\n".join([lists[0], lists[1].replace(*change), lists[2]]).encode()
    found = [r.record for r in readings(data)]
    single = [record for text in data.split(b"\n\n") for record in alone(ps_frames.PS, text)]
    assert len(samples(single)) >= 8
    texts = [
        sorted(re.sub(r"line=\d+", "", text) for text in [*samples(records), *map(repr, others)])
        for records in (found, single)
        for others in [[r for r in records if isinstance(r, Fact | Problem)]]
    ]
    assert texts[0] == texts[1]
