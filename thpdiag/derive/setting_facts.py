"""THP settings of a host: what is inferred, what every place says, what will hold after a boot, contradictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from thpdiag.derive.boot_line import others, present
from thpdiag.derive.contradictions import in_case, in_state
from thpdiag.derive.next_boot import next_boots
from thpdiag.derive.said import BOOT_LINE, Said, said
from thpdiag.derive.set_up import set_up
from thpdiag.derive.settings import inferred
from thpdiag.model import Case, Fact, State

MOST = 100  # of what is said
UNSURE = "if tuned is of a version that does that; its version is not in the input"


def with_settings(case: Case) -> tuple[tuple[Fact, ...], tuple[State, ...]]:
    """Facts and states with it. Boot lines of other boots are told in setting.said and are no facts any more."""
    every = (*case.facts, *(f for s in case.states for f in s.facts if not f.name.startswith("thp.")))
    found = said(every, set_up(every, case.states))
    stale = {id(f) for f in others(every)}
    facts, every = (tuple(f for f in some if id(f) not in stale) for some in (case.facts, every))
    known = replace(case, facts=every)
    further = [
        *inferred(every, case.states, found), *_told(found), *next_boots(every, case.states, found),
        *in_case(known, found),
    ]  # fmt: skip
    lines = present(every)
    states = tuple(replace(s, facts=(*s.facts, *in_state(s, known, found, lines))) for s in case.states)
    return (*facts, *further), states


def _told(found: Sequence[Said]) -> Iterator[Fact]:
    for one in found[:MOST]:
        labels = {
            "setting": one.setting, "place": one.place, "counts": "no" if one.effect.why else "yes",
            "why": one.effect.why or ("" if one.effect.sure else UNSURE),
            "size": one.size, "from": "" if one.place == BOOT_LINE else "start-up file",
            "runs": "yes" if one.effect.runs and one.effect.sure and not one.effect.why else "",
        }  # fmt: skip
        yield Fact("setting.said", one.value, one.cite, tuple((k, v) for k, v in labels.items() if v))
