"""One archive or directory being read: its links, what is wanted of it, what has passed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from thpdiag.bundle.entry import Entry, EntryKind
from thpdiag.bundle.fold import Fold
from thpdiag.bundle.limits import Limits
from thpdiag.bundle.links import Links, targets
from thpdiag.bundle.magic import CLOSED_NAMES
from thpdiag.bundle.names import inside
from thpdiag.bundle.place import Place
from thpdiag.model import Citation, Problem, ProblemKind

_REMEMBERED = 262_144  # paths, as hashes


class Namespace:
    """`late` collects members that a link wants after they passed: path -> paths of the links."""

    def __init__(
        self, place: Place, wants: Callable[[str], object], limits: Limits, late: dict[str, tuple[str, ...]]
    ) -> None:
        self.place = place
        self._prefix = place.prefix
        self._remember = _REMEMBERED
        self._wants = wants
        self._links = Links(wants, limits)
        self._late = late
        self._passed: set[int] = set()
        self._given: set[int] = set()
        self._only_looked_at = ""  # the member at hand if nobody asked for it
        self.problems = Fold(apart=0)

    def interesting(self, path: str) -> bool:
        """Whether somebody wants the member, or its name says that it is an archive that we cannot open."""
        full = self._prefix + path
        if self._wants(full) or (self._links and self._links.wanted(full)):
            self._only_looked_at = ""
            return True
        if path.endswith(CLOSED_NAMES):
            self._only_looked_at = path
            return True
        if self._remember:
            self._remember -= 1
            self._passed.add(hash(full))
        return False

    def admitted(self, entries: Iterator[Entry | Problem]) -> Iterator[tuple[Entry, Place] | Problem]:
        """The files that are to be opened, and problems. Takes in links as they come."""
        for entry in entries:
            if isinstance(entry, Problem):
                yield entry
            elif entry.kind is EntryKind.FILE:
                place = self._place(entry)
                yield from self.problems.new()
                if place:
                    yield entry, place
            elif entry.kind is EntryKind.SPECIAL:
                self._refuse("device or FIFO", entry, "is a device or FIFO and was not read", hides=False)
            else:
                self.link(entry)
            yield from self.problems.new()
        yield from self.problems.rest()

    def link(self, entry: Entry) -> None:
        """Takes in a symbolic or hard link."""
        alias = self.place.prefix + entry.path
        found = [inside(entry.target)[0]] if entry.kind is EntryKind.HARDLINK else targets(entry.path, entry.target)
        for target in found:
            full = self.place.prefix + target
            trouble = self._links.add(alias, full)
            if trouble == "loop":
                self._note(
                    "links in a circle", Problem(Citation(alias), "is a link that leads back to itself", hides=False)
                )
            elif trouble:
                text = "holds more links than are followed (limits links, link_bytes)"
                self._note("links", Problem(Citation(self.place.path), text, ProblemKind.LIMIT, hides=True))
            elif hash(full) in self._passed and self._wants(alias):
                self._late[full] = (*self._late.get(full, ()), alias)

    def _place(self, entry: Entry) -> Place | None:
        full = self.place.prefix + entry.path
        wanted = entry.wanted and entry.path != self._only_looked_at
        if entry.leaves:
            self._refuse(
                "name outside the bundle", entry, "has a name that leaves the bundle and was not read", hides=wanted
            )
            return None
        if wanted:
            self._once(full)
        return self.place.member(full, self._links.wanted(full), entry.size, wanted=wanted)

    def _once(self, full: str) -> None:
        key = hash(full)
        if key in self._given:
            self._note(
                "more than once",
                Problem(Citation(full), "occurs more than once in the archive; all were read", hides=False),
            )
        elif len(self._given) < _REMEMBERED:
            self._given.add(key)

    def _refuse(self, subject: str, entry: Entry, text: str, *, hides: bool) -> None:
        self._note(subject, Problem(Citation(self.place.prefix + entry.path), text, ProblemKind.REFUSED, hides=hides))

    def _note(self, subject: str, problem: Problem) -> None:
        self.problems.add(subject, problem)
