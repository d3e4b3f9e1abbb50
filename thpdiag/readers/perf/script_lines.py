"""The two kinds of lines of perf script: the head of a sample and a frame of its chain.

    hog worker 5  7643 [001]  1050.057982:    2500000 cpu-clock:ppp:
    \tffffffff815ceeb2 compact_zone+0x52 ([kernel.kallsyms])

What the head shows depends on perf's version and `-F`; fields stand in this order, each may be missing:

    [comm] [pid/]tid [[cpu]] [flags] [time:] [period] [event:] [payload, address or the only frame]

A comm may contain blanks, digits as words, colons; the tid of a task that is gone is -1. Not a reader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_IDS = r"(?:(?P<pid>-?\d{1,10})\s*/\s*)?(?P<tid>-?\d{1,10})"
_CPU = r"\[(?P<cpu>\d{1,6})\]"
_TIME = r"(?P<seconds>\d{1,12})\.(?P<fraction>\d{6}|\d{9}):"
_EVENT = r"(?P<event>[A-Za-z_{]\S{0,200}?|raw 0x[0-9a-f]{1,16}):(?=\s|$)"
_TAIL = rf"(?:(?P<period>\d{{1,20}})\s+)?(?:{_EVENT})?\s*(?P<rest>.*)$"
_WITH_CPU = re.compile(rf"\s*(?:(?P<comm>\S.{{0,40}}?)\s{{1,40}})??{_IDS}\s{{1,40}}{_CPU}\s*{_TAIL}")
_ANY_TIME = re.compile(rf"(?:^|\s){_TIME}(?:\s|$)")
_TIME_ONLY = re.compile(rf"\s*{_TIME}(?:\s+|$){_TAIL}")
_BARE = re.compile(
    rf"\s*(?P<comm>\S.{{0,40}}?)\s{{1,40}}{_IDS}\s{{1,40}}(?:(?P<period>\d{{1,20}})\s{{1,40}})?{_EVENT}\s*(?P<rest>.*)$"
)
_COMM_TID = re.compile(rf"\s*(?P<comm>\S.{{0,40}})\s{{1,40}}{_IDS}\s{{1,40}}(?P<period>(?!))?{_EVENT}\s*(?P<rest>.*)$")
_COMM_ONLY = re.compile(rf"\s*(?P<comm>\S.{{0,40}}?)\s{{1,40}}{_IDS}\s*(?P<rest>)$")
_WHO = re.compile(rf"\s*(?:(?P<comm>\S.{{0,60}})\s{{1,40}})?{_IDS}(?:\s{{1,40}}{_CPU})?(?:\s{{1,40}}[A-Z]{{1,5}})?\s*$")
_EVENT_ONLY = re.compile(rf"\s*(?:(?P<period>\d{{1,20}})\s+)?{_EVENT}\s*(?P<rest>.*)$")
_HINT = re.compile(r"\d\.\d{6}")

_FRAME = re.compile(r"\s*(?P<ip>[0-9a-f]{1,16})(?:\s(?P<text>.*))?$")
_NUMBER = re.compile(r"(?=[a-f]*\d)[0-9a-f.,%-]+(?:\s|$)")
_INDENT = " " * 8  # of frames before perf 3.x
_SHORTEST, _LONG = 3, 8  # digits of an address: before a name, alone
_SOURCE_LINE = re.compile(r"\s+\S{1,300}(?::\d{1,7}|\[[0-9a-f]{3,16}\])$")  # of -F +srcline
_ADDRESS = re.compile(r"[0-9a-f]{3,16}$")
_BRANCH = re.compile(r"0x[0-9a-f]{1,16}/0x[0-9a-f]{1,16}(?:/[^\s/]{0,12}){0,6}$")
_PERIOD_WIDTH = 10
_SCRIPT_MAP = re.compile(r".*perf-\d+\.map$|\[JIT\]|.*jitted-\d+-\d+\.so$")


@dataclass(frozen=True, slots=True)
class Head:
    """The first line of a sample.

    `hundredths` is the time in 10 ms, `seconds` the same in full; None if not printed.
    """

    comm: str = ""
    pid: int | None = None
    tid: int | None = None
    cpu: int | None = None
    hundredths: int | None = None
    seconds: float | None = None
    period: int | None = None
    event: str = ""
    rest: str = ""


def head(text: str) -> Head | None:
    """A line as head of a sample, None if it is none."""
    if _HINT.search(text) and (found := _timed(text)):
        return found
    for pattern in (_WITH_CPU, _TIME_ONLY):
        if match := pattern.match(text):
            return _head(match)
    if match := _BARE.match(text):
        return _head(_settle(text, match))
    return _weak(text)


def _timed(text: str) -> Head | None:
    """A head with a time. The ids are the last numbers before it, so the comm is matched as long as possible."""
    at = _ANY_TIME.search(text)
    if not at:
        return None
    before, after = text[: at.start()], text[at.start() :].strip()
    tail = _TIME_ONLY.match(after)
    who = _WHO.match(before)
    if not tail or (before.strip() and not who):
        return None
    found = {**tail.groupdict(), **(who.groupdict() if who else {})}
    return _from(found)


def _weak(text: str) -> Head | None:
    """Heads without an event: only comm and ids, or only an event."""
    for pattern in (_COMM_ONLY, _EVENT_ONLY):
        if match := pattern.match(text):
            return _head(match)
    return None


def _settle(text: str, match: re.Match[str]) -> re.Match[str]:
    """Without a time, `worker 5 25595 cycles:` may be comm, tid, period or comm, tid.

    Perf pads a period to 10 columns.
    """
    period, tid = match["period"], match["tid"]
    if period is None or match["pid"] is not None:
        return match
    gap = match.start("period") - match.end("tid")
    longer = _COMM_TID.match(text)
    if longer and gap + len(period) <= _PERIOD_WIDTH and len(match["comm"].split()) > 1 and tid:
        return longer
    return match


def _head(match: re.Match[str]) -> Head:
    return _from(match.groupdict())


def _from(found: dict[str, str | None]) -> Head:
    def number(name: str) -> int | None:
        value = found.get(name)
        return int(value) if value else None

    seconds, fraction = found.get("seconds"), found.get("fraction")
    tid, pid = number("tid"), number("pid")
    return Head(
        comm=(found.get("comm") or "").strip(),
        pid=pid,
        tid=tid,
        cpu=number("cpu"),
        hundredths=int(seconds) * 100 + int(fraction[:2]) if seconds and fraction else None,
        seconds=float(f"{seconds}.{fraction}") if seconds else None,
        period=number("period"),
        event=(found.get("event") or "").rstrip(":"),
        rest=(found.get("rest") or "").strip(),
    )


def frame(text: str) -> tuple[list[str], str] | None:
    """A line as frame: function names, leaf first (several if inlined by a runtime), and the object. None if it is
    none.

    `sym+0x1 (object)`, `sym (/memfd:x (deleted))`, ` (object)` without a name, `sym (inlined)`, `sym` where `-F` left
    the object out.
    """
    found = _FRAME.match(text)
    return split(found["text"] or "") if found else None


def frame_like(text: str) -> bool:
    """Whether a line can only be a frame, and no row of numbers or dump of a stack.

    An address, then an object in brackets, an offset or `[unknown]`, or (indented) a name; or a long address alone.
    """
    found = _FRAME.match(text)
    if not found:
        return False
    rest = (found["text"] or "").strip()
    if not rest:
        return text[0] == "\t" and len(found["ip"]) >= _LONG
    if len(found["ip"]) < _SHORTEST or _NUMBER.match(rest):
        return False
    return rest.endswith(")") or "+0x" in rest or "[unknown]" in rest or text.startswith(("\t", _INDENT))


def source_line(text: str) -> bool:
    """Whether a line is the place in the source that `-F +srcline` prints below a frame."""
    return text[:1] == " " and bool(_SOURCE_LINE.match(text))


def split(text: str) -> tuple[list[str], str]:
    """What stands behind the address: names and object."""
    text = text.rstrip()
    while not text.endswith(")") and _BRANCH.match(last := text[text.rfind(" ") + 1 :]):
        text = text[: -len(last)].rstrip()  # columns of the last branches
    name, dso = text.strip(), ""
    if text.endswith(")") and (start := _opening(text)) >= 0 and (start == 0 or text[start - 1] in " \t"):
        name, dso = text[:start].strip(), text[start + 1 : -1]
    if dso == "inlined":
        dso = ""
    if "->" in name and _SCRIPT_MAP.match(dso):
        return [part for part in reversed(name.split("->")) if part], dso
    return [name or "[unknown]"], dso


def _opening(text: str) -> int:
    """Where the bracket opens that closes at the end of the line."""
    last = text.rfind("(")
    if last > text.rfind(")", 0, -1):
        return last  # most objects have no brackets of their own
    depth = 0
    for position in range(len(text) - 1, -1, -1):
        if text[position] == ")":
            depth += 1
        elif text[position] == "(":
            depth -= 1
            if depth == 0:
                return position
    return -1


def single(rest: str) -> tuple[list[str], str] | None:
    """The frame at the end of a head line (recorded without chains), after an address of data if there is one."""
    words = rest.split(None, 1)
    if len(words) == 2 and _ADDRESS.match(words[0]):
        following = words[1].split(None, 1)
        if len(following) == 2 and _ADDRESS.match(following[0]) and following[1].endswith(")"):
            return split(following[1])
        if words[1].endswith(")") or "+0x" in words[1]:
            return split(words[1])
    return None
