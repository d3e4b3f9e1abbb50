"""Lines of a customer's file, around one that a finding cites: read from the stored bundle by a guarded child.

Only files that the result speaks of are shown: what else a customer sent is nobody's business here. What comes back
from the child is data, never a page. The bundle is read from its start up to the lines that are asked for, and nothing
of it is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import BoundedSemaphore
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from thpdiag.bundle import Limits as Bounds
from thpdiag.bundle import Member, members
from thpdiag.bundle.member import utf16_of
from thpdiag.model import Problem
from thpdiag.model.result import Finding
from thpdiag.report.messages import hosts
from thpdiag.report.messages import name as host_name
from thpdiag.sandbox.outcome import MIB, Allowed, Answer, Limits, Status
from thpdiag.sandbox.preload import run_in_child_of_worker
from thpdiag.serve.access.audit import Action
from thpdiag.serve.pages.render import PageError, not_found, read_case, render_page
from thpdiag.serve.server import Server
from thpdiag.serve.work_order import link_files

MAX_LINES: Final = 200  # lines at once
MAX_LINE_CHARS: Final = 2_000  # characters of a line
CHILD_LIMITS: Final = Limits(cpu_seconds=30, wall_seconds=60.0, memory=512 * MIB, file_size=0, files=64, answer=4 * MIB)
READ_LIMITS: Final = Bounds(cpu_seconds=20.0, wall_seconds=40.0, line=16 * 1024)
NO_TEXT: Final = "binary file; no lines to show"
NOT_THERE: Final = "no file of this name was found in the bundle"
FILE_ENDED: Final = "the file ends before this line"
UNREADABLE: Final = "the bundle could not be read up to this line: {}"


@dataclass(frozen=True, slots=True)
class MemberLines:
    """Numbered lines from 1, or why there are none; `ends` says that the file has no more."""

    lines: tuple[tuple[int, str], ...] = ()
    ends: bool = False
    reason: str = ""


def read_member_lines(bundles: Sequence[Path], member: str, first: int, last: int) -> MemberLines:
    """The lines `first` to `last` of a member, MOST at the most; takes a process and the time to read up to them."""
    call = partial(read_in_child, bundles, member, first, min(last, first + MAX_LINES - 1))
    outcome = run_in_child_of_worker(call, CHILD_LIMITS, Allowed(read=tuple(bundles)))
    if outcome.status is not Status.OK:
        return MemberLines(reason=UNREADABLE.format(outcome.name))
    told = json.loads(outcome.content)
    return MemberLines(tuple((number, text) for number, text in told["lines"]), told["ends"], told["reason"])


def read_in_child(bundles: Sequence[Path], member: str, first: int, last: int) -> Answer:
    """The same within the child, as JSON."""
    lines: list[tuple[int, str]] = []
    ends, reason = False, NOT_THERE
    inside = member.partition("/")[2] if len(bundles) > 1 else member  # before it is the name of the one it is in
    for found in members(bundles, lambda path: path == inside, READ_LIMITS):
        if isinstance(found, Problem):
            reason = UNREADABLE.format(found.text) if found.hides else reason
        elif _is_member(found, member, bundles):
            lines, ends, reason = _lines(found, first, last)
            break
    told = {"lines": lines, "ends": ends, "reason": reason}
    return Answer(json.dumps(told).encode())


def _is_member(found: Member, member: str, bundles: Sequence[Path]) -> bool:
    """Whether it is the one; a bundle that is no archive has the name under which it is kept, not that it came with."""
    alone = len(bundles) == 1 and found.path == bundles[0].name
    return alone or found.path == member or member in found.aliases


def _lines(found: Member, first: int, last: int) -> tuple[list[tuple[int, str]], bool, str]:
    head = found.head(4096)
    if b"\0" in head and not utf16_of(head):
        return [], False, NO_TEXT
    rows = list(islice(_slice_lines(found.lines(), first, last), MAX_LINES + 1))
    wanted = [(number, text) for number, text in rows if number <= last][:MAX_LINES]
    if wanted:
        return wanted, len(wanted) == len(rows), ""
    return [], False, UNREADABLE.format(found.problems[-1].text) if found.problems else FILE_ENDED


def _slice_lines(lines: Iterator[tuple[int, str]], first: int, last: int) -> Iterator[tuple[int, str]]:
    """Those from `first` to one behind `last`, which says that there are more."""
    for number, text in lines:
        if number > last + 1:
            return
        if number >= first:
            yield number, text if len(text) <= MAX_LINE_CHARS else f"{text[:MAX_LINE_CHARS]}…"


DOCUMENT_ERRORS: Final = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError)  # of one without form


@dataclass(frozen=True, slots=True)
class Citation:
    """A place in a customer's file that a finding cites; `line` counts from 1 (a byte where there are no lines)."""

    member: str
    line: int | None
    rule: str
    text: str
    excerpt: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CitedFinding:
    """A finding with the places that it cites, each once."""

    host: str
    rule: str
    title: str
    severity: str
    places: tuple[Citation, ...]


def cited_findings(document: Mapping[str, Any]) -> list[CitedFinding]:
    """Of all hosts, those that cite something; what only describes a host comes last."""
    return [
        CitedFinding(
            host_name(host),
            finding.rule,
            finding.title or finding.mechanism or "",
            finding.severity or "",
            places,
        )
        for host in hosts(document)
        for finding in sorted(host.findings, key=lambda finding: finding.role == "context")
        if (places := tuple(_citations(finding)))
    ]


def _citations(finding: Finding) -> Iterator[Citation]:
    seen = set()
    for evidence in (*finding.evidence, *finding.against):
        place = evidence.member, evidence.line
        if evidence.member and place not in seen:
            seen.add(place)
            text, excerpt = evidence.text or "", tuple(evidence.excerpt)
            yield Citation(evidence.member, evidence.line, finding.rule, text, excerpt)


def cited_members(part: object) -> Iterator[str]:
    """The files that a document or a part of it speaks of: those that were read, and those that anything cites."""
    if isinstance(part, Mapping):
        if isinstance(part.get("member"), str):
            yield part["member"]
        part = list(part.values())
    if isinstance(part, list | tuple):
        for inner in part:
            yield from cited_members(inner)


CONTEXT_LINES: Final = 20  # before and after
MAX_READERS: Final = 2  # children; each may take a core and half a gigabyte
MAX_WAITING: Final = 10  # requests that read or wait for their turn: each holds a thread, of which all pages have 40
WAIT_SECONDS: Final = 20.0  # that a request waits for its turn
NOT_CITED: Final = "The result of this case does not mention this file."
IN_USE: Final = "Other requests are reading bundles. Try again in a moment."
BUNDLE_GONE: Final = "The bundle has expired. This is the excerpt in the result."
_READERS: Final = BoundedSemaphore(MAX_READERS)
_WAITING: Final = BoundedSemaphore(MAX_WAITING)


@dataclass(frozen=True, slots=True)
class CitedPlace:
    """What several findings say of one place in the same words."""

    rules: tuple[str, ...]
    text: str
    excerpt: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LinesWindow:
    """What of a file is shown; `reason` says why there are no lines. Queries are empty where there is nothing more."""

    member: str
    line: int
    text: MemberLines
    cites: Mapping[int | None, list[CitedPlace]]
    earlier: str = ""
    later: str = ""

    @property
    def citations_here(self) -> list[CitedPlace]:
        """What is cited at this line, or of the file as a whole."""
        return [cited for at in (self.line, None) for cited in self.cites.get(at, ())]


def lines_page(request: Request, server: Server) -> Response:
    storage = server.storage
    case, document = read_case(request, server)
    member, number = request.query_params.get("member", ""), request.query_params.get("line", "")
    line = max(int(number), 1) if number.isascii() and number.isdigit() and len(number) <= 12 else 1
    if not member or member not in cited_members(document):
        raise not_found(NOT_CITED)
    earlier = later = ""
    parts = storage.bundles.parts(case.sha256)
    if all(storage.content.has(sha256) for sha256 in (case.sha256, *(one.sha256 for one in parts))):
        with _turn_to_read() as ours, TemporaryDirectory(prefix="thpdiag-lines-") as folder:
            if not ours:
                raise PageError(503, IN_USE)
            first, last = max(line - CONTEXT_LINES, 1), line + CONTEXT_LINES
            contents = {one.name: storage.content.path(one.sha256) for one in parts}
            named = link_files(contents, Path(folder)) or (storage.content.path(case.sha256),)
            text = read_member_lines(named, member, first, last)
        server.record_action(request, Action.DOWNLOAD, case.id)
        if line > CONTEXT_LINES + 1:
            earlier = urlencode({"member": member, "line": max(line - 2 * CONTEXT_LINES - 1, 1)})
        if not text.ends and not text.reason:
            later = urlencode({"member": member, "line": line + 2 * CONTEXT_LINES + 1})
    else:
        text = MemberLines(reason=BUNDLE_GONE)
    window = LinesWindow(member, line, text, _cited_places(document, member), earlier, later)
    return render_page(request, server, "lines.html", title="Lines of a file", case=case, window=window)


@contextmanager
def _turn_to_read() -> Iterator[bool]:
    """Whether it is this request's turn, after a while at most; at once not if many wait already."""
    with ExitStack() as undo:
        for bound, seconds in ((_WAITING, 0.0), (_READERS, WAIT_SECONDS)):
            if not bound.acquire(timeout=seconds):
                yield False
                return
            undo.callback(bound.release)
        yield True


def _cited_places(document: Mapping[str, Any], member: str) -> dict[int | None, list[CitedPlace]]:
    """What findings cite of a file, by line."""
    alike: dict[tuple[int | None, str], list[Citation]] = {}
    try:
        for finding in cited_findings(document):
            for place in finding.places:
                if place.member == member:
                    alike.setdefault((place.line, place.text), []).append(place)
    except DOCUMENT_ERRORS:
        return {}
    by_line: dict[int | None, list[CitedPlace]] = {}
    for (line, text), places in alike.items():
        rules = tuple(dict.fromkeys(place.rule for place in places))
        by_line.setdefault(line, []).append(CitedPlace(rules, text, places[0].excerpt))
    return by_line
