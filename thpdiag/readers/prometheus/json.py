"""Answers of Prometheus' HTTP API, and of what speaks it (Thanos, VictoriaMetrics, Mimir), as `curl` keeps them.

    {"status":"success","data":{"resultType":"matrix","result":[
      {"metric":{"__name__":"node_load1","instance":"web1:9100"},"values":[[1795170792,"8.69"],[1795170852,"8.48"]]}]}}

Units: those of the names; times are seconds since 1970 UTC, with fraction. `query_range` gives a matrix, `query` a
vector (one `value` each). What a function made (rate(), sum()) has no name and is not used, as its meaning is not told.
Any layout will do. The answer is read one series at a time, so that its size does not matter.
Source: Prometheus HTTP API v1.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping

from thpdiag.bundle.stamps import FIRST_EPOCH, LAST_EPOCH
from thpdiag.model import Problem, ProblemKind, Record
from thpdiag.reader import BulkReader, Content, Foreign, Lines, Reader, Source
from thpdiag.readers.elements.json_array import BrokenError, Elements
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.prometheus.names import host_of, place, sample_value
from thpdiag.readers.prometheus.points import Gathered

NAME = "prometheus_json"
TITLE = "Prometheus query answers, JSON"
_HEAD = 4096
_KIND = re.compile(r'"resultType"\s{0,20}:\s{0,20}"(matrix|vector)"')
_RESULT = re.compile(r'"result"\s{0,20}:\s{0,20}\[')
_FRONT = re.compile(r"\s{0,20}\{")
_LINE = re.compile(r'\s*\{\s*"status"\s*:\s*"success"\s*,.{0,4000}"resultType"\s*:\s*"(?:matrix|vector)"')
_NO_NAME = "a series without a name, which a function of the query made: not used"
_ODD = "a series that is not of the form of an answer: not used"


def _take(gathered: Gathered, odd: Oddities, line: int, found: object) -> None:
    """The points of one series."""
    labels, points = _parts(found)
    if labels is None or points is None:
        odd.note(line, "", _ODD)
        return
    name = labels.pop("__name__", "")
    if not name:
        odd.note(line, "", _NO_NAME)
        return
    where = place(name, labels)
    if where is None:
        return
    into = gathered.points(host_of(labels), where, repr(sorted(labels.items())))
    if into is None:
        odd.note(line, "", "the same metric of one host from two jobs or servers: the first is used")
        return
    for point in points:
        seconds, text = point if isinstance(point, list) and len(point) == 2 else (None, None)
        timed = isinstance(seconds, int | float) and FIRST_EPOCH <= seconds < LAST_EPOCH
        value = sample_value(text) if isinstance(text, str) else None
        if timed and value is not None:
            into.add(float(seconds), value, line)  # type: ignore[arg-type]
        elif text != "NaN":
            odd.note(line, "", "a point that is no time and number: not used")


def _parts(found: object) -> tuple[dict[str, str] | None, list[object] | None]:
    if not isinstance(found, Mapping) or not isinstance(given := found.get("metric"), Mapping):
        return None, None
    labels = {name: value for name, value in given.items() if isinstance(value, str)}
    points = found.get("values", [found["value"]] if "value" in found else None)
    return labels, points if isinstance(points, list) else None


def _read(source: Source, pieces: Iterator[str], first_line: int) -> Iterator[Record]:
    odd, gathered = Oddities(source, NAME), Gathered(source.member, NAME)
    line, broken = first_line, ""
    try:
        for line, found in Elements(pieces, first_line).members(_RESULT):
            _take(gathered, odd, line, found)
    except BrokenError as error:
        broken = str(error)
    yield from gathered.records()
    if broken:
        text = f"an answer of Prometheus: {broken}; what stands before was read"
        yield Problem(source.cite(line), text, ProblemKind.DAMAGED, NAME)
    yield from odd.problems()


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """Rows of all series that have the same times; the host of each `instance`."""
    for number, text in lines:
        yield from _read(source, iter((text,)), number)


def _claims(path: str, head: bytes, size: int | None) -> bool:
    text = head[:_HEAD].decode("utf-8", "replace").removeprefix("\ufeff")
    return bool(_FRONT.match(text) and _KIND.search(text))


def _read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    pieces = (decoder.decode(chunk) for chunk in content.chunks)
    return _read(source, (text for text in pieces if text), 1)


READER = Reader(NAME, TITLE, read, opens=_LINE, continues=lambda text: False)
BULK = BulkReader(NAME, TITLE, _claims, _read_bulk)
