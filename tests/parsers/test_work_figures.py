"""What load generators print, as they printed it: rates and latencies with their units."""

from __future__ import annotations

import re

import pytest

from thpdiag.knowledge.workloads import work_lines
from thpdiag.knowledge.yaml_nodes import load_shipped
from thpdiag.model import Fact
from thpdiag.model.parser import Source
from thpdiag.parsers.work import WORK_FIGURES

FIO = """t: (groupid=0, jobs=1): err= 0: pid=941: Fri Nov 27 04:11:08 2026
  write: IOPS=54.4k, BW=213MiB/s (223MB/s)(638MiB/3002msec); 0 zone resets
    clat (nsec): min=1412, max=20080k, avg=11914.10, stdev=312225.15
     lat (nsec): min=1462, max=20080k, avg=12083.69, stdev=313547.23
    clat percentiles (nsec):
     |  1.00th=[    1928],  5.00th=[    2288], 10.00th=[    2736],
     | 50.00th=[    2992], 60.00th=[    3056], 70.00th=[    3184],
     | 80.00th=[    3536], 90.00th=[    4016], 95.00th=[    4768],
     | 99.00th=[    7136], 99.50th=[    8896], 99.90th=[   94720],
  lat (usec)   : 2=1.62%, 4=88.04%, 10=9.90%, 20=0.14%, 50=0.17%

Run status group 0 (all jobs):
  WRITE: bw=213MiB/s (223MB/s), 213MiB/s-213MiB/s (223MB/s-223MB/s), io=638MiB (669MB), run=3002-3002msec
"""
SYSBENCH = """CPU speed:
    events per second:  2264.33

General statistics:
    total time:                          3.0068s
    total number of events:              6810

Latency (ms):
         min:                                    0.22
         avg:                                    0.44
         max:                                   20.41
         95th percentile:                        0.38
         sum:                                 2999.76
"""
REDIS = """Summary:
  throughput summary: 18298.26 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        2.051     0.128     1.023     6.471     9.079    14.039
"""
PGBENCH = """number of transactions actually processed: 843
number of failed transactions: 0 (0.000%)
duration: 3 s
latency average = 7.104 ms
initial connection time = 21.065 ms
tps = 281.537173 (without initial connection time)
"""
PRINTED = {
    "fio": (FIO, {"requests": 54400, "mean": 12.08369e-6, "p50": 2.992e-6, "p95": 4.768e-6, "p99": 7.136e-6}, 3.002),
    "sysbench": (SYSBENCH, {"events": 2264.33, "mean": 0.44e-3, "p95": 0.38e-3}, 3.0068),
    "redis-benchmark": (
        REDIS, {"requests": 18298.26, "mean": 2.051e-3, "p50": 1.023e-3, "p95": 6.471e-3, "p99": 9.079e-3}, None
    ),
    "pgbench": (PGBENCH, {"mean": 7.104e-3, "transactions": 281.537173}, 3),
}  # fmt: skip


@pytest.mark.parametrize("tool", PRINTED)
def test_what_a_load_generator_prints(tool: str) -> None:
    """Rates per second, latencies in seconds, and how long it was measured. Recorded with fio 3.33, sysbench 1.0.20,
    redis-benchmark 7.0.15 and pgbench 15.18."""
    text, expected, lasted = PRINTED[tool]
    lines = iter(enumerate(text.splitlines(), 1))
    records = WORK_FIGURES.read(Source("member", command=f"{tool} test"), lines)
    facts = [fact for fact in records if isinstance(fact, Fact)]
    assert {fact.label("kind"): fact.value for fact in facts} == pytest.approx(expected)
    assert {fact.label("tool") for fact in facts} == {tool}
    assert {float(fact.label("lasted") or 0) or None for fact in facts} == {lasted}


def test_every_unit_in_a_pattern_has_a_value() -> None:
    """Else the first such line would end the reading."""
    for row in load_shipped("workloads.yaml")["figures"]:
        for group in re.findall(r"\(\?P<unit>([^()\[\]]+)\)", row["line"]):
            units = {form for unit in group.split("|") for form in (unit.replace("s?", "s"), unit.replace("s?", ""))}
            assert units <= set(work_lines().units), row["line"]
