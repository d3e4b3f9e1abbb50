"""perf script: every sample of a recording as text, with its call chain, leaf first.

    churn  7641 [000]  1050.057387:    2500000 cpu-clock:
    \tffffffff821e8f67 clear_page_erms+0x7 ([kernel.kallsyms])
    \tffffffff815e9b16 folio_zero_user+0x166 ([kernel.kallsyms])

Times are seconds on the clock of the recording, which is near that of the boot; weight is the period, 1 where it is
not printed. Samples end at an empty line; before 3.x and without `-g` the only frame stands on the head's own line.
Lines of a task's life (`PERF_RECORD_COMM`) may stand between; `PERF_RECORD_LOST` counts. Several events in one text
become several profiles. Grammar of the lines and their variations: `perf_script_lines`. Source: tools/perf/builtin-
script.c; recorded with perf 6.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers import perf_header
from thpdiag.readers.perf_columns import Columns, row
from thpdiag.readers.perf_script_events import EventCounts
from thpdiag.readers.perf_script_lines import frame_like, head, source_line
from thpdiag.readers.perf_script_samples import NAME, STRONG, Around, FrameLines, Sample, Samples
from thpdiag.readers.perf_stacks import Frames


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One profile per event, samples summed by stack, task, cpu and 10 ms; what did not fit becomes problems."""
    around, frames = Around(), Frames()
    events: dict[str, EventCounts] = {}

    def keep(sample: Sample) -> None:
        cite = source.cite(sample.line, sample.text)
        if (event := events.get(sample.head.event)) is None:
            event = events[sample.head.event] = EventCounts(cite)
        event.take(sample, cite)

    samples = Samples(source, FrameLines(frames), around, keep)
    for number, text in lines:
        samples.line(number, text)
    samples.end()
    yield from around.problems()
    for name, event in events.items():
        yield event.profile(name, frames.all(), around)


_EVENT_NAME = r"[A-Za-z_][\w/.,=:{}-]{0,100}:"
_WHO = r"\s*(?:\S.{0,60}?\s{1,40})?-?\d{1,10}(?:/\s{0,20}-?\d{1,10})?"
_CPU = r"(?:\s{1,40}\[\d{1,6}\])?(?:\s{1,40}[A-Z]{1,5})?"
_TIME = r"\d{1,12}\.(?:\d{6}|\d{9}):(?:\s|$)"
_HEAD_LINE = re.compile(rf"{_WHO}{_CPU}\s{{1,40}}(?:{_TIME}|(?:\d{{1,20}}\s{{1,40}})?{_EVENT_NAME}(?:\s|$))|\s*{_TIME}")
_SHORT_HEAD = re.compile(rf"{_WHO}{_CPU}$|\s*(?:\d{{1,20}}\s{{1,40}})?{_EVENT_NAME}$")
_TAB_FRAME = re.compile(r"\t\s*[0-9a-f]{3,16}(?:\s\S.*)?$")
_OPENS = re.compile(
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


def _confirm(ahead: list[str]) -> bool:
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


READER = Reader(
    name=NAME,
    title="perf script",
    read=read,
    opens=_OPENS,
    continues=continues,
    confirm=_confirm,
    lookahead=80,
)
