"""The list of a web server: the links of its page and, folder by folder, of the pages below it.

A link counts if it leads to what lies below its page, however it is written; one that sorts the list (`?C=M`) or leads
up, to another server or to a hidden name is passed over. It is loaded for such lists alone, for it takes a while.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections import deque
from collections.abc import AsyncGenerator, Callable
from html.parser import HTMLParser
from string import punctuation
from typing import Any, Final
from urllib.parse import quote, unquote, urljoin, urlsplit

from aiohttp import ClientConnectionError

from thpdiag.triage.worklist.folder import DEEPEST
from thpdiag.triage.worklist.on_the_way import told
from thpdiag.triage.worklist.page import Found, Page
from thpdiag.triage.worklist.unread import UnreadError

_PAGES: Final = 10_000  # of one list
_LONGEST: Final = 32 << 20  # bytes of a page
_PATIENCE: Final = 600.0  # seconds for a page
_CHUNK: Final = 1 << 16
_HTML: Final = frozenset(("", "text/html", "application/xhtml+xml"))
_PACKED: Final = frozenset(("gzip", "x-gzip", "deflate"))
_DROPPED: Final = re.compile(r"[\t\r\n]")  # of a link, as browsers do


async def web_pages(system: Any, address: str, enters: Callable[[str], bool]) -> AsyncGenerator[Page, None]:
    """The files that each page has; each page below once, in order, if `enters` wants what lies at its path.

    A folder whose page cannot be had is told by itself; a list that is too long ends in UnreadError, and so does one
    whose server is gone.
    """
    way = _Way(address.rpartition("/")[0] + "/", enters)
    while way.waiting:
        at = way.waiting.popleft()
        try:
            links = await _links(system, at)
        except UnreadError as error:
            if at == way.top or isinstance(error.__cause__, (OSError, ClientConnectionError)):
                raise
            yield [Found(at, refused=str(error))]
            continue
        yield [Found(at + link) for link in links if not link.endswith("/")]
        yield way.found([at + link for link in links if link.endswith("/")])
    if way.more:
        raise UnreadError(f"has a list of more than {_PAGES} pages; what the others name is not known")


class _Way:
    """The pages of a list that are still to be asked for."""

    def __init__(self, top: str, enters: Callable[[str], bool]) -> None:
        self.top = top
        self.waiting = deque([top])
        self.more = False
        self._seen = {top}
        self._enters = enters

    def found(self, folders: list[str]) -> Page:
        """Takes note of those that are wanted; what is too deep comes back."""
        refused = []
        for folder in folders:
            path = folder.removeprefix(self.top)
            if folder in self._seen or not self._enters(path):
                continue
            if path.count("/") > DEEPEST:
                refused.append(Found(folder, refused=f"lies in more than {DEEPEST} folders and was not looked into"))
            elif len(self._seen) < _PAGES:
                self._seen.add(folder)
                self.waiting.append(folder)
            else:
                self.more = True
        return refused


async def _links(system: Any, at: str) -> list[str]:
    """The paths below a page that it has links to, sorted.

    Lists are asked for unpacked; some servers pack them all the same.
    """
    with told():
        session = await system.set_session()
        headers = {**system.kwargs.get("headers", {}), "Accept-Encoding": "identity"}
        system.encoded = "%" in at
        asked = session.get(system.encode_url(at), **{**system.kwargs, "headers": headers})
        async with asyncio.timeout(_PATIENCE), asked as answer:
            answer.raise_for_status()
            if answer.headers.get("Content-Type", "").partition(";")[0].strip().lower() not in _HTML:
                raise UnreadError("cannot be listed: it is no page of links")
            content = await _content(answer)
            return sorted(links(content.decode(_charset(answer), "replace"), str(answer.url)))


async def _content(answer: Any) -> bytes:
    content = bytearray()
    async for chunk in answer.content.iter_chunked(_CHUNK):
        content += chunk
        if len(content) > _LONGEST:
            raise _too_long()
    packing = answer.headers.get("Content-Encoding", "identity").strip().lower()
    if packing in _PACKED:
        return _unpacked(bytes(content))
    if packing != "identity":
        raise UnreadError("cannot be listed: its page is packed in a way that was not asked for")
    return bytes(content)


def _unpacked(content: bytes) -> bytes:
    try:
        unpacked = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(content, _LONGEST + 1)
    except zlib.error as error:
        raise UnreadError("cannot be listed: its page is packed and damaged") from error
    if len(unpacked) > _LONGEST:
        raise _too_long()
    return unpacked


def _too_long() -> UnreadError:
    return UnreadError(f"cannot be listed: its page has more than {_LONGEST} bytes")


def _charset(answer: Any) -> str:
    """As the server says, if it says what there is."""
    try:
        "".encode(answer.charset or "utf-8")
    except LookupError:
        return "utf-8"
    return answer.charset or "utf-8"


def links(html: str, page: str) -> set[str]:
    """The paths below a page that it has links to, those of folders with `/` at the end; `page` is its address."""
    parser = _Links()
    try:
        parser.feed(html)
    except (AssertionError, ValueError) as error:  # as the parser says that it gives up
        raise UnreadError("cannot be listed: its page is damaged") from error
    return {below for link in parser.found if (below := _below(link, page))}


class _Links(HTMLParser):
    """Where the links of a page lead, as it has them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def _below(link: str, page: str) -> str:
    """The path below the page's folder that a link leads to, ready to be asked for; empty if it leads elsewhere."""
    link = _DROPPED.sub("", link).strip()
    try:
        at, to = urlsplit(page), urlsplit(urljoin(page, quote(link, safe=punctuation)))
    except ValueError:  # no address
        return ""
    above = at.path.split("/")[:-1]
    parts = to.path.split("/")
    same = to.scheme in {"http", "https"} and _server(to.netloc) == _server(at.netloc)
    if link.startswith("#") or not same or to.query or _plain(parts[: len(above)]) != _plain(above):
        return ""
    below = "/".join(parts[len(above) :])
    names = "/" + unquote(below).replace("\\", "/")
    return "" if names == "/" or "/." in names or "//" in names else below


def _server(name: str) -> str:
    return name.rpartition("@")[2].lower()


def _plain(parts: list[str]) -> list[str]:
    """Without the ways of writing a character."""
    return [unquote(part) for part in parts]
