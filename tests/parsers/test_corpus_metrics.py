"""Every recording of the corpus that expected.yaml names: its reader claims it, with all its rows, and no other does.

Rows are counted in the files with nothing but patterns. The folders are read as they lie there, so that paths tell what
they tell in a bundle.
"""

from __future__ import annotations

import bz2
import gzip
import os
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from thpdiag.host.options import Options
from thpdiag.host.reading import read_input
from thpdiag.model import Profile, Record, Sample, Series

CORPUS = Path(os.environ.get("THPDIAG_CORPUS", "/nowhere"))
pytestmark = pytest.mark.skipif(
    not (CORPUS / "metrics").is_dir(), reason="THPDIAG_CORPUS names no folder of real recordings"
)
READERS = {  # format of expected.yaml: reader of ours
    "vmstat": "vmstat", "vmstat -d": "", "top -b": "top", "ps aux": "ps", "free": "free", "sysctl -a": "sysctl",
    "/proc/buddyinfo": "buddyinfo", "/proc/meminfo": "proc_meminfo", "/proc/pagetypeinfo": "pagetypeinfo",
    "/proc/vmstat": "proc_vmstat", "/proc/zoneinfo": "zoneinfo", "/proc/slabinfo": "slabinfo",
    "/proc/stat": "proc_stat", "/proc/PID/stat": "pid_stat", "/proc/PID/status": "pid_status",
    "/proc/PID/smaps": "smaps", "/proc/loadavg": "loadavg",
    "/proc/uptime": "uptime", "/proc/version": "proc_version", "pidstat": "pidstat",
    "mpstat": "mpstat", "iostat": "iostat", "sar text": "sar", "sadf -x": "sadf", "sysstat binary": "sadc",
    "collectl raw": "collectl_raw", "collectl plot": "collectl_plot", "OSWatcher": "iostat", "nmon": "nmon",
}  # fmt: skip
# `vmstat -d` tells of disks only: it is no input of ours, and nothing in it is taken for another table.
CLOCK = r"(?m)^\d\d:\d\d:\d\d (?:[AP]M )?"
Patterns = dict[str, tuple[str, int]]  # kind of entity: a pattern that each row matches once, and rows to a match
ROWS: dict[str, Patterns] = {
    "vmstat": {"system": (r"(?m)^ *\d+ +\d+ +\d+ ", 1)},
    "ps": {"process": (r"(?m)^\S+ +\d+ ", 1)},
    "free": {"system": (r"(?m)^Mem:", 1)},
    "buddyinfo": {"zone": (r"(?m)^Node", 1)},
    "proc_meminfo": {"system": (r"(?m)^MemTotal", 1)},
    "pagetypeinfo": {"zone": (r"(?m)^Node +\d+, zone +\w+ +(?:\d+ +)+$", 1)},  # of the second table
    "proc_vmstat": {"system": (r"(?m)^nr_free_pages ", 1)},
    "zoneinfo": {"zone": (r"(?m)^Node", 1)},
    "proc_stat": {"system": (r"(?m)^cpu ", 1), "cpu": (r"(?m)^cpu\d", 1)},
    "pid_stat": {"process": (r"\A\d+ \(", 1)},
    "pid_status": {"process": (r"(?m)^Pid:", 1)},
    "smaps": {"process": (r"\A[0-9a-f]+-", 1)},
    "loadavg": {"system": (r"\A\d", 1)},
    "iostat": {"system": (r"avg-cpu:", 1)},
    "collectl_raw": {
        "system": (r"(?m)^>>> .*\n(?!>>> )(?=.)", 1),  # the last line of a closed file is a time without data
        "cpu": (r"(?m)^cpu\d+(?: \d+){7,} *\n", 1),  # one line of the cut file is cut itself
        "zone": (r"(?m)^buddy ", 1),
        "process": (r"(?m)^proc:\d+ stat ", 1),
    },
    "collectl_plot": {"system": (r"(?m)^\d{8} ", 1)},
    "nmon": {
        "system": (r"(?m)^(?:CPU_ALL|MEM|PROC|VM),T\d|^BBBP,\d+,/proc/meminfo,\"MemTotal", 1),
        "cpu": (r"(?m)^CPU\d+,T\d", 1),
    },
}
BY_FILE: dict[str, Patterns] = {  # where what a row is needs the option
    "procps/centos7-top-b-n3.txt": {"system": (r"(?m)^top - ", 1), "process": (r"(?m)^ *\d+ \S+ +(?:rt|-?\d+) ", 1)},
    "procps/ubuntu20-top-b.txt": {"system": (r"(?m)^top - ", 1), "process": (r"(?m)^ *\d+ \S+ +(?:rt|-?\d+) ", 1)},
    "procps/centos7-top-gib.txt": {"system": (r"(?m)^top - ", 1), "process": (r"(?m)^ *\d+ \S+ +(?:rt|-?\d+) ", 1)},
    "sysstat/centos7-mpstat-A.txt": {
        "system": (rf"{CLOCK} +all(?: +\d+\.\d\d){{10}}", 1),
        "cpu": (r"(?m)^\d\d:.* %idle\n.* all .*\n.* 0 ", 1),
    },
    "sysstat/centos7-pidstat.txt": {"process": (rf"{CLOCK} +\d+ +\d+ ", 1)},
    "sysstat/centos7-pidstat-h.txt": {"process": (r"(?m)^ *\d{10} ", 1)},
    "collectl/truncated.raw": {**ROWS["collectl_raw"], "system": (r"(?m)^cpu  ", 1)},  # of the second, disks only
    # those of 16 MiB and more
    "proc/slabinfo": {"slab": (r"(?m)^(?:ext4_inode_cache|proc_inode_cache|inode_cache|dentry|kmalloc-512) ", 1)},
    "sysstat/rhel6-sadf-x.xml": {"system": (r"<timestamp ", 7), "cpu": (r'<cpu number="\d', 1)},
}


ELSEWHERE = ("sysstat/sar-10.1.5.txt", "sysstat/sa-12.0.6.bin")  # tables of many kinds


def text_of(file: Path) -> str:
    data = file.read_bytes()
    if file.suffix == ".gz":
        data = gzip.decompress(data)
    return (bz2.decompress(data) if file.suffix == ".bz2" else data).decode("utf-8", "replace")


@cache
def expected(folder: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((CORPUS / folder / "expected.yaml").read_text())
    return found


@cache
def given(folder: str) -> tuple[dict[str, set[str]], dict[str, Counter[str]], dict[str, int]]:
    """By file: who read it, its rows by kind of entity but those since boot, its profiles.

    A file with a name that no bundle has (proc/zoneinfo2) is not looked at in a folder; it is given alone.
    """
    whole = read_input([CORPUS / folder], Options(strict=True))
    seen = {row.member for row in whole.inputs}
    alone = [name for name in expected(folder) if name not in seen]
    found = [
        ("", whole),
        *((f"{Path(n).parent}/", read_input([CORPUS / folder / n], Options(strict=True))) for n in alone),
    ]
    readers: dict[str, set[str]] = {}
    rows: dict[str, Counter[str]] = {}
    profiles: dict[str, int] = {}
    for place, one in found:
        for member, readings in one.readings.items():
            rows[place + member] = _rows(reading.record for reading in readings)
            profiles[place + member] = sum(isinstance(reading.record, Profile) for reading in readings)
        for row in one.inputs:
            readers.setdefault(place + row.member, set()).add(row.reader)
    return readers, rows, profiles


def _rows(records: Iterable[Record]) -> Counter[str]:
    """Rows by kind. What a first frame of top says since boot is a row apart."""
    counts = Counter[str]()
    for record in records:
        if isinstance(record, Series):
            counts[record.kind] += len(record)
        elif isinstance(record, Sample) and not (record.reader == "top" and record.since_boot):
            counts[record.kind] += 1
    return counts


def names(folder: str) -> list[str]:
    return sorted(expected(folder)) if (CORPUS / folder / "expected.yaml").is_file() else []


@pytest.mark.parametrize("name", names("metrics"))
def test_a_recording_is_claimed_by_its_reader_alone(name: str) -> None:
    """The reader of the format that expected.yaml names, and nobody else."""
    readers, _, _ = given("metrics")
    assert readers[name] == {READERS[expected("metrics")[name]["format"]]}


@pytest.mark.parametrize("name", names("metrics"))
def test_a_recording_has_all_its_rows(name: str) -> None:
    """As many as the patterns count, and as expected.yaml counts where it does."""
    facts = expected("metrics")[name]
    reader = READERS[facts["format"]]
    rows = given("metrics")[1].get(name, Counter())
    patterns = BY_FILE.get(name) or ROWS.get(reader)
    if patterns is None and name in ELSEWHERE:
        pytest.skip("rows are counted in test_sysstat_live")
    text = text_of(CORPUS / "metrics" / name)
    counted = {kind: each * len(re.findall(pattern, text)) for kind, (pattern, each) in (patterns or {}).items()}
    assert dict(rows) == {kind: count for kind, count in counted.items() if count}
    if "rows" in facts or "frames" in facts:
        assert rows["system"] == facts.get("rows", facts.get("frames"))


def test_every_file_of_the_list_is_looked_at() -> None:
    """45 of them, none besides, and more than thirty are counted."""
    listed = expected("metrics")
    files = {str(p.relative_to(CORPUS / "metrics")) for p in (CORPUS / "metrics").rglob("*") if p.is_file()}
    assert files - {"expected.yaml"} == set(listed)
    assert set(given("metrics")[0]) - {"expected.yaml"} == set(listed)
    counted = [n for n, facts in listed.items() if n in BY_FILE or READERS[facts["format"]] in ROWS]
    assert (len(listed), len(counted)) >= (45, 36)


@pytest.mark.parametrize(("folder", "reader"), [("perf-data", "perf_data"), ("perf-script", "perf_script")])
def test_nothing_else_of_the_corpus_is_taken_for_a_recording(folder: str, reader: str) -> None:
    """Recordings of perf and their texts: read by their reader alone, without a row of any metric."""
    readers, rows, profiles = given(folder)
    assert {name: by for name, by in readers.items() if name != "expected.yaml" and by != {reader}} == {}
    assert {name: dict(found) for name, found in rows.items() if found} == {}
    assert len(expected(folder)) >= 20
    assert sum(map(bool, profiles.values())) >= 18
