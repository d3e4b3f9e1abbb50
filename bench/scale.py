"""How the cost grows with processes, samples, rules and bundles: CPU seconds, peak memory and fitted exponents.

    processes   `analyze` of `top -b`, 30 frames, 50 to 20,000 processes; half of them grow, one kernel thread works
    samples     `analyze` of `vmstat -t 1`, a minute to a week
    rules       `analyze` of a story with copies of the shipped rules under ids of their own (`rules_load.py`)
    bundles     `triage` of a folder of small archives, its store and report included: wall seconds, for a fork server
                is waited for by nobody

The texts are made, the same from run to run. The exponent is that of the time above the start of the program, between
the two largest of an axis.

    python bench/scale.py [--axis processes ...] [--most 20000] [--runs 3]
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

from cost import Cost, cost
from rules_load import copies, whole_rounds

MOST_EXPONENT = 1.1
FRAMES = 30
STORY = Path(__file__).parents[1] / "fixtures" / "stories" / "hadoop-centos62" / "bundle"
NAMES = ("java", "postgres", "nginx", "python3", "kworker/0:1", "redis-server", "mysqld", "sshd", "node", "bash")


def frames(processes: int) -> Iterator[str]:
    """Yield the lines of `top -b -n 30 -d 2`."""
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


def vmstat(seconds: int) -> Iterator[str]:
    """Yield the lines of `vmstat -t 1`: memory runs low and recovers every ten minutes."""
    dice = random.Random(5)
    start = datetime(2026, 3, 2, tzinfo=UTC)
    yield "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----"
    yield " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC"
    for at in range(seconds):
        free, system = 4_000_000 - 6_000 * (at % 600), dice.randint(2, 30)
        yield (
            f"{dice.randint(0, 9):2d}  0      0 {free:6d} 120000 9000000    0    0 {dice.randint(0, 900):5d}"
            f" {dice.randint(0, 900):5d} {dice.randint(1000, 9000):4d} {dice.randint(1000, 9000):4d} 12 {system:2d}"
            f" {88 - system:2d}  0  0 {start + timedelta(seconds=at):%Y-%m-%d %H:%M:%S}"
        )


def of_processes(folder: Path, count: int) -> list[str]:
    """Return the command for this many of an axis, after writing its input to the folder; likewise below."""
    return _analyze(folder, frames(count))


def of_samples(folder: Path, count: int) -> list[str]:
    return _analyze(folder, vmstat(count))


def of_rules(folder: Path, count: int) -> list[str]:
    (rules := folder / "rules").mkdir()
    copies(rules, whole_rounds(count))
    for cases in rules.glob("*.cases.yaml"):
        cases.unlink()
    return [*_of(folder, STORY), "--rules", str(rules)]


def of_bundles(folder: Path, count: int) -> list[str]:
    (bundles := folder / "bundles").mkdir()
    for at in range(count):
        data = "\n".join([f"[root@host{at:05} ~]# vmstat -t 1", *vmstat(60), ""]).encode()
        with tarfile.open(bundles / f"{at:05}.tar.gz", "w:gz") as bundle:
            member = tarfile.TarInfo("vmstat.txt")
            member.size = len(data)
            bundle.addfile(member, BytesIO(data))
    options = ["--out-dir", str(folder / "results"), "--progress", "no", "-j", "2"]
    return [sys.executable, "-m", "thpdiag", "triage", "run", str(bundles), *options]


def _analyze(folder: Path, lines: Iterable[str]) -> list[str]:
    text = folder / "input.txt"
    with text.open("w") as file:  # line by line: the peak of a child includes the memory of its parent
        file.writelines(f"{line}\n" for line in lines)
    return _of(folder, text)


def _of(folder: Path, path: Path) -> list[str]:
    out = f"json={folder / 'result.json'}"
    return [sys.executable, "-m", "thpdiag", "analyze", str(path), "-o", out, "--no-progress"]


@dataclass(frozen=True)
class Axis:
    """A quantity that grows, and its expected cost; `start` has next to nothing of it."""

    command: Callable[[Path, int], list[str]]
    start: int
    counts: Sequence[int]
    bars: Mapping[int, Cost]
    figure: str = "cpu"


AXES = {
    "processes": Axis(of_processes, 3, (50, 500, 2_000, 20_000),
                      {2_000: Cost(math.inf, 2.5, math.inf), 20_000: Cost(math.inf, math.inf, 400)}),
    "samples": Axis(of_samples, 60, (600, 3_600, 86_400, 604_800), {}),
    "rules": Axis(of_rules, 0, (166, 1_000, 10_000), {10_000: Cost(math.inf, 5, math.inf)}),
    "bundles": Axis(of_bundles, 1, (100, 1_000, 10_000), {}, "wall"),
}  # fmt: skip


def measure(name: str, most: int, runs: int) -> bool:
    """Print a line per count and the exponent; return whether a bar is exceeded."""
    axis, costs = AXES[name], dict[int, Cost]()

    def seconds(one: Cost) -> float:
        used: float = getattr(one, axis.figure)
        return used

    for count in (axis.start, *(one for one in axis.counts if one <= most)):
        found = []
        for _ in range(runs):
            with tempfile.TemporaryDirectory() as folder:
                found.append(cost(axis.command(Path(folder), count), keep=(0, 5)))
        costs[count] = best = min(found, key=seconds)
        print(f"{count:7d} {name}: {seconds(best):7.2f} s ({axis.figure}), {best.peak:4.0f} MB", flush=True)
    missed = [
        count for count, bar in axis.bars.items()
        if count in costs and (costs[count].cpu > bar.cpu or costs[count].peak > bar.peak)
    ]  # fmt: skip
    large = list(costs)[-2:]
    if len(costs) < 3:
        return bool(missed)
    first, last = (seconds(costs[count]) - seconds(costs[axis.start]) for count in large)
    exponent = math.log(last / first) / math.log(large[-1] / large[0])
    print(f"the time above the start grows with the {exponent:.2f}th power of the {name} (bar {MOST_EXPONENT})")
    return bool(missed) or exponent > MOST_EXPONENT


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--axis", action="append", choices=list(AXES), help="all of them, if none is named")
    options.add_argument("--most", type=int, default=10**9, help="of what grows")
    options.add_argument("--runs", type=int, default=3)
    given = options.parse_args()
    missed = [name for name in given.axis or AXES if measure(name, given.most, given.runs)]
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
