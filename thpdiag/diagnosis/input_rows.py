"""The rows of a result for each member and for what could not be read.

Long lists are summarised: a document is read by people and stored thousands of times.
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
MAX_ROWS = 100  # of one reader, or of members without a reader
MAX_PROBLEMS = 500
MAX_SUFFIX_CHARS = 8


def input_rows(items: Sequence[InputRecord], *, every: bool = False) -> list[InputFile]:
    """Return a row per member and reader. A reader with more than MAX_ROWS members gets one row per folder and kind
    of name."""
    by_reader: dict[str, list[InputRecord]] = defaultdict(list)
    for item in items:
        by_reader[item.reader].append(item)
    long_readers = set() if every else {reader for reader, members in by_reader.items() if len(members) > MAX_ROWS}
    rows = [_row(item) for item in items if item.reader not in long_readers]
    return [*rows, *(row for reader in sorted(long_readers) for row in _folder_rows(reader, by_reader[reader]))]


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
    """Summarise many members in at most MAX_ROWS rows, as detailed as possible. Folders are cut off one level at a
    time; on each level names are replaced by their suffix, then by `*`."""
    depths = range(max(item.member.count("/") for item in items), -1, -1)
    kinds = (str, _suffix, lambda _name: "*")
    groupings = (_group_by_pattern(items, depth, kind) for depth in depths for kind in kinds)
    groups = next(filter(None, groupings))  # the coarsest grouping has two patterns at most
    for pattern, members in sorted(groups.items()):
        yield InputFile.model_construct(
            member=pattern, reader=reader or None, records=sum(item.records for item in members), files=len(members),
            problems=sum(item.problems for item in members),
            **present_keys(size=None if reader else sum(item.size or 0 for item in members)),
        )  # fmt: skip


def _group_by_pattern(
    items: Sequence[InputRecord], depth: int, kind: Callable[[str], str]
) -> dict[str, list[InputRecord]] | None:
    """The members of each pattern, or None if there are more than MAX_ROWS patterns."""
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


def problem_rows(problems: Iterable[Problem]) -> list[document_model.Problem]:
    """Return the problems in a stable order, each sentence about a member once. If there are more than MAX_PROBLEMS,
    each sentence appears once, and the rest is counted in one row."""
    unique: dict[tuple[str, str, str], Problem] = {}
    for problem in problems:
        unique.setdefault((problem.cite.member, problem.kind.value, problem.text), problem)
    rows = list(unique.values())
    if len(rows) > MAX_PROBLEMS:
        rows = _merge_equal(rows)
    return [
        document_model.Problem.model_construct(
            kind=cast("Any", row.kind.value), text=row.text, count=row.count, **place(row.cite),
            **present_keys(reader=row.reader, hides=True if row.hides_data else None),
        )
        for row in rows
    ]  # fmt: skip


def _merge_equal(problems: Sequence[Problem]) -> list[Problem]:
    by_text: dict[tuple[str, str, bool], Problem] = {}
    for problem in problems:
        key = (problem.kind.value, problem.text, problem.hides_data)
        by_text[key] = replace(by_text[key], count=by_text[key].count + problem.count) if key in by_text else problem
    rows = list(by_text.values())
    if (rest := rows[MAX_PROBLEMS:]) and (worst := max(rest, key=lambda problem: problem.hides_data)):
        text = "further problems are not listed"
        count = sum(problem.count for problem in rest)
        rows[MAX_PROBLEMS:] = [Problem(Citation(worst.cite.member), text, worst.kind, count=count, hides=worst.hides)]
    return rows
