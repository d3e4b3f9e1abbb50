"""Which lines begin a block of perf script in a longer text, and which belong to one. Not a reader."""

from __future__ import annotations

import re
from itertools import islice, pairwise

from thpdiag.bundle.transcript import looks_like_html, prompt
from thpdiag.readers.perf import header as perf_header
from thpdiag.readers.perf.columns import Columns, row
from thpdiag.readers.perf.script_lines import frame_like, head, source_line
from thpdiag.readers.perf.script_samples import STRONG

_EVENT_NAME = r"[A-Za-z_][\w/.,=:{}-]{0,100}:"
_WHO = r"\s*(?:\S.{0,60}?\s{1,40})?-?\d{1,10}(?:/\s{0,20}-?\d{1,10})?"
_CPU = r"(?:\s{1,40}\[\d{1,6}\])?(?:\s{1,40}[A-Z]{1,5})?"
_TIME = r"\d{1,12}\.(?:\d{6}|\d{9}):(?:\s|$)"
_HEAD_LINE = re.compile(rf"{_WHO}{_CPU}\s{{1,40}}(?:{_TIME}|(?:\d{{1,20}}\s{{1,40}})?{_EVENT_NAME}(?:\s|$))|\s*{_TIME}")
_SHORT_HEAD = re.compile(rf"{_WHO}{_CPU}$|\s*(?:\d{{1,20}}\s{{1,40}})?{_EVENT_NAME}$")
_TAB_FRAME = re.compile(r"\t\s*[0-9a-f]{3,16}(?:\s\S.*)?$")
OPENS = re.compile(
    rf"{perf_header.OPENS}|{_HEAD_LINE.pattern}|{_SHORT_HEAD.pattern}|\s+[0-9a-f]{{8,16}}\s[^()]{{0,500}}\(\S|{_TAB_FRAME.pattern}"
)


def continues(text: str) -> bool:
    """Frames, heads, empty lines, perf's comments; anything indented by a tab, which the reader counts if it is odd."""
    if not text or text[0] == "\t" or not text.strip():
        return True
    if text[0] == "#":
        return bool(perf_header.COMMENT.match(text))
    return bool(
        frame_like(text)
        or _HEAD_LINE.match(text)
        or _SHORT_HEAD.match(text)
        or source_line(text)
        or "PERF_RECORD_" in text
    )


def _is_frame(text: str) -> bool:
    return not STRONG.match(text) and frame_like(text)


def confirm(ahead: list[str]) -> bool:
    """A head with a time and an event is enough if nothing foreign follows; any other must be followed by frames."""
    body = [t for t in ahead if t.strip() and t[0] != "#"]
    if re.match(perf_header.OPENS, ahead[0]):
        return bool(body) and not row(body[0], Columns()) and bool(_HEAD_LINE.match(body[0]) or _is_frame(body[0]))
    frames = [_is_frame(t) for t in body[1:3]]
    if STRONG.match(ahead[0]):
        found = head(ahead[0])
        return bool(found and (found.event or frames[:1] == [True])) and (len(body) < 2 or continues(body[1]))
    if _is_frame(ahead[0]):
        return frames[:1] == [True]
    if head(ahead[0]) is None or not frames:
        return False
    return frames[0] if ahead[0].endswith(":") else all(frames)


_FULL = 1 << 16  # bytes of a head that is not the whole member
_LEAST = 1 << 20  # bytes of a member that is worth a start of numpy
_SAMPLES = 3  # heads with a frame below in the first lines
_ALIEN = 0.02  # share of the first lines that may be something else: complaints of perf
_UNUSUAL = re.compile(rb"[\x00\x1b]|^(?:\xff\xfe|\xfe\xff|\xef\xbb\xbf)|\r(?!\n)|\n[ \t]?>")


def claims(path: str, head_bytes: bytes, size: int | None) -> bool:
    """Whether a member is perf script from its first line on, and long.

    Mails, terminal sessions and pages are for the readers of lines.
    """
    if (len(head_bytes) < _FULL if size is None else size < _LEAST) or _UNUSUAL.search(head_bytes):
        return False
    if b"\n\t" not in head_bytes and b"\n  " not in head_bytes:
        return False
    text = head_bytes[: head_bytes.rfind(b"\n")].decode("utf-8", "replace")
    lines = [line.rstrip() for line in text.split("\n")]
    filled = [line for line in lines if line]
    if looks_like_html(text) or any(prompt(line) is not None for line in filled):
        return False
    alien = sum(not continues(line) for line in filled)
    return alien <= _ALIEN * len(filled) and _sampled(lines)


def _sampled(lines: list[str]) -> bool:
    """Whether there are heads, each with a frame below it."""
    pairs = ((a, b) for a, b in pairwise(lines) if a and a[0] not in "#\t")
    found = (1 for a, b in pairs if _is_frame(b) and not _is_frame(a) and head(a) is not None)
    return sum(islice(found, _SAMPLES)) == _SAMPLES
