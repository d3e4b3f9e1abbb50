"""Settings of a host for the result: the value in force, how it is known, what was said elsewhere, what will hold.

Of the state of the verdict, else of the latest state. A setting that only start-up files or the boot line speak of has
no value: nobody knows what the kernel has. Of values in other states the report tells too, so that nobody takes a
measurement before a change for one after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from thpdiag.diagnosis import Diagnosis
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Case, Citation, Event, Fact, State

MEASURED = "measured"
WRITTEN = "written at a prompt, not read back"
MOST = 20  # of what is told of one setting


def settings(diagnosis: Diagnosis) -> dict[str, Any]:
    """By name; of a size of huge pages `thp.size.enabled{size=64kB}`."""
    case, chosen = diagnosis.case, _state(diagnosis)
    found: dict[str, dict[str, Any]] = {}
    for fact in (*(chosen.facts if chosen else ()), *case.facts):
        name = _name(fact)
        if name and (name not in found or _better(fact, found[name], case)):
            found[name] = _document(fact, case)
    for fact in case.facts:
        if fact.name == "setting.said":
            found.setdefault(_keyed(fact), {"value": None, "provenance": "unknown"})
    about = [fact for fact in case.facts if fact.name.startswith("setting.")]
    for name, row in found.items():
        row.update({key: told for key, told in _further(name, chosen, case, about).items() if told})
    return dict(sorted(found.items()))


def _state(diagnosis: Diagnosis) -> State | None:
    states, leader = diagnosis.case.states, diagnosis.leader
    if leader is not None:
        return next((s for s in states if s.id == leader.outcome.state), None)
    known = [s for s in states if s.settings] or states  # what belongs to no state in particular stands last
    return max(reversed(known), key=lambda s: -1 if s.order is None else s.order, default=None)


def _name(fact: Fact) -> str:
    """The key of a fact that is a setting of the whole host or of one size of huge pages."""
    known = term(fact.name)
    if not known or known.kind != "setting":
        return ""
    if fact.name.startswith("thp.size."):
        return f"{fact.name}{{size={fact.label('size')}}}"
    return "" if fact.labels else fact.name


def _keyed(fact: Fact) -> str:
    """The key of the setting that a fact speaks of."""
    setting, size = fact.label("setting") or "", fact.label("size")
    return f"{setting}{{size={size}}}" if size else setting


def _better(fact: Fact, row: Mapping[str, Any], case: Case) -> bool:
    """A reading of the same value is better than the command that wrote it."""
    same = fact.value == row["value"] and row["provenance"] == WRITTEN
    return same and not fact.provenance and not _written(fact.cite, case)


def _document(fact: Fact, case: Case) -> dict[str, Any]:
    how = fact.provenance or (WRITTEN if _written(fact.cite, case) else MEASURED)
    return {"value": fact.value, "provenance": how, **_place(fact.cite)}


def _written(cite: Citation, case: Case) -> bool:
    events: list[Event] = [*case.events, *(e for s in case.states for e in s.events)]
    return any(e.kind == "setting_written" and e.cite == cite for e in events)


def _place(cite: Citation) -> dict[str, Any]:
    return {"member": cite.member, **({"line": cite.line} if cite.line is not None else {})}


def _further(name: str, chosen: State | None, case: Case, about: Sequence[Fact]) -> dict[str, Any]:
    of = [f for f in about if _keyed(f) == name]
    here = [f for f in (chosen.facts if chosen else ()) if f.name == "setting.contradiction" and _keyed(f) == name]
    boot = next((f for f in of if f.name == "setting.next_boot"), None)
    against = [f for f in (*here, *of) if f.name == "setting.contradiction" and f.value != "none"]
    return {
        "said": [_said(f) for f in of if f.name == "setting.said"][:MOST],
        "next_boot": _next_boot(boot) if boot else None,
        "contradictions": [{"text": str(f.value), "kind": f.label("kind"), **_place(f.cite)} for f in against][:MOST],
        "other_states": list(_other_states(name, chosen, case.states))[:MOST],
    }


def _said(fact: Fact) -> dict[str, Any]:
    why = fact.label("why")
    return {
        "value": fact.value, "place": fact.label("place"), "counts": fact.label("counts") == "yes",
        **({"why": why} if why else {}), **_place(fact.cite),
    }  # fmt: skip


def _next_boot(fact: Fact) -> dict[str, Any]:
    value = None if fact.value == "unknown" else fact.value
    return {"value": value, "from": fact.label("from"), "assumed": fact.provenance == "assumed", **_place(fact.cite)}


def _other_states(name: str, chosen: State | None, states: Sequence[State]) -> Iterator[dict[str, Any]]:
    """Other values that the kernel showed at other times."""
    own = {str(f.value) for f in (chosen.facts if chosen else ()) if _name(f) == name}
    seen: set[str] = set()
    for state in states:
        for fact in state.facts if state is not chosen else ():
            if _name(fact) == name and not fact.provenance and str(fact.value) not in own | seen:
                seen.add(str(fact.value))
                yield {"value": fact.value, **_place(fact.cite)}
