"""What a process has loaded before it forks: a bundle loads nothing more."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile

from command_line import ROOT
from thpdiag.warm import sample

GUEST = ROOT / "fixtures" / "healthy" / "sosreport-debian12-guest" / "bundle"
PROGRAM = """
import sys, re, yaml
from pathlib import Path
from thpdiag.analyze import analyze
from thpdiag.engine.rule_set import rule_set
from thpdiag.warm import warm
rules = rule_set()
if sys.argv[2] == "warm":
    warm(rules)
loaded, tables, patterns = set(sys.modules), [], []
compose, compiled = yaml.compose, re._compiler.compile
yaml.compose = lambda *given, **more: tables.append(1) or compose(*given, **more)
re._compiler.compile = lambda *given, **more: patterns.append(1) or compiled(*given, **more)
analyze([Path(sys.argv[1])], rules)
print(len(set(sys.modules) - loaded), len(tables), len(patterns))
"""


def test_the_sample_is_the_fixture() -> None:
    """Whose files say where they come from."""
    wanted = {str(file.relative_to(GUEST)): file.read_bytes() for file in GUEST.rglob("*") if file.is_file()}
    with tarfile.open(fileobj=io.BytesIO(sample())) as tar:
        assert {member.name: tar.extractfile(member).read() for member in tar} == wanted  # type: ignore[union-attr]


def test_a_report_loads_nothing_more() -> None:
    """No module, no table of knowledge, no pattern; without it there are many."""
    assert loaded("warm") == [0, 0, 0]
    assert min(loaded("cold")) > 0


def loaded(how: str) -> list[int]:
    """Modules, tables and patterns that an analysis loads."""
    given = [sys.executable, "-c", PROGRAM, str(GUEST), how]
    return [int(word) for word in subprocess.run(given, check=True, capture_output=True).stdout.split()]
