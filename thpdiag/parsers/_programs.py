"""Files of recorders that an installed program of theirs prints as text: run it, or ask for its output."""

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
    """The records of what a program prints, with the first options that it knows; returns what became of it."""
    for options in tries:
        run = ProgramRun(program, options, stdin, limits)
        with closing(iter(run)) as printed:
            first = next(printed, b"")
            if first or run.ending is not Ending.FAILED:
                yield from read(Content(chain((first,), printed)))
                break
    return run


def ending_of(run: ProgramRun, secret: str = "\0") -> tuple[str, ProblemKind]:
    """How a program ended that did not do so well; its complaint is kept back if it holds the `secret`."""
    why = f" ({quoted(run.complaint)})" if run.complaint and secret not in run.complaint else ""
    return f"{run.ending}{why}", ProblemKind.LIMIT if run.ending.is_limit else ProblemKind.DAMAGED


def path_on_host(source: Source) -> str:
    """Where the file lies on the host, as far as the member tells."""
    return f"/{source.path}" if source.path.startswith("var/") else source.path.rpartition("/")[2]


def request(source: Source, reader: str, text: str, kind: ProblemKind, command: str) -> Problem:
    """A file that was not read, and the command that makes text of it."""
    return Problem(Citation(source.member), f"{text}; on the host, `{command}` makes text of it", kind, reader)
