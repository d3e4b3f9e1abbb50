"""perf.data that was cut, damaged or made to do harm: no exception, every sample accounted for.

THPDIAG_PROOF=1 and the marker `proof` run the counts of the issue: every boundary of records, every bit.
"""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import perf_files
import perf_recordings as perf
from perf_invariants import check, read, samples
from thpdiag.model import Problem, ProblemKind, Profile

CASES = sorted(path.parent.name for path in perf.FOLDER.glob("*/perf.data"))
OPEN = [case for case in CASES if case not in ("zstd", "zstd_pipe", "compressed2")]  # whose records are in plain sight
EXTREMES = (0, 1, 7, 0xFFFF, 2**31, 2**32 - 1, 2**61, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1)
FEW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
MANY = settings(max_examples=5_000, deadline=None, suppress_health_check=list(HealthCheck), database=None)


def whole_samples(data: bytes, end: int) -> int:
    """Sample records that end before a place."""
    return sum(span.kind == perf_files.SAMPLE and span.end <= end for span in perf.spans(data))


def check_cut(case: str, data: bytes, at: int) -> None:
    """A cut file gives all samples in front of the cut, and says that something is missing."""
    records = check(data[:at])
    if case in OPEN:
        assert samples(records) == whole_samples(data, at), f"cut at {at}"
    if at < data_end(data):
        problems = [r for r in records if isinstance(r, Problem) and r.kind is not ProblemKind.ODD]
        on_boundary = case in ("pipe", "zstd_pipe", "unfinished") and at in {s.end for s in perf.spans(data)}
        assert problems or on_boundary, f"cut at {at}: nothing said"


def data_end(data: bytes) -> int:
    return perf.spans(data)[-1].end


def boundaries(data: bytes) -> list[int]:
    """Places around the ends of records, behind the header and the attributes."""
    ends = {span.end for span in perf.spans(data)}
    return sorted({end + step for end in ends for step in (-9, -4, -1, 0, 1, 4, 8) if 16 <= end + step < len(data)})


@pytest.mark.parametrize("case", CASES)
def test_a_whole_recording_gives_all_its_samples(case: str) -> None:
    """The yardstick of all other tests: nothing is wrong with what is read of an undamaged file."""
    data = perf.fixture(case)
    records = check(data)
    assert samples(records) > 0
    if case in OPEN:
        assert samples(records) == whole_samples(data, len(data))


@pytest.mark.parametrize("chunk", [1, 7, 4096])
@pytest.mark.parametrize("case", ["plain", "pipe", "zstd"])
def test_how_the_bytes_arrive_does_not_matter(case: str, chunk: int) -> None:
    """Chunks of any size give the same samples."""
    data = perf.fixture(case)
    assert samples(read(data, chunk)) == samples(read(data))


@pytest.mark.parametrize("case", CASES)
def test_a_cut_recording_is_read_up_to_the_cut(case: str) -> None:
    """Cut at and around some ends of records."""
    data = perf.fixture(case)
    places = random.Random(len(data)).sample(boundaries(data), 12)
    for at in places:
        check_cut(case, data, at)


@pytest.mark.proof
@pytest.mark.parametrize("case", CASES)
def test_proof_of_every_cut(case: str) -> None:
    """Cut at and around every end of a record."""
    data = perf.fixture(case)
    for at in boundaries(data):
        check_cut(case, data, at)


@pytest.mark.parametrize("case", CASES)
def test_a_cut_in_the_header_is_a_problem(case: str) -> None:
    """A file that ends in its header or attributes gives a problem and no samples."""
    data = perf.fixture(case)
    for at in (0, 1, 7, 8, 12, 15, 16, 17, 40, 64, 103, 104, 120, 200):
        records = check(data[: min(at, perf.spans(data)[0].start)])
        assert samples(records) == 0
        assert case in ("pipe", "zstd_pipe") or any(isinstance(r, Problem) for r in records), f"cut at {at}"


@pytest.mark.parametrize("case", CASES)
def test_flipped_bits_never_raise(case: str) -> None:
    """One bit another, in the header, in the records, in the features."""
    data = perf.fixture(case)
    chance = random.Random(len(data))
    places = [chance.randrange(8 * 300) for _ in range(15)] + [chance.randrange(8 * len(data)) for _ in range(15)]
    for bit in places:
        check(perf.with_bit(data, bit))


@pytest.mark.proof
@pytest.mark.parametrize("case", ["plain", "pipe", "zstd", "group_read", "several_events"])
def test_proof_of_flipped_bits(case: str) -> None:
    """Every bit of the first 600 bytes, and many of the rest, one at a time and ten at a time."""
    data = perf.fixture(case)
    chance = random.Random(len(data))
    for bit in [*range(8 * 600), *(chance.randrange(8 * len(data)) for _ in range(5_000))]:
        check(perf.with_bit(data, bit))
    for _ in range(2_000):
        mutant = data
        for _ in range(10):
            mutant = perf.with_bit(mutant, chance.randrange(8 * len(data)))
        check(mutant)


@pytest.mark.parametrize("case", ["plain", "pipe", "dwarf", "group_read", "compressed2"])
def test_impossible_numbers_never_raise(case: str) -> None:
    """Extreme numbers in the header, the attributes, and a few records of every kind."""
    data = perf.fixture(case)
    first = {span.kind: span for span in reversed(perf.spans(data))}
    places = [at for span in first.values() for at in range(span.start, min(span.end, span.start + 96), 8)]
    chance = random.Random(len(data))
    for at in [*range(8, 264, 8), *places]:
        check(perf.with_word(data, at, chance.choice(EXTREMES)))


@pytest.mark.proof
@pytest.mark.parametrize("case", CASES)
def test_proof_of_impossible_numbers(case: str) -> None:
    """Every extreme in every place of the header, the attributes, the features and the first records of every kind."""
    data = perf.fixture(case)
    first = {span.kind: span for span in reversed(perf.spans(data))}
    places = [at for span in first.values() for at in range(span.start, min(span.end, span.start + 160), 8)]
    for at in [*range(8, 264, 8), *places, *range(data_end(data), len(data) - 8, 8)]:
        for value in EXTREMES:
            check(perf.with_word(data, at, value))


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 12, 65528, 65535])
def test_a_record_that_lies_about_its_size(size: int) -> None:
    """What cannot be a size ends the reading with a problem; the samples before are kept."""
    good = b"".join(perf.sample(1000 + i, [perf_files.CONTEXT_KERNEL, 2**64 - 4096 - i]) for i in range(5))
    records = check(perf.recording(good + perf.record(perf_files.SAMPLE, bytes(64), size=size) + good))
    assert samples(records) >= 5
    if size < 8 or size > 1000:
        assert any(isinstance(r, Problem) for r in records)


@pytest.mark.parametrize("more", [1, 100, 2**28, 2**32, 2**61 - 1, 2**61, 2**63, 2**64 - 1])
def test_a_chain_that_announces_more_than_there_is(more: int) -> None:
    """The number of frames is believed only as far as the record goes; the others are kept whole."""
    chain = [perf_files.CONTEXT_KERNEL, 2**64 - 8192]
    good = perf.sample(1, chain) + perf.sample(3, chain)
    records = check(perf.recording(good + perf.sample(2, chain, more=more)))
    profile = next(r for r in records if isinstance(r, Profile))
    assert profile.ledger.read == 3
    assert sum(profile.ledger.odd.values()) == 1 or profile.ledger.kept == 3


def test_samples_of_which_none_can_be_read_are_told() -> None:
    """A recording whose samples are all shorter than their event says has no profile, and says why."""
    records = check(perf.recording(perf.record(perf_files.SAMPLE, bytes(8)) * 7))
    assert samples(records) == 0
    assert any(isinstance(r, Problem) and "7" in r.text and r.hides_data for r in records)


def test_a_time_that_cannot_be_is_unknown() -> None:
    """Centuries after the first sample: kept, without a time, and told."""
    chain = [perf_files.CONTEXT_KERNEL, 2**64 - 4096]
    records = check(perf.recording(perf.sample(10**9, chain) + perf.sample(2**63, chain) + perf.sample(10**9, chain)))
    profile = next(r for r in records if isinstance(r, Profile))
    assert sorted(profile.rows.bin.tolist()) in ([-1, 0], [-1, 0, 0])
    assert any(isinstance(r, Problem) and r.count == 1 for r in records)


def test_losses_that_are_told_twice_count_once() -> None:
    """perf repeats at the end what LOST records said before (fixtures/readers/perf_data/ORIGIN.md)."""
    profile = next(r for r in read(perf.fixture("lost_samples")) if isinstance(r, Profile))
    assert (profile.ledger.read, profile.ledger.lost) == (719, 300)


HEADED = st.binary(max_size=600).map(lambda rest: perf.MAGIC + rest)
WORDS = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from(EXTREMES), st.integers(0, 300))
PAYLOADS = st.lists(WORDS, max_size=24).map(lambda words: struct.pack(f"<{len(words)}Q", *words))
KINDS = st.one_of(st.integers(0, 24), st.integers(60, 90), st.integers(0, 2**32 - 1))
RECORDS = st.builds(perf.record, KINDS, PAYLOADS, st.integers(0, 65535))
STREAMS = st.lists(st.one_of(RECORDS, st.binary(max_size=40)), max_size=12).map(b"".join)
FLAGS = st.sets(st.integers(0, 63)).map(tuple)
EVENTS = st.builds(perf_files.Event, sample_type=WORDS, flags=FLAGS, read_format=WORDS)
FILES = st.one_of(
    HEADED, st.builds(perf.recording, STREAMS, EVENTS), st.builds(perf.piped, STREAMS, EVENTS),
    st.builds(perf.recording, st.lists(RECORDS, max_size=20).map(b"".join)),
)  # fmt: skip


@FEW
@given(FILES)
def test_made_up_files_never_raise(data: bytes) -> None:
    """Any bytes behind the magic, any records behind any attribute."""
    check(data)


@pytest.mark.proof
@MANY
@given(FILES)
def test_proof_of_made_up_files(data: bytes) -> None:
    """The same, many times."""
    check(data)
