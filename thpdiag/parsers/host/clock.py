"""The clock of the host: time of the capture, time zone, time of the boot.

Time of the capture: the output of `date` and `date --utc` that sos and insights-client save.

    Fri Nov 20 09:47:03 UTC 2026

The language is that of the user's locale. The modification times of files in a capture are not used: those of /proc are
set when a file is first accessed, and copying changes the others. Source: coreutils date(1); sos date plugin, general
up to 3.4.

The host's time zone: /etc/localtime, timedatectl, /etc/timezone, /etc/sysconfig/clock.

    ../usr/share/zoneinfo/Asia/Kolkata          where /etc/localtime points; a copy of that file on RHEL 6 and before
          Time zone: Asia/Kolkata (IST, +0530)  timedatectl; `Timezone:` in systemd up to 208
    Asia/Kolkata                                /etc/timezone of Debian
    ZONE="Europe/Berlin"                        /etc/sysconfig/clock of RHEL to 6, TIMEZONE= of SLES

/etc/localtime is a file of the zone database (RFC 8536). From version 2 on it ends with the rule for future years,
`CET-1CEST,M3.5.0,M10.5.0/3`, which is the only information about the zone in a copy. Source: tzfile(5), systemd's
timedatectl.c.

Time of the boot, as programs that record it print it.

`who -b`, `last reboot` or any other `last`, `journalctl --list-boots`, `uptime --since` (a date alone), `cloud-init
analyze boot`:

             system boot  2026-11-20 05:40
    reboot   system boot  3.10.0-957.el7.x Fri Nov 20 05:40   still running
     0 5d1f2c6b0f3c4b6e9a7d8e1f2a3b4c5d Fri 2026-11-20 05:40:20 UTC—Fri 2026-11-20 09:47:00 UTC
        Kernel Started at: 2026-11-20 05:40:12.493820

One boot.record per text, for the last boot in it, with the time as printed: without a year (`last` without -F, `who` in
the C locale), to the minute, in the host's wall clock. `last` prints the newest first. The boot time in wtmp is written
seconds or minutes after the boot, and before the clock is set on hosts without a battery-backed clock. The list of
boots of systemd 254 and later has the two times in separate columns. cloud-init prints UTC; in a container it prints
the start of the container, which is not a boot. systemd-analyze prints the duration of a boot, not its time, and is not
read.
Source: util-linux last(1), coreutils who(1), systemd journalctl.c (output_boots), cloud-init analyze_boot().
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
def parse_capture_date(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield capture.time."""
    for number, line in lines:
        if (moment := parse_timestamp(line)) is not None:
            labels = (("what", "date"), ("clock", moment.clock.value))
            yield Fact("capture.time", moment.seconds, source.cite(number, line), labels, moment)
        elif line.strip():
            errors.note(number, line, "no date")


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
_MAX_LOCALTIME_BYTES = 1 << 20  # the largest file of the database has four thousand bytes
_RULE = re.compile(rb"\n([\x21-\x7e]{3,90})\n\Z")
_STATUS = re.compile(r"\s*Time ?zone: ([\w+/-]{1,60})(?: \((\w{1,6}|[+-]\d{2,4}), ([+-]\d{4})\))?\s*$", re.ASCII)
_UTC = re.compile(r"\s*Universal time: (?P<when>.{19,40}?)\s*$")
_OPENS = re.compile(r"\s{0,12}Local time: \w{2,4} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_CONTINUES = re.compile(r"\s{0,16}[A-Z][\w /()-]{2,30}: \S|\s{10,40}\w{3} \d{4}-\d\d-\d\d ")
_CLOCK = re.compile(r"\s*(?:TIME)?ZONE=[\"']?([\w+/-]{1,60})[\"']?\s*(?:#.*)?$", re.ASCII)
_ZONE = re.compile(r"\s*([A-Z][\w+-]{1,20}(?:/[\w+-]{1,25}){0,2})\s*$", re.ASCII)


def parse_host_zone(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield host.zone, and host.utc_offset from timedatectl."""
    if source.path.endswith(("etc/timezone", "sysconfig/clock")):
        yield from _parse_zone_file(source, lines)
        return
    time: Moment | None = None
    for number, line in lines:
        if utc := _UTC.match(line):
            words = utc["when"].split(maxsplit=1)  # the day of the week, and the time
            time = parse_timestamp(words[1]) if len(words) == 2 else None
        elif status := _STATUS.match(line):
            cite = source.cite(number, line)
            yield Fact("host.zone", status[1], cite, (("how", "timedatectl"),), time)
            if (offset := utc_offset(status[3])) is not None:
                yield Fact("host.utc_offset", offset, cite, time=time)


@with_errors(NAME)
def _parse_zone_file(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    is_debian = source.path.endswith("timezone")
    for number, line in lines:
        if zone := (_ZONE if is_debian else _CLOCK).match(line):
            how = "timezone" if is_debian else "sysconfig"
            yield Fact("host.zone", zone[1], source.cite(number, line), (("how", how),))
        elif is_debian and line.strip() and not line.startswith("#"):
            errors.note(number, line, "not the name of a time zone")


def parse_localtime(source: Source, content: Content) -> Iterator[Record]:
    """Yield host.zone: the name of the file that /etc/localtime points to, and the rule at its end."""
    data = bytearray()
    for chunk in content.chunks:
        data += chunk
        if len(data) > _MAX_LOCALTIME_BYTES:
            break
    match = _RULE.search(data)
    rule = match[1].decode("ascii") if match else ""
    path = _DATABASE.search(source.path)
    if name := path[1] if path else rule:
        labels = (("how", "localtime"), *((("rule", rule),) if rule else ()))
        yield Fact("host.zone", name, Citation(source.member), labels)
    else:
        text = "a copy of the zone database without a rule at its end: the zone is not known"
        yield Problem(Citation(source.member), text, ProblemKind.UNREADABLE, NAME, hides=False)


HOST_ZONE = Parser(
    NAME, _TITLE, parse_host_zone, opens=_OPENS, continues=_CONTINUES.match,
    paths=(re.compile(r"(?:^|/)etc/(?:timezone|sysconfig/clock)$"),),
)  # fmt: skip
LOCALTIME = BulkParser(
    NAME, _TITLE, lambda path, _head, _size: _LOCALTIME.search(path), parse_localtime, opens=re.compile(b"TZif")
)


_DATE = r"(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d(?::\d\d \d{4})?|\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?"
_WHO = re.compile(rf"\s{{0,12}}system boot {{1,2}}({_DATE})\s*$")
_LAST = re.compile(rf"(?:reboot|\(unknown\)) {{1,9}}system boot {{1,9}}(?:\S{{1,80}} {{1,40}})?({_DATE})(?: |$)")
_BOOTS = re.compile(
    r"\s{0,12}0 [0-9a-f]{32} [A-Z][a-z]{2} (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: UTC)?)(?: ?[A-Z+-][\w:+-]{1,8})?"
    r"(?:\u2014| )"
)
_CLOUD_INIT = re.compile(r"\s{0,8}Kernel Started at: (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d{1,6})?\s*$")
_CLOUD_INIT_HEAD = re.compile(r"-- Most Recent Boot Record --\s*$")
_CLOUD_INIT_ROW = re.compile(r"\s{0,8}(?:Kernel|Cloud-init|Time between Kernel) [^:]{3,60}: ?\S")
_ANY_BOOT = re.compile(r"\s{0,12}-?\d{1,5} [0-9a-f]{32} [A-Z][a-z]{2} \d{4}-\d\d-\d\d |IDX BOOT ID ")
_SESSION = re.compile(r"\S{1,32} {1,12}(?:pts/\d|tty\w|system boot|runlevel|shutdown|:\d|~)|\s*$|wtmp begins ")
_BOOT_OPENS = re.compile(f"{_WHO.pattern}|{_LAST.pattern}|{_ANY_BOOT.pattern}|{_CLOUD_INIT_HEAD.pattern}")
_SINCE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*$")
_HOW = (
    (_WHO, "by who"), (_LAST, "by last"), (_BOOTS, "by the list of boots"), (_SINCE, "by uptime"),
    (_CLOUD_INIT, "by cloud-init"),
)  # fmt: skip


def parse_boot_record(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield boot.record of the last boot."""
    for number, line in lines:
        for pattern, how in _HOW:
            if match := pattern.match(line):
                date = f"{match[1]} UTC" if pattern is _CLOUD_INIT else match[1]
                yield Fact("boot.record", date, source.cite(number, line), (("how", how),), source.time)
                return


BOOT_RECORD = Parser(
    "boot_record",
    "the time of the boot: who -b, last reboot, journalctl --list-boots, uptime -s, cloud-init analyze boot",
    parse_boot_record, opens=_BOOT_OPENS,
    continues=lambda text: _SESSION.match(text) or _ANY_BOOT.match(text) or _CLOUD_INIT_ROW.match(text), priority=12,
    paths=(
        re.compile(r"(?:^|/)sos_commands/(?:last|login|logs|host)/(?:who_-b|last(?:_[\w-]{1,40})?)$"),
        re.compile(r"(?:^|/)journalctl_\S{0,40}--list-boots$|(?:^|/)uptime[/_](?:-s|--since)$"),
    ),
)  # fmt: skip
