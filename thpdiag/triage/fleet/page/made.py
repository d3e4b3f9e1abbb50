"""How the results of a store were made: versions, rules, options, when, and what somebody accepts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from thpdiag.json_text import compact
from thpdiag.triage.fleet.page.words import count
from thpdiag.triage.store.reading import Reading

BESIDE = "results.sqlite beside it"  # where triage puts them
MOST = 50  # acceptances, and things that befell runs, that are told one by one


@dataclass(slots=True)
class _Analysis:
    """What all runs with the same version, rules and options did."""

    begun: list[str] = field(default_factory=list)
    bundles: int = 0


def made(store: Reading, acceptances: Sequence[str], results: str = BESIDE) -> list[tuple[str, str]]:
    """Terms with what is to be told of them; `results` says where the results are.

    When the runs began is told of a store that a batch has made, not of one that was put together for this page.
    """
    return list(_made(store, acceptances, results))


def _made(store: Reading, acceptances: Sequence[str], results: str) -> Iterator[tuple[str, str]]:
    for (version, digest, options), analysis in _analyses(store).items():
        yield "thpdiag", f"{version}, {count(analysis.bundles, 'bundle')}"
        yield "Rules", digest
        yield "Options", options
        if results == BESIDE:
            yield "Begun", _span(analysis.begun)
    for text in acceptances[:MOST]:
        yield "Accepted", text
    if len(acceptances) > MOST:
        yield "Accepted", f"and {len(acceptances) - MOST:,} more"
    if not acceptances:
        yield "Accepted", "no suppression, no baseline"
    for at, kind in store.marks()[-MOST:]:
        yield "Befell a run", f"{kind}, {at}"
    yield "This page", f"fetches nothing and is complete without its script; its results are in {results}"


def _analyses(store: Reading) -> dict[tuple[str, str, str], _Analysis]:
    found: dict[tuple[str, str, str], _Analysis] = {}
    for run in store.runs():
        key = (run["tool_version"], run["rules_digest"], _options(run["options"]))
        one = found.setdefault(key, _Analysis())
        one.begun.append(run["begun"])
        one.bundles += run["bundles"]
    return found


def _span(begun: Sequence[str]) -> str:
    first, last = (moment.replace("T", " ").replace("+00:00", " UTC") for moment in (begun[0], begun[-1]))
    return first if len(begun) == 1 else f"{len(begun):,} runs, the first {first}, the last {last}"


def _options(options: Mapping[str, Any]) -> str:
    told = [f"{name}={value if isinstance(value, str) else compact(value)}" for name, value in sorted(options.items())]
    return ", ".join(told) or "none that change the analysis"
