"""`rules test` with one relation to another rule less: which cases miss it, and which relations need none."""

from __future__ import annotations

import pytest

from thpdiag.authoring.testing import count_mistakes, unnoticed_mistakes, unnoticed_relations
from thpdiag.engine.load import Rule, builtin_rules, load_rule, load_rules
from thpdiag.engine.schema import CaseFile

ENABLED = "{fact: thp.enabled, is: always}"
HERE = {"thp.enabled": "always"}


def rule(name: str, mechanism: str = "memory-pressure", role: str = "alternative", **lists: str) -> Rule:
    """A tiny rule that fires where huge pages are always on."""
    relations = "\n".join(f"{key}: [{names}]" for key, names in lists.items())
    text = f"""
id: {name}
title: Huge pages are on and nothing else is
status: draft
severity: low
mechanism: {mechanism}
role: {role}
checks: {{on: {ENABLED}}}
when: on
{relations}
means: A tiny rule that is there to be set beside another one by the tests.
references: [none]
"""
    return load_rule(f"{name}.yaml", text)


def stated(facts: dict[str, str], **relations: list[str]) -> CaseFile:
    return CaseFile.model_validate({"name": "a", "facts": facts, "outcome": "fires", **relations})


@pytest.mark.parametrize("key", ["explains", "demoted_by"])
def test_a_relation_is_held_by_a_case_that_states_it_and_fails_without_it(key: str) -> None:
    """It shows only beside the other rule."""
    own, other = rule("ACME-01", **{key: "ACME-02"}), rule("ACME-02")
    both = (other, own)

    assert list(unnoticed_relations(own, both, [stated(HERE, **{key: ["ACME-02"]})])) == []
    assert list(unnoticed_relations(own, both, [stated(HERE)])) == [f"without {key} ACME-02"]
    assert unnoticed_mistakes(own, both, ())[-1] == f"ACME-01: without {key} ACME-02"
    assert count_mistakes(own) > count_mistakes(other)


def test_a_case_that_fails_as_it_is_holds_nothing() -> None:
    """Nothing fires on that host."""
    own, other = rule("ACME-01", explains="ACME-02"), rule("ACME-02")
    case = stated({"thp.enabled": "never"}, explains=["ACME-02"])

    assert list(unnoticed_relations(own, (other, own), [case])) == ["without explains ACME-02"]


@pytest.mark.parametrize(
    ("own", "other", "needed"),
    [
        (rule("ACME-01", explains="ACME-02"), rule("ACME-02", "swap-storm"), True),  # and if that one is the surer
        (rule("ACME-01", explains="ACME-02"), rule("ACME-02", "swap-storm", "contributing"), False),
        (rule("ACME-01", explains="ACME-02"), rule("ACME-02", "slab-growth", "contributing"), True),
        (rule("ACME-01", explains="ACME-02"), rule("ACME-02", role="risk"), False),
        (rule("ACME-01", "swap-storm", demoted_by="ACME-02"), rule("ACME-02"), False),
        (rule("ACME-01", demoted_by="ACME-02"), rule("ACME-02", explains="ACME-01"), False),
        (rule("ACME-01", demoted_by="ACME-02"), rule("ACME-02", role="risk", explains="ACME-01"), True),
    ],
)
def test_what_the_mechanisms_or_the_other_rule_say_needs_no_case(own: Rule, other: Rule, needed: bool) -> None:
    """Memory pressure leads to swapping (mechanisms.yaml), a risk belongs to a cause of its mechanism."""
    assert list(unnoticed_relations(own, (other, own), [])) == ([f"without {_key(own)} ACME-02"] if needed else [])


def _key(own: Rule) -> str:
    return "explains" if own.file.explains else "demoted_by"


def test_a_setting_is_no_better_explanation() -> None:
    """What silences or demotes by its mechanism is a cause or context: no risk, no setting, nothing that adds to it."""
    known = {rule.id: rule for rule in load_rules([builtin_rules()])}
    named = {other for rule in known.values() for other in (*rule.file.excluded_by, *rule.file.demoted_by)}
    assert {i for i in named if known[i].file.role in ("risk", "configuration")} == set()
    assert "THP-142" not in known["THP-004"].file.excluded_by
    assert "ALT-03" in known["THP-004"].file.excluded_by
