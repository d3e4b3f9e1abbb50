"""`thpdiag inputs`: the recognised files with their parsers, and the data that each rule lacks."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import rich_click as click

from thpdiag.cli import options as shared
from thpdiag.cli.options import Redaction, RuleChoice
from thpdiag.host.options import Options
from thpdiag.model.result import as_document
from thpdiag.pipeline import analyze_paths
from thpdiag.report.escaping import visible
from thpdiag.report.json import render
from thpdiag.report.layout import fold

SCHEMA = "thpdiag/inputs/1"
MARGIN = "    "
MAX_GAPS = 3  # listed per file without -v


@click.command()
@shared.PATHS
@shared.format_option()
@click.option("-v", "--verbose", "verbosity", count=True, help="Show all gaps, and the SHA-256 of each file.")
@shared.redaction_options
@shared.rule_options
@shared.PROGRESS
def command(*, paths: tuple[Path, ...], form: str, verbosity: int, redaction: Redaction, chosen: RuleChoice) -> None:
    """List the recognized files in PATHS, their sampling intervals, and which rules lack data."""
    options = Options(every_input=True)
    with shared.progress_display() as show:
        result = redaction.apply(analyze_paths(paths, chosen.rules(), options, stdin=sys.stdin.buffer, progress=show))
    document = _document(as_document(result))
    missing, recognised = shared.missing_path_error(paths), shared.is_recognised(result)
    empty = None if missing or recognised else shared.empty_input_error(paths, result)
    if form == "json" or recognised or not (missing or empty):
        click.echo(render(document) if form == "json" else "\n".join(_lines(document, verbosity)), nl=form != "json")
    if missing:
        raise missing
    shared.exit_with_result(result, error=empty)


def _document(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return `{schema, inputs, problems, rules}` of all hosts together."""
    hosts = result.get("cases") or [result]
    inputs = {(i["member"], i["reader"] or ""): i for host in hosts for i in host["inputs"]}
    problems = {(p.get("member", ""), p["kind"], p["text"]): p for host in hosts for p in host["problems"]}
    missing = {u["rule"]: u["missing"] for host in hosts for u in host["unknown"]}
    rules = [{"id": r["id"], "outcome": r["outcome"], "missing": missing.get(r["id"], [])} for r in hosts[0]["rules"]]
    return {
        "schema": SCHEMA,
        "inputs": [inputs[key] for key in sorted(inputs)],
        "problems": [problems[key] for key in sorted(problems)],
        "rules": rules,
    }


def _lines(document: dict[str, Any], verbosity: int) -> list[str]:
    lines: list[str] = []
    for member, rows in groupby(document["inputs"], key=itemgetter("member")):
        items = list(rows)
        lines += [visible(member), *(line for item in items for line in _item(item, verbosity))]
        if count := items[0]["problems"]:
            lines.append(f"{MARGIN}{count} {'problem' if count == 1 else 'problems'}, see below")
        if verbosity and items[0]["sha256"]:
            lines.append(f"{MARGIN}sha256 {items[0]['sha256']}")
    if rules := [rule for rule in document["rules"] if rule["missing"]]:
        lines.append("")
        for rule in rules:
            lines += fold(", ".join(rule["missing"]), f"{rule['id']}: lacks ", MARGIN)
    if document["problems"]:
        lines += ["", *(line for problem in document["problems"] for line in _problem(problem))]
    return lines


def _item(item: dict[str, Any], verbosity: int) -> list[str]:
    """Describe a member as read by one parser."""
    if item["reader"]:
        ends = dict.fromkeys(item[key] for key in ("first", "last") if item.get(key))
        facts = [f"{item['records']:,} {'record' if item['records'] == 1 else 'records'}"]
        facts += [" to ".join(ends)] if ends else []
        facts += [f"every {format_duration(item['period'])}"] if item.get("period") else []
        lines = fold(", ".join(facts), f"    {item['reader']}: ", MARGIN * 2)
    else:
        beginning = f', begins "{visible(item["first_line"])}"' if item.get("first_line") else ""
        lines = fold(f"not recognized: {item.get('size') or 0:,} bytes{beginning}", MARGIN, MARGIN * 2)
    gaps = item.get("gaps", ())
    for gap in gaps if verbosity else gaps[:MAX_GAPS]:
        text = f"{format_duration(gap['seconds'])}, from {gap['from']} to {gap['to']}"
        lines += fold(text, f"{MARGIN * 2}gap of ", MARGIN * 3)
    if len(gaps) > MAX_GAPS and not verbosity:
        lines.append(f"{MARGIN * 2}and {len(gaps) - MAX_GAPS} more gaps; -v lists them")
    return lines


def format_duration(seconds: float) -> str:
    """Format a duration in its largest fitting unit: 10 s, 10 min, 2.5 h."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _problem(problem: dict[str, Any]) -> list[str]:
    member = problem.get("member", "")
    place = f"{member}:{problem['line']}" if problem.get("line") else member
    return fold(visible(f"{place}: {problem['text']}"), f"{problem['kind']}: ", MARGIN)
