"""`fact`: the value of a setting, a state, or the latest value of a metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import re2

from thpdiag.engine.check_result import NO, UNKNOWN, YES, CheckResult, fact_class, unknown_result
from thpdiag.engine.quantity import format_quantity, parse_quantity
from thpdiag.engine.schema import FactCheck
from thpdiag.engine.state_view import StateView
from thpdiag.engine.wording import fact_text, term_meaning
from thpdiag.host.memory import ERROR_LABEL
from thpdiag.host.series import Track
from thpdiag.knowledge.platforms import fault_policy
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Fact
from thpdiag.model.text import Text, quoted

LOWER_BOUNDS = {"uptime.seconds": "uptime.at_least"}  # facts with a lower bound, which can confirm `above`
PROVENANCE_SUFFIXES = {"": "", "assumed": " (assumed: the default of this kernel; not in the input)"}


def judge(check: FactCheck, view: StateView) -> CheckResult:
    """Yes if a fact of the name matches; no if there are facts and none matches; unknown without facts."""
    tracks = (view.whole or view).catalogue.tracks(check.fact, view.bound_to(check.fact))
    candidates = list(view.facts(check.fact, check.where)) or list(_latest_values(check, tracks))
    if not candidates and check.fact in LOWER_BOUNDS:
        candidates = [fact for fact in view.facts(LOWER_BOUNDS[check.fact]) if check.above and _fits(check, fact)]
    if not candidates and fact_class(check.fact) == "testimony":  # the absence of testimony is a fact
        return CheckResult(check, NO, f"no source confirms it: {term_meaning(check.fact)}")
    if not candidates:
        return unknown_result(check, check.fact, f"not in the input: {term_meaning(check.fact)}")
    known = term(check.fact)
    undecided = _undecided_by_rounding(check, candidates, tracks)
    for fact in candidates:
        if fact not in undecided and _fits(check, fact):
            return CheckResult(
                check, YES, partial(_describe, fact), fact.cite, fact.value, known.unit if known else "",
                assumed=fact.provenance == "assumed", weak=bool(known and known.kind == "counter"),
            )  # fmt: skip
    exact = [fact for fact in candidates if fact not in undecided]
    exact_subjects = {_subject_labels(fact) for fact in exact}
    if remaining := [fact for fact in undecided if _subject_labels(fact) not in exact_subjects]:
        text = ", which rounding leaves undecided"
        return unknown_result(check, check.fact, lambda: _describe(remaining[0]) + text, partial=True)
    first = exact[0]
    if all(fact.provenance for fact in candidates) and fact_class(check.fact) != "testimony":
        return CheckResult(
            check, UNKNOWN, lambda: f"{_describe(first)}, but it was not measured", first.cite, first.value,
            missing=(check.fact,), assumed=True,
        )  # fmt: skip
    return CheckResult(check, NO, partial(_describe, first), first.cite, first.value)


def _subject_labels(fact: Fact) -> tuple[tuple[str, str], ...]:
    """The labels that identify what the value belongs to, whatever its source."""
    return tuple(label for label in fact.labels if label[0] != ERROR_LABEL)


def _latest_values(check: FactCheck, tracks: Sequence[Track]) -> Iterator[Fact]:
    for track in tracks:
        sample = track.samples[-1]
        if check.where.items() <= dict(sample.entity).items():
            yield Fact(check.fact, track.last, sample.cite, sample.entity)


def _undecided_by_rounding(check: FactCheck, candidates: Sequence[Fact], tracks: Sequence[Track]) -> list[Fact]:
    """Return the values for which the rounding of their source may change the answer."""
    if check.above is None and check.below is None:
        return []
    quanta = {track.cite(): track.resolution for track in tracks if track.resolution}
    undecided = []
    for fact in candidates:
        quantum = float(fact.label(ERROR_LABEL) or quanta.get(fact.cite, 0.0))
        if quantum and not isinstance(fact.value, str):
            low, high = (_is_within(check, fact.value + error) for error in (-quantum, quantum))
            undecided += [fact] if low is not high else []
    return undecided


def _describe(fact: Fact) -> str:
    if fact.name == "kernel.era":
        return f"a kernel whose page faults for huge pages use: {fault_policy(str(fact.value))}"
    if isinstance(fact.value, Text):  # a complete sentence
        value = format(fact.value)
    else:
        unit = known.unit if (known := term(fact.name)) else ""
        value = format_quantity(fact.value, unit) if not isinstance(fact.value, str) else quoted(fact.value)
    labels = " ".join(f"{k} {quoted(v)}" for k, v in fact.labels if k != ERROR_LABEL)
    if fact_class(fact.name) == "testimony":
        suffix = "" if fact.value == "yes" else f": {value}"
        return f"reported: {term_meaning(fact.name)}{suffix}"
    return fact_text(fact.name, labels, value) + PROVENANCE_SUFFIXES.get(fact.provenance, f" (from {fact.provenance})")


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
    return _is_within(check, value)


def _is_within(check: FactCheck, value: str | float) -> bool:
    if check.above is None and check.below is None:
        return True
    try:
        number = float(value)
    except ValueError:
        return False
    if check.above is not None and not number > parse_quantity(check.above):
        return False
    return check.below is None or number < parse_quantity(check.below)


def _equal(value: str | float, wanted: str | float) -> bool:
    if isinstance(value, (int, float)) and isinstance(wanted, (int, float)):
        return float(value) == float(wanted)
    return str(value).strip().lower() == str(wanted).strip().lower()
