"""Healthy hosts: nothing may be found there that would make somebody change a setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyze_bytes import result_of
from conftest import ROOT

HEALTHY = sorted(p for p in (ROOT / "fixtures" / "healthy").iterdir() if p.is_dir())


@pytest.mark.parametrize("folder", HEALTHY, ids=lambda f: f.name)
def test_a_healthy_host_is_left_alone(folder: Path) -> None:
    """No finding at all, but for contexts, which only inform."""
    document = result_of(folder / "bundle")
    assert [(f["rule"], f["title"]) for f in document["findings"] if f["role"] != "context"] == []
    assert document["verdict"]["status"] in ("nothing_found", "cannot_tell")


@pytest.mark.parametrize("folder", HEALTHY, ids=lambda f: f.name)
def test_a_healthy_host_was_read(folder: Path) -> None:
    """Silence counts only if there was something to hear: every member is recognised."""
    document = result_of(folder / "bundle")
    assert [i["member"] for i in document["inputs"] if not i["reader"]] == []
    assert (folder / "ORIGIN.md").is_file()
