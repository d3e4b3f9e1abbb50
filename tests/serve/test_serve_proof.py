"""What is promised of the server when much happens at once, and when things go wrong: kill -9, slow clients, a full
disk, bundles that are larger than its memory. Everything on the real process, over real sockets.

By default a few of each, on SQLite; THPDIAG_PROOF=1 runs the counts of the issue, and on PostgreSQL too.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from hashlib import sha256
from pathlib import Path
from signal import SIGKILL
from threading import Barrier
from time import time

import pytest
from sqlalchemy import select

from postgres_server import SMALL, programs
from postgres_server import running as postgres_running
from serve_clients import BYTES, TUS, Bundle, Load, ask, begun, creation, dripped, part_sent, stored
from serve_impatient import Hasty
from serve_process import LONG, Running, running
from serve_small_disk import Confined, Failing
from serve_stepping import Stepping
from thpdiag.serve.storage.bundles import StorageLimits
from thpdiag.serve.storage.database import DAY, RECEIVING, bundle, case, job, read_transaction, upload
from thpdiag.serve.storage.jobs import DONE, RUNNING
from thpdiag.serve.storage.retention import Terms
from thpdiag.serve.storage.storage import Storage

FULL = os.environ.get("THPDIAG_PROOF") == "1"
KILLS, EACH = (100, 6) if FULL else (1, 3)  # kills, and bundles that begin to be sent after each start
STEPS = 100 if FULL else 3  # of the clock
UPLOADS, READERS = (20, 200) if FULL else (3, 8)
HELD = 300 if FULL else 30
SLOW = 50 if FULL else 12
LARGE = (1 << 30) if FULL else (48 << 20)
MIB = 1 << 20
BOTH = pytest.mark.parametrize("database", ["sqlite", "postgresql"] if FULL else ["sqlite"], indirect=True)
CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")


def opened(server: Running, database: str | None, later: float = 0.0) -> Storage:
    """What a server has kept, after it has ended."""
    return Storage.open(server.folder, database, StorageLimits(spare=0), lambda: time() + later)


def begun_twice(storage: Storage) -> list[str]:
    """Jobs that a server has taken with it for the second time; after the third they count as its murderers."""
    with read_transaction(storage.engine) as connection:
        return list(connection.scalars(select(job.c.id).where(job.c.state == RUNNING, job.c.attempts >= 2)))


@BOTH
def test_killed_at_any_moment_under_load(tmp_path: Path, database: str | None) -> None:
    """kill -9 again and again: what was answered is there once and analysed; what broke off resumes or expires."""
    kills = KILLS if database is None or not FULL else KILLS // 10
    options = ("--workers", "2", *(("--database", database) if database else ()))
    chance = random.Random(8)
    with running(tmp_path / "data", *options) as server:
        load = Load(server)
        with load.running(senders=4, readers=3):
            for kill in range(kills):
                load.add(*(Bundle(EACH * kill + n, chance.randrange(1_200_000)) for n in range(1, EACH)))
                load.leave(Bundle(EACH * kill, 300_000))
                if chance.random() < 0.3 and load.jobs:
                    server.ended(chance.choice(list(load.jobs.values())))
                load.after(chance.randrange(1, 40))
                load.killed()
                with closing(opened(server, database)) as storage:
                    twice = begun_twice(storage)
                load.started()
                for key in twice:
                    server.ended(key)
            resumed, expiring = load.left[::2], load.left[1::2]
            for where, one in resumed:
                load.resume(where, one)
        ended = {one: server.ended(key)["state"] for one, key in load.jobs.items()}
        assert server.end() == 0

    assert set(ended.values()) == {DONE}
    assert len(ended) == (EACH - 1) * kills + len(resumed)
    assert "Traceback" not in server.log.read_text()
    with closing(opened(server, database)) as storage:
        each_is_there_once(storage, load)
    with closing(opened(server, database, 2 * DAY)) as storage:
        expire(storage, len(expiring))
    assert stored(server.folder) == {one.sha256: one.sha256 for one in load.jobs}


def test_the_database_is_killed_under_load(tmp_path: Path) -> None:
    """kill -9 of PostgreSQL, again and again: requests are refused until it is back, and nothing is lost or doubled."""
    home = programs()
    if home is None:
        pytest.skip("no PostgreSQL server of version 15 or later in /usr/lib/postgresql")
    chance, kills = random.Random(9), 10 if FULL else 1
    with postgres_running(home, SMALL) as postgres:
        database = postgres.fresh()
        with running(tmp_path / "data", "--workers", "2", "--database", database) as server:
            load = Load(server, unready={503})
            with load.running(senders=4, readers=3):
                for kill in range(kills):
                    load.add(*(Bundle(EACH * kill + n, chance.randrange(1_200_000)) for n in range(EACH)))
                    load.after(chance.randrange(1, 40))
                    postgres.end(SIGKILL)
                    load.after(chance.randrange(1, 40))
                    postgres.start()
            ended = {server.ended(key)["state"] for key in load.jobs.values()}
            assert server.end() == 0
        assert ended == {DONE}
        assert len(load.jobs) == EACH * kills
        assert "Traceback" not in server.log.read_text()
        with closing(opened(server, database)) as storage:
            each_is_there_once(storage, load)


def test_the_clock_steps_under_load(tmp_path: Path) -> None:
    """By hours while bundles are sent and analyzed, by half a year while none is: nothing is lost or doubled."""
    chance, hour = random.Random(10), 3600.0
    server = Stepping(tmp_path / "data", ("--workers", "2"))
    with server.serving():
        load = Load(server)
        with load.running(senders=4, readers=3):
            for step in range(STEPS):
                load.add(*(Bundle(EACH * step + n, chance.randrange(1_200_000)) for n in range(EACH)))
                load.after(chance.randrange(1, 40))
                server.step_to(chance.choice((-20, -6, -1, 0, 1, 6, 20)) * hour)
        jobs = [server.ended(key) for key in load.jobs.values()]
        for ahead in (DAY / 2, 180 * DAY, -180 * DAY, 0.0):
            server.step_to(ahead)
            assert server.asked("GET", "/cases")[0] == server.asked("GET", "/healthz")[0] == 200
        assert server.end() == 0
    assert [job for job in jobs if job["state"] != DONE] == []
    assert len(load.jobs) == EACH * STEPS
    assert "Traceback" not in server.log.read_text()
    with closing(opened(server, None)) as storage:
        each_is_there_once(storage, load)


def each_is_there_once(storage: Storage, load: Load) -> None:
    """Row, file, case, and jobs that are all done, of each bundle that was accepted; nothing else."""
    sent = {one.sha256: one for one in load.jobs}
    with read_transaction(storage.engine) as connection:
        sizes = {row.sha256: row.size for row in connection.execute(select(bundle)) if row.removed is None}
        cases = {row.number: row.sha256 for row in connection.execute(select(case))}
        jobs = connection.execute(select(job.c.sha256, job.c.state, job.c.case, job.c.attempts)).all()
    hosts = {found.sha256: document["host"]["name"] for found, document in storage.cases.documents()}

    assert stored(storage.folder) == {key: key for key in sent}
    assert sizes == {key: len(one.content) for key, one in sent.items()}
    assert sorted(cases.values()) == sorted(sent)
    assert hosts == {key: one.host for key, one in sent.items()}
    assert {row.sha256 for row in jobs} == set(sent)
    assert {(row.state, cases.get(row.case) == row.sha256) for row in jobs} == {(DONE, True)}
    made = [row.sha256 for row in jobs if row.attempts]  # others were told of a case that was there
    assert len(made) == len(set(made)) == len(sent)


def expire(storage: Storage, least: int) -> None:
    """After a while what was begun and not finished goes, and with it every file that nobody names."""
    spool = storage.folder / "uploads"
    with read_transaction(storage.engine) as connection:
        begun = set(connection.scalars(select(upload.c.id).where(upload.c.state == RECEIVING)))
    assert len(begun) >= least
    assert begun <= {file.name for file in spool.iterdir()}
    pruned = storage.retention.prune(Terms())
    assert (pruned.uploads, pruned.bundles, pruned.cases) == (len(begun), 0, 0)
    assert list(spool.iterdir()) == []


def read_by_many(server: Running, answers: dict[str, re.Pattern[bytes]], together: Barrier) -> None:
    """One reader: all of these pages, once the others begin too."""
    together.wait(LONG)
    for path, like in answers.items():
        told = ask(server.port, "GET", path)
        assert told.status == 200, (path, told)
        assert like.search(told.body), (path, told)


@BOTH
def test_many_send_and_many_read_at_once(tmp_path: Path, database: str | None) -> None:
    """No request fails, and each answer is the right one."""
    bundles = [Bundle(number, MIB + number) for number in range(1, UPLOADS + 1)]
    together = Barrier(UPLOADS + READERS)

    def send(one: Bundle) -> str:
        together.wait(LONG)
        return server.sent(one.content, one.name)

    with running(tmp_path / "data", *(("--database", database) if database else ())) as server:
        case = server.ended(server.sent(Bundle(0).content, Bundle(0).name))["case"]
        whole = server.asked("GET", f"/api/v1/cases/{case}/report.json")[1]
        answers = {
            "/healthz": re.compile(b'"status": "ok"'), "/cases": re.compile(b"shop00000"),
            f"/cases/{case}": re.compile(b"shop00000"), f"/cases/{case}/page": re.compile(b"shop00000.*</html>", re.S),
            "/api/v1/cases": re.compile(case.encode()), f"/api/v1/cases/{case}": re.compile(b"shop00000"),
            f"/api/v1/cases/{case}/report.json": re.compile(re.escape(whole) + rb"\Z"),
        }  # fmt: skip
        with ThreadPoolExecutor(UPLOADS + READERS) as pool:
            reading = [pool.submit(read_by_many, server, answers, together) for _ in range(READERS)]
            sending = [pool.submit(send, one) for one in bundles]
            jobs = [future.result() for future in sending]
            for future in reading:
                future.result()
        ended = [server.ended(key) for key in jobs]
        hosts = [server.document(told["case"])["host"]["name"] for told in ended]

    assert hosts == [one.host for one in bundles]
    assert "Traceback" not in server.log.read_text()


def test_uploads_under_way_hold_nobody_up(tmp_path: Path) -> None:
    """Hundreds of bundles have half come: pages, another's upload and its analysis do not wait for the other half."""
    bundles = [Bundle(number, 150_000) for number in range(1, HELD + 1)]
    with running(tmp_path / "data") as server, ExitStack() as undo:
        senders = [undo.enter_context(part_sent(server.port, *by_put_or_tus(server, one))) for one in bundles]
        case = server.ended(server.sent(Bundle(0).content, Bundle(0).name))["case"]
        assert server.document(case)["host"]["name"] == "shop00000"
        for path in ("/", "/cases", f"/cases/{case}/page", "/fleet", "/healthz", "/metrics") * 3:
            assert server.asked("GET", path)[0] == 200
        assert len(stored(server.folder)) == 1
        for sender, one in zip(senders, bundles, strict=True):
            sender.sendall(one.content[len(one.content) // 2 :])
        assert server.asked("GET", "/cases")[0] == 200
        told = [sender.recv(12) for sender in senders]

    assert set(told) == {b"HTTP/1.1 201", b"HTTP/1.1 204"}
    assert stored(server.folder) == {one.sha256: one.sha256 for one in (Bundle(0), *bundles)}
    assert "Traceback" not in server.log.read_text()


def by_put_or_tus(server: Running, one: Bundle) -> tuple[str, str, int, bytes, dict[str, str]]:
    """The request that sends a bundle, and the first half of it: by the one way and by the other in turn."""
    half = one.content[: len(one.content) // 2]
    if one.number % 2:
        return "PUT", f"/api/v1/bundles/{one.name}", len(one.content), half, {}
    return "PATCH", begun(server.port, one), len(one.content), half, {**BYTES, "Upload-Offset": "0"}


def test_slow_clients_hold_nobody_up_and_are_sent_away(tmp_path: Path) -> None:
    """Connections that bring a byte now and then, of a head or a body: others are served, and these end with 408."""
    server = Running(tmp_path / "data") if FULL else Hasty(tmp_path / "data")
    with server.serving(), ExitStack() as undo:
        heads = [undo.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(SLOW // 2)]
        for head in heads:
            head.sendall(b"GET /cases HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        bodies = [
            undo.enter_context(part_sent(server.port, "PUT", f"/api/v1/bundles/{number}", MIB, b"x"))
            for number in range(SLOW // 2)
        ]
        case = server.ended(server.sent(Bundle(0).content, Bundle(0).name))["case"]
        assert server.asked("GET", f"/cases/{case}/page")[0] == 200
        told = dripped([*heads, *bodies])
        assert server.asked("GET", "/cases")[0] == 200

    assert {answer[:12] for answer in told} == {b"HTTP/1.1 408"}
    assert stored(server.folder) == {Bundle(0).sha256: Bundle(0).sha256}
    assert list((server.folder / "uploads").iterdir()) == []
    assert "Traceback" not in server.log.read_text()


def form(one: Bundle) -> tuple[bytes, dict[str, str]]:
    """What a browser without script sends."""
    head = f'--x\r\nContent-Disposition: form-data; name="bundle"; filename="{one.name}"\r\n\r\n'
    return head.encode() + one.content + b"\r\n--x--\r\n", {"Content-Type": "multipart/form-data; boundary=x"}


@pytest.fixture
def confined(tmp_path: Path) -> Iterator[Confined]:
    """A server on a disk of 200 MiB of its own."""
    yield from Confined.on_a_small_disk(tmp_path / "data", "200m")


def test_a_disk_that_fills_up_during_uploads(confined: Confined) -> None:
    """Each way says 507 and stores nothing; cases can be read; with room again, what resumes does, and is analysed."""
    server = confined
    put, posted, resumed = Bundle(1, 3 * MIB), Bundle(2, 3 * MIB), Bundle(3, 3 * MIB)
    case = server.ended(server.sent(Bundle(0).content, Bundle(0).name))["case"]
    before = server.document(case)
    where, (body, kind) = begun(server.port, resumed), form(posted)
    half = len(resumed.content) // 2
    assert ask(server.port, "PATCH", where, resumed.content[:half], {**BYTES, "Upload-Offset": "0"}).status == 204
    with (
        part_sent(server.port, "PUT", "/api/v1/bundles/one.tar", len(put.content), put.content[:half]) as one,
        part_sent(server.port, "POST", "/upload", len(body), body[:half], kind) as two,
    ):
        server.until_written(3)
        server.fill()
        one.sendall(put.content[half:])
        two.sendall(body[half:])
        assert [one.recv(12), two.recv(12)] == [b"HTTP/1.1 507"] * 2
    assert server.files() == {where.rpartition("/")[2], Bundle(0).sha256[2:]}
    server.fill()  # what they took was given back
    rest = {**BYTES, "Upload-Offset": str(half)}
    full = [
        ask(server.port, "PATCH", where, resumed.content[half:], rest),
        ask(server.port, "PUT", "/api/v1/bundles/one.tar", put.content),
        ask(server.port, "POST", "/upload", body, kind), ask(server.port, "POST", "/files", headers=creation(put)),
    ]  # fmt: skip
    assert [answer.status for answer in full] == [507] * 4
    assert [server.asked("GET", path)[0] for path in ("/", "/cases", f"/cases/{case}", "/metrics")] == [200] * 4
    assert server.asked("GET", f"/cases/{case}/page")[0] == 200
    assert server.document(case) == before
    unready = (server.asked("GET", "/healthz")[0] == 503 for _ in range(100_000))
    assert any(unready), "the disk counts as usable although it is full"  # tried anew two seconds after the last time
    assert server.files() == {where.rpartition("/")[2], Bundle(0).sha256[2:]}

    server.make_room()
    assert any(server.asked("GET", "/healthz")[0] == 200 for _ in range(100_000)), "the disk counts as full for ever"
    told = ask(server.port, "HEAD", where, headers=TUS)
    at = int(told.headers["upload-offset"])
    assert at >= half
    last = ask(server.port, "PATCH", where, resumed.content[at:], {**BYTES, "Upload-Offset": str(at)})
    again = server.sent(put.content, put.name)
    ended = [server.ended(key) for key in (last.headers["thpdiag-job"].rpartition("/")[2], again)]
    hosts = [server.document(each["case"])["host"]["name"] for each in ended]
    assert hosts == [resumed.host, put.host]
    assert server.files() == {each.sha256[2:] for each in (Bundle(0), resumed, put)}
    assert "Traceback" not in server.log.read_text()


def writes(server: Running, case: str, upload: str) -> dict[str, int]:
    """Every kind of write but deleting, with how it was answered."""
    sent, note = Bundle(5, 300_000), b"text=later&state=waiting&days=2"
    body, kind = form(sent)
    typed = {"Content-Type": "application/x-www-form-urlencoded", "Origin": server.url}
    asked: dict[str, tuple[str, str, bytes, dict[str, str]]] = {
        "put": ("PUT", "/api/v1/bundles/five.tar", sent.content, {}),
        "form": ("POST", "/upload", body, kind),
        "begin": ("POST", "/files", b"", creation(sent)),
        "piece": ("PATCH", upload, bytes(300_000), {**BYTES, "Upload-Offset": "0"}),
        "file of a case": ("POST", f"/cases/{case}/files", body, kind),
        "keep": ("PUT", f"/api/v1/cases/{case}/kept", b"", {}),
        "note": ("POST", f"/cases/{case}/notes", note, typed),
        "state": ("POST", f"/cases/{case}/work", note, typed),
        "link": ("POST", f"/cases/{case}/share", note, typed),
    }
    return {name: ask(server.port, *request).status for name, request in asked.items()}


def reads(server: Running, case: str) -> set[int]:
    places = ("/", "/cases", f"/cases/{case}", f"/cases/{case}/page", "/fleet", "/metrics", "/api/v1/cases")
    return {server.asked("GET", place)[0] for place in places}


def test_each_kind_of_write_on_a_full_disk(confined: Confined) -> None:
    """It says that there is no room, nothing else breaks, and deleting makes room."""
    server = confined
    case = server.ended(server.sent(Bundle(0).content, Bundle(0).name))["case"]
    upload = begun(server.port, Bundle(6, 300_000))
    server.fill()
    answers = writes(server, case, upload)
    assert {name: status for name, status in answers.items() if status not in (507, 303)} == {}
    assert {name for name, status in answers.items() if status == 507} >= {"put", "form", "begin", "piece"}
    assert reads(server, case) == {200}
    assert ask(server.port, "DELETE", f"/api/v1/cases/{case}").status == 204
    assert "Traceback" not in server.log.read_text()


@pytest.mark.proof
def test_each_kind_of_write_on_a_disk_that_failed(tmp_path: Path) -> None:
    """A file system that its disk made read-only: unavailable, not full, and not a mistake of the server."""
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("no mkfs.ext4")
    for server in Failing.on_a_small_disk(tmp_path / "data", "64m"):
        case = server.ended(server.sent(Bundle(0).content, Bundle(0).name))["case"]
        upload = begun(server.port, Bundle(6, 300_000))
        server.fail()
        answers = writes(server, case, upload)
        assert set(answers.values()) == {503}, answers
        assert ask(server.port, "DELETE", f"/api/v1/cases/{case}").status == 503
        assert ask(server.port, "DELETE", upload, headers=TUS).status == 503
        assert reads(server, case) == {200}
        assert [server.asked("GET", path)[0] for path in ("/healthz", "/readyz")] == [503, 503]
        assert "Traceback" not in server.log.read_text()


def test_the_quota_comes_before_the_disk_is_full(tmp_path: Path) -> None:
    """Each way says 507 before a byte is kept; what there is goes on."""
    one, other = Bundle(1, 3 * MIB), Bundle(2, 3 * MIB)
    with running(tmp_path / "data", "--quota", "5 MiB") as server:
        key = server.sent(one.content, one.name)
        body, kind = form(other)
        answers = [
            ask(server.port, "PUT", f"/api/v1/bundles/{other.name}", other.content),
            ask(server.port, "POST", "/files", headers=creation(other)),
            ask(server.port, "POST", "/upload", body, kind),
        ]
        assert [answer.status for answer in answers] == [507] * 3
        assert server.ended(key)["state"] == DONE
        assert ask(server.port, "GET", "/cases").status == 200

    assert stored(server.folder) == {one.sha256: one.sha256}
    assert list((server.folder / "uploads").iterdir()) == []
    assert "Traceback" not in server.log.read_text()


@CURL
@pytest.mark.parametrize("way", ["put", "tus"] if FULL else ["tus"])
def test_the_memory_of_the_server_stays_flat(tmp_path: Path, way: str) -> None:
    """However large a bundle is, its upload takes 20 MB of memory at most beyond what the idle server has."""
    file, digest = tmp_path / "large", sha256()
    with file.open("wb") as out:
        for number in range(LARGE // MIB):
            block = number.to_bytes(MIB, "big")
            digest.update(block)
            out.write(block)
    with running(tmp_path / "data", "--spare", "1 B") as server:
        assert server.process
        server.ended(server.sent(Bundle(0).content, "small.tar"))
        idle = memory(server.process.pid, "VmRSS")
        Path(f"/proc/{server.process.pid}/clear_refs").write_text("5")  # the peak is counted from now on
        request = [f"{server.url}/api/v1/bundles/large"]
        if way == "tus":
            told = {**TUS, "Upload-Length": str(LARGE)}
            where = ask(server.port, "POST", "/files", headers=told).headers["location"]
            headers = {**BYTES, "Upload-Offset": "0"}.items()
            request = ["-XPATCH", *(f"-H{name}: {value}" for name, value in headers), f"{server.url}{where}"]
        subprocess.run(["curl", "-q", "-sS", "-f", "-T", file, *request], check=True, capture_output=True)
        grown = memory(server.process.pid, "VmHWM") - idle

    assert grown <= 20 << 10, grown
    assert (digest.hexdigest(),) * 2 in stored(server.folder).items()


def memory(pid: int, figure: str) -> int:
    """Of a process, in kB: `VmRSS` is what it has, `VmHWM` the most it has had."""
    return int(Path(f"/proc/{pid}/status").read_text().partition(f"{figure}:")[2].split()[0])
