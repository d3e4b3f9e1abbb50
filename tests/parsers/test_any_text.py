"""Whatever the bytes are, a reader says what it can and what it cannot: no exception, no number that is none, no
line that is not there.

Arbitrary text, and the fixtures cut, flipped, spliced, renumbered, quoted. By default some dozens per reader;
THPDIAG_PROOF=1 and the marker `proof` run the counts of the issue.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import ROOT
from parse_bytes import alone, faults, line_count, readings
from text_damage import CLOCKS, INSERTED, LONG, MUTATIONS, NUMBERS, SLOW, cut, mutant
from thpdiag.model import Problem
from thpdiag.model.parser import Parser
from thpdiag.parsers import all_parsers

READERS = tuple(all_parsers())
FIXTURES = ROOT / "fixtures"
COUNT = 10_000  # mutants per reader in the proof
PROOF = os.environ.get("THPDIAG_PROOF") == "1"
EXAMPLES = 30 if PROOF else 8
NUMBERS_OF_A_TEXT = 10 if PROOF else 3
SMALL = settings(
    max_examples=EXAMPLES, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
SESSION_EXAMPLES = settings(SMALL, max_examples=30)  # of all readers together


def texts(reader: str) -> list[tuple[str, bytes]]:
    """Path and bytes of the fixtures of a reader, the first 6 KB: what comes later repeats it."""
    folder = FIXTURES / "readers" / reader
    files = sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.endswith((".golden.json", "ORIGIN.md")))
    return [("/".join(("bundle", *p.relative_to(folder).parts[1:])), p.read_bytes()[:6000]) for p in files]


SESSIONS = [p.read_bytes()[:6000] for p in sorted((FIXTURES / "stories").glob("*/bundle/*.txt"))]


def check(data: bytes, path: str) -> None:
    """The promises of every record."""
    lines = line_count(data)
    found = [r.record for r in readings(data, path)]
    assert list(faults(found, lines)) == []
    breaks = data.count(b"\r") - data.count(b"\r\n")  # a lone one ends a row without counting as a line
    assert len(found) <= 40 * (lines + breaks) + 40, "more records than any text of that length holds"


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_a_damaged_fixture_is_read_without_a_mistake(reader: Parser) -> None:
    """Mutants of the reader's own fixtures, once as the file they are and once as a pasted text."""

    @SMALL
    @given(st.sampled_from(texts(reader.name)), st.integers(0, 1 << 40), st.booleans())
    def run(fixture: tuple[str, bytes], seed: int, pasted: bool) -> None:
        path, data = fixture
        check(mutant(data, seed), "mail.txt" if pasted else path)

    run()


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_a_reader_survives_what_was_never_meant_for_it(reader: Parser) -> None:
    """Arbitrary text and other formats' lines, handed over as if they were a whole file of its own."""
    words = st.sampled_from(
        [*NUMBERS, *CLOCKS, *INSERTED, b"Node 0, zone", b"kB", b"100.00%", b"|", b"--", b"[k]", b":", b"always"]
    )
    soup = st.lists(st.lists(words, max_size=9).map(b" ".join), max_size=12).map(b"\n".join)

    @SMALL
    @given(
        st.one_of(st.binary(max_size=400), st.text(max_size=300).map(str.encode), soup),
        st.sampled_from(["", *_paths(reader)]),
    )
    def run(data: bytes, path: str) -> None:
        assert list(faults(alone(reader, data, path), line_count(data))) == []

    run()


def _paths(reader: Parser) -> list[str]:
    return [path for path, _ in texts(reader.name)][:3]


@SESSION_EXAMPLES
@given(st.sampled_from(SESSIONS), st.sampled_from(SESSIONS), st.integers(0, 1 << 40))
def test_damaged_sessions_are_read_without_a_mistake(one: bytes, other: bytes, seed: int) -> None:
    """Two tickets run into each other, and damaged."""
    check(mutant(cut(one, seed) + other, seed), "ticket.txt")


@SESSION_EXAMPLES
@given(st.one_of(st.binary(max_size=2000), st.text(max_size=1000).map(str.encode)))
def test_any_bytes_are_a_text(data: bytes) -> None:
    """Noise gives no record of its own making, and no mistake."""
    check(data, "noise.txt")


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_impossible_numbers_are_left_out(reader: Parser) -> None:
    """Numbers of hundreds and thousands of digits, and negative ones, in the place of some of the first numbers."""
    path, data = texts(reader.name)[0]
    for place in list(re.finditer(rb"\d+", data))[:70:7][:NUMBERS_OF_A_TEXT]:
        for number in (b"9" * 400, b"1" * 5000, b"-7"):
            check(data[: place.start()] + number + data[place.end() :], path)


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_a_line_of_64_kib_costs_no_more_than_its_length(reader: Parser) -> None:
    """The first lines of a fixture, each grown to the longest line there is; quadratic reading would take minutes
    here."""
    path, data = texts(reader.name)[0]
    for seed, mutation in enumerate(SLOW):
        check(mutation(data, seed * 3), path)
    blanks = data.split(b"\n")[0].replace(b" ", b" " * (LONG // 8), 3)
    check(blanks, path)


@pytest.mark.parametrize("clock", CLOCKS)
def test_odd_clocks_frame_what_follows_or_do_not(clock: bytes) -> None:
    """1970, 2106 and the year 9999 above a table, within it and in the place of its own times."""
    for data in (SESSIONS[0], texts("collectl_text")[0][1], texts("kernel_log")[0][1]):
        lines = data.split(b"\n")
        check(b"\n".join([clock, *lines[:3], clock, *lines[3:]]), "log.txt")


def test_an_empty_and_a_blank_text_hold_nothing() -> None:
    """No records, not even problems."""
    for data in (b"", b"\n", b" \n\t\n", b"\xef\xbb\xbf", b"\r\n\r\n"):
        assert readings(data) == []


def test_lost_lines_are_counted_not_dropped() -> None:
    """A row of vmstat that a full disk cut in the middle becomes a problem at its line."""
    data = texts("vmstat")[0][1]
    rows = data.split(b"\n")
    number = next(n for n, row in enumerate(rows) if n > 2 and row.strip()[:1].isdigit())
    rows[number] = rows[number][: len(rows[number]) // 2]
    problems = [r.record for r in readings(b"\n".join(rows)) if isinstance(r.record, Problem)]
    assert number + 1 in [p.cite.line for p in problems]
    assert len(problems) < 3


@pytest.mark.proof
@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_proof_of_ten_thousand_mutants(reader: Parser) -> None:
    """R3: 10,000 mutants per reader, none of which raises."""
    fixtures = texts(reader.name)
    for seed in range(COUNT):
        path, data = fixtures[seed % len(fixtures)]
        check(
            mutant(data, seed, (*MUTATIONS, *SLOW) if seed % 50 == 0 else MUTATIONS), path if seed % 2 else "mail.txt"
        )


@pytest.mark.proof
@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_proof_of_every_cut(reader: Parser) -> None:
    """The first fixture cut at every one of its first 2000 bytes."""
    path, data = texts(reader.name)[0]
    for at in range(min(len(data), 2000)):
        check(data[:at], path)


def test_the_fixtures_are_there() -> None:
    """Every reader has something to damage."""
    assert all(texts(reader.name) for reader in READERS)
    assert SESSIONS
    assert Path(FIXTURES).is_dir()
