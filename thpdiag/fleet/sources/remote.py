"""Bundles at addresses: `s3://`, `gs://`, `https://` and other protocols of fsspec (extra `remote`).

An address is one bundle. An address that ends in `/` or contains `*` (for object stores also `?` and `[...]`) stands
for all objects there: each object is one bundle, in the order of names, since an object store has no folders. As in a
local folder, checksums and signatures of an archive and hidden names are skipped; a bundle that was uploaded unpacked
is not put together again. An object whose key equals a pattern literally matches it, and `[[]` matches `[`;
`?versionId=` after a key of S3 selects a version.

For a web server the links of its page are listed, and recursively those of pages below. Only links to paths below their
page count, in any spelling; links that sort the list (`?C=M`), lead up, to another server or to a hidden name are
ignored.

Server, account and proxy come from the user's configuration: that of the protocol (AWS_PROFILE, AWS_ENDPOINT_URL,
HTTPS_PROXY, .netrc ...) and of fsspec (FSSPEC_S3_ANON=true ...). Each call has its own event loop and leaves no thread
behind, since the calling process forks. Error messages are made here: those of the libraries contain addresses with
their keys.
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
    is_list_of_checksums,
    is_of_recording,
    is_readme,
    safe_name,
)
from thpdiag.fleet.sources.local import Pattern
from thpdiag.store.results import public_path

_WEB_SCHEMES: Final = frozenset(("http", "https"))
_S3_SCHEMES: Final = frozenset(("s3", "s3a"))
_LOCAL_SCHEMES: Final = frozenset(("file", "local"))
_VERSION_QUERY: Final = "?versionId="  # selects a version of an S3 object
_CHAIN: Final = re.compile(r"::\w{1,20}://")  # fsspec's URL chaining: a file in an archive at another address
_STAR, _WILDCARD = re.compile(r"\*"), re.compile(r"[*?\[]")
_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S, _COPY_TIMEOUT_S, _PAGE_TIMEOUT_S = 30.0, 60.0, 3600.0, 600.0
_COPY_CHUNK_BYTES: Final = 1 << 20
_MAX_PAGES: Final = 10_000  # pages of one listing
_MAX_PAGE_BYTES: Final = 32 << 20
_HTML_TYPES: Final = frozenset(("", "text/html", "application/xhtml+xml"))
_IGNORED_CHARS: Final = re.compile(r"[\t\r\n]")  # browsers drop these from a link


def is_address(name: str) -> bool:
    """Whether a name is an address (`s3://bucket/key`), not a path."""
    scheme, separator, _ = name.partition("://")
    return bool(separator) and scheme.replace("+", "").replace(".", "").replace("-", "").isalnum()


def items_of_address(address: str, label: str) -> Iterator[BundleItem]:
    """Return the bundles of an address. A single object is not requested here, so its size is unknown.

    Raises UsageError for a protocol that cannot be read, and UnreadError if a listing is empty or fails.
    """
    remote = Remote.parse(address)
    address, wildcard = remote.address, remote.first_wildcard()
    if not address.endswith("/") and wildcard is None:
        if not remote.path and remote.scheme not in _WEB_SCHEMES:  # on a web server the root may be a file
            raise UnreadError("names no object; with / at its end it is all that lies there")
        return iter([BundleItem(address, label)])
    items = _items_of_list(remote, wildcard, label)
    first = next(items, None)
    if first is None:
        raise UnreadError("holds no bundle" if wildcard is None else "is a pattern that matches nothing")
    if first.refused and first.place == address:
        raise UnreadError(first.refused)
    return chain([first], items)


def _items_of_list(remote: Remote, first_wildcard: int | None, label: str) -> Iterator[BundleItem]:
    """Yield the listed bundles, with refused items for folders that cannot be listed and for a listing that breaks."""
    address = remote.address
    prefix = address[:first_wildcard]
    base = prefix.rpartition("/")[0] + "/"
    pattern = None if first_wildcard is None else Pattern(Path(), tuple(address[len(base) :].split("/")))
    root = label if pattern is None else public_path(base).rstrip("/")
    earlier: list[str] = []  # names that begin the current name: a companion follows its file and begins with its name
    try:
        for file, size, refused in remote.files(
            prefix, lambda folder: pattern is None or pattern.may_match_below(folder.rstrip("/").split("/"))
        ):
            below = file.removeprefix(base)
            if refused:
                yield BundleItem(file, f"{root}/{printable(below.rstrip('/'))}", refused=refused)
                continue
            name = below.rpartition("/")[2]
            is_skipped = is_list_of_checksums(name) or is_readme(name)
            if not name or is_skipped or "/." in f"/{below}" or _is_companion(below, earlier):
                continue
            if pattern is None or file == address or pattern.matches(below.split("/")):
                yield BundleItem(file, f"{root}/{printable(below)}", size)
    except UnreadError as error:
        yield BundleItem(address, f"{root}/(what is lost)", refused=str(error))


def _is_companion(name: str, earlier: list[str]) -> bool:
    """Whether a name is a companion of an earlier one. Keeps in `earlier` only names that are prefixes of `name`.

    Names are sorted, so all names with a common prefix are adjacent.
    """
    while earlier and not name.startswith(earlier[-1]):
        earlier.pop()
    is_companion = is_checksum(name, earlier) or is_of_recording(name, earlier)
    earlier.append(name)
    return is_companion


def fetch(address: str, folder: Path, max_bytes: int) -> Path:
    """Download an object into a folder under a safe name. On UnreadError no file is left."""
    try:
        remote = Remote.parse(address)
        place = folder / (safe_name(unquote(remote.path).rstrip("/").rpartition("/")[2]) or "bundle")
        try:
            remote.copy(place, max_bytes)
        except UnreadError:
            place.unlink(missing_ok=True)
            raise
    except UsageError as error:
        raise UnreadError(str(error)) from error
    return place


class ListedFile(NamedTuple):
    """An address and its size, 0 if unknown; `refused` is the reason why a folder could not be listed."""

    address: str
    size: int = 0
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Remote:
    """An address with its lower-case scheme and fsspec's class for it."""

    address: str
    scheme: str
    filesystem: type[Any]

    @classmethod
    def parse(cls, address: str) -> Remote:
        """Parse an address. Raises UsageError for a local file or a scheme that is not supported or not installed, and
        UnreadError for an invalid server or bucket."""
        scheme, mark, rest = address.partition("://")
        scheme = scheme.lower()
        if scheme in _LOCAL_SCHEMES or _CHAIN.search(address):
            raise UsageError("of files of this machine name the path, and of addresses only the file itself")
        remote = cls(scheme + mark + rest, scheme, _filesystem_class(scheme))
        if scheme in _S3_SCHEMES and not rest.partition("/")[0]:
            raise UnreadError(f"names no bucket; {_ADDRESS_HINT}")
        if scheme in _WEB_SCHEMES:
            try:
                server, port = urlsplit(address).hostname, urlsplit(address).port
            except ValueError as error:
                raise UnreadError(f"is not a valid address: invalid server name; {_ADDRESS_HINT}") from error
            if not server or port == 0:
                raise UnreadError(f"names no server; {_ADDRESS_HINT}")
        return remote

    @property
    def path(self) -> str:
        """The path or key; keys of object stores may have any character."""
        rest = self.address.partition("://")[2]
        if self.scheme in _WEB_SCHEMES:
            rest = rest.partition("?")[0].partition("#")[0]
        return rest.partition(_VERSION_QUERY)[0].partition("/")[2]

    def first_wildcard(self) -> int | None:
        """Return the index of the first wildcard, or None; in a web address `?` starts the query."""
        wildcard, query_start = (_STAR, "?") if self.scheme in _WEB_SCHEMES else (_WILDCARD, _VERSION_QUERY)
        begin = self.address.index("://") + 3
        match = wildcard.search(self.address.partition(query_start)[0], begin)
        if match and "/" not in self.address[begin : match.start()]:
            raise UnreadError("is a pattern of servers or buckets; name one of them")
        return match.start() if match else None

    def copy(self, place: Path, max_bytes: int) -> None:
        """Download an object to a file. Raises UnreadError, also for more than `max_bytes`."""
        from fsspec.callbacks import Callback

        def check(size: int | None, received: int, **_more: object) -> None:
            """Wait for the first bytes: before that an exception would leave files of s3fs open."""
            if received and max(size or 0, received) > max_bytes:
                raise UnreadError(f"is larger than {max_bytes} bytes, the most that is fetched")

        progress = Callback(hooks={"check": check})
        with _transfer_errors():
            asyncio.run(self._copy(place, progress))
        if progress.size is not None and place.stat().st_size != progress.size:
            raise UnreadError(
                f"cannot be fetched: only {place.stat().st_size} of {progress.size} bytes came; {_RETRY_HINT}"
            )

    async def _copy(self, place: Path, progress: Any) -> None:
        options: dict[str, int] = {}
        if self.scheme in _S3_SCHEMES:
            options = {"max_concurrency": 1}
        elif self.scheme in _WEB_SCHEMES:
            options = {"chunk_size": _COPY_CHUNK_BYTES}
        async with asyncio.timeout(_COPY_TIMEOUT_S), self._open(decompress=False) as system:
            await system._get_file(system._strip_protocol(self.address), str(place), callback=progress, **options)

    def files(self, prefix: str, enters: Callable[[str], bool]) -> Iterator[ListedFile]:
        """Yield all files below a prefix as they are listed; raises UnreadError.

        For protocols with folders `enters` decides whether to list one; it gets the path below that of the prefix, with
        a final `/`.
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
        async with self._open(decompress=True) as system:
            if self.scheme in _WEB_SCHEMES:
                async for file in _files_of_pages(system, prefix.rpartition("/")[0] + "/", enters):
                    yield file
            elif self.scheme in _S3_SCHEMES:  # keys in byte order, without folders, 1,000 per request
                bucket, _, key = prefix.partition("://")[2].partition("/")
                async for entry in system._iterdir(bucket, delimiter="", prefix=key):
                    yield ListedFile(f"{self.scheme}://{entry['name']}", int(entry["size"]))
            else:
                entries = await system._find(system._strip_protocol(prefix.rpartition("/")[0]), detail=True)
                for name, entry in sorted(entries.items()):
                    yield ListedFile(f"{self.scheme}://{name}", int(entry.get("size") or 0))

    @asynccontextmanager
    async def _open(self, *, decompress: bool) -> AsyncIterator[Any]:
        """Open fsspec's file system of the server. `decompress`: undo the Content-Encoding of a web server."""
        options: dict[str, Any] = {}
        if self.scheme in _S3_SCHEMES:
            options = {"session": _s3_session(), "version_aware": not decompress and _VERSION_QUERY in self.address}
        elif self.scheme in _WEB_SCHEMES:
            from aiohttp import ClientTimeout

            limits = ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S, sock_read=_READ_TIMEOUT_S)
            client = {"timeout": limits, "trust_env": True, "auto_decompress": decompress}
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
        filesystem: type[Any] = get_filesystem_class(scheme)
    except ImportError as error:
        if scheme in _WEB_SCHEMES | _S3_SCHEMES:
            raise UsageError(extra) from error
        raise UsageError(f"{scheme}:// needs more than the extra 'thpdiag[remote]': {error}") from error
    except ValueError as error:
        raise UsageError(f"{scheme}:// is not an address type that fsspec supports") from error
    if not getattr(filesystem, "async_impl", False):
        raise UsageError(f"{scheme}:// is a kind of address that thpdiag does not read; copy the bundles here first")
    return filesystem


@cache
def _botocore_loader() -> Any:
    from botocore.loaders import create_loader

    return create_loader()


def _s3_session() -> Any:
    """Return a botocore session with a shared data loader: loading its tables is most of the cost of a session."""
    from aiobotocore.session import AioSession

    session = AioSession()
    session.register_component("data_loader", _botocore_loader())
    return session


async def _files_of_pages(system: Any, top: str, enters: Callable[[str], bool]) -> AsyncIterator[ListedFile]:
    """Yield the files linked from a page of a web server and from the pages below it; each page once, in order.

    A folder whose page fails is refused by itself; a listing that is too long or loses its server raises UnreadError.
    Replaces `HTTPFileSystem._ls`, which has no limit, follows links up, and recognizes quoted links only.
    """
    from aiohttp import ClientConnectionError

    queue, seen, is_cut = deque([top]), {top}, False
    while queue:
        page = queue.popleft()
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
        is_cut = is_cut or len(folders) > room
        queue += folders[:room]
        seen.update(folders[:room])
    if is_cut:
        raise UnreadError(f"has a list of more than {_MAX_PAGES} pages; the other pages were not read")


async def _links_of_page(system: Any, page: str) -> set[str]:
    from aiohttp import ClientPayloadError
    from aiohttp.http_exceptions import ContentEncodingError

    session = await system.set_session()
    system.encoded = "%" in page
    content = bytearray()
    async with asyncio.timeout(_PAGE_TIMEOUT_S), session.get(system.encode_url(page), **system.kwargs) as answer:
        answer.raise_for_status()
        if answer.headers.get("Content-Type", "").partition(";")[0].strip().lower() not in _HTML_TYPES:
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
        except LookupError:  # the server names an unknown charset
            text = content.decode("utf-8", "replace")
        return links_below(text, str(answer.url))


def links_below(html: str, page: str) -> set[str]:
    """Return the links of a page as paths below its address, those of folders with a final `/`."""
    parser = _LinkParser()
    try:
        parser.feed(html)
    except (AssertionError, ValueError) as error:  # HTMLParser raises these for markup that it cannot parse
        raise UnreadError("cannot be listed: its page is damaged") from error
    return {below for link in parser.links if (below := _path_below(link, page))}


class _LinkParser(HTMLParser):
    """Collects the targets of the links of a page, unchanged."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links += [value for name, value in attrs if name == "href" and value]


def _path_below(link: str, page: str) -> str:
    """Return the target of a link as a quoted path below the folder of the page, or empty if it is elsewhere."""
    link = _IGNORED_CHARS.sub("", link).strip()
    try:
        base, target = urlsplit(page), urlsplit(urljoin(page, quote(link, safe=punctuation)))
    except ValueError:  # invalid URL
        return ""
    folder, parts = base.path.split("/")[:-1], target.path.split("/")
    servers = {url.netloc.rpartition("@")[2].lower() for url in (base, target)}
    is_below = [*map(unquote, parts[: len(folder)])] == [*map(unquote, folder)]  # the two may be quoted differently
    if link.startswith("#") or target.scheme not in _WEB_SCHEMES or len(servers) > 1 or target.query or not is_below:
        return ""
    below = "/".join(parts[len(folder) :])
    names = "/" + unquote(below).replace("\\", "/")
    return "" if names == "/" or "/." in names or "//" in names else below


# Exceptions of libraries that are neither OSError nor ValueError, by module; only loaded modules are considered.
_LIBRARY_ERRORS: Final = {
    "aiohttp": ("ClientError",),
    "botocore.exceptions": ("BotoCoreError", "ClientError", "HTTPClientError"),
    "gcsfs.retry": ("HttpError",),
    "google.auth.exceptions": ("GoogleAuthError",),
    "azure.core.exceptions": ("AzureError",),
}
_RETRY_HINT: Final = "run it again"
_ADDRESS_HINT: Final = "check the address"
_SERVER_HINT: Final = "check the name and port of the server"
_ACCOUNT_HINT: Final = "check the account that is configured for it"
_DISK_HINT: Final = "free space in the scratch folder"
_ERRNO_SENTENCES: Final = {
    errno.ENOSPC: f"no room for scratch files; {_DISK_HINT}",
    errno.EDQUOT: f"no room for scratch files; {_DISK_HINT}",
    errno.ECONNREFUSED: f"the connection was refused; {_SERVER_HINT}",
    errno.ECONNRESET: f"the connection was cut; {_RETRY_HINT}",
    errno.EPIPE: f"the connection was cut; {_RETRY_HINT}",
    errno.EIO: f"the server failed; {_RETRY_HINT}",
    errno.EREMOTEIO: f"the server failed; {_RETRY_HINT}",
    errno.EBUSY: f"the server is busy; {_RETRY_HINT}",
}
_CLASS_SENTENCES: Final = {
    **dict.fromkeys(
        ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "DefaultCredentialsError"),
        "no credentials for it; configure them as for the tools of its vendor, such as in AWS_PROFILE",
    ),
    "ClientConnectorDNSError": f"unknown server name; {_ADDRESS_HINT}",
    "ClientPayloadError": f"the connection was cut; {_RETRY_HINT}",
    "ServerDisconnectedError": f"the connection was cut; {_RETRY_HINT}",
    "ParamValidationError": f"no bucket or object can have this name; {_ADDRESS_HINT}",
    "EndpointConnectionError": f"the server cannot be reached; {_SERVER_HINT}",
    "ClientConnectorCertificateError": "the server's certificate is not trusted; set SSL_CERT_FILE to that of its CA",
}


@contextmanager
def _transfer_errors() -> Iterator[None]:
    """Turn errors of a transfer into UnreadError."""
    loaded = [(sys.modules[module], names) for module, names in _LIBRARY_ERRORS.items() if module in sys.modules]
    library_errors = tuple(getattr(module, name, OSError) for module, names in loaded for name in names)
    try:
        yield
    except UnreadError:
        raise
    except (OSError, EOFError, ValueError, NotImplementedError, *library_errors) as error:
        raise UnreadError(f"cannot be fetched: {_describe_failure(error)}") from error


def _describe_failure(error: Exception) -> str:
    """Describe an error with a hint, without its message, which may contain the address."""
    name, code = type(error).__name__, _response_code(error)
    suffix = f" ({code})" if code else ""
    number = getattr(getattr(error, "os_error", error), "errno", None)  # a refused connection wraps the OSError
    if "Expired" in code or "Expired" in name:
        return "the credentials have expired; renew them"
    if isinstance(error, TimeoutError):
        return f"the server does not answer in time; {_RETRY_HINT}"
    if isinstance(error, FileNotFoundError) or code == "404":
        return f"it does not exist; {_ADDRESS_HINT}"
    if isinstance(error, PermissionError) or code in {"401", "403"}:
        return f"access is denied{suffix}; {_ACCOUNT_HINT}"
    if isinstance(error, OSError) and number in _ERRNO_SENTENCES:
        return _ERRNO_SENTENCES[number]
    if code.isdigit():
        return f"the server answers {code}; {_RETRY_HINT if code.startswith('5') else _ADDRESS_HINT}"
    return _CLASS_SENTENCES.get(name, f"{name}{suffix}; {_ADDRESS_HINT}")


def _response_code(error: Exception) -> str:
    """Return the HTTP status or the S3 error code, if there is one."""
    status = getattr(error, "status", None)
    if isinstance(status, int):
        return str(status)
    response = getattr(error.__cause__, "response", None) or getattr(error, "response", None)
    code = response.get("Error", {}).get("Code", "") if isinstance(response, dict) else ""
    return code if isinstance(code, str) and code.isalnum() and code.isascii() and len(code) <= 60 else ""
