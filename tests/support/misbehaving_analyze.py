"""thpdiag with a parser that misbehaves as a bundle orders, and with low limits.

Run as a program, since a process with threads does not fork. A line `thpdiag_mock WORD` calls the function of
`misbehaving_calls` with that name.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from unittest.mock import patch

import misbehaving_calls
from thpdiag.cli import main
from thpdiag.model import Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers import all_parsers
from thpdiag.sandbox.outcome import MIB, Limits

LITTLE = Limits(cpu_seconds=20, wall_seconds=60, memory=512 * MIB)


def read(_source: Source, lines: Lines) -> Iterator[Record]:
    for _, text in lines:
        getattr(misbehaving_calls, text.split()[1])()
        yield from ()


MOCK = Parser("mock", "a reader that misbehaves", read, opens=re.compile(r"thpdiag_mock \w+"), priority=100)


if __name__ == "__main__":
    hurried = sys.argv.pop(1)
    limits = replace(LITTLE, **{"hurried": {"wall_seconds": 1.0}, "brief": {"cpu_seconds": 1}}.get(hurried, {}))
    with (
        patch("thpdiag.host.reading.line_formats", lambda: (*all_parsers(), MOCK)),
        patch("thpdiag.isolated.LIMITS", limits),
        patch("thpdiag.pipeline.read_input", lambda *_paths, **_how: misbehaving_calls.allocates())
        if hurried == "greedy"
        else nullcontext(),
    ):
        main(sys.argv[1:])
