"""The lines of one interval in the shape of the one before, which nearly all have: their numbers are taken at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter, mul
from typing import Any

Numbered = tuple[int, bytes]
LONGEST = 15  # digits; longer numbers are looked at more closely


@dataclass(frozen=True, slots=True)
class Layout:
    """Which lines of an interval are `name number` or `name: number kB`, and what stands where in them."""

    count: int
    plain: itemgetter[Any]  # of the lines
    rest: tuple[int, ...]
    tokens: int
    words: itemgetter[Any]  # of the tokens of plain lines: all but the numbers
    expected: tuple[bytes, ...]
    numbers: itemgetter[Any]
    names: tuple[str, ...]
    factors: tuple[int, ...]

    def values(self, lines: Sequence[bytes]) -> dict[str, float] | None:
        """The numbers of the plain lines, None if one is another line, or no number."""
        if len(lines) != self.count:
            return None
        tokens = b"\n".join(self.plain(lines)).split()
        if len(tokens) != self.tokens or self.words(tokens) != self.expected:
            return None
        numbers = self.numbers(tokens)
        if not b"".join(numbers).isdigit() or max(map(len, numbers)) > LONGEST:
            return None
        return dict(zip(self.names, map(mul, map(int, numbers), self.factors), strict=True))


def layout(lines: Sequence[bytes], known: Mapping[bytes, tuple[str, int, bytes]]) -> Layout | None:
    """The shape of these lines; None if it has too few plain ones to be worth it, or one twice."""
    plain: list[int] = []
    words: list[int] = []
    numbers: list[int] = []
    tokens: list[bytes] = []
    for place, line in enumerate(lines):
        parts = line.split()
        if not parts or parts[0] not in known or parts[2:] != [known[parts[0]][2]] * bool(known[parts[0]][2]):
            continue
        plain.append(place)
        numbers.append(len(tokens) + 1)
        words += [len(tokens), *range(len(tokens) + 2, len(tokens) + len(parts))]
        tokens += parts
    names = tuple(known[tokens[at - 1]][0] for at in numbers)
    if len(plain) < 2 or len(set(names)) < len(names) or len(words) + len(numbers) != len(tokens):
        return None
    return Layout(
        len(lines), itemgetter(*plain), tuple(sorted(set(range(len(lines))) - set(plain))),
        len(tokens), itemgetter(*words), itemgetter(*words)(tokens), itemgetter(*numbers), names,
        tuple(known[tokens[at - 1]][1] for at in numbers),
    )  # fmt: skip
