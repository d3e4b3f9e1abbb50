"""`analyze` on an analyst's laptop: without anything of Linux or Unix, and on consoles that know few characters."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import ROOT, SUPPORT, Run, apart, packed

BUNDLE = ROOT / "fixtures/stories/redis-shop-ubuntu/bundle"


def test_the_document_is_the_same_without_linux(run: Run, tmp_path: Path) -> None:
    """From a folder, an archive and standard input; what needs the sandbox says that there is none."""
    archive = packed(BUNDLE, tmp_path / "bundle.tar.xz")
    commands = [["analyze", str(path), "-f", "json"] for path in (BUNDLE, archive, "-")]
    needy = [["analyze", "--isolate", str(archive)], ["triage", str(archive)], ["serve"]]
    program = [sys.executable, str(SUPPORT / "bare_platform.py"), json.dumps([*commands, ["doctor"], *needy])]
    ended = subprocess.run(program, input=archive.read_bytes(), capture_output=True, check=True, cwd=ROOT)
    *found, doctor, isolated, batch, server = json.loads(ended.stdout)

    assert [json.loads(out) for _, out, _ in found[:2]] == [run(*command).document for command in commands[:2]]
    assert json.loads(found[2][1])["findings"] == json.loads(found[1][1])["findings"]
    assert "guard: none" in doctor[1]
    for code, out, err in (isolated, batch, server):
        assert (code, out) == (2, "")
        assert "needs the sandbox, which is of Linux" in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_a_console_that_knows_few_characters_is_no_mistake(encoding: str) -> None:
    """What it cannot show is escaped; what is redirected is UTF-8."""
    found = apart("analyze", BUNDLE, "--case", "sn\u00f6\u2192", "-f", "csv", PYTHONIOENCODING=encoding)
    listed = apart("explain", "\u2192", PYTHONIOENCODING=encoding)

    assert (found.returncode, found.stderr) == (0, b"")
    assert "sn\u00f6\u2192," in found.stdout.decode()
    assert (listed.returncode, listed.stderr.count(b"\n")) == (2, 1)
