"""What a Java virtual machine (HotSpot) says of its own options and memory.

-XX:+PrintFlagsFinal and `jcmd PID VM.flags -all`, of which the options about huge pages, heap and stacks are taken:

         bool UseTransparentHugePages                  = true                 {product} {command line}
       size_t MaxHeapSize                              = 6320816128           {product} {ergonomic}
         bool UseTransparentHugePages                 := true            {product}          JDK 8: `:=` is no default

Native memory tracking, `jcmd PID VM.native_memory summary` (KB, MB or GB, or bytes with scale=B):

    Total: reserved=2564454KB, committed=1191078KB
    -                 Java Heap (reserved=1048576KB, committed=1048576KB)
    -                    Thread (reserved=24640KB, committed=1156KB)
                                (thread #24)
                                (stack: reserved=24576KB, committed=1092KB)

What is committed is what the virtual machine asked for; resident memory far above it is not its own doing: huge pages
that fill what was touched in part, or allocations of native libraries, which are not counted here.
Source: OpenJDK jvmFlag.cpp (print_on), memReporter.cpp of 8, 11, 17, 21; recorded with 17.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Citation, Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, printable, with_errors

OPTIONS = frozenset({
    "UseTransparentHugePages", "UseLargePages", "UseHugeTLBFS", "AlwaysPreTouch", "InitialHeapSize", "MaxHeapSize",
    "ThreadStackSize", "UseSerialGC", "UseParallelGC", "UseG1GC", "UseZGC", "UseShenandoahGC", "LargePageSizeInBytes",
})  # fmt: skip
_FLAG = re.compile(
    r"\s{1,12}(?:bool|intx|uintx|size_t|uint64_t|double|ccstr|ccstrlist|int|uint) (?P<name>\w{1,80})\s{1,60}"
    r"(?P<set>:?)= ?(?P<value>.{0,400}?)\s{1,40}\{(?P<kind>[\w ]{1,40})\}(?: \{(?P<origin>[\w ,]{1,40})\})?\s*$"
)
_FLAGS_HEAD = re.compile(r"\[Global flags\]\s*$")
FLAGS = "java_flags"


@with_errors(FLAGS)
def read_flags(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """java.option of those that matter here."""
    for number, text in lines:
        if found := _FLAG.match(text):
            if found["name"] in OPTIONS:
                origin = found["origin"] or ("command line" if found["set"] else "default")
                labels = (("option", found["name"]), ("origin", origin))
                yield Fact("java.option", printable(found["value"]), source.cite(number, text), labels, source.time)
        elif text.strip() and not _FLAGS_HEAD.match(text):
            odd.note(number, text, "not a line of the list of options")


def _flags_confirm(ahead: list[str]) -> bool:
    return any(_FLAG.match(text) for text in ahead[:2])


FLAGS_PARSER = Parser(
    FLAGS, "options of a Java virtual machine (-XX:+PrintFlagsFinal)", read_flags,
    opens=re.compile(r"\[Global flags\]\s*$|\s{1,12}(?:bool|intx|uintx|size_t|ccstr) [A-Z]\w{1,80}\s{1,60}:?= "),
    continues=lambda text: _FLAG.match(text) or _FLAGS_HEAD.match(text), confirm=_flags_confirm,
)  # fmt: skip


NMT = "java_native_memory"
_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_SIZES = (
    r"reserved=(?P<reserved>\d{1,18})(?P<unit>[KMG]?B?).{0,40}?, committed=(?P<committed>\d{1,18})(?P<unit2>[KMG]?B?)"
)
_TOTAL = re.compile(rf"Total: {_SIZES}")
_PART = re.compile(rf"-\s{{1,40}}(?P<part>[A-Z][\w ]{{1,40}}?) \({_SIZES}")
_STACK = re.compile(rf"\s+\(stack: {_SIZES}")
_THREADS = re.compile(r"\s+\(thread(?:s)? #(?P<threads>\d{1,9})")
_AROUND = re.compile(r"Native Memory Tracking:|\(Omitting categories|\d{1,10}:\s*$|\s+(?:malloc|mmap)|\s+\(|\s*$")


@with_errors(NMT)
def read_nmt(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """java.memory of all, of the heap and of the stacks, and java.threads."""
    for number, text in lines:
        cite = source.cite(number, text)
        if found := _TOTAL.match(text):
            yield from _sizes(source, found, "total", cite)
        elif found := _PART.match(text):
            if found["part"] == "Java Heap":
                yield from _sizes(source, found, "heap", cite)
        elif found := _STACK.match(text):
            yield from _sizes(source, found, "thread stacks", cite)
        elif found := _THREADS.match(text):
            yield Fact("java.threads", int(found["threads"]), cite, (), source.time)
        elif not _AROUND.match(text):
            odd.note(number, text, "not a line of native memory tracking")


def _sizes(source: Source, found: re.Match[str], part: str, cite: Citation) -> Iterator[Fact]:
    for kind, unit in (("reserved", "unit"), ("committed", "unit2")):
        size = int(found[kind]) * _UNITS.get(found[unit], 1)
        yield Fact("java.memory", size, cite, (("part", part), ("kind", kind)), source.time)


NMT_PARSER = Parser(
    NMT, "native memory tracking (Java)", read_nmt, opens=re.compile(r"Native Memory Tracking:\s*$"),
    continues=lambda text: _TOTAL.match(text) or _PART.match(text) or _AROUND.match(text),
)  # fmt: skip
