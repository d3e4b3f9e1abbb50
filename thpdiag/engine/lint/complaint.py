"""What a lint is: a name, one line, and a function that yields complaints about a rule among all rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from thpdiag.engine.load import Rule, RuleSource, Where

_ALLOW = re.compile(r"#\s*lint:\s*allow\b[ \t]*(?P<name>[\w-]*)[ \t]*(?P<reason>.*)")


@dataclass(frozen=True, slots=True)
class Complaint:
    """What is wrong and what to write instead; at a key, or at a `word` of what the key holds.

    `source` is given where the mistake is not in the rule's own file.
    """

    message: str
    where: Where
    word: str = ""
    source: RuleSource | None = None


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases beside a rule, as they are written."""

    rows: Sequence[Mapping[str, object]]
    source: RuleSource


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules together. `titles` and `conditions` lead to the first rule that has them.

    `stray` are files of cases without a rule.
    """

    rules: Mapping[str, Rule]
    cases: Mapping[str, Cases] = field(default_factory=dict)
    stray: Sequence[RuleSource] = ()
    titles: Mapping[str, Rule] = field(default_factory=dict)
    conditions: Mapping[str, Rule] = field(default_factory=dict)


Check = Callable[[Rule, RuleSet], Iterator[Complaint]]


@dataclass(frozen=True, slots=True)
class Lint:
    """`says` stands in `rules lint --list`."""

    name: str
    says: str
    check: Check


@dataclass(frozen=True, slots=True)
class Allowed:
    """`# lint: allow NAME reason` in a rule file."""

    name: str
    reason: str
    line: int
    column: int


def allowed(text: str) -> list[Allowed]:
    """What a rule file allows itself."""
    if "lint:" not in text:
        return []
    return [
        Allowed(found["name"], found["reason"].strip(), number, found.start() + 1)
        for number, row in enumerate(text.splitlines(), 1)
        if (found := _ALLOW.search(row))
    ]
