"""Why a stream of bytes ended before its time."""

from __future__ import annotations

from thpdiag.model import Citation, Problem, ProblemKind


class StreamError(Exception):
    """Raised inside the bundle stage only; it always ends as a Problem, never as an exception of `members`."""

    def __init__(self, kind: ProblemKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text

    def problem(self, member: str, text: str = "", *, hides: bool | None = None) -> Problem:
        """The problem at `member`; `text` is said after what happened."""
        return Problem(Citation(member), f"{self.text}{text}", self.kind, hides=hides)


def damaged(text: str) -> StreamError:
    return StreamError(ProblemKind.DAMAGED, text)
