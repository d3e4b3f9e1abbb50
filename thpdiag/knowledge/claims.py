"""What people repeat about huge pages that is not so, and releases that were never made (claims.yaml)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from thpdiag.knowledge.yaml_nodes import load_shipped


class Claims(NamedTuple):
    """The ways to say each claim, and what turns a sentence into its opposite."""

    says: Mapping[str, re.Pattern[str]]
    unless: re.Pattern[str]


@cache
def _data() -> Any:
    return load_shipped("claims.yaml")


@cache
def _claims() -> Claims:
    says = {name: re.compile("|".join(row["says"])) for name, row in _data()["claims"].items()}
    return Claims(says, re.compile("|".join(_data()["unless"])))


def wrong_claims(sentence: str) -> Iterator[tuple[str, str]]:
    """The claims that a sentence in lower case makes: the name of each, and the words that say it."""
    known = _claims()
    if not known.unless.search(sentence):
        found = ((name, pattern.search(sentence)) for name, pattern in known.says.items())
        yield from ((name, words[0]) for name, words in found if words)


def answer(claim: str) -> str:
    """What is so instead, in one sentence or two; empty if it is no claim of ours."""
    row = _data()["claims"].get(claim)
    return str(row["answer"]) if row else ""


def impossible_release(system: str) -> str:
    """Why the release in the name of a distribution was never made; empty if it was, or if that is not known."""
    for row in _data()["releases"]:
        if found := re.search(rf"\b(?:{row['name']})\D{{1,12}}0*({row['number']})", system):
            return "" if re.fullmatch(row["form"], found[1]) else str(row["why"])
    return ""
