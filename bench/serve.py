"""The cost of an upload for the server, compared with the simplest one, and the latency for others under load.

`curl -T` sends a tar of random bytes to `thpdiag serve` and to `plain_upload.py` in turn, both on one disk. thpdiag
looks after each block whether there is room and where the upload is, writes a row for what began and one for what came,
and has all of it on the disk before it answers; the peer writes and counts. Then so many bundles of 1 MiB are sent at
once, while somebody reads one page after another. The bars: twice the peer's seconds, 20 MB of memory more than idle.

    python bench/serve.py [--size 1024] [--pairs 5] [--senders 300] [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from threading import Barrier

from cost import Cost, ratio

MIB = 1 << 20
BAR, GROWTH = 2.0, 20.0
MAX_WAIT_SECONDS = 600.0
TICK = os.sysconf("SC_CLK_TCK")
EMPTY = tarfile.TarInfo("empty").tobuf() + bytes(2 * tarfile.BLOCKSIZE)  # random bytes after it are not read
PAGES = ("/healthz", "/cases", "/api/v1/cases", "/")


@dataclass(frozen=True)
class Server:
    pid: int
    port: int

    def cpu(self) -> float:
        """Return CPU seconds of its process."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def memory(self, figure: str) -> float:
        """Return MB: `VmRSS` is the current size, `VmHWM` the peak since `forget`."""
        return int(Path(f"/proc/{self.pid}/status").read_text().partition(f"{figure}:")[2].split()[0]) / 1024

    def forget(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def asked(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=MAX_WAIT_SECONDS)
        try:
            connection.request(method, path, body or None)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size", type=int, default=1024, help="MiB of the file")
    options.add_argument("--pairs", type=int, default=5)
    options.add_argument("--senders", type=int, default=300)
    options.add_argument("--folder", type=Path, help="where to store, since disks differ (default: the temporary one)")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        ours = [sys.executable, "-m", "thpdiag", "serve", "--data", str(folder / "data"), "--port", "0"]
        plain = [sys.executable, str(Path(__file__).with_name("plain_upload.py")), str(folder)]
        with started(ours) as serve, started(plain) as peer:
            missed = compared(folder, serve, peer, given.size, given.pairs)
            crowded(serve, given.senders)
    sys.exit(missed)


@contextmanager
def started(command: list[str]) -> Iterator[Server]:
    """Start a program that prints its address."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        port = int(process.stdout.readline().split("http://")[1].split("/")[0].rpartition(":")[2])
        try:
            yield Server(process.pid, port)
        finally:
            process.terminate()


def compared(folder: Path, serve: Server, peer: Server, size: int, pairs: int) -> bool:
    file = folder / "file"
    with file.open("wb") as out:
        out.write(EMPTY)
        for number in range(size):
            out.write(random.Random(number).randbytes(MIB))
    upload(serve, file, -1)
    idle = serve.memory("VmRSS")
    found, most = [], 0.0
    for turn in range(pairs + 1):
        serve.forget()
        costs = {server: upload(server, file, turn) for server in ((serve, peer) if turn % 2 else (peer, serve))}
        most = max(most, costs[serve].peak)
        found.append((costs[serve], costs[peer]))
    missed = ratio(f"{size} MiB by curl -T, beside a plain stream to disk", found[1:], BAR, "wall")
    ratio("the same", found[1:], figure="cpu")
    print(f"{size / statistics.median(ours.wall for ours, _ in found[1:]):.0f} MiB/s")
    print(f"memory: {idle:.1f} MB idle, {most:.1f} MB at the most, {most - idle:.1f} more (bar {GROWTH:.0f})")
    return missed or most - idle > GROWTH


def upload(server: Server, file: Path, turn: int) -> Cost:
    """Return the cost of the file for a server; its content is changed first, its analysis is awaited afterwards."""
    with file.open("r+b") as out:
        out.seek(len(EMPTY))
        out.write(f"{turn} {server.port}".encode())
    os.sync()
    before, begun = server.cpu(), time.perf_counter()
    command = ["curl", "-q", "-sS", "-f", "-T", str(file), f"http://127.0.0.1:{server.port}/api/v1/bundles/{turn}.tar"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    wall, cpu = time.perf_counter() - begun, server.cpu() - before
    assert told["size"] == file.stat().st_size
    if "job" in told:
        server.asked("GET", f"/api/v1/jobs/{told['job']}/events")
    return Cost(wall, cpu, server.memory("VmHWM"))


def crowded(server: Server, senders: int) -> None:
    together = Barrier(senders + 1)

    def send(number: int) -> int:
        body = EMPTY + random.Random(number).randbytes(MIB)
        together.wait()
        return server.asked("PUT", f"/api/v1/bundles/many{number}.tar", body)[0]

    with ThreadPoolExecutor(senders) as pool:
        sending = [pool.submit(send, number) for number in range(senders)]
        together.wait()
        begun, waits = time.perf_counter(), list[float]()
        while not all(one.done() for one in sending):
            asked = time.perf_counter()
            status, _ = server.asked("GET", PAGES[len(waits) % len(PAGES)])
            waits.append(time.perf_counter() - asked)
            assert status == 200
        assert {one.result() for one in sending} == {201}
    print(
        f"{senders} uploads of 1 MiB at once: {time.perf_counter() - begun:.1f} s; a reader meanwhile waited "
        f"{statistics.median(waits) * 1000:.0f} ms (median of {len(waits)} pages), {max(waits) * 1000:.0f} ms at most"
    )


if __name__ == "__main__":
    main()
