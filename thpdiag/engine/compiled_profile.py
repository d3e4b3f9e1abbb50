"""A profile made ready for many questions: which frames belong to a family, which chains hold families in order.

Every name is tested once per profile; after that a question works on whole arrays of chains, never on samples one by
one (perf.md 5.3). Three answers are possible for a chain: it surely fits, it surely does not, or what the source does
not show (callers that were cut off, kernel functions without names) could make it fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thpdiag.engine.stacks import Place, function_families
from thpdiag.knowledge.symbols import families, is_idle_task, is_unresolved
from thpdiag.model import Measure, Profile, Rows, Stacks, Task
from thpdiag.model.profile import HIDDEN, UNKNOWN
from thpdiag.model.ragged import any_of

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Choice = tuple[str, ...]  # families, or `=name` for one function
Objects = tuple[re.Pattern[str] | None, ...]  # of the families of a choice

IDLE_HOST = 0.02  # of all CPU time; a fiftieth is what a host without load takes for itself


@dataclass(frozen=True, slots=True, eq=False)
class ChainMatches:
    """Per chain: `sure` ones match, `possible` ones may; `astray` ones may hold the function itself with other callers,
    `held` ones hold it for sure or are possible.

    What is sure is possible too.
    """

    sure: Bools
    possible: Bools
    astray: Bools
    held: Bools


# Families whose functions do the work themselves, a few of them most of it; below system calls anything may run.
CONCENTRATED = frozenset({
    "compaction", "compaction_alone", "compaction_helpers", "free_scanner", "zeroing", "spin_lock", "gc_user",
    "gc_work", "khugepaged", "kcompactd", "madvise_collapse", "migrate", "tlb_flush",
})  # fmt: skip
LARGEST_PART = 0.25  # of the work of such families, in their largest function at least
MIN_LISTED_ROWS = 5
MAIN_TASK = 0.6  # of what is listed, in tasks of one name


class GroupWeights(NamedTuple):
    """Weights of a group: what surely matched, may match, may be astray, is held (`Found`), and all of it."""

    group: str
    sure: float
    possible: float
    astray: float
    held: float
    weight: float


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Rows and the group that each belongs to."""

    rows: Rows
    group: Ints
    names: list[str]


@dataclass(frozen=True)
class CompiledProfile:
    """A profile with its frames' families and without idle rows."""

    profile: Profile
    _masks: dict[Choice, Bools] = field(default_factory=dict, repr=False)
    _places: dict[Choice, Ints] = field(default_factory=dict, repr=False)
    _veils: dict[Objects, Ints] = field(default_factory=dict, repr=False)

    @cached_property
    def members(self) -> tuple[frozenset[str], ...]:
        """The families of each frame."""
        return tuple(function_families(frame.name) for frame in self.profile.frames)

    @cached_property
    def rows(self) -> Rows:
        """Rows that are not idle (`thpdiag.knowledge.symbols.is_idle` of every frame and its task); of the time off
        the CPU those of tasks that did not wait for work."""
        profile, rows, idle = self.profile, self.profile.rows, families()["idle"]
        if profile.measures is Measure.OFF_CPU:
            return rows.only(~self.holding(("work_wait", "poll_wait", "futex"))[rows.chain])
        names, comms = [f.name for f in profile.frames], [t.comm for t in profile.tasks]
        halts, maybe, unnamed = (
            any_of(_marks(names, test)[profile.chains.frames], profile.chains.starts)
            for test in (idle.matches, idle.doubtful, is_unresolved)
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
        """Non-idle samples, None where the source has only percentages or times, and no total."""
        if self.profile.percent_only or self.profile.measures in (Measure.OFF_CPU, Measure.OTHER):
            return self.profile.total_samples
        return int(self.rows.samples.sum())

    @cached_property
    def idle_host(self) -> bool:
        """Whether the title of perf top says that hardly any CPU had anything to do: samples per second are far
        below the frequency times the number of CPUs."""
        told = self.profile.facts
        most = float(told.get("frequency", 0)) * float(told.get("cpus", 0))
        return "irqs_per_second" in told and float(told["irqs_per_second"]) < IDLE_HOST * most

    def share(self, family: str, *, without: Choice = ()) -> float:
        """Of the non-idle weight, what has a function of the family anywhere in its chain, and none of `without`."""
        inside = float(self.weights[self.holding((family,)) & ~self.holding(without)].sum())
        return inside / self.weight if self.weight > 0 else 0.0

    def share_bounds(self, family: str) -> tuple[float, float]:
        """That share, and what it may be if all that the source does not show is of the family."""
        possible = float(self.weights[self.find((family,), Place.ANYWHERE).possible].sum())
        most = (possible + self.profile.ledger.unlisted) / self.weight if self.weight > 0 else 1.0
        return self.share(family), most

    @cached_property
    def _listed(self) -> tuple[NDArray[np.float64], Ints]:
        """The weight of each row of a table, which is a function in a task, and by chain and task its number."""
        chains = self.profile.chains
        leaf = np.full(len(chains.starts) - 1, -1, np.int64)
        full = chains.starts[:-1] < chains.starts[1:]
        leaf[full] = chains.frames[chains.starts[:-1][full]]
        keys = self.rows.task.astype(np.int64) * (len(self.profile.frames) + 1) + leaf[self.rows.chain] + 1
        _, number = np.unique(keys, return_inverse=True)
        return np.bincount(number, self.rows.weight).astype(np.float64), number

    def hidden_weight(self, where: Choice, matched: Bools) -> float:
        """How much of what a table of percentages does not list may be of these families: their largest function has a
        quarter of their work, and each function that is not listed has less than the last one that is.

        All of it, where the families are none whose work is done in few functions, where the table is too short to be
        a list, or where many tasks share the work, for each of them has rows of its own.
        """
        unlisted = self.profile.ledger.unlisted
        if unlisted <= 0 or not CONCENTRATED.issuperset(where) or not len(self.rows):
            return unlisted
        weights, number = self._listed
        by_task = np.bincount(self.rows.task, self.rows.weight)
        if len(weights) < MIN_LISTED_ROWS or by_task.max() < MAIN_TASK * self.rows.weight.sum():
            return unlisted
        own = np.bincount(number, self.rows.weight * matched[self.rows.chain])
        largest = max(float(weights.min()), float(own.max()))
        return min(unlisted, max(0.0, largest / LARGEST_PART - float(own.sum())))

    def least_share(self, where: Sequence[Choice], only: Callable[[str], object] | None) -> tuple[float, int]:
        """Of the non-idle weight, what surely has functions of all these families in its chain, as far as a text
        without chains tells it by shares with callees; and the line of the first family's function.

        Two shares of a task overlap at least by what they exceed all that the task did. What the text does not list may
        be of any task.
        """
        source = self.profile
        if not source.inclusive or self.weight <= 0:
            return 0.0, 0
        most: dict[str, list[tuple[float, int]]] = {}
        for frame, comm, share, line in source.inclusive:
            if only is None or only(comm):
                found = most.setdefault(comm, [(0.0, 0)] * len(where))
                for place, choice in enumerate(where):
                    if not self.members[frame].isdisjoint(choice):
                        found[place] = max(found[place], (share, line))
        own = dict.fromkeys(most, source.ledger.unlisted)
        for task, weight in zip(self.rows.task.tolist(), self.rows.weight.tolist(), strict=True):
            if (comm := source.tasks[task].comm) in own:
                own[comm] += weight
        parts = {
            comm: sum(share for share, _ in found) - (len(where) - 1) * own[comm]
            for comm, found in most.items()
            if all(share for share, _ in found)
        }
        least = sum(max(0.0, part) for part in parts.values())
        return least / self.weight, most[max(parts, key=parts.__getitem__)][0][1] if least > 0 else 0

    def listed_share(self, where: Choice) -> float:
        """Of the non-idle weight, the most that the rows of these functions with callees can be together."""
        rows = self.profile.inclusive
        share = sum(row.share for row in rows if not self.members[row.frame].isdisjoint(where))
        return share / self.weight if self.weight > 0 else 0.0

    def running_functions(self, *, counted: bool) -> dict[str, tuple[float, int]]:
        """The functions that ran, with names: their share of all samples, idle ones too, and the rows that tell it.

        `counted`: each sample counts as one, whatever its period.
        """
        profile, rows, starts = self.profile, self.profile.rows, self.profile.chains.starts
        weight = rows.samples.astype(np.float64) if counted else rows.weight
        whole = float(weight.sum()) + profile.ledger.unlisted
        full = starts[:-1] < starts[1:]
        leaves = np.full(len(full), -1, np.int64)
        leaves[full] = profile.chains.frames[starts[:-1][full]]
        of = leaves[rows.chain]
        sums = np.bincount(of[of >= 0], weight[of >= 0], len(profile.frames))
        counts = np.bincount(of[of >= 0], minlength=len(profile.frames))
        found: dict[str, tuple[float, int]] = {}
        for number in np.flatnonzero(counts).tolist() if whole > 0 else ():
            name = profile.frames[number].name
            if not is_unresolved(name):
                share, lines = found.get(name, (0.0, 0))
                found[name] = share + float(sums[number]) / whole, lines + int(counts[number])
        return found

    def holding(self, choice: Choice) -> Bools:
        """The chains with a function of the choice anywhere."""
        return any_of(self._mask(choice)[self.profile.chains.frames], self.profile.chains.starts)

    def find(self, where: Choice, place: Place, *, under: Sequence[Choice] = (), never: Choice = ()) -> ChainMatches:
        """Chains that hold a function of `where` (as the running function: `Place.SELF`), called from `under` in order
        from the leaf outwards with gaps, and from none of `never`; of several such functions the innermost counts.

        What a chain hides (functions without names, callers that were cut off) may be any function: it is sure that the
        chain fits if it does whatever that is, and possible if it does for some of it.
        """
        begins, ends = self.profile.chains.starts[:-1], self.profile.chains.starts[1:]
        upto = np.minimum(ends, begins + 1) if place is Place.SELF else ends
        at = self._first(self._places_of(where), begins, upto)
        hit = at >= 0
        upto = np.where(hit, at, upto)
        veiled = self._first(self._unnamed_places(where), begins, upto)  # it may be the innermost one
        open_end = ((begins == ends) | (self._incomplete if place is Place.ANYWHERE else False)) & ~hit

        outermost = np.where(hit, at, self._last(self._unnamed_places(where), begins, upto))
        fits = self._fits_surely(outermost, np.where(veiled >= 0, veiled, at), under, never)
        if under or never:
            fits &= ~open_end

        innermost = np.maximum(begins, self._last(self._places_of(never), begins, ends))
        best = self._first(self._unnamed_places(where), innermost, upto)
        best = np.where((best < 0) & (at >= innermost), at, best)
        possible = open_end | ((best >= 0) & self._may_fit(best, under))
        return ChainMatches(hit & fits, possible, (hit | (veiled >= 0) | open_end) & ~fits, hit | possible)

    def sums(self, found: ChainMatches, grouping: Grouping) -> list[GroupWeights]:
        """What was found in each group."""
        if grouping.rows is self.rows and len(grouping.names) == 1:
            marks = (found.sure, found.possible, found.astray, found.held, slice(None))
            return [GroupWeights(grouping.names[0], *(float(self.weights[m].sum()) for m in marks))]
        if not grouping.names:
            return []
        rows, groups, chains = grouping.rows, len(grouping.names), len(found.sure)
        group, chain, weight = grouping.group, rows.chain, rows.weight
        if groups * chains < len(rows):  # many rows are added up once, not once per column
            weight = np.bincount(group * chains + chain, weight, groups * chains).astype(np.float64, copy=False)
            group, chain = np.divmod(np.arange(groups * chains), chains)
        columns = [
            np.bincount(group, np.where(m[chain], weight, 0.0), groups).tolist()
            for m in (found.sure, found.possible, found.astray, found.held, np.ones(chains, np.bool_))
        ]
        return [GroupWeights(name, *values) for name, *values in zip(grouping.names, *columns, strict=True)]

    def grouping(self, of: str, only: Callable[[str], object] | None = None) -> Grouping:
        """All rows as one group, or one per `comm`, `thread` or `cpu`. `only` picks commands."""
        rows = self.rows
        if only is not None:
            rows = rows.only(_marks((t.comm for t in self.profile.tasks), lambda comm: bool(only(comm)))[rows.task])
        return GROUPS[of](self.profile, rows) if of in GROUPS else Grouping(rows, np.zeros(len(rows), np.int64), [""])

    def heaviest(self, found: ChainMatches, grouping: Grouping, name: str) -> int | None:
        """The chain that gives most of what surely matched in a group."""
        rows, every = grouping.rows, self.weights
        if rows is not self.rows or len(grouping.names) > 1:
            every = self._weights(rows.only(grouping.group == grouping.names.index(name)))
        weights = np.where(found.sure, every, 0.0)
        return int(weights.argmax()) if len(weights) and weights.max() > 0 else None

    def _weights(self, rows: Rows) -> NDArray[np.float64]:
        return np.bincount(rows.chain, rows.weight, len(self.profile.chains)).astype(np.float64, copy=False)

    def _fits_surely(self, at: Ints, inner: Ints, under: Sequence[Choice], never: Choice) -> Bools:
        """Whether what is shown beyond `at` holds `under`, and nothing beyond `inner` can be of `never`."""
        ends = self.profile.chains.starts[1:]
        fits = np.ones(len(ends), np.bool_)
        for choice in under:
            at = self._first(self._places_of(choice), at + 1, ends)
            fits &= at >= 0
            at = np.where(at >= 0, at, ends)
        if never:
            for places in (self._places_of(never), self._unnamed_places(never)):
                fits &= self._first(places, inner + 1, ends) < 0
            fits &= ~self._incomplete
        return fits

    def _may_fit(self, at: Ints, under: Sequence[Choice]) -> Bools:
        """Whether what is beyond `at` can hold `under`; of a kernel without names all functions are one frame."""
        ends = self.profile.chains.starts[1:]
        fits = np.ones(len(ends), np.bool_)
        for choice in under:
            named = self._first(self._places_of(choice), at + 1, ends)
            veiled = self._first(self._unnamed_places(choice), np.where(self._is_joined(at), at, at + 1), ends)
            at = np.where((named < 0) | ((veiled >= 0) & (veiled < named)), veiled, named)
            fits &= at >= 0
            at = np.where(at >= 0, at, ends)
        return fits | self._incomplete

    def _is_joined(self, at: Ints) -> Bools:
        """Whether the frame at a place stands for any number of functions that call each other."""
        joined = self._nameless
        if not self.profile.facts.get("symbols", "").startswith("none"):
            joined = tuple(frame.dso == HIDDEN for frame in self.profile.frames)
        if not any(joined) or not len(self.profile.chains.frames):
            return np.zeros(len(at), np.bool_)
        inside = (at >= 0) & (at < len(self.profile.chains.frames))
        return inside & np.array(joined, np.bool_)[self.profile.chains.frames[np.where(inside, at, 0)]]

    def _first(self, places: Ints, low: Ints, high: Ints) -> Ints:
        """The first of the places from `low` up to `high` in each chain, -1 if there is none."""
        if not len(places):
            return np.full(len(low), -1, np.int64)
        found = places[np.minimum(np.searchsorted(places, low), len(places) - 1)]
        return np.where((found >= low) & (found < high), found, -1)

    def _last(self, places: Ints, low: Ints, high: Ints) -> Ints:
        """The last of the places from `low` up to `high` in each chain, -1 if there is none."""
        if not len(places):
            return np.full(len(low), -1, np.int64)
        found = places[np.maximum(np.searchsorted(places, high) - 1, 0)]
        return np.where((found >= low) & (found < high), found, -1)

    def _places_of(self, choice: Choice) -> Ints:
        """Where in the flat array of frames the choice is."""
        places = self._places.get(choice)
        if places is None:
            places = self._places[choice] = np.flatnonzero(self._mask(choice)[self.profile.chains.frames])
        return places

    def _unnamed_places(self, choice: Choice) -> Ints:
        """Where it holds frames without a name that might be of the choice."""
        objects = tuple((family.objects if (family := families().get(name)) else None) for name in choice)
        places = self._veils.get(objects)
        if places is None:
            # Frames without a name that might be of families in these objects; None stands for the kernel
            known = [o for o in objects if o is not None]
            veil = np.fromiter(
                (
                    nameless and ((None in objects and frame.kernel is True) or any(o.search(frame.dso) for o in known))
                    for frame, nameless in zip(self.profile.frames, self._nameless, strict=True)
                ),
                np.bool_,
                len(self.profile.frames),
            )
            places = np.flatnonzero(veil[self.profile.chains.frames]) if veil.any() else np.zeros(0, np.int64)
            self._veils[objects] = places
        return places

    def _mask(self, choice: Choice) -> Bools:
        """The frames that belong to the choice."""
        mask = self._masks.get(choice)
        if mask is None:
            mask = np.fromiter((not m.isdisjoint(choice) for m in self.members), np.bool_, len(self.members))
            self._masks[choice] = mask
        return mask

    @cached_property
    def _nameless(self) -> tuple[bool, ...]:
        return tuple(is_unresolved(frame.name) for frame in self.profile.frames)

    @cached_property
    def _incomplete(self) -> Bools:
        """Chains whose callers the source does not show, or not all of them that run in the kernel."""
        profile, starts = self.profile, self.profile.chains.starts
        lengths = np.diff(starts)
        if profile.stacks is Stacks.NONE:
            return np.ones(len(lengths), np.bool_)
        short = lengths <= (1 if profile.stacks is Stacks.PARTIAL else -1)
        if profile.chains.cut is not None:
            program = np.fromiter((f.kernel is False for f in profile.frames), np.bool_, len(profile.frames))
            cut = np.flatnonzero(profile.chains.cut & (lengths > 0))
            short[cut] |= ~program[profile.chains.frames[starts[cut + 1] - 1]]
        return short


def _marks(texts: Iterable[str], test: Callable[[str], bool]) -> Bools:
    return np.fromiter((test(text) for text in texts), np.bool_)


def _group_by(label: Callable[[Task], str]) -> Callable[[Profile, Rows], Grouping]:
    """Groups of tasks."""

    def group_tasks(profile: Profile, rows: Rows) -> Grouping:
        numbers: dict[str, int] = {}
        of = np.fromiter((numbers.setdefault(label(t), len(numbers)) for t in profile.tasks), np.int64)
        return Grouping(rows, of[rows.task], list(numbers))

    return group_tasks


def _by_cpu(_profile: Profile, rows: Rows) -> Grouping:
    """Groups of CPUs; none where a row does not tell its CPU, which leaves the answer open."""
    numbers, groups = np.unique(rows.cpu, return_inverse=True)
    if UNKNOWN in numbers:
        return Grouping(rows, np.zeros(len(rows), np.int64), [])
    return Grouping(rows, groups.astype(np.int64), [f"CPU {number}" for number in numbers.tolist()])


def _thread(task: Task) -> str:
    return f"{task.comm} ({task.tid if task.tid is not None else task.pid})"


GROUPS = {"comm": _group_by(lambda task: task.comm), "thread": _group_by(_thread), "cpu": _by_cpu}
