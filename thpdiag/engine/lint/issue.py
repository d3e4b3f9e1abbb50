"""What a lint is: a name, one line, a function that yields issues of a rule among all rules; the cases beside rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable

from thpdiag.engine.load import Pack, Rule, RuleSource, Where, file_text, pack_of
from thpdiag.errors import RuleError
from thpdiag.knowledge.yaml_nodes import YamlError, load_own, load_with_places, point_at

_ALLOW = re.compile(r"#\s*lint:\s*allow\b[ \t]*(?P<name>[\w-]*)[ \t]*(?P<reason>.*)")


@dataclass(frozen=True, slots=True)
class LintIssue:
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


Check = Callable[[Rule, RuleSet], Iterator[LintIssue]]


@dataclass(frozen=True, slots=True)
class Lint:
    """`says` stands in `rules lint --list`; one that is `of_cases` looks at the cases beside a rule."""

    name: str
    says: str
    check: Check
    of_cases: bool = False


LINTS: list[Lint] = []  # all of them, in the order in which their issues are told


def lint(says: str, *, of_cases: bool = False) -> Callable[[Check], Check]:
    """Make a function the lint that is called like it."""

    def register(check: Check) -> Check:
        LINTS.append(Lint(check.__name__.replace("_", "-"), says, check, of_cases))
        return check

    return register


@dataclass(frozen=True, slots=True)
class AllowComment:
    """`# lint: allow NAME reason` in a rule file."""

    name: str
    reason: str
    line: int
    column: int


def parse_allows(text: str) -> list[AllowComment]:
    """What a rule file allows itself."""
    if "lint:" not in text:
        return []
    return [
        AllowComment(found["name"], found["reason"].strip(), number, found.start() + 1)
        for number, row in enumerate(text.splitlines(), 1)
        if (found := _ALLOW.search(row))
    ]


CASES_SUFFIX = ".cases.yaml"


def cases_beside(
    places: Iterable[Traversable | Pack], rules: Sequence[Rule]
) -> tuple[Mapping[str, Cases], tuple[RuleSource, ...]]:
    """The cases by the id of their rule, and files of cases without a rule. RuleError if one cannot be read."""
    ids = {rule.source.path.removesuffix(".yaml") + CASES_SUFFIX: rule.id for rule in rules}
    found: dict[str, Cases] = {}
    stray: list[RuleSource] = []
    for pack in map(pack_of, places):
        for file in sorted(pack.folder.iterdir(), key=lambda file: file.name):
            if not file.name.endswith(CASES_SUFFIX):
                continue
            path, text, unread = file_text(file, pack)
            if unread:
                raise RuleError(unread)
            if path in ids:
                found[ids[path]] = _cases(path, text, pack)
            else:
                stray.append(RuleSource(path, text, {}, pack))
    return found, tuple(stray)


def _cases(path: str, text: str, pack: Pack) -> Cases:
    try:
        data, places = (load_own if pack.own else load_with_places)(text)
    except YamlError as error:
        raise RuleError(point_at(path, text, str(error), error.place)) from error
    source = RuleSource(path, text, places, pack)
    rows = data or []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise RuleError(source.complaint("cases are a list of hosts, each with name: and outcome:", ()))
    return Cases(rows, source)
