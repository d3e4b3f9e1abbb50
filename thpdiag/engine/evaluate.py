"""Evaluate rules on one state of one host: first verdicts of all entities, then worded outcomes of those reported.

A rule is judged for every process, zone, CPU or device that it binds; the outcome is that of the worst entity. It is
judged on the whole recording and on each candidate window (`thpdiag.engine.windows`). A rule fires if it holds over the
whole recording or in one window, which the finding then names. A no over a whole day does not rule out what a window of
that day leaves open. The confidence of an outcome is determined in `thpdiag.engine.confidence`.

All checks of a finding must hold at the same time: two conditions that are hours apart make no finding. A check that
answers yes covers a stretch of time. Two stretches on one clock, or on clocks joined by an anchor, either overlap or do
not; all others may overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import NamedTuple, cast

from thpdiag.engine.check_result import DYNAMIC, LASTING, NO, UNKNOWN, YES, CheckResult, CheckResults
from thpdiag.engine.checks import is_per_entity, judge
from thpdiag.engine.confidence import confidence_hints, confidence_level, possible_raises
from thpdiag.engine.expression import Expression
from thpdiag.engine.load import Rule, with_dependencies
from thpdiag.engine.quantity import format_quantity, parse_quantity
from thpdiag.engine.schema import ChangeCheck, Check, ProcessCheck, ProfileCheck, RuleCheck, SeriesCheck
from thpdiag.engine.state_view import CONTEXT_ROLE, StateView
from thpdiag.engine.timing import Timings
from thpdiag.engine.windows import candidate_windows, spans, view_of_window
from thpdiag.host.series import SHORT_SECONDS, Stretch, format_entity
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import (
    CONFIDENCES,
    EXCLUDED,
    Citation,
    Clock,
    Entity,
    Evidence,
    Moment,
    Problem,
    ProblemKind,
    Raise,
    RuleOutcome,
    Verdict3,
)
from thpdiag.model.facts import ClockAnchor
from thpdiag.model.parser import OutOfTimeError
from thpdiag.model.text import describe_error, entity_name, sentence

SAME_TIME_HINT = "all of it from one and the same time"
LONGER_HINT = "the same for longer, in a recording of the slow time"
NO_CPU: Entity = (("cpu", "none"),)  # stands for "no CPU": metrics of the whole host do not describe a single CPU
NO_PROCESS: Entity = (("pid", "none"),)  # stands for "no program": kernel threads have no memory of their own
MIN_SCREENED_ENTITIES = 16  # from this number on, screening all entities at once is faster than judging each
MAX_NAMED_ENTITIES = 5  # entities that a finding names, the worst first
OTHER_TIME_REMARK = "; but not at the same time as the rest"


class ForcedAnswer(NamedTuple):
    """A check whose answer is set instead of judged: a mutation of `rules test`."""

    rule: str
    check: str
    value: Verdict3


class EntityVerdict(NamedTuple):
    """The verdict of a rule for one entity (None: for the host), from the results of its checks.

    `excluder` is the rule that explains the finding otherwise and so silences this one. `is_apart` is True if the rule
    holds only when observations of different times are combined.
    """

    entity: Entity | None
    results: CheckResults
    value: Verdict3
    confidence: str | None = None
    excluder: RuleOutcome | None = None
    is_apart: bool = False

    @property
    def confidence_rank(self) -> int:
        """The index of the confidence, -1 without one."""
        return CONFIDENCES.index(self.confidence) if self.confidence else -1


def evaluate(
    rules: Sequence[Rule], view: StateView, forced: ForcedAnswer | None = None,
    *, bugs: list[Problem] | None = None, timings: Timings | None = None, progress: Callable[[int], None] | None = None,
) -> dict[str, RuleOutcome]:  # fmt: skip
    """Return the outcomes of all rules on the view, including those that the view already has.

    Rules must come in dependency order. On a window only outcomes that other rules need, or that may add to those of
    the whole state, are returned. If a rule raises an exception, its outcome is unknown and `bugs` gets a problem;
    without `bugs` the exception is raised (in tests). OutOfTimeError is always raised. `progress` is called with the
    number of judged rules.
    """
    outcomes: dict[str, RuleOutcome] = dict(view.outcomes)
    view = replace(view, outcomes=outcomes)
    needed = {name for rule in rules for name in rule.dependencies} if view.whole else ()
    for number, rule in enumerate(rules, 1):
        whole = view.whole.outcomes[rule.id].value if view.whole and rule.id not in needed else None
        try:
            with timings.rule(rule.id) if timings else nullcontext():
                verdicts = _judge_entities(rule, view, forced, may_be_silent=whole in (None, NO))
                if whole is None or any(v.value is YES or (v.value, whole) == (UNKNOWN, NO) for v in verdicts):
                    outcomes[rule.id] = _report(rule, view, _rank_entities(rule, view, verdicts))
        except OutOfTimeError:
            raise
        except Exception as error:
            if bugs is None:
                raise
            text = f"a bug in thpdiag: rule {rule.id} failed ({describe_error(error)})"
            bugs.append(Problem(Citation(rule.source.path), text, ProblemKind.BUG))
            outcomes[rule.id] = RuleOutcome(rule.id, UNKNOWN, view.state.id, mistake=sentence(text))
        if progress:
            progress(number)
    return outcomes


# The first pass: verdicts


def worst_verdict(rule: Rule, view: StateView, forced: ForcedAnswer | None = None) -> EntityVerdict:
    """Return the verdict of the entity that is reported."""
    return _rank_entities(rule, view, _judge_entities(rule, view, forced, may_be_silent=True))[0]


def _judge_entities(
    rule: Rule, view: StateView, forced: ForcedAnswer | None, *, may_be_silent: bool
) -> list[EntityVerdict]:
    """Return the verdicts of all entities. The list is empty if the rule cannot fire and `may_be_silent` is False.
    Checks that do not depend on the entity are judged once."""
    entities, kind = _entities(rule, view), rule.file.for_each or ""
    bound = [name for name, check in rule.checks.items() if entities[0] and is_per_entity(check, kind, view)]
    shared = {name: judge(check, view) for name, check in rule.checks.items() if name not in bound}
    if not may_be_silent and forced is None and not _can_fire(rule, shared):
        return []
    if bound and len(entities) >= MIN_SCREENED_ENTITIES and _can_be_screened(view, forced):
        from thpdiag.engine.screen import entities_worth_judging  # imported only for hosts with many entities

        entities = entities_worth_judging(rule, bound, shared, view, entities)
    values: dict[tuple[Verdict3, ...], Verdict3] = {}  # of the condition, by the values of the checks
    verdicts = []
    for entity in entities:
        results = shared
        if bound and entity:
            bound_view = view.bind(kind, entity)
            results = {n: judge(c, bound_view) if n in bound else shared[n] for n, c in rule.checks.items()}
        if forced is not None and forced.rule == rule.id:
            forced_result = replace(results[forced.check], value=forced.value, assumed=False, weak=False)
            results = {**results, forced.check: forced_result}
        key = tuple(result.value for result in results.values())
        if key not in values:
            values[key] = rule.when.value({name: result.value for name, result in results.items()}.__getitem__)
        verdicts.append(EntityVerdict(entity, results, values[key]))
    return verdicts


def _can_be_screened(view: StateView, forced: ForcedAnswer | None) -> bool:
    """Whether results depend on the values alone: no answer is forced, and no member lost data."""
    damaged = view.case.hidden | view.case.tainted
    return forced is None and view.memo is None and damaged.isdisjoint(view.catalogue.members)


def _can_fire(rule: Rule, shared: CheckResults) -> bool:
    """Whether the rule fires if all checks of an entity answer in its favour."""
    polarities = set(rule.when.with_polarity())
    best = {name: NO if against else YES for name, against in polarities}
    best.update((name, result.value) for name, result in shared.items())
    return len(best) < len(polarities) or rule.when.value(best.__getitem__) is YES


def _entities(rule: Rule, view: StateView) -> Sequence[Entity | None]:
    """Return the entities for which the rule is judged; None stands for the host."""
    kind = rule.file.for_each
    entities = view.catalogue.entities(kind) if kind else ()
    if not entities:
        return [NO_CPU if kind == "cpu" else None]
    if kind == "process" and _is_about_memory(rule):
        return view.catalogue.entities(kind, with_memory=True) or [NO_PROCESS]
    return entities


def _is_about_memory(rule: Rule) -> bool:
    """Whether the rule asks for the memory of a process."""
    terms = (term(name) for check in rule.checks.values() for name in check.metrics)
    return any(t is not None and t.entity == "process" and t.unit == "bytes" for t in terms)


def _rank_entities(rule: Rule, view: StateView, judged: Sequence[EntityVerdict]) -> list[EntityVerdict]:
    """Return the verdicts with their confidence, most informative first. Order: those that fire, unknown with
    dynamic evidence, no, unknown without data. Ties go to the higher confidence, then to the larger measured value."""
    excluders, anchors = _excluders(rule, view), view.case.anchors
    verdicts = [_set_confidence(rule, v, excluders, anchors) if v.value is YES else v for v in judged]
    ordered = sorted(verdicts, key=lambda verdict: _verdict_key(rule, verdict)) if len(verdicts) > 1 else verdicts
    if certain := next((o for o in excluders if o.value is YES and _is_certain(o)), None):  # unknown and no is no
        return [o._replace(value=NO, excluder=certain) if o.value is UNKNOWN else o for o in ordered]
    return ordered


def _verdict_key(rule: Rule, verdict: EntityVerdict) -> tuple[int, int, float, str]:
    """The sort key of a verdict. An entity with hardly any data does not outrank those that were measured."""
    supporting = [verdict.results[name] for name in rule.supporting if verdict.results[name].value is YES]
    priority = 3 if verdict.value is YES else 1
    if verdict.value is UNKNOWN:
        priority = 2 if any(result.kind in DYNAMIC for result in supporting) else 0
    largest = max((r.measured for r in supporting if isinstance(r.measured, float)), default=0.0)
    return -priority, -verdict.confidence_rank, -largest, format_entity(verdict.entity or ())


def _set_confidence(
    rule: Rule, fired: EntityVerdict, excluders: Sequence[RuleOutcome], anchors: Sequence[ClockAnchor]
) -> EntityVerdict:
    """Set the confidence of a verdict that fires: the best one among its groups of simultaneous observations."""
    groups = group_by_time(fired.results, anchors)
    settled = [_apply_excluders(rule, fired._replace(results=results), excluders) for results in groups]
    best = max(settled, key=lambda verdict: (verdict.value.value, verdict.confidence_rank))
    if best.value is not UNKNOWN:
        return best
    whole = _apply_excluders(rule, fired, excluders)
    return whole._replace(confidence=CONFIDENCES[0], is_apart=True) if whole.value is YES else whole


def _is_certain(excluder: RuleOutcome) -> bool:
    """Whether a rule excludes another at any confidence."""
    return excluder.role == CONTEXT_ROLE or excluder.confidence_rank == len(CONFIDENCES) - 1


def _apply_excluders(rule: Rule, verdict: EntityVerdict, excluders: Sequence[RuleOutcome]) -> EntityVerdict:
    """Return the verdict with its confidence, or as no if a rule that excludes it fires. A rule whose confidence is
    lower than that of the verdict does not exclude it, but keeps it a hypothesis."""
    results = verdict.results
    value = rule.when.value(lambda name: results[name].value)
    if value is not YES:
        return verdict._replace(value=value)
    open_ = [o for o in excluders if o.value is not NO]
    level = CONFIDENCES.index(confidence_level(rule, results, [o for o in open_ if o.value is UNKNOWN]))
    silencers = (o for o in open_ if o.value is YES and (_is_certain(o) or o.confidence_rank >= level))
    if excluder := next(silencers, None):
        return verdict._replace(value=NO, excluder=excluder)
    return verdict._replace(confidence=confidence_level(rule, results, open_))


# The second pass: the outcome that is reported, in words


def _report(rule: Rule, view: StateView, ranked: Sequence[EntityVerdict]) -> RuleOutcome:
    """Return the outcome of the first entity, with the names of other entities for which the rule fires."""
    outcome = _outcome(rule, view, ranked[0])
    fired = [format_entity(verdict.entity or ()) for verdict in ranked if verdict.value is YES]
    if len(fired) < 2:
        return outcome
    names = ", ".join(map(entity_name, fired[1:MAX_NAMED_ENTITIES]))
    more = f" and {len(fired) - MAX_NAMED_ENTITIES} more" if len(fired) > MAX_NAMED_ENTITIES else ""
    others = Evidence("entity", f"the same holds for {names}{more}", None)
    return replace(outcome, evidence=(*outcome.evidence, others))


def _outcome(rule: Rule, view: StateView, verdict: EntityVerdict) -> RuleOutcome:
    results, excluders = verdict.results, _excluders(rule, view)
    lasting = {n: r.value if r.kind in LASTING else UNKNOWN for n, r in results.items()}
    supporting = {n: r for n, r in results.items() if n in rule.supporting and r.value is YES}
    missing = (m for n in rule.when.names() if results[n].value is UNKNOWN for m in results[n].missing)
    against = _opposing_evidence(rule, results)
    hints: tuple[str, ...] = ()
    raises: tuple[Raise, ...] = ()
    if verdict.excluder:
        against = (_exclusion_evidence(verdict.excluder), *against)
    if verdict.confidence:
        open_ = [o for o in excluders if o.value is not NO]
        level = confidence_level(rule, results, open_)
        hints = confidence_hints(rule, results, open_, level)
        if verdict.is_apart:
            hints = (SAME_TIME_HINT, *hints)
        else:
            raises = possible_raises(rule, results, open_, level)
    return RuleOutcome(
        rule=rule.id, title=rule.file.title, value=verdict.value, state=view.state.id, confidence=verdict.confidence,
        missing=tuple(dict.fromkeys(missing)), entity=format_entity(verdict.entity or ()),
        evidence=tuple(r.evidence(n) for n, r in supporting.items()), against=against, raise_confidence=hints,
        raises=raises, firm=rule.when.value(lasting.__getitem__) is NO, answers=results, excluders=excluders,
        role=rule.file.role, evidence_classes=tuple(sorted(_evidence_classes(rule, view, supporting))),
        available_classes=tuple(sorted({r.kind for r in results.values() if r.value is not UNKNOWN})),
    )  # fmt: skip


def _evidence_classes(rule: Rule, view: StateView, supporting: CheckResults) -> set[str]:
    """The classes of evidence of a finding. A check of another rule contributes the classes of that rule."""
    classes: set[str] = set()
    for name, result in supporting.items():
        check = rule.checks[name]
        other = view.outcomes.get(check.rule) if isinstance(check, RuleCheck) else None
        classes.update(other.evidence_classes if other and other.value is YES else (result.kind,))
    return classes


def _excluders(rule: Rule, view: StateView) -> tuple[RuleOutcome, ...]:
    """The outcomes of the rules in `excluded_by`. Where one is unknown in a window, that of the whole recording
    counts."""
    outcomes = []
    for other in rule.file.excluded_by:
        outcome = view.outcomes.get(other)
        whole = view.whole.outcomes.get(other) if view.whole else None
        if outcome is not None:
            outcomes.append(whole if whole is not None and outcome.value is UNKNOWN else outcome)
    return tuple(outcomes)


def _opposing_evidence(rule: Rule, answers: CheckResults) -> tuple[Evidence, ...]:
    """Evidence against a finding: checks that would support it and answer no, then negated checks that answer yes. A
    check that answers no does not count if another alternative of its `or` holds. A weak yes does not count."""
    denied = {
        *_denied_names(rule.when, answers),
        *(n for e in rule.confidence.values() for n in _denied_names(_drop_unseen_alternatives(e, answers), answers)),
    }
    contrary = {n for n, a in answers.items() if a.value is YES and not a.weak} - rule.supporting
    return tuple(a.evidence(n) for names in (denied, contrary - denied) for n, a in answers.items() if n in names)


def _denied_names(expression: Expression, answers: CheckResults) -> Iterable[str]:
    """Names without `not` that answer no, in the parts of the condition that do not hold."""
    if expression.op == "name":
        if answers[expression.name].value is NO:
            yield expression.name
    elif expression.op != "not" and expression.value(lambda n: answers[n].value) is not YES:
        for child in expression.children:
            yield from _denied_names(child, answers)


def _drop_unseen_alternatives(expression: Expression, answers: CheckResults) -> Expression:
    """Remove those alternatives of each `or` for which no check answers yes, if at least one other has some support.
    The checks of a removed alternative do not count against the finding. (That no process waits for a disk does not
    contradict that the disk is written to.)"""
    children = tuple(_drop_unseen_alternatives(child, answers) for child in expression.children)
    if expression.op == "or":
        children = tuple(c for c in children if _has_support(c, answers)) or children
    return replace(expression, children=children)


def _has_support(expression: Expression, answers: CheckResults) -> bool:
    return any(answers[name].value is YES for name, against in expression.with_polarity() if not against)


def _exclusion_evidence(excluder: RuleOutcome) -> Evidence:
    first = next(iter(excluder.evidence), None)
    text = f"{excluder.rule} explains it" + (f": {first.text}" if first else "")
    return Evidence(EXCLUDED, text, first.cite if first else None)


# Observations at the same time


class Span(NamedTuple):
    """A time range in seconds on a clock, widened by its uncertainty."""

    first: float
    last: float
    clock: Clock

    def contains(self, seconds: float, clock: Clock) -> bool:
        """Whether a moment is inside. A moment on another clock may be, so it counts as inside."""
        return clock is not self.clock or self.first <= seconds <= self.last


def group_by_time(results: CheckResults, anchors: Sequence[ClockAnchor]) -> list[CheckResults]:
    """Split results into groups that hold at the same time. Each group is the whole mapping, with results of other
    times turned to unknown. If all may hold at one time, the only group is the mapping itself."""
    timed = {name: span for name, result in results.items() if (span := _span(result, anchors))}
    pairs = timed.items()
    groups = [frozenset(n for n, span in pairs if span.contains(s.first, s.clock)) for s in timed.values()]
    largest = [g for g in dict.fromkeys(groups) if not any(g < other for other in groups)]
    if len(largest) < 2:
        return [results]
    split: list[CheckResults] = []
    for group in largest:
        others = {n: results[n].with_remark(OTHER_TIME_REMARK, UNKNOWN) for n in timed.keys() - group}
        split.append({n: others.get(n, result) for n, result in results.items()})
    return split


def _span(answer: CheckResult, anchors: Sequence[ClockAnchor]) -> Span | None:
    """The time range of a dynamic yes, on the wall clock if an anchor maps to it."""
    if answer.value is not YES or answer.kind not in DYNAMIC or answer.window is None:
        return None
    first, last = answer.window
    error = SHORT_SECONDS + max(first.within, last.within)
    if first.clock is Clock.BOOT and anchors:
        anchor = anchors[0]
        error += anchor.uncertainty(last)
        first, last = anchor.wall_time(first), anchor.wall_time(last)
    if first.clock is not last.clock or first.clock.is_of_one_member:
        return None  # the date of a time of day is unknown
    error += answer.reach
    return Span(first.seconds - error, last.seconds + error, first.clock)


# Windows


def evaluate_with_windows(
    rules: Sequence[Rule], view: StateView, forced: ForcedAnswer | None = None,
    *, bugs: list[Problem] | None = None, timings: Timings | None = None,
    progress: Callable[[int, int, int, int], None] | None = None,
) -> dict[str, RuleOutcome]:  # fmt: skip
    """Return the outcomes of all rules in a state, each for the whole recording or for its worst window.

    `progress` is called with the number of rules, the number of the window (0: the whole recording), the number of
    windows, and the number of rules judged.
    """
    watch = progress and partial(progress, len(rules), 0, 0)
    whole = evaluate(rules, view, forced, bugs=bugs, timings=timings, progress=watch)
    whole_view = replace(view, outcomes=whole)
    stretches = candidate_windows(rules, whole_view)
    if not stretches:
        return whole
    windowed_rules = with_dependencies(filter(_has_timed_checks, rules), rules)
    parts = []
    for number, stretch in enumerate(stretches, 1):
        watch = progress and partial(progress, len(windowed_rules), number, len(stretches))
        window = view_of_window(whole_view, stretch)
        parts.append((stretch, evaluate(windowed_rules, window, forced, bugs=bugs, timings=timings, progress=watch)))
    if bugs:
        bugs[:] = dict.fromkeys(bugs)
    last = [window for window in parts if _reaches_end(window[0], view)]
    return {rule.id: _join_windows(rule, whole_view, last if rule.file.until else parts) for rule in rules}


def _reaches_end(stretch: Stretch, view: StateView) -> bool:
    end = view.catalogue.end(stretch.clock)
    return end is None or stretch.last >= end - SHORT_SECONDS


def _has_timed_checks(rule: Rule) -> bool:
    return any(isinstance(check, SeriesCheck | ChangeCheck | ProcessCheck) for check in rule.checks.values())


def _join_windows(
    rule: Rule, view: StateView, windows: Sequence[tuple[Stretch, Mapping[str, RuleOutcome]]]
) -> RuleOutcome:
    """The outcome of the whole state, or that of a window with a higher confidence or an open question."""
    whole = view.outcomes[rule.id]
    if rule.file.role == CONTEXT_ROLE:
        return whole
    parts = [_set_window(stretch, outcomes[rule.id]) for stretch, outcomes in windows if rule.id in outcomes]
    fired = [part for part in parts if part.value is YES and any(e.window for e in part.evidence)]
    surest = max(
        fired, key=lambda part: part.confidence_rank, default=None
    )  # of equal ones the first, which is the worst
    if surest and (whole.value is not YES or whole.confidence_rank < surest.confidence_rank):
        return surest
    if whole.value is NO and not whole.is_excluded:
        undecided = (
            _set_window(stretch, outcomes[rule.id])
            for stretch, outcomes in windows
            if rule.id in outcomes and _contradicts(rule, view, stretch, outcomes[rule.id])
        )
        return next(undecided, whole)
    return whole


def _contradicts(rule: Rule, view: StateView, stretch: Stretch, part: RuleOutcome) -> bool:
    """Whether a window leaves the rule undecided and supports a check that the whole recording denies. Not so if
    everything that the window leaves undecided is decided for it by the whole recording."""
    whole = view.outcomes[rule.id]
    against = {e.check for e in whole.against if e.kind in DYNAMIC} & set(rule.when.names())
    if part.value is not UNKNOWN or not any(e.check in against for e in part.evidence):
        return False
    if part.entity != whole.entity:
        return True

    def value(name: str) -> Verdict3:
        result, whole_result = (cast("CheckResult", outcome.answers[name]) for outcome in (part, whole))
        is_covered = result.value is UNKNOWN and _covers(rule.checks[name], whole_result, stretch, view)
        return whole_result.value if is_covered else result.value

    return rule.when.value(value) is not NO


def _covers(check: Check, answer: CheckResult, stretch: Stretch, view: StateView) -> bool:
    """Whether a result for the whole recording also holds for a window without a result of its own. It does if the
    window is shorter than the time the check needs, or if the recording of call stacks that the result cites fills
    at least half of the window."""
    if isinstance(check, ChangeCheck):
        return check.change.over is not None and stretch.seconds < parse_quantity(check.change.over)
    if not isinstance(check, ProfileCheck) or answer.cite is None:
        return False
    profiles = (p for p in view.state.profiles if answer.cite and p.cite.member == answer.cite.member)
    times = (span for p in profiles for span in spans(p, view.case.anchors) if span[0].clock is stretch.clock)
    shared = (min(last.seconds, stretch.last) - max(first.seconds, stretch.first) for first, last in times)
    return any(seconds >= stretch.seconds / 2 for seconds in shared)


def _set_window(stretch: Stretch, outcome: RuleOutcome) -> RuleOutcome:
    """The outcome of a window, with its share of the recording in the text. In a burst the confidence is only
    `possible`."""
    moments = (Moment(stretch.first, stretch.clock), Moment(stretch.last, stretch.clock))
    outcome = replace(outcome, window=moments, evidence=tuple(_add_share(e, stretch) for e in outcome.evidence))
    if not stretch.is_burst or outcome.confidence_rank < 1:
        return outcome
    hints = tuple(dict.fromkeys((LONGER_HINT, *outcome.raise_confidence)))
    return replace(outcome, confidence=CONFIDENCES[0], raise_confidence=hints, raises=())


def _add_share(evidence: Evidence, stretch: Stretch) -> Evidence:
    if not stretch.recorded_seconds or evidence.window is None:
        return evidence
    lengths = [format_quantity(seconds, "seconds") for seconds in (stretch.seconds, stretch.recorded_seconds)]
    part = f"; {lengths[0]} of {lengths[1]} recorded"
    return replace(evidence, text=evidence.text + part, brief=evidence.brief + part)
