"""Ctrl-C, SIGTERM and a terminal that closes, at any stage; a slow list, an empty one, none at all."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from command_line import SUPPORT
from command_line import Run as CommandRun
from thpdiag.cli import terminal as interrupted
from thpdiag.cli.terminal import interruptible
from thpdiag.store.reading import StoreReader
from triage_runs import FULL, after, command, ended, ends, progress, small, started, triage

Run = subprocess.Popen[str]
# What CPython's tracker of semaphores says of those that one knew which was killed; ours have no part in it.
FORGOTTEN = re.compile(r"Traceback .+\n  File .+/resource_tracker\.py.+\n(?:    .+\n)+KeyError: '/mp-.+\n")


def reading(out: Path, **streams: int) -> Run:
    """A run over a list that comes on its standard input."""
    return subprocess.Popen(
        command("--from", "-", "--out-dir", out, "-j", "2", "--progress", "json"),
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=SUPPORT, start_new_session=True,
        **{"stdin": subprocess.PIPE, **streams},
    )  # fmt: skip


def said(run: Run, *paths: Path) -> None:
    """Add to its list."""
    assert run.stdin is not None
    run.stdin.writelines(f"{path}\n" for path in paths)
    run.stdin.flush()


def children(run: Run) -> list[int]:
    """The processes that it began and that are there."""
    lists = Path(f"/proc/{run.pid}/task").glob("*/children")
    return [int(number) for file in lists for number in file.read_text(encoding="ascii").split()]


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP] if FULL else [signal.SIGTERM])
def test_signals_end_it_in_order(tmp_path: Path, number: signal.Signals) -> None:
    """To it alone or to all of its processes, a second time while it ends: 130, one sentence, nothing left."""
    place, out = small(tmp_path / "in", 40), tmp_path / "out"
    with started(place, out) as run:
        assert after(run, 2) == 2
        began = children(run)
        os.kill(run.pid, number)
        os.killpg(run.pid, number)
        told = ended(run)

    lines = [line for line in told.splitlines() if line and not line.startswith(("{", "peak"))]
    assert (run.returncode, len(lines), "--resume" in lines[0]) == (130, 1, True)
    assert not (out / ".thpdiag-scratch").exists()
    assert began
    with StoreReader.at(out) as store:
        store.check()


def test_interrupted_while_the_processes_begin(tmp_path: Path) -> None:
    """Before there is any result: nobody else says anything."""
    out = tmp_path / "out"
    with reading(out) as run:
        said(run, small(tmp_path / "in", 1) / "web0000")
        while len(children(run)) < 2:  # the tracker of semaphores and the fork server, which imports for a second
            assert run.poll() is None
        os.killpg(run.pid, signal.SIGINT)
        told = ended(run)

    lines = [line for line in told.splitlines() if line and not line.startswith(("{", "peak"))]
    assert (run.returncode, [line for line in lines if "interrupted" not in line]) == (130, [])


def test_an_exception_that_got_lost_is_raised_again(capfd: pytest.CaptureFixture[str]) -> None:
    """Out of a finalizer none comes, and no traceback either; later signals are as good as none."""

    class Finalizer:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    def run() -> None:
        with interruptible("all is safe") as check:
            Finalizer()
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            check()

    before = [signal.getsignal(number) for number in interrupted.SIGNALS]
    try:
        with pytest.raises(KeyboardInterrupt):
            run()
    finally:
        for number, handler in zip(interrupted.SIGNALS, before, strict=True):
            signal.signal(number, handler)
    assert capfd.readouterr().err == "thpdiag: interrupted; all is safe\n"


def test_what_was_ignored_stays_so() -> None:
    """`nohup` asks for that; and what was not, is as before afterwards."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ours = signal.getsignal(signal.SIGTERM)
    try:
        with interruptible("all is safe"):
            signal.raise_signal(signal.SIGHUP)
            assert signal.getsignal(signal.SIGTERM) != ours
        assert signal.getsignal(signal.SIGTERM) == ours
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_slow_list_delays_nothing(tmp_path: Path) -> None:
    """What it has named is done and stored, while nobody knows whether more comes; Ctrl-C is heard meanwhile."""
    place, out = small(tmp_path / "in", 2), tmp_path / "out"
    with reading(out) as run:
        said(run, place / "web0000")
        assert run.stderr is not None
        lines = (progress(line) for line in run.stderr)
        first = next(line[0] for line in lines if line and line[0]["done"])
        assert (first["done"], first["listed"], list(ends(out).values())) == (1, False, ["ok"])
        said(run, place / "web0001")
        next(line for line in lines if line and line[0]["done"] == 2)
        os.kill(run.pid, signal.SIGINT)
        assert "Fatal" not in ended(run)

    assert (run.returncode, len(ends(out))) == (130, 2)


def test_a_list_that_breaks_off(tmp_path: Path) -> None:
    """Its error is told; what was stored before stays."""
    place, out, pipe = small(tmp_path / "in", 1), tmp_path / "out", tmp_path / "list"
    os.mkfifo(pipe)
    with started(place, out, "--from", str(pipe)) as run:
        with pipe.open("wb") as end:
            assert after(run, 1) == 1
            end.write("name\n".encode("utf-16"))
        told = ended(run)

    assert (run.returncode, "UTF-16" in told, "Traceback" in told) == (3, True, False)
    assert ends(out) == {"in/web0000": "ok"}


@pytest.mark.parametrize(
    ("streams", "code", "word"),
    [
        ({"stdin": subprocess.DEVNULL}, 3, "the list is empty"),
        ({"preexec_fn": lambda: os.close(0), "stdin": None}, 2, "standard input is closed"),
    ],
)
def test_no_list(tmp_path: Path, streams: dict[str, int | Callable[[], None]], code: int, word: str) -> None:
    """A job that found nothing to look at has not passed."""
    run = reading(tmp_path / "out", **streams)  # type: ignore[arg-type]
    told = ended(run)

    assert (run.returncode, word in told, "Traceback" in told) == (code, True, False)


def test_more_processes_than_bundles(tmp_path: Path) -> None:
    """As many as there are bundles are begun; those that never had one used to complain at the end."""
    run = triage(small(tmp_path / "in", 1), "--out-dir", tmp_path / "out", "-j", "64", "--progress", "no", mocked=False)

    assert (run.returncode, run.stderr) == (0, "")


def test_files_of_somebody_else_stay(tmp_path: Path, run: CommandRun) -> None:
    """A folder with a page that is not ours is refused; one with a folder that is called like ours keeps it."""
    place, site, mine = small(tmp_path / "in", 1), tmp_path / "site", tmp_path / "mine"
    site.mkdir()
    (site / "index.html").write_text("home\n", encoding="utf-8")
    (mine / "scratch").mkdir(parents=True)
    (mine / "scratch/thesis.txt").write_text("by me\n", encoding="utf-8")
    refused = run("triage", place, "--out-dir", site)
    done = run("triage", place, "--out-dir", mine)

    assert (refused.code, "index.html" in refused.err, len(list(site.iterdir()))) == (2, True, 1)
    assert (done.code, (mine / "scratch/thesis.txt").exists()) == (0, True)


def test_a_worker_without_room(tmp_path: Path) -> None:
    """Its sentence comes to the user, with exit 6, and no bundle is blamed."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs root and unshare for a small tmpfs of its own")
    place, out = small(tmp_path / "in", 2), tmp_path / "out"
    out.mkdir()
    run = " ".join(command(place, "--out-dir", out, "-j", "2", "--progress", "no"))
    steps = f"mount -t tmpfs -o size=16m,nr_inodes=7 none {out} || exit 99; {run}"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", steps], capture_output=True, text=True, check=False, cwd=SUPPORT
    )
    if done.returncode == 99:
        pytest.skip("no file system may be mounted here")

    assert (done.returncode, "no room to work in" in done.stderr, "Traceback" in done.stderr) == (6, True, False)


def grandchildren(run: Run) -> list[int]:
    """The processes of its fork server."""
    found = []
    for pid in children(run):
        with suppress(OSError):
            found += Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [int(number) for number in found]


def nobody(_: Run) -> list[int]:
    return []


def test_processes_that_are_killed_without_work(tmp_path: Path) -> None:
    """kill -9 of all that wait for a bundle, and of what begins others: the next bundle is done all the same."""
    place, out = small(tmp_path / "in", 3), tmp_path / "out"
    with reading(out) as run:
        assert run.stderr is not None
        lines = (progress(line) for line in run.stderr)
        for number, killed in enumerate((grandchildren, children, nobody)):
            said(run, place / f"web000{number}")
            next(line for line in lines if line and line[0]["done"] == number + 1)
            for pid in killed(run):
                os.kill(pid, signal.SIGKILL)
        told = ended(run)

    told = FORGOTTEN.sub("", told)
    lines_ = [line for line in told.splitlines() if "Traceback" in line or line.startswith("thpdiag")]
    assert (run.returncode, lines_, list(ends(out).values())) == (0, [], ["ok"] * 3)


def test_processes_that_are_stopped(tmp_path: Path) -> None:
    """SIGSTOP, as a debugger does: Ctrl-C ends them too."""
    place, out = small(tmp_path / "in", 40), tmp_path / "out"
    with started(place, out) as run:
        assert after(run, 2) == 2
        held = grandchildren(run)
        for pid in held:
            os.kill(pid, signal.SIGSTOP)
        os.killpg(run.pid, signal.SIGINT)
        ended(run)

    assert (run.returncode, len(held) > 0) == (130, True)
    assert not any(map(is_there, held))
