"""Several snapshots in one block: a loop that prints a file again and again without the date between.

    for i in 1 2 3; do grep thp /proc/vmstat; sleep 10; done

Only the first key that repeats tells where one snapshot ends and the next begins. Not a format of its own: the readers
of /proc files use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from thpdiag.model import Sample
from thpdiag.reader import Source

Row = tuple[int, str, str, float]  # line number, line, metric name, value


def system_samples(source: Source, reader: str, rows: Iterable[Row], head: str) -> Iterator[Sample]:
    """Samples of the whole system from `name value` rows; `head` is the metric that every whole file begins with."""
    values: dict[str, float] = {}
    cite = None
    for number, line, name, value in rows:
        if cite is not None and (name in values or name == head):
            yield Sample("system", values, cite, reader)
            values, cite = {}, None
        if cite is None:
            cite = source.cite(number, line)
        values[name] = value
    if cite is not None:
        yield Sample("system", values, cite, reader)
