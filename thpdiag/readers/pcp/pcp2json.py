"""pcp2json (Performance Co-Pilot): any metrics of a live host or an archive as JSON, an object per moment.

    {"@pcp": {"@hosts": [{"@host": "web1", "@metrics": [
      {"@interval": "4", "@timestamp": "2026-11-20 10:33:16",
       "mem": {"util": {"free": {"@unit": "Kbyte", "value": "14908952"}}}}]}]}}

Units stand beside the values; those of a metric's own are read (Kbyte, ms, count), others that -b, -y or -q made are
not. Counters are rates (`count/s`, `ms/s`) unless made with -r. Times are of the wall clock of where it ran. Values are
texts, numbers with -E; two lines of remarks come before unless a file was named (-F). It is read one moment at a time.
Source: PCP pcp2json.py, 4.0 to 6.0.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping

from thpdiag.model import Clock, Fact, Moment, Problem, ProblemKind, Record
from thpdiag.reader import BulkReader, Content, Foreign, Source
from thpdiag.readers.elements.daytime import date_seconds, day_seconds
from thpdiag.readers.elements.json_array import BrokenError, Elements
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.whole_member import as_columns
from thpdiag.readers.pcp.names import metric
from thpdiag.readers.pcp.rows import Cell, Rows

NAME = "pcp2json"
DEEPEST = 12  # parts of a metric's name
_HEAD = 4096
_FRONT = re.compile(r"\s{0,20}\{")
_MARK = re.compile(r'"@pcp"\s{0,20}:\s{0,20}\{')
_HOST = re.compile(r'"@host"\s{0,20}:\s{0,20}"([\w.-]{1,255})"', re.ASCII)
_BEGIN = re.compile(r'"@metrics"\s{0,20}:\s{0,20}\[')
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,6})?)$", re.ASCII)
_TIMES = frozenset(("ms", "millisec", "msec", "us", "usec", "microsec"))
_NO_UNIT = "a value in another unit than the metric's own: not used"


def _leaves(node: object, name: str, depth: int) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    """Metric, instance and what is said of it."""
    if not isinstance(node, Mapping) or depth > DEEPEST:
        return
    if "value" in node:
        yield name, "", node
    instances = node.get("@instances")
    for one in instances if isinstance(instances, list) else ():
        if isinstance(one, Mapping) and isinstance(one.get("name"), str):
            yield name, str(one["name"]), one
    for key, inner in node.items():
        if isinstance(inner, Mapping):
            yield from _leaves(inner, f"{name}.{key}" if name else str(key), depth + 1)


def _cells(found: Mapping[str, object], line: int, odd: Oddities) -> Iterator[Cell]:
    for name, instance, said in _leaves(found, "", 0):
        value, unit = said.get("value"), str(said.get("@unit", ""))
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            continue
        text = f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
        if _own(name, instance, unit):
            yield Cell(name, instance, text, unit.endswith("/s"))
        else:
            odd.note(line, "", _NO_UNIT)


def _own(name: str, instance: str, unit: str) -> bool:
    """Whether the unit is the one that the names tell the factor for."""
    where = metric(name, instance)
    if where is None:
        return True
    plain = unit.removesuffix("/s")
    if plain.endswith("byte"):
        return plain == ("byte" if where.factor == 1 else "Kbyte")
    return plain in _TIMES if where.factor in (0.001, 1e-6) else plain in ("", "count", "none")


def _moment(found: Mapping[str, object]) -> Moment | None:
    date = _TIME.match(str(found.get("@timestamp", "")))
    midnight = date_seconds(int(date[1]), int(date[2]), int(date[3])) if date else None
    since = day_seconds(date[4]) if date else None
    return None if midnight is None or since is None else Moment(midnight + since, Clock.LOCAL)


def _read(source: Source, pieces: Iterator[str]) -> Iterator[Record]:
    odd, elements, line = Oddities(source, NAME), Elements(pieces, 1), 1
    rows, hosts, broken = Rows(NAME, odd), 0, ""
    try:
        while not hosts or _BEGIN.search(elements.text, elements.at):
            first = True
            for line, found in elements.members(_BEGIN):
                if first and (host := _HOST.findall(elements.front)):
                    yield Fact("host.name", host[-1], source.cite(line))
                first = False
                if isinstance(found, Mapping) and (time := _moment(found)):
                    yield from rows.row(_cells(found, line, odd), source.cite(line), time)
                else:
                    odd.note(line, "", "a member of @metrics without a time: not used")
            hosts += 1
    except BrokenError as error:
        broken = str(error)
    if broken:
        text = f"JSON of pcp2json: {broken}; what stands before was read"
        yield Problem(source.cite(line), text, ProblemKind.DAMAGED, NAME)
    yield from odd.problems()


def _claims(path: str, head: bytes, size: int | None) -> bool:
    text = head[:_HEAD].decode("utf-8", "replace").removeprefix("\ufeff")
    return bool(_FRONT.match(text) and _MARK.search(text))


def _read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    pieces = (decoder.decode(chunk) for chunk in content.chunks)
    return as_columns(_read(source, (text for text in pieces if text)))


BULK = BulkReader(NAME, "pcp2json (Performance Co-Pilot)", _claims, _read_bulk)
