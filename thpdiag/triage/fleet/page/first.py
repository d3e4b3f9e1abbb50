"""The first of many, in memory that does not grow with their number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


@dataclass(slots=True)
class First(Generic[Item]):
    """Of what comes in any order the `most` with the smallest keys, all of them different; `all` counts every one."""

    most: int
    all: int = 0
    _kept: list[tuple[tuple[Any, ...], Item]] = field(default_factory=list)

    def add(self, key: tuple[Any, ...], item: Item) -> None:
        self.all += 1
        self._kept.append((key, item))
        if len(self._kept) >= 2 * self.most:
            self._cut()

    def items(self) -> list[Item]:
        """In the order of their keys."""
        self._cut()
        return [item for _, item in self._kept]

    def _cut(self) -> None:
        self._kept.sort(key=lambda pair: pair[0])
        del self._kept[self.most :]
