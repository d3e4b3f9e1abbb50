"""Binary recordings that an installed program of the recorder prints as text: run it, or ask for its output."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import IO

from thpdiag.model import Citation, Problem, ProblemKind, Record
from thpdiag.model.parser import Content, Foreign, Source
from thpdiag.model.text import quoted
from thpdiag.sandbox.programs import Ending, ProgramLimits, ProgramRun

Read = Callable[[Content], Iterator[Record | Foreign]]


def printed_records(
    program: Path, tries: Iterable[Sequence[str]], limits: ProgramLimits, read: Read, stdin: IO[bytes] | None = None
) -> Generator[Record | Foreign, None, ProgramRun]:
    """Yield the records of a program's output, with the first options that it accepts; return the finished run."""
    for options in tries:
        run = ProgramRun(program, options, stdin, limits)
        with closing(iter(run)) as output:
            first = next(output, b"")
            if first or run.ending is not Ending.FAILED:
                yield from read(Content(chain((first,), output)))
                break
    return run


def ending_of(run: ProgramRun, secret: str = "\0") -> tuple[str, ProblemKind]:
    """Describe how a program failed; its error message is left out if it contains the `secret`."""
    message = f" ({quoted(run.complaint)})" if run.complaint and secret not in run.complaint else ""
    return f"{run.ending}{message}", ProblemKind.LIMIT if run.ending.is_limit else ProblemKind.DAMAGED


def path_on_host(source: Source) -> str:
    """Return the path of the file on the host, as far as the member path shows it."""
    return f"/{source.path}" if source.path.startswith("var/") else source.path.rpartition("/")[2]


def request(source: Source, reader: str, text: str, kind: ProblemKind, command: str) -> Problem:
    """Return the Problem for a file that was not read, with the command that prints it as text."""
    return Problem(Citation(source.member), f"{text}; on the host, `{command}` makes text of it", kind, reader)
