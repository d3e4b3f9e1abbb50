"""The lines of /proc that collectl copies into a recording for the whole host, its CPUs, zones and NUMA nodes.

    cpu  1473939 534468 222278 760777 3505 0 6100 4350 0 0
    MemTotal:       24684092 kB
    pgfault 902963559
    buddy Node 0, zone   Normal   3847   1070    212   3588   3899   3339   1909    539    154      0   2792
    load 8.43 6.94 6.65 9/144 15851
    numai Node 0 AnonHugePages:    550912 kB

/proc/stat, meminfo, and of vmstat what stands before `pgrefill` (with --memopts ps before `pginodesteal`), without
`nr_*` (but nr_shmem*) and `numa_*`: thp_* and compact_* are never there. `intr` has its total only. Names and units are
those of the readers of these files. Disks, networks and other subsystems are not read. Source: collectl, sub getProc.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from thpdiag.model import Series, Subject
from thpdiag.readers.collectl.bulk.layout import Layout, layout
from thpdiag.readers.collectl.bulk.rows import Room, Rows, Times, printable
from thpdiag.readers.elements.kernel_numbers import LARGEST_KIB, NOT_A_COUNT, kib, whole
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.procfs.buddyinfo import FEWEST_ORDERS, MOST_ORDERS

Taker = Callable[[int, bytes, bytes], None]
SYSTEM: Subject = ("system", ())
TWICE = "a counter twice under one time: a time may be missing; the second is left out"
CUT = "a line that is cut or holds no number; it is left out"
MOST_WORDS = 10_000  # first words remembered
MODES = tuple(
    f"node_cpu_seconds_total.{mode}"
    for mode in ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
)
_COUNTS = {
    b"ctxt": "node_context_switches_total",
    b"intr": "node_intr_total",
    b"processes": "node_forks_total",
    b"procs_running": "node_procs_running",
    b"procs_blocked": "node_procs_blocked",
    b"btime": "node_boot_time_seconds",
}
_SIZE = re.compile(rb"([A-Z]\w*)(?:\((\w+)\))?:")
_VMSTAT = re.compile(
    rb"(?:pg|psw|nr_|workingset_|allocstall|slabs_|kswapd_|kstack_|oom_|unevictable_|drop_)\w{0,60}|pageoutrun"
)
_BUDDY = re.compile(rb"Node\s+(\d+),\s+zone\s+(\w+)\s+([\d\s]+)$")
_LOAD = re.compile(rb"(\d{1,7}\.\d\d) \d{1,7}\.\d\d \d{1,7}\.\d\d (\d{1,7})/\d{1,7} \d{1,10}\s*$")
_NODE = re.compile(rb"Node (\d+) ([A-Z]\w*)(?:\((\w+)\))?: +(\d{1,19} kB|\d{1,19})\s*$")
# of other subsystems, and of the lists that follow the header of a recording with slabs
_OTHERS = re.compile(
    rb"(?:disk|Net|sock|int|Slab|slab|numas|softirq|page|swap|tcp-|udp-|fs-|nfs|ib|opa|ost|OST|mds|MDS|Lus|LL|fld|ipmi|Env|procT|"
    rb"ptable|part|PQ|IB|snmp|arcconf|cpuspd)"
)


class Counters:
    """Takes the lines of one interval after the other."""

    def __init__(self, odd: Oddities, room: Room) -> None:
        self.hz = 100
        self.values: dict[str, float] = {}
        self.rows: dict[Subject, Rows] = {}
        self._odd, self._room = odd, room
        self._at = -1
        self._orders, self._modes = FEWEST_ORDERS, 4
        self._load: tuple[float, float] | None = None
        self._nodes: dict[bytes, tuple[int, bytes, dict[str, float]]] = {}
        self._names: dict[bytes, str] = {}
        self._plain = {word: (name, 1, b"") for word, name in _COUNTS.items()}
        self._layout: Layout | None = None
        self._takers: dict[bytes, Taker] = {b"cpu": self._all_cpus, b"buddy": self._zone, b"load": self._loads}
        self._takers |= {b"numai": self._node} | dict.fromkeys(_COUNTS, self._count)
        self._names.update(_COUNTS)

    def open(self, at: int) -> None:
        self._at = at

    def take(self, lines: Sequence[tuple[int, bytes]]) -> None:
        """All lines of an interval."""
        texts = [line for _, line in lines]
        values = self._layout.values(texts) if self._layout else None
        if values is not None and self._layout:
            self.values = values
            lines = [lines[place] for place in self._layout.rest]
        for number, line in lines:
            self._line(number, line)
        if values is None:
            self._layout = layout(texts, self._plain)

    def _line(self, number: int, line: bytes) -> None:
        word, _, rest = line.partition(b" ")
        taker = self._takers.get(word)
        if taker is None:
            taker = self._taker(word)
            if len(self._takers) < MOST_WORDS:
                self._takers[word] = taker
        taker(number, word, rest)

    def close(self, line: int, text: bytes) -> None:
        """The interval is over: what it said becomes a row, cited by its time."""
        values = self.values
        if self._load is not None:
            values["node_load1"] = self._load[0]
            values.setdefault("node_procs_running", self._load[1])
        if values:
            self._row(SYSTEM, line, values, text)
        for node, (number, first, found) in self._nodes.items():
            self._row(("node", (("node", node.decode()),)), number, found, first)
        self.values, self._load, self._nodes = {}, None, {}

    def series(self, source: tuple[str, str], times: Times) -> Iterator[Series]:
        """Of the host first."""
        for (kind, entity), rows in sorted(self.rows.items(), key=lambda item: item[0] != SYSTEM):
            yield rows.series(kind, entity, source, times)

    def _taker(self, word: bytes) -> Taker:
        """Who takes lines that begin with this word."""
        if word[:3] == b"cpu" and word[3:].isdigit():
            return self._one_cpu
        if found := _SIZE.fullmatch(word):
            name = found[1] + (b"_" + found[2] if found[2] else b"")
            self._names[word] = f"node_memory_{name.decode()}"
            self._plain[word] = (f"node_memory_{name.decode()}_bytes", 1024, b"kB")
            return self._size
        if _VMSTAT.fullmatch(word):
            self._names[word] = f"node_vmstat_{word.decode()}"
            self._plain[word] = (self._names[word], 1, b"")
            return self._count
        return self._other if _OTHERS.match(word) else self._unknown

    def _count(self, number: int, word: bytes, rest: bytes) -> None:
        text = rest.split(None, 1)[0] if rest.strip() else b""
        if (value := whole(text)) is not None:
            self._take(number, word, rest, self._names[word], value)
        else:
            self._note(number, word, rest, NOT_A_COUNT if text else CUT)

    def _size(self, number: int, word: bytes, rest: bytes) -> None:
        name = self._names[word]
        pages = whole(rest.strip()) if name.startswith("node_memory_HugePages_") else None
        if (size := kib(rest)) is not None:
            self._take(number, word, rest, f"{name}_bytes", size)
        elif pages is not None and pages < LARGEST_KIB:
            self._take(number, word, rest, name, pages)
        else:
            self._note(number, word, rest, CUT)

    def _take(self, number: int, word: bytes, rest: bytes, name: str, value: float) -> None:
        if name in self.values:
            self._note(number, word, rest, TWICE)
        else:
            self.values[name] = value

    def _all_cpus(self, number: int, word: bytes, rest: bytes) -> None:
        times = self._times(number, word, rest)
        if times and MODES[0] in self.values:
            self._note(number, word, rest, TWICE)
        else:
            self.values.update(times)

    def _one_cpu(self, number: int, word: bytes, rest: bytes) -> None:
        if times := self._times(number, word, rest):
            self._row(("cpu", (("cpu", word[3:].decode()),)), number, times, b"%b %b" % (word, rest))

    def _times(self, number: int, word: bytes, rest: bytes) -> dict[str, float]:
        ticks = rest.split()
        self._modes = max(self._modes, min(len(ticks), len(MODES)))
        if len(ticks) < self._modes or not b"".join(ticks).isdigit() or max(map(len, ticks)) > 18:
            self._note(number, word, rest, CUT)
            return {}
        hz = self.hz
        return {name: int(tick) / hz for name, tick in zip(MODES, ticks, strict=False)}

    def _zone(self, number: int, word: bytes, rest: bytes) -> None:
        found = _BUDDY.match(rest)
        blocks = found[3].split() if found else []
        self._orders = max(self._orders, min(len(blocks), MOST_ORDERS))
        if not found or not self._orders <= len(blocks) <= MOST_ORDERS or max(map(len, blocks)) > 18:
            self._note(number, word, rest, "the row has too few or too many orders, it may be cut; it is left out")
            return
        entity = (("node", found[1].decode()), ("zone", found[2].decode()))
        values = {f"node_buddyinfo_blocks_order{order}": float(count) for order, count in enumerate(blocks)}
        self._row(("zone", entity), number, values, b"%b %b" % (word, rest))

    def _loads(self, number: int, word: bytes, rest: bytes) -> None:
        if found := _LOAD.match(rest):
            self._load = (float(found[1]), float(found[2]))
        else:
            self._note(number, word, rest, CUT)

    def _node(self, number: int, word: bytes, rest: bytes) -> None:
        found = _NODE.match(rest)
        if not found:
            self._note(number, word, rest, CUT)
        elif found[4].endswith(b"kB") and (size := kib(found[4])) is not None:
            name = found[2] + (b"_" + found[3] if found[3] else b"")
            kept = self._nodes.setdefault(found[1], (number, b"%b %b" % (word, rest), {}))
            kept[2].setdefault(f"node_memory_numa_{name.decode()}_bytes", size)

    def _row(self, key: Subject, number: int, values: dict[str, float], text: bytes) -> None:
        rows = self.rows.get(key)
        if rows is None:
            rows = self.rows[key] = Rows(self._room)
        if not rows.add(self._at, number, values, text):
            self._note(number, b"", text, TWICE)

    def _other(self, number: int, word: bytes, rest: bytes) -> None:
        """Of a subsystem that says nothing about memory."""

    def _unknown(self, number: int, word: bytes, rest: bytes) -> None:
        if word or rest.strip():
            self._note(number, word, rest, "a line of no subsystem that is known; it is left out")

    def _note(self, number: int, word: bytes, rest: bytes, reason: str) -> None:
        text = b"%b %b" % (word, rest) if word else rest
        self._odd.note(number, printable(text.decode("utf-8", "replace")), reason)
