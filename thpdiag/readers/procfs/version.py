"""/proc/version: the running kernel with the compiler it was built with.

    Linux version 3.10.0-229.14.1.el7.x86_64 (builder@kbuilder) (gcc version 4.8.3 ...) #1 SMP Tue Sep 15 2015

The form never changed. The same line in the kernel log has a time or a host before it and belongs to the log. Source:
kernel tree, init/version.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.reader import Lines, Reader, Source

_LINE = re.compile(r"Linux version (\d{1,3}\.\d{1,5}\S{0,100})(?: (.*))?$")


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """kernel.release and kernel.build."""
    for number, line in lines:
        if found := _LINE.match(line):
            cite = source.cite(number, line)
            yield Fact("kernel.release", found[1], cite, time=source.time)
            if found[2]:
                yield Fact("kernel.build", found[2].strip(), cite, time=source.time)


READER = Reader(name="proc_version", title="/proc/version", read=read, opens=_LINE, continues=_LINE.match)
