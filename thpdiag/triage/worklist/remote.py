"""Bundles that are elsewhere, by fsspec: a listing of names, and a blind copy to a file.

Which server, which account and which proxy is the user's own configuration: that of the protocol (AWS_PROFILE,
AWS_ENDPOINT_URL, HTTPS_PROXY, .netrc ...) and fsspec's (FSSPEC_S3_ANON=true ...). Each call has an event loop of its
own and leaves no thread behind, for the process that calls forks.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from thpdiag.errors import UsageError
from thpdiag.triage.worklist.on_the_way import told
from thpdiag.triage.worklist.page import Found, Page
from thpdiag.triage.worklist.unread import UnreadError

_WEB: Final = frozenset(("http", "https"))
_S3: Final = frozenset(("s3", "s3a"))
_HERE: Final = frozenset(("file", "local"))
VERSION: Final = "?versionId="  # of an object of S3
_CHAIN: Final = re.compile(r"::\w{1,20}://")  # of fsspec: a file in an archive at another address
_CONNECT, _SILENT, _WHOLE = 30.0, 60.0, 3600.0  # seconds: to connect, without a byte, for one bundle
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Remote:
    """A kind of address, with what fsspec has for it."""

    scheme: str
    kind: type[Any]

    @classmethod
    def of(cls, address: str) -> Remote:
        """Raises UsageError if it needs what is not installed, is of a kind that fsspec has not, or lies here."""
        scheme = address.partition("://")[0].lower()
        if scheme in _HERE or _CHAIN.search(address):
            raise UsageError("of files of this machine name the path, and of addresses only the file itself")
        try:
            from fsspec import get_filesystem_class
        except ImportError as error:
            raise UsageError(f"{scheme}:// needs an extra: pip install 'thpdiag[remote]'") from error
        try:
            kind = get_filesystem_class(scheme)
        except ImportError as error:
            if scheme in _WEB | _S3:
                raise UsageError(f"{scheme}:// needs an extra: pip install 'thpdiag[remote]'") from error
            raise UsageError(f"{scheme}:// needs more than the extra 'thpdiag[remote]': {error}") from error
        except ValueError as error:
            raise UsageError(f"{scheme}:// is no kind of address that fsspec knows") from error
        if not getattr(kind, "async_impl", False):
            raise UsageError(f"{scheme}:// is a kind of address that is not read; copy the bundles here first")
        return cls(scheme, kind)

    def check(self, address: str) -> None:
        """Raises UnreadError if no server or bucket can be called as the one of an address."""
        if self.scheme in _S3 and not address.partition("://")[2].partition("/")[0]:
            raise UnreadError("names no bucket")
        if self.scheme in _WEB and not _server(address):
            raise UnreadError("names no server")

    def copied(self, address: str, place: Path, most: int) -> None:
        """The bytes of an object as a file; raises UnreadError, and UnreadError too if there are more than `most`."""
        size = _Size(most)
        with told():
            asyncio.run(self._copied(address, place, size))
        if size.expected is not None and place.stat().st_size != size.expected:
            raise UnreadError(f"cannot be fetched: only {place.stat().st_size} of {size.expected} bytes came")

    async def _copied(self, address: str, place: Path, size: _Size) -> None:
        more = {"max_concurrency": 1} if self.scheme in _S3 else {"chunk_size": _CHUNK} if self.scheme in _WEB else {}
        async with asyncio.timeout(_WHOLE), self._opened(address) as system:
            await system._get_file(system._strip_protocol(address), str(place), callback=size, **more)

    def listed(self, address: str, enters: Callable[[str], bool]) -> Iterator[Found]:
        """All that lies below a prefix, as it comes; raises UnreadError.

        `enters` is asked of kinds with folders whether one is wanted, by its path below that of the prefix, with `/`.
        """
        with asyncio.Runner() as runner:
            found = self._pages(address, enters)
            try:
                while True:
                    with told():
                        page = runner.run(_next(found))
                    if page is None:
                        return
                    yield from page
            finally:
                runner.run(_closed(found))

    async def _pages(self, address: str, enters: Callable[[str], bool]) -> AsyncGenerator[Page, None]:
        async with self._opened(address) as system:
            async for page in self._asked(system, address, enters):
                yield page

    def _asked(self, system: Any, address: str, enters: Callable[[str], bool]) -> AsyncGenerator[Page, None]:
        if self.scheme in _WEB:
            from thpdiag.triage.worklist.web import web_pages

            return web_pages(system, address, enters)
        return _s3_pages(system, address) if self.scheme in _S3 else _all_at_once(system, address)

    @asynccontextmanager
    async def _opened(self, address: str) -> AsyncIterator[Any]:
        system = self.kind(asynchronous=True, skip_instance_cache=True, **self._options(address))
        session = await system.set_session() if hasattr(system, "set_session") else None
        try:
            yield system
        finally:
            if session is not None:
                await session.close()

    def _options(self, address: str) -> dict[str, Any]:
        if self.scheme in _S3:
            return {"session": _session(), "version_aware": VERSION in address}
        if self.scheme not in _WEB:
            return {}
        from aiohttp import ClientTimeout

        limits = ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_SILENT)
        client = {"timeout": limits, "trust_env": True, "auto_decompress": False}
        return {"client_kwargs": client, "encoded": "%" in address or "?" in address}


def _session() -> Any:
    """A session of botocore with what it read of its own tables before, which is most of what one costs."""
    from aiobotocore.session import AioSession

    session = AioSession()
    session.register_component("data_loader", _tables())
    return session


@cache
def _tables() -> Any:
    from botocore.loaders import create_loader

    return create_loader()


class _Size:
    """Told by fsspec how far a transfer is (its `Callback`); ends one that is or would be too long.

    Only when bytes come: before that s3fs does not close what it has opened.
    """

    def __init__(self, most: int) -> None:
        self.expected: int | None = None
        self._most = most
        self._came = 0

    def set_size(self, size: int | None) -> None:
        self.expected = size

    def relative_update(self, inc: int = 1) -> None:
        self.absolute_update(self._came + inc)

    def absolute_update(self, value: int) -> None:
        self._came = value
        if max(self.expected or 0, value) > self._most:
            raise UnreadError(f"is larger than {self._most} bytes, the most that is fetched")


async def _next(pages: AsyncGenerator[Page, None]) -> Page | None:
    return await anext(pages, None)


async def _closed(pages: AsyncGenerator[Page, None]) -> None:
    await pages.aclose()


async def _s3_pages(system: Any, address: str) -> AsyncGenerator[Page, None]:
    """All keys that begin with the prefix, in the order of their bytes, without folders: one request per 1,000."""
    scheme = address.partition("://")[0]
    bucket, _, prefix = address.partition("://")[2].partition("/")
    more: dict[str, str] = {}
    while True:
        page = await system._call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, **more)
        yield [Found(f"{scheme}://{bucket}/{one['Key']}", int(one["Size"])) for one in page.get("Contents", ())]
        if not page.get("IsTruncated"):
            return
        if "NextContinuationToken" not in page:
            raise UnreadError("cannot be fetched: the server does not say how its list goes on")
        more = {"ContinuationToken": page["NextContinuationToken"]}


async def _all_at_once(system: Any, address: str) -> AsyncGenerator[Page, None]:
    """As fsspec finds them."""
    scheme = address.partition("://")[0]
    found = await system._find(system._strip_protocol(address.rpartition("/")[0]), detail=True)
    yield [Found(f"{scheme}://{name}", int(one.get("size") or 0)) for name, one in sorted(found.items())]


def _server(address: str) -> str | None:
    try:
        parts = urlsplit(address)
        server, port = parts.hostname, parts.port
    except ValueError as error:
        raise UnreadError("is no address: no server can be called so") from error
    return server if port is None or port else None


def path_of(address: str) -> str:
    """What of an address is its path, however odd it is; keys of object stores may have any character."""
    scheme, _, rest = address.partition("://")
    if scheme.lower() in _WEB:
        rest = rest.partition("?")[0].partition("#")[0]
    return rest.partition(VERSION)[0].partition("/")[2]
