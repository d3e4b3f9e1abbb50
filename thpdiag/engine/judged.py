"""What one check said, and what it may look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from thpdiag.derive.catalogue import Catalogue
from thpdiag.derive.series import Track
from thpdiag.knowledge.vocabulary import entities_of
from thpdiag.model import Case, Citation, Entity, Evidence, Fact, Moment, RuleOutcome, State, Verdict3

OF_THE_STATE = "context"  # the role of rules that say what the host is: they silence however sure they are
NO, UNKNOWN, YES = Verdict3.NO, Verdict3.UNKNOWN, Verdict3.YES


@dataclass(frozen=True, slots=True)
class Judged:
    """The answer of a check: `text` says what was found, `needed` what a yes takes.

    `kind` is the evidence class. `missing` are vocabulary names whose absence made it unknown. An `assumed` yes
    rests on a default that nobody measured. `window` is the time it speaks of, which begins `reach` seconds (an
    interval of the source) before. `weak` evidence (a total since boot) never raises the confidence above
    possible; `surer` says what would make it solid. `held` is for how long (or in how many samples, or in what share
    of them) the values were where they must stay, `short_of` the bound that decided, where that is not the usual one.
    `confidence` is that of the rule that it speaks of.
    """

    value: Verdict3
    text: str
    needed: str = ""
    kind: str = "state"
    cite: Citation | None = None
    measured: float | str | None = None
    unit: str = ""
    missing: tuple[str, ...] = ()
    assumed: bool = False
    weak: bool = False
    surer: str = ""
    window: tuple[Moment, Moment] | None = None
    reach: float = 0.0
    held: float | None = None
    short_of: str = ""
    confidence: str = ""

    def evidence(self, check: str) -> Evidence:
        return Evidence(check, self.text, self.cite, self.measured, self.unit, self.kind, self.window)

    def doubted(self, hidden: frozenset[str], tainted: frozenset[str] = frozenset()) -> Judged:
        """The same answer when parts of the input were lost: a no that no intact member speaks for is unknown.

        What a member says whose checksum does not fit is weak: it may be wrong.
        """
        if self.value is YES and tainted and (self.cite is None or self.cite.member in tainted):
            return replace(self, weak=True)
        if self.value is not NO or not hidden:
            return self
        if self.cite is not None and self.cite.member not in hidden:
            return self
        return replace(self, value=UNKNOWN, text=f"{self.text}; but part of the input could not be read")


def unknown(missing: str | Sequence[str], text: str, *, needed: str = "", kind: str = "state") -> Judged:
    """An answer that the input does not hold."""
    names = (missing,) if isinstance(missing, str) else tuple(missing)
    return Judged(UNKNOWN, text, needed=needed, kind=kind, missing=names)


Answers = Mapping[str, Judged]  # of the checks of a rule, by their names


@dataclass(frozen=True)
class Scene:
    """One state of one host, as the checks of a rule see it.

    `entity` is the one bound by `for_each`, `bound_kind` its kind. `whole` is the state of which this is a stretch of
    time (`thpdiag.engine.windows`).
    """

    case: Case
    state: State
    catalogue: Catalogue
    outcomes: Mapping[str, RuleOutcome] = field(default_factory=dict)
    others: Sequence[Scene] = ()
    entity: Entity | None = None
    bound_kind: str = ""
    whole: Scene | None = None
    _named: dict[str, list[Fact]] = field(default_factory=dict, repr=False, compare=False)  # facts by name, once asked
    _of_pid: dict[str, dict[str | None, list[Fact]]] = field(default_factory=dict, repr=False, compare=False)

    def facts(self, name: str, where: Mapping[str, str] | None = None) -> Iterator[Fact]:
        """Facts of a name in this state and of the whole case; measured ones hide those merely assumed or told."""
        if not self._named:
            for fact in (*self.state.facts, *self.case.facts):
                self._named.setdefault(fact.name, []).append(fact)
        found = [fact for fact in self._named.get(name, ()) if _fits(fact, where)]
        measured = [f for f in found if f.provenance not in ("assumed", "prose")]
        yield from measured or found

    def of_process(self, name: str, pid: str | None) -> Sequence[Fact]:
        """Those of one process. Rules ask it of thousands of processes, of which as many facts speak."""
        if name not in self._of_pid:
            by_pid = self._of_pid.setdefault(name, {})
            for fact in self.facts(name):
                by_pid.setdefault(fact.label("pid"), []).append(fact)
        return self._of_pid[name].get(pid, ())

    def bound(self, kind: str, entity: Entity) -> Scene:
        return replace(self, bound_kind=kind, entity=entity)

    def bound_to(self, metric: str) -> Entity | None:
        """The bound entity, if `for_each` binds what this metric is of."""
        return self.entity if self.bound_kind in entities_of(metric) else None

    def tracks(self, metric: str) -> Sequence[Track]:
        """The tracks of a metric, best first: of the bound entity if it is of such, else of the host or of all."""
        return self.catalogue.tracks(metric, self.bound_to(metric))


def _fits(fact: Fact, where: Mapping[str, str] | None) -> bool:
    if not where:
        return True
    labels = dict(fact.labels)
    return all(labels.get(k) == v for k, v in where.items())
