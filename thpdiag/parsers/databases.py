r"""Status output and logs of databases: Redis, PostgreSQL, MongoDB.

INFO of Redis, and of Valkey and KeyDB, which print the same format.

    # Server
    redis_version:7.0.15
    process_id:26704
    # CPU
    used_cpu_sys:0.948518
    used_cpu_user:0.246777

CPU seconds are those of the process since its start, from getrusage, as in /proc/PID/stat. Memory is in bytes. Two INFO
of one process give rates; their time is `server_time_usec` (from 6.2 on) if no time line precedes them. app_notes reads
the statements of `latency doctor` and of the log about huge pages. Fragmentation and the time of the last fork are not
read, because neither distinguishes huge pages from other causes.
Varies: sections by version (`INFO all`, `INFO cpu`). Source: redis server.c (genRedisInfoString), 2.8 to 8.0; recorded
with 7.0.15.

pg_stat_activity of PostgreSQL, as psql prints it: the wait events of its backends.

      pid  | state  | wait_event_type |  wait_event   |         query
    -------+--------+-----------------+---------------+------------------------
     25529 | active |                 |               | select count(*) from t;
     25531 | active | Lock            | transactionid | UPDATE t SET n = n + 1;
    (2 rows)

An active backend without a wait event uses a CPU, or waits in the kernel, which PostgreSQL does not see. The parser
counts active backends except the one that ran this query, which its query text identifies; if no row has that text,
one running backend is subtracted. The expanded form (\x) is read too. Varies: columns and their order; wait_event since
9.6 (`waiting` before that covers locks only and is not used); backend_type since 10.
Source: PostgreSQL documentation, The Statistics Collector; recorded with 15.

The structured log of MongoDB since 4.4: one JSON document per line.

    {"t":{"$date":"2026-01-08T12:47:03.202+00:00"},"s":"W",  "c":"CONTROL",  "id":22178,   "ctx":"initandlisten",
     "msg":"/sys/kernel/mm/transparent_hugepage/enabled is 'always'. We suggest setting it to 'never'","tags":[...]}

The parser reads the version at a start, and the start-up warnings of versions that require huge pages to be off. 8.0
names the file, its value and the desired value in `attr`; a version that prefers huge pages logs that. A setting in a
log is that of an earlier start, not the current one. The host in it may be a container. app_notes reads older logs.

    {"t":{...},"s":"I","c":"COMMAND","id":51803,"ctx":"conn12","msg":"Slow query","attr":{"type":"command",
     "ns":"shop.orders","command":{"find":"orders",...},"keysExamined":1,"docsExamined":1,...,"storage":{},"durationMillis":3210}}

A slow operation takes 100 ms or more. The parser counts those of a second or more that examined or wrote only a few
documents and spent less than half of the time in locks, reads, the cache of WiredTiger, flow control, other members and
write concern: there MongoDB waits for a CPU, for memory or in the kernel. Times in microseconds.

db.serverStatus() of MongoDB as mongo (up to 5) and mongosh print it, and as JSON; also extra_info alone.

    host: 'node1:27017',
    version: '7.0.12',
    extra_info: {
      user_time_us: Long('2512869347'),
      system_time_us: Long('1698074895'),

Units: microseconds of CPU (getrusage), MiB in `mem`, counts of page faults (page_reclaims: the minor ones). Sections of
tcmalloc are not read: memory that the allocator retains is part of the resident memory and shows no cause.
Source: MongoDB startup_warnings_mongod.cpp, processinfo_linux.cpp, server_status_core.cpp, 3.6 to 8.2; curop.cpp
(OpDebug::report), lock_stats.cpp and wiredtiger_operation_stats.cpp, 4.4 to 8.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from thpdiag.detect.timestamps import parse_timestamp
from thpdiag.model import Clock, Fact, Moment, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, any_of, printable, with_errors
from thpdiag.parsers._units import parse_number

REDIS = "redis_info"
_REDIS_LINE = re.compile(r"(?P<key>[a-z][A-Za-z0-9_.|-]{0,80}):(?P<value>.{0,400})$")
_REDIS_SECTION = re.compile(
    r"# (?:Server|Clients|Memory|Persistence|Stats|Replication|CPU|Modules|Commandstats|Errorstats|Cluster|Keyspace"
    r"|Latencystats|Keysizes|Threads|Sentinel)\s*$"
)
REDIS_METRICS = {
    "used_cpu_sys": "process_cpu_seconds_total.system", "used_cpu_user": "process_cpu_seconds_total.user",
    "used_memory_rss": "process_resident_memory_bytes",
}  # fmt: skip
REDIS_VERSIONS = ("redis_version", "valkey_version")
REDIS_KEYS = frozenset((*REDIS_METRICS, *REDIS_VERSIONS, "process_id", "server_time_usec"))


@with_errors(REDIS)
def read_redis_info(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield app.version, and a sample of the process for each INFO."""
    values: dict[str, str] = {}
    first: tuple[int, str] | None = None
    for number, text in lines:
        match = _REDIS_LINE.match(text.strip())
        if _REDIS_SECTION.match(text):
            if text.startswith("# Server") and values:
                yield from _redis_sample(source, values, first)
                values, first = {}, None
        elif match:
            first = first or (number, text)
            key, value = match["key"], match["value"].strip()
            if key in REDIS_KEYS:
                values[key] = value
            if key in REDIS_VERSIONS and re.fullmatch(r"\d{1,3}(?:\.\d{1,3}){1,2}", value):
                yield Fact("app.version", value, source.cite(number, text), (("app", "redis"),), source.time)
        elif text.strip():
            errors.note(number, text, "not a line of INFO")
    yield from _redis_sample(source, values, first)


def _redis_sample(source: Source, values: dict[str, str], first: tuple[int, str] | None) -> Iterator[Sample]:
    parsed = {metric: parse_number(values.get(key, "")) for key, metric in REDIS_METRICS.items()}
    numbers = {metric: value for metric, value in parsed.items() if value is not None and 0 <= value < 1e18}
    if not numbers or first is None:
        return
    time, micros = source.time, parse_number(values.get("server_time_usec", ""))
    if time is None and micros is not None and 1e15 < micros < 4e15:
        time = Moment(micros / 1e6, Clock.UTC)
    entity = (("pid", printable(values.get("process_id", ""))[:10] or "?"), ("comm", "redis-server"))
    yield Sample("process", numbers, source.cite(*first), REDIS, entity, time)


def _is_redis_line(text: str) -> bool:
    return bool(_REDIS_LINE.match(text.strip()) or _REDIS_SECTION.match(text) or not text.strip())


def _redis_confirm(ahead: list[str]) -> bool:
    return all(map(_is_redis_line, ahead[1:])) and sum(bool(text.strip()) for text in ahead[1:]) > 1


REDIS_INFO = Parser(
    REDIS, "INFO of Redis", read_redis_info,
    opens=re.compile(r"# (?:Server|Memory|CPU|Stats)\s*$|(?:redis|valkey)_version:\d|used_cpu_sys:\d"),
    continues=_is_redis_line, confirm=_redis_confirm, priority=1,
)  # fmt: skip


PG_ACTIVITY = "pg_stat_activity"
_PG_TITLES = re.compile(
    r"(?=(?:.{0,2000}\|)? *state *(?:\||$))(?=(?:.{0,2000}\|)? *wait_event *(?:\||$))[ |a-z_0-9]{10,4000}$"
)
_PG_RULER = re.compile(r"-+(?:\+-+)+\s*$")
_PG_FOOT = re.compile(r"\(\d{1,7} rows?\)\s*$")
_PG_RECORD = re.compile(r"-\[ RECORD \d{1,7} \][-+]*\s*$")
_PG_CELLS = re.compile(r"[^|\n]{0,8000}\|.*$")
_EXCLUDES_ITSELF = re.compile(r"\bpid\s{0,4}(?:<>|!=)\s{0,4}pg_backend_pid\(\)", re.IGNORECASE)


@dataclass(slots=True)
class _BackendCount:
    """The number of running backends in one result; `saw_self` if the backend of the query itself was identified."""

    running: int = 0
    saw_self: bool = False

    def add(self, row: Mapping[str, str]) -> None:
        """Count a backend that is active and has no wait event."""
        is_self = PG_ACTIVITY in row.get("query", "")
        self.saw_self |= is_self
        if (
            not is_self
            and row.get("state") == "active"
            and row.get("backend_type", "client backend") == "client backend"
        ):
            self.running += not row["wait_event"]

    def facts(self, source: Source, first: tuple[int, str]) -> Iterator[Fact]:
        """Yield the count without the backend of the query, if that was neither identified nor excluded."""
        own = 0 if self.saw_self or _EXCLUDES_ITSELF.search(source.command) else min(1, self.running)
        yield Fact("postgres.running_backends", self.running - own, source.cite(*first), (), source.time)


@with_errors(PG_ACTIVITY)
def read_pg_activity(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield postgres.running_backends of each result."""
    titles, counts, row, first = list[str](), _BackendCount(), dict[str, str](), (0, "")
    for number, text in lines:
        if _PG_RECORD.match(text) or _PG_TITLES.match(text):
            first = first if first[0] else (number, text)
            counts.add(row) if "wait_event" in row else None
            row = {}
            titles = [] if _PG_RECORD.match(text) else _pg_cells(text)
        elif _PG_FOOT.match(text):
            yield from counts.facts(source, first) if first[0] else ()
            titles, counts, first = [], _BackendCount(), (0, "")
        elif titles and "|" in text:
            cells = _pg_cells(text)
            if "wait_event" in titles[: len(cells)] and (cells[0] or len(cells) == len(titles)):
                counts.add(dict(zip(titles, cells, strict=False)))
            elif cells[0]:  # a line without a first cell continues the query text of the row above
                errors.note(number, text, "a row that is cut before wait_event: not counted")
        elif "|" in text:
            name, _, value = text.partition("|")
            row[name.strip()] = row.get(name.strip()) or value.strip()
        elif text.strip() and not _PG_RULER.match(text):
            errors.note(number, text, "not a line of psql")
    counts.add(row) if "wait_event" in row else None
    yield from counts.facts(source, first) if first[0] else ()


def _pg_cells(text: str) -> list[str]:
    return [cell.strip() for cell in text.split("|")]


def _pg_confirm(ahead: list[str]) -> bool:
    if _PG_RECORD.match(ahead[0]):
        return {"state", "wait_event"} <= {text.partition("|")[0].strip() for text in ahead[1:]}
    return len(ahead) > 1 and _PG_RULER.match(ahead[1]) is not None


PG_STAT_ACTIVITY = Parser(
    PG_ACTIVITY, "pg_stat_activity of PostgreSQL", read_pg_activity,
    opens=re.compile(rf"{_PG_RECORD.pattern}|{_PG_TITLES.pattern}"),
    continues=any_of(_PG_RULER, _PG_FOOT, _PG_RECORD, _PG_CELLS), confirm=_pg_confirm, lookahead=30,
)  # fmt: skip


MONGODB_LOG_NAME, MONGODB_STATUS_NAME = "mongodb_log", "mongodb_status"
_MONGODB_LABELS = (("app", "mongodb"),)
_LOG_LINE = re.compile(r'\{"t":\{"\$date":"(?P<time>[\d:.TZ+-]{19,32})"\},\s?"s":"')
_STARTED_VERSION = re.compile(r'"buildInfo":\{"version":"(\d{1,2}\.\d{1,2}[\w.-]{0,20})"')
_THP_WARNING = re.compile(
    r"/transparent_hugepage/(?:enabled|defrag) is 'always'|"
    r'"sysfsFile":"[^"]{0,80}/transparent_hugepage/enabled","currentValue":"always","desiredValue":"never"'
)
_SLOW = '"msg":"Slow query"'
_DURATION = re.compile(r'"durationMillis":(\d{1,12})\}\}\s*$')
_EXAMINED = re.compile(r'"(?:keysExamined|docsExamined|ninserted|keysInserted)":(\d{1,15})')
_STATUS_COMMAND = re.compile(r'"command":\{"(?:hello|isMaster|ismaster|ping|buildInfo|serverStatus|replSetGetStatus)":')
_WAITS = re.compile(
    r'"(?:timeReadingMicros|timeWritingMicros|cache|handleLock|schemaLock|acquireWaitMicros|timeAcquiringMicros)":(?P<us>\d{1,15})'
    r'|"timeAcquiringMicros":\{(?P<modes>[^}]{0,200})\}'
    r'|"(?:remoteOpWaitMillis|waitForWriteConcernDurationMillis|prepareConflictDurationMillis)":(?P<ms>\d{1,12})'
)
MIN_STALL_MS = 1000  # duration of an operation that should take a millisecond
MAX_EXAMINED = 100  # keys and documents of such an operation
MAX_WAIT_SHARE = 0.5  # share of its time in waits that MongoDB counts


def _stalled_ms(text: str) -> int | None:
    """Return the milliseconds of a slow operation that examined little and hardly waited in what MongoDB counts."""
    attributes = text[text.find('"attr":') :]
    duration = _DURATION.search(attributes)
    examined = [int(number) for number in _EXAMINED.findall(attributes)]
    if not duration or int(duration[1]) < MIN_STALL_MS or not (examined or _STATUS_COMMAND.search(attributes)):
        return None
    wait_us = sum(
        float(wait["us"] or 0)
        + 1000 * float(wait["ms"] or 0)
        + sum(map(float, re.findall(r":(\d{1,15})", wait["modes"] or "")))
        for wait in _WAITS.finditer(attributes)
    )
    is_stalled = sum(examined) <= MAX_EXAMINED and wait_us < MAX_WAIT_SHARE * 1000 * int(duration[1])
    return int(duration[1]) if is_stalled else None


@with_errors(MONGODB_LOG_NAME)
def read_mongodb_log(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield app.version, app.thp_warning, and mongodb.stalled_operations if slow operations are logged."""
    slow, stalled, longest = 0, 0, (0, 0, "", "")
    for number, text in lines:
        match = _LOG_LINE.match(text)
        if not match:
            if text.strip():
                errors.note(number, text, "not a line of MongoDB log")
        elif '"CONTROL"' in text:
            time = parse_timestamp(match["time"])
            if started := _STARTED_VERSION.search(text):
                yield Fact("app.version", started[1], source.cite(number, text), _MONGODB_LABELS, time)
            elif _THP_WARNING.search(text):
                yield Fact("app.thp_warning", "mongodb", source.cite(number, text), _MONGODB_LABELS, time)
        elif _SLOW in text:
            stall_ms = _stalled_ms(text)
            slow, stalled = slow + 1, stalled + (stall_ms is not None)
            if slow == 1 or (stall_ms or 0) > longest[0]:
                longest = (stall_ms or 0, number, text, match["time"])
    if slow:
        cite, time = source.cite(longest[1], longest[2]), parse_timestamp(longest[3])
        yield Fact("mongodb.stalled_operations", stalled, cite, (("slow", str(slow)),), time)


MONGODB_LOG = Parser(
    MONGODB_LOG_NAME, "MongoDB's structured log", read_mongodb_log, opens=_LOG_LINE, continues=_LOG_LINE.match,
    priority=1,
)  # fmt: skip

_STRING = r"\"(?:[^\"\\]|\\.){0,400}\"|'(?:[^'\\]|\\.){0,400}'"
_STATUS_PART = re.compile(
    rf"(?:(?P<key>{_STRING}|[\w$]{{1,80}})\s{{0,2}}:\s{{0,2}})?(?P<value>[{{\[]|{_STRING}|[\w.$+-]{{1,100}})|(?P<end>[}}\]])"
)
_STATUS_OPENS = re.compile(
    r"\s{0,8}\{?\s?[\"']?(?:host[\"']?\s?:\s?[\"'][^\"']{1,255}[\"'],|extra_info[\"']?\s?:\s?\{|"
    r"note[\"']?\s?:\s?[\"']fields vary by platform)"
)
_STATUS_CONTINUES = re.compile(r"\s*(?:[{}\[\]]|[\"']?[\w$][^:]{0,120}:\s|[\"'\d-].{0,200},?$)")
_SERVER = re.compile(r"[\"']?process[\"']?\s{0,2}:\s{0,2}[\"']mongo[ds][\"']|fields vary by platform")
STATUS_METRICS = {
    "user_time_us": ("process_cpu_seconds_total.user", 1e-6),
    "system_time_us": ("process_cpu_seconds_total.system", 1e-6),
    "page_reclaims": ("process_minor_faults_total", 1),
    "page_faults": ("process_major_faults_total", 1),
    "mem.resident": ("process_resident_memory_bytes", 2**20),
    "mem.virtual": ("process_virtual_memory_bytes", 2**20),
}
STATUS_KEYS = frozenset((*STATUS_METRICS, "version", "pid", "process", "localTime"))
MAX_DEPTH = 40
_MONGODB_VERSION = re.compile(r"\d{1,2}\.\d{1,2}[\w.-]{0,20}$")


@with_errors(MONGODB_STATUS_NAME)
def read_mongodb_status(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield app.version, and a sample of the process for each document."""
    values: dict[str, str] = {}
    path, version, key, first = list[str](), "", "", (0, "")
    for number, text in lines:
        if _STATUS_OPENS.match(text) and "host" in text[:20] and values:
            yield from _status_sample(source, values, first, errors)
            values, path = {}, []
        first = first if values else (number, text)
        for part in _STATUS_PART.finditer(text):
            key = (part["key"] or key).strip("\"'")
            if part["end"]:
                key = path.pop() if path else ""
            elif part["value"] in ("{", "["):
                path = [*path, key][:MAX_DEPTH]
            elif key:
                name = ".".join(word for word in (*path, key) if word and word[0] != "$").removeprefix("extra_info.")
                if name in STATUS_KEYS:
                    values[name] = part["value"].strip("\"'")
        if _MONGODB_VERSION.match(values.get("version", "")) and values["version"] != version:
            version = values["version"]
            yield Fact("app.version", version, source.cite(number, text), _MONGODB_LABELS, source.time)
    yield from _status_sample(source, values, first, errors)


def _status_sample(
    source: Source, values: dict[str, str], first: tuple[int, str], errors: ParseErrors
) -> Iterator[Sample]:
    numbers: dict[str, float] = {}
    for path, text in values.items():
        metric, unit = STATUS_METRICS.get(path, ("", 0))
        value = parse_number(text) if metric else None
        if value is not None and value < 1e18:
            numbers[metric] = value * unit
        elif metric:
            errors.note(*first, "a value of MongoDB that is not a number")
    if numbers:
        time = source.time or parse_timestamp(values.get("localTime", ""))
        entity = (("pid", printable(values.get("pid", ""))[:10] or "?"), ("comm", values.get("process", "mongod")[:15]))
        quanta = {name: 2.0**20 for name in numbers if name.endswith("memory_bytes")}
        yield Sample("process", numbers, source.cite(*first), MONGODB_STATUS_NAME, entity, time, quanta)


MONGODB_STATUS = Parser(
    MONGODB_STATUS_NAME, "db.serverStatus() of MongoDB", read_mongodb_status, opens=_STATUS_OPENS,
    continues=_STATUS_CONTINUES.match, confirm=lambda ahead: _SERVER.search("\n".join(ahead)[:2000]), priority=1,
)  # fmt: skip
