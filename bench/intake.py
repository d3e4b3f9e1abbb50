"""The cost of intake compared with decompression alone.

Builds a bundle as sos does (its order of members, Python's tarfile, xz preset 3): 20,000 members, 64 MB of content.
Then measures in alternating pairs the CPU seconds of a process that walks it, with nothing and with 500 members
wanted, and of `xz -dc | wc -c`. The bar is 1.10 for the median of the pairs; the start of the interpreter and its
imports are counted, and given apart.

Last, `thpdiag analyze` on an archive of 300,000 empty members compared with `tar -t`: at most 3 times its CPU, 120 MB,
and a document of less than 2 MB.

    python bench/intake.py [--pairs 15]
"""

from __future__ import annotations

import argparse
import io
import random
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

MEMBERS = 20_000
CONTENT = 64_000_000
WANTED = 500
BAR = 1.10
EMPTY, EMPTY_BAR, EMPTY_MEMORY, MAX_DOCUMENT = 300_000, 3.0, 120.0, 2.0  # members, times `tar -tz`, MB, MB
ANALYZE = """
import sys
from thpdiag.cli import main
try:
    main()
except SystemExit:
    pass
from pathlib import Path
print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0], file=sys.stderr)
"""
ROOT = "sosreport-host0-2024-05-14-abcdefg"
WALK = """
import sys
from pathlib import Path
from thpdiag.bundle import Member, members
wants, wanted = frozenset(sys.argv[2:]), 0
for found in members([Path(sys.argv[1])], wants.__contains__):
    assert isinstance(found, Member), found
    wanted += 1
    for line in found.lines():
        pass
assert wanted == len(wants), wanted
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=15)
    pairs = options.parse_args().pairs
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle.tar.xz"
        build(bundle)
        print(f"{MEMBERS} members, {CONTENT / 1e6:.0f} MB of content, {bundle.stat().st_size / 1e6:.1f} MB packed")
        failed = False
        some = [f"{ROOT}/{path}" for path in paths()[:: MEMBERS // WANTED]]
        for label, wanted in (("nothing wanted", []), (f"{len(some)} wanted", some)):
            walk = [sys.executable, "-c", WALK, str(bundle), *wanted]
            floor = ["sh", "-c", f"xz -dc '{bundle}' | wc -c"]
            start = statistics.median(cpu([sys.executable, "-c", "import thpdiag.bundle"]) for _ in range(5))
            measured = [(cpu(walk), cpu(floor)) for _ in range(pairs)]
            ratio = statistics.median(a / b for a, b in measured)
            bare = statistics.median((a - start) / b for a, b in measured)
            floor_s = statistics.median(b for _, b in measured)
            print(
                f"{label}: {ratio:.3f} of xz ({floor_s:.3f} s); without start-up ({start:.3f} s) {bare:.3f}; bar {BAR}"
            )
            failed = failed or bare > BAR
            memory = int(subprocess.run(walk, check=True, capture_output=True).stdout)
        print(f"peak memory of the walk: {memory / 1024:.0f} MB")
        failed = many_empty_members(Path(folder), pairs) or failed
    sys.exit(failed)


def many_empty_members(folder: Path, pairs: int) -> bool:
    """Return whether a bar is exceeded."""
    archive, document = folder / "many.tar.gz", folder / "many.json"
    with tarfile.open(archive, "w:gz") as tar:
        for number in range(EMPTY):
            tar.addfile(tarfile.TarInfo(f"d{number % 1000}/file{number}.txt"))
    analyze = f"exec '{sys.executable}' -c \"{ANALYZE}\" analyze '{archive}' -o 'json={document}' --no-progress"
    measured = [(cpu(["sh", "-c", analyze]), cpu(["tar", "-tzf", str(archive)])) for _ in range(pairs)]
    ratio = statistics.median(a / b for a, b in measured)
    peak = int(subprocess.run(["sh", "-c", analyze], check=True, capture_output=True).stderr.split()[-1]) / 1024
    size = document.stat().st_size / 1e6
    print(f"{EMPTY} empty members: {ratio:.2f} of tar -tz, {peak:.0f} MB, document of {size:.2f} MB")
    return ratio > EMPTY_BAR or peak > EMPTY_MEMORY or size > MAX_DOCUMENT


def cpu(command: list[str]) -> float:
    """Return CPU seconds of the command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def build(bundle: Path) -> None:
    chance = random.Random(20_000)
    with tarfile.open(bundle, "w:xz", preset=3) as tar:
        for path, size in sizes(chance, paths()):
            info = tarfile.TarInfo(f"{ROOT}/{path}")
            info.size, info.mtime = size, 1_715_670_000 + chance.random() * 3600  # type: ignore[assignment]
            tar.addfile(info, io.BytesIO(content(chance, size)))
        for link, target in (("free", "sos_commands/memory/free"), ("uptime", "sos_commands/host/uptime")):
            info = tarfile.TarInfo(f"{ROOT}/{link}")
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)


def paths() -> list[str]:
    """Yield version.txt and the two leading folders, then the tree in sorted order, as sos packs it."""
    tree = [
        f"etc/{part}.d/{number:03}-{part}.conf"
        for part in ("pki", "profile", "selinux", "tuned")
        for number in range(300)
    ]
    tree += [f"proc/{pid}/{file}" for pid in range(1, 1_500) for file in ("cmdline", "smaps", "stack", "status")]
    tree += [
        f"sos_commands/{name}/{name}_-{option}"
        for name in ("block", "kernel", "memory", "process")
        for option in range(250)
    ]
    tree += [
        f"sys/class/net/eth{number}/statistics/{kind}_{what}"
        for number in range(200)
        for kind in ("rx", "tx")
        for what in ("bytes", "dropped", "errors", "packets")
    ]
    tree += [
        f"sys/devices/system/cpu/cpu{cpu}/{file}"
        for cpu in range(256)
        for file in ("topology/core_id", "topology/package_cpus", "cache/index0/size", "cpufreq/scaling_governor")
    ]
    tree += [
        f"var/log/{name}/{name}.log.{number}" for name in ("audit", "httpd", "journal", "sa") for number in range(50)
    ]
    rest = MEMBERS - len(tree) - 42
    tree += [f"usr/lib/modules/5.14.0/kernel/drivers/module{number:05}/modinfo" for number in range(rest)]
    first = ["version.txt", "sos_reports/manifest.json"] + [f"sos_logs/{number:02}.log" for number in range(40)]
    return first + sorted(tree)


def sizes(chance: random.Random, names: list[str]) -> list[tuple[str, int]]:
    """Return sizes that sum to CONTENT bytes: most members are tiny, logs are large."""
    raw = [chance.paretovariate(1.1) * (3000 if name.startswith("var/log") else 40) for name in names]
    raw = [min(size, 200_000.0) for size in raw]
    share = CONTENT / sum(raw)
    return [(name, int(size * share)) for name, size in zip(names, raw, strict=True)]


WORDS = [
    "kernel:",
    "khugepaged",
    "systemd[1]:",
    "Started",
    "session",
    "0x0000",
    "eth0",
    "audit",
    "type=SYSCALL",
    "exit=0",
    "comm=java",
]


def content(chance: random.Random, size: int) -> bytes:
    """Return log-like text that compresses about 5 to 1."""
    lines: list[str] = []
    length = 0
    while length < size:
        time = f"{chance.randrange(60):02}:{chance.randrange(60):02}"
        line = f"May 14 07:{time} host0 {' '.join(chance.choices(WORDS, k=6))}"
        line += f" {chance.getrandbits(40):x} {chance.randrange(100000)}\n"
        lines.append(line)
        length += len(line)
    return "".join(lines)[:size].encode()


if __name__ == "__main__":
    main()
