"""Discovery of all parsers: every `Parser` (lines) and `BulkParser` (bytes) that a module of this package defines.

Parsers are not registered. Most modules define one `PARSER`, one `BULK_PARSER`, or both; a module with several small
formats defines one constant for each. The modules of this folder and of its subpackages (`collectl/`, `procfs/`) are
searched; modules whose name begins with `_` and deeper packages are not.

A run imports only the modules whose formats occur in its input. `formats.json` lists how each format begins;
`line_formats` and `bulk_formats` read it. tests/parsers/test_formats.py with `BLESS=1` writes it from the modules.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType

from thpdiag.model.parser import BulkParser, Parser

FORMATS_FILE = Path(__file__).with_name("formats.json")
SOURCES_FILE = Path(__file__).with_name("sources.json")


@dataclass(frozen=True)
class DeferredParser:
    """How the blocks of a line format begin. The module of the parser is imported only when such a block occurs."""

    name: str
    module: str
    constant: str
    starts: str = ""
    flags: int = 0
    words: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    priority: int = 0

    def opens_at(self, text: str) -> bool:
        """Return whether a block may begin at this line. Words come first, so that few patterns are compiled."""
        return (not self.words or any(word in text for word in self.words)) and bool(self.opens.match(text))

    @cached_property
    def opens(self) -> re.Pattern[str]:
        return re.compile(self.starts or r"(?!)", self.flags)

    @cached_property
    def paths(self) -> tuple[re.Pattern[str], ...]:
        return tuple(map(re.compile, self.suffixes))

    def load(self) -> Parser:
        parser: Parser = getattr(importlib.import_module(f"{__name__}.{self.module}"), self.constant)
        return parser


@dataclass(frozen=True)
class DeferredBulkParser:
    """How the members of a bulk format begin. The module of the parser is imported only when such a member occurs."""

    name: str
    module: str
    constant: str
    starts: str = ""
    flags: int = 0
    min_size: int = 0

    @cached_property
    def opens(self) -> re.Pattern[bytes]:
        return re.compile(self.starts.encode("latin-1"), self.flags)

    def claims(self, path: str, head: bytes, size: int | None) -> bool:
        """Return whether the whole member has this format."""
        if (size is not None and size < self.min_size) or (self.starts and not self.opens.match(head)):
            return False
        return self.load().claims(path, head, size)

    def load(self) -> BulkParser:
        parser: BulkParser = getattr(importlib.import_module(f"{__name__}.{self.module}"), self.constant)
        return parser


@cache
def line_formats() -> tuple[DeferredParser, ...]:
    """Return the line formats shipped with thpdiag, sorted by name, without importing their modules."""
    rows = json.loads(FORMATS_FILE.read_bytes())["lines"]
    lists = ({**row, "words": tuple(row.get("words", ())), "suffixes": tuple(row.get("suffixes", ()))} for row in rows)
    return tuple(DeferredParser(**row) for row in lists)


@cache
def bulk_formats() -> tuple[DeferredBulkParser, ...]:
    """Return the formats of whole members, sorted by name, without importing their modules."""
    return tuple(DeferredBulkParser(**row) for row in json.loads(FORMATS_FILE.read_bytes())["bytes"])


@cache
def all_parsers() -> tuple[Parser, ...]:
    """Return the line parsers shipped with thpdiag, sorted by name."""
    return tuple(parser for _, _, parser in constants() if isinstance(parser, Parser))


@cache
def bulk_parsers() -> tuple[BulkParser, ...]:
    """Return the parsers of whole members, sorted by name."""
    return tuple(parser for _, _, parser in constants() if isinstance(parser, BulkParser))


@cache
def constants() -> tuple[tuple[str, str, Parser | BulkParser], ...]:
    """Return (module, constant, parser) for each parser, with the first constant that holds it, sorted by its name."""
    parsers: dict[int, tuple[str, str, Parser | BulkParser]] = {}
    for module in _modules():
        for constant, value in vars(module).items():
            if isinstance(value, Parser | BulkParser):
                parsers.setdefault(id(value), (module.__name__.removeprefix(f"{__name__}."), constant, value))
    return tuple(sorted(parsers.values(), key=lambda row: row[2].name))


def _modules() -> Iterator[ModuleType]:
    for top in pkgutil.iter_modules(__path__):
        if top.name.startswith("_"):
            continue
        module = importlib.import_module(f"{__name__}.{top.name}")
        yield module
        if top.ispkg:
            inner = pkgutil.iter_modules(module.__path__)
            yield from (
                importlib.import_module(f"{module.__name__}.{m.name}")
                for m in inner
                if not m.ispkg and m.name[0] != "_"
            )


@cache
def parsers_of_names() -> dict[str, list[str]]:
    """Return the parsers that yield each fact and metric of the vocabulary; derived names have none.

    tests/parsers/test_readers.py with `BLESS=1` writes the file from the records of all fixtures.
    """
    parsers: dict[str, list[str]] = json.loads(SOURCES_FILE.read_text("utf-8"))
    return parsers
