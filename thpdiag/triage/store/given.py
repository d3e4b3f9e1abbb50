"""The path of a bundle as results may tell it: nothing of the analyst's machine, no secret of an address."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_STORES: Final = frozenset(("s3", "s3a", "gs", "gcs"))  # have keys of any characters, and no secrets in addresses
_ASKED: Final = re.compile(r"[?#]")
_HOST: Final = re.compile(r"(?:\[[\w:.%]*\]|[^:@\[\]]*)(?::\d*)?")


def told_path(path: str, roots: Iterable[str] = ()) -> str:
    """The path below the root that it was found in, with the root's own name; of a path outside of all, its name.

    Addresses (`s3://bucket/key`) stay, but for user, password and query, which can be keys to the bundle. In a key of
    an object store `?` and `#` are letters like others.
    """
    if _ADDRESS.match(path):
        return _address(path)
    whole = PurePosixPath(path)
    for root in sorted(map(PurePosixPath, roots), key=lambda root: -len(root.parts)):
        if whole.is_relative_to(root):
            return str(PurePosixPath(root.name) / whole.relative_to(root))
    return whole.name if whole.is_absolute() or ".." in whole.parts else path


def _address(path: str) -> str:
    scheme, _, rest = path.partition("://")
    secret = "@" in rest
    if scheme.lower() not in _STORES:
        rest = _ASKED.split(rest, maxsplit=1)[0]
    host, slash, below = rest.partition("/")
    host = host.rpartition("@")[2]
    if secret and not _HOST.fullmatch(host):  # no server can be called so: it may be a part of a password
        host, below = "_", below.rpartition("@")[2]
    return "".join(map(_shown, f"{scheme.lower()}://{host}{slash}{below}"))


def _shown(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
