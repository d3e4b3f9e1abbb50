"""Cases of rules with several states: what a state cannot have is refused, not left out."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from thpdiag.engine.schema import CaseFile

BEFORE: dict[str, Any] = {"facts": {"thp.defrag": "always"}, "series": {"node_vmstat_compact_stall": "0+9x5 @2s"}}
AFTER: dict[str, Any] = {"facts": {"thp.defrag": "never"}}


def case(states: list[dict[str, Any]], **beside: Any) -> CaseFile:
    return CaseFile.model_validate({"name": "a", "outcome": "fires", "states": states, **beside})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"states": [{**BEFORE, "procesess": ["java"]}, AFTER]}, "procesess"),
        ({"states": [BEFORE, {**AFTER, "processes": ["java"]}]}, "processes"),
        ({"states": [BEFORE, AFTER], "stacks": ["main 100"]}, "stacks beside states"),
        ({"states": [BEFORE, AFTER], "series": BEFORE["series"]}, "series beside states"),
    ],
)
def test_what_would_be_left_out_is_refused(wrong: dict[str, Any], said: str) -> None:
    """A case that looks richer than the host that is made of it proves nothing."""
    with pytest.raises(ValidationError, match=said):
        case(**wrong)


def test_facts_events_and_processes_hold_in_all_states() -> None:
    """They stand beside the states."""
    whole = case([BEFORE, AFTER], facts={"kernel.era": "E1"}, processes=["java"], events=[{"kind": "soft_lockup"}])

    assert [state.facts["thp.defrag"] for state in whole.states] == ["always", "never"]
