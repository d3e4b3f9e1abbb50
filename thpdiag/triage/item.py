"""One bundle to be done: where it is, and how results name it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Item:
    """`place` is a path of this machine or an address (`s3://bucket/key`), `told` its name in results.

    `told` is relative to what the user named (`nightly/web1.tar.xz`), of an archive in an archive with that one's name
    before it (`collect.tar/web1.tar.xz`). `size` in bytes is what the order goes by, 0 if it is not known before.
    `refused` says why the bundle is not read at all: a fifo, a device, a broken link.
    """

    place: str
    told: str
    size: int = 0
    refused: str = ""
