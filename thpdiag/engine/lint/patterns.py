"""Regular expressions: RE2 takes them, and they choose something."""

from __future__ import annotations

from collections.abc import Iterator

import re2

from thpdiag.engine.lint.complaint import Complaint, Lint, RuleSet
from thpdiag.engine.load import Rule, Where
from thpdiag.engine.schema import FactCheck, ProcessCheck, ProfileCheck

STRANGE = "\x01 no name \x02"  # what no host has


def _patterns(rule: Rule) -> Iterator[tuple[Where, str]]:
    """Place and text of each; those of commands are matched whole, those of facts are searched."""
    for name, check in rule.checks.items():
        match check:
            case FactCheck() if check.matches is not None:
                yield ("checks", name, "matches"), check.matches
            case ProcessCheck():
                for key in ("comm", "args"):
                    if pattern := getattr(check.process, key):
                        yield ("checks", name, "process", key), pattern
            case ProfileCheck() if check.profile.comm is not None:
                yield ("checks", name, "profile", "comm"), check.profile.comm


def _valid(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for where, pattern in _patterns(rule):
        if mistake := _mistake(pattern):
            message = f"'{pattern}' is no regular expression of RE2: {mistake}"
            yield Complaint(f"{message} (it has no look-around and no back-references)", where)


def _mistake(pattern: str) -> str:
    quiet = re2.Options()
    quiet.log_errors = False  # it would write to stderr by itself
    try:
        re2.compile(pattern, quiet)
    except re2.error as error:
        return str(error)
    return ""


def _choosing(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for where, pattern in _patterns(rule):
        if _mistake(pattern):
            continue
        found = re2.search(pattern, STRANGE) if where[-1] == "matches" else re2.fullmatch(pattern, STRANGE)
        if found:
            message = f"'{pattern}' matches everything; write what is looked for, or `present: true`"
            yield Complaint(message if where[-1] == "matches" else message.partition(", or")[0], where)


def _anchored(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for where, pattern in _patterns(rule):
        if where[-1] == "comm" and (pattern.startswith("^") or pattern.endswith("$")):
            message = f"'{pattern}' is matched whole anyway; write it without ^ and $"
            yield Complaint(message, where)


LINTS = (
    Lint("bad-pattern", "a regular expression that RE2 does not take", _valid),
    Lint("pattern-of-everything", "a regular expression that matches everything", _choosing),
    Lint("needless-anchor", "^ or $ in a pattern that is matched whole", _anchored),
)
