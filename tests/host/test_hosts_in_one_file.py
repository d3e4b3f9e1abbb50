"""Recordings of several hosts appended to each other, or row by row in turn: each host keeps its own rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from analyze_bytes import document
from thpdiag.host.options import Options
from thpdiag.host.reading import read_input
from thpdiag.model import Sample, Series


def of_hosts(path: Path, metric: str) -> dict[str, set[float]]:
    """The values of a metric by the host that they are of."""
    found: dict[str, set[float]] = defaultdict(set)
    for readings in read_input([path], Options(strict=True)).readings.values():
        for reading in readings:
            rows: Iterable[Sample] = ()
            if isinstance(reading.record, (Sample, Series)):
                rows = reading.record if isinstance(reading.record, Series) else (reading.record,)
            found[reading.group[1]] |= {row.values[metric] for row in rows if metric in row.values}
    return {host: values for host, values in found.items() if values}


def sar(host: str, load: float, rows: int) -> str:
    """A day of sar -q."""
    first = f"Linux 5.14.0 ({host}) \t2026-11-20 \t_x86_64_\t(2 CPU)\n\n"
    head = "00:00:01      runq-sz  plist-sz   ldavg-1   ldavg-5  ldavg-15   blocked\n"
    times = (f"{i // 60:02}:{i % 60:02}:01" for i in range(1, rows + 1))
    return (
        first
        + head
        + "".join(f"{t}            1       100      {load:.2f}      1.00      1.00         0\n" for t in times)
    )


def sadf_d(host: str, load: float, rows: int) -> str:
    """The same with sadf -d."""
    head = "# hostname;interval;timestamp;runq-sz;plist-sz;ldavg-1;ldavg-5;ldavg-15;blocked\n"
    times = (f"2026-11-20 {i // 60:02}:{i % 60:02}:01 UTC" for i in range(1, rows + 1))
    return head + "".join(f"{host};60;{t};1;100;{load:.2f};1.00;1.00;0\n" for t in times)


def sadf_p(host: str, load: float, rows: int) -> str:
    """The same with sadf -p."""
    times = (f"2026-11-20 {i // 60:02}:{i % 60:02}:01 UTC" for i in range(1, rows + 1))
    return "".join(f"{host}\t60\t{t}\t-\trunq-sz\t1\n{host}\t60\t{t}\t-\tldavg-1\t{load:.2f}\n" for t in times)


def sadf_j(host: str, load: float, rows: int) -> str:
    """The same with sadf -j."""
    times = (f'{{"date": "2026-11-20", "time": "{i // 60:02}:{i % 60:02}:01", "utc": 1}}' for i in range(1, rows + 1))
    each = ",\n".join(f'{{"timestamp": {t}, "queue": {{"runq-sz": 1, "ldavg-1": {load:.2f}}}}}' for t in times)
    return f'{{"sysstat": {{"hosts": [\n{{"nodename": "{host}", "statistics": [\n{each}\n]}}]}}}}\n'


def atop_p(host: str, load: float, rows: int) -> str:
    """The same with atop -P CPL."""
    times = (1795174000 + 60 * i for i in range(rows))
    return "RESET\n" + "".join(
        f"CPL {host} {t} 2026/11/20 11:00:00 60 2 {load:.2f} 1.00 1.00 9 9\nSEP\n" for t in times
    )


def collectl(host: str, load: float, rows: int) -> str:
    """The same with collectl --verbose."""
    names = "# User  Nice   Sys  Wait   IRQ  Soft Steal  Idle  CPUs  Intr  Ctxsw  Proc  RunQ   Run   Avg1  Avg5"
    row = f"     1     0     2     0     0     0     0    97     2   374    206     0   104     1   {load:.2f}  0.77"
    return "".join(
        f"### RECORD {i:4} >>> {host} <<< ({1795154603 + i}.001) (Fri Nov 20 06:03:23 2026) ###\n\n"
        f"# CPU SUMMARY (INTR, CTXSW & PROC /sec)\n{names}\n{row}\n\n"
        for i in range(rows)
    )


@pytest.mark.parametrize("rows", [3, 2500])
@pytest.mark.parametrize("form", [sar, sadf_d, sadf_p, sadf_j, atop_p, collectl])
def test_appended_files(form: Callable[[str, float, int], str], rows: int, tmp_path: Path) -> None:
    """What stands under one host's name is that host's, however long the file and whichever way it is read."""
    path = tmp_path / "all.txt"
    path.write_text(form("node1", 1.5, min(rows, 1400)) + form("node2", 7.5, min(rows, 1400)), encoding="utf-8")
    assert of_hosts(path, "node_load1") == {"node1": {1.5}, "node2": {7.5}}


def test_rows_in_turn(tmp_path: Path) -> None:
    """A fleet's rows sorted by time go to their hosts too."""
    rows = [line for pair in zip(sadf_d("node1", 1.5, 1400).splitlines(), sadf_d("node2", 7.5, 1400).splitlines(),
                                 strict=True) for line in pair]  # fmt: skip
    path = tmp_path / "fleet.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert of_hosts(path, "node_load1") == {"node1": {1.5}, "node2": {7.5}}


NMON = """AAA,progname,nmon
AAA,version,16n
AAA,host,{host}
AAA,time,09:54.10
AAA,date,{day}-NOV-2026
AAA,interval,10
VM,Paging and Virtual Memory,pgfault,pgmajfault
ZZZZ,T0001,09:54:10,{day}-NOV-2026
VM,T0001,100,1
ZZZZ,T0002,09:54:20,{day}-NOV-2026
VM,T0002,{faults},1
ZZZZ,T0003,09:54:30,{day}-NOV-2026
VM,T0003,{faults},1
"""


def test_nmon_files_appended(tmp_path: Path) -> None:
    """Snapshots of the second file have the numbers of the first one's, and neither its times nor its host."""
    path = tmp_path / "all.nmon"
    one, other = NMON.format(host="node1", day=19, faults=500), NMON.format(host="node2", day=20, faults=900)
    path.write_text(one + other, encoding="utf-8")
    found = read_input([path], Options(strict=True)).readings["all.nmon"]
    times = {r.group[1]: r.record.time for r in found if isinstance(r.record, Sample) and r.record.time}
    assert of_hosts(path, "node_vmstat_pgfault:rate") == {"node1": {50.0}, "node2": {90.0}}
    assert times["node2"].seconds - times["node1"].seconds == 86400


def test_a_prompt_that_names_another_host_than_a_header_is_told() -> None:
    """The reason why one text is two cases."""
    text = (
        "root@db7:~# vmstat 1 2\n"
        " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
        "31  0      0 812344  10240 204800    0    0     0    12 9000 4000 20 78  2  0  0\n"
        "root@db7:~# mpstat 1 1\n"
        "Linux 4.18.0-372.el8.x86_64 (web1) \t11/20/2026 \t_x86_64_\t(2 CPU)\n\n"
        "03:35:43 AM  CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n"
        "03:35:44 AM  all    1.00    0.00    2.00    0.00    0.00    0.00    0.00    0.00    0.00   97.00\n"
    )
    result = document(text.encode())
    assert {case["case"] for case in result["cases"]} == {"db7", "web1"}
    assert any("db7" in note["text"] and "web1" in note["text"] for note in result["cases"][0]["notes"])
