"""`rules lint` of the words that packs bring: what a file's form alone cannot tell (knowledge/packs.py checks that)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from thpdiag.errors import RuleError
from thpdiag.knowledge.mechanisms import cures, mechanisms, remedies
from thpdiag.knowledge.packs import added
from thpdiag.knowledge.symbols import families
from thpdiag.knowledge.yaml_nodes import suggestion

KINDS = ("thp", "alternative", "none")
TERM_KINDS = ("setting", "state", "counter", "gauge", "rate")
_WRITES = re.compile(r"(?<![0-9&])>>?\s*(?!/dev/null)[/~]|sysctl -w|\binstall\b.*/|\btee\b")


def complaints() -> list[str]:
    """What is wrong with the words of the packs in use, a line each."""
    found = [line for table in added("mechanisms.yaml") for line in _of_mechanisms(table.get("mechanisms", {}))]
    found += [line for table in added("remedies.yaml") for line in _of_remedies(table)]
    found += [line for table in added("vocabulary.yaml") for line in _of_vocabulary(table)]
    try:
        families()
    except RuleError as error:
        found.append(str(error))
    return found


def _of_mechanisms(rows: Mapping[str, Any]) -> Iterator[str]:
    for name, row in rows.items():
        if row["kind"] not in KINDS:
            yield f"mechanism {name}: kind is one of {', '.join(KINDS)}"
        if not str(row["sentence"]).endswith("."):
            yield f"mechanism {name}: sentence ends with a full stop"
        for other in (*row.get("looks_like", ()), *row.get("leads_to", ())):
            if other not in mechanisms():
                yield f"mechanism {name}: there is no mechanism '{other}'{suggestion(other, mechanisms())}"
        if not any(remedy["cures"] != "any" and cures(remedy, name) for remedy in remedies().values()):
            yield f"mechanism {name}: no remedy cures it, if only by where to look"


def _of_remedies(table: Mapping[str, Any]) -> Iterator[str]:
    for name, row in table.get("remedies", {}).items():
        told = row["cures"] if isinstance(row["cures"], list) else []
        for other in (*told, *(variant.get("mechanism", "") for variant in row.get("variants", ()))):
            if other and other not in mechanisms():
                yield f"remedy {name}: there is no mechanism '{other}'{suggestion(other, mechanisms())}"
        for one in (row, *row.get("variants", ())):
            steps = [*one.get("now", ()), *one.get("persist", ())]
            if any(map(_WRITES.search, steps)) and not (one.get("undo") or one.get("undo_persist") or row.get("undo")):
                yield f"remedy {name}: what it writes has an undo"
        if not any(key in one for one in (row, *row.get("variants", ())) for key in ("now", "persist", "sets")):
            yield f"remedy {name}: it has no command (now, persist or sets)"
    for name in table.get("verify", {}):
        if name not in mechanisms():
            yield f"verify: there is no mechanism '{name}'{suggestion(name, mechanisms())}"


def _of_vocabulary(table: Mapping[str, Any]) -> Iterator[str]:
    for section in ("facts", "metrics"):
        for name, row in table.get(section, {}).items():
            if row["kind"] not in TERM_KINDS:
                yield f"{name}: kind is one of {', '.join(TERM_KINDS)}"
    for name, row in table.get("events", {}).items():
        if ("message" in row) != ("hint" in row):
            yield f"event {name}: message and hint are given together; each such line holds the hint"
        elif "hint" in row and len(row["hint"]) < 4:
            yield f"event {name}: the hint is so short that it is part of too many lines"
