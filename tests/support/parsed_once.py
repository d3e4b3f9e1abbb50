"""Input of which one member changes again and again: of the others what was parsed the first time is taken.

Everything behind the parsers runs each time as it does in an analysis.
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
    """What is in a folder; of `changed`, the path of a member, it is parsed anew."""

    def __init__(self, folder: Path, parse: Callable[..., Found]) -> None:
        self.changed = ""
        self._folder, self._parse = folder, parse
        self._kept: dict[str, tuple[Found, list[Problem], bool]] = {}

    def read(self) -> ParsedInput:
        return read_input([self._folder], STRICT)

    def parse(self, member: Member, detector: Detector, spooled: SpooledMembers, *, twice: bool) -> Found:
        """In place of the function that parses a member."""
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
    """The records that are not those of `known`, nothing if all are as there: where it is the same, so are they."""
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
