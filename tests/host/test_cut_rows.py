"""Members that end in the middle of a row: the number that stands there is not the one that was recorded."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from thpdiag.bundle import Limits
from thpdiag.host.options import Options
from thpdiag.host.reading import read_input
from thpdiag.model import Sample, Series

FAULTS = "node_vmstat_thp_fault_alloc"


def loop(rounds: int) -> str:
    """A loop over /proc/vmstat, cut in its last number."""
    each = (f"{1795174000 + 10 * at}\nnr_free_pages 4280601\nthp_fault_alloc 953586\n" for at in range(rounds))
    return "".join(each).removesuffix("3586\n")


def vmstat(rows: int) -> str:
    """vmstat 1, cut in its last row behind the digits of a number; many rows are read in bulk."""
    head = (
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n"
        " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
    )
    row = " 1  0      0 17009  22316  40056    0    0     0     0  602  909 56 10 33  1  0\n"
    return (head + row * rows).removesuffix(
        "  0      0 17009  22316  40056    0    0     0     0  602  909 56 10 33  1  0\n"
    )


def values(path: Path, limits: Limits | None = None) -> Iterator[tuple[str, float]]:
    """Everything that was read of a member."""
    options = Options(strict=True, limits=limits or Limits())
    for readings in read_input([path], options).readings.values():
        for reading in readings:
            record = reading.record
            for row in record if isinstance(record, Series) else (record,) if isinstance(record, Sample) else ():
                yield from row.values.items()


def broken(path: Path, text: str) -> Path:
    """A gzip file whose end was lost; all of the text can be read."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    path.write_bytes(packer.compress(text.encode()) + packer.flush(zlib.Z_SYNC_FLUSH))
    return path


def test_the_last_row_of_a_broken_archive_is_not_read(tmp_path: Path) -> None:
    """953586 is never read as 95."""
    found = list(values(broken(tmp_path / "loop.txt.gz", loop(5))))
    assert {value for name, value in found if name == FAULTS} == {953586.0}
    assert sum(name == "node_vmstat_nr_free_pages" for name, _ in found) == 5


def test_nor_is_that_behind_a_limit(tmp_path: Path) -> None:
    """What thpdiag itself cut is no other."""
    whole = tmp_path / "loop.txt"
    whole.write_text(loop(5).removesuffix("95") + "953586\n", encoding="utf-8")
    found = values(whole, Limits(member_bytes=len(loop(5))))
    assert {value for name, value in found if name == FAULTS} == {953586.0}


@pytest.mark.parametrize("rows", [5, 5000])
def test_rows_in_bulk(rows: int, tmp_path: Path) -> None:
    """A cut row of a long recording is neither read nor called odd."""
    path = broken(tmp_path / "vmstat.txt.gz", vmstat(rows))
    found = read_input([path], Options(strict=True))
    assert sum(name == "cpu_ratio.idle" for name, _ in values(path)) == rows - 1
    assert not [problem.text for problem in found.problems if "row" in problem.text]


def test_a_last_line_without_its_end_is_read_where_nothing_is_missing(tmp_path: Path) -> None:
    """What people paste has no line end behind the last line."""
    path = tmp_path / "pasted.txt"
    path.write_text(loop(3).removesuffix("95") + "953587", encoding="utf-8")
    assert (FAULTS, 953587.0) in set(values(path))
