"""The file of a rule: its name, its id, the order of its keys, what it shares with other rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from thpdiag.engine.lint.complaint import Complaint, Lint, RuleSet, allowed
from thpdiag.engine.load import Rule
from thpdiag.engine.schema import RuleFile

ORDER = tuple(RuleFile.model_fields)
ROLES = {"ALT": ("alternative",), "CTX": ("context",)}  # what our own prefixes say; packs choose theirs
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\.yaml")
LITTLE = frozenset(
    ("a", "an", "the", "of", "on", "in", "at", "by", "for", "and", "or", "not", "no", "to", "with", "without")
)


def condition_key(rule: Rule) -> str:
    """What two rules share that fire in the same moment: the same checks and condition, whatever their names."""
    names = {name: f"c{at}" for at, name in enumerate(rule.checks)}
    checks = ";".join(f"{type(check).__name__}({check})" for check in rule.checks.values())
    when = re.sub(r"[A-Za-z_][\w-]*", lambda found: names.get(found[0], found[0]), str(rule.when))
    return f"{rule.file.for_each}|{checks}|{when}"


def _title(rule: Rule, whole: RuleSet) -> Iterator[Complaint]:
    first = whole.titles.get(rule.file.title.lower(), rule)
    if first.id != rule.id:
        yield Complaint(f"{first.id} has this title ({first.source.path}); say what differs", ("title",))


def _condition(rule: Rule, whole: RuleSet) -> Iterator[Complaint]:
    first = whole.conditions.get(condition_key(rule), rule)
    if first.id != rule.id:
        message = (
            f"{first.id} has the same checks and condition ({first.source.path}); keep one rule, or say what differs"
        )
        yield Complaint(message, ("when",))


def _keys(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    keys = [str(where[0]) for where in rule.source.places if len(where) == 1]
    last = -1
    for key in keys:
        if key in ORDER and ORDER.index(key) < last:
            after = [k for k in keys if k in ORDER and ORDER.index(k) < ORDER.index(key)]
            message = f"'{key}' stands further up in a rule, after '{after[-1]}'" if after else f"'{key}' stands first"
            yield Complaint(message, (key,))
        elif key in ORDER:
            last = ORDER.index(key)


def _file(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    name = PurePath(rule.source.path).name
    if not _NAME.fullmatch(name):
        small = re.sub(r"[^a-z0-9]+", "-", name.removesuffix(".yaml").lower()).strip("-")
        yield Complaint(f"the file's name is small words with hyphens; call it {small or 'name'}.yaml", ("id",))
        return
    text = _said(rule)
    words = [w for w in name.removesuffix(".yaml").split("-") if w not in LITTLE]
    if not any(_stem(word) in text for word in words):
        message = f"the file is called {name}, of which nothing stands in the rule; call it {rule.file.mechanism}.yaml"
        yield Complaint(f"{message} or after the title", ("title",))


def _said(rule: Rule) -> str:
    file = rule.file
    words = (file.id, file.title, file.mechanism, file.means, str(file.checks), *file.checks, *file.remedies)
    return " ".join(words).lower()


def _stem(word: str) -> str:
    return word if len(word) < 5 else word[: max(4, len(word) - 3)]


def _prefix(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    prefix, role = rule.id.partition("-")[0], rule.file.role
    wanted = ROLES.get(prefix)
    if wanted and role not in wanted:
        yield Complaint(f"an id with {prefix} is of role {wanted[0]}, not {role}; choose another prefix", ("id",))
    elif prefix == "THP" and role == "context":
        yield Complaint("an id with THP is a finding; context begins with CTX", ("id",))


def _reasons(rule: Rule, whole: RuleSet) -> Iterator[Complaint]:
    """The escape itself: it has a reason and names a lint."""
    for one in allowed(rule.source.text):
        if one.name and len(one.reason.split()) < 2:
            message = f"say why: # lint: allow {one.name} REASON"
            yield Complaint(message, rule.source.key_at(one.line))


LINTS = (
    Lint("duplicate-title", "two rules with one title", _title),
    Lint("duplicate-condition", "two rules with the same checks and condition", _condition),
    Lint("key-order", "keys in another order than in the other rules", _keys),
    Lint("file-name", "a file name that does not fit the rule", _file),
    Lint("id-prefix", "an id whose prefix does not fit the role", _prefix),
    Lint("allow-without-reason", "`# lint: allow NAME` without a reason", _reasons),
)
