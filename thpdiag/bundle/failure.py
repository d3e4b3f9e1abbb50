"""Why a stream of bytes ended before its time."""

from __future__ import annotations

from thpdiag.model import Citation, Problem, ProblemKind


class StreamError(Exception):
    """Raised inside the bundle stage only; it always ends as a Problem, never as an exception of `members`.

    `taints` says that the bytes before it may be wrong too.
    """

    def __init__(self, kind: ProblemKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.taints = False

    def problem(self, member: str, text: str = "", *, hides: bool | None = None) -> Problem:
        """The problem at `member`; `text` is said after what happened."""
        return Problem(Citation(member), f"{self.text}{text}", self.kind, hides=hides, taints=self.taints)


def damaged(text: str) -> StreamError:
    return StreamError(ProblemKind.DAMAGED, text)


def spoiled(text: str) -> StreamError:
    """Damage that shows only behind what it spoils: a checksum, or packed data that make no sense from here on."""
    failure = damaged(text)
    failure.taints = True
    return failure
