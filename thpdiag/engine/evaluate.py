"""Rules on one state of one host: verdicts of all entities first, then outcomes with words for what is reported.

A rule is judged for every process, zone, CPU or device that it binds; of these one outcome is made, that of its worst
entity. It is judged on all that was recorded and on each stretch of it that may be the one that hurt
(`thpdiag.engine.windows`). A rule holds if it holds over all of it, or in one stretch: then the finding names it. That
it does not hold over a day rules nothing out that a stretch of it leaves open. How sure an outcome is:
`thpdiag.engine.confidence`.

What the checks of a rule saw must have been there at the same time: two conditions hours apart make no finding. A check
that says yes speaks of a stretch of time. Stretches on one clock, or joined to one, either meet or do not; of others
nobody can say that they were apart.
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
from thpdiag.engine.load import Rule, with_earlier
from thpdiag.engine.quantity import format_quantity, parse_quantity
from thpdiag.engine.schema import ChangeCheck, Check, ProcessCheck, ProfileCheck, RuleCheck, SeriesCheck
from thpdiag.engine.state_view import OF_THE_STATE, StateView
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

ONE_TIME = "all of it from one and the same time"
LONGER = "the same for longer, in a recording of the slow time"
NO_CPU: Entity = (("cpu", "none"),)  # figures of the whole host say nothing of any one CPU
NO_PROCESS: Entity = (("pid", "none"),)  # nor do those of kernel threads of the memory of programs
MANY = 16  # entities, of which it is worth while to look at all at once before some are judged
MOST_ENTITIES = 5  # a rule that fires for more processes names the worst of them
APART = "; but not at the same time as the rest"


class ForcedAnswer(NamedTuple):
    """A check whose answer is given instead of judged: the mutation of `rules test`."""

    rule: str
    check: str
    value: Verdict3


class EntityVerdict(NamedTuple):
    """What a rule comes to for one entity (None: for the host), by what its checks said.

    `excluder` is the rule that explains it otherwise and so silences it. `is_apart`: it holds only if things are put
    together that were there at different times.
    """

    entity: Entity | None
    results: CheckResults
    value: Verdict3
    confidence: str | None = None
    excluder: RuleOutcome | None = None
    is_apart: bool = False

    @property
    def sureness(self) -> int:
        """The confidence as a number, -1 without one."""
        return CONFIDENCES.index(self.confidence) if self.confidence else -1


def evaluate(
    rules: Sequence[Rule], view: StateView, forced: ForcedAnswer | None = None,
    *, bugs: list[Problem] | None = None, timings: Timings | None = None, progress: Callable[[int], None] | None = None,
) -> dict[str, RuleOutcome]:  # fmt: skip
    """Outcomes of all rules on the view, which may know some; rules come in dependency order.

    On a stretch of time there are those that other rules ask for, and those that may say more than the whole state.
    A rule that fails by a mistake of ours is unknown and leaves a problem in `bugs`; without such a list the mistake is
    raised (tests). OutOfTimeError is always raised. `progress` gets how many were judged.
    """
    outcomes: dict[str, RuleOutcome] = dict(view.outcomes)
    view = replace(view, outcomes=outcomes)
    asked = {name for rule in rules for name in rule.earlier} if view.whole else ()
    for number, rule in enumerate(rules, 1):
        whole = view.whole.outcomes[rule.id].value if view.whole and rule.id not in asked else None
        try:
            with timings.rule(rule.id) if timings else nullcontext():
                judged = _judge_entities(rule, view, forced, may_be_silent=whole in (None, NO))
                if whole is None or any(one.value is YES or (one.value, whole) == (UNKNOWN, NO) for one in judged):
                    outcomes[rule.id] = _report(rule, view, _rank_entities(rule, view, judged))
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
    """The verdict of the entity that is reported."""
    return _rank_entities(rule, view, _judge_entities(rule, view, forced, may_be_silent=True))[0]


def _judge_entities(
    rule: Rule, view: StateView, forced: ForcedAnswer | None, *, may_be_silent: bool
) -> list[EntityVerdict]:
    """What each entity comes to; nothing if only a rule that fires is of use, and it cannot.

    A check that says the same of all entities is judged once.
    """
    entities, kind = _entities(rule, view), rule.file.for_each or ""
    bound = [name for name, check in rule.checks.items() if entities[0] and is_per_entity(check, kind, view)]
    shared = {name: judge(check, view) for name, check in rule.checks.items() if name not in bound}
    if not may_be_silent and forced is None and not _can_fire(rule, shared):
        return []
    if bound and len(entities) >= MANY and _can_be_screened(view, forced):
        from thpdiag.engine.screen import entities_worth_judging  # for hosts with many only

        entities = entities_worth_judging(rule, bound, shared, view, entities)
    values: dict[tuple[Verdict3, ...], Verdict3] = {}  # of the condition, by those of the checks
    found = []
    for entity in entities:
        results = shared
        if bound and entity:
            own = view.bind(kind, entity)
            results = {n: judge(c, own) if n in bound else shared[n] for n, c in rule.checks.items()}
        if forced is not None and forced.rule == rule.id:
            given = replace(results[forced.check], value=forced.value, assumed=False, weak=False)
            results = {**results, forced.check: given}
        key = tuple(result.value for result in results.values())
        if key not in values:
            values[key] = rule.when.value({name: result.value for name, result in results.items()}.__getitem__)
        found.append(EntityVerdict(entity, results, values[key]))
    return found


def _can_be_screened(view: StateView, forced: ForcedAnswer | None) -> bool:
    """Whether answers are those of the values alone: none is given, or doubted because its member lost something."""
    doubted = view.case.hidden | view.case.tainted
    return forced is None and view.memo is None and doubted.isdisjoint(view.catalogue.members)


def _can_fire(rule: Rule, shared: CheckResults) -> bool:
    """Whether the rule fires for an entity whose own checks all speak for it."""
    sides = set(rule.when.with_polarity())
    best = {name: NO if against else YES for name, against in sides}
    best.update((name, result.value) for name, result in shared.items())
    return len(best) < len(sides) or rule.when.value(best.__getitem__) is YES


def _entities(rule: Rule, view: StateView) -> Sequence[Entity | None]:
    """The entities that the rule is judged for; None stands for the host."""
    kind = rule.file.for_each
    entities = view.catalogue.entities(kind) if kind else ()
    if not entities:
        return [NO_CPU if kind == "cpu" else None]
    if kind == "process" and _is_about_memory(rule):
        return view.catalogue.entities(kind, with_memory=True) or [NO_PROCESS]
    return entities


def _is_about_memory(rule: Rule) -> bool:
    """Whether it asks what memory a process has."""
    known = (term(name) for check in rule.checks.values() for name in check.metrics)
    return any(t is not None and t.entity == "process" and t.unit == "bytes" for t in known)


def _rank_entities(rule: Rule, view: StateView, judged: Sequence[EntityVerdict]) -> list[EntityVerdict]:
    """The entities, with their confidence, by what says most: fired, then half proven, then decided, then without data;
    the surest, the largest."""
    excluders, known = _excluders(rule, view), view.case.anchors
    settled = [_with_confidence(rule, one, excluders, known) if one.value is YES else one for one in judged]
    ordered = sorted(settled, key=lambda one: _rank(rule, one)) if len(settled) > 1 else settled
    if certain := next((o for o in excluders if o.value is YES and _is_certain(o)), None):  # unknown and no is no
        return [o._replace(value=NO, excluder=certain) if o.value is UNKNOWN else o for o in ordered]
    return ordered


def _rank(rule: Rule, one: EntityVerdict) -> tuple[int, int, float, str]:
    """The place of a verdict in this order.

    An entity of which hardly anything was recorded does not outweigh those that were looked at.
    """
    speaking = [one.results[name] for name in rule.supporting if one.results[name].value is YES]
    place = 3 if one.value is YES else 1
    if one.value is UNKNOWN:
        place = 2 if any(result.kind in DYNAMIC for result in speaking) else 0
    largest = max((r.measured for r in speaking if isinstance(r.measured, float)), default=0.0)
    return -place, -one.sureness, -largest, format_entity(one.entity or ())


def _with_confidence(
    rule: Rule, fired: EntityVerdict, excluders: Sequence[RuleOutcome], known: Sequence[ClockAnchor]
) -> EntityVerdict:
    """How sure a rule that fires is; of what was there at several times the verdict that says most."""
    groups = group_by_time(fired.results, known)
    settled = [_settle(rule, fired._replace(results=results), excluders) for results in groups]
    best = max(settled, key=lambda one: (one.value.value, one.sureness))
    if best.value is not UNKNOWN:
        return best
    whole = _settle(rule, fired, excluders)
    return whole._replace(confidence=CONFIDENCES[0], is_apart=True) if whole.value is YES else whole


def _is_certain(excluder: RuleOutcome) -> bool:
    """Whether it silences however sure the other rule is, or would be."""
    return excluder.role == OF_THE_STATE or excluder.sureness == len(CONFIDENCES) - 1


def _settle(rule: Rule, one: EntityVerdict, excluders: Sequence[RuleOutcome]) -> EntityVerdict:
    """Whether it fires beside what would explain it otherwise, and how sure that is.

    What is less sure than the finding does not silence it: as long as it may be true the finding is a hypothesis, too.
    """
    results = one.results
    value = rule.when.value(lambda name: results[name].value)
    if value is not YES:
        return one._replace(value=value)
    open_ = [o for o in excluders if o.value is not NO]
    level = CONFIDENCES.index(confidence_level(rule, results, [o for o in open_ if o.value is UNKNOWN]))
    silences = (o for o in open_ if o.value is YES and (_is_certain(o) or o.sureness >= level))
    if excluder := next(silences, None):
        return one._replace(value=NO, excluder=excluder)
    return one._replace(confidence=confidence_level(rule, results, open_))


# The second pass: the outcome that is reported, in words


def _report(rule: Rule, view: StateView, ranked: Sequence[EntityVerdict]) -> RuleOutcome:
    """The outcome of the first entity, with the names of others for which the rule fires."""
    outcome = _outcome(rule, view, ranked[0])
    fired = [format_entity(one.entity or ()) for one in ranked if one.value is YES]
    if len(fired) < 2:
        return outcome
    names = ", ".join(map(entity_name, fired[1:MOST_ENTITIES]))
    more = f" and {len(fired) - MOST_ENTITIES} more" if len(fired) > MOST_ENTITIES else ""
    also = Evidence("entity", f"the same holds for {names}{more}", None)
    return replace(outcome, evidence=(*outcome.evidence, also))


def _outcome(rule: Rule, view: StateView, one: EntityVerdict) -> RuleOutcome:
    results, excluders = one.results, _excluders(rule, view)
    lasting = {n: r.value if r.kind in LASTING else UNKNOWN for n, r in results.items()}
    speaking = {n: r for n, r in results.items() if n in rule.supporting and r.value is YES}
    missing = (m for n in rule.when.names() if results[n].value is UNKNOWN for m in results[n].missing)
    against = _against(rule, results)
    hints: tuple[str, ...] = ()
    raises: tuple[Raise, ...] = ()
    if one.excluder:
        against = (_exclusion(one.excluder), *against)
    if one.confidence:
        open_ = [o for o in excluders if o.value is not NO]
        level = confidence_level(rule, results, open_)
        hints = confidence_hints(rule, results, open_, level)
        if one.is_apart:
            hints = (ONE_TIME, *hints)
        else:
            raises = possible_raises(rule, results, open_, level)
    return RuleOutcome(
        rule=rule.id, title=rule.file.title, value=one.value, state=view.state.id,
        confidence=one.confidence, missing=tuple(dict.fromkeys(missing)), entity=format_entity(one.entity or ()),
        evidence=tuple(r.evidence(n) for n, r in speaking.items()), against=against, raise_confidence=hints,
        raises=raises, firm=rule.when.value(lasting.__getitem__) is NO, answers=results, excluders=excluders,
        role=rule.file.role, spoken=tuple(sorted(_classes(rule, view, speaking))),
        heard=tuple(sorted({r.kind for r in results.values() if r.value is not UNKNOWN})),
    )  # fmt: skip


def _classes(rule: Rule, view: StateView, speaking: CheckResults) -> set[str]:
    """The classes of evidence of a finding; of another rule that it rests on, those of that rule's."""
    found: set[str] = set()
    for name, result in speaking.items():
        check = rule.checks[name]
        other = view.outcomes.get(check.rule) if isinstance(check, RuleCheck) else None
        found.update(other.spoken if other and other.value is YES else (result.kind,))
    return found


def _excluders(rule: Rule, view: StateView) -> tuple[RuleOutcome, ...]:
    """What would explain it otherwise. Where a stretch of time cannot tell, all that was recorded may."""
    found = []
    for other in rule.file.excluded_by:
        here = view.outcomes.get(other)
        above = view.whole.outcomes.get(other) if view.whole else None
        if here is not None:
            found.append(above if above is not None and here.value is UNKNOWN else here)
    return tuple(found)


def _against(rule: Rule, answers: CheckResults) -> tuple[Evidence, ...]:
    """Checks that would have supported the finding and said no, then those under `not` that said yes.

    Another way that did hold makes the former no objection. A doubtful yes is none.
    """
    lacking = {
        *_opposing(rule.when, answers),
        *(n for e in rule.confidence.values() for n in _opposing(_without_unseen(e, answers), answers)),
    }
    contrary = {n for n, a in answers.items() if a.value is YES and not a.weak} - rule.supporting
    return tuple(a.evidence(n) for names in (lacking, contrary - lacking) for n, a in answers.items() if n in names)


def _opposing(expression: Expression, answers: CheckResults) -> Iterable[str]:
    """Names that stand without `not` and say no, in the parts of the condition that do not hold."""
    if expression.op == "name":
        if answers[expression.name].value is NO:
            yield expression.name
    elif expression.op != "not" and expression.value(lambda n: answers[n].value) is not YES:
        for child in expression.children:
            yield from _opposing(child, answers)


def _without_unseen(expression: Expression, answers: CheckResults) -> Expression:
    """A level without those of its ways of which nothing was seen, where another one is there in part: what only
    they would take is no objection. (A disk that makes nobody wait says nothing against one that is written to.)
    """
    children = tuple(_without_unseen(child, answers) for child in expression.children)
    if expression.op == "or":
        children = tuple(c for c in children if _is_seen(c, answers)) or children
    return replace(expression, children=children)


def _is_seen(expression: Expression, answers: CheckResults) -> bool:
    return any(answers[name].value is YES for name, against in expression.with_polarity() if not against)


def _exclusion(excluder: RuleOutcome) -> Evidence:
    first = next(iter(excluder.evidence), None)
    text = f"{excluder.rule} explains it" + (f": {first.text}" if first else "")
    return Evidence(EXCLUDED, text, first.cite if first else None)


# What was there at the same time


class Span(NamedTuple):
    """Seconds on a clock, as wide as they may be."""

    first: float
    last: float
    clock: Clock

    def holds(self, seconds: float, clock: Clock) -> bool:
        """Whether a moment is inside; perhaps, if the clocks differ."""
        return clock is not self.clock or self.first <= seconds <= self.last


def group_by_time(results: CheckResults, known: Sequence[ClockAnchor]) -> list[CheckResults]:
    """The answers; if they speak of several times, once for each, without what was not there then."""
    timed = {name: span for name, result in results.items() if (span := _span(result, known))}
    groups: list[frozenset[str]] = []
    for one in timed.values():
        groups.append(frozenset(n for n, span in timed.items() if span.holds(one.first, one.clock)))
    largest = [g for g in dict.fromkeys(groups) if not any(g < other for other in groups)]
    if len(largest) < 2:
        return [results]
    return [
        {n: a if n not in timed or n in group else a.with_remark(APART, UNKNOWN) for n, a in results.items()}
        for group in largest
    ]


def _span(answer: CheckResult, known: Sequence[ClockAnchor]) -> Span | None:
    """When what an answer saw was there, on the wall clock if something tells it."""
    if answer.value is not YES or answer.kind not in DYNAMIC or answer.window is None:
        return None
    first, last = answer.window
    off = SHORT_SECONDS + max(first.within, last.within)
    if first.clock is Clock.BOOT and known:
        join = known[0]
        off += join.uncertainty(last)
        first, last = join.wall_time(first), join.wall_time(last)
    return _wide(first, last, off + answer.reach)


def _wide(first: Moment, last: Moment, off: float) -> Span | None:
    if first.clock is not last.clock or first.clock.is_of_one_member:
        return None  # of which day a time of day is nobody knows
    return Span(first.seconds - off, last.seconds + off, first.clock)


# Stretches of time


def evaluate_with_windows(
    rules: Sequence[Rule], view: StateView, forced: ForcedAnswer | None = None,
    *, bugs: list[Problem] | None = None, timings: Timings | None = None,
    progress: Callable[[int, int, int, int], None] | None = None,
) -> dict[str, RuleOutcome]:  # fmt: skip
    """Outcomes of all rules in a state, those of its worst stretches among them.

    `progress` gets of how many rules, on which stretch (0: all that was recorded) of how many, how many were judged.
    """
    watch = progress and partial(progress, len(rules), 0, 0)
    whole = evaluate(rules, view, forced, bugs=bugs, timings=timings, progress=watch)
    known = replace(view, outcomes=whole)
    stretches = candidate_windows(rules, known)
    if not stretches:
        return whole
    moving = with_earlier(filter(_looks_at_values, rules), rules)
    parts = []
    for number, stretch in enumerate(stretches, 1):
        watch = progress and partial(progress, len(moving), number, len(stretches))
        part = view_of_window(known, stretch)
        parts.append((stretch, evaluate(moving, part, forced, bugs=bugs, timings=timings, progress=watch)))
    if bugs:
        bugs[:] = dict.fromkeys(bugs)
    last = [part for part in parts if _reaches_end(part[0], view)]
    return {rule.id: _join_windows(rule, known, last if rule.file.until else parts) for rule in rules}


def _reaches_end(stretch: Stretch, view: StateView) -> bool:
    """Whether it reaches the end of what was recorded."""
    end = view.catalogue.end(stretch.clock)
    return end is None or stretch.last >= end - SHORT_SECONDS


def _looks_at_values(rule: Rule) -> bool:
    """Whether it looks at values over time."""
    return any(isinstance(check, SeriesCheck | ChangeCheck | ProcessCheck) for check in rule.checks.values())


def _join_windows(
    rule: Rule, view: StateView, windows: Sequence[tuple[Stretch, Mapping[str, RuleOutcome]]]
) -> RuleOutcome:
    """The outcome of the whole state, or of the stretch that says more."""
    whole = view.outcomes[rule.id]
    if rule.file.role == OF_THE_STATE:
        return whole
    parts = [_in_window(stretch, outcomes[rule.id]) for stretch, outcomes in windows if rule.id in outcomes]
    fired = [part for part in parts if part.value is YES and any(e.window for e in part.evidence)]
    surest = max(fired, key=lambda part: part.sureness, default=None)  # the worst of those that are as sure
    if surest and (whole.value is not YES or whole.sureness < surest.sureness):
        return surest
    if whole.value is NO and not whole.is_excluded:
        open_there = (
            _in_window(stretch, outcomes[rule.id])
            for stretch, outcomes in windows
            if rule.id in outcomes and _contradicts(rule, view, stretch, outcomes[rule.id])
        )
        return next(open_there, whole)
    return whole


def _contradicts(rule: Rule, view: StateView, stretch: Stretch, part: RuleOutcome) -> bool:
    """Whether a stretch leaves the rule open and shows what of its condition the whole recording speaks against.

    Not where it leaves open only what the whole recording has decided for this stretch, too.
    """
    whole = view.outcomes[rule.id]
    against = {e.check for e in whole.against if e.kind in DYNAMIC} & set(rule.when.names())
    if part.value is not UNKNOWN or not any(e.check in against for e in part.evidence):
        return False
    if part.entity != whole.entity:
        return True

    def value(name: str) -> Verdict3:
        here, above = (cast("CheckResult", outcome.answers[name]) for outcome in (part, whole))
        return above.value if here.value is UNKNOWN and _covers(rule.checks[name], above, stretch, view) else here.value

    return rule.when.value(value) is not NO


def _covers(check: Check, answer: CheckResult, stretch: Stretch, view: StateView) -> bool:
    """Whether an answer about the whole recording holds for a stretch that has none: it is too short for the question,
    or most of it was spent in the recording of call stacks that answers."""
    if isinstance(check, ChangeCheck):
        return check.change.over is not None and stretch.seconds < parse_quantity(check.change.over)
    if not isinstance(check, ProfileCheck) or answer.cite is None:
        return False
    own = (p for p in view.state.profiles if answer.cite and p.cite.member == answer.cite.member)
    times = (span for p in own for span in spans(p, view.case.anchors) if span[0].clock is stretch.clock)
    shared = (min(last.seconds, stretch.last) - max(first.seconds, stretch.first) for first, last in times)
    return any(seconds >= stretch.seconds / 2 for seconds in shared)


def _in_window(stretch: Stretch, outcome: RuleOutcome) -> RuleOutcome:
    """The outcome of a stretch, with its share of the recording. A burst is no more than a hypothesis."""
    moments = (Moment(stretch.first, stretch.clock), Moment(stretch.last, stretch.clock))
    outcome = replace(outcome, window=moments, evidence=tuple(_of_part(e, stretch) for e in outcome.evidence))
    if not stretch.is_burst or outcome.sureness < 1:
        return outcome
    hints = tuple(dict.fromkeys((LONGER, *outcome.raise_confidence)))
    return replace(outcome, confidence=CONFIDENCES[0], raise_confidence=hints, raises=())


def _of_part(evidence: Evidence, stretch: Stretch) -> Evidence:
    if not stretch.recorded_seconds or evidence.window is None:
        return evidence
    lengths = [format_quantity(seconds, "seconds") for seconds in (stretch.seconds, stretch.recorded_seconds)]
    part = f"; {lengths[0]} of {lengths[1]} recorded"
    return replace(evidence, text=evidence.text + part, brief=evidence.brief + part)
