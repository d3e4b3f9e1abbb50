"""Files of /proc about the system: stat, loadavg, uptime, version, cmdline, pressure, interrupts, softirqs.

/proc/stat: CPU time by mode since boot, and counts of interrupts, context switches and forks; also its first line only.

    cpu  2937 0 1627 190547 247 0 34 8 0 0
    btime 1662154781

Units: CPU times in ticks of 1/100 s on all distribution kernels (USER_HZ). Columns: user nice system idle iowait irq
softirq, then steal (2.6.11), guest (2.6.24), guest_nice (2.6.33); user includes guest time. Interrupts by number are
not read. Source: kernel tree, fs/proc/stat.c and Documentation/filesystems/proc.

/proc/loadavg: load averages, running and existing tasks, and the last process id.

    0.00 0.01 0.03 2/111 2039

Units: tasks that run or wait for I/O, averaged over 1, 5 and 15 minutes. The form never changed. Source: kernel tree,
fs/proc/loadavg.c.

Time since boot: /proc/uptime, and the `uptime` command (also the first line of `w`).

    46901.13 46856.66
     10:33:08 up 190 days,  3:12,  2 users,  load average: 0.00, 0.01, 0.05

Units: seconds since boot and idle seconds summed over CPUs in the file; the command rounds to minutes and prints the
local time of day, with `N min`, `H:MM` or `N days, ...`. The file contains only two numbers, so it is identified by its
path. Source: procps uptime(1), kernel tree fs/proc/uptime.c.

/proc/version: the running kernel and the compiler that built it.

    Linux version 3.10.0-229.14.1.el7.x86_64 (builder@kbuilder) (gcc version 4.8.3 ...) #1 SMP Tue Sep 15 2015

The form never changed. The same line in the kernel log follows a time or host and belongs to the log. Source: kernel
tree, init/version.c.

/proc/cmdline: the kernel command line from the boot loader.

    BOOT_IMAGE=/vmlinuz-3.10.0-229.14.1.el7.x86_64 root=/dev/mapper/sys-root ro quiet transparent_hugepage=never
    ro root=UUID=1b1c KEYBOARDTYPE=pc KEYTABLE=us rhgb quiet

One line. thp_anon= (6.12) sets individual sizes, transparent_hugepage_shmem= (6.12) shared memory; the facts have the
text after the sign. The kernel uses the last value of a repeated parameter. The file is identified by its path; in
other texts a line that begins with BOOT_IMAGE=, `ro root=` or `root=` is accepted. must-gather names it proc_cmdline.
Source: kernel tree, Documentation/admin-guide.

/proc/pressure/{cpu,io,memory}: the share of time in which tasks waited for a resource.

    some avg10=0.00 avg60=0.01 avg300=0.12 total=3640041
    full avg10=0.00 avg60=0.00 avg300=0.00 total=0

Units: percent averages over 10, 60 and 300 s, totals in microseconds; stored as ratios and seconds. The resource is in
the path only, or before each line in the output of grep; three successive pairs from `cat /proc/pressure/*` are cpu, io
and memory. Kernels from 4.20; `full` for cpu from 5.13; /proc/pressure/irq (6.1) is not read. Source: kernel tree,
Documentation/accounting/psi.rst.

/proc/interrupts and /proc/softirqs: interrupts by purpose.

               CPU0       CPU1
     24:          1          0  IO-APIC   5-edge      ACPI:Ged
    CAL:     120415     118020   Function call interrupts
    TLB:       9213       8120   TLB shootdowns

Units: counts since boot, one column per online CPU. Rows of devices are skipped. Of the others, the sums over all CPUs
of those that compaction causes are read: TLB shootdowns (x86 only), function calls (CAL on x86, without those of TLB
since 3.7; IPIn on arm64, where flushes need none), rescheduling. They are identified by the kernel's descriptions,
because the names in the first column differ between architectures. ERR and MIS have one column.

                        CPU0       CPU1
          HI:          0          1
      NET_RX:      12345      23456

A row with fewer columns than the header has CPUs is truncated and is left out. Source: kernel tree, kernel/irq/proc.c,
arch/x86/kernel/irq.c, arch/arm64/kernel/smp.c, fs/proc/softirqs.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Citation, Clock, Fact, Moment, Problem, ProblemKind, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, Row, counts_of, matches, snapshots, system_samples, with_errors
from thpdiag.parsers._time import MAX_UNDER_A_MINUTE, day_seconds
from thpdiag.parsers._units import parse_count, parse_fraction

TICKS_PER_SECOND = 100
MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
COUNTS = {
    "ctxt": "node_context_switches_total",
    "intr": "node_intr_total",
    "processes": "node_forks_total",
    "procs_running": "node_procs_running",
    "procs_blocked": "node_procs_blocked",
    "btime": "node_boot_time_seconds",
}
_PROC_STAT_OPENS = re.compile(
    r"cpu\d{0,5} +-?\d+(?: +-?\d+){3,9}\s*$|(?:ctxt|btime|processes|procs_running|procs_blocked) +\d+\s*$|"
    r"intr \d+(?: |$)"
)
_CONTINUES = re.compile(
    r"(?:ctxt|btime|procs_running|procs_blocked)\b|(?:cpu\d{0,5}|intr|processes|softirq|page|swap|disk_io:)(?:\s+-?\d|\s*$)"
)
_CPU = re.compile(r"cpu(\d{0,5})\s")


@snapshots("proc_stat")
def parse_proc_stat(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield a system sample and one per CPU for each snapshot, and the number of CPUs."""
    system: dict[str, float] = {}
    first: list[Citation] = []  # of the snapshot; empty if it has no values yet
    cpus: list[Sample] = []
    has_count = False
    for number, line in lines:
        if not (words := line.split()):
            continue
        cpu = _CPU.match(line)
        values = (
            _parse_times(number, line, words[1:], errors) if cpu else _parse_count_line(number, line, words, errors)
        )
        if cpu and cpu[1]:
            if values:
                cpus.append(Sample("cpu", values, source.cite(number, line), PROC_STAT.name, (("cpu", cpu[1]),)))
            continue
        if any(name in system for name in values):
            yield from (Sample("system", system, cite, PROC_STAT.name) for cite in first)
            yield from cpus
            system, first, cpus = {}, [], []
        if cpus and not cpu and not has_count:  # a line after the CPUs shows that they are complete
            has_count = True
            yield Fact("cpu.count", len(cpus), cpus[0].cite, time=source.time)
        if values:
            first = first or [source.cite(number, line)]
            system |= values
    yield from (Sample("system", system, cite, PROC_STAT.name) for cite in first)
    yield from cpus


def _parse_times(number: int, line: str, columns: list[str], errors: ParseErrors) -> dict[str, float]:
    """Return CPU seconds by mode; {} if the line is short, because its last column may be truncated."""
    if len(columns) < 4:
        errors.note(number, line, "a CPU line with fewer than four times; it is left out")
        return {}
    ticks = counts_of(number, line, (f"node_cpu_seconds_total.{mode}" for mode in MODES), columns, errors)
    return {name: count / TICKS_PER_SECOND for name, count in ticks.items()}


def _parse_count_line(number: int, line: str, words: list[str], errors: ParseErrors) -> dict[str, float]:
    if name := COUNTS.get(words[0]):
        return counts_of(number, line, [name], words[1:2] or [""], errors)
    if not _CONTINUES.match(line):
        errors.note(number, line, "not a line of this file")
    return {}


PROC_STAT = Parser("proc_stat", "/proc/stat", parse_proc_stat, opens=_PROC_STAT_OPENS, continues=_CONTINUES.match)


_LOADAVG_LINE = re.compile(r"(\d{1,7}\.\d\d) \d{1,7}\.\d\d \d{1,7}\.\d\d (\d{1,7})/\d{1,7} \d{1,10}\s*$")


@snapshots("loadavg")
def parse_loadavg(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Sample]:
    """Yield one system sample per line."""
    for number, line, match in matches(lines, _LOADAVG_LINE, errors, "not a line of load averages"):
        values = {"node_load1": float(match[1]), "node_procs_running": float(match[2])}
        yield Sample("system", values, source.cite(number, line), LOADAVG.name)


LOADAVG = Parser(
    name="loadavg", title="/proc/loadavg", read=parse_loadavg, opens=_LOADAVG_LINE, continues=_LOADAVG_LINE.match
)


_FILE = re.compile(r"\s*(\S+)(?:\s+(\S+))?\s*$")
_COMMAND = re.compile(
    r"\s*(?:(\d{1,2}):(\d\d)(?::(\d\d))? {0,3}([AaPp][Mm])?\s+)?up\s{1,9}(?:(\d{1,6}) days?,?\s{0,9})?"
    r"(?:(\d{1,3}):(\d\d)|(\d{1,3}) min|(\d{1,3}) hrs?)?"
    r",?\s{0,9}(?:\d{1,9} users?,?\s{0,9})?load averages?:\s{0,9}(\d{1,9}[.,]\d\d)\b"
)
_UPTIME_OPENS = re.compile(r"\s*(?:\d{1,2}:\d\d(?::\d\d)? {0,3}(?:[AaPp][Mm])?\s+)?up\s+\d[\w ,:]{1,60}load average")


@with_errors("uptime")
def parse_uptime(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield uptime.seconds, and the load average if the command prints it."""
    for number, line in lines:
        if command := _COMMAND.match(line):
            yield from _command_records(source, number, line, command)
        elif (file := _FILE.match(line)) and file[2] and (seconds := parse_fraction(file[1])) is not None:
            yield Fact("uptime.seconds", seconds, source.cite(number, line), time=source.time)
        elif line.strip():
            errors.note(number, line, "neither two numbers nor a line of the uptime command")


def _command_records(source: Source, number: int, line: str, match: re.Match[str]) -> Iterator[Record]:
    days, hours, minutes, only_minutes, only_hours = (int(text or 0) for text in match.groups()[4:9])
    uptime = days * 86400 + (hours + only_hours) * 3600 + (minutes + only_minutes) * 60
    time, cite = source.time, source.cite(number, line)
    if not time and match[1]:
        seconds = day_seconds(f"{match[1]}:{match[2]}:{match[3] or '00'}", match[4] or "")
        time = None if seconds is None else Moment(seconds, Clock.DAY)
    yield Fact("uptime.seconds", uptime or MAX_UNDER_A_MINUTE, cite, time=time)
    yield Sample("system", {"node_load1": float(match[10].replace(",", "."))}, cite, UPTIME.name, time=time)


UPTIME = Parser(
    "uptime", "/proc/uptime and uptime", parse_uptime, opens=_UPTIME_OPENS, continues=_UPTIME_OPENS.match,
    paths=(re.compile(r"(?:^|/)proc/uptime$"),),
)  # fmt: skip


_PROC_VERSION_LINE = re.compile(r"Linux version (\d{1,3}\.\d{1,5}\S{0,100})(?: (.*))?$")


def parse_proc_version(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield kernel.release and kernel.build."""
    for number, line in lines:
        if match := _PROC_VERSION_LINE.match(line):
            cite = source.cite(number, line)
            yield Fact("kernel.release", match[1], cite, time=source.time)
            if match[2]:
                yield Fact("kernel.build", match[2].strip(), cite, time=source.time)


PROC_VERSION = Parser(
    "proc_version", "/proc/version", parse_proc_version, opens=_PROC_VERSION_LINE, continues=_PROC_VERSION_LINE.match
)


_CMDLINE_OPENS = re.compile(r"(?:BOOT_IMAGE=\S|(?:ro |rw )?root=(?:/dev/|UUID=|LABEL=)\S)")
_TERMINAL_WIDTHS = (80, 100, 120, 132)  # columns at which a pasted line may be truncated or wrapped
_THP = re.compile(r'(?:^|[\s"])(transparent_hugepage(?:_shmem)?|thp_anon)=([\w+,;:-]{1,200})(?=["\s]|$)')


def parse_cmdline(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield boot.cmdline, and the parameters for huge pages."""
    # The file itself, or its copy by a collector, was not printed on a terminal.
    is_whole = source.member.endswith("cmdline") or (not source.command and source.path.endswith("cmdline"))
    for number, line in lines:
        text = line.replace("\0", " ").strip()
        if not text:
            continue
        cite = source.cite(number, line)
        if text.endswith("...") or (len(line) in _TERMINAL_WIDTHS and not is_whole):
            text = "a kernel command line whose end may be cut off: the last setting counts, which is not known"
            yield Problem(cite, text, ProblemKind.ODD, CMDLINE.name)
            continue
        yield Fact("boot.cmdline", text, cite, time=source.time)
        for name, word in dict(_THP.findall(text)).items():  # the last value of each
            yield Fact(f"boot.{name}", word, cite, time=source.time)


CMDLINE = Parser(
    "cmdline", "/proc/cmdline", parse_cmdline, opens=_CMDLINE_OPENS, continues=_CMDLINE_OPENS.match,
    paths=(re.compile(r"(?:^|/)proc[/_]cmdline$"),),
)  # fmt: skip


_PRESSURE_OPENS = re.compile(r"(?:\S{0,200}pressure/\w+:)?(?:some|full) avg10=")
_PRESSURE_LINE = re.compile(
    r"(?:\S{0,200}pressure/(\w+):)?(some|full) avg10=(\S+) avg60=(\S+) avg300=(\S+) total=(\S+)\s*$"
)
_PATH = re.compile(r"pressure/(\w+)$|/(cpu|io|memory)\.pressure$")
_WORD = {"some": "waiting", "full": "stalled"}
_ORDER = ("cpu", "io", "memory")


@snapshots("pressure")
def parse_pressure(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Sample]:
    """Yield one system sample per snapshot."""
    return system_samples(source, PRESSURE.name, _pressure_rows(source, lines, errors))


def _pressure_rows(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Row]:
    path = _PATH.search(source.path)
    path_resource = "a cgroup" if path and path[2] else path[1] if path else None
    pair = -1
    for number, line, match in matches(lines, _PRESSURE_LINE, errors, "not a pressure line"):
        pair += match[2] == "some"
        resource = match[1] or path_resource or (_ORDER[pair % 3] if source.path.endswith("pressure/*") else "")
        if resource in _ORDER:
            yield from _pressure_values(number, line, resource, match, errors)
        elif resource != "irq":
            reason = "pressure of a cgroup" if resource else "the path that names the resource is missing"
            errors.note(number, line, reason)


def _pressure_values(number: int, line: str, resource: str, match: re.Match[str], errors: ParseErrors) -> Iterator[Row]:
    for window, text in zip(("10", "60", "300"), match.groups()[2:5], strict=True):
        percent = parse_fraction(text)
        if percent is None or percent > 100:
            errors.note(number, line, "an average that is not a percentage; it is left out")
        else:
            yield number, line, f"node_pressure_{resource}_{match[2]}_avg{window}", percent / 100
    total = parse_count(match[6])
    if total is None:
        errors.note(number, line, "a total that is not a count of microseconds; it is left out")
    else:
        yield number, line, f"node_pressure_{resource}_{_WORD[match[2]]}_seconds_total", total / 1e6


PRESSURE = Parser(
    name="pressure", title="/proc/pressure", read=parse_pressure, opens=_PRESSURE_OPENS, continues=_PRESSURE_OPENS.match
)


_CPU_HEADER = re.compile(r"\s+CPU\d{1,5}(?:\s+CPU\d{1,5})*\s*$")
_COUNTS = r"(?P<counts>(?:\s+\d{1,20})+)"
_INTERRUPT = re.compile(rf"\s{{0,12}}(?P<name>\d{{1,6}}|[A-Z][A-Z0-9]{{1,7}}):{_COUNTS}(?P<words>(?:\s+\S.*)?)$")
_KINDS = "HI|TIMER|NET_TX|NET_RX|BLOCK|IRQ_POLL|BLOCK_IOPOLL|TASKLET|SCHED|HRTIMER|RCU"
_SOFTIRQ = re.compile(rf"\s{{0,12}}(?P<name>{_KINDS}):{_COUNTS}\s*$")
_USES = (
    (re.compile(r"TLB shootdowns$"), "node_interrupts_total.tlb_shootdowns"),
    (re.compile(r"[Ff]unction call interrupts$"), "node_interrupts_total.function_calls"),
    (re.compile(r"Rescheduling interrupts$"), "node_interrupts_total.rescheduling"),
)


def _interrupt_rows(
    lines: Lines, row: re.Pattern[str], errors: ParseErrors
) -> Iterator[tuple[int, str, re.Match[str], float]]:
    """Yield (number, line, match, sum) of each row that has a count for every CPU."""
    cpus = 0
    for number, line in lines:
        if _CPU_HEADER.match(line):
            cpus = line.count("CPU")
        elif (match := row.match(line)) is None:
            if line.strip():
                errors.note(number, line, "not a row of interrupts")
        elif len(counts := match["counts"].split()) >= cpus > 0:
            yield number, line, match, float(sum(map(int, counts[:cpus])))
        elif match["name"] not in ("ERR", "MIS"):
            errors.note(number, line, "the row has fewer columns than there are CPUs, it may be cut; it is left out")


@snapshots("interrupts")
def parse_interrupts(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Sample]:
    """Yield one sample of the host per snapshot."""

    def rows() -> Iterator[Row]:
        for number, line, match, total in _interrupt_rows(lines, _INTERRUPT, errors):
            words = match["words"].strip()
            name = next((metric for use, metric in _USES if use.search(words)), None)
            if name and not match["name"].isdecimal():
                yield number, line, name, total

    yield from system_samples(source, INTERRUPTS.name, rows())


@snapshots("softirqs")
def parse_softirqs(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Sample]:
    """Yield one sample of the host per snapshot: all kinds together, and those of the network."""

    def rows() -> Iterator[Row]:
        total, last = 0.0, (0, "")
        for number, line, match, count in _interrupt_rows(lines, _SOFTIRQ, errors):
            if match["name"] == "HI" and last[0]:
                yield *last, "node_softirqs_total", total
                total = 0.0
            total, last = total + count, (number, line)
            if match["name"] in ("NET_RX", "NET_TX"):
                yield number, line, f"node_softirqs_total.{match['name'].lower()}", count
        if last[0] and " RCU:" in last[1]:  # the last row of the file, so it is complete
            yield *last, "node_softirqs_total", total

    yield from system_samples(source, SOFTIRQS.name, rows())


INTERRUPTS = Parser(
    "interrupts", "/proc/interrupts", parse_interrupts, opens=_CPU_HEADER,
    continues=lambda text: bool(_CPU_HEADER.match(text) or _INTERRUPT.match(text)),
    confirm=lambda ahead: any(_INTERRUPT.match(t) and not _SOFTIRQ.match(t) for t in ahead[1:2]),
)  # fmt: skip
SOFTIRQS = Parser(
    "softirqs", "/proc/softirqs", parse_softirqs, opens=_CPU_HEADER,
    continues=lambda text: bool(_CPU_HEADER.match(text) or _SOFTIRQ.match(text)),
    confirm=lambda ahead: any(_SOFTIRQ.match(t) for t in ahead[1:2]),
)  # fmt: skip
