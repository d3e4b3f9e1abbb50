"""Expectations of the fixtures: one form for stories, captures, healthy hosts and acceptance rows.

expected.yaml of an acceptance row: `bundle` (of another fixture, if the row has none), `status`, `mechanism` (`none`:
no verdict) and `confidence` of the verdict, each one word or several right ones; `host`; `must_fire` (rules; of an
inner list one suffices); `fires_as` (rule: fields of its finding); `must_say` and `must_not.words` (of the complete
report as text); `must_not.mechanisms` (as cause or contribution), `must_not.rules` and `must_not.remedies` (ids);
`first_remedy_not`; `disagrees` (the current outcome instead).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command_line import ROOT
from thpdiag.knowledge.yaml_nodes import load
from thpdiag.model import CONFIDENCES
from thpdiag.report import FORMATS
from thpdiag.report.presentation import Presentation

FIXTURES = ROOT / "fixtures"
NONE = "none"
CAUSES = ("root_cause", "alternative", "contributing")
ACCEPTANCE = sorted(path.parent for path in (FIXTURES / "acceptance").glob("*/expected.yaml"))


def expected(folder: Path) -> dict[str, Any]:
    """Return the expected.yaml of a fixture; empty without one (a healthy host needs none)."""
    file = folder / "expected.yaml"
    return dict(load(file.read_text("utf-8"))) if file.is_file() else {}


def bundle(folder: Path) -> Path:
    """Return the bundle of a fixture, its own or the one it refers to."""
    other = expected(folder).get("bundle")
    return (FIXTURES / other if other else folder) / "bundle"


def words(given: object) -> tuple[str, ...]:
    """Return one word or several as a tuple."""
    return tuple(given) if isinstance(given, list) else (str(given),)


# What is wrong with a document, in words.


def disagreements(wanted: dict[str, Any], document: dict[str, Any]) -> list[str]:
    """Yield every difference between the document and the row."""
    whole = FORMATS["text"](document, Presentation(verbosity=1))
    return [
        *_of_the_verdict(wanted, document),
        *_of_the_rules(wanted, document),
        *_of_the_findings(wanted, document),
        *_of_the_text(wanted, f"{FORMATS['text'](document)} {_advice(document)}", whole),
    ]


def _of_the_verdict(wanted: dict[str, Any], document: dict[str, Any]) -> Iterator[str]:
    verdict = document["verdict"]
    given = {"status": verdict["status"], "mechanism": verdict.get("mechanism", NONE)}
    if given["mechanism"] != NONE:
        given["confidence"] = verdict["confidence"]
    for key, word in given.items():
        if key in wanted and word not in words(wanted[key]):
            yield f"{key} {word} instead of {wanted[key]}: {verdict['sentence']}"
    for key, word in wanted.get("host", {}).items():
        if document["host"].get(key) != word:
            yield f"host {key} {document['host'].get(key)} instead of {word}"


def _of_the_rules(wanted: dict[str, Any], document: dict[str, Any]) -> Iterator[str]:
    findings = {finding["rule"]: finding for finding in document["findings"]}
    for choice in wanted.get("must_fire", ()):
        if not set(words(choice)) & set(findings):
            yield f"{' or '.join(words(choice))} does not fire"
    for rule, fields in wanted.get("fires_as", {}).items():
        given = {key: findings.get(rule, {}).get(key) for key in fields}
        if given != fields:
            yield f"{rule} fires as {given} instead of {fields}"


def _of_the_findings(wanted: dict[str, Any], document: dict[str, Any]) -> Iterator[str]:
    forbidden = wanted["must_not"]
    for finding in document["findings"]:
        if finding["role"] in CAUSES and finding["mechanism"] in forbidden.get("mechanisms", ()):
            yield f"{finding['rule']} says {finding['mechanism']} ({finding['role']}, {finding['confidence']})"
        if finding["rule"] in forbidden.get("rules", ()):
            yield f"{finding['rule']} fires"
        wrong = {remedy["id"] for remedy in finding["remedies"]} & set(forbidden.get("remedies", ()))
        if wrong:
            yield f"{finding['rule']} advises {', '.join(sorted(wrong))}"
    first = [remedy["id"] for finding in document["findings"][:1] for remedy in finding["remedies"][:1]]
    if set(first) & set(wanted.get("first_remedy_not", ())):
        yield f"advises {first[0]} first"


def _advice(document: dict[str, Any]) -> str:
    """Return all words and commands of the lead finding's steps, which the shorter report has as a sentence each."""
    leading = [f for f in document["findings"] if f["rule"] == document["verdict"].get("rule")]
    return " ".join(str(value) for finding in leading for step in finding["remedies"] for value in step.values())


def _of_the_text(wanted: dict[str, Any], text: str, full: str) -> Iterator[str]:
    """Yield words that the complete report lacks, and forbidden words; line breaks count as one blank."""
    flat = " ".join(text.split())
    for said in wanted.get("must_say", ()):
        if said not in " ".join(full.split()):
            yield f"does not say {said!r}"
    for said in wanted["must_not"].get("words", ()):
        if found := re.search(re.escape(said), flat, re.IGNORECASE):
            yield f"says {said!r}: ...{flat[max(0, found.start() - 60) : found.end() + 40]}..."


# What is right, of any fixture.


@dataclass(frozen=True, slots=True)
class Expected:
    """The right mechanisms for a bundle, first the one for the table; the lowest right confidence."""

    name: str
    bundle: Path
    mechanisms: tuple[str, ...]
    least: int
    disagrees: bool


def every() -> list[Expected]:
    """Return one expectation for each bundle; an acceptance row has priority over the story that it refers to."""
    found: dict[Path, Expected] = {}
    for kind in ("acceptance", "stories", "captures", "healthy"):
        for folder in sorted(p for p in (FIXTURES / kind).iterdir() if p.is_dir()):
            one = _expectation(kind, folder)
            if one and one.bundle.is_dir():
                found.setdefault(one.bundle, one)
    return sorted(found.values(), key=lambda one: one.name)


def _expectation(kind: str, folder: Path) -> Expected | None:
    wanted = expected(folder)
    verdict = wanted.get("verdict", {})
    silent = kind == "healthy" or verdict.get("status") in ("cannot_tell", "not_applicable", "nothing_found")
    mechanism = wanted.get("mechanism", verdict.get("mechanism", NONE if silent else None))
    if mechanism is None:
        return None
    confidence = words(wanted.get("confidence", wanted.get("confidence_at_least", verdict.get("confidence", "likely"))))
    least = min(CONFIDENCES.index(word) for word in confidence)
    name = f"{kind}/{folder.name}"
    return Expected(name, bundle(folder), words(mechanism), least, "disagrees" in wanted)
