"""Dumps of all threads: jstack of a Java virtual machine; gdb's `thread apply all bt`, and pstack, which calls it.

    2026-11-27 17:55:02
    Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6-Debian-1deb12u1 mixed mode, sharing):

    "main" #1 prio=5 os_prio=0 cpu=412.80ms elapsed=3.47s tid=0x00007f2f28026ef0 nid=0x7d1 runnable
       java.lang.Thread.State: RUNNABLE
            at Busy.work(Busy.java:9)

    Thread 2 (Thread 0x7f0a3d7fe6c0 (LWP 1714) "churn worker 2"):
    #0  0x000055d2c51b1435 in compute (depth=0, x=1664525) at churn.c:28
    #1  <signal handler called>

The position of each thread at one moment, running or sleeping: no shares of CPU time, and no kernel functions, as
java.* and libc frames end at the system call. Leaf first. jstack also has the version of the virtual machine
(app.version) and the number of threads (java.threads), each of which has its own stack. Varies: JDK 8 to 10 without
cpu= and elapsed=; pstack of RHEL prints `#0  0x... in poll () from /lib64/libc.so.6`, gstack of Oracle the same; gdb
before 12 without the name. /proc/PID/stack has another parser. Source: OpenJDK thread.cpp, javaThread.cpp (print_on),
GDB stack.c, thread.c; recorded with JDK 17 and gdb 13.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from thpdiag.model import Citation, Fact, Measure, Profile, Record, Task
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, any_of, printable
from thpdiag.parsers.stacks._stacks import StackBuilder

_DUMP = re.compile(r"Full thread dump (?P<vm>\S.{0,120}?) \((?P<version>\S{1,80})(?: [\w ,]{1,80})?\):")
_JAVA_THREAD = re.compile(
    r"\"(?P<name>[^\"]{0,300})\"(?: #\d{1,9})?(?: \[\d{1,9}\])?(?: daemon)?(?: prio=\d{1,3})?(?: os_prio=-?\d{1,3})?"
    r".{0,200}?\btid=0x[0-9a-f]{1,16}\b(?:.{0,60}?\bnid=(?P<nid>0x[0-9a-f]{1,8}|\d{1,10}))?"
)
_VERSION = re.compile(r"[+-].*$")  # 17.0.15+6-Debian: build and vendor
_STATE = re.compile(r"\s{0,8}java\.lang\.Thread\.State: (?P<state>[A-Z_]{3,20})")
_JAVA_FRAME = re.compile(r"\s{0,8}at (?P<name>[^\s(]{1,1000})\(.{0,300}$")
_JSTACK_OTHER_LINES = re.compile(
    r"\s{0,8}- |\s{0,8}Locked ownable|\s{0,8}No compile task|JNI global ref|Threads class SMR|_java_thread_list"
    r"|0x[0-9a-f]{8,16}|\}|Found \d|=|Java stack information|\s{1,8}(?:waiting|which is held)|\s{0,8}Compiling:|\s*$"
    r"|os_prio=\d|\"|\d{1,10}:$|\d{4}-\d\d-\d\d |Heap$"
    r"|\s(?:PSYoung|ParOld|garbage-first|def new|tenured|Metaspace|\s(?:eden|from|to|object|class|region|the))"
)
JSTACK = "jstack"


@dataclass(slots=True)
class _Threads:
    """Stacks of threads, each of weight one."""

    source: Source
    builder: StackBuilder = field(default_factory=StackBuilder)
    names: list[str] = field(default_factory=list)
    task: Task | None = None
    cite: Citation | None = None

    def begin(self, task: Task, cite: Citation) -> None:
        self.end()
        self.names, self.task, self.cite = [], task, cite

    def end(self) -> None:
        if self.task is not None and self.cite is not None and self.names:
            numbers = [self.builder.frame(name, kernel=False) for name in self.names]
            self.builder.add(numbers, 1.0, self.cite, self.task, 1)
        self.task = None

    def profile(self, reader: str) -> Iterator[Profile]:
        self.end()
        if self.builder.first is not None:
            profile = self.builder.profile(reader, self.builder.first, event="threads", measures=Measure.SNAPSHOT)
            yield replace(profile, shows_kernel=False)


def read_jstack(source: Source, lines: Lines) -> Iterator[Record]:
    """app.version (jvm) and java.threads of each dump, and one profile."""
    odd, threads = ParseErrors(source, JSTACK), _Threads(source)
    head: Citation | None = None
    count = 0
    for number, text in lines:
        if match := _DUMP.match(text):
            yield from _thread_count(source, head, count)
            head, count = source.cite(number, text), 0
            yield Fact(
                "app.version", _VERSION.sub("", printable(match["version"])), head, (("app", "jvm"),), source.time
            )
        elif match := _JAVA_THREAD.match(text):
            count += 1
            threads.begin(
                Task(printable(match["name"])[:64], None, _parse_native_id(match["nid"])), source.cite(number, text)
            )
        elif match := _JAVA_FRAME.match(text):
            threads.names.append(match["name"].replace("/", "."))
        elif not (_STATE.match(text) or _JSTACK_OTHER_LINES.match(text)):
            odd.note(number, text, "not a line of a thread dump")
    yield from _thread_count(source, head, count)
    yield from odd.problems()
    yield from threads.profile(JSTACK)


def _thread_count(source: Source, head: Citation | None, count: int) -> Iterator[Fact]:
    if head is not None and count:
        yield Fact("java.threads", count, head, (), source.time)


def _parse_native_id(text: str | None) -> int | None:
    return None if not text else int(text, 16) if text.startswith("0x") else int(text)


JSTACK_PARSER = Parser(
    JSTACK, "thread dump of Java (jstack)", read_jstack, opens=re.compile(r"Full thread dump \S.{0,120}? \(\S"),
    continues=any_of(_JAVA_FRAME, _STATE, _JSTACK_OTHER_LINES, _DUMP, _JAVA_THREAD),
)  # fmt: skip


GDB = "gdb_threads"
_GDB_THREAD = re.compile(
    r"Thread \d{1,9} \((?:Thread 0x[0-9a-f]{1,16} )?\(?(?:LWP|process) (?P<lwp>\d{1,10})\)?"
    r"(?: \"(?P<name>[^\"]{0,64})\")?\)?.{0,80}?:?\s*$"
)
_GDB_FRAME = re.compile(
    r"#\d{1,5}\s{1,3}(?:0x[0-9a-f]{1,16} in )?(?P<name>\S.{0,2000}?)(?: \(| at \S| from \S|\s{0,99}$)"
)
_GDB_OTHER_LINES = re.compile(  # also the function in which gdb stopped, above the first stack
    r"\s*$|\w[\w:<>~, *&]{0,300} \(.{0,4000}\) (?:at|from) \S"
    r"|\[(?:New|Inferior|Thread|Switching|Current)\b|Using host libthread_db|\(More stack frames|Backtrace stopped"
    r"|\d{1,9}\s|0x[0-9a-f]{8,16} in |warning: |Download failed|\s{2,}\S|Reading symbols|Loaded symbols|\(No debugging"
)


def read_gdb(source: Source, lines: Lines) -> Iterator[Record]:
    """One profile."""
    odd, threads = ParseErrors(source, GDB), _Threads(source)
    for number, text in lines:
        if match := _GDB_THREAD.match(text):
            threads.begin(Task(printable(match["name"] or ""), None, int(match["lwp"])), source.cite(number, text))
        elif match := _GDB_FRAME.match(text):
            threads.names.append(match["name"].strip() if "signal handler" not in text else "[signal]")
        elif not _GDB_OTHER_LINES.match(text):
            odd.note(number, text, "not a line of gdb stacks")
    yield from odd.problems()
    yield from threads.profile(GDB)


def _gdb_confirm(ahead: list[str]) -> bool:
    return bool(_GDB_THREAD.match(ahead[0])) and any(_GDB_FRAME.match(text) for text in ahead[1:3])


GDB_PARSER = Parser(
    GDB, "threads (gdb, pstack)", read_gdb, opens=re.compile(r"Thread \d{1,9} \((?:Thread|LWP|process|\(LWP)"),
    continues=any_of(_GDB_THREAD, _GDB_FRAME, _GDB_OTHER_LINES), confirm=_gdb_confirm, lookahead=3,
)  # fmt: skip
