"""The analysis in a child process with limits, for input of strangers: `analyze --isolate`.

The document is that of the analysis without it. Where the child was ended, the document says which limit or mistake
ended it, and that nothing of the input is known.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from thpdiag.analyze import analyze, unread
from thpdiag.case.beside import beside, is_recording
from thpdiag.case.options import Options
from thpdiag.engine.load import Rule
from thpdiag.errors import ThpdiagError
from thpdiag.guard.limits import Cell, Limits
from thpdiag.guard.outcome import Answer, Outcome, Status
from thpdiag.guard.supervise import guarded
from thpdiag.model import Citation, Problem, ProblemKind
from thpdiag.reports.visible import visible

STDIN = Path("-")
LIMITS = Limits()
ALL = "input"  # what the problem is about, in place of a member
BUG = 70
_ARCHIVE = re.compile(r"\.(?:\d{1,5}|meta|index)")


class IsolationError(ThpdiagError):
    """The child process did not come to its end; the exit code is that of the reason."""

    def __init__(self, outcome: Outcome) -> None:
        lost = "" if outcome.status is Status.REFUSED else "; nothing of the input is known"
        super().__init__("\n".join(visible(line) for line in f"{outcome.sentence.rstrip()}{lost}".split("\n")))
        self.exit_code = outcome.exit_code


def isolated(
    paths: Sequence[Path], rules: Sequence[Rule], options: Options
) -> tuple[dict[str, Any], IsolationError | None]:  # fmt: skip
    """The result document of what is at the paths, and what to leave with if it could not be made of them."""

    def call() -> Answer:
        return Answer(json.dumps(analyze(paths, rules, options, stdin=sys.stdin.buffer), default=dict).encode())

    with TemporaryDirectory(prefix="thpdiag-") as scratch:
        outcome = guarded(call, LIMITS, _cell(paths, Path(scratch)))
    if outcome.status is Status.OK:
        return json.loads(outcome.content), None
    if outcome.status is Status.REFUSED:
        raise IsolationError(outcome)
    kind = ProblemKind.BUG if outcome.exit_code == BUG else ProblemKind.LIMIT
    text = outcome.sentence if outcome.status is not Status.BUG else "the child process failed"
    return unread(Problem(Citation(ALL), text, kind), rules, options), IsolationError(outcome)


def _cell(paths: Sequence[Path], scratch: Path) -> Cell:
    """It may read what is named, and what thpdiag looks for beside it: symbols, the other files of an archive."""
    files = [path for path in paths if path != STDIN]
    near = [other for path in files if not path.is_dir() for other in _others(path)]
    folders = [path.parent for path in files if is_recording(path) or near]
    stdin = sys.stdin.fileno() if STDIN in paths else None
    return Cell((*files, *beside(files), *near), tuple(folders), scratch, stdin)


def _others(path: Path) -> list[Path]:
    """The files of a PCP archive: alike but for what stands behind the last dot."""
    if not _ARCHIVE.fullmatch(path.suffix):
        return []
    try:
        return [other for other in path.parent.iterdir() if other.stem == path.stem]
    except OSError:
        return []
