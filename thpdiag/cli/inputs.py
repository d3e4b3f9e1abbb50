"""`thpdiag inputs`: what was recognised, by which reader, and what each rule lacks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import rich_click as click

from thpdiag.analyze import analyze
from thpdiag.cli import options as shared
from thpdiag.reports.json import render
from thpdiag.reports.visible import visible

SCHEMA = "thpdiag/inputs/1"


@click.command()
@shared.PATHS
@click.option("-f", "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@shared.RULES
def command(paths: tuple[Path, ...], form: str, folders: tuple[Path, ...]) -> None:
    """Say what of PATHS was recognised, and which rules lack data."""
    result = analyze(paths, shared.loaded(folders), stdin=sys.stdin.buffer)
    document = _document(result)
    click.echo(render(document) if form == "json" else "\n".join(_lines(document)), nl=form != "json")
    if mistake := shared.absent(paths):
        raise mistake
    shared.finish(result)


def _document(result: dict[str, Any]) -> dict[str, Any]:
    """`{schema, inputs, problems, rules}` of all hosts together."""
    every = shared.documents(result)
    inputs = {(i["member"], i["reader"] or ""): i for d in every for i in d["inputs"]}
    problems = {(p.get("member", ""), p["kind"], p["text"]): p for d in every for p in d["problems"]}
    missing = {u["rule"]: u["missing"] for d in every for u in d["unknown"]}
    rules = [{"id": r["id"], "outcome": r["outcome"], "missing": missing.get(r["id"], [])} for r in every[0]["rules"]]
    return {
        "schema": SCHEMA,
        "inputs": [inputs[key] for key in sorted(inputs)],
        "problems": [problems[key] for key in sorted(problems)],
        "rules": rules,
    }


def _unrecognised(item: dict[str, Any]) -> str:
    """What a reader would have to be written for."""
    begins = f', begins "{visible(item["first_line"])}"' if item.get("first_line") else ""
    return f"not recognised: {item.get('size') or 0:,} bytes{begins}"


def _lines(document: dict[str, Any]) -> list[str]:
    lines = []
    for item in document["inputs"]:
        span = f"  {item['first']} to {item['last']}" if item.get("first") else ""
        told = f"{item['reader']}: {item['records']} records{span}" if item["reader"] else _unrecognised(item)
        lines.append(f"{visible(item['member'])}\n    {told}")
    lines.append("")
    lines += [f"{r['id']}: lacks {', '.join(r['missing'])}" for r in document["rules"] if r["missing"]]
    lines += [f"{p['kind']}: {visible(p.get('member', ''))}: {visible(p['text'])}" for p in document["problems"]]
    return lines
