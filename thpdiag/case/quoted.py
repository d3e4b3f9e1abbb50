"""The text of cited lines: from what was kept of the reading, else from the input, read a second time.

Nothing is quoted that may be another line than the one that was read: a member that has changed since has another
SHA-256, and where two members of one name differ in the line, only the one that the citation remembers is quoted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from thpdiag.bundle import Limits
from thpdiag.bundle.transcript import clean
from thpdiag.case.again import again
from thpdiag.case.kept import Kept, Text
from thpdiag.case.passages import passages, pieces, sure_passages, whole_lines
from thpdiag.model import Citation
from thpdiag.model.passage import Passage, Quote

_Found = Mapping[Passage, Quote]
_SURE = 40  # characters that tell a line of one member from that of another


def quotes(
    wanted: Iterable[Passage], kept: Kept, paths: Sequence[Path], limits: Limits, stdin: BinaryIO | None = None
) -> dict[Passage, Quote]:
    """By passage the quote, without those that cannot be had (a pipe of which little was kept, no text, a change)."""
    of: dict[str, set[Passage]] = {}
    for passage in wanted:
        of.setdefault(passage.member, set()).add(passage)
    found: dict[str, dict[str, _Found]] = {}  # by member and SHA-256
    left: dict[str, set[str]] = {}  # what has to be read again
    for member, here in of.items():
        for sha256, text in kept.texts(member).items():
            known = _in_text(text, here, limits)
            found.setdefault(member, {})[sha256] = known
            if not text.whole and len(known) < len(here):
                left.setdefault(member, set()).add(sha256)
    for member, sha256, known in _read_again(left, of, paths, limits, stdin):
        found[member][sha256] = known
    return {passage: quote for member, here in of.items() for passage in here
            if (quote := _settled(passage, list(found.get(member, {}).values())))}  # fmt: skip


def quoted_lines(
    cited: Iterable[Citation], kept: Kept, paths: Sequence[Path], limits: Limits, stdin: BinaryIO | None = None
) -> dict[Citation, tuple[int, str]]:
    """By citation the number and text of the line that says it. `text` of a citation is what a snapshot's row names."""
    wanted = {cite: Passage(cite.member, cite.line, "", tuple(cite.text.split())) for cite in cited if cite.line}
    found = quotes(wanted.values(), kept, paths, limits, stdin)
    told = ((cite, found[passage]) for cite, passage in wanted.items() if passage in found)
    return {cite: (quote.line, quote.lines[quote.said]) for cite, quote in told}


def _in_text(text: Text, wanted: Iterable[Passage], limits: Limits) -> _Found:
    begin, held = b"".join(text.begin[:2]), b"".join(text.begin)
    if not begin:
        return {}
    if text.whole:
        return passages(begin, pieces(held), wanted, limits.line)
    return sure_passages(begin, pieces(whole_lines(held)), wanted, limits.line)


def _read_again(
    left: dict[str, set[str]], of: Mapping[str, set[Passage]], paths: Sequence[Path], limits: Limits,
    stdin: BinaryIO | None,
) -> Iterable[tuple[str, str, _Found]]:  # fmt: skip
    """Members that are read a second time, until all that are left were met. Empties `left`."""
    for member in again(left, paths, limits, stdin):
        known = passages(member.head(), member.chunks_of_lines(), of[member.path], limits.line)
        member.finish()
        if member.sha256 in left[member.path]:
            yield member.path, member.sha256, known


def _settled(passage: Passage, versions: Sequence[_Found]) -> Quote | None:
    """What members of one name say, if all that can be meant say the same."""
    said = {found[passage] for found in versions if passage in found}
    if len(said) > 1:
        said = {quote for quote in said if passage.text and _agrees(quote, passage)}
    return said.pop() if len(said) == 1 else None


def _agrees(quote: Quote, passage: Passage) -> bool:
    return passage.text.strip()[:_SURE] in clean(quote.lines[quote.said])
