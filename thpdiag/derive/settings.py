"""Effective THP settings with their provenance, and contradictions between the places that set them.

sysfs is the truth where it was captured. Else, in this order: what a start-up file writes, what the boot line says, the
default of the distribution and era, marked `assumed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from thpdiag.knowledge.kernels import enabled_default, era
from thpdiag.model import Fact, State


def inferred(facts: Sequence[Fact], states: Sequence[State]) -> Iterator[Fact]:
    """Settings that no state shows, from the next best place."""
    known = (
        {f.name for s in states for f in s.facts} | {f.name for f in facts} | {n for s in states for n in s.settings}
    )
    for setting in ("thp.enabled", "thp.defrag"):
        if setting not in known and (found := _next_best(setting, facts)):
            yield found


def assumed_in(state: State, facts: Sequence[Fact]) -> Iterator[Fact]:
    """Defaults for a state in which nobody measured the settings, though other states of the case show them."""
    have = {f.name for f in (*state.facts, *facts)} | set(state.settings)
    for setting in ("thp.enabled", "thp.defrag"):
        if setting not in have and (found := _default(setting, facts)):
            yield found


def _next_best(setting: str, facts: Sequence[Fact]) -> Fact | None:
    for fact in written_at_start(facts):
        if fact.label("setting") == setting:
            return Fact(setting, fact.value, fact.cite, provenance=fact.provenance or "rc file")
    if setting == "thp.enabled":
        for fact in facts:
            if fact.name == "boot.transparent_hugepage":
                return Fact(setting, fact.value, fact.cite, provenance="boot line")
    return _default(setting, facts)


def written_at_start(facts: Sequence[Fact]) -> list[Fact]:
    """What start-up files write; of tuned's profiles only the active one counts."""
    active = first(facts, "tuned.profile")
    return [
        f
        for f in facts
        if f.name == "rc.thp_write"
        and (f.provenance != "tuned" or (active is not None and f.label("profile") == str(active.value)))
    ]


def _default(setting: str, facts: Sequence[Fact]) -> Fact | None:
    release, system = first(facts, "kernel.release"), first(facts, "os.name")
    source = release or system
    if source is None:
        return None
    name = str(release.value) if release else ""
    if setting == "thp.defrag":
        known = era(name)
        return Fact(setting, known.defrag, source.cite, provenance="assumed") if known and known.defrag else None
    default = enabled_default(name, str(system.value) if system else "")
    return Fact(setting, default[0], source.cite, provenance="assumed") if default else None


def first(facts: Iterable[Fact], name: str) -> Fact | None:
    """The first measured fact of a name, else one that the text merely tells."""
    found = [f for f in facts if f.name == name]
    return next((f for f in found if not f.provenance), found[0] if found else None)


def contradictions(facts: Sequence[Fact], states: Sequence[State]) -> Iterator[Fact]:
    """Settings that the running kernel has otherwise than boot line or start-up files say."""
    running = [f for s in states for f in s.facts if f.name == "thp.enabled" and not f.provenance]
    written = [f for f in facts if f.name == "boot.transparent_hugepage"]
    written += [f for f in written_at_start(facts) if f.label("setting") == "thp.enabled"]
    for wanted in written:
        for have in running:
            if str(wanted.value) != str(have.value):
                text = f"{_place(wanted)} says {wanted.value}, the running kernel has {have.value}"
                yield Fact(
                    "setting.contradiction",
                    text,
                    have.cite,
                    (("setting", "thp.enabled"), ("wanted", str(wanted.value))),
                )
                return


def _place(fact: Fact) -> str:
    return "the boot line" if fact.name.startswith("boot.") else (fact.label("path") or "a start-up file")
