"""What the things that a user names are called in results: by their own names, and never two by the same."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from thpdiag.bundle.names import printable
from thpdiag.triage.store.given import told_path
from thpdiag.triage.worklist.listing import free


def is_address(name: str) -> bool:
    """Whether a name is an address (`s3://bucket/key`) and no path."""
    scheme, there, _ = name.partition("://")
    return bool(there) and scheme.replace("+", "").replace(".", "").replace("-", "").isalnum()


def labels(names: Sequence[str]) -> list[str]:
    """The last part of each name, with its folder's before it where two are alike, numbered as a last resort.

    None is the beginning of another's path, so what is found below one is never called as what is found below another.
    Of an address what may be told of it. The same path has the same label, however often and however it is written.
    """
    paths = [name if is_address(name) else str(whole(name)) for name in names]
    of_each = _distinct(list(dict.fromkeys(paths)))
    return [of_each[path] for path in paths]


def lasting(names: Sequence[str]) -> list[str]:
    """Labels that are the same wherever the same names are given: the current folder, and those above it, have numbers.

    A job of CI does its work in a folder called as it pleases.
    """
    return labels([_from_here(name) for name in names])


def _from_here(name: str) -> str:
    if is_address(name):
        return name
    path, here = whole(name), whole("")
    if path.is_relative_to(here):
        return str(Path("/0", path.relative_to(here)))
    return f"/{len(here.parts) - len(path.parts)}" if here.is_relative_to(path) else str(path)


def _distinct(names: Sequence[str]) -> dict[str, str]:
    own = {name: _own(name) for name in names}
    times = Counter(own.values())
    alone = {name for name in own.values() if times[name] == 1}
    longer = {name: label if label in alone else _with_folder(label, name) for name, label in own.items()}
    times = Counter(longer.values())
    good = {label for label in times if times[label] == 1 and (label in alone or _first(label) not in alone)}
    taken = good | {_first(label) for label in good}
    for name, label in longer.items():
        if label not in good:
            longer[name] = free(own[name], taken)
            taken.add(longer[name])
    return longer


def _own(name: str) -> str:
    if is_address(name):
        return told_path(name).rstrip("/")
    return printable(os.fsencode(Path(name).name)) or "root"


def _with_folder(own: str, name: str) -> str:
    if is_address(name):
        return own
    return f"{printable(os.fsencode(Path(name).parent.name))}/{own}"


def whole(name: str | Path) -> Path:
    """The path from the root, without `.` and `..`; links stay as they are called."""
    return Path(os.path.normpath(Path(name).absolute()))


def _first(label: str) -> str:
    return label.partition("/")[0]
