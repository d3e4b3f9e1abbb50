"""The path of a bundle as results may tell it: nothing of the analyst's machine, no secret of an address."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import urlsplit, urlunsplit

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def told_path(path: str, roots: Iterable[str] = ()) -> str:
    """The path below the root that it was found in, with the root's own name; of a path outside of all, its name.

    Addresses (`s3://bucket/key`) stay, but for user, password and query, which can be keys to the bundle.
    """
    if _ADDRESS.match(path):
        return _address(path)
    whole = PurePosixPath(path)
    for root in sorted(map(PurePosixPath, roots), key=lambda root: -len(root.parts)):
        if whole.is_relative_to(root):
            return str(PurePosixPath(root.name) / whole.relative_to(root))
    return whole.name if whole.is_absolute() or ".." in whole.parts else path


def _address(path: str) -> str:
    try:
        parts = urlsplit(path)
    except ValueError:  # no address after all
        return path.rpartition("/")[2]
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
