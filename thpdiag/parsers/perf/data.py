"""perf record's own file, perf.data: read without perf, every sample of it.

    PERFILE2 ... attributes of events, records (samples, names, maps of memory), features of the host

Files and pipes (`perf record -o -`), with compressed records or without, of either byte order; also what newer kernels
write than an installed perf can read. Kernel functions get their names later, from a table of symbols that fits.
Source: tools/perf/Documentation/perf.data-file-format.txt, include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Citation, Problem, ProblemKind, Record
from thpdiag.model.parser import BulkParser, Content, Foreign, Source
from thpdiag.parsers.perf._texts import host_facts
from thpdiag.perf.header import MAGICS


def read(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """Problems, what the header tells of the host, and a profile for each event that has samples."""
    from thpdiag.perf.container import Recording  # numpy: only where there is a recording
    from thpdiag.perf.profile import header_facts, profiles, read_windows

    cite = Citation(source.member)
    recording = Recording(content.chunks, content.size, cite)
    found, problems = read_windows(recording)
    yield from problems
    yield from host_facts(header_facts(recording.features), cite)
    made = list(profiles(recording, found, cite))
    if not made and found.odd:
        reasons = ", ".join(f"{count} {reason}" for reason, count in found.odd.items())
        yield Problem(cite, f"holds no sample that can be read: {reasons}", ProblemKind.DAMAGED, BULK_PARSER.name)
    elif not made:
        text = "no sample was found in it" if problems else "holds no samples"
        yield Problem(cite, text, reader=BULK_PARSER.name)
    yield from made


BULK_PARSER = BulkParser(
    "perf_data", "perf record's own file (perf.data)", None, read, opens=re.compile(b"|".join(map(re.escape, MAGICS)))
)
