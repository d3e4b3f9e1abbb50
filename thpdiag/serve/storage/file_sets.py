"""Several files that are judged together: a bundle that is a list of others.

The list is a small JSON file among the bundles, named by its own digest like all of them, so that the same files make
the same bundle in whatever order they came. The rows of `part` say the same; a database that is lost is made again
from the files. Names tell the files apart within the set and decide what a file is taken for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256 as digest
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, exists, select

from thpdiag.model.document import compact
from thpdiag.serve.storage.database import bundle, is_sha256, part, upsert

KIND: Final = "thpdiag file set 1"
MAX_FILES: Final = 200
MAX_MANIFEST_BYTES: Final = MAX_FILES * 2_000


class Part(NamedTuple):
    """One file of a set: its content, and its name within the set."""

    sha256: str
    name: str


def distinct_parts(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Each content once, by name; of two of one name the second gets a number before its ending: `sar-2.txt`."""
    by_content: dict[str, str] = {}
    for sha256, name in parts:
        by_content.setdefault(sha256, name)
    taken: set[str] = set()
    found = []
    for name, sha256 in sorted((name, sha256) for sha256, name in by_content.items()):
        stem, dot, ending = name.partition(".") if not name.startswith(".") else (name, "", "")
        own, number = name, 2
        while own.casefold() in taken:
            own, number = f"{stem}-{number}{dot}{ending}", number + 1
        taken.add(own.casefold())
        found.append(Part(sha256, own))
    return tuple(found)


def manifest(parts: Sequence[Part]) -> bytes:
    """The file that stands for the set."""
    return compact({"kind": KIND, "files": [list(one) for one in parts]}).encode()


def manifest_digest(parts: Sequence[Part]) -> str:
    return digest(manifest(parts)).hexdigest()


def read_manifest(file: Path) -> tuple[Part, ...]:
    """The files that a stored bundle lists; none if it is no list of this form."""
    if file.stat().st_size > MAX_MANIFEST_BYTES:
        return ()
    try:
        told: Any = json.loads(file.read_bytes())
        parts = tuple(Part(sha256, name) for sha256, name in told["files"]) if told["kind"] == KIND else ()
    except (ValueError, TypeError, LookupError, RecursionError):
        return ()
    proper = all(is_sha256(one.sha256) and isinstance(one.name, str) for one in parts)
    return parts if proper and manifest(parts) == file.read_bytes() else ()


def set_name(parts: Sequence[Part]) -> str:
    """What a case of these files is called: by the first of them."""
    return parts[0].name if len(parts) == 1 else f"{parts[0].name} and {len(parts) - 1} more"


def add_parts(connection: Connection, whole: str, parts: Sequence[Part]) -> None:
    """Write down the files of a set; rows of all these bundles are there."""
    rows = [{"whole": whole, "place": at, **one._asdict()} for at, one in enumerate(parts)]
    connection.execute(upsert(connection, part).on_conflict_do_nothing(), rows)


def parts_of(connection: Connection, whole: str) -> tuple[Part, ...]:
    """The files of a bundle that is a set, in order; none of any other."""
    rows = select(part.c.sha256, part.c.name).where(part.c.whole == whole).order_by(part.c.place)
    return tuple(Part(*row) for row in connection.execute(rows))


def is_part_of(whole: ColumnElement[str]) -> ColumnElement[bool]:
    """Of a bundle: that it is a file of that set."""
    return exists().where(part.c.sha256 == bundle.c.sha256, part.c.whole == whole)
