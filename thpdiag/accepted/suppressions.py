"""Suppression files (`--suppress`): YAML, a list of what is accepted, where, why and until when.

- rule: THP-013            # an id, or a mechanism such as khugepaged-scan
  host: "db-*"             # a glob; every host if it is left out
  entity: redis-server     # a glob over process, zone or device; a process goes by its name, or with its pid
  reason: defrag is switched with the next maintenance, change 4711
  expires: 2027-01-31      # the last day; without one it never ends
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from thpdiag.accepted.acceptance import (
    Acceptance,
    Document,
    Finding,
    day,
    host_names,
    label,
    no_day,
    without_pid,
)
from thpdiag.errors import AcceptanceError
from thpdiag.knowledge.complaints import pointed, suggestion
from thpdiag.knowledge.yaml_nodes import Place, Places, YamlError, load_with_places

KEYS = ("rule", "host", "entity", "reason", "expires")
REQUIRED = ("rule", "reason")


@dataclass(frozen=True, slots=True)
class Suppression(Acceptance):
    """One entry; `rule` is an id or a mechanism, `host` and `entity` are globs."""

    rule: str
    host: str
    entity: str

    def covers(self, finding: Finding, host: Document) -> bool:
        if self.rule not in (finding.get("rule"), finding.get("mechanism")):
            return False
        about = finding.get("entity") or ""
        return _fits(self.host, host_names(host) or {""}) and _fits(self.entity, {about, without_pid(about)})


def _fits(pattern: str, names: Iterable[str]) -> bool:
    return any(
        name == pattern or fnmatchcase(name, pattern) for name in names
    )  # `[md0_raid1]` as it stands in a report


def suppressions(path: Path) -> list[Suppression]:
    """The entries of a file. AcceptanceError names everything that is wrong, each with its place."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AcceptanceError(f"{path}: cannot be read: {error}") from error
    return parsed(str(path), text)


def parsed(path: str, text: str) -> list[Suppression]:
    """The same of its text."""
    try:
        data, places = load_with_places(text)
    except YamlError as error:
        raise AcceptanceError(pointed(path, text, str(error), error.place)) from error
    rows = [] if data is None else data
    if not isinstance(rows, list):
        message = f"suppressions are a list, each entry begins with `- rule:`, not {_kind(rows)}"
        raise AcceptanceError(pointed(path, text, message, places.get(())))
    wrong = [
        pointed(path, text, message, _place(where, places))
        for number, row in enumerate(rows)
        for where, message in _mistakes(row, number)
    ]
    if wrong:
        raise AcceptanceError("\n".join(wrong))
    return [_suppression(row, f"{path}:{places[(number,)].line}") for number, row in enumerate(rows)]


def _mistakes(row: Any, number: int) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if not isinstance(row, dict):
        yield (number,), f"an entry has {', '.join(KEYS)}, and is not {_kind(row)}"
        return
    yield from (((number, key), f"unknown key '{key}'{suggestion(key, KEYS)}") for key in row if key not in KEYS)
    yield from (((number,), f"the key '{key}' is missing") for key in REQUIRED if key not in row)
    for key in (key for key in KEYS if key in row):
        if mistake := _mistake(key, row[key]):
            yield (number, key), f"{key}: {mistake}"


def _mistake(key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        return f"a text, not {_kind(value)}"
    return no_day(value) if key == "expires" else ""


def _kind(value: object) -> str:
    kinds = {dict: "a mapping", list: "a list", type(None): "nothing", bool: "true or false"}
    return "an empty text" if isinstance(value, str) else kinds.get(type(value), f"the number {value}")


def _place(where: tuple[str | int, ...], places: Places) -> Place | None:
    return places.get(where) or places.get(where[:1])


def _suppression(row: Mapping[str, str], place: str) -> Suppression:
    expires = day(row["expires"]) if "expires" in row else None
    about = label(row["rule"], row.get("entity"), row.get("host"))
    return Suppression(
        "suppression", row["reason"].strip(), expires, about, place,
        row["rule"], row.get("host", "*"), row.get("entity", "*"),
    )  # fmt: skip


def likely(word: str, known: Collection[str]) -> str:
    """What somebody may have meant who names a rule or mechanism that no document knows; empty if one does."""
    return "" if word in known or not known else f"no rule or mechanism '{word}'{suggestion(word, sorted(known))}"


def names(host: Document) -> Iterator[str]:
    """The rules and mechanisms that the document of a host speaks of."""
    for rule in (*(host.get("rules") or ()), *(host.get("findings") or ())):
        yield from (str(rule[key]) for key in ("id", "rule", "mechanism") if rule.get(key))
