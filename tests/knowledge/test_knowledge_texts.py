"""The knowledge files say what was meant: whole sentences, values for all keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import ROOT
from thpdiag.knowledge.yaml_nodes import load_shipped


def _empty(node: object, path: str) -> Iterator[str]:
    """Keys without a value; an unquoted comma in a flow mapping cuts a sentence and makes one of its rest."""
    if isinstance(node, dict):
        for key, value in node.items():
            if value is None:
                yield f"{path}/{key}"
            yield from _empty(value, f"{path}/{key}")
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield from _empty(value, f"{path}/{number}")


@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / "thpdiag" / "knowledge").glob("*.yaml")))
def test_no_sentence_is_cut_at_a_comma(name: str) -> None:
    """Every key of the knowledge files has a value, but a remedy may say that there is nothing to verify."""
    assert [path for path in _empty(load_shipped(name), "") if not path.endswith("/verify")] == []
