"""A result in the form in which it is stored: the process that made it packs it, not the one that stores."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from thpdiag.json_text import compact
from thpdiag.triage.store.bundle import BundleResult
from thpdiag.triage.store.rows import Cells, hosts

UNREAD: Final = "unread:"
REFUSED: Final = "refused"
LEVEL: Final = 3  # of zlib: a third of the time of the usual 6 for a few percent more bytes


@dataclass(frozen=True, slots=True)
class Packed:
    """As `BundleResult`; `document` is its JSON, packed, and `hosts` has a row per host with rows of its findings."""

    sha256: str
    path: str
    size: int
    status: str
    reason: str = ""
    attempts: int = 1
    document: bytes | None = None
    hosts: tuple[tuple[Cells, tuple[Cells, ...]], ...] = ()


def unread(path: str) -> str:
    """What stands for the sha256 of a bundle whose content is not known, so that its path is all it is known by."""
    return f"{UNREAD}{hashlib.sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()}"


def packed(result: BundleResult) -> Packed:
    """The rows and bytes of a result."""
    document = result.document
    return Packed(
        result.sha256, result.path, result.size, result.status, result.reason, result.attempts,
        None if document is None else zlib.compress(compact(document).encode(), LEVEL),
        () if document is None else rows(document, result.status),
    )  # fmt: skip


def rows(document: Mapping[str, Any], status: str) -> tuple[tuple[Cells, tuple[Cells, ...]], ...]:
    """The hosts of a document with their findings.

    None of a `refused` bundle: nothing in it was recognised, so that its document is of no host; as one, it would be
    counted among those that nobody can tell anything of.
    """
    return () if status == REFUSED else tuple((host, tuple(findings)) for host, findings in hosts(document))
