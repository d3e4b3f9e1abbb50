"""`when`: each check is used and matters, and the condition can be both true and false."""

from __future__ import annotations

from collections.abc import Iterator

from thpdiag.engine.classes import of_check
from thpdiag.engine.lint.complaint import Complaint, Lint, RuleSet
from thpdiag.engine.lint.logic import conditions
from thpdiag.engine.load import Rule, Where
from thpdiag.engine.schema import RuleCheck


def _unused(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    used = set(rule.when.names()).union(*(e.names() for e in rule.confidence.values()))
    for name in rule.checks:
        if name not in used:
            yield Complaint(f"check '{name}' is in no condition; use it or take it out", ("checks", name))


def _always(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    tables = conditions(rule)
    if tables and tables.when == tables.truth.possible:
        message = f"'{rule.file.when}' is true whatever the checks say; take out what makes it so"
        yield Complaint(message, ("when",))


def _never(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    tables = conditions(rule)
    if tables and not tables.when:
        why = "" if tables.truth.of(rule.when) else " by its form"
        hint = "" if why else ", for some of them exclude one another (other bounds of one figure)"
        yield Complaint(f"'{rule.file.when}' can never be true{why}{hint}", ("when",))


def _useless(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    """A check in a condition that decides neither whether the rule fires nor how sure it is."""
    tables = conditions(rule)
    if tables is None or tables.when in (0, tables.truth.possible):
        return
    likely, confirmed = (tables.levels.get(level, 0) & tables.when for level in ("likely", "confirmed"))
    outcomes = (tables.when, likely | confirmed, confirmed)
    for name in rule.checks:
        if (where := _first_use(rule, name)) and not tables.truth.matters(name, outcomes):
            message = f"'{name}' changes nothing here, whatever it says; take it out or mend the condition"
            yield Complaint(message, where, name)


def _first_use(rule: Rule, name: str) -> Where:
    if name in rule.when.names():
        return ("when",)
    return next((("confidence", level) for level, e in rule.confidence.items() if name in e.names()), ())


def _absence(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    """The combination in which no check says yes makes the condition true."""
    tables = conditions(rule)
    if tables and tables.when & 1 and tables.when != tables.truth.possible:
        message = f"'{rule.file.when}' holds where no check says yes; name at least one thing that must be seen"
        yield Complaint(message, ("when",))


def _policy(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    """A cause that needs no sign of the trouble at all is a risk."""
    tables = conditions(rule)
    if tables is None or rule.file.role not in ("root_cause", "contributing"):
        return
    signs = [n for n, c in rule.checks.items() if of_check(c) not in ("policy",) or isinstance(c, RuleCheck)]
    if tables.when & ~tables.truth.any_of(signs) and not tables.when & 1:
        message = f"'{rule.file.when}' can hold by settings alone, which is a risk or a configuration, no cause"
        yield Complaint(message, ("when",))


def _doubled(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    """Two checks that ask the same."""
    seen: dict[str, str] = {}
    for name, check in rule.checks.items():
        form = f"{type(check).__name__} {check}"
        if form in seen:
            message = f"'{name}' asks what '{seen[form]}' asks; keep one of them"
            yield Complaint(message, ("checks", name))
        seen.setdefault(form, name)


LINTS = (
    Lint("unused-check", "a check that no condition uses", _unused),
    Lint("always-true", "a condition that holds whatever the checks say", _always),
    Lint("never-true", "a condition that cannot hold", _never),
    Lint("useless-check", "a check whose answer changes nothing", _useless),
    Lint("fires-on-absence", "a condition that holds where no check says yes", _absence),
    Lint("cause-by-setting", "a cause that settings alone can prove", _policy),
    Lint("same-check-twice", "two checks of a rule that ask the same", _doubled),
)
