"""The first lines of kernel reports: what each kind says, from 2.6.32 to 6.18. Not a format of its own.

Patterns are matched at the start of a message, never searched: a program's line that quotes the kernel is no event. A
task's name (comm) is at most 15 characters of the program's own choice, so it is matched as the longest text that
leaves the rest intact. Source: kernel tree, kernel/hung_task.c, kernel/watchdog.c, kernel/rcu/tree_stall.h,
mm/page_alloc.c, mm/oom_kill.c, mm/vmalloc.c, mm/khugepaged.c, drivers/tty/sysrq.c, lib/nmi_backtrace.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from thpdiag.readers.kernel_log.lines import printable

_COMM = r"(?P<comm>.{0,15}\S)"
_MODE = r"mode:(?P<mode>0x[0-9a-f]{1,16}(?:\([\w|]{1,600}\))?)"
_WATCHDOG = r"(?:NMI )?(?:[Ww]atchdog: )?"


@dataclass(frozen=True, slots=True)
class Headline:
    """How an event of `kind` begins. Every such line holds `hint`; the trace lies at most `trace` lines below."""

    kind: str
    hint: str
    pattern: re.Pattern[str]
    trace: int = 0
    whole: bool = False

    def fields(self, text: str) -> dict[str, str] | None:
        """The named parts of the line, None if it is no such headline."""
        found = self.pattern.match(text)
        if not found:
            return None
        fields = {k.rstrip("_"): printable(v.strip()) for k, v in found.groupdict().items() if v is not None}
        if "milliseconds" in fields:
            fields["seconds"] = f"{int(fields.pop('milliseconds')) / 1000:g}"
        return fields


HEADLINES = (
    Headline(
        "hung_task",
        "blocked ",
        re.compile(
            rf"INFO: task {_COMM}:(?P<pid>\d{{1,8}}) blocked [\w/ ]{{0,20}}?"
            r"for more than (?P<seconds>\d{1,9}) seconds"
        ),
        trace=80,
    ),
    Headline(
        "soft_lockup",
        "soft lockup",
        re.compile(
            rf"{_WATCHDOG}BUG: soft lockup (?:-|detected on) CPU#(?P<cpu>\d{{1,5}})"
            rf"(?: stuck for (?P<seconds>\d{{1,9}})s)?!(?: \[{_COMM}:(?P<pid>\d{{1,8}})\])?"
        ),
        trace=150,
    ),
    Headline(
        "hard_lockup",
        "LOCKUP",
        re.compile(
            rf"(?:Kernel panic - not syncing: )?(?:BUG: )?{_WATCHDOG}(?:CPU ?\d{{1,5}}: )?"
            r"Watchdog detected (?:hard )?LOCKUP on [Cc][Pp][Uu] ?(?P<cpu>\d{1,5})"
            r"|(?:BUG: )?NMI Watchdog detected LOCKUP on CPU ?(?P<cpu_>\d{1,5})"
            r"|(?:watchdog: )?CPU (?P<cpu__>\d{1,5}) self-detected hard LOCKUP @ "  # powerpc from 4.13
            r"|(?:watchdog: )?CPU \d{1,5} detected hard LOCKUP on other CPUs (?P<cpu___>\d{1,5})"
        ),
        trace=150,
    ),
    Headline(
        "rcu_stall",
        " stall",
        re.compile(
            r"(?:rcu: )?INFO: (?P<flavour>rcu\w{0,40}) (?:self-)?detected (?:expedited )?stalls? on CPUs?(?:/tasks)?:?"
            r"(?: \{? {0,2}(?P<cpu>\d{1,5})\b)?(?:.{0,200}?\bt=(?P<jiffies>\d{1,12}) jiffies)?"
        ),
        trace=150,
    ),
    Headline(
        "allocation_failure",
        "allocation failure",
        re.compile(rf"{_COMM}: page allocation failure[.:] order:(?P<order>\d{{1,3}})(?:, {_MODE})?"),
        trace=30,
        whole=True,
    ),
    Headline(
        "allocation_failure",
        "vmalloc",
        re.compile(
            rf"{_COMM}: (?P<vmalloc>vmalloc)(?:: allocation failure| error: | size \d{{1,20}} allocation failure)"
            rf"(?:.{{0,100}}?page order (?P<order>\d{{1,3}}))?.{{0,100}}?(?:, .{{0,60}}?{_MODE}|$)"
        ),
        trace=30,
        whole=True,
    ),
    Headline(
        "allocation_stall",
        "allocation stalls",
        re.compile(
            rf"{_COMM}: page allocation stalls for (?P<milliseconds>\d{{1,12}})ms, "
            rf"order:(?P<order>\d{{1,3}})(?:, {_MODE})?"
        ),
        trace=30,
        whole=True,
    ),
    Headline(
        "oom_kill",
        "invoked oom-killer",
        re.compile(
            rf"{_COMM} invoked oom-killer: (?:gfp_mask=(?P<mode>0x[0-9a-f]{{1,16}}(?:\([\w|]{{1,600}}\))?))?"
            r".{0,200}?\border=(?P<order>-?\d{1,3})"
        ),
        trace=60,
        whole=True,
    ),
    Headline(
        "min_free_raised",
        "raising min_free",
        re.compile(
            r"(?:khugepaged: )?raising min_free_kbytes from (?P<from_>\d{1,15}) to (?P<to>\d{1,15}) to help transparent"
        ),
    ),
    Headline("restart", "Linux version ", re.compile(r"Linux version (?P<kernel>\d\S{1,80})")),
)

_BLOCKER = re.compile(
    rf"INFO: task {_COMM}:(?P<pid>\d{{1,8}}) (?:<\w{{1,10}}> )?(?:is )?blocked on an? (?P<lock>[\w-]{{1,20}})"
    r"(?:,? likely (?:owned|last held) by task (?P<holder>.{0,15}\S):(?P<holder_pid>\d{1,8}))?"
)
SYSRQ = re.compile(r"(?:sysrq: ?|SysRq ?: ?){1,2}(?P<what>(?:Show|Trigger|HELP|Changing|Emergency|This)\b.{0,80})")
NMI_BACKTRACE = re.compile(r"NMI backtrace for cpu (?P<cpu>\d{1,5})(?P<skipped> skipped)?")
ONE_CPU = re.compile(r"CPU(?P<cpu>\d{1,5}):\s*$")  # sysrq l to 2.6.3x
OTHER_TRACE = re.compile(
    r"(?:WARNING: |BUG: |kernel BUG at |general protection fault|Oops|Unable to handle kernel|-{4,}\[ cut here )"
)

HINTS = (
    *dict.fromkeys(h.hint for h in HEADLINES), "SysRq", "sysrq", "NMI backtrace", "Call ", "omm: ", "task:", " 0x00",
    " 0x80", "*4kB", "*64kB", "WARNING: ", "BUG", "ill process", "illed process", "ransparent",
)  # fmt: skip
"""Of a line of interest, one of these is a part. Looking for them first makes a log of a million lines cheap."""


def telling(text: str) -> bool:
    """Whether a line may matter when nothing is open."""
    for hint in HINTS:  # noqa: SIM110 - `any` takes twice as long, of which a log of a million lines has a million
        if hint in text:
            return True
    return False


def headline(text: str) -> tuple[Headline, dict[str, str]] | None:
    """The report that begins on this line."""
    for candidate in _hinted(text):
        if (fields := candidate.fields(text)) is not None:
            return candidate, fields
    return None


def blocker(text: str) -> dict[str, str] | None:
    """What a hung task waits for, and who holds it, as far as the kernel knows (from 6.15; below the task's stack).

    `INFO: task java:4711 is blocked on a mutex likely owned by task java:4700.` The holder's stack follows.
    """
    found = _BLOCKER.match(text) if "blocked on a" in text else None
    return {k: printable(v) for k, v in found.groupdict().items() if v is not None} if found else None


def _hinted(text: str) -> Iterator[Headline]:
    return (h for h in HEADLINES if h.hint in text)
