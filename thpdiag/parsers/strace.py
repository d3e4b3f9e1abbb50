r"""System calls: summaries of strace -c and perf trace -s, and traces of strace with times (-T).

    % time     seconds  usecs/call     calls    errors syscall
    ------ ----------- ----------- --------- --------- ----------------
     42.70    0.005086          12       400           madvise
    100.00    0.011912           9      1231         1 total

    27700      0.000031 madvise(0x7f9a8ca00000, 8388608, MADV_DONTNEED) = 0 <0.000654>
    27700      0.000049 prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) = 0 <0.000008>

     java (991), 2385 events, 52.8%

       syscall            calls  errors  total       min       avg       max       stddev
                                         (msec)    (msec)    (msec)    (msec)        (%)
       --------------- --------  ------ -------- --------- --------- ---------     ------
       madvise              417      0  2370.479     0.018     5.690    97.115     27.12%

Units: seconds; perf trace prints milliseconds of wall time. -c counts CPU time in the kernel; with -w and -T it is wall
time, including waits. Page faults, and the compaction in them, are not system calls; system calls only show how a
program maps and releases memory. A trace of selected calls (-e) has no meaningful shares; without the command, a trace
with few kinds of calls is treated as a selection. A successful PR_SET_THP_DISABLE means that the process has no huge
pages (THP_enabled of /proc/PID/status). Varies: pids (`27700 ` in files, `[pid 27700] ` on terminals), times by -r, -t,
-tt, -ttt; -U. perf trace before 5.10 has no column of errors.
Source: strace count.c, syscall.c, 4.5 to 6.1; tools/perf/builtin-trace.c (trace__fprintf_thread_summary), 6.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.model import Citation, Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import process_entity
from thpdiag.parsers._lines import ParseErrors, any_of, with_errors

READER = "strace"
HEAD = re.compile(r"% time\s+seconds\s+usecs/call\s+calls\s+errors\s+syscall\s*$")
RULE = re.compile(r"------ -{9,}(?: -+){3,4}\s*$")
ROW = re.compile(r"\s{0,3}\d{1,3}\.\d\d\s+(\d{1,9}\.\d{6})\s+\d{1,12}\s+\d{1,15}(?:\s+\d{1,15})?\s+(\w{2,40})\s*$")
PERF_HEAD = re.compile(r"\s{0,4}Summary of events:\s*$")
PERF_REST = re.compile(
    r"\s{0,4}(?:\S.{0,40} \(-?\d{1,10}\), \d{1,15} events, |syscall\s+calls\s|-{15} -{8})"
    r"|\s*\(msec\)"
)
HEADS = re.compile(rf"{HEAD.pattern}|{PERF_HEAD.pattern}")
PERF_ROW = re.compile(
    r"\s{1,4}(\w{2,40})\s+\d{1,15}(?:\s+\d{1,15})?\s+(\d{1,12}\.\d{3})(?:\s+\d{1,12}\.\d{3}){3}\s+\d{1,9}\.\d\d%\s*$"
)
_CALL_PREFIX = (
    r"(?:\[pid\s{1,10}(?P<pid>\d{1,10})\] {1,8}|(?P<of>\d{1,10}) {1,8})?"
    r"(?:\d\d:\d\d:\d\d(?:\.\d{6})? | {0,8}\d{1,10}\.\d{6} )?"
)
_NAMES = (
    r"(?:execve|brk|mmap2?|munmap|mremap|madvise|mprotect|openat?|close|read|write|pread64|pwrite64|futex|poll|ppoll|"
    r"epoll_p?wait2?|select|clone3?|vfork|fork|wait4|sendto|recvfrom|sendmsg|recvmsg|nanosleep|clock_nanosleep|prctl)"
)
_END = r" {1,60}= (?:-?\d{1,20}|0x[0-9a-f]{1,16}|\?).{0,200}?(?:<(?P<took>\d{1,7}\.\d{6})>)?\s{0,20}$"
CALL = re.compile(
    rf"{_CALL_PREFIX}(?:(?P<name>[a-z]\w{{1,39}})\(|<\.\.\. (?P<resumed>[a-z]\w{{1,39}}) resumed>).{{0,4000}}?{_END}"
)
BEGUN = re.compile(rf"{_CALL_PREFIX}[a-z]\w{{1,39}}\(.{{0,4000}} <unfinished \.\.\.>\s{{0,20}}$")
OTHERS = re.compile(
    rf"{_CALL_PREFIX}(?:\+\+\+ (?:exited with|killed by) |--- (?:SIG|stopped by)|restart_syscall\(|exit(?:_group)?\()|"
    r"strace: Process \d+ (?:attached|detached)"
)
OPENS = re.compile(rf"{_CALL_PREFIX}(?P<name>{_NAMES})\(.{{0,4000}}?{_END}")
THP_DISABLE = re.compile(r"prctl\(PR_SET_THP_DISABLE, (0x)?(?P<on>\d), .{0,60}\)\s+= 0\b")
MEMORY_CALLS = frozenset({"mmap", "mmap2", "munmap", "mremap", "madvise", "process_madvise", "brk", "mprotect"})
_FILTER_OPTION = re.compile(r"-\w{0,12}e(?:$|\w{1,20}=)|--(?:trace|expr|event)s?\b|-e\S")
COMMAND = re.compile(r"\bstrace\s|\bperf trace\s")
MIN_SECONDS = 0.1  # in all system calls; below that a share means little
MIN_OTHER_CALLS = 3  # kinds of calls other than memory calls; with fewer the trace may be a selection
MAX_NAMES = 1000


@dataclass(slots=True)
class _Times:
    """Seconds by system call."""

    seconds: dict[str, float] = field(default_factory=dict)
    first: Citation | None = None
    untimed: Citation | None = None  # the first call without its time

    def add_call(self, call: re.Match[str], cite: Citation, source: Source) -> Iterator[Fact]:
        """Add the time of a traced call; yield a fact if it switches huge pages of its process off or on."""
        if call["took"]:
            self.add(call["name"] or call["resumed"], float(call["took"]), cite)
        else:
            self.untimed = self.untimed or cite
        if off := THP_DISABLE.search(call.string):
            process = process_entity(call["pid"] or call["of"] or "?")
            yield Fact("process.thp_enabled", int(off["on"] == "0"), cite, process, source.time)

    def add(self, name: str, seconds: float, cite: Citation) -> None:
        self.first = self.first or cite
        if name in self.seconds or len(self.seconds) < MAX_NAMES:
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def facts(self, source: Source, errors: ParseErrors) -> Iterator[Fact]:
        """Yield the share of calls that map and release memory, and the name of the one with most time."""
        memory = {name: seconds for name, seconds in self.seconds.items() if name in MEMORY_CALLS}
        total = sum(self.seconds.values())
        if self.first is None:
            return
        has_few_kinds = len(self.seconds) - len(memory) < MIN_OTHER_CALLS and not COMMAND.search(source.command)
        if has_few_kinds or _is_selection(source.command):
            errors.note(self.first.line or 0, self.first.text, "system calls of a choice (-e), which have no shares")
        elif total >= MIN_SECONDS and memory:
            longest = max(memory, key=lambda name: memory[name])
            ratio = round(sum(memory.values()) / total, 6)
            yield Fact("syscall.memory_ratio", ratio, self.first, (("by", longest),), source.time)
        elif total < MIN_SECONDS:
            text = "less than a tenth of a second in system calls: they cost nothing here, or were traced too briefly"
            errors.note(self.first.line or 0, self.first.text, text)


def _is_selection(command: str) -> bool:
    """Return whether an option, or a pipe after the command, may have removed calls."""
    match = COMMAND.search(command[:4000])
    rest = command[:4000][match.end() :] if match else ""
    return "|" in rest or any(_FILTER_OPTION.match(word) for word in rest.split())


@with_errors(READER)
def read(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield syscall.memory_ratio and process.thp_enabled."""
    times = _Times()
    for number, text in lines:
        if row := ROW.match(text):
            if row[2] != "total":
                times.add(row[2], float(row[1]), source.cite(number, text))
        elif row := PERF_ROW.match(text):
            times.add(row[1], float(row[2]) / 1000, source.cite(number, text))
        elif HEADS.match(text):
            yield from times.facts(source, errors)
            times = _Times()
        elif call := CALL.match(text):
            yield from times.add_call(call, source.cite(number, text), source)
        elif text.strip() and not _is_other_line(text):
            errors.note(number, text, "not a line of strace, or broken")
    yield from times.facts(source, errors)
    if times.untimed and not times.first:
        text = "system calls without their times, and page faults are none: send a perf recording"
        errors.note(times.untimed.line or 0, times.untimed.text, text)


_is_other_line = any_of(RULE, BEGUN, OTHERS, PERF_REST)

PARSER = Parser(
    READER, "system calls (strace, perf trace -s)", read,
    opens=re.compile(rf"{HEADS.pattern}|{re.sub(r'[?]P<[a-z]+>', '?:', OPENS.pattern)}"),
    continues=any_of(HEADS, RULE, ROW, CALL, BEGUN, OTHERS, PERF_ROW, PERF_REST, blank=True),
    confirm=lambda lines: HEADS.match(lines[0]) or sum(bool(CALL.match(line)) for line in lines[:4]) > 1,
)  # fmt: skip
