"""The outputs of a comparison, by the names that `--format` knows them by."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from thpdiag.compare.page import render as page
from thpdiag.compare.text import render as text
from thpdiag.reports import Report
from thpdiag.reports.json import render as as_json

FORMATS: Mapping[str, Report] = MappingProxyType({"text": text, "json": as_json, "html": page})
