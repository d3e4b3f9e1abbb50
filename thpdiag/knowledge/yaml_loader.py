"""PyYAML's nodes as data with places: the strict loader, and libyaml's for our own files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from thpdiag.knowledge.yaml_place import Place, YamlError

MAX_DEPTH = 40
MAX_NODES = 100_000


class Strict(yaml.SafeLoader):
    """For strangers' files: limits are kept while composing, before anything is constructed."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise YamlError("aliases and anchors are not supported", _place(event.start_mark))
        if getattr(event, "tag", None):
            raise YamlError("tags are not supported", _place(event.start_mark))
        self._nodes += 1
        self._depth += 1
        if self._depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise YamlError("nested too deep or too large", _place(event.start_mark))
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


class Quick(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """For our own files."""


_SIGNS = "-+.0123456789"  # what a number begins with
_WORDS: tuple[tuple[str, re.Pattern[str], list[str], Callable[[str], Any]], ...] = (
    ("bool", re.compile(r"^(?:true|false)$"), ["t", "f"], lambda word: word == "true"),
    ("int", re.compile(r"^[-+]?(?:0|[1-9][0-9]{0,17})$"), [*_SIGNS], int),
    ("float", re.compile(r"^[-+]?(?:[0-9]{1,18}\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,2})?$"), [*_SIGNS], float),
    ("null", re.compile(r"^(?:null|~|)$"), ["n", "~", ""], lambda word: None),
)  # unquoted words that are no text
for _loader in (Strict, Quick):
    _loader.yaml_implicit_resolvers = {}
    for _tag, _pattern, _first, _ in _WORDS:
        _loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, _first)
_FIRST = frozenset(first for word in _WORDS for first in word[2])
# No tabs, other line ends and marks of byte order; a comment stands apart from the head of a block of text.
_USUAL = re.compile(r"(?>(?:[\n -=?-{}~\u00a0-\u2027\u202a-\ud7ff]|[|>](?![-+\d]*#))*)")


class UnusualYamlError(Exception):
    """What `load_nodes` may refuse, or libyaml read in another way."""


def load_plain(text: str) -> Any:
    """The data of a stranger's text, if all of it is usual.

    libyaml's events take a thirtieth of the time of PyYAML's own scanner. They do not recurse, and this ends with the
    first that is nested too deep. No node takes less than a character.
    """
    if len(text) > MAX_NODES or not _USUAL.fullmatch(text):
        raise UnusualYamlError
    events = yaml.parse(text, Loader=Quick)
    try:
        _, document = next(events), next(events)
        if not isinstance(document, yaml.DocumentStartEvent) or document.explicit:
            raise UnusualYamlError
        data = _value(next(events), events, 1)
        _, end = next(events), next(events)
    except yaml.YAMLError:
        raise UnusualYamlError from None
    if not isinstance(end, yaml.StreamEndEvent):
        raise UnusualYamlError
    return data


def _value(event: Any, events: Iterator[Any], depth: int) -> Any:
    """What a node says that begins with `event`; its other events are taken."""
    if isinstance(event, yaml.AliasEvent) or event.anchor or event.tag or depth > MAX_DEPTH:
        raise UnusualYamlError
    if isinstance(event, yaml.ScalarEvent):
        return _scalar(event)
    if isinstance(event, yaml.MappingStartEvent):
        return _mapping(events, depth + 1)
    items = []
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        items.append(_value(event, events, depth + 1))
    return items


def _mapping(events: Iterator[Any], depth: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        if not isinstance(event, yaml.ScalarEvent) or event.anchor or event.tag:
            raise UnusualYamlError
        key = event.value
        if key in result or key == "<<" or "?" in key:
            raise UnusualYamlError
        result[key] = _value(next(events), events, depth)
    return result


def _scalar(event: Any) -> Any:
    word: str = event.value
    if not event.implicit[0]:  # in quotes, or a block
        return word
    if "?" in word:  # between brackets PyYAML takes it for a sign
        raise UnusualYamlError
    if word[:1] in _FIRST:
        for _, pattern, _, made in _WORDS:
            if pattern.match(word):
                return made(word)
    return word


def _place(mark: Any) -> Place | None:
    return Place(mark.line + 1, mark.column + 1) if mark is not None else None


def load_nodes(text: str, loader: Any) -> tuple[Any, dict[tuple[str | int, ...], Place]]:
    """The data of a text, and the place of every key path."""
    try:
        node = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        raise YamlError(error.problem or str(error), _place(error.problem_mark)) from error
    except yaml.YAMLError as error:
        raise YamlError(str(error).splitlines()[0], None) from error
    places: dict[tuple[str | int, ...], Place] = {}
    return _build(node, (), places, yaml.constructor.SafeConstructor()), places


def _build(
    node: Any,
    path: tuple[str | int, ...],
    places: dict[tuple[str | int, ...], Place],
    scalars: yaml.constructor.SafeConstructor,
) -> Any:
    """What a node says. The constructor remembers all nodes of which it made something, so it is of one text only."""
    if node is None:
        return None
    places.setdefault(path, _place(node.start_mark) or Place(1, 1))
    if isinstance(node, yaml.SequenceNode):
        return [_build(item, (*path, i), places, scalars) for i, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return scalars.construct_object(node)
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        place = _place(key_node.start_mark)
        if not isinstance(key_node, yaml.ScalarNode):
            raise YamlError("a key is one word", place)
        key = str(key_node.value)
        if key == "<<":
            raise YamlError("merge keys are not supported", place)
        if key in result:
            raise YamlError(f"duplicate key '{key}'", place)
        places[(*path, key)] = place or Place(1, 1)
        result[key] = _build(value_node, (*path, key), places, scalars)
    return result
