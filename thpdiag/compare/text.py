"""A comparison for a terminal: 80 columns, the answer first, then what was changed, each finding, each figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from thpdiag.compare.words import (
    HEADINGS,
    changed_heading,
    effect,
    findings_heading,
    remains,
    sample_words,
    status_word,
)
from thpdiag.reports.columns import columns, fold
from thpdiag.reports.located import accepted
from thpdiag.reports.presentation import PLAIN, Presentation
from thpdiag.reports.quantity import quantity
from thpdiag.reports.verdict import REDACTED, place, plural
from thpdiag.reports.visible import lines, prose, visible

SHORT = 12  # figures without -v
_STATUS_WIDTH = 12


def render(comparison: Mapping[str, Any], presentation: Presentation = PLAIN) -> str:
    out: list[str] = []
    for host in comparison["hosts"]:
        out += [*([""] if out else []), *_host(host, presentation.verbosity)]
    if comparison["alone"]:
        out += [*([""] if out else []), *_heading("Hosts of one side only: not compared")]
    for one in comparison["alone"]:
        told = f"{one['name'] or 'unnamed host'} (only {one['side'].upper()}): {one['sentence']}"
        out += fold(prose(told), "  ", "      ")
    if comparison.get("redacted"):
        out += ["", *fold(REDACTED)]
    return "\n".join(line.rstrip() for line in out) + "\n"


def _host(host: Mapping[str, Any], verbosity: int) -> Iterator[str]:
    yield from fold(prose(host["answer"]["sentence"]))
    yield ""
    if host["name"]:
        yield from fold(prose(host["name"]), "Host ", "  ")
    for side in ("before", "after"):
        told = host[side]
        yield from fold(prose(f"{told['case']}: {told['sentence']}"), f"{side.upper()}: ", "  ")
    yield from fold(prose(host["load"]["text"]), "Load: ", "  ")
    if left := remains(host):
        yield from fold(prose(left), "Remains: ", "  ")
    for note in host["notes"]:
        yield from fold(prose(note), "! ", "  ")
    for part in (_changed, _findings, _figures, _ask):
        yield from part(host, verbosity)


def _heading(text: str) -> list[str]:
    return [text, "-" * columns(text)]


def _changed(host: Mapping[str, Any], _: int) -> Iterator[str]:
    yield from ["", *_heading(changed_heading(host["same"]))]
    if not host["settings"]:
        yield from fold("No setting that both sides know differs.", "  ")
    for row in host["settings"]:
        yield from fold(prose(f"{row['name']}: {_setting(row['before'])} -> {_setting(row['after'])}"), "  ", "      ")
        if row["lasting"]:
            yield from fold(prose(row["lasting"]), "      ")
    for row in host["facts"]:
        told = f"{row['name']}: {row['before'] or 'not known'} -> {row['after'] or 'not known'}"
        yield from fold(prose(told), "  ", "      ")


def _setting(setting: Mapping[str, Any] | None) -> str:
    if setting is None or setting["value"] is None:
        return "not known"
    how = ", ".join(filter(None, [setting["provenance"], place(setting)]))
    return f"{quantity(setting['value'])} ({how})" if how else quantity(setting["value"])


def _findings(host: Mapping[str, Any], verbosity: int) -> Iterator[str]:
    if host["findings"]:
        yield from ["", *_heading(findings_heading(host["same"]))]
    for number, finding in enumerate(host["findings"]):
        word = status_word(finding["status"], host["same"])
        about = f" ({finding['entity']})" if finding["entity"] else ""
        label = f"  {word.upper():{_STATUS_WIDTH}}{visible(finding['rule'])}  "
        yield from fold(
            prose(f"{finding['severity'] or ''}: {finding['title'] or ''}{about}".lstrip(": ")), label, "      "
        )
        yield from fold(prose(finding["reason"]), "      ")
        if finding["suppressed"]:
            yield from fold(prose(accepted(finding)), "      ")
        if verbosity or number == 0:
            yield from _evidence(finding)


def _evidence(finding: Mapping[str, Any]) -> Iterator[str]:
    for side in ("before", "after"):
        for said in finding["evidence"][side]:
            at = place(said)
            yield from fold(prose(f"{f'{at}  ' if at else ''}{said['text']}"), f"      {side}: ", "        ")


def _figures(host: Mapping[str, Any], verbosity: int) -> Iterator[str]:
    moved = [row for row in host["figures"] if row["change"] in ("up", "down")]
    still = [row for row in host["figures"] if row["change"] not in ("up", "down")]
    for heading, rows in ((HEADINGS["moved"], moved), (HEADINGS["still"], still if verbosity else [])):
        if rows:
            yield from ["", *_heading(heading)]
        shown = rows if verbosity else rows[:SHORT]
        for row in shown:
            yield from _figure(row)
        if len(rows) > len(shown):
            yield f"  and {len(rows) - len(shown)} more (-v)"
    if still and not verbosity:
        told = f"{plural(len(still), 'figure')} did not change beyond noise and load (-v)."
        yield from fold(told, "  ", "  ")
    for side in ("before", "after"):
        if only := host[f"only_{side}"]:
            yield from fold(prose(", ".join(only)), f"  Measured {side} only: ", "      ")


def _figure(row: Mapping[str, Any]) -> list[str]:
    values = [quantity(row[side]["value"], row["unit"]) for side in ("before", "after")]
    told = fold(prose(f"{row['text']}: {values[0]} -> {values[1]} ({effect(row)})"), "  ", "      ")
    for side in ("before", "after"):
        how = ", ".join(filter(None, [sample_words(row[side], row["unit"]), place(row[side])]))
        told += fold(prose(how), f"      {side}: ", "        ") if how else []
    return told


def _ask(host: Mapping[str, Any], _: int) -> Sequence[str]:
    asked = host["answer"]["ask"]
    if not asked["text"] and not asked["commands"]:
        return []
    commands = ["    " + line for command in asked["commands"] for line in lines(command)]
    return ["", *_heading("What to send"), *fold(prose(asked["text"])), *commands]
