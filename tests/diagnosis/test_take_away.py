"""The law of DESIGN 4: taking input away never makes a likely or confirmed finding that the full input does not have.

For every story, recording and healthy host: each member, reader, block, third of the samples and name is taken away.
For every case beside a rule: each fact, series, list of stacks, event and state.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import BUNDLES, STRICT, found, judged, name, result_of, rules, sure
from reduced_inputs import surer_findings, variants
from thpdiag.authoring.cases import build_host, load_cases
from thpdiag.diagnosis.diagnose import diagnose
from thpdiag.engine.evaluate import evaluate
from thpdiag.engine.load import builtin_rules
from thpdiag.engine.schema import CaseFile
from thpdiag.engine.state_view import state_views
from thpdiag.host.reading import ParsedInput, read_input

MOST, FEWEST = 4, 1  # variants of one bundle by default; of those with an expectation test_accuracy takes others away
EVERY_PART = 47  # by default of the parts of a case; each case begins with another one
RULES = tuple(rule.id for rule in rules())


def check(bundle: Path, given: ParsedInput, chosen: Iterator[tuple[str, ParsedInput]]) -> None:
    full = judged(given)
    for words, rest in chosen:
        assert surer_findings(full, judged(rest)) == [], f"{name(bundle)} without {words}"


@pytest.mark.parametrize("bundle", BUNDLES[::4], ids=name)
def test_a_bundle_with_less_in_it_is_not_surer(bundle: Path) -> None:
    """Some smaller inputs of every fourth bundle, spread evenly."""
    given = read_input([bundle], STRICT)
    every = list(variants(given))
    most = MOST if bundle.parent.parent.name == "stories" else FEWEST
    step = max(1, len(every) // most)
    check(bundle, given, islice(every, BUNDLES.index(bundle) * 7 % step, None, step))


@pytest.mark.proof
@pytest.mark.parametrize("bundle", BUNDLES, ids=name)
def test_proof_of_all_smaller_bundles(bundle: Path) -> None:
    """All of them, and pairs of the first hundred."""
    given = read_input([bundle], STRICT)
    every = list(variants(given))
    check(bundle, given, iter(every))
    for words, rest in every[:30]:
        check(bundle, given, ((f"{words} and {more}", less) for more, less in islice(variants(rest), 0, None, 7)))


# The cases beside the rules.


@cache
def case_files() -> dict[str, tuple[CaseFile, ...]]:
    return dict(load_cases([builtin_rules()], rules()))


def host(data: dict[str, Any]) -> dict[str, str]:
    """What all rules find on the host of a case."""
    case = build_host(CaseFile.model_validate(data))
    result = diagnose(case, rules(), [(scene, evaluate(rules(), scene)) for scene in state_views(case)])
    return {finding.outcome.rule: finding.confidence for finding in result.findings}


Gone = tuple[int | None, str, str | int | None]  # state, key, and what under it: None for the whole list


def parts(data: dict[str, Any]) -> list[Gone]:
    """Everything of a case that can be taken away. A single stack cannot: the shares of the others would be
    invented."""
    gone: list[Gone] = [(None, "states", number) for number in range(len(data.get("states", ())))]
    for state, row in [(None, data), *enumerate(data.get("states", ()))]:
        gone += [(state, key, word) for key in ("facts", "series") for word in row.get(key) or ()]
        gone += [(state, key, None) for key in ("stacks", "flat", "processes", "read", "events") if row.get(key)]
        gone += [(state, "events", number) for number in range(len(row.get("events") or ()))]
    return gone


def without(data: dict[str, Any], *gone: Gone) -> dict[str, Any]:
    """The case without these parts."""
    rest = copy.deepcopy(data)
    for state, key, word in sorted(gone, key=_last_first):
        row = rest if state is None else rest["states"][state]
        if word is None:
            row[key] = []
        elif key in row and (isinstance(row[key], dict) or word < len(row[key])):  # type: ignore[operator]
            del row[key][word]
    return rest


def _last_first(gone: Gone) -> tuple[bool, int]:
    """States go last, and of a list the last first, so that the numbers stay true."""
    state, key, word = gone
    return (state is None and key == "states", -word if isinstance(word, int) else 0)


def plain(case: CaseFile) -> dict[str, Any]:
    return case.model_dump(exclude_none=True, by_alias=True)


CONTRADICTED: dict[str, int | str] = {
    "look-alike, on again, and kernel time stays as low as it was": 2,
    "look-alike, the load ended with the switch": "cpu_ratio.busy",
}
"""What alone contradicts the rest of a case (a state, a series): without it nobody can know of it."""


@pytest.mark.parametrize("rule", RULES)
def test_a_case_with_less_in_it_is_not_surer(rule: str) -> None:
    """Some parts of each case of the rule, judged by all rules."""
    for number, case in enumerate(case_files().get(rule, ())):
        data = plain(case)
        chosen = parts(data)[(number + RULES.index(rule)) % EVERY_PART :: EVERY_PART]
        full = host(data) if chosen else {}
        for gone in chosen:
            if CONTRADICTED.get(case.name, "nothing") not in gone:
                assert surer_findings(full, host(without(data, gone))) == [], f"{case.name} without {gone}"


@pytest.mark.proof
@pytest.mark.parametrize("rule", RULES)
def test_proof_of_all_smaller_cases(rule: str) -> None:
    """Every part and every two parts of each case."""
    for case in case_files().get(rule, ()):
        data = plain(case)
        full = host(data)
        every = parts(data)
        for gone in (*combinations(every, 1), *combinations(every, 2)):
            assert surer_findings(full, host(without(data, *gone))) == [], f"{case.name} without {gone}"


def test_there_is_something_to_take_away() -> None:
    """The bundles have sure findings and the cases have parts; an empty proof proves nothing."""
    assert len([*islice((bundle for bundle in BUNDLES[::2] if sure(found(result_of(bundle)))), 5)]) == 5
    assert sum(len(parts(plain(c))) for cases in case_files().values() for c in cases) > 500


def test_a_breach_would_be_seen() -> None:
    """The comparison itself: surer, new and equal."""
    assert surer_findings({"THP-001": "likely"}, {"THP-001": "confirmed"}) == ["THP-001 confirmed"]
    assert surer_findings({"THP-001": "possible"}, {"THP-001": "likely"}) == ["THP-001 likely"]
    assert surer_findings({"THP-001": "likely"}, {"THP-001": "likely", "THP-030": "possible"}) == []
    assert found({"findings": [{"rule": "THP-001", "confidence": "likely"}]}) == {"THP-001": "likely"}
