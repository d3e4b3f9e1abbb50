"""The cases beside the rules: small hosts, and what the rule must say of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources.abc import Traversable

from pydantic import ValidationError

from thpdiag.derive.host import derived
from thpdiag.engine.load import Rule, pack_of, path_of
from thpdiag.engine.packs import Pack
from thpdiag.engine.schema import CaseFile
from thpdiag.engine.small_cases import host
from thpdiag.errors import RuleError
from thpdiag.knowledge.complaints import pointed
from thpdiag.knowledge.yaml_nodes import YamlError, load_with_places
from thpdiag.model import Case, RuleOutcome, Verdict3


def load_cases(folders: Iterable[Traversable | Pack], rules: Sequence[Rule]) -> Mapping[str, tuple[CaseFile, ...]]:
    """The cases of every rule, by rule id. RuleError if a cases file cannot be read."""
    texts = {
        path_of(f, folder): f.read_text(encoding="utf-8")
        for folder in folders
        for f in pack_of(folder).folder.iterdir()
        if f.name.endswith(".cases.yaml")
    }
    return {rule.id: _cases(name, texts[name]) for rule in rules if (name := _beside(rule)) in texts}


GAPS = "unnoticed.txt"  # beside rules: what may be wrong in them without a case that notices, a line each


def known_gaps(folders: Iterable[Traversable | Pack]) -> frozenset[str]:
    """The lines of the lists of known gaps, without remarks."""
    files = [pack_of(folder).folder / GAPS for folder in folders]
    texts = [file.read_text(encoding="utf-8") for file in files if file.is_file()]
    rows = (line.strip() for text in texts for line in text.splitlines())
    return frozenset(row for row in rows if row and not row.startswith("#"))


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


def prepared(case: CaseFile) -> Case:
    """The small host with derived facts, as `analyze` would have it."""
    return derived(host(case))


def word(outcome: RuleOutcome) -> str:
    """fires, silent, unknown or excluded."""
    if outcome.value is Verdict3.NO and outcome.excluded:
        return "excluded"
    return {Verdict3.YES: "fires", Verdict3.NO: "silent", Verdict3.UNKNOWN: "unknown"}[outcome.value]
