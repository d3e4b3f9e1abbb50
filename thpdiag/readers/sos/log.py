"""What sos wrote while it ran: sos_logs/sos.log, sos_logs/ui.log, and version.txt.

    2026-11-20 09:47:00,815 WARNING: [plugin:kernel] command 'sysctl -a' timed out after 300s
     Plugin memory timed out
    sosreport: 4.0

Times are the wall clock of the host. sos stops a command after its time-out since 3.1 and a whole plugin since 3.6,
which stands in ui.log, and in sos.log only of late. The version is `sosreport: 3.2` up to 4.2 and `sos report: 4.3`
later; sos 2.2 writes no number (`sosreport: unversioned` or none). Source: sos/sosreport.py, sos/report/__init__.py
(_collect_plugin, version), sos/plugins/__init__.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.bundle.stamps import stamp
from thpdiag.model import Citation, Fact, Moment, Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.sos.manifest import timed_out

_STAMP = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d{3} ")
_COMMAND = re.compile(
    r".{0,80}\[plugin:(?P<plugin>[\w-]{1,64})\] command '(?P<command>.{1,2000})' timed out after (?P<seconds>\d{1,7})s"
)
_PLUGIN = re.compile(r"(?:.{0,80}[A-Z]{4,8}: )?\s{0,4}Plugin (?P<plugin>[\w-]{1,64}) timed out\s*$")
_VERSION = re.compile(r"(?:sosreport|sos report): (?P<version>\d[\w.+~-]{0,40})\s*$")


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """capture.timed_out, capture.tool, and capture.time from the first and the last line."""
    ends: list[tuple[Moment, Citation]] = []
    for number, line in lines:
        if "timed out" in line:
            yield from _given_up(source, number, line)
        if found := _STAMP.match(line):
            if (moment := stamp(found[1])) is not None:
                ends[1:] = [(moment, source.cite(number, line))]
        elif told := _VERSION.match(line):
            yield Fact("capture.tool", f"sos {told['version']}", source.cite(number, line))
    for what, (moment, cite) in zip(("begun", "ended"), ends, strict=False):
        yield Fact("capture.time", moment.seconds, cite, (("what", what), ("clock", moment.clock.value)), moment)


def _given_up(source: Source, number: int, line: str) -> Iterator[Fact]:
    cite = source.cite(number, line)
    if found := _COMMAND.match(line):
        yield timed_out(found["plugin"], cite, found["command"], seconds=int(found["seconds"]))
    elif found := _PLUGIN.match(line):
        yield timed_out(found["plugin"], cite)


READER = Reader(
    name="sos_log",
    title="sos.log, ui.log and version.txt of sos",
    read=read,
    paths=(
        re.compile(r"(?:^|/)sos_logs/(?:sos|ui)\.log$"),
        re.compile(r"(?:^|/)(?:sosreport|sos-collector)-[^/]{1,200}/version\.txt$|^version\.txt$"),
    ),
)
