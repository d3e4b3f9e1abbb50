"""`triage --scheduler`: the same results from a cluster, whose workers die on the way."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from command_line import SUPPORT, Run
from thpdiag import __version__
from thpdiag.errors import UsageError
from thpdiag.fleet.sources.item import BundleItem
from thpdiag.fleet.work import RunConfig
from thpdiag.store.results import Analysis
from triage_runs import FULL, after, command, ended, progress, results, small, triage

BUNDLES, KILLS = (200, 20) if FULL else (6, 1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[subprocess.Popen[str]]:
    """A scheduler and its workers; the first line that it says is its address."""
    pytest.importorskip("distributed")
    program = [sys.executable, str(SUPPORT / "dask_cluster.py"), "2" if FULL else "1"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=SUPPORT) as run:
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


def test_workers_that_die_cost_no_bundle(
    tmp_path: Path, cluster: subprocess.Popen[str], address: str, run: Run
) -> None:
    """kill -9 of a worker, again and again: each bundle once, with the result that it has without a cluster."""
    place, out, chance = small(tmp_path / "in", BUNDLES), tmp_path / "out", random.Random(11)
    arguments = command(place, "--out-dir", out, "--scheduler", address, "--progress", "json")
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, cwd=SUPPORT) as spread:
        for _ in range(KILLS):
            after(spread, chance.randrange(1, BUNDLES // KILLS))
            killed(cluster)
        last = progress(ended(spread))[-1]
    run("triage", place, "--out-dir", tmp_path / "other", "-j", "2")

    assert (spread.returncode, last["done"], last["twice"]) == (0, BUNDLES, 0)
    assert results(out) == results(tmp_path / "other")


PLUGINS = """
import sys
from distributed import Client
def all_of(dask_scheduler):
    return [name for of in (dask_scheduler.worker_plugins, dask_scheduler.plugins) for name in of if "thpdiag" in name]
def of_worker(dask_worker):
    return sum("thpdiag" in name for name in dask_worker.plugins)
with Client(sys.argv[1], set_as_default=False) as client:
    for _ in range(1000):
        found = len(client.run_on_scheduler(all_of)), sum(client.run(of_worker).values())
        if not any(found):
            break
    print(*found)
"""


def left(address: str) -> str:
    """How many of our plugins the scheduler and the workers have, once the scheduler has seen who is gone."""
    program = [sys.executable, "-c", PLUGINS, address]
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL] if FULL else [signal.SIGKILL])
def test_a_run_that_is_gone_leaves_the_cluster_free(tmp_path: Path, address: str, number: signal.Signals) -> None:
    """No pool is kept for it, no thread of a worker waits for it: the next one has the cluster to itself."""
    place, out = small(tmp_path / "in", 8), tmp_path / "out"
    arguments = ("--out-dir", out, "--scheduler", address, "--resume", "--progress", "json")
    run = subprocess.Popen(command(place, *arguments), stderr=subprocess.PIPE, text=True, cwd=SUPPORT)
    with run:
        after(run, 2)
        run.send_signal(number)
        ended(run)

    assert left(address) == "0 0"
    last = triage(place, *arguments)
    assert (last.returncode, progress(last.stderr)[-1]["done"]) == (0, 8)
    assert left(address) == "0 0"


@pytest.mark.proof
def test_two_runs_at_a_time(tmp_path: Path, address: str) -> None:
    """With other rules on the same workers: each has the results of its own."""
    place = small(tmp_path / "in", 3)
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


def test_the_scheduler_dies(tmp_path: Path, run: Run) -> None:
    """It is told, with exit 6 and at once; what came before is whole, and --resume goes on without a cluster.

    The list stays open, so that the run cannot come to its end before, however slow this test is.
    """
    place, out = small(tmp_path / "in", 16), tmp_path / "out"
    program = [sys.executable, str(SUPPORT / "dask_cluster.py"), "1"]
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(program, text=True, cwd=SUPPORT, stderr=subprocess.DEVNULL, **piped) as cluster:  # type: ignore[call-overload]
        at = cluster.stdout.readline().strip()
        arguments = command("--from", "-", "--out-dir", out, "--scheduler", at, "--progress", "json")
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=SUPPORT) as cut:
            assert cut.stdin is not None
            assert cut.stderr is not None
            cut.stdin.writelines(f"{path}\n" for path in sorted(place.iterdir()))
            cut.stdin.flush()
            after(cut, 2)
            cluster.kill()
            said = cut.stderr.read()
    last = run("triage", place, "--out-dir", out, "-j", "2", "--resume", "--progress", "json")

    lines = [line for line in said.splitlines() if not line.startswith(("{", "peak"))]
    assert (cut.returncode, len(lines), "the scheduler does not respond" in lines[0]) == (6, 1, True)
    told = progress(last.err)[-1]
    assert (last.code, told["done"], told["skipped"] >= 2) == (0, 16, True)


def test_a_cluster_of_this_machine(tmp_path: Path) -> None:
    """Ctrl-C in the terminal is for the run alone, so that nobody else complains; then it goes on to the end."""
    place, out = small(tmp_path / "in", 8), tmp_path / "out"
    arguments = ("--out-dir", out, "--scheduler", "local", "-j", "2", "--resume", "--progress", "json")
    with subprocess.Popen(
        command(place, *arguments),
        stderr=subprocess.PIPE,
        text=True,
        cwd=SUPPORT,
        start_new_session=True,
    ) as run:
        after(run, 2)
        os.killpg(run.pid, signal.SIGINT)
        said = ended(run)
    last = triage(place, *arguments)

    lines = [line for line in said.splitlines() if line and not line.startswith(("{", "peak"))]
    assert (run.returncode, len(lines), "--resume" in lines[0]) == (130, 1, True)
    assert (last.returncode, progress(last.stderr)[-1]["done"]) == (0, 8)
    assert not (out / ".thpdiag-scratch").exists()


@pytest.mark.parametrize("address", ["here", "http://demo:80", "tcp://demo", "tcp://:8786"])
def test_no_address(tmp_path: Path, run: Run, address: str) -> None:
    """Said before anybody is asked."""
    ended = run("triage", small(tmp_path / "in", 1), "--out-dir", tmp_path / "out", "--scheduler", address)

    assert (ended.code, "tcp://HOST:PORT" in ended.err, "Traceback" in ended.err) == (2, True, False)


def test_no_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, and no results."""
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")
    run = triage(small(tmp_path / "in", 1), "--out-dir", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:9")

    assert (run.returncode, run.stderr.count("\n"), "no scheduler answers" in run.stderr) == (6, 2, True)


def test_a_scheduler_behind_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates are those of Dask's configuration; without them it is said where they belong, and what is wrong."""
    place, program = small(tmp_path / "in", 2), [sys.executable, str(SUPPORT / "dask_cluster.py"), "1", "tls"]
    own = certificates(tmp_path / "dask")
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "DASK_CONFIG": own}
    ) as cluster:
        assert cluster.stdout is not None
        at = cluster.stdout.readline().strip()
        asked = ("--scheduler", at, "--progress", "json")
        without = triage(place, "--out-dir", tmp_path / "without", *asked)
        monkeypatch.setenv("DASK_CONFIG", own)
        run = triage(place, "--out-dir", tmp_path / "out", *asked)
        (tmp_path / "dask" / "key.pem").write_text("no key")
        damaged = triage(place, "--out-dir", tmp_path / "damaged", *asked)
        cluster.communicate(timeout=120)

    assert at.startswith("tls://")
    assert (run.returncode, progress(run.stderr)[-1]["done"]) == (0, 2)
    for refused in (without, damaged):
        assert (refused.returncode, "DASK_CONFIG" in refused.stderr) == (2, True)
        assert "Traceback" not in refused.stderr


def certificates(folder: Path) -> str:
    """A configuration of Dask with one certificate for all, in a folder."""
    made = pytest.importorskip("distributed").Security.temporary()
    folder.mkdir()
    (folder / "ca.pem").write_text(made.tls_ca_file)
    (folder / "key.pem").write_text(made.tls_client_key)
    pair = {"key": str(folder / "key.pem"), "cert": str(folder / "ca.pem")}
    tls = {"ca-file": str(folder / "ca.pem"), **dict.fromkeys(("client", "scheduler", "worker"), pair)}
    told = {"distributed": {"comm": {"require-encryption": True, "tls": tls}}}
    (folder / "distributed.yaml").write_text(json.dumps(told))
    return str(folder)


def test_workers_with_other_rules_are_refused(tmp_path: Path) -> None:
    """They would give other results."""
    asked = RunConfig(Analysis(__version__, "0123456789abcdef"), tmp_path)

    pool = pytest.importorskip("thpdiag.fleet.dask_worker").WorkersPlugin(asked)
    with pytest.raises(UsageError, match=r"0123456789abcdef.*install the same"):
        pool.setup(SimpleNamespace(address="tcp://demo:1"))
    with pytest.raises(UsageError, match="install the same"):  # of one that joins later nobody hears the first
        pool.work_on(BundleItem("", "in/a"))
