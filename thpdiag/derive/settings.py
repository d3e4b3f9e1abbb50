"""THP settings that no part of the input shows in sysfs, from the next best place.

In this order: what writes last at boot, as far as it has an effect and the order is known; the boot line; the default
of the distribution and era, marked `assumed`. Nothing is inferred where places contradict each other, or where huge
pages exist that should not: then the setting is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from thpdiag.derive.said import BOOT_LINE, Said, winner
from thpdiag.derive.series import last_having
from thpdiag.derive.set_up import same
from thpdiag.knowledge.kernels import enabled_default, era
from thpdiag.model import Fact, Sample, State

TRACE = "node_memory_AnonHugePages_bytes"


def inferred(facts: Sequence[Fact], states: Sequence[State], found: Sequence[Said]) -> Iterator[Fact]:
    """Settings that no state shows, from the next best place."""
    known = (
        {f.name for s in states for f in s.facts} | {f.name for f in facts} | {n for s in states for n in s.settings}
    )
    told = {one.setting for one in found if not one.size}
    for setting in sorted({"thp.enabled", "thp.defrag"} | told):
        if setting not in known and (fact := _next_best(setting, facts, states, found)):
            yield fact


def assumed_in(state: State, facts: Sequence[Fact]) -> Iterator[Fact]:
    """Defaults for a state in which nobody measured the settings, though other states of the case show them.

    Not where the input says that the setting is meant to be otherwise.
    """
    have = {f.name for f in (*state.facts, *facts)} | set(state.settings)
    for setting in ("thp.enabled", "thp.defrag"):
        if setting not in have and (found := default(setting, facts)) and not _meant_otherwise(found, facts):
            yield found


def _meant_otherwise(usual: Fact, facts: Sequence[Fact]) -> bool:
    said = [f for f in facts if f.name == "setting.said" and f.label("counts") == "yes" and not f.label("size")]
    return any(f.label("setting") == usual.name and not same(f.value, usual.value) for f in said)


def _next_best(setting: str, facts: Sequence[Fact], states: Sequence[State], found: Sequence[Said]) -> Fact | None:
    working = [one for one in found if one.setting == setting and not one.size and not one.effect.why]
    usual = default(setting, facts)
    if not working:
        return usual
    best, _ = winner(working)
    without, _ = winner([one for one in working if one.effect.sure])
    if best is None or (
        not best.effect.sure and not same(best.value, without.value if without else usual and usual.value)
    ):
        return None
    best = best if best.effect.sure else without
    if best is None:
        return usual
    if setting == "thp.enabled" and best.value == "never" and traces(states):
        return None
    value = int(best.value) if best.value.isdecimal() and len(best.value) < 16 else best.value
    return Fact(setting, value, best.cite, provenance=provenance(best))


def provenance(one: Said) -> str:
    """The word for how a value is known."""
    if one.place == BOOT_LINE:
        return "boot line"
    return "tuned" if one.profile else "rc file"


def traces(states: Sequence[State]) -> Sample | None:
    """The last row that shows memory in huge pages."""
    last = last_having((sample for state in states for sample in state.samples), TRACE)
    return last if last is not None and last.values[TRACE] > 0 else None


def default(setting: str, facts: Sequence[Fact]) -> Fact | None:
    """What the distribution and its kernel have where nobody changed it, marked as assumed.

    Inside a container the distribution is the container's and says nothing of the kernel.
    """
    inside = first(facts, "host.container") is not None
    release, system = first(facts, "kernel.release"), None if inside else first(facts, "os.name")
    source = release or system
    if source is None:
        return None
    name = str(release.value) if release else ""
    if setting == "thp.defrag":
        known = era(name)
        return Fact(setting, known.defrag, source.cite, provenance="assumed") if known and known.defrag else None
    if setting != "thp.enabled":
        return None
    usual = enabled_default(name, str(system.value) if system else "")
    return Fact(setting, usual[0], source.cite, provenance="assumed") if usual else None


def first(facts: Iterable[Fact], name: str) -> Fact | None:
    """The first measured fact of a name, else one that the text merely tells."""
    found = [f for f in facts if f.name == name]
    return next((f for f in found if not f.provenance), found[0] if found else None)
