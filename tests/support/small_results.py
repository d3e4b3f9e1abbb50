"""Small results for tests of the store, and programs that such tests run in other processes and kill.

`python small_results.py PROGRAM FOLDER ...` prints what it has stored, line by line, on standard output.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from thpdiag.errors import StoreError, StoreFullError
from thpdiag.store import schema as form
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import Analysis, BundleResult
from thpdiag.store.store import Store

ANALYSIS = Analysis("1.0", "0123456789abcdef", {"since": "03:00"})
MECHANISMS = ("fault-compaction", "khugepaged-cpu", "swap-storm")


def content(number: int) -> str:
    return sha256(str(number).encode()).hexdigest()


def document(number: int, noise: int = 0) -> dict[str, Any]:
    """Return a result document of one host; `noise` bytes of it are incompressible."""
    mechanism = MECHANISMS[number % len(MECHANISMS)]
    finding = {
        "rule": f"THP-00{number % 7}", "mechanism": mechanism, "severity": "high", "confidence": "likely",
        "role": "root_cause", "state": "s1", "entity": None, "fingerprint": f"{number:016x}",
    }  # fmt: skip
    return {
        "schema": "thpdiag/result/1",
        "case": f"host{number}",
        "verdict": {"status": "found", "rule": finding["rule"], "mechanism": mechanism, "severity": "high"},
        "findings": [finding, {**finding, "rule": "THP-009", "suppressed": {"by": "baseline"}}],
        "host": {
            "name": f"host{number}", "kernel": f"5.{number % 5}.0", "os": "Demo 9", "apps": ["redis", "java"],
            "settings": {"thp.enabled": {"value": "always", "provenance": "assumed"}},
            "measures": {"swap": {"value": number / 3, "unit": "bytes"}},
        },
        "notes": [{"text": random.Random(number).randbytes(noise // 2).hex()}],
    }  # fmt: skip


def result(number: int, noise: int = 0) -> BundleResult:
    """Return a result; every tenth bundle has no document."""
    if number % 10 == 9:
        return BundleResult(content(number), f"in/{number}.tar", number, "signal 9", "killed", 2)
    return BundleResult(content(number), f"in/{number}.tar", number, "ok", document=document(number, noise))


def command(program: str, folder: Path, *arguments: object) -> list[str]:
    return [sys.executable, __file__, program, str(folder), *map(str, arguments)]


def ran(line: Sequence[str]) -> list[str]:
    """Return the lines that a program printed; it must succeed."""
    return subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def write(folder: Path, count: str, steps: str = "0") -> None:
    """Store bundles one after the other; with `steps`, die at that step of SQLite's virtual machine."""
    if int(steps):
        _die_at(int(steps))
    with Store.open(folder, ANALYSIS) as store:
        for number in range(int(count)):
            if store.has_document(content(number), ANALYSIS) is None:
                store.add(result(number, 400))
                say(number)


def _die_at(step: int) -> None:
    seen, connected = 0, form._connect

    def one_more() -> int:
        nonlocal seen
        seen += 1
        if seen == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def watched(whole: str) -> Any:
        database = connected(whole)
        database.set_progress_handler(one_more, 1)
        return database

    form._connect = watched


def hold(folder: Path) -> None:
    """Lock the folder until standard input ends."""
    with Store.open(folder, ANALYSIS):
        say("held")
        sys.stdin.read()


def fork(folder: Path) -> None:
    """Lock the folder, with a child that outlives this process, until standard input ends."""
    with Store.open(folder, ANALYSIS):
        if os.fork():
            say("held")
        sys.stdin.read()
        say("child")
        os._exit(0)


def fill(folder: Path, limit: str = "0") -> None:
    """Store until there is no space, on a small disk or below a limit; then make space and continue. Prints events."""
    filler = folder / "filler"
    if int(limit):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
    else:
        filler.write_bytes(bytes(3 << 20))
    stored, error = [], None
    try:
        with Store.open(folder, ANALYSIS) as store:
            for number in range(400):
                if number == 60 and not int(limit):
                    _to_the_brim(filler)
                store.add(result(number, 20_000))
                stored.append(content(number))
    except StoreFullError as full:
        error = full
    with StoreReader.at(folder) as reading:
        reading.check()
        whole = [one.result.sha256 for one in reading.results()] == stored
        marks = [kind for _, kind in reading.marks()]
    filler.unlink(missing_ok=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    told = {"code": error and error.exit_code, "text": str(error), "stored": len(stored), "whole": whole}
    say(json.dumps(told | {"marks": marks, "after": _resumed(folder, len(stored) + 5)}))


def read_only(folder: Path) -> None:
    """Store, make the disk read-only, read, and try to store again. Prints how many were read, and the error."""
    with Store.open(folder, ANALYSIS) as store:
        for number in range(5):
            store.add(result(number))
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    with StoreReader.at(folder) as reading:
        reading.check()
        say(len(list(reading.results())))
    try:
        Store.open(folder, ANALYSIS)
    except StoreError as refused:
        say(refused)


def _to_the_brim(filler: Path) -> None:
    """Use up the disk to the last page."""
    with suppress(OSError), filler.open("ab", buffering=0) as out:
        while out.write(bytes(4096)):
            pass


def _resumed(folder: Path, count: int) -> list[int]:
    with Store.open(folder, ANALYSIS) as store:
        added = [
            number
            for number in range(count)
            if store.has_document(content(number), ANALYSIS) is None and store.add(result(number))
        ]
        store.check()
    return added


def many(folder: Path, count: str) -> None:
    """Store many, read all of them in every way, and print the resident memory before, between and after, in KiB."""
    with Store.open(folder, ANALYSIS) as store:
        for number in range(int(count)):
            store.add(result(number))
            if number == 500:
                say(_resident())
        say(_resident())
        read = [sum(1 for _ in rows) for rows in (store.results(), store.hosts(), store.findings(), store.flat())]
        say(_resident())
        say(*read)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


if __name__ == "__main__":
    program, where, *more = sys.argv[1:]
    programs = {"write": write, "hold": hold, "fork": fork, "fill": fill, "many": many, "read-only": read_only}
    programs[program](Path(where), *more)
