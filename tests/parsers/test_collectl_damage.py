"""Damaged recordings of collectl: read as far as they go, and what is lost is said."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectl_files import FIXTURES, ROLLED, growth, intervals, plot, problems, raw
from parse_bytes import faults
from text_damage import mutant
from thpdiag.model import Problem, ProblemKind, Record, Sample, Series
from thpdiag.parsers.collectl import plot as collectl_plot
from thpdiag.parsers.collectl import raw as collectl_raw

COUNT = 2000 if os.environ.get("THPDIAG_PROOF") == "1" else 60
SMALL = settings(
    max_examples=COUNT, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
HEAD, PARTS = intervals(growth())
SHORT = HEAD + b"".join(PARTS[4:10])  # processes in two of them
RECORDINGS = [ROLLED.read_bytes(), SHORT]
PLOTS = [p.read_bytes() for p in sorted((FIXTURES / "collectl_plot" / "files").iterdir())]


def rows(records: list[Record]) -> dict[object, Sample]:
    """By entity and time of a recording; times come once in these."""
    return {
        (one.kind, dict(one.entity).get("pid", one.entity), row.time): row
        for one in records
        if isinstance(one, Series)
        for row in one
    }


@SMALL
@given(st.sampled_from(RECORDINGS), st.integers(0, 1 << 40), st.sampled_from([13, 997, 1 << 16]))
def test_any_damage_to_a_recording(data: bytes, seed: int, piece: int) -> None:
    """No exception, no number that is none, no line that is not there."""
    damaged = mutant(data, seed)
    assert list(faults(raw(damaged, piece), damaged.count(b"\n") + 1)) == []
    collectl_raw.claims("x.raw", damaged[:65536], len(damaged))


@SMALL
@given(st.sampled_from(PLOTS), st.integers(0, 1 << 40))
def test_any_damage_to_a_plot_file(data: bytes, seed: int) -> None:
    """The same of tables."""
    damaged = mutant(data[:6000], seed)
    assert list(faults(plot(damaged), damaged.count(b"\n") + 1)) == []
    collectl_plot.claims("x.tab", damaged[:65536], len(damaged))


@SMALL
@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    """What is no recording at all says so."""
    for read in (raw, plot):
        found = read(data)
        assert list(faults(found, data.count(b"\n") + 1)) == []
        assert any(isinstance(r, Problem) for r in found)


@SMALL
@given(st.sampled_from(RECORDINGS), st.integers(0))
def test_a_recording_that_was_cut(data: bytes, at: int) -> None:
    """Rows are those of the whole one, the last of an entity with fewer values at most; an end in mid-line is told."""
    at %= len(data)
    whole, found = rows(raw(data)), raw(data[:at])
    for key, row in rows(found).items():
        values = {
            name: value
            for name, value in row.values.items()
            if not name.endswith(("MemTotal_bytes", "resident_memory_bytes"))
        }
        assert values.items() <= whole[key].values.items()
        assert row.cite.line == whole[key].cite.line
    cut = data[at - 1 : at] not in (b"\n", b"")
    told = [p for p in found if isinstance(p, Problem) and p.kind is ProblemKind.DAMAGED and "middle" in p.text]
    assert len(told) == cut


@SMALL
@given(st.integers(0))
def test_a_line_that_is_missing(at: int) -> None:
    """Only its own interval knows less."""
    lines = SHORT.split(b"\n")
    at %= len(lines) - 1
    if lines[at].startswith((b">>>", b"#")):
        return
    whole, found = rows(raw(SHORT)), rows(raw(b"\n".join([*lines[:at], *lines[at + 1 :]])))
    changed = [key for key, row in whole.items() if key not in found or found[key].values != row.values]
    assert len(changed) <= 1
    assert found.keys() <= whole.keys()


@SMALL
@given(st.integers(0), st.sampled_from([b"hello there", b"\xff\xfe", b"Killed", b"{", b"12 34", b"a" * 5000]))
def test_junk_between_lines(at: int, junk: bytes) -> None:
    """Nothing else changes, and it is told."""
    lines = SHORT.split(b"\n")
    first = next(place for place, line in enumerate(lines) if line.startswith(b">>>"))
    at = first + 1 + at % (len(lines) - first - 1)
    found = raw(b"\n".join([*lines[:at], junk, *lines[at:]]))
    assert {k: dict(r.values) for k, r in rows(found).items()} == {
        k: dict(r.values) for k, r in rows(raw(SHORT)).items()
    }
    assert sum(count for _, count in problems(found)) == 1


def test_a_time_that_is_missing_is_noticed() -> None:
    """Two sets of counters under one time: the first is kept, the second counted."""
    for number in range(1, 6):
        parts = list(PARTS[4:10])
        parts[number] = parts[number].partition(b"\n")[2]
        found = raw(HEAD + b"".join(parts))
        assert any("under one time" in text for text, _ in problems(found))


def test_an_endless_line() -> None:
    """Memory stays bounded, and what follows is read."""
    data = SHORT.replace(b"\nload ", b"\n" + b"x" * 3_000_000 + b"\nload ", 1)
    found = raw(data, 1 << 16)
    assert [p.kind for p in found if isinstance(p, Problem)] == [ProblemKind.LIMIT]
    assert len(rows(found)) == len(rows(raw(SHORT)))
    lines = [row.cite.line for row in rows(found).values()]
    assert max(line or 0 for line in lines) <= data.count(b"\n")


@pytest.mark.parametrize(
    ("file", "reader", "host", "problem_count"),
    [
        ("debian_sid_defaults.raw.gz", "collectl_raw", 31, 0),
        ("debian_sid_detailed.raw.gz", "collectl_raw", 31, 0),
        ("missing_instances.raw", "collectl_raw", 2, 0),
        ("some_host.raw", "collectl_raw", 2, 0),
        ("truncated.raw", "collectl_raw", 1, 2),
        ("demo_1123.tab.gz", "collectl_plot", 478, 0),
    ],
)
def test_files_that_nobody_here_wrote(corpus: Path, file: str, reader: str, host: int, problem_count: int) -> None:
    """Claimed by the right reader, with the rows counted by hand."""
    content = (corpus / "metrics" / "collectl" / file).read_bytes()
    data = gzip.decompress(content) if file.endswith(".gz") else content
    bulk = {r.name: r for r in (collectl_raw.BULK_PARSER, collectl_plot.BULK_PARSER)}
    assert [name for name, r in bulk.items() if r.claims(file, data[:65536], len(data))] == [reader]
    found = raw(data) if reader == "collectl_raw" else plot(data)
    assert sum(len(r) for r in found if isinstance(r, Series) and r.kind == "system") == host
    assert sum(count for _, count in problems(found)) == problem_count
