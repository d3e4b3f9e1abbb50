"""One run of vmstat: what its columns are, when its rows were printed, and whether to believe its memory columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from operator import itemgetter, mul

from thpdiag.model import Citation, Clock, Moment, Sample
from thpdiag.model.citation import EXCERPT
from thpdiag.reader import Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.typed_command import Typed, typed

UNITS = {"k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}
FEWEST_KIB = 100_000  # free + buff + cache of a host are more KiB than this; below it -S was probably used
FROZEN_AFTER = 20  # rows; a busy host changes its free memory sooner
SCREEN = 10  # rows; a header repeated sooner than a screen is that of a new run
LARGEST = 2**50
SHARES = tuple(min(i / 100, 1.0) for i in range(106))  # sums of rounded percents may exceed 100 a little
NO_ROW = "a line that is no row of vmstat"
OTHER_COLUMNS = "a row of vmstat with other columns than its header"
NO_TIME = "a row of vmstat with a time that is none"
UNKNOWN_UNIT = "the unit of the memory columns is not known (vmstat -S?): they are not used"
FROZEN = "the memory columns never change (vmstat 4.0.0 to 4.0.2 reads them once): only the first is used"
BAD_CPU = "CPU columns of vmstat that do not add up to 100 %: not used"
CPU = 12  # index of us, the first CPU column
MEMORY = slice(2, 6)
RATES = {
    6: "swap_in_bytes:rate",
    7: "swap_out_bytes:rate",
    8: "block_in_bytes:rate",
    9: "block_out_bytes:rate",
    10: "node_intr_total:rate",
    11: "node_context_switches_total:rate",
}
FACTORS = {8: 1024, 9: 1024}
SECOND_PAIR = {
    ("buff", "cache"): ("node_memory_Buffers_bytes", "vmstat_cache_bytes"),
    ("inact", "active"): ("node_memory_Inactive_bytes", "node_memory_Active_bytes"),
}
CPU_NAMES = ("cpu_ratio.idle", "cpu_ratio.iowait", "cpu_ratio.steal", "cpu_ratio.guest")
SUMS = ("cpu_ratio.user_total", "cpu_ratio.sys_total", "cpu_ratio.busy")
_ZONE = re.compile(r"[A-Z]{2,5}|[+-]\d{2,4}")

Row = tuple[int, str, list[int], Moment | None]


def _second_pair(words: Sequence[str]) -> tuple[str, str] | None:
    """Names for columns 5 and 6, which -a changes; None for translated words that do not tell."""
    first, second = words[4].lower(), words[5].lower()
    if first.startswith(("ina", "inak", "nieak")):
        return SECOND_PAIR["inact", "active"]
    if first.startswith(("buf", "puf")) or second.startswith("cach"):
        return SECOND_PAIR["buff", "cache"]
    return None


def _names(pair: tuple[str, str] | None) -> dict[int, str]:
    """Column index -> metric, of everything before the CPU columns; `pair` names columns 5 and 6."""
    names = {0: "node_procs_running", 1: "node_procs_blocked", 2: "node_memory_SwapUsed_bytes"}
    names[3] = "node_memory_MemFree_bytes"
    if pair:
        names[4], names[5] = pair
    return names | RATES


@dataclass(slots=True)
class Layout:
    """The columns of one header. `unit` is bytes per printed unit of memory, None if unknown."""

    words: Sequence[str]
    width: int
    zone: str
    unit: int | None = None
    guest: int = 0  # index of gu
    metrics: tuple[str, ...] = ()
    pick: Callable[[Sequence[int]], tuple[int, ...]] = tuple
    factors: tuple[int, ...] = ()
    memory: tuple[str, ...] = ()  # the metrics that 4.0.0 to 4.0.2 freeze
    resolution: Mapping[str, float] = field(default_factory=dict)

    def like(self, other: Layout) -> bool:
        """Whether the columns are the same."""
        return self.width == other.width and list(self.words[: self.width]) == list(other.words[: self.width])

    def set_unit(self, unit: int | None) -> None:
        self.unit = unit
        self.metrics, self.pick, self.factors, self.memory = _metrics(_second_pair(self.words), unit)
        self.resolution = _resolution(self.width)


@lru_cache(64)  # OSWatcher prints a header above every third row
def _metrics(
    pair: tuple[str, str] | None, unit: int | None
) -> tuple[tuple[str, ...], Callable[[Sequence[int]], tuple[int, ...]], tuple[int, ...], tuple[str, ...]]:
    """The metrics before the CPU columns, what picks their numbers, their factors, and those of memory."""
    names = {i: n for i, n in _names(pair).items() if unit or not 2 <= i <= 7}
    factors = tuple(FACTORS.get(i, (unit or 1) if 2 <= i <= 7 else 1) for i in names)
    return tuple(names.values()), itemgetter(*names), factors, tuple(n for i, n in names.items() if 2 <= i <= 5)


@lru_cache(8)
def _resolution(width: int) -> Mapping[str, float]:
    return dict.fromkeys((*SUMS, *CPU_NAMES[: width - CPU - 2]), 0.01)


def unit_of(command: Typed | None) -> int | None:
    """Bytes per printed unit of memory as the command asks for it, None if it does not."""
    if command is None:
        return None
    return UNITS.get((command.options.get("S") or command.options.get("unit") or "K")[0])


def first_is_boot(command: Typed | None) -> bool:
    """Whether the first row is an average since boot."""
    return command is None or not {"y", "no-first"} & command.options.keys()


def is_kib(values: Sequence[int]) -> bool:
    """Whether a row shows memory in KiB: it is counted in pages, so KiB are multiples of 4."""
    memory = values[MEMORY]
    return sum(memory[1:]) >= FEWEST_KIB and all(value % 4 == 0 for value in memory)


def stamped(words: Sequence[str], zone: str) -> Moment | None:
    """What -t appends to a row, None if it is no time; the zone stands in the header, in very old versions here."""
    zone = words[2] if len(words) == 3 else zone
    try:
        seconds = datetime.fromisoformat(f"{words[0]}T{words[1]}").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return Moment(seconds, clock_of(zone))


def impossible(name: str) -> str:
    return f"an impossible number for {name}: not used"


def clock_of(zone: str) -> Clock:
    return Clock.UTC if zone in ("UTC", "GMT") else Clock.LOCAL


def layout_of(words: Sequence[str]) -> Layout:
    rest = [w for w in words[16:] if not _ZONE.fullmatch(w)]
    zone = next((w for w in words[16:] if _ZONE.fullmatch(w)), "")
    width = 16 + min(len(rest), 2)
    return Layout(words, width, zone, guest=17 if width == 18 else 0)


@dataclass(slots=True)
class Run:
    """Rows of one or more runs in one block."""

    source: Source
    odd: Oddities
    layout: Layout | None = None
    _unit: int | None = None
    _delay: float | None = None
    _first_is_boot: bool = True
    _unit_known: bool = False
    _rows: int = 0  # of this run
    _since_header: int = 0
    _screen: int = 0  # rows between repeated headers
    _held: list[Row] = field(default_factory=list)  # rows while no memory column has changed yet
    _holding: bool = True

    def __post_init__(self) -> None:
        if command := typed(self.source.command, "vmstat", with_value="SpT"):
            self._unit, self._unit_known = unit_of(command), True
            self._delay = command.interval()
            self._first_is_boot = first_is_boot(command)

    def header(self, words: Sequence[str]) -> Iterator[Sample]:
        """A header begins a run, or it is the repetition after a screenful."""
        gap, self._since_header = self._since_header, 0
        fresh = layout_of(words)
        if self.layout and self._rows and gap >= (self._screen or SCREEN) and fresh.like(self.layout):
            self._screen = self._screen or gap
            self.layout.zone = fresh.zone  # which changes with summer time
            return
        yield from self.end()
        self.layout, self._rows, self._holding = fresh, 0, True

    def row(self, number: int, text: str, words: list[str]) -> Iterator[Sample] | tuple[Sample, ...]:
        layout = self.layout
        assert layout is not None
        width = layout.width
        self._since_header += 1
        try:
            values = list(map(int, words[:width]))
        except ValueError:
            values = []
        if len(values) != width or len(words) - width not in (0, 2, 3):
            self.odd.note(number, text, OTHER_COLUMNS)
            return ()
        when = self._when(number, text, words[width:]) if len(words) > width else self._computed()
        if not self._rows:
            layout.set_unit(self._unit if self._unit_known else self._guess(number, text, values))
        row = (number, text, values, when)
        self._rows += 1
        if not self._holding:
            return (self._sample(row),)
        self._held.append(row)
        return self._release() if values[MEMORY] != self._held[0][2][MEMORY] else ()

    def end(self) -> Iterator[Sample]:
        """The rows held back, without memory if it never changed while the host worked."""
        held = self._held
        frozen = len(held) > FROZEN_AFTER and len({tuple(row[2][:1] + row[2][11:12]) for row in held}) > 1
        if frozen and self.layout:
            self.odd.note(held[0][0], held[0][1], FROZEN)
        yield from self._release(from_first_only=self.layout.memory if frozen and self.layout else ())

    def _release(self, from_first_only: Sequence[str] = ()) -> Iterator[Sample]:
        held, self._held, self._holding = self._held, [], False
        boot = self._first_is_boot
        for index, row in enumerate(held):
            drop = from_first_only if index else ()
            yield self._sample(row, "boot" if boot and not index else "", drop)

    def _guess(self, number: int, text: str, values: list[int]) -> int | None:
        if is_kib(values):
            return UNITS["K"]
        self.odd.note(number, text, UNKNOWN_UNIT)
        return None

    def _when(self, number: int, text: str, words: Sequence[str]) -> Moment | None:
        """The time that -t appends."""
        when = stamped(words, self.layout.zone if self.layout else "")
        if when is None:
            self.odd.note(number, text, NO_TIME)
        return when

    def _computed(self) -> Moment | None:
        if self.source.time is None or self._delay is None:
            return None
        return self.source.time.plus(self._rows * self._delay)

    def _sample(self, row: Row, since: str = "", drop: Sequence[str] = ()) -> Sample:
        number, text, values, when = row
        layout = self.layout
        assert layout is not None
        total = sum(values[CPU:])
        if min(values) < 0 or max(values) > LARGEST or not 0 < total <= 105:
            found = self._careful(number, text, values)
        else:
            found = dict(zip(layout.metrics, map(mul, layout.pick(values), layout.factors), strict=True))
            self._cpu(found, values)
        for name in drop:
            found.pop(name, None)
        cite = Citation(self.source.member, number, text if len(text) <= EXCERPT else text[:EXCERPT])
        return Sample("system", found, cite, "vmstat", (), when, layout.resolution, bool(since))

    def _cpu(self, found: dict[str, float], values: Sequence[int]) -> None:
        """Guest time is part of us until 4.0.3: it is put back where gu stands apart, so that versions compare."""
        layout = self.layout
        assert layout is not None
        found.update(zip(CPU_NAMES, map(SHARES.__getitem__, values[CPU + 2 :]), strict=False))
        user, system = values[CPU], values[CPU + 1]
        if layout.guest:
            user += values[layout.guest]
        busy = user + system
        found["cpu_ratio.user_total"] = SHARES[user]
        found["cpu_ratio.sys_total"] = SHARES[system]
        found["cpu_ratio.busy"] = SHARES[busy]
        if busy:
            found["cpu_ratio.sys_share"] = system / busy

    def _careful(self, number: int, text: str, values: Sequence[int]) -> dict[str, float]:
        """A row with an impossible number: what is possible is kept."""
        layout = self.layout
        assert layout is not None
        found: dict[str, float] = {}
        for name, value, factor in zip(layout.metrics, layout.pick(values), layout.factors, strict=True):
            if 0 <= value <= LARGEST:
                found[name] = value * factor
            else:
                self.odd.note(number, text, impossible(name))
        if min(values[CPU:]) >= 0 and 0 < sum(values[CPU:]) <= 105:
            self._cpu(found, values)
        else:
            self.odd.note(number, text, BAD_CPU)
        return found
