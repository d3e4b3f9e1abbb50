"""`thpdiag series`: names, rows, formats, what is missing, exit codes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from thpdiag.knowledge.vocabulary import possible_names

Run = Callable[..., Any]
GROWTH = ROOT / "fixtures" / "captures" / "khugepaged-growth" / "bundle"
COUNTERS = GROWTH / "loops" / "counters.txt"
COLLAPSED = "node_vmstat_thp_collapse_alloc"
VMSTAT = """\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 2  0      0 241712 311900 907128    0    0    12   340 1021 2204 71 24  5  0  0
 2  0      0 241708 311900 907128    0    0    12   340 1021 2204 70 25  5  0  0
"""
BUSY = [
    *VMSTAT.splitlines()[:2],
    *(f" 2 0 0 {4 * n * n} 311900 907128 0 0 {n} 0 {n * 7 % 991} {n} 70 25 5 0 0" for n in range(900)),
]


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_rows_have_time_value_and_line(run: Run) -> None:
    """Every value as it stands in the file, with the time of its row."""
    found = [row for row in rows(run("series", GROWTH, COLLAPSED).out) if row["member"] == "loops/counters.txt"]
    written = [line.split()[1] for line in COUNTERS.read_text().splitlines() if line.startswith("thp_collapse_alloc ")]

    assert [row["value"] for row in found] == written
    assert (found[0]["time"], found[0]["clock"], found[0]["unit"]) == ("2026-11-20T06:27:55Z", "utc", "1")
    assert (found[0]["line"], found[0]["since_boot"], found[0]["reader"]) == ("2", "0", "proc_vmstat")


@pytest.mark.parametrize(
    ("word", "metric"),
    [
        (COLLAPSED, COLLAPSED),
        ("thp_collapse_alloc", COLLAPSED),
        ("mem.vmstat.thp_collapse_alloc", COLLAPSED),
        ("AnonHugePages", "node_memory_AnonHugePages_bytes"),
        ("mem.util.anonhugepages", "node_memory_AnonHugePages_bytes"),
        ("rss", "process_resident_memory_bytes"),
        ("cswch/s", "node_context_switches_total:rate"),
        ("*collapse_alloc", COLLAPSED),
    ],
)
def test_a_metric_has_the_names_that_people_know(run: Run, word: str, metric: str) -> None:
    """Those of the vocabulary, of the kernel's files, of sar, PCP and collectl, and patterns."""
    assert {row["metric"] for row in rows(run("series", GROWTH, word).out)} == {metric}


def test_a_process_has_its_labels(run: Run) -> None:
    """A column per label; --process keeps one."""
    found = rows(run("series", GROWTH, "rss", "--process", "pool").out)
    assert {row["comm"] for row in found} == {"pool"}
    assert {row["pid"].isdigit() for row in found} == {True}


def test_no_cell_is_a_formula_of_a_spreadsheet(run: Run, tmp_path: Path) -> None:
    """Programs name themselves: a cell that begins like a formula has an apostrophe; numbers stay numbers."""
    head = "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND"
    names = ("=cmd|calc!A1", "@SUM(1+1)", "+1", "java")
    ps = [f"root {n:11}  1.0  0.1 168000 12000 ?        Ss   Nov20   0:05 {name}" for n, name in enumerate(names, 1)]
    (tmp_path / "ps.txt").write_text("\n".join([head, *ps, ""]))
    found = rows(run("series", tmp_path / "ps.txt", "process_resident_memory_bytes").out)

    assert [row["comm"] for row in found] == ["'=cmd|calc!A1", "'@SUM(1+1)", "'+1", "java"]
    assert {row["value"] for row in found} == {"12288000"}


def test_json_has_each_series_once(run: Run) -> None:
    """With what it means, its unit, and rows of time, value and line."""
    document = run("series", GROWTH, COLLAPSED, "-o", "json").document
    (one,) = [series for series in document["series"] if series["member"] == "loops/counters.txt"]
    text = rows(run("series", GROWTH, COLLAPSED).out)

    assert document["schema"] == "thpdiag/series/1"
    assert (one["metric"], one["kind"], one["columns"]) == (COLLAPSED, "counter", ["time", "value", "line"])
    assert [str(int(value)) for _, value, _ in one["rows"]] == [
        row["value"] for row in text if row["member"] == one["member"]
    ]


def test_rows_without_a_date_have_seconds_and_averages_since_boot_are_marked(run: Run, tmp_path: Path) -> None:
    """vmstat tells no times; its first row is no present."""
    (tmp_path / "vmstat.txt").write_text(VMSTAT)
    found = rows(run("series", tmp_path / "vmstat.txt", "sy").out)

    assert [(row["time"], row["value"], row["line"], row["since_boot"]) for row in found] == [
        ("", "0.24", "3", "1"),
        ("", "0.25", "4", "0"),
    ]


def test_a_long_recording_has_all_its_rows(run: Run, tmp_path: Path) -> None:
    """What is read as columns is printed as what is read row by row."""
    head, body = VMSTAT.splitlines()[:2], VMSTAT.splitlines()[2:]
    (tmp_path / "vmstat.txt").write_text("\n".join([*head, *(body * 7000)]) + "\n")
    found = rows(run("series", tmp_path, "sy").out)

    assert len(found) == 14_000
    assert {row["value"] for row in found} == {"0.24", "0.25"}
    assert [found[0]["line"], found[-1]["line"]] == ["3", "14002"]
    assert [row["since_boot"] for row in found[:2]] == ["1", "0"]


def test_the_file_says_the_format(run: Run, tmp_path: Path) -> None:
    """`FORMAT`, `FORMAT=FILE`, or a file with its suffix."""
    assert run("series", GROWTH, COLLAPSED, "-o", tmp_path / "a.json").out == ""
    assert run("series", GROWTH, COLLAPSED, "-o", f"json={tmp_path / 'b'}").out == ""
    printed = run("series", GROWTH, COLLAPSED, "-o", "json").out

    assert (tmp_path / "a.json").read_text() == (tmp_path / "b").read_text() == printed
    assert run("series", GROWTH, COLLAPSED, "-o", "xlsx").code == 2


def test_parquet_holds_the_rows_of_the_csv(run: Run, tmp_path: Path) -> None:
    """Times in UTC as timestamps, values as numbers."""
    pq = pytest.importorskip("pyarrow.parquet")
    run("series", GROWTH, COLLAPSED, "-o", tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet").to_pydict()
    text = rows(run("series", GROWTH, COLLAPSED).out)

    assert list(table) == list(text[0])
    assert [str(int(value)) for value in table["value"]] == [row["value"] for row in text]
    assert [f"{time:%Y-%m-%dT%H:%M:%SZ}" if time else "" for time in table["time"]] == [row["time"] for row in text]
    assert [str(line) for line in table["line"]] == [row["line"] for row in text]


def test_parquet_without_pyarrow_is_one_sentence(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = run("series", GROWTH, COLLAPSED, "-o", tmp_path / "a.parquet")

    assert done.code == 2
    assert "pip install 'thpdiag[parquet]'" in done.err
    assert not (tmp_path / "a.parquet").exists()


def test_the_list_names_metrics_with_rows_and_meaning(run: Run) -> None:
    """In 80 columns."""
    text = run("series", GROWTH, "--list").out

    assert f"\n{COLLAPSED}\n    " in text
    assert "the host and 2 CPUs" in text
    assert max(map(len, text.splitlines())) <= 80


def test_what_is_not_there_is_said(run: Run, tmp_path: Path) -> None:
    """A typing mistake, a metric that the input lacks, an input without values, a missing file, no metric."""
    mistyped, lacking = run("series", GROWTH, "cpu_ratio.idel"), run("series", GROWTH, "kernel.all.sysfork")
    (tmp_path / "uname.txt").write_text("Linux db1 3.10.0-957.el7.x86_64 #1 SMP x86_64 GNU/Linux\n")

    assert (mistyped.code, mistyped.out) == (3, "")
    assert "did you mean 'cpu_ratio.idle'?" in mistyped.err
    assert lacking.code in (0, 3)
    assert run("series", tmp_path, "rss").code == 3
    assert "no such file" in run("series", tmp_path / "absent", "rss").err
    assert run("series", GROWTH).code == 2


def test_some_of_several_metrics_are_enough(run: Run) -> None:
    """The others are named on stderr."""
    done = run("series", GROWTH, "nonsense_metric", "rss")
    assert done.code == 0
    assert "nonsense_metric" in done.err
    assert {row["metric"] for row in rows(done.out)} == {"process_resident_memory_bytes"}


def test_a_damaged_file_is_said_if_it_was_used(run: Run, tmp_path: Path) -> None:
    """Rows may be missing: exit 5; damage elsewhere does not matter."""
    whole = gzip.compress("".join(f"{line}\n" for line in BUSY).encode())
    (tmp_path / "vmstat.txt.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "meminfo.txt").write_text("MemTotal:       24684092 kB\nMemFree:        1468409 kB\nBuffers: 0 kB\n")
    cut, other = run("series", tmp_path, "sy"), run("series", tmp_path, "node_memory_MemTotal_bytes")

    assert cut.code == 5
    assert len(rows(cut.out)) > 10
    assert "vmstat.txt.gz" in cut.err
    assert (other.code, [row["value"] for row in rows(other.out)]) == (0, ["25276510208"])


def test_json_of_a_recording_since_boot_marks_rows(run: Run, tmp_path: Path) -> None:
    """By number."""
    (tmp_path / "vmstat.txt").write_text(VMSTAT)
    (one,) = json.loads(run("series", tmp_path, "sy", "-o", "json").out)["series"]
    assert one["since_boot"] == [0]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("thp_fault_aloc", "did you mean 'node_vmstat_thp_fault_alloc'?"),
        ("stall", "; names with it are "),
        ("node_vmstat_xyz*", "--list shows all"),
        ("", "a metric without a name is not in the input"),
    ],
)
def test_a_word_that_is_no_name_gets_the_names_that_are_near(run: Run, word: str, said: str) -> None:
    """A typing mistake in the kernel's word, a part of a name, a pattern that nothing fits, nothing at all."""
    done = run("series", COUNTERS, word)
    assert done.code == 3
    assert said in done.err


def test_a_folder_is_no_output(run: Run, tmp_path: Path) -> None:
    """One sentence that says what to write instead."""
    done = run("series", COUNTERS, COLLAPSED, "-o", tmp_path)
    assert done.code == 2
    assert "that is a folder; name a file in it" in done.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("command", [["inputs"], ["series", "--list"]])
def test_a_full_disk_is_no_mistake_of_ours(command: list[str]) -> None:
    """The output goes to a disk without room: one sentence, and no traceback."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run([sys.executable, "-m", "thpdiag", *command, str(COUNTERS)], cwd=ROOT, stdout=full,
                              stderr=subprocess.PIPE, text=True, check=False)  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "thpdiag: cannot write the output: No space left on device\n"


def test_names_of_meminfo_are_those_with_capitals() -> None:
    """MemFree is a figure of /proc/meminfo, nr_free_pages one of /proc/vmstat."""
    assert possible_names("MemFree")[1] == "node_memory_MemFree_bytes"
    assert possible_names("nr_free_pages")[1] == "node_vmstat_nr_free_pages"
