"""The host's clock: when a capture was made, and the time zone.

When a capture was made: the output of `date` and `date --utc` that sos and insights-client keep.

    Fri Nov 20 09:47:03 UTC 2026

In the language of whoever ran it. The times of the files in a capture say nothing: those of /proc are made when a file
is first looked at, and copying changes the others. Source: coreutils date(1); sos date plugin, general up to 3.4.

The host's time zone: /etc/localtime, timedatectl, /etc/timezone, /etc/sysconfig/clock.

    ../usr/share/zoneinfo/Asia/Kolkata          where /etc/localtime points; a copy of that file on RHEL 6 and before
          Time zone: Asia/Kolkata (IST, +0530)  timedatectl; `Timezone:` in systemd up to 208
    Asia/Kolkata                                /etc/timezone of Debian
    ZONE="Europe/Berlin"                        /etc/sysconfig/clock of RHEL to 6, TIMEZONE= of SLES

/etc/localtime is a file of the zone database (RFC 8536). From version 2 on it ends with the rule for the years to come,
`CET-1CEST,M3.5.0,M10.5.0/3`, which is all that a copy tells of the zone. Source: tzfile(5), systemd's timedatectl.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.detect.timestamps import parse_timestamp
from thpdiag.model import Citation, Fact, Moment, Problem, ProblemKind, Record
from thpdiag.model.parser import BulkParser, Content, Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, with_errors
from thpdiag.parsers._time import utc_offset


@with_errors("capture_date")
def parse_capture_date(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """capture.time."""
    for number, line in lines:
        if (moment := parse_timestamp(line)) is not None:
            labels = (("what", "date"), ("clock", moment.clock.value))
            yield Fact("capture.time", moment.seconds, source.cite(number, line), labels, moment)
        elif line.strip():
            odd.note(number, line, "no date")


CAPTURE_DATE = Parser(
    "capture_date", "date, as collectors keep it", parse_capture_date,
    paths=(
        re.compile(r"(?:^|/)(?:sos_commands/(?:date|general)|insights_commands)/date(?:_--?u\w{0,10})?$"),
        re.compile(r"(?:^|/)sosreport-[^/]{1,200}/date$"),
    ),
)  # fmt: skip


NAME = "host_zone"
_TITLE = "the time zone: /etc/localtime, timedatectl, /etc/timezone"
_LOCALTIME = re.compile(r"(?:^|/)etc/localtime$")
_DATABASE = re.compile(r"(?:^|/)usr/share/zoneinfo/(?:posix/|right/|uclibc/)?([\w+/-]{1,60})$", re.ASCII)
_MAX_LOCALTIME_BYTES = 1 << 20  # bytes; the largest file of the database has four thousand
_RULE = re.compile(rb"\n([\x21-\x7e]{3,90})\n\Z")
_STATUS = re.compile(r"\s*Time ?zone: ([\w+/-]{1,60})(?: \((\w{1,6}|[+-]\d{2,4}), ([+-]\d{4})\))?\s*$", re.ASCII)
_UTC = re.compile(r"\s*Universal time: (?P<when>.{19,40}?)\s*$")
_OPENS = re.compile(r"\s{0,12}Local time: \w{2,4} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_BELONGS = re.compile(r"\s{0,16}[A-Z][\w /()-]{2,30}: \S|\s{10,40}\w{3} \d{4}-\d\d-\d\d ")
_CLOCK = re.compile(r"\s*(?:TIME)?ZONE=[\"']?([\w+/-]{1,60})[\"']?\s*(?:#.*)?$", re.ASCII)
_ZONE = re.compile(r"\s*([A-Z][\w+-]{1,20}(?:/[\w+-]{1,25}){0,2})\s*$", re.ASCII)


def parse_host_zone(source: Source, lines: Lines) -> Iterator[Record]:
    """host.zone, and host.utc_offset from timedatectl."""
    if source.path.endswith(("etc/timezone", "sysconfig/clock")):
        yield from _of_file(source, lines)
        return
    at: Moment | None = None
    for number, line in lines:
        if found := _UTC.match(line):
            words = found["when"].split(maxsplit=1)  # after the day of the week
            at = parse_timestamp(words[1]) if len(words) == 2 else None
        elif found := _STATUS.match(line):
            cite = source.cite(number, line)
            yield Fact("host.zone", found[1], cite, (("how", "timedatectl"),), at)
            if (ahead := utc_offset(found[3])) is not None:
                yield Fact("host.utc_offset", ahead, cite, time=at)


@with_errors(NAME)
def _of_file(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    debian = source.path.endswith("timezone")
    for number, line in lines:
        if found := (_ZONE if debian else _CLOCK).match(line):
            how = "timezone" if debian else "sysconfig"
            yield Fact("host.zone", found[1], source.cite(number, line), (("how", how),))
        elif debian and line.strip() and not line.startswith("#"):
            odd.note(number, line, "no name of a time zone")


def parse_localtime(source: Source, content: Content) -> Iterator[Record]:
    """host.zone: the name of the file that /etc/localtime points to, and the rule that it ends with."""
    held = bytearray()
    for chunk in content.chunks:
        held += chunk
        if len(held) > _MAX_LOCALTIME_BYTES:
            break
    found = _RULE.search(held)
    rule = found[1].decode("ascii") if found else ""
    named = _DATABASE.search(source.path)
    if name := named[1] if named else rule:
        labels = (("how", "localtime"), *((("rule", rule),) if rule else ()))
        yield Fact("host.zone", name, Citation(source.member), labels)
    else:
        text = "a copy of the zone database without a rule at its end: the zone is not known"
        yield Problem(Citation(source.member), text, ProblemKind.UNREADABLE, NAME, hides=False)


HOST_ZONE = Parser(
    NAME, _TITLE, parse_host_zone, opens=_OPENS, continues=_BELONGS.match,
    paths=(re.compile(r"(?:^|/)etc/(?:timezone|sysconfig/clock)$"),),
)  # fmt: skip
LOCALTIME = BulkParser(
    NAME, _TITLE, lambda path, _head, _size: _LOCALTIME.search(path), parse_localtime, opens=re.compile(b"TZif")
)
