"""When a capture was made: the output of `date` and `date --utc` that sos and insights-client keep.

    Fri Nov 20 09:47:03 UTC 2026

In the language of whoever ran it. The times of the files in a capture say nothing: those of /proc are made when a file
is first looked at, and copying changes the others. Source: coreutils date(1); sos date plugin, general up to 3.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.bundle.stamps import stamp
from thpdiag.model import Fact, Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """capture.time."""
    odd = Oddities(source, READER.name)
    for number, line in lines:
        if (moment := stamp(line)) is not None:
            labels = (("what", "date"), ("clock", moment.clock.value))
            yield Fact("capture.time", moment.seconds, source.cite(number, line), labels, moment)
        elif line.strip():
            odd.note(number, line, "no date")
    yield from odd.problems()


READER = Reader(
    name="capture_date",
    title="date, as collectors keep it",
    read=read,
    paths=(
        re.compile(r"(?:^|/)(?:sos_commands/(?:date|general)|insights_commands)/date(?:_--?u\w{0,10})?$"),
        re.compile(r"(?:^|/)sosreport-[^/]{1,200}/date$"),
    ),
)
