"""Two captures of one host: the later one's snapshot is the latest; the growth in between is a note, under one boot."""

from __future__ import annotations

from pathlib import Path

from thpdiag.host.cases import host_cases
from thpdiag.host.options import Options
from thpdiag.host.reading import read_input
from thpdiag.model import Case, Sample

UNAME = "Linux web1 4.18.0-372.el8.x86_64 #1 SMP Tue Sep 15 15:05:51 UTC 2026 x86_64 x86_64 x86_64 GNU/Linux\n"
BOOT = 1795100000  # 2026-11-19 14:53:20 UTC


def capture(folder: Path, name: str, hour: int, counter: int, boot: int = BOOT) -> Path:
    root = folder / f"sosreport-web1-{name}-2026-11-20-abcdefg"
    files = {
        "proc/vmstat": f"nr_free_pages 1000\ncompact_stall {counter}\nthp_fault_alloc {2 * counter}\n",
        "proc/stat": f"cpu  10 0 10 1000 0 0 0 0 0 0\nbtime {boot}\nprocesses 100\n",
        "sos_commands/date/date": f"Fri Nov 20 {hour:02}:00:00 UTC 2026\n",
        "sos_commands/kernel/uname_-a": UNAME,
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def case(*captures: Path) -> Case:
    options = Options(strict=True)
    (found,) = host_cases(read_input(captures, options), options)
    return found


def stalls(found: Case) -> list[float]:
    rows = [s for state in found.states for s in state.samples if isinstance(s, Sample) and s.reader == "proc_vmstat"]
    return [row.values["node_vmstat_compact_stall"] for row in rows]


def notes(found: Case) -> list[str]:
    return [note.text for note in found.notes if "since the capture before" in note.text]


def test_the_snapshot_of_the_later_capture_is_the_latest(tmp_path: Path) -> None:
    """Whatever the names of the captures are."""
    assert stalls(case(capture(tmp_path, "a", 9, 100), capture(tmp_path, "b", 12, 700))) == [700.0, 100.0]
    other = tmp_path / "other"
    assert stalls(case(capture(other, "b", 9, 100), capture(other, "a", 12, 700))) == [700.0, 100.0]


def test_the_growth_in_between_is_told_and_has_no_time(tmp_path: Path) -> None:
    """It makes no series: an average over hours is no rate of the seconds that hurt."""
    found = case(capture(tmp_path, "a", 9, 100), capture(tmp_path, "b", 12, 700))
    (text,) = notes(found)
    assert text.startswith("in the 3.0 hours since the capture before, under the same boot: thp_fault_alloc +1200")
    assert "compact_stall +600" in text
    assert all(s.time is None for state in found.states for s in state.samples if s.reader == "proc_vmstat")


def test_nothing_is_subtracted_across_a_boot(tmp_path: Path) -> None:
    """Of another boot time, or of counters that fell; nor where a capture does not tell its boot."""
    first = capture(tmp_path, "a", 9, 100)
    assert notes(case(first, capture(tmp_path, "b", 12, 700, BOOT + 70_000))) == []
    assert notes(case(first, capture(tmp_path, "c", 12, 40))) == []
    unknown = capture(tmp_path, "d", 12, 700)
    (unknown / "proc" / "stat").unlink()
    assert notes(case(first, unknown)) == []
