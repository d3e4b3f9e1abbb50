"""The cases beside rules, read with their places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources.abc import Traversable

from thpdiag.engine.lint.complaint import Cases
from thpdiag.engine.load import Rule, RuleSource, pack_of, path_of
from thpdiag.engine.packs import Pack
from thpdiag.errors import RuleError
from thpdiag.knowledge.complaints import pointed
from thpdiag.knowledge.yaml_nodes import YamlError, load_own, load_with_places

SUFFIX = ".cases.yaml"


def cases_beside(
    places: Iterable[Traversable | Pack], rules: Sequence[Rule]
) -> tuple[Mapping[str, Cases], tuple[RuleSource, ...]]:
    """The cases by the id of their rule, and files of cases without a rule. RuleError if one cannot be read."""
    ids = {rule.source.path.removesuffix(".yaml") + SUFFIX: rule.id for rule in rules}
    found: dict[str, Cases] = {}
    stray: list[RuleSource] = []
    for pack in map(pack_of, places):
        for file in sorted(pack.folder.iterdir(), key=lambda file: file.name):
            if not file.name.endswith(SUFFIX):
                continue
            cases = _cases(file, pack)
            if cases.source.path in ids:
                found[ids[cases.source.path]] = cases
            else:
                stray.append(cases.source)
    return found, tuple(stray)


def _cases(file: Traversable, pack: Pack) -> Cases:
    path, text = path_of(file, pack), file.read_text(encoding="utf-8")
    try:
        data, places = (load_own if pack.own else load_with_places)(text)
    except YamlError as error:
        raise RuleError(pointed(path, text, str(error), error.place)) from error
    source = RuleSource(path, text, places, pack)
    rows = data or []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise RuleError(source.complaint("cases are a list of hosts, each with name: and outcome:", ()))
    return Cases(rows, source)
