"""One bundle of a work list: where it is, what results call it, why it is not read."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from thpdiag.errors import InputError

MAX_FOLDER_DEPTH: Final = 32  # folders in folders that are looked into; a bundle itself is not
TOO_DEEP: Final = f"lies in more than {MAX_FOLDER_DEPTH} folders and was not looked into"
_HARMFUL: Final = re.compile(r"[^A-Za-z0-9._-]|^[.-]+")
_MAX_NAME_CHARS: Final = 120


@dataclass(frozen=True, slots=True)
class BundleItem:
    """`place` is a path of this machine or an address (`s3://bucket/key`), `label` its name in results.

    `label` is relative to what the user named (`nightly/web1.tar.xz`), of an archive in an archive with that one's name
    before it (`collect.tar/web1.tar.xz`). `size` in bytes is what the order goes by, 0 if it is not known before.
    `refused` says why the bundle is not read at all: a fifo, a device, a broken link.
    """

    place: str
    label: str
    size: int = 0
    refused: str = ""


class UnreadError(InputError):
    """The message says why, without where; a batch takes it for the reason of the bundle and goes on."""


def unused_name(name: str, taken: Container[str]) -> str:
    """The name, with a number behind it if that is needed to be none of those taken."""
    number, unused = 2, name
    while unused in taken:
        unused = f"{name}.{number}"
        number += 1
    return unused


def safe_name(name: str) -> str:
    """What of a name may be that of a file here: letters, digits, `.`, `_` and `-`, the last 120 of them."""
    return _HARMFUL.sub("_", name)[-_MAX_NAME_CHARS:]


def describe_error(error: OSError) -> str:
    """Why a name cannot be read."""
    return f"cannot be read: {error.strerror or type(error).__name__}"
