"""Two looks at control groups, as the capture script takes them: each has its own time."""

from __future__ import annotations

from pathlib import Path

from thpdiag.host.options import Options
from thpdiag.host.reading import read_input
from thpdiag.model import Sample

FAILCNT = "/sys/fs/cgroup/memory/shop/memory.failcnt"


def looks(text: str, folder: Path) -> list[tuple[float | None, float, float]]:
    """Time, count and limit of every row; 0 for what it does not tell."""
    (folder / "groups.txt").write_text(text)
    given = read_input([folder], Options(strict=True))
    records = [one.record for reading in given.readings.values() for one in reading]
    samples = [record for record in records if isinstance(record, Sample)]
    told = ("cgroup_memory_max_events_total", "cgroup_memory_limit_bytes")
    return [(s.time.seconds if s.time else None, *(s.values.get(name, 0.0) for name in told)) for s in samples]  # type: ignore[misc]


def test_a_number_between_two_looks_is_when_the_second_was_taken(tmp_path: Path) -> None:
    """So a rate can be made of them."""
    text = f"1795183685\n{FAILCNT}:3346\n1795183710\n{FAILCNT}:27495\n"
    assert looks(text, tmp_path) == [(1795183685.0, 3346.0, 0.0), (1795183710.0, 27495.0, 0.0)]


def test_a_size_below_its_head_is_no_time(tmp_path: Path) -> None:
    """1.5 GiB in bytes has ten digits, as the seconds of 2021 have; it is whole pages."""
    text = f"==> /sys/fs/cgroup/memory/shop/memory.limit_in_bytes <==\n1610612736\n\n==> {FAILCNT} <==\n12\n"
    assert looks(text, tmp_path) == [(None, 0.0, 1610612736.0), (None, 12.0, 0.0)]
