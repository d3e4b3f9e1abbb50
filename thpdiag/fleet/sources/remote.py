"""Bundles at addresses: `s3://`, `gs://`, `https://` and what else fsspec has (extra `remote`).

An address is one bundle. One that ends in `/`, or has `*` in it (of s3 and the like `?` and `[...]` too), is all that
lies there: every object is a bundle by itself, in the order of names, for an object store has no folders. As in a
folder of this machine, checksums and signatures of an archive are passed over, and so are hidden names; a bundle that
was unpacked before it was stored is not put together again. An object that is called exactly as a pattern is found by
it too, and `[[]` stands for `[` alone; `?versionId=` behind a key of S3 names one version.

Of a web server the links of its page are listed, and those of pages below it. A link counts if it leads to what lies
below its page, however it is written; one that sorts the list (`?C=M`) or leads up, to another server or to a hidden
name is passed over.

Which server, which account and which proxy is the user's own configuration: that of the protocol (AWS_PROFILE,
AWS_ENDPOINT_URL, HTTPS_PROXY, .netrc ...) and fsspec's (FSSPEC_S3_ANON=true ...). Each call has an event loop of its
own and leaves no thread behind, for the process that calls forks. What goes wrong is said in words of ours: those of
libraries hold whole addresses with their keys.
"""

from __future__ import annotations

import asyncio
import errno
import re
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from itertools import chain
from pathlib import Path
from string import punctuation
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

from thpdiag.bundle.tree import printable
from thpdiag.errors import UsageError
from thpdiag.fleet.sources.item import (
    MAX_FOLDER_DEPTH,
    TOO_DEEP,
    BundleItem,
    UnreadError,
    is_checksum,
    is_for_readers,
    is_list_of_checksums,
    is_of_recording,
    safe_name,
)
from thpdiag.fleet.sources.local import Pattern
from thpdiag.store.results import public_path

_WEB_SCHEMES: Final = frozenset(("http", "https"))
_S3_SCHEMES: Final = frozenset(("s3", "s3a"))
_LOCAL_SCHEMES: Final = frozenset(("file", "local"))
_VERSION_QUERY: Final = "?versionId="  # of an object of S3
_CHAIN: Final = re.compile(r"::\w{1,20}://")  # of fsspec: a file in an archive at another address
_STAR, _WILDCARD = re.compile(r"\*"), re.compile(r"[*?\[]")
_CONNECT_S, _SILENCE_S, _COPY_S, _PAGE_S = 30.0, 60.0, 3600.0, 600.0  # to connect, without a byte, for a bundle, a page
_COPY_CHUNK_BYTES: Final = 1 << 20
_MAX_PAGES: Final = 10_000  # of one list
_MAX_PAGE_BYTES: Final = 32 << 20
_HTML: Final = frozenset(("", "text/html", "application/xhtml+xml"))
_DROPPED: Final = re.compile(r"[\t\r\n]")  # of a link, as browsers do


def is_address(name: str) -> bool:
    """Whether a name is an address (`s3://bucket/key`) and no path."""
    scheme, there, _ = name.partition("://")
    return bool(there) and scheme.replace("+", "").replace(".", "").replace("-", "").isalnum()


def items_of_address(address: str, label: str) -> Iterator[BundleItem]:
    """The bundles of an address; raises UsageError if its kind cannot be read, UnreadError if a list is empty or fails.

    One bundle is not asked for before its turn; its size is not known before.
    """
    remote = Remote.parse(address)
    address, first = remote.address, remote.first_wildcard()
    if not address.endswith("/") and first is None:
        if not remote.path and remote.scheme not in _WEB_SCHEMES:  # of a web server even its name alone may be a file
            raise UnreadError("names no object; with / at its end it is all that lies there")
        return iter([BundleItem(address, label)])
    items = _items_of_list(remote, first, label)
    begun = next(items, None)
    if begun is None:
        raise UnreadError("holds no bundle" if first is None else "is a pattern that matches nothing")
    if begun.refused and begun.place == address:
        raise UnreadError(begun.refused)
    return chain([begun], items)


def _items_of_list(remote: Remote, first_wildcard: int | None, label: str) -> Iterator[BundleItem]:
    """What is listed and is a bundle, or a folder that cannot be listed; one that breaks off ends in such an item."""
    address = remote.address
    prefix = address[:first_wildcard]
    base = prefix.rpartition("/")[0] + "/"
    pattern = None if first_wildcard is None else Pattern(Path(), tuple(address[len(base) :].split("/")))
    root = label if pattern is None else public_path(base).rstrip("/")
    before: list[str] = []  # what belongs to a file begins with its name and comes behind it
    try:
        for file, size, refused in remote.files(
            prefix, lambda folder: pattern is None or pattern.reaches(folder.rstrip("/").split("/"))
        ):
            below = file.removeprefix(base)
            if refused:
                yield BundleItem(file, f"{root}/{printable(below.rstrip('/'))}", refused=refused)
                continue
            name = below.rpartition("/")[2]
            beside = is_list_of_checksums(name) or is_for_readers(name)
            if not name or beside or "/." in f"/{below}" or _belongs_to_earlier(below, before):
                continue
            if pattern is None or file == address or pattern.fits(below.split("/")):
                yield BundleItem(file, f"{root}/{printable(below)}", size)
    except UnreadError as error:
        yield BundleItem(address, f"{root}/(what is lost)", refused=str(error))


def _belongs_to_earlier(name: str, before: list[str]) -> bool:
    """Whether a name belongs to one of those before it; of these only those stay that it begins with.

    All names that begin with another come behind it without a gap, for they come in the order of their letters.
    """
    while before and not name.startswith(before[-1]):
        before.pop()
    belongs = is_checksum(name, before) or is_of_recording(name, before)
    before.append(name)
    return belongs


def fetch(address: str, folder: Path, most: int) -> Path:
    """A copy of an object in a folder, of at most `most` bytes, under what is harmless of its name.

    Raises UnreadError; nothing is left then.
    """
    try:
        remote = Remote.parse(address)
        place = folder / (safe_name(unquote(remote.path).rstrip("/").rpartition("/")[2]) or "bundle")
        try:
            remote.copy(place, most)
        except UnreadError:
            place.unlink(missing_ok=True)
            raise
    except UsageError as error:
        raise UnreadError(str(error)) from error
    return place


class ListedFile(NamedTuple):
    """An address and its size, 0 if it is not known; `refused` says why a folder there was not listed."""

    address: str
    size: int = 0
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Remote:
    """An address with what fsspec has for its kind, `scheme` in small letters."""

    address: str
    scheme: str
    filesystem: type[Any]

    @classmethod
    def parse(cls, address: str) -> Remote:
        """Raises UsageError if it needs what is not installed, is of a kind that fsspec has not, or lies here.

        Raises UnreadError if no server or bucket can be called so.
        """
        scheme, mark, rest = address.partition("://")
        scheme = scheme.lower()
        if scheme in _LOCAL_SCHEMES or _CHAIN.search(address):
            raise UsageError("of files of this machine name the path, and of addresses only the file itself")
        remote = cls(scheme + mark + rest, scheme, _filesystem_class(scheme))
        if scheme in _S3_SCHEMES and not rest.partition("/")[0]:
            raise UnreadError(f"names no bucket; {_CHECK}")
        if scheme in _WEB_SCHEMES:
            try:
                server, port = urlsplit(address).hostname, urlsplit(address).port
            except ValueError as error:
                raise UnreadError(f"is not a valid address: invalid server name; {_CHECK}") from error
            if not server or port == 0:
                raise UnreadError(f"names no server; {_CHECK}")
        return remote

    @property
    def path(self) -> str:
        """The path, however odd it is; keys of object stores may have any character."""
        rest = self.address.partition("://")[2]
        if self.scheme in _WEB_SCHEMES:
            rest = rest.partition("?")[0].partition("#")[0]
        return rest.partition(_VERSION_QUERY)[0].partition("/")[2]

    def first_wildcard(self) -> int | None:
        """Where the first character stands that stands for others; of the web `?` begins what is asked."""
        magic, asked = (_STAR, "?") if self.scheme in _WEB_SCHEMES else (_WILDCARD, _VERSION_QUERY)
        begin = self.address.index("://") + 3
        found = magic.search(self.address.partition(asked)[0], begin)
        if found and "/" not in self.address[begin : found.start()]:
            raise UnreadError("is a pattern of servers or buckets; name one of them")
        return found.start() if found else None

    def copy(self, place: Path, most: int) -> None:
        """The bytes of an object as a file; raises UnreadError, also if there are more than `most`."""
        from fsspec.callbacks import Callback

        def check(size: int | None, came: int, **_more: object) -> None:
            """Only when bytes come: before that s3fs does not close what it has opened."""
            if came and max(size or 0, came) > most:
                raise UnreadError(f"is larger than {most} bytes, the most that is fetched")

        progress = Callback(hooks={"check": check})
        with _transfer_errors():
            asyncio.run(self._copy(place, progress))
        if progress.size is not None and place.stat().st_size != progress.size:
            raise UnreadError(f"cannot be fetched: only {place.stat().st_size} of {progress.size} bytes came; {_AGAIN}")

    async def _copy(self, place: Path, progress: Any) -> None:
        options: dict[str, int] = {}
        if self.scheme in _S3_SCHEMES:
            options = {"max_concurrency": 1}
        elif self.scheme in _WEB_SCHEMES:
            options = {"chunk_size": _COPY_CHUNK_BYTES}
        async with asyncio.timeout(_COPY_S), self._open(unpacked=False) as system:
            await system._get_file(system._strip_protocol(self.address), str(place), callback=progress, **options)

    def files(self, prefix: str, enters: Callable[[str], bool]) -> Iterator[ListedFile]:
        """All that lies below a prefix, as it comes; raises UnreadError.

        `enters` is asked of kinds with folders whether one is wanted, by its path below that of the prefix, with `/`.
        """
        with asyncio.Runner() as runner:
            files = self._files(prefix, enters)

            async def next_file() -> ListedFile | None:
                return await anext(files, None)

            while True:
                with _transfer_errors():
                    file = runner.run(next_file())
                if file is None:
                    return
                yield file

    async def _files(self, prefix: str, enters: Callable[[str], bool]) -> AsyncIterator[ListedFile]:
        async with self._open(unpacked=True) as system:
            if self.scheme in _WEB_SCHEMES:
                async for file in _files_of_pages(system, prefix.rpartition("/")[0] + "/", enters):
                    yield file
            elif self.scheme in _S3_SCHEMES:  # keys in the order of their bytes, without folders, 1,000 a request
                bucket, _, key = prefix.partition("://")[2].partition("/")
                async for found in system._iterdir(bucket, delimiter="", prefix=key):
                    yield ListedFile(f"{self.scheme}://{found['name']}", int(found["size"]))
            else:
                listed = await system._find(system._strip_protocol(prefix.rpartition("/")[0]), detail=True)
                for name, found in sorted(listed.items()):
                    yield ListedFile(f"{self.scheme}://{name}", int(found.get("size") or 0))

    @asynccontextmanager
    async def _open(self, *, unpacked: bool) -> AsyncIterator[Any]:
        """fsspec's view of the server. `unpacked`: what a web server packs for the way is unpacked."""
        options: dict[str, Any] = {}
        if self.scheme in _S3_SCHEMES:
            options = {"session": _s3_session(), "version_aware": not unpacked and _VERSION_QUERY in self.address}
        elif self.scheme in _WEB_SCHEMES:
            from aiohttp import ClientTimeout

            limits = ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S)
            client = {"timeout": limits, "trust_env": True, "auto_decompress": unpacked}
            options = {"client_kwargs": client, "encoded": "%" in self.address or "?" in self.address}
        system = self.filesystem(asynchronous=True, skip_instance_cache=True, **options)
        session = await system.set_session() if hasattr(system, "set_session") else None
        try:
            yield system
        finally:
            if session is not None:
                await session.close()


def _filesystem_class(scheme: str) -> type[Any]:
    extra = f"{scheme}:// needs an extra: pip install 'thpdiag[remote]'"
    try:
        from fsspec import get_filesystem_class
    except ImportError as error:
        raise UsageError(extra) from error
    try:
        found: type[Any] = get_filesystem_class(scheme)
    except ImportError as error:
        of_extra = scheme in _WEB_SCHEMES | _S3_SCHEMES
        more = f"{scheme}:// needs more than the extra 'thpdiag[remote]': {error}"
        raise UsageError(extra if of_extra else more) from error
    except ValueError as error:
        raise UsageError(f"{scheme}:// is not an address type that fsspec supports") from error
    if not getattr(found, "async_impl", False):
        raise UsageError(f"{scheme}:// is a kind of address that thpdiag does not read; copy the bundles here first")
    return found


@cache
def _botocore_loader() -> Any:
    from botocore.loaders import create_loader

    return create_loader()


def _s3_session() -> Any:
    """A session of botocore with what it read of its own tables before, which is most of what one costs."""
    from aiobotocore.session import AioSession

    session = AioSession()
    session.register_component("data_loader", _botocore_loader())
    return session


async def _files_of_pages(system: Any, top: str, enters: Callable[[str], bool]) -> AsyncIterator[ListedFile]:
    """The files that a web server's page and those below it have; each page once, in order.

    A folder whose page cannot be had is refused by itself; a list that is too long ends in UnreadError, and so does one
    whose server is gone. `HTTPFileSystem._ls` has no bound, follows links up, and knows quoted links only.
    """
    from aiohttp import ClientConnectionError

    waiting, seen, more = deque([top]), {top}, False
    while waiting:
        page = waiting.popleft()
        try:
            with _transfer_errors():
                links = await _links_of_page(system, page)
        except UnreadError as error:
            if page == top or isinstance(error.__cause__, (OSError, ClientConnectionError)):
                raise
            yield ListedFile(page, refused=str(error))
            continue
        for file in sorted(link for link in links if not link.endswith("/")):
            yield ListedFile(page + file)
        folders = [page + link for link in sorted(links) if link.endswith("/")]
        folders = [folder for folder in folders if folder not in seen and enters(folder.removeprefix(top))]
        if page.removeprefix(top).count("/") >= MAX_FOLDER_DEPTH:
            for folder in folders:
                yield ListedFile(folder, refused=TOO_DEEP)
            continue
        room = _MAX_PAGES - len(seen)
        more = more or len(folders) > room
        waiting += folders[:room]
        seen.update(folders[:room])
    if more:
        raise UnreadError(f"has a list of more than {_MAX_PAGES} pages; the other pages were not read")


async def _links_of_page(system: Any, page: str) -> set[str]:
    from aiohttp import ClientPayloadError
    from aiohttp.http_exceptions import ContentEncodingError

    session = await system.set_session()
    system.encoded = "%" in page
    content = bytearray()
    async with asyncio.timeout(_PAGE_S), session.get(system.encode_url(page), **system.kwargs) as answer:
        answer.raise_for_status()
        if answer.headers.get("Content-Type", "").partition(";")[0].strip().lower() not in _HTML:
            raise UnreadError("cannot be listed: not a page of links")
        try:
            async for chunk in answer.content.iter_any():
                content += chunk
                if len(content) > _MAX_PAGE_BYTES:
                    raise UnreadError(f"cannot be listed: its page has more than {_MAX_PAGE_BYTES} bytes")
        except ClientPayloadError as error:
            if isinstance(error.__cause__, ContentEncodingError):
                raise UnreadError("cannot be listed: its page is packed and damaged") from None
            raise
        try:
            text = content.decode(answer.charset or "utf-8", "replace")
        except LookupError:  # of a server that does not know what it says
            text = content.decode("utf-8", "replace")
        return links_below(text, str(answer.url))


def links_below(html: str, page: str) -> set[str]:
    """The paths below a page that it has links to, those of folders with `/` at the end; `page` is its address."""
    parser = _LinkParser()
    try:
        parser.feed(html)
    except (AssertionError, ValueError) as error:  # as the parser says that it gives up
        raise UnreadError("cannot be listed: its page is damaged") from error
    return {below for link in parser.links if (below := _path_below(link, page))}


class _LinkParser(HTMLParser):
    """Where the links of a page lead, as it has them."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links += [value for name, value in attrs if name == "href" and value]


def _path_below(link: str, page: str) -> str:
    """The path below the page's folder that a link leads to, ready to be asked for; empty if it leads elsewhere."""
    link = _DROPPED.sub("", link).strip()
    try:
        at, to = urlsplit(page), urlsplit(urljoin(page, quote(link, safe=punctuation)))
    except ValueError:  # no address
        return ""
    above, parts = at.path.split("/")[:-1], to.path.split("/")
    servers = {part.netloc.rpartition("@")[2].lower() for part in (at, to)}
    inside = [*map(unquote, parts[: len(above)])] == [*map(unquote, above)]  # however their characters are written
    if link.startswith("#") or to.scheme not in _WEB_SCHEMES or len(servers) > 1 or to.query or not inside:
        return ""
    below = "/".join(parts[len(above) :])
    names = "/" + unquote(below).replace("\\", "/")
    return "" if names == "/" or "/." in names or "//" in names else below


# What libraries raise that is no OSError or ValueError, as far as they are loaded.
_LIBRARY_ERRORS: Final = {
    "aiohttp": ("ClientError",),
    "botocore.exceptions": ("BotoCoreError", "ClientError", "HTTPClientError"),
    "gcsfs.retry": ("HttpError",),
    "google.auth.exceptions": ("GoogleAuthError",),
    "azure.core.exceptions": ("AzureError",),
}
_AGAIN: Final = "run it again"
_CHECK: Final = "check the address"
_CHECK_SERVER: Final = "check the name and port of the server"
_CHECK_ACCOUNT: Final = "check the account that is configured for it"
_FREE: Final = "free space in the scratch folder"
_ERRNO_SENTENCES: Final = {
    errno.ENOSPC: f"no room for scratch files; {_FREE}",
    errno.EDQUOT: f"no room for scratch files; {_FREE}",
    errno.ECONNREFUSED: f"the connection was refused; {_CHECK_SERVER}",
    errno.ECONNRESET: f"the connection was cut; {_AGAIN}",
    errno.EPIPE: f"the connection was cut; {_AGAIN}",
    errno.EIO: f"the server failed; {_AGAIN}",
    errno.EREMOTEIO: f"the server failed; {_AGAIN}",
    errno.EBUSY: f"the server is busy; {_AGAIN}",
}
_CLASS_SENTENCES: Final = {
    **dict.fromkeys(
        ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "DefaultCredentialsError"),
        "no credentials for it; configure them as for the tools of its vendor, such as in AWS_PROFILE",
    ),
    "ClientConnectorDNSError": f"unknown server name; {_CHECK}",
    "ClientPayloadError": f"the connection was cut; {_AGAIN}",
    "ServerDisconnectedError": f"the connection was cut; {_AGAIN}",
    "ParamValidationError": f"no bucket or object can have this name; {_CHECK}",
    "EndpointConnectionError": f"the server cannot be reached; {_CHECK_SERVER}",
    "ClientConnectorCertificateError": "the server's certificate is not trusted; set SSL_CERT_FILE to that of its CA",
}


@contextmanager
def _transfer_errors() -> Iterator[None]:
    """An error of the way to the server as one sentence."""
    loaded = [(sys.modules[module], names) for module, names in _LIBRARY_ERRORS.items() if module in sys.modules]
    of_libraries = tuple(getattr(module, name, OSError) for module, names in loaded for name in names)
    try:
        yield
    except UnreadError:
        raise
    except (OSError, EOFError, ValueError, NotImplementedError, *of_libraries) as error:
        raise UnreadError(f"cannot be fetched: {_describe_failure(error)}") from error


def _describe_failure(error: Exception) -> str:
    """What happened and a way out, without a word of the message, which may hold the address."""
    name, code = type(error).__name__, _response_code(error)
    in_brackets = f" ({code})" if code else ""
    number = getattr(getattr(error, "os_error", error), "errno", None)  # of a refused connection one deeper
    if "Expired" in code or "Expired" in name:
        return "the credentials have expired; renew them"
    if isinstance(error, TimeoutError):
        return f"the server does not answer in time; {_AGAIN}"
    if isinstance(error, FileNotFoundError) or code == "404":
        return f"it does not exist; {_CHECK}"
    if isinstance(error, PermissionError) or code in {"401", "403"}:
        return f"access is denied{in_brackets}; {_CHECK_ACCOUNT}"
    if isinstance(error, OSError) and number in _ERRNO_SENTENCES:
        return _ERRNO_SENTENCES[number]
    if code.isdigit():
        return f"the server answers {code}; {_AGAIN if code.startswith('5') else _CHECK}"
    return _CLASS_SENTENCES.get(name, f"{name}{in_brackets}; {_CHECK}")


def _response_code(error: Exception) -> str:
    """The number or word that the server gave, if there is one: of HTTP, or of S3."""
    status = getattr(error, "status", None)
    if isinstance(status, int):
        return str(status)
    response = getattr(error.__cause__, "response", None) or getattr(error, "response", None)
    code = response.get("Error", {}).get("Code", "") if isinstance(response, dict) else ""
    return code if isinstance(code, str) and code.isalnum() and code.isascii() and len(code) <= 60 else ""
