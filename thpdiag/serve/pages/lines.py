"""Lines of a customer's file, around one that a finding cites: read from the stored bundle by a guarded child.

Only files that the result speaks of are shown: what else a customer sent is nobody's business here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from thpdiag.serve.access.audit import Action
from thpdiag.serve.pages import cited
from thpdiag.serve.pages.answering import endpoint, failed, note
from thpdiag.serve.pages.case import MISTAKES, NO_CASE
from thpdiag.serve.pages.shown import missing, shown
from thpdiag.serve.quoted import Quoted, quoted
from thpdiag.serve.server import Server
from thpdiag.serve.storage.cases import Case

PATH: Final = "/cases/{id}/lines"
AROUND: Final = 20  # lines before and after
AT_ONCE: Final = 2  # children; each may take a core and half a gigabyte
PATIENCE: Final = 20.0  # seconds that a request waits for its turn
NOT_CITED: Final = "The result of this case does not speak of such a file."
IN_USE: Final = "Others are reading bundles. Try again in a moment."
GONE: Final = "The bundle is no longer stored: its time was over. This is what the result has kept of the place."
PLACES: Final = 10  # requests that read or wait for their turn: each holds a thread, of which all pages have 40
_TURNS: Final = BoundedSemaphore(AT_ONCE)
_PLACES: Final = BoundedSemaphore(PLACES)


@dataclass(frozen=True, slots=True)
class Cite:
    """What several findings say of one place in the same words."""

    rules: tuple[str, ...]
    text: str
    excerpt: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """What of a file is shown; `reason` says why there are no lines. Queries are empty where there is nothing more."""

    member: str
    line: int
    text: Quoted
    cites: Mapping[int | None, list[Cite]]
    earlier: str = ""
    later: str = ""

    @property
    def here(self) -> list[Cite]:
        """What is cited at this line, or of the file as a whole."""
        return [one for at in (self.line, None) for one in self.cites.get(at, ())]


def routes(server: Server) -> list[BaseRoute]:
    return [Route(PATH, endpoint(server, lines))]


def lines(request: Request, server: Server) -> Response:
    case = server.storage.cases.found(request.path_params["id"])
    document = server.storage.cases.document(request.path_params["id"])
    if case is None or document is None:
        return missing(request, server, NO_CASE)
    member, line = request.query_params.get("member", ""), _line(request.query_params.get("line", ""))
    if not member or member not in cited.members(document):
        return missing(request, server, NOT_CITED)
    if not server.storage.content.has(case.sha256):
        return _page(request, server, case, Window(member, line, Quoted(reason=GONE), _cites(document, member)))
    with _turn() as ours:
        if not ours:
            return failed(request, server, 503, IN_USE)
        text = quoted(server.storage.content.path(case.sha256), member, max(line - AROUND, 1), line + AROUND)
    note(request, server, Action.DOWNLOAD, case.id)
    earlier = _query(member, max(line - 2 * AROUND - 1, 1)) if line > AROUND + 1 else ""
    later = "" if text.ends or text.reason else _query(member, line + 2 * AROUND + 1)
    return _page(request, server, case, Window(member, line, text, _cites(document, member), earlier, later))


@contextmanager
def _turn() -> Iterator[bool]:
    """Whether it is this request's turn to read, after a while at most; at once not if many wait already."""
    with ExitStack() as undo:
        ours = True
        for bound, seconds in ((_PLACES, 0.0), (_TURNS, PATIENCE)):
            if not (ours := bound.acquire(timeout=seconds)):
                break
            undo.callback(bound.release)
        yield ours


def _page(request: Request, server: Server, case: Case, window: Window) -> Response:
    return shown(request, server, "lines.html", title="Lines of a file", case=case, window=window)


def _cites(document: Mapping[str, Any], member: str) -> dict[int | None, list[Cite]]:
    """What findings cite of a file, by line."""
    found: dict[tuple[int | None, str], list[cited.Cited]] = {}
    try:
        places = [one for finding in cited.findings(document) for one in finding.places if one.member == member]
    except MISTAKES:
        return {}
    for one in places:
        found.setdefault((one.line, one.text), []).append(one)
    by_line: dict[int | None, list[Cite]] = {}
    for (line, text), alike in found.items():
        rules = tuple(dict.fromkeys(one.rule for one in alike))
        by_line.setdefault(line, []).append(Cite(rules, text, alike[0].excerpt))
    return by_line


def _line(text: str) -> int:
    """A number of a line; the first one for what is none."""
    return max(int(text), 1) if text.isascii() and text.isdigit() and len(text) <= 12 else 1


def _query(member: str, line: int) -> str:
    return urlencode({"member": member, "line": line})
