"""`thpdiag inputs`: what was recognised, by which reader, and what each rule lacks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import rich_click as click

from thpdiag.analyze import analyze
from thpdiag.cli import options as shared
from thpdiag.cli.rules import RULES, loaded
from thpdiag.errors import InputError
from thpdiag.reports.visible import visible

SCHEMA = "thpdiag/inputs/1"


@click.command()
@shared.PATHS
@click.option("-f", "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@RULES
def command(paths: tuple[Path, ...], form: str, folders: tuple[Path, ...]) -> None:
    """Say what of PATHS was recognised, and which rules lack data."""
    missing = [p for p in paths if str(p) != "-" and not p.exists()]
    if missing:
        raise InputError(f"{missing[0]}: no such file or folder")
    result = analyze(paths, loaded(folders), stdin=sys.stdin.buffer)
    document = inputs_document(result)
    if form == "json":
        click.echo(json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False))
    else:
        click.echo("\n".join(_lines(document)))
    raise click.exceptions.Exit(shared.exit_code(result, "never"))


def inputs_document(result: dict[str, Any]) -> dict[str, Any]:
    """`{schema, inputs, problems, rules}` of all hosts together."""
    every = shared.documents(result)
    inputs = {(i["member"], i["reader"] or ""): i for d in every for i in d["inputs"]}
    problems = {json.dumps(p, sort_keys=True): p for d in every for p in d["problems"]}
    open_rules = {u["rule"]: u for d in every for u in d["unknown"]}
    rules = [{"id": r["id"], "outcome": r["outcome"], "missing": open_rules.get(r["id"], {}).get("missing", [])}
             for r in every[0]["rules"]]  # fmt: skip
    return {
        "schema": SCHEMA, "inputs": [inputs[k] for k in sorted(inputs)], "problems": [problems[k] for k in sorted(problems)],
        "rules": rules,
    }  # fmt: skip


def _lines(document: dict[str, Any]) -> list[str]:
    lines = []
    for item in document["inputs"]:
        span = f"  {item['first']} to {item['last']}" if item.get("first") else ""
        reader = item["reader"] or "not recognised"
        lines.append(f"{visible(item['member'])}\n    {reader}: {item['records']} records{span}")
    lines.append("")
    lines += [f"{r['id']}: lacks {', '.join(r['missing'])}" for r in document["rules"] if r["missing"]]
    lines += [f"{p['kind']}: {visible(p.get('member', ''))}: {visible(p['text'])}" for p in document["problems"]]
    return lines
