"""Traps of formats that no recording of the fixtures has: other builds, other versions, lines between."""

from __future__ import annotations

from parse_bytes import readings
from thpdiag.model import Clock, Moment, Problem, Sample

BANNER = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n"
HEADER = " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"


def rows(text: str) -> list[Sample]:
    return [r.record for r in readings(text.encode()) if isinstance(r.record, Sample)]


def test_time_lines_of_oswatcher_on_exadata() -> None:
    """A blank behind the stars, and the interval, wrongly spelled, behind the date."""
    text = (
        "zzz *** Fri Nov 20 03:35:43 UTC 2026 Sample interval: 5 secconds\nMemTotal: 16000000 kB\nMemFree: 1000 kB\n"
        "zzz ***Fri Nov 20 03:35:48 UTC 2026\nMemTotal: 16000000 kB\nMemFree: 900 kB\n"
    )
    assert [row.time for row in rows(text)] == [Moment(1795145743.0, Clock.UTC), Moment(1795145748.0, Clock.UTC)]


def test_swap_of_vmstat_follows_the_unit_and_blocks_do_not() -> None:
    """`-S M` is of memory, si and so; bi and bo stay KiB."""
    row = " 3  0      0  19597     12    856    2    3     8     9  554  207  4 96  0  0  0\n"
    last = rows(f"$ vmstat -S M 1 2\n{BANNER}{HEADER}{row}{row}")[-1].values
    assert (last["swap_in_bytes:rate"], last["swap_out_bytes:rate"]) == (2 << 20, 3 << 20)
    assert (last["block_in_bytes:rate"], last["block_out_bytes:rate"]) == (8 << 10, 9 << 10)


def test_vmstat_of_toybox() -> None:
    """Another banner, wider columns, no steal; the unit is not known, so memory is not used."""
    text = (
        "procs ------------memory------------ ----swap--- -----io---- --system-- ----cpu----\n"
        " r  b     swpd     free     buff    cache    si   so    bi    bo   in    cs us sy id wa\n"
        " 1  0        0  1234567    12345   456789     0    0     1     2   10    20  1  2 97  0\n"
        " 2  0        0  1234560    12345   456789     0    0     1     2   10    20  5 15 80  0\n"
    )
    first, second = rows(text)
    assert (first.since_boot, second.since_boot) == (True, False)
    assert (second.values["cpu_ratio.sys_total"], second.values["cpu_ratio.idle"]) == (0.15, 0.8)
    assert "cpu_ratio.steal" not in second.values


def test_paging_of_sar_with_promotions() -> None:
    """From 12.7.5 on %vmeff is gone and two columns stand in its place."""
    names = "pgpgin/s pgpgout/s fault/s majflt/s pgfree/s pgscank/s pgscand/s pgsteal/s pgprom/s pgdem/s"
    text = (
        "Linux 6.18.0 (demo) \t2026-11-20 \t_x86_64_\t(2 CPU)\n\n"
        f"03:35:43 {names}\n03:35:44 {' '.join(f'{n}.00' for n in range(1, 11))}\n"
    )
    (row,) = rows(text)
    found = [row.values[f"node_vmstat_{name}:rate"] for name in ("pgfault", "pgsteal", "pgpromote_success", "pgdemote")]
    assert found == [3, 8, 9, 10]


def test_totals_of_collectl_are_no_rows() -> None:
    """A key pressed prints totals and averages between the rows."""
    text = (
        "#<--------CPU-------->\n#cpu sys inter  ctxsw \n  10   5   100    200 \n  11   5   100    200 \n"
        "T 21  10   200    400 \nA 10   5   100    200 \n"
    )
    assert [row.values["cpu_ratio.busy"] for row in rows(text)] == [0.10, 0.11]
    assert not any(isinstance(r.record, Problem) and r.record.kind.value == "damaged" for r in readings(text.encode()))
