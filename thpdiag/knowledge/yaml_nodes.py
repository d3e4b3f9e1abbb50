"""YAML with the place of every node: strictly for files of strangers, quickly for our own.

Files of strangers are read by PyYAML's own scanner (libyaml's crashes on deep nesting) with limits on size, depth
and number of nodes, and without aliases, anchors and merge keys. Files shipped with thpdiag may use libyaml.
Booleans of YAML 1.1 (`yes`, `on`) and its sexagesimal numbers (`12:30`) stay strings: a rule that says `is: never`
or `is: yes` means the word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

LARGEST = 1 << 20  # bytes
DEEPEST = 40
MOST_NODES = 100_000


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column from 1."""

    line: int
    column: int


class YamlError(ValueError):
    """YAML that cannot be taken, with the place."""

    def __init__(self, message: str, place: Place | None) -> None:
        super().__init__(message)
        self.place = place


class _Strict(yaml.SafeLoader):
    """For strangers' files: limits are kept while composing, before anything is constructed."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise YamlError("aliases and anchors are not taken", _place(event.start_mark))
        if getattr(event, "tag", None):
            raise YamlError("tags are not taken", _place(event.start_mark))
        self._nodes += 1
        self._depth += 1
        if self._depth > DEEPEST or self._nodes > MOST_NODES:
            raise YamlError("nested too deep or too large", _place(event.start_mark))
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Quick(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """For our own files."""


_SIGNS = "-+.0123456789"  # what a number begins with
for _loader in (_Strict, _Quick):
    _loader.yaml_implicit_resolvers = {}
    for _tag, _pattern, _first in (
        ("tag:yaml.org,2002:bool", r"^(?:true|false)$", "tf"),
        ("tag:yaml.org,2002:int", r"^[-+]?(?:0|[1-9][0-9]{0,17})$", _SIGNS),
        ("tag:yaml.org,2002:float", r"^[-+]?(?:[0-9]{1,18}\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,2})?$", _SIGNS),
        ("tag:yaml.org,2002:null", r"^(?:null|~|)$", ["n", "~", ""]),
    ):
        _loader.add_implicit_resolver(_tag, re.compile(_pattern), list(_first))


def _place(mark: Any) -> Place | None:
    return Place(mark.line + 1, mark.column + 1) if mark is not None else None


Places = dict[tuple[str | int, ...], Place]


def load_with_places(text: str) -> tuple[Any, Places]:
    """A stranger's data and the place of every key path (`("checks", "busy", "above")`).

    Duplicate keys are an error.
    """
    if len(text.encode("utf-8", "replace")) > LARGEST:
        raise YamlError("larger than 1 MiB", None)
    return _loaded(text, _Strict)


def load_own(text: str) -> tuple[Any, Places]:
    """The same for a file shipped with thpdiag."""
    return _loaded(text, _Quick)


def _loaded(text: str, loader: Any) -> tuple[Any, Places]:
    try:
        node = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        raise YamlError(error.problem or str(error), _place(error.problem_mark)) from error
    except yaml.YAMLError as error:
        raise YamlError(str(error).splitlines()[0], None) from error
    places: Places = {}
    return _build(node, (), places, yaml.constructor.SafeConstructor()), places


def _build(node: Any, path: tuple[str | int, ...], places: Places, scalars: yaml.constructor.SafeConstructor) -> Any:
    """What a node says. The constructor remembers all nodes of which it made something, so it is of one text only."""
    if node is None:
        return None
    places.setdefault(path, _place(node.start_mark) or Place(1, 1))
    match node:
        case yaml.MappingNode():
            return _mapping(node, path, places, scalars)
        case yaml.SequenceNode():
            return [_build(item, (*path, i), places, scalars) for i, item in enumerate(node.value)]
        case _:
            return scalars.construct_object(node)


def _mapping(
    node: yaml.MappingNode, path: tuple[str | int, ...], places: Places, scalars: yaml.constructor.SafeConstructor
) -> Any:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        place = _place(key_node.start_mark)
        if not isinstance(key_node, yaml.ScalarNode):
            raise YamlError("a key is one word", place)
        key = str(key_node.value)
        if key == "<<":
            raise YamlError("merge keys are not taken", place)
        if key in result:
            raise YamlError(f"the key '{key}' stands twice", place)
        places[(*path, key)] = place or Place(1, 1)
        result[key] = _build(value_node, (*path, key), places, scalars)
    return result


def load(text: str) -> Any:
    """The data alone."""
    return load_with_places(text)[0]


def shipped(name: str) -> Mapping[str, Any]:
    """A YAML file of this folder."""
    data = load_own((files("thpdiag.knowledge") / name).read_text(encoding="utf-8"))[0]
    if not isinstance(data, dict):
        raise YamlError(f"{name} is not a mapping", None)
    return data
