"""The analysis in a child process with limits, for input of strangers: `analyze --isolate`, `triage`.

The document is that of the analysis without it. Where the child was ended, `unfinished` says in a document which limit
or mistake ended it, and that nothing of the input is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from thpdiag.analyze import analyze, unread
from thpdiag.case.beside import beside, is_recording
from thpdiag.case.options import Options
from thpdiag.engine.load import Rule
from thpdiag.guard.limits import Cell, Limits
from thpdiag.guard.outcome import Answer, Outcome, Status
from thpdiag.guard.supervise import guarded
from thpdiag.model import Citation, Problem, ProblemKind

STDIN = Path("-")
LIMITS = Limits()
ALL = "input"  # what the problem is about, in place of a member
BUG = 70
_ARCHIVE = re.compile(r"\.(?:\d{1,5}|meta|index)")


def analyzed(
    paths: Sequence[Path], rules: Sequence[Rule], options: Options,
    *, limits: Limits | None = None, stdin: BinaryIO | None = None, scratch: Path | None = None,
) -> Outcome:  # fmt: skip
    """How the analysis ended; the content is the result document as JSON. `scratch` is where it may write."""

    def call() -> Answer:
        return Answer(json.dumps(analyze(paths, rules, options, stdin=stdin), default=dict).encode())

    with TemporaryDirectory(prefix="thpdiag-", dir=scratch) as room:
        return guarded(call, limits or LIMITS, cell(paths, Path(room), stdin))


def unfinished(outcome: Outcome, rules: Sequence[Rule], options: Options) -> dict[str, Any]:
    """The document of an analysis that did not come to its end."""
    kind = ProblemKind.BUG if outcome.exit_code == BUG else ProblemKind.LIMIT
    text = outcome.sentence if outcome.status is not Status.BUG else "the child process failed"
    return unread(Problem(Citation(ALL), text, kind), rules, options)


def cell(paths: Sequence[Path], scratch: Path, stdin: BinaryIO | None = None) -> Cell:
    """It may read what is named, and what thpdiag looks for beside it: symbols, the other files of an archive."""
    files = [path for path in paths if path != STDIN]
    near = [other for path in files if not path.is_dir() for other in _others(path)]
    folders = [path.parent for path in files if is_recording(path) or near]
    given = stdin.fileno() if stdin is not None and STDIN in paths else None
    return Cell((*files, *beside(files), *near), tuple(folders), scratch, given)


def _others(path: Path) -> list[Path]:
    """The files of a PCP archive: alike but for what stands behind the last dot."""
    if not _ARCHIVE.fullmatch(path.suffix):
        return []
    try:
        return [other for other in path.parent.iterdir() if other.stem == path.stem]
    except OSError:
        return []
