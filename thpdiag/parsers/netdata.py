"""JSON of netdata: one chart over time (/api/v1/data), or the current values of all charts
(/api/v1/allmetrics?format=json).

    {"labels": ["time","guest_nice","guest","steal","softirq","irq","user","system","nice","iowait"],
     "data": [[1795886116,0,0,0,0,0,57.5,5,37.5,0], ...]}
    {"system.cpu": {"units":"percentage", "last_updated": 1795886116,
     "dimensions": {"user": {"name": "user", "value": 57.5}}}}

A chart without a name (options=jsonwrap adds it) is identified by its dimensions, if they are unique to one chart.
Units: percent of all CPUs, MiB, KiB/s, events per second. Times are epochs, newest first. Idle time is computed as the
remainder of the other modes, because allmetrics prints 0 for the mode that the chart hides. Rows may be averages over
longer intervals.
Varies: thp_compact and related charts since 1.40; a document may be on one line. Host names are not read, because a
netdata parent holds the charts of many hosts. Source: netdata collectors/proc.plugin (proc_vmstat.c),
web/api/formatters; recorded with 1.37.1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from thpdiag.detect.timestamps import FIRST_EPOCH, LAST_EPOCH
from thpdiag.model import Clock, Moment, Problem, ProblemKind, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import cpu_ratios, is_plausible
from thpdiag.parsers._units import MAX_QUANTITY

NAME = "netdata"
MAX_BLOCK_CHARS = 32 << 20
CPU = ("user", "nice", "system", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
KIB, MIB = 2.0**10, 2.0**20
Dimensions = Mapping[str, tuple[str, float]]
CHARTS: dict[str, Dimensions] = {
    "system.ram": {"free": ("node_memory_MemFree_bytes", MIB), "cached": ("node_memory_Cached_bytes", MIB),
                   "buffers": ("node_memory_Buffers_bytes", MIB)},
    "mem.available": {"avail": ("node_memory_MemAvailable_bytes", MIB)},
    "mem.transparent_hugepages": {"anonymous": ("node_memory_AnonHugePages_bytes", MIB)},
    "mem.slab": {"unreclaimable": ("node_memory_SUnreclaim_bytes", MIB)},
    "mem.pgfaults": {"minor": ("node_vmstat_pgfault:rate", 1), "major": ("node_vmstat_pgmajfault:rate", 1)},
    "mem.thp_compact": {name: (f"node_vmstat_compact_{name}:rate", 1) for name in ("success", "fail", "stall")},
    "mem.thp_collapse": {"alloc": ("node_vmstat_thp_collapse_alloc:rate", 1)},
    "mem.thp_faults": {"alloc": ("node_vmstat_thp_fault_alloc:rate", 1),
                       "fallback": ("node_vmstat_thp_fault_fallback:rate", 1)},
    "mem.swapio": {"in": ("swap_in_bytes:rate", KIB), "out": ("swap_out_bytes:rate", KIB)},
    "system.swapio": {"in": ("swap_in_bytes:rate", KIB), "out": ("swap_out_bytes:rate", KIB)},
    "system.processes": {"running": ("node_procs_running", 1), "blocked": ("node_procs_blocked", 1)},
    "system.ctxt": {"switches": ("node_context_switches_total:rate", 1)},
    "system.forks": {"started": ("node_forks_total:rate", 1)},
    "system.load": {"load1": ("node_load1", 1)},
}  # fmt: skip
# Drawn below the axis, and therefore printed with a minus sign unless options=abs was given.
NEGATED_DIMENSIONS = frozenset({"fallback", "fail", "out"})
BY_DIMENSIONS = {
    frozenset(CPU): "system.cpu",
    **{frozenset(dimensions): chart for chart, dimensions in {
        "system.ram": ("free", "used", "cached", "buffers"), "mem.available": ("avail",),
        "mem.transparent_hugepages": ("anonymous", "shmem"), "mem.pgfaults": ("minor", "major"),
        "mem.thp_compact": ("success", "fail", "stall"), "system.processes": ("running", "blocked"),
        "system.ctxt": ("switches",), "system.forks": ("started",), "system.load": ("load1", "load5", "load15"),
    }.items()},
}  # fmt: skip
_CHART = re.compile(r"(?:.*instance:)?((?:system|mem)\.\w{1,40})(?:/|$)")
_OPENS = re.compile(r'\{\s*(?:$|"(?:labels|api|system\.\w{1,40}|[a-z]\w{1,40}\.[\w.-]{1,80})":)')
_IS_DATA = re.compile(r'"labels":\s*\[\s*"time"|"api":\s*1,\s*"id":|"view_update_every":')
_IS_ALL = re.compile(r'"[a-z]\w{0,40}\.[\w.-]{1,80}":\s*\{\s*"name":\s*"[^"]{1,200}",\s*"(?:family|context)":')


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield samples of the host: one per row of a chart, or one per document with all charts."""
    block = list(lines)
    text = "\n".join(line for _, line in block)
    decoder, at = json.JSONDecoder(), 0
    if len(text) > MAX_BLOCK_CHARS:
        yield Problem(source.cite(block[0][0]), "JSON of netdata that is too large", ProblemKind.LIMIT, NAME)
        return
    while at < len(text):
        number, line = block[min(text.count("\n", 0, at), len(block) - 1)]
        try:
            document, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            problem = "JSON of netdata that is cut or broken: what is beyond was not read"
            yield Problem(source.cite(number, line), problem, ProblemKind.DAMAGED, NAME)
            return
        if isinstance(document, dict):
            yield from _document(source, document, number, line)
        at = end + len(text[end:]) - len(text[end:].lstrip())


def _document(source: Source, document: Mapping[str, Any], number: int, line: str) -> Iterator[Sample]:
    """Yield the samples of one response in chronological order."""
    result = document.get("result", document)
    names = result.get("labels") if isinstance(result, dict) else None
    if isinstance(names, list) and isinstance(rows := result.get("data"), list):
        names = [str(name) for name in names]
        name = _CHART.match(str(document.get("id", "")))
        chart = name[1] if name else BY_DIMENSIONS.get(frozenset(names[1:]), "")
        pairs = [(row[0], dict(zip(names[1:], row[1:], strict=False))) for row in rows if isinstance(row, list) and row]
        timed = [(time, cells) for epoch, cells in pairs if (time := _time(epoch))]
        for time, cells in sorted(timed, key=lambda row: row[0]):
            if values := _values(chart, cells):
                yield Sample("system", values, source.cite(number, line), NAME, time=time)
        return
    values, latest = dict[str, float](), None
    for chart, content in document.items():
        if isinstance(content, dict) and isinstance(dimensions := content.get("dimensions"), dict):
            cells = {str(cell.get("name")): cell.get("value") for cell in dimensions.values() if isinstance(cell, dict)}
            values |= _values(chart, cells)
            latest = _time(content.get("last_updated")) if chart == "system.cpu" else latest
    if values:
        yield Sample("system", values, source.cite(number, line), NAME, time=latest or source.time)


def _time(epoch: object) -> Moment | None:
    if not isinstance(epoch, int | float) or not 0 < epoch < 1e15:
        return None
    seconds = epoch / 1000 if epoch > LAST_EPOCH else float(epoch)
    return Moment(seconds, Clock.UTC) if FIRST_EPOCH <= seconds <= LAST_EPOCH else None


def _values(chart: str, cells: Mapping[str, Any]) -> dict[str, float]:
    """Return the values of a chart by metric."""
    signed = {n: -v if n in NEGATED_DIMENSIONS and v < 0 else v for n, v in cells.items() if isinstance(v, int | float)}
    numbers = {name: float(value) for name, value in signed.items() if 0 <= value < MAX_QUANTITY / MIB}
    if chart == "system.cpu":
        parts = {mode: numbers[mode] / 100 for mode in CPU if mode in numbers}
        if len(parts) < len(CPU) or not is_plausible(parts):
            return {}
        return cpu_ratios({**parts, "idle": max(0.0, 1 - sum(parts.values()))})
    known = CHARTS.get(chart, {})
    return {known[name][0]: value * known[name][1] for name, value in numbers.items() if name in known}


def _confirm(ahead: list[str]) -> bool:
    text = "\n".join(ahead)[:4000]
    return bool(_IS_DATA.search(text) or _IS_ALL.search(text))


PARSER = Parser(
    NAME, "netdata as JSON", read, opens=_OPENS, confirm=_confirm,
    continues=re.compile(r'\s*[\[\]{}"\d-]').match,
)  # fmt: skip
