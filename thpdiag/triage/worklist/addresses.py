"""Bundles at addresses: `s3://`, `gs://`, `https://` and what else fsspec has (extra `remote`).

An address is one bundle. One that ends in `/`, or has `*` in it (of s3 and the like `?` and `[...]` too), is all that
lies there: every object is a bundle by itself, in the order of names, for an object store has no folders. As in a
folder of this machine, checksums and signatures of an archive are passed over, and so are hidden names; a bundle that
was unpacked before it was stored is not put together again. An object that is called exactly as a pattern is found by
it too, and `[[]` stands for `[` alone; `?versionId=` behind a key of S3 names one version. Of a web server the links of
its page are listed, and those of pages below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from thpdiag.bundle.names import printable
from thpdiag.errors import UsageError
from thpdiag.triage.item import Item
from thpdiag.triage.store.given import told_path
from thpdiag.triage.worklist.companions import (
    is_checksum,
    is_for_readers,
    is_list_of_checksums,
    is_of_recording,
)
from thpdiag.triage.worklist.globs import Pattern
from thpdiag.triage.worklist.listing import harmless
from thpdiag.triage.worklist.remote import VERSION, Remote, path_of
from thpdiag.triage.worklist.unread import UnreadError

_STAR: Final = re.compile(r"\*")
_MAGIC: Final = re.compile(r"[*?\[]")
_WEB: Final = ("http://", "https://")


def listed(address: str, told: str) -> Iterator[Item]:
    """The bundles of an address; raises UsageError if its kind cannot be read, UnreadError if a list is empty or fails.

    One bundle is not asked for before its turn; its size is not known before.
    """
    address = _plain(address)
    remote = Remote.of(address)
    remote.check(address)
    first = _first_magic(address)
    if not address.endswith("/") and first is None:
        return iter([_alone(address, told)])
    found = _items(remote, address, first, told)
    begun = next(found, None)
    if begun is None:
        raise UnreadError("holds no bundle" if first is None else "is a pattern that nothing fits")
    if begun.refused and begun.place == address:
        raise UnreadError(begun.refused)
    return chain([begun], found)


def _alone(address: str, told: str) -> Item:
    """Of a web server even its name alone may be a file."""
    if not path_of(address) and not address.startswith(_WEB):
        raise UnreadError("names no object; with / at its end it is all that lies there")
    return Item(address, told)


def fetched(address: str, folder: Path, most: int) -> Path:
    """A copy of an object in a folder, of at most `most` bytes, under what is harmless of its name.

    Raises UnreadError; nothing is left then.
    """
    address = _plain(address)
    place = folder / (harmless(unquote(path_of(address)).rstrip("/").rpartition("/")[2]) or "bundle")
    try:
        remote = Remote.of(address)
        remote.check(address)
        remote.copied(address, place, most)
    except (UnreadError, UsageError) as error:
        place.unlink(missing_ok=True)
        raise UnreadError(str(error)) from error
    return place


def _plain(address: str) -> str:
    """With the kind as libraries know it."""
    scheme, mark, rest = address.partition("://")
    return scheme.lower() + mark + rest


def _first_magic(address: str) -> int | None:
    """Where the first character stands that stands for others; of the web `?` begins what is asked."""
    magic, asked = (_STAR, "?") if address.startswith(_WEB) else (_MAGIC, VERSION)
    found = magic.search(address.partition(asked)[0], address.index("://") + 3)
    if found and "/" not in address[address.index("://") + 3 : found.start()]:
        raise UnreadError("is a pattern of servers or buckets; name one of them")
    return found.start() if found else None


def _items(remote: Remote, address: str, magic: int | None, told: str) -> Iterator[Item]:
    """What is listed and is a bundle, or a folder that cannot be listed; one that breaks off ends in such an item."""
    prefix = address if magic is None else address[:magic]
    base = prefix.rpartition("/")[0] + "/"
    pattern = None if magic is None else Pattern(Path(), tuple(address[len(base) :].split("/")))
    root = told if pattern is None else told_path(base).rstrip("/")
    before: list[str] = []  # what belongs to a file begins with its name and comes behind it
    try:
        for found, size, refused in remote.listed(prefix, lambda folder: _may_hold(pattern, folder)):
            below = found.removeprefix(base)
            if refused:
                yield Item(found, f"{root}/{printable(below.rstrip('/'))}", refused=refused)
                continue
            if not _is_bundle(below) or _belongs(below, before):
                continue
            if pattern is None or found == address or pattern.fits(below.split("/")):
                yield Item(found, f"{root}/{printable(below)}", size)
    except UnreadError as error:
        yield Item(address, f"{root}/(what is lost)", refused=str(error))


def _belongs(name: str, before: list[str]) -> bool:
    """Whether a name belongs to one of those before it; of these only those stay that it begins with.

    All names that begin with another come behind it without a gap, for they come in the order of their letters.
    """
    while before and not name.startswith(before[-1]):
        before.pop()
    belongs = is_checksum(name, before) or is_of_recording(name, before)
    before.append(name)
    return belongs


def _may_hold(pattern: Pattern | None, folder: str) -> bool:
    """Whether something in a folder below the base of a pattern may fit it; all may if there is none."""
    names = folder.rstrip("/").split("/")
    if pattern is None or "**" in pattern.parts[: len(names)]:
        return True
    return len(pattern.parts) > len(names) and Pattern(Path(), pattern.parts[: len(names)]).fits(names)


def _is_bundle(below: str) -> bool:
    """By the path below what was named: no folder, not hidden, no list of checksums, no README."""
    folders, _, name = f"/{below}".rpartition("/")
    beside = is_list_of_checksums(name) or is_for_readers(name)
    return bool(name) and "/." not in f"{folders}/{name}" and not beside
