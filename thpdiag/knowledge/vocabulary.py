"""Vocabulary of facts, metrics and events: unit, kind, meaning, how to ask for them (vocabulary.yaml); and their names
in other tools and in files of the kernel (aliases.yaml).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from thpdiag.knowledge.packs import pack_parts
from thpdiag.knowledge.yaml_nodes import load_shipped

CPU_TIME = ("cpu_ratio.", "node_cpu_seconds_total.")  # metrics of the host and, by the same names, of each CPU


class Term(NamedTuple):
    """A name. `kind`: setting, state, counter, gauge, rate, event. `entity` is the entity kind of a metric."""

    name: str
    means: str
    kind: str
    unit: str = ""
    entity: str = "system"
    ask_for: str = ""


@cache
def _tables() -> tuple[dict[str, Term], tuple[tuple[re.Pattern[str], Term], ...], dict[str, Term]]:
    """Return literal names, families with their patterns, and kinds of events."""
    data = load_shipped("vocabulary.yaml")
    named = {name: Term(name, **row) for section in ("facts", "metrics") for name, row in data[section].items()}
    patterns = tuple((re.compile(row["name"]), Term(**row)) for row in data["patterns"])
    events = {
        name: Term(name, row["means"], "event", ask_for=row.get("ask_for", "dmesg"))
        for name, row in data["events"].items()
    }
    return named, patterns, events


@cache
def term(name: str) -> Term | None:
    """Return the term of a fact or metric, None if the name is unknown."""
    named, patterns, _ = _tables()
    if name in named:
        return named[name]
    return next((t for pattern, t in patterns if pattern.fullmatch(name)), None)


def entities_of(name: str) -> tuple[str, ...]:
    """Return the kinds of entities of a metric, the default one first."""
    metric = term(name)
    kinds = (metric.entity,) if metric else ()
    return (*kinds, "cpu") if name.startswith(CPU_TIME) else kinds


def event(name: str) -> Term | None:
    """Return the term of an event kind, None if it is unknown."""
    return _tables()[2].get(name)


class Message(NamedTuple):
    """A kernel message that is an event of a rule pack: a line that contains `hint` and starts with `pattern` (RE2).

    The named groups are the fields; up to `trace` lines after it may be its call trace.
    """

    event: str
    hint: str
    pattern: str
    trace: int


@cache
def added_messages() -> tuple[Message, ...]:
    """Return the messages of the active rule packs."""
    rows = [(name, row) for table in pack_parts("vocabulary.yaml") for name, row in table.get("events", {}).items()]
    return tuple(
        Message(name, str(row["hint"]), str(row["message"]), int(row.get("trace", 0)))
        for name, row in rows
        if "message" in row
    )


@cache
def added_metrics() -> frozenset[str]:
    """Return the system-wide metrics that rule packs add, named as in node_exporter and others."""
    rows = (entry for table in pack_parts("vocabulary.yaml") for entry in table.get("metrics", {}).items())
    return frozenset(name for name, row in rows if row.get("entity", "system") == "system")


def terms() -> tuple[Term, ...]:
    """Return all facts and metrics; families by their pattern."""
    named, patterns, _ = _tables()
    return (*named.values(), *(t for _, t in patterns))


def event_names() -> tuple[str, ...]:
    """Return all kinds of events."""
    return tuple(_tables()[2])


def names() -> tuple[str, ...]:
    """Return all names in the vocabulary (families by their pattern), for suggestions."""
    named, patterns, events = _tables()
    return (*named, *(t.name for _, t in patterns), *events)


_VMSTAT_FORMS = ("node_vmstat_{}", "node_vmstat_{}:rate")  # thp_fault_alloc
_MEMINFO_FORMS = ("node_memory_{}_bytes", "node_memory_{}")  # AnonHugePages: only /proc/meminfo has capital letters
_VMSTAT = "mem.vmstat."


@cache
def aliases() -> Mapping[str, str]:
    """Return the names in the vocabulary by the names in other tools."""
    return load_shipped("aliases.yaml")


def possible_names(name: str) -> tuple[str, ...]:
    """Return the vocabulary names that a name may refer to, in the order of lookup."""
    plain = name.removeprefix(_VMSTAT)
    alias = (aliases()[name],) if name in aliases() else ()
    files = (_MEMINFO_FORMS, _VMSTAT_FORMS) if plain[:1].isupper() else (_VMSTAT_FORMS, _MEMINFO_FORMS)
    return (*alias, plain, *(form.format(plain) for forms in files for form in forms))
