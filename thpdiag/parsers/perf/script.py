"""perf script: every sample of a recording as text, with its call chain, leaf first.

    churn  7641 [000]  1050.057387:    2500000 cpu-clock:
    \tffffffff821e8f67 clear_page_erms+0x7 ([kernel.kallsyms])
    \tffffffff815e9b16 folio_zero_user+0x166 ([kernel.kallsyms])

Times are seconds on the clock of the recording, which is close to the time since boot; the weight is the period, 1
where it is not printed. Samples end at an empty line; before 3.x and without `-g` the only frame is on the head's own
line. Records of a task's life (`PERF_RECORD_COMM`) may be between samples; `PERF_RECORD_LOST` is counted. Several
events in one text become several profiles. `_script_grammar` has the grammar of a line; `_script_samples` makes
profiles of samples and reads long texts. Source: tools/perf/builtin-script.c; recorded with perf 6.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, pairwise

from thpdiag.detect.transcript import looks_like_html, parse_prompt
from thpdiag.model import Record
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, Source
from thpdiag.parsers.perf._script_grammar import (
    LOOKAHEAD,
    NAME,
    OPENS,
    confirm,
    continues,
    is_frame,
    parse_head,
)

_HEAD_BYTES = 1 << 16  # a shorter start of a member of unknown size is the whole member
_MIN_BULK_BYTES = 1 << 20  # size from which importing numpy pays off
_MIN_SAMPLES = 3  # heads with a frame below them, in the first lines
_MAX_FOREIGN_SHARE = 0.02  # of the first lines, for example warnings of perf
_NOT_PLAIN = re.compile(rb"[\x00\x1b]|^(?:\xff\xfe|\xfe\xff|\xef\xbb\xbf)|\r(?!\n)|\n[ \t]?>")


def claims(path: str, head_bytes: bytes, size: int | None) -> bool:
    """Whether a member is long and perf script from its first line on. Mails and sessions are read line by line."""
    short = size is None and len(head_bytes) < _HEAD_BYTES
    if short or _NOT_PLAIN.search(head_bytes) or (b"\n\t" not in head_bytes and b"\n  " not in head_bytes):
        return False
    text = head_bytes[: head_bytes.rfind(b"\n")].decode("utf-8", "replace")
    lines = [line.rstrip() for line in text.split("\n")]
    filled = [line for line in lines if line]
    if looks_like_html(text) or any(parse_prompt(line) is not None for line in filled):
        return False
    if sum(not continues(line) for line in filled) > _MAX_FOREIGN_SHARE * len(filled):
        return False
    pairs = ((line, below) for line, below in pairwise(lines) if line and line[0] not in "#\t")
    samples = (1 for line, below in pairs if is_frame(below) and not is_frame(line) and parse_head(line) is not None)
    return sum(islice(samples, _MIN_SAMPLES)) == _MIN_SAMPLES


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One profile per event, samples summed by stack, task, CPU and 10 ms; lines that do not fit become problems."""
    from thpdiag.parsers.perf._script_samples import read_lines  # imports numpy, so only where there is a profile

    return read_lines(source, lines)


def _read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    from thpdiag.parsers.perf._script_samples import read_bytes

    return read_bytes(source, content.chunks)


PARSER = Parser(NAME, "perf script", read, opens=OPENS, continues=continues, confirm=confirm, lookahead=LOOKAHEAD)
BULK_PARSER = BulkParser(PARSER.name, PARSER.title, claims, _read_bulk, min_size=_MIN_BULK_BYTES)
