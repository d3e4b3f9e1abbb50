"""A real server on a real socket, clients that nobody here wrote, and kill -9 on the way (50 times by `make proof`)."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tusclient.client import TusClient

from serve_clients import BYTES, TUS, ask, part_sent, stored
from serve_process import Running, running

KILLS = 50 if os.environ.get("THPDIAG_PROOF") == "1" else 1
MIB = 1 << 20
CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """It takes bundles of 16 MiB at most; no request makes a mistake of it."""
    with running(tmp_path_factory.mktemp("server") / "data", "--upload-limit", "16 MiB", "--workers", "1") as made:
        yield made
        assert "Traceback" not in made.log.read_text()


def content(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def is_stored(server: Running, data: bytes) -> bool:
    digest = hashlib.sha256(data).hexdigest()
    return stored(server.folder).get(digest) == digest


def begun(server: Running, size: int) -> str:
    """The address of a resumable upload."""
    answer = ask(server.port, "POST", "/files", headers={**TUS, "Upload-Length": str(size)})
    assert answer.status == 201
    return answer.headers["location"]


def reached(server: Running, where: str, offset: int) -> int:
    """Ask until an upload is so far; where it is then."""
    for _ in range(20_000):
        if (at := int(ask(server.port, "HEAD", where, headers=TUS).headers["upload-offset"])) >= offset:
            return at
    raise AssertionError(f"the upload stays at {at}, {offset} were sent")


def curl(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["curl", "-sS", "-q", *map(str, arguments)], input=stdin, capture_output=True, timeout=120)


def test_tuspy_sends_bundles(server: Running) -> None:
    """An independent client of tus 1.0.0 sends one in parts, and one without bytes, which is whole once it is begun."""
    for data in (content(5 * MIB + 17), b""):
        client = TusClient(f"{server.url}/files")
        client.uploader(file_stream=io.BytesIO(data), chunk_size=MIB, metadata={"filename": "sos.tar.xz"}).upload()
        assert is_stored(server, data)


def test_an_upload_outlives_kill_9(tmp_path: Path) -> None:
    """Killed while bytes come; what the server had written is there, the client resumes by itself."""
    data, draw = content(8 * MIB), random.Random(2)
    with running(tmp_path / "data", "--workers", "1") as server:
        where = begun(server, len(data))
        for _ in range(KILLS):
            begins = reached(server, where, 0)
            sent = data[begins : begins + draw.randrange(MIB, 2 * len(data) // (KILLS + 1) + MIB)]
            headers = {**BYTES, "Upload-Offset": str(begins)}
            with part_sent(server.port, "PATCH", where, len(data) - begins, sent, headers):
                written = reached(server, where, begins + len(sent) - MIB)  # less than a block is on the way
                server.end(9)
            server.start()
            assert reached(server, where, 0) >= written
        client = TusClient(f"{server.url}/files")
        client.uploader(file_stream=io.BytesIO(data), url=f"{server.url}{where}", chunk_size=MIB).upload()
        assert is_stored(server, data)


def test_a_broken_connection_keeps_what_came(server: Running) -> None:
    """The sender leaves in the middle of a block: that part is written as well."""
    data = content(3 * MIB, 2)
    where = begun(server, len(data))

    part_sent(server.port, "PATCH", where, len(data), data[: MIB + 1000], {**BYTES, "Upload-Offset": "0"}).close()

    assert reached(server, where, MIB + 1000) == MIB + 1000


def test_a_second_writer_waits(server: Running) -> None:
    """While one request writes, another is told 423; once the first has ended, it may go on."""
    data = content(2 * MIB, 3)
    where = begun(server, len(data))

    with part_sent(server.port, "PATCH", where, len(data), data[:MIB], {**BYTES, "Upload-Offset": "0"}) as first:
        reached(server, where, MIB)
        second = ask(server.port, "PATCH", where, data[MIB:], {**BYTES, "Upload-Offset": str(MIB)})
        first.sendall(data[MIB:])
        assert (second.status, first.recv(12)) == (423, b"HTTP/1.1 204")

    assert is_stored(server, data)


@CURL
@pytest.mark.parametrize("piped", [False, True], ids=["file", "pipe"])
def test_curl_puts_a_bundle(server: Running, tmp_path: Path, piped: bool) -> None:
    """One line in a customer's shell; the answer has the digest. `tar c ... | curl -T -` announces no length."""
    file, data = tmp_path / "bundle.tar.xz", content(3 * MIB, 4 + piped)
    file.write_bytes(data)

    source = ("-", "piped.tar") if piped else (file, "bundle.tar.xz")
    done = curl("-fT", source[0], f"{server.url}/api/v1/bundles/{source[1]}", stdin=data)

    told = json.loads(done.stdout)
    assert (told["sha256"], told["size"]) == (hashlib.sha256(data).hexdigest(), len(data))
    assert is_stored(server, data)


@CURL
def test_curl_resumes(server: Running, tmp_path: Path) -> None:
    """`curl -C` sends the rest of what broke off, with a PATCH; a PUT of the rest alone is refused."""
    file, data = tmp_path / "bundle.tar.xz", content(3 * MIB, 6)
    file.write_bytes(data)
    where = begun(server, len(data))
    part_sent(server.port, "PATCH", where, len(data), data[:1_500_000], {**BYTES, "Upload-Offset": "0"}).close()
    at = reached(server, where, 1_500_000)
    headers = [f"-H{name}: {value}" for name, value in {**BYTES, "Upload-Offset": str(at)}.items()]

    put = curl("-fT", file, "-C", str(at), f"{server.url}/api/v1/bundles/x")
    rest = curl("-f", "-XPATCH", "-C", str(at), *headers, "-w%{size_upload}", "-T", file, f"{server.url}{where}")

    assert (put.returncode, rest.returncode, rest.stdout) == (22, 0, str(len(data) - at).encode())
    assert is_stored(server, data)


@CURL
def test_curl_sends_the_form(server: Running, tmp_path: Path) -> None:
    """As a browser without script does."""
    file, data = tmp_path / "bundle.tar.xz", content(3 * MIB, 7)
    file.write_bytes(data)

    assert curl("-f", f"-Fbundle=@{file}", f"{server.url}/upload").returncode == 0
    assert is_stored(server, data)


@CURL
@pytest.mark.parametrize("asking", [True, False], ids=["asks first", "sends at once"])
def test_curl_reads_why_a_bundle_is_too_large(server: Running, tmp_path: Path, asking: bool) -> None:
    """With `Expect: 100-continue` before a byte; without it the sentence comes through although bytes do."""
    file = tmp_path / "bundle.tar.xz"
    with file.open("wb") as out:
        out.truncate(24 * MIB)
    expect = ["--expect100-timeout", "60"] if asking else ["-HExpect:"]

    done = curl(*expect, "-w\n%{http_code} %{size_upload}", "-T", file, f"{server.url}/api/v1/bundles/x")

    found = re.search(rb"the upload has [\d,]+ bytes; at most [\d,]+ are taken\"}\n413 (\d+)", done.stdout)
    assert found, done
    assert found[1] == b"0" or not asking


@CURL
def test_a_name_that_is_a_path_is_refused_on_the_wire(server: Running) -> None:
    """However it is written."""
    address = f"{server.url}/api/v1/bundles/..%2F..%2Fetc%2Fpasswd"
    assert curl("--path-as-is", "-w%{http_code}", "-T", "-", address, stdin=b"x").stdout[-3:] == b"400"


def test_a_zip_bomb_ends_as_a_problem(server: Running) -> None:
    """It is analysed to its end, the report names the limit, and the server goes on."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("proc/meminfo", "MemTotal: 65000000 kB\nMemFree: 9000 kB\nAnonHugePages: 2048 kB\n")
        with archive.open("proc/vmstat", "w", force_zip64=True) as member:
            for _ in range(300):
                member.write(bytes(MIB))
    ended = server.ended(server.sent(out.getvalue(), "bomb.zip"))

    problems = server.document(ended["case"])["problems"]
    assert [one for one in problems if "vmstat" in json.dumps(one)], problems
    assert server.asked("GET", "/healthz")[0] == 200
