"""MongoDB: its structured log, and what it says of itself (db.serverStatus()).

The log, since 4.4: one JSON document a line.

    {"t":{"$date":"2026-01-08T12:47:03.202+00:00"},"s":"W",  "c":"CONTROL",  "id":22178,   "ctx":"initandlisten",
     "msg":"/sys/kernel/mm/transparent_hugepage/enabled is 'always'. We suggest setting it to 'never'","tags":[...]}

Read are the version that starts and the warnings at a start about huge pages that it wants off. 8.0 names the file,
its value and the value it wants in `attr`; where it wants huge pages its version says so. A setting that a log names is
that of some earlier start and no setting of now. The host it names may be a container. Older logs are app_notes'.

db.serverStatus() as mongo (up to 5) and mongosh print it, and as JSON; also extra_info alone.

    host: 'node1:27017',
    version: '7.0.12',
    extra_info: {
      user_time_us: Long('2512869347'),
      system_time_us: Long('1698074895'),

Units: microseconds of CPU (getrusage), MiB in `mem`, counts of page faults (page_reclaims: the minor ones). Sections of
tcmalloc are left out: what an allocator holds back is in the resident memory, and no cause is told by it.
Source: MongoDB startup_warnings_mongod.cpp, processinfo_linux.cpp, server_status_core.cpp, 3.6 to 8.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.detect.timestamps import parse_timestamp
from thpdiag.model import Fact, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, printable, with_errors
from thpdiag.parsers._units import parse_number

LOG, STATUS = "mongodb_log", "mongodb_status"
_LABELS = (("app", "mongodb"),)
_LOG_LINE = re.compile(r'\{"t":\{"\$date":"(?P<time>[\d:.TZ+-]{19,32})"\},\s?"s":"')
_STARTS = re.compile(r'"buildInfo":\{"version":"(\d{1,2}\.\d{1,2}[\w.-]{0,20})"')
_WARNS = re.compile(
    r"/transparent_hugepage/(?:enabled|defrag) is 'always'|"
    r'"sysfsFile":"[^"]{0,80}/transparent_hugepage/enabled","currentValue":"always","desiredValue":"never"'
)


@with_errors(LOG)
def read_log(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """app.version and app.thp_warning."""
    for number, text in lines:
        found = _LOG_LINE.match(text)
        if not found:
            if text.strip():
                odd.note(number, text, "not a line of MongoDB log")
        elif '"CONTROL"' in text:
            time = parse_timestamp(found["time"])
            if started := _STARTS.search(text):
                yield Fact("app.version", started[1], source.cite(number, text), _LABELS, time)
            elif _WARNS.search(text):
                yield Fact("app.thp_warning", "mongodb", source.cite(number, text), _LABELS, time)


MONGODB_LOG = Parser(LOG, "MongoDB's structured log", read_log, opens=_LOG_LINE, continues=_LOG_LINE.match, priority=1)

_STRING = r"\"(?:[^\"\\]|\\.){0,400}\"|'(?:[^'\\]|\\.){0,400}'"
_PART = re.compile(
    rf"(?:(?P<key>{_STRING}|[\w$]{{1,80}})\s{{0,2}}:\s{{0,2}})?(?P<value>[{{\[]|{_STRING}|[\w.$+-]{{1,100}})|(?P<end>[}}\]])"
)
_OPENS = re.compile(
    r"\s{0,8}\{?\s?[\"']?(?:host[\"']?\s?:\s?[\"'][^\"']{1,255}[\"'],|extra_info[\"']?\s?:\s?\{|"
    r"note[\"']?\s?:\s?[\"']fields vary by platform)"
)
_CONTINUES = re.compile(r"\s*(?:[{}\[\]]|[\"']?[\w$][^:]{0,120}:\s|[\"'\d-].{0,200},?$)")
_SERVER = re.compile(r"[\"']?process[\"']?\s{0,2}:\s{0,2}[\"']mongo[ds][\"']|fields vary by platform")
METRICS = {
    "user_time_us": ("process_cpu_seconds_total.user", 1e-6),
    "system_time_us": ("process_cpu_seconds_total.system", 1e-6),
    "page_reclaims": ("process_minor_faults_total", 1),
    "page_faults": ("process_major_faults_total", 1),
    "mem.resident": ("process_resident_memory_bytes", 2**20),
    "mem.virtual": ("process_virtual_memory_bytes", 2**20),
}
KEPT = frozenset((*METRICS, "version", "pid", "process", "localTime"))
MAX_DEPTH = 40
_VERSION = re.compile(r"\d{1,2}\.\d{1,2}[\w.-]{0,20}$")


@with_errors(STATUS)
def read_status(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """app.version, and a sample of the process for each document."""
    values: dict[str, str] = {}
    path, told, key, first = list[str](), list[str](), "", (0, "")
    for number, text in lines:
        if _OPENS.match(text) and "host" in text[:20] and values:
            yield from _process(source, values, first, odd)
            values, path = {}, []
        first = first if values else (number, text)
        for part in _PART.finditer(text):
            key = (part["key"] or key).strip("\"'")
            if part["end"]:
                key = path.pop() if path else ""
            elif part["value"] in ("{", "["):
                path = [*path, key][:MAX_DEPTH]
            elif key:
                name = ".".join(word for word in (*path, key) if word and word[0] != "$").removeprefix("extra_info.")
                if name in KEPT:
                    values[name] = part["value"].strip("\"'")
        if _VERSION.match(values.get("version", "")) and values["version"] not in told:
            told = [values["version"]]
            yield Fact("app.version", told[0], source.cite(number, text), _LABELS, source.time)
    yield from _process(source, values, first, odd)


def _process(source: Source, values: dict[str, str], first: tuple[int, str], odd: ParseErrors) -> Iterator[Sample]:
    numbers: dict[str, float] = {}
    for path, text in values.items():
        metric, unit = METRICS.get(path, ("", 0))
        value = parse_number(text) if metric else None
        if value is not None and value < 1e18:
            numbers[metric] = value * unit
        elif metric:
            odd.note(*first, "a value of MongoDB that is not a number")
    if numbers:
        time = source.time or parse_timestamp(values.get("localTime", ""))
        entity = (("pid", printable(values.get("pid", ""))[:10] or "?"), ("comm", values.get("process", "mongod")[:15]))
        quanta = {name: 2.0**20 for name in numbers if name.endswith("memory_bytes")}
        yield Sample("process", numbers, source.cite(*first), STATUS, entity, time, quanta)


def _confirm(ahead: list[str]) -> bool:
    return _SERVER.search("\n".join(ahead)[:2000]) is not None


MONGODB_STATUS = Parser(
    STATUS, "db.serverStatus() of MongoDB", read_status, opens=_OPENS, continues=_CONTINUES.match, confirm=_confirm,
    priority=1,
)  # fmt: skip
