"""The cost of evaluation compared with reading: all shipped rules on two million perf samples and a day of counters.

The input is the large recording of [recording.py](recording.py) and the kernel's symbols, a day of
`vmstat -n -t 1` (86,400 rows) and a day of a loop that prints /proc/vmstat and /proc/buddyinfo every minute. Both steps
are done in one process; CPU seconds, least of several runs.

    python bench/rules.py [--recording FOLDER] [--runs 3]

Needs root and `apt install linux-perf` where no recording is given.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from recording import recorded
from vmstat import numbers
from vmstat import recording as vmstat_text

from thpdiag.engine.load import builtin_rules, load_rules
from thpdiag.host.cases import host_cases
from thpdiag.host.options import Options
from thpdiag.host.reading import read_input
from thpdiag.pipeline import diagnose_case

BAR = 0.3
MINUTES = 24 * 60
SECOND = 1_770_000_000  # of the first snapshot
TOTALS = {  # counter: growth per minute; as many huge faults as a quiet database makes, a few stalls
    "nr_free_pages": 0, "pgalloc_normal": 90_000, "pgfault": 600_000, "pswpin": 0, "pswpout": 0, "allocstall_normal": 0,
    "compact_migrate_scanned": 4_000, "compact_free_scanned": 9_000, "compact_isolated": 700, "compact_stall": 3,
    "compact_fail": 1, "compact_success": 2, "thp_fault_alloc": 700, "thp_fault_fallback": 40, "thp_collapse_alloc": 9,
    "thp_split_page": 1, "numa_pte_updates": 0, "pgmigrate_success": 600,
}  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--recording", type=Path, help="folder of bench/recording.py; made there if it is not")
    options.add_argument("--runs", type=int, default=3)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = recorded(chosen.recording or Path(folder) / "perf")
        vmstat, snapshots = Path(folder) / "vmstat.log", Path(folder) / "loop.log"
        vmstat.write_bytes(vmstat_text(list(numbers()), "UTC"))
        snapshots.write_text("".join(loop()))
        found = [steps([made.data, made.kallsyms, vmstat, snapshots]) for _ in range(chosen.runs)]
    reading, judging = (min(times) for times in zip(*found, strict=True))
    print(f"reading {reading:.2f} s, judging {judging:.2f} s, ratio {judging / reading:.3f}, bar {BAR}")
    sys.exit(judging > BAR * reading)


def loop() -> Iterator[str]:
    """`while sleep 60; do date +%s; cat /proc/vmstat /proc/buddyinfo; done`"""
    for minute in range(MINUTES):
        yield f"{SECOND + 60 * minute}\n"
        yield "".join(f"{name} {1_000_000 + step * minute}\n" for name, step in TOTALS.items())
        yield f"Node 0, zone   Normal {' '.join(str((minute * 7919 + 13) % 900) for _ in range(11))}\n"


def steps(paths: list[Path]) -> tuple[float, float]:
    """Return CPU seconds of reading with symbols and cases, and of all rules with the diagnosis."""
    rules, options = load_rules([builtin_rules()]), Options(strict=True)
    start = time.process_time()
    found = host_cases(read_input(paths, options), options)
    between = time.process_time()
    for case in found:
        diagnose_case(case, rules, options)
    return between - start, time.process_time() - between


if __name__ == "__main__":
    main()
