"""Bundles of very many members: the document stays small, all are counted, and evidence among them is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import STRICT, found, rules
from command_line import ROOT
from packed_bundles import tar, zipped
from thpdiag.pipeline import analyze
from thpdiag.report.presentation import exit_code

STORY = ROOT / "fixtures" / "stories" / "hadoop-centos62" / "bundle" / "ticket.txt"
EMPTY, UNKNOWN, PROCESSES = 1300, 130, 120
STATUS = b"Name:\tjava\nPid:\t%d\nVmRSS:\t  4096 kB\nThreads:\t1\n"
FILES = {
    "ticket.txt": STORY.read_bytes(),
    **{f"empty/{n % 7}/{n}.log": b"" for n in range(EMPTY)},
    **{f"notes/{n}.txt": b"nothing that a reader knows\n" for n in range(UNKNOWN)},
    **{f"host/proc/{n}/status": STATUS % n for n in range(1, PROCESSES + 1)},
}


def rows(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["member"]: row for one in result.get("cases", [result]) for row in one["inputs"]}


@pytest.mark.parametrize("pack", [tar, zipped])
def test_many_members(tmp_path: Path, pack: Callable[[dict[str, bytes]], bytes]) -> None:
    """One row for many of a kind; the first thousand empty ones are looked at, the others counted."""
    (tmp_path / "case").write_bytes(pack(FILES))
    result = analyze([tmp_path / "case"], rules(), STRICT)
    assert "THP-001" in found(result)
    listed = rows(result)
    assert listed["ticket.txt"]["reader"]
    assert listed["host/proc/**/status"]["files"] == PROCESSES
    assert sum(row.get("files", 1) for row in listed.values() if not row["reader"]) == 1000 + UNKNOWN
    (passed,) = {one["count"] for one in result["problems"] if "limit empty" in one["text"]}
    assert passed == EMPTY - 1000
    assert len(listed) < 50
    assert exit_code(result) == 0  # nothing that could be evidence was lost


def test_every_member_on_request(tmp_path: Path, run: Any) -> None:
    """`thpdiag inputs` has a row for each."""
    (tmp_path / "case").write_bytes(tar(FILES))
    listed = {row["member"]: row for row in json.loads(run("inputs", tmp_path / "case", "-f", "json").out)["inputs"]}
    assert {f"notes/{n}.txt" for n in range(UNKNOWN)} <= listed.keys()
    assert {f"host/proc/{n}/status" for n in range(1, PROCESSES + 1)} <= listed.keys()
    assert not any(row.get("files") for row in listed.values())


def test_problems_beyond_number_are_counted(tmp_path: Path) -> None:
    """The same sentence about many members is one problem with a count."""
    (tmp_path / "case").write_bytes(tar({**{f"{n}.tar": bytes(600) for n in range(700)}, "a.zip": b"noise\xff" * 99}))
    result = analyze([tmp_path / "case"], rules(), STRICT)
    assert sorted((one["count"], one["hides"]) for one in result["problems"]) == [(1, True), (700, True)]
