"""Rule files and packs: loading, validation, the order of evaluation, and the values of `--set`.

YAML is loaded with positions, pydantic validates the form, the vocabulary the names. Every error message has file,
line, column, the line itself with a caret, and the likely right word.

Rules come from thpdiag itself, from installed packages, and from folders that the user names. A package provides rules
by an entry point of the group `thpdiag.rules` in its metadata:

    [project.entry-points."thpdiag.rules"]
    acme = "acme_thp_rules"            # the package's own folder, or
    acme = "acme_thp_rules:rules"      # a folder in it

A pack is data: its folder is found without importing the package. Its folder `knowledge` may add words to the
vocabulary (knowledge/packs.py).

`--set RULE.PARAM=VALUE` changes thresholds, for a host that is known to differ.
"""

from __future__ import annotations

import hashlib
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from thpdiag import __version__
from thpdiag.engine.expression import Expression, ExpressionError, parse
from thpdiag.engine.quantity import split_unit, units_like
from thpdiag.engine.schema import CHECKS, Check, RuleCheck, RuleFile
from thpdiag.errors import RuleError, UsageError
from thpdiag.knowledge.mechanisms import mechanisms
from thpdiag.knowledge.packs import FOLDER, PREFIX_FILE, prefix_of, text_of, use
from thpdiag.knowledge.yaml_nodes import Place, Places, YamlError, load_own, load_with_places, point_at, suggestion

GROUP = "thpdiag.rules"
OWN = "thpdiag"
_ENTRY_POINT_VALUE = re.compile(r"(?P<package>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?::(?P<folder>\w+(?:\.\w+)*))?")


@dataclass(frozen=True, slots=True)
class Pack:
    """A folder of rules, with the name and version of its package. A folder that the user names has no version."""

    name: str
    version: str
    folder: Traversable

    @property
    def own(self) -> bool:
        """Whether the pack is shipped with thpdiag."""
        return self.name == OWN

    @property
    def label(self) -> str:
        """Name and version in words."""
        return f"{self.name} {self.version}".strip()


def installed_packs() -> tuple[Pack, ...]:
    """Return the packs of installed packages, sorted by name. Raise RuleError for a package without its folder."""
    return tuple(map(_installed_pack, _entry_points(tuple((folder, _modified_ns(folder)) for folder in sys.path))))


def _modified_ns(folder: str) -> int:
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:  # most search paths name a folder that does not exist
        return 0


@lru_cache(maxsize=1)
def _entry_points(path: Sequence[tuple[str, int]]) -> Sequence[EntryPoint]:
    """Return each entry point once, sorted by name. A package that is twice in the path is found twice. The metadata
    of all installed packages is opened for this. The result is cached until a folder in the path changes, which it
    does when a package is installed or removed."""
    unique = {(point.name, point.value): point for point in reversed(entry_points(group=GROUP))}
    return sorted(unique.values(), key=lambda point: (_distribution_name(point), point.name))


def _distribution_name(point: EntryPoint) -> str:
    return str(point.dist.name) if point.dist is not None else point.name


def _installed_pack(point: EntryPoint) -> Pack:
    name = _distribution_name(point)
    version = str(point.dist.version) if point.dist is not None else ""
    match = _ENTRY_POINT_VALUE.fullmatch(point.value)
    if not match:
        raise _pack_error(name, version, point, "it must be PACKAGE or PACKAGE:FOLDER")
    top, *inner = match["package"].split(".")
    parts = [*inner, *(match["folder"] or "").split(".")] if match["folder"] else inner
    folder = _package_folder(top)
    if folder is None:
        raise _pack_error(name, version, point, f"no package '{top}'")
    folder = folder.joinpath(*parts)
    if not folder.is_dir():
        raise _pack_error(name, version, point, f"no such folder: {folder}")
    return Pack(name, version, folder)


def _package_folder(package: str) -> Path | None:
    """Return the folder of a top-level package without importing it."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    locations = spec.submodule_search_locations if spec else None
    return Path(next(iter(locations))) if locations else None


def _pack_error(name: str, version: str, point: EntryPoint, why: str) -> RuleError:
    entry = f"its entry point {GROUP}: {point.name} = {point.value}"
    return RuleError(f"the package {name} {version} gives no rules: {why} ({entry}); mend or uninstall it")


RELATIONS = (
    "excluded_by",
    "demoted_by",
    "raised_by",
    "explains",
)  # lists of rule ids, or of mechanisms: all their rules
Where = tuple[str | int, ...]
Form = TypeVar("Form", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class RuleSource:
    """The text of a rule file, with the positions of its keys."""

    path: str
    text: str
    places: Mapping[Where, Place]
    pack: Pack | None = None

    def complaint(self, message: str, where: Where, word: str = "", *, shift: int = 0) -> str:
        """Return an error message that points at a key (or its nearest parent with a position), or at a word in its
        value."""
        place = self.place(where, word)
        return point_at(self.path, self.text, message, Place(place.line, place.column + shift))

    def place(self, where: Where, word: str = "") -> Place:
        """Return the position of a key, or of the first whole `word` in its value."""
        while where and where not in self.places:
            where = where[:-1]
        place = self.places.get(where, Place(1, 1))
        if not word:
            return place
        rows = self.text.splitlines()
        pattern = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")
        column = place.column - 1 + (len(str(where[-1])) if where and isinstance(where[-1], str) else 0)
        for line in range(place.line, len(rows) + 1):
            if match := pattern.search(rows[line - 1], column):
                return Place(line, match.start() + 1)
            column = 0
        return place

    def key_at(self, line: int) -> Where:
        """Return the last top-level key that begins on this line or before it."""
        keys = [(place.line, where) for where, place in self.places.items() if place.line <= line and len(where) == 1]
        return max(keys, key=lambda key: key[0], default=(0, ()))[1]


@dataclass(frozen=True)
class Rule:
    """A rule ready to be evaluated: parameters filled in, conditions parsed.

    `changed` are the parameters whose value differs from that of the file.
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

    @cached_property
    def supporting(self) -> frozenset[str]:
        """The checks whose yes supports the finding. The others, under `not`, contradict it."""
        expressions = (self.when, *self.confidence.values())
        return frozenset(name for e in expressions for name, is_negated in e.with_polarity() if not is_negated)

    @property
    def dependencies(self) -> set[str]:
        """The rules that must be judged before this one."""
        referred = {c.rule for c in self.checks.values() if isinstance(c, RuleCheck)}
        return referred | set(self.file.excluded_by) | set(self.file.demoted_by) | set(self.file.raised_by)


def with_dependencies(wanted: Iterable[Rule], rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the wanted rules and all rules that must be judged before them, in the order of `rules`."""
    by_id = {rule.id: rule for rule in rules}
    ids: set[str] = set()
    todo = [rule.id for rule in wanted]
    while todo:
        if (current := todo.pop()) in by_id and current not in ids:
            ids.add(current)
            todo += by_id[current].dependencies
    return tuple(rule for rule in rules if rule.id in ids)


def builtin_rules() -> Traversable:
    """Return the folder of rules shipped with thpdiag: in an installed package, or next to it in a checkout."""
    packaged = files("thpdiag") / "_rules"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "rules"


def rule_files(folder: Traversable) -> list[Traversable]:
    """Return the rule files of a folder, sorted by name, without case files."""
    rules = [f for f in folder.iterdir() if f.name.endswith(".yaml") and not f.name.endswith(".cases.yaml")]
    return sorted(rules, key=lambda f: f.name)


def pack_of(place: Traversable | Pack) -> Pack:
    """Return the pack of a folder: the one of thpdiag, or one that the user names."""
    if isinstance(place, Pack):
        return place
    return Pack(OWN, __version__, place) if place == builtin_rules() else Pack(str(place), "", place)


def display_path(file: Traversable, place: Traversable | Pack) -> str:
    """Return the name of a file in error messages: the bare name for files of thpdiag, the path for others."""
    return file.name if pack_of(place).own else str(file)


def use_words(places: Iterable[Traversable | Pack]) -> tuple[Pack, ...]:
    """Return the packs of these places, and add their words to the vocabulary. Parsing input needs only this of
    packs."""
    packs = tuple(map(pack_of, places))
    use(pack.folder for pack in packs if not pack.own)
    return packs


def load_rules(places: Iterable[Traversable | Pack]) -> tuple[Rule, ...]:
    """Return all rules, each after the rules it depends on. The RuleError has the messages of all errors."""
    packs = use_words(places)
    texts = ((pack, tuple(file_text(file, pack) for file in rule_files(pack.folder))) for pack in packs)
    return assemble_rules(tuple(texts))


FileText = tuple[str, str, str]  # of a file: name in messages, content, error message


def file_text(file: Traversable, pack: Pack) -> FileText:
    """Read a rule or case file."""
    path = display_path(file, pack)
    try:
        return path, file.read_text(encoding="utf-8"), ""
    except (OSError, UnicodeDecodeError) as error:
        return path, "", f"{path}: cannot be read: {error}"


@lru_cache(maxsize=8)  # a process that analyses many bundles needs the same rules each time
def assemble_rules(packs: tuple[tuple[Pack, tuple[FileText, ...]], ...]) -> tuple[Rule, ...]:
    """Return the rules of texts, like `load_rules`."""
    rules: dict[str, Rule] = {}
    complaints: list[str] = []
    for pack, texts in packs:
        errors: list[str] = []
        for path, text, read_error in texts:
            if read_error:
                errors.append(read_error)
                continue
            try:
                rule = load_rule(path, text, load_own if pack.own else load_with_places, pack)
            except RuleError as error:
                errors.append(str(error))
                continue
            if rule.id in rules:
                message = f"duplicate rule ID {rule.id}, also in {rules[rule.id].source.path}"
                errors.append(rule.source.complaint(message, ("id",)))
            rules[rule.id] = rule
        if errors and pack.version and not pack.own:
            errors.insert(0, f"the rules of the package {pack.label} cannot be used:")
        complaints += errors
    rules = _resolve_mechanisms(rules)
    complaints += [*_unknown_references(rules), *_shared_prefixes(rules), *_missing_prefixes(rules)]
    if complaints:
        raise RuleError("\n".join(complaints))
    return _sort_rules(rules)


def _shared_prefixes(rules: Mapping[str, Rule]) -> list[str]:
    """Complain about a prefix that two packages use. Each needs its own, so that their ids never collide."""
    first: dict[str, Rule] = {}
    complaints = []
    for rule in rules.values():
        prefix, pack = rule.id.partition("-")[0], rule.source.pack
        other = first.setdefault(prefix, rule)
        owner = other.source.pack
        if pack is None or owner is None or pack == owner or not (pack.version and owner.version):
            continue
        message = (
            f"ids with {prefix} are those of {owner.label} ({other.source.path}); {pack.label} needs its own prefix"
        )
        complaints.append(rule.source.complaint(message, ("id",)))
    return complaints


def _missing_prefixes(rules: Mapping[str, Rule]) -> list[str]:
    """Complain about rules whose id lacks the prefix of a pack with words of its own."""
    complaints = []
    for rule in rules.values():
        pack = rule.source.pack
        prefix = "" if pack is None or pack.own else prefix_of(pack.folder)
        if prefix and rule.id.partition("-")[0] != prefix.upper():
            message = f"the prefix of this pack is {prefix} ({FOLDER}/{PREFIX_FILE}); call it {prefix.upper()}-NN"
            complaints.append(rule.source.complaint(message, ("id",)))
    return complaints


@lru_cache(maxsize=1024)  # keyed by the text, so that a changed file is loaded again
def load_rule(
    path: str, text: str, read: Callable[[str], tuple[Any, Places]] = load_with_places, pack: Pack | None = None
) -> Rule:
    """Load one rule from its text."""
    try:
        data, places = read(text)
    except YamlError as error:
        raise RuleError(point_at(path, text, str(error), error.place)) from error
    source = RuleSource(path, text, places, pack)
    if not isinstance(data, dict):
        raise RuleError(source.complaint("a rule is a mapping that begins with id:", ()))
    file = _validate(RuleFile, data, source, ())
    checks = {name: _check(name, row, file, source) for name, row in file.checks.items()}
    when = _condition(file.when, ("when",), checks, source)
    levels = {
        level: _condition(line, ("confidence", level), checks, source)
        for level, line in (("likely", file.confidence.likely), ("confirmed", file.confidence.confirmed))
        if line
    }
    return Rule(file, checks, when, levels, source)


def with_params(rule: Rule, values: Mapping[str, str | float]) -> Rule:
    """Return the rule with other values of its parameters. Raise RuleError if a check does not accept one."""
    params = {n: p.model_copy(update={"default": values.get(n, p.default)}) for n, p in rule.file.params.items()}
    file = rule.file.model_copy(update={"params": params})
    checks = {name: _check(name, row, file, rule.source) for name, row in file.checks.items()}
    checks = {name: check if check != rule.checks[name] else rule.checks[name] for name, check in checks.items()}
    return replace(rule, file=file, checks=checks, changed={**rule.changed, **values})


def _validate(model: type[Form], data: Any, source: RuleSource, where: Where) -> Form:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise RuleError("\n".join(_form_complaint(source, e, where, model) for e in error.errors())) from error


def _form_complaint(source: RuleSource, error: Any, parent: Where, model: type[Any]) -> str:
    where = (*parent, *error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        known = [f.alias or n for n, f in model.model_fields.items()]
        message = f"unknown key '{where[-1]}'{suggestion(str(where[-1]), known)}"
    elif error["type"] == "string_pattern_mismatch" and where == ("id",):
        message = "an id is a prefix in capitals and a number of two digits or more, such as ACME-01"
    elif error["type"] == "string_type" and isinstance(error["input"], dict):
        message = "text is wanted here; put text that has a colon and a space in quotes"
    elif error["type"] == "missing":
        message = f"the key '{where[-1]}' is missing"
    elif where and isinstance(where[-1], str) and where[-1] not in message:
        message = f"{where[-1]}: {message}"
    return source.complaint(message, where)


def _check(name: str, row: Any, file: RuleFile, source: RuleSource) -> Check:
    where: Where = ("checks", name)
    words = [w for w in CHECKS if isinstance(row, dict) and w in row]
    if len(words) != 1:
        given = ", ".join(row) if isinstance(row, dict) else str(row)
        hint = suggestion(given.split(",")[0], CHECKS)
        raise RuleError(source.complaint(f"a check has exactly one of {', '.join(CHECKS)}, not '{given}'{hint}", where))
    filled = _fill_params(row, file, source, where)
    return cast(Check, _validate(CHECKS[words[0]], filled, source, where))


def _fill_params(row: Any, file: RuleFile, source: RuleSource, where: Where) -> Any:
    """Return the row with every `$param` replaced by its value."""
    if isinstance(row, dict):
        return {key: _fill_params(value, file, source, (*where, key)) for key, value in row.items()}
    if isinstance(row, list):
        return [_fill_params(value, file, source, (*where, i)) for i, value in enumerate(row)]
    if isinstance(row, str) and row.startswith("$"):
        if row[1:] not in file.params:
            raise RuleError(source.complaint(f"unknown parameter '{row}'{suggestion(row[1:], file.params)}", where))
        return file.params[row[1:]].default
    return row


def _condition(line: str, where: Where, checks: Mapping[str, Check], source: RuleSource) -> Expression:
    try:
        expression = parse(line)
    except ExpressionError as error:
        raise RuleError(_condition_complaint(line, error, where, source)) from error
    for name in expression.names():
        if name not in checks:
            raise RuleError(source.complaint(f"unknown check '{name}'{suggestion(name, checks)}", where, name))
    return expression


def _condition_complaint(line: str, error: ExpressionError, where: Where, source: RuleSource) -> str:
    """Point at the character of the error if the condition is on one line in the file as it was parsed."""
    place = source.place(where)
    row = source.text.splitlines()[place.line - 1]
    start = row.find(line, place.column + len(str(where[-1])) - 1)
    if start < 0:
        return source.complaint(f"{error} (in '{line}', at character {error.at + 1})", where)
    return point_at(source.path, source.text, str(error), Place(place.line, start + error.at + 1))


def _unknown_references(rules: Mapping[str, Rule]) -> list[str]:
    complaints = []
    for rule in rules.values():
        for where, other in _references(rule):
            if other in rules:
                continue
            if other in mechanisms():
                message = f"no other rule has the mechanism '{other}'"
            else:
                message = f"unknown rule '{other}'{suggestion(other, [*rules, *mechanisms()])}"
            complaints.append(rule.source.complaint(message, where))
    return complaints


def _resolve_mechanisms(rules: Mapping[str, Rule]) -> dict[str, Rule]:
    """Replace mechanisms in the relations of rules by the ids of all other rules of that mechanism. Only
    explanations can exclude or demote a rule: configuration, risks and contributing rules are left out there."""
    by_mechanism: dict[str, list[str]] = {}
    for rule in rules.values():
        by_mechanism.setdefault(rule.file.mechanism, []).append(rule.id)
    explaining = {rule.id for rule in rules.values() if rule.file.role in ("root_cause", "alternative", "context")}
    resolved = {}
    for rule in rules.values():
        changed: dict[str, list[str]] = {}
        for key in RELATIONS:
            names = getattr(rule.file, key)
            if any(name in by_mechanism for name in names):
                others = {name: [i for i in by_mechanism.get(name, ()) if i != rule.id] or [name] for name in names}
                ids = [i for name in names for i in others[name]]
                if key in ("excluded_by", "demoted_by"):
                    ids = [i for i in ids if i in explaining or i in names]
                changed[key] = sorted(ids) if key == "explains" else ids  # reports list excluders in the rule's order
        file = rule.file.model_copy(update=changed)
        resolved[rule.id] = replace(rule, file=file) if changed else rule
    return resolved


def _references(rule: Rule) -> Iterator[tuple[Where, str]]:
    """Yield the rules that a rule refers to, with the keys."""
    for key in RELATIONS:
        yield from (((key, i), other) for i, other in enumerate(getattr(rule.file, key)))
    yield from ((("checks", name, "rule"), c.rule) for name, c in rule.checks.items() if isinstance(c, RuleCheck))


def _sort_rules(rules: Mapping[str, Rule]) -> tuple[Rule, ...]:
    """Return the rules in topological order, otherwise by id. A cycle is a RuleError that names its members."""
    graph = TopologicalSorter({name: sorted(rule.dependencies) for name, rule in sorted(rules.items())})
    try:
        graph.prepare()
    except CycleError as error:
        circle = list(reversed(error.args[1]))  # graphlib lists each dependency before its dependent
        message = f"rules wait for one another in a circle: {' -> '.join(circle)}; take one of these references out"
        where = next(w for w, other in _references(rules[circle[0]]) if other == circle[1] and w[0] != "explains")
        raise RuleError(rules[circle[0]].source.complaint(message, where)) from error
    done: list[Rule] = []
    while graph.is_active():
        ready = sorted(graph.get_ready())
        done += [rules[name] for name in ready]
        graph.done(*ready)
    return tuple(done)


_SETTING = re.compile(r"(?P<rule>[^.=\s]+)\.(?P<param>[^.=\s]+)\s*=\s*(?P<value>.*\S)", re.DOTALL)
_PLAIN_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)
Values = Mapping[str, Mapping[str, str | float]]  # by rule and parameter


def with_set_params(rules: Sequence[Rule], texts: Sequence[str]) -> tuple[Rule, ...]:
    """Return the rules with the values of `--set`. Raise UsageError for a wrong one."""
    chosen = _values(rules, texts)
    return tuple(_with_values(rule, chosen[rule.id]) if rule.id in chosen else rule for rule in rules)


def changed_params(rules: Sequence[Rule]) -> str:
    """Return the changed parameters in the form of `--set`, sorted by rule."""
    texts = [f"{r.id}.{name}={value}" for r in sorted(rules, key=lambda r: r.id) for name, value in r.changed.items()]
    return ", ".join(texts)


def _values(rules: Sequence[Rule], texts: Sequence[str]) -> Values:
    by_id = {rule.id: rule for rule in rules}
    chosen: dict[str, dict[str, str | float]] = {}
    for text in texts:
        match = _SETTING.fullmatch(text.strip())
        if not match:
            raise UsageError(f"--set takes RULE.PARAM=VALUE, such as THP-013.often=0.1 /s, not {text!r}")
        rule = by_id.get(match["rule"].upper())
        if rule is None:
            raise UsageError(f"--set: no rule {match['rule']!r}{suggestion(match['rule'].upper(), by_id)}")
        values = chosen.setdefault(rule.id, {})
        name = _param(rule, match["param"])
        if name in values:
            raise UsageError(f"--set: {rule.id}.{name} is set twice")
        values[name] = _value(rule, name, match["value"])
    return {rule: dict(sorted(values.items())) for rule, values in sorted(chosen.items())}


def _param(rule: Rule, name: str) -> str:
    params = rule.file.params
    if name not in params:
        known = f"it has {', '.join(params)}" if params else "it has none"
        raise UsageError(f"--set: {rule.id} has no parameter {name!r}{suggestion(name, params)} ({known})")
    return name


def _value(rule: Rule, name: str, text: str) -> str | float:
    """Return the value in the form of a rule file, with a unit of the same kind as the rule's own value."""
    default = rule.file.params[name].default
    default_unit = split_unit(default)[1]
    units = units_like(default_unit)
    units_text = " or ".join(units) if default_unit else "no unit"
    try:
        number, unit = split_unit(float(text) if _PLAIN_NUMBER.fullmatch(text) else text)
    except ValueError as error:
        raise UsageError(f"--set {rule.id}.{name}: {text!r} is not a number; the rule has {default}") from error
    if unit not in units:
        given_unit = f"the unit {unit}" if unit else "no unit"
        raise UsageError(
            f"--set {rule.id}.{name}: {text!r} has {given_unit}; the rule has {default}, so it takes {units_text}"
        )
    if not math.isfinite(number):
        raise UsageError(f"--set {rule.id}.{name}: the number is too large")
    if unit:
        return f"{text.strip().removesuffix(unit).strip()} {unit}"
    return int(number) if number == int(number) else number


def _with_values(rule: Rule, values: Mapping[str, str | float]) -> Rule:
    try:
        return with_params(rule, values)
    except RuleError as error:
        names = ", ".join(values)
        raise UsageError(f"--set: {rule.id} cannot take this value of {names}: {error}") from error


def rule_set(folders: Sequence[Path] = (), changes: Sequence[str] = ()) -> tuple[Rule, ...]:
    """Return all rules with the values of `--set`."""
    return with_set_params(load_rules(rule_places(folders)), changes)


def rule_places(folders: Sequence[Path]) -> list[Traversable | Pack]:
    """Return the places of rules, each once, even if the user names a folder that is also shipped or installed."""
    unique: dict[str, Traversable | Pack] = {}
    places: list[Traversable | Pack] = [builtin_rules(), *installed_packs(), *folders]
    for pack in map(pack_of, places):
        unique.setdefault(str(pack.folder.resolve()) if isinstance(pack.folder, Path) else str(pack.folder), pack)
    return list(unique.values())


def digest(rules: Iterable[Rule]) -> str:
    """Return a hash of the rule set. Results with equal digests used the same rules."""
    sha256, rules = hashlib.sha256(), sorted(rules, key=lambda r: r.id)
    for pack in by_pack(rules):
        sha256.update(text_of(pack.folder).encode())
    for rule in rules:
        sha256.update(rule.source.text.encode())
        if rule.changed:
            sha256.update(repr(sorted(rule.changed.items())).encode())
    return sha256.hexdigest()[:16]


def by_pack(rules: Iterable[Rule]) -> dict[Pack, list[Rule]]:
    """Return the rules of each pack: those of thpdiag, then the others by label."""
    packs: dict[Pack, list[Rule]] = {}
    for rule in rules:
        if rule.source.pack is not None:
            packs.setdefault(rule.source.pack, []).append(rule)
    return dict(sorted(packs.items(), key=lambda entry: (not entry[0].own, entry[0].label)))
