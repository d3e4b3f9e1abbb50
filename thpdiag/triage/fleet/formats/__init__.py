"""The fleet in words, for programs and for spreadsheets; all write as they read, host by host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TextIO

from thpdiag.triage.fleet.formats.csv import write as csv
from thpdiag.triage.fleet.formats.json import write as json
from thpdiag.triage.fleet.formats.markdown import write as markdown
from thpdiag.triage.fleet.formats.text import write as text
from thpdiag.triage.fleet.overview import Fleet

FORMATS: Final[Mapping[str, Callable[[Fleet, TextIO], None]]] = MappingProxyType(
    {"text": text, "json": json, "csv": csv, "markdown": markdown}
)
