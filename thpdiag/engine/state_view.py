"""One state of one host as the checks of a rule see it; `toggle` alone looks at the other states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from thpdiag.host.catalogue import Catalogue
from thpdiag.host.series import Track
from thpdiag.knowledge.vocabulary import entities_of
from thpdiag.model import Case, Entity, Fact, Moment, Profile, RuleOutcome, State, Verdict3

if TYPE_CHECKING:
    from thpdiag.engine.compiled_profile import CompiledProfile

OF_THE_STATE = "context"  # the role of rules that say what the host is: they silence however sure they are
WORDS = {Verdict3.YES: "fires", Verdict3.NO: "silent", Verdict3.UNKNOWN: "unknown"}


@dataclass(frozen=True)
class StateView:
    """One state of one host, as the checks of a rule see it.

    `outcomes` are those of the rules that were judged so far, `entity` is the one bound by `for_each`, `bound_kind` its
    kind. `whole` is the state of which this is a stretch of time (`thpdiag.engine.windows`). `memo` keeps results of
    checks for who judges many variants of a rule.
    """

    case: Case
    state: State
    catalogue: Catalogue
    outcomes: Mapping[str, RuleOutcome] = field(default_factory=dict)
    others: Sequence[StateView] = ()
    entity: Entity | None = None
    bound_kind: str = ""
    whole: StateView | None = None
    memo: dict[object, Any] | None = None
    _named: dict[str, list[Fact]] = field(default_factory=dict, repr=False, compare=False)  # facts by name, once asked
    _of_pid: dict[str, dict[str | None, list[Fact]]] = field(default_factory=dict, repr=False, compare=False)

    def facts(self, name: str, where: Mapping[str, str] | None = None) -> Iterator[Fact]:
        """Facts of a name in this state and of the whole case; measured ones hide those merely assumed or told.

        What runs hides what a start-up file says.
        """
        if not self._named:
            for fact in (*self.state.facts, *self.case.facts):
                self._named.setdefault(fact.name, []).append(fact)
        found = self._named.get(name, ())
        if where:
            found = [fact for fact in found if where.items() <= dict(fact.labels).items()]
        measured = [f for f in found if f.provenance not in ("assumed", "prose")]
        running = [f for f in measured if f.provenance != "rc file"]
        return iter(running or measured or found)

    def of_process(self, name: str, pid: str | None) -> Sequence[Fact]:
        """Those of one process. Rules ask it of thousands of processes, of which as many facts speak."""
        if name not in self._of_pid:
            by_pid = self._of_pid.setdefault(name, {})
            for fact in self.facts(name):
                by_pid.setdefault(fact.label("pid"), []).append(fact)
        return self._of_pid[name].get(pid, ())

    def bind(self, kind: str, entity: Entity) -> StateView:
        return replace(self, bound_kind=kind, entity=entity)

    def bound_to(self, metric: str) -> Entity | None:
        """The bound entity, if `for_each` binds what this metric is of."""
        return self.entity if self.entity is not None and self.bound_kind in entities_of(metric) else None

    def tracks(self, metric: str) -> Sequence[Track]:
        """The tracks of a metric, best first: of the bound entity if it is of such, else of the host or of all."""
        return self.catalogue.tracks(metric, self.bound_to(metric))

    def has_recorded(self, metric: str) -> bool:
        """Whether any source of the state has the metric, at whatever time."""
        return bool((self.whole or self).catalogue.having(metric))


def state_views(case: Case) -> Sequence[StateView]:
    """One view per state of the case."""
    boots = restart_times(case)
    alone = [StateView(case, state, Catalogue(state.samples, boots)) for state in case.states]
    return [replace(view, others=alone) for view in alone]


def restart_times(case: Case) -> list[Moment]:
    """When the host, or what recorded it, is known to have been started: counters began anew."""
    events = (*case.events, *(event for state in case.states for event in state.events))
    found = [event.time for event in events if event.kind == "restart" and event.time]
    return [*found, *(replace(anchor.zero, within=anchor.within) for anchor in case.anchors)]


def outcome_word(outcome: RuleOutcome) -> str:
    """fires, silent, unknown or excluded."""
    if outcome.value is Verdict3.NO and outcome.is_excluded:
        return "excluded"
    return WORDS[outcome.value]


@lru_cache(64)
def compiled_profile(profile: Profile) -> CompiledProfile:
    """The profile made ready for questions, kept for those seen last."""
    from thpdiag.engine.compiled_profile import CompiledProfile  # numpy: only where there is a profile

    return CompiledProfile(profile)
