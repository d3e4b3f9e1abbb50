"""The cost of a batch compared with plain loops: `triage -j 2` and two processes that call `analyze`.

Makes bundles of 1.5 MB on the spot: one sosreport of this machine with the logs of a server (`host_logs.py`), each copy
with a member of its own, so that no two have the same content. One `thpdiag triage` with two processes (results only,
no pages) works on all of them, and two processes loop over half of them each with `analyze` and the rules loaded. They
take turns of 250 bundles, from their starts to their ends. Then `triage -j 1` and one such process take turns over a
fifth of the bundles, five at a time on one core, for the CPU time of each (`fed.py`). The bars: at least 0.9 of the
loops' bundles per second, at most 10 % more CPU per bundle. With --hotsos PROGRAM a loop over that program on a few of
the bundles, which it reads unpacked, so that unpacking is a part of it; once as it is called by default, once with all
logs. Of few bundles it measures how programs start. With --small only the CPU time is taken, of the sosreport without
the logs; its bar is 0.2 s.

    python bench/triage.py [--bundles 1000] [--bundle FILE] [--hotsos PROGRAM] [--small]
"""

from __future__ import annotations

import argparse
import compileall
import io
import json
import lzma
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from fed import Fed
from host_logs import logs
from sosreport import sosreport

import thpdiag

LEAST, MOST = 0.9, 1.1
SIZE = 1_500_000  # bytes of a bundle
SMALL_BAR = 0.2  # seconds of CPU for a bundle without logs
PRESET = 3  # of xz, as sos packs
MIN_SPEEDUP = 10.0  # over hotsos
HOTSOS_BUNDLES = 5
ROUND = 250  # bundles of a turn for throughput
TURN, TURNS = 5, 4  # bundles of a turn for CPU, turns at least
POLL_SECONDS = 0.02
LOOP = """
import json, sys
from pathlib import Path
from thpdiag.pipeline import analyze
from thpdiag.engine.load import rule_set
rules = rule_set()
for number, line in enumerate(sys.stdin, 1):
    json.dumps(analyze([Path(line.strip())], rules), default=dict)
    print(number, flush=True)
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bundles", type=int, default=1000)
    options.add_argument("--bundle", type=Path)
    options.add_argument("--hotsos")
    options.add_argument("--small", action="store_true")
    chosen = options.parse_args()
    compileall.compile_dir(Path(thpdiag.__file__).parent, quiet=1)  # as pip does
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = 0 if chosen.small else SIZE
        made = copies(chosen.bundle or sosreport(folder / "sos"), folder / "in", chosen.bundles, size)
        print(f"{len(made)} bundles of {made[0].stat().st_size / 1e6:.2f} MB")
        if chosen.small:
            sys.exit(overhead(made, folder, SMALL_BAR))
        missed = throughput(made, folder)
        missed |= overhead(made[: max(TURN * TURNS, len(made) // 5)], folder)
        if chosen.hotsos:
            missed |= hotsos(chosen.hotsos, made, folder)
    sys.exit(missed)


def copies(bundle: Path, folder: Path, count: int, size: int) -> list[Path]:
    """Write this many archives with the content of one and a unique member; the first part is compressed once.

    Logs fill the size.
    """
    folder.mkdir()
    plain = io.BytesIO()
    with tarfile.open(bundle) as source, tarfile.open(fileobj=plain, mode="w") as out:
        root = source.getnames()[0].split("/")[0]
        for member in source:
            out.addfile(member, source.extractfile(member) if member.isreg() else None)
        more = size - len(lzma.compress(plain.getvalue(), preset=PRESET))
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


def throughput(bundles: Sequence[Path], folder: Path) -> bool:
    """Return whether the batch is too slow compared with two loops, including its start and end."""
    with ExitStack() as running:
        ways = Batch(folder / "two", running), Loops(running)
        walls = [0.0, 0.0]
        for number, at in enumerate(range(0, len(bundles), ROUND)):
            turn = bundles[at : at + ROUND]
            last = at + ROUND >= len(bundles)
            took = [0.0, 0.0]
            for way in (0, 1) if number % 2 else (1, 0):
                in_memory(turn)
                begun = time.perf_counter()
                ways[way].do(turn, last=last)
                took[way] = time.perf_counter() - begun
            walls = [sum(both) for both in zip(walls, took, strict=True)]
            ours, theirs = took
            print(f"turn {number + 1}: triage {ours:.1f} s, loops {theirs:.1f} s, {theirs / ours:.2f}", flush=True)
    ratio = walls[1] / walls[0]
    print(
        f"throughput of triage -j 2 ({walls[0]:.1f} s) against two loops ({walls[1]:.1f} s): {ratio:.2f} (bar {LEAST})"
    )
    return ratio < LEAST


class Batch:
    """One `triage` that is given bundles in turns. Its store has the number done, since its progress is late."""

    def __init__(self, out_dir: Path, running: ExitStack) -> None:
        self._command = [sys.executable, "-m", "thpdiag", "triage", "--from", "-", "--out-dir", str(out_dir), "-j", "2"]
        self._command += ["--pages", "none", "--progress", "no"]
        self._store = f"file:{out_dir / 'results.sqlite'}?mode=ro"
        self._running = running
        self._program: subprocess.Popen[bytes] | None = None
        self._given = 0

    def do(self, bundles: Sequence[Path], *, last: bool) -> None:
        if self._program is None:
            begun = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            self._program = self._running.enter_context(begun)
        self._given += len(bundles)
        feed(self._program, bundles, last=last)
        while self._program.poll() is None and (last or self._stored() < self._given):
            time.sleep(POLL_SECONDS)
        if self._program.returncode or self._stored() < self._given:
            sys.exit("triage has not done all of its bundles")

    def _stored(self) -> int:
        try:
            with closing(sqlite3.connect(self._store, uri=True)) as store:
                return int(store.execute("SELECT count(*) FROM bundle").fetchone()[0])
        except sqlite3.OperationalError:  # it does not exist yet
            return 0


class Loops:
    """Two processes that loop, each over half of the bundles of a turn."""

    def __init__(self, running: ExitStack) -> None:
        self._running = running
        self._programs: list[subprocess.Popen[bytes]] = []

    def do(self, bundles: Sequence[Path], *, last: bool) -> None:
        while len(self._programs) < 2:
            begun = subprocess.Popen([sys.executable, "-c", LOOP], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self._programs.append(self._running.enter_context(begun))
        halves = bundles[0::2], bundles[1::2]
        for program, half in zip(self._programs, halves, strict=True):
            feed(program, half, last=last)
        for program, half in zip(self._programs, halves, strict=True):
            assert program.stdout is not None
            if not all(program.stdout.readline() for _ in half) or (last and program.wait()):
                sys.exit("a loop has not done all of its bundles")


def feed(program: subprocess.Popen[bytes], bundles: Sequence[Path], *, last: bool) -> None:
    assert program.stdin is not None
    program.stdin.write(listed(bundles))
    program.stdin.flush()
    if last:
        program.stdin.close()


def overhead(bundles: Sequence[Path], folder: Path, most: float | None = None) -> bool:
    """Return whether a bundle costs too much more CPU than in a loop, in turns of a few bundles after the start.

    Or more seconds than `most`.
    """
    command = [sys.executable, "-m", "thpdiag", "triage", "--from", "-", "--out-dir", str(folder / "fed"), "-j", "1"]
    command += ["--pages", "none", "--progress", "json"]
    costs: list[tuple[float, float]] = []
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})  # two cores of a shared machine rarely have the same speed
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
        f"{ratio:.2f} (bar {MOST}), over {len(costs) - 1} turns" + (f"; bar {most * 1000:.0f} ms" if most else "")
    )
    return ratio > MOST or bool(most and ours_each > most)


def triage(bundles: Sequence[Path], out_dir: Path, jobs: int) -> None:
    command = [sys.executable, "-m", "thpdiag", "triage", "--from", "-", "--out-dir", str(out_dir), "-j", str(jobs)]
    command += ["--pages", "none", "--progress", "no"]
    subprocess.run(command, input=listed(bundles), check=True, stdout=subprocess.DEVNULL)


def in_memory(bundles: Sequence[Path]) -> None:
    """Read the bundles, so that the first program does not wait for the disk."""
    for path in bundles:
        path.read_bytes()


def listed(bundles: Sequence[Path]) -> bytes:
    return b"".join(os.fsencode(path) + b"\n" for path in bundles)


def hotsos(program: str, bundles: Sequence[Path], folder: Path) -> bool:
    """Return whether triage on all bundles is less than ten times faster than a loop over hotsos on a few of them."""
    begun = time.perf_counter()
    triage(bundles, folder / "beside-hotsos", 2)
    ours = (time.perf_counter() - begun) / len(bundles)
    ratios = []
    for options in ((), ("--all-logs",)):
        begun = time.perf_counter()
        for bundle in bundles[:HOTSOS_BUNDLES]:
            unpacked = folder / "unpacked" / bundle.name
            unpacked.mkdir(parents=True)
            subprocess.run(["tar", "-xf", bundle, "-C", unpacked], check=True)
            command = [program, *options, "--quiet", str(next(unpacked.iterdir()))]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            shutil.rmtree(unpacked)
        theirs = (time.perf_counter() - begun) / len(bundles[:HOTSOS_BUNDLES])
        ratios.append(theirs / ours)
        name = " ".join(("hotsos", *options))
        print(f"{name} {theirs:.2f} s per bundle, triage -j 2 {ours:.2f} s, starts included: {ratios[-1]:.1f} times")
    return min(ratios) < MIN_SPEEDUP


if __name__ == "__main__":
    main()
