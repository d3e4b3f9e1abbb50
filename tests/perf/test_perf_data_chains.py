"""Call chains as recorded become parts of kernel and program; what is kept grows with distinct chains only."""

from __future__ import annotations

import random

import numpy as np
import pytest

from perf_columns import GARBAGE, KERNEL, USER, K, U, sample, samples
from thpdiag.model.ragged import pair, unpair
from thpdiag.perf.chains import RawChains
from thpdiag.perf.records import Samples

GUEST_KERNEL = 2**64 - 2176
DEFERRED = 2**64 - 640


def parts(given: Samples) -> list[tuple[list[int], list[int]]]:
    """Kernel and program part of each sample's chain."""
    raw = RawChains()
    numbers = raw.factorize(given)
    known = raw.all()
    (kernel, kernel_starts), (program, program_starts) = raw.kernel_parts.all(), raw.program_parts.all()
    found = []
    for number in numbers:
        k, p = known.kernel[number], known.program[number]
        inner = kernel[kernel_starts[k] : kernel_starts[k + 1]].tolist()
        found.append((inner, program[program_starts[p] : program_starts[p + 1]].tolist()))
    return found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(sample([KERNEL, K, K + 1, USER, U]), ([K, K + 1], [U]), id="both"),
        pytest.param(sample([USER, U, U + 1]), ([], [U, U + 1]), id="program"),
        pytest.param(sample([KERNEL, K, USER]), ([K], []), id="empty-program"),
        pytest.param(sample([KERNEL, K, USER, U, GARBAGE, 7]), ([K], [U]), id="garbage"),
        pytest.param(sample([KERNEL, K, GARBAGE, 7, USER, U]), ([K], [U]), id="garbage-then-program"),
        pytest.param(sample([KERNEL, K, USER, U, KERNEL, U + 1]), ([K], [U]), id="garbage-that-looks-like-kernel"),
        pytest.param(sample([K, K + 1, USER, U], mode=1), ([K, K + 1], [U]), id="no-marker-kernel"),
        pytest.param(sample([U], mode=2), ([], [U]), id="no-marker-program"),
        pytest.param(sample([], ip=K, mode=1), ([K], []), id="only-ip-kernel"),
        pytest.param(sample([], ip=U, mode=2), ([], [U]), id="only-ip-program"),
        pytest.param(sample([], ip=5, mode=4), ([], [GUEST_KERNEL]), id="only-ip-guest"),
        pytest.param(sample([GUEST_KERNEL, 5, 6, 7]), ([], [GUEST_KERNEL]), id="guest"),
        pytest.param(sample([KERNEL, K, DEFERRED, 99]), ([K], []), id="deferred"),
        pytest.param(sample([KERNEL, K, USER, U], mode=2), ([K], [U]), id="mode-is-not-the-chain's"),
    ],
)
def test_a_chain_is_split_by_its_markers(given: dict[str, object], expected: tuple[list[int], list[int]]) -> None:
    """Alone and between other samples."""
    other = sample([KERNEL, K + 9, USER, U + 9])
    assert parts(samples(given)) == [expected]
    assert parts(samples(other, given, other, given))[1::2] == [expected, expected]


def test_garbage_is_marked() -> None:
    """An unknown marker is told, so that the profile can say so."""
    raw = RawChains()
    numbers = raw.factorize(samples(sample([KERNEL, K]), sample([KERNEL, K, USER, U, GARBAGE])))
    assert raw.all().garbage[numbers].tolist() == [False, True]


def test_lengths_count_markers_apart() -> None:
    """The depth of a chain is known with and without markers."""
    raw = RawChains()
    raw.factorize(samples(sample([KERNEL, K, K, USER, U])))
    assert (raw.all().length.tolist(), raw.all().markers.tolist()) == ([5], [2])


def test_equal_addresses_without_marker_differ_by_mode() -> None:
    """The same number is another function in the kernel than in a program."""
    raw = RawChains()
    assert len(set(raw.factorize(samples(sample([], ip=5, mode=1), sample([], ip=5, mode=2))).tolist())) == 2


def test_chains_are_numbered_as_a_dictionary_would() -> None:
    """Random chains with many likenesses, over several windows: equal numbers for equal chains, and for no others."""
    dice = random.Random(3)
    raw = RawChains()
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(4):
        chosen = [[KERNEL, *dice.choices([K, K + 1, K + 2, 0], k=dice.randrange(5)), USER, U] for _ in range(500)]
        numbers = raw.factorize(samples(*map(sample, chosen))).tolist()
        for chain, number in zip(chosen, numbers, strict=True):
            assert seen.setdefault(tuple(chain), number) == number
    assert sorted(seen.values()) == list(range(len(raw)))


def test_memory_grows_with_distinct_chains_only() -> None:
    """Ten times the samples of the same chains take not a byte more."""
    window = samples(*(sample([KERNEL, K + i % 100, K, USER, U + i % 7]) for i in range(2000)))
    raw = RawChains()
    raw.factorize(window)
    once = raw.nbytes
    for _ in range(10):
        raw.factorize(window)
    assert raw.nbytes == once
    raw.factorize(samples(*(sample([KERNEL, K + i, USER, U]) for i in range(5000, 6000))))
    assert raw.nbytes > once


def test_pairs_come_back() -> None:
    """Negative numbers too."""
    high, low = np.array([0, 5, 2**31 - 1], np.int32), np.array([-1, 7, -(2**31)], np.int32)
    again = unpair(pair(high, low))
    assert (again[0].tolist(), again[1].tolist()) == (high.tolist(), low.tolist())
