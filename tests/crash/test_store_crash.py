"""The store under kill -9, a full disk, a second writer and ten thousand bundles."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from small_results import ANALYSIS, command, content, ran, result
from thpdiag.errors import StoreBusyError, StoreError
from thpdiag.store import schema as form
from thpdiag.store.reading import StoreReader
from thpdiag.store.schema import Busy
from thpdiag.store.store import Store

FULL = os.environ.get("THPDIAG_PROOF") == "1"
KILLS, BUNDLES, MANY = (100, 60, 10_000) if FULL else (4, 60, 2_000)


def whole(folder: Path, said: Sequence[str]) -> int:
    """How many bundles there are: each of them once and as it was made, and all that the writer had said among them."""
    if not (folder / form.DATABASE_NAME).is_file():
        assert not said
        return 0
    seen = []
    with (
        suppress(StoreError),
        StoreReader.at(folder) as reading,
    ):  # refused where it was killed before there were tables
        seen = [one.result for one in reading.results()]
    with Store.open(folder, ANALYSIS) as store:
        store.check()
        found = [one.result for one in store.results()]
    assert found == seen
    numbers = {content(number): number for number in range(BUNDLES)}
    there = [numbers[one.sha256] for one in found]
    assert len(set(there)) == len(there)
    assert set(map(int, said)) <= set(there)
    assert found == [result(number, 400) for number in there]
    return len(there)


def killed(folder: Path, after: int) -> list[str]:
    """What a writer had said when it was killed, which was right after it had stored so many more."""
    child = subprocess.Popen(command("write", folder, BUNDLES), stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child, child.stdout as lines:
        said = [line.strip() for line, _ in zip(lines, range(after), strict=False)]
        child.kill()
        said += [line.strip() for line in lines if line.endswith("\n")]
    return said


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Killed again and again while it stores, and started again: nothing that was stored is lost or there twice."""
    moments, said, folder, batches = random.Random(7), [], tmp_path / "0", 0
    for _ in range(KILLS):
        said += killed(folder, moments.randrange(12))
        if whole(folder, said) == BUNDLES:
            batches += 1
            said, folder = [], tmp_path / str(batches)

    said += ran(command("write", folder, BUNDLES))
    assert whole(folder, said) == BUNDLES
    assert sorted(set(said)) == sorted(said)


def test_killed_between_any_two_steps(tmp_path: Path) -> None:
    """Killed within SQLite's own steps, also while it makes the tables: all of a bundle is there, or nothing of it."""
    moments = random.Random(11)
    for kill in range(KILLS):
        folder = tmp_path / str(kill)
        child = subprocess.run(
            command("write", folder, BUNDLES, moments.randrange(1, 4_000)), stdout=subprocess.PIPE, text=True
        )
        assert child.returncode == -9
        whole(folder, child.stdout.splitlines())
    said = ran(command("write", folder, BUNDLES))
    assert whole(folder, said) == BUNDLES


def checked_full(told: dict[str, Any], *, full: bool) -> None:
    """The error, the rows that were there before, the mark, and the run after room was made."""
    count = told["stored"]
    assert told["code"] == 6
    assert "no room for results" in told["text"]
    assert ("database or disk is full" in told["text"]) is full
    assert f"The results of {count} bundles are stored" in told["text"]
    assert count > 20
    assert told["whole"]
    assert told["marks"] == ["disk full"]
    assert told["after"] == list(range(count, count + 5))


def on_a_small_disk(program: str, folder: Path) -> list[str]:
    """What a program says whose folder is a tmpfs that nobody else sees."""
    mount = f"mount -t tmpfs -o size=8m none '{folder}'"
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs root and unshare for a small tmpfs of its own")
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("no tmpfs can be mounted here")
    return ran(["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh", *command(program, folder)])


def test_a_read_only_disk(tmp_path: Path) -> None:
    """It can be read, though readers can share nothing; storing says why it cannot."""
    read, refused = on_a_small_disk("read-only", tmp_path)

    assert read == "5"
    assert refused == f"{tmp_path}: cannot be written (Read-only file system); choose a place on another file system"


def test_a_full_disk(tmp_path: Path) -> None:
    """A small tmpfs fills up: clear error, store intact, and it goes on once there is room."""
    (line,) = on_a_small_disk("fill", tmp_path)

    checked_full(json.loads(line), full=True)


def test_a_limit_on_files(tmp_path: Path) -> None:
    """The same below a limit on the size of files, which is told to a program in another way."""
    (line,) = ran(command("fill", tmp_path, 2_000_000))

    checked_full(json.loads(line), full=False)


def test_full_before_it_begins(tmp_path: Path) -> None:
    """No room for the ballast: the run does not begin and says why; it does once there is room."""
    (line,) = ran(command("fill", tmp_path, 500_000))

    told = json.loads(line)
    assert told["text"] == (
        f"{tmp_path}: no room for results (File too large). A run needs 1 MiB to begin; what is stored is safe."
    )
    assert (told["code"], told["stored"], told["whole"], told["marks"]) == (6, 0, True, [])
    assert told["after"] == [0, 1, 2, 3, 4]


def test_two_writers(tmp_path: Path) -> None:
    """The second says who writes, or waits until the first has ended; reading needs no lock."""
    with subprocess.Popen(command("hold", tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with pytest.raises(StoreBusyError, match=rf"another run of triage \(process {first.pid}\) writes to it"):
            Store.open(tmp_path, ANALYSIS)
        StoreReader.at(tmp_path).close()
        waited: list[str] = []

        def end_the_first(told: str) -> None:
            waited.append(told)
            first.stdin.close()  # type: ignore[union-attr]

        with Store.open(tmp_path, ANALYSIS, Busy.WAIT, end_the_first) as second:
            assert second.add(result(1))
    assert len(waited) == 1


def test_children_do_not_hold_the_folder(tmp_path: Path) -> None:
    """A run is killed while a bundle's child still lives: the next run need not wait for the child."""
    with subprocess.Popen(command("fork", tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "held\n"
        run.kill()
        run.wait()
        with Store.open(tmp_path, ANALYSIS) as store:
            store.check()
        assert run.stdin is not None
        run.stdin.close()
        assert run.stdout.readline() == "child\n"


def test_one_process_locks_once(tmp_path: Path) -> None:
    """Within a process too; after the end the folder is free."""
    with Store.open(tmp_path, ANALYSIS) as store:
        with pytest.raises(StoreBusyError, match="this run writes to it already"):
            Store.open(tmp_path, ANALYSIS)
        store.check()
    Store.open(tmp_path, ANALYSIS).close()


def test_memory_does_not_grow_with_bundles() -> None:
    """From 500 bundles to many, and while all of them are read back."""
    quick = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=quick if quick.is_dir() else None) as folder:
        begin, full, read, rows = ran(command("many", Path(folder), MANY))

    assert list(map(int, rows.split())) == [MANY, MANY, MANY * 18 // 10, MANY * 19 // 10]
    assert int(full) < int(begin) + 10_000
    assert int(read) < int(begin) + 10_000
