"""The cost of storing a bundle, compared with simpler stores: a bare SQLite table; lines of JSON with fsync.

A story of the fixtures is analysed once; its document is what is stored, once per bundle with a number of its own. Each
way runs in a process of its own, in turn with the store, in the same folder:

- `table`: the packed document and its checksum in one table, WAL, synchronous=FULL, a transaction per bundle;
- `lines`: the document as one line at the end of a file, then fsync; what many programs do, though it is read whole
  to resume, and its last line may be torn.

The bars, for CPU and wall: 1.3 of the table, 2 of the lines. Then, of 50,000 small bundles: milliseconds of a merge, of
counting hosts by verdict, of reading all of them, of finding one, and of an export of all rows.

    python bench/store.py [--bundles 300] [--pairs 5] [--folder DIR]
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sqlite3
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from cost import in_turn, ratio

from thpdiag.engine.load import builtin_rules, load_rules
from thpdiag.pipeline import analyze
from thpdiag.store.export import write_json_lines
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import ZLIB_LEVEL, Analysis, BundleResult
from thpdiag.store.store import Store

STORY = Path(__file__).parents[1] / "fixtures" / "stories" / "hadoop-centos62" / "bundle"
ANALYSIS = Analysis("1", "0123456789abcdef")
HOSTS = 50_000
BARS = {"table": 1.3, "lines": 2.0}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bundles", type=int, default=300)
    options.add_argument("--pairs", type=int, default=5)
    options.add_argument(
        "--folder", type=Path, help="where to store, since disks differ (default: the temporary folder)"
    )
    options.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.way:
        store_in(given.way, given.folder, given.bundles)
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        missed = compared(Path(folder), given.bundles, given.pairs)
        grouped(Path(folder))
    sys.exit(missed)


def compared(folder: Path, bundles: int, pairs: int) -> bool:
    document = analyze([STORY], load_rules([builtin_rules()]))
    (folder / "document").write_text(json.dumps(document))
    told = ["--folder", str(folder), "--bundles", str(bundles)]
    commands = {way: [sys.executable, __file__, "--way", way, *told] for way in WAYS}
    missed = False
    for way, bar in BARS.items():
        costs = in_turn(commands["store"], commands[way], pairs)
        for figure in ("cpu", "wall"):
            missed |= ratio(f"{bundles} bundles, store beside {way}", costs, bar, figure)
    return missed


def store_in(way: str, folder: Path, bundles: int) -> None:
    document = json.loads((folder / "document").read_text())
    with tempfile.TemporaryDirectory(dir=folder) as new:
        WAYS[way](Path(new), [document | {"case": str(number)} for number in range(bundles)])


def store(folder: Path, documents: list[dict[str, Any]]) -> None:
    with Store.open(folder, ANALYSIS) as made:
        for one in documents:
            made.add(BundleResult(_sum(one), f"in/{one['case']}", 1, "ok", document=one))


def table(folder: Path, documents: list[dict[str, Any]]) -> None:
    database = sqlite3.connect(folder / "results", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE bundle (sha256 TEXT PRIMARY KEY, packed BLOB)")
    for one in documents:
        packed = zlib.compress(json.dumps(one, separators=(",", ":"), sort_keys=True).encode(), ZLIB_LEVEL)
        database.execute("INSERT INTO bundle VALUES (?, ?)", (_sum(one), packed))
    database.close()


def lines(folder: Path, documents: list[dict[str, Any]]) -> None:
    with (folder / "results").open("w") as out:
        for one in documents:
            out.write(json.dumps({"sha256": _sum(one), "document": one}, separators=(",", ":"), sort_keys=True) + "\n")
            out.flush()
            os.fsync(out.fileno())


def _sum(document: dict[str, Any]) -> str:
    return sha256(document["case"].encode()).hexdigest()


WAYS: dict[str, Callable[[Path, list[dict[str, Any]]], None]] = {"store": store, "table": table, "lines": lines}


def small(number: int) -> dict[str, Any]:
    mechanism = ("fault-compaction", "khugepaged-cpu", "swap-storm")[number % 3]
    finding = {"rule": f"THP-{number % 60:03}", "mechanism": mechanism, "severity": "high", "role": "contributing"}
    return {
        "case": str(number), "verdict": {"status": "found", "mechanism": mechanism, "severity": "high"},
        "host": {"name": f"host{number}", "kernel": f"5.{number % 19}.0"}, "findings": [finding] * 10,
    }  # fmt: skip


def grouped(folder: Path) -> None:
    """Insert everything in one transaction from memory, like a merge of many shards, without 50,000 disk waits."""
    quick = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=quick if quick.is_dir() else None) as shard:
        store(Path(shard), [small(number) for number in range(HOSTS)])
        with Store.open(folder / "all", ANALYSIS) as made:
            timed(f"merge of {HOSTS} bundles", lambda: made.merge([Path(shard)]))
    with StoreReader.at(folder / "all") as reading:
        timed("hosts by verdict", lambda: list(reading.verdicts()))
        timed("every host, with settings and measures", lambda: sum(1 for _ in reading.hosts()))
        timed("one bundle with its document", lambda: reading.result(_sum({"case": "4711"})))
        timed(f"export of {HOSTS * 10} rows as JSON Lines", lambda: write_json_lines(reading, io.BytesIO()))
        print(f"{(folder / 'all' / 'results.sqlite').stat().st_size / 1e6:.0f} MB")


def timed(what: str, work: Callable[[], object]) -> None:
    begun = time.perf_counter()
    work()
    print(f"{what}: {(time.perf_counter() - begun) * 1000:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
