"""A database or folder that is lost, damaged or changed: the server says so and answers nothing in its place.

What happens on the disk is done by the test, what is looked at are answers, the log and the commands.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from command_line import Run
from serve_application import BEFORE, served
from thpdiag.serve.access.principals import Mode
from thpdiag.serve.storage.storage import DATABASE_FILE, Storage


def delete_database(folder: Path) -> None:
    (folder / DATABASE_FILE).unlink()


def replace_database(folder: Path) -> None:
    (folder / DATABASE_FILE).rename(folder / "other")
    sqlite3.connect(folder / DATABASE_FILE).close()
    (folder / DATABASE_FILE).touch()


def change_version(folder: Path) -> None:
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection, connection:
        connection.execute("UPDATE thpdiag_serve SET version = 99")


def damage(folder: Path) -> None:
    """Random bytes in the place of all pages but the first."""
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    with (folder / DATABASE_FILE).open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(os.urandom(size - 4096))


@pytest.mark.parametrize(
    ("happens", "reason"),
    [
        (delete_database, "the file of the database is gone"),
        (replace_database, "the file of the database was replaced while the server ran; restart it"),
        (change_version, "the database was changed by another version of thpdiag"),
        (damage, "the database is damaged"),
        (shutil.rmtree, "the data folder is gone"),
    ],
)
def test_a_store_that_is_lost_is_said(
    happens: Callable[[Path], None], reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """503 with the reason on both addresses, for uploads and for every page; one line in the log; nothing is made."""
    with served(tmp_path, Mode.TOKENS) as whole:
        whole.completed(BEFORE)
        token, cookie = whole.token("admin"), whole.signed_in("admin")
        assert whole.ask("GET", "/cases", *cookie).status == 200
        whole.storage.engine.dispose()  # no page of the database stays in memory
        happens(whole.storage.folder)
        with caplog.at_level(logging.WARNING):
            health = [whole.ask("GET", path) for path in ("/healthz", "/readyz", "/healthz")]
            answers = [
                whole.ask(*request)
                for request in (
                    ("PUT", "/api/v1/bundles/a", token), ("POST", "/files", token), ("GET", "/api/v1/cases", token),
                    ("GET", "/cases", cookie[0]), ("GET", "/fleet", cookie[0]), ("POST", "/sign-in"),
                )
            ]  # fmt: skip
            open_to_all = whole.ask("GET", "/api/v1/openapi.json", token).status

    assert {(one.status, one.told["status"], one.told["database"]) for one in health} == {(503, "failing", False)}
    assert all(reason in one.told["reason"] for one in health)
    assert [one.status for one in answers] == [503] * 6
    assert all(f"not ready: {reason}" in one.body.decode() for one in answers)
    assert len([line for line in caplog.messages if line.startswith("not ready")]) == 1
    assert open_to_all == 200
    assert happens is not delete_database or not (tmp_path / "data" / DATABASE_FILE).exists()


def test_bundles_without_their_database_are_not_taken_for_nothing(tmp_path: Path, run: Run) -> None:
    """Neither a new server nor a command makes an empty database beside them; a repair does, and says what it does."""
    with served(tmp_path) as whole:
        whole.completed(BEFORE)
        folder = whole.storage.folder
    place = ("--data", folder)
    for lose in (delete_database, lambda folder: (folder / DATABASE_FILE).write_bytes(b"")):
        lose(folder)
        for command in ((), ("prune",), ("token", "list"), ("check",)):
            left = run("serve", *command, *place)
            assert (left.code, left.out, "serve restore" in left.err) == (3, "", True)
        assert len(list(folder.glob("bundles/*/*"))) == 1

    made = run("serve", "check", "--repair", *place)

    assert (made.code, made.out.splitlines()[-1]) == (0, "checked: 1 problems, 1 repaired")
    assert "not in the database; it is queued to be analyzed" in made.out
    with closing(Storage.open(folder)) as storage:
        assert storage.jobs.counts() == {"queued": 1}


def test_a_damaged_database_is_refused_at_the_start(tmp_path: Path, run: Run) -> None:
    """Exit 3 with a sentence; a check says what is wrong and repairs nothing of it, and there is no backup of it."""
    with served(tmp_path) as whole:
        whole.completed(BEFORE)
        folder = whole.storage.folder
    with (folder / DATABASE_FILE).open("r+b") as file:
        file.seek(8 * 4096)
        file.write(os.urandom(60_000))

    for command in (("run", "--port", "0"), ("check", "--repair"), ("backup", tmp_path / "b.tar")):
        left = run("serve", *command, "--data", folder)
        assert (left.code, "Traceback" in left.err) == (3, False)
        assert "damaged" in left.err or "database: " in left.out
    assert not (tmp_path / "b.tar").exists()


def test_a_check_finds_and_repairs(tmp_path: Path, run: Run) -> None:
    """Files and rows that do not fit each other; without --repair nothing changes, and a running server is not in the
    way; with it the second check finds nothing."""
    with served(tmp_path) as whole:
        folder, storage = whole.storage.folder, whole.storage
        gone, stray, other = (whole.uploaded(text, "a").sha256 for text in (b"gone", b"stray", b"other"))
        keys = [storage.uploads.begin("a", 10, "ci") for _ in range(2)]
        storage.content.remove(gone)
        storage.uploads.file(keys[0]).unlink()
        storage.uploads.file("f" * 32).touch()
        kept = storage.content.path(other)
        storage.content.path(stray).rename(tmp_path / "stray")
        wrong = folder / "bundles" / ("0" * 2) / ("0" * 62)
        wrong.parent.mkdir()
        (tmp_path / "stray").rename(wrong)
        found = run("serve", "check", "--data", folder)
        assert run("serve", "check", "--repair", "--data", folder).code == 2
    repaired = run("serve", "check", "--repair", "--data", folder)
    again = run("serve", "check", "--data", folder)
    kept.chmod(0o600)
    kept.write_bytes(b"OTHER")
    read = [run("serve", "check", *more, "--data", folder) for more in ((), ("--content",))]

    words = sorted(line.partition("; ")[0] for line in found.out.splitlines()[:-1])
    assert words == sorted(
        [f"bundle {gone}: its file is gone", f"bundle {stray}: its file is gone",
         f"bundle {'0' * 64}: not in the database",
         f"upload {keys[0]}: its file is gone", f"upload {'f' * 32}: not in the database"]
    )  # fmt: skip
    assert (found.code, found.out.splitlines()[-1]) == (3, "checked: 5 problems, 0 repaired")
    assert (repaired.code, repaired.out.splitlines()[-1]) == (0, "checked: 5 problems, 5 repaired")
    assert (again.code, again.out) == (0, "checked: 0 problems, 0 repaired\n")
    assert [(one.code, f"bundle {other}: its file has other bytes" in one.out) for one in read] == [
        (0, False),
        (3, True),
    ]


def test_a_backup_is_restored(tmp_path: Path, run: Run) -> None:
    """Taken while the server runs: in another folder, and in place of a database that was lost, all is there."""
    file, whole_file = tmp_path / "backup.tar", tmp_path / "whole.tar"
    with served(tmp_path) as whole:
        key = whole.completed(BEFORE)
        folder, document = whole.storage.folder, whole.storage.cases.document(key)
        assert [run("serve", "backup", file, "--data", folder).code, file.stat().st_mode & 0o777] == [0, 0o600]
        assert run("serve", "backup", whole_file, "--bundles", "--data", folder).code == 0
        later = whole.uploaded(b"later", "b").sha256
    refused = run("serve", "restore", file, "--data", folder)
    assert (refused.code, "move it away first" in refused.err) == (2, True)
    (folder / DATABASE_FILE).unlink()  # its log stays, and must not be read into the other one
    (folder / f"{DATABASE_FILE}-wal").write_bytes(b"x" * 5_000)

    codes = [run("serve", "restore", file, "--data", folder).code]
    codes.append(run("serve", "restore", whole_file, "--data", tmp_path / "new").code)
    checked = run("serve", "check", "--repair", "--data", folder)

    assert codes == [0, 0]
    assert f"bundle {later}: not in the database; it is queued" in checked.out
    for place in (folder, tmp_path / "new"):
        assert run("serve", "check", "--content", "--data", place).code == 0
        with closing(Storage.open(place)) as storage:
            assert storage.cases.document(key) == document
    for wrong in (b"", BEFORE.read_bytes(), whole_file.read_bytes()[:30_000]):
        (tmp_path / "wrong.tar").write_bytes(wrong)
        assert run("serve", "restore", tmp_path / "wrong.tar", "--data", tmp_path / "empty").code == 3
        assert not (tmp_path / "empty" / DATABASE_FILE).exists()
    with closing(Storage.open(tmp_path / "foreign")):
        pass
    (tmp_path / "foreign" / DATABASE_FILE).unlink()
    assert run("serve", "restore", file, "--data", tmp_path / "foreign").code == 2


def test_nothing_is_pruned_by_a_database_that_is_not_ours(tmp_path: Path, run: Run) -> None:
    """Bundles of an hour ago would be strays to an empty one."""
    with served(tmp_path) as whole:
        accepted = whole.uploaded(b"bundle", "b")
        file = whole.storage.content.path(accepted.sha256)
        os.utime(file, (0, 0))
        delete_database(whole.storage.folder)
        assert run("serve", "prune", "--data", whole.storage.folder).code == 3
        assert file.exists()
