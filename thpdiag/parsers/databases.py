r"""What databases say of themselves: Redis, PostgreSQL, MongoDB.

What Redis says of itself (INFO), and Valkey and KeyDB, which say it in the same words.

    # Server
    redis_version:7.0.15
    process_id:26704
    # CPU
    used_cpu_sys:0.948518
    used_cpu_user:0.246777

CPU seconds are those of the process since its start, from getrusage: the same that /proc/PID/stat tells. Memory is
bytes. Of two INFO of one process what happened between them is known; their time is `server_time_usec` (from 6.2 on)
where none stands above them. What `latency doctor` and the log say of huge pages is read by app_notes. Fragmentation
and the time of the last fork are left out: neither tells huge pages from other causes.
Varies: sections by version (`INFO all`, `INFO cpu`). Source: redis server.c (genRedisInfoString), 2.8 to 8.0; recorded
with 7.0.15.

pg_stat_activity of PostgreSQL, as psql prints it: what its backends wait for.

      pid  | state  | wait_event_type |  wait_event   |         query
    -------+--------+-----------------+---------------+------------------------
     25529 | active |                 |               | select count(*) from t;
     25531 | active | Lock            | transactionid | UPDATE t SET n = n + 1;
    (2 rows)

A backend that is active and has no wait event uses a CPU or waits for the kernel, of which PostgreSQL does not know.
Counted are active backends without that which asked, which is known by its query; where none has that, one running
backend is left out. Also the expanded form (\x). Varies: columns and their order; the column wait_event since 9.6
(`waiting` before it is of locks alone, and not used); backend_type since 10.
Source: PostgreSQL documentation, The Statistics Collector; recorded with 15.

MongoDB: its structured log, and what it says of itself (db.serverStatus()).

The log, since 4.4: one JSON document a line.

    {"t":{"$date":"2026-01-08T12:47:03.202+00:00"},"s":"W",  "c":"CONTROL",  "id":22178,   "ctx":"initandlisten",
     "msg":"/sys/kernel/mm/transparent_hugepage/enabled is 'always'. We suggest setting it to 'never'","tags":[...]}

Read are the version that starts and the warnings at a start about huge pages that it wants off. 8.0 names the file,
its value and the value it wants in `attr`; where it wants huge pages its version says so. A setting that a log names is
that of some earlier start and no setting of now. The host it names may be a container. Older logs are app_notes'.

    {"t":{...},"s":"I","c":"COMMAND","id":51803,"ctx":"conn12","msg":"Slow query","attr":{"type":"command",
     "ns":"shop.orders","command":{"find":"orders",...},"keysExamined":1,"docsExamined":1,...,"storage":{},"durationMillis":3210}}

A slow operation is one of 100 ms or more. Counted are those of a second or more that looked at hardly anything, or
wrote a few documents, and of which locks, reading, the cache of WiredTiger, flow control, other members and the write
concern take less than half: MongoDB waits for a CPU, for memory or in the kernel. Times in microseconds.

db.serverStatus() as mongo (up to 5) and mongosh print it, and as JSON; also extra_info alone.

    host: 'node1:27017',
    version: '7.0.12',
    extra_info: {
      user_time_us: Long('2512869347'),
      system_time_us: Long('1698074895'),

Units: microseconds of CPU (getrusage), MiB in `mem`, counts of page faults (page_reclaims: the minor ones). Sections of
tcmalloc are left out: what an allocator holds back is in the resident memory, and no cause is told by it.
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
def read_redis_info(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """app.version, and a sample of the process for each INFO."""
    values: dict[str, str] = {}
    first: tuple[int, str] | None = None
    for number, text in lines:
        found = _REDIS_LINE.match(text.strip())
        if _REDIS_SECTION.match(text):
            if text.startswith("# Server") and values:
                yield from _redis_sample(source, values, first)
                values, first = {}, None
        elif found:
            first = first or (number, text)
            key, value = found["key"], found["value"].strip()
            if key in REDIS_KEYS:
                values[key] = value
            if key in REDIS_VERSIONS and re.fullmatch(r"\d{1,3}(?:\.\d{1,3}){1,2}", value):
                yield Fact("app.version", value, source.cite(number, text), (("app", "redis"),), source.time)
        elif text.strip():
            odd.note(number, text, "not a line of INFO")
    yield from _redis_sample(source, values, first)


def _redis_sample(source: Source, values: dict[str, str], first: tuple[int, str] | None) -> Iterator[Sample]:
    read = {metric: parse_number(values.get(key, "")) for key, metric in REDIS_METRICS.items()}
    numbers = {metric: size for metric, size in read.items() if size is not None and 0 <= size < 1e18}
    if not numbers or first is None:
        return
    time, micros = source.time, parse_number(values.get("server_time_usec", ""))
    if time is None and micros is not None and 1e15 < micros < 4e15:
        time = Moment(micros / 1e6, Clock.UTC)
    entity = (("pid", printable(values.get("process_id", ""))[:10] or "?"), ("comm", "redis-server"))
    yield Sample("process", numbers, source.cite(*first), REDIS, entity, time)


def _redis_continues(text: str) -> bool:
    """A value, a section or an empty line."""
    return bool(_REDIS_LINE.match(text.strip()) or _REDIS_SECTION.match(text) or not text.strip())


def _redis_confirm(ahead: list[str]) -> bool:
    below = [text for text in ahead[1:] if text.strip()]
    return len(below) > 1 and all(_REDIS_LINE.match(text.strip()) or _REDIS_SECTION.match(text) for text in below)


REDIS_INFO = Parser(
    REDIS, "INFO of Redis", read_redis_info,
    opens=re.compile(r"# (?:Server|Memory|CPU|Stats)\s*$|(?:redis|valkey)_version:\d|used_cpu_sys:\d"),
    continues=_redis_continues, confirm=_redis_confirm, priority=1,
)  # fmt: skip


PG_ACTIVITY = "pg_stat_activity"
_PG_TITLES = re.compile(
    r"(?=(?:.{0,2000}\|)? *state *(?:\||$))(?=(?:.{0,2000}\|)? *wait_event *(?:\||$))[ |a-z_0-9]{10,4000}$"
)
_PG_RULER = re.compile(r"-+(?:\+-+)+\s*$")
_PG_FOOT = re.compile(r"\(\d{1,7} rows?\)\s*$")
_PG_RECORD = re.compile(r"-\[ RECORD \d{1,7} \][-+]*\s*$")
_PG_CELLS = re.compile(r"[^|\n]{0,8000}\|.*$")


_WITHOUT_ASKER = re.compile(r"\bpid\s{0,4}(?:<>|!=)\s{0,4}pg_backend_pid\(\)", re.IGNORECASE)


@dataclass(slots=True)
class _Counts:
    """Backends of one answer."""

    running: int = 0
    asked: bool = False  # whether the backend that asked was known

    def take(self, row: Mapping[str, str]) -> None:
        """Count a backend that works and waits for nothing."""
        own = PG_ACTIVITY in row.get("query", "")
        self.asked = self.asked or own
        if row.get("state") == "active" and row.get("backend_type", "client backend") == "client backend" and not own:
            self.running += not row["wait_event"]

    def facts(self, source: Source, first: tuple[int, str]) -> Iterator[Fact]:
        """The count, without the backend that asked, unless the query leaves that out."""
        asked = 0 if self.asked or _WITHOUT_ASKER.search(source.command) else min(1, self.running)
        yield Fact("postgres.running_backends", self.running - asked, source.cite(*first), (), source.time)


@with_errors(PG_ACTIVITY)
def read_pg_activity(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """postgres.running_backends of each answer."""
    titles, counts, row, first = list[str](), _Counts(), dict[str, str](), (0, "")
    for number, text in lines:
        if _PG_RECORD.match(text) or _PG_TITLES.match(text):
            first = first if first[0] else (number, text)
            counts.take(row) if "wait_event" in row else None
            row = {}
            titles = [] if _PG_RECORD.match(text) else _pg_cells(text)
        elif _PG_FOOT.match(text):
            yield from counts.facts(source, first) if first[0] else ()
            titles, counts, first = [], _Counts(), (0, "")
        elif titles and "|" in text:
            cells = _pg_cells(text)
            if "wait_event" in titles[: len(cells)] and (cells[0] or len(cells) == len(titles)):
                counts.take(dict(zip(titles, cells, strict=False)))
            elif cells[0]:  # else what goes on from a query above
                odd.note(number, text, "a row that is cut before wait_event: not counted")
        elif "|" in text:
            name, _, value = text.partition("|")
            row[name.strip()] = row.get(name.strip()) or value.strip()
        elif text.strip() and not _PG_RULER.match(text):
            odd.note(number, text, "not a line of psql")
    counts.take(row) if "wait_event" in row else None
    yield from counts.facts(source, first) if first[0] else ()


def _pg_cells(text: str) -> list[str]:
    return [cell.strip() for cell in text.split("|")]


def _pg_confirm(ahead: list[str]) -> bool:
    if _PG_RECORD.match(ahead[0]):
        names = {text.partition("|")[0].strip() for text in ahead[1:]}
        return {"state", "wait_event"} <= names
    return len(ahead) > 1 and _PG_RULER.match(ahead[1]) is not None


PG_STAT_ACTIVITY = Parser(
    PG_ACTIVITY, "pg_stat_activity of PostgreSQL", read_pg_activity,
    opens=re.compile(rf"{_PG_RECORD.pattern}|{_PG_TITLES.pattern}"),
    continues=any_of(_PG_RULER, _PG_FOOT, _PG_RECORD, _PG_CELLS), confirm=_pg_confirm, lookahead=30,
)  # fmt: skip


MONGODB_LOG_NAME, MONGODB_STATUS_NAME = "mongodb_log", "mongodb_status"
_MONGODB_LABELS = (("app", "mongodb"),)
_LOG_LINE = re.compile(r'\{"t":\{"\$date":"(?P<time>[\d:.TZ+-]{19,32})"\},\s?"s":"')
_STARTS = re.compile(r'"buildInfo":\{"version":"(\d{1,2}\.\d{1,2}[\w.-]{0,20})"')
_WARNS = re.compile(
    r"/transparent_hugepage/(?:enabled|defrag) is 'always'|"
    r'"sysfsFile":"[^"]{0,80}/transparent_hugepage/enabled","currentValue":"always","desiredValue":"never"'
)
_SLOW = '"msg":"Slow query"'
_DURATION = re.compile(r'"durationMillis":(\d{1,12})\}\}\s*$')
_LITTLE = re.compile(r'"(?:keysExamined|docsExamined|ninserted|keysInserted)":(\d{1,15})')
_ASKS = re.compile(r'"command":\{"(?:hello|isMaster|ismaster|ping|buildInfo|serverStatus|replSetGetStatus)":')
_WAITS = re.compile(
    r'"(?:timeReadingMicros|timeWritingMicros|cache|handleLock|schemaLock|acquireWaitMicros|timeAcquiringMicros)":(?P<us>\d{1,15})'
    r'|"timeAcquiringMicros":\{(?P<modes>[^}]{0,200})\}'
    r'|"(?:remoteOpWaitMillis|waitForWriteConcernDurationMillis|prepareConflictDurationMillis)":(?P<ms>\d{1,12})'
)
STALL_MS = 1000  # of an operation that needs a millisecond
MAX_EXAMINED = 100  # keys and documents
EXPLAINED_SHARE = 0.5  # of an operation's time, by what MongoDB counts


def _stalled_ms(text: str) -> int | None:
    """Milliseconds of a slow operation that did little and waited for nothing that MongoDB counts."""
    attributes = text[text.find('"attr":') :]
    duration = _DURATION.search(attributes)
    examined = [int(number) for number in _LITTLE.findall(attributes)]
    if not duration or int(duration[1]) < STALL_MS or not (examined or _ASKS.search(attributes)):
        return None
    waited = sum(
        float(found["us"] or 0)
        + 1000 * float(found["ms"] or 0)
        + sum(map(float, re.findall(r":(\d{1,15})", found["modes"] or "")))
        for found in _WAITS.finditer(attributes)
    )
    is_stalled = sum(examined) <= MAX_EXAMINED and waited < EXPLAINED_SHARE * 1000 * int(duration[1])
    return int(duration[1]) if is_stalled else None


@with_errors(MONGODB_LOG_NAME)
def read_mongodb_log(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """app.version, app.thp_warning, and mongodb.stalled_operations where slow operations are logged."""
    slow, stalled, worst = 0, 0, (0, 0, "", "")
    for number, text in lines:
        found = _LOG_LINE.match(text)
        if not found:
            if text.strip():
                odd.note(number, text, "not a line of MongoDB log")
        elif '"CONTROL"' in text:
            time = parse_timestamp(found["time"])
            if started := _STARTS.search(text):
                yield Fact("app.version", started[1], source.cite(number, text), _MONGODB_LABELS, time)
            elif _WARNS.search(text):
                yield Fact("app.thp_warning", "mongodb", source.cite(number, text), _MONGODB_LABELS, time)
        elif _SLOW in text:
            lasted = _stalled_ms(text)
            slow, stalled = slow + 1, stalled + (lasted is not None)
            if slow == 1 or (lasted or 0) > worst[0]:
                worst = (lasted or 0, number, text, found["time"])
    if slow:
        cite, time = source.cite(worst[1], worst[2]), parse_timestamp(worst[3])
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
def read_mongodb_status(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """app.version, and a sample of the process for each document."""
    values: dict[str, str] = {}
    path, told, key, first = list[str](), list[str](), "", (0, "")
    for number, text in lines:
        if _STATUS_OPENS.match(text) and "host" in text[:20] and values:
            yield from _status_sample(source, values, first, odd)
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
        if _MONGODB_VERSION.match(values.get("version", "")) and values["version"] not in told:
            told = [values["version"]]
            yield Fact("app.version", told[0], source.cite(number, text), _MONGODB_LABELS, source.time)
    yield from _status_sample(source, values, first, odd)


def _status_sample(
    source: Source, values: dict[str, str], first: tuple[int, str], odd: ParseErrors
) -> Iterator[Sample]:
    numbers: dict[str, float] = {}
    for path, text in values.items():
        metric, unit = STATUS_METRICS.get(path, ("", 0))
        value = parse_number(text) if metric else None
        if value is not None and value < 1e18:
            numbers[metric] = value * unit
        elif metric:
            odd.note(*first, "a value of MongoDB that is not a number")
    if numbers:
        time = source.time or parse_timestamp(values.get("localTime", ""))
        entity = (("pid", printable(values.get("pid", ""))[:10] or "?"), ("comm", values.get("process", "mongod")[:15]))
        quanta = {name: 2.0**20 for name in numbers if name.endswith("memory_bytes")}
        yield Sample("process", numbers, source.cite(*first), MONGODB_STATUS_NAME, entity, time, quanta)


MONGODB_STATUS = Parser(
    MONGODB_STATUS_NAME, "db.serverStatus() of MongoDB", read_mongodb_status, opens=_STATUS_OPENS,
    continues=_STATUS_CONTINUES.match, confirm=lambda ahead: _SERVER.search("\n".join(ahead)[:2000]), priority=1,
)  # fmt: skip
