"""`rules test`: run the cases beside the rules, and mutate the rules to find checks that no case notices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable

from pydantic import ValidationError

from thpdiag.derive.host import derived
from thpdiag.engine.load import Rule, pack_of, path_of, pointed
from thpdiag.engine.match import Forced
from thpdiag.engine.packs import Pack
from thpdiag.engine.scenes import scenes
from thpdiag.engine.schema import CaseFile
from thpdiag.engine.small_cases import host
from thpdiag.engine.worst import judged
from thpdiag.errors import RuleError
from thpdiag.knowledge.yaml_nodes import YamlError, load_with_places
from thpdiag.model import Case, RuleOutcome, Verdict3

RANK = {"fires": 3, "excluded": 2, "unknown": 1, "silent": 0}


@dataclass(frozen=True, slots=True)
class Tested:
    """A case of a rule: what was expected and what came out (`outcome[:confidence]`)."""

    rule: str
    case: str
    expected: str
    actual: str

    @property
    def passed(self) -> bool:
        return self.expected == self.actual


def load_cases(folders: Iterable[Traversable | Pack], rules: Sequence[Rule]) -> Mapping[str, tuple[CaseFile, ...]]:
    """The cases of every rule, by rule id. RuleError if a cases file cannot be read."""
    texts = {
        path_of(f, folder): f.read_text(encoding="utf-8")
        for folder in folders
        for f in pack_of(folder).folder.iterdir()
        if f.name.endswith(".cases.yaml")
    }
    return {rule.id: _cases(name, texts[name]) for rule in rules if (name := _beside(rule)) in texts}


def _beside(rule: Rule) -> str:
    return rule.source.path.removesuffix(".yaml") + ".cases.yaml"


def _cases(path: str, text: str) -> tuple[CaseFile, ...]:
    try:
        data, places = load_with_places(text)
    except YamlError as error:
        raise RuleError(pointed(path, text, str(error), error.place)) from error
    found = []
    for i, row in enumerate(data or []):
        try:
            found.append(CaseFile.model_validate(row))
        except ValidationError as error:
            first = error.errors()[0]
            raise RuleError(pointed(path, text, f"{first['loc']}: {first['msg']}", places.get((i,)))) from error
    return tuple(found)


def run(rule: Rule, rules: Sequence[Rule], case: CaseFile, forced: Forced | None = None) -> Tested:
    """One case on one rule, with all other rules beside it."""
    actual, confidence = _outcome(rule, rules, prepared(case), forced)
    if case.confidence is not None:
        expected = f"{case.outcome}:{case.confidence}"
        return Tested(rule.id, case.name, expected, f"{actual}:{confidence}" if confidence else actual)
    return Tested(rule.id, case.name, case.outcome, actual)


def prepared(case: CaseFile) -> Case:
    """The small host with derived facts, as `analyze` would have it."""
    return derived(host(case))


def _outcome(rule: Rule, rules: Sequence[Rule], case: Case, forced: Forced | None) -> tuple[str, str | None]:
    wanted = needed(rule, rules)
    found = [judged(wanted, scene, forced)[rule.id] for scene in scenes(case)]
    best = max(found, key=lambda o: (RANK[word(o)], o.confidence == "confirmed", o.confidence == "likely"))
    return word(best), best.confidence


def word(outcome: RuleOutcome) -> str:
    """fires, silent, unknown or excluded."""
    if outcome.value is Verdict3.NO and outcome.against and outcome.against[0].check == "excluded_by":
        return "excluded"
    return {Verdict3.YES: "fires", Verdict3.NO: "silent", Verdict3.UNKNOWN: "unknown"}[outcome.value]


def needed(rule: Rule, rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rule and all it depends on, in order."""
    by_id = {r.id: r for r in rules}
    wanted: set[str] = set()
    todo = [rule.id]
    while todo:
        current = todo.pop()
        if current not in wanted and current in by_id:
            wanted.add(current)
            todo += by_id[current].needs()
    return tuple(r for r in rules if r.id in wanted)


def unnoticed(rule: Rule, rules: Sequence[Rule], cases: Sequence[CaseFile]) -> list[str]:
    """Mutations that no case notices: each check of the rule forced to yes, and forced to no."""
    hosts = [(case, prepared(case)) for case in cases]
    plain = [_outcome(rule, rules, prepared_case, None) for _, prepared_case in hosts]
    found = []
    for name in rule.checks:
        for value in (Verdict3.YES, Verdict3.NO):
            forced = Forced(rule.id, name, value)
            mutated = [_outcome(rule, rules, prepared_case, forced) for _, prepared_case in hosts]
            if all(_same(a, b, case) for a, b, (case, _) in zip(plain, mutated, hosts, strict=True)):
                found.append(f"{rule.id}: check '{name}' forced to {value.word}: no case notices")
    return found


def _same(plain: tuple[str, str | None], mutated: tuple[str, str | None], case: CaseFile) -> bool:
    """A changed confidence is noticed only by a case that states one."""
    return plain[0] == mutated[0] and (case.confidence is None or plain[1] == mutated[1])
