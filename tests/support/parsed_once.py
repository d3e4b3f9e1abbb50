"""An input in which one member changes repeatedly; the other members are parsed once.

All steps after the parsers run each time as in an analysis.
"""

from __future__ import annotations

import io
import operator
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

from analyze_bytes import STRICT
from thpdiag.bundle import Member
from thpdiag.detect import Detector, TaggedRecord
from thpdiag.host import reading
from thpdiag.host.reading import ParsedInput, read_input
from thpdiag.host.sibling_files import SpooledMembers
from thpdiag.model import Problem

Found = list[TaggedRecord] | None
Readings = Mapping[str, Sequence[TaggedRecord]]


class ParsedOnce:
    """The content of a folder; `changed` is the path of the member that is parsed each time."""

    def __init__(self, folder: Path, parse: Callable[..., Found]) -> None:
        self.changed = ""
        self._folder, self._parse = folder, parse
        self._kept: dict[str, tuple[Found, list[Problem], bool]] = {}

    def read(self) -> ParsedInput:
        return read_input([self._folder], STRICT)

    def parse(self, member: Member, detector: Detector, spooled: SpooledMembers, *, twice: bool) -> Found:
        """Replaces the function that parses a member."""
        if member.path != self.changed and member.path in self._kept:
            member.finish()
            found, problems, member.was_read_as_lines = self._kept[member.path]
            member.problems = list(problems)
            return found
        found = self._parse(member, detector, spooled, twice=twice)
        member.finish()
        if found is not None and member.path != self.changed:
            self._kept[member.path] = (found, list(member.problems), member.was_read_as_lines)
        return found


@contextmanager
def parsed_once(folder: Path) -> Iterator[ParsedOnce]:
    parsing = ParsedOnce(folder, reading._read_member)
    with patch.object(reading, "_read_member", parsing.parse):
        yield parsing


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        return (dict, (dict(value),)) if isinstance(value, MappingProxyType) else NotImplemented


def fingerprint(readings: Readings, known: Readings) -> bytes:
    """Return the records that differ from `known`, empty if all are equal; equal fingerprints mean equal records."""
    differing = [m for m in sorted({*readings, *known}) if not _are_same(readings.get(m, ()), known.get(m, ()))]
    own, other = ([(m, list(these.get(m, ()))) for m in differing] for these in (readings, known))
    found = _pickled(own)
    return b"" if found == _pickled(other) else found


def _are_same(found: Sequence[TaggedRecord], known: Sequence[TaggedRecord]) -> bool:
    return len(found) == len(known) and all(map(operator.is_, found, known))


def _pickled(records: object) -> bytes:
    out = io.BytesIO()
    _Pickler(out).dump(records)
    return out.getvalue()
