"""`confidence`: each level can be given, differs from the others, and rests on evidence that licenses it."""

from __future__ import annotations

from collections.abc import Iterator

from thpdiag.engine.lint.complaint import Complaint, Lint, RuleSet
from thpdiag.engine.lint.logic import Conditions, caps, conditions, is_total
from thpdiag.engine.load import Rule

NEEDED = {
    "likely": "a stack, a counter's change or an effect (DESIGN 1: policy and state prove nothing)",
    "confirmed": "two kinds of stack, counter's change and effect, or a toggle",
}


def _same(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    tables = conditions(rule)
    if tables is None or len(tables.levels) < 2:
        return
    likely, confirmed = (tables.levels[level] & tables.when for level in ("likely", "confirmed"))
    if likely and likely == confirmed:
        message = "likely and confirmed have the same condition; confirmed takes a further kind of evidence"
        yield Complaint(message, ("confidence", "confirmed"))
    elif likely and not likely & ~confirmed:
        message = "whatever is likely is confirmed too, so that likely is never given; take it out"
        yield Complaint(message, ("confidence", "likely"))


def _unreachable(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    tables = conditions(rule)
    if tables is None or not tables.when:
        return
    for level, table in tables.levels.items():
        if not table & tables.when:
            message = f"{level} can never be given: its condition excludes `when`"
            yield Complaint(message, ("confidence", level))


def _beyond(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    tables = conditions(rule)
    if tables is None:
        return
    for level, given, licensed in _levels(rule, tables):
        if given and not given & licensed:
            message = f"{level} can never be given: it takes {NEEDED[level]}, which no check here yields"
            yield Complaint(message, ("confidence", level))


def _promised(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    """The level holds by checks of too few kinds of evidence; the engine gives less than the rule says."""
    tables = conditions(rule)
    if tables is None:
        return
    for level, given, licensed in _levels(rule, tables):
        if given & licensed and given & ~licensed:
            names = _example(rule, given & ~licensed)
            message = f"{level} would hold by {names} alone; it takes {NEEDED[level]}"
            yield Complaint(message, ("confidence", level))


def _levels(rule: Rule, tables: Conditions) -> Iterator[tuple[str, int, int]]:
    """Each level with where it is asked for while the rule fires, and where the kinds of evidence license it."""
    for level, licensed in zip(NEEDED, caps(rule, tables.truth), strict=True):
        yield level, tables.levels.get(level, 0) & tables.when, licensed


def _example(rule: Rule, table: int) -> str:
    """The checks that say yes in the combination with the fewest of them."""
    numbers = [n for n in range(table.bit_length()) if table >> n & 1]
    least = min(numbers, key=lambda n: (n.bit_count(), n))
    return ", ".join(name for at, name in enumerate(rule.checks) if least >> at & 1) or "nothing"


def _totals(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for level, expression in rule.confidence.items():
        for name in dict.fromkeys(expression.names()):
            if is_total(rule.checks[name]):
                message = f"'{name}' is a total since boot, which makes nothing {level}; ask for its rate in a window"
                yield Complaint(message, ("confidence", level), name)


LINTS = (
    Lint("same-levels", "likely and confirmed that cannot differ", _same),
    Lint("unreachable-level", "a confidence level whose condition excludes `when`", _unreachable),
    Lint("level-beyond-evidence", "a level that the rule's kinds of evidence can never reach", _beyond),
    Lint("level-without-evidence", "a level that holds by too few kinds of evidence", _promised),
    Lint("level-by-total", "a total since boot in the condition of a level", _totals),
)
