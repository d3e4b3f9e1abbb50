"""Snapshots of one host in files that are named after their dates: what counters did from one to the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import STRICT, found, rules
from thpdiag.pipeline import analyze

SETTING = "always defer defer+madvise madvise never".replace("always", "[always]")


def counters(minutes: float) -> str:
    """/proc/vmstat so many minutes later: five stalls a second, for huge pages."""
    rose = int(300 * minutes)
    return (
        f"nr_free_pages 812331\nnr_anon_pages 9112331\npgfault {4_000_000 + 500 * rose}\n"
        f"compact_stall {70_000 + rose}\ncompact_fail {60_000 + rose}\ncompact_success 10000\n"
        f"thp_fault_alloc 50000\nthp_fault_fallback {90_000 + rose}\n"
    )


def analyzed(folder: Path, *snapshots: tuple[str, float]) -> dict[str, Any]:
    for name, minutes in snapshots:
        (folder / name).write_text(counters(minutes))
    (folder / "defrag.txt").write_text(f"# cat /sys/kernel/mm/transparent_hugepage/defrag\n{SETTING}\n")
    return analyze([folder], rules(), STRICT)


@pytest.mark.parametrize(
    "names",
    [
        ("vmstat.20190815-101500", "vmstat.20190815-101600"),
        ("vmstat_2019-08-15T10:15:00.txt", "vmstat_2019-08-15T10:16:00.txt"),
        ("2019-08-15_10-15-proc-vmstat.txt", "2019-08-15_10-16-proc-vmstat.txt"),
        ("20190815101500.vmstat", "20190815101600.vmstat"),
    ],
)
def test_the_growth_from_one_file_to_the_next_is_a_rate(names: tuple[str, str], tmp_path: Path) -> None:
    """The times are those of the names."""
    result = analyzed(tmp_path, (names[0], 0), (names[1], 1))
    assert found(result)["THP-012"] == "likely"
    assert "5/s" in next(f for f in result["findings"] if f["rule"] == "THP-012")["evidence"][0]["text"]


@pytest.mark.parametrize(
    "names",
    [
        ("vmstat.20190815-101500", "vmstat.20190815-121600"),  # an average over hours
        ("vmstat.20190815", "vmstat.20190816"),
        ("vmstat.first", "vmstat.second"),
        ("db-20190815-101500", "web-20190815-101600"),
    ],
)
def test_other_files_give_none(names: tuple[str, str], tmp_path: Path) -> None:
    """Totals since boot alone."""
    assert "THP-012" not in found(analyzed(tmp_path, (names[0], 0), (names[1], 1)))


def test_a_boot_in_between_is_no_growth(tmp_path: Path) -> None:
    """The counters are lower in the later file."""
    assert "THP-012" not in found(analyzed(tmp_path, ("v.20190815-101500", 9), ("v.20190815-101600", 0)))
