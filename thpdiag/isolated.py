"""The analysis in a child process with limits, for input of strangers: `analyze --isolate`, `triage`.

The document is that of the analysis without it. Where the child was ended, `document_of_failure` says in a document
which limit or mistake ended it, and that nothing of the input is known.

A process that forks for one bundle after another calls `preload_analysis` first, so that no child loads again what it
needs. `sosreport.tar.xz` asks for what an ordinary report of a host does: it is the cut of one of a healthy guest
(`fixtures/healthy`).
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
STEP_SECONDS = 0.5  # between two steps that the child writes, so that hours of them stay below its limit of output
MAX_STEP_BYTES = 4096
_ARCHIVE = re.compile(r"\.(?:\d{1,5}|meta|index)")


def analyze_isolated(
    paths: Sequence[Path], rules: Sequence[Rule], options: Options,
    *, limits: Limits | None = None, stdin: BinaryIO | None = None, scratch: Path | None = None,
    progress: Progress | None = None,
) -> Outcome:  # fmt: skip
    """How the analysis ended; the content is the result document as JSON. `scratch` is where it may write."""

    def call() -> Answer:
        steps = progress and throttle(_write_step, STEP_SECONDS)
        return Answer(json.dumps(analyze(paths, rules, options, stdin=stdin, progress=steps), default=dict).encode())

    with TemporaryDirectory(prefix="thpdiag-", dir=scratch) as room:
        listen = progress and _step_reader(progress)
        return note_missing_layers(
            run_in_child(call, limits or LIMITS, allowed_files(paths, Path(room), stdin), listen)
        )


def note_missing_layers(outcome: Outcome) -> Outcome:
    """The same with a note in the document if layers of the sandbox were missing while it was made."""
    if not outcome.missing or outcome.status is not Status.OK:
        return outcome
    document = json.loads(outcome.content)
    document["notes"] = [*document.get("notes", ()), {"text": describe_missing(outcome.missing)}]
    return replace(outcome, content=json.dumps(document).encode())


def describe_missing(layers: Sequence[Layer]) -> str:
    """The layers of the sandbox that this machine does not have, in a sentence."""
    return f"The sandbox was incomplete, as this machine lacks: {', '.join(layers)}."


def _write_step(step: Step) -> None:
    """Of the child: a line on its stderr, without the words that are the customer's."""
    os.write(2, json.dumps(step._replace(what="")).encode() + b"\n")


def _step_reader(progress: Progress) -> Listener:
    """What passes on the lines that are steps, whatever else a child writes."""
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
    """The document of an analysis that did not come to its end."""
    kind = ProblemKind.BUG if outcome.exit_code == BUG_EXIT_CODE else ProblemKind.LIMIT
    text = outcome.sentence if outcome.status is not Status.BUG else "the child process failed"
    return unread(Problem(Citation(WHOLE_INPUT), text, kind), rules, options)


def allowed_files(paths: Sequence[Path], scratch: Path, stdin: BinaryIO | None = None) -> Allowed:
    """It may read what is named, and what thpdiag looks for beside it: symbols, the other files of an archive."""
    named = [path for path in paths if path != STDIN]
    near = [other for path in named if not path.is_dir() for other in _files_of_pcp_archive(path)]
    folders = [path.parent for path in named if is_recording(path) or near]
    given = stdin.fileno() if stdin is not None and STDIN in paths else None
    return Allowed((*named, *sibling_files(named), *near), tuple(folders), scratch, given)


def _files_of_pcp_archive(path: Path) -> list[Path]:
    """The files of a PCP archive: alike but for what stands behind the last dot."""
    if not _ARCHIVE.fullmatch(path.suffix):
        return []
    try:
        return [other for other in path.parent.iterdir() if other.stem == path.stem]
    except OSError:
        return []


def preload_analysis(rules: Sequence[Rule]) -> None:
    """Have modules, tables of knowledge and patterns loaded that every bundle needs."""
    import numpy  # noqa: F401 - loaded, that is all

    for line_format in line_formats():
        line_format.load()
        _ = line_format.opens, line_format.paths  # compiled
    for bulk_format in bulk_formats():
        bulk_format.load()
        _ = bulk_format.opens
    analyze([STDIN], rules, stdin=BytesIO(sample_bundle()))


def sample_bundle() -> bytes:
    """The sosreport, packed."""
    return files("thpdiag").joinpath(SAMPLE).read_bytes()
