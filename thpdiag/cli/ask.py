"""`thpdiag ask`: the text for the customer's ticket, with the script that records exactly what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rich_click as click

from thpdiag.analyze import analyze
from thpdiag.cli import options as shared
from thpdiag.cli.redaction import clean, redacting
from thpdiag.cli.saved import saved
from thpdiag.engine.rule_set import rule_set
from thpdiag.errors import InputError, UsageError
from thpdiag.ticket.letter import NOTHING, letter, with_script
from thpdiag.ticket.wanted import INTERVAL, wanted

TEXT, SCRIPT = "text", "script"


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", "output", type=click.Path(path_type=Path), help="Write to this file, not to stdout.")
@click.option("--text-only", "parts", flag_value=TEXT, default="", help="The text without the script.")
@click.option("--script-only", "parts", flag_value=SCRIPT, help="The script without the text.")
@click.option("--seconds", type=click.IntRange(1, 86400), help="How long to record (120, or 1 if once is enough).")
@click.option(
    "--interval", default=INTERVAL, show_default=True, type=click.IntRange(1, 3600), help="Between two looks."
)
@click.option("--pid", default="", help="Watch this process.")
@redacting
@shared.RULES
@shared.SET
@shared.PROGRESS
def command(
    paths: tuple[Path, ...], output: Path | None, parts: str, seconds: int | None, interval: int, pid: str,
    folders: tuple[Path, ...], changes: tuple[str, ...], progress: str,
    redact: str, maps: tuple[Path, ...],
) -> None:  # fmt: skip
    """Write what to ask the customer for, ready to paste: what is missing in PATHS (a result, or what was sent)."""
    document = _document(paths, folders, changes, progress)
    try:
        found = wanted(clean(dict(document), redact, maps))
        text, script = letter(found, seconds or 0), found.script(seconds or 0, interval, pid)
    except (AttributeError, KeyError, TypeError) as error:  # a saved result that is none
        raise InputError(f"no valid result of thpdiag ({type(error).__name__}: {error})") from error
    if not found.hosts or (parts == SCRIPT and not script):
        shared.complain(NOTHING if not found.hosts else "no script can record what is missing")
        return
    told = {TEXT: text, SCRIPT: script}.get(parts, with_script(text, script))
    shared.write(told, output or Path("-"))


def _document(
    paths: tuple[Path, ...], folders: tuple[Path, ...], changes: tuple[str, ...], progress: str
) -> Mapping[str, Any]:
    """The saved result, or that of what the paths hold."""
    if mistake := shared.absent(paths):
        raise mistake
    results = [result for path in paths if (result := saved(path)) is not None]
    if results and len(paths) > 1:
        raise UsageError("one result at a time, or what a customer sent")
    if results:
        return results[0]
    with shared.shown(progress) as show:
        document = analyze(paths, rule_set(folders, changes), progress=show)
    if not shared.recognised(document):
        raise InputError(shared.NOTHING)
    return document
