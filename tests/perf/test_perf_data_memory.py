"""What reading perf.data takes of memory: ten times the input at most, on top of what a small file takes.

THPDIAG_PROOF=1 makes the bombs larger.
"""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
import zstandard

import perf_files
import perf_recordings as perf
from perf_invariants import check, samples
from thpdiag.model import Problem, ProblemKind
from thpdiag.perf import chains as joined_chains

MIB = 1 << 20
FLOOR = 24 * MIB  # of memory that a small file may take: windows, tables
TIMES = 10  # the size of the input
CASES = sorted(path.parent.name for path in perf.FOLDER.glob("*/perf.data"))


def test_two_gigabytes_are_announced_and_not_there() -> None:
    """Sizes in the header are no reason to make room."""
    data = perf.recording(perf.sample(1, [perf_files.CONTEXT_USER, 0x400000]))
    for at in (16, 24, 32, 40, 48, 56, 64):
        peak = measured(perf.with_word(data, at, 2**31))
        assert peak < FLOOR


def measured(data: bytes) -> int:
    """Bytes of Python and numpy at the peak while reading."""
    tracemalloc.start()
    try:
        check(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("case", CASES)
def test_memory_keeps_within_ten_times_the_input(case: str) -> None:
    """Whole, cut in half, and with bits flipped, on top of a floor that does not depend on the file."""
    data = perf.fixture(case)
    check(data)  # what is imported and cached the first time does not count
    chance = random.Random(len(data))
    mutants = [data, data[: len(data) // 2]] + [perf.with_bit(data, chance.randrange(8 * len(data))) for _ in range(4)]
    for mutant in mutants:
        assert measured(mutant) < FLOOR + TIMES * len(mutant)


def distinct(count: int) -> bytes:
    """Samples of which no two have a frame in common: nothing can be kept only once."""
    frames = iter(range(2**64 - 2**40, 2**64 - 2**39, 16))
    return b"".join(
        perf.sample(1000 * i, [perf_files.CONTEXT_KERNEL, *(next(frames) for _ in range(8))], tid=i + 1)
        for i in range(count)
    )


def test_memory_of_samples_that_have_nothing_in_common() -> None:
    """The worst recording for columns of distinct chains, frames and tasks still takes ten times its size at most."""
    data = perf.recording(distinct(8_000))
    assert samples(check(data)) == 8_000
    assert measured(data) < FLOOR + TIMES * len(data)


def peak_of_a_process(data: bytes, folder: Path) -> int:
    """Bytes that a process takes for reading a file, beyond what it takes for a small one: zstd's own are in it."""
    program = """
import sys
from pathlib import Path
from thpdiag.model.parser import Content, Source
from thpdiag.parsers import bulk_parsers
bulk = next(r for r in bulk_parsers() if r.name == "perf_data")
def read(path):
    data = Path(path).read_bytes()
    for record in bulk.read(Source("perf.data"), Content(iter([data]), len(data))):
        pass
    return Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
print(read(sys.argv[1]), read(sys.argv[2]))
"""
    small, large = folder / "small", folder / "large"
    small.write_bytes(perf.fixture("zstd"))
    large.write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", program, str(small), str(large)], check=True, capture_output=True, timeout=300
    )
    before, after = map(int, done.stdout.split())
    return (after - before) * 1024


BOMBS = {
    "one_sample": lambda size: perf.sample(1, [perf_files.CONTEXT_KERNEL, 2**64 - 4096]) * (size // 72),
    "headers": lambda size: struct.pack("<IHH", 2000, 0, 8) * (size // 8),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_compressed_bomb_is_read_in_windows(name: str, tmp_path: Path) -> None:
    """Hundreds of megabytes in a few kilobytes of records: memory does not follow."""
    size = (2048 if os.environ.get("THPDIAG_PROOF") == "1" else 160) * MIB
    piece = BOMBS[name](16 * MIB)
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    stream = b"".join([*(packer.compress(piece) for _ in range(size // len(piece))), packer.flush()])
    parts = [stream[at : at + 60_000] for at in range(0, len(stream), 60_000)]
    data = perf.recording(b"".join(perf.record(perf_files.COMPRESSED, part, misc=0) for part in parts))
    most = 560 * MIB if name == "one_sample" else 128 * MIB  # eight million samples are kept one by one
    assert peak_of_a_process(data, tmp_path) < most + TIMES * len(data)


def test_kernel_addresses_without_end_share_a_nameless_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """More addresses than a kernel's functions can have are not kept one by one; the samples are."""
    monkeypatch.setattr(joined_chains, "MAX_ADDRESSES", 100)
    records = check(perf.recording(distinct(50)))
    limits = [r for r in records if isinstance(r, Problem) and r.kind is ProblemKind.LIMIT]
    assert samples(records) == 50
    assert [limit.count for limit in limits] == [300]
