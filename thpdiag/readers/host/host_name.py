"""The host's name: `hostname`, as sos and insights-client keep it.

    db1.example.com

It is what `uname -n` prints, and there where uname is not. `hostname -f` asks a name server and is not read. Source:
hostname(1); sos host plugin, general up to 3.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}$")


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """host.name."""
    odd = Oddities(source, READER.name)
    for number, line in lines:
        if _NAME.match(line.strip()):
            yield Fact("host.name", line.strip(), source.cite(number, line))
        elif line.strip():
            odd.note(number, line, "no host name")
    yield from odd.problems()


READER = Reader(
    name="host_name",
    title="hostname, as collectors keep it",
    read=read,
    paths=(
        re.compile(r"(?:^|/)(?:sos_commands/(?:host|general)|insights_commands)/hostname$"),
        re.compile(r"(?:^|/)sosreport-[^/]{1,200}/hostname$"),
    ),
)
