"""tuned's active profile and version: `tuned-adm active`, `tuned-adm list`, etc/tuned/active_profile, `rpm -q tuned`.

    Current active profile: throughput-performance
    tuned-2.4.1-1.el7.noarch

RHEL 6 prints the state of its services below the profile. Where no profile is active, the value is `none`. Several
merged profiles are one value with blanks. The file holds the name alone, so it is known by its path. Source:
tuned-adm(8) of tuned 0.2 (RHEL 6) and 2.x.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities

_ACTIVE = re.compile(r"Current active profile:\s*(\S.{0,200}?)\s*$")
_NONE = re.compile(r"No current active profile")
_RPM = re.compile(r"(?:ii\s+)?tuned[-\s]+(\d{1,3}(?:\.\d{1,3}){1,3})(?:[-+~]\S*)?(?:\s.*)?$")
_PROFILE = re.compile(r"[\w.-]{1,80}(?: [\w.-]{1,80}){0,8}\s*$")
_OPENS = re.compile(
    r"Current active profile:\s*\S|No current active profile|Available profiles:|(?:ii\s+)?tuned[-\s]+\d{1,3}\.\d|"
    r"package tuned is not installed|Preset profile:"
)
_OTHER = re.compile(
    r"Available profiles:|Preset profile:|Service k?tuned?|Cannot talk to|It seems that|DBus call|You need to|"
    r"package tuned is not|Note: |Requested |- [\w.-]"
)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """tuned.profile and tuned.version."""
    odd = Oddities(source, READER.name)
    is_file = re.search(r"active[-_]profile$", source.path)
    for number, line in lines:
        text, cite = line.strip(), source.cite(number, line)
        if active := _ACTIVE.match(text):
            yield Fact("tuned.profile", active[1], cite, time=source.time)
        elif _NONE.match(text):
            yield Fact("tuned.profile", "none", cite, time=source.time)
        elif version := _RPM.match(text):
            yield Fact("tuned.version", version[1], cite, time=source.time)
        elif is_file and _PROFILE.match(text):
            yield Fact("tuned.profile", text, cite, time=source.time)
        elif text and not _OTHER.match(text):
            odd.note(number, line, "not a line of tuned-adm")
    yield from odd.problems()


READER = Reader(
    name="tuned",
    title="tuned-adm and tuned's version",
    read=read,
    opens=_OPENS,
    continues=re.compile(rf"{_OPENS.pattern}|{_OTHER.pattern}").match,
    paths=(re.compile(r"(?:^|/)etc/tuned/active_profile$|(?:^|/)etc/tune-profiles/active-profile$"),),
)
