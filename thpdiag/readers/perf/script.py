"""perf script: every sample of a recording as text, with its call chain, leaf first.

    churn  7641 [000]  1050.057387:    2500000 cpu-clock:
    \tffffffff821e8f67 clear_page_erms+0x7 ([kernel.kallsyms])
    \tffffffff815e9b16 folio_zero_user+0x166 ([kernel.kallsyms])

Times are seconds on the clock of the recording, which is near that of the boot; weight is the period, 1 where it is
not printed. Samples end at an empty line; before 3.x and without `-g` the only frame stands on the head's own line.
Lines of a task's life (`PERF_RECORD_COMM`) may stand between; `PERF_RECORD_LOST` counts. Several events in one text
become several profiles. Grammar of the lines and their variations: `script_lines`. Source: tools/perf/builtin-
script.c; recorded with perf 6.1.
"""

from __future__ import annotations

from collections.abc import Iterator

from thpdiag.model import Record
from thpdiag.reader import BulkReader, Content, Foreign, Lines, Reader, Source
from thpdiag.readers.perf.script_blocks import OPENS, claims, confirm, continues
from thpdiag.readers.perf.script_events import EventCounts
from thpdiag.readers.perf.script_samples import NAME, Around, FrameLines, Sample, Samples
from thpdiag.readers.perf.stacks import Frames


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
    yield from around.facts()
    yield from around.problems()
    for name, event in events.items():
        yield event.profile(name, frames.all(), around)


def _read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    from thpdiag.readers.perf.script_bulk.ranges import profiles

    return profiles(source, content)


READER = Reader(
    name=NAME,
    title="perf script",
    read=read,
    opens=OPENS,
    continues=continues,
    confirm=confirm,
    lookahead=80,
)
BULK = BulkReader(name=NAME, title=READER.title, claims=claims, read=_read_bulk)
