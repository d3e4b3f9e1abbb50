"""Lists in one flat array that are equal are found, whatever their lengths and values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thpdiag.model import ragged

LISTS = st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 3), max_size=6), max_size=40)


@given(LISTS)
def test_equal_lists_have_one_number(lists: list[list[int]]) -> None:
    """The first of each stands for all, in the order seen; empty lists are equal too."""
    seen: dict[tuple[int, ...], int] = {}
    numbers = [seen.setdefault(tuple(one), len(seen)) for one in lists]
    flat = np.array([value for one in lists for value in one], np.uint64)

    first, number = ragged.distinct(flat, ragged.starts_of(np.array([len(one) for one in lists], np.int64)))

    assert number.tolist() == numbers
    assert [tuple(lists[i]) for i in first.tolist()] == list(seen)


@pytest.mark.parametrize("block", [1, 2, 7, 64])
def test_parts_change_no_key(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long arrays get their keys in parts; a list longer than a part and empty lists at the edges are whole."""
    lengths = np.array([0, 3, 0, 0, 20, 1, 2, 7, 0, 5, 0])
    starts = ragged.starts_of(lengths)
    values = np.arange(starts[-1], dtype=np.int32) % 5
    whole = ragged.keys_of(values, starts)

    monkeypatch.setattr(ragged, "AT_ONCE", block)

    assert ragged.keys_of(values, starts).tolist() == whole.tolist()


def test_order_and_length_count() -> None:
    """The same values in another order, or with a zero more, are another list."""
    lists = [[1, 2], [2, 1], [1, 2, 0], [0, 1, 2], [3], [1, 2]]
    flat = np.array([value for one in lists for value in one], np.int32)

    first, number = ragged.distinct(flat, ragged.starts_of(np.array([len(one) for one in lists])))

    assert number.tolist() == [0, 1, 2, 3, 4, 0]
    assert first.tolist() == [0, 1, 2, 3, 4]
