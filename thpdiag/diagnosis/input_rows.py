"""The rows of a result that say what became of each member, and what could not be read.

A document is to be read by people and kept by the thousand: what there is very much of is counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from thpdiag.diagnosis.excerpts import place
from thpdiag.diagnosis.times import clock_text
from thpdiag.model import Citation, InputRecord, Problem
from thpdiag.model import result as document_model
from thpdiag.model.document import present_keys
from thpdiag.model.result import Gap, InputFile

MAX_GAPS = 50
MAX_ROWS = 100  # of one reader, or of the members that none recognised
MAX_PROBLEMS = 500
MAX_SUFFIX_CHARS = 8


def input_rows(items: Sequence[InputRecord], *, every: bool = False) -> list[InputFile]:
    """A row per member and reader; of a reader that read very many, one per folder and kind of name."""
    by_reader: dict[str, list[InputRecord]] = defaultdict(list)
    for item in items:
        by_reader[item.reader].append(item)
    many = set() if every else {reader for reader, own in by_reader.items() if len(own) > MAX_ROWS}
    rows = [_row(item) for item in items if item.reader not in many]
    return [*rows, *(row for reader in sorted(many) for row in _folder_rows(reader, by_reader[reader]))]


def _row(item: InputRecord) -> InputFile:
    unknown: dict[str, Any] = {} if item.size is None else {"size": item.size, "first_line": item.first_line}
    longest = sorted(item.gaps, key=lambda gap: gap[0].seconds - gap[1].seconds)[:MAX_GAPS]
    gaps = [
        Gap.model_construct(
            from_=clock_text(first), to=clock_text(last), seconds=round(last.seconds - first.seconds, 3)
        )
        for first, last in sorted(longest)
    ]
    return InputFile.model_construct(
        member=item.member, reader=item.reader or None, records=item.records, sha256=item.sha256,
        problems=item.problems, **unknown,
        **present_keys(
            first=clock_text(item.first) if item.first else None, last=clock_text(item.last) if item.last else None,
            period=None if item.period is None else round(item.period, 3), gaps=gaps,
        ),
    )  # fmt: skip


def _folder_rows(reader: str, items: Sequence[InputRecord]) -> Iterator[InputFile]:
    """Few rows for many members, as fine as that goes: folders whole, then less of them; names, then their suffixes."""
    depths = range(max(item.member.count("/") for item in items), -1, -1)
    tried = (_groups(items, depth, kind) for depth in depths for kind in (str, _suffix, _any_name))
    groups = next(found for found in tried if found)  # the coarsest has two patterns at most
    for pattern, own in sorted(groups.items()):
        yield InputFile.model_construct(
            member=pattern, reader=reader or None, records=sum(item.records for item in own), files=len(own),
            problems=sum(item.problems for item in own),
            **present_keys(size=None if reader else sum(item.size or 0 for item in own)),
        )  # fmt: skip


def _groups(
    items: Sequence[InputRecord], depth: int, kind: Callable[[str], str]
) -> dict[str, list[InputRecord]] | None:
    """The members of each pattern; None as soon as there are too many of those."""
    groups: dict[str, list[InputRecord]] = defaultdict(list)
    for item in items:
        groups[_pattern(item.member, depth, kind)].append(item)
        if len(groups) > MAX_ROWS:
            return None
    return groups


def _pattern(member: str, depth: int, kind: Callable[[str], str]) -> str:
    """The first folders of a path and the kind of its name."""
    *folders, name = member.split("/")
    return "/".join((*folders[:depth], *(("**",) if len(folders) > depth else ()), kind(name)))


def _suffix(name: str) -> str:
    suffix = name.rpartition(".")[2] if "." in name else ""
    return f"*.{suffix}" if suffix.isalnum() and len(suffix) <= MAX_SUFFIX_CHARS else "*"


def _any_name(_name: str) -> str:
    return "*"


def problem_rows(problems: Iterable[Problem]) -> list[document_model.Problem]:
    """Problems in a stable order; the same sentence about the same member once.

    Where there are very many, the same sentence once, and in the end their number alone.
    """
    first: dict[tuple[str, str, str], Problem] = {}
    for problem in problems:
        first.setdefault((problem.cite.member, problem.kind.value, problem.text), problem)
    rows = list(first.values())
    if len(rows) > MAX_PROBLEMS:
        rows = _merge_equal(rows)
    return [
        document_model.Problem.model_construct(
            kind=cast("Any", one.kind.value), text=one.text, count=one.count, **place(one.cite),
            **present_keys(reader=one.reader, hides=True if one.hides_data else None),
        )
        for one in rows
    ]  # fmt: skip


def _merge_equal(problems: Sequence[Problem]) -> list[Problem]:
    by_text: dict[tuple[str, str, bool], Problem] = {}
    for one in problems:
        key = (one.kind.value, one.text, one.hides_data)
        by_text[key] = replace(by_text[key], count=by_text[key].count + one.count) if key in by_text else one
    rows = list(by_text.values())
    if (rest := rows[MAX_PROBLEMS:]) and (worst := max(rest, key=lambda one: one.hides_data)):
        text = "further problems are not listed"
        count = sum(one.count for one in rest)
        rows[MAX_PROBLEMS:] = [Problem(Citation(worst.cite.member), text, worst.kind, count=count, hides=worst.hides)]
    return rows
