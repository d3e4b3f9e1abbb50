"""kill -9 and Ctrl-C at any moment: what was stored stays, the next run goes on; nothing is lost, nothing doubled."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from command_line import SUPPORT, Run
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import Analysis
from thpdiag.store.store import Store
from triage_runs import FULL, after, after_results, command, ended, progress, results, small, started, triage

PROOF = pytest.mark.skipif(not FULL, reason="the full length runs with THPDIAG_PROOF=1")
BUNDLES, KILLS = (200, 100) if FULL else (6, 2)


def test_killed_at_any_moment_each_bundle_is_there_once(tmp_path: Path, run: Run) -> None:
    """kill -9 of the run, again and again; then the results are those of a run that nobody disturbed."""
    place, out, chance = small(tmp_path / "in", BUNDLES), tmp_path / "out", random.Random(7)
    most = max(2 * BUNDLES // KILLS, 2)
    for _ in range(KILLS):
        with started(place, out) as killed:
            after_results(killed, chance.randrange(most))
            killed.kill()
            ended(killed)
    stored = len(results(out))
    last = run("triage", place, "--out-dir", out, "-j", "2", "--resume", "--progress", "json")
    undisturbed = run("triage", place, "--out-dir", tmp_path / "other", "-j", "2")

    assert (last.code, undisturbed.code) == (0, 0)
    told = progress(last.err)[-1]
    assert (told["found"], told["done"], told["twice"], told["skipped"]) == (BUNDLES, BUNDLES, 0, stored)
    assert stored > BUNDLES // 3  # at moments all over the batch
    assert results(out) == results(tmp_path / "other")


def test_what_it_began_ends_with_it(tmp_path: Path) -> None:
    """After kill -9 no worker goes on: the pipe of its messages, which all of them hold, comes to its end."""
    place = small(tmp_path / "in", 40)
    with started(place, tmp_path / "out") as run:
        assert after(run, 2) == 2
        run.kill()
        ended(run)

    with StoreReader.at(tmp_path / "out") as store:
        assert sum(store.statuses().values()) < 40


def test_interrupted(tmp_path: Path, run: Run) -> None:
    """Ctrl-C: exit 130, what was stored stays, and it says how to go on."""
    place, out = small(tmp_path / "in", 40), tmp_path / "out"
    with started(place, out) as cut:
        assert after(cut, 2) == 2
        os.killpg(cut.pid, signal.SIGINT)
        said = ended(cut)

    assert (cut.returncode, "--resume" in said, "Traceback" in said) == (130, True, False)
    with StoreReader.at(out) as store:
        stored = sum(store.statuses().values())
    assert 2 <= stored < 40
    last = run("triage", place, "--out-dir", out, "--resume", "--progress", "json")
    assert progress(last.err)[-1]["skipped"] == stored


@PROOF
def test_a_full_disk(tmp_path: Path) -> None:
    """It says so and leaves with 6; what was stored is whole; with more room it goes on to the same results."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs root and unshare for a small tmpfs of its own")
    place, out, saved = small(tmp_path / "in", 60), tmp_path / "out", tmp_path / "saved"
    for folder in (out, saved):
        folder.mkdir()
    run = shlex.join(command(place, "--out-dir", out, "-j", "2", "--resume", "--progress", "no"))
    steps = f"""
        mount -t tmpfs -o size=1600k none {out} || exit 99
        {run}; echo "code $?"
        cp {out}/results.sqlite* {saved}
        mount -o remount,size=64m {out}
        {run}; echo "code $?"
        mkdir {saved}/later && cp {out}/results.sqlite* {saved}/later"""
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", steps], capture_output=True, text=True, check=False, cwd=SUPPORT
    )
    if done.returncode == 99:
        pytest.skip("no file system may be mounted here")
    whole = triage(place, "--out-dir", tmp_path / "whole", "-j", "2")

    codes = [line for line in done.stdout.splitlines() if line.startswith("code ")]
    assert codes == ["code 6", f"code {whole.returncode}"]
    assert "room" in done.stderr
    assert "Traceback" not in done.stderr
    before, after_all = results(saved), results(saved / "later")
    assert 0 < len(before) < 60
    assert before.items() <= after_all.items()
    assert after_all == results(tmp_path / "whole")


def test_two_runs_on_one_folder(tmp_path: Path) -> None:
    """The second one says so and leaves; with --wait it begins when the first has ended."""
    place, out = small(tmp_path / "in", 2), tmp_path / "out"
    with Store.open(out, Analysis("1.0", "0123456789abcdef")):
        refused = triage(place, "--out-dir", out, "--resume")
        waiting = started(place, out, "--wait")
        assert waiting.stderr is not None
        told = waiting.stderr.readline()
    last = progress(ended(waiting))[-1]

    assert (refused.returncode, "another run" in refused.stderr, "another run" in told) == (2, True, True)
    assert (waiting.returncode, last["done"]) == (0, 2)


def test_the_memory_of_the_parent_does_not_grow(tmp_path: Path) -> None:
    """With the number of bundles, that is; what it needs at the most is told when it ends."""
    peaks = []
    for count in (100, 10_000) if FULL else (8, 32):
        run = triage(small(tmp_path / f"in{count}", count), "--out-dir", tmp_path / f"out{count}", "-j", "2")
        peaks.append(int(run.stderr.split()[-1]))

    assert peaks[1] < 1.05 * peaks[0]
