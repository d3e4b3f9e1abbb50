"""`uname -a`: host name, kernel release, build and architecture; also `uname -r`.

    Linux chaos 2.6.32-220.7.1.el6.x86_64 #1 SMP Wed Mar 7 00:52:02 GMT 2012 x86_64 x86_64 x86_64 GNU/Linux
    3.10.0-229.14.1.el7.x86_64

Older coreutils print machine, processor and platform, newer ones only the machine. `uname -r` alone is taken only when
the release ends in what distributions put there. Source: coreutils uname(1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.reader import Lines, Reader, Source

_RELEASE = r"\d{1,2}\.\d{1,3}(?:\.\d{1,5})?[-+~_.\w]{0,80}"
_ARCH = r"(?:x86_64|i[3-6]86|aarch64|ppc64(?:le)?|s390x|riscv64|armv\w{1,8}|loongarch64|ia64)"
_ALL = re.compile(
    rf"Linux (\S{{1,255}}) ({_RELEASE}) (#.{{1,200}}?)(?: ({_ARCH}))(?: (?:{_ARCH}|unknown)){{0,2}}"
    r"(?: GNU/Linux| Linux)?\s*$"
)
_ANY = re.compile(rf"Linux (\S{{1,255}}) ({_RELEASE}) (#.{{1,200}})$")
_FEW = re.compile(rf"(?:Linux (?:(\S{{1,255}}) )??)?({_RELEASE})(?: ({_ARCH}))?(?: GNU/Linux)?\s*$")
_OPENS = re.compile(
    rf"Linux \S{{1,255}} {_RELEASE} #|Linux {_RELEASE}(?: {_ARCH})?(?: GNU/Linux)?\s*$|"
    rf"\d\.\d{{1,3}}\.\d{{1,5}}-[-+~_.\w]{{0,60}}(?:{_ARCH}|el\d\w{{0,10}}|generic|lowlatency|amd64|default|aws|azure|gcp|uek)(?:[-+](?:64k|debug|rt))?\s*$"
)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """host.name, kernel.release, kernel.build and kernel.arch, as far as printed."""
    for number, line in lines:
        found = _ALL.match(line) or _ANY.match(line)
        cite = source.cite(number, line)
        if found:
            host, release, build, *arch = found.groups()
            yield Fact("host.name", host, cite, time=source.time)
            yield Fact("kernel.release", release, cite, time=source.time)
            yield Fact("kernel.build", build.strip(), cite, time=source.time)
            if arch and arch[0]:
                yield Fact("kernel.arch", arch[0], cite, time=source.time)
        elif few := _FEW.match(line):
            yield Fact("kernel.release", few[2], cite, time=source.time)
            if few[3]:
                yield Fact("kernel.arch", few[3], cite, time=source.time)


READER = Reader(name="uname", title="uname", read=read, opens=_OPENS, continues=lambda _: False)
