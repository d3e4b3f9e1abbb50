"""All derivations in their order: the single door of this stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from thpdiag.derive.platform import platform_facts
from thpdiag.derive.settings import assumed_in, contradictions, inferred
from thpdiag.derive.totals import available, rates_of_counters, with_sums
from thpdiag.derive.zones import zone_facts
from thpdiag.knowledge.applications import running
from thpdiag.model import Case, Fact, State


def derived(case: Case) -> Case:
    """The case with derived facts and series added; what was read stays as it is."""
    states = tuple(_state(state) for state in case.states)
    facts = (*case.facts, *_from_headers(case), *_apps(case.facts))
    facts = (*facts, *platform_facts(facts, states))
    facts = (*facts, *inferred(facts, states), *contradictions(facts, states))
    states = tuple(replace(s, facts=(*s.facts, *assumed_in(s, facts))) for s in states)
    return replace(case, facts=facts, states=states)


def _from_headers(case: Case) -> Iterator[Fact]:
    """The kernel's release from the header of a perf recording, where nothing else measured it."""
    if any(f.name == "kernel.release" and not f.provenance for f in case.facts):
        return
    for profile in (p for s in case.states for p in s.profiles):
        if release := profile.facts.get("release"):
            yield Fact("kernel.release", release, profile.cite)
            return


def _state(state: State) -> State:
    samples = tuple(with_sums(s) for s in state.samples)
    further = tuple(rates_of_counters(samples))
    facts = (*state.facts, *zone_facts(samples), *available(samples))
    return replace(state, samples=(*samples, *further), facts=facts)


def _apps(facts: Sequence[Fact]) -> Iterator[Fact]:
    seen: set[str] = set()
    for fact in facts:
        if fact.name != "process.command":
            continue
        for app in running(fact.label("comm") or "", str(fact.value)):
            if app.name not in seen:
                seen.add(app.name)
                yield Fact("app", app.name, fact.cite, (("pid", fact.label("pid") or ""),))
