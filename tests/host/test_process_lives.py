"""A pid that was used again is another process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from thpdiag.host.catalogue import Catalogue, make_tables
from thpdiag.host.rates import growth
from thpdiag.host.series import entity_key, format_entity
from thpdiag.model import Citation, Clock, Moment, Sample, Series

RSS, FAULTS = "process_resident_memory_bytes", "process_minor_faults_total"
TICKS, SECONDS = "process_start_time_ticks", "process_start_time_seconds"
JAVA = (("pid", "4711"), ("comm", "java"))


def rows(
    columns: dict[str, Sequence[float]], member: str = "stat.txt", *, series: bool, comm: str = "java"
) -> list[Sample | Series]:
    """Rows ten seconds apart."""
    count, entity = len(next(iter(columns.values()))), (("pid", "4711"), ("comm", comm))
    seconds = [1000.0 + 10 * at for at in range(count)]
    if series:
        values = {name: np.array(column, np.float64) for name, column in columns.items()}
        lines = np.arange(1, count + 1)
        return [Series("process", values, member, lines, "x", entity, np.array(seconds), Clock.UTC)]
    return [
        Sample(
            "process", {name: column[at] for name, column in columns.items() if column[at] == column[at]},
            Citation(member, at + 1), "x", entity, Moment(seconds[at], Clock.UTC),
        )
        for at in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("series", [False, True])
def test_a_process_that_was_started_again_is_another_one(series: bool) -> None:
    """Memory of the second does not grow from that of the first."""
    given = rows({RSS: [10, 20, 30, 900, 910], TICKS: [50, 50, 50, 7000, 7000]}, series=series)
    catalogue = Catalogue(given)
    names = [format_entity(entity) for entity in catalogue.entities("process")]
    assert names == ["java (4711, started 0.50 s after boot)", "java (4711, started 70.00 s after boot)"]
    tracks = [catalogue.tracks(RSS, entity) for entity in catalogue.entities("process")]
    assert [[t.column.tolist() for t in found] for found in tracks] == [[[10, 20, 30]], [[900, 910]]]


@pytest.mark.parametrize("series", [False, True])
def test_without_a_start_a_counter_that_fell_tells(series: bool) -> None:
    """Faults and CPU time of a process never fall; a name may change."""
    reused = rows({RSS: [10, 20, 900], FAULTS: [100, 200, 5]}, series=series)
    renamed = [*rows({FAULTS: [1, 2]}, series=False), *rows({FAULTS: [3, 4]}, series=False, comm="sh")]
    assert [len(table.samples) for table in make_tables(reused)] == [2, 1]
    assert [len(table.samples) for table in make_tables(renamed)] == [4]


@pytest.mark.parametrize("series", [False, True])
def test_rows_between_without_a_start_belong_to_the_process_above(series: bool) -> None:
    """Not every row of a source has the start."""
    nan = float("nan")
    given = rows({RSS: [10, 20, 30, 900, 910], TICKS: [nan, 50, nan, 7000, nan]}, series=series)
    assert [len(table.samples) for table in make_tables(given)] == [3, 2]


def test_sources_meet_by_the_start() -> None:
    """Two that know the start speak of the same processes; one that does not speaks of one of them."""
    loop = rows({RSS: [10, 20, 900, 910], TICKS: [50, 50, 7000, 7000]}, "loop.txt", series=False)
    raw = rows({FAULTS: [1, 2], TICKS: [7000, 7000]}, "raw", series=True)
    top = rows({RSS: [11, 12]}, "top.txt", series=False)
    catalogue = Catalogue([*loop, *raw, *top])
    first, second, third = catalogue.entities("process")
    assert [t.table.member for t in catalogue.tracks(RSS, first)] == ["loop.txt"]
    assert [t.table.member for t in catalogue.tracks(FAULTS, second)] == ["raw"]
    assert [growth(t) for t in catalogue.tracks(FAULTS, first)] == []
    assert [t.table.member for t in catalogue.tracks(RSS, third)] == ["top.txt"]


def test_one_process_is_one_whatever_the_sources_know_of_its_start() -> None:
    """Ticks here, a date there (right to a second or two), nothing elsewhere."""
    given = [
        *rows({RSS: [1, 2], TICKS: [50, 50]}, "loop.txt", series=False),
        *rows({RSS: [1, 2], SECONDS: [1_795_000_000, 1_795_000_001]}, "ps.txt", series=False),
        *rows({RSS: [1, 2]}, "top.txt", series=True),
    ]
    catalogue = Catalogue(given)
    assert [entity_key(entity) for entity in catalogue.entities("process")] == [("pid", "4711", "")]
    assert len(catalogue.tracks(RSS, JAVA)) == 3
