"""Performance Co-Pilot and Prometheus: the forms of one recording say the same, and nothing odd gets by unsaid."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from conftest import ROOT
from parse_bytes import alone, faults, line_count
from text_damage import mutant
from thpdiag.bundle import members
from thpdiag.model import Clock, Fact, Problem, ProblemKind, Record, Sample, Series
from thpdiag.model.parser import BulkParser, Content, Foreign, Source
from thpdiag.parsers import pcp as pcp2json
from thpdiag.parsers import pcp as pcp_archive
from thpdiag.parsers import pcp as pmrep
from thpdiag.parsers import prometheus as prometheus_json
from thpdiag.parsers import prometheus as prometheus_text
from thpdiag.parsers._json import MAX_ELEMENT_CHARS
from thpdiag.parsers.pcp import metric
from thpdiag.parsers.prometheus import host_of, place

READERS = ROOT / "fixtures" / "readers"
ARCHIVE = ROOT / "fixtures" / "recordings" / "pcp"
WITH_PMREP = pytest.mark.skipif(shutil.which("pmrep") is None, reason="pmrep is not installed")
TEXTS = {"pmrep": pmrep.PMREP_PARSER, "prometheus": prometheus_text.TEXT_PARSER}
TREES = {"pcp2json": pcp2json.PCP2JSON_PARSER, "prometheus_json": prometheus_json.JSON_BULK_PARSER}


def given(case: str) -> bytes:
    """The one file of a fixture."""
    return next(file for file in (READERS / case).iterdir() if file.is_file()).read_bytes()


def lines(text: str) -> Iterator[tuple[int, str]]:
    return iter(list(enumerate(text.split("\n"), 1)))


def of_text(name: str, text: str) -> list[Record]:
    return list(TEXTS[name].read(Source("a"), lines(text)))


def of_bytes(reader: BulkParser, data: bytes, piece: int = 4096) -> list[Record | Foreign]:
    chunks = (data[at : at + piece] for at in range(0, len(data), piece))
    return list(reader.read(Source("a"), Content(chunks, len(data))))


def samples(records: Iterable[Record | Foreign]) -> list[Sample]:
    return [s for r in records if isinstance(r, Sample | Series) for s in (r if isinstance(r, Series) else (r,))]


def values(records: Iterable[Record | Foreign]) -> list[tuple[object, ...]]:
    """Rows without reader and place."""
    return sorted(
        (s.kind, s.entity, s.time.seconds if s.time else 0.0, sorted((n, round(v, 6)) for n, v in s.values.items()))
        for s in samples(records)
    )


def problems(records: Iterable[Record | Foreign]) -> list[Problem]:
    return [record for record in records if isinstance(record, Problem)]


def test_dumps_and_answers_say_the_same() -> None:
    """Milliseconds, seconds, and JSON of one recording are the same rows."""
    dump = values(of_text("prometheus", given("prometheus/dump").decode()))
    assert len(dump) == 9
    assert values(of_text("prometheus", given("prometheus/openmetrics").decode())) == dump
    assert values(of_bytes(prometheus_json.JSON_BULK_PARSER, given("prometheus_json/matrix"))) == dump


@pytest.mark.parametrize("piece", [1, 7, 100, 1 << 20])
def test_json_does_not_depend_on_how_it_comes(piece: int) -> None:
    """Members that end between two pieces are whole."""
    for name, case in (("prometheus_json", "prometheus_json/pretty"), ("prometheus_json", "prometheus_json/matrix")):
        found = of_bytes(TREES[name], given(case), piece)
        assert found == of_bytes(TREES[name], given(case))
        assert samples(found)


def test_a_long_answer_becomes_columns() -> None:
    """Thousands of rows are a Series with the same values."""
    points = [[1795170000 + 15 * n, str(n)] for n in range(5000)]
    series = {"metric": {"__name__": "node_vmstat_thp_fault_alloc", "instance": "web1:9100"}, "values": points}
    answer = {"status": "success", "data": {"resultType": "matrix", "result": [series]}}
    found = of_bytes(prometheus_json.JSON_BULK_PARSER, json.dumps(answer).encode())
    (column,) = [record for record in found if isinstance(record, Series)]
    assert (len(column), column.clock, column[4999].values) == (5000, Clock.UTC, {"node_vmstat_thp_fault_alloc": 4999})


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        pytest.param(b"[" * 100_000, "nested too deeply", id="deep"),
        pytest.param(b'{"metric": {"a": "' + b"x" * (MAX_ELEMENT_CHARS + (1 << 20)), "cut or broken", id="long"),
        pytest.param(b'{"metric": ', "cut or broken", id="cut"),
    ],
)
def test_a_hostile_answer_is_a_problem(tail: bytes, said: str) -> None:
    """What stands before the damage is kept."""
    head = b'{"status":"success","data":{"resultType":"vector","result":['
    good = b'{"metric":{"__name__":"node_load1"},"value":[1795170792.5,"8.5"]},'
    found = of_bytes(prometheus_json.JSON_BULK_PARSER, head + good + tail, 1 << 16)
    assert [s.values for s in samples(found)] == [{"node_load1": 8.5}]
    assert [(p.kind, said in p.text) for p in problems(found)] == [(ProblemKind.DAMAGED, True)]


def test_a_page_has_its_own_time_or_that_above() -> None:
    """Without node_time_seconds a second page in one block has no time."""
    page = "node_load1 1.5\nnode_procs_running 2\n"
    timed = page + "node_time_seconds 1.795170792e+09\n"
    assert [s.time.seconds if s.time else None for s in samples(of_text("prometheus", timed * 2))] == [1795170792.0] * 2
    assert [s.time for s in samples(of_text("prometheus", page * 2))] == [None, None]


def test_odd_values_are_not_taken() -> None:
    """NaN is stale and says nothing; a negative or huge one is said to be odd; a second job's copy is not mixed in."""
    text = (
        "node_load1 NaN\nnode_procs_running -1\nnode_vmstat_pgfault 1e25\n"
        'node_load1{job="a"} 1 1795170792000\nnode_load1{job="b"} 2 1795170793000\nnode_load1{job="a"} 3 17\n'
    )
    found = of_text("prometheus", text)
    assert [s.values for s in samples(found)] == [{"node_load1": 1}]
    assert sorted(p.count for p in problems(found)) == [1, 1, 2]


def test_names_before_0_16_are_the_same_metrics() -> None:
    """They had no unit in the name and `cpu0` for a CPU."""
    old, new = (
        place("node_cpu", {"cpu": "cpu1", "mode": "system"}),
        place("node_cpu_seconds_total", {"cpu": "1", "mode": "system"}),
    )
    assert old == new is not None
    assert place("node_memory_MemFree", {}) == place("node_memory_MemFree_bytes", {})
    assert place("process_resident_memory_bytes", {}) is None


@pytest.mark.parametrize(
    ("instance", "host"),
    [("web1:9100", "web1"), ("web1.example.com:9100", "web1.example.com"), ("10.0.0.7:9100", "10.0.0.7"),
     ("localhost:9100", ""), ("[fe80::1]:9100", "fe80::1"), ("<b>:1", "")],
)  # fmt: skip
def test_an_instance_is_a_host(instance: str, host: str) -> None:
    """An address is whole: what stands before a dot is the name of a host elsewhere."""
    assert host_of({"instance": instance}) == host


def test_rates_of_pcp_agree_in_csv_and_json() -> None:
    """A row of pmrep at the same time and with the same interval as one of pcp2json has the same values."""
    csv = {s.time: s.values for s in samples(of_text("pmrep", given("pmrep/counts").decode())) if s.kind == "zone"}
    tree = [s for s in samples(of_bytes(pcp2json.PCP2JSON_PARSER, given("pcp2json/counts"))) if s.kind == "zone"]
    times = {time.seconds: row for time, row in csv.items() if time}
    assert tree
    assert all(s.time and s.time.clock is Clock.LOCAL for s in tree)
    zone = tree[-1]
    assert zone.time is not None
    assert times[zone.time.seconds] == zone.values


def test_counts_and_rates_of_pmrep_are_told_apart() -> None:
    """Decimals or a fall tell rates, else they are counts."""
    head = 'Time,"mem.vmstat.pgfault","mem.util.free"\n'
    rows = "2026-11-20 10:33:{:02},{},8\n"
    told = {}
    for case, cells in {"counts": (5, 9, 12), "fall": (9, 5, 12), "decimals": ("1.000", "2.000", "3.000")}.items():
        text = head + "".join(rows.format(second, cell) for second, cell in enumerate(cells))
        told[case] = {name for s in samples(of_text("pmrep", text)) for name in s.values if "pgfault" in name}
    rate = {"node_vmstat_pgfault:rate"}
    assert told == {"counts": {"node_vmstat_pgfault"}, "fall": rate, "decimals": rate}


def test_zones_of_pmrep_give_utc() -> None:
    """Of the header, of each row; without one it is a wall clock."""
    row = "2026-11-20 11:33:12{},8\n"
    head = 'Time,"mem.util.free"\n'
    above = of_text("pmrep", f"#     host: web1\n# timezone: UTC+1\n{head}{row.format('')}")
    within = of_text("pmrep", f"Host,Interval,{head}web1,4,{row.format(' UTC+1')}")
    without = of_text("pmrep", head + row.format(""))
    assert [(s.time.seconds, s.time.clock) for s in samples(above) if s.time] == [(1795170792.0, Clock.UTC)]
    assert [s.time for s in samples(within)] == [s.time for s in samples(above)]
    assert [s.time.clock for s in samples(without) if s.time] == [Clock.LOCAL]
    assert [f.value for r in (above, within) for f in r if isinstance(f, Fact)] == ["web1", "web1"]


def test_a_process_of_pcp_has_pid_and_name() -> None:
    """An instance is a pid with leading zeros and the command."""
    found = metric("proc.psinfo.rss", "004711 /usr/bin/java -jar x.jar")
    assert found is not None
    assert (found.entity, found.name, found.factor) == (
        (("pid", "4711"), ("comm", "java")), "process_resident_memory_bytes", 1024,
    )  # fmt: skip


@pytest.mark.parametrize("case", ["pmrep/rates", "pmrep/above", "prometheus/page", "prometheus/dump"])
def test_damaged_text_is_read_or_odd(case: str) -> None:
    """No mutant raises or gives impossible records."""
    data = given(case)
    for seed in range(60):
        damaged = mutant(data, seed)
        found = alone(TEXTS[case.partition("/")[0]], damaged)
        assert list(faults(found, line_count(damaged))) == []


@pytest.mark.parametrize("case", ["pcp2json/rates", "prometheus_json/matrix", "prometheus_json/pretty"])
def test_damaged_json_is_read_or_a_problem(case: str) -> None:
    """No mutant raises or gives impossible records; a cut one says so."""
    data, reader = given(case), TREES[case.partition("/")[0]]
    for seed in range(40):
        damaged = mutant(data, seed)
        found = [r for r in of_bytes(reader, damaged) if not isinstance(r, Foreign)]
        assert list(faults(found, damaged.count(b"\n") + 1)) == []
    assert any(p.kind is ProblemKind.DAMAGED for p in problems(of_bytes(reader, data[: len(data) // 2])))


def archive(file: Path) -> list[Record | Foreign]:
    data = file.read_bytes()
    assert pcp_archive.ARCHIVE_PARSER.claims(file.name, data, len(data))
    return list(
        pcp_archive.ARCHIVE_PARSER.read(Source(file.name, path=file.name), Content(iter((data,)), len(data), file))
    )


@WITH_PMREP
def test_an_archive_is_read_by_pmrep() -> None:
    """The volume gives the rows once; what goes with it tells the host only."""
    rows = samples(archive(ARCHIVE / "web1.0"))
    assert len(rows) >= 4
    assert rows[-1].time is not None
    assert rows[-1].time.clock is Clock.UTC
    assert {"node_vmstat_thp_fault_alloc", "node_cpu_seconds_total.system"} <= set(rows[-1].values)
    for part in ("web1.meta", "web1.index"):
        assert [(r.name, r.value) for r in archive(ARCHIVE / part) if isinstance(r, Fact)] == [("host.name", "web1")]
        assert len(archive(ARCHIVE / part)) == 1


@WITH_PMREP
def test_an_archive_that_is_given_as_a_file_is_read() -> None:
    """The walk gives an open descriptor, from which the others are found."""
    found: list[Record | Foreign] = []
    for member in members([ARCHIVE / "web1.0"], lambda _: True):
        assert not isinstance(member, Problem)
        found += pcp_archive.ARCHIVE_PARSER.read(Source("web1.0"), Content(member.chunks(), member.size, member.file))
    assert values(found) == values(archive(ARCHIVE / "web1.0"))


def test_a_lone_volume_says_what_to_ask_for(tmp_path: Path) -> None:
    """Without the other files nothing is started."""
    shutil.copy(ARCHIVE / "web1.0", tmp_path / "web1.0")
    (problem,) = problems(archive(tmp_path / "web1.0"))
    assert problem.kind is ProblemKind.UNREADABLE
    assert "pmrep -z -a web1 -o csv -t 60 mem.vmstat" in problem.text
