"""Analysis in a sandboxed child process, for untrusted input: `analyze --isolate`, `triage`.

The document is the same as without the sandbox. If the child was stopped, `document_of_failure` returns a document that
states the limit or error, and in which everything is unknown.

A process that forks for many bundles calls `preload_analysis` first, so that its children share modules and tables. It
analyses `sosreport.tar.xz`, an excerpt of a report of a healthy guest (`fixtures/healthy`), which loads what an
ordinary report needs.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from pydantic import TypeAdapter, ValidationError

from thpdiag.engine.load import Rule
from thpdiag.errors import BUG_EXIT_CODE
from thpdiag.host.options import Options
from thpdiag.host.reading import Progress, Step, throttle
from thpdiag.host.sibling_files import is_recording, sibling_files
from thpdiag.model import Citation, Problem, ProblemKind
from thpdiag.parsers import bulk_formats, line_formats
from thpdiag.pipeline import WHOLE_INPUT, analyze, unread
from thpdiag.sandbox.outcome import Allowed, Answer, Layer, Limits, Outcome, Status
from thpdiag.sandbox.supervise import Listener, run_in_child

STDIN = Path("-")
LIMITS = Limits()
SAMPLE = "sosreport.tar.xz"
STEP_SECONDS = 0.5  # between two progress lines of the child, so that hours of them stay below its output limit
MAX_STEP_BYTES = 4096
_PCP_SUFFIX = re.compile(r"\.(?:\d{1,5}|meta|index)")


def analyze_isolated(
    paths: Sequence[Path], rules: Sequence[Rule], options: Options,
    *, limits: Limits | None = None, stdin: BinaryIO | None = None, scratch: Path | None = None,
    progress: Progress | None = None,
) -> Outcome:  # fmt: skip
    """Analyse in a child; the content of the outcome is the document as JSON. `scratch` is a folder for its files."""

    def call() -> Answer:
        steps = progress and throttle(_write_step, STEP_SECONDS)
        return Answer(json.dumps(analyze(paths, rules, options, stdin=stdin, progress=steps), default=dict).encode())

    with TemporaryDirectory(prefix="thpdiag-", dir=scratch) as folder:
        listen = progress and _step_reader(progress)
        allowed = allowed_files(paths, Path(folder), stdin)
        return note_missing_layers(run_in_child(call, limits or LIMITS, allowed, listen))


def note_missing_layers(outcome: Outcome) -> Outcome:
    """Add a note to the document if layers of the sandbox were missing."""
    if not outcome.missing or outcome.status is not Status.OK:
        return outcome
    document = json.loads(outcome.content)
    document["notes"] = [*document.get("notes", ()), {"text": describe_missing(outcome.missing)}]
    return replace(outcome, content=json.dumps(document).encode())


def describe_missing(layers: Sequence[Layer]) -> str:
    """Return a sentence about the layers of the sandbox that this machine lacks."""
    return f"The sandbox was incomplete, as this machine lacks: {', '.join(layers)}."


def _write_step(step: Step) -> None:
    """Write a progress step to the stderr of the child, without the customer's names."""
    os.write(2, json.dumps(step._replace(what="")).encode() + b"\n")


def _step_reader(progress: Progress) -> Listener:
    """Return a listener that passes on progress steps and ignores other output of the child."""
    adapter, rest = TypeAdapter(Step), b""

    def listen(part: bytes) -> None:
        nonlocal rest
        *lines, rest = (rest + part).split(b"\n")
        rest = rest[-MAX_STEP_BYTES:]
        for line in lines:
            with suppress(ValidationError):
                progress(adapter.validate_json(line))

    return listen


def document_of_failure(outcome: Outcome, rules: Sequence[Rule], options: Options) -> dict[str, Any]:
    """Return the document of an analysis that failed in the child."""
    kind = ProblemKind.BUG if outcome.exit_code == BUG_EXIT_CODE else ProblemKind.LIMIT
    text = outcome.sentence if outcome.status is not Status.BUG else "the child process failed"
    return unread(Problem(Citation(WHOLE_INPUT), text, kind), rules, options)


def allowed_files(paths: Sequence[Path], scratch: Path, stdin: BinaryIO | None = None) -> Allowed:
    """Return the permissions to read the paths and their sibling files: symbols, other files of a PCP archive."""
    named = [path for path in paths if path != STDIN]
    pcp_files = [file for path in named if not path.is_dir() for file in _files_of_pcp_archive(path)]
    folders = [path.parent for path in named if is_recording(path) or pcp_files]
    descriptor = stdin.fileno() if stdin is not None and STDIN in paths else None
    return Allowed((*named, *sibling_files(named), *pcp_files), tuple(folders), scratch, descriptor)


def _files_of_pcp_archive(path: Path) -> list[Path]:
    """Return the files of a PCP archive, which differ only in the last suffix."""
    if not _PCP_SUFFIX.fullmatch(path.suffix):
        return []
    try:
        return [other for other in path.parent.iterdir() if other.stem == path.stem]
    except OSError:
        return []


def preload_analysis(rules: Sequence[Rule]) -> None:
    """Load the modules, knowledge tables and patterns that every bundle needs."""
    import numpy  # noqa: F401 - only to load it

    for line_format in line_formats():
        line_format.load()
        _ = line_format.opens, line_format.paths  # compiles the patterns
    for bulk_format in bulk_formats():
        bulk_format.load()
        _ = bulk_format.opens
    analyze([STDIN], rules, stdin=BytesIO(sample_bundle()))


def sample_bundle() -> bytes:
    """Return the sample sosreport as tar.xz."""
    return files("thpdiag").joinpath(SAMPLE).read_bytes()
