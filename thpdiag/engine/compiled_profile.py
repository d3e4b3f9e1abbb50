"""A profile prepared for many queries: the families of each frame, and the chains that contain families in order.

Every name is tested once per profile. After that a query works on arrays of all chains, never on single samples
(perf.md 5.3). A chain has one of three answers: it certainly matches, it certainly does not, or it may match because of
what the source does not show (callers that were cut off, kernel functions without names).
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
ObjectPatterns = tuple[re.Pattern[str] | None, ...]  # patterns of the objects of each family in a choice

MAX_IDLE_LOAD = 0.02  # of all CPU time: a host without load uses about this much


@dataclass(frozen=True, slots=True, eq=False)
class ChainMatches:
    """One value per chain: `sure` ones match, `possible` ones (which include them) may match.

    `astray` ones may have the function itself, but with other callers. `held` ones certainly have it, or are possible.
    """

    sure: Bools
    possible: Bools
    astray: Bools
    held: Bools


# Families in which a few functions do most of the work themselves. In system calls, any function may run.
CONCENTRATED = frozenset({
    "compaction", "compaction_alone", "compaction_helpers", "free_scanner", "zeroing", "spin_lock", "gc_user",
    "gc_work", "khugepaged", "kcompactd", "madvise_collapse", "migrate", "tlb_flush",
})  # fmt: skip
MIN_LARGEST_PART = 0.25  # of the work of such a family: its largest function has at least this part
MIN_LISTED_ROWS = 5
MIN_MAIN_TASK_SHARE = 0.6  # of the listed weight: in tasks of one name


class GroupWeights(NamedTuple):
    """Weights of a group: the four kinds of `ChainMatches`, and the total."""

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
    """A profile with the families of its frames and without idle rows."""

    profile: Profile
    _masks: dict[Choice, Bools] = field(default_factory=dict, repr=False)
    _positions: dict[Choice, Ints] = field(default_factory=dict, repr=False)
    _unnamed: dict[ObjectPatterns, Ints] = field(default_factory=dict, repr=False)

    @cached_property
    def members(self) -> tuple[frozenset[str], ...]:
        """The families of each frame."""
        return tuple(function_families(frame.name) for frame in self.profile.frames)

    @cached_property
    def rows(self) -> Rows:
        """The rows that are not idle: no frame and no task is (`thpdiag.knowledge.symbols.is_idle`). Of off-CPU
        time, the rows of tasks that did not wait for work."""
        profile, rows, idle = self.profile, self.profile.rows, families()["idle"]
        if profile.measures is Measure.OFF_CPU:
            return rows.only(~self.chains_with(("work_wait", "poll_wait", "futex"))[rows.chain])
        names, comms = [f.name for f in profile.frames], [t.comm for t in profile.tasks]
        is_idle, may_be_idle, is_unnamed = (
            any_of(_test_all(names, test)[profile.chains.frames], profile.chains.starts)
            for test in (idle.matches, idle.doubtful, is_unresolved)
        )
        is_idler, swapper = (_test_all(comms, is_idle_task), _test_all(comms, lambda comm: comm.startswith("swapper")))
        chain, task = rows.chain, rows.task
        is_doubtful = may_be_idle[chain] | (swapper[task] & is_unnamed[chain])
        return rows.only(~(is_idle[chain] | (is_idler[task] & is_doubtful)))

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """The non-idle weight of each chain."""
        return self._weights(self.rows)

    @cached_property
    def weight(self) -> float:
        """The non-idle weight, including what a source of percentages does not list."""
        return float(self.rows.weight.sum()) + self.profile.ledger.unlisted

    @cached_property
    def samples(self) -> int | None:
        """The number of non-idle samples; None if the source has only percentages or times, and no total."""
        if self.profile.percent_only or self.profile.measures in (Measure.OFF_CPU, Measure.OTHER):
            return self.profile.total_samples
        return int(self.rows.samples.sum())

    @cached_property
    def is_idle_host(self) -> bool:
        """Whether the header of perf top shows an idle host: far fewer samples per second than frequency times CPUs."""
        facts = self.profile.facts
        max_rate = float(facts.get("frequency", 0)) * float(facts.get("cpus", 0))
        return "irqs_per_second" in facts and float(facts["irqs_per_second"]) < MAX_IDLE_LOAD * max_rate

    def share(self, family: str, *, without: Choice = ()) -> float:
        """Return the share of the non-idle weight in chains with a function of the family, and with none of
        `without`."""
        inside = float(self.weights[self.chains_with((family,)) & ~self.chains_with(without)].sum())
        return inside / self.weight if self.weight > 0 else 0.0

    def share_bounds(self, family: str) -> tuple[float, float]:
        """Return that share, and its maximum if everything that the source does not show is of the family."""
        possible = float(self.weights[self.find((family,), Place.ANYWHERE).possible].sum())
        upper = (possible + self.profile.ledger.unlisted) / self.weight if self.weight > 0 else 1.0
        return self.share(family), upper

    @cached_property
    def _table_rows(self) -> tuple[NDArray[np.float64], Ints]:
        """The weight of each row of a table (a function in a task), and the number of its row for each profile row."""
        chains = self.profile.chains
        leaf = np.full(len(chains.starts) - 1, -1, np.int64)
        full = chains.starts[:-1] < chains.starts[1:]
        leaf[full] = chains.frames[chains.starts[:-1][full]]
        keys = self.rows.task.astype(np.int64) * (len(self.profile.frames) + 1) + leaf[self.rows.chain] + 1
        _, number = np.unique(keys, return_inverse=True)
        return np.bincount(number, self.rows.weight).astype(np.float64), number

    def hidden_weight(self, where: Choice, matched: Bools) -> float:
        """Return how much of the weight that a table of percentages does not list may be of these families.

        Their largest function has a quarter of their work, and each unlisted function has less weight than the last
        listed one. All unlisted weight may be of them if the families have no such concentration, the table is too
        short, or many tasks share the work, because each task has rows of its own.
        """
        unlisted = self.profile.ledger.unlisted
        if unlisted <= 0 or not CONCENTRATED.issuperset(where) or not len(self.rows):
            return unlisted
        weights, number = self._table_rows
        by_task = np.bincount(self.rows.task, self.rows.weight)
        if len(weights) < MIN_LISTED_ROWS or by_task.max() < MIN_MAIN_TASK_SHARE * self.rows.weight.sum():
            return unlisted
        matched_weights = np.bincount(number, self.rows.weight * matched[self.rows.chain])
        largest = max(float(weights.min()), float(matched_weights.max()))
        return min(unlisted, max(0.0, largest / MIN_LARGEST_PART - float(matched_weights.sum())))

    def min_share(self, where: Sequence[Choice], only: Callable[[str], object] | None) -> tuple[float, int]:
        """Return the minimum share of the non-idle weight in chains with functions of all these families, for a text
        without chains that has shares with callees. Also return the line of the first family's function.

        Two shares of a task overlap at least by the excess of their sum over the task's total. Unlisted weight may be
        of any task.
        """
        source = self.profile
        if not source.inclusive or self.weight <= 0:
            return 0.0, 0
        shares_by_comm: dict[str, list[tuple[float, int]]] = {}
        for frame, comm, share, line in source.inclusive:
            if only is None or only(comm):
                shares = shares_by_comm.setdefault(comm, [(0.0, 0)] * len(where))
                for i, choice in enumerate(where):
                    if not self.members[frame].isdisjoint(choice):
                        shares[i] = max(shares[i], (share, line))
        totals = dict.fromkeys(shares_by_comm, source.ledger.unlisted)
        for task, weight in zip(self.rows.task.tolist(), self.rows.weight.tolist(), strict=True):
            if (comm := source.tasks[task].comm) in totals:
                totals[comm] += weight
        overlaps = {
            comm: sum(share for share, _ in shares) - (len(where) - 1) * totals[comm]
            for comm, shares in shares_by_comm.items()
            if all(share for share, _ in shares)
        }
        total = sum(max(0.0, part) for part in overlaps.values())
        return total / self.weight, shares_by_comm[max(overlaps, key=overlaps.__getitem__)][0][1] if total > 0 else 0

    def listed_share(self, where: Choice) -> float:
        """Return the largest possible share of the rows of these functions with callees."""
        rows = self.profile.inclusive
        share = sum(row.share for row in rows if not self.members[row.frame].isdisjoint(where))
        return share / self.weight if self.weight > 0 else 0.0

    def running_functions(self, *, counted: bool) -> dict[str, tuple[float, int]]:
        """Return the share of all samples (idle ones too) of each named leaf function, and its number of rows. With
        `counted`, each sample counts as one, whatever its period."""
        profile, rows, starts = self.profile, self.profile.rows, self.profile.chains.starts
        weight = rows.samples.astype(np.float64) if counted else rows.weight
        total = float(weight.sum()) + profile.ledger.unlisted
        full = starts[:-1] < starts[1:]
        leaves = np.full(len(full), -1, np.int64)
        leaves[full] = profile.chains.frames[starts[:-1][full]]
        leaf = leaves[rows.chain]
        sums = np.bincount(leaf[leaf >= 0], weight[leaf >= 0], len(profile.frames))
        counts = np.bincount(leaf[leaf >= 0], minlength=len(profile.frames))
        functions: dict[str, tuple[float, int]] = {}
        for number in np.flatnonzero(counts).tolist() if total > 0 else ():
            name = profile.frames[number].name
            if not is_unresolved(name):
                share, lines = functions.get(name, (0.0, 0))
                functions[name] = share + float(sums[number]) / total, lines + int(counts[number])
        return functions

    def chains_with(self, choice: Choice) -> Bools:
        """Mark the chains with a function of the choice anywhere."""
        return any_of(self._mask(choice)[self.profile.chains.frames], self.profile.chains.starts)

    def find(self, where: Choice, place: Place, *, under: Sequence[Choice] = (), never: Choice = ()) -> ChainMatches:
        """Find the chains with a function of `where`, called from `under` and not from `never`.

        The function may be anywhere, or must be the running one (`Place.SELF`). `under` must follow in order from the
        leaf outwards; other frames may be between. Of several such functions the innermost counts.

        Hidden frames (functions without names, callers that were cut off) may be any function: a chain is sure if it
        matches whatever they are, and possible if it matches for some of them.
        """
        begins, ends = self.profile.chains.starts[:-1], self.profile.chains.starts[1:]
        limit = np.minimum(ends, begins + 1) if place is Place.SELF else ends
        position = self._first(self._positions_of(where), begins, limit)
        is_found = position >= 0
        limit = np.where(is_found, position, limit)
        hidden = self._first(self._unnamed_positions(where), begins, limit)  # may be the innermost match
        open_end = ((begins == ends) | (self._incomplete if place is Place.ANYWHERE else False)) & ~is_found

        outermost = np.where(is_found, position, self._last(self._unnamed_positions(where), begins, limit))
        is_match = self._surely_fits(outermost, np.where(hidden >= 0, hidden, position), under, never)
        if under or never:
            is_match &= ~open_end

        innermost = np.maximum(begins, self._last(self._positions_of(never), begins, ends))
        candidate = self._first(self._unnamed_positions(where), innermost, limit)
        candidate = np.where((candidate < 0) & (position >= innermost), position, candidate)
        possible = open_end | ((candidate >= 0) & self._may_fit(candidate, under))
        return ChainMatches(
            is_found & is_match, possible, (is_found | (hidden >= 0) | open_end) & ~is_match, is_found | possible
        )

    def sums(self, matches: ChainMatches, grouping: Grouping) -> list[GroupWeights]:
        """Return the weights of the matches in each group."""
        if grouping.rows is self.rows and len(grouping.names) == 1:
            marks = (matches.sure, matches.possible, matches.astray, matches.held, slice(None))
            return [GroupWeights(grouping.names[0], *(float(self.weights[m].sum()) for m in marks))]
        if not grouping.names:
            return []
        rows, groups, chains = grouping.rows, len(grouping.names), len(matches.sure)
        group, chain, weight = grouping.group, rows.chain, rows.weight
        if groups * chains < len(rows):  # sum many rows once instead of once per column
            weight = np.bincount(group * chains + chain, weight, groups * chains).astype(np.float64, copy=False)
            group, chain = np.divmod(np.arange(groups * chains), chains)
        columns = [
            np.bincount(group, np.where(m[chain], weight, 0.0), groups).tolist()
            for m in (matches.sure, matches.possible, matches.astray, matches.held, np.ones(chains, np.bool_))
        ]
        return [GroupWeights(name, *values) for name, *values in zip(grouping.names, *columns, strict=True)]

    def grouping(self, of: str, only: Callable[[str], object] | None = None) -> Grouping:
        """Return all rows as one group, or one group per `comm`, `thread` or `cpu`. `only` filters commands."""
        rows = self.rows
        if only is not None:
            rows = rows.only(_test_all((t.comm for t in self.profile.tasks), lambda comm: bool(only(comm)))[rows.task])
        return GROUPS[of](self.profile, rows) if of in GROUPS else Grouping(rows, np.zeros(len(rows), np.int64), [""])

    def heaviest(self, matches: ChainMatches, grouping: Grouping, name: str) -> int | None:
        """Return the chain with the largest weight of sure matches in a group."""
        rows, chain_weights = grouping.rows, self.weights
        if rows is not self.rows or len(grouping.names) > 1:
            chain_weights = self._weights(rows.only(grouping.group == grouping.names.index(name)))
        weights = np.where(matches.sure, chain_weights, 0.0)
        return int(weights.argmax()) if len(weights) and weights.max() > 0 else None

    def _weights(self, rows: Rows) -> NDArray[np.float64]:
        return np.bincount(rows.chain, rows.weight, len(self.profile.chains)).astype(np.float64, copy=False)

    def _surely_fits(self, position: Ints, inner: Ints, under: Sequence[Choice], never: Choice) -> Bools:
        """Whether the visible frames after `position` contain `under`, and none after `inner` can be of `never`."""
        ends = self.profile.chains.starts[1:]
        is_match = np.ones(len(ends), np.bool_)
        for choice in under:
            position = self._first(self._positions_of(choice), position + 1, ends)
            is_match &= position >= 0
            position = np.where(position >= 0, position, ends)
        if never:
            for positions in (self._positions_of(never), self._unnamed_positions(never)):
                is_match &= self._first(positions, inner + 1, ends) < 0
            is_match &= ~self._incomplete
        return is_match

    def _may_fit(self, position: Ints, under: Sequence[Choice]) -> Bools:
        """Whether the frames after `position` can contain `under`. A kernel without names is a single frame."""
        ends = self.profile.chains.starts[1:]
        is_match = np.ones(len(ends), np.bool_)
        for choice in under:
            named = self._first(self._positions_of(choice), position + 1, ends)
            hidden = self._first(
                self._unnamed_positions(choice), np.where(self._is_joined(position), position, position + 1), ends
            )
            position = np.where((named < 0) | ((hidden >= 0) & (hidden < named)), hidden, named)
            is_match &= position >= 0
            position = np.where(position >= 0, position, ends)
        return is_match | self._incomplete

    def _is_joined(self, position: Ints) -> Bools:
        """Whether the frame at a position stands for any number of functions that call each other."""
        stands_for_many = self._nameless
        if not self.profile.facts.get("symbols", "").startswith("none"):
            stands_for_many = tuple(frame.dso == HIDDEN for frame in self.profile.frames)
        if not any(stands_for_many) or not len(self.profile.chains.frames):
            return np.zeros(len(position), np.bool_)
        inside = (position >= 0) & (position < len(self.profile.chains.frames))
        return inside & np.array(stands_for_many, np.bool_)[self.profile.chains.frames[np.where(inside, position, 0)]]

    def _first(self, positions: Ints, low: Ints, high: Ints) -> Ints:
        """The first of the positions from `low` up to `high` in each chain, or -1."""
        if not len(positions):
            return np.full(len(low), -1, np.int64)
        match = positions[np.minimum(np.searchsorted(positions, low), len(positions) - 1)]
        return np.where((match >= low) & (match < high), match, -1)

    def _last(self, positions: Ints, low: Ints, high: Ints) -> Ints:
        """The last of the positions from `low` up to `high` in each chain, or -1."""
        if not len(positions):
            return np.full(len(low), -1, np.int64)
        match = positions[np.maximum(np.searchsorted(positions, high) - 1, 0)]
        return np.where((match >= low) & (match < high), match, -1)

    def _positions_of(self, choice: Choice) -> Ints:
        """The positions of a choice in the flat array of frames."""
        positions = self._positions.get(choice)
        if positions is None:
            positions = self._positions[choice] = np.flatnonzero(self._mask(choice)[self.profile.chains.frames])
        return positions

    def _unnamed_positions(self, choice: Choice) -> Ints:
        """The positions of frames without a name that may be of the choice."""
        objects = tuple((family.objects if (family := families().get(name)) else None) for name in choice)
        positions = self._unnamed.get(objects)
        if positions is None:
            # Frames without a name that may be of families in these objects. None stands for the kernel.
            patterns = [o for o in objects if o is not None]
            mask = np.fromiter(
                (
                    nameless
                    and ((None in objects and frame.kernel is True) or any(o.search(frame.dso) for o in patterns))
                    for frame, nameless in zip(self.profile.frames, self._nameless, strict=True)
                ),
                np.bool_,
                len(self.profile.frames),
            )
            positions = np.flatnonzero(mask[self.profile.chains.frames]) if mask.any() else np.zeros(0, np.int64)
            self._unnamed[objects] = positions
        return positions

    def _mask(self, choice: Choice) -> Bools:
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
        """Chains with missing callers, or with missing kernel callers."""
        profile, starts = self.profile, self.profile.chains.starts
        lengths = np.diff(starts)
        if profile.stacks is Stacks.NONE:
            return np.ones(len(lengths), np.bool_)
        is_short = lengths <= (1 if profile.stacks is Stacks.PARTIAL else -1)
        if profile.chains.cut is not None:
            is_user = np.fromiter((f.kernel is False for f in profile.frames), np.bool_, len(profile.frames))
            cut = np.flatnonzero(profile.chains.cut & (lengths > 0))
            is_short[cut] |= ~is_user[profile.chains.frames[starts[cut + 1] - 1]]
        return is_short


def _test_all(texts: Iterable[str], test: Callable[[str], bool]) -> Bools:
    return np.fromiter((test(text) for text in texts), np.bool_)


def _group_by(label: Callable[[Task], str]) -> Callable[[Profile, Rows], Grouping]:
    """Return a function that groups rows by a label of the task."""

    def group_tasks(profile: Profile, rows: Rows) -> Grouping:
        numbers: dict[str, int] = {}
        group = np.fromiter((numbers.setdefault(label(t), len(numbers)) for t in profile.tasks), np.int64)
        return Grouping(rows, group[rows.task], list(numbers))

    return group_tasks


def _by_cpu(_profile: Profile, rows: Rows) -> Grouping:
    """Group rows by CPU. There are no groups if a row has no CPU, which leaves the answer unknown."""
    numbers, groups = np.unique(rows.cpu, return_inverse=True)
    if UNKNOWN in numbers:
        return Grouping(rows, np.zeros(len(rows), np.int64), [])
    return Grouping(rows, groups.astype(np.int64), [f"CPU {number}" for number in numbers.tolist()])


def _thread(task: Task) -> str:
    return f"{task.comm} ({task.tid if task.tid is not None else task.pid})"


GROUPS = {"comm": _group_by(lambda task: task.comm), "thread": _group_by(_thread), "cpu": _by_cpu}
