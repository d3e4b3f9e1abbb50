"""sadf's trees (-j JSON, -x XML): names of activities and their attributes, as the columns that sar prints.

    "paging": {"pgpgin": 8.00, "fault": 17860.00, "vmeff-percent": 0.00}     ->  pgpgin/s fault/s %vmeff

Varies: DTD 2.5 (RHEL 6) to 3.11 differ in what is an attribute and what an element; times are UTC, also where no
attribute says so (2.5), unless utc is 0 (-T, -t). Source: sysstat json_stats.c, xml_stats.c, rndr_stats.c, sadf_misc.c.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from thpdiag.bundle.transcript import clean
from thpdiag.model import Clock, Fact, Moment, Record
from thpdiag.readers.elements.quantities import number
from thpdiag.readers.sysstat.sadf_rows import Rows, moment
from thpdiag.readers.sysstat.tables import ON_UTC

LONGEST_NAME = 255
Columns = Mapping[str, str]  # attribute to column
_MODES = ("nice", "iowait", "steal", "irq", "soft", "guest", "gnice", "idle", "usr", "user", "sys", "system")
_CPU = {mode: f"%{mode}" for mode in _MODES}
_PAGING = ("pgpgin", "pgpgout", "fault", "majflt", "pgfree", "pgscank", "pgscand", "pgsteal", "pgprom", "pgdem")
_MEMORY = ("memfree", "avail", "buffers", "cached", "commit", "active", "dirty", "shmem", "anonpg", "slab", "kstack")
_PRESSURE = {f"{share}_avg{time}": (share[0], f"-{time}" if time else "") for share in ("some", "full")
             for time in ("10", "60", "300", "")}  # fmt: skip
_QUEUE = ("runq-sz", "plist-sz", "ldavg-1", "blocked")
TABLES: Mapping[str, tuple[Columns, ...]] = {
    "paging": ({name: f"{name}/s" for name in _PAGING},),
    "swap-pages": ({"pswpin": "pswpin/s", "pswpout": "pswpout/s"},),
    "process-and-context-switch": ({"proc": "proc/s", "cswch": "cswch/s"},),
    "processes": ({"proc": "proc/s"},),
    "context-switch": ({"cswch": "cswch/s"},),
    "queue": ({name: name for name in _QUEUE},),
    "memory": (
        {**{name: f"kb{name}" for name in _MEMORY}, "inactive": "kbinact", "pgtbl": "kbpgtbl", "vmused": "kbvmused"},
        {"swpfree": "kbswpfree", "swpcad": "kbswpcad"},
    ),
    **{
        f"psi-{what}": ({name: f"%{letter}{what}{time}" for name, (letter, time) in _PRESSURE.items()},)
        for what in ("cpu", "io", "mem")
    },
}
WANTED = {*TABLES, "timestamp", "cpu-load", "cpu-load-all", "interrupts", "int-global", "boot", "restarts"}
_INSIDE = frozenset(("cpu", "irq"))  # elements of XML whose parent is the activity
_FACTS = {"release": "kernel.release", "nodename": "host.name", "machine": "kernel.arch"}


class TreeError(ValueError):
    """The text is no tree that sadf writes, or ends early; `line` is where it cannot go on."""

    def __init__(self, text: str, line: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.line = line


@dataclass(slots=True)
class Activities:
    """Takes the parts of a tree in order and makes records of them."""

    rows: Rows
    time: Moment | None = None
    facts: dict[str, str] = field(default_factory=dict)  # as last said: files may be appended to each other
    _made: dict[str, str] = field(default_factory=dict)

    def scalar(self, line: int, name: str, text: str) -> Iterator[Record]:
        """Something about the host."""
        text = clean(text[:LONGEST_NAME])
        if self.facts.get(name) == text or not text:
            return
        cite = self.rows.source.cite(line, text)
        if fact := _FACTS.get(name):
            self.facts[name] = text
            self.rows.machine = text if name == "machine" else self.rows.machine
            yield Fact(fact, text, cite)
        elif name == "number-of-cpus" and (count := number(text)) is not None:
            self.facts[name] = text
            yield Fact("cpu.count", int(count), cite)
        elif name in ("file-date", "file-utc-time"):
            self._made[name] = text
        elif name == "timezone" and text in ON_UTC:  # other words than these are of several zones
            self.facts[name] = text
            yield Fact("host.utc_offset", 0.0, cite, time=moment(f"{' '.join(self._made.values())} UTC"))

    def stamp(self, given: Mapping[str, str]) -> None:
        """The time of what follows."""
        self.time = _moment(given)

    def element(self, line: int, parent: str, name: str, given: Mapping[str, str]) -> Iterator[Record]:
        """An activity, or one of its instances, with all it says."""
        activity = parent if name in _INSIDE else name
        if activity in ("cpu-load", "cpu-load-all"):
            yield from self._cpu(line, given)
        elif activity in ("interrupts", "int-global") and given.get("intr") == "sum":
            yield from self._interrupts(line, given)
        elif activity in ("boot", "restarts") and "date" in given:
            yield from self.rows.restart((line, ""), _moment(given), clean(given.get("cpu_count", "")[:5]))
        for table in TABLES.get(activity, ()):
            known = {column: given[attribute] for attribute, column in table.items() if attribute in given}
            if known:
                yield from self.rows.row((line, activity), self.time, tuple(known), tuple(known.values()))

    def _cpu(self, line: int, given: Mapping[str, str]) -> Iterator[Record]:
        known = {_CPU[name]: cell for name, cell in given.items() if name in _CPU}
        cpu = given.get("cpu", given.get("number", ""))
        yield from self.rows.row((line, f"cpu {clean(cpu[:20])}"), self.time, ("CPU", *known), (cpu, *known.values()))

    def _interrupts(self, line: int, given: Mapping[str, str]) -> Iterator[Record]:
        cell = given.get("all", given.get("value"))
        if cell is not None and given.get("cpu", "all") == "all":
            yield from self.rows.row((line, "interrupts"), self.time, ("INTR", "all"), ("sum", cell))


def _moment(given: Mapping[str, str]) -> Moment | None:
    found = moment(f"{given.get('date', '')} {given.get('time', '')}")
    if found is None or given.get("utc", "1") == "0":
        return found
    return Moment(found.seconds, Clock.UTC)
