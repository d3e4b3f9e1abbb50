"""How soon the fleet of a server with many cases appears, and how soon it has the next case.

Writes cases of synthetic hosts (`fleet_of_hosts.py`) into the database of a server, starts it, and asks for
/fleet until the page is there; then sends bundles and asks until they are in it. Prints seconds, and the CPU time and
peak of all its processes. The bar is 60 s for each.

    python bench/serve_fleet.py [--cases 50000] [--more 3] [--folder DIR]
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from fleet_of_hosts import document
from serve import EMPTY, Server, started
from sqlalchemy import insert

from thpdiag.serve.storage.cases import analysis_key
from thpdiag.serve.storage.database import bundle, case, finding, host, new_id, write_transaction
from thpdiag.serve.storage.database import document as documents
from thpdiag.serve.storage.storage import Storage
from thpdiag.store.results import FINDING_FIELDS, HOST_FIELDS, Analysis, host_rows

ANALYSIS = Analysis("1", "0123456789abcdef")
BAR, MAX_WAIT = 60.0, 900.0  # seconds
PAUSE = 0.5
AT_ONCE = 1_000


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cases", type=int, default=50_000)
    options.add_argument("--more", type=int, default=3, help="bundles that are sent afterwards, one by one")
    options.add_argument("--folder", type=Path)
    given = options.parse_args()
    slowest = 0.0
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        data = Path(name) / "data"
        begun = time.perf_counter()
        with closing(Storage.open(data, None)) as storage:
            fill(storage, given.cases)
        print(f"{given.cases:,} cases written in {time.perf_counter() - begun:.0f} s", flush=True)
        with started([sys.executable, "-m", "thpdiag", "serve", "--data", str(data), "--port", "0"]) as server:
            for number in range(given.more + 1):
                if number:
                    send(server, number)
                took = appears(server, given.cases + number)
                about = f"with {number} more" if number else "the first time"
                print(f"the fleet appears {about}: {took:.1f} s (bar {BAR:.0f})", flush=True)
                slowest = max(slowest, took)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"CPU {used.ru_utime + used.ru_stime:.1f} s in all, {used.ru_maxrss / 1024:.0f} MB at most in a process")
    return int(slowest > BAR)


def fill(storage: Storage, count: int) -> None:
    """Write cases with the rows of a fleet, each with the findings of its host, without a document."""
    chance = random.Random(20)
    for start in range(1, count + 1, AT_ONCE):
        rows: dict[object, list[dict[str, object]]] = {t: [] for t in (bundle, case, documents, host, finding)}
        for number in range(start, min(start + AT_ONCE, count + 1)):
            sha256, whole = f"{number:064x}", document(number, chance)
            rows[bundle].append({"sha256": sha256, "size": 1, "stored": 1.0, "removed": None})
            rows[case].append(
                {
                    "number": number, "id": new_id(), "sha256": sha256, "analysis": analysis_key(ANALYSIS),
                    "tool_version": "1", "rules_digest": "0", "options": "{}", "name": f"{number}.tar.xz",
                    "status": "ok", "reason": "", "made": time.time(), "kept": False, "thread": number,
                    "superseded": False,
                }
            )  # fmt: skip
            rows[documents].append({"case": number, "packed": b""})
            for place, (cells, findings) in enumerate(host_rows(whole)):
                named = dict(zip(HOST_FIELDS, cells, strict=True))
                rows[host].append({**named, "undecided": 3, "case": number, "place": place})
                rows[finding] += [
                    {**dict(zip(FINDING_FIELDS, found, strict=True)), "case": number, "host": place, "place": at}
                    for at, found in enumerate(findings)
                ]
        with write_transaction(storage.engine) as connection:
            for table, given in rows.items():
                if given:
                    connection.execute(insert(table), given)  # type: ignore[arg-type]


def send(server: Server, number: int) -> None:
    """Send a bundle, and wait until it is a case."""
    status, body = server.asked("PUT", f"/api/v1/bundles/{number}.tar", EMPTY + f"more {number}\n".encode())
    assert status == 201, body
    job = body.decode().partition('"job":')[2].split('"')[1]
    server.asked("GET", f"/api/v1/jobs/{job}/events")


def appears(server: Server, cases: int) -> float:
    """Return seconds until the page of the fleet has this many cases."""
    begun = time.perf_counter()
    while (now := time.perf_counter() - begun) < MAX_WAIT:
        status, page = server.asked("GET", "/fleet")
        if status == 200 and is_current(page.decode(), server):
            return now
        time.sleep(PAUSE)
    raise TimeoutError(f"the fleet of {cases} cases has not appeared in {MAX_WAIT:.0f} s")


def is_current(page: str, server: Server) -> bool:
    return "is being" not in page and server.asked("GET", "/fleet/page")[0] == 200


if __name__ == "__main__":
    sys.exit(main())
