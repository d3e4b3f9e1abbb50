"""The cases of rules: small hosts in a compact notation of facts, stacks and series, and the expected results.

    stacks: ["_spin_lock_irq < compact_zone < do_huge_pmd_anonymous_page 94", "cpu_idle 6 [swapper]"]
    series: {node_vmstat_compact_fail: "100+40x30 @2s", "process_resident_memory_bytes{pid=7,comm=java}": "5 7 9 @10s"}

A source without callers may have shares with callees: `flat: ["handle_mm_fault 0.1/99.8", "compact_zone 0.6/9.9"]`.
Recordings of other quantities than CPU time have the same form, under `off_cpu` (time) and `calls`. The series notation
is promtool's: `a+bxn` is a and n further values each b larger, `axn` n further ones alike, `_` is a missing value;
`@2s` is the step, without it the series has no times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable
from typing import Any

from pydantic import ValidationError

from thpdiag.engine.lint.issue import Cases, read_cases
from thpdiag.engine.load import Pack, Rule, pack_of
from thpdiag.engine.quantity import parse_quantity
from thpdiag.engine.schema import CaseFile
from thpdiag.errors import RuleError
from thpdiag.host.derived import add_derived_facts
from thpdiag.knowledge.platforms import era_of_behaviour
from thpdiag.knowledge.vocabulary import entities_of, term
from thpdiag.model import (
    Case,
    Citation,
    Clock,
    Event,
    Fact,
    Frame,
    Ledger,
    Measure,
    Moment,
    Profile,
    Sample,
    StackCounts,
    Stacks,
    State,
    Task,
)
from thpdiag.model.profile import Inclusive

_STACK = re.compile(
    r"(?P<frames>.+?)\s+(?P<weight>\d+(?:\.\d+)?)(?:/(?P<all>\d+(?:\.\d+)?))?(?:\s+\[(?P<comm>[^\]]*)\])?"
)  # []: the source has no command names
_SERIES_NOTATION = re.compile(r"(?P<values>.+?)(?:\s*@(?P<step>\d+(?:\.\d+)?)\s*(?P<unit>s|min|h))?")
_STEP_NOTATION = re.compile(r"(?P<start>-?[\d.]+)(?:(?P<sign>[+-])(?P<add>[\d.]+))?x(?P<times>\d+)")
_METRIC_NAME = re.compile(r"(?P<metric>[^{]+)(?:\{(?P<labels>[^}]*)\})?")
_FIRST_SECOND = 1_700_000_000.0


def parse_case(file: CaseFile) -> Case:
    """Return the host that a case describes."""
    cite = Citation(f"case '{file.name}'", 1)
    base = file.model_dump()
    states = [_state(f"s{i}", i, row, cite) for i, row in enumerate(base["states"])] or [_state("s0", 0, base, cite)]
    facts = tuple(_facts(base if file.states else {}, cite)) + tuple(_sources(file, cite))
    return Case("case", facts, tuple(states), events=tuple(_events(base if file.states else {}, cite)))


def _sources(file: CaseFile, cite: Citation) -> Iterator[Fact]:
    if "kernel_log" in file.read:
        yield Fact("log.read", "kernel_log", cite)
    if "processes" in file.read or file.processes:
        yield Fact("process.command", "init", cite, (("pid", "1"), ("comm", "init")))
    for number, line in enumerate(file.processes, start=100):
        comm = line.split()[0].rsplit("/", 1)[-1]
        yield Fact("process.command", line, cite, (("pid", str(number)), ("comm", comm)))


def _state(name: str, order: int, row: Mapping[str, Any], cite: Citation) -> State:
    facts = tuple(_facts(row, cite))
    settings = {f.name: str(f.value) for f in facts if (t := term(f.name)) and t.kind == "setting" and not f.provenance}
    profiles = [
        _profile(row.get("stacks") or [], Stacks.FULL, cite),
        _profile(row.get("flat") or [], Stacks.NONE, cite),
        _profile(row.get("off_cpu") or [], Stacks.FULL, cite, Measure.OFF_CPU),
        _profile(row.get("calls") or [], Stacks.FULL, cite, Measure.CALLS),
    ]
    return State(
        name, settings, order, facts, tuple(_samples(row.get("series") or {}, cite)),
        tuple(p for p in profiles if p), tuple(_events(row, cite)),
    )  # fmt: skip


def _facts(row: Mapping[str, Any], cite: Citation) -> Iterator[Fact]:
    for name, value in (row.get("facts") or {}).items():
        for item in value if isinstance(value, list) else [value]:
            labels = dict(item) if isinstance(item, dict) else {"value": item}
            plain = labels.pop("value")
            provenance = str(labels.pop("provenance", ""))
            number = era_of_behaviour(str(plain)) if name == "kernel.era" else _number(plain)
            yield Fact(name, number, cite, tuple((k, str(v)) for k, v in labels.items()), provenance=provenance)


def _number(value: Any) -> str | int | float:
    """A quantity with a unit is converted to base units; other values are kept."""
    if isinstance(value, str) and re.fullmatch(r"[\d.]+\s+\S+", value):
        return parse_quantity(value)
    return value if isinstance(value, (int, float)) else str(value)


def _profile(lines: list[str], stacks: Stacks, cite: Citation, measures: Measure | None = None) -> Profile | None:
    if not lines:
        return None
    frames: dict[str, int] = {}
    counts, total, inclusive = StackCounts(), 0.0, list[Inclusive]()
    for line in lines:
        match = _STACK.fullmatch(line.strip())
        if not match:
            raise ValueError(f"'{line}' is not a stack; write 'leaf < caller WEIGHT [comm]'")
        names = [n.strip() for n in match["frames"].split(" < ")]
        stack = tuple(frames.setdefault(n, len(frames)) for n in names)
        weight = float(match["weight"])
        comm = "work" if match["comm"] is None else match["comm"]
        samples = 0 if stacks is Stacks.NONE else int(weight * 10)
        pid = 1000 + sum(map(ord, comm)) if comm else None  # the same in every run
        counts.add(stack, weight, samples, cite, Task(comm, pid))
        total += weight
        if match["all"]:
            inclusive.append(Inclusive(stack[0], comm, float(match["all"]), 1))
    unlisted = max(0.0, 100.0 - total) if stacks is Stacks.NONE else 0.0
    return Profile(
        "case", "cycles", tuple(Frame(n) for n in frames), counts.chains(), counts.tasks(), counts.rows(), stacks, cite,
        Ledger(unlisted=unlisted), percent_only=stacks is Stacks.NONE, inclusive=tuple(inclusive), measures=measures,
    )  # fmt: skip


def _samples(series: Mapping[str, str], cite: Citation) -> Iterator[Sample]:
    rows: dict[tuple[str, tuple[tuple[str, str], ...], float, int], dict[str, float]] = {}
    for name, notation in series.items():
        match = _METRIC_NAME.fullmatch(name.strip())
        if not match:
            raise ValueError(f"'{name}' is not a metric name")
        known = term(match["metric"])
        if known is None:
            raise ValueError(f"'{match['metric']}' is not in the vocabulary")
        pairs = [p.split("=", 1) for p in (match["labels"] or "").split(",") if p]
        default = [("pid", "7"), ("comm", "work")] if known.entity == "process" else []
        entity = tuple((k.strip(), v.strip()) for k, v in pairs) or tuple(default)
        kind = next((kind for kind in entities_of(match["metric"])[1:] if dict(entity).keys() == {kind}), known.entity)
        step, values = _values(notation)
        for i, value in enumerate(values):
            if value is not None:
                rows.setdefault((kind, entity, step, i), {})[match["metric"]] = value
    for (kind, entity, step, i), metrics in sorted(rows.items(), key=lambda item: (item[0][3], item[0][0], item[0][1])):
        time = Moment(_FIRST_SECOND + i * step, Clock.UTC) if step else None
        yield Sample(kind, metrics, Citation(cite.member, i + 1), "case", entity, time)


def _values(notation: str) -> tuple[float, list[float | None]]:
    match = _SERIES_NOTATION.fullmatch(notation.strip())
    if not match:
        raise ValueError(f"'{notation}' is not a series")
    step = parse_quantity(f"{match['step']} {match['unit']}") if match["step"] else 0.0
    values: list[float | None] = []
    for word in match["values"].split():
        if word == "_":
            values.append(None)
        elif steps := _STEP_NOTATION.fullmatch(word):
            add = float(steps["add"] or 0) * (-1 if steps["sign"] == "-" else 1)
            values += [float(steps["start"]) + add * i for i in range(int(steps["times"]) + 1)]
        else:
            values.append(float(word))
    return step, values


def _events(row: Mapping[str, Any], cite: Citation) -> Iterator[Event]:
    for item in row.get("events") or []:
        fields = {k: str(v) for k, v in item.items() if k not in ("kind", "stack")}
        stack = tuple(s.strip() for s in str(item.get("stack", "")).split(" < ") if s.strip())
        yield Event(str(item["kind"]), cite, fields=fields, stack=stack)


def load_cases(places: Iterable[Traversable | Pack], rules: Sequence[Rule]) -> Mapping[str, tuple[CaseFile, ...]]:
    """Return the cases by rule id. Raise RuleError if a case file cannot be read."""
    return {identity: tuple(_checked_cases(cases)) for identity, cases in read_cases(places, rules)[0].items()}


def _checked_cases(cases: Cases) -> Iterator[CaseFile]:
    for i, row in enumerate(cases.rows):
        try:
            yield CaseFile.model_validate(row)
        except ValidationError as error:
            first = error.errors()[0]
            raise RuleError(cases.source.complaint(f"{first['loc']}: {first['msg']}", (i,))) from error


GAPS_FILE = "unnoticed.txt"  # in a folder of rules: mutations that no case detects, a line each


def known_gaps(folders: Iterable[Traversable | Pack]) -> frozenset[str]:
    """Return the lines of the lists of known gaps, without comments."""
    files = [pack_of(folder).folder / GAPS_FILE for folder in folders]
    texts = [file.read_bytes().decode("utf-8", "replace") for file in files if file.is_file()]
    rows = (line.strip() for text in texts for line in text.splitlines())
    return frozenset(row for row in rows if row and not row.startswith("#"))


def build_host(case: CaseFile) -> Case:
    """Return the host of a case with derived facts, like `analyze`."""
    return add_derived_facts(parse_case(case))
