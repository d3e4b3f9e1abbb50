"""Sentences of ours with the customer's names in them, each with its kind: redaction walks names and guesses none.

A name is written into an f-string by its kind, and the whole is made a `Text`:

    sentence(f"only {count} samples in {path_name(member)}")

The kind travels with the name between noncharacters of Unicode, which `sentence` takes out again. A `Text` that is put
into another sentence brings its names along; where `sentence` is forgotten the noncharacters are seen in the output.
(Template strings do this from Python 3.14 on.)
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
MAX_ERROR = 300  # characters of a mistake that are told


class NameKind(StrEnum):
    """What a name in a sentence is the name of."""

    HOST = "host"
    PROCESS = "process"
    ENTITY = "entity"
    FUNCTION = "function"
    PATH = "path"
    MODULE = "module"
    QUOTED = "quoted"


class Name(NamedTuple):
    """A name of the customer's as it stands in a sentence."""

    kind: NameKind
    value: str


class Text(str):
    """A sentence that knows the names in it. It is a plain string for everybody else."""

    __slots__ = ("names",)
    names: tuple[Name, ...]

    def __new__(cls, text: str, names: Iterable[Name] = ()) -> Text:
        self = super().__new__(cls, text)
        self.names = tuple(dict.fromkeys(names))
        return self

    def __getnewargs__(self) -> tuple[str, tuple[Name, ...]]:  # type: ignore[override]
        return str(self), self.names

    def __format__(self, spec: str) -> str:
        """The text with its names marked, for the sentence that it becomes a part of."""
        if not self.names:
            return str(self)
        kinds = {name.value: name.kind for name in self.names}
        return token_pattern(kinds).sub(lambda found: _mark_name(kinds[found[0]], found[0]), str(self))

    def __add__(self, other: str) -> Text:
        more = sentence(other)
        return Text(f"{self!s}{more!s}", (*self.names, *names_in(more)))

    def __radd__(self, other: str) -> Text:
        before = sentence(other)
        return Text(f"{before!s}{self!s}", (*names_in(before), *self.names))

    def __getitem__(self, key: SupportsIndex | slice) -> Text:
        return Text(str(self)[key], self.names)


def names_in(text: object) -> tuple[Name, ...]:
    """The names that a text is known to hold."""
    return text.names if isinstance(text, Text) else ()


def sentence(marked: str) -> str:
    """A sentence of an f-string with names in it; one without stays as it is."""
    if _BEGIN not in marked:
        return marked
    names = [Name(NameKind(kind), value) for kind, value in _MARK.findall(marked)]
    return Text(_MARK.sub(r"\2", marked), (*names_in(marked), *names))


def token_pattern(values: Iterable[str]) -> re.Pattern[str]:
    """Any of these values where it stands as a whole word, the longest first."""
    ordered = sorted(values, key=len, reverse=True)
    return re.compile(
        "|".join(f"{_edge(v[0], '<!')}{re.escape(v)}{_edge(v[-1], '!')}" for v in ordered if v) or r"(?!)"
    )


def _edge(sign: str, look: str) -> str:
    return rf"(?{look}\w)" if sign.isalnum() or sign == "_" else ""


def _mark_name(kind: NameKind, value: object) -> str:
    plain = _STRAY.sub("\ufffd", str(value))
    return f"{_BEGIN}{kind.value}{_SEPARATOR}{plain}{_END}" if plain else ""


def host_name(name: object) -> str:
    """The name of a host, for a sentence."""
    return _mark_name(NameKind.HOST, name)


def process_name(name: object) -> str:
    """The name of a program or thread, for a sentence."""
    return _mark_name(NameKind.PROCESS, name)


def entity_name(name: object) -> str:
    """A process with its pid, a zone, a device, a control group, for a sentence."""
    return _mark_name(NameKind.ENTITY, name)


_ANY_ENTITY = re.compile(r"(?<=\bof )the process\b|\ba control group\b")


def name_entity(words: str, entity: str) -> str:
    """What a metric means, of one entity: it takes the place of `the process` or `a control group`, or comes last."""
    named, count = _ANY_ENTITY.subn(lambda _: entity, words)
    return named if count else f"{words} of {entity}"


def function_name(name: object) -> str:
    """A function of a call stack, for a sentence."""
    return _mark_name(NameKind.FUNCTION, name)


def path_name(path: object) -> str:
    """A path, also with the number of a line, for a sentence."""
    return _mark_name(NameKind.PATH, path)


def module_name(name: object) -> str:
    """A kernel module, for a sentence."""
    return _mark_name(NameKind.MODULE, name)


def quoted(words: object) -> str:
    """What the customer's files say, for a sentence."""
    return _mark_name(NameKind.QUOTED, words)


def describe_error(error: Exception) -> str:
    """A mistake of ours, for a sentence: its type, and what it says, cut."""
    return f"{type(error).__name__}: {quoted(str(error)[:MAX_ERROR])}"


def names_of(value: object) -> tuple[Name, ...]:
    """The names in a value of a document: a sentence, a list of them, a map by sentences."""
    if isinstance(value, Text):
        return value.names
    if isinstance(value, _CONTAINERS):
        return tuple(name for item in value if isinstance(item, Text) for name in item.names)
    return ()


def without_names(value: Any) -> Any:
    """The value with plain strings for its sentences."""
    if isinstance(value, Text):
        return str(value)
    if isinstance(value, list | tuple):
        return [str(item) if isinstance(item, Text) else item for item in value]
    return {str(k) if isinstance(k, Text) else k: v for k, v in value.items()} if isinstance(value, dict) else value
