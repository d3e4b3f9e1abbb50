"""perf.data of others: as many samples as perf counts in them, and nothing raises."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import yaml

from thpdiag.model import Citation, Problem
from thpdiag.perf.container import Recording
from thpdiag.perf.records import Features

# Where the list is wrong: `perf report -D` of perf 6.1 shows 242 samples in this file, and it is not cut.
COUNTED_AGAIN = {"perfparser-parallel_static_gcc-perf.data.zstd": 242}
DAMAGED = {"quipper-perf.data.piped.corrupted.zero_size_sample-3.2"}  # on purpose; all others are read to their end


@cache
def expected(folder: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = yaml.safe_load((folder / "expected.yaml").read_text())
    return found


def read(file: Path, step: int) -> tuple[int, dict[str, int], list[Problem], Features]:
    """Samples, odd ones by reason, problems, features."""
    raw = file.read_bytes()
    recording = Recording((raw[at : at + step] for at in range(0, len(raw), step)), len(raw), Citation("perf.data"))
    windows = list(recording.windows())
    odd = {reason: count for window in windows for reason, count in window.odd.items()}
    problems = [problem for window in windows for problem in window.problems]
    return sum(len(window.samples) for window in windows), odd, problems, recording.features


@pytest.mark.parametrize("step", [4093, 1 << 20])
def test_counts_of_public_recordings(corpus: Path, step: int) -> None:
    """Kernels 3.2 to 6.10, file and pipe, compressed, cut: each has the samples that perf counts."""
    folder = corpus / "perf-data"
    wrong = {}
    for name, facts in expected(folder).items():
        samples, odd, problems, features = read(folder / name, step)
        wanted: tuple[object, ...] = (
            COUNTED_AGAIN.get(name, facts["samples"]),
            {},
            name in DAMAGED,
            facts.get("kernel", ""),
        )
        if (samples, odd, bool(problems), features.release) != wanted:
            wrong[name] = samples, odd, problems, features.release
    assert wrong == {}


def test_every_public_recording_is_counted(corpus: Path) -> None:
    """A file that the list leaves out would not be looked at."""
    folder = corpus / "perf-data"
    assert set(expected(folder)) == {path.name for path in folder.iterdir()} - {"expected.yaml"}
