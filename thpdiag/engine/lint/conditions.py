"""Lints of `when` and `confidence` by truth tables: each check matters, each level is reachable and rests on evidence.

A table is an integer with one bit per combination of answers, so that `and`, `or` and `not` are bitwise operators. Two
values suffice: in Kleene's logic, a condition can become yes (no) if and only if it can without unknown answers,
because deciding an unknown never reverts a decided outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import permutations
from operator import and_, or_

from thpdiag.engine.check_result import INDEPENDENT, check_class
from thpdiag.engine.expression import Expression
from thpdiag.engine.lint.checks import bounds
from thpdiag.engine.lint.issue import LintIssue, RuleSet, lint
from thpdiag.engine.load import Rule, Where
from thpdiag.engine.schema import ChangeCheck, Check, FactCheck, ProfileCheck, RuleCheck, SeriesCheck
from thpdiag.knowledge.vocabulary import term

MAX_CHECKS = 14  # 16,384 combinations; rules with more checks are not analysed


class Truth:
    """The truth table of some checks. `possible` are the combinations that can occur, as some checks exclude others."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.full = (1 << (1 << len(self.names))) - 1
        self.masks = {name: self._mask(bit) for bit, name in enumerate(self.names)}
        self.possible = self.full

    def _mask(self, bit: int) -> int:
        """The combinations whose number has this bit set."""
        block = 1 << bit
        period = ((1 << block) - 1) << block
        return period * (self.full // ((1 << (2 * block)) - 1))

    def of(self, expression: Expression) -> int:
        """Return the combinations of answers for which the condition is yes."""
        if expression.op == "name":
            return self.masks[expression.name]
        values = [self.of(child) for child in expression.children]
        match expression.op:
            case "not":
                return self.full & ~values[0]
            case "and":
                return reduce(and_, values)
            case "or":
                return reduce(or_, values)
            case _:
                return self.at_least(expression.count, values)

    def at_least(self, count: int, values: Iterable[int]) -> int:
        """Return the combinations in which at least `count` of the tables hold."""
        reached = [self.full, *([0] * count)]
        for value in values:
            for number in range(count, 0, -1):
                reached[number] |= reached[number - 1] & value
        return reached[count]

    def any_of(self, names: Iterable[str]) -> int:
        """Return the combinations in which one of the checks is yes."""
        return reduce(or_, (self.masks[name] for name in names), 0)

    def never_together(self, left: str, right: str) -> None:
        """Remove the combinations in which both checks are yes."""
        self.possible &= self.full & ~(self.masks[left] & self.masks[right])

    def follows(self, cause: str, effect: str) -> None:
        """Remove the combinations in which `cause` is yes and `effect` is no."""
        self.possible &= self.full & ~(self.masks[cause] & ~self.masks[effect])

    def regardless_of(self, name: str, table: int) -> int:
        """Return the combinations in which the table holds for both answers of the check."""
        mask, width = self.masks[name], 1 << self.names.index(name)
        with_yes, with_no = table & mask, table & self.full & ~mask
        return (with_yes | with_yes >> width) & (with_no | with_no << width)

    def matters(self, name: str, tables: Iterable[int]) -> bool:
        """Return whether the answer of the check changes one of the tables."""
        mask = self.masks[name]
        width = 1 << self.names.index(name)
        for table in tables:
            with_yes = (table & mask) >> width
            with_no = table & self.full & ~mask
            both = ((self.possible & mask) >> width) & self.possible & ~mask
            if (with_yes ^ with_no) & both:
                return True
        return False


STATE_ROLES = ("configuration", "risk", "context")  # roles that state alone may confirm
WHOLE_WINDOW_FIGURES = ("mean", "last", "delta", "slope", "spread", "knee", "step", "rise", "since_boot_rate")


@dataclass(frozen=True, slots=True)
class Conditions:
    """Tables of `when` and of the levels, restricted to possible combinations."""

    truth: Truth
    when: int
    levels: dict[str, int]


def conditions(rule: Rule) -> Conditions | None:
    """Return the tables of a rule; None if it has too many checks."""
    if len(rule.checks) > MAX_CHECKS:
        return None
    truth = Truth(tuple(rule.checks))
    for left, right in permutations(rule.checks, 2):
        _add_relations(truth, rule, left, right)
    when = truth.of(rule.when) & truth.possible
    return Conditions(truth, when, {name: truth.of(e) & truth.possible for name, e in rule.confidence.items()})


def _add_relations(truth: Truth, rule: Rule, left: str, right: str) -> None:
    left_check, right_check = rule.checks[left], rule.checks[right]
    if isinstance(left_check, FactCheck) and isinstance(right_check, FactCheck) and left_check.fact == right_check.fact:
        _add_word_relations(truth, (left, _setting_words(left_check)), (right, _setting_words(right_check)))
    if _comparison_key(left_check) is None or _comparison_key(left_check) != _comparison_key(right_check):
        return
    low, high = bounds(left_check)
    other_low, other_high = bounds(right_check)
    if _has_single_value(left_check, rule) and (low >= other_high or other_low >= high):
        truth.never_together(left, right)
    elif low >= other_low and high <= other_high and (low, high) != (other_low, other_high):
        truth.follows(left, right)


def _add_word_relations(truth: Truth, first: tuple[str, frozenset[str]], second: tuple[str, frozenset[str]]) -> None:
    if first[1] and second[1]:
        if not first[1] & second[1]:
            truth.never_together(first[0], second[0])
        elif first[1] < second[1]:
            truth.follows(first[0], second[0])


def _setting_words(check: FactCheck) -> frozenset[str]:
    """The values that a setting of the whole host may have; empty if there may be several values at once."""
    known = term(check.fact)
    if check.where or known is None or known.kind != "setting" or "(label" in known.means:
        return frozenset()
    return frozenset(map(str, check.one_of or ([] if check.is_ is None else [check.is_])))


def _comparison_key(check: Check) -> object:
    """A key that is equal for checks whose bounds can be compared; None if they cannot be."""
    match check:
        case SeriesCheck():
            return "series", check.series, check.as_, check.for_, check.min_samples
        case ChangeCheck():
            rest = check.change.model_copy(update={"above": None, "below": None})
            return "change", str(rest)
        case ProfileCheck():
            return "profile", str(check.profile.model_copy(update={"at_least": None, "below": None}))
        case FactCheck() if check.above is not None or check.below is not None:
            return "fact", check.fact, str(check.where)
        case _:
            return None


def _has_single_value(check: Check, rule: Rule) -> bool:
    """Whether the check compares a single value, which cannot be above one bound and below another."""
    if isinstance(check, ProfileCheck):
        return check.profile.of in ("all", "symbol")
    if isinstance(check, SeriesCheck):
        known = term(check.series)
        is_single = known is not None and known.entity in ("system", rule.file.for_each)
        return is_single and check.as_ in WHOLE_WINDOW_FIGURES
    return isinstance(check, ChangeCheck)


def is_total(check: Check) -> bool:
    """Return whether a yes is a total since boot, which does not describe the present."""
    if isinstance(check, SeriesCheck):
        return check.as_ == "since_boot_rate"
    known = term(check.fact) if isinstance(check, FactCheck) else None
    return known is not None and known.kind == "counter"


def evidence_caps(rule: Rule, truth: Truth) -> tuple[int, int]:
    """Return the combinations whose kinds of evidence allow `likely`, and those that allow `confirmed` (DESIGN 1)."""
    solid = {name: check_class(check) for name, check in rule.checks.items() if not is_total(check)}
    is_toggled = truth.any_of(name for name, kind in solid.items() if kind == "toggle")
    kind_tables = list(_tables_of_kinds(solid, truth))
    one_kind, two_kinds = truth.at_least(1, kind_tables), truth.at_least(2, kind_tables)
    is_solid = _holds_without_totals(rule, truth, solid)
    if rule.file.role in STATE_ROLES:
        any_solid = truth.any_of(solid)
        return any_solid & is_solid | is_toggled, ((any_solid & ~one_kind) | two_kinds) & is_solid | is_toggled
    has_testimony = truth.any_of(name for name, kind in solid.items() if kind == "testimony")
    return (one_kind | has_testimony) & is_solid | is_toggled, two_kinds & is_solid | is_toggled


def _holds_without_totals(rule: Rule, truth: Truth, solid: Mapping[str, str]) -> int:
    """The combinations in which `when` holds without the totals since boot, or in which none of these is yes."""
    totals = [name for name in rule.checks if name not in solid]
    when = truth.of(rule.when)
    for name in totals:
        when = truth.regardless_of(name, when)
    return when | (truth.full & ~truth.any_of(totals))


def _tables_of_kinds(solid: dict[str, str], truth: Truth) -> Iterator[int]:
    for kind in sorted(set(INDEPENDENT.values())):
        yield truth.any_of(name for name, class_ in solid.items() if INDEPENDENT.get(class_) == kind)


@lint("a check that no condition uses")
def unused_check(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    used = set(rule.when.names()).union(*(e.names() for e in rule.confidence.values()))
    for name in rule.checks:
        if name not in used:
            yield LintIssue(f"check '{name}' is in no condition; use it or take it out", ("checks", name))


@lint("a condition that is true for any outcome of the checks")
def always_true(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    tables = conditions(rule)
    if tables and tables.when == tables.truth.possible:
        message = f"'{rule.file.when}' is true for any outcome of the checks; remove what makes it so"
        yield LintIssue(message, ("when",))


@lint("a condition that cannot hold")
def never_true(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    tables = conditions(rule)
    if tables and not tables.when:
        unrelated = "" if tables.truth.of(rule.when) else " by its form"
        hint = "" if unrelated else ", for some of them exclude one another (other bounds of one figure)"
        yield LintIssue(f"'{rule.file.when}' can never be true{unrelated}{hint}", ("when",))


@lint("a check whose answer changes nothing")
def useless_check(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    """A check in a condition must affect whether the rule fires or its confidence."""
    tables = conditions(rule)
    if tables is None or tables.when in (0, tables.truth.possible):
        return
    likely, confirmed = (tables.levels.get(level, 0) & tables.when for level in ("likely", "confirmed"))
    outcomes = (tables.when, likely | confirmed, confirmed)
    for name in rule.checks:
        if (where := _first_use(rule, name)) and not tables.truth.matters(name, outcomes):
            message = f"'{name}' changes nothing here; remove it or fix the condition"
            yield LintIssue(message, where, name)


def _first_use(rule: Rule, name: str) -> Where:
    if name in rule.when.names():
        return ("when",)
    return next((("confidence", level) for level, e in rule.confidence.items() if name in e.names()), ())


@lint("a condition that is true without any check")
def fires_on_absence(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    """The rule must not fire if no check is yes."""
    tables = conditions(rule)
    if tables and tables.when & 1 and tables.when != tables.truth.possible:
        message = f"'{rule.file.when}' is true without any check; name at least one thing that must be seen"
        yield LintIssue(message, ("when",))


@lint("a cause that settings alone can prove")
def cause_by_setting(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    """A cause needs evidence of the problem; settings alone are a risk."""
    tables = conditions(rule)
    if tables is None or rule.file.role not in ("root_cause", "contributing"):
        return
    evidence = [n for n, c in rule.checks.items() if check_class(c) not in ("policy",) or isinstance(c, RuleCheck)]
    if tables.when & ~tables.truth.any_of(evidence) and not tables.when & 1:
        message = f"'{rule.file.when}' can hold by settings alone, which is a risk or a configuration, no cause"
        yield LintIssue(message, ("when",))


@lint("two checks of a rule that ask the same")
def same_check_twice(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    seen: dict[str, str] = {}
    for name, check in rule.checks.items():
        form = f"{type(check).__name__} {check}"
        if form in seen:
            message = f"'{name}' asks what '{seen[form]}' asks; keep one of them"
            yield LintIssue(message, ("checks", name))
        seen.setdefault(form, name)


REQUIRED_EVIDENCE = {
    "likely": "a stack, a counter's change or an effect (DESIGN 1: policy and state prove nothing)",
    "confirmed": "two kinds of stack, counter's change and effect, or a toggle",
}


@lint("likely and confirmed that cannot differ")
def same_levels(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    tables = conditions(rule)
    if tables is None or len(tables.levels) < 2:
        return
    likely, confirmed = (tables.levels[level] & tables.when for level in ("likely", "confirmed"))
    if likely and likely == confirmed:
        message = "likely and confirmed have the same condition; confirmed takes a further kind of evidence"
        yield LintIssue(message, ("confidence", "confirmed"))
    elif likely and not likely & ~confirmed:
        message = "everything likely is also confirmed, so likely is never used; remove it"
        yield LintIssue(message, ("confidence", "likely"))


@lint("a confidence level whose condition excludes `when`")
def unreachable_level(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    tables = conditions(rule)
    if tables is None or not tables.when:
        return
    for level, table in tables.levels.items():
        if not table & tables.when:
            message = f"{level} can never be given: its condition excludes `when`"
            yield LintIssue(message, ("confidence", level))


@lint("a level that the rule's kinds of evidence can never reach")
def level_beyond_evidence(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    tables = conditions(rule)
    if tables is None:
        return
    for level, given, licensed in _level_tables(rule, tables):
        if given and not given & licensed:
            message = f"{level} can never be given: it takes {REQUIRED_EVIDENCE[level]}, which no check here yields"
            yield LintIssue(message, ("confidence", level))


@lint("a level that holds by too few kinds of evidence")
def level_without_evidence(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    """If a level holds by too few kinds of evidence, the engine gives a lower one than the rule states."""
    tables = conditions(rule)
    if tables is None:
        return
    for level, given, licensed in _level_tables(rule, tables):
        if given & licensed and given & ~licensed:
            names = _smallest_example(rule, given & ~licensed)
            message = f"{level} would hold by {names} alone; it takes {REQUIRED_EVIDENCE[level]}"
            yield LintIssue(message, ("confidence", level))


def _level_tables(rule: Rule, tables: Conditions) -> Iterator[tuple[str, int, int]]:
    """Each level with the combinations in which it is asked for, and those in which the evidence allows it."""
    for level, licensed in zip(REQUIRED_EVIDENCE, evidence_caps(rule, tables.truth), strict=True):
        yield level, tables.levels.get(level, 0) & tables.when, licensed


def _smallest_example(rule: Rule, table: int) -> str:
    """The checks that are yes in the smallest combination of a table."""
    numbers = [n for n in range(table.bit_length()) if table >> n & 1]
    smallest = min(numbers, key=lambda n: (n.bit_count(), n))
    return ", ".join(name for bit, name in enumerate(rule.checks) if smallest >> bit & 1) or "nothing"


@lint("a total since boot in the condition of a level")
def level_by_total(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for level, expression in rule.confidence.items():
        for name in dict.fromkeys(expression.names()):
            if is_total(rule.checks[name]):
                message = f"'{name}' is a total since boot, which makes nothing {level}; ask for its rate in a window"
                yield LintIssue(message, ("confidence", level), name)
