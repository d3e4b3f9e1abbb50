"""One finding in a few plain lines, for a message of another program: how sure, the proof, the command and its undo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from thpdiag.reports import confidence, verdict
from thpdiag.reports.located import accepted
from thpdiag.reports.visible import lines, prose

Finding = Mapping[str, Any]


def headline(finding: Finding) -> str:
    """What it is in one line, with the process or zone that it is about."""
    about = f" ({finding['entity']})" if finding["entity"] else ""
    return prose(f"{finding['title'] or finding['mechanism'] or finding['rule']}{about}")


def summary(finding: Finding) -> str:
    """Headline and strongest proof in one line."""
    told = [headline(finding), *(said["text"] for said in verdict.proof(finding)[:1] if said["text"])]
    return prose(". ".join(told) + ".")


def few_lines(host: Mapping[str, Any], finding: Finding) -> Iterator[str]:
    """Headline, host, severity, confidence with its reasons, proof with places, what to try first with its undo."""
    yield headline(finding)
    weight = ", ".join(
        filter(None, [
            finding["severity"] and f"severity {finding['severity']}",
            finding["confidence"] and f"confidence {finding['confidence']}",
            verdict.role(host, finding),
        ])
    )  # fmt: skip
    yield prose(f"Host {verdict.name(host)}: {weight}. {confidence.why(finding)}")
    if accepted(finding):
        yield prose(accepted(finding))
    for said in verdict.proof(finding) or finding["evidence"][: verdict.MOST_PROOF]:
        place = verdict.place(said)
        yield prose(f"{said['text'] or ''} ({place})" if place else said["text"] or "")
    if finding["remedies"]:
        _, advice = verdict.first_try(finding)  # as on the first screen of the page
        yield from _block("Try first:", advice["now"])
        yield from _block("Undo:", advice["undo_now"] or advice["undo"])


def _block(label: str, commands: list[str]) -> Iterator[str]:
    if commands:
        yield label
    yield from (f"    {line}" for command in commands for line in lines(command))
