"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rich_click as click

from thpdiag.errors import UsageError
from thpdiag.model import SEVERITIES
from thpdiag.reports import FORMATS

PATHS = click.argument(
    "paths", nargs=-1, required=True, type=click.Path(exists=False, path_type=Path, allow_dash=True)
)  # fmt: skip
OUTPUT = click.option(
    "-o", "--output", "outputs", multiple=True, metavar="FORMAT=PATH",
    help="Also write this format to this file; may be given several times, `-` is stdout.",
)  # fmt: skip
FAIL_ON = click.option(
    "--fail-on", type=click.Choice([*reversed(SEVERITIES), "never"]), default="never", show_default=True,
    help="Exit 1 if there is a finding of this severity or a higher one.",
)  # fmt: skip


def targets(outputs: tuple[str, ...]) -> list[tuple[str, Path]]:
    """The (format, file) pairs of `-o`; a path alone decides by its suffix."""
    found = []
    for text in outputs:
        name, sign, rest = text.partition("=")
        if not sign:
            name, rest = Path(text).suffix.lstrip(".") or text, text
        known = {"txt": "text", "htm": "html"}.get(name, name)
        if known not in FORMATS:
            raise UsageError(f"unknown format '{name}'; one of {', '.join(sorted(FORMATS))}")
        found.append((known, Path(rest)))
    return found


def write(text: str, path: Path) -> None:
    """To a file, or to stdout for `-`."""
    if str(path) == "-":
        click.echo(text, nl=False)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    click.echo(f"{path} written", err=True)


def documents(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The document of each host."""
    return list(document.get("cases", [document]))


def exit_code(document: Mapping[str, Any], fail_on: str, *, fail_on_missing: bool = False) -> int:
    """The first that applies of 1, 3, 6, 5, 0 (DESIGN 5)."""
    every = documents(document)
    found = [f for d in every for f in d.get("findings", ())]
    if fail_on != "never":
        least = SEVERITIES.index(fail_on)
        if any(SEVERITIES.index(f["severity"]) >= least for f in found):
            return 1
    if fail_on_missing and any(d.get("unknown") for d in every):
        return 1
    if not any(i.get("reader") for d in every for i in d.get("inputs", ())):
        return 3
    problems = [p for d in every for p in d.get("problems", ())]
    if any(p["kind"] == "limit" for p in problems):
        return 6
    hidden = any(p["kind"] in ("damaged", "unreadable", "bug", "refused") for p in problems)
    open_rules = any(d.get("unknown") for d in every)
    return 5 if hidden and open_rules else 0
