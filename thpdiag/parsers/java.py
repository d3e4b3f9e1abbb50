"""Java virtual machine (HotSpot): options and memory, garbage collection pauses, recordings of Flight Recorder.

Options: -XX:+PrintFlagsFinal and `jcmd PID VM.flags -all`, of which the options about huge pages, heap and stacks are
read; hs_err_pid files and `jcmd PID VM.info`; the first lines of JDK 8's garbage collection log:

    jvm_args: -Xmx16g -XX:+UseTransparentHugePages -XX:+AlwaysPreTouch
    CommandLine flags: -XX:InitialHeapSize=17179869184 -XX:MaxHeapSize=17179869184 -XX:+UseTransparentHugePages
         bool UseTransparentHugePages                  = true                 {product} {command line}
       size_t MaxHeapSize                              = 6320816128           {product} {ergonomic}
         bool UseTransparentHugePages                 := true            {product}          JDK 8: `:=` is no default

Native memory tracking, `jcmd PID VM.native_memory summary` (KB, MB or GB, or bytes with scale=B):

    Total: reserved=2564454KB, committed=1191078KB
    -                 Java Heap (reserved=1048576KB, committed=1048576KB)
    -                    Thread (reserved=24640KB, committed=1156KB)
                                (thread #24)
                                (stack: reserved=24576KB, committed=1092KB)

Committed memory is the memory that the virtual machine requested. Resident memory far above it has other causes: huge
pages that back partly touched ranges, or allocations of native libraries, which are not counted here.
Source: OpenJDK jvmFlag.cpp (print_on), memReporter.cpp of 8, 11, 17, 21; recorded with 17.

Page sizes in use, -Xlog:pagesize (11 and later) and -Xlog:gc+init (16 and later):

    [0.001s][info][pagesize]   THP mode: madvise
    [0.001s][info][pagesize] UseLargePages=1, UseTransparentHugePages=1, UseHugeTLBFS=0, UseSHM=0
    [0.008s][info][pagesize] Heap:  min=8M max=256M base=0x00000000f0000000 page_size=2M size=256M
    [0.011s][info][gc,init ] Large Page Support: Enabled (Transparent)

An option that the host does not support is `refused` (`UseLargePages disabled, no large pages configured ...`). THP
mode is the kernel's setting `enabled` when the virtual machine started (17.0.9, 21.0.1 and later). A page_size of 2M is
hugetlbfs with UseLargePages alone; with UseTransparentHugePages it is memory marked with madvise, which may still
consist of small pages. Units: K, M, G of 1024. Source: OpenJDK hugepages.cpp (print_on), os_linux.cpp
(large_page_init), os.cpp (trace_page_sizes), gcInitLogger.cpp of 17 and 21; recorded with 17.0.15.

Garbage collection pauses: how long the program was stopped, and the CPU time of the collector.

    [2026-11-27T09:56:25.446+0000][0.342s][info][gc,cpu] GC(0) User=0.01s Sys=0.02s Real=0.06s
    2016-02-09T00:30:52.886-0500: 1700.401: [Full GC ... 7.26 secs] [Times: user=9.50 sys=0.01, real=7.27 secs]

Units: seconds with two decimals; user and sys are sums over the collector's threads. The parser adds them up from the
first line on, so that a difference is the time of the pauses in between. Lines without a date, whose seconds count from
the start of the virtual machine, have no time. A log of -Xlog:gc has the pauses in milliseconds and no CPU times.

    [2026-11-20T10:00:05.523+0000][4.412s][info][gc] GC(0) Pause Young (Normal) 512M->120M(8192M) 1350.211ms
Varies: the decorations before a line (-Xlog:gc*:file=...:DECORATIONS). JDK 8 and older write a pause in one line with
its times at the end, without a date unless -XX:+PrintGCDateStamps was given. Source: OpenJDK gcTraceTime.cpp of
17 and 25, gcTraceTime.cpp of 8 (TraceCPUTime); recorded with 17.

Java Flight Recorder: recordings (FLR), converted by an installed `jfr`, and the text that it prints.

    jdk.JVMInformation {
      startTime = 17:53:35.325
      jvmVersion = "OpenJDK 64-Bit Server VM (17.0.15+6-Debian-1deb12u1) for linux-amd64 JRE (17.0.15+6-...), ..."
      jvmArguments = "-XX:+UseTransparentHugePages -Xmx1g"
      javaArguments = "Busy 9"
      pid = 15481
    }

Only the event that identifies the virtual machine and its options is read: process.command and app.version.
ExecutionSample has stacks of Java code only and does not count CPU time in the kernel, so it is not read. The recording
is not decoded here: an installed `jfr` prints that event, otherwise the report asks for the text.
Source: OpenJDK jdk.jfr tool Print, JVM metadata.xml of 11 to 25; recorded with 17.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from itertools import accumulate, chain
from tempfile import NamedTemporaryFile

from thpdiag.model import Citation, Fact, Moment, ProblemKind, Record, Sample
from thpdiag.model.facts import zoned_moment
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, Source
from thpdiag.model.text import path_name
from thpdiag.parsers._lines import ParseErrors, any_of, any_of_first, parse_member, printable, with_errors
from thpdiag.parsers._programs import ending_of, path_on_host, printed_records, request
from thpdiag.parsers._time import date_seconds, day_seconds
from thpdiag.sandbox.programs import Ending, ProgramLimits, find_program

OPTIONS = frozenset({
    "UseTransparentHugePages", "UseLargePages", "UseHugeTLBFS", "AlwaysPreTouch", "InitialHeapSize", "MaxHeapSize",
    "ThreadStackSize", "UseSerialGC", "UseParallelGC", "UseG1GC", "UseZGC", "UseShenandoahGC", "LargePageSizeInBytes",
})  # fmt: skip
_FLAG = re.compile(
    r"\s{0,12}(?:bool|intx|uintx|size_t|uint64_t|double|ccstr|ccstrlist|int|uint) (?P<name>\w{1,80})\s{1,60}"
    r"(?P<set>:?)= ?(?P<value>.{0,400}?)\s{1,80}\{(?P<kind>[\w ]{1,40})\}(?: \{(?P<origin>[\w ,]{1,40})\})?\s*$"
)
_FLAGS_HEAD = re.compile(r"\[Global flags\]\s*$")
_IN_FORCE = re.compile(r"(?:-XX:\S{1,400} ){3,400}\s*$|(?:-XX:\S{1,400} ){2,400}-XX:\S{1,400}$")  # jcmd PID VM.flags
_TYPED_FLAGS = re.compile(r"(?:jvm_args|CommandLine flags): ")
_XX_FLAG = re.compile(r"-XX:(?:(?P<sign>[+-])(?P<switch>\w{1,80})|(?P<name>\w{1,80})=(?P<value>\S{1,400}))(?=\s|$)")
FLAGS = "java_flags"


@with_errors(FLAGS)
def read_flags(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield java.option for the options in `OPTIONS`."""
    for number, text in lines:
        if row := _FLAG.match(text):
            if row["name"] in OPTIONS:
                origin = row["origin"] or ("command line" if row["set"] else "default")
                labels = (("option", row["name"]), ("origin", origin))
                yield Fact("java.option", printable(row["value"]), source.cite(number, text), labels, source.time)
        elif (typed := _TYPED_FLAGS.match(text)) or _IN_FORCE.match(text):
            for flag in _XX_FLAG.finditer(text):
                if (name := flag["name"] or flag["switch"]) in OPTIONS:
                    labels = (("option", name), ("origin", "command line" if typed else "in force"))
                    value = flag["value"] or ("true" if flag["sign"] == "+" else "false")
                    yield Fact("java.option", printable(value), source.cite(number, text), labels, source.time)
        elif text.strip() and not _FLAGS_HEAD.match(text):
            errors.note(number, text, "not a line of the list of options")


FLAGS_PARSER = Parser(
    FLAGS, "options of a Java virtual machine (-XX:+PrintFlagsFinal)", read_flags,
    opens=re.compile(
        r"\[Global flags\]\s*$|\s{1,12}(?:bool|intx|uintx|size_t|ccstr) [A-Z]\w{1,80}\s{1,60}:?= |-XX:\S{1,400} -XX:"
        r"|(?:jvm_args|CommandLine flags): .{0,2000}-XX:"
    ),
    continues=any_of(_FLAG, _FLAGS_HEAD, _IN_FORCE), confirm=any_of_first(2, _FLAG, _IN_FORCE, _TYPED_FLAGS),
)  # fmt: skip


NMT = "java_native_memory"
_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_SIZES = (
    r"reserved=(?P<reserved>\d{1,18})(?P<unit>[KMG]?B?).{0,40}?, committed=(?P<committed>\d{1,18})(?P<unit2>[KMG]?B?)"
)
_NMT_COMMAND = re.compile(r"\bjcmd\s+(\d{1,10})\s+VM\.native_memory")
_TOTAL = re.compile(rf"Total: {_SIZES}")
_PART = re.compile(rf"-\s{{1,40}}(?P<part>[A-Z][\w ]{{1,40}}?) \({_SIZES}")
_STACK = re.compile(rf"\s+\(stack: {_SIZES}")
_THREADS = re.compile(r"\s+\(thread(?:s)? #(?P<threads>\d{1,9})")
_OTHER_NMT_LINE = re.compile(
    r"Native Memory Tracking:|\(Omitting categories|\d{1,10}:\s*$|\s+(?:malloc|mmap)|\s+\(|\s*$"
)


@with_errors(NMT)
def read_nmt(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield java.memory (total, heap and thread stacks) and java.threads."""
    for number, text in lines:
        cite = source.cite(number, text)
        if row := _TOTAL.match(text):
            yield from _sizes(source, row, "total", cite)
        elif row := _PART.match(text):
            if row["part"] == "Java Heap":
                yield from _sizes(source, row, "heap", cite)
        elif row := _STACK.match(text):
            yield from _sizes(source, row, "thread stacks", cite)
        elif row := _THREADS.match(text):
            yield Fact("java.threads", int(row["threads"]), cite, (), source.time)
        elif not _OTHER_NMT_LINE.match(text):
            errors.note(number, text, "not a line of native memory tracking")


def _sizes(source: Source, row: re.Match[str], part: str, cite: Citation) -> Iterator[Fact]:
    command = _NMT_COMMAND.search(source.command)  # a size in GB is too coarse to compare it with that of the process
    process = (("pid", command[1]),) if command and row["unit2"] not in ("G", "GB") else ()
    for kind, unit in (("reserved", "unit"), ("committed", "unit2")):
        size = int(row[kind]) * _UNITS.get(row[unit], 1)
        yield Fact("java.memory", size, cite, (("part", part), ("kind", kind), *process), source.time)


NMT_PARSER = Parser(
    NMT, "native memory tracking (Java)", read_nmt, opens=re.compile(r"Native Memory Tracking:\s*$"),
    continues=any_of(_TOTAL, _PART, _OTHER_NMT_LINE),
)  # fmt: skip


PAGES = "java_page_sizes"
_DECORATIONS = r"(?:\[[^\[\]]{1,40}\]){0,8}"
_PAGES_LINE = re.compile(
    rf"{_DECORATIONS}(?:\[pagesize {{0,20}}\] {{0,9}}(?P<text>.*)"
    r"|\[gc,init {0,20}\] (?P<support>Large Page Support: .*))$"
)
_MODE = re.compile(r"THP mode: (?P<mode>always|madvise|never)\s*$")
_IN_USE = re.compile(r"UseLargePages=(?P<large>[01]), UseTransparentHugePages=(?P<transparent>[01])(?:, |\s*$)")
_HEAP = re.compile(r"(?P<part>Heap): {1,2}min=.{1,120}? page_size=(?P<size>\d{1,6})(?P<unit>[KMG]) ")
_REFUSED = re.compile(
    r"(?P<name>UseLargePages|UseTransparentHugePages) disabled[,;] (?:no large pages|transparent huge pages are not)"
)
_SUPPORT = {  # values of UseLargePages and UseTransparentHugePages
    "Large page support disabled": ("false", "false"),
    "Large Page Support: Disabled": ("false", "false"),
    "Large Page Support: Enabled (Explicit)": ("true", "false"),
    "Large Page Support: Enabled (Transparent)": ("true", "true"),
}


def read_page_sizes(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield thp.enabled at the start of the virtual machine, java.option in effect, and java.page_size of the heap."""
    reported: dict[str, str] = {}  # options already reported, because both log tags print them
    for number, text in lines:
        match = _PAGES_LINE.match(text)
        if match is None:
            continue
        words, cite = match["support"] or match["text"], source.cite(number, text)
        time = _gc_moment(text) or source.time
        if mode := _MODE.match(words):  # prose, because the virtual machine may have started long ago
            yield Fact("thp.enabled", mode["mode"], cite, time=time, provenance="prose")
        elif refused := _REFUSED.match(words):
            reported[refused["name"]] = "false"
            yield Fact("java.option", "refused", cite, (("option", refused["name"]), ("origin", "log")), time)
        elif region := _HEAP.match(words):
            size = int(region["size"]) * _UNITS[f"{region['unit']}B"]
            yield Fact("java.page_size", size, cite, (("part", region["part"]),), time)
        else:
            for name, value in _large_page_options(words).items():
                if reported.get(name) != value:
                    reported[name] = value
                    yield Fact("java.option", value, cite, (("option", name), ("origin", "log")), time)


def _large_page_options(words: str) -> dict[str, str]:
    """Return the options about huge pages in a line, as they are in effect."""
    if used := _IN_USE.match(words):
        values = tuple("true" if used[name] == "1" else "false" for name in ("large", "transparent"))
    else:
        values = next((values for begin, values in _SUPPORT.items() if words.startswith(begin)), ())
    return dict(zip(("UseLargePages", "UseTransparentHugePages"), values, strict=False))


PAGES_PARSER = Parser(
    PAGES, "page sizes of a Java virtual machine (-Xlog:pagesize)", read_page_sizes, opens=_PAGES_LINE,
    continues=_PAGES_LINE.match,
)  # fmt: skip


_GC_DATE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,]\d{3}(?:[+-]\d{4}|Z)?"
_GC_SECONDS = r"(\d{1,9}\.\d\d)"
_GC_TAGS = r"(?:\[[^\[\]]{1,40}\]){0,8}\[gc(?:,[a-z]{2,20}){0,4} {0,20}\]"
GC_TIMES = re.compile(rf"{_GC_TAGS} GC\(\d{{1,9}}\) User={_GC_SECONDS}s Sys={_GC_SECONDS}s Real={_GC_SECONDS}s")
GC_PAUSE = re.compile(rf"{_GC_TAGS} GC\(\d{{1,9}}\) Pause \w.{{0,200}} (?P<ms>\d{{1,9}}\.\d{{3}})ms\s*$")
GC_LINE = re.compile(_GC_TAGS)
OLD_TIMES = re.compile(rf"\[Times: user={_GC_SECONDS} sys={_GC_SECONDS}, real={_GC_SECONDS} secs\]")
OLD_LINE = re.compile(rf"(?:{_GC_DATE}: )?(?:\d{{1,9}}\.\d{{3}}: )?\[(?:Full )?GC\b")
OLD_REST = re.compile(
    r"\s{0,8}\[(?:Times: |PSYoungGen|ParOldGen|ParNew|CMS|Eden|Parallel Time|GC Worker|Code Root|Clear CT|Other"
    r"|Ext Root|Update RS|Scan RS|Object Copy|Termination|Choose CSet|Ref |Redirty|Humongous|Free CSet)"
)
_GC_MOMENT = re.compile(r"\[?(\d{4})-(\d\d)-(\d\d)T(\d\d:\d\d:\d\d[.,]\d{3})([+-]\d{4}|Z)?")
GC_METRICS = ("jvm_gc_user_seconds_total", "jvm_gc_system_seconds_total", "jvm_gc_pause_seconds_total")


def _gc_moment(text: str) -> Moment | None:
    match = _GC_MOMENT.match(text)
    day = date_seconds(int(match[1]), int(match[2]), int(match[3])) if match else None
    time = day_seconds(match[4].replace(",", ".")) if match else None
    return zoned_moment(day + time, match[5] or "") if match and day is not None and time is not None else None


@with_errors("gc_log")
def read_gc_log(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield a sample of the host for each pause: the sums of all pauses up to it."""
    totals, time = [0.0] * len(GC_METRICS), None
    pauses: list[tuple[float, Citation, Moment | None]] = []  # used only if the log has no CPU times
    has_times = False
    for line, text in lines:
        match = GC_TIMES.match(text) or OLD_TIMES.search(text)
        if match is None and text.strip() and not _is_gc_line(text):
            errors.note(line, text, "not a line of a log of garbage collections")
        time = _gc_moment(text) or time
        if match:
            has_times = True
            totals = [round(total + float(seconds), 2) for total, seconds in zip(totals, match.groups(), strict=True)]
            values = dict(zip(GC_METRICS, totals, strict=True))
            yield Sample("system", values, source.cite(line, text), "gc_log", (), time)
        elif not has_times and (pause := GC_PAUSE.match(text)):
            pauses.append((float(pause["ms"]) / 1000, source.cite(line, text), time))
    if pauses and not has_times:
        for (_, cite, time), total in zip(pauses, accumulate(seconds for seconds, _, _ in pauses), strict=True):
            yield Sample("system", {GC_METRICS[-1]: round(total, 6)}, cite, "gc_log", (), time)
        errors.note(pauses[0][1].line or 0, pauses[0][1].text, "pauses without their CPU times: log with -Xlog:gc*")


_is_gc_line = any_of(GC_LINE, OLD_LINE, OLD_REST, blank=True)
GC_LOG = Parser(
    "gc_log", "log of garbage collections (Java)", read_gc_log, continues=_is_gc_line,
    opens=re.compile(f"{GC_TIMES.pattern}|{re.sub('[?]P<ms>', '?:', GC_PAUSE.pattern)}|{OLD_LINE.pattern}"),
)  # fmt: skip


JFR = "jfr"
JFR_EVENTS = "jdk.JVMInformation"
MAX_SPOOLED_BYTES = 1 << 30
# A Java virtual machine reserves much more address space than it uses.
_JFR_LIMITS = ProgramLimits(seconds=60, cpu_seconds=60, output=64 << 20, memory=16 << 30)
_JFR_BEGIN = re.compile(r"jdk\.JVMInformation \{\s*$")
_JFR_FIELD = re.compile(r"\s{2}(?P<name>\w{1,40}) = (?:\"(?P<text>.*)\"|(?P<plain>\S.{0,400}))\s*$")
_JFR_VM = re.compile(r".{0,80}? \((?P<version>\d{1,3}(?:\.\d{1,4}){0,3})[^()]{0,80}\)")


@with_errors(JFR)
def read_jfr(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield process.command and app.version of each virtual machine."""
    fields: dict[str, tuple[int, str, str]] = {}
    for number, text in lines:
        if row := _JFR_FIELD.match(text):
            fields[row["name"]] = (number, text, row["text"] if row["text"] is not None else row["plain"])
        elif text.startswith("}"):
            yield from _jfr_facts(source, fields)
            fields = {}
        elif text.strip() and not _JFR_BEGIN.match(text):
            errors.note(number, text, "not a line of this event")
    yield from _jfr_facts(source, fields)


def _jfr_facts(source: Source, fields: dict[str, tuple[int, str, str]]) -> Iterator[Fact]:
    if "jvmVersion" in fields and (version := _JFR_VM.match(fields["jvmVersion"][2])):
        cite = source.cite(*fields["jvmVersion"][:2])
        yield Fact("app.version", version["version"], cite, (("app", "jvm"),), source.time)
    if "jvmArguments" in fields:
        cite = source.cite(*fields["jvmArguments"][:2])
        words = [fields[name][2] for name in ("jvmArguments", "javaArguments") if name in fields]
        command = printable(" ".join(["java", *(word for word in words if word != "N/A")]))[:4000]
        pid = printable(fields["pid"][2])[:10] if "pid" in fields else ""
        yield Fact("process.command", command, cite, (("pid", pid), ("comm", "java")), source.time)


def read_recording(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """Yield the records of the text that an installed `jfr` prints, or a problem that asks for that text."""
    first = next(content.chunks, b"")
    program = find_program("jfr")
    if not first.startswith(b"FLR\0"):
        yield _ask_for_jfr(source, "the recording is damaged", ProblemKind.DAMAGED)
        return
    if program is None:
        yield _ask_for_jfr(source, "no jfr is installed here, so this recording was not read", ProblemKind.UNREADABLE)
        return
    with NamedTemporaryFile(suffix=".jfr") as file:  # jfr accepts no other suffix, and no pipe
        if content.file is not None:
            with content.file.open("rb") as recording:
                shutil.copyfileobj(recording, file)
        else:
            for chunk in chain((first,), content.chunks):
                file.write(chunk)
                if file.tell() > MAX_SPOOLED_BYTES:
                    yield _ask_for_jfr(source, "the recording is too long and was not read", ProblemKind.LIMIT)
                    return
        file.flush()
        options = ["-J-Xmx512m", "-J-XX:TieredStopAtLevel=1", "print", "--events", JFR_EVENTS, file.name]
        run = yield from printed_records(
            program, [options], _JFR_LIMITS, lambda output: parse_member(source, output, JFR, read_jfr)
        )
    if run.ending is not Ending.DONE:
        how, kind = ending_of(run, file.name)
        yield _ask_for_jfr(source, f"jfr {how}", kind)


def _ask_for_jfr(source: Source, text: str, kind: ProblemKind) -> Record:
    command = f"jfr print --events {JFR_EVENTS},CPULoad,ThreadCPULoad {path_name(path_on_host(source))} > jfr.txt"
    return request(source, JFR, text, kind, command)


JFR_PARSER = Parser(
    JFR, "events that jfr prints (Java Flight Recorder)", read_jfr, opens=_JFR_BEGIN,
    continues=lambda text: _JFR_FIELD.match(text) or text.startswith("}"),
)  # fmt: skip
JFR_BULK_PARSER = BulkParser(
    JFR, "recordings of Java Flight Recorder (by an installed jfr)", None, read_recording, opens=re.compile(rb"FLR\0")
)
