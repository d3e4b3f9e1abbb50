"""Single lines of perf script: the head of a sample and a frame of its chain.

    hog worker 5  7643 [001]  1050.057982:    2500000 cpu-clock:ppp:
    \tffffffff815ceeb2 compact_zone+0x52 ([kernel.kallsyms])

The fields of the head depend on perf's version and `-F`. They are in this order, each may be missing:

    [comm] [pid/]tid [[cpu]] [flags] [time:] [period] [event:] [payload, address or the only frame]

A comm may contain blanks, words of digits and colons; the tid of a task that has exited is -1. This module also decides
which lines open a block of perf script in a longer text, and which continue it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from thpdiag.detect.transcript import clean
from thpdiag.parsers.perf._texts import HEADER_COMMENT, HEADER_OPENS
from thpdiag.parsers.perf.overhead import Columns, parse_row

NAME = "perf_script"
LOOKAHEAD = 80  # lines that must follow an opening line before it is confirmed
_IDS = r"(?:(?P<pid>-?\d{1,10})\s*/\s*)?(?P<tid>-?\d{1,10})"
_CPU = r"\[(?P<cpu>\d{1,6})\]"
_TIME = r"(?P<seconds>\d{1,12})\.(?P<fraction>\d{6}|\d{9}):"
_EVENT = r"(?P<event>[A-Za-z_{]\S{0,200}?|raw 0x[0-9a-f]{1,16}):(?=\s|$)"
_TAIL = rf"(?:(?P<period>\d{{1,20}})\s+)?(?:{_EVENT})?\s*(?P<rest>.*)$"
_WITH_CPU = re.compile(rf"\s*(?:(?P<comm>\S.{{0,40}}?)\s{{1,40}})??{_IDS}\s{{1,40}}{_CPU}\s*{_TAIL}")
_TIME_FIELD = re.compile(rf"(?:^|\s){_TIME}(?:\s|$)")
_TIME_AND_TAIL = re.compile(rf"\s*{_TIME}(?:\s+|$){_TAIL}")
_WITHOUT_TIME = re.compile(
    rf"\s*(?P<comm>\S.{{0,40}}?)\s{{1,40}}{_IDS}\s{{1,40}}(?:(?P<period>\d{{1,20}})\s{{1,40}})?{_EVENT}\s*(?P<rest>.*)$"
)
_COMM_TID = re.compile(rf"\s*(?P<comm>\S.{{0,40}})\s{{1,40}}{_IDS}\s{{1,40}}(?P<period>(?!))?{_EVENT}\s*(?P<rest>.*)$")
_COMM_ONLY = re.compile(rf"\s*(?P<comm>\S.{{0,40}}?)\s{{1,40}}{_IDS}\s*(?P<rest>)$")
_TASK = re.compile(
    rf"\s*(?:(?P<comm>\S.{{0,60}})\s{{1,40}})?{_IDS}(?:\s{{1,40}}{_CPU})?(?:\s{{1,40}}[A-Z]{{1,5}})?\s*$"
)
_EVENT_ONLY = re.compile(rf"\s*(?:(?P<period>\d{{1,20}})\s+)?{_EVENT}\s*(?P<rest>.*)$")
TIME_LIKE = re.compile(r"\d\.\d{6}")
TIMED_HEAD = re.compile(r".*\s-?\d{1,10}\s+(?:\[\d+\]\s+)?(?:[A-Z]{1,5}\s+)?\d{1,12}\.(?:\d{6}|\d{9}):(?:\s|$)")

_FRAME = re.compile(r"\s*(?P<ip>[0-9a-f]{1,16})(?:\s(?P<text>.*))?$")
_NAME_AND_STATE = re.compile(r"\(.{1,64}\) [RSDZTtXIP] ")  # of /proc/PID/stat
_NUMBER = re.compile(r"(?=[a-f]*\d)[0-9a-f.,%-]+(?:\s|$)|\d\d:\d\d:\d\d\b")
_INDENT = " " * 8  # before frames of perf older than 3.x
_MIN_ADDRESS, _MIN_LONE_ADDRESS = 3, 8  # digits of an address before a name, and of one alone
_SOURCE_LINE = re.compile(r"\s+\S{1,300}(?::\d{1,7}|\[[0-9a-f]{3,16}\])$")  # of -F +srcline
_UNINDENTED_SOURCE_LINE = re.compile(r"[\w./+-]{1,300}\.[A-Za-z]{1,4}:\d{1,7}$|\[[\w.]{1,64}\]\[[0-9a-f]{3,16}\]$")
_ADDRESS = re.compile(r"[0-9a-f]{3,16}$")
_BRANCH_ENTRY = re.compile(r"0x[0-9a-f]{1,16}/0x[0-9a-f]{1,16}(?:/[^\s/]{0,12}){0,6}$")
_PERIOD_WIDTH = 10  # columns
_JIT_MAP = re.compile(r".*perf-\d+\.map$|\[JIT\]|.*jitted-\d+-\d+\.so$")
_MAX_PLAIN_LINE = 4096  # bytes


@dataclass(frozen=True, slots=True)
class Head:
    """The first line of a sample. `hundredths` is the time in 10 ms, `seconds` the exact time; None if not printed."""

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
    """Return the head of a sample on this line, None if there is none."""
    if TIME_LIKE.search(text) and (time := _TIME_FIELD.search(text)):
        # The ids are the last numbers before the time, so the comm is matched as long as possible.
        before, tail = text[: time.start()], _TIME_AND_TAIL.match(text[time.start() :].strip())
        task = _TASK.match(before)
        if tail and (task or not before.strip()):
            return _new_head({**tail.groupdict(), **(task.groupdict() if task else {})})
    for pattern in (_WITH_CPU, _TIME_AND_TAIL, _WITHOUT_TIME, _COMM_ONLY, _EVENT_ONLY):
        if match := pattern.match(text):
            return _new_head((_match_without_time(text, match) if pattern is _WITHOUT_TIME else match).groupdict())
    return None


def _match_without_time(text: str, match: re.Match[str]) -> re.Match[str]:
    """Decide whether `worker 5 25595 cycles:` is comm, tid, period or comm, tid: perf pads a period to 10 columns."""
    if match["period"] is None or match["pid"] is not None:
        return match
    width = match.start("period") - match.end("tid") + len(match["period"])
    if width <= _PERIOD_WIDTH and len(match["comm"].split()) > 1:
        return _COMM_TID.match(text) or match
    return match


def _new_head(fields: dict[str, str | None]) -> Head:
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
    """Return function names, leaf first (several if a runtime inlined them), and the object; None if it is no frame.

    Forms: `sym+0x1 (object)`, `sym (/memfd:x (deleted))`, ` (object)` without a name, `sym (inlined)`, `sym` where
    `-F` omitted the object.
    """
    match = _FRAME.match(text)
    return _split_frame(match["text"] or "") if match else None


_CUT_OBJECT = re.compile(r"(?<!\s)\s+\((?:(?P<kernel>\[k)|[/\[])[^()]*$")  # the end of the line was cut off


def _split_frame(text: str) -> tuple[list[str], str]:
    """Return function names and object from the text after the address."""
    text = text.rstrip()
    while not text.endswith(")") and _BRANCH_ENTRY.match(last := text[text.rfind(" ") + 1 :]):
        text = text[: -len(last)].rstrip()  # columns of the last branches (brstack)
    name, dso = text.strip(), ""
    if text.endswith(")") and (start := _find_opening_bracket(text)) >= 0 and (start == 0 or text[start - 1] in " \t"):
        name, dso = text[:start].strip(), text[start + 1 : -1]
    elif cut := _CUT_OBJECT.search(text):
        name, dso = text[: cut.start()], "[kernel.kallsyms]" if cut["kernel"] else ""
    if dso == "inlined":
        dso = ""
    if "->" in name and _JIT_MAP.match(dso):
        return [part for part in reversed(name.split("->")) if part], dso
    return [name or "[unknown]"], dso


def _find_opening_bracket(text: str) -> int:
    """Return the position of the bracket that closes at the end of the line, -1 if there is none."""
    last = text.rfind("(")
    if last > text.rfind(")", 0, -1):
        return last  # most objects contain no brackets
    depth = 0
    for position in range(len(text) - 1, -1, -1):
        depth += (text[position] == ")") - (text[position] == "(")
        if depth == 0:
            return position
    return -1


def parse_frame_of_head(rest: str) -> tuple[list[str], str] | None:
    """Return the frame at the end of a head line (recorded without chains); an address of data may precede it."""
    words = rest.split(None, 1)
    if len(words) < 2 or not _ADDRESS.match(words[0]):
        return None
    following = words[1].split(None, 1)
    if len(following) == 2 and _ADDRESS.match(following[0]) and following[1].endswith(")"):
        return _split_frame(following[1])
    return _split_frame(words[1]) if words[1].endswith(")") or "+0x" in words[1] else None


def is_source_line(text: str) -> bool:
    """Whether the line is the source location that `-F +srcline` prints below a frame."""
    return bool((_SOURCE_LINE if text[:1] == " " else _UNINDENTED_SOURCE_LINE).match(text))


def is_frame(text: str) -> bool:
    """Whether the line can only be a frame, and not the head of a sample whose command looks like an address."""
    return not TIMED_HEAD.match(text) and _is_frame_like(text)


def _is_frame_like(text: str) -> bool:
    """Whether the line is an address, then an object in brackets, an offset, `[unknown]` or (indented) a name.

    A long address alone counts too; a row of numbers or a dump of a stack does not.
    """
    match = _FRAME.match(text)
    if not match:
        return False
    rest = (match["text"] or "").strip()
    if not rest:
        # perf pads addresses to 16 columns, so an unpadded decimal number is a time in seconds
        is_number = text[1:] == match["ip"] and match["ip"].isdecimal()
        return text[0] == "\t" and len(match["ip"]) >= _MIN_LONE_ADDRESS and not is_number
    if len(match["ip"]) < _MIN_ADDRESS or _NUMBER.match(rest) or _NAME_AND_STATE.match(rest):
        return False
    return rest.endswith(")") or "+0x" in rest or "[unknown]" in rest or text.startswith(("\t", _INDENT))


def plain_text(raw: bytes) -> str | None:
    """Return the line as the detector of blocks would clean it, None where that takes more than removing blanks.

    Lines with other encodings, escapes, quoting or great length are left to the line-by-line parser.
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
    """Return the head of a sample on this line, None if in some context the line could be anything else."""
    text = plain_text(raw)
    if not text or text[0] in "#\t" or "PERF_RECORD_" in text:
        return None
    return parse_head(text) if TIMED_HEAD.match(text) or text.endswith(":") else None


_EVENT_NAME = r"[A-Za-z_][\w/.,=:{}-]{0,100}:"
_HEAD_TASK = r"\s*(?:\S.{0,60}?\s{1,40})?-?\d{1,10}(?:/\s{0,20}-?\d{1,10})?"
_HEAD_CPU = r"(?:\s{1,40}\[\d{1,6}\])?(?:\s{1,40}[A-Z]{1,5})?"
_HEAD_TIME = r"\d{1,12}\.(?:\d{6}|\d{9}):(?:\s|$)"
_HEAD_LINE = re.compile(
    rf"{_HEAD_TASK}{_HEAD_CPU}\s{{1,40}}(?:{_HEAD_TIME}|(?:\d{{1,20}}\s{{1,40}})?{_EVENT_NAME}(?:\s|$))|\s*{_HEAD_TIME}"
)
_SHORT_HEAD = re.compile(rf"{_HEAD_TASK}{_HEAD_CPU}$|\s*(?:\d{{1,20}}\s{{1,40}})?{_EVENT_NAME}$")
OPENS = re.compile(
    rf"{HEADER_OPENS}|{_HEAD_LINE.pattern}|{_SHORT_HEAD.pattern}|\s+[0-9a-f]{{8,16}}\s[^()]{{0,500}}\(\S"
    r"|\t\s*[0-9a-f]{3,16}(?:\s\S.*)?$"
)


def continues(text: str) -> bool:
    """Whether the line is a frame, a head, empty or a comment of perf; any line that begins with a tab counts too."""
    if not text or text[0] == "\t" or not text.strip():
        return True
    if text[0] == "#":
        return bool(HEADER_COMMENT.match(text))
    if _is_frame_like(text) or is_source_line(text) or "PERF_RECORD_" in text:
        return True
    return bool(_HEAD_LINE.match(text) or _SHORT_HEAD.match(text))


def confirm(ahead: list[str]) -> bool:
    """Whether a block of perf script begins here.

    A head with a time and an event is enough if nothing foreign follows; any other head must be followed by frames.
    """
    body = [t for t in ahead if t.strip() and t[0] != "#"]
    if re.match(HEADER_OPENS, ahead[0]):
        return bool(body) and not parse_row(body[0], Columns()) and bool(_HEAD_LINE.match(body[0]) or is_frame(body[0]))
    frames = [is_frame(t) for t in body[1:3]]
    if TIMED_HEAD.match(ahead[0]):
        head = parse_head(ahead[0])
        return bool(head and (head.event or frames[:1] == [True])) and (len(body) < 2 or continues(body[1]))
    if is_frame(ahead[0]):
        return frames[:1] == [True]
    if parse_head(ahead[0]) is None or not frames:
        return False
    return frames[0] if ahead[0].endswith(":") else all(frames)
