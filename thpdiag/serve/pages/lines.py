"""Lines of a customer's file around a cited line, read from the stored bundle by a sandboxed child.

Only files that the result mentions are shown, to protect other data of the customer. The child returns data, never
HTML. The bundle is read from its start up to the requested lines; nothing is cached.
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
from thpdiag.serve.pages.render import PageError, not_found, parse_number, read_case, render_page
from thpdiag.serve.server import Server
from thpdiag.serve.work_order import link_files

MAX_LINES: Final = 200  # per request
MAX_LINE_CHARS: Final = 2_000
CHILD_LIMITS: Final = Limits(cpu_seconds=30, wall_seconds=60.0, memory=512 * MIB, file_size=0, files=64, answer=4 * MIB)
READ_LIMITS: Final = Bounds(cpu_seconds=20.0, wall_seconds=40.0, line=16 * 1024)
NO_TEXT: Final = "binary file; no lines to show"
NOT_THERE: Final = "no file of this name was found in the bundle"
FILE_ENDED: Final = "the file ends before this line"
UNREADABLE: Final = "the bundle could not be read up to this line: {}"


@dataclass(frozen=True, slots=True)
class MemberLines:
    """Lines with their numbers from 1, or the reason why there are none; `ends`: the file has no further ones."""

    lines: tuple[tuple[int, str], ...] = ()
    ends: bool = False
    reason: str = ""


def read_member_lines(bundles: Sequence[Path], member: str, first: int, last: int) -> MemberLines:
    """Read the lines `first` to `last` of a member, at most MAX_LINES, in a child process."""
    call = partial(read_in_child, bundles, member, first, min(last, first + MAX_LINES - 1))
    outcome = run_in_child_of_worker(call, CHILD_LIMITS, Allowed(read=tuple(bundles)))
    if outcome.status is not Status.OK:
        return MemberLines(reason=UNREADABLE.format(outcome.name))
    result = json.loads(outcome.content)
    return MemberLines(tuple((number, text) for number, text in result["lines"]), result["ends"], result["reason"])


def read_in_child(bundles: Sequence[Path], member: str, first: int, last: int) -> Answer:
    """The function of the child; the answer is JSON."""
    lines: list[tuple[int, str]] = []
    ends, reason = False, NOT_THERE
    path_in_bundle = member.partition("/")[2] if len(bundles) > 1 else member  # a set prefixes the name of the file
    for item in members(bundles, lambda path: path == path_in_bundle, READ_LIMITS):
        if isinstance(item, Problem):
            reason = UNREADABLE.format(item.text) if item.hides else reason
        elif _is_named(item, member, bundles):
            lines, ends, reason = _lines(item, first, last)
            break
    return Answer(json.dumps({"lines": lines, "ends": ends, "reason": reason}).encode())


def _is_named(member: Member, name: str, bundles: Sequence[Path]) -> bool:
    """Whether a member has a name. The only member of a plain file has its stored name instead of the uploaded one."""
    is_plain_file = len(bundles) == 1 and member.path == bundles[0].name
    return is_plain_file or member.path == name or name in member.aliases


def _lines(member: Member, first: int, last: int) -> tuple[list[tuple[int, str]], bool, str]:
    head = member.head(4096)
    if b"\0" in head and not utf16_of(head):
        return [], False, NO_TEXT
    rows = list(islice(_slice_lines(member.lines(), first, last), MAX_LINES + 1))
    shown = [(number, text) for number, text in rows if number <= last][:MAX_LINES]
    if shown:
        return shown, len(shown) == len(rows), ""
    return [], False, UNREADABLE.format(member.problems[-1].text) if member.problems else FILE_ENDED


def _slice_lines(lines: Iterator[tuple[int, str]], first: int, last: int) -> Iterator[tuple[int, str]]:
    """Yield the lines `first` to `last` and one more, which shows that the file does not end there."""
    for number, text in lines:
        if number > last + 1:
            return
        if number >= first:
            yield number, text if len(text) <= MAX_LINE_CHARS else f"{text[:MAX_LINE_CHARS]}…"


DOCUMENT_ERRORS: Final = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError)  # of a malformed result


@dataclass(frozen=True, slots=True)
class Citation:
    """A citation of a finding; `line` counts from 1 (a byte offset in binary files)."""

    member: str
    line: int | None
    rule: str
    text: str
    excerpt: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CitedFinding:
    """A finding with its distinct citations."""

    host: str
    rule: str
    title: str
    severity: str
    places: tuple[Citation, ...]


def cited_findings(document: Mapping[str, Any]) -> list[CitedFinding]:
    """Return the findings of all hosts that have citations; those with the role context come last."""
    return [
        CitedFinding(host_name(host), row.rule, row.title or row.mechanism or "", row.severity or "", places)
        for host in hosts(document)
        for row in sorted(host.findings, key=lambda row: row.role == "context")
        if (places := tuple(_citations(row)))
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
    """Yield the members that a document or a part of it mentions: inputs and citations."""
    if isinstance(part, Mapping):
        if isinstance(part.get("member"), str):
            yield part["member"]
        part = list(part.values())
    if isinstance(part, list | tuple):
        for inner in part:
            yield from cited_members(inner)


CONTEXT_LINES: Final = 20  # before and after
MAX_READERS: Final = 2  # child processes; each may use a core and 512 MiB
MAX_WAITING: Final = 10  # requests that read or wait; each occupies a thread, of which all pages share 40
WAIT_SECONDS: Final = 20.0  # maximum wait of a request
NOT_CITED: Final = "The result of this case does not mention this file."
IN_USE: Final = "Other requests are reading bundles. Try again in a moment."
BUNDLE_GONE: Final = "The bundle has expired. This is the excerpt in the result."
_READERS: Final = BoundedSemaphore(MAX_READERS)
_WAITING: Final = BoundedSemaphore(MAX_WAITING)


@dataclass(frozen=True, slots=True)
class CitedPlace:
    """A cited place, with the rules that cite it with the same text."""

    rules: tuple[str, ...]
    text: str
    excerpt: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LinesWindow:
    """The shown part of a file. `earlier` and `later` are queries of the adjacent parts, empty without one."""

    member: str
    line: int
    text: MemberLines
    cites: Mapping[int | None, list[CitedPlace]]
    earlier: str = ""
    later: str = ""

    @property
    def citations_here(self) -> list[CitedPlace]:
        """The citations of this line and of the file as a whole."""
        return [cited for line in (self.line, None) for cited in self.cites.get(line, ())]


def lines_page(request: Request, server: Server) -> Response:
    storage = server.storage
    case, document = read_case(request, server)
    member, number = request.query_params.get("member", ""), request.query_params.get("line", "")
    line = parse_number(number, 12) or 1
    if not member or member not in cited_members(document):
        raise not_found(NOT_CITED)
    earlier = later = ""
    parts = storage.bundles.parts(case.sha256)
    if all(storage.content.has(sha256) for sha256 in (case.sha256, *(part.sha256 for part in parts))):
        with _reader_slot() as acquired, TemporaryDirectory(prefix="thpdiag-lines-") as folder:
            if not acquired:
                raise PageError(503, IN_USE)
            first, last = max(line - CONTEXT_LINES, 1), line + CONTEXT_LINES
            contents = {part.name: storage.content.path(part.sha256) for part in parts}
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
def _reader_slot() -> Iterator[bool]:
    """Wait for a reader slot; yield False after WAIT_SECONDS, or at once if too many requests wait already."""
    with ExitStack() as undo:
        for semaphore, seconds in ((_WAITING, 0.0), (_READERS, WAIT_SECONDS)):
            if not semaphore.acquire(timeout=seconds):
                yield False
                return
            undo.callback(semaphore.release)
        yield True


def _cited_places(document: Mapping[str, Any], member: str) -> dict[int | None, list[CitedPlace]]:
    """Return the citations of a file by line."""
    groups: dict[tuple[int | None, str], list[Citation]] = {}
    try:
        for finding in cited_findings(document):
            for place in finding.places:
                if place.member == member:
                    groups.setdefault((place.line, place.text), []).append(place)
    except DOCUMENT_ERRORS:
        return {}
    by_line: dict[int | None, list[CitedPlace]] = {}
    for (line, text), places in groups.items():
        rules = tuple(dict.fromkeys(place.rule for place in places))
        by_line.setdefault(line, []).append(CitedPlace(rules, text, places[0].excerpt))
    return by_line
