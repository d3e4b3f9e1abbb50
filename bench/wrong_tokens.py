"""Wrong tokens from one address, as fast as the server answers them, together with the right one from the same address.

Connections that stay open each send requests with wrong tokens, some ahead of the answers, half of them with the prefix
of the right token; every fifth of a second another connection sends the right one. Prints the answers per second by
status, the latency of the right token, and CPU time of the server. Exits with 1 if the right token was ever refused, or
a wrong one accepted.

    python bench/wrong_tokens.py [--seconds 30] [--rate 1000] [--connections 8]
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from http.client import HTTPConnection
from pathlib import Path

from serve import Server, started

AHEAD = 8  # requests of a connection that wait for their answer
PAUSE = 0.2  # seconds between two requests with the right token
MAX_WAIT_SECONDS = 60.0
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=30.0)
    options.add_argument("--rate", type=int, default=1000, help="wrong tokens in a second; 0: as many as are answered")
    options.add_argument("--connections", type=int, default=8)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = ["--data", str(Path(folder) / "data")]
        token = _token(data)
        serve = [sys.executable, "-m", "thpdiag", "serve", *data, "--access", "tokens", "--port", "0"]
        with started(serve) as server:
            return attack(server, token, given.seconds, given.rate, given.connections)


def _token(data: list[str]) -> str:
    command = [sys.executable, "-m", "thpdiag", "serve", "token", "create", "ci", "--scope", "read", *data]
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    return str(re.findall(r"thpdiag_[0-9a-f]{16}_[0-9a-f]{64}", made.stdout)[0])


def attack(server: Server, token: str, seconds: float, rate: int, connections: int) -> int:
    before, begun = server.cpu(), time.perf_counter()
    end, wrong, waits, right = begun + seconds, Counter[int](), list[float](), Counter[int]()
    clients = [
        threading.Thread(target=flood, args=(server.port, token, end, rate / connections, number, wrong))
        for number in range(connections)
    ]
    for client in clients:
        client.start()
    while time.perf_counter() < end:
        asked = time.perf_counter()
        right[_ask(server.port, token)] += 1
        waits.append(time.perf_counter() - asked)
        time.sleep(PAUSE)
    for client in clients:
        client.join()
    took, cpu = time.perf_counter() - begun, server.cpu() - before
    print(f"{wrong.total()} wrong tokens in {took:.1f} s, {wrong.total() / took:.0f} a second, over {connections} "
          f"connections: {json.dumps(dict(wrong))}")  # fmt: skip
    print(f"the right one: {json.dumps(dict(right))}, {statistics.median(waits) * 1000:.0f} ms (median), "
          f"{max(waits) * 1000:.0f} ms at most")  # fmt: skip
    print(f"the server took {cpu:.1f} s of CPU, {cpu / wrong.total() * 1000:.2f} ms for each")
    return int(set(right) != {200} or not set(wrong) <= {401, 429})


def flood(port: int, token: str, end: float, rate: float, first: int, answers: Counter[int]) -> None:
    """Send wrong tokens until the end, no faster than the rate, and count the answers."""
    sent = got = 0
    begun, rest = time.perf_counter(), b""
    with socket.create_connection(("127.0.0.1", port), MAX_WAIT_SECONDS) as connection:
        while (now := time.perf_counter()) < end or got < sent:
            due = sent + AHEAD if not rate else int((now - begun) * rate)
            count = min(due - sent, AHEAD - (sent - got)) if now < end else 0
            if count > 0:
                requests = (_request(token, first + 1000 * (sent + n)) for n in range(count))
                connection.sendall(b"".join(requests))
                sent += count
            if got == sent:
                time.sleep(0.001)
                continue
            received = connection.recv(1 << 16)
            if not received:
                raise ConnectionError("the server closed the connection")
            rest += received
            found = [*STATUS.finditer(rest)]
            answers.update(int(one[1]) for one in found)
            got += len(found)
            rest = rest[found[-1].end() :][-20:] if found else rest[-20:]


def _request(token: str, number: int) -> bytes:
    prefix = token[:24] if number % 2 else f"thpdiag_{number:016x}"
    lines = ("GET /api/v1/cases HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {prefix}_{number:064x}", "", "")
    return "\r\n".join(lines).encode()


def _ask(port: int, token: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=MAX_WAIT_SECONDS)
    try:
        connection.request("GET", "/api/v1/cases", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main())
