"""All derivations in their order: the single door of this stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from thpdiag.derive.applications import apps, stances
from thpdiag.derive.huge_page_size import huge_page_facts, huge_page_size
from thpdiag.derive.khugepaged_pace import scan_rate
from thpdiag.derive.memory_shares import memory_shares, partially_mapped
from thpdiag.derive.platform import platform_facts
from thpdiag.derive.series import last_having
from thpdiag.derive.setting_facts import with_settings
from thpdiag.derive.settings import assumed_in
from thpdiag.derive.totals import available, rates_of_counters, with_sums
from thpdiag.derive.zones import zone_facts
from thpdiag.model import Case, Fact, State


def derived(case: Case) -> Case:
    """The case with derived facts and series added; what was read stays as it is."""
    huge_page = huge_page_size(case)
    states = tuple(_state(state, huge_page) for state in case.states)
    facts = (*case.facts, *huge_page_facts(case), *_from_headers(case), *apps(case.facts))
    facts = (*facts, *platform_facts(facts, states))
    facts = (*facts, *stances((*facts, *(f for s in states for f in s.facts))))
    facts, states = with_settings(replace(case, facts=facts, states=states))
    states = tuple(replace(s, facts=(*s.facts, *scan_rate(s.facts))) for s in states)
    facts = (*facts, *scan_rate(facts))
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


def _state(state: State, huge_page: float) -> State:
    samples = tuple(with_sums(s, huge_page) for s in state.samples)
    further = tuple(rates_of_counters(samples))
    memory = last_having(samples, "node_memory_MemTotal_bytes")
    total = memory.values["node_memory_MemTotal_bytes"] if memory else 0.0
    facts = (
        *state.facts, *zone_facts(samples), *available(samples), *memory_shares(samples),
        *partially_mapped(samples, total),
    )  # fmt: skip
    return replace(state, samples=(*samples, *further), facts=facts)
