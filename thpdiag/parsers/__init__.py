"""All parsers, found, not registered: every `Parser` (lines) and `BulkParser` (bytes) that a module here defines.

A small format is a constant of a file that holds several; most files have one `PARSER`, or a `BULK_PARSER`, or both.
Modules of this folder and of the rooms in it (`collectl/`, `procfs/`) are searched, `_names` and deeper rooms are not.

A run imports only the modules of the formats that its input opens. How each begins stands in `formats.json`, of which
`line_formats` and `bulk_formats` are made; it is written from the modules by `BLESS=1` and
tests/parsers/test_formats.py.
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
    """How the blocks of a format begin; its module is imported where one does."""

    name: str
    module: str
    constant: str
    starts: str = ""
    flags: int = 0
    words: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    priority: int = 0

    def opens_at(self, text: str) -> bool:
        """Whether a block may begin at this line. Few lines have one of the words: few patterns are compiled."""
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
    """How the members of a format begin; its module is imported where one does."""

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
        """Whether the whole member is of this format."""
        if (size is not None and size < self.min_size) or (self.starts and not self.opens.match(head)):
            return False
        return self.load().claims(path, head, size)

    def load(self) -> BulkParser:
        parser: BulkParser = getattr(importlib.import_module(f"{__name__}.{self.module}"), self.constant)
        return parser


@cache
def line_formats() -> tuple[DeferredParser, ...]:
    """The parsers of lines shipped with thpdiag, by name, not imported."""
    rows = json.loads(FORMATS_FILE.read_bytes())["lines"]
    lists = ({**row, "words": tuple(row.get("words", ())), "suffixes": tuple(row.get("suffixes", ()))} for row in rows)
    return tuple(DeferredParser(**row) for row in lists)


@cache
def bulk_formats() -> tuple[DeferredBulkParser, ...]:
    """The parsers of whole members as bytes, by name, not imported."""
    return tuple(DeferredBulkParser(**row) for row in json.loads(FORMATS_FILE.read_bytes())["bytes"])


@cache
def all_parsers() -> tuple[Parser, ...]:
    """The parsers of lines shipped with thpdiag, by name."""
    return tuple(parser for _, _, parser in constants() if isinstance(parser, Parser))


@cache
def bulk_parsers() -> tuple[BulkParser, ...]:
    """The parsers of whole members as bytes, by name."""
    return tuple(parser for _, _, parser in constants() if isinstance(parser, BulkParser))


@cache
def constants() -> tuple[tuple[str, str, Parser | BulkParser], ...]:
    """Each parser with the module and the constant that hold it first, by name of the parser."""
    found: dict[int, tuple[str, str, Parser | BulkParser]] = {}
    for module in _modules():
        for constant, value in vars(module).items():
            if isinstance(value, Parser | BulkParser):
                found.setdefault(id(value), (module.__name__.removeprefix(f"{__name__}."), constant, value))
    return tuple(sorted(found.values(), key=lambda row: row[2].name))


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
    """The parsers that give each fact and metric of the vocabulary; of what is derived from others there are none.

    Written by `BLESS=1` and tests/parsers/test_readers.py from what all parsers read in their fixtures.
    """
    found: dict[str, list[str]] = json.loads(SOURCES_FILE.read_text("utf-8"))
    return found
