"""YAML with the position of every node: strict for untrusted files, fast for shipped ones; errors with line and caret.

Untrusted files are read with limits on size, depth and number of nodes, and without aliases, anchors and merge keys.
Common syntax is read by libyaml's events, which do not recurse; other syntax, and positions for error messages, by
PyYAML's own scanner, because libyaml's composer, which is used for shipped files, crashes on deep nesting. Booleans of
YAML 1.1 (`yes`, `on`) and its sexagesimal numbers (`12:30`) remain strings, so that `is: never` and `is: yes` in a rule
are words.

`shipped.tsv` has the content of the shipped files as JSON, by the checksum of the YAML, so that a run does not parse
100 files of YAML (0.15 s); edited files are parsed. `describe_shipped` creates it (`BLESS=1` and
tests/knowledge/test_shipped.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple

import yaml


class Place(NamedTuple):
    """Line and column from 1."""

    line: int
    column: int


class YamlError(ValueError):
    """Invalid YAML, with the position."""

    def __init__(self, message: str, place: Place | None) -> None:
        super().__init__(message)
        self.place = place


MAX_DEPTH = 40
MAX_NODES = 100_000


class Strict(yaml.SafeLoader):
    """Loader for untrusted files, which checks limits while composing, before objects are constructed."""

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
    """Loader for shipped files."""


_NUMBER_STARTS = "-+.0123456789"  # first characters of a number
_WORDS: tuple[tuple[str, re.Pattern[str], list[str], Callable[[str], Any]], ...] = (
    ("bool", re.compile(r"^(?:true|false)$"), ["t", "f"], lambda word: word == "true"),
    ("int", re.compile(r"^[-+]?(?:0|[1-9][0-9]{0,17})$"), [*_NUMBER_STARTS], int),
    ("float", re.compile(r"^[-+]?(?:[0-9]{1,18}\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,2})?$"), [*_NUMBER_STARTS], float),
    ("null", re.compile(r"^(?:null|~|)$"), ["n", "~", ""], lambda word: None),
)  # unquoted words that are not strings
for _loader in (Strict, Quick):
    _loader.yaml_implicit_resolvers = {}
    for _tag, _pattern, _first, _ in _WORDS:
        _loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, _first)
_FIRST = frozenset(first for word in _WORDS for first in word[2])
# No tabs, other line ends or byte order marks, and no comment directly after the header of a block scalar.
_USUAL = re.compile(r"(?>(?:[\n -=?-{}~\u00a0-\u2027\u202a-\ud7ff]|[|>](?![-+\d]*#))*)")


class UnusualYamlError(Exception):
    """YAML that `load_nodes` may reject, or that libyaml may read differently."""


def load_plain(text: str) -> Any:
    """Return the data of an untrusted text; raise UnusualYamlError if it has uncommon syntax.

    libyaml's events take a thirtieth of the time of PyYAML's own scanner. They do not recurse, and reading stops at the
    first node that is nested too deep. A node has at least one character.
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
    """Return the data of the node that begins with `event`, and consume its other events."""
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
    if "?" in word:  # in flow collections PyYAML treats it as an indicator
        raise UnusualYamlError
    if word[:1] in _FIRST:
        for _, pattern, _, convert in _WORDS:
            if pattern.match(word):
                return convert(word)
    return word


def _place(mark: Any) -> Place | None:
    return Place(mark.line + 1, mark.column + 1) if mark is not None else None


def load_nodes(text: str, loader: Any) -> tuple[Any, dict[tuple[str | int, ...], Place]]:
    """Return the data of a text, and the position of every key path."""
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
    """Return the data of a node. The constructor keeps all constructed nodes, so it is used for one text only."""
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


MAX_BYTES = 1 << 20
ADDED: dict[str, list[Mapping[str, Any]]] = {}  # data that active rule packs add to shipped files, by name (packs.py)


Places = Mapping[tuple[str | int, ...], Place]


class _DeferredPlaces(Mapping[tuple[str | int, ...], Place]):
    """Positions in a text that is parsed only when an error message needs one; `own`: it is a shipped file."""

    def __init__(self, text: str, *, own: bool) -> None:
        self._text, self._own = text, own

    @cached_property
    def _places(self) -> Places:
        return load_nodes(self._text, Quick if self._own else Strict)[1]

    def __getitem__(self, path: tuple[str | int, ...]) -> Place:
        return self._places[path]

    def __iter__(self) -> Iterator[tuple[str | int, ...]]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def load_with_places(text: str) -> tuple[Any, Places]:
    """Return the data of an untrusted text and the position of every key path (`("checks", "busy", "above")`).

    Duplicate keys are an error.
    """
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise YamlError("larger than 1 MiB", None)
    try:
        return load_plain(text), _DeferredPlaces(text, own=False)
    except UnusualYamlError:
        return load_nodes(text, Strict)


def load_own(text: str) -> tuple[Any, Places]:
    """Return the same for a file shipped with thpdiag."""
    if (content := _shipped_texts().get(_checksum(text))) is not None:
        return json.loads(content), _DeferredPlaces(text, own=True)
    return load_nodes(text, Quick)


def _checksum(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@cache
def _shipped_texts() -> Mapping[str, str]:
    """Return the content of each shipped file as JSON, by its checksum."""
    table = files("thpdiag.knowledge") / "shipped.tsv"
    return dict(row.split("\t") for row in table.read_text("utf-8").splitlines())


def describe_shipped(texts: Iterable[str]) -> str:
    """Return the text of `shipped.tsv` for these files."""
    rows = (
        f"{_checksum(text)}\t{json.dumps(load_nodes(text, Quick)[0], ensure_ascii=True, separators=(',', ':'))}\n"
        for text in texts
    )
    return "".join(rows)


def load(text: str) -> Any:
    """Return the data of an untrusted text."""
    return load_with_places(text)[0]


def load_shipped(name: str) -> Mapping[str, Any]:
    """Return the data of a YAML file in this folder, with additions of rule packs."""
    data = load_own((files("thpdiag.knowledge") / name).read_text(encoding="utf-8"))[0]
    if not isinstance(data, dict):
        raise YamlError(f"{name} is not a mapping", None)
    for added in ADDED.get(name, ()):
        for key, value in added.items():
            match value:
                case dict() if key in data:
                    data[key] = {**data[key], **value}
                case list():
                    data[key] = [*data.get(key, ()), *value]
                case _:
                    data[key] = value
    return data


def point_at(path: str, text: str, message: str, place: Place | None) -> str:
    """Return `path:line:column: message`, the line, and a caret under the column."""
    if place is None:
        return f"{path}: {message}"
    rows = text.splitlines()
    row = rows[place.line - 1] if place.line <= len(rows) else ""
    pointer = f"\n  {row}\n  {' ' * (place.column - 1)}^" if row.strip() else ""  # none at the end of the file
    return f"{path}:{place.line}:{place.column}: {message}{pointer}"


def suggestion(word: str, known: Iterable[str], cutoff: float = 0.55) -> str:
    """Return `; did you mean 'x'?` if a known word is similar, or empty."""
    import difflib  # only needed for errors

    close = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"; did you mean '{close[0]}'?" if close else ""
