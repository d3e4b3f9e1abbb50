"""Sentences that keep track of the customer's names in them, so that redaction need not guess.

A name is written into an f-string by its kind, and the result is made a `Text`:

    sentence(f"only {count} samples in {path_name(member)}")

The kind travels with the name between noncharacters of Unicode, which `sentence` removes. A `Text` that is put into
another sentence keeps its names; if `sentence` is forgotten, the noncharacters are visible in the output. (Template
strings do this from Python 3.14 on.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple, SupportsIndex

_BEGIN, _SEPARATOR, _END = "\ufdd0", "\ufdd1", "\ufdd2"
_MARK = re.compile(f"{_BEGIN}([a-z]+){_SEPARATOR}([^{_BEGIN}-{_END}]*){_END}")
_STRAY = re.compile(f"[{_BEGIN}-{_END}]")
_CONTAINERS = (list, tuple, dict)
MAX_ERROR_CHARS = 300  # of an error message


class NameKind(StrEnum):
    """What a name in a sentence belongs to."""

    HOST = "host"
    PROCESS = "process"
    ENTITY = "entity"
    FUNCTION = "function"
    PATH = "path"
    MODULE = "module"
    QUOTED = "quoted"


class Name(NamedTuple):
    """A name from the customer's data in a sentence."""

    kind: NameKind
    value: str


class Text(str):
    """A sentence with the names in it; otherwise a plain string."""

    __slots__ = ("names",)
    names: tuple[Name, ...]

    def __new__(cls, text: str, names: Iterable[Name] = ()) -> Text:
        self = super().__new__(cls, text)
        self.names = tuple(dict.fromkeys(names))
        return self

    def __getnewargs__(self) -> tuple[str, tuple[Name, ...]]:  # type: ignore[override]
        return str(self), self.names

    def __format__(self, spec: str) -> str:
        """Return the text with its names marked, for the sentence that includes it."""
        if not self.names:
            return str(self)
        kinds = {name.value: name.kind for name in self.names}
        return token_pattern(kinds).sub(lambda match: _mark_name(kinds[match[0]], match[0]), str(self))

    def __add__(self, other: str) -> Text:
        more = sentence(other)
        return Text(f"{self!s}{more!s}", (*self.names, *names_in(more)))

    def __radd__(self, other: str) -> Text:
        before = sentence(other)
        return Text(f"{before!s}{self!s}", (*names_in(before), *self.names))

    def __getitem__(self, key: SupportsIndex | slice) -> Text:
        return Text(str(self)[key], self.names)


def names_in(text: object) -> tuple[Name, ...]:
    """Return the names in a text."""
    return text.names if isinstance(text, Text) else ()


def sentence(marked: str) -> str:
    """Return a `Text` for an f-string with marked names; a string without names is returned unchanged."""
    if _BEGIN not in marked:
        return marked
    names = [Name(NameKind(kind), value) for kind, value in _MARK.findall(marked)]
    return Text(_MARK.sub(r"\2", marked), (*names_in(marked), *names))


def token_pattern(values: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that matches any of these values as a whole word, longest first."""
    ordered = sorted(values, key=len, reverse=True)
    return re.compile(
        "|".join(f"{_edge(v[0], '<!')}{re.escape(v)}{_edge(v[-1], '!')}" for v in ordered if v) or r"(?!)"
    )


def _edge(char: str, lookaround: str) -> str:
    return rf"(?{lookaround}\w)" if char.isalnum() or char == "_" else ""


def _mark_name(kind: NameKind, value: object) -> str:
    plain = _STRAY.sub("\ufffd", str(value))
    return f"{_BEGIN}{kind.value}{_SEPARATOR}{plain}{_END}" if plain else ""


def host_name(name: object) -> str:
    """Mark the name of a host in a sentence."""
    return _mark_name(NameKind.HOST, name)


def process_name(name: object) -> str:
    """Mark the name of a program or thread in a sentence."""
    return _mark_name(NameKind.PROCESS, name)


def entity_name(name: object) -> str:
    """Mark a process with its pid, a zone, a device or a control group in a sentence."""
    return _mark_name(NameKind.ENTITY, name)


_GENERIC_ENTITY = re.compile(r"(?<=\bof )the process\b|\ba control group\b")


def name_entity(words: str, entity: str) -> str:
    """Return a metric's description with an entity for `the process` or `a control group`, or at the end."""
    named, count = _GENERIC_ENTITY.subn(lambda _: entity, words)
    return named if count else f"{words} of {entity}"


def function_name(name: object) -> str:
    """Mark a function of a call stack in a sentence."""
    return _mark_name(NameKind.FUNCTION, name)


def path_name(path: object) -> str:
    """Mark a path, with or without a line number, in a sentence."""
    return _mark_name(NameKind.PATH, path)


def module_name(name: object) -> str:
    """Mark a kernel module in a sentence."""
    return _mark_name(NameKind.MODULE, name)


def quoted(words: object) -> str:
    """Mark a quotation from the customer's files in a sentence."""
    return _mark_name(NameKind.QUOTED, words)


def describe_error(error: Exception) -> str:
    """Return an exception for a sentence: its type and its message, shortened."""
    return f"{type(error).__name__}: {quoted(str(error)[:MAX_ERROR_CHARS])}"


def names_of(value: object) -> tuple[Name, ...]:
    """Return the names in a value of a document: a sentence, a list of them, or a mapping keyed by sentences."""
    if isinstance(value, Text):
        return value.names
    if isinstance(value, _CONTAINERS):
        return tuple(name for item in value if isinstance(item, Text) for name in item.names)
    return ()


def without_names(value: Any) -> Any:
    """Return the value with plain strings instead of `Text`."""
    if isinstance(value, Text):
        return str(value)
    if isinstance(value, list | tuple):
        return [str(item) if isinstance(item, Text) else item for item in value]
    return {str(k) if isinstance(k, Text) else k: v for k, v in value.items()} if isinstance(value, dict) else value
