"""Sample by sample against `perf script`, on a recording made here with stacks of the kernel and of programs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from thpdiag.model import Citation
from thpdiag.perf.container import Recording
from thpdiag.perf.machine import UNMAPPED
from thpdiag.perf.profile import Gathered
from thpdiag.perf.records import Samples

# Forks, threads with names, programs started by programs, and memory that is touched for the first time.
WORK = """
import mmap, os, re, subprocess, sys, threading
def touch():
    for _ in range(12):
        memory = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for at in range(0, len(memory), 4096):
            memory[at] = 1
        memory.close()
def named():
    with open("/proc/thread-self/comm", "w") as comm:
        comm.write("worker 7 (a)")
    touch()
threads = [threading.Thread(target=named) for _ in range(2)]
for thread in threads:
    thread.start()
child = os.fork()
if child == 0:
    touch()
    os.execv(sys.executable, [sys.executable, "-c", "import json, re; [re.compile(str(i)) for i in range(900)]"])
for _ in range(4):
    subprocess.run(["sh", "-c", "ls -lR /usr/share/doc 2>/dev/null | head -2000 | sort | gzip > /dev/null"])
os.waitpid(child, 0)
for thread in threads:
    thread.join()
"""
FIELDS = "comm,pid,tid,cpu,time,period,event,ip,dso"
HEAD = re.compile(r"\s*(.+?)\s+(-?\d+)/\s*(-?\d+)\s+\[(\d+)\]\s+(\d+)\.(\d{9}):\s+(\d+)\s+(\S+):\s*$")
FRAME = re.compile(r"\s+([0-9a-f]+) \((.*)\)$")
ANONYMOUS = ("//anon", "/dev/zero", "/anon_hugepage")  # perf takes them for the code of a just-in-time compiler
IN_KERNEL = "[kernel]"

Stack = list[tuple[int, str]]  # address or offset, object; leaf first


@dataclass(frozen=True, slots=True)
class Sample:
    """What both must tell alike."""

    time: int
    cpu: int
    tid: int
    pid: int
    comm: str
    period: int
    stack: Stack
    garbage: bool = False


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (perf := shutil.which("perf")):
        pytest.skip("perf is not installed")
    folder = tmp_path_factory.mktemp("recording")
    (folder / "work.py").write_text(WORK)
    command = [
        perf,
        "record",
        "-q",
        "-e",
        "cpu-clock",
        "-F",
        "4000",
        "-g",
        "--sample-cpu",
        "-o",
        "perf.data",
        "--",
        sys.executable,
        "work.py",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    if not (folder / "perf.data").is_file() or not (folder / "perf.data").stat().st_size:
        pytest.skip(f"perf may not record here: {done.stderr.strip()[:200]}")
    return folder / "perf.data"


def told_by_perf(path: Path) -> Iterator[Sample]:
    command = ["perf", "script", "-i", path.name, "--ns", "--no-inline", "-F", FIELDS]
    text = subprocess.run(command, cwd=path.parent, capture_output=True, check=True, timeout=300).stdout
    for block in text.decode("utf-8", "replace").strip("\n").split("\n\n"):
        head, *frames = block.split("\n")
        found = HEAD.match(head)
        assert found, head
        comm, pid, tid, cpu, seconds, nanoseconds, period, _ = found.groups()
        time, stack = int(seconds) * 10**9 + int(nanoseconds), list(map(frame, frames))
        yield Sample(time, int(cpu), int(tid), int(pid), comm, int(period), stack)


def frame(line: str) -> tuple[int, str]:
    found = FRAME.match(line)
    assert found, line
    address, dso = int(found[1], 16), found[2]
    kernel = dso.startswith("[kernel") or (address >= 1 << 63 and dso.startswith("[") and dso != "[unknown]")
    return address, IN_KERNEL if kernel else dso


def told_by_us(path: Path) -> Iterator[Sample]:
    found, seen = Gathered(), []
    with path.open("rb") as file:
        recording = Recording(iter(lambda: file.read(1 << 20), b""), path.stat().st_size, Citation("perf.data"))
        for window in recording.windows():
            assert not window.problems
            found.add(window, recording.events)
            seen.append(window.samples)
    rows = found.rows()
    at = 0
    uses = Uses(found)
    for samples in seen:
        yield from one_window(samples, rows.task[at : at + len(samples)], rows.use[at : at + len(samples)], uses, found)
        at += len(samples)
    assert at == len(rows)


class Uses:
    """The stacks of uses of chains, with addresses and offsets."""

    def __init__(self, found: Gathered) -> None:
        self._raw, self._epoch = found.uses.all()
        self._chains, self._lookup, self._maps = found.chains.all(), found.spaces.lookup(), found.spaces.maps
        self._kernel, self._kernel_starts = found.chains.kernel_parts.all()
        self._program, self._program_starts = found.chains.program_parts.all()

    def stack(self, use: int, pid: int) -> Stack:
        kernel, program = self._chains.kernel[self._raw[use]], self._chains.program[self._raw[use]]
        inner = self._kernel[self._kernel_starts[kernel] : self._kernel_starts[kernel + 1]]
        outer = self._program[self._program_starts[program] : self._program_starts[program + 1]]
        maps = self._lookup.maps_at(np.full(len(outer), self._epoch[use], np.int32), outer)
        return [
            *((address, IN_KERNEL) for address in inner.tolist()),
            *(self._placed(*one, pid) for one in zip(outer.tolist(), maps.tolist(), strict=True)),
        ]

    def garbage(self, use: int) -> bool:
        return bool(self._chains.garbage[self._raw[use]])

    def _placed(self, address: int, number: int, pid: int) -> tuple[int, str]:
        if number == UNMAPPED:
            return address, "[unknown]"
        lay = self._maps[number]
        name = f"/tmp/perf-{pid}.map" if lay.name.startswith(ANONYMOUS) else lay.name
        return address - lay.start + lay.offset, name


def one_window(samples: Samples, tasks: np.ndarray, uses: np.ndarray, known: Uses, found: Gathered) -> Iterator[Sample]:
    names = found.tasks.all()
    for i, (task, use) in enumerate(zip(tasks.tolist(), uses.tolist(), strict=True)):
        pid = int(samples.pid[i])
        yield Sample(
            int(samples.time[i]), int(samples.cpu[i]), int(samples.tid[i]), pid, names[task].comm,
            int(samples.period[i]), known.stack(use, pid), known.garbage(use),
        )  # fmt: skip


def key(sample: Sample) -> tuple[int, int, int]:
    return sample.time, sample.cpu, sample.tid


def test_every_sample_is_what_perf_says(recording: Path) -> None:
    """Count, task, CPU, time, period, kernel addresses, programs' objects and offsets are the same.

    One difference is justified: a chain with a number that looks like an unknown marker, of which perf prints nothing,
    is kept up to there.
    """
    theirs = sorted(told_by_perf(recording), key=key)
    ours = sorted(told_by_us(recording), key=key)
    assert len(ours) > 200
    assert list(map(key, ours)) == list(map(key, theirs))
    assert [(s.comm, s.pid, s.period) for s in ours] == [(s.comm, s.pid, s.period) for s in theirs]
    different = [(s, t) for s, t in zip(ours, theirs, strict=True) if s.stack != t.stack]
    assert [(s, t) for s, t in different if not s.garbage] == []
    assert "worker 7 (a)" in {s.comm for s in ours}
    assert len({s.pid for s in ours}) > 1
    assert any(object_ == IN_KERNEL for s in ours for _, object_ in s.stack)
    assert any(".so" in object_ for s in ours for _, object_ in s.stack)
