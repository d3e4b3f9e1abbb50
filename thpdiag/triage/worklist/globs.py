"""Patterns of names that no shell expanded: `nightly/**/*.tar.xz`.

`*`, `?` and `[...]` stand for parts of one name, `**` for any number of folders, none included. As in the shell, a name
that begins with a dot must be asked for with one. Of a folder that fits nothing inside is looked at again, so no bundle
is found twice. Results of a triage fit no pattern. A link to a folder that fits is followed as in a folder (`folder`);
for more of its names behind it (`latest/*`) no link is. Where nothing fits but what belongs to files that do not
(`companions`: `*.meta`), that is taken, for it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from thpdiag.triage.item import Item
from thpdiag.triage.worklist.folder import DEEPEST, besides_results, bundled, one
from thpdiag.triage.worklist.listing import Kind, Name, Names, cannot, listed
from thpdiag.triage.worklist.within import Within

_MAGIC: Final = frozenset("*?[")
_ANY: Final = "**"
_Kept = Callable[[Names], Iterator[Name]]


def is_pattern(name: str) -> bool:
    """Whether a name has a character that stands for others."""
    return not _MAGIC.isdisjoint(name)


@dataclass(frozen=True, slots=True)
class Pattern:
    """`base` is the folder before the first part with such a character, `parts` are those from there on."""

    base: Path
    parts: tuple[str, ...]

    @classmethod
    def of(cls, name: str) -> Pattern:
        """A pattern as the user wrote it."""
        parts = Path(name).parts
        first = next(i for i, part in enumerate(parts) if is_pattern(part))
        return cls(Path(*parts[:first]), parts[first:])

    def items(self, told: str, within: Within) -> Iterator[Item]:
        """The bundles of all that fits, in the order of names; of what belongs to others if nothing else fits."""
        within, at = replace(within, fits=self.fits), self._passing(frozenset([0]))
        for kept in (bundled, iter):
            found = self._below(self.base.absolute(), told, within, at, 0, kept)
            if (first := next(found, None)) is not None:
                yield first
                yield from found
                return

    def fits(self, path: Sequence[str]) -> bool:
        """Whether a path below the base fits, given by its parts."""
        at = self._passing(frozenset([0]))
        for part in path:
            at = self._passing(self._after(part, at))
        return len(self.parts) in at

    def _below(
        self, folder: Path, told: str, within: Within, at: frozenset[int], depth: int, kept: _Kept
    ) -> Iterator[Item]:
        """`at` are the parts that a name of this folder may fit, `kept` says which names are looked at."""
        try:
            names = besides_results(folder, listed(folder), within)
        except OSError as error:
            yield Item(str(folder), told, refused=cannot(error))
            return
        for name in kept(names):
            then = self._passing(self._after(name.name, at))
            if len(self.parts) in then:
                yield from one(folder, name, f"{told}/{name.shown}", within, depth)
            elif then and name.kind is Kind.FOLDER and depth < DEEPEST:
                yield from self._below(folder / name.name, f"{told}/{name.shown}", within, then, depth + 1, kept)

    def _after(self, name: str, at: frozenset[int]) -> frozenset[int]:
        """Which part is next behind a name, for each way of fitting."""
        then, hidden = set(), name.startswith(".")
        for part in at:
            wanted = self.parts[part] if part < len(self.parts) else ""
            if wanted == _ANY:
                then |= {part} if not hidden else set()
            elif fnmatchcase(name, wanted) and (not hidden or wanted.startswith(".")):
                then.add(part + 1)
        return frozenset(then)

    def _passing(self, at: frozenset[int]) -> frozenset[int]:
        """`**` may stand for no folder at all. At the end it is all that lies below."""
        then = set(at)
        for part in sorted(at):
            while part < len(self.parts) and self.parts[part] == _ANY:
                part += 1
                then.add(part)
        return frozenset(then)
