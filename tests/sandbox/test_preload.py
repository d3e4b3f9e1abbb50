"""What a process has loaded before it forks: a bundle loads nothing more."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile

from command_line import ROOT
from thpdiag.isolated import sample_bundle

GUEST = ROOT / "fixtures" / "healthy" / "sosreport-debian12-guest" / "bundle"
PROGRAM = """
import sys, re
from pathlib import Path
from thpdiag.pipeline import analyze
from thpdiag.engine.load import rule_set
from thpdiag.isolated import preload_analysis
rules = rule_set()
if sys.argv[2] == "warm":
    preload_analysis(rules)
loaded, tables, patterns = set(sys.modules), [], []
from thpdiag.knowledge import yaml_nodes
load_own, compiled = yaml_nodes.load_own, re._compiler.compile
yaml_nodes.load_own = lambda text: tables.append(1) or load_own(text)
re._compiler.compile = lambda *given, **more: patterns.append(1) or compiled(*given, **more)
analyze([Path(sys.argv[1])], rules)
print(len(set(sys.modules) - loaded), len(tables), len(patterns))
"""


def test_the_sample_is_the_fixture() -> None:
    """Whose files say where they come from."""
    wanted = {str(file.relative_to(GUEST)): file.read_bytes() for file in GUEST.rglob("*") if file.is_file()}
    with tarfile.open(fileobj=io.BytesIO(sample_bundle())) as tar:
        assert {member.name: tar.extractfile(member).read() for member in tar} == wanted  # type: ignore[union-attr]


def test_a_report_loads_nothing_more() -> None:
    """No module, no table of knowledge, no pattern; without it there are many."""
    assert loaded("warm") == [0, 0, 0]
    assert min(loaded("cold")) > 0


def loaded(how: str) -> list[int]:
    """Modules, tables and patterns that an analysis loads."""
    given = [sys.executable, "-c", PROGRAM, str(GUEST), how]
    return [int(word) for word in subprocess.run(given, check=True, capture_output=True).stdout.split()]


def test_a_worker_of_the_fork_server_has_nothing_left_to_warm() -> None:
    """What the fork server has done counts, unless a run has rules or values of its own."""
    program = """
import thpdiag.fleet.preloaded
from thpdiag.fleet.work import RunConfig, preload
config = RunConfig(None, None)
preload(config.folders, config.changes)
print(preload.cache_info().misses)
"""
    assert printed(program) == "1"


def test_a_process_that_has_settled_collects_rarely() -> None:
    """And never looks again at what it had then."""
    program = """
import gc
before = gc.get_threshold()
from thpdiag.sandbox.preload import freeze_memory
freeze_memory()
print(gc.get_threshold()[0] > 5 * before[0], gc.get_threshold()[1:] == before[1:], gc.get_freeze_count() > 1000)
"""
    assert printed(program) == "True True True"


def printed(program: str) -> str:
    """What a program prints."""
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()
