"""The rows of top's task list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from thpdiag.model import Fact, Moment, Record, Sample
from thpdiag.reader import Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.quantities import number, quantity
from thpdiag.readers.elements.tasks import cpu_seconds, entity, name_of

DEFAULT = ["PID", "USER", "PR", "NI", "VIRT", "RES", "SHR", "S", "%CPU", "%MEM", "TIME+", "COMMAND"]
SIZES = {
    "VIRT": "process_virtual_memory_bytes",
    "RES": "process_resident_memory_bytes",
    "SWAP": "process_swap_bytes",
    "RSan": "process_rss_anon_bytes",
    "RSsh": "process_rss_shmem_bytes",
}
COUNTS = {"nTH": "process_threads", "nMin": "process_minor_faults_total", "nMaj": "process_major_faults_total"}
TIMES = {"TIME+", "TIME", "ZEIT+", "ZEIT"}
COMMAND_AT = len(DEFAULT) - 1  # where the command is under translated headers: top's own order


@dataclass(slots=True)
class TaskRows:
    """The header in force and the tasks already named."""

    source: Source
    odd: Oddities
    columns: Sequence[str] = field(default_factory=lambda: DEFAULT)
    command: int = COMMAND_AT
    _named: set[str] = field(default_factory=set)
    _sizes: Sequence[str] = ("RES", "VIRT")  # the columns of each sort, before the command
    _counts: Sequence[str] = ()
    _times: Sequence[str] = ("TIME+",)

    def header(self, text: str) -> None:
        self.columns = text.split()
        known = self.columns.index("COMMAND") if "COMMAND" in self.columns else None
        self.command = min(COMMAND_AT, len(self.columns) - 1) if known is None else known
        before = set(self.columns[: self.command])
        self._sizes, self._counts = sorted(SIZES.keys() & before), sorted(COUNTS.keys() & before)
        self._times = sorted(TIMES & before)

    def row(self, line: int, text: str, time: Moment | None) -> Iterator[Record]:
        last = self.command == len(self.columns) - 1
        words = text.split(None, self.command) if last else text.split()
        if len(words) <= self.command:
            self.odd.note(line, text, "a task of top with fewer fields than its header")
            return
        cells = dict(zip(self.columns, words[: self.command], strict=False))
        command = words[self.command].strip()
        comm = name_of(command)
        pid = cells["PID"]
        cite = self.source.cite(line, text)
        if pid not in self._named:
            self._named.add(pid)
            labels = (("pid", pid), ("comm", comm), ("user", cells.get("USER", "")))
            yield Fact("process.command", command, cite, labels, time)
        values, resolution = self._values(line, text, cells)
        yield Sample("process", values, cite, "top", entity(pid, comm), time, resolution)

    def _values(self, line: int, text: str, cells: dict[str, str]) -> tuple[dict[str, float], dict[str, float]]:
        values: dict[str, float] = {}
        resolution: dict[str, float] = {}
        for column in self._sizes:
            if (size := quantity(cells[column], 1024)) is None:
                self.odd.note(line, text, f"an impossible number in column {column} of top: not used")
                continue
            values[SIZES[column]], resolution[SIZES[column]] = size.value, size.resolution
        for column in self._counts:
            if (count := number(cells[column])) is not None:
                values[COUNTS[column]] = count
        if (used := number(cells.get("%CPU", ""))) is not None:
            values["process_cpu_ratio"], resolution["process_cpu_ratio"] = used / 100, 0.001
        for column in self._times:
            if (seconds := cpu_seconds(cells[column])) is not None:
                values["process_cpu_seconds_total"] = seconds
        return values, resolution
