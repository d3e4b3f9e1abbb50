"""What a process does once before it forks for one bundle after another, so that no child does it again.

Modules, tables of knowledge and patterns are loaded when something asks for them. `sosreport.tar.xz` asks for what an
ordinary report of a host does: it is the cut of one of a healthy guest (`fixtures/healthy`).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from io import BytesIO

import numpy  # noqa: F401 - loaded, that is all

from thpdiag.analyze import analyze
from thpdiag.engine.load import Rule
from thpdiag.isolated import STDIN
from thpdiag.readers import all_readers, bulk_readers

SAMPLE = "sosreport.tar.xz"


def warm(rules: Sequence[Rule]) -> None:
    """Have loaded and compiled what every bundle needs."""
    all_readers()
    bulk_readers()
    analyze([STDIN], rules, stdin=BytesIO(sample()))


def sample() -> bytes:
    """The sosreport, packed."""
    return files(__package__).joinpath(SAMPLE).read_bytes()
