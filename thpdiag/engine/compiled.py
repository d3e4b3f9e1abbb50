"""A profile made ready for many questions: which frames belong to a family, which chains hold families in order.

Every name is tested once per profile; after that a question works on whole arrays of chains, never on samples one by
one (perf.md 5.3). Three answers are possible for a chain: it surely fits, it surely does not, or what the source does
not show (callers that were cut off, kernel functions without names) could make it fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from thpdiag.engine.stacks import Place, member_of
from thpdiag.knowledge.symbols import families, is_idle_task, unresolved
from thpdiag.model import Profile, Rows, Stacks, Task
from thpdiag.model.profile import UNKNOWN
from thpdiag.ragged import any_of, starts_of

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Choice = tuple[str, ...]  # families, or `=name` for one function

IDLE_HOST = 0.02  # of all CPU time; a fiftieth is what a host without load takes for itself


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Per chain: `sure` ones match, `possible` ones may, `named` ones hold the function itself (or may), callers aside.

    What is sure is possible too.
    """

    sure: Bools
    possible: Bools
    named: Bools


@dataclass(frozen=True, slots=True)
class Sums:
    """Weights of a group: what surely matched, may match, is named (`Found`), and all of it."""

    group: str
    sure: float
    possible: float
    named: float
    weight: float


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Rows and the group that each belongs to."""

    rows: Rows
    group: Ints
    names: list[str]


@dataclass(frozen=True)
class Compiled:
    """A profile with its frames' families and without idle rows."""

    profile: Profile
    _masks: dict[Choice, Bools] = field(default_factory=dict, repr=False)
    _places: dict[Choice, Ints] = field(default_factory=dict, repr=False)

    @cached_property
    def members(self) -> tuple[frozenset[str], ...]:
        """The families of each frame."""
        return tuple(member_of(frame.name) for frame in self.profile.frames)

    @cached_property
    def rows(self) -> Rows:
        """Rows that are not idle (`thpdiag.knowledge.symbols.is_idle` of every frame and its task)."""
        profile, rows, idle = self.profile, self.profile.rows, families()["idle"]
        names, comms = [f.name for f in profile.frames], [t.comm for t in profile.tasks]
        halts, maybe, unnamed = (
            any_of(_marks(names, test)[profile.chains.frames], profile.chains.starts)
            for test in (idle.matches, idle.doubtful, unresolved)
        )
        idler, swapper = _marks(comms, is_idle_task), _marks(comms, lambda comm: comm.startswith("swapper"))
        chain, task = rows.chain, rows.task
        doubt = maybe[chain] | (swapper[task] & unnamed[chain])
        return rows.only(~(halts[chain] | (idler[task] & doubt)))

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Non-idle weight of each chain."""
        return self._weights(self.rows)

    @cached_property
    def weight(self) -> float:
        """Non-idle weight, with what a percent source does not list."""
        return float(self.rows.weight.sum()) + self.profile.ledger.unlisted

    @cached_property
    def samples(self) -> int | None:
        """Non-idle samples, None where the source has only percentages and no total."""
        if self.profile.percent_only:
            return self.profile.total_samples
        return int(self.rows.samples.sum())

    @cached_property
    def idle_host(self) -> bool:
        """Whether the title of perf top says that hardly any CPU had anything to do: samples per second are far
        below the frequency times the number of CPUs."""
        told = self.profile.facts
        most = float(told.get("frequency", 0)) * float(told.get("cpus", 0))
        return "irqs_per_second" in told and float(told["irqs_per_second"]) < IDLE_HOST * most

    def share(self, family: str) -> float:
        """Of the non-idle weight, what has a function of the family anywhere in its chain."""
        inside = float(self.weights[self.holding((family,))].sum())
        return inside / self.weight if self.weight > 0 else 0.0

    def holding(self, choice: Choice) -> Bools:
        """The chains with a function of the choice anywhere."""
        return any_of(self._mask(choice)[self.profile.chains.frames], self.profile.chains.starts)

    def find(self, where: Choice, place: Place, *, under: Sequence[Choice] = (), never: Choice = ()) -> Found:
        """Chains that hold a function of `where` (as the running function: `Place.SELF`), called from `under` in order
        from the leaf outwards with gaps, and from none of `never`."""
        begins, ends = self.profile.chains.starts[:-1], self.profile.chains.starts[1:]
        upto = np.minimum(ends, begins + 1) if place is Place.SELF else ends
        at = self._first(where, begins, upto)
        hit = at >= 0
        doubt = (begins == ends) | self._veiled(where, begins, upto)
        if place is Place.ANYWHERE:
            doubt |= self._short
        doubt &= ~hit
        yes, no = self._callers(np.where(hit, at + 1, ends), under, never)
        return Found(hit & yes, doubt | (hit & ~no), hit | doubt)

    def sums(self, found: Found, grouping: Grouping) -> list[Sums]:
        """What was found in each group."""
        if grouping.rows is self.rows and len(grouping.names) == 1:
            marks = (found.sure, found.possible, found.named, slice(None))
            return [Sums(grouping.names[0], *(float(self.weights[m].sum()) for m in marks))]
        if not grouping.names:
            return []
        rows = grouping.rows
        columns = [
            np.bincount(grouping.group, np.where(m[rows.chain], rows.weight, 0.0), len(grouping.names)).tolist()
            for m in (found.sure, found.possible, found.named, np.ones(len(found.sure), np.bool_))
        ]
        return [Sums(name, *values) for name, *values in zip(grouping.names, *columns, strict=True)]

    def grouping(self, of: str, only: Callable[[str], object] | None = None) -> Grouping:
        """All rows as one group, or one per `comm`, `thread` or `cpu`. `only` picks commands."""
        rows = self.rows
        if only is not None:
            rows = rows.only(_marks((t.comm for t in self.profile.tasks), lambda comm: bool(only(comm)))[rows.task])
        return GROUPS[of](self.profile, rows) if of in GROUPS else Grouping(rows, np.zeros(len(rows), np.int64), [""])

    def pairs(self, grouping: Grouping) -> Iterator[tuple[int, int, float]]:
        """Chain, number of the group and weight of all that occur together."""
        rows, count = grouping.rows, max(1, len(self.profile.chains))
        keys, places = np.unique(grouping.group * count + rows.chain, return_inverse=True)
        weights = np.bincount(places, rows.weight, len(keys)).tolist()
        yield from zip((keys % count).tolist(), (keys // count).tolist(), weights, strict=True)

    def heaviest(self, found: Found, grouping: Grouping, name: str) -> int | None:
        """The chain that gives most of what surely matched in a group."""
        rows = grouping.rows
        if rows is not self.rows or len(grouping.names) > 1:
            rows = rows.only(grouping.group == grouping.names.index(name))
        weights = np.where(found.sure, self._weights(rows), 0.0)
        return int(weights.argmax()) if len(weights) and weights.max() > 0 else None

    def _weights(self, rows: Rows) -> NDArray[np.float64]:
        return np.bincount(rows.chain, rows.weight, len(self.profile.chains)).astype(np.float64, copy=False)

    def _callers(self, beyond: Ints, under: Sequence[Choice], never: Choice) -> tuple[Bools, Bools]:
        """Whether the callers from `beyond` on surely fit, and whether they surely do not."""
        ends = self.profile.chains.starts[1:]
        fits, start = np.ones(len(ends), np.bool_), beyond
        if not under and not never:
            return fits, ~fits
        for choice in under:
            at = self._first(choice, start, ends)
            fits &= at >= 0
            start = np.where(at >= 0, at + 1, ends)
        dark = self._short | self._veiled(tuple(f for choice in (*under, never) for f in choice), beyond, ends)
        barred = self._first(never, beyond, ends) >= 0
        yes = fits & ~barred & ~dark if never else fits
        return yes, barred | ~(fits | dark)

    def _first(self, choice: Choice, low: Ints, high: Ints) -> Ints:
        """The place of the innermost frame of the choice from `low` up to `high` in each chain, -1 if there is none."""
        places = self._places.get(choice)
        if places is None:
            places = self._places[choice] = np.flatnonzero(self._mask(choice)[self.profile.chains.frames])
        if not len(places):
            return np.full(len(low), -1, np.int64)
        found = places[np.minimum(np.searchsorted(places, low), len(places) - 1)]
        return np.where((found >= low) & (found < high), found, -1)

    def _mask(self, choice: Choice) -> Bools:
        """The frames that belong to the choice."""
        mask = self._masks.get(choice)
        if mask is None:
            mask = np.fromiter((not m.isdisjoint(choice) for m in self.members), np.bool_, len(self.members))
            self._masks[choice] = mask
        return mask

    def _veiled(self, choice: Choice, low: Ints, high: Ints) -> Bools:
        """Whether a frame from `low` up to `high` has no name and might be of the choice."""
        veil = self._veil(choice)
        if not veil.any():
            return np.zeros(len(low), np.bool_)
        counts = starts_of(veil[self.profile.chains.frames])
        found: Bools = np.greater(counts[np.maximum(high, low)], counts[low])
        return found

    def _veil(self, choice: Choice) -> Bools:
        """Frames without a name that might be of the choice: any of the kernel, unless the choice is of programs."""
        known = [families().get(name) for name in choice]
        kernel = any(family is None or not family.objects for family in known)
        objects = [family.objects for family in known if family and family.objects]
        return np.fromiter(
            (
                nameless and ((kernel and frame.kernel is True) or any(o.search(frame.dso) for o in objects))
                for frame, nameless in zip(self.profile.frames, self._nameless, strict=True)
            ),
            np.bool_,
            len(self.profile.frames),
        )

    @cached_property
    def _nameless(self) -> tuple[bool, ...]:
        return tuple(unresolved(frame.name) for frame in self.profile.frames)

    @cached_property
    def _short(self) -> Bools:
        """Chains whose callers the source does not show, or not all of them that run in the kernel."""
        profile, starts = self.profile, self.profile.chains.starts
        lengths = np.diff(starts)
        if profile.stacks is Stacks.NONE:
            return np.ones(len(lengths), np.bool_)
        if profile.stacks is Stacks.PARTIAL:
            return lengths <= 1
        short = np.zeros(len(lengths), np.bool_)
        if profile.chains.cut is not None:
            program = np.fromiter((f.kernel is False for f in profile.frames), np.bool_, len(profile.frames))
            cut = np.flatnonzero(profile.chains.cut & (lengths > 0))
            short[cut] = ~program[profile.chains.frames[starts[cut + 1] - 1]]
        return short


def _marks(texts: Iterable[str], test: Callable[[str], bool]) -> Bools:
    return np.fromiter((test(text) for text in texts), np.bool_)


def _by(label: Callable[[Task], str]) -> Callable[[Profile, Rows], Grouping]:
    """Groups of tasks."""

    def grouped(profile: Profile, rows: Rows) -> Grouping:
        numbers: dict[str, int] = {}
        of = np.fromiter((numbers.setdefault(label(t), len(numbers)) for t in profile.tasks), np.int64)
        return Grouping(rows, of[rows.task], list(numbers))

    return grouped


def _by_cpu(_profile: Profile, rows: Rows) -> Grouping:
    """Groups of CPUs; none where a row does not tell its CPU, which leaves the answer open."""
    numbers, groups = np.unique(rows.cpu, return_inverse=True)
    if UNKNOWN in numbers:
        return Grouping(rows, np.zeros(len(rows), np.int64), [])
    return Grouping(rows, groups.astype(np.int64), [f"CPU {number}" for number in numbers.tolist()])


def _thread(task: Task) -> str:
    return f"{task.comm} ({task.tid if task.tid is not None else task.pid})"


GROUPS = {"comm": _by(lambda task: task.comm), "thread": _by(_thread), "cpu": _by_cpu}
