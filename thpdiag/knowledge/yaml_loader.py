"""PyYAML's nodes as data with places: the strict loader, and libyaml's for our own files."""

from __future__ import annotations

import re
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
            raise YamlError("aliases and anchors are not taken", _place(event.start_mark))
        if getattr(event, "tag", None):
            raise YamlError("tags are not taken", _place(event.start_mark))
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
for _loader in (Strict, Quick):
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
            raise YamlError("merge keys are not taken", place)
        if key in result:
            raise YamlError(f"the key '{key}' stands twice", place)
        places[(*path, key)] = place or Place(1, 1)
        result[key] = _build(value_node, (*path, key), places, scalars)
    return result
