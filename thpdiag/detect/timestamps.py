"""Lines that consist of a time, as recording loops print them, and the times and commands in names of recorder files.

    Fri Nov 20 03:35:43 UTC 2026        date(1), C locale; also with AM/PM, day before month, German and ISO forms
    1795145743.25                       date +%s, date +%s.%N
    zzz ***Fri Nov 20 03:35:43 UTC 2026 OSWatcher; `zzz <11/20/2026 03:35:43> Count:12` ExaWatcher
    TS 1351688400.123456789 2012-10-31 12:00:00   pt-stalk

Epochs and timestamps with an offset are UTC; anything else is the host's wall clock (Clock.LOCAL), because zone
abbreviations other than UTC are ambiguous (CST, IST).

The name of a recorder's file may determine the command that wrote it and the time when it began:

    2026_11_20_10_54_10-vmstat              pt-stalk: one name for all files of a collection, with its local time
    oswvmstat/node1_vmstat_26.11.20.1000.dat     OSWatcher: a file per command and hour, which has times in it
    vmstat.20190815-101500, metrics_2023-05-10T06:26:40.txt     people: a snapshot of /proc or of an exporter, its time

pt-stalk runs its commands with its own default interval (--sleep-collect) of 1 s, which is rarely changed.
Source: percona-toolkit pt-stalk 2.1 to 3.6, OSWatcher 3 to 8.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

from thpdiag.model import Clock, Moment
from thpdiag.model.facts import DAY, zoned_moment

_MONTH_NAMES = "jan feb mar/mär/mrz apr may/mai jun jul aug sep oct/okt nov dec/dez"
MONTHS = {name: number for number, names in enumerate(_MONTH_NAMES.split(), 1) for name in names.split("/")}
ZONE_STEP_SECONDS, MAX_UTC_OFFSET_SECONDS = 900, 14 * 3600  # seconds
RECORDER_MARK = ("zzz *", "zzz <")  # only lines above an output begin with it
MAX_DATE_WORDS = 9  # words of a date, including the empty one between two blanks before a single-digit day
MAX_PAIR_SECONDS = 5  # seconds between two commands that were typed on one line
FIRST_EPOCH, LAST_EPOCH = 946_684_800.0, 4_292_967_296.0  # 2000 to 2106; a number outside is not an epoch

_DATE_BEGINS = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}\b|(?<!\d)(?:19|20)\d\d-|(?<![\d.])\d{10}|zzz ")
MAX_DATE_CHARS = 60
_DECORATION = re.compile(r"^[\s#=*\-+>|]*(?:zzz\s*\*+\s*)?|[\s=*\-#|]*$")
_EPOCH = re.compile(r"(?:TS\s+)?(\d{9,10}(?:\.\d{1,9})?)(?:\s+\d{4}-\d\d-\d\d[ T][\d:.]+)?$")
_C_LOCALE = re.compile(  # date of the C locale: most of what recorders print
    r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d) ([A-Z]{3,5}) ((?:19|20)\d\d)$", re.ASCII
)
_EPOCH_AND_LOCAL = re.compile(r"TS\s+(\d{9,10})(?:\.\d{1,9})?\s+(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)$", re.ASCII)
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\s*(Z|UTC|[+-]\d\d:?\d\d)?(?:\s+[A-Z]{2,5})?$"
)
_EXAWATCHER = re.compile(r"zzz <(\d\d)/(\d\d)/(\d{4}) (\d\d):(\d\d):(\d\d)>(?: (?:sub)?[Cc]ount: ?\d{1,9})?$", re.ASCII)
_CLOCK = re.compile(r"\b(\d{1,2}):(\d\d):(\d\d)(?:[.,]\d+)?(?:\s*([AaPp])\.?[Mm]\.?)?(?:\s|$)")
_TIME_OF_DAY = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.\d{1,9})?$", re.ASCII)
_YEAR = re.compile(r"\b((?:19|20)\d\d)\b")
_DAY = re.compile(r"(?<![\d:])(\d{1,2})\.?(?![\d:])")
_MONTH = re.compile(r"\b([A-Za-zäÄ]{3})[a-zä]*\.?\b")
_OFFSET = re.compile(r"\b(UTC|GMT|Z)\b|\s([+-]\d\d:?\d\d)\b")
_DATE_WORDS = re.compile(
    r"[A-Za-zäÄ]{2,9}\.?,?$|[\d:.,]+$|[+-]\d\d:?\d\d$|[A-Z]{2,5}$|[AaPp]\.?[Mm]\.?$|\d+月$|\d+日|\d+年"
)


def parse_timestamp(line: str) -> Moment | None:
    """Return the time of a line, None if the line has anything other than a time."""
    text = _DECORATION.sub("", line[:120]).strip()
    text = re.sub(r"\s*Sample interval:.*$", "", text)
    if exa := _EXAWATCHER.match(text):
        month, day, year, hour, minute, second = (int(part) for part in exa.groups())
        return _moment((year, month, day, hour, minute, second), "", 0.0)
    if not text or not any(c.isdigit() for c in text):
        return None
    return _epoch(text) or _iso(text) or _date(text)


def parse_time_of_day(line: str, before: Moment | None) -> Moment | None:
    """Parse `10:33:08`, as `date +%T` prints it. If `before` is over half a day later, it is a time of the next day."""
    match = _TIME_OF_DAY.match(line.strip())
    if match is None:
        return None
    hour, minute, second = (int(part) for part in match.groups())
    if hour > 23 or minute > 59 or second > 60:
        return None
    seconds, last = float(hour * 3600 + minute * 60 + second), 0.0
    if before is not None and before.clock is Clock.DAY:
        last = before.seconds
        seconds += last // DAY * DAY
    return Moment(seconds + DAY if seconds < last - DAY / 2 else seconds, Clock.DAY)


def split_date(text: str) -> tuple[str, Moment | None]:
    """Return a line without the date at its end, and the date; None if there is no date."""
    words = text.split(" ")
    for first in range(max(len(words) - MAX_DATE_WORDS, 0), len(words) - 3):
        if words[first] and (moment := parse_timestamp(" ".join(words[first:]))):
            return " ".join(words[:first]).rstrip(), moment
    return text, None


def ending_date(text: str) -> str:
    """Return the full date at the end of a line that begins with something else; empty if there is none.

    >>> ending_date("alwaysFri Nov 20 03:35:43 UTC 2026")
    'Fri Nov 20 03:35:43 UTC 2026'
    """
    for match in _DATE_BEGINS.finditer(text, max(len(text) - MAX_DATE_CHARS, 1)):
        if parse_timestamp(text[match.start() :]):
            return text[match.start() :]
    return ""


def utc_offset_of_line(line: str) -> int | None:
    """Return the UTC offset in seconds from a line with epoch and local time (pt-stalk), rounded to 15 minutes."""
    times = _EPOCH_AND_LOCAL.match(line)
    local = _iso(times[2]) if times else None
    if not times or local is None:
        return None
    offset = round((local.seconds - float(times[1])) / ZONE_STEP_SECONDS) * ZONE_STEP_SECONDS
    return offset if abs(offset) <= MAX_UTC_OFFSET_SECONDS else None


def utc_offset_of_pair(line: str, moment: Moment, command: str, before: Moment | None) -> int | None:
    """Return the UTC offset from `date` without options that prints UTC, or from adjacent time lines, UTC and local."""
    if moment.clock is Clock.UTC and command == "date" and _OFFSET.search(line):
        return 0 if re.search(r"\b(?:UTC|GMT)\b", line) else None
    if before is None or {moment.clock, before.clock} != {Clock.UTC, Clock.LOCAL}:
        return None
    local, utc = (moment, before) if before.clock is Clock.UTC else (before, moment)
    difference = local.seconds - utc.seconds
    offset = round(difference / ZONE_STEP_SECONDS) * ZONE_STEP_SECONDS
    is_near = abs(difference - offset) <= MAX_PAIR_SECONDS
    return offset if is_near and abs(offset) <= MAX_UTC_OFFSET_SECONDS else None


def _epoch(text: str) -> Moment | None:
    match = _EPOCH.match(text)
    if not match or not FIRST_EPOCH <= float(match[1]) <= LAST_EPOCH:
        return None
    return Moment(float(match[1]), Clock.UTC)


def _iso(text: str) -> Moment | None:
    match = _ISO.match(text)
    if not match:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction = float(f"0.{match[7]}") if match[7] else 0.0
    return _moment((year, month, day, hour, minute, second), match[8] or "", fraction)


def _date(text: str) -> Moment | None:
    """Parse `date` in any locale: a clock, a year, a month name and a day in any order, and no other words."""
    if (plain := _C_LOCALE.match(text)) and (month := MONTHS.get(plain[1].lower())):
        day, hour, minute, second, plain_year = (int(part) for part in plain.group(2, 3, 4, 5, 7))
        zone = plain[6] if plain[6] in ("UTC", "GMT") else ""
        return _moment((plain_year, month, day, hour, minute, second), zone, 0.0)
    words = text.split()
    if not 4 <= len(words) <= 8 or not all(_DATE_WORDS.match(word) for word in words):
        return None
    clock, year = _CLOCK.search(text), _YEAR.search(text)
    months = [MONTHS[m.lower()] for m in _MONTH.findall(text) if m.lower() in MONTHS]
    if not clock or not year or not months:
        return None
    rest = text[: clock.start()] + " " + text[clock.end() :]
    days = [int(d) for d in _DAY.findall(_YEAR.sub(" ", rest)) if 1 <= int(d) <= 31]
    if len(days) != 1:
        return None
    hour = int(clock[1])
    if clock[4]:
        hour = hour % 12 + (12 if clock[4] in "Pp" else 0)
    offset = _OFFSET.search(text[clock.end(3) :])
    zone = (offset[1] or offset[2]) if offset else ""
    return _moment((int(year[1]), months[0], days[0], hour, int(clock[2]), int(clock[3])), zone, 0.0)


def _moment(parts: tuple[int, int, int, int, int, int], zone: str, fraction: float) -> Moment | None:
    try:
        seconds = datetime(*parts, tzinfo=UTC).timestamp() + fraction
    except ValueError:  # no such date, such as 30 February
        return None
    return zoned_moment(seconds, zone)


_STALK = re.compile(r"(?:^|/)(\d{4})_(\d\d)_(\d\d)_(\d\d)_(\d\d)_(\d\d)-([a-z_-]{2,30})$", re.ASCII)
_DATED = re.compile(
    r"(?<!\d)(20\d\d)([-_.]?)([01]\d)\2([0-3]\d)[-_.T]{0,2}([0-2]\d)([-_.:]?)([0-5]\d)(?:\6([0-5]\d))?(?!\d)", re.ASCII
)
_WATCHER = re.compile(r"(?:^|/)[^/]{1,255}_([a-z]{2,12})_\d\d\.\d\d\.\d\d\.\d{4}\.dat$", re.ASCII)
STALK_COMMANDS = {
    "vmstat": "vmstat 1",
    "vmstat-overall": "vmstat 30",
    "top": "top -b",
    "ps": "ps -eaF",
    "iostat": "iostat -dx 1",
    "sysctl": "sysctl -a",
    "dmesg": "dmesg",
    "numastat": "cat numastat",
}
STAMPED = frozenset({"procvmstat", "procstat", "meminfo", "slabinfo", "interrupts", "diskstats", "df", "numastat"})
WATCHER_COMMANDS = {"vmstat": "vmstat 1 3", "ps": "ps -elf", "top": "top -b -n 2", "iostat": "iostat -xk 1 3"}


class Recorder(NamedTuple):
    """The command that wrote a file (empty if unknown), and the time when it began."""

    command: str = ""
    begun: Moment | None = None


def recorder_of(path: str) -> Recorder:
    """Return what the name of a member determines about the recorder that wrote it.

    >>> recorder_of("stalk/2026_11_20_10_54_10-vmstat").command
    'vmstat 1'
    >>> recorder_of("archive/oswvmstat/node1_vmstat_26.11.20.1000.dat").command
    'vmstat 1 3'
    """
    if match := _STALK.search(path):
        collector = match[7]
        year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
        begun = None if collector in STAMPED else _moment((year, month, day, hour, minute, second), "", 0.0)
        return Recorder(STALK_COMMANDS.get(collector, ""), begun)
    if match := _WATCHER.search(path):
        return Recorder(WATCHER_COMMANDS.get(match[1], ""))
    if match := _DATED.search(path.rpartition("/")[2]):
        year, month, day, hour, minute, second = (int(part or 0) for part in match.group(1, 3, 4, 5, 7, 8))
        return Recorder("", _moment((year, month, day, hour, minute, second), "", 0.0))
    return Recorder()


def without_date(path: str) -> str:
    """Return a path with `*` for the date in its last part, which makes it equal for all files of one recording."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{_DATED.sub('*', name)}"
