"""Numbers for distinct keys: the same as a dictionary gives, whatever the keys are."""

from __future__ import annotations

import numpy as np
import pytest

from thpdiag.model import ragged
from thpdiag.model.ragged import Keys, Numbers

EVEN = np.arange(200_000, dtype=np.uint64) * np.uint64(16) + np.uint64(2**64 - 2**40)  # as kernel addresses are
CHANCE = np.random.default_rng(6).integers(0, 2**64 - 1, 150_000, dtype=np.uint64)
BATCHES = {
    "even": [EVEN[:70_000], EVEN[50_000:], EVEN[::7]],
    "chance": [CHANCE[:10], CHANCE, CHANCE[::-3]],
    "few": [np.tile(CHANCE[:5], 1000), CHANCE[:9]],
    "extremes": [np.array([0, 2**64 - 1, 0, 1], np.uint64), np.zeros(0, np.uint64), np.array([1], np.uint64)],
}


def check(batches: list[Keys]) -> Numbers:
    table, known = Numbers(), dict[int, int]()
    for keys in batches:
        before = len(table)
        ids, new = table.factorize(keys)
        assert ids[new].tolist() == list(range(before, len(table)))
        assert (table.keys[ids] == keys).all()
        for key, number in zip(keys.tolist(), ids.tolist(), strict=True):
            assert known.setdefault(key, number) == number
    assert len(known) == len(table)
    return table


@pytest.mark.parametrize("name", BATCHES)
def test_every_distinct_key_has_one_number(name: str) -> None:
    """A key keeps its number over windows, while the table grows; new ones are told once, in order."""
    check(BATCHES[name])


@pytest.mark.parametrize("name", BATCHES)
def test_keys_without_a_slot_have_numbers_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that were made to get into each other's way end up beside the table, and are found there."""
    monkeypatch.setattr(ragged, "_MAX_ROUNDS", 1)
    check(BATCHES[name])


@pytest.mark.parametrize("distance", [1, 2, 16, 64, 4096, 1 << 20, 1 << 32, (1 << 32) + 16, 1 << 40])
def test_keys_at_even_distances_do_not_meet_again_and_again(distance: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rounds are enough for addresses and pairs of numbers: the cost is that of whole arrays."""
    monkeypatch.setattr(ragged, "_MAX_ROUNDS", 24)
    table = check([np.arange(60_000, dtype=np.uint64) * np.uint64(distance)])
    assert table._without_slot == {}
