"""The order in which the parts of a text were written, if that is not the order of its lines.

A mail reply is written above the text that it quotes, ticket systems show the newest comment first, and today's
measurements may be pasted above yesterday's. The settings in the last lines are then not the current ones. Parts in
which settings are read or written are ordered by their dates if all of them have one; otherwise quoted parts are older
than the parts that quote them. Without dates and quotes the order of the lines is used.
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

Place = tuple[int, int]  # rank of a part in time, and line number


@dataclass(frozen=True, slots=True)
class _Parts:
    """The first lines of a member's parts, in line order, and the rank of each in time."""

    lines: Sequence[int]
    ranks: Sequence[int]

    def place(self, line: int) -> Place:
        part = max(bisect_right(self.lines, line) - 1, 0)
        return self.ranks[part], line


@dataclass(frozen=True, slots=True)
class TextOrder:
    """The place of each line of the input in the order of time; members that are not listed are in order."""

    _parts: Mapping[str, _Parts] = field(default_factory=dict)

    def place(self, cite: Citation) -> Place:
        """Return the sort key of a line within its member."""
        parts = self._parts.get(cite.member)
        return parts.place(cite.line or 0) if parts else (0, cite.line or 0)

    def numbers(self, member: str, lines: Ints, cuts: Sequence[Place]) -> Ints:
        """Return by line the number of cuts, given in order, that do not follow it."""
        parts = self._parts.get(member)
        if parts is None:
            return np.searchsorted([line for _, line in cuts], lines, "right")
        return np.array([bisect_right(cuts, parts.place(int(line))) for line in lines], np.int64)

    def sort(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return the records with those of each unordered member sorted by their place."""
        if not self._parts:
            return records
        first: dict[str, int] = {}
        for record in records:
            first.setdefault(member_of(record), len(first))
        return sorted(records, key=lambda r: (first[m := member_of(r)], self.place(r.cite) if m in self._parts else ()))


LINE_ORDER = TextOrder()


def text_order(parts: Mapping[str, Sequence[Event]], settings: Collection[Citation]) -> TextOrder:
    """Return the order of all members, from their parts in line order and the citations of settings."""
    unordered: dict[str, _Parts] = {}
    for member, events in parts.items():
        lines = [event.cite.line or 0 for event in events]
        deciding = {bisect_right(lines, cite.line or 0) - 1 for cite in settings if cite.member == member}
        ranks = _rank_parts(events, sorted(deciding)) if len(deciding) > 1 else []
        if ranks != sorted(ranks):
            unordered[member] = _Parts(lines, ranks)
    return TextOrder(unordered)


def _rank_parts(parts: Sequence[Event], deciding: Sequence[int]) -> list[int]:
    """Return the rank of each part in time, empty if unknown. `deciding` are the indices of parts with settings."""
    moments = [moment for number in deciding if (moment := parts[number].time)]
    if len(moments) == len(deciding):
        keys = dict(zip(deciding, _comparable_seconds(moments), strict=True))
    else:
        keys = {number: -float(parts[number].fields["quoted"]) for number in deciding}
    if len(set(keys.values())) < 2:
        return []
    last = keys[deciding[0]]
    ordered = []
    for number in range(len(parts)):
        last = keys.get(number, last)
        ordered.append((last, number))
    ranks = {number: rank for rank, (_, number) in enumerate(sorted(ordered))}
    return [ranks[number] for number in range(len(parts))]


def _comparable_seconds(moments: Sequence[Moment]) -> list[float]:
    """Return the seconds of moments, all equal if the offset between their clocks may exceed their distance."""
    seconds = [moment.seconds for moment in moments]
    is_near = any(abs(a - b) <= MAX_UTC_OFFSET_SECONDS for a, b in pairwise(sorted(seconds)))
    has_several_clocks = len({moment.clock for moment in moments}) > 1
    return [0.0] * len(seconds) if has_several_clocks and is_near else seconds
