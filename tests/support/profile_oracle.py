"""The answers of a profile check by brute force: every chain is tried with everything that it may hide.

A world is a choice of what the hidden functions are. A chain fits for sure if it fits in all worlds, and possibly if it
fits in one. This code is independent of `thpdiag.engine.compiled_profile`; only names are looked up in the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

from thpdiag.engine.stacks import function_families
from thpdiag.knowledge.symbols import families, is_idle, is_unresolved
from thpdiag.model import Frame, Profile, Stacks, Task
from thpdiag.model.profile import UNKNOWN

Options = frozenset[frozenset[str]]  # what a frame may be: sets of families
State = tuple[int, bool]  # how many of `under` were met (-1: the function itself was not), whether one of `never` was


@dataclass(frozen=True)
class Question:
    """The conditions on a chain."""

    where: tuple[str, ...]
    leaf: bool
    under: tuple[str, ...] = ()
    never: tuple[str, ...] = ()

    @property
    def asked(self) -> frozenset[str]:
        return frozenset((*self.where, *self.under, *self.never))


@dataclass(frozen=True)
class Answer:
    """Outcomes over all worlds of a chain: (the function is there, the chain fits)."""

    outcomes: frozenset[tuple[bool, bool]]

    @property
    def sure(self) -> bool:
        return all(fits for _, fits in self.outcomes)

    @property
    def possible(self) -> bool:
        return any(fits for _, fits in self.outcomes)


@dataclass(frozen=True)
class Sample:
    """A row of a profile in words."""

    chain: tuple[Frame, ...]
    task: Task
    cpu: int
    weight: float
    samples: int
    open_end: bool

    @property
    def idle(self) -> bool:
        return any(is_idle(frame.name, self.task.comm) for frame in self.chain)


@cache
def may_be(frame: Frame, asked: frozenset[str]) -> Options:
    """Return what a frame may be, of the requested families."""
    if not is_unresolved(frame.name):
        return frozenset({function_families(frame.name) & asked})
    possible = [name for name in asked if _fits(frame, name)]
    return _all_subsets(possible)


def _fits(frame: Frame, name: str) -> bool:
    objects = families()[name].objects if name in families() else None
    return frame.kernel is True if objects is None else bool(objects.search(frame.dso))


def _all_subsets(names: Sequence[str]) -> Options:
    return frozenset(frozenset(c) for n in range(len(names) + 1) for c in combinations(names, n))


def step(state: State, frame: frozenset[str], question: Question, *, leaf: bool) -> State:
    """Advance by one frame to the caller."""
    met, barred = state
    if met < 0:
        return (0, False) if frame & set(question.where) and (leaf or not question.leaf) else state
    barred = barred or bool(frame & set(question.never))
    if met < len(question.under) and question.under[met] in frame:
        met += 1
    return met, barred


def answer(chain: Sequence[Frame], question: Question, *, open_end: bool) -> Answer:
    """Return all outcomes of a chain."""
    states: set[State] = {(-1, False)}
    for number, frame in enumerate(chain):
        options = may_be(frame, question.asked)
        states = {step(s, o, question, leaf=number == 0) for s in states for o in options}
    grown = open_end or not chain
    while grown:
        every = _all_subsets(sorted(question.asked))
        more = states | {step(s, o, question, leaf=not chain) for s in states for o in every}
        grown, states = more != states, more
    done = len(question.under)
    return Answer(frozenset((met >= 0, met == done and not barred) for met, barred in states))


def samples(profile: Profile) -> list[Sample]:
    """Return the rows that are not idle."""
    columns = (profile.rows.chain, profile.rows.task, profile.rows.cpu, profile.rows.weight, profile.rows.samples)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    chains = list(profile.chains)
    found = []
    for chain, task, cpu, weight, count in rows:
        frames = tuple(profile.frames[i] for i in chains[chain])
        found.append(Sample(frames, profile.tasks[task], cpu, weight, count, _open(profile, chain, frames)))
    return [sample for sample in found if not sample.idle]


def _open(profile: Profile, chain: int, frames: Sequence[Frame]) -> bool:
    """Return whether kernel callers of the last frame may be missing."""
    if profile.stacks is Stacks.NONE:
        return True
    if profile.stacks is Stacks.PARTIAL and len(frames) <= 1:
        return True
    cut = profile.chains.cut is not None and bool(profile.chains.cut[chain])
    return cut and bool(frames) and frames[-1].kernel is not False


@dataclass(frozen=True)
class Bounds:
    """The lowest and highest possible share."""

    low: float
    high: float


def bounds(profile: Profile, question: Question, of: str, only: Callable[[str], bool]) -> list[Bounds]:
    """Return one for `all` and `symbol`, else one for each group that is large enough; none if undecidable."""
    every = samples(profile)
    whole = sum(s.weight for s in every) + profile.ledger.unlisted
    lost = (profile.ledger.lost or 0) / max(1, profile.ledger.read)
    own = [(s, answer(s.chain, question, open_end=s.open_end)) for s in every if only(s.task.comm)]
    if of == "all":
        return [_bounds(own, whole, profile.ledger.unlisted, lost)]
    if of == "symbol":
        return [_purity(own, lost, profile.ledger.unlisted)]
    key = GROUPS[of]
    groups: dict[object, list[tuple[Sample, Answer]]] = {}
    for sample, told in own:
        groups.setdefault(key(sample), []).append((sample, told))
    if of == "cpu" and UNKNOWN in groups:
        return []
    weights = {name: sum(s.weight for s, _ in group) for name, group in groups.items()}
    least = max(0.02, 0.2 / sum(s.samples for s in every)) * whole  # a fifth of the one sample that a check here needs
    return [_bounds(g, weights[n], 0.0, lost) for n, g in groups.items() if weights[n] >= least]


def _thread(sample: Sample) -> object:
    task = sample.task
    return task.comm, task.pid if task.tid is None else task.tid


GROUPS: dict[str, Callable[[Sample], object]] = {
    "comm": lambda sample: sample.task.comm,
    "thread": _thread,
    "cpu": lambda sample: sample.cpu,
}


def _bounds(own: Iterable[tuple[Sample, Answer]], total: float, rest: float, lost: float) -> Bounds:
    sure = sum(s.weight for s, told in own if told.sure)
    possible = sum(s.weight for s, told in own if told.possible)
    gone = lost * total
    return Bounds(sure / (total + gone), min(1.0, (possible + rest + gone) / (total + gone)))


def _purity(own: Sequence[tuple[Sample, Answer]], lost: float, unlisted: float) -> Bounds:
    """Return which part of the weight with the function fits, in every combination of worlds.

    Without weight nothing fits, unless the lost or unlisted samples contained the function.
    """
    if unlisted > 0 and not any(there for _, told in own for there, _ in told.outcomes):
        return Bounds(0.0, 1.0)
    shares = []
    for worlds in product(*(sorted(told.outcomes) for _, told in own)):
        held = sum(s.weight for (s, _), (there, _) in zip(own, worlds, strict=True) if there)
        fits = sum(s.weight for (s, _), (_, fit) in zip(own, worlds, strict=True) if fit)
        share = fits / held if held > 0 else 0.0
        shares += [share / (1 + lost), (share + lost) / (1 + lost) if held > 0 else float(lost > 0)]
    return Bounds(min(shares, default=0.0), max(shares, default=0.0))
