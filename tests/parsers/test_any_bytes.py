"""Whatever the bytes of a whole member are, a reader of bytes says what it can and what it cannot: no exception, no
number that is none, no line that is not there.

The fixtures of each such reader cut, flipped, spliced, renumbered, in pieces of any size, and bytes that were never
meant for it. By default some dozens per reader; THPDIAG_PROOF=1 and the marker `proof` run the counts of the issue.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import ROOT
from parse_bytes import faults, line_count
from text_damage import CLOCKS, INSERTED, LONG, MUTATIONS, NUMBERS, SLOW, mutant
from thpdiag.model import Record
from thpdiag.model.parser import BulkParser, Content, Foreign, Source
from thpdiag.parsers import bulk_parsers

FIXTURES = ROOT / "fixtures" / "readers"
OWN_TESTS = {"elf_symbols", "kallsyms", "perf_data", "perf_script"}  # have such tests of their own
READERS = tuple(reader for reader in bulk_parsers() if reader.name not in OWN_TESTS)
RECORDS = {"atop_raw", "mongodb_ftdc", "pcp_archive", "sadc", "pprof"}  # these count records, not lines
COUNT = 10_000  # mutants per reader in the proof
LONGEST = 16_000  # bytes of a fixture: what comes later repeats it
PROOF = os.environ.get("THPDIAG_PROOF") == "1"
SMALL = settings(
    max_examples=30 if PROOF else 10,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def members(reader: str) -> list[tuple[str, bytes]]:
    """Path and bytes of the fixtures of a reader, unpacked."""
    folder = FIXTURES / reader
    files = sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.endswith((".golden.json", "ORIGIN.md")))
    found = []
    for file in files:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        found.append(("/".join(("bundle", *file.relative_to(folder).parts[1:])).removesuffix(".gz"), data[:LONGEST]))
    return found


def read(reader: BulkParser, data: bytes, path: str, piece: int) -> list[Record | Foreign]:
    """What a reader makes of bytes that come in pieces."""
    chunks = (data[at : at + piece] for at in range(0, len(data), piece))
    return list(reader.read(Source(path, path=path), Content(chunks, len(data))))


def check(reader: BulkParser, data: bytes, path: str, piece: int = 4096) -> None:
    """The promises of every record."""
    claimed = {other.name for other in READERS if other.claims(path, data[:65536], len(data))}
    found = read(reader, data, path, piece)
    if reader.name in RECORDS:
        lines = len(data)
    elif reader.name in claimed:
        lines = line_count(data)
    else:  # it would not be asked: of UTF-16 it counts what bytes there are
        lines = 1 + data.count(b"\n") + data.count(b"\r")
    assert list(faults((r for r in found if not isinstance(r, Foreign)), lines)) == []
    assert list(strays(found, lines)) == []


def strays(found: Iterable[Record | Foreign], lines: int) -> Iterator[str]:
    """Lines given away that are none of the member, or in another order. A lone carriage return ends no line."""
    last = 1
    for record in found:
        for number, text in record.lines if isinstance(record, Foreign) else ():
            if not last <= number <= lines:
                yield f"gives away line {number} after {last}, of {lines}: {text!r:.100}"
            last = number


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_a_damaged_member_is_read_without_a_mistake(reader: BulkParser) -> None:
    """Mutants of the reader's own fixtures, in pieces."""

    @SMALL
    @given(st.sampled_from(members(reader.name)), st.integers(0, 1 << 40), st.sampled_from([61, 4096, 1 << 20]))
    def run(fixture: tuple[str, bytes], seed: int, piece: int) -> None:
        path, data = fixture
        check(reader, mutant(data, seed), path, piece)

    run()


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_a_reader_survives_what_was_never_meant_for_it(reader: BulkParser) -> None:
    """Noise, other formats' words behind the reader's own beginning, and nothing at all."""
    words = st.sampled_from([*NUMBERS, *CLOCKS, *INSERTED, b",", b";", b"{", b"}", b"[", b'"', b"#", b"<a>", b">>> "])
    soup = st.lists(st.lists(words, max_size=9).map(b" ".join), max_size=12).map(b"\n".join)

    @SMALL
    @given(st.sampled_from(members(reader.name)), st.integers(0, 600), st.one_of(st.binary(max_size=400), soup))
    def run(fixture: tuple[str, bytes], own: int, data: bytes) -> None:
        check(reader, fixture[1][:own] + data, fixture[0])

    run()


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_impossible_numbers_are_left_out(reader: BulkParser) -> None:
    """Each of the impossible numbers in the place of some true ones."""
    path, data = members(reader.name)[0]
    for seed in range((60 if PROOF else 6) * len(NUMBERS)):
        check(reader, mutant(data[:4000], seed, (_renumbered,)), path)


def _renumbered(data: bytes, at: int) -> bytes:
    """A run of digits becomes an impossible number, signs and fractions of it stay."""
    digits = [found.start() for found in re.finditer(rb"\d", data)]
    if not digits:
        return data
    place = end = digits[at // 17 % len(digits)]
    while data[end : end + 1].isdigit():
        end += 1
    return data[:place] + NUMBERS[at % len(NUMBERS)] + data[end:]


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_a_line_of_64_kib_costs_no_more_than_its_length(reader: BulkParser) -> None:
    """A line and a character grown to the longest line of a text; quadratic reading would take minutes here."""
    for path, data in members(reader.name)[:3]:
        for seed, mutation in enumerate(SLOW * 2):
            check(reader, mutation(data, seed * 3), path)
        check(reader, data.split(b"\n")[0].replace(b" ", b" " * (LONG // 8), 3), path)


@pytest.mark.proof
@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_proof_of_ten_thousand_mutants(reader: BulkParser) -> None:
    """R3: 10,000 mutants per reader, none of which raises."""
    fixtures = members(reader.name)
    for seed in range(COUNT):
        path, data = fixtures[seed % len(fixtures)]
        mutations = (*MUTATIONS, _renumbered, *(SLOW if seed % 50 == 0 else ()))
        check(reader, mutant(data[: 3000 if seed % 3 else LONGEST], seed, mutations), path, (4096, 61)[seed % 7 == 0])


@pytest.mark.proof
@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_proof_of_every_cut(reader: BulkParser) -> None:
    """The first fixture cut at every one of its first 2000 bytes."""
    path, data = members(reader.name)[0]
    for at in range(min(len(data), 2000)):
        check(reader, data[:at], path)


def test_the_fixtures_are_there() -> None:
    """Every reader has something to damage."""
    assert len(READERS) >= 19
    assert all(members(reader.name) for reader in READERS)
