"""Load rule files: YAML with places, pydantic for the form, our vocabulary for the names.

Every complaint carries file, line, column, the line itself with a caret, and the likely right word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from thpdiag import __version__
from thpdiag.engine.expression import Expression, ExpressionError, parse
from thpdiag.engine.packs import OWN, Pack
from thpdiag.engine.schema import CHECKS, Check, RuleCheck, RuleFile
from thpdiag.errors import RuleError
from thpdiag.knowledge.complaints import pointed, suggestion
from thpdiag.knowledge.yaml_nodes import Place, Places, YamlError, load_own, load_with_places

Where = tuple[str | int, ...]
Form = TypeVar("Form", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class RuleSource:
    """The text of a rule file, to point into."""

    path: str
    text: str
    places: Mapping[Where, Place]
    pack: Pack | None = None

    def complaint(self, message: str, where: Where, word: str = "", *, shift: int = 0) -> str:
        """`message` at the place of a key (or of the nearest parent that has a place), or of a word in its value."""
        place = self.place(where, word)
        return pointed(self.path, self.text, message, Place(place.line, place.column + shift))

    def place(self, where: Where, word: str = "") -> Place:
        """Where a key stands, or the first whole `word` of what it holds."""
        while where and where not in self.places:
            where = where[:-1]
        place = self.places.get(where, Place(1, 1))
        if not word:
            return place
        rows = self.text.splitlines()
        pattern = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")
        column = place.column - 1 + (len(str(where[-1])) if where and isinstance(where[-1], str) else 0)
        for line in range(place.line, len(rows) + 1):
            if found := pattern.search(rows[line - 1], column):
                return Place(line, found.start() + 1)
            column = 0
        return place

    def key_at(self, line: int) -> Where:
        """The last key that begins on this line or before it."""
        before = [(place.line, where) for where, place in self.places.items() if place.line <= line and len(where) == 1]
        return max(before, key=lambda found: found[0], default=(0, ()))[1]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule ready to be evaluated: parameters put in, conditions parsed.

    `changed` are the parameters that somebody gave another value than the file does.
    """

    file: RuleFile
    checks: Mapping[str, Check]
    when: Expression
    confidence: Mapping[str, Expression]
    source: RuleSource
    changed: Mapping[str, str | float] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.file.id

    @property
    def earlier(self) -> set[str]:
        """Rules that must be judged before this one."""
        referred = {c.rule for c in self.checks.values() if isinstance(c, RuleCheck)}
        return referred | set(self.file.excluded_by) | set(self.file.demoted_by) | set(self.file.raised_by)


def with_earlier(wanted: Iterable[Rule], rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Those of the rules that are wanted, and all that must be judged before them, in order."""
    by_id = {rule.id: rule for rule in rules}
    found: set[str] = set()
    todo = [rule.id for rule in wanted]
    while todo:
        if (current := todo.pop()) in by_id and current not in found:
            found.add(current)
            todo += by_id[current].earlier
    return tuple(rule for rule in rules if rule.id in found)


def builtin_rules() -> Traversable:
    """The rules shipped with thpdiag: inside an installed package, beside it in a checkout."""
    packaged = files("thpdiag") / "_rules"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "rules"


def rule_files(folder: Traversable) -> list[Traversable]:
    """Rule files of a folder, by name, without their cases."""
    found = [f for f in folder.iterdir() if f.name.endswith(".yaml") and not f.name.endswith(".cases.yaml")]
    return sorted(found, key=lambda f: f.name)


def pack_of(place: Traversable | Pack) -> Pack:
    """A folder as a pack: ours, or one that the user names."""
    if isinstance(place, Pack):
        return place
    return Pack(OWN, __version__, place) if place == builtin_rules() else Pack(str(place), "", place)


def path_of(file: Traversable, place: Traversable | Pack) -> str:
    """How complaints name a file: one of ours by its name, others by their path."""
    return file.name if pack_of(place).own else str(file)


def load_rules(places: Iterable[Traversable | Pack]) -> tuple[Rule, ...]:
    """All rules, in an order in which each stands after those it needs. RuleError names everything that is wrong."""
    rules: dict[str, Rule] = {}
    complaints: list[str] = []
    for pack in map(pack_of, places):
        wrong: list[str] = []
        for file in rule_files(pack.folder):
            try:
                rule = _from_file(file, pack)
            except RuleError as error:
                wrong.append(str(error))
                continue
            if rule.id in rules:
                message = f"the id {rule.id} stands twice; the other is in {rules[rule.id].source.path}"
                wrong.append(rule.source.complaint(message, ("id",)))
            rules[rule.id] = rule
        if wrong and pack.version and not pack.own:
            wrong.insert(0, f"the rules of the package {pack.told} cannot be used:")
        complaints += wrong
    complaints += [*_dangling(rules), *_shared_prefixes(rules)]
    if complaints:
        raise RuleError("\n".join(complaints))
    return _ordered(rules)


def _from_file(file: Traversable, pack: Pack) -> Rule:
    path, read = path_of(file, pack), load_own if pack.own else load_with_places
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RuleError(f"{path}: cannot be read: {error}") from error
    rule = load_rule(path, text, read)
    return replace(rule, source=replace(rule.source, pack=pack))


def _shared_prefixes(rules: Mapping[str, Rule]) -> list[str]:
    """A package has prefixes of its own, so that ids of one never meet those of another, now or later."""
    first: dict[str, Rule] = {}
    complaints = []
    for rule in rules.values():
        prefix, pack = rule.id.partition("-")[0], rule.source.pack
        other = first.setdefault(prefix, rule)
        theirs = other.source.pack
        if pack is None or theirs is None or pack == theirs or not (pack.version and theirs.version):
            continue
        message = (
            f"ids with {prefix} are those of {theirs.told} ({other.source.path}); {pack.told} needs its own prefix"
        )
        complaints.append(rule.source.complaint(message, ("id",)))
    return complaints


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


def with_params(rule: Rule, values: Mapping[str, str | float]) -> Rule:
    """The rule with other values of its parameters. RuleError if a check cannot take one."""
    params = {n: p.model_copy(update={"default": values.get(n, p.default)}) for n, p in rule.file.params.items()}
    file = rule.file.model_copy(update={"params": params})
    checks = {name: _check(name, row, file, rule.source) for name, row in file.checks.items()}
    return replace(rule, file=file, checks=checks, changed={**rule.changed, **values})


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
    elif error["type"] == "string_pattern_mismatch" and where == ("id",):
        message = "an id is a prefix in capitals and a number of two digits or more, such as ACME-01"
    elif error["type"] == "missing":
        message = f"the key '{where[-1]}' is missing"
    elif where and isinstance(where[-1], str) and where[-1] not in message:
        message = f"{where[-1]}: {message}"
    return source.complaint(message, where)


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
        raise RuleError(_mistake(line, error, at, source)) from error
    for name in expression.names():
        if name not in checks:
            raise RuleError(source.complaint(f"unknown check '{name}'{suggestion(name, checks)}", at, name))
    return expression


def _mistake(line: str, error: ExpressionError, at: Where, source: RuleSource) -> str:
    """The mistake under the character itself, where the condition stands on one line as it was parsed."""
    place = source.place(at)
    row = source.text.splitlines()[place.line - 1]
    start = row.find(line, place.column + len(str(at[-1])) - 1)
    if start < 0:
        return source.complaint(f"{error} (in '{line}', at character {error.at + 1})", at)
    return pointed(source.path, source.text, str(error), Place(place.line, start + error.at + 1))


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
    """Topological order, ids alphabetical where free. A circle is an error that names its members and points there."""
    graph = TopologicalSorter({name: sorted(rule.earlier) for name, rule in sorted(rules.items())})
    try:
        graph.prepare()
    except CycleError as error:
        circle = list(reversed(error.args[1]))  # graphlib tells it from what is needed to what needs it
        message = f"rules wait for one another in a circle: {' -> '.join(circle)}; take one of these references out"
        where = next(w for w, other in _referred(rules[circle[0]]) if other == circle[1] and w[0] != "explains")
        raise RuleError(rules[circle[0]].source.complaint(message, where)) from error
    done: list[Rule] = []
    while graph.is_active():
        ready = sorted(graph.get_ready())
        done += [rules[name] for name in ready]
        graph.done(*ready)
    return tuple(done)
