"""The order in which the parts of a text were written, where that is not the order of its lines.

Who answers a mail writes above what is quoted, ticket systems show the newest comment first, and what was measured
today may be pasted above what was measured yesterday. The settings that the last lines show are then not those in
force. Parts in which settings are read or written are ordered by their dates if all of them have one; else what is
quoted is older than what it is quoted in. Without either the order of the lines stands.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from thpdiag.detect.timestamps import MAX_UTC_OFFSET_SECONDS
from thpdiag.model import Citation, Event, Moment, Record
from thpdiag.model.case import member_of
from thpdiag.model.numeric import Ints, np

Place = tuple[int, int]  # of a part in time, and of a line in it


@dataclass(frozen=True, slots=True)
class _Parts:
    """The first lines of a member's parts, in line order, and the place of each in time."""

    lines: Sequence[int]
    ranks: Sequence[int]

    def place(self, line: int) -> Place:
        part = max(bisect_right(self.lines, line) - 1, 0)
        return self.ranks[part], line


@dataclass(frozen=True, slots=True)
class TextOrder:
    """Where each line of the input stands in the order of time; members that are not listed are in order."""

    _parts: Mapping[str, _Parts] = field(default_factory=dict)

    def place(self, cite: Citation) -> Place:
        """What to sort the lines of one member by."""
        parts = self._parts.get(cite.member)
        return parts.place(cite.line or 0) if parts else (0, cite.line or 0)

    def numbers(self, member: str, lines: Ints, cuts: Sequence[Place]) -> Ints:
        """By line how many of the cuts, in order, are not behind it."""
        parts = self._parts.get(member)
        if parts is None:
            return np.searchsorted([line for _, line in cuts], lines, "right")
        return np.array([bisect_right(cuts, parts.place(int(line))) for line in lines], np.int64)

    def sort(self, records: Sequence[Record]) -> Sequence[Record]:
        """The records, those of each member that is not in order by their place."""
        if not self._parts:
            return records
        first: dict[str, int] = {}
        for record in records:
            first.setdefault(member_of(record), len(first))
        return sorted(records, key=lambda r: (first[m := member_of(r)], self.place(r.cite) if m in self._parts else ()))


LINE_ORDER = TextOrder()


def text_order(parts: Mapping[str, Sequence[Event]], settings: Collection[Citation]) -> TextOrder:
    """The order of all members, from their parts in line order and from where settings were read or written."""
    found: dict[str, _Parts] = {}
    for member, events in parts.items():
        lines = [event.cite.line or 0 for event in events]
        held = {bisect_right(lines, cite.line or 0) - 1 for cite in settings if cite.member == member}
        ranks = _ranks(events, sorted(held)) if len(held) > 1 else []
        if ranks and any(one > other for one, other in pairwise(ranks)):
            found[member] = _Parts(lines, ranks)
    return TextOrder(found)


def _ranks(parts: Sequence[Event], held: Sequence[int]) -> list[int]:
    """The place of each part in time; empty if it is not known. `held` are the numbers of those that decide."""
    dated = [(moment, number) for number in held if (moment := parts[number].time)]
    if len(dated) == len(held):
        keys = _seconds([moment for moment, _ in dated])
        at = dict(zip(held, keys, strict=True))
    else:
        at = {number: -float(parts[number].fields["quoted"]) for number in held}
    if len(set(at.values())) < 2:
        return []
    last = at[held[0]]
    ordered = []
    for number in range(len(parts)):
        last = at.get(number, last)
        ordered.append((last, number))
    place = {number: rank for rank, (_, number) in enumerate(sorted(ordered))}
    return [place[number] for number in range(len(parts))]


def _seconds(moments: Sequence[Moment]) -> list[float]:
    """Their seconds, all the same if two clocks may be farther apart than the moments."""
    seconds = [moment.seconds for moment in moments]
    near = any(abs(a - b) <= MAX_UTC_OFFSET_SECONDS for a, b in pairwise(sorted(seconds)))
    several = len({moment.clock for moment in moments}) > 1
    return [0.0] * len(seconds) if several and near else seconds
