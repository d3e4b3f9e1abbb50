"""One state of one host as the checks of a rule see it. Only `toggle` checks compare it with other states."""

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

CONTEXT_ROLE = "context"  # role of rules that describe the host: they exclude other rules at any confidence
OUTCOME_WORDS = {Verdict3.YES: "fires", Verdict3.NO: "silent", Verdict3.UNKNOWN: "unknown"}


@dataclass(frozen=True)
class StateView:
    """One state of one host, as the checks of a rule see it.

    `outcomes` holds the rules evaluated so far, `entity` the one bound by `for_each` and `bound_kind` its kind. `whole`
    is the view of the state of which this view is a window (`thpdiag.engine.windows`). `memo` caches check results for
    callers that evaluate many variants of a rule.
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
    _facts_by_name: dict[str, list[Fact]] = field(
        default_factory=dict, repr=False, compare=False
    )  # filled at first use
    _facts_by_pid: dict[str, dict[str | None, list[Fact]]] = field(default_factory=dict, repr=False, compare=False)

    def facts(self, name: str, where: Mapping[str, str] | None = None) -> Iterator[Fact]:
        """Return the facts with a name in this state and in the whole case. Measured facts hide assumed values and
        those quoted from prose. Values of the running system hide those of start-up files."""
        if not self._facts_by_name:
            for fact in (*self.state.facts, *self.case.facts):
                self._facts_by_name.setdefault(fact.name, []).append(fact)
        facts = self._facts_by_name.get(name, ())
        if where:
            facts = [fact for fact in facts if where.items() <= dict(fact.labels).items()]
        measured = [f for f in facts if f.provenance not in ("assumed", "prose")]
        running = [f for f in measured if f.provenance != "rc file"]
        return iter(running or measured or facts)

    def process_facts(self, name: str, pid: str | None) -> Sequence[Fact]:
        """Return the facts of one process. They are indexed by pid, because rules ask for thousands of processes."""
        if name not in self._facts_by_pid:
            by_pid = self._facts_by_pid.setdefault(name, {})
            for fact in self.facts(name):
                by_pid.setdefault(fact.label("pid"), []).append(fact)
        return self._facts_by_pid[name].get(pid, ())

    def bind(self, kind: str, entity: Entity) -> StateView:
        return replace(self, bound_kind=kind, entity=entity)

    def bound_to(self, metric: str) -> Entity | None:
        """Return the entity bound by `for_each` if the metric belongs to entities of that kind."""
        return self.entity if self.entity is not None and self.bound_kind in entities_of(metric) else None

    def tracks(self, metric: str) -> Sequence[Track]:
        """Return the tracks of a metric, best first: those of the bound entity if the metric has such entities, else
        all."""
        return self.catalogue.tracks(metric, self.bound_to(metric))

    def has_recorded(self, metric: str) -> bool:
        """Whether any source of the state has the metric at any time."""
        return bool((self.whole or self).catalogue.having(metric))


def state_views(case: Case) -> Sequence[StateView]:
    """Return one view per state of the case."""
    boots = restart_times(case)
    alone = [StateView(case, state, Catalogue(state.samples, boots)) for state in case.states]
    return [replace(view, others=alone) for view in alone]


def restart_times(case: Case) -> list[Moment]:
    """Return the times at which the host or its recorder is known to have started, with counters at 0."""
    events = (*case.events, *(event for state in case.states for event in state.events))
    restarts = [event.time for event in events if event.kind == "restart" and event.time]
    return [*restarts, *(replace(anchor.zero, within=anchor.within) for anchor in case.anchors)]


def outcome_word(outcome: RuleOutcome) -> str:
    """Return the outcome as fires, silent, unknown or excluded."""
    if outcome.value is Verdict3.NO and outcome.is_excluded:
        return "excluded"
    return OUTCOME_WORDS[outcome.value]


@lru_cache(64)
def compiled_profile(profile: Profile) -> CompiledProfile:
    """Return the profile prepared for queries. The most recently used ones are cached."""
    from thpdiag.engine.compiled_profile import CompiledProfile  # imports numpy, needed only with a profile

    return CompiledProfile(profile)
