"""Vocabulary of facts, metrics and events: unit, kind, meaning, how to ask for them (vocabulary.yaml); and the names
that other tools and the kernel's own files use (aliases.yaml).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from thpdiag.knowledge.packs import pack_parts
from thpdiag.knowledge.yaml_nodes import load_shipped

CPU_TIME = ("cpu_ratio.", "node_cpu_seconds_total.")  # of the host, and by the same names of each of its CPUs


class Term(NamedTuple):
    """One name. `kind`: setting, state, counter, gauge, rate, event. `entity` is the entity kind of a metric."""

    name: str
    means: str
    kind: str
    unit: str = ""
    entity: str = "system"
    ask_for: str = ""


@cache
def _tables() -> tuple[dict[str, Term], tuple[tuple[re.Pattern[str], Term], ...], dict[str, Term]]:
    """Names that are spelled out, families by their pattern, and kinds of events."""
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


class Message(NamedTuple):
    """A kernel message that a rule pack makes an event: a line that holds `hint` and begins like `pattern` (RE2).

    The named groups are the fields; `trace` lines below it may be its call trace.
    """

    event: str
    hint: str
    pattern: str
    trace: int


@cache
def added_messages() -> tuple[Message, ...]:
    """Those of the rule packs in use."""
    rows = [(name, row) for table in pack_parts("vocabulary.yaml") for name, row in table.get("events", {}).items()]
    return tuple(
        Message(name, str(row["hint"]), str(row["message"]), int(row.get("trace", 0)))
        for name, row in rows
        if "message" in row
    )


@cache
def added_metrics() -> frozenset[str]:
    """Metrics of the whole host that rule packs name, as node_exporter and others call them."""
    rows = (entry for table in pack_parts("vocabulary.yaml") for entry in table.get("metrics", {}).items())
    return frozenset(name for name, row in rows if row.get("entity", "system") == "system")


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


_VMSTAT_FORMS = ("node_vmstat_{}", "node_vmstat_{}:rate")  # thp_fault_alloc
_MEMINFO_FORMS = ("node_memory_{}_bytes", "node_memory_{}")  # AnonHugePages: /proc/meminfo has capitals, vmstat none
_VMSTAT = "mem.vmstat."


@cache
def aliases() -> Mapping[str, str]:
    """What other tools call it, and what it is called here."""
    return load_shipped("aliases.yaml")


def possible_names(name: str) -> tuple[str, ...]:
    """The names that may be meant, in the order in which they are looked for."""
    plain = name.removeprefix(_VMSTAT)
    told = (aliases()[name],) if name in aliases() else ()
    files = (_MEMINFO_FORMS, _VMSTAT_FORMS) if plain[:1].isupper() else (_VMSTAT_FORMS, _MEMINFO_FORMS)
    return (*told, plain, *(form.format(plain) for forms in files for form in forms))
