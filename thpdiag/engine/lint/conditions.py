"""`when` and `confidence` as truth tables: each check matters, each level can be given and rests on evidence.

A table has one bit per combination of answers; `and`, `or` and `not` of conditions are those of the numbers. Two values
are enough: in Kleene's logic a condition can become yes (no) by some answers exactly if it can by answers without an
unknown among them, for deciding an unknown never takes a decided outcome back.
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

MOST_NAMES = 14  # 16,384 combinations; longer conditions are not looked into


class Truth:
    """The table of some names. `possible` are the combinations that can occur (some checks rule one another out)."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.full = (1 << (1 << len(self.names))) - 1
        self.masks = {name: self._mask(at) for at, name in enumerate(self.names)}
        self.possible = self.full

    def _mask(self, at: int) -> int:
        """Ones where bit `at` of the number of the combination is set."""
        block = 1 << at
        period = ((1 << block) - 1) << block
        return period * (self.full // ((1 << (2 * block)) - 1))

    def of(self, expression: Expression) -> int:
        """The combinations of answers that make the condition yes."""
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
        """The combinations in which at least `count` of the tables hold."""
        reached = [self.full, *([0] * count)]
        for value in values:
            for number in range(count, 0, -1):
                reached[number] |= reached[number - 1] & value
        return reached[count]

    def any_of(self, names: Iterable[str]) -> int:
        """The combinations in which one of the checks says yes."""
        return reduce(or_, (self.masks[name] for name in names), 0)

    def never_together(self, one: str, other: str) -> None:
        """Take out the combinations in which both checks say yes."""
        self.possible &= self.full & ~(self.masks[one] & self.masks[other])

    def follows(self, one: str, other: str) -> None:
        """Take out the combinations in which `one` says yes and `other` does not."""
        self.possible &= self.full & ~(self.masks[one] & ~self.masks[other])

    def whatever(self, name: str, table: int) -> int:
        """The combinations in which the table holds with either answer of the check."""
        mask, width = self.masks[name], 1 << self.names.index(name)
        with_yes, with_no = table & mask, table & self.full & ~mask
        return (with_yes | with_yes >> width) & (with_no | with_no << width)

    def matters(self, name: str, tables: Iterable[int]) -> bool:
        """Whether another answer of the check changes one of the tables."""
        mask = self.masks[name]
        width = 1 << self.names.index(name)
        for table in tables:
            with_yes = (table & mask) >> width
            with_no = table & self.full & ~mask
            both = ((self.possible & mask) >> width) & self.possible & ~mask
            if (with_yes ^ with_no) & both:
                return True
        return False


CONFIGURATION = ("configuration", "risk", "context")  # roles that state alone may confirm
OF_THE_WHOLE = ("mean", "last", "delta", "slope", "spread", "knee", "step", "rise", "since_boot_rate")


@dataclass(frozen=True, slots=True)
class Conditions:
    """Tables of `when` and of the levels, within what is possible."""

    truth: Truth
    when: int
    levels: dict[str, int]


def conditions(rule: Rule) -> Conditions | None:
    """The tables of a rule; None if it has too many checks."""
    if len(rule.checks) > MOST_NAMES:
        return None
    truth = Truth(tuple(rule.checks))
    for one, other in permutations(rule.checks, 2):
        _relate(truth, rule, one, other)
    when = truth.of(rule.when) & truth.possible
    return Conditions(truth, when, {name: truth.of(e) & truth.possible for name, e in rule.confidence.items()})


def _relate(truth: Truth, rule: Rule, one: str, other: str) -> None:
    first, second = rule.checks[one], rule.checks[other]
    if isinstance(first, FactCheck) and isinstance(second, FactCheck) and first.fact == second.fact:
        _relate_words(truth, (one, _words(first)), (other, _words(second)))
    if _subject(first) is None or _subject(first) != _subject(second):
        return
    low, high = bounds(first)
    below, above = bounds(second)
    if _single(first, rule) and (low >= above or below >= high):
        truth.never_together(one, other)
    elif low >= below and high <= above and (low, high) != (below, above):
        truth.follows(one, other)


def _relate_words(truth: Truth, first: tuple[str, frozenset[str]], second: tuple[str, frozenset[str]]) -> None:
    if first[1] and second[1]:
        if not first[1] & second[1]:
            truth.never_together(first[0], second[0])
        elif first[1] < second[1]:
            truth.follows(first[0], second[0])


def _words(check: FactCheck) -> frozenset[str]:
    """The words that a setting of the whole host may have; none where there may be several values at once."""
    known = term(check.fact)
    if check.where or known is None or known.kind != "setting" or "(label" in known.means:
        return frozenset()
    return frozenset(map(str, check.one_of or ([] if check.is_ is None else [check.is_])))


def _subject(check: Check) -> object:
    """What two checks have in common whose bounds can be compared; None where that cannot be said."""
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


def _single(check: Check, rule: Rule) -> bool:
    """Whether there is one figure, so that it cannot be above one bound here and below the other there."""
    if isinstance(check, ProfileCheck):
        return check.profile.of in ("all", "symbol")
    if isinstance(check, SeriesCheck):
        known = term(check.series)
        one = known is not None and known.entity in ("system", rule.file.for_each)
        return one and check.as_ in OF_THE_WHOLE
    return isinstance(check, ChangeCheck)


def is_total(check: Check) -> bool:
    """Whether a yes is a total since boot, which proves nothing about now."""
    if isinstance(check, SeriesCheck):
        return check.as_ == "since_boot_rate"
    known = term(check.fact) if isinstance(check, FactCheck) else None
    return known is not None and known.kind == "counter"


def caps(rule: Rule, truth: Truth) -> tuple[int, int]:
    """The combinations whose kinds of evidence license `likely`, and those that license `confirmed` (DESIGN 1)."""
    solid = {name: check_class(check) for name, check in rule.checks.items() if not is_total(check)}
    toggled = truth.any_of(name for name, kind in solid.items() if kind == "toggle")
    kinds = list(_by_kind(solid, truth))
    one, two = truth.at_least(1, kinds), truth.at_least(2, kinds)
    firm = _without_totals(rule, truth, solid)
    if rule.file.role in CONFIGURATION:
        seen = truth.any_of(solid)
        return seen & firm | toggled, ((seen & ~one) | two) & firm | toggled
    testified = truth.any_of(name for name, kind in solid.items() if kind == "testimony")
    return (one | testified) & firm | toggled, two & firm | toggled


def _without_totals(rule: Rule, truth: Truth, solid: Mapping[str, str]) -> int:
    """Where `when` holds without the totals since boot, or none of these says yes."""
    totals = [name for name in rule.checks if name not in solid]
    when = truth.of(rule.when)
    for name in totals:
        when = truth.whatever(name, when)
    return when | (truth.full & ~truth.any_of(totals))


def _by_kind(solid: dict[str, str], truth: Truth) -> Iterator[int]:
    for kind in sorted(set(INDEPENDENT.values())):
        yield truth.any_of(name for name, own in solid.items() if INDEPENDENT.get(own) == kind)


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
        why = "" if tables.truth.of(rule.when) else " by its form"
        hint = "" if why else ", for some of them exclude one another (other bounds of one figure)"
        yield LintIssue(f"'{rule.file.when}' can never be true{why}{hint}", ("when",))


@lint("a check whose answer changes nothing")
def useless_check(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    """A check in a condition that decides neither whether the rule fires nor how sure it is."""
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
    """The combination in which no check says yes makes the condition true."""
    tables = conditions(rule)
    if tables and tables.when & 1 and tables.when != tables.truth.possible:
        message = f"'{rule.file.when}' is true without any check; name at least one thing that must be seen"
        yield LintIssue(message, ("when",))


@lint("a cause that settings alone can prove")
def cause_by_setting(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    """A cause that needs no sign of the trouble at all is a risk."""
    tables = conditions(rule)
    if tables is None or rule.file.role not in ("root_cause", "contributing"):
        return
    signs = [n for n, c in rule.checks.items() if check_class(c) not in ("policy",) or isinstance(c, RuleCheck)]
    if tables.when & ~tables.truth.any_of(signs) and not tables.when & 1:
        message = f"'{rule.file.when}' can hold by settings alone, which is a risk or a configuration, no cause"
        yield LintIssue(message, ("when",))


@lint("two checks of a rule that ask the same")
def same_check_twice(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    """Two checks that ask the same."""
    seen: dict[str, str] = {}
    for name, check in rule.checks.items():
        form = f"{type(check).__name__} {check}"
        if form in seen:
            message = f"'{name}' asks what '{seen[form]}' asks; keep one of them"
            yield LintIssue(message, ("checks", name))
        seen.setdefault(form, name)


NEEDED = {
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
    for level, given, licensed in _levels(rule, tables):
        if given and not given & licensed:
            message = f"{level} can never be given: it takes {NEEDED[level]}, which no check here yields"
            yield LintIssue(message, ("confidence", level))


@lint("a level that holds by too few kinds of evidence")
def level_without_evidence(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    """The level holds by checks of too few kinds of evidence; the engine gives less than the rule says."""
    tables = conditions(rule)
    if tables is None:
        return
    for level, given, licensed in _levels(rule, tables):
        if given & licensed and given & ~licensed:
            names = _example(rule, given & ~licensed)
            message = f"{level} would hold by {names} alone; it takes {NEEDED[level]}"
            yield LintIssue(message, ("confidence", level))


def _levels(rule: Rule, tables: Conditions) -> Iterator[tuple[str, int, int]]:
    """Each level with where it is asked for while the rule fires, and where the kinds of evidence license it."""
    for level, licensed in zip(NEEDED, caps(rule, tables.truth), strict=True):
        yield level, tables.levels.get(level, 0) & tables.when, licensed


def _example(rule: Rule, table: int) -> str:
    """The checks that say yes in the combination with the fewest of them."""
    numbers = [n for n in range(table.bit_length()) if table >> n & 1]
    least = min(numbers, key=lambda n: (n.bit_count(), n))
    return ", ".join(name for at, name in enumerate(rule.checks) if least >> at & 1) or "nothing"


@lint("a total since boot in the condition of a level")
def level_by_total(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for level, expression in rule.confidence.items():
        for name in dict.fromkeys(expression.names()):
            if is_total(rule.checks[name]):
                message = f"'{name}' is a total since boot, which makes nothing {level}; ask for its rate in a window"
                yield LintIssue(message, ("confidence", level), name)
