"""`thpdiag ask` and `capture-script`: a request for missing data, and the script that records it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import rich_click as click

from thpdiag.cli import options as shared
from thpdiag.cli.options import Redaction, RuleChoice
from thpdiag.cli.saved import find_result
from thpdiag.diagnosis.capture import script
from thpdiag.engine.load import rule_set, with_dependencies
from thpdiag.errors import InputError, UsageError
from thpdiag.export.customer import INTERVAL, NOTHING, letter, missing_questions, with_script
from thpdiag.pipeline import analyze_paths
from thpdiag.report import AnyResult

LETTER, TEXT, SCRIPT = "letter", "text", "script"


@click.command()
@shared.PATHS_OF_FILES
@shared.output_option(
    "Write to this file, not to stdout; `script=PATH` or the suffix .sh is the script without the text"
)
@click.option("--text-only", "parts", flag_value=TEXT, default="", help="Write the text without the script.")
@click.option("--script-only", "parts", flag_value=SCRIPT, help="Write the script without the text.")
@click.option("--seconds", type=click.IntRange(1, 86400), help="Seconds to record (120, or 1 if one sample is enough).")
@click.option(
    "--interval", default=INTERVAL, show_default=True, type=click.IntRange(1, 3600), help="Seconds between samples."
)
@click.option("--pid", default="", help="Also record this process.")
@shared.redaction_options
@shared.rule_options
@shared.PROGRESS
def ask(
    *,
    paths: tuple[Path, ...],
    outputs: tuple[str, ...],
    parts: str,
    seconds: int | None,
    interval: int,
    pid: str,
    redaction: Redaction,
    chosen: RuleChoice,
) -> None:
    """Write a request to the customer, ready to paste, for the data that is missing in PATHS (a result or the data)."""
    targets = shared.parse_outputs(outputs, (LETTER, TEXT, SCRIPT), default=parts or LETTER, suffixes={"sh": SCRIPT})
    document = _document(paths, chosen)
    try:
        missing = missing_questions(redaction.apply(document))
        text, shell = letter(missing, seconds or 0), missing.script(seconds or 0, interval, pid)
    except (AttributeError, KeyError, TypeError) as error:  # a saved result that does not match the schema
        raise InputError(f"no valid thpdiag result ({type(error).__name__}: {error})") from error
    if not missing.hosts:
        shared.print_message(NOTHING)
        return
    for name, path in targets or [(parts or LETTER, Path("-"))]:
        if name == SCRIPT and not shell:
            shared.print_message("no script can record what is missing")
        else:
            shared.write({TEXT: text, SCRIPT: shell}.get(name, with_script(text, shell)), path)


def _document(paths: tuple[Path, ...], chosen: RuleChoice) -> AnyResult:
    """Return the saved result at the path, or analyse the paths."""
    if missing := shared.missing_path_error(paths):
        raise missing
    results = [result for path in paths if (result := find_result(path)) is not None]
    if results and len(paths) > 1:
        raise UsageError("give one result, or only data of one host")
    if results:
        return results[0]
    with shared.progress_display() as show:
        document = analyze_paths(paths, chosen.rules(), progress=show)
    if not shared.is_recognised(document):
        raise InputError(shared.unrecognised_reason(document))
    return document


@click.command("capture-script")
@click.option(
    "--for", "ids", multiple=True, metavar="RULE", help="Record only what this rule needs; may be given several times."
)
@click.option("--seconds", default=120, show_default=True, type=click.IntRange(1, 86400), help="Seconds to record.")
@click.option("--interval", default=10, show_default=True, type=click.IntRange(1, 3600), help="Seconds between rounds.")
@click.option("--pid", default="", help="Also record this process.")
@shared.RULES
def capture_script(ids: tuple[str, ...], seconds: int, interval: int, pid: str, folders: tuple[Path, ...]) -> None:
    """Print a POSIX sh script that records what the rules need and writes a bundle for `analyze`."""
    rules = rule_set(folders)
    chosen = with_dependencies([shared.rule_by_id(rule_id, rules) for rule_id in ids], rules)
    names = sorted({name for rule in chosen for check in rule.checks.values() for name in check.needs}) if ids else None
    click.echo(script(names, seconds=seconds, interval=interval, pid=pid), nl=False)


COMMANDS: Mapping[str, click.Command] = MappingProxyType({"ask": ask, "capture-script": capture_script})
