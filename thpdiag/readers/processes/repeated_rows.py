"""Rows that a recorder writes again and again word for word: each text is read once. Not a reader.

Most processes of a list change nothing from one list to the next. What a row says goes into columns each time, what it
tells of the command or of the function a task waits in is told once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from thpdiag.model import Fact, Moment, Record, Sample
from thpdiag.model.citation import EXCERPT

if TYPE_CHECKING:
    from thpdiag.recordings.columns import Columns

MOST_TEXTS = 20_000  # kept; a list has seldom more than some thousands of rows


@dataclass(slots=True)
class Rows:
    """Rows of one file: a list after the other, in each of which a process stands once."""

    columns: Columns
    texts: dict[str, tuple[Record, ...]] = field(default_factory=dict)
    told: set[tuple[object, ...]] = field(default_factory=set)
    pids: set[str] = field(default_factory=set)

    def begin_list(self) -> None:
        """The same processes come again."""
        self.pids.clear()

    def begin_columns(self) -> None:
        """The same text says something else from here on."""
        self.texts.clear()

    def row(
        self, number: int, text: str, time: Moment | None, read: Callable[[int, str], Iterable[Record]]
    ) -> Iterator[Fact]:
        """Facts that are new; `read` is asked for a text that was not there yet, and gives nothing for odd ones."""
        known = self.texts.get(text)
        if known is None:
            known = tuple(read(number, text))
            yield from self._news(known, time)
            if len(self.texts) >= MOST_TEXTS:
                self.texts.clear()
            if known:  # an odd row is noted each time
                self.texts[text] = known
        for record in known:
            if isinstance(record, Sample):
                pid = record.entity[0][1]
                if pid not in self.pids:  # a second row of a process is one of its threads
                    self.pids.add(pid)
                    self.columns.again(record, time, number, text[:EXCERPT])

    def _news(self, records: Sequence[Record], time: Moment | None) -> Iterator[Fact]:
        for record in records:
            if isinstance(record, Fact):
                words = (record.name, record.value, record.labels)
                if words not in self.told:
                    self.told.add(words)
                    yield replace(record, time=time)
