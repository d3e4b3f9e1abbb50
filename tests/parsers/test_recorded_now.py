"""Recordings made in the test, cell for cell as the recorder itself prints them: `sadf -d`, `collectl -p FILE -P`,
`atop -P`. They run where these are installed; an empty comparison fails.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from collectl_files import plot, read
from live_recorders import (
    RATES,
    SHARES,
    Cells,
    Key,
    atop_cells,
    collectl_cells,
    of_atop,
    of_collectl,
    of_sysstat,
    printed,
    read_cells,
    sadf_cells,
)
from sysstat_rows import by_lines, in_bulk
from thpdiag.model import Record
from thpdiag.model.parser import Foreign
from thpdiag.parsers.atop import logs as atop_logs
from thpdiag.parsers.atop import raw as atop_raw
from thpdiag.parsers.collectl import raw as collectl_raw
from thpdiag.parsers.sysstat import sadc, sadf, sar

SUMS = {f"cpu_ratio.{name}" for name in ("user_total", "sys_total", "busy", "sys_share")}
USED = ("user", "system")
HALF = 0.5  # second, as recorded: of processes collectl takes the interval that was asked for, not the one that was
MORE_OF_SYSSTAT = SUMS | {"swap_in_bytes:rate", "swap_out_bytes:rate", "node_intr_total:rate"}


def unlike(ours: Cells, theirs: Cells, near: Callable[[Key, float], float]) -> list[str]:
    """Cells that are missing, and those that are further off than their print allows."""
    return [
        f"{key}: printed {value!r}, read {ours.get(key)!r}"
        for key, value in theirs.items()
        if key not in ours or abs(ours[key] - value) > near(key, value) + 1e-9 * abs(value)
    ]


def names(cells: Cells) -> set[str]:
    return {key[3] for key in cells}


def exact(_key: Key, _value: float) -> float:
    return 1e-9


# sysstat


@pytest.fixture(scope="module")
def sa(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_sysstat(tmp_path_factory.mktemp("sysstat"))


@pytest.mark.parametrize("form", ["sar -A", "-d", "-p", "-j", "-x", "the file itself"])
def test_every_cell_of_sysstat(sa: Path, form: str) -> None:
    """Every form that we read holds the cells of `sadf -d`, and nothing that these do not tell."""
    theirs = sadf_cells(printed("sadf", "-d", sa, "--", "-A"))
    ours = read_cells(_sysstat(sa, form))
    assert len(theirs) >= 90
    assert len(set(theirs.values())) >= 40, "numbers of a busy host differ; equal ones could be exchanged unseen"
    assert unlike(ours, theirs, exact) == []
    assert names(ours) - names(theirs) <= MORE_OF_SYSSTAT


def _sysstat(sa: Path, form: str) -> list[Record | Foreign] | list[Record]:
    if form == "sar -A":
        return by_lines(sar.PARSER, printed("sar", "-A", "-f", sa).encode())
    if form == "the file itself":
        return in_bulk(sadc.BULK_PARSER, sa.read_bytes())
    data = printed("sadf", form, sa, "--", "-A").encode()
    return in_bulk(sadf.BULK_PARSER, data) if form in ("-j", "-x") else by_lines(sadf.PARSER, data)


# collectl


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_collectl(tmp_path_factory.mktemp("collectl"))


@pytest.fixture(scope="module")
def plots(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The plot files that collectl makes of it, with milliseconds."""
    folder = tmp_path_factory.mktemp("plot")
    for number, subsystems in enumerate(("-scm", "-sBMC", "-sZ")):
        printed("collectl", "-p", recording, subsystems, "-P", "-ozm", "-f", folder / str(number))
    return {file.suffix: file.read_text() for file in folder.rglob("*") if file.is_file()}


def test_every_cell_of_a_recording_of_collectl(recording: Path, plots: dict[str, str]) -> None:
    """The raw file: sizes to the KiB, counts as they are, rates and shares within what is cut."""
    data = recording.read_bytes()
    ours = read_cells(read(collectl_raw.BULK_PARSER, gzip.decompress(data) if recording.suffix == ".gz" else data))
    theirs = {key: value for text in plots.values() for key, value in collectl_cells(text).items()}
    ours = _at_the_times(_with_rates(ours), theirs)
    assert len(theirs) >= 150
    assert len(set(theirs.values())) >= 60
    assert max(value for key, value in theirs.items() if key[3] == "process_minor_faults_total:rate") > 10
    assert unlike(ours, theirs, _cut) == []


def _with_rates(cells: Cells) -> Cells:
    """What collectl prints of counters: per second, as shares of all modes, less its own task."""
    found = dict(cells)
    rows: dict[tuple[str, str], list[float]] = {}
    for kind, who, second, _ in cells:
        seconds = rows.setdefault((kind, who), [])
        if second not in seconds:
            seconds.append(second)
    for (kind, who), seconds in rows.items():
        for before, at in zip(sorted(seconds), sorted(seconds)[1:], strict=False):
            length = HALF if kind == "process" else at - before
            for name in {*RATES.values(), "process_minor_faults_total", "process_major_faults_total"}:
                if (kind, who, at, name) in cells:
                    rise = cells[kind, who, at, name] - cells[kind, who, before, name]
                    found[kind, who, at, f"{name}:rate"] = rise / length
            modes = {m: (kind, who, at, f"node_cpu_seconds_total.{m}") for m in SHARES.values()}
            if modes["user"] in cells:
                rises = {m: cells[key] - cells[kind, who, before, key[3]] for m, key in modes.items()}
                for mode, rise in rises.items():
                    found[kind, who, at, f"cpu_ratio.{mode}"] = rise / sum(rises.values())
            if kind == "process":
                used = [sum(cells[kind, who, t, f"process_cpu_seconds_total.{m}"] for m in USED) for t in (before, at)]
                found[kind, who, at, "process_cpu_ratio"] = (used[1] - used[0]) / length
            if kind == "system":
                found[kind, who, at, "node_procs_running"] = cells[kind, who, at, "node_procs_running"] - 1
    return found


def _at_the_times(ours: Cells, theirs: Cells) -> Cells:
    """Under the printed times, which are cut to the millisecond."""
    printed_at = {second for _, _, second, _ in theirs}
    near = {at: min(printed_at, key=lambda second: abs(second - at)) for at in {key[2] for key in ours}}
    return {
        (kind, who, near[at], name): value
        for (kind, who, at, name), value in ours.items()
        if abs(near[at] - at) < 0.0021
    }


def _cut(key: Key, value: float) -> float:
    """Whole percents and counts a second, over times of which a millisecond may be missing."""
    if "cpu_ratio" in key[3]:
        return 0.02 if key[0] == "process" else 0.01
    return 1 + 0.005 * value if key[3].endswith(":rate") else 1e-9


def test_every_cell_of_plot_files(plots: dict[str, str]) -> None:
    """Our reader of plot files says what is printed there, to the last digit."""
    compared = 0
    for suffix, text in plots.items():
        theirs = collectl_cells(text)
        ours = read_cells(plot(text.encode()))
        assert unlike(ours, theirs, exact) == [], suffix
        compared += len(theirs)
    assert sorted(plots) == [".bud", ".cpu", ".numa", ".prc", ".tab"]
    assert compared >= 150


# atop


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_atop(tmp_path_factory.mktemp("atop"))


@pytest.mark.parametrize("form", ["the file itself", "-P", "-J"])
def test_every_cell_of_atop(log: Path, form: str) -> None:
    """The raw log and what atop makes of it hold the cells of `atop -P`, and no others."""
    text = printed("atop", "-r", log, "-P", "ALL")
    theirs = atop_cells(text)
    if form == "the file itself":
        ours = read_cells(in_bulk(atop_raw.BULK_PARSER, log.read_bytes()))
    elif form == "-P":
        ours = read_cells(by_lines(atop_logs.PARSEABLE_PARSER, text.encode()))
    else:
        ours = read_cells(by_lines(atop_logs.JSON_PARSER, printed("atop", "-r", log, "-J", "ALL").encode()))
        theirs = {key: value for key, value in theirs.items() if key[3] in names(ours)}
    assert len(theirs) >= 150
    assert len(set(theirs.values())) >= 60
    assert unlike(ours, theirs, _rounded) == []
    started = {"process_start_time_seconds", "process_threads", "process_cpu_ratio"}
    assert names(ours) - names(theirs) <= SUMS | started | {"swap_in_bytes:rate", "swap_out_bytes:rate"} | HUGE


HUGE = {"node_memory_HugePages_Total", "node_memory_HugePages_Free"}  # zero on most hosts


def _rounded(key: Key, _value: float) -> float:
    if key[3].startswith("node_pressure"):
        return 0.0005 + 1e-9
    return 0.005 + 1e-9 if key[3] == "node_load1" else 1e-9
