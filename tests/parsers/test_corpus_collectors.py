"""The readers of collectors on real files that nobody here wrote: all rows, and no other file claimed."""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from thpdiag.bundle import members
from thpdiag.detect import Detector
from thpdiag.knowledge.paths import system_path
from thpdiag.model import Problem, Sample, Series
from thpdiag.model.parser import Content
from thpdiag.parsers import all_parsers, bulk_parsers

CORPUS = Path(os.environ.get("THPDIAG_CORPUS", "/nowhere")) / "metrics"
pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="THPDIAG_CORPUS names no folder of real recordings")
OURS = {
    "atop_json", "atop_parseable", "atop_raw", "atop_text", "dstat", "nmon", "numastat", "oswatcher", "slabinfo",
    "slabtop",
}  # fmt: skip
EXPECTED = [  # file, reader, kind, rows (counted with grep)
    ("nmon/test.nmon", "nmon", "cpu", 6 * 120),
    ("nmon/test.nmon", "nmon", "system", 4 * 120 + 1),  # CPU_ALL, MEM, PROC, VM; /proc/meminfo before the first
    ("oswatcher/dm02cel10.aim.com_iostat_12.02.29.1100.dat.bz2", "iostat", "system", 720),
    ("proc/slabinfo", "slabinfo", "slab", 5),  # of 16 MiB and more
    ("procps/centos7-free-h.txt", "free", "system", 1),
]


@cache
def rows(name: str) -> Counter[tuple[str, str]]:
    """Samples by reader and kind."""
    recogniser, found = Detector(all_parsers(), strict=True), Counter[tuple[str, str]]()
    for member in members([CORPUS / name], lambda _: True):
        assert not isinstance(member, Problem)
        head, path = member.head(), system_path(member.path) or member.path
        if bulk := next((r for r in bulk_parsers() if r.claims(path, head, member.size)), None):
            readings = list(recogniser.bulk(bulk, member.path, Content(member.chunks(), member.size, member.file)))
        elif head.count(0) > len(head) / 20:
            readings = []
        else:
            readings = list(recogniser.read(member.path, member.lines(), head.decode("utf-8", "replace")))
        for reading in readings:
            record = reading.record
            if isinstance(record, Sample | Series):
                found[reading.reader, record.kind] += len(record) if isinstance(record, Series) else 1
    return found


@pytest.mark.parametrize(("name", "reader", "kind", "count"), EXPECTED, ids=lambda value: str(value))
def test_a_real_recording_has_all_its_rows(name: str, reader: str, kind: str, count: int) -> None:
    """The expected reader claims it and finds as many rows as there are."""
    assert rows(name)[reader, kind] == count


@pytest.mark.parametrize("name", sorted(str(p.relative_to(CORPUS)) for p in CORPUS.rglob("*") if p.is_file()))
def test_no_other_recording_is_claimed(name: str) -> None:
    """A reader of collectors has no rows of a file of another format."""
    own = {reader for file, reader, *_ in EXPECTED if file == name}
    assert {reader for reader, _ in rows(name)} & OURS <= own
