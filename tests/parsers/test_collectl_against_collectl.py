"""The recording as collectl itself prints it: plot format cell by cell, brief text within what it cuts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from collectl_files import GROWTH, HOST, collectl, growth, of, plot, problems, raw, series
from table_parsing import blocks, samples
from thpdiag.model import Sample, Series
from thpdiag.parsers.collectl._counters import MODES

SHARES = ("user", "nice", "system", "iowait", "irq", "softirq", "steal", "idle")
RATES = {
    "node_intr_total:rate", "node_context_switches_total:rate", "node_vmstat_pgfault:rate",
    "node_vmstat_pgmajfault:rate", "node_vmstat_pgpgin:rate", "node_vmstat_pgpgout:rate",
}  # fmt: skip


@pytest.fixture(scope="module")
def host() -> Series:
    return series(raw(growth()))[HOST]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Series:
    """The .tab file that collectl makes of the recording."""
    folder = tmp_path_factory.mktemp("plot")
    collectl(GROWTH, "-scmb", "-P", "-ozm", "-f", str(folder))
    file = next(folder.glob("*.tab"))
    records = plot(file.read_bytes())
    assert problems(records) == []
    return series(records)[HOST]


def shares(host: Series) -> dict[str, NDArray[np.float64]]:
    """Of all CPU time between two rows."""
    ticks = {mode: np.diff(host.values[name]) for mode, name in zip(SHARES, _ordered(), strict=True)}
    total = sum(ticks.values())
    return {mode: part / total for mode, part in ticks.items()}


def _ordered() -> list[str]:
    return [next(name for name in MODES if name.endswith(f".{mode}")) for mode in SHARES]


def test_the_same_times(host: Series, table: Series) -> None:
    """A row of collectl stands at the end of its interval; the first of the recording is none."""
    assert host.seconds is not None
    assert table.seconds is not None
    assert table.clock is host.clock
    assert table.seconds.tolist() == pytest.approx(host.seconds[1:].tolist(), abs=0.0011)


def test_sizes_cell_by_cell(host: Series, table: Series) -> None:
    """Memory is printed to the KiB."""
    names = [name for name in table.values if name.startswith("node_memory_")]
    assert len(names) >= 15
    for name in names:
        assert table.values[name].tolist() == host.values[name][1:].tolist(), name


def test_shares_cell_by_cell(host: Series, table: Series) -> None:
    """CPU time in whole percent."""
    for mode, parts in shares(host).items():
        assert np.abs(table.values[f"cpu_ratio.{mode}"] - parts).max() <= 0.01 + 1e-9, mode


def test_rates_cell_by_cell(host: Series, table: Series) -> None:
    """Counters per second, cut to whole numbers."""
    assert host.seconds is not None
    assert table.values.keys() >= RATES
    seconds = np.diff(host.seconds)
    for name in RATES:
        wanted = np.diff(host.values[name.removesuffix(":rate")]) / seconds
        assert np.abs(table.values[name] - wanted).max() <= 1 + 1e-3 * wanted.max(), name
        assert table.resolution[name] == 1


def test_run_queue_cell_by_cell(host: Series, table: Series) -> None:
    """Load and blocked tasks as they are; collectl leaves itself out of the running ones."""
    for name, less in (("node_load1", 0), ("node_procs_running", 1), ("node_procs_blocked", 0)):
        assert table.values[name].tolist() == (host.values[name][1:] - less).tolist(), name


def test_zones_and_nodes_cell_by_cell(tmp_path: Path) -> None:
    """.bud and .numa hold what buddyinfo and meminfo of the nodes held."""
    collectl(GROWTH, "-sBMC", "-P", "-oz", "-f", str(tmp_path))
    ours = series(raw(growth()))
    theirs = {k: v for file in tmp_path.iterdir() for k, v in series(plot(file.read_bytes())).items()}
    assert {kind for kind, _ in theirs} == {"zone", "node", "cpu"}
    for key, rows in theirs.items():
        for name, column in rows.values.items():
            if name.startswith("cpu_ratio."):
                continue
            assert column.tolist() == ours[key].values[name][1:].tolist(), (key, name)


def test_shares_of_each_cpu(tmp_path: Path) -> None:
    """.cpu agrees with the counters of each CPU."""
    collectl(GROWTH, "-sC", "-P", "-oz", "-f", str(tmp_path))
    ours, theirs = series(raw(growth())), series(plot(next(tmp_path.iterdir()).read_bytes()))
    assert len(theirs) == 2
    for key, rows in theirs.items():
        for mode, parts in shares(ours[key]).items():
            assert np.abs(rows.values[f"cpu_ratio.{mode}"] - parts).max() <= 0.01 + 1e-9


def test_processes_cell_by_cell(tmp_path: Path) -> None:
    """.prc: sizes to the KiB, threads, CPU time to the second, faults per second."""
    collectl(GROWTH, "-sZ", "-P", "-ozm", "-f", str(tmp_path))
    ours, theirs = raw(growth()), plot(next(tmp_path.iterdir()).read_bytes())
    pairs = list(zip(of(ours, "process"), of(theirs, "process"), strict=True))
    assert len(pairs) == 2
    for one, other in pairs:
        assert one.entity == other.entity
        for name in ("process_resident_memory_bytes", "process_virtual_memory_bytes", "process_threads"):
            assert other.values[name].tolist() == one.values[name][1:].tolist(), name
        used = one.values["process_cpu_seconds_total.user"] + one.values["process_cpu_seconds_total.system"]
        assert np.abs(other.values["process_cpu_seconds_total"] - used[1:]).max() <= 1
        assert one.seconds is not None
        faults = np.diff(one.values["process_minor_faults_total"]) / np.diff(one.seconds)
        assert np.abs(other.values["process_minor_faults_total:rate"] - faults).max() <= 1
    assert [r for r in theirs if getattr(r, "name", "") == "process.command"]


@pytest.mark.parametrize("option", ["-oT", "-oTG", "-oTg", "-w"])
def test_brief_text_within_what_it_cuts(host: Series, option: str) -> None:
    """Each cell stands for an interval that holds the number of the recording."""
    found = samples(r for name, r in blocks(collectl(GROWTH, "-scm", option)) if name == "collectl_text")
    assert len(found) == 60
    cells = [name for name in found[0].values if name.startswith("node_memory_")]
    assert "node_memory_Inactive_file_bytes" in cells
    for name in cells:
        for sample, true in zip(found, host.values[name][1:].tolist(), strict=True):
            assert _stands_for(sample, name, true), (name, sample, true)
    busy = 1 - shares(host)["idle"] - shares(host)["iowait"]
    assert np.abs([s.values["cpu_ratio.busy"] for s in found] - busy).max() <= 0.02


def _stands_for(sample: Sample, name: str, true: float) -> bool:
    """A cut number is below the true one by less than its unit; `1G` begins at 1000 MiB, fractions are thousandths."""
    value, unit = sample.values[name], sample.resolution.get(name, 0)
    return value * 1000 / 1024 - unit * 0.06 <= true <= value + unit


def test_verbose_text_within_what_it_cuts(host: Series) -> None:
    """The same of the verbose tables, and of the nodes and zones among them."""
    text = collectl(GROWTH, "-scmbMC", "--verbose")
    records = [r for name, r in blocks(text) if name == "collectl_verbose"]
    found = [s for s in samples(records) if "node_memory_AnonHugePages_bytes" in s.values]
    assert len(found) == 60
    for name in (n for n in found[0].values if n.startswith("node_memory_")):
        for sample, true in zip(found, host.values[name][1:].tolist(), strict=True):
            assert _stands_for(sample, name, true), (name, sample, true)
    assert [len(samples(records, kind)) for kind in ("cpu", "zone", "node")] == [120, 60, 60]
    times = {s.time.seconds for s in samples(records, "node") if s.time}
    assert host.seconds is not None
    assert times == set(host.seconds[1:].tolist())


def test_lexpr_cell_by_cell(host: Series) -> None:
    """What other programs get: sizes to the KiB, times to the millisecond."""
    found = samples(r for name, r in blocks(collectl(GROWTH, "-scm", "--export", "lexpr")) if name == "collectl_lexpr")
    assert host.seconds is not None
    assert [s.time.seconds for s in found if s.time] == host.seconds[1:].tolist()
    for name in (n for n in found[0].values if n.startswith("node_memory_")):
        assert [s.values[name] for s in found] == host.values[name][1:].tolist(), name
