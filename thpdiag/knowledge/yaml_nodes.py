"""YAML that may come from strangers: pre-checked, then loaded with the place of every node.

The pure-Python safe loader is used (libyaml's C loader crashes on deep nesting). Before anything is constructed the
event stream is checked: size, depth, no aliases or anchors, no merge keys, number of events. Booleans of YAML 1.1 (`yes`, `on`) and its
sexagesimal numbers (`12:30`) stay strings: a rule that says `is: never` or `is: yes` means the word.
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
MOST_EVENTS = 200_000


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


class _Loader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2 scalars."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:bool", r"^(?:true|false)$", "tf"),
    ("tag:yaml.org,2002:int", r"^[-+]?[0-9]+$", "-+0123456789"),
    ("tag:yaml.org,2002:float", r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
    ("tag:yaml.org,2002:null", r"^(?:null|~|)$", ["n", "~", ""]),
):
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), list(_first))


def _place(mark: Any) -> Place | None:
    return Place(mark.line + 1, mark.column + 1) if mark is not None else None


def _check_events(text: str) -> None:
    depth = events = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        events += 1
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise YamlError("aliases and anchors are not taken", _place(event.start_mark))
        if depth > DEEPEST or events > MOST_EVENTS:
            raise YamlError("nested too deep or too large", _place(event.start_mark))


def load_with_places(text: str) -> tuple[Any, dict[tuple[str | int, ...], Place]]:
    """The data and the place of every key path (`("checks", "busy", "above")`). Duplicate keys are an error."""
    if len(text.encode("utf-8", "replace")) > LARGEST:
        raise YamlError("larger than 1 MiB", None)
    try:
        _check_events(text)
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise YamlError(error.problem or str(error), _place(error.problem_mark)) from error
    except yaml.YAMLError as error:
        raise YamlError(str(error).splitlines()[0], None) from error
    places: dict[tuple[str | int, ...], Place] = {}
    return _build(node, (), places), places


def _build(node: Any, path: tuple[str | int, ...], places: dict[tuple[str | int, ...], Place]) -> Any:
    if node is None:
        return None
    places.setdefault(path, _place(node.start_mark) or Place(1, 1))
    match node:
        case yaml.MappingNode():
            return _mapping(node, path, places)
        case yaml.SequenceNode():
            return [_build(item, (*path, i), places) for i, item in enumerate(node.value)]
        case _:
            return _Loader("").construct_object(node)


def _mapping(node: yaml.MappingNode, path: tuple[str | int, ...], places: dict[tuple[str | int, ...], Place]) -> Any:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = str(key_node.value)
        place = _place(key_node.start_mark)
        if key == "<<":
            raise YamlError("merge keys are not taken", place)
        if key in result:
            raise YamlError(f"the key '{key}' stands twice", place)
        places[(*path, key)] = place or Place(1, 1)
        result[key] = _build(value_node, (*path, key), places)
    return result


def load(text: str) -> Any:
    """The data alone."""
    return load_with_places(text)[0]


def shipped(name: str) -> Mapping[str, Any]:
    """A YAML file of this folder."""
    data = load((files("thpdiag.knowledge") / name).read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise YamlError(f"{name} is not a mapping", None)
    return data
