"""What thousands of processes cost: `thpdiag analyze` of `top -b`, 30 frames, from 50 to 20,000 processes.

The texts are made, the same from run to run: half of the processes grow, one kernel thread works. Prints CPU seconds
and memory at the peak, and the exponent with which the time above that of an empty start grows from 500 processes on.

    python bench/processes.py [--most 20000] [--runs 3]
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cost import Cost, cost

COUNTS = (50, 500, 2_000, 20_000)
BARS = {2_000: Cost(math.inf, 2.5, math.inf), 20_000: Cost(math.inf, math.inf, 400)}
MOST_EXPONENT = 1.1
FRAMES = 30
NAMES = ("java", "postgres", "nginx", "python3", "kworker/0:1", "redis-server", "mysqld", "sshd", "node", "bash")


def frames(processes: int) -> Iterator[str]:
    """The lines of `top -b -n 30 -d 2`."""
    dice = random.Random(5)
    sizes = [(1_000 + at, dice.choice(NAMES), dice.randint(10_000, 4_000_000)) for at in range(processes)]
    for frame in range(FRAMES):
        second = 36_000 + 2 * frame
        clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        yield f"top - {clock} up 12 days,  3:04,  2 users,  load average: 4.21, 3.80, 3.11"
        yield f"Tasks: {processes} total,   3 running, {processes - 3} sleeping,   0 stopped,   0 zombie"
        yield "%Cpu(s): 12.4 us, 18.2 sy,  0.0 ni, 69.0 id,  0.2 wa,  0.0 hi,  0.2 si,  0.0 st"
        yield "MiB Mem :  64211.0 total,   2112.3 free,  40111.2 used,  21987.5 buff/cache"
        yield "MiB Swap:      0.0 total,      0.0 free,      0.0 used.  22101.1 avail Mem "
        yield ""
        yield "    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND"
        busy = f"{dice.uniform(20, 60):4.1f}"
        yield f"     45 root      20   0       0      0      0 R  {busy}   0.0  99:12.{frame:02d} kcompactd0"
        for pid, name, size in sizes:
            resident = size + (frame * 100 if pid % 2 else 0) + dice.randint(0, 2_000)
            yield (
                f"{pid:7d} app       20   0 {size * 3:8d} {resident:7d}   8000 S {dice.random() * 3:5.1f} "
                f"{size / 65_000_000:5.1%}".replace("%", "")
                + f" {frame:3d}:12.{frame:02d} {name}"
            )
        yield ""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--most", type=int, default=COUNTS[-1], help="processes")
    options.add_argument("--runs", type=int, default=3)
    given = options.parse_args()
    costs: dict[int, Cost] = {}
    with tempfile.TemporaryDirectory() as folder:
        text, result = Path(folder, "top.txt"), Path(folder, "result.json")
        command = [sys.executable, "-m", "thpdiag", "analyze", str(text), "-o", f"json={result}", "--no-progress"]
        for count in (0, *(one for one in COUNTS if one <= given.most)):
            text.write_text("\n".join(frames(max(count, 3))))
            runs = [cost(command) for _ in range(given.runs)]
            costs[count] = min(runs, key=lambda run: run.cpu)
            print(
                f"{max(count, 3):6d} processes: {costs[count].cpu:6.2f} s of CPU, {costs[count].peak:4.0f} MB",
                flush=True,
            )
    missed = [count for count, bar in BARS.items() if count in costs and
              (costs[count].cpu > bar.cpu or costs[count].peak > bar.peak)]  # fmt: skip
    exponent = 1.0
    if len(large := [count for count in costs if count >= COUNTS[1]]) > 1:
        above = [costs[count].cpu - costs[0].cpu for count in (large[0], large[-1])]
        exponent = math.log(above[1] / above[0]) / math.log(large[-1] / large[0])
        print(f"the time above the start grows with the {exponent:.2f}th power of the processes (bar {MOST_EXPONENT})")
    sys.exit(1 if missed or exponent > MOST_EXPONENT else 0)


if __name__ == "__main__":
    main()
