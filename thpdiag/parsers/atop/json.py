"""atop -J: one JSON object per interval, each on a line of its own.

    {"host": "node1", "timestamp": 1795168454, "elapsed": 5, "CPU": {"hertz": 100, "nrcpu": 2, "stime": 112, ...},
     "cpu": [...], "MEM": {"physmem": 25276510208, ...}, "PRG": [{"pid": 4, "name": "(python3)", ...}], "PRM": [...]}

Units: CPU time in ticks, memory of the host in bytes, that of processes in KiB. An interval that reaches back to boot
is not marked: it is the first, if it is longer than the one after it. Names of processes stand in PRG only, PRM and PRC
are joined to it by pid, and in turn: a process that was seen and then ended in the interval stands twice in each.
Source: atop json.c, 2.6 to 2.13.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from thpdiag.model import Citation, Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, member_parser, with_errors
from thpdiag.parsers.atop import intervals as atop

NAME = "atop_json"
LONGEST = 64 << 20  # bytes of an interval with all its processes
MOST = 1e18
OTHER_NAMES = {"compacts": "compactstall", "migrates": "pgmigrate", "numamigs": "numamigrate"}  # as elsewhere in atop
_OPENS = re.compile(r'\{"host": ?"[^"]{1,255}", ?"timestamp": ?\d{9,10}, ?"elapsed": ?\d')
_CUT = "an interval of atop -J that is invalid or cut JSON: not used"


def _numbers(given: object) -> dict[str, float]:
    """The members of an object that are numbers, also as text."""
    if not isinstance(given, Mapping):
        return {}
    found = {}
    for name, value in given.items():
        digits = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19
        if digits or (isinstance(value, int | float) and abs(value) < MOST):
            found[name] = float(value)
    return found


def _rows(given: object) -> Sequence[Mapping[str, object]]:
    return [row for row in given if isinstance(row, Mapping)] if isinstance(given, list) else []


def _text(given: object) -> str:
    """A name without the brackets that atop sets around it."""
    text = given if isinstance(given, str) else ""
    text = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    return "".join(c if c.isprintable() else " " for c in text)


@dataclass(slots=True)
class Recording:
    """Intervals in order; the first is held until the second tells whether it reached back to boot."""

    hosts: set[str] = field(default_factory=set)
    commands: set[str] = field(default_factory=set)

    def interval(self, sample: Mapping[str, object], cite: Citation, *, since_boot: bool) -> Iterator[Record]:
        host = _text(sample.get("host"))
        if host and host not in self.hosts:
            self.hosts.add(host)
            yield Fact("host.name", host, cite)
        basics = _numbers(sample)
        interval = atop.Interval(basics["timestamp"], basics["elapsed"], since_boot, NAME)
        yield from atop.cpu(interval, _numbers(sample.get("CPU")), cite)
        for row in _rows(sample.get("cpu")):
            cells = _numbers(row)
            yield from atop.cpu(interval, cells, cite, str(int(cells.get("cpuid", -1))))
        for label in ("CPL", "MEM", "SWP", "PAG", "PSI"):
            cells = _numbers(sample.get(label))
            yield from atop.system(interval, {OTHER_NAMES.get(k, k): v for k, v in cells.items()}, cite)
        yield from self._processes(interval, sample, cite)

    def _processes(self, interval: atop.Interval, sample: Mapping[str, object], cite: Citation) -> Iterator[Record]:
        tasks: dict[float, list[atop.Task]] = {}
        for row in _rows(sample.get("PRG")):
            cells = _numbers(row)
            if "pid" not in cells:
                continue
            pid = str(int(cells["pid"]))
            task = atop.Task(pid, _text(row.get("name")), _text(row.get("state")), cells.get("isproc", 1) != 0)
            tasks.setdefault(cells["pid"], []).append(task)
            command = _text(row.get("cmdline"))
            if task.counts and command and pid not in self.commands:
                self.commands.add(pid)
                yield Fact("process.command", command, cite, (("pid", pid), ("comm", task.comm)), interval.time)
            yield from atop.process_start(interval, task, cells, cite)
        hertz = _numbers(sample.get("CPU")).get("hertz", atop.HERTZ)
        for label, subject in (("PRM", atop.process_memory), ("PRC", atop.process_cpu)):
            seen = Counter[float]()
            for row in _rows(sample.get(label)):
                cells = _numbers(row)
                of = cells.get("pid", -1.0)
                if known := tasks.get(of):  # in the same order: one that lived and ended comes twice
                    yield from subject(interval, known[min(seen[of], len(known) - 1)], cells | {"hertz": hertz}, cite)
                    seen[of] += 1


def _sample(text: str) -> Mapping[str, object] | None:
    """An interval, None if the line holds none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    basics = _numbers(found)
    return found if "timestamp" in basics and "elapsed" in basics else None


@with_errors(NAME)
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """Samples of the host, of each CPU and of each process per interval; a Fact process.command per process."""
    recording = Recording()
    held: tuple[Mapping[str, object], Citation] | None = None
    first = True
    for number, text in lines:
        if not text.strip():
            continue
        sample = _sample(text)
        if sample is None:
            odd.note(number, text, _CUT)
            continue
        if held:
            boot = first and _numbers(held[0])["elapsed"] > _numbers(sample)["elapsed"]
            yield from recording.interval(*held, since_boot=boot)
            first = False
        held = sample, source.cite(number, text)
    if held:
        yield from recording.interval(*held, since_boot=first)


def _claims(path: str, head: bytes, size: int | None) -> bool:
    return bool(_OPENS.match(head[:512].decode("utf-8", "replace")))


PARSER = Parser(NAME, "atop -J, JSON", read, opens=_OPENS, continues=_OPENS.match)
BULK_PARSER = member_parser(PARSER, _claims, LONGEST, opens=re.compile(rb'\{"host"'))
