"""`sadf -j` piece by piece: the tree is never whole in memory, however long the recording or deep the nesting.

Any layout of the text will do. An object is given with its own plain values when it ends; of the rest nothing is kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.model import Record
from thpdiag.readers.sysstat.sadf_activities import WANTED, Activities, TreeError

DEEPEST = 32
LONGEST = 1 << 16  # characters of one string or number
_FLAT = rb'\{[^{}\[\]"\n]*(?:"[^"\\\n]*"[^{}\[\]"\n]*)*\}'  # an object in one line, as sadf prints activities
_TOKEN = re.compile(_FLAT + rb'|"(?:[^"\\\n]|\\.)*"|[{}\[\],:\n]|[^\s{}\[\],:"]+')


@dataclass(slots=True)
class _Open:
    """An object or array that did not end yet; `name` is the key it stands under, or its array does."""

    name: str
    line: int
    array: bool
    values: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Tree:
    activities: Activities
    line: int = 1
    key: str | None = None
    waiting: bool = False  # a key was read, its value was not
    stack: list[_Open] = field(default_factory=list)
    begun: bool = False

    def token(self, token: bytes) -> Iterator[Record]:
        """One token more."""
        if token == b"\n":
            self.line += 1
        elif token.startswith(b"{") and len(token) > 1:
            yield from self._flat(token)
        elif token in b"{[":
            self._open(token)
        elif token in b"}]":
            yield from self._close(token)
        elif token == b":":
            self.waiting = True
        elif token == b",":
            self.key, self.waiting = None, False
        else:
            yield from self._scalar(token)

    def _flat(self, token: bytes) -> Iterator[Record]:
        """An object whole; one that nobody asks for is not looked into."""
        self._open(b"{")
        ended = self.stack.pop()
        if ended.name not in WANTED:
            return
        try:
            values = json.loads(token.decode("utf-8", "replace"), parse_float=str, parse_int=str)
        except ValueError as error:
            raise TreeError("an object is broken") from error
        ended.values = {key: value for key, value in values.items() if isinstance(value, str)}
        self.stack.append(ended)
        yield from self._close(b"}")

    def _open(self, token: bytes) -> None:
        if len(self.stack) >= DEEPEST:
            raise TreeError("it is nested too deeply")
        within = self.stack[-1] if self.stack else None
        name = within.name if within and within.array else self.key or ""
        self.stack.append(_Open(name, self.line, token == b"["))
        self.key, self.waiting, self.begun = None, False, True

    def _close(self, token: bytes) -> Iterator[Record]:
        if not self.stack or self.stack[-1].array is not (token == b"]"):
            raise TreeError("a bracket closes nothing")
        ended = self.stack.pop()
        if ended.name == "timestamp":
            self.activities.stamp(ended.values)
        elif not ended.array and ended.values:
            yield from self.activities.element(ended.line, "", ended.name, ended.values)

    def _scalar(self, token: bytes) -> Iterator[Record]:
        if not self.stack:
            raise TreeError("a value stands outside of everything")
        within = self.stack[-1]
        text = _text(token)
        if not within.array and not self.waiting:
            self.key = text
        elif self.key is not None:
            within.values[self.key] = text
            if within.name == "hosts":
                yield from self.activities.scalar(self.line, self.key, text)


def _text(token: bytes) -> str:
    if len(token) > LONGEST:
        raise TreeError("a value is too long")
    if not token.startswith(b'"'):
        return token.decode("utf-8", "replace")
    try:
        return str(json.loads(token.decode("utf-8", "replace"), strict=False))
    except ValueError as error:
        raise TreeError("a string is broken") from error


def read_json(activities: Activities, chunks: Iterator[bytes]) -> Iterator[Record]:
    """The records of the tree in these bytes; TreeError where it cannot go on."""
    tree, ended = _Tree(activities), 0
    try:
        for text in _pieces(chunks):
            yield from _tokens(tree, text)
            ended = int(text.endswith(b"\n")) if text else ended
    except TreeError as error:
        raise TreeError(error.text, tree.line) from error
    if tree.stack or not tree.begun:
        raise TreeError("it ends early", tree.line - ended)  # behind the last line there is none


def _pieces(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The text cut where no token is."""
    rest = b""
    for chunk in chunks:
        rest += chunk
        safe = max(rest.rfind(mark) for mark in (b"\n", b",", b"}")) + 1
        if safe and _whole(rest[:safe]):
            yield rest[:safe]
            rest = rest[safe:]
        elif len(rest) > 16 * LONGEST:
            raise TreeError("a value is too long")
    yield rest


def _whole(text: bytes) -> bool:
    """Whether no string is open at the end: the last quote closes one."""
    line = text[text.rfind(b"\n", 0, -1) + 1 :]
    return (re.sub(rb"\\.", b"", line) if b"\\" in line else line).count(b'"') % 2 == 0


def _tokens(tree: _Tree, text: bytes) -> Iterator[Record]:
    at = 0
    for found in _TOKEN.finditer(text):
        if text[at : found.start()].strip():
            raise TreeError("a string is broken")
        at = found.end()
        yield from tree.token(found[0])
    if text[at:].strip():
        raise TreeError("a string is broken")
