"""The lint framework: lints, issues, the set of rules, comments that allow an issue, and the cases of rules."""

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
    """An error and its correction, at a key or at a `word` in the key's value.

    `source` is set if the error is not in the rule's own file.
    """

    message: str
    where: Where
    word: str = ""
    source: RuleSource | None = None


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases of a rule as written."""

    rows: Sequence[Mapping[str, object]]
    source: RuleSource


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules. `titles` and `conditions` map to the first rule with each; `stray` are case files without a rule."""

    rules: Mapping[str, Rule]
    cases: Mapping[str, Cases] = field(default_factory=dict)
    stray: Sequence[RuleSource] = ()
    titles: Mapping[str, Rule] = field(default_factory=dict)
    conditions: Mapping[str, Rule] = field(default_factory=dict)


Check = Callable[[Rule, RuleSet], Iterator[LintIssue]]


@dataclass(frozen=True, slots=True)
class Lint:
    """A lint. `says` is its description; `of_cases` marks lints of the cases of a rule."""

    name: str
    says: str
    check: Check
    of_cases: bool = False


LINTS: list[Lint] = []  # all lints in the order of their output


def lint(says: str, *, of_cases: bool = False) -> Callable[[Check], Check]:
    """Register a function as the lint of the same name."""

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
    """Return the `lint: allow` comments of a rule file."""
    if "lint:" not in text:
        return []
    return [
        AllowComment(match["name"], match["reason"].strip(), number, match.start() + 1)
        for number, row in enumerate(text.splitlines(), 1)
        if (match := _ALLOW.search(row))
    ]


CASES_SUFFIX = ".cases.yaml"


def read_cases(
    places: Iterable[Traversable | Pack], rules: Sequence[Rule]
) -> tuple[Mapping[str, Cases], tuple[RuleSource, ...]]:
    """Return the cases by rule id, and the case files without a rule. Raise RuleError if a file cannot be read."""
    ids = {rule.source.path.removesuffix(".yaml") + CASES_SUFFIX: rule.id for rule in rules}
    cases: dict[str, Cases] = {}
    stray: list[RuleSource] = []
    for pack in map(pack_of, places):
        for file in sorted(pack.folder.iterdir(), key=lambda file: file.name):
            if not file.name.endswith(CASES_SUFFIX):
                continue
            path, text, error = file_text(file, pack)
            if error:
                raise RuleError(error)
            if path in ids:
                cases[ids[path]] = _cases(path, text, pack)
            else:
                stray.append(RuleSource(path, text, {}, pack))
    return cases, tuple(stray)


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
