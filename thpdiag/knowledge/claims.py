"""Common wrong claims about huge pages, and releases that never existed (claims.yaml)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from thpdiag.knowledge.yaml_nodes import load_shipped


class Claims(NamedTuple):
    """The phrases of each claim, and the words that negate a sentence."""

    phrases: Mapping[str, re.Pattern[str]]
    unless: re.Pattern[str]


@cache
def _data() -> Any:
    return load_shipped("claims.yaml")


@cache
def _claims() -> Claims:
    phrases = {name: re.compile("|".join(row["says"])) for name, row in _data()["claims"].items()}
    return Claims(phrases, re.compile("|".join(_data()["unless"])))


def wrong_claims(sentence: str) -> Iterator[tuple[str, str]]:
    """Yield name and words of each claim in a sentence in lower case."""
    claims = _claims()
    if not claims.unless.search(sentence):
        matches = ((name, pattern.search(sentence)) for name, pattern in claims.phrases.items())
        yield from ((name, match[0]) for name, match in matches if match)


def answer(claim: str) -> str:
    """Return the correction of a claim in one or two sentences; empty if the claim is unknown."""
    row = _data()["claims"].get(claim)
    return str(row["answer"]) if row else ""


def impossible_release(system: str) -> str:
    """Return the reason why the release in a distribution's name cannot exist; empty if it can, or if unknown."""
    for row in _data()["releases"]:
        if match := re.search(rf"\b(?:{row['name']})\D{{1,12}}0*({row['number']})", system):
            return "" if re.fullmatch(row["form"], match[1]) else str(row["why"])
    return ""
