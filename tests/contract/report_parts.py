"""Reports as documents: formats for machines as JSON, pages and texts as the figures, places and commands in them."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import lxml.html

from contract.run_command import run_command
from contract.separate_words import figures

COMMAND_KEYS = ("now", "persist", "undo", "undo_now", "how", "ask_for", "commands")
_CITATION = re.compile(r"[\w@.+/-]*\w:\d+\b")
_ANNOTATION = re.compile(r"::(\w+) ?(.*?)::(.*)")


def parse_report(form: str, text: str) -> Any:
    """A report for machines as JSON values."""
    match form:
        case "csv":
            return [*csv.DictReader(io.StringIO(text))]
        case "github":
            return [_annotation(line) for line in text.splitlines() if line]
        case "junit":
            return _element(ElementTree.fromstring(text))
    return json.loads(text)


def _annotation(line: str) -> dict[str, Any]:
    found = _ANNOTATION.fullmatch(line)
    if found is None:
        return {"text": line}
    fields = dict(part.split("=", 1) for part in found[2].split(",") if part)
    rule, _, title = unquote(fields.pop("title", "")).partition(" ")
    return {"level": found[1], **fields, "rule": rule, "title": title, "message": unquote(found[3])}


def _element(element: ElementTree.Element) -> dict[str, Any]:
    fields: dict[str, Any] = {"tag": element.tag, **element.attrib}
    if element.tag == "testcase":
        fields["name"], _, fields["title"] = fields["name"].partition(" ")
    return fields | {"text": (element.text or "").strip(), "children": [_element(child) for child in element]}


def visible_text(page: str) -> str:
    """What a reader of a page sees or hears, a block a line."""
    tree = lxml.html.fromstring(page)
    for hidden in tree.xpath("//script | //style | //template"):
        hidden.drop_tree()
    return "\n".join(_spoken(tree))


def _spoken(tree: Any) -> Iterator[str]:
    yield from tree.itertext()
    for name in ("aria-label", "title"):
        yield from tree.xpath(f"//@{name}")


def describe_report(text: str, document: Any = None) -> dict[str, Any]:
    """The figures and places that a report for people shows, and which of the result's commands."""
    flat = " ".join(text.split())
    without_blanks = re.sub(r"\s", "", text)
    return {
        "figures": sorted(set(figures(flat))),
        "places": sorted(set(_CITATION.findall(flat))),
        "commands": sorted(c for c in set(commands(document)) if re.sub(r"\s", "", c) in without_blanks),
    }


def without_versions(text: str) -> str:
    """The version and the digest of the rules replaced: they change with each release."""
    version, digest = _versions()
    return re.sub(rf"(?<![\d.]){re.escape(version)}(?![\d.])", "VERSION", text.replace(digest, "DIGEST"))


@cache
def _versions() -> tuple[str, str]:
    tool = run_command("analyze", "fixtures/readers/uptime", "-f", "json").document["tool"]
    return tool["version"], tool["rules_digest"]


def commands(value: Any, key: str = "") -> Iterator[str]:
    """Every command of a result."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from commands(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from commands(item, key)
    elif isinstance(value, str) and key in COMMAND_KEYS:
        yield value


def passages(text: str) -> list[str]:
    """The passages of a text, each on one line, sorted: their order may change."""
    return sorted({" ".join(passage.split()) for passage in re.split(r"\n\s*\n", text)})
