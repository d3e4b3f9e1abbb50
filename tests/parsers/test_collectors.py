"""Recordings of collectors: against the tool that wrote them, against their other forms, and in their folders."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import ROOT
from parse_bytes import faults
from text_damage import mutant
from thpdiag.bundle import members
from thpdiag.detect import Detector, TaggedRecord
from thpdiag.knowledge.paths import system_path
from thpdiag.model import Clock, Fact, Moment, Problem, ProblemKind, Record, Sample, Series
from thpdiag.model.parser import BulkParser, Content, Foreign, Parser, Source
from thpdiag.parsers import all_parsers, bulk_parsers, nmon
from thpdiag.parsers._table import as_series
from thpdiag.parsers.atop import logs as atop_logs
from thpdiag.parsers.atop import raw as atop_raw
from thpdiag.parsers.atop import text as atop_text

FIXTURES = ROOT / "fixtures"
RAW = FIXTURES / "readers" / "atop_raw" / "recording" / "atop.raw"
NMON = FIXTURES / "readers" / "nmon" / "recording" / "node1.nmon"
BULK_PARSER = (atop_raw.BULK_PARSER, atop_logs.PARSEABLE_BULK_PARSER, atop_logs.JSON_BULK_PARSER, nmon.BULK_PARSER)
SMALL = settings(
    max_examples=60, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
Row = tuple[object, ...]


def read(reader: BulkParser, data: bytes, path: str = "a") -> list[Record | Foreign]:
    """What a reader of bytes makes of them, given in pieces."""
    chunks = (data[at : at + 4096] for at in range(0, len(data), 4096))
    return list(reader.read(Source(path), Content(chunks, len(data))))


def of_lines(reader: Callable[..., Iterator[Record]], text: str) -> list[Record]:
    return list(reader(Source("a"), enumerate(text.split("\n"), 1)))


def rows(records: Iterable[Record | Foreign]) -> list[Row]:
    """Samples without reader and place."""
    found: list[Row] = []
    for record in records:
        for one in record if isinstance(record, Series) else (record,):
            if isinstance(one, Sample):
                values = tuple((name, round(value, _digits(name))) for name, value in sorted(one.values.items()))
                when = (one.time.seconds, one.time.clock) if one.time else None
                found.append((one.kind, one.entity, when, one.since_boot, values))
    return found


def _digits(name: str) -> int:
    """atop prints pressure with one decimal of a percent; its log has more."""
    return 3 if name.startswith("node_pressure") else 9


def folder(path: Path) -> dict[str, list[TaggedRecord]]:
    """What is read of every file of a folder, by the last part of its name."""
    recogniser = Detector(all_parsers(), strict=True)
    found: dict[str, list[TaggedRecord]] = {}
    for member in members([path], lambda _: True):
        assert not isinstance(member, Problem)
        head, known = member.head(), system_path(member.path) or member.path
        if bulk := next((r for r in bulk_parsers() if r.claims(known, head, member.size)), None):
            readings = list(recogniser.bulk(bulk, member.path, Content(member.chunks(), member.size, member.file)))
        else:
            readings = list(recogniser.read(member.path, member.lines(), head.decode("utf-8", "replace")))
        found[member.path.rpartition("/")[2].partition("-")[2] or member.path.split("/")[-2]] = readings
    return found


def printed(*options: str) -> str:
    """What the installed atop prints of the recording."""
    if not shutil.which("atop"):
        pytest.skip("atop is not installed")
    ran = subprocess.run(["atop", *options, "-r", str(RAW)], capture_output=True, text=True, check=False)
    if ran.returncode or not ran.stdout:
        pytest.skip("this atop reads no log of atop 2.8")
    return ran.stdout


def test_a_raw_log_gives_what_atop_itself_prints_of_it() -> None:
    """Cell for cell: the raw log, its parseable lines and its JSON are the same rows in the same order."""
    raw = rows(read(atop_raw.BULK_PARSER, RAW.read_bytes()))
    parseable = rows(of_lines(atop_logs.read_parseable, printed("-P", "ALL")))
    as_json = rows(of_lines(atop_logs.read_json, printed("-J", "ALL")))
    assert len(raw) > 150
    assert sorted(map(repr, raw)) == sorted(map(repr, parseable))
    assert _without_page_tables(raw) == _without_page_tables(as_json)


def _without_page_tables(found: list[Row]) -> list[str]:
    """What JSON has too."""
    lacking = {"node_memory_PageTables_bytes"}
    return sorted(repr((*row[:4], tuple(v for v in row[4] if v[0] not in lacking))) for row in found)  # type: ignore[attr-defined]


def test_screens_agree_with_the_raw_log_within_what_they_print() -> None:
    """Sizes and faults of processes and the host's memory differ by no more than the printed quantum."""
    exact = {
        (row.kind, dict(row.entity).get("pid"), row.time.seconds if row.time else 0, name): value
        for row in read(atop_raw.BULK_PARSER, RAW.read_bytes())
        if isinstance(row, Sample)
        for name, value in row.values.items()
    }
    compared = 0
    for option in ("-m", "-g"):
        for row in of_lines(atop_text.read, printed(option)):
            if not isinstance(row, Sample) or not row.time or row.since_boot:
                continue
            for name, value in row.values.items():
                key = (row.kind, dict(row.entity).get("pid"), row.time.seconds, name)
                if key in exact and name != "cpu_ratio.sys_share":
                    assert abs(value - exact[key]) <= row.resolution.get(name, 0.005) * 1.001, (name, row.cite)
                    compared += 1
    assert compared > 200


def test_a_log_without_its_package_asks_for_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """One problem names the extra and the command."""
    monkeypatch.setitem(sys.modules, "atoparser", None)
    found = read(atop_raw.BULK_PARSER, RAW.read_bytes())
    assert [type(record) for record in found] == [Problem]
    problem = found[0]
    assert isinstance(problem, Problem)
    assert problem.kind is ProblemKind.UNREADABLE
    assert "thpdiag[atop]" in problem.text
    assert "-P ALL" in problem.text


def test_memory_that_khugepaged_gives_is_seen_in_every_form() -> None:
    """RSS of pid 3 grows by megabytes between two intervals without a fault."""
    for records in (
        read(atop_raw.BULK_PARSER, RAW.read_bytes()),
        of_lines(atop_logs.read_parseable, printed("-P", "PRM")),
    ):
        rss, faults_ = [], 0.0
        for row in records:
            if isinstance(row, Sample) and dict(row.entity).get("pid") == "3":
                rss += [row.values[n] for n in ("process_resident_memory_bytes",) if n in row.values]
                faults_ += row.values.get("process_minor_faults_total:rate", 0.0)
        assert rss[-1] - rss[0] >= 16 << 20
        assert faults_ == 0


@pytest.mark.parametrize("reader", list(BULK_PARSER), ids=lambda r: r.name)
def test_a_damaged_recording_is_read_without_a_mistake(reader: BulkParser) -> None:
    """Mutants of the fixtures as whole files, and bytes that were never a recording."""
    where = FIXTURES / "readers" / reader.name
    fixtures = [p.read_bytes() for p in sorted(where.rglob("*/*")) if p.is_file()]

    @SMALL
    @given(st.sampled_from(fixtures), st.integers(0, 1 << 40), st.binary(max_size=64))
    def run(data: bytes, seed: int, other: bytes) -> None:
        for damaged in (mutant(data, seed), data[: seed % len(data)] + other, other):
            lines = damaged.count(b"\n") + damaged.count(b"\r") + 1
            records = [r for r in read(reader, damaged) if not isinstance(r, Foreign)]
            assert list(faults(records, max(lines, 100))) == []

    run()


@pytest.mark.parametrize(
    "parser", [atop_logs.PARSEABLE_PARSER, atop_logs.JSON_PARSER, nmon.PARSER], ids=lambda parser: parser.name
)
def test_columns_hold_the_same_as_rows(parser: Parser) -> None:
    """Each row of a recording comes back out of its columns, with line, text, time and mark."""
    where = FIXTURES / "readers" / parser.name / "recording"
    text = next(p for p in where.iterdir()).read_text()
    plain = [r for r in of_lines(parser.read, text) if isinstance(r, Sample)]
    columns = [row for r in as_series(plain) if isinstance(r, Series) for row in r]

    def shown(row: Sample) -> str:
        values = sorted((name, float(value)) for name, value in row.values.items())
        return repr((row.kind, row.entity, row.time, row.since_boot, values, row.cite))

    assert len(plain) > 20
    assert sorted(map(shown, plain)) == sorted(map(shown, columns))


def test_a_sorted_recording_of_nmon_says_the_same() -> None:
    """The file may go through sort, which puts the times last."""
    text = NMON.read_text()
    lines = sorted(line for line in text.split("\n") if line)
    assert sorted(map(repr, rows(of_lines(nmon.read, text)))) == sorted(
        map(repr, rows(of_lines(nmon.read, "\n".join(lines))))
    )


def test_nmon_reads_columns_that_no_kernel_counts_as_unknown() -> None:
    """`allocstall` is 0 throughout on a kernel that has one per zone: no rate is told."""
    names = {name for row in of_lines(nmon.read, NMON.read_text()) if isinstance(row, Sample) for name in row.values}
    assert "node_vmstat_pgfault:rate" in names
    assert "node_allocstall_total:rate" not in names


def test_a_file_of_oswatcher_is_read_by_the_readers_of_its_outputs() -> None:
    """Each output stands at the time above it; nothing is read out of traceroute."""
    found = folder(FIXTURES / "collectors" / "oswatcher")
    expected = {
        "oswvmstat": ("vmstat", 12), "oswmeminfo": ("proc_meminfo", 4), "oswtop": ("top", 47), "oswps": ("ps", 34),
        "oswmpstat": ("mpstat", 24), "oswiostat": ("iostat", 12), "oswslabinfo": ("slabinfo", 12),
    }  # fmt: skip
    for name, (reader, count) in expected.items():
        samples = [r.record for r in found[name] if isinstance(r.record, Sample)]
        assert {s.reader for s in samples} == {reader}, name
        assert len(samples) == count, name
        assert {s.time.clock for s in samples if s.time} == {Clock.LOCAL}, name
        assert not any(isinstance(r.record, Problem) for r in found[name]), name
    assert found["oswprvtnet"] == []
    begun = [s.time for s in (r.record for r in found["oswmeminfo"]) if isinstance(s, Sample)]
    assert begun[0] == Moment(1795172056.0, Clock.LOCAL)
    assert len(set(begun)) == 4
    hosts = [r.record.value for r in found["oswvmstat"] if isinstance(r.record, Fact) and r.record.name == "host.name"]
    assert hosts == ["node1"]


def test_the_first_row_of_each_vmstat_of_oswatcher_is_since_boot() -> None:
    """Three rows a sample, one second apart."""
    found = folder(FIXTURES / "collectors" / "oswatcher")["oswvmstat"]
    samples = [r.record for r in found if isinstance(r.record, Sample)]
    assert [s.since_boot for s in samples] == [True, False, False] * 4
    times = [s.time.seconds for s in samples if s.time]
    assert [b - a for a, b in pairwise(times[:3])] == [1, 1]


def test_the_frame_of_top_that_oswatcher_keeps_has_cpu_figures() -> None:
    """It runs two and keeps the second; the date of the time line above gives the frame its day."""
    found = folder(FIXTURES / "collectors" / "oswatcher")["oswtop"]
    hosts = [r.record for r in found if isinstance(r.record, Sample) and "cpu_ratio.sys_total" in r.record.values]
    assert len(hosts) == 4
    assert not any(s.since_boot for s in hosts)
    assert [s.time.clock for s in hosts if s.time] == [Clock.LOCAL] * 4


def test_a_collection_of_pt_stalk_has_all_its_times() -> None:
    """Stamped files by epoch, the others by their name; counters of huge pages are there."""
    found = folder(FIXTURES / "collectors" / "pt-stalk")
    stamped = {
        "procvmstat": "proc_vmstat", "meminfo": "proc_meminfo", "slabinfo": "slabinfo", "numastat": "numastat",
        "interrupts": "interrupts",
    }  # fmt: skip
    for name, reader in stamped.items():
        samples = [r.record for r in found[name] if isinstance(r.record, Sample)]
        assert {s.reader for s in samples} == {reader}
        assert {s.time.clock if s.time else None for s in samples} == {Clock.UTC}
        assert len({s.time for s in samples}) == 6
    for name in ("vmstat", "top", "ps", "mpstat"):
        samples = [r.record for r in found[name] if isinstance(r.record, Sample)]
        assert {s.time.clock if s.time else None for s in samples} == {Clock.LOCAL}, name
    first = next(r.record for r in found["vmstat"] if isinstance(r.record, Sample))
    assert (first.time, first.since_boot) == (Moment(1795172049.0, Clock.LOCAL), True)
    counters = next(r.record for r in found["procvmstat"] if isinstance(r.record, Sample))
    assert "node_vmstat_thp_fault_alloc" in counters.values
    for name in ("df", "diskstats", "trigger", "hostname", "iostat"):
        assert [r for r in found[name] if not isinstance(r.record, Fact)] == [], name


def test_pt_stalk_tells_how_far_the_host_is_from_utc() -> None:
    """Its time lines have the epoch and the wall clock."""
    found = folder(FIXTURES / "collectors" / "pt-stalk")["procvmstat"]
    told = [r.record.value for r in found if isinstance(r.record, Fact) and r.record.name == "host.utc_offset"]
    assert told == [3600]
