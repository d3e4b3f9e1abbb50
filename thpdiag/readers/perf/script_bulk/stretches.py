"""Stretches of a text that the fast way leaves over: read line by line, with the exact grammar.

What is another format's (the output of a further command, prose) is set aside; that there is a single odd line between
two that belong says nothing, and the grammar counts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.bundle.lines import Undecoded, numbered
from thpdiag.bundle.transcript import TextLine, cleaned, prompt
from thpdiag.reader import Foreign
from thpdiag.readers.perf.script_blocks import OPENS, confirm, continues
from thpdiag.readers.perf.script_bulk.windows import LINE
from thpdiag.readers.perf.script_samples import Samples

LOOKAHEAD = 80  # lines that must be known behind one before it is judged
_MOST = 100_000  # lines of another format that are handed on at once


@dataclass(slots=True)
class Stretches:
    """`foreign` are the lines set aside; `complete` says how many of them may be handed on."""

    samples: Samples
    odd: Undecoded = field(default_factory=Undecoded)
    _waiting: list[tuple[TextLine, str]] = field(default_factory=list)  # cleaned, and as they were
    _aside: list[tuple[int, str]] = field(default_factory=list)
    _foreign: list[Foreign] = field(default_factory=list)
    _busy: bool = False

    def give(self, first: int, data: bytes) -> None:
        """Further lines, and the number of the first."""
        self._busy = True
        odd = Undecoded()
        raw = [(first - 1 + number, text) for number, text in numbered(b"", iter((data,)), LINE, odd)]
        self.odd.add(odd, first - 1)
        self._waiting += zip(cleaned(raw, markup=False), (text for _, text in raw), strict=True)
        done = self._judged(self._waiting, len(self._waiting) - LOOKAHEAD)
        del self._waiting[:done]

    def close(self, ahead: list[str]) -> None:
        """The next line is the head of a sample that is read the fast way; it and some further ones are `ahead`."""
        if not self._busy:
            return
        known = [(TextLine(0, text), text) for text in ahead]
        self._judged(self._waiting + known, len(self._waiting))
        self._waiting.clear()
        self.samples.end()
        self._hand_on()
        self._busy = False

    def foreign(self) -> Iterator[Foreign]:
        """What has been set aside and is complete."""
        yield from self._foreign
        self._foreign.clear()

    def _judged(self, lines: list[tuple[TextLine, str]], count: int) -> int:
        """Deal with the first lines; how many there were."""
        for index in range(count):
            line, raw = lines[index]
            if self._aside:
                if line.text and OPENS.match(line.text) and confirm(_texts(lines, index)):
                    self._hand_on()
                    self.samples.line(line.number, line.text)
                else:
                    self._set_aside(line.number, raw)
            elif _belongs(line) or _intrudes(lines, index):
                self.samples.line(line.number, line.text)
            else:
                self._set_aside(line.number, raw)
        return max(count, 0)

    def _set_aside(self, number: int, raw: str) -> None:
        if len(self._aside) >= _MOST:
            self._hand_on()
        self._aside.append((number, raw))

    def _hand_on(self) -> None:
        if self._aside:
            self._foreign.append(Foreign(tuple(self._aside)))
            self._aside.clear()


def _texts(lines: list[tuple[TextLine, str]], index: int) -> list[str]:
    return [line.text for line, _ in lines[index : index + LOOKAHEAD + 1]]


def _belongs(line: TextLine) -> bool:
    return not line.depth and prompt(line.text) is None and bool(continues(line.text))


def _intrudes(lines: list[tuple[TextLine, str]], index: int) -> bool:
    """Whether a line that does not belong stands alone between lines that do."""
    if index + 1 >= len(lines) or not (line := lines[index][0]).text.strip() or prompt(line.text) is not None:
        return False
    following = lines[index + 1][0]
    return bool(following.text.strip()) and _belongs(following)
