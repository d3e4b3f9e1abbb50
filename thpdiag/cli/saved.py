"""Reading saved results and comparisons (JSON, or the JSON in an HTML page); `thpdiag render` and `redact`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import rich_click as click
from click.exceptions import Exit

from thpdiag.cli import options as shared
from thpdiag.cli.options import Accepting, Delivery, Redaction
from thpdiag.compare import FORMATS as COMPARISON_FORMATS
from thpdiag.compare.document import failing
from thpdiag.compare.model import Comparison
from thpdiag.errors import InputError, UsageError
from thpdiag.model.document import read_document
from thpdiag.model.result import Result, as_result
from thpdiag.report import FORMATS
from thpdiag.report.html import from_page
from thpdiag.report.presentation import Presentation, fails

MAX_RESULT_BYTES = 512 << 20  # larger files are recordings, not results
_COMPARISON = "thpdiag/comparison/"
_EXPECTED = "give the JSON or the HTML page of `thpdiag analyze`"
_RESULT_START = re.compile(rb"\s*+(?:\xef\xbb\xbf)?\s*+(\{|<!doctype html|<html)", re.IGNORECASE)
_RESULT = re.compile(rb'"thpdiag/(?:result|comparison)/|<script type="application/(?:gzip\+base64|json)" id="result">')


def parse_result(text: str, name: object) -> Result:
    """Parse a result; raises InputError if the text has none."""
    document = parse_result_or_comparison(text, name)
    if isinstance(document, Comparison):
        raise InputError(f"{name} is a comparison; only `thpdiag render` accepts it")
    return document


def parse_result_or_comparison(text: str, name: object) -> Result | Comparison:
    """Parse a result or comparison; raises InputError if the text has none."""
    try:
        document = json.loads(text) if text.lstrip().startswith("{") else from_page(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} contains no thpdiag result: {error}; if it is cut off, copy it again") from error
    except InputError as error:
        raise InputError(f"{name}: {error}; {_EXPECTED}") from error
    if not isinstance(document, dict) or not str(document.get("schema", "")).startswith(
        ("thpdiag/result/", _COMPARISON)
    ):
        raise InputError(f"{name} contains no thpdiag result; {_EXPECTED}")
    try:
        if document["schema"].startswith(_COMPARISON):
            return read_document(Comparison, document)
        return as_result(document)
    except (ValueError, RecursionError) as error:  # damaged, or of a later version
        hint = "update thpdiag if a later version wrote it, or analyze the input again"
        raise InputError(f"{name} contains no valid thpdiag result ({error}); {hint}") from error


def find_result(path: Path) -> Result | None:
    """Return the result in a file, or None for other files such as bundles; InputError for a damaged result."""
    if not path.is_file() or path.stat().st_size > MAX_RESULT_BYTES:
        return None
    try:
        with path.open("rb") as file:
            begin = file.read(64)
            data = begin + file.read() if _RESULT_START.match(begin) else b""
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if not _RESULT.search(data):
        return None
    try:
        return parse_result(data.decode("utf-8-sig"), path)
    except UnicodeDecodeError as error:
        raise InputError(f"{path} contains no thpdiag result: it is not text; {_EXPECTED}") from error


@click.command()
@click.argument("result", type=click.Path(path_type=Path, allow_dash=True))
@shared.FORMAT
@shared.OUTPUT
@shared.FAIL_ON
@shared.acceptance_options
@shared.redaction_options
@shared.SHOW_SUPPRESSED
@shared.EXTENT
@shared.VERBOSE
@shared.COLOR
@shared.QUIET
@shared.delivery_options
def render(*, result: Path, delivery: Delivery, accepting: Accepting, redaction: Redaction) -> None:
    """Print RESULT (JSON or HTML, also from `thpdiag compare`) in another format; no bundle is needed."""
    try:
        data = sys.stdin.buffer.read() if str(result) == "-" else result.read_bytes()
        document = parse_result_or_comparison(data.decode("utf-8-sig"), result)
    except OSError as error:
        raise InputError(f"{result} cannot be read: {error.strerror}; expected a result of thpdiag") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{result} contains no thpdiag result: it is not text; {_EXPECTED}") from error
    if isinstance(document, Comparison):
        if accepting or redaction:
            raise UsageError("a comparison cannot be changed afterwards; use these options with `thpdiag compare`")
        failed = _render_comparison(document, delivery)
    else:
        targets = shared.parse_outputs(delivery.outputs)
        marked = redaction.apply(accepting.mark(document, delivery.verbosity))
        delivery.deliver(marked, targets, FORMATS, watched=False)
        failed = shared.fails_gate(marked, delivery.fail_on)
    raise Exit(int(failed))


def _render_comparison(document: Comparison, delivery: Delivery) -> bool:
    """Write a comparison; return whether a finding in it fails the gate."""
    if delivery.form not in COMPARISON_FORMATS:
        formats = ", ".join(sorted(COMPARISON_FORMATS))
        raise UsageError(f"-f {delivery.form} is not a format for comparisons; formats are {formats}")
    targets = shared.parse_outputs(delivery.outputs, COMPARISON_FORMATS)
    delivery.deliver(document, targets, COMPARISON_FORMATS, watched=False)
    return any(fails(finding, delivery.fail_on) for finding in failing(document))


@click.command()
@click.argument("result", type=click.Path(path_type=Path))
@shared.OUTPUT
@shared.redaction_map_option
def redact(*, result: Path, outputs: tuple[str, ...], redaction: Redaction) -> None:
    """Replace the customer's names in RESULT (JSON or an HTML report), and print JSON unless `-o` is given."""
    targets = shared.parse_outputs(outputs)
    if not result.exists():
        raise InputError(f"{result}: no such file; expected a result of thpdiag")
    document = find_result(result)
    if document is None:
        raise InputError(
            f"{result} is not a thpdiag result; for the report of a bundle run `thpdiag analyze --redact` on it, "
            "and to clean the bundle itself `sos clean`"
        )
    redacted = redaction.apply(document)
    for name, path in targets or [("json", Path("-"))]:
        shared.write(FORMATS[name](redacted, Presentation()), path)


COMMANDS: Mapping[str, click.Command] = MappingProxyType({"render": render, "redact": redact})
