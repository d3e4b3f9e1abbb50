r"""Files of /proc about one process: stat, status, smaps, numa_maps; pmap and thpmaps.

/proc/PID/stat: one process per line, fields by position; also many processes, or one process repeatedly.

    2001 (my file) S 1888 2001 1888 34816 2001 4202496 428 0 0 0 0 0 0 0 20 0 1 0 75513 115900416 297 ...

The command may contain blanks, brackets and newlines, so fields are counted from the last `) STATE `. Units: faults are
counts, CPU times ticks of 1/100 s, the start is in ticks since boot, vsize bytes, rss pages, assumed to be 4096 bytes
(wrong on kernels with 64 KiB pages: RHEL on ppc64le and aarch64 before 9). rss may lag VmRSS of /proc/PID/status by
some pages. Source: kernel tree, fs/proc/array.c.

/proc/PID/status: memory and threads of one process, one `Name:<tab>value` per line; also excerpts by grep and repeated
output.

    VmRSS:          1700 kB
    Threads:    1

Units: kB is 1024 bytes. VmSwap exists from 2.6.34 (and on RHEL 6), RssAnon, RssFile and RssShmem from 4.5; THP_enabled
(since about 5.0) is 0 for a process that may not use huge pages. The context switches (from 2.6.23) are those of the
main thread. Kernel threads have no Vm lines. The pid comes from the Pid line, else from the path; in an excerpt with
neither it is `?`. In the name of a command the kernel prints a newline as \n and a backslash as \\. Source: kernel
tree, fs/proc/array.c and task_mmu.c.

/proc/PID/smaps and smaps_rollup: memory of one process by mapping, summed here over its mappings.

    55a9e753c000-55a9e7570000 r--p 00000000 fd:00 798126                     /usr/lib/systemd/systemd
    AnonHugePages:      2048 kB

Units: kB is 1024 bytes. AnonHugePages from 2.6.38 and on RHEL 6, LazyFree from 4.12, smaps_rollup (one mapping named
[rollup]) from 4.14. The file does not contain the pid: it comes from the path or grep's prefix, else it is `?`. A new
snapshot begins where the addresses restart, with each [rollup], or, in rollups printed by grep, where a key repeats.
VmFlags (from 3.8) ends a mapping: `hg` marks memory for which huge pages were requested (MADV_HUGEPAGE). The sum of all
sizes is the virtual size if no mapping is missing; [stack] near the end shows that. Source: kernel tree,
fs/proc/task_mmu.c.

Sums over smaps computed by awk, identified by the command above them:

    # grep AnonHugePages /proc/4711/smaps | awk '{s+=$2} END {print s/1024 " MB"}'
    1284 MB

Units: the kilobytes of smaps after the divisions and multiplications in the command; a unit in the output is ignored. A
sum over all processes (`/proc/*/smaps`) counts shared memory several times and is not used.

/proc/PID/numa_maps: pages of each mapping by NUMA node, summed here over the mappings.

    7f3c2a000000 default anon=512 dirty=512 active=0 N0=500 N1=12 kernelpagesize_kB=4
    7f3c40000000 bind:0 file=/anon_hugepage\040(deleted) huge dirty=4 N0=4 kernelpagesize_kB=2048

Units: pages of kernelpagesize_kB (from 3.13; older files are not read). `huge` is hugetlbfs; a transparent huge page is
counted as 512 small pages and cannot be distinguished from them. The sums are those of numastat -p, which reads this
file; without hugetlbfs they are the resident memory. A list without `stack`, which is truncated or a selection of
lines, and a list with malformed lines are not summed. Source: kernel tree, fs/proc/task_mmu.c (show_numa_map).

pmap -x, -X, -XX: sizes of each mapping in KiB, and their sums in the last line.

    4711:   /opt/jdk/bin/java -Xmx1g
             Address Perm   Offset Device  Inode   Size    Rss ... AnonHugePages ...   VmFlags Mapping
        55874359f000 rw-p 00000000  00:00      0 131072 131072 ...        131072 ... rd wr mr  [heap]
                                                 ====== ====== ... ============= ...
                                                 135204 133080 ...        131072 ... KB

Units: KiB; the names of -XX are those of smaps, -X omits AnonHugePages and VmFlags. The sums come from the last line;
`hg` in VmFlags marks memory for which huge pages were requested. Plain pmap has no resident memory and is not read.
Source: procps pmap.c, 3.3.17 to 4.0.4.

thpmaps (kernel tree, tools/mm, 6.9): transparent huge pages of each mapping by size.

           PID             START              END PROT   OFFSET   DEV    INODE OBJECT
    0000004711: 00007f3c2a000000-00007f3c2e000000 rw-p 00000000 00:00 00000000
    anon-thp-pmd-aligned-2048kB:       65536 kB (100%)

Units: KiB. `thp-pmd` of anonymous memory is AnonHugePages of smaps; smaller sizes (`thp-pte`) are not included there.
With --rollup only sums are printed, which are those of a process if the command names one with --pid. Zeros are not
printed: a process without a line has none. Source: tools/mm/thpmaps.
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

PAGE_BYTES = 4096
TICKS_PER_SECOND = 100
MAX_LINES = 4  # lines of one process; a command name of 15 bytes may contain newlines
_STATE = "RSDZTtXxKWPIN"
_STAT_BEGIN = re.compile(r"(?:\S{0,200}/stat:)?\d{1,10} \(")
_STAT_LINE = re.compile(
    rf"(?:\S{{0,200}}/stat:)?(\d{{1,10}}) \((.{{0,64}})\) [{_STATE}]((?: -?\d+){{36,60}})\s*$", re.DOTALL
)
_STAT_TAIL = re.compile(rf".{{0,64}}\) [{_STATE}](?: -?\d+){{30,60}}\s*$")

# Index after the state, metric, factor.
_FIELDS = (
    (6, "process_minor_faults_total", 1.0),
    (8, "process_major_faults_total", 1.0),
    (10, "process_cpu_seconds_total.user", 1 / TICKS_PER_SECOND),
    (11, "process_cpu_seconds_total.system", 1 / TICKS_PER_SECOND),
    (16, "process_threads", 1.0),
    (18, "process_start_time_ticks", 1.0),
    (19, "process_virtual_memory_bytes", 1.0),
    (20, "process_resident_memory_bytes", float(PAGE_BYTES)),
)


@snapshots("pid_stat")
def parse_pid_stat(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Sample]:
    """Yield one sample per process and snapshot."""
    pending: list[tuple[int, str]] = []
    for number, line in lines:
        if _STAT_LINE.match(line) and not (pending and _match_block([*pending, (number, line)])):
            _note_rest(pending, errors)
        pending.append((number, line))
        if match := _match_block(pending):
            yield from _stat_sample(source, pending[0], match, errors)
            pending.clear()
        elif len(pending) >= MAX_LINES:
            _note_rest(pending, errors)
    _note_rest(pending, errors)


def _match_block(lines: list[tuple[int, str]]) -> re.Match[str] | None:
    return _STAT_LINE.match("\n".join(line for _, line in lines))


def _note_rest(pending: list[tuple[int, str]], errors: ParseErrors) -> None:
    """Note and drop lines that did not form a process."""
    for number, line in pending:
        if line.strip():
            errors.note(number, line, "not a whole line of a process; it is left out")
    pending.clear()


def _stat_sample(source: Source, first: tuple[int, str], match: re.Match[str], errors: ParseErrors) -> Iterator[Sample]:
    fields = match[3].split()
    values: dict[str, float] = {}
    for index, name, factor in _FIELDS:
        text = fields[index] if index < len(fields) else ""
        if (value := count_of(*first, text, errors)) is not None:
            values[name] = value * factor
    if values:
        entity = (("pid", match[1]), ("comm", match[2]))
        yield Sample("process", values, source.cite(*first), PID_STAT.name, entity)


PID_STAT = Parser(
    "pid_stat", "/proc/PID/stat", parse_pid_stat, opens=_STAT_BEGIN,
    confirm=lambda lines: any(_STAT_LINE.match("\n".join(lines[:count])) for count in range(1, MAX_LINES + 1)),
    continues=re.compile(f"{_STAT_BEGIN.pattern}|{_STAT_TAIL.pattern}").match,
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
_STATUS_ONLY = re.compile(
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


def _pid_status_confirm(lines: list[str]) -> object:
    """Require a line unique to this file if the tab was replaced by blanks, because `Name: java` may be any text."""
    if re.match(r"[^\t]*:\t", lines[0]) or _STATUS_ONLY.match(lines[0]):
        return True
    rows = list(takewhile(_PID_STATUS_CONTINUES.match, lines))
    return len(rows) > 1 and any(map(_STATUS_ONLY.match, rows))


@dataclass(slots=True)
class _StatusProcess:
    """State of the current process: its keys, values, the citation of the first value, and THP_enabled."""

    pid: str
    comm: str = ""
    keys: set[str] = field(default_factory=set)
    values: dict[str, float] = field(default_factory=dict)
    first: Citation | None = None
    thp: tuple[int, Citation] | None = None
    state: str = ""
    switches: dict[str, int] = field(default_factory=dict)

    def add_switches(self) -> None:
        """Add the context switches of a sleeping single-threaded process.

        If the count of a sleeping task is the same in two snapshots, it did not run in between. A running task may have
        run without a switch. The file counts the switches of one thread only.
        """
        is_sleeping = self.state and self.state != "R"
        if is_sleeping and self.values.get("process_threads") == 1 and len(self.switches) == len(_SWITCHES):
            self.values["process_context_switches_total"] = float(sum(self.switches.values()))


@snapshots("pid_status")
def parse_pid_status(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield one sample per process and snapshot, and the last process.thp_enabled of each process."""
    thp_facts: dict[str, Fact] = {}
    for process in _status_processes(source, lines, errors):
        entity = process_entity(process.pid, process.comm)
        if process.thp is not None:
            value, cite = process.thp
            thp_facts[process.pid] = Fact("process.thp_enabled", value, cite, entity, time=source.time)
        process.add_switches()
        if process.first:
            yield Sample("process", process.values, process.first, PID_STATUS.name, entity)
    yield from thp_facts.values()


def _status_processes(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[_StatusProcess]:
    path = _PID_STATUS_PATH.search(source.path)
    path_pid = path[1] if path else "?"
    process = _StatusProcess(path_pid)
    for number, line, match in matches(lines, _PID_STATUS_LINE, errors, "not a line of this file"):
        prefix, key, text = match.groups()
        is_other = prefix and prefix.isdigit() and prefix != process.pid
        if process.keys and (key in process.keys or is_other):
            yield process
            process = _StatusProcess(path_pid)
        if prefix and prefix.isdigit():
            process.pid = prefix
        process.keys.add(key)
        if not _parse_status_value(process, key, text.strip(), source.cite(number, line)):
            errors.note(number, line, NOT_A_COUNT)
    yield process


def _parse_status_value(process: _StatusProcess, key: str, text: str, cite: Citation) -> bool:
    """Store a value; return False if it is invalid."""
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
MADVISED_HUGE = "process_asked_huge_bytes"


def _smaps_confirm(lines: list[str]) -> object:
    """Require a size after an address line, which may also be one of /proc/PID/maps."""
    return not re.match(_MAPPING, lines[0]) or (len(lines) > 1 and re.match(r"(?:Size|Rss):", lines[1]))


@dataclass(slots=True)
class _SmapsProcess:
    """State of the current process: its sums, and the keys and resident memory (Rss) of the current mapping."""

    pid: str
    cite: Citation
    address: int = -1
    keys: set[str] = field(default_factory=set)
    resident: float | None = None
    has_stack: bool = False  # [stack] is near the end, so the file is not truncated
    values: dict[str, float] = field(default_factory=dict)

    def sample(self) -> Iterator[Sample]:
        if not self.has_stack:
            self.values.pop(SUMMED["Size"], None)
        if self.values:
            yield Sample("process", self.values, self.cite, SMAPS.name, process_entity(self.pid))

    def add(self, name: str, value: float) -> None:
        self.values[name] = self.values.get(name, 0) + value


@snapshots("smaps")
def parse_smaps(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Sample]:
    """Yield one sample per process and snapshot."""
    path = _SMAPS_PATH.search(source.path)
    path_pid = path[1] if path else "?"
    process: _SmapsProcess | None = None
    for number, line, match in matches(lines, _SMAPS_LINE, errors, "not a line of this file"):
        pid = match[1] if match[1] and match[1].isdigit() else path_pid
        if process is not None and _is_next_snapshot(process, pid, match, source.path):
            yield from process.sample()
            process = None
        process = process or _SmapsProcess(pid, source.cite(number, line))
        if match[2]:
            process.address, process.resident = int(match[2], 16), None
            process.keys.clear()
            process.has_stack |= "[stack]" in match[0]
        else:
            _add_smaps_value(process, number, match, errors)
    if process:
        yield from process.sample()


def _is_next_snapshot(process: _SmapsProcess, pid: str, match: re.Match[str], path: str) -> bool:
    """Return whether this line belongs to another process or snapshot than the previous line."""
    if pid != process.pid:
        return True
    if match[2]:
        return "[rollup]" in match[0] or int(match[2], 16) <= process.address
    return path.endswith("smaps_rollup") and SUMMED.get(match[3]) in process.values


def _add_smaps_value(process: _SmapsProcess, number: int, match: re.Match[str], errors: ParseErrors) -> None:
    key, text = match[3], (match[4] or "").strip()
    if key == "VmFlags" and process.resident is not None:  # None if the Rss line is missing
        process.add(MADVISED_HUGE, process.resident if "hg" in text.split() else 0.0)
        process.resident = None
    if key not in SUMMED:
        return
    if process.address >= 0 and key in process.keys:
        errors.note(number, match.string, "a second value in one mapping, perhaps of /proc/meminfo; it is left out")
        return
    process.keys.add(key)
    value = parse_size(text)
    if value is None:
        errors.note(number, match.string, NOT_A_COUNT)
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
def parse_smaps_sum(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield a sample of the process with the sum."""
    rows = [(number, text) for number, text in lines if text.strip()]
    path, keys = _SUM_PATH.search(source.path), set(_KEYS.findall(source.command))
    program = _SUM.search(_STRING.sub('""', source.command))
    value = _SUM_LINE.match(rows[0][1]) if len(rows) == 1 else None
    if not rows or path is None:
        return
    if "*" in path["pid"] or "self" in path["pid"]:
        text = "a sum over smaps of all processes, or of awk itself: send `grep AnonHugePages /proc/meminfo`"
        errors.note(*rows[0], text)
        return
    operations = _OPERATION.findall(program["each"] + program["all"]) if program else []
    if value is None or program is None or program["rest"] or len(keys) != 1 or not all(int(n) for _, n in operations):
        errors.note(*rows[0], "a sum over smaps, of what is not clear: send /proc/PID/smaps_rollup")
    else:
        kilobytes = float(value["number"])
        for sign, number in operations:  # undo the operation
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
_NUMA_MAPS_PATH = re.compile(r"proc/(\d+)/(?:task/\d+/)?numa_maps$")
_PAGES = re.compile(r" N\d{1,4}=(\S+)")
_SIZE = re.compile(r" kernelpagesize_kB=(\d{1,9})\s*$")
_COUNTED = re.compile(r" (?:anon|dirty|mapped|N\d{1,4})=|=\d*$")
_LINE_FRAGMENT = re.compile(
    r"\s*(?:(?:anon|dirty|map(?:ped|max)|swapcache|active|writeback|N\d{1,4}|kernelpagesize_kB)=\d+\s*)+$"
)
_ANON = re.compile(r" anon=(\d{1,18}) ")
_LINE_FILTER = re.compile(r"\b(?:tail|[ef]?grep|sed|awk)\b")
_KIND = re.compile(r" (huge|heap|stack)(?= |$)")
NOT_WHOLE = "a part of a list of mappings (its stack is not there, or lines are broken): no sums are made of it"


@dataclass(slots=True)
class _Mappings:
    """The sums over the mappings of one process; `is_whole` if the list includes the stack."""

    pid: str
    cite: Citation
    address: int = -1
    is_whole: bool = False
    is_damaged: bool = False
    values: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, size: float) -> None:
        self.values[name] = self.values.get(name, 0.0) + size

    def sample(self, reader: str, comm: str = "") -> Iterator[Sample]:
        """Yield the sample, unless a sum is implausibly large."""
        if self.values and max(self.values.values()) <= MAX_QUANTITY:
            yield Sample("process", self.values, self.cite, reader, process_entity(self.pid, comm))


@snapshots("numa_maps")
def parse_numa_maps(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Sample]:
    """Yield one sample per process and snapshot."""
    path_pid = path[1] if (path := _NUMA_MAPS_PATH.search(source.path)) else "?"
    process: _Mappings | None = None
    for number, line in lines:
        if (match := _NUMA_MAPS.match(line)) is None:
            if process:
                process.is_damaged = True
            errors.note(number, line, "a broken line of numa_maps")
            continue
        pid, address = match[1] or path_pid, int(match[2], 16)
        if process is None or pid != process.pid or address <= process.address:
            yield from _complete_sample(process, errors)
            process = _Mappings(pid, source.cite(number, line), is_damaged=bool(_LINE_FILTER.search(source.command)))
        process.address = address
        process.is_damaged |= not _add_mapping(process, match[3])
    yield from _complete_sample(process, errors)


def _complete_sample(process: _Mappings | None, errors: ParseErrors) -> Iterator[Sample]:
    if process is not None and process.is_whole and not process.is_damaged:
        yield from process.sample("numa_maps")
    elif process is not None:
        errors.note(process.cite.line or 0, process.cite.text, NOT_WHOLE)


def _add_mapping(process: _Mappings, text: str) -> bool:
    """Add a mapping; return False if its line is truncated. The page size at the end is missing only without pages."""
    kind = match[1] if (match := _KIND.search(text)) else "private"
    process.is_whole |= kind == "stack"
    if not _COUNTED.search(text):
        return "kernelpagesize" not in text
    counts, size = [parse_count(count) for count in _PAGES.findall(text)], _SIZE.search(text)
    page = int(size[1]) * KIB if size else 0.0
    if page < PAGE_BYTES or int(page).bit_count() != 1 or None in counts:
        return False
    resident = sum(count for count in counts if count is not None) * page
    for name in (kind, "total"):
        process.add(f"process_numa_{name}_bytes", resident)
    if kind != "huge":
        process.add(SUMMED["Rss"], resident)
        process.add("process_rss_anon_bytes", int(anon[1]) * page if (anon := _ANON.search(text)) else 0.0)
    return True


NUMA_MAPS = Parser(
    "numa_maps", "/proc/PID/numa_maps", parse_numa_maps, opens=_NUMA_MAPS, continues=any_of(_NUMA_MAPS, _LINE_FRAGMENT),
    confirm=lambda lines: any(_PAGES.search(line) for line in lines if _NUMA_MAPS.match(line)),
)  # fmt: skip


_PROCESS = re.compile(r"(\d{1,10}):\s{1,4}(\S.*)$")
_PMAP_HEAD = re.compile(r"\s*Address\s+(?:Perm\s+Offset\s+Device\s+Inode\s+(Size\s.*)|Kbytes\s+(RSS\s.*))Mapping\s*$")
_ROW = re.compile(r"\s*[0-9a-f]{6,16}\s+(?:[r-][w-][x-][ps] [0-9a-f]{8,16}\s+\S+\s+\d+\s|(?:[\d-]+\s+){3}[r-][w-][x-])")
_RULE = re.compile(r"\s*(?:=+\s+)*=+\s*$|\s*-+\s+-+\s+-+\s+-+\s*$")
_SUMS = re.compile(r"\s*(?:total kB\s+)?((?:\d{1,16}\s+)*\d{1,16})(?:\s+KB)?\s*$")
_FLAGS = re.compile(r"\s\d+\s+(?:[a-z]{2} ){0,30}hg(?: |$)")
_OPTION_X_NAMES = {"Kbytes": "Size", "RSS": "Rss"}


@dataclass(slots=True)
class _Listing(_Mappings):
    """The list of pmap for one process; its last line has the sums of the columns."""

    comm: str = ""
    columns: list[str] = field(default_factory=list)

    def set_columns(self, head: re.Match[str]) -> None:
        """Set the columns that have a sum, in order."""
        names = ["Kbytes", *head[2].split()] if head[2] else head[1].split()
        self.columns = [_OPTION_X_NAMES.get(name, name) for name in names if name not in ("VmFlags", "Mode")]
        if "VmFlags" in head[0]:
            self.add(MADVISED_HUGE, 0.0)

    def add_row(self, line: str) -> None:
        """Add the memory marked for huge pages, which has no sum in the last line."""
        if self.columns and MADVISED_HUGE in self.values and _FLAGS.search(line):
            cells = dict(zip(self.columns, line.split()[5:], strict=False))
            self.add(MADVISED_HUGE, (parse_count(cells.get("Rss", "")) or 0) * KIB)

    def add_sums(self, sums: list[str]) -> None:
        for name, text in zip(self.columns, sums, strict=True):
            if name in SUMMED:
                self.values[SUMMED[name]] = int(text) * KIB
        self.columns = []


@snapshots("pmap")
def parse_pmap(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Sample]:
    """Yield one sample per process, cited at the line with its pid."""
    process = _Listing("?", source.cite(1))
    for number, line in lines:
        if title := _PROCESS.match(line):
            _note_cut(process, errors)
            process = _Listing(title[1], source.cite(number, line), comm=task_name(title[2]))
        elif head := _PMAP_HEAD.match(line):
            process.set_columns(head)
        elif _ROW.match(line):
            process.add_row(line)
        elif (sums := _SUMS.match(line)) and process.columns and len(cells := sums[1].split()) == len(process.columns):
            process.add_sums(cells)
            yield from process.sample("pmap", process.comm)
        elif line.strip() and not _RULE.match(line):
            errors.note(number, line, "not a line of pmap")
    _note_cut(process, errors)


def _note_cut(process: _Listing, errors: ParseErrors) -> None:
    if process.columns:
        errors.note(
            process.cite.line or 0, process.cite.text, "a list of pmap without its last line, the sums: not used"
        )


PMAP = Parser(
    "pmap", "pmap -x, -X, -XX", parse_pmap, opens=re.compile(rf"{_PROCESS.pattern}|{_PMAP_HEAD.pattern}"),
    continues=any_of(_PMAP_HEAD, _ROW, _RULE, _SUMS, re.compile(r"\d{1,10}:\s{3}\S")),
    confirm=lambda lines: any(_PMAP_HEAD.match(line) for line in lines[:2]),
)  # fmt: skip


_THPMAPS_HEAD = re.compile(r"\s*PID\s+START\s+END PROT\s+OFFSET\s+DEV\s+INODE OBJECT\s*$")
_VMA = re.compile(r"0{0,9}(\d{1,10}): [0-9a-f]{16}-[0-9a-f]{16} [r-][w-][x-][ps] ")
_STAT = r":\s{1,40}(\d{1,16}) kB(?:\s+\(\s*\d+%\))?\s*$"
_THP = re.compile(rf"((?:anon|file)-(?:thp|cont)-(?:(?:pmd|pte)-(?:un)?aligned-\d{{1,9}}kB|pte-partial)){_STAT}")
_SMAPS_STAT = re.compile(rf"[A-Z]\w{{1,20}}{_STAT}")  # printed with --inc-smaps
_SINGLE_PID = re.compile(r".*?--pid[= ](\d{1,10})(?!.*--pid)")
_PMD_MAPPED = "anon-thp-pmd-aligned-"


@snapshots("thpmaps")
def parse_thpmaps(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Sample]:
    """Yield one sample per process."""
    command = _SINGLE_PID.match(source.command)
    process: _Mappings | None = None
    first: tuple[int, str] | None = None
    for number, line in lines:
        first = first or (number, line)
        if match := _VMA.match(line):
            if process is None or match[1] != process.pid:
                yield from process.sample("thpmaps") if process else ()
                process = _Mappings(match[1], source.cite(number, line))
                process.add(SUMMED["AnonHugePages"], 0.0)
        elif match := _THP.match(line):
            if process is None and command:
                process = _Mappings(command[1], source.cite(number, line))
            if process is not None and match[1].startswith(_PMD_MAPPED):
                process.add(SUMMED["AnonHugePages"], int(match[2]) * KIB)
        elif line.strip() and not _THPMAPS_HEAD.match(line) and not _SMAPS_STAT.match(line):
            errors.note(number, line, "not a line of thpmaps'")
    if process is not None:
        yield from process.sample("thpmaps")
    elif first and not _THPMAPS_HEAD.match(first[1]):
        errors.note(*first, "sums of thpmaps whose command does not name one process: not used")


THPMAPS = Parser(
    "thpmaps", "thpmaps", parse_thpmaps, opens=re.compile(rf"{_THPMAPS_HEAD.pattern}|{_THP.pattern}"),
    continues=any_of(_THPMAPS_HEAD, _VMA, _THP, _SMAPS_STAT),
)  # fmt: skip
