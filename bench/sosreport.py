"""The cost of diagnosing a sosreport, compared with three small rules of insights-core on the same tarball.

Makes a sosreport of this machine with the plugins that every support team asks for (about 4,000 members), puts
insights-core into an environment of its own, and runs the two programs in alternating pairs. The bars: the wall time of
insights-core, 0.2 of its CPU time, and 120 MB. Needs root and `apt install sosreport`.

    python bench/sosreport.py [--pairs 9] [--bundle FILE] [--insights-run PROGRAM]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLUGINS = (
    "memory,kernel,process,processor,system,release,filesys,host,block,cgroups,networking,logs,services,systemd,"
    "hardware,date"
)
WALL_BAR, CPU_BAR = 1.0, 0.2
MEMORY_BAR = 120.0  # MB


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds, and MB at the peak, of a program and its children."""

    wall: float
    cpu: float
    peak: float


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=9)
    options.add_argument("--bundle", type=Path)
    options.add_argument("--insights-run", type=Path)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bundle = chosen.bundle or sosreport(Path(folder) / "sos")
        insights = chosen.insights_run or insights_core(Path(folder) / "insights")
        describe(bundle)
        pairs = measured(bundle, insights, chosen.pairs)
    sys.exit(judged(pairs))


def sosreport(folder: Path) -> Path:
    """Return a tarball that `sos report` makes of this machine."""
    if shutil.which("sos") is None or os.geteuid() != 0:
        sys.exit("bench/sosreport.py needs root and sos (apt install sosreport), or --bundle FILE")
    folder.mkdir()
    command = ["sos", "report", "--batch", "--quiet", "--tmp-dir", str(folder), "-z", "xz", "-o", PLUGINS]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return next(folder.glob("*.tar.xz"))


def insights_core(folder: Path) -> Path:
    """Return the program `insights-run` in an environment of its own."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "insights-core", "setuptools<81"]
    subprocess.run([folder / "bin" / "python", *install], check=True)
    return folder / "bin" / "insights-run"


def describe(bundle: Path) -> None:
    with tarfile.open(bundle) as archive:
        kinds = [member.isfile() for member in archive]
    print(f"sosreport: {len(kinds)} members, {sum(kinds)} files, {bundle.stat().st_size / 1e6:.2f} MB packed")


def measured(bundle: Path, insights: Path, pairs: int) -> list[tuple[Cost, Cost]]:
    """Return costs of (thpdiag, insights-core). The order alternates; the first pair is not counted."""
    ours = [sys.executable, "-m", "thpdiag", "analyze", str(bundle)]
    theirs = [str(insights), "-p", "insights_rules", str(bundle)]
    found = []
    for turn in range(pairs + 1):
        if turn % 2:
            other, own = cost(theirs), cost(ours)
        else:
            own, other = cost(ours), cost(theirs)
        found.append((own, other))
    return found[1:]


def cost(command: list[str]) -> Cost:
    begun = time.perf_counter()
    with subprocess.Popen(
        command, cwd=HERE.parent, env={**os.environ, "PYTHONPATH": str(HERE)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as child:  # fmt: skip
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 5):
        sys.exit(f"{' '.join(command)} left with {child.returncode}")
    return Cost(time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def judged(pairs: list[tuple[Cost, Cost]]) -> bool:
    """Print the medians; return whether a bar was exceeded."""
    for name, costs in (("thpdiag", [p[0] for p in pairs]), ("insights-core", [p[1] for p in pairs])):
        wall, cpu = statistics.median(c.wall for c in costs), statistics.median(c.cpu for c in costs)
        print(f"{name:14} wall {wall:.2f} s  CPU {cpu:.2f} s  peak {max(c.peak for c in costs):.0f} MB")
    wall = statistics.median(own.wall / other.wall for own, other in pairs)
    cpu = statistics.median(own.cpu / other.cpu for own, other in pairs)
    peak = max(own.peak for own, _ in pairs)
    print(
        f"median of {len(pairs)} pairs: wall {wall:.2f}, CPU {cpu:.2f} of insights-core (bars {WALL_BAR}, {CPU_BAR});",
        end=" ",
    )
    print(f"peak {peak:.0f} MB (bar {MEMORY_BAR:.0f} MB)")
    return wall > WALL_BAR or cpu > CPU_BAR or peak > MEMORY_BAR


if __name__ == "__main__":
    main()
