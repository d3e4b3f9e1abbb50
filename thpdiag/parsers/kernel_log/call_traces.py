"""Call traces as the kernel prints them, and kernel stacks as the crash utility prints them.

    RIP: 0010:[<ffffffff814ed7ee>]  [<ffffffff814ed7ee>] _spin_lock_irq+0x1e/0x30
    Call Trace:
     [<ffffffff8115e2b8>] ? lru_add_drain+0x10/0x40
     [<ffffffff81170b02>] compact_zone+0x462/0x480

One frame a line, leaf first, over registers and stack markers: ` [<ffffffff8115e2b8>] ? func+0x1a/0x2b [mod]` to 4.x, `
? func+0x1a/0x2b [mod]` later; arm prints `(func) from [<addr>] (caller+0x..)`, powerpc two addresses;
decode_stacktrace.sh appends the source line. The function of a kernel RIP (pc on arm64) is the leaf. Frames with `? `
(powerpc `(unreliable)`, s390 `([<...>] func)`, arm64 `(L)`) are addresses on the stack that may be left over from
earlier calls: they are not part of the stack, their names are kept separately. Where the kernel could not unwind, all
frames are of this kind; from the leaf to an entry of the kernel they are then used as the stack. A watchdog prints its
own interrupt first (`<IRQ>` ... `</IRQ>` or `<EOI>`, `<NMI>` ... `<<EOE>>`): that part is dropped if the interrupted
functions follow. A page fault in the kernel is no such interrupt, its functions are kept. Source: kernel tree,
arch/x86/kernel/dumpstack.c.

crash: `bt`, `bt -a`, `bt -l`, `foreach bt`.

    PID: 4711   TASK: ffff8804a3b2c040  CPU: 3   COMMAND: "java"
     #0 [ffff8804a3b35820] schedule at ffffffff814ed9a2

Leaf first. On a CPU that was running, the frames above `--- <NMI exception stack> ---` are the dump's own interrupt;
the running function is the exception RIP. Module names follow the address in brackets; `-l` adds source lines, `-f`
stack words, both skipped. Each stack is one task at the moment of the dump, of weight one; the state is not printed.
Source: crash help page bt, crash 5 to 8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.knowledge.symbols import normalise
from thpdiag.model import Event, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import any_of, printable

_ADDRESS = r"(?:\[<[0-9a-f]{1,16}>\] {0,4}|\[[0-9a-f]{8,16}\] \[[0-9a-f]{8,16}\] )"
_NAME = r"[A-Za-z_.][\w.$]{0,200}"
_SIZE = r"\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}"
_AFTER = r"(?: \[[\w. -]{1,120}\])?(?: \([^()]{1,200}\))?(?: [\w./-]{1,200}:\d{1,7}\b.{0,400})?\)?\s*$"
_SOURCE_LINE = r" \([\w./-]{1,200}\.[chS]:\d{1,7}\b.{0,600}\)(?: \[[\w -]{1,120}\])?(?: \([A-Z]{1,4}\))?\s*$"
_FRAME = re.compile(
    rf"\s{{0,8}}\(?{_ADDRESS}?(?P<odd>\? )?(?:(?P<name>{_NAME}){_SIZE}{_AFTER}"
    rf"|(?P<decoded>{_NAME})(?:{_SIZE})?{_SOURCE_LINE}"
    rf"|\(?(?P<arm>{_NAME})(?:{_SIZE})?(?: \[\w{{1,80}}\])?\)? from (?=[\[(]|{_NAME}\+0x))"
)
_UNKNOWN = re.compile(rf"\s{{0,8}}{_ADDRESS}?(?:\? )?0x[0-9a-f]{{8,16}}\s*$")
_MARKER = re.compile(r"\s{0,8}<(?P<end>/)?<?(?P<name>IRQ|EOI|NMI|EOE|TASK|SOFTIRQ|#?[A-Z]{2,8})>>?\s{0,8}")
_START = re.compile(r"\s{0,8}(?:Call [Tt]race:?|Backtrace:)\s{0,4}(?!\w)")
_RIP = re.compile(
    r"\s{0,8}(?:(?:RIP|EIP):? (?:[0-9a-f]{4}:)?(?:\s{0,4}\[<[0-9a-f]{1,16}>\]){0,2}\s{0,4}|(?:EIP|PC) is at |pc : "
    r"|NIP \[[0-9a-f]{8,16}\] |Krnl PSW : [0-9a-f]{8,16} [0-9a-f]{16} \()"
    rf"(?P<name>{_NAME}){_SIZE}"
)
_USER_RIP = re.compile(r"\s{0,8}RIP: 00[0-9a-f]3:(?:0x|\[<)")
_REGISTERS = re.compile(
    r"\s{0,8}(?:R[A-D]X|R[SD]I|R[BS]P|R\d\d?|E[A-D]X|E[SD]I|E[BS]P|ORIG_[RE]AX|[FCDEG]S|CR\d|DR\d|Code|Stack|EFLAGS|"
    r"sp|x\d{1,2}|lr|pc|pstate|PKRU|CFAR|GPR\d\d|NIP|MSR|REGS|Krnl \w{3,4}|[ \t]+R) ?:"
    r"|\s{0,8}L[Rr] (?:is at |\[[0-9a-f])|\s*$"
)  # fmt: skip
_INTERRUPT_ENTRIES = frozenset(
    (
        "nmi", "end_repeat_nmi", "asm_exc_nmi", "apic_timer_interrupt", "reschedule_interrupt", "irq_work_interrupt",
        "call_function_interrupt", "call_function_single_interrupt", "ret_from_intr", "common_interrupt",
        "asm_common_interrupt",
    )
)  # fmt: skip
MIN_UNRELIABLE_FRAMES = 4  # of a stack without a reliable frame
_ENTRIES = frozenset({
    "page_fault", "async_page_fault", "asm_exc_page_fault", "system_call_fastpath", "entry_SYSCALL_64_fastpath",
    "entry_SYSCALL_64_after_hwframe", "kernel_thread_helper", "child_rip", "kthread", "ret_from_fork",
})  # fmt: skip
_MAX_FRAMES = 400  # the kernel's own limits are far lower


@dataclass(slots=True)
class Trace:
    """The open trace. `stack` returns its functions so far; `unreliable` are the names with question marks.

    `keep_interrupts` keeps functions of an interrupt: an allocation failed there.
    """

    keep_interrupts: bool = False
    leaf: str = ""
    running: bool = False
    seen: bool = False
    unreliable: list[str] = field(default_factory=list)
    _frames: list[tuple[str, str]] = field(default_factory=list)  # name, and its part of the trace (IRQ, NMI)
    _part: str = ""

    def feed(self, text: str) -> bool:
        """Take a line; return False if it belongs to no trace."""
        if start := _START.match(text):
            self.running = self.seen = True
            self._part = ""
            self._frame(text[start.end() :])
            return True
        if not self.running:
            return self._feed_header(text)
        if self._register(text) or self._frame(text):
            return True
        self.running = False
        return False

    def _feed_header(self, text: str) -> bool:
        """Take the running function, which precedes `Call Trace:`. On arm a trace has no headline."""
        if match := _RIP.match(text):
            self.leaf = normalise(match["name"])
            return True
        if not self.seen and (match := _FRAME.match(text)) and match["arm"]:
            self.running = self.seen = True
            return self._frame(text)
        return False

    def _register(self, text: str) -> bool:
        if match := _RIP.match(text):
            name = normalise(match["name"])
            if not self.keep_interrupts and (self._part or (self._frames and _is_interrupt_entry(self._frames[-1][0]))):
                self._frames.clear()
            self._part = ""
            self._add(name)
            return True
        return bool(_REGISTERS.match(text) or _USER_RIP.match(text))

    def _frame(self, text: str) -> bool:
        """Take a frame, a marker, or both on one line (to 4.8)."""
        rest = text
        while marker := _MARKER.match(rest):
            name, rest = marker["name"], rest[marker.end() :]
            self._part = name if name in {"IRQ", "NMI"} and not marker["end"] else ""
        if rest != text and not rest:
            return True
        match = _FRAME.match(rest)
        if not match:
            return _UNKNOWN.match(rest) is not None
        name = normalise(match["name"] or match["decoded"] or match["arm"])
        if _is_unreliable(match):
            self.unreliable.append(name)
        else:
            self._add(name)
        return True

    def _add(self, name: str) -> None:
        if name and len(self._frames) < _MAX_FRAMES:
            self._frames.append((name, self._part))

    def stack(self) -> tuple[str, ...]:
        """Return the stack, leaf first."""
        frames = [name for name, _ in self._frames]
        if not frames and len(self.unreliable) >= MIN_UNRELIABLE_FRAMES and self.unreliable[-1] in _ENTRIES:
            frames = list(self.unreliable)
        if not self.keep_interrupts and not self.leaf:
            frames = [name for name, part in self._frames if not part] or frames
            while len(frames) > 1 and _is_interrupt_entry(frames[0]):
                del frames[0]
        if self.leaf and self.leaf not in frames[:1]:
            frames.insert(0, self.leaf)
        return tuple(frames)


def _is_interrupt_entry(name: str) -> bool:
    return name in _INTERRUPT_ENTRIES or name.startswith("asm_sysvec_")


def _is_unreliable(match: re.Match[str]) -> bool:
    """Whether the address may be left over: `? ` on x86, in parentheses on s390, `(unreliable)` on powerpc.

    `(L)` on arm64 is the link register at the time of an exception, live or not.
    """
    text = match[0].strip()
    return bool(match["odd"]) or text.startswith("([<") or text.endswith((" (unreliable)", " (L)"))


def frame_function(text: str) -> str | None:
    """Return the function of a line that is one frame, '' for an address without a name, None for other lines."""
    match = _FRAME.match(text)
    if match and not _is_unreliable(match):
        return normalise(match["name"] or match["decoded"] or match["arm"])
    return "" if match or _UNKNOWN.match(text) else None


# whether a line without prefix can be part of a trace or the registers before it
is_trace_line = any_of(_FRAME, _START, _MARKER, _RIP, _USER_RIP, _REGISTERS, _UNKNOWN)


_TASK = re.compile(
    r"\s{0,8}PID: (?P<pid>\d{1,8}) {1,10}TASK: [0-9a-f]{8,16} {1,10}CPU: (?P<cpu>\d{1,5}) {1,10}"
    r'COMMAND: "(?P<comm>.{0,16})"\s*$'
)
_CRASH_BT_FRAME = re.compile(
    rf"\s{{0,8}}#\d{{1,3}} \[[0-9a-f]{{8,16}}\] (?P<name>{_NAME})(?:\+(?:0x)?[0-9a-f]{{1,8}})? "
    r"(?:\([^)]{0,200}\) )?at [0-9a-f]{8,16}"
)
_CRASH_BT_RIP = re.compile(rf"\s{{0,8}}\[exception (?:RIP|EIP|PC): (?P<name>{_NAME})(?:\+(?:0x)?[0-9a-f]{{1,8}})?\]")
_NMI_STACK = re.compile(r"\s{0,8}(?:--- )?<(?:NMI|DOUBLEFAULT|MCE) exception stack>")
_OTHER_LINES = re.compile(
    r"\s{0,8}(?:R[A-D]X|R[SD]I|R[BS]P|R\d\d?|RIP|EIP|E[A-D]X|EBP|ESI|ORIG_[RE]AX|[CDEFGS]S|BUG|bt|PC|LR|SP|X\d\d?|PSTATE)\s?:"
    r"|\s{0,8}(?:--- )?<[\w# ]{1,40}(?:stack)?>|\s{0,8}\(?(?:active|user space|user-mode|void)\b"
    r"|\s{0,8}/\S{1,300}: ?\d{1,7}\s*$"
    r"|\s{0,8}[0-9a-f]{8,16}:(?:\s{1,4}\S{1,60}){1,4}\s*$"
)
_OPENS = re.compile(r"\s{0,8}(?:PID: \d{1,8} {1,10}TASK: [0-9a-f]{8,16} |#0 {1,2}\[[0-9a-f]{8,16}\] [A-Za-z_.])")


def parse_crash_bt(source: Source, lines: Lines) -> Iterator[Record]:
    """A task_stack for each task."""
    stack: list[tuple[int, str]] = []
    for number, text in lines:
        if _TASK.match(text) and stack:
            yield _crash_stack(source, stack)
            stack = []
        if text.strip():
            stack.append((number, text))
    if stack:
        yield _crash_stack(source, stack)


def _crash_stack(source: Source, lines: list[tuple[int, str]]) -> Event:
    """Return the stack of one task; frames above the switch to the NMI stack are discarded."""
    fields = {"how": "crash"}
    if task := _TASK.match(lines[0][1]):
        fields = {"pid": task["pid"], "comm": printable(task["comm"]), "cpu": task["cpu"], **fields}
    frames: list[str] = []
    interrupted = ""
    for _, text in lines:
        if frame := _CRASH_BT_FRAME.match(text):
            frames.append(normalise(frame["name"]))
        elif rip := _CRASH_BT_RIP.match(text):
            interrupted = interrupted or normalise(rip["name"])
        elif _NMI_STACK.match(text):
            frames.clear()
    if interrupted and frames[:1] != [interrupted]:
        frames.insert(0, interrupted)
    return Event("task_stack", source.cite(*lines[0]), source.time, fields, tuple(frames))


CRASH_BT = Parser(
    "crash_bt", "crash bt", parse_crash_bt, opens=_OPENS,
    continues=any_of(_CRASH_BT_FRAME, _TASK, _CRASH_BT_RIP, _OTHER_LINES, blank=True),
)  # fmt: skip
