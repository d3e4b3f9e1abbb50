"""One recording in all its renderings gets one verdict, or none where the rendering cannot tell."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import STRICT, found, rules, sure
from profile_stacks import RECORDING
from thpdiag.pipeline import analyze

TELLING = [
    ("perf.data", "kallsyms"),
    ("script.txt",),
    ("folded.txt",),
    *((f"report-{name}.txt",) for name in ("callee", "caller", "flat-callee", "folded-count", "fractal-caller")),
    *((f"report-{name}.txt",) for name in ("children", "children-callee", "hierarchy", "limit-caller", "separated")),
    *((f"report-{name}.txt",) for name in ("sort-comm", "sort-sym-caller", "browser", "browser-levels")),
]
SILENT = [
    ("perf.data",),  # nobody can name the functions of the kernel
    ("report-none.txt",),
    ("report-browser-closed.txt",),
    ("report-max-stack.txt",),
    ("top.txt",),
    ("top-graph.txt",),  # 20 rows
]


def judged(files: tuple[str, ...], folder: Path) -> dict[str, Any]:
    for name in files:
        shutil.copy(RECORDING / name, folder)
    return analyze([folder], rules(), STRICT)


@pytest.mark.parametrize("files", TELLING, ids=lambda files: files[0])
def test_a_rendering_with_callers_gets_the_verdict(files: tuple[str, ...], tmp_path: Path) -> None:
    """Page faults compact memory: likely, from stacks alone, and no other cause beside it."""
    document = judged(files, tmp_path)
    verdict = document["verdict"]
    assert (verdict["status"], verdict["rule"], verdict["confidence"]) == ("found", "THP-010", "likely")
    assert set(sure(found(document))) == {"THP-010"}


@pytest.mark.parametrize("files", SILENT, ids=lambda files: files[0])
def test_a_rendering_without_callers_is_unknown(files: tuple[str, ...], tmp_path: Path) -> None:
    """Who called the compaction is not in it: neither yes nor no."""
    document = judged(files, tmp_path)
    assert document["verdict"]["status"] == "cannot_tell"
    assert sure(found(document)) == {}
    assert {r["id"]: r["outcome"] for r in document["rules"]}["THP-010"] == "unknown"


@pytest.mark.parametrize("rendering", ["folded.txt", "report-callee.txt", "script.txt"])
def test_two_renderings_of_a_recording_do_not_contradict(rendering: str, tmp_path: Path) -> None:
    """They are one source: no disagreement, and not one step surer than either."""
    document = judged((rendering, "report-flat-caller.txt", "report-none.txt"), tmp_path)
    assert [p for p in document["problems"] if p["kind"] == "disagreement"] == []
    assert found(document)["THP-010"] == "likely"
