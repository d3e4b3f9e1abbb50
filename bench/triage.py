"""What a batch costs beside plain loops: throughput of `triage -j 2` and of two processes that call `analyze`.

Makes bundles of 1.5 MB on the spot: one sosreport of this machine with the logs of a server (`host_logs.py`), each copy
with a member of its own, so that no two have the same content. In turn: `thpdiag triage` over a portion with two
processes (results only, no pages), and two processes that each loop over half of the portion with `analyze` and the
rules loaded. Then `triage -j 1` and one such process take turns over a fifth of the bundles, five at a time on one
core, for the CPU time of each (`fed.py`). The bars: at least 0.9 of the loops' bundles per second, at most 10 % more
CPU per bundle. With --hotsos PROGRAM a loop over that program on a few of the bundles, which it reads unpacked, so that
unpacking is a part of it; once as it is called by default, once with all logs. A round should have a hundred bundles or
more, or it measures how programs start.

    python bench/triage.py [--bundles 1000] [--rounds 4] [--bundle FILE] [--hotsos PROGRAM]
"""

from __future__ import annotations

import argparse
import compileall
import io
import json
import lzma
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fed import Fed
from host_logs import logs
from sosreport import sosreport

import thpdiag

LEAST, MOST = 0.9, 1.1
SIZE = 1_500_000  # bytes of a bundle
PRESET = 3  # of xz, as sos packs
FASTER = 10.0  # times than hotsos
FEW = 5  # bundles for hotsos
TURN, TURNS = 5, 4  # bundles of a turn, turns at least
LOOP = """
import json, sys
from pathlib import Path
from thpdiag.analyze import analyze
from thpdiag.engine.rule_set import rule_set
rules = rule_set()
for number, line in enumerate(sys.stdin, 1):
    json.dumps(analyze([Path(line.strip())], rules), default=dict)
    print(number, flush=True)
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bundles", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=4)
    options.add_argument("--bundle", type=Path)
    options.add_argument("--hotsos")
    chosen = options.parse_args()
    compileall.compile_dir(Path(thpdiag.__file__).parent, quiet=1)  # as pip does
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = copies(chosen.bundle or sosreport(folder / "sos"), folder / "in", chosen.bundles)
        print(f"{len(made)} bundles of {made[0].stat().st_size / 1e6:.2f} MB")
        size = len(made) // chosen.rounds
        portions = [made[at : at + size] for at in range(0, size * chosen.rounds, size)]
        missed = throughput(portions, folder)
        missed |= overhead(made[: max(TURN * TURNS, len(made) // 5)], folder)
        if chosen.hotsos:
            missed |= hotsos(chosen.hotsos, made, folder)
    sys.exit(missed)


def copies(bundle: Path, folder: Path, count: int) -> list[Path]:
    """So many archives with what the one has, and a member that no other has; the first part is packed once."""
    folder.mkdir()
    plain = io.BytesIO()
    with tarfile.open(bundle) as source, tarfile.open(fileobj=plain, mode="w") as out:
        root = source.getnames()[0].split("/")[0]
        for member in source:
            out.addfile(member, source.extractfile(member) if member.isreg() else None)
        more = SIZE - len(lzma.compress(plain.getvalue(), preset=PRESET))
        for name, content in logs(more, PRESET).items() if more > 0 else ():
            member = tarfile.TarInfo(f"{root}/{name}")
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
        end = out.offset
    first = lzma.compress(plain.getvalue()[:end], preset=PRESET)
    made = []
    for number in range(count):
        rest = io.BytesIO()
        with tarfile.open(fileobj=rest, mode="w") as out:
            member = tarfile.TarInfo(f"{root}/sos_logs/copy-{number}.txt")
            out.addfile(member, io.BytesIO())
        made.append(folder / f"sosreport-{number:05}.tar.xz")
        made[-1].write_bytes(first + lzma.compress(rest.getvalue()))
    return made


def throughput(portions: Sequence[Sequence[Path]], folder: Path) -> bool:
    """Whether the batch is too slow beside two loops."""
    ratios = []
    for number, portion in enumerate(portions):
        ways: list[Callable[[], object]] = [
            lambda portion=portion, number=number: triage(portion, folder / f"two{number}", 2),
            lambda portion=portion: [run.wait() for run in [loop(portion[0::2]), loop(portion[1::2])]],
        ]
        walls = {}
        for way in (0, 1) if number % 2 else (1, 0):
            in_memory(portion)
            begun = time.perf_counter()
            ways[way]()
            walls[way] = time.perf_counter() - begun
        ratios.append(walls[1] / walls[0])
        print(f"round {number + 1}: triage {walls[0]:.1f} s, loops {walls[1]:.1f} s, {ratios[-1]:.2f}", flush=True)
    ratio = statistics.median(ratios)
    print(f"throughput of triage -j 2 against two loops: {ratio:.2f} (bar {LEAST})")
    return ratio < LEAST


def overhead(bundles: Sequence[Path], folder: Path) -> bool:
    """Whether a bundle costs too much CPU more than in a loop: both have begun, and take turns with a few bundles."""
    command = [sys.executable, "-m", "thpdiag", "triage", "--from", "-", "--out-dir", str(folder / "fed"), "-j", "1"]
    command += ["--pages", "none", "--progress", "json"]
    costs: list[tuple[float, float]] = []
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})  # two cores of a machine that many share are rarely as fast
    with (
        Fed(command, "stderr", lambda line: int(json.loads(line)["done"])) as ours,
        Fed([sys.executable, "-c", LOOP], "stdout", int) as plain,
    ):
        for number, at in enumerate(range(0, len(bundles), TURN)):
            turn = bundles[at : at + TURN]
            in_memory(turn)
            first, second = (one.cost(turn) for one in ((ours, plain) if number % 2 else (plain, ours)))
            costs.append((first, second) if number % 2 else (second, first))
    os.sched_setaffinity(0, cores)
    ours_each, plain_each = (sum(side) / len(side) / TURN for side in zip(*costs[1:], strict=True))
    ratio = ours_each / plain_each
    print(
        f"CPU per bundle: triage {ours_each * 1000:.0f} ms, analyze in one process {plain_each * 1000:.0f} ms, "
        f"{ratio:.2f} (bar {MOST}), over {len(costs) - 1} turns"
    )
    return ratio > MOST


def triage(bundles: Sequence[Path], out_dir: Path, jobs: int) -> None:
    command = [sys.executable, "-m", "thpdiag", "triage", "--from", "-", "--out-dir", str(out_dir), "-j", str(jobs)]
    command += ["--pages", "none", "--progress", "no"]
    subprocess.run(command, input=listed(bundles), check=True, stdout=subprocess.DEVNULL)


def loop(bundles: Sequence[Path]) -> subprocess.Popen[bytes]:
    """A process that loops, on its way."""
    run = subprocess.Popen([sys.executable, "-c", LOOP], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert run.stdin is not None
    run.stdin.write(listed(bundles))
    run.stdin.close()
    return run


def in_memory(bundles: Sequence[Path]) -> None:
    """Who comes first must not be the one that waits for the disk."""
    for path in bundles:
        path.read_bytes()


def listed(bundles: Sequence[Path]) -> bytes:
    return b"".join(os.fsencode(path) + b"\n" for path in bundles)


def hotsos(program: str, bundles: Sequence[Path], folder: Path) -> bool:
    """Whether triage on all bundles is less than ten times faster than a loop over hotsos on a few of them."""
    begun = time.perf_counter()
    triage(bundles, folder / "beside-hotsos", 2)
    ours = (time.perf_counter() - begun) / len(bundles)
    ratios = []
    for options in ((), ("--all-logs",)):
        begun = time.perf_counter()
        for bundle in bundles[:FEW]:
            unpacked = folder / "unpacked" / bundle.name
            unpacked.mkdir(parents=True)
            subprocess.run(["tar", "-xf", bundle, "-C", unpacked], check=True)
            command = [program, *options, "--quiet", str(next(unpacked.iterdir()))]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            shutil.rmtree(unpacked)
        theirs = (time.perf_counter() - begun) / len(bundles[:FEW])
        ratios.append(theirs / ours)
        name = " ".join(("hotsos", *options))
        print(f"{name} {theirs:.2f} s per bundle, triage -j 2 {ours:.2f} s, starts included: {ratios[-1]:.1f} times")
    return min(ratios) < FASTER


if __name__ == "__main__":
    main()
