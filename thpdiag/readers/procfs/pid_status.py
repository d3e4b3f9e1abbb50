"""/proc/PID/status: memory and threads of one process, one `Name:<tab>value` per line; also grep'ed lines and loops.

    VmRSS:	    1700 kB
    Threads:	1

Units: kB is 1024 bytes. VmSwap exists from 2.6.34 (and on RHEL 6), RssAnon, RssFile and RssShmem from 4.5; THP_enabled
(5.0 class) is 0 for a process that may have no huge pages. Kernel
threads have no Vm lines. The process is named by the Pid line, else by the path; when an excerpt has neither, its pid
is `?`. In the name of a command the kernel prints a newline as \\n and a backslash as \\\\. Source: kernel tree,
fs/proc/array.c and task_mmu.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.dated import dated
from thpdiag.readers.elements.kernel_numbers import NOT_A_COUNT, size, whole
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.tasks import entity

_GREP = r"(?:\S{0,200}proc/[\w*]+/(?:task/\w+/)?status:)?"
_NAME = (
    r"(?:Name|Umask|State|Tgid|Ngid|Pid|PPid|TracerPid|Uid|Gid|FDSize|Groups|NS(?:tgid|pid|pgid|sid)|Kthread|"
    r"Vm(?:Peak|Size|Lck|Pin|HWM|RSS|Data|Stk|Exe|Lib|PTE|PMD|Swap)|Rss(?:Anon|File|Shmem)|HugetlbPages|CoreDumping|THP_enabled|"
    r"untag_mask|Threads|Sig(?:Q|Pnd|Blk|Ign|Cgt)|ShdPnd|Cap(?:Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp(?:_filters)?|"
    r"Speculation\w+|x86_Thread_\w+|Cpus_allowed(?:_list)?|Mems_allowed(?:_list)?|(?:non)?voluntary_ctxt_switches|Utrace|SleepAVG)"
)
_OPENS = re.compile(
    rf"\s*{_GREP}(?:Name:\t\S|(?:Umask|State|Tgid|Ngid|Pid|PPid|TracerPid|Threads):\t\s*\S|"
    r"(?:Vm(?:Peak|Size|Lck|Pin|HWM|RSS|Data|Stk|Exe|Lib|PTE|PMD|Swap)|Rss(?:Anon|File|Shmem)):\s+\S+\s+kB|"
    r"THP_enabled:\s+[01]\s*$)"
)
_LINE = re.compile(rf"\s*(?:\S{{0,200}}proc/([\w*]+)/(?:task/\w+/)?status:)?({_NAME}):(.*)$")
_CONTINUES = re.compile(rf"\s*{_GREP}{_NAME}:")
_PATH = re.compile(r"proc/(\d+)/(?:task/\d+/)?status$")
_SIZES = {
    "VmSize": "process_virtual_memory_bytes",
    "VmRSS": "process_resident_memory_bytes",
    "RssAnon": "process_rss_anon_bytes",
    "RssShmem": "process_rss_shmem_bytes",
    "VmSwap": "process_swap_bytes",
    "VmLck": "process_locked_bytes",
}


class _Process:
    """The process that is being read."""

    def __init__(self, pid: str) -> None:
        self.pid = pid
        self.comm = ""
        self.keys: set[str] = set()
        self.values: dict[str, float] = {}
        self.thp: tuple[int, str, int] | None = None
        self.first: tuple[int, str] = (0, "")

    def sample(self, source: Source) -> Iterator[Sample]:
        if self.values:
            cite, who = source.cite(*self.first), entity(self.pid, self.comm)
            yield Sample("process", self.values, cite, READER.name, who)

    def fact(self, source: Source) -> Iterator[Fact]:
        """Whether it may have huge pages."""
        if self.thp is not None:
            number, line, value = self.thp
            labels = entity(self.pid, self.comm)
            yield Fact("process.thp_enabled", value, source.cite(number, line), labels, time=source.time)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One sample per process and snapshot, and what was last said of its huge pages."""
    odd, said = Oddities(source, READER.name), dict[str, Fact]()
    yield from dated(source, _samples(source, lines, odd, said))
    yield from said.values()
    yield from odd.problems()


def _samples(source: Source, lines: Lines, odd: Oddities, said: dict[str, Fact]) -> Iterator[Sample]:
    for process in _processes(source, lines, odd):
        said.update((process.pid, fact) for fact in process.fact(source))
        yield from process.sample(source)


def _processes(source: Source, lines: Lines, odd: Oddities) -> Iterator[_Process]:
    path = _PATH.search(source.path)
    named = path[1] if path else "?"
    process = _Process(named)
    for number, line in lines:
        found = _LINE.match(line)
        if not found:
            if line.strip():
                odd.note(number, line, "not a line of this file")
            continue
        prefix, key, text = found.groups()
        other = prefix and prefix.isdigit() and prefix != process.pid
        if process.keys and (key in process.keys or other):
            yield process
            process = _Process(named)
        if prefix and prefix.isdigit():
            process.pid = prefix
        process.keys.add(key)
        _line(process, number, line, key, text.strip(), odd)
    yield process


def _line(process: _Process, number: int, line: str, key: str, text: str, odd: Oddities) -> None:
    if key == "Name":
        process.comm = text.replace("\\n", "\n").replace("\\\\", "\\")
    elif key == "Pid" and text.isdigit():
        process.pid = text
    elif key == "THP_enabled":
        if text not in ("0", "1"):
            odd.note(number, line, NOT_A_COUNT)
            return
        process.thp = (number, line, int(text))
    elif key == "Threads" or key in _SIZES:
        value = whole(text) if key == "Threads" else size(text)
        if value is None:
            odd.note(number, line, NOT_A_COUNT)
            return
        if not process.values:
            process.first = (number, line)
        process.values[_SIZES.get(key, "process_threads")] = value


READER = Reader(
    name="pid_status",
    title="/proc/PID/status",
    read=read,
    opens=_OPENS,
    continues=_CONTINUES.match,
)
