"""Summaries of one kind of event: perf kvm stat, c2c report, lock contention, sched latency.

perf kvm stat report: the reasons for which virtual machines exit to the host, and their cost.

                 VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time
           EPT_VIOLATION      41234    40.12%    62.31%      1.05us   2913.40us      9.12us ( +-   1.20% )

In EPT_VIOLATION (NPF on AMD) the host backs a first touch of the guest's memory with small or huge pages of its own.
Source: tools/perf/builtin-kvm.c (to 6.3; later in columns that can be sorted).

perf c2c report: cache lines that several CPUs modify.

      Load Operations                   :      12345
      Load Local HITM                   :        123
Source: tools/perf/builtin-c2c.c (print_c2c__display_stats).

perf lock contention: waits for kernel locks, by caller (or with -t by task).

     contended   total wait     max wait     avg wait         type   caller

            47      2.60 s     126.05 ms     55.31 ms      rwsem:W   __x64_sys_munmap+0x17
                            0xffffffff821fcd5f  rwsem_down_write_slowpath+0x37f

With -v the kernel's stack follows a row, leaf first; the caller is its first function that does not belong to locking.
Units: as printed; with -x nanoseconds in separated fields, with the stack after the caller. Used are the waits in
compaction, by khugepaged, and for the lock of an address space, according to all functions of a row and its stack.
Source: tools/perf/builtin-lock.c; recorded with perf 6.1 (since 5.20; `-b` with BPF prints the same); -x of 6.6 to 6.18
is reconstructed.

perf sched latency: how long tasks that could run waited for a CPU.

      Task                  |   Runtime ms  | Switches | Avg delay ms    | Max delay ms    | ...
      churn:(5)             |   2262.159 ms |      564 | avg:  40.677 ms | max: 108.177 ms | ...

Units: milliseconds. `name:(5)` are five tasks of that name, `name:22460` is one. Waiting for a CPU is not waiting for
memory: it shows that there are too few CPUs. Source: tools/perf/builtin-sched.c; recorded with perf 6.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.knowledge.symbols import families_of, normalise
from thpdiag.model import Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, any_of, printable, with_errors

KVM_HEAD = re.compile(r"\s{1,30}(?:VM-EXIT|Event name)\s+Samples\s+(?:Samples%|Sample%)\s+Time%\s+Min Time")
KVM_ROW = re.compile(
    r"\s{0,30}(?P<event>[A-Za-z][\w.:/-]{1,40})\s+(?P<count>\d{1,15})\s+[\d.]{1,6}%\s+(?P<time>\d{1,3}\.\d\d)%"
    r"\s+[\d.]{1,15}us\s"
)
KVM_IGNORED = re.compile(r"Analyze events for |Total Samples:\d{1,15}, Total events handled time:|\s{0,4}Total\s|#")
FIRST_TOUCH_EXITS = ("EPT_VIOLATION", "EPT_MISCONFIG", "npf", "NPF", "EPT violation")


@with_errors("perf_kvm")
def read_kvm_stat(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """The share of the host's time that was spent for the guest's memory."""
    for number, text in lines:
        if match := KVM_ROW.match(text):
            if match["event"] in FIRST_TOUCH_EXITS:
                labels = (("event", match["event"]), ("times", match["count"]))
                ratio, cite = round(float(match["time"]) / 100, 6), source.cite(number, text)
                yield Fact("kvm.memory_exit_ratio", ratio, cite, labels)
        elif text.strip() and not (KVM_HEAD.match(text) or KVM_IGNORED.match(text)):
            errors.note(number, text, "a line that perf kvm stat does not print")


C2C_HEAD = re.compile(r"\s{4,20}Trace Event Information\s*$|={40,60}\s*$")
C2C_IGNORED = re.compile(  # tables of cache lines: shares of accesses, not of CPU time
    r"\s{0,40}(?:#|-{20}|\d{1,6}(?:\s+\d{1,12}){0,8}\s+0x[0-9a-f]|(?:\d{1,3}\.\d\d%\s+){3,8}0x[0-9a-f])"
    r"|\s{4,20}[A-Z][\w ]{2,60}\s*$|\s{1,6}[A-Z][^:]{2,60}:\s+\S.{0,40}$"
)
C2C_ROW = re.compile(r"\s{1,6}(?P<name>[A-Z][A-Za-z0-9 ,/()-]{2,40}?)\s+:\s+(?P<count>\d{1,15})\s*$")


@with_errors("perf_c2c")
def read_c2c_report(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """The share of loads whose cache line another CPU had modified."""
    counts: dict[str, tuple[int, int, str]] = {}
    for number, text in lines:
        if match := C2C_ROW.match(text):
            counts.setdefault(match["name"], (int(match["count"]), number, text))
        elif text.strip() and not (C2C_HEAD.match(text) or C2C_IGNORED.match(text)):
            errors.note(number, text, "a line that perf c2c report does not print here")
    loads = counts.get("Load Operations")
    modified = [counts[name] for name in ("Load Local HITM", "Load Remote HITM") if name in counts]
    if loads and loads[0] and modified:
        ratio = sum(count for count, _, _ in modified) / loads[0]
        yield Fact("c2c.hitm_ratio", round(min(ratio, 1.0), 6), source.cite(*max(modified)[1:]))


KVM = Parser(
    "perf_kvm", "perf kvm stat", read_kvm_stat, opens=KVM_HEAD,
    continues=any_of(KVM_HEAD, KVM_ROW, KVM_IGNORED, blank=True),
)  # fmt: skip
C2C = Parser(
    "perf_c2c", "perf c2c report", read_c2c_report, opens=re.compile(r"\s{4,20}Trace Event Information\s*$"),
    continues=any_of(C2C_HEAD, C2C_ROW, C2C_IGNORED, blank=True),
)  # fmt: skip


_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0}
_WAIT = r"(\d{1,12}(?:\.\d{1,3})?) (ns|us|ms|s|sec|m)"
LOCK_HEAD = re.compile(
    r"\s{1,8}contended\s+total wait\s+max wait\s+avg wait\s+(?:type\s+caller|pid\s+comm|address\s+symbol)\s*$"
)
LOCK_ROW = re.compile(
    rf"\s{{0,20}}(?P<times>\d{{1,12}})\s+{_WAIT}\s+{_WAIT}\s+{_WAIT}"
    rf"\s+(?P<type>[a-z][\w:-]{{1,20}}|-?\d{{1,10}})\s+(?P<caller>\S.{{0,120}})$"
)
LOCK_FIELDS = re.compile(r"# output: contended[^\w\s] ?total wait[^\w\s] ?max wait[^\w\s] ?avg wait[^\w\s]")
LOCK_FIELDS_ROW = re.compile(
    r"\d{1,12}[^\w\s] ?(?P<ns>\d{1,18})[^\w\s] ?\d{1,18}[^\w\s] ?\d{1,18}[^\w\s] ?"
    r"(?:r?spin(?:lock)?|mutex|semaphore|rt-mutex|rwsem|rwlock(?:-rt)?|pcpu-sem)(?::[RW])?[^\w\s]? ?"
    r"(?P<caller>\S.{0,2000})$"
)
_FUNCTION = re.compile(r"([A-Za-z_][\w.]{1,120})(?:\+0x|\s|[,;]|$)")
LOCK_FRAME = re.compile(r"\s{2,40}0x[0-9a-f]{6,16}\s+(?P<function>\S{0,120}?)(?:\+0x[0-9a-f]{1,8})?\s*$")
_is_lock_heading = any_of(LOCK_HEAD, LOCK_FIELDS, blank=True)
FAMILIES = ("compaction", "khugepaged", "mmap_lock")


def wait_seconds(row: re.Match[str]) -> float:
    """Return the total wait of a row; -x prints nanoseconds."""
    return float(row["ns"]) * 1e-9 if row.re is LOCK_FIELDS_ROW else float(row[2]) * _SECONDS[row[3]]


@with_errors("perf_lock")
def read_lock_contention(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Seconds of all waits, and of those of each family of functions."""
    total, first = 0.0, (0, "")
    by_family: dict[str, list[tuple[float, int, str]]] = {}
    row: tuple[float, int, str] | None = None
    seen: set[str] = set()

    def add_families(*functions: str) -> None:
        known = {family for function in functions for family in families_of(normalise(function))}
        for family in known & set(FAMILIES) - seen:
            seen.add(family)
            if row is not None:
                by_family.setdefault(family, []).append(row)

    for number, text in lines:
        if match := LOCK_ROW.match(text) or LOCK_FIELDS_ROW.match(text):
            row, seen = (wait_seconds(match), number, text), set()
            total, first = total + row[0], first if first[0] else (number, text)
            add_families(*_FUNCTION.findall(match["caller"]))
        elif (frame := LOCK_FRAME.match(text)) and row is not None:
            add_families(frame["function"])
        elif not _is_lock_heading(text):
            errors.note(number, text, "a line that perf lock contention does not print")
    if first[0]:
        yield Fact("lock.wait_seconds", round(total, 9), source.cite(*first), (("of", "all"),))
    for family, rows in by_family.items():
        longest = max(rows)
        seconds = sum(seconds for seconds, _, _ in rows)
        yield Fact("lock.wait_seconds", round(seconds, 9), source.cite(*longest[1:]), (("of", family),))
        ratio = round(seconds / total, 6) if total else 0.0
        yield Fact("lock.wait_ratio", ratio, source.cite(*longest[1:]), (("of", family),))


SCHED_HEAD = re.compile(
    r"\s{0,4}Task\s+\|\s+Runtime ms\s+\|\s+(?:Switches|Count)\s+\|\s+(?:Avg|Average) delay ms\s+\|"
    r"\s+(?:Max|Maximum) delay ms\s+\|"
)
SCHED_ROW = re.compile(
    r"\s{0,4}(?P<comm>\S.{0,20}?):(?P<tasks>\(\d{1,6}\)|-?\d{1,10})\s+\|\s+(?P<run>\d{1,12}(?:\.\d{1,6})?) ms \|"
    r"\s+(?P<switches>\d{1,12}) \|\s{1,4}avg:?\s{0,8}(?P<avg>\d{1,12}(?:\.\d{1,6})?) ms \|"
    r"\s{1,4}max:?\s{0,8}(?P<max>\d{1,12}(?:\.\d{1,6})?) ms \|"
)
SCHED_IGNORED = re.compile(r"\s{0,4}-{20,200}\s*$|\s{0,4}TOTAL:\s+\||\s{0,4}INFO: ")
MIN_SWITCHES = 20  # for a mean delay


@with_errors("perf_sched")
def read_sched_latency(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """The mean delay of the tasks of one name that switched often enough, the longest first."""
    rows: list[tuple[float, int, str, re.Match[str]]] = []
    rarely_switched: list[tuple[int, str]] = []
    for number, text in lines:
        if match := SCHED_ROW.match(text):
            if int(match["switches"]) >= MIN_SWITCHES:
                rows.append((float(match["avg"]), number, text, match))
            else:
                rarely_switched.append((number, text))
        elif text.strip() and not (SCHED_HEAD.match(text) or SCHED_IGNORED.match(text)):
            errors.note(number, text, "a line that perf sched latency does not print")
    for mean, number, text, match in sorted(rows, key=lambda row: (-row[0], row[1]))[:10]:
        labels = (
            ("comm", printable(match["comm"])), ("switches", match["switches"]), ("longest", f"{match['max']} ms"),
        )  # fmt: skip
        yield Fact("sched.delay_mean", round(mean / 1000, 9), source.cite(number, text), labels)
    if rarely_switched and not rows:
        errors.note(*rarely_switched[0], f"no task switched {MIN_SWITCHES} times: too few for a mean delay")


LOCK = Parser(
    "perf_lock", "perf lock contention", read_lock_contention,
    opens=re.compile(rf"{LOCK_HEAD.pattern}|{LOCK_FIELDS.pattern}"),
    continues=any_of(LOCK_HEAD, LOCK_ROW, LOCK_FRAME, LOCK_FIELDS, LOCK_FIELDS_ROW, blank=True),
)  # fmt: skip
SCHED = Parser(
    "perf_sched", "perf sched latency", read_sched_latency, opens=SCHED_HEAD,
    continues=any_of(SCHED_HEAD, SCHED_ROW, SCHED_IGNORED, blank=True),
)  # fmt: skip
