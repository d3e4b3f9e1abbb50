"""Installed packages of the applications that react to huge pages, and of tuned: lists of rpm and dpkg.

    mongodb-org-server-7.0.12-1.el8.x86_64               Mon 05 Aug 2024 10:00:00 AM UTC
    ii  redis-server   5:6.0.16-1ubuntu1   amd64   Persistent key-value database with network interface

sosreport keeps them as installed-rpms and installed-debs (`rpm -qa` with the date behind, `dpkg -l`). Of dpkg only rows
that begin with `ii` are installed. Release and epoch are left out: they are the distribution's. Other packages yield
nothing. That a package is installed does not say that it runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.knowledge.applications import packaged
from thpdiag.model import Fact, Record
from thpdiag.reader import Lines, Reader, Source

_RPM = re.compile(r"([\w.+]{1,60}(?:-[\w.+]{1,60}){0,8})-(\d[\w.+~^]{0,40})-[\w.+~^]{1,60}\.(?:\w{4,7})(?:\s|$)")
_DEB = re.compile(r"ii\s+([\w.+-]{1,80})(?::\w+)?\s+(?:\d+:)?(\d[\w.+~]{0,60})\S{0,60}(?:\s|$)")
_LIST = re.compile(r"(?:^|/)(?:installed-(?:rpms|debs)|sos_commands/(?:rpm/sh_-c_rpm_\S*-qa|dpkg/dpkg_-l)[^/]*)$")


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """package.version of applications, tuned.version."""
    for number, line in lines:
        found = _RPM.match(line) or _DEB.match(line)
        if not found:
            continue
        name, version = found.groups()
        if name == "tuned":
            yield Fact("tuned.version", version, source.cite(number, line), time=source.time)
        elif app := packaged(name):
            labels = (("app", app.name), ("package", name))
            yield Fact("package.version", version, source.cite(number, line), labels, source.time)


READER = Reader(
    name="packages",
    title="lists of installed packages: rpm -qa, dpkg -l",
    read=read,
    opens=re.compile(r"Desired=Unknown/Install/Remove/Purge/Hold"),
    continues=lambda _: True,
    paths=(_LIST,),
)
