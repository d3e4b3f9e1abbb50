"""One root cause per host, whatever fires together: every pair of rules, as sure as it can be, and made-up threes."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, product

import pytest

from analyze_bytes import rules
from thpdiag.diagnosis.ranking import LEADING_ROLES, lead_finding, rank_findings
from thpdiag.engine.load import Rule
from thpdiag.engine.schema import ProfileCheck
from thpdiag.knowledge.mechanisms import mechanisms
from thpdiag.model import CONFIDENCES, Clock, Evidence, Finding, Moment, RuleOutcome, Verdict3

RULES = {rule.id: rule for rule in rules()}
LEVELS = range(len(CONFIDENCES))
DRAWS = 4000 if os.environ.get("THPDIAG_PROOF") == "1" else 800


def fired(rule: str, level: int, share: float | None = None, window: tuple[float, float] | None = None) -> Finding:
    """A finding as the engine hands it over, with a share in call stacks if one is given."""
    file = RULES[rule].file
    evidence = (Evidence(_of_all(RULES[rule]), "", None, share, "ratio", "stack"),) if share is not None else ()
    span = (Moment(window[0], Clock.UTC), Moment(window[1], Clock.UTC)) if window else None
    word = CONFIDENCES[level]
    outcome = RuleOutcome(rule, Verdict3.YES, "s0", word, evidence, window=span, role=file.role)
    return Finding(outcome, file.severity, word, file.role, file.title, file.mechanism)


def _of_all(rule: Rule) -> str:
    return next(n for n, c in rule.checks.items() if isinstance(c, ProfileCheck) and c.profile.of == "all")


def together(*findings: Finding) -> tuple[Finding, ...]:
    return rank_findings({f.outcome.rule: f for f in findings}, RULES)


def by_rule(found: Iterable[Finding]) -> dict[str, Finding]:
    return {f.outcome.rule: f for f in found}


def spoken_against(found: dict[str, Finding]) -> set[str]:
    """What steps back behind a context, and what steps back behind that."""
    out = {i for i, f in found.items() if f.role == "context"}
    while more := {i for i, f in found.items() if out & set(f.demoted_by)} - out:
        out |= more
    return out


def wrong(given: tuple[Finding, ...], found: tuple[Finding, ...]) -> Iterator[str]:
    """What must never be, whatever fires."""
    leader, before = lead_finding(found), by_rule(given)
    out = spoken_against(by_rule(found))
    could = [f for f in given if f.role in LEADING_ROLES and f.outcome.rule not in out]
    if sum(f.role == "root_cause" for f in found) > 1:
        yield "two root causes"
    if {f.outcome.rule for f in found} != set(before):
        yield "a finding was lost"
    if leader is None:
        if could:
            yield "nobody leads"
        return
    if leader.demoted_by:
        yield "the leader is explained by another"
    if leader.confidence_rank < 1 <= max(f.confidence_rank for f in could):
        yield "a hypothesis stands before a likely finding"
    low = [f for f in could if f.severity in ("low", "info")]
    if leader.outcome.rule in {f.outcome.rule for f in low} and any(
        f.severity not in ("low", "info") and f.confidence_rank and not f.demoted_by
        for f in found
        if f.role != "context"
        and before[f.outcome.rule].role in LEADING_ROLES and f is not leader
    ):  # fmt: skip
        yield "what hurts little stands before what hurts"
    if set(leader.consequences) & set(leader.attached) or leader.outcome.rule in (
        *leader.consequences,
        *leader.attached,
    ):
        yield "a finding is two things"
    for finding in found:
        for other in finding.demoted_by:
            explained = before[other].confidence_rank > 0 and finding.outcome.rule in RULES[other].file.explains
            if before[other].confidence_rank < before[finding.outcome.rule].confidence_rank and not explained:
                yield f"{finding.outcome.rule} steps back behind a hypothesis"


def test_no_pair_of_rules_has_two_causes() -> None:
    """All pairs, each of the two as sure as it may be."""
    bad = []
    for one, other in combinations(RULES, 2):
        for level, second in product(LEVELS, LEVELS):
            given = (fired(one, level), fired(other, second))
            bad += [f"{one} {level}, {other} {second}: {text}" for text in wrong(given, together(*given))]
    assert bad == []


def test_no_many_rules_have_two_causes() -> None:
    """Three to eight at once, with shares in call stacks and stretches of time, drawn the same each time."""
    dice = random.Random(5)
    bad = []
    for _ in range(DRAWS):
        names = dice.sample(sorted(RULES), dice.randint(3, 8))
        given = tuple(_drawn(name, dice) for name in names)
        found = together(*given)
        bad += [f"{[(f.outcome.rule, f.confidence) for f in given]}: {text}" for text in wrong(given, found)]
        assert found == rank_findings(by_rule(reversed(given)), RULES), "the order of rules matters"
    assert bad == []


def _drawn(name: str, dice: random.Random) -> Finding:
    has = any(isinstance(c, ProfileCheck) and c.profile.of == "all" for c in RULES[name].checks.values())
    window = dice.choice([None, (0.0, 60.0), (600.0, 660.0)])
    return fired(name, dice.choice(LEVELS), dice.random() if has else None, window)


@pytest.mark.parametrize("thp", ["THP-001", "THP-010", "THP-011", "THP-030"])
def test_a_likely_cause_is_not_hidden_by_a_hypothesis(thp: str) -> None:
    """Nor does a possible cause of huge pages stand before a likely alternative; whichever pair it is."""
    for other in (r for r in RULES if RULES[r].file.role == "alternative"):
        likely, possible = fired(thp, 1), fired(other, 0)
        assert together(likely, possible)[0].outcome.rule == thp
        assert together(fired(thp, 0), fired(other, 1))[0].outcome.rule == other


def test_the_larger_share_leads() -> None:
    """Of compaction and zeroing under page faults, as thp.md F.3 wants it; the other contributes."""
    for zeroing, compacting, first in ((0.3, 0.1, "THP-040"), (0.2, 0.5, "THP-010")):
        found = together(fired("THP-040", 1, zeroing), fired("THP-010", 1, compacting))
        assert found[0].outcome.rule == first
        assert [f.role for f in found] == ["root_cause", "contributing"]


@pytest.mark.parametrize(
    ("cause", "result"),
    [
        ("THP-001", "THP-010"), ("THP-011", "THP-010"), ("THP-015", "THP-012"), ("THP-030", "THP-032"),
        ("THP-040", "THP-041"), ("THP-054", "THP-010"), ("ALT-22", "ALT-03"), ("THP-053", "ALT-06"),
    ],
)  # fmt: skip
def test_a_likely_cause_leads_over_what_surely_follows_from_it(cause: str, result: str) -> None:
    """Swapping is plain to see; the control group at its limit is why. A mere hypothesis explains nothing."""
    found = together(fired(cause, 1), fired(result, 2))
    assert (found[0].outcome.rule, found[0].confidence) == (cause, "likely")
    assert (found[0].consequences, found[1].demoted_by, found[1].role) == ((result,), (cause,), "contributing")
    assert together(fired(cause, 0), fired(result, 2))[0].outcome.rule == result


def test_a_part_of_the_trouble_leads_though_the_whole_is_larger() -> None:
    """The flushes are a part of the compaction that needs them; clearing pages is none of it."""
    found = together(fired("THP-011", 1, 0.1), fired("THP-010", 1, 0.4))
    assert [f.outcome.rule for f in found] == ["THP-011", "THP-010"]
    assert together(fired("THP-040", 1, 0.2), fired("THP-010", 2, 0.5))[0].outcome.rule == "THP-010"
    assert together(fired("THP-040", 1, 0.5), fired("THP-010", 2, 0.1))[0].outcome.rule == "THP-040"


def test_a_cause_that_is_explained_itself_by_something_else_explains_nothing() -> None:
    """Where a rival is as likely as the cause, the surer result does not step back with it."""
    found = together(fired("THP-011", 1), fired("THP-010", 2), fired("ALT-06", 1))
    assert by_rule(found)["THP-011"].demoted_by == ("ALT-06",)
    assert (found[0].outcome.rule, found[0].demoted_by) == ("THP-010", ())
    alike = together(fired("THP-011", 1), fired("THP-010", 2), fired("THP-001", 1))
    assert (alike[0].outcome.rule, alike[0].consequences) == ("THP-001", ("THP-010", "THP-011"))


def test_what_follows_from_a_consequence_follows_from_the_cause() -> None:
    """A control group at its limit swaps, and the swapping takes huge pages apart."""
    found = together(fired("ALT-22", 1), fired("ALT-03", 2), fired("THP-048", 1))
    assert (found[0].outcome.rule, found[0].consequences) == ("ALT-22", ("ALT-03", "THP-048"))


def test_of_two_that_weigh_the_same_the_one_that_explains_leads() -> None:
    """Not the one whose number is larger: the rules are told apart by what they say of each other."""
    silent = {i: replace(RULES[i], file=RULES[i].file.model_copy(update={"demoted_by": [], "explains": []}))
              for i in ("ALT-04", "ALT-08")}  # fmt: skip
    for first, other in (("ALT-04", "ALT-08"), ("ALT-08", "ALT-04")):
        explaining = replace(RULES[first], file=silent[first].file.model_copy(update={"explains": [other]}))
        found = rank_findings(by_rule([fired("ALT-04", 1), fired("ALT-08", 1)]), RULES | silent | {first: explaining})
        assert (found[0].outcome.rule, found[0].consequences) == (first, (other,))


def test_a_surer_alternative_that_hurts_little_does_not_lead() -> None:
    """kcompactd at work, seen in two ways, beside page faults that compact, seen in one."""
    found = together(fired("THP-050", 2), fired("THP-010", 1))
    assert [(f.outcome.rule, f.role) for f in found] == [("THP-010", "root_cause"), ("THP-050", "alternative")]
    assert together(fired("THP-050", 2))[0].outcome.rule == "THP-050"


def test_what_a_mechanism_leads_to_follows_from_it() -> None:
    """Where no rule names the other: short memory makes the host swap, and the fragmentation of a knee is no cause."""
    found = together(fired("ALT-03", 1), fired("ALT-02", 1))
    assert found[0].outcome.rule == "ALT-02"
    assert found[0].consequences == ("ALT-03",)
    assert by_rule(found)["ALT-03"].role == "contributing"


def test_settings_and_risks_belong_to_a_cause_or_stand_alone() -> None:
    """A contradicted setting belongs to whatever huge pages do, to no other cause; a wrong way off contradicts it."""
    found = together(fired("THP-030", 1), fired("THP-070", 1), fired("THP-081", 1), fired("THP-021", 0))
    assert found[0].attached == ("THP-070",)
    assert together(fired("ALT-04", 1), fired("THP-070", 1))[0].attached == ()
    alone = together(fired("THP-070", 1), fired("THP-021", 0))
    assert (lead_finding(alone), [f.role for f in alone]) == (None, ["configuration", "risk"])
    knee = together(fired("THP-020", 1), fired("THP-021", 0))[0]
    assert (knee.attached, knee.consequences) == (("THP-021",), ())


def test_what_was_at_another_time_is_no_consequence() -> None:
    """Nor does it explain anything."""
    noon, night = (0.0, 60.0), (3600.0, 3660.0)
    found = together(fired("THP-001", 1, window=noon), fired("THP-012", 1, window=night))
    assert found[0].outcome.rule == "THP-001"
    assert (found[0].consequences, found[1].demoted_by) == ((), ())
    assert together(fired("THP-001", 1, window=noon), fired("THP-012", 1, window=noon))[0].consequences == ("THP-012",)


def test_the_time_of_a_finding_is_that_of_its_evidence() -> None:
    """Two recordings hours apart explain nothing of each other; two that follow one another do."""

    def seen(rule: str, start: float) -> Finding:
        span = (Moment(start, Clock.UTC), Moment(start + 60, Clock.UTC))
        evidence = Evidence("x", "", None, 3.0, "1/s", "counter", span)
        plain = fired(rule, 1)
        return replace(plain, outcome=replace(plain.outcome, evidence=(evidence,)))

    assert together(seen("ALT-15", 0.0), seen("THP-012", 120.0))[0].outcome.rule == "ALT-15"
    apart = together(seen("ALT-15", 0.0), seen("THP-012", 7200.0))
    assert [(f.outcome.rule, f.demoted_by) for f in apart] == [("THP-012", ()), ("ALT-15", ())]


def test_a_ring_of_explanations_leaves_one() -> None:
    """Rules that name each other: the weightier leads, instead of none."""
    one, other = (replace(RULES[i], file=RULES[i].file.model_copy(update={"demoted_by": [j]}))
                  for i, j in (("ALT-04", "ALT-05"), ("ALT-05", "ALT-04")))  # fmt: skip
    found = rank_findings(by_rule([fired("ALT-04", 1), fired("ALT-05", 1)]), RULES | {"ALT-04": one, "ALT-05": other})
    assert [(f.outcome.rule, f.demoted_by) for f in found] == [("ALT-04", ()), ("ALT-05", ("ALT-04",))]


def test_mechanisms_lead_to_mechanisms() -> None:
    """Names that exist, and no ring: of two that lead to each other neither is the cause."""
    known = mechanisms()
    assert {n for one in known.values() for n in one.leads_to} <= set(known)
    for one in known:
        reached, todo = set[str](), [one]
        while todo:
            new = set(known[todo.pop()].leads_to) - reached
            reached |= new
            todo += new
        assert one not in reached


def test_a_context_that_speaks_against_a_cause_leaves_it_without_the_lead() -> None:
    """Only where the cause names it: stalls that cost nothing are no root cause, and nothing else is silenced."""
    stalls, cheap = fired("THP-012", 1), fired("CTX-18", 2)
    assert lead_finding(together(stalls, cheap)) is None
    assert by_rule(together(stalls, cheap))["THP-012"].demoted_by == ("CTX-18",)
    assert by_rule(together(stalls, cheap, fired("THP-040", 1)))["THP-040"].role == "root_cause"
    assert by_rule(together(stalls, fired("CTX-05", 2)))["THP-012"].role == "root_cause"
