"""perf.data, the file of perf record, read without perf.

    PERFILE2 ... attributes of events, records (samples, names, maps of memory), features of the host

Files and pipes (`perf record -o -`), with or without compressed records, of either byte order, also of kernels that are
newer than an installed perf. Kernel functions get their names later, from a matching symbol table.
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
    """Yield problems, the facts of the header, and a profile for each event that has samples."""
    from thpdiag.perf.container import Recording  # imports numpy, so only where there is a recording
    from thpdiag.perf.profile import header_facts, profiles, read_windows

    cite = Citation(source.member)
    recording = Recording(content.chunks, content.size, cite)
    samples, problems = read_windows(recording)
    yield from problems
    yield from host_facts(header_facts(recording.features), cite)
    profiles_of_events = list(profiles(recording, samples, cite))
    if not profiles_of_events and samples.odd:
        reasons = ", ".join(f"{count} {reason}" for reason, count in samples.odd.items())
        yield Problem(cite, f"holds no sample that can be read: {reasons}", ProblemKind.DAMAGED, BULK_PARSER.name)
    elif not profiles_of_events:
        text = "no sample was found in it" if problems else "holds no samples"
        yield Problem(cite, text, reader=BULK_PARSER.name)
    yield from profiles_of_events


BULK_PARSER = BulkParser(
    "perf_data", "perf record's own file (perf.data)", None, read, opens=re.compile(b"|".join(map(re.escape, MAGICS)))
)
