"""The names of facts, metrics and events (vocabulary.yaml): unit, kind, meaning, and how to ask a customer for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from thpdiag.knowledge.yaml_nodes import shipped

CPU_TIME = ("cpu_ratio.", "node_cpu_seconds_total.")  # of the host, and by the same names of each of its CPUs


@dataclass(frozen=True, slots=True)
class Term:
    """One name. `kind`: setting, state, counter, gauge, rate, event. `entity` is the entity kind of a metric."""

    name: str
    means: str
    kind: str
    unit: str = ""
    entity: str = "system"
    ask_for: str = ""


@cache
def _tables() -> tuple[dict[str, Term], tuple[tuple[re.Pattern[str], Term], ...], dict[str, Term]]:
    data = shipped("vocabulary.yaml")
    named = {name: _term(name, row) for section in ("facts", "metrics") for name, row in data[section].items()}
    patterns = tuple((re.compile(row["name"]), _term(row["name"], row)) for row in data["patterns"])
    events = {name: _event(name, row) for name, row in data["events"].items()}
    return named, patterns, events


def _event(name: str, row: dict[str, str]) -> Term:
    return Term(name, row["means"], "event", ask_for=row.get("ask_for", "dmesg"))


def _term(name: str, row: dict[str, str]) -> Term:
    return Term(
        name, row["means"], row["kind"], row.get("unit", ""), row.get("entity", "system"), row.get("ask_for", "")
    )


@cache
def term(name: str) -> Term | None:
    """What the vocabulary says of a fact or metric, None if it does not know the name."""
    named, patterns, _ = _tables()
    if name in named:
        return named[name]
    return next((t for pattern, t in patterns if pattern.fullmatch(name)), None)


def entities_of(name: str) -> tuple[str, ...]:
    """The kinds of entities that a metric is recorded of; first the one that is meant where none is named."""
    known = term(name)
    kinds = (known.entity,) if known else ()
    return (*kinds, "cpu") if name.startswith(CPU_TIME) else kinds


def event(name: str) -> Term | None:
    """What the vocabulary says of an event kind."""
    return _tables()[2].get(name)


def terms() -> tuple[Term, ...]:
    """All facts and metrics; a family by its pattern."""
    named, patterns, _ = _tables()
    return (*named.values(), *(t for _, t in patterns))


def event_names() -> tuple[str, ...]:
    """All kinds of events."""
    return tuple(_tables()[2])


def names() -> tuple[str, ...]:
    """All names spelled out in the vocabulary (families by their pattern), for suggestions."""
    named, patterns, events = _tables()
    return (*named, *(t.name for _, t in patterns), *events)
