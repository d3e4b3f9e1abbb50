"""MongoDB's diagnostic data, its log and its own status."""

from __future__ import annotations

from ftdc_files import bson, chunk, metadata
from parse_bytes import readings
from thpdiag.model import Citation, Fact, Problem, Record, Sample, Series
from thpdiag.model.parser import Content, Source
from thpdiag.parsers.mongodb_ftdc import BULK_PARSER

START = 1_722_938_400_000


def sample(second: int) -> dict[str, object]:
    """A second of a host, whose kernel time grows by a CPU and a half, and of mongod."""
    return {
        "start": START + 1000 * second,
        "serverStatus": {
            "start": START + 1000 * second,
            "host": "node1:27017",
            "uptime": 86400.5 + second,
            "oplog": (7, START // 1000),
            "extra_info": {"user_time_us": 9_000_000, "system_time_us": 1_000_000 * second, "page_faults": 4},
            "mem": {"bits": 64, "resident": 39874 + (second > 2), "supported": True},
        },
        "systemMetrics": {
            "cpu": {"user_ms": 5000, "system_ms": 7000 + 1500 * second, "idle_ms": 90_000 - 10 * (second // 3)},
            "memory": {"MemTotal_kb": 65_536_000, "MemFree_kb": 1000 - 300 * second, "AnonHugePages_kb": 2048},
        },
        "end": START + 1000 * second,
    }


def read(data: bytes) -> list[Record]:
    return list(BULK_PARSER.read(Source("metrics.1"), Content(iter([data[:50], data[50:]]))))  # type: ignore[arg-type]


def test_each_number_has_its_differences() -> None:
    """Falling values, runs of zeros over the end of a number, doubles and timestamps between them."""
    seconds = range(3)
    series = [r for r in read(metadata("node1", "7.0.12", "5.15.0", START) + chunk([sample(s) for s in seconds]))]
    facts = {r.name: r.value for r in series if isinstance(r, Fact)}
    assert facts == {"app.version": "7.0.12", "kernel.release": "5.15.0", "host.name": "node1"}
    host, mongod = (r for r in series if isinstance(r, Series))
    assert host.values["node_cpu_seconds_total.system"].tolist() == [7.0, 8.5, 10.0]
    assert host.values["node_memory_MemFree_bytes"].tolist() == [1000 * 1024, 700 * 1024, 400 * 1024]
    assert host.seconds is not None
    assert host.seconds.tolist() == [START / 1000 + s for s in seconds]
    assert mongod.values["process_cpu_seconds_total.system"].tolist() == [0.0, 1.0, 2.0]
    assert mongod.values["process_resident_memory_bytes"].tolist() == [39874 * 2**20] * 3


def test_a_file_that_is_cut_keeps_its_chunks() -> None:
    """And a Problem says that it is cut, and what to send instead."""
    data = metadata("3f2a9c0d1b7e", "7.0.12", "5.15.0", START) + chunk([sample(0), sample(1)])
    found = read(data + chunk([sample(2), sample(3)])[:-9])
    assert [len(r) for r in found if isinstance(r, Series)] == [2, 2]
    assert [r.cite for r in found if isinstance(r, Problem)] == [Citation("metrics.1", 3)]
    assert not [r for r in found if isinstance(r, Fact) and r.name == "host.name"]  # an id of a container


def test_a_chunk_of_other_numbers_is_damaged() -> None:
    """The count that it names is not that of its first sample."""
    whole = chunk([sample(0), sample(1)])
    broken = bson({"_id": START, "type": 1, "data": b"\0\0\0\0" + b"no zlib"})
    assert [type(r) for r in read(whole + broken)] == [Problem, Series, Series]


def test_statuses_of_one_server_in_one_line_each() -> None:
    """As a loop appends them."""
    line = '{"host":"node1","version":"8.0.4","process":"mongod","pid":%d,"mem":{"resident":%d}}\n'
    rows = [r.record for r in readings((line % (7, 1) + line % (7, 2)).encode(), "status.json")]
    assert [r.values for r in rows if isinstance(r, Sample)] == [
        {"process_resident_memory_bytes": size * 2**20} for size in (1, 2)
    ]
