"""What diagnosing a large unpacked sosreport costs beside hotsos on the same tree.

Makes a sosreport of this machine, unpacks it and fills it up to 78,000 files and 300 MB on disk with what the largest
reports hold: copies of /sys and of /proc/PID, and rotated logs. hotsos goes into an environment of its own. Both are
run in alternating pairs on the whole tree, thpdiag with all rules, hotsos with all of its plugins. The bars: 0.15 of
hotsos' CPU time, 250 MB. Needs root and `apt install sosreport`, or --tree FOLDER.

    python bench/unpacked_sosreport.py [--pairs 5] [--tree FOLDER] [--hotsos PROGRAM]
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from cost import in_turn, ratio
from sosreport import sosreport

FILES = 78_000
LOGS = 24 * 2**20  # bytes in logs; most of the 300 MB is the rest of the last block of many small files
RATIO_BAR = 0.15
MEMORY_BAR = 250.0  # MB
WORDS = "kernel systemd sshd session opened closed for user root device state link eth0 started stopped unit"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=5)
    options.add_argument("--tree", type=Path)
    options.add_argument("--hotsos", type=Path)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = chosen.tree or unpacked(Path(folder) / "sos")
        hotsos = chosen.hotsos or installed(Path(folder) / "hotsos")
        describe(tree)
        ours = [sys.executable, "-m", "thpdiag", "analyze", str(tree)]
        pairs = in_turn(ours, [str(hotsos), str(tree)], chosen.pairs, keep=(0, 5))
    missed = ratio("unpacked sosreport, thpdiag / hotsos", pairs, RATIO_BAR)
    peak = max(own.peak for own, _ in pairs)
    print(f"peak {peak:.0f} MB (bar {MEMORY_BAR:.0f} MB), hotsos {max(other.peak for _, other in pairs):.0f} MB")
    sys.exit(missed or peak > MEMORY_BAR)


def unpacked(folder: Path) -> Path:
    """A sosreport of this machine as a folder, with as many further files as are missing."""
    archive = sosreport(folder)
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="tar")
    tree = next(path for path in folder.iterdir() if path.is_dir())
    present = sum(1 for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    for name, text in islice(further(), FILES - present):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    return tree


def further() -> Iterator[tuple[str, str]]:
    """Logs first, then processes and devices without end."""
    dice = random.Random(4)
    for number in range(1, 13):
        yield f"var/log/syslog.{number}", "".join(log_lines(dice, LOGS // 12))
    for pid in range(100_000, 103_000):
        for name in ("status", "stat", "limits", "cgroup", "mountinfo", "environ", "numa_maps", "oom_score"):
            yield f"proc/{pid}/{name}", process_text(name, pid)
    for device in range(10**6):
        base = f"sys/devices/pci0000:00/0000:00:{device % 32:02x}.0/virtio{device // 32}"
        for name in (
            "vendor",
            "device",
            "status",
            "modalias",
            "uevent",
            "features",
            "power/control",
            "queue/nr_requests",
        ):
            yield f"{base}/{name}", f"0x{device:04x}\n"


def log_lines(dice: random.Random, size: int) -> Iterator[str]:
    words, written = WORDS.split(), 0
    while written < size:
        clock = f"{written // 4000 % 24:02}:{written // 70 % 60:02}:{written % 60:02}"
        line = (
            f"Nov 20 {clock} web1 {dice.choice(words)}[{dice.randrange(30000)}]: {' '.join(dice.choices(words, k=7))}\n"
        )
        written += len(line)
        yield line


def process_text(name: str, pid: int) -> str:
    if name == "stat":
        return f"{pid} (worker) S 1 {pid} {pid} 0 -1 4194560 120 0 0 0 5 7 0 0 20 0 1 0 {pid} 8192000 512 {'0 ' * 28}\n"
    if name == "status":
        return f"Name:\tworker\nState:\tS (sleeping)\nPid:\t{pid}\nVmSize:\t8000 kB\nVmRSS:\t2048 kB\nThreads:\t1\n"
    return f"{name} {pid}\n" * 8


def installed(folder: Path) -> Path:
    """The program `hotsos` in an environment of its own."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "hotsos"]
    subprocess.run([folder / "bin" / "python", *install], check=True)
    return folder / "bin" / "hotsos"


def describe(tree: Path) -> None:
    found = [path.lstat() for path in tree.rglob("*") if path.is_file() and not path.is_symlink()]
    size, blocks = sum(status.st_size for status in found), sum(status.st_blocks * 512 for status in found)
    print(f"tree: {len(found):,} files, {size / 1e6:.0f} MB, {blocks / 1e6:.0f} MB on disk")


if __name__ == "__main__":
    main()
