"""What the lines of a text are that are no plain rows: headers, banners, empty lines, odd ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from thpdiag.bundle.lines import Undecoded, numbered
from thpdiag.bundle.transcript import clean
from thpdiag.readers.elements.whole_member import LONGEST_LINE
from thpdiag.readers.vmstat.bulk.table import Table
from thpdiag.readers.vmstat.lines import BANNER, HEADER, OTHER, belongs, is_header
from thpdiag.readers.vmstat.run import Layout, layout_of


class Kind(Enum):
    HEADER = auto()
    BANNER = auto()
    OTHER = auto()  # opens a table of -d, -D, -m, -p or -f
    ROW = auto()  # of vmstat or of such a table
    BLANK = auto()
    ODD = auto()

    @property
    def opens(self) -> bool:
        return self in (Kind.HEADER, Kind.BANNER, Kind.OTHER)


@dataclass(frozen=True, slots=True)
class Look:
    """A line as text without decoration, what it is, and whether a block goes on with it whatever follows."""

    kind: Kind
    text: str
    words: tuple[str, ...] = ()
    width: int = 0  # of a header
    belongs: bool = True


@dataclass(slots=True)
class Reading:
    """Looks at lines; of those that repeat (headers every screenful) at one."""

    table: Table
    undecoded: Undecoded = field(default_factory=Undecoded)
    _known: dict[tuple[bytes, bool], tuple[Look, ...]] = field(default_factory=dict)

    def looks(self, numbers: list[int]) -> Iterator[tuple[int, Look]]:
        """The lines of these numbers (from 0); one with carriage returns inside is several."""
        before, below = False, -1
        for number in numbers:
            raw, after_banner = self.table.line(number), before and number == below
            key = (raw, after_banner)
            if (found := self._known.get(key)) is None:
                texts = self.decoded(number, number + 1)
                found = tuple(look(clean(text), after_banner=after_banner) for _, text in texts)
                if found and found[-1].kind in (Kind.HEADER, Kind.BANNER):
                    self._known[key] = found
            for one in found:
                yield number, one
            before, below = bool(found) and found[-1].kind is Kind.BANNER, number + 1

    def decoded(self, first: int, end: int) -> list[tuple[int, str]]:
        """These lines as text, numbered from 1."""
        odd = Undecoded()
        raw = self.table.text[self.table.starts[first] : self.table.starts[end - 1]] + self.table.line(end - 1) + b"\n"
        lines = [(number + first, text) for number, text in numbered(b"", iter((raw,)), LONGEST_LINE, odd)]
        self.undecoded.add(odd, first)
        return lines


def look(text: str, *, after_banner: bool) -> Look:
    words = tuple(text.split())
    if not words:
        return Look(Kind.BLANK, text, belongs=False)
    if is_header(text, words, after_banner=after_banner):
        return Look(Kind.HEADER, text, words, layout_of(words).width, bool(HEADER.match(text)))
    if BANNER.match(text):
        return Look(Kind.BANNER, text, words)
    if OTHER.match(text):
        return Look(Kind.OTHER, text, words)
    return Look(Kind.ROW, text, words) if belongs(text) else Look(Kind.ODD, text, words, belongs=False)


def fresh(header: Look) -> Layout:
    return layout_of(header.words)
