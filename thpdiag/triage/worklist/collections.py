"""Archives of archives, as `sos collect` makes them of many hosts: each archive in it is a bundle by itself.

An archive is a collection if it holds two archives at least, named as such and at most three folders deep, and most of
its bytes are theirs. Nothing is decompressed twice to find that out: an ordinary bundle shows in its first members that
it is one. The reading ends

- before it begins, if the file is not named as an archive, or is named as a report of one host (`sosreport-...`);
- at the first folder of a host (`proc`, `etc`, `sos_commands` ...), or if the outermost is named as such a report;
- when 64 files have come and no archive, or 2 MiB (64 MiB of a tar that is not compressed) more than twice what the
  archives so far have; unless the outermost folder is named as sos collect names it.

A zip is judged by its list. What else a collection holds is one bundle more (`beside`): mostly logs of the collector,
which nobody misses if nothing in them is recognised, but it may be a host that came unpacked. One child of the guard
does all this; this process never looks at a byte of the archive.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final

from thpdiag.bundle.limits import GIB, MIB
from thpdiag.guard.limits import Cell, Limits
from thpdiag.guard.outcome import Status
from thpdiag.guard.supervise import guarded
from thpdiag.triage.item import Item
from thpdiag.triage.worklist.beside import FOLDER
from thpdiag.triage.worklist.companions import is_archive
from thpdiag.triage.worklist.inner import file_of, written
from thpdiag.triage.worklist.listing import free
from thpdiag.triage.worklist.unread import UnreadError

MOST: Final = 64 * GIB  # of one collection in the scratch folder
LOST: Final = "{} of the files beside its archives could not be written to the scratch folder and were not read"
RESERVE: Final = 512 * MIB  # that others may still need there
_ONE_HOST: Final = re.compile(r"(?:secured-)?sosreport-|thp-capture-", re.I)


@dataclass(frozen=True, slots=True)
class Collection:
    """Its archives, named as in the collection without the folder that all lie in; and what lies `beside` them.

    Where the collection is damaged or too large, so that bundles may be missing, one item more says so.
    """

    items: tuple[Item, ...]
    beside: Item | None = None

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)


def collected(place: Path, scratch: Path, most: int = MOST) -> Collection | None:
    """The archives in an archive, as files in a folder of `scratch`; None if it is a bundle itself.

    Raises UnreadError if there is no room for them. For a process with one thread, as the guard is.
    """
    if not is_archive(place.name) or _ONE_HOST.match(place.name) or place.is_dir():
        return None
    folder = scratch / "collection"
    folder.mkdir()
    room = max(min(most, shutil.disk_usage(folder).free - RESERVE), 0)
    limits = Limits(file_size=room + MIB)
    outcome = guarded(partial(written, place, folder, room), limits, Cell(read=(place,), scratch=folder))
    if outcome.status in {Status.REFUSED, Status.BUG}:
        shutil.rmtree(folder)
        raise UnreadError(outcome.sentence)
    if outcome.status is not Status.OK or not outcome.content:
        shutil.rmtree(folder)
        return None  # whatever is wrong with it, its analysis says
    return _collection(json.loads(outcome.content), place, folder)


def _collection(found: dict[str, Any], place: Path, folder: Path) -> Collection:
    paths = [PurePosixPath(str(one["path"])) for one in found["archives"]]
    folders = Counter(path.parts[0] for path in paths if len(path.parts) > 1)
    root = next((name for name, count in folders.items() if count == len(paths)), "")
    taken: set[str] = set()
    items = []
    for number, (path, one) in enumerate(zip(paths, found["archives"], strict=True)):
        told = free(str(path.relative_to(root)), taken)
        taken.add(told)
        refused = str(one["trouble"]) if one["trouble"] and not one["size"] else ""
        _trusted(folder / str(number))
        items.append(Item(str(folder / file_of(number, str(path))), told, int(one["size"]), refused))
    kept, size, lost = (int(found["beside"][name]) for name in ("kept", "size", "lost"))
    trouble = str(found["trouble"]) or (LOST.format(lost) if lost else "")
    if trouble:
        items.append(Item(str(place), free("(what is lost)", taken), refused=trouble))
    _trusted(folder / FOLDER)
    beside = Item(str(folder / FOLDER), free("(beside its archives)", taken), size) if kept else None
    return Collection(tuple(items), beside)


def _trusted(folder: Path) -> None:
    """A folder that the child made a link: it obeyed somebody else."""
    if folder.is_symlink():
        raise UnreadError("the child process that reads it cannot be trusted")
