"""The gravest of many, for what shows only so many."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Gravest(Generic[T]):
    """Keeps the `most` of the greatest weight, of the same weight those that came first, and counts the others."""

    def __init__(self, most: int) -> None:
        self._most, self._seen = most, 0
        self._kept: list[tuple[int, int, T]] = []
        self.left_out = 0

    def put(self, weight: int, one: T) -> None:
        self._seen += 1
        insort(self._kept, (-weight, self._seen, one))
        self.left_out += len(self._kept) > self._most
        del self._kept[self._most :]

    def __iter__(self) -> Iterator[T]:
        return (one for _, _, one in self._kept)
