"""Symbol families on call stacks: which frames belong, and whether families stand in order with gaps.

A profile is compiled once: for every unique frame the families it belongs to; per stack the check walks integers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from thpdiag.knowledge.symbols import families_of, is_idle, normalise
from thpdiag.model import Profile, ProfileRow

Wanted = Sequence[Sequence[str]]  # one entry per place from the leaf outwards; each a choice of families


@lru_cache(maxsize=65536)
def member_of(name: str) -> frozenset[str]:
    """The families a function name belongs to.

    The name itself counts as a family (`=name`), so that rules may name one.
    """
    plain = normalise(name)
    return frozenset(families_of(plain)) | {f"={plain}"}


def in_order(names: Sequence[str], wanted: Wanted) -> bool:
    """Whether frames (leaf first) hold one of each wanted choice, in order from the leaf outwards, gaps allowed."""
    at = 0
    for name in names:
        if at < len(wanted) and not member_of(name).isdisjoint(wanted[at]):
            at += 1
    return at >= len(wanted)


IDLE_HOST = 0.02  # of all CPU time; a fiftieth is what a host without load takes for itself


@dataclass(frozen=True)
class Compiled:
    """A profile with its frames' families and without idle rows."""

    profile: Profile

    @cached_property
    def families(self) -> tuple[frozenset[str], ...]:
        return tuple(member_of(frame.name) for frame in self.profile.frames)

    @cached_property
    def rows(self) -> tuple[ProfileRow, ...]:
        """Rows that are not idle."""
        return tuple(row for row in self.profile.rows if not self._idle(row))

    @cached_property
    def weight(self) -> float:
        """Non-idle weight, with what a percent source does not list."""
        return sum(row.weight for row in self.rows) + self.profile.ledger.unlisted

    @cached_property
    def samples(self) -> int | None:
        """Non-idle samples, None where the source has only percentages and no total."""
        if self.profile.percent_only:
            return self.profile.total_samples
        return sum(row.samples for row in self.rows)

    @cached_property
    def idle_host(self) -> bool:
        """Whether the title of perf top says that hardly any CPU had anything to do: samples per second are far
        below the frequency times the number of CPUs."""
        told = self.profile.facts
        most = float(told.get("frequency", 0)) * float(told.get("cpus", 0))
        return "irqs_per_second" in told and float(told["irqs_per_second"]) < IDLE_HOST * most

    def _idle(self, row: ProfileRow) -> bool:
        return any(is_idle(self.profile.frames[i].name, row.comm) for i in row.stack)

    def leaf(self, row: ProfileRow, choice: Sequence[str]) -> bool:
        return bool(row.stack) and not self.families[row.stack[0]].isdisjoint(choice)

    def place(self, row: ProfileRow, choice: Sequence[str]) -> int | None:
        """The place (0 = leaf) of the innermost frame of the choice."""
        return next((i for i, f in enumerate(row.stack) if not self.families[f].isdisjoint(choice)), None)

    def ordered(self, row: ProfileRow, start: int, wanted: Wanted) -> bool:
        """Whether callers beyond `start` hold the wanted choices in order."""
        at = 0
        for frame in row.stack[start:]:
            if at < len(wanted) and not self.families[frame].isdisjoint(wanted[at]):
                at += 1
        return at >= len(wanted)

    def any_caller(self, row: ProfileRow, start: int, choice: Sequence[str]) -> bool:
        return any(not self.families[frame].isdisjoint(choice) for frame in row.stack[start:])

    def shown(self, row: ProfileRow, most: int = 6) -> str:
        """The stack as `leaf < caller < ...` for people, shortened in the middle."""
        names = [self.profile.frames[i].name for i in row.stack]
        if len(names) > most:
            names = [*names[: most - 2], "...", *names[-1:]]
        return " < ".join(names)


_COMPILED: dict[int, Compiled] = {}  # by identity: profiles are large, hashing one costs more than compiling it
MOST_KEPT = 64


def compiled(profile: Profile) -> Compiled:
    """The compiled form, kept for the profiles seen last."""
    kept = _COMPILED.get(id(profile))
    if kept is None or kept.profile is not profile:
        if len(_COMPILED) >= MOST_KEPT:
            _COMPILED.clear()
        kept = _COMPILED[id(profile)] = Compiled(profile)
    return kept
