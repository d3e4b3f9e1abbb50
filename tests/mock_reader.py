"""A reader that misbehaves as a bundle tells it: a line `thpdiag_mock WORD` calls that function of `guarded_calls`.

Imported by the fork server of a triage under test, so that the children of its workers have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import guarded_calls
import thpdiag.case.reading
from thpdiag.model import Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers import all_readers


def read(_source: Source, lines: Lines) -> Iterator[Record]:
    for _, text in lines:
        getattr(guarded_calls, text.split()[1])()
        yield from ()


MOCK = Reader("mock", "a reader that misbehaves", read, opens=re.compile(r"thpdiag_mock \w+"), priority=100)


def planted() -> tuple[Reader, ...]:
    """All readers, and this one."""
    return (*all_readers(), MOCK)


if __name__ == "mock_reader":
    thpdiag.case.reading.all_readers = planted
