"""What Redis says of itself (INFO), and Valkey and KeyDB, which say it in the same words.

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
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Clock, Fact, Moment, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, printable, with_errors
from thpdiag.parsers._units import parse_number

NAME = "redis_info"
_LINE = re.compile(r"(?P<key>[a-z][A-Za-z0-9_.|-]{0,80}):(?P<value>.{0,400})$")
_SECTION = re.compile(
    r"# (?:Server|Clients|Memory|Persistence|Stats|Replication|CPU|Modules|Commandstats|Errorstats|Cluster|Keyspace"
    r"|Latencystats|Keysizes|Threads|Sentinel)\s*$"
)
METRICS = {
    "used_cpu_sys": "process_cpu_seconds_total.system", "used_cpu_user": "process_cpu_seconds_total.user",
    "used_memory_rss": "process_resident_memory_bytes",
}  # fmt: skip
VERSIONS = ("redis_version", "valkey_version")
KEPT = frozenset((*METRICS, *VERSIONS, "process_id", "server_time_usec"))


@with_errors(NAME)
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """app.version, and a sample of the process for each INFO."""
    values: dict[str, str] = {}
    first: tuple[int, str] | None = None
    for number, text in lines:
        found = _LINE.match(text.strip())
        if _SECTION.match(text):
            if text.startswith("# Server") and values:
                yield from _sample(source, values, first)
                values, first = {}, None
        elif found:
            first = first or (number, text)
            key, value = found["key"], found["value"].strip()
            if key in KEPT:
                values[key] = value
            if key in VERSIONS and re.fullmatch(r"\d{1,3}(?:\.\d{1,3}){1,2}", value):
                yield Fact("app.version", value, source.cite(number, text), (("app", "redis"),), source.time)
        elif text.strip():
            odd.note(number, text, "not a line of INFO")
    yield from _sample(source, values, first)


def _sample(source: Source, values: dict[str, str], first: tuple[int, str] | None) -> Iterator[Sample]:
    read = {metric: parse_number(values.get(key, "")) for key, metric in METRICS.items()}
    numbers = {metric: size for metric, size in read.items() if size is not None and 0 <= size < 1e18}
    if not numbers or first is None:
        return
    time, micros = source.time, parse_number(values.get("server_time_usec", ""))
    if time is None and micros is not None and 1e15 < micros < 4e15:
        time = Moment(micros / 1e6, Clock.UTC)
    entity = (("pid", printable(values.get("process_id", ""))[:10] or "?"), ("comm", "redis-server"))
    yield Sample("process", numbers, source.cite(*first), NAME, entity, time)


def continues(text: str) -> bool:
    """A value, a section or an empty line."""
    return bool(_LINE.match(text.strip()) or _SECTION.match(text) or not text.strip())


def _confirm(ahead: list[str]) -> bool:
    below = [text for text in ahead[1:] if text.strip()]
    return len(below) > 1 and all(_LINE.match(text.strip()) or _SECTION.match(text) for text in below)


PARSER = Parser(
    NAME, "INFO of Redis", read,
    opens=re.compile(r"# (?:Server|Memory|CPU|Stats)\s*$|(?:redis|valkey)_version:\d|used_cpu_sys:\d"),
    continues=continues, confirm=_confirm, priority=1,
)  # fmt: skip
