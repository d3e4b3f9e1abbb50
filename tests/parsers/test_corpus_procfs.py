"""The readers of /proc files on real files that nobody here wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from thpdiag.model import Fact, Problem, Record, Sample
from thpdiag.model.parser import Source
from thpdiag.parsers import all_parsers

SYSTEM = "node_memory_MemTotal_bytes"
EXPECTED = [  # file, reader, samples, a metric and its value (counted in the file by hand)
    ("buddyinfo", "buddyinfo", 3, "node_buddyinfo_blocks_order10", 3),
    ("meminfo", "proc_meminfo", 1, SYSTEM, 3997272 * 1024),
    ("pagetypeinfo", "pagetypeinfo", 3, "node_pagetypeinfo_blocks_Movable", 7),
    ("vmstat", "proc_vmstat", 1, "node_vmstat_nr_free_pages", 615337),
    ("zoneinfo", "zoneinfo", 5, "node_zoneinfo_min_pages", 68),
    ("zoneinfo2", "zoneinfo", 10, "node_zoneinfo_min_pages", 68),
    ("stat", "proc_stat", 3, "node_context_switches_total", 4622716),
    ("pid_stat", "pid_stat", 1, "process_minor_faults_total", 23478),
    ("pid_stat_w_space_and_nl_in_comm", "pid_stat", 1, "process_start_time_ticks", 75513),
    ("pid_status", "pid_status", 1, "process_resident_memory_bytes", 13252 * 1024),
    ("pid_smaps", "smaps", 1, "process_anon_huge_bytes", 0),
    ("loadavg", "loadavg", 1, "node_load1", 0),
]


def read(file: Path, name: str, path: str = "") -> list[Record]:
    reader = next(r for r in all_parsers() if r.name == name)
    lines = [(n, line) for n, line in enumerate(file.read_text().split("\n"), 1)]
    first = next(line for _, line in lines if line)
    assert path or (reader.opens and reader.opens.match(first))
    return list(reader.read(Source(file.name, path=path), iter(lines)))


@pytest.mark.parametrize(("file", "name", "count", "metric", "value"), EXPECTED, ids=[e[0] for e in EXPECTED])
def test_files_of_proc(corpus: Path, file: str, name: str, count: int, metric: str, value: float) -> None:
    """Each file is one snapshot, read whole and without a Problem."""
    found = read(corpus / "metrics" / "proc" / file, name)
    samples = [r for r in found if isinstance(r, Sample)]
    assert len(samples) == count
    assert samples[0].values[metric] == value
    assert not [r for r in found if isinstance(r, Problem)]


def test_facts_of_proc_and_sysctl(corpus: Path) -> None:
    """uptime, version and a whole `sysctl -a`."""
    proc = corpus / "metrics" / "proc"
    assert [r.value for r in read(proc / "uptime", "uptime", "proc/uptime") if isinstance(r, Fact)] == [46901.13]
    facts = {r.name: r.value for r in read(proc / "version", "proc_version") if isinstance(r, Fact)}
    assert facts["kernel.release"] == "5.8.0-63-generic"
    settings = read(corpus / "metrics" / "procps" / "centos7-sysctl-a.txt", "sysctl")
    assert {r.name: r.value for r in settings if isinstance(r, Fact)}["sysctl.vm.zone_reclaim_mode"] == 0
    assert not [r for r in settings if isinstance(r, Problem)]
