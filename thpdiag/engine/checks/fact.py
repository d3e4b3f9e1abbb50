"""`fact`: the value of a setting, a state, or the latest value of a metric."""

from __future__ import annotations

from collections.abc import Sequence

import re2

from thpdiag.derive.series import Track
from thpdiag.derive.totals import WITHIN
from thpdiag.engine.classes import of_fact
from thpdiag.engine.judged import NO, UNKNOWN, YES, Judged, Scene, unknown
from thpdiag.engine.quantity import quantity, shown
from thpdiag.engine.schema import FactCheck
from thpdiag.engine.wording import fact_name, fact_text, meaning
from thpdiag.knowledge.kernels import fault_policy
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Fact


def judge(check: FactCheck, scene: Scene) -> Judged:
    """Yes if a fact of the name fits; no if there are facts and none fits; unknown without any."""
    known = term(check.fact)
    kind = of_fact(check.fact)
    candidates = list(scene.facts(check.fact, check.where)) or _latest(check, scene)
    needed = f"{fact_name(check.fact)} {_wanted(check)}"
    if not candidates:
        return unknown(check.fact, f"not in the input: {meaning(check.fact)}", needed=needed, kind=kind)
    weak = bool(known and known.kind == "counter")
    open_ = _near_a_bound(check, candidates, scene)
    for candidate in candidates:
        if candidate not in open_ and _fits(check, candidate):
            return _answer(candidate, needed, kind, weak=weak)
    if open_:
        text = f"{_said(open_[0])}, which rounding leaves open"
        return unknown(check.fact, text, needed=needed, kind=kind)
    first = candidates[0]
    if all(c.provenance for c in candidates):
        text = f"{_said(first)}, but nobody measured it"
        return Judged(UNKNOWN, text, needed, kind, first.cite, first.value, missing=(check.fact,), assumed=True)
    return Judged(NO, _said(first), needed, kind, first.cite, first.value)


def _tracks(check: FactCheck, scene: Scene) -> Sequence[Track]:
    return (scene.whole or scene).catalogue.tracks(check.fact, scene.bound_to(check.fact))


def _near_a_bound(check: FactCheck, candidates: Sequence[Fact], scene: Scene) -> list[Fact]:
    """The values that would get another answer if their source had not rounded them."""
    if check.above is None and check.below is None:
        return []
    quanta = {t.cite(): t.resolution for t in _tracks(check, scene) if t.resolution}
    return [f for f in candidates if _edge(check, f, float(f.label(WITHIN) or quanta.get(f.cite, 0.0)))]


def _edge(check: FactCheck, fact: Fact, quantum: float) -> bool:
    if not quantum or isinstance(fact.value, str):
        return False
    return _within(check, fact.value - quantum) is not _within(check, fact.value + quantum)


def _latest(check: FactCheck, scene: Scene) -> list[Fact]:
    found = []
    for track in _tracks(check, scene):
        value, sample = track.last, track.samples[-1]
        if all(dict(sample.entity).get(k) == v for k, v in check.where.items()):
            found.append(Fact(check.fact, value, sample.cite, sample.entity))
    return found


def _answer(fact: Fact, needed: str, kind: str, *, weak: bool) -> Judged:
    assumed = fact.provenance == "assumed"
    return Judged(YES, _said(fact), needed, kind, fact.cite, fact.value, _unit(fact), assumed=assumed, weak=weak)


def _unit(fact: Fact) -> str:
    known = term(fact.name)
    return known.unit if known else ""


def _said(fact: Fact) -> str:
    if fact.name == "kernel.era":
        return f"a kernel of the family whose page faults do this for a huge page: {fault_policy(str(fact.value))}"
    value = shown(fact.value, _unit(fact)) if isinstance(fact.value, (int, float)) else str(fact.value)
    labels = " ".join(f"{k} {v}" for k, v in fact.labels if k != WITHIN)
    provenance = {"": "", "assumed": " (assumed: the default of this kernel; not in the input)"}.get(
        fact.provenance, f" (from {fact.provenance})"
    )
    return fact_text(fact.name, labels, value) + provenance


def _wanted(check: FactCheck) -> str:
    if check.is_ is not None:
        return f"is {check.is_}"
    if check.one_of is not None:
        return f"is one of {', '.join(map(str, check.one_of))}"
    if check.is_not is not None:
        return f"is not {check.is_not}"
    if check.matches is not None:
        return f"matches {check.matches}"
    bounds = [
        f"{word} {bound}" for word, bound in (("above", check.above), ("below", check.below)) if bound is not None
    ]
    return " and ".join(bounds) or "is known"


def _fits(check: FactCheck, fact: Fact) -> bool:
    value = fact.value
    if check.is_ is not None and not _equal(value, check.is_):
        return False
    if check.one_of is not None and not any(_equal(value, v) for v in check.one_of):
        return False
    if check.is_not is not None and _equal(value, check.is_not):
        return False
    if check.matches is not None and not re2.search(check.matches, str(value)):
        return False
    return _within(check, value)


def _within(check: FactCheck, value: str | float) -> bool:
    if check.above is None and check.below is None:
        return True
    try:
        number = float(value)
    except ValueError:
        return False
    if check.above is not None and not number > quantity(check.above):
        return False
    return check.below is None or number < quantity(check.below)


def _equal(value: str | float, wanted: str | float) -> bool:
    if isinstance(value, (int, float)) and isinstance(wanted, (int, float)):
        return float(value) == float(wanted)
    return str(value).strip().lower() == str(wanted).strip().lower()
