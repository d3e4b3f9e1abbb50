"""Where rules come from: those shipped with thpdiag, folders that the user names, packages of others.

A package gives rules by an entry point of the group `thpdiag.rules` in its metadata:

    [project.entry-points."thpdiag.rules"]
    acme = "acme_thp_rules"            # the package's own folder, or
    acme = "acme_thp_rules:rules"      # a folder in it

A pack is data: its folder is found without importing anything of the package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path

from thpdiag.errors import RuleError

GROUP = "thpdiag.rules"
OWN = "thpdiag"
_VALUE = re.compile(r"(?P<package>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?::(?P<folder>\w+(?:\.\w+)*))?")


@dataclass(frozen=True, slots=True)
class Pack:
    """A folder of rules. `name` and `version` are those of the package; `named` by the user: neither."""

    name: str
    version: str
    folder: Traversable

    @property
    def own(self) -> bool:
        """Whether it is shipped with thpdiag."""
        return self.name == OWN

    @property
    def told(self) -> str:
        """Name and version, for people."""
        return f"{self.name} {self.version}".strip()


def installed_packs() -> tuple[Pack, ...]:
    """The packs of installed packages, by name. RuleError names the package whose folder is not there."""
    return tuple(_pack(point) for point in sorted(_points(), key=lambda point: (_distribution(point), point.name)))


def _points() -> Iterator[EntryPoint]:
    """Each once: a package that stands twice in the path is found twice."""
    seen: set[tuple[str, str]] = set()
    for point in entry_points(group=GROUP):
        if (key := (point.name, point.value)) not in seen:
            seen.add(key)
            yield point


def _distribution(point: EntryPoint) -> str:
    return str(point.dist.name) if point.dist is not None else point.name


def _pack(point: EntryPoint) -> Pack:
    name = _distribution(point)
    version = str(point.dist.version) if point.dist is not None else ""
    found = _VALUE.fullmatch(point.value)
    if not found:
        raise _broken(name, version, point, "it must be PACKAGE or PACKAGE:FOLDER")
    top, *inner = found["package"].split(".")
    parts = [*inner, *(found["folder"] or "").split(".")] if found["folder"] else inner
    folder = _home(top)
    if folder is None:
        raise _broken(name, version, point, f"there is no package '{top}'")
    folder = folder.joinpath(*parts)
    if not folder.is_dir():
        raise _broken(name, version, point, f"there is no folder {folder}")
    return Pack(name, version, folder)


def _home(package: str) -> Path | None:
    """The folder of a package at the top, which is found without running it."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    homes = spec.submodule_search_locations if spec else None
    return Path(next(iter(homes))) if homes else None


def _broken(name: str, version: str, point: EntryPoint, why: str) -> RuleError:
    entry = f"its entry point {GROUP}: {point.name} = {point.value}"
    return RuleError(f"the package {name} {version} gives no rules: {why} ({entry}); mend or uninstall it")
