"""`triage --scheduler`: the same results from a cluster, whose workers die on the way."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import ROOT
from test_triage_crash import after, ended
from thpdiag import __version__
from thpdiag.errors import UsageError
from thpdiag.triage.item import Item
from thpdiag.triage.store.bundle import Analysis
from thpdiag.triage.work import Asked
from triaging import command, progress, results, small, triage

Pool = pytest.importorskip("thpdiag.triage.engines.dask_worker").Pool
FULL = os.environ.get("THPDIAG_PROOF") == "1"
BUNDLES, KILLS = (200, 20) if FULL else (16, 2)


@pytest.fixture(scope="module")
def cluster() -> Iterator[subprocess.Popen[str]]:
    """A scheduler and two workers; `told` has its address."""
    program = [sys.executable, str(ROOT / "tests/dask_cluster.py")]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT / "tests") as run:
        yield run
        run.communicate(timeout=120)


@pytest.fixture(scope="module")
def address(cluster: subprocess.Popen[str]) -> str:
    assert cluster.stdout is not None
    return cluster.stdout.readline().strip()


def killed(cluster: subprocess.Popen[str]) -> str:
    """Kill a worker; its number."""
    assert cluster.stdin is not None
    assert cluster.stdout is not None
    cluster.stdin.write("\n")
    cluster.stdin.flush()
    return cluster.stdout.readline().strip()


def test_workers_that_die_cost_no_bundle(tmp_path: Path, cluster: subprocess.Popen[str], address: str) -> None:
    """kill -9 of a worker, again and again: each bundle once, with the result that it has without a cluster."""
    place, out, chance = small(tmp_path / "in", BUNDLES), tmp_path / "out", random.Random(11)
    arguments = command(place, "--out-dir", out, "--scheduler", address, "--progress", "json")
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, cwd=ROOT / "tests") as run:
        for _ in range(KILLS):
            after(run, chance.randrange(1, BUNDLES // KILLS))
            killed(cluster)
        last = progress(ended(run))[-1]
    triage(place, "--out-dir", tmp_path / "other", "-j", "2", mocked=False)

    assert (run.returncode, last["done"], last["twice"]) == (0, BUNDLES, 0)
    assert results(out) == results(tmp_path / "other")


PLUGINS = """
import sys
from distributed import Client
def all_of(dask_scheduler):
    return [name for of in (dask_scheduler.worker_plugins, dask_scheduler.plugins) for name in of if "thpdiag" in name]
with Client(sys.argv[1], set_as_default=False) as client:
    print(len(client.run_on_scheduler(all_of)), sum(map(sum, client.run(
        lambda dask_worker: ["thpdiag" in name for name in dask_worker.plugins]).values())))
"""


def left(address: str) -> str:
    """How many of our plugins the scheduler and the workers have, once the scheduler has seen who is gone."""
    for _ in range(20):
        run = [sys.executable, "-c", PLUGINS, address]
        found = subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()
        if found == "0 0":
            break
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_gone_leaves_the_cluster_free(tmp_path: Path, address: str, number: signal.Signals) -> None:
    """No pool is kept for it, no thread of a worker waits for it: the next one has the cluster to itself."""
    place, out = small(tmp_path / "in", 24), tmp_path / "out"
    arguments = ("--out-dir", out, "--scheduler", address, "--resume", "--progress", "json")
    run = subprocess.Popen(command(place, *arguments), stderr=subprocess.PIPE, text=True, cwd=ROOT / "tests")
    with run:
        after(run, 2)
        run.send_signal(number)
        ended(run)

    assert left(address) == "0 0"
    last = triage(place, *arguments)
    assert (last.returncode, progress(last.stderr)[-1]["done"]) == (0, 24)
    assert left(address) == "0 0"


def test_two_runs_at_a_time(tmp_path: Path, address: str) -> None:
    """With other rules on the same workers: each has the results of its own."""
    place = small(tmp_path / "in", 8)
    ways: list[tuple[str, ...]] = [(), ("--set", "THP-013.often=0.1 /s")]
    arguments = ("--scheduler", address, "--progress", "no", "-f", "json")
    runs = [
        subprocess.Popen(
            command(place, "--out-dir", tmp_path / f"out{number}", *arguments, *way, mocked=False),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for number, way in enumerate(ways)
    ]  # fmt: skip
    said = [ended(run) for run in runs]

    assert ([run.returncode for run in runs], said) == ([0, 0], ["", ""])
    for number, way in enumerate(ways):
        alone = tmp_path / f"alone{number}"
        triage(place, "--out-dir", alone, "-j", "2", *way, mocked=False)
        assert results(tmp_path / f"out{number}") == results(alone)


def test_the_scheduler_dies(tmp_path: Path) -> None:
    """It is told, with exit 6 and at once; what came before is whole, and --resume goes on without a cluster."""
    place, out = small(tmp_path / "in", 60), tmp_path / "out"
    program = [sys.executable, str(ROOT / "tests/dask_cluster.py")]
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(program, text=True, cwd=ROOT / "tests", stderr=subprocess.DEVNULL, **piped) as cluster:  # type: ignore[call-overload]
        at = cluster.stdout.readline().strip()
        arguments = command(place, "--out-dir", out, "--scheduler", at, "--progress", "json")
        with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, cwd=ROOT / "tests") as run:
            after(run, 2)
            cluster.kill()
            said = ended(run)
    last = triage(place, "--out-dir", out, "-j", "2", "--resume", "--progress", "json")

    lines = [line for line in said.splitlines() if not line.startswith(("{", "peak"))]
    assert (run.returncode, len(lines), "the scheduler is gone" in lines[0]) == (6, 1, True)
    told = progress(last.stderr)[-1]
    assert (last.returncode, told["done"], told["skipped"] >= 2) == (0, 60, True)


def test_a_cluster_of_this_machine(tmp_path: Path) -> None:
    """Ctrl-C in the terminal is for the run alone, so that nobody else complains; then it goes on to the end."""
    place, out = small(tmp_path / "in", 16), tmp_path / "out"
    arguments = ("--out-dir", out, "--scheduler", "local", "-j", "2", "--resume", "--progress", "json")
    with subprocess.Popen(
        command(place, *arguments), stderr=subprocess.PIPE, text=True, cwd=ROOT / "tests", start_new_session=True
    ) as run:
        after(run, 2)
        os.killpg(run.pid, signal.SIGINT)
        said = ended(run)
    last = triage(place, *arguments)

    lines = [line for line in said.splitlines() if line and not line.startswith(("{", "peak"))]
    assert (run.returncode, len(lines), "--resume" in lines[0]) == (130, 1, True)
    assert (last.returncode, progress(last.stderr)[-1]["done"]) == (0, 16)
    assert not (out / ".thpdiag-scratch").exists()


@pytest.mark.parametrize("address", ["here", "http://demo:80", "tcp://demo", "tcp://:8786"])
def test_no_address(tmp_path: Path, address: str) -> None:
    """Said before anybody is asked."""
    run = triage(small(tmp_path / "in", 1), "--out-dir", tmp_path / "out", "--scheduler", address)

    assert (run.returncode, "tcp://HOST:PORT" in run.stderr, "Traceback" in run.stderr) == (2, True, False)


def test_no_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, and no results."""
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")
    run = triage(small(tmp_path / "in", 1), "--out-dir", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:9")

    assert (run.returncode, run.stderr.count("\n"), "no scheduler answers" in run.stderr) == (6, 2, True)


def test_workers_with_other_rules_are_refused(tmp_path: Path) -> None:
    """They would give other results."""
    asked = Asked(Analysis(__version__, "0123456789abcdef"), tmp_path)

    pool = Pool(asked)
    with pytest.raises(UsageError, match=r"0123456789abcdef.*install the same"):
        pool.setup(SimpleNamespace(address="tcp://demo:1"))
    with pytest.raises(UsageError, match="install the same"):  # of one that joins later nobody hears the first
        pool.done(Item("", "in/a"))
