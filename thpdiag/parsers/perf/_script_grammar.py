"""The grammar of single lines: the head of a sample and a frame of its chain.

    hog worker 5  7643 [001]  1050.057982:    2500000 cpu-clock:ppp:
    \tffffffff815ceeb2 compact_zone+0x52 ([kernel.kallsyms])

What the head shows depends on perf's version and `-F`; fields stand in this order, each may be missing:

    [comm] [pid/]tid [[cpu]] [flags] [time:] [period] [event:] [payload, address or the only frame]

A comm may contain blanks, digits as words, colons; the tid of a task that is gone is -1. Also which lines open a block
of perf script in a longer text, and which go on with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from thpdiag.detect.transcript import clean
from thpdiag.parsers.perf._texts import HEADER_COMMENT, HEADER_OPENS
from thpdiag.parsers.perf.overhead import Columns, row

NAME = "perf_script"
LOOKAHEAD = 80  # lines that must be known behind one before it is judged
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
TIME_LIKE = re.compile(r"\d\.\d{6}")
TIMED_HEAD = re.compile(r".*\s-?\d{1,10}\s+(?:\[\d+\]\s+)?(?:[A-Z]{1,5}\s+)?\d{1,12}\.(?:\d{6}|\d{9}):(?:\s|$)")

_FRAME = re.compile(r"\s*(?P<ip>[0-9a-f]{1,16})(?:\s(?P<text>.*))?$")
_NAME_AND_STATE = re.compile(r"\(.{1,64}\) [RSDZTtXIP] ")  # of /proc/PID/stat
_NUMBER = re.compile(r"(?=[a-f]*\d)[0-9a-f.,%-]+(?:\s|$)|\d\d:\d\d:\d\d\b")
_INDENT = " " * 8  # of frames before perf 3.x
_MIN_ADDRESS, _MIN_LONE_ADDRESS = 3, 8  # digits: before a name, alone
_SOURCE_LINE = re.compile(r"\s+\S{1,300}(?::\d{1,7}|\[[0-9a-f]{3,16}\])$")  # of -F +srcline
_BARE_SOURCE_LINE = re.compile(
    r"[\w./+-]{1,300}\.[A-Za-z]{1,4}:\d{1,7}$|\[[\w.]{1,64}\]\[[0-9a-f]{3,16}\]$"
)  # without blanks
_ADDRESS = re.compile(r"[0-9a-f]{3,16}$")
_BRANCH = re.compile(r"0x[0-9a-f]{1,16}/0x[0-9a-f]{1,16}(?:/[^\s/]{0,12}){0,6}$")
_PERIOD_WIDTH = 10
_JIT_MAP = re.compile(r".*perf-\d+\.map$|\[JIT\]|.*jitted-\d+-\d+\.so$")
_MAX_PLAIN_LINE = 4096  # bytes


@dataclass(frozen=True, slots=True)
class Head:
    """The first line of a sample. `hundredths` is the time in 10 ms, `seconds` in full; None if not printed."""

    comm: str = ""
    pid: int | None = None
    tid: int | None = None
    cpu: int | None = None
    hundredths: int | None = None
    seconds: float | None = None
    period: int | None = None
    event: str = ""
    rest: str = ""


def parse_head(text: str) -> Head | None:
    """A line as head of a sample, None if it is none."""
    if TIME_LIKE.search(text) and (at := _ANY_TIME.search(text)):
        # The ids are the last numbers before the time, so the comm is matched as long as possible.
        before, tail = text[: at.start()], _TIME_ONLY.match(text[at.start() :].strip())
        who = _WHO.match(before)
        if tail and (who or not before.strip()):
            return _head({**tail.groupdict(), **(who.groupdict() if who else {})})
    for pattern in (_WITH_CPU, _TIME_ONLY, _BARE, _COMM_ONLY, _EVENT_ONLY):
        if match := pattern.match(text):
            return _head((_without_time(text, match) if pattern is _BARE else match).groupdict())
    return None


def _without_time(text: str, match: re.Match[str]) -> re.Match[str]:
    """`worker 5 25595 cycles:` may be comm, tid, period or comm, tid: perf pads a period to 10 columns."""
    if match["period"] is None or match["pid"] is not None:
        return match
    width = match.start("period") - match.end("tid") + len(match["period"])
    if width <= _PERIOD_WIDTH and len(match["comm"].split()) > 1:
        return _COMM_TID.match(text) or match
    return match


def _head(fields: dict[str, str | None]) -> Head:
    pid, tid, cpu, period = (int(value) if (value := fields.get(n)) else None for n in ("pid", "tid", "cpu", "period"))
    seconds, fraction = fields.get("seconds"), fields.get("fraction")
    return Head(
        comm=(fields.get("comm") or "").strip(),
        pid=pid,
        tid=tid,
        cpu=cpu,
        hundredths=int(seconds) * 100 + int(fraction[:2]) if seconds and fraction else None,
        seconds=float(f"{seconds}.{fraction}") if seconds else None,
        period=period,
        event=(fields.get("event") or "").rstrip(":"),
        rest=(fields.get("rest") or "").strip(),
    )


def parse_frame(text: str) -> tuple[list[str], str] | None:
    """A line as frame: function names, leaf first (several if inlined by a runtime), and the object; None if none.

    `sym+0x1 (object)`, `sym (/memfd:x (deleted))`, ` (object)` without a name, `sym (inlined)`, `sym` where `-F` left
    the object out.
    """
    match = _FRAME.match(text)
    return _names_and_object(match["text"] or "") if match else None


_CUT_OBJECT = re.compile(r"(?<!\s)\s+\((?:(?P<kernel>\[k)|[/\[])[^()]*$")  # without the end of its line


def _names_and_object(text: str) -> tuple[list[str], str]:
    """What stands behind the address."""
    text = text.rstrip()
    while not text.endswith(")") and _BRANCH.match(last := text[text.rfind(" ") + 1 :]):
        text = text[: -len(last)].rstrip()  # columns of the last branches
    name, dso = text.strip(), ""
    if text.endswith(")") and (start := _opening_bracket(text)) >= 0 and (start == 0 or text[start - 1] in " \t"):
        name, dso = text[:start].strip(), text[start + 1 : -1]
    elif cut := _CUT_OBJECT.search(text):
        name, dso = text[: cut.start()], "[kernel.kallsyms]" if cut["kernel"] else ""
    if dso == "inlined":
        dso = ""
    if "->" in name and _JIT_MAP.match(dso):
        return [part for part in reversed(name.split("->")) if part], dso
    return [name or "[unknown]"], dso


def _opening_bracket(text: str) -> int:
    """Where the bracket opens that closes at the end of the line."""
    last = text.rfind("(")
    if last > text.rfind(")", 0, -1):
        return last  # most objects have no brackets of their own
    depth = 0
    for position in range(len(text) - 1, -1, -1):
        depth += (text[position] == ")") - (text[position] == "(")
        if depth == 0:
            return position
    return -1


def frame_of_head(rest: str) -> tuple[list[str], str] | None:
    """The frame at the end of a head line (recorded without chains), after an address of data if there is one."""
    words = rest.split(None, 1)
    if len(words) < 2 or not _ADDRESS.match(words[0]):
        return None
    following = words[1].split(None, 1)
    if len(following) == 2 and _ADDRESS.match(following[0]) and following[1].endswith(")"):
        return _names_and_object(following[1])
    return _names_and_object(words[1]) if words[1].endswith(")") or "+0x" in words[1] else None


def is_source_line(text: str) -> bool:
    """Whether a line is the place in the source that `-F +srcline` prints below a frame."""
    return bool((_SOURCE_LINE if text[:1] == " " else _BARE_SOURCE_LINE).match(text))


def is_frame(text: str) -> bool:
    """Whether a line can only be a frame: also no head of a sample whose command looks like an address."""
    return not TIMED_HEAD.match(text) and _frame_like(text)


def _frame_like(text: str) -> bool:
    """An address, then an object in brackets, an offset or `[unknown]`, or (indented) a name; or a long address alone.

    No row of numbers and no dump of a stack.
    """
    match = _FRAME.match(text)
    if not match:
        return False
    rest = (match["text"] or "").strip()
    if not rest:
        is_number = text[1:] == match["ip"] and match["ip"].isdecimal()  # an epoch; perf prints addresses 16 wide
        return text[0] == "\t" and len(match["ip"]) >= _MIN_LONE_ADDRESS and not is_number
    if len(match["ip"]) < _MIN_ADDRESS or _NUMBER.match(rest) or _NAME_AND_STATE.match(rest):
        return False
    return rest.endswith(")") or "+0x" in rest or "[unknown]" in rest or text.startswith(("\t", _INDENT))


def plain_text(raw: bytes) -> str | None:
    """A line's bytes as the text that the detection of blocks would give; None where that is not plain to see.

    Encoding, escapes, quoting and great length are a matter for those who read line by line.
    """
    if len(raw) > _MAX_PLAIN_LINE:
        return None
    if raw.isascii() and (text := raw.decode()).isprintable():
        text = text.rstrip()
    elif b"\r" in raw or b"\0" in raw or b"\x1b" in raw:
        return None
    else:
        try:
            text = clean(raw.decode())
        except UnicodeDecodeError:
            return None
    return None if text.lstrip()[:1] == ">" else text


def unambiguous_head(raw: bytes) -> Head | None:
    """A line as head of a sample; None if it could be anything else in some place."""
    text = plain_text(raw)
    if not text or text[0] in "#\t" or "PERF_RECORD_" in text:
        return None
    return parse_head(text) if TIMED_HEAD.match(text) or text.endswith(":") else None


_EVENT_NAME = r"[A-Za-z_][\w/.,=:{}-]{0,100}:"
_HEAD_WHO = r"\s*(?:\S.{0,60}?\s{1,40})?-?\d{1,10}(?:/\s{0,20}-?\d{1,10})?"
_HEAD_CPU = r"(?:\s{1,40}\[\d{1,6}\])?(?:\s{1,40}[A-Z]{1,5})?"
_HEAD_TIME = r"\d{1,12}\.(?:\d{6}|\d{9}):(?:\s|$)"
_HEAD_LINE = re.compile(
    rf"{_HEAD_WHO}{_HEAD_CPU}\s{{1,40}}(?:{_HEAD_TIME}|(?:\d{{1,20}}\s{{1,40}})?{_EVENT_NAME}(?:\s|$))|\s*{_HEAD_TIME}"
)
_SHORT_HEAD = re.compile(rf"{_HEAD_WHO}{_HEAD_CPU}$|\s*(?:\d{{1,20}}\s{{1,40}})?{_EVENT_NAME}$")
OPENS = re.compile(
    rf"{HEADER_OPENS}|{_HEAD_LINE.pattern}|{_SHORT_HEAD.pattern}|\s+[0-9a-f]{{8,16}}\s[^()]{{0,500}}\(\S"
    r"|\t\s*[0-9a-f]{3,16}(?:\s\S.*)?$"
)


def continues(text: str) -> bool:
    """Frames, heads, empty lines, perf's comments; anything indented by a tab, which the reader counts if it is odd."""
    if not text or text[0] == "\t" or not text.strip():
        return True
    if text[0] == "#":
        return bool(HEADER_COMMENT.match(text))
    if _frame_like(text) or is_source_line(text) or "PERF_RECORD_" in text:
        return True
    return bool(_HEAD_LINE.match(text) or _SHORT_HEAD.match(text))


def confirm(ahead: list[str]) -> bool:
    """A head with a time and an event is enough if nothing foreign follows; any other must be followed by frames."""
    body = [t for t in ahead if t.strip() and t[0] != "#"]
    if re.match(HEADER_OPENS, ahead[0]):
        return bool(body) and not row(body[0], Columns()) and bool(_HEAD_LINE.match(body[0]) or is_frame(body[0]))
    frames = [is_frame(t) for t in body[1:3]]
    if TIMED_HEAD.match(ahead[0]):
        head = parse_head(ahead[0])
        return bool(head and (head.event or frames[:1] == [True])) and (len(body) < 2 or continues(body[1]))
    if is_frame(ahead[0]):
        return frames[:1] == [True]
    if parse_head(ahead[0]) is None or not frames:
        return False
    return frames[0] if ahead[0].endswith(":") else all(frames)
