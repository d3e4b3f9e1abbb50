r"""One process in /proc: stat, status, smaps.

/proc/PID/stat: one process on one line, fields by position; also many processes, or one again and again.

    2001 (my file) S 1888 2001 1888 34816 2001 4202496 428 0 0 0 0 0 0 0 20 0 1 0 75513 115900416 297 ...

The command may hold blanks, brackets and newlines, so fields count from the last `) STATE `. Units: faults are counts,
CPU times ticks of 1/100 s, the start is in ticks since boot, vsize bytes, rss pages, taken as 4096 bytes (wrong on
kernels with 64 KiB pages: RHEL on ppc64le and aarch64 before 9). rss may lag VmRSS of /proc/PID/status by some pages.
Source: kernel tree, fs/proc/array.c.

/proc/PID/status: memory and threads of one process, one `Name:<tab>value` per line; also grep'ed lines and loops.

    VmRSS:          1700 kB
    Threads:    1

Units: kB is 1024 bytes. VmSwap exists from 2.6.34 (and on RHEL 6), RssAnon, RssFile and RssShmem from 4.5; THP_enabled
(5.0 class) is 0 for a process that may have no huge pages. The context switches (from 2.6.23) are those of the main
thread. Kernel threads have no Vm lines. The process is named by the Pid line, else by the path; when an excerpt has
neither, its pid is `?`. In the name of a command the kernel prints a newline as \n and a backslash as \\. Source:
kernel tree, fs/proc/array.c and task_mmu.c.

/proc/PID/smaps and smaps_rollup: memory of one process by mapping, summed here over its mappings.

    55a9e753c000-55a9e7570000 r--p 00000000 fd:00 798126                     /usr/lib/systemd/systemd
    AnonHugePages:      2048 kB

Units: kB is 1024 bytes. AnonHugePages from 2.6.38 and on RHEL 6, LazyFree from 4.12, smaps_rollup (one mapping named
[rollup]) from 4.14. A file has no pid inside: it comes from the path or grep's prefix, else it is `?`. A new snapshot
begins where the addresses start again, with each [rollup], or in grep'ed rollups where a key repeats. VmFlags (from
3.8) closes a mapping: `hg` in it is memory that asked for huge pages (MADV_HUGEPAGE). The sizes of all mappings are the
virtual size, if none is missing: [stack] stands near the end. Source: kernel tree,
fs/proc/task_mmu.c.

A sum over smaps that awk made, known by the command above it:

    # grep AnonHugePages /proc/4711/smaps | awk '{s+=$2} END {print s/1024 " MB"}'
    1284 MB

Units: what the command makes of the kilobytes of smaps by its divisions and products; a unit in the text is not
believed. A sum over all processes (`/proc/*/smaps`) counts shared memory several times and is not used.

Mappings of one process, summed here: numa_maps, pmap, thpmaps.

/proc/PID/numa_maps: pages of each mapping by NUMA node.

    7f3c2a000000 default anon=512 dirty=512 active=0 N0=500 N1=12 kernelpagesize_kB=4
    7f3c40000000 bind:0 file=/anon_hugepage\040(deleted) huge dirty=4 N0=4 kernelpagesize_kB=2048

Units: pages of kernelpagesize_kB (from 3.13; older files are not read). `huge` is hugetlbfs; transparent huge pages are
counted as 512 small ones and cannot be told from them. The sums are those of numastat -p, which reads this file;
without hugetlbfs they are the resident memory. No sums are made of a list without its `stack`, which is cut or a choice
of lines, nor of one with broken lines. Source: kernel tree, fs/proc/task_mmu.c (show_numa_map).

pmap -x, -X, -XX: sizes of each mapping in KiB, and their sums in the last line.

    4711:   /opt/jdk/bin/java -Xmx1g
             Address Perm   Offset Device  Inode   Size    Rss ... AnonHugePages ...   VmFlags Mapping
        55874359f000 rw-p 00000000  00:00      0 131072 131072 ...        131072 ... rd wr mr  [heap]
                                                 ====== ====== ... ============= ...
                                                 135204 133080 ...        131072 ... KB

Units: KiB; the names of -XX are those of smaps, -X leaves AnonHugePages and VmFlags out. The sums are taken from the
last line; `hg` among VmFlags is memory that asked for huge pages. Plain pmap has no resident memory and is not read.
Source: procps pmap.c, 3.3.17 to 4.0.4.

thpmaps (kernel tree, tools/mm, 6.9): transparent huge pages of each mapping by size.

           PID             START              END PROT   OFFSET   DEV    INODE OBJECT
    0000004711: 00007f3c2a000000-00007f3c2e000000 rw-p 00000000 00:00 00000000
    anon-thp-pmd-aligned-2048kB:       65536 kB (100%)

Units: KiB. `thp-pmd` of anonymous memory is AnonHugePages of smaps; smaller sizes (`thp-pte`) are no such pages. With
--rollup only sums are printed, which are those of a process if the command names one with --pid. What is 0 is not
printed: without a line, a process has none. Source: tools/mm/thpmaps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from thpdiag.model import Citation, Fact, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import process_entity, task_name
from thpdiag.parsers._lines import ParseErrors, any_of, count_of, matches, snapshots, with_errors
from thpdiag.parsers._units import MAX_QUANTITY, NOT_A_COUNT, parse_count, parse_size

PAGE = 4096
TICKS_PER_SECOND = 100
MAX_LINES = 4  # a command of 15 bytes is rarely more than one line
_STATE = "RSDZTtXxKWPIN"
_BEGINS = re.compile(r"(?:\S{0,200}/stat:)?\d{1,10} \(")
_WHOLE = re.compile(
    rf"(?:\S{{0,200}}/stat:)?(\d{{1,10}}) \((.{{0,64}})\) [{_STATE}]((?: -?\d+){{36,60}})\s*$", re.DOTALL
)
_TAIL = re.compile(rf".{{0,64}}\) [{_STATE}](?: -?\d+){{30,60}}\s*$")

# position after the state, metric, factor
_FIELDS = (
    (6, "process_minor_faults_total", 1.0),
    (8, "process_major_faults_total", 1.0),
    (10, "process_cpu_seconds_total.user", 1 / TICKS_PER_SECOND),
    (11, "process_cpu_seconds_total.system", 1 / TICKS_PER_SECOND),
    (16, "process_threads", 1.0),
    (18, "process_start_time_ticks", 1.0),
    (19, "process_virtual_memory_bytes", 1.0),
    (20, "process_resident_memory_bytes", float(PAGE)),
)


@snapshots("pid_stat")
def parse_pid_stat(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Sample]:
    """One sample per process and snapshot."""
    pending: list[tuple[int, str]] = []
    for number, line in lines:
        if _WHOLE.match(line) and not (pending and _match_block([*pending, (number, line)])):
            _note_rest(pending, odd)
        pending.append((number, line))
        if found := _match_block(pending):
            yield from _process(source, pending[0], found, odd)
            pending.clear()
        elif len(pending) >= MAX_LINES:
            _note_rest(pending, odd)
    _note_rest(pending, odd)


def _match_block(lines: list[tuple[int, str]]) -> re.Match[str] | None:
    return _WHOLE.match("\n".join(line for _, line in lines))


def _note_rest(pending: list[tuple[int, str]], odd: ParseErrors) -> None:
    """Lines that came to no process, which are then forgotten."""
    for number, line in pending:
        if line.strip():
            odd.note(number, line, "not a whole line of a process; it is left out")
    pending.clear()


def _process(source: Source, first: tuple[int, str], found: re.Match[str], odd: ParseErrors) -> Iterator[Sample]:
    fields = found[3].split()
    values: dict[str, float] = {}
    for position, name, factor in _FIELDS:
        text = fields[position] if position < len(fields) else ""
        if (value := count_of(*first, text, odd)) is not None:
            values[name] = value * factor
    if values:
        entity = (("pid", found[1]), ("comm", found[2]))
        yield Sample("process", values, source.cite(*first), PID_STAT.name, entity)


PID_STAT = Parser(
    "pid_stat", "/proc/PID/stat", parse_pid_stat, opens=_BEGINS,
    confirm=lambda lines: any(_WHOLE.match("\n".join(lines[:count])) for count in range(1, MAX_LINES + 1)),
    continues=re.compile(f"{_BEGINS.pattern}|{_TAIL.pattern}").match,
)  # fmt: skip


_PID_STATUS_GREP = r"(?:\S{0,200}proc/[\w*]+/(?:task/\w+/)?status:)?"
_NAME = (
    r"(?:Name|Umask|State|Tgid|Ngid|Pid|PPid|TracerPid|Uid|Gid|FDSize|Groups|NS(?:tgid|pid|pgid|sid)|Kthread|"
    r"Vm(?:Peak|Size|Lck|Pin|HWM|RSS|Data|Stk|Exe|Lib|PTE|PMD|Swap)|Rss(?:Anon|File|Shmem)|HugetlbPages|CoreDumping|THP_enabled|"
    r"untag_mask|Threads|Sig(?:Q|Pnd|Blk|Ign|Cgt)|ShdPnd|Cap(?:Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp(?:_filters)?|"
    r"Speculation\w+|x86_Thread_\w+|Cpus_allowed(?:_list)?|Mems_allowed(?:_list)?|(?:non)?voluntary_ctxt_switches|Utrace|SleepAVG)"
)
_PID_STATUS_OPENS = re.compile(
    rf"\s*{_PID_STATUS_GREP}(?:(?:Name|Umask|State|Tgid|Ngid|Pid|PPid|TracerPid|Threads):\s{{1,20}}\S|"
    r"(?:Vm(?:Peak|Size|Lck|Pin|HWM|RSS|Data|Stk|Exe|Lib|PTE|PMD|Swap)|Rss(?:Anon|File|Shmem)):\s+\S+\s+kB|"
    r"THP_enabled:\s+[01]\s*$)"
)
_PID_STATUS_LINE = re.compile(rf"\s*(?:\S{{0,200}}proc/([\w*]+)/(?:task/\w+/)?status:)?({_NAME}):(.*)$")
_PID_STATUS_CONTINUES = re.compile(rf"\s*{_PID_STATUS_GREP}{_NAME}:")
_OF_STATUS = re.compile(
    rf"\s*{_PID_STATUS_GREP}(?:(?:Vm|Rss)[A-Z]\w+:\s+\S+\s+kB|State:\s+[RSDTtZXIKWP] \([a-z ]+\)\s*$|"
    r"THP_enabled:\s+[01]\s*$)"
)
_PID_STATUS_PATH = re.compile(r"proc/(\d+)/(?:task/\d+/)?status$")
_SIZES = {
    "VmSize": "process_virtual_memory_bytes",
    "VmRSS": "process_resident_memory_bytes",
    "RssAnon": "process_rss_anon_bytes",
    "RssShmem": "process_rss_shmem_bytes",
    "VmSwap": "process_swap_bytes",
    "VmLck": "process_locked_bytes",
}
_SWITCHES = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
_RUNS = "R"


def _pid_status_confirm(lines: list[str]) -> object:
    """Where the tab of a line became blanks (`Name: java` may be any text), lines that are like no others follow."""
    if re.match(r"[^\t]*:\t", lines[0]) or _OF_STATUS.match(lines[0]):
        return True
    rows = list(takewhile(_PID_STATUS_CONTINUES.match, lines))
    return len(rows) > 1 and any(map(_OF_STATUS.match, rows))


@dataclass(slots=True)
class _StatusProcess:
    """The process that is being read: the keys seen, the values with the place of the first, THP_enabled."""

    pid: str
    comm: str = ""
    keys: set[str] = field(default_factory=set)
    values: dict[str, float] = field(default_factory=dict)
    first: Citation | None = None
    thp: tuple[int, Citation] | None = None
    state: str = ""
    switches: dict[str, int] = field(default_factory=dict)

    def add_switches(self) -> None:
        """How often it left a CPU: a task that sleeps, and has not left one since the last look, has not run since.

        One that runs may have run all the time. The file counts those of one thread.
        """
        sleeps = self.state and self.state != _RUNS
        if sleeps and self.values.get("process_threads") == 1 and len(self.switches) == len(_SWITCHES):
            self.values["process_context_switches_total"] = float(sum(self.switches.values()))


@snapshots("pid_status")
def parse_pid_status(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """One sample per process and snapshot, and what was last said of its huge pages."""
    said: dict[str, Fact] = {}
    for process in _processes(source, lines, odd):
        who = process_entity(process.pid, process.comm)
        if process.thp is not None:
            value, cite = process.thp
            said[process.pid] = Fact("process.thp_enabled", value, cite, who, time=source.time)
        process.add_switches()
        if process.first:
            yield Sample("process", process.values, process.first, PID_STATUS.name, who)
    yield from said.values()


def _processes(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[_StatusProcess]:
    path = _PID_STATUS_PATH.search(source.path)
    named = path[1] if path else "?"
    process = _StatusProcess(named)
    for number, line, found in matches(lines, _PID_STATUS_LINE, odd, "not a line of this file"):
        prefix, key, text = found.groups()
        other = prefix and prefix.isdigit() and prefix != process.pid
        if process.keys and (key in process.keys or other):
            yield process
            process = _StatusProcess(named)
        if prefix and prefix.isdigit():
            process.pid = prefix
        process.keys.add(key)
        if not _status_line(process, key, text.strip(), source.cite(number, line)):
            odd.note(number, line, NOT_A_COUNT)
    yield process


def _status_line(process: _StatusProcess, key: str, text: str, cite: Citation) -> bool:
    """Whether the value could be read."""
    if key == "Name":
        process.comm = text.replace("\\n", "\n").replace("\\\\", "\\")
    elif key == "Pid" and text.isdigit():
        process.pid = text
    elif key == "THP_enabled":
        if text not in ("0", "1"):
            return False
        process.thp = (int(text), cite)
    elif key == "State":
        process.state = text[:1]
    elif key in _SWITCHES:
        if (count := parse_count(text)) is None:
            return False
        process.switches[key] = count
    elif key == "Threads" or key in _SIZES:
        value = parse_count(text) if key == "Threads" else parse_size(text)
        if value is None:
            return False
        process.first = process.first or cite
        process.values[_SIZES.get(key, "process_threads")] = value
    return True


PID_STATUS = Parser(
    "pid_status", "/proc/PID/status", parse_pid_status, opens=_PID_STATUS_OPENS, continues=_PID_STATUS_CONTINUES.match,
    confirm=_pid_status_confirm,
)  # fmt: skip


_SMAPS_GREP = r"(?:\S{0,200}proc/([\w*]+)/smaps(?:_rollup)?:)?"
_GREP_ANY = r"(?:\S{0,200}proc/[\w*]+/smaps(?:_rollup)?:)"
_MAPPING = r"[0-9a-f]{4,16}-[0-9a-f]{4,16} [r-][w-][x-][ps] "
_KEY = (
    r"(?:Size|KernelPageSize|MMUPageSize|Rss|Pss(?:_\w+)?|Shared_\w+|Private_\w+|Referenced|Anonymous|KSM|LazyFree|AnonHugePages|"
    r"ShmemPmdMapped|FilePmdMapped|ShmemHugePages|Swap|SwapPss|Locked|THPeligible|ProtectionKey|VmFlags)"
)
_SMAPS_OPENS = re.compile(
    rf"{_MAPPING}|{_GREP_ANY}{_KEY}:|(?:Size|Rss|Pss|Anonymous|Swap|LazyFree|Private_Dirty):\s+\d+ kB\s*$"
)
_SMAPS_LINE = re.compile(rf"{_SMAPS_GREP}(?:([0-9a-f]{{4,16}})-[0-9a-f]{{4,16}} [r-][w-][x-][ps] .*|({_KEY}):(.*))$")
_SMAPS_CONTINUES = re.compile(rf"(?:{_GREP_ANY})?(?:{_MAPPING}|{_KEY}:)")
_SMAPS_PATH = re.compile(r"proc/(\d+)/(?:task/\d+/)?smaps(?:_rollup)?$")
SUMMED = {
    "Size": "process_virtual_memory_bytes",
    "Rss": "process_resident_memory_bytes",
    "AnonHugePages": "process_anon_huge_bytes",
    "LazyFree": "process_lazy_free_bytes",
    "Swap": "process_swap_bytes",
    "Anonymous": "process_anon_mapped_bytes",
    "Pss_Anon": "process_anon_proportional_bytes",  # from 5.3 on, in smaps_rollup only
}
ASKED_HUGE = "process_asked_huge_bytes"


def _smaps_confirm(lines: list[str]) -> object:
    """An address line alone may be of /proc/PID/maps."""
    return not re.match(_MAPPING, lines[0]) or (len(lines) > 1 and re.match(r"(?:Size|Rss):", lines[1]))


@dataclass(slots=True)
class _SmapsProcess:
    """The process that is being summed: the keys seen and the memory (Rss) of the mapping that is being read."""

    pid: str
    cite: Citation
    address: int = -1
    keys: set[str] = field(default_factory=set)
    resident: float | None = None
    has_stack: bool = False  # which stands near the end of a file that was not cut
    values: dict[str, float] = field(default_factory=dict)

    def sample(self) -> Iterator[Sample]:
        if not self.has_stack:
            self.values.pop(SUMMED["Size"], None)
        if self.values:
            yield Sample("process", self.values, self.cite, SMAPS.name, process_entity(self.pid))

    def add(self, name: str, value: float) -> None:
        self.values[name] = self.values.get(name, 0) + value


@snapshots("smaps")
def parse_smaps(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Sample]:
    """One sample per process and snapshot."""
    path = _SMAPS_PATH.search(source.path)
    named = path[1] if path else "?"
    process: _SmapsProcess | None = None
    for number, line, found in matches(lines, _SMAPS_LINE, odd, "not a line of this file"):
        pid = found[1] if found[1] and found[1].isdigit() else named
        if process is not None and _ends(process, pid, found, source.path):
            yield from process.sample()
            process = None
        process = process or _SmapsProcess(pid, source.cite(number, line))
        if found[2]:
            process.address, process.resident = int(found[2], 16), None
            process.keys.clear()
            process.has_stack |= "[stack]" in found[0]
        else:
            _smaps_value(process, number, found, odd)
    if process:
        yield from process.sample()


def _ends(process: _SmapsProcess, pid: str, found: re.Match[str], path: str) -> bool:
    """Whether this line belongs to another process or snapshot than the lines before."""
    if pid != process.pid:
        return True
    if found[2]:
        return "[rollup]" in found[0] or int(found[2], 16) <= process.address
    return path.endswith("smaps_rollup") and SUMMED.get(found[3]) in process.values


def _smaps_value(process: _SmapsProcess, number: int, found: re.Match[str], odd: ParseErrors) -> None:
    key, text = found[3], (found[4] or "").strip()
    if key == "VmFlags" and process.resident is not None:  # without its size nothing is known of a mapping
        process.add(ASKED_HUGE, process.resident if "hg" in text.split() else 0.0)
        process.resident = None
    if key not in SUMMED:
        return
    if process.address >= 0 and key in process.keys:
        odd.note(number, found.string, "a second value in one mapping, perhaps of /proc/meminfo; it is left out")
        return
    process.keys.add(key)
    value = parse_size(text)
    if value is None:
        odd.note(number, found.string, NOT_A_COUNT)
        return
    process.add(SUMMED[key], value)
    if key == "Rss":
        process.resident = value


SMAPS = Parser(
    "smaps", "/proc/PID/smaps and smaps_rollup", parse_smaps, opens=_SMAPS_OPENS, confirm=_smaps_confirm,
    continues=_SMAPS_CONTINUES.match, priority=1,
)  # fmt: skip


SMAPS_SUM = "smaps_sum"
_SUM_PATH = re.compile(r"(?:^|/)proc/(?P<pid>[^/]{1,250})/smaps_sum$")
_ARITHMETIC = r"(?P<{}>(?:\s?[/*]\s?\d{{1,10}}){{0,3}})"
_SUM = re.compile(
    rf"(?P<name>\w{{1,20}})\s?\+=\s?\(?\$2{_ARITHMETIC.format('each')}\)?\s?;?\s?\}}\s{{0,4}}END\s?\{{\s?print.{{0,80}}?"
    rf"(?<![\w\"])\(?(?P=name)(?!\w){_ARITHMETIC.format('all')}\s?(?P<rest>[-+%]?)"
)
_STRING = re.compile(r"\"[^\"]{0,200}\"")
_OPERATION = re.compile(r"([/*])\s?(\d{1,10})")
_SUM_LINE = re.compile(r"[A-Za-z :=]{0,40}(?P<number>\d{1,18}(?:\.\d{1,9})?(?:e\+\d\d)?)(?: ?[KMGTkmgt]i?[Bb]?)?\s*$")
_KEYS = re.compile(rf"(?<!\w)({'|'.join(SUMMED)})(?!\w)")


@with_errors(SMAPS_SUM)
def parse_smaps_sum(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """A sample of the process with the one sum."""
    rows = [(number, text) for number, text in lines if text.strip()]
    path, keys = _SUM_PATH.search(source.path), set(_KEYS.findall(source.command))
    summed = _SUM.search(_STRING.sub('""', source.command))
    value = _SUM_LINE.match(rows[0][1]) if len(rows) == 1 else None
    if not rows or path is None:
        return
    if "*" in path["pid"] or "self" in path["pid"]:
        odd.note(
            *rows[0], "a sum over smaps of all processes, or of awk itself: send `grep AnonHugePages /proc/meminfo`"
        )
        return
    steps = _OPERATION.findall(summed["each"] + summed["all"]) if summed else []
    if value is None or summed is None or summed["rest"] or len(keys) != 1 or not all(int(n) for _, n in steps):
        odd.note(*rows[0], "a sum over smaps, of what is not clear: send /proc/PID/smaps_rollup")
    else:
        kilobytes = float(value["number"])
        for sign, number in steps:
            kilobytes *= int(number) if sign == "/" else 1 / int(number)
        pid = path["pid"] if path["pid"].isdigit() else "?"
        size = {SUMMED[keys.pop()]: float(round(kilobytes * 1024))}
        yield Sample("process", size, source.cite(*rows[0]), SMAPS_SUM, process_entity(pid), source.time)


SMAPS_SUM_PARSER = Parser(
    SMAPS_SUM, "sums over /proc/PID/smaps (awk)", parse_smaps_sum, continues=_SUM_LINE.match, paths=(_SUM_PATH,)
)


KIB = 1024.0
_GREP = r"(?:\S{0,200}proc/(\w+)/(?:task/\w+/)?numa_maps:)?"
_POLICY = (
    r"(?:default|local|prefer(?:red)?(?: \(many\))?|bind|(?:weighted )?interleave)(?:[=|][a-z|]+)?(?::[-\d,]*)?(?=\s|$)"
)
_NUMA_MAPS = re.compile(rf"{_GREP}([0-9a-f]{{8,16}}) {_POLICY}(.*)$")
_OF_PATH = re.compile(r"proc/(\d+)/(?:task/\d+/)?numa_maps$")
_PAGES = re.compile(r" N\d{1,4}=(\S+)")
_SIZE = re.compile(r" kernelpagesize_kB=(\d{1,9})\s*$")
_COUNTED = re.compile(r" (?:anon|dirty|mapped|N\d{1,4})=|=\d*$")
_REMAINS = re.compile(
    r"\s*(?:(?:anon|dirty|map(?:ped|max)|swapcache|active|writeback|N\d{1,4}|kernelpagesize_kB)=\d+\s*)+$"
)
_ANON = re.compile(r" anon=(\d{1,18}) ")
_CHOICE = re.compile(r"\b(?:tail|[ef]?grep|sed|awk)\b")  # of lines, by a command
_KIND = re.compile(r" (huge|heap|stack)(?= |$)")
NOT_WHOLE = "a part of a list of mappings (its stack is not there, or lines are broken): no sums are made of it"


@dataclass(slots=True)
class _Mappings:
    """A process whose mappings are being summed."""

    pid: str
    cite: Citation
    address: int = -1
    is_whole: bool = False
    is_damaged: bool = False
    values: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, size: float) -> None:
        self.values[name] = self.values.get(name, 0.0) + size

    def sample(self, reader: str, comm: str = "") -> Iterator[Sample]:
        """Nothing where a sum is more than memory can be."""
        if self.values and max(self.values.values()) <= MAX_QUANTITY:
            yield Sample("process", self.values, self.cite, reader, process_entity(self.pid, comm))


@snapshots("numa_maps")
def parse_numa_maps(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Sample]:
    """One sample per process and snapshot."""
    named = path[1] if (path := _OF_PATH.search(source.path)) else "?"
    process: _Mappings | None = None
    for number, line in lines:
        if (found := _NUMA_MAPS.match(line)) is None:
            if process:
                process.is_damaged = True
            odd.note(number, line, "a broken line of numa_maps")
            continue
        pid, address = found[1] or named, int(found[2], 16)
        if process is None or pid != process.pid or address <= process.address:
            yield from _whole_list(process, odd)
            process = _Mappings(pid, source.cite(number, line), is_damaged=bool(_CHOICE.search(source.command)))
        process.address = address
        process.is_damaged |= not _add_mapping(process, found[3])
    yield from _whole_list(process, odd)


def _whole_list(process: _Mappings | None, odd: ParseErrors) -> Iterator[Sample]:
    if process is not None and process.is_whole and not process.is_damaged:
        yield from process.sample("numa_maps")
    elif process is not None:
        odd.note(process.cite.line or 0, process.cite.text, NOT_WHOLE)


def _add_mapping(process: _Mappings, text: str) -> bool:
    """Whether a mapping is whole: the size of its pages stands at the end, but for one without pages."""
    kind = found[1] if (found := _KIND.search(text)) else "private"
    process.is_whole |= kind == "stack"
    if not _COUNTED.search(text):
        return "kernelpagesize" not in text
    counts, size = [parse_count(count) for count in _PAGES.findall(text)], _SIZE.search(text)
    page = int(size[1]) * KIB if size else 0.0
    if page < PAGE or int(page).bit_count() != 1 or None in counts:
        return False
    held = sum(count for count in counts if count is not None) * page
    for name in (kind, "total"):
        process.add(f"process_numa_{name}_bytes", held)
    if kind != "huge":
        process.add(SUMMED["Rss"], held)
        process.add("process_rss_anon_bytes", int(anon[1]) * page if (anon := _ANON.search(text)) else 0.0)
    return True


NUMA_MAPS = Parser(
    "numa_maps", "/proc/PID/numa_maps", parse_numa_maps, opens=_NUMA_MAPS, continues=any_of(_NUMA_MAPS, _REMAINS),
    confirm=lambda lines: any(_PAGES.search(line) for line in lines if _NUMA_MAPS.match(line)),
)  # fmt: skip


_PROCESS = re.compile(r"(\d{1,10}):\s{1,4}(\S.*)$")
_PMAP_HEAD = re.compile(r"\s*Address\s+(?:Perm\s+Offset\s+Device\s+Inode\s+(Size\s.*)|Kbytes\s+(RSS\s.*))Mapping\s*$")
_ROW = re.compile(r"\s*[0-9a-f]{6,16}\s+(?:[r-][w-][x-][ps] [0-9a-f]{8,16}\s+\S+\s+\d+\s|(?:[\d-]+\s+){3}[r-][w-][x-])")
_RULE = re.compile(r"\s*(?:=+\s+)*=+\s*$|\s*-+\s+-+\s+-+\s+-+\s*$")
_SUMS = re.compile(r"\s*(?:total kB\s+)?((?:\d{1,16}\s+)*\d{1,16})(?:\s+KB)?\s*$")
_FLAGS = re.compile(r"\s\d+\s+(?:[a-z]{2} ){0,30}hg(?: |$)")
_COLUMNS_OF_X = {"Kbytes": "Size", "RSS": "Rss"}


@dataclass(slots=True)
class _Listing(_Mappings):
    """The list of one process, whose columns have sums in its last line."""

    comm: str = ""
    columns: list[str] = field(default_factory=list)

    def begin(self, head: re.Match[str]) -> None:
        # the columns that have a sum, in order
        names = ["Kbytes", *head[2].split()] if head[2] else head[1].split()
        self.columns = [_COLUMNS_OF_X.get(name, name) for name in names if name not in ("VmFlags", "Mode")]
        if "VmFlags" in head[0]:
            self.add(ASKED_HUGE, 0.0)

    def add_row(self, line: str) -> None:
        """Only what asked for huge pages has no sum in the last line."""
        if self.columns and ASKED_HUGE in self.values and _FLAGS.search(line):
            cells = dict(zip(self.columns, line.split()[5:], strict=False))
            self.add(ASKED_HUGE, (parse_count(cells.get("Rss", "")) or 0) * KIB)

    def end(self, sums: list[str]) -> None:
        for name, text in zip(self.columns, sums, strict=True):
            if name in SUMMED:
                self.values[SUMMED[name]] = int(text) * KIB
        self.columns = []


@snapshots("pmap")
def parse_pmap(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Sample]:
    """One sample a process, at the line that names it."""
    process = _Listing("?", source.cite(1))
    for number, line in lines:
        if named := _PROCESS.match(line):
            _note_cut(process, odd)
            process = _Listing(named[1], source.cite(number, line), comm=task_name(named[2]))
        elif head := _PMAP_HEAD.match(line):
            process.begin(head)
        elif _ROW.match(line):
            process.add_row(line)
        elif (sums := _SUMS.match(line)) and process.columns and len(cells := sums[1].split()) == len(process.columns):
            process.end(cells)
            yield from process.sample("pmap", process.comm)
        elif line.strip() and not _RULE.match(line):
            odd.note(number, line, "not a line of pmap")
    _note_cut(process, odd)


def _note_cut(process: _Listing, odd: ParseErrors) -> None:
    if process.columns:
        odd.note(process.cite.line or 0, process.cite.text, "a list of pmap without its last line, the sums: not used")


PMAP = Parser(
    "pmap", "pmap -x, -X, -XX", parse_pmap, opens=re.compile(rf"{_PROCESS.pattern}|{_PMAP_HEAD.pattern}"),
    continues=any_of(_PMAP_HEAD, _ROW, _RULE, _SUMS, re.compile(r"\d{1,10}:\s{3}\S")),
    confirm=lambda lines: any(_PMAP_HEAD.match(line) for line in lines[:2]),
)  # fmt: skip


_THPMAPS_HEAD = re.compile(r"\s*PID\s+START\s+END PROT\s+OFFSET\s+DEV\s+INODE OBJECT\s*$")
_VMA = re.compile(r"0{0,9}(\d{1,10}): [0-9a-f]{16}-[0-9a-f]{16} [r-][w-][x-][ps] ")
_STAT = r":\s{1,40}(\d{1,16}) kB(?:\s+\(\s*\d+%\))?\s*$"
_THP = re.compile(rf"((?:anon|file)-(?:thp|cont)-(?:(?:pmd|pte)-(?:un)?aligned-\d{{1,9}}kB|pte-partial)){_STAT}")
_SMAPS_STAT = re.compile(rf"[A-Z]\w{{1,20}}{_STAT}")  # of --inc-smaps
_ONE_PID = re.compile(r".*?--pid[= ](\d{1,10})(?!.*--pid)")
_PMD_MAPPED = "anon-thp-pmd-aligned-"


@snapshots("thpmaps")
def parse_thpmaps(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Sample]:
    """One sample a process."""
    asked = _ONE_PID.match(source.command)
    process: _Mappings | None = None
    first: tuple[int, str] | None = None  # line of the sums of --rollup
    for number, line in lines:
        first = first or (number, line)
        if found := _VMA.match(line):
            if process is None or found[1] != process.pid:
                yield from process.sample("thpmaps") if process else ()
                process = _Mappings(found[1], source.cite(number, line))
                process.add(SUMMED["AnonHugePages"], 0.0)
        elif found := _THP.match(line):
            if process is None and asked:
                process = _Mappings(asked[1], source.cite(number, line))
            if process is not None and found[1].startswith(_PMD_MAPPED):
                process.add(SUMMED["AnonHugePages"], int(found[2]) * KIB)
        elif line.strip() and not _THPMAPS_HEAD.match(line) and not _SMAPS_STAT.match(line):
            odd.note(number, line, "not a line of thpmaps'")
    if process is not None:
        yield from process.sample("thpmaps")
    elif first and not _THPMAPS_HEAD.match(first[1]):
        odd.note(*first, "sums of thpmaps whose command does not name one process: not used")


THPMAPS = Parser(
    "thpmaps", "thpmaps", parse_thpmaps, opens=re.compile(rf"{_THPMAPS_HEAD.pattern}|{_THP.pattern}"),
    continues=any_of(_THPMAPS_HEAD, _VMA, _THP, _SMAPS_STAT),
)  # fmt: skip
