"""The recordings of the fixtures with another number in every cell: a column that is taken for another is seen also
where a quiet host has zeros in both. Against the tables that were made by hand for what recorders print now.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count

import pytest

from collectl_files import plot
from conftest import ROOT
from live_recorders import Cells, atop_cells, collectl_cells, read_cells, sadf_cells
from sysstat_rows import by_lines
from thpdiag.parsers.atop import logs as atop_logs
from thpdiag.parsers.sysstat import sadf

READERS = ROOT / "fixtures" / "readers"
SUMS = {f"cpu_ratio.{name}" for name in ("user_total", "sys_total", "busy", "sys_share")}
SWAPPED = {"swap_in_bytes:rate", "swap_out_bytes:rate"}


def renumbered(line: str, first: int, separator: str, numbers: Callable[[], int]) -> str:
    """Every plain number from the word `first` on becomes one that no other cell has."""
    words = line.split(separator)
    for place in range(first, len(words)):
        if re.fullmatch(r"\d+(\.\d+)?", words[place]):
            words[place] = f"{numbers()}{'.50' if '.' in words[place] else ''}"
    return separator.join(words)


def shares(words: list[str]) -> list[str]:
    """CPU time in parts of one whole, all of them different: 1, 2, 3 ... and what is left."""
    parts = [1.0 + place for place in range(len(words) - 1)]
    return [f"{part:.2f}" for part in (*parts, 100 - sum(parts))]


def test_rows_of_sadf() -> None:
    """Each activity of a whole recording."""
    numbers, columns, lines = count(1), "", []
    for line in (READERS / "sadf" / "rows" / "sadf-d.csv").read_text().splitlines():
        words = line.split(";")
        if line.startswith("#"):
            columns = words[3]
        elif columns == "CPU" and len(words) == 14:
            line = ";".join([*words[:4], *shares(words[4:])])
        elif columns != "CPU":
            line = renumbered(line, 3, ";", lambda: next(numbers))
        lines.append(line)
    text = "\n".join(lines) + "\n"
    check(read_cells(by_lines(sadf.PARSER, text.encode())), sadf_cells(text), SUMS | SWAPPED, 100)


def test_lines_of_atop() -> None:
    """Each label; what says whether something is there, whether it is a process and of which size a page is stays."""
    numbers, lines = count(1), []
    for line in (READERS / "atop_parseable" / "recording" / "atop.txt").read_text().splitlines():
        words = line.split(" ")
        if words[0] in ("CPU", "cpu", "MEM", "SWP", "PAG", "PSI"):
            line = renumbered(line, 8, " ", lambda: next(numbers))
        elif words[0] == "CPL":
            line = renumbered(line, 7, " ", lambda: next(numbers))
        elif words[0] in ("PRM", "PRC"):
            start = next(at for at, word in enumerate(words) if word.endswith(")")) + 3
            line = renumbered(line, start, " ", lambda: next(numbers))
        lines.append(line)
    text = "\n".join(lines) + "\n"
    more = {"process_cpu_ratio", "process_threads", "process_start_time_seconds"}
    huge = {"node_memory_HugePages_Total", "node_memory_HugePages_Free"}
    ours = read_cells(by_lines(atop_logs.PARSEABLE_PARSER, text.encode()))
    check(ours, atop_cells(text), SUMS | SWAPPED | more | huge, 200)


@pytest.mark.parametrize("file", ["tab", "cpu", "numa", "bud", "prc"])
def test_plot_files_of_collectl(file: str) -> None:
    """Each file but the times, the pid and the shares of CPUs."""
    numbers, columns, lines = count(1), list[str](), []
    for line in (READERS / "collectl_plot" / "files" / f"db1-20261120.{file}").read_text().splitlines():
        words = line.split(" ")
        if line.startswith("#Date"):
            columns = words
        elif not line.startswith("#"):
            if "PID" in columns:
                words = renumbered(line, columns.index("VmSize"), " ", lambda: next(numbers)).split(" ")
                words[columns.index("THRD")] = str(next(numbers))
            else:
                for place, column in enumerate(columns[2:], 2):
                    if not column.endswith(("%", "]Node", "]Zone")):
                        words[place] = str(next(numbers))
        lines.append(" ".join(words))
    text = re.sub(r"(?m)^(\d{8} \d\d:\d\d:\d\d)(?=\s)", r"\1.000", "\n".join(lines) + "\n")
    swap = {"swap_in_bytes:rate", "swap_out_bytes:rate", "node_memory_Inactive_file_bytes"}
    pages = {f"node_memory_HugePages_{name}" for name in ("Total", "Free", "Rsvd")}
    tasks = {"process_cpu_seconds_total", "process_start_time_seconds"}
    check(read_cells(plot(text.encode())), collectl_cells(text), SUMS | swap | pages | tasks, 20)


def check(ours: Cells, theirs: Cells, more: set[str], least: int) -> None:
    """The same cells, those of sums and of what the tables by hand leave out besides."""
    assert len(theirs) >= least
    wrong = [
        f"{key}: printed {value!r}, read {ours.get(key)!r}"
        for key, value in theirs.items()
        if key not in ours or abs(ours[key] - value) > 1e-9 * max(1, abs(value))
    ]
    assert wrong == []
    assert {key[3] for key in ours} - {key[3] for key in theirs} <= more
