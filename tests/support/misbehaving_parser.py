"""A parser that misbehaves as a bundle orders: a line `thpdiag_mock WORD` calls that function of `misbehaving_calls`.

The fork server of a triage under test imports it, so that the children of its workers have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import misbehaving_calls
import thpdiag.host.reading
from thpdiag.model import Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers import all_parsers


def read(_source: Source, lines: Lines) -> Iterator[Record]:
    for _, text in lines:
        getattr(misbehaving_calls, text.split()[1])()
        yield from ()


MOCK = Parser("mock", "a reader that misbehaves", read, opens=re.compile(r"thpdiag_mock \w+"), priority=100)


def planted() -> tuple[Parser, ...]:
    """Return all parsers and this one."""
    return (*all_parsers(), MOCK)


if __name__ == "misbehaving_parser":
    thpdiag.host.reading.line_formats = planted
