"""Load rule files: YAML with places, pydantic for the form, our vocabulary for the names.

Every complaint carries file, line, column, the line itself with a caret, and the likely right word.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from thpdiag.engine.expression import Expression, ExpressionError, parse
from thpdiag.engine.schema import CHECKS, Check, RuleCheck, RuleFile
from thpdiag.errors import RuleError
from thpdiag.knowledge.yaml_nodes import Place, Places, YamlError, load_own, load_with_places

Where = tuple[str | int, ...]
Form = TypeVar("Form", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class RuleSource:
    """The text of a rule file, to point into."""

    path: str
    text: str
    places: Mapping[Where, Place]

    def complaint(self, message: str, where: Where, *, shift: int = 0) -> str:
        """`message` at the place of a key (or of the nearest parent that has a place)."""
        while where and where not in self.places:
            where = where[:-1]
        place = self.places.get(where, Place(1, 1))
        return pointed(self.path, self.text, message, Place(place.line, place.column + shift))


def pointed(path: str, text: str, message: str, place: Place | None) -> str:
    """`path:line:column: message`, the line, and a caret under the column."""
    if place is None:
        return f"{path}: {message}"
    rows = text.splitlines()
    row = rows[place.line - 1] if place.line <= len(rows) else ""
    return f"{path}:{place.line}:{place.column}: {message}\n  {row}\n  {' ' * (place.column - 1)}^"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule ready to be evaluated: parameters put in, conditions parsed."""

    file: RuleFile
    checks: Mapping[str, Check]
    when: Expression
    confidence: Mapping[str, Expression]
    source: RuleSource

    @property
    def id(self) -> str:
        return self.file.id

    def needs(self) -> set[str]:
        """Rules that must be judged before this one."""
        referred = {c.rule for c in self.checks.values() if isinstance(c, RuleCheck)}
        return referred | set(self.file.excluded_by) | set(self.file.demoted_by) | set(self.file.raised_by)


def builtin_rules() -> Traversable:
    """The rules shipped with thpdiag: inside an installed package, beside it in a checkout."""
    packaged = files("thpdiag") / "_rules"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "rules"


def rule_files(folder: Traversable) -> list[Traversable]:
    """Rule files of a folder, by name, without their cases."""
    found = [f for f in folder.iterdir() if f.name.endswith(".yaml") and not f.name.endswith(".cases.yaml")]
    return sorted(found, key=lambda f: f.name)


def path_of(file: Traversable, folder: Traversable) -> str:
    """How complaints name a file: one of ours by its name, one of a further folder as the user named that."""
    return file.name if folder == builtin_rules() else str(file)


def load_rules(folders: Iterable[Traversable]) -> tuple[Rule, ...]:
    """All rules, in an order in which each stands after those it needs. RuleError names everything that is wrong."""
    rules: dict[str, Rule] = {}
    complaints: list[str] = []
    for folder in folders:
        for file in rule_files(folder):
            try:
                read = load_own if folder == builtin_rules() else load_with_places
                rule = load_rule(path_of(file, folder), file.read_text(encoding="utf-8"), read)
            except RuleError as error:
                complaints.append(str(error))
                continue
            if rule.id in rules:
                message = f"the id {rule.id} stands twice; the other is in {rules[rule.id].source.path}"
                complaints.append(rule.source.complaint(message, ("id",)))
            rules[rule.id] = rule
    complaints += _dangling(rules)
    if complaints:
        raise RuleError("\n".join(complaints))
    return _ordered(rules)


def load_rule(path: str, text: str, read: Callable[[str], tuple[Any, Places]] = load_with_places) -> Rule:
    """One rule from its text."""
    try:
        data, places = read(text)
    except YamlError as error:
        raise RuleError(pointed(path, text, str(error), error.place)) from error
    source = RuleSource(path, text, places)
    if not isinstance(data, dict):
        raise RuleError(source.complaint("a rule is a mapping that begins with id:", ()))
    file = _validated(RuleFile, data, source, ())
    checks = {name: _check(name, row, file, source) for name, row in file.checks.items()}
    when = _condition(file.when, ("when",), checks, source)
    levels = {
        level: _condition(line, ("confidence", level), checks, source)
        for level, line in (("likely", file.confidence.likely), ("confirmed", file.confidence.confirmed))
        if line
    }
    return Rule(file, checks, when, levels, source)


def _validated(model: type[Form], data: Any, source: RuleSource, at: Where) -> Form:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise RuleError("\n".join(_said(source, e, at, model) for e in error.errors())) from error


def _said(source: RuleSource, error: Any, at: Where, model: type[Any]) -> str:
    where = (*at, *error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        known = [f.alias or n for n, f in model.model_fields.items()]
        message = f"unknown key '{where[-1]}'{suggestion(str(where[-1]), known)}"
    elif error["type"] == "missing":
        message = f"the key '{where[-1]}' is missing"
    elif where and isinstance(where[-1], str) and where[-1] not in message:
        message = f"{where[-1]}: {message}"
    return source.complaint(message, where)


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` if something known is like the word."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.55)
    return f"; did you mean '{close[0]}'?" if close else ""


def _check(name: str, row: Any, file: RuleFile, source: RuleSource) -> Check:
    at: Where = ("checks", name)
    words = [w for w in CHECKS if isinstance(row, dict) and w in row]
    if len(words) != 1:
        given = ", ".join(row) if isinstance(row, dict) else str(row)
        hint = suggestion(given.split(",")[0], CHECKS)
        raise RuleError(source.complaint(f"a check has exactly one of {', '.join(CHECKS)}, not '{given}'{hint}", at))
    filled = _filled(row, file, source, at)
    return cast(Check, _validated(CHECKS[words[0]], filled, source, at))


def _filled(row: Any, file: RuleFile, source: RuleSource, at: Where) -> Any:
    """The row with every `$param` replaced by its value."""
    if isinstance(row, dict):
        return {key: _filled(value, file, source, (*at, key)) for key, value in row.items()}
    if isinstance(row, list):
        return [_filled(value, file, source, (*at, i)) for i, value in enumerate(row)]
    if isinstance(row, str) and row.startswith("$"):
        if row[1:] not in file.params:
            raise RuleError(source.complaint(f"unknown parameter '{row}'{suggestion(row[1:], file.params)}", at))
        return file.params[row[1:]].default
    return row


def _condition(line: str, at: Where, checks: Mapping[str, Check], source: RuleSource) -> Expression:
    try:
        expression = parse(line)
    except ExpressionError as error:
        raise RuleError(source.complaint(f"{error} (in '{line}', at character {error.at + 1})", at)) from error
    for name in expression.names():
        if name not in checks:
            raise RuleError(source.complaint(f"unknown check '{name}'{suggestion(name, checks)}", at))
    return expression


def _dangling(rules: Mapping[str, Rule]) -> list[str]:
    complaints = []
    for rule in rules.values():
        for where, other in _referred(rule):
            if other not in rules:
                complaints.append(rule.source.complaint(f"unknown rule '{other}'{suggestion(other, rules)}", where))
    return complaints


def _referred(rule: Rule) -> Iterator[tuple[Where, str]]:
    """The rules that a rule names, and where it does."""
    file = rule.file
    for key, others in (
        ("excluded_by", file.excluded_by), ("demoted_by", file.demoted_by), ("raised_by", file.raised_by),
        ("explains", file.explains),
    ):  # fmt: skip
        yield from (((key, i), other) for i, other in enumerate(others))
    yield from ((("checks", name, "rule"), c.rule) for name, c in rule.checks.items() if isinstance(c, RuleCheck))


def _ordered(rules: Mapping[str, Rule]) -> tuple[Rule, ...]:
    """Topological order, ids alphabetical where free. A circle is an error that names its members."""
    done: dict[str, Rule] = {}
    waiting = dict(sorted(rules.items()))
    while waiting:
        ready = [r for r in waiting.values() if r.needs() <= done.keys()]
        if not ready:
            circle = ", ".join(sorted(waiting))
            raise RuleError(f"rules wait for one another in a circle: {circle}")
        for rule in ready:
            done[rule.id] = waiting.pop(rule.id)
    return tuple(done.values())
