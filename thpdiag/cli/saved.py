"""Saved results and comparisons: JSON of `-f json`, or the JSON inside an HTML page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thpdiag.errors import InputError
from thpdiag.reports.html.embedded import from_page

MOST = 512 << 20  # bytes of a file that may be a result; larger ones are recordings
_COMPARISON = "thpdiag/comparison/"
_BEGINS = re.compile(rb"\s*(?:\xef\xbb\xbf)?\s*(\{|<!doctype html|<html)", re.IGNORECASE)
_RESULT = re.compile(rb'"thpdiag/(?:result|comparison)/|<script type="application/(?:gzip\+base64|json)" id="result">')


def result(text: str, name: object) -> dict[str, Any]:
    """The result document of a text; InputError if there is none in it."""
    document = result_or_comparison(text, name)
    if compares(document):
        raise InputError(f"{name} is a comparison of two results, which only `thpdiag render` takes")
    return document


def compares(document: Mapping[str, Any]) -> bool:
    return str(document["schema"]).startswith(_COMPARISON)


def result_or_comparison(text: str, name: object) -> dict[str, Any]:
    """The result or the comparison in a text; InputError if there is none in it."""
    try:
        document = json.loads(text) if text.lstrip().startswith("{") else from_page(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} holds no result of thpdiag: {error}") from error
    if not isinstance(document, dict) or not str(document.get("schema", "")).startswith(
        ("thpdiag/result/", _COMPARISON)
    ):
        raise InputError(f"{name} holds no result of thpdiag")
    return document


def saved(path: Path) -> dict[str, Any] | None:
    """The result that a file is; None of what is none, such as a bundle. A damaged one is a mistake of the user."""
    if not path.is_file() or path.stat().st_size > MOST:
        return None
    try:
        with path.open("rb") as file:
            begin = file.read(64)
            data = begin + file.read() if _BEGINS.match(begin) else b""
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if not _RESULT.search(data):
        return None
    try:
        return result(data.decode("utf-8-sig"), path)
    except UnicodeDecodeError as error:
        raise InputError(f"{path} holds no result of thpdiag: it is not text") from error
