"""Records as readable JSON for golden files."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from thpdiag.model import Event, Fact, Frame, Problem, Profile, Record, Sample, Series, SymbolList, SymbolTable
from thpdiag.perf import kallsyms

MOST = 12  # records of one kind kept whole in a golden; of further ones only the number


def dump(records: Iterable[Record]) -> dict[str, Any]:
    """Return counts of all records and the first few of each type in full."""
    items = [row for record in records for row in (record if isinstance(record, Series) else (record,))]
    kinds = Counter(type(r).__name__ for r in items)
    shown: dict[str, list[Any]] = {}
    for record in items:
        rows = shown.setdefault(type(record).__name__, [])
        if len(rows) < MOST or record is items[-1]:
            rows.append(plain(record))
    return {"counts": dict(sorted(kinds.items())), **{k: shown[k] for k in sorted(shown)}}


def plain(record: Record) -> Any:
    """Return a record as JSON."""
    match record:
        case Fact():
            return [record.name, record.value, dict(record.labels), record.provenance, _time(record), record.cite.line]
        case Sample():
            values = {k: _number(v) for k, v in sorted(record.values.items())}
            flags = ["since_boot"] if record.since_boot else []
            resolution = {k: _number(v) for k, v in sorted(record.resolution.items())}
            return [record.kind, dict(record.entity), values, _time(record), record.cite.line, flags, resolution]
        case Event():
            return [
                record.kind,
                dict(sorted(record.fields.items())),
                list(record.stack),
                _time(record),
                record.cite.line,
            ]
        case Problem():
            return [record.kind.value, record.text, record.count, record.cite.line]
        case Profile():
            return _profile(record)
        case SymbolList():
            table, odd = kallsyms.read(record)
            return _table(table) | ({"odd": [plain(problem) for problem in odd]} if odd else {})
        case SymbolTable():
            return _table(record)


def _table(table: SymbolTable) -> Any:
    """Return the first and last functions and what identifies the kernel."""
    functions = [[f"{address:x}", table.name(i)] for i, address in enumerate(table.addresses.tolist())]
    return {
        "kind": table.kind.value,
        "functions": len(functions),
        "first": functions[:MOST],
        "last": functions[-MOST:],
        "anchors": [[name, f"{address:x}"] for name, address in table.anchors],
        "modules": list(table.modules),
        "release": table.release,
        "build_id": table.build_id,
        "zeroed": table.zeroed,
    }


def _profile(profile: Profile) -> Any:
    columns = zip(*(c[:MOST].tolist() for c in _columns(profile)), strict=True)
    rows = [
        [
            ";".join(_label(profile.frames[i]) for i in profile.chains[chain]),
            _number(weight),
            samples,
            profile.tasks[task].comm,
            profile.citation(chain).line,
        ]
        for chain, task, weight, samples in columns
    ]
    ledger = profile.ledger
    return {
        "event": profile.event,
        "stacks": profile.stacks.value,
        "rows": len(profile.rows),
        "weight": _number(sum(profile.rows.weight.tolist())),
        "first": rows,
        "ledger": [
            ledger.read,
            ledger.kept,
            ledger.without_stack,
            ledger.unknown_symbol,
            dict(ledger.odd),
            ledger.lost,
        ],
        "percent_only": profile.percent_only,
        "has_time": profile.has_time,
        "total": profile.total_samples,
        "facts": dict(sorted(profile.facts.items())),
        **({"measures": profile.measures.value} if profile.measures else {}),
        **({} if profile.shows_kernel else {"shows_kernel": False}),
    }


def _label(frame: Frame) -> str:
    """Return the function's name; of an unnamed kernel function its address."""
    return frame.name if frame.address is None else f"{frame.dso}@{frame.address:x}"


def _columns(profile: Profile) -> tuple[Any, ...]:
    rows = profile.rows
    return rows.chain, rows.task, rows.weight, rows.samples


def _time(record: Fact | Sample | Event) -> Any:
    return None if record.time is None else f"{record.time.seconds:.3f} {record.time.clock.value}"


def _number(value: float) -> float | int:
    return int(value) if value == int(value) else float(f"{value:.9g}")


def compare(path: Path, actual: dict[str, Any]) -> None:
    """Assert that `actual` equals the golden file; `BLESS=1` writes it, a missing one fails."""
    if os.environ.get("BLESS") == "1":
        rows = json.dumps(actual, indent=1, ensure_ascii=False, sort_keys=True)
        path.write_text(rows + "\n")
    assert path.exists(), f"no golden {path.name}; read what is read, then run with BLESS=1"
    expected = json.loads(path.read_text())
    assert json.loads(json.dumps(actual)) == expected
