"""YAML with the place of every node: strict for files of strangers, quick for our own; errors with line and caret.

Files of strangers are read with limits on size, depth and number of nodes, and without aliases, anchors and merge keys.
What is usual in them is read by libyaml's events, which do not recurse; the rest, and what a complaint needs, by
PyYAML's own scanner: libyaml's composer, which files shipped with thpdiag may use, crashes on deep nesting.
Booleans of YAML 1.1 (`yes`, `on`) and its sexagesimal numbers (`12:30`) stay strings: a rule that says `is: never`
or `is: yes` means the word.

What the shipped files say stands once more in `shipped.tsv`, as JSON by the checksum of the YAML, so that a run need
not parse 100 files of YAML (0.15 s); a file that was edited since is parsed. `describe_shipped` writes it (`BLESS=1`
and tests/knowledge/test_shipped.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from hashlib import sha256
from importlib.resources import files
from typing import Any

from thpdiag.knowledge.yaml_place import Place as Place
from thpdiag.knowledge.yaml_place import YamlError as YamlError

MAX_BYTES = 1 << 20  # bytes
ADDED: dict[str, list[Mapping[str, Any]]] = {}  # what the rule packs in use add to our files, by name (packs.py)


Places = Mapping[tuple[str | int, ...], Place]


class _DeferredPlaces(Mapping[tuple[str | int, ...], Place]):
    """The places of a text whose data is known, which is parsed when a complaint needs one; `own`: shipped by us."""

    def __init__(self, text: str, *, own: bool) -> None:
        self._text, self._own = text, own

    @cached_property
    def _places(self) -> Places:
        from thpdiag.knowledge.yaml_loader import Quick, Strict, load_nodes

        return load_nodes(self._text, Quick if self._own else Strict)[1]

    def __getitem__(self, path: tuple[str | int, ...]) -> Place:
        return self._places[path]

    def __iter__(self) -> Iterator[tuple[str | int, ...]]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def load_with_places(text: str) -> tuple[Any, Places]:
    """A stranger's data and the place of every key path (`("checks", "busy", "above")`).

    Duplicate keys are an error.
    """
    from thpdiag.knowledge.yaml_loader import Strict, UnusualYamlError, load_nodes, load_plain

    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise YamlError("larger than 1 MiB", None)
    try:
        return load_plain(text), _DeferredPlaces(text, own=False)
    except UnusualYamlError:
        return load_nodes(text, Strict)


def load_own(text: str) -> tuple[Any, Places]:
    """The same for a file shipped with thpdiag."""
    if (known := _shipped().get(_checksum(text))) is not None:
        return json.loads(known), _DeferredPlaces(text, own=True)
    from thpdiag.knowledge.yaml_loader import Quick, load_nodes

    return load_nodes(text, Quick)


def _checksum(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@cache
def _shipped() -> Mapping[str, str]:
    """What each shipped file says as JSON, by its checksum."""
    table = files("thpdiag.knowledge") / "shipped.tsv"
    return dict(row.split("\t") for row in table.read_text("utf-8").splitlines())


def describe_shipped(texts: Iterable[str]) -> str:
    """The text of `shipped.tsv` for these files."""
    from thpdiag.knowledge.yaml_loader import Quick, load_nodes

    rows = (
        f"{_checksum(text)}\t{json.dumps(load_nodes(text, Quick)[0], ensure_ascii=True, separators=(',', ':'))}\n"
        for text in texts
    )
    return "".join(rows)


def load(text: str) -> Any:
    """The data alone."""
    return load_with_places(text)[0]


def load_shipped(name: str) -> Mapping[str, Any]:
    """A YAML file of this folder, with what rule packs add to it."""
    data = load_own((files("thpdiag.knowledge") / name).read_text(encoding="utf-8"))[0]
    if not isinstance(data, dict):
        raise YamlError(f"{name} is not a mapping", None)
    for more in ADDED.get(name, ()):
        for key, value in more.items():
            match value:
                case dict() if key in data:
                    data[key] = {**data[key], **value}
                case list():
                    data[key] = [*data.get(key, ()), *value]
                case _:
                    data[key] = value
    return data


def point_at(path: str, text: str, message: str, place: Place | None) -> str:
    """`path:line:column: message`, the line, and a caret under the column."""
    if place is None:
        return f"{path}: {message}"
    rows = text.splitlines()
    row = rows[place.line - 1] if place.line <= len(rows) else ""
    pointer = f"\n  {row}\n  {' ' * (place.column - 1)}^" if row.strip() else ""  # not at the end of the file
    return f"{path}:{place.line}:{place.column}: {message}{pointer}"


def suggestion(word: str, known: Iterable[str], cutoff: float = 0.55) -> str:
    """`; did you mean 'x'?` if something known is like the word."""
    import difflib  # only for a mistake

    close = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"; did you mean '{close[0]}'?" if close else ""
