"""A real server on the real storage, clients that nobody here wrote, and kill -9 on the way.

THPDIAG_PROOF=1 runs the counts of the issue: 1 GiB, and 50 kills.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tusclient.client import TusClient

from upload_serving import Serving

PROOF = os.environ.get("THPDIAG_PROOF") == "1"
KILLS = 50 if PROOF else 3
LARGE = (1 << 30) if PROOF else (128 << 20)
MIB = 1 << 20
CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """A server that is running; its log has no traceback in the end."""
    server = Serving(tmp_path / "data", tmp_path / "log")
    yield from _run(server)


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Serving]:
    """One that takes at most a MiB, and waits for two seconds."""
    yield from _run(Serving(tmp_path / "data", tmp_path / "log", limit=MIB, idle=2.0))


def _run(server: Serving) -> Iterator[Serving]:
    server.start()
    try:
        yield server
    finally:
        server.end()
    assert "Traceback" not in server.log.read_text()


def content(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def curl(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["curl", "-sS", "-q", *map(str, arguments)], input=stdin, capture_output=True, timeout=120)


def is_kept(serving: Serving, *data: bytes) -> bool:
    """Whether the storage has these contents and no others, each by its digest, and nothing is left half-sent."""
    kept = {file.parent.name + file.name: file.read_bytes() for file in serving.kept()}
    return kept == {hashlib.sha256(d).hexdigest(): d for d in data} and not any((serving.folder / "uploads").iterdir())


def test_tuspy_sends_a_bundle(serving: Serving) -> None:
    """An independent client of tus 1.0.0 sends a bundle in parts."""
    data = content(5 * MIB + 17)

    TusClient(f"{serving.url}/files").uploader(
        file_stream=io.BytesIO(data), chunk_size=MIB, metadata={"filename": "sos.tar.xz"}
    ).upload()

    assert is_kept(serving, data)


def test_tuspy_sends_nothing(serving: Serving) -> None:
    """An empty file is whole once it is begun."""
    TusClient(f"{serving.url}/files").uploader(file_stream=io.BytesIO(b""), chunk_size=MIB).upload()

    assert is_kept(serving, b"")


def test_an_upload_outlives_kill_9(serving: Serving) -> None:
    """Killed again and again while bytes come; what the server had written is there, the client resumes by itself."""
    data, draw = content(8 * MIB), random.Random(2)
    where = serving.begun(len(data))
    for _ in range(KILLS):
        begins = serving.offset(where)
        sent = data[begins : begins + draw.randrange(1, 2 * len(data) // KILLS + 1)]
        with serving.half_sent("PATCH", where, len(data) - begins, sent, Upload_Offset=str(begins)):
            written = serving.reached(where, begins + len(sent) - MIB)  # less than a block is on the way
            serving.kill()
        serving.start()
        assert serving.offset(where) >= written

    TusClient(f"{serving.url}/files").uploader(
        file_stream=io.BytesIO(data), url=f"{serving.url}{where}", chunk_size=MIB
    ).upload()

    assert is_kept(serving, data)


def test_a_broken_connection_keeps_what_came(serving: Serving) -> None:
    """The sender leaves in the middle of a block: that part is written as well."""
    data = content(3 * MIB)
    where = serving.begun(len(data))

    serving.half_sent("PATCH", where, len(data), data[: MIB + 1000], Upload_Offset="0").close()

    assert serving.reached(where, MIB + 1000) == MIB + 1000


def test_a_second_writer_waits(serving: Serving) -> None:
    """While one request writes, another is told 423; once the first has ended, it may go on."""
    data = content(2 * MIB)
    where = serving.begun(len(data))

    with serving.half_sent("PATCH", where, len(data), data[:MIB], Upload_Offset="0") as first:
        serving.reached(where, MIB)
        kind = {"Content_Type": "application/offset+octet-stream"}
        second = serving.asked("PATCH", where, data[MIB:], Upload_Offset=str(MIB), **kind)
        first.sendall(data[MIB:])
        assert (second[0], first.recv(12)) == (423, b"HTTP/1.1 204")

    assert is_kept(serving, data)


def test_many_send_at_once(serving: Serving) -> None:
    """Twenty bundles at a time, and one of them twice: each is there once, and whole."""
    data = [content(MIB + n, seed=n) for n in range(19)]

    def send(one: bytes) -> None:
        TusClient(f"{serving.url}/files").uploader(file_stream=io.BytesIO(one), chunk_size=400_000).upload()

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(send, [*data, data[0]]))

    assert is_kept(serving, *data)


def test_senders_who_stop_hold_nobody_up(strict: Serving) -> None:
    """Hundred connections with half a body each: another one's bundle is taken, and they are sent away."""
    stuck = [strict.half_sent("PUT", f"/api/v1/bundles/{n}", 1000, b"x") for n in range(100)]
    data = content(MIB)

    status, _ = strict.asked("PUT", "/api/v1/bundles/honest", data)
    answers = [sender.recv(12) for sender in stuck]
    ends = [sender.close() for sender in stuck]

    assert (status, set(answers), len(ends)) == (201, {b"HTTP/1.1 408"}, 100)
    assert is_kept(strict, data)


@CURL
def test_curl_puts_a_bundle(serving: Serving, tmp_path: Path) -> None:
    """One line in a customer's shell; the answer has the digest."""
    file, data = tmp_path / "bundle.tar.xz", content(3 * MIB)
    file.write_bytes(data)

    done = curl("-fT", file, f"{serving.url}/api/v1/bundles/bundle.tar.xz")

    assert json.loads(done.stdout) == {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    assert is_kept(serving, data)


@CURL
def test_curl_puts_what_a_pipe_gives(serving: Serving) -> None:
    """`tar c ... | curl -T -` announces no length."""
    data = content(3 * MIB)

    assert curl("-fT", "-", f"{serving.url}/api/v1/bundles/piped.tar", stdin=data).returncode == 0
    assert is_kept(serving, data)


@CURL
def test_curl_resumes(serving: Serving, tmp_path: Path) -> None:
    """`curl -C` sends the rest of what broke off, with a PATCH; a PUT of the rest alone is refused."""
    file, data = tmp_path / "bundle.tar.xz", content(3 * MIB)
    file.write_bytes(data)
    where = serving.begun(len(data))
    serving.half_sent("PATCH", where, len(data), data[:1_500_000], Upload_Offset="0").close()
    at = serving.reached(where, 1_500_000)
    headers = ["-HTus-Resumable: 1.0.0", "-HContent-Type: application/offset+octet-stream", f"-HUpload-Offset: {at}"]

    put = curl("-fT", file, "-C", str(at), f"{serving.url}/api/v1/bundles/x")
    rest = curl("-f", "-XPATCH", "-C", str(at), *headers, "-w%{size_upload}", "-T", file, f"{serving.url}{where}")

    assert (put.returncode, rest.returncode, rest.stdout) == (22, 0, str(len(data) - at).encode())
    assert is_kept(serving, data)


@CURL
def test_curl_sends_the_form(serving: Serving, tmp_path: Path) -> None:
    """As a browser without script does."""
    file, data = tmp_path / "bundle.tar.xz", content(3 * MIB)
    file.write_bytes(data)

    assert curl("-f", "-Fcsrf=x", f"-Fbundle=@{file}", f"{serving.url}/upload").returncode == 0
    assert is_kept(serving, data)


@CURL
@pytest.mark.parametrize("asking", [True, False], ids=["asks first", "sends at once"])
def test_curl_reads_why_a_bundle_is_too_large(strict: Serving, tmp_path: Path, asking: bool) -> None:
    """With `Expect: 100-continue` before a byte; without it the sentence comes through although bytes do."""
    file = tmp_path / "bundle.tar.xz"
    file.write_bytes(bytes(8 * MIB))
    expect = ["--expect100-timeout", "60"] if asking else ["-HExpect:"]

    done = curl(*expect, "-w\n%{http_code} %{size_upload}", "-T", file, f"{strict.url}/api/v1/bundles/x")

    found = re.fullmatch(rb"the upload has [\d,]+ bytes; at most [\d,]+ are taken\n\n413 (\d+)", done.stdout)
    assert found, done
    assert (found[1] == b"0") == asking
    assert is_kept(strict)


@CURL
@pytest.mark.parametrize("name", ["..%2F..%2Fetc%2Fpasswd", "%2e%2e", "a%5cb", "a%00b", "%1b%5b2J"])
def test_a_name_that_is_a_path_is_refused_on_the_wire(serving: Serving, name: str) -> None:
    """However it is written."""
    done = curl("--path-as-is", "-w%{http_code}", "-T", "-", f"{serving.url}/api/v1/bundles/{name}", stdin=b"x")

    assert done.stdout[-3:] == b"400"
    assert is_kept(serving)


@CURL
def test_memory_stays_flat(serving: Serving, tmp_path: Path) -> None:
    """A large bundle costs the server no more memory than some blocks."""
    file = tmp_path / "large"
    with file.open("wb") as out:
        out.truncate(LARGE)
    serving.asked("PUT", "/api/v1/bundles/small", content(4 * MIB))
    before = serving.memory()

    assert curl("-fT", file, f"{serving.url}/api/v1/bundles/large").returncode == 0
    assert serving.memory() - before < 20 << 10
    assert max(kept.stat().st_size for kept in serving.kept()) == LARGE
