"""A case as scenes: one per state, each knowing the others (only `toggle` looks at them)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from thpdiag.derive.catalogue import Catalogue
from thpdiag.engine.judged import Scene
from thpdiag.model import Case, Clock, Fact, Moment

CLOCKS = {clock.value: clock for clock in Clock}


def scenes(case: Case) -> Sequence[Scene]:
    """One scene per state of the case."""
    boots = restarts(case)
    alone = [Scene(case, state, Catalogue(state.samples, boots)) for state in case.states]
    return [replace(scene, others=alone) for scene in alone]


def restarts(case: Case) -> list[Moment]:
    """When the host, or what recorded it, is known to have been started: counters began anew."""
    events = (event for state in case.states for event in state.events)
    told = [event.time for event in (*case.events, *events) if event.kind == "restart" and event.time]
    return [*told, *(moment for fact in case.facts if fact.name == "boot.time" and (moment := _booted(fact)))]


def _booted(fact: Fact) -> Moment | None:
    clock = CLOCKS.get(fact.label("clock") or "")
    return Moment(float(fact.value), clock, float(fact.label("within") or 0)) if clock else None
