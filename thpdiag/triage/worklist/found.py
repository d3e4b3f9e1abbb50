"""The bundles of what the user names: files, folders, patterns of names, addresses."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from thpdiag.bundle.names import printable
from thpdiag.errors import InputError
from thpdiag.triage.item import Item
from thpdiag.triage.store.given import told_path
from thpdiag.triage.worklist.addresses import listed
from thpdiag.triage.worklist.companions import companion
from thpdiag.triage.worklist.globs import Pattern, is_pattern
from thpdiag.triage.worklist.labels import is_address, labels, lasting
from thpdiag.triage.worklist.local import local
from thpdiag.triage.worklist.manifest import Manifest
from thpdiag.triage.worklist.shard import ALL, Shard
from thpdiag.triage.worklist.unread import UnreadError
from thpdiag.triage.worklist.within import Within


def items(
    names: Sequence[str],
    besides: Sequence[Path] = (),
    lists: Sequence[str] = (),
    stdin: BinaryIO | None = None,
    shard: Shard = ALL,
) -> Iterator[Item]:
    """One after the other, in the order in which they are named, then those of lists (`manifest`, `-` is `stdin`).

    A file is one bundle; of a folder see `folder`. `besides` are folders that results go to: they may lie
    in what is named. Raises InputError at once if a name or a list is not there. A checksum whose archive is named too
    is passed over (`nightly/*`), as in a folder.
    """
    named = _worth_reading(list(dict.fromkeys(names)))
    given = [Manifest.named(name, stdin) for name in dict.fromkeys(lists)]
    roots = [_root(name) for name in named] + [str(one.folder) for one in given]
    called = labels(roots)
    found = [_below(name, told, besides) for name, told in zip(named, called, strict=False)]
    listed = [one.items(told, besides) for one, told in zip(given, called[len(named) :], strict=True)]
    return chain.from_iterable(map(shard.mine, found + listed, called, lasting(roots)))


def _below(name: str, told: str, besides: Sequence[Path]) -> Iterator[Item]:
    """The bundles of one name, which is called `told` in results."""
    if not name:
        raise InputError("an empty name names no bundle")
    if name == "-" and not os.path.lexists(name):
        raise InputError("- names no bundle; standard input is read as a list of bundles by --from -")
    if _is_pattern(name):
        found = _fitting(Pattern.of(name), told, besides)
        if (first := next(found, None)) is None:
            raise InputError(f"{_shown(name)}: nothing fits this pattern")
        return chain([first], found)
    try:
        return listed(name, told) if is_address(name) else local(Path(name), told, besides)
    except UnreadError as error:
        raise InputError(f"{told_path(name) if is_address(name) else _shown(name)} {error}") from error


def _fitting(pattern: Pattern, told: str, besides: Sequence[Path]) -> Iterator[Item]:
    return pattern.items(told, Within.of(pattern.base, besides)) if pattern.base.is_dir() else iter(())


def _worth_reading(names: list[str]) -> list[str]:
    """All but those that belong to another that is named too (`companions`)."""
    folders: defaultdict[str, set[str]] = defaultdict(set)
    for name in names:
        folders[os.path.dirname(name)].add(os.path.basename(name))  # noqa: PTH119, PTH120 (as written)
    belongs = {folder: companion(files) for folder, files in folders.items()}
    return [name for name in names if not belongs[os.path.dirname(name)](os.path.basename(name))]  # noqa: PTH119, PTH120


def _root(name: str) -> str:
    """What a name's bundles are told below: itself, of a pattern its folder."""
    return str(Pattern.of(name).base) if _is_pattern(name) else name


def _is_pattern(name: str) -> bool:
    """Whether a name is to be taken for a pattern: it looks like one, and nothing is called so."""
    return is_pattern(name) and not is_address(name) and not os.path.lexists(name)


def _shown(name: str) -> str:
    return printable(os.fsencode(name))
