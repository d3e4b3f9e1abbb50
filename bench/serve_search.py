"""How long lists and searches of `thpdiag serve` take with many cases, on SQLite and on PostgreSQL.

So many cases are written with rows of hosts, findings, words, notes and states as the server writes them, without a
document; then each question is asked several times, as the page asks it: a page of cases and how many there are. The
bar is 200 ms for the median of each. Without a PostgreSQL server in /usr/lib/postgresql that is left out.

    python bench/serve_search.py [--cases 50000] [--times 5] [--folder DIR] [--only sqlite|postgresql]
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from sqlalchemy import insert

from thpdiag.serve.storage.cases import CaseFilter, analysis_key
from thpdiag.serve.storage.database import (
    bundle,
    case,
    document,
    finding,
    host,
    new_id,
    note,
    word,
    work,
    write_transaction,
)
from thpdiag.serve.storage.storage import Storage
from thpdiag.serve.storage.work import words_in
from thpdiag.store.results import FINDING_FIELDS, HOST_FIELDS, Analysis

ANALYSIS = Analysis("1", "0123456789abcdef")
BAR = 200.0  # milliseconds
AT_ONCE = 1_000
RULES = [f"THP-{number:03d}" for number in range(1, 60)]
TEXT = (
    "page faults compact memory for huge pages share of samples in spin locks kernel time of busy time direct reclaim "
    "khugepaged takes the processor free blocks of order nine fragmentation of zone normal swap in out fork copies"
)
WORDS = TEXT.split()
QUESTIONS = {
    "the first page": CaseFilter(),
    "a part of a host's name": CaseFilter(host="web-49"),
    "a verdict": CaseFilter(verdict="found"),
    "a rule that fired": CaseFilter(rule="THP-010"),
    "a state": CaseFilter(state="waiting"),
    "new ones, which most are": CaseFilter(state="new"),
    "a day": CaseFilter(since=86_400.0 * 100, until=86_400.0 * 101),
    "a word of many": CaseFilter(words="memory"),
    "two words of many": CaseFilter(words="memory kernel"),
    "a word of all": CaseFilter(words="example"),
    "the begin of a word": CaseFilter(words="fragm"),
    "a host by a word": CaseFilter(words="web-49123"),
    "a word of a note": CaseFilter(words="cronjob"),
    "all at once": CaseFilter(words="memory web", verdict="found", state="new", since=86_400.0, rule="THP-010"),
}  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cases", type=int, default=50_000)
    options.add_argument("--times", type=int, default=5)
    options.add_argument("--folder", type=Path)
    options.add_argument("--only", choices=("sqlite", "postgresql"))
    given = options.parse_args()
    slowest = 0.0
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        if given.only != "postgresql":
            slowest = measure("SQLite", folder / "sqlite", None, given.cases, given.times)
        if given.only != "sqlite" and (server := postgres_server()):
            with server as address:
                took = measure("PostgreSQL", folder / "postgresql", address, given.cases, given.times)
                slowest = max(slowest, took)
    print(f"slowest {slowest:.0f} ms, bar {BAR:.0f} ms: {'kept' if slowest <= BAR else 'MISSED'}")
    sys.exit(slowest > BAR)


def postgres_server() -> AbstractContextManager[str] | None:
    """Return the address of an empty database of a running server; None without the program."""
    sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / "support")]
    from postgres_server import programs, running

    home = programs()
    if home is None:
        return None

    @contextmanager
    def begun() -> Iterator[str]:
        with running(home) as server:
            yield server.fresh()

    return begun()


def measure(name: str, folder: Path, database: str | None, count: int, times: int) -> float:
    """Return milliseconds of the slowest query."""
    with closing(Storage.open(folder, database)) as storage:
        began = time.perf_counter()
        fill(storage, count)
        print(f"{name}: {count:,} cases written in {time.perf_counter() - began:.0f} s")
        slowest = 0.0
        for about, question in QUESTIONS.items():
            took = []
            for _ in range(times):
                began = time.perf_counter()
                cases, count = storage.cases.first_page(question, limit=51)
                took.append(1000 * (time.perf_counter() - began))
            middle = statistics.median(took)
            fit = f"{count.number:,}{'+' if count.more else ''}"
            print(f"  {about:28} {fit:>8} cases  {middle:6.1f} ms, at most {max(took):6.1f}  ({len(cases)} shown)")
            slowest = max(slowest, middle)
        return slowest


def fill(storage: Storage, count: int) -> None:
    """Write cases with everything that lists and searches read."""
    chosen = random.Random(25)
    cells, found = dict.fromkeys(HOST_FIELDS), dict.fromkeys(FINDING_FIELDS)
    tables = (bundle, case, document, host, finding, word, work, note)
    for start in range(1, count + 1, AT_ONCE):
        rows: dict[object, list[dict[str, object]]] = {table: [] for table in tables}
        for number in range(start, min(start + AT_ONCE, count + 1)):
            _add(rows, number, chosen, cells, found)
        with write_transaction(storage.engine) as connection:
            for table, given in rows.items():
                if given:
                    connection.execute(insert(table), given)  # type: ignore[arg-type]
    if storage.engine.dialect.name == "postgresql":
        with storage.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("ANALYZE")  # autovacuum would do it within a minute


def _add(rows, number, chosen, cells, found) -> None:  # type: ignore[no-untyped-def]
    sha256, name = f"{number:064x}", f"web-{number}.example.org"
    verdict = chosen.choice(("found", "found", "nothing_found", "cannot_tell"))
    rules = chosen.sample(RULES, 3)
    sentence = " ".join(chosen.sample(WORDS, 14))
    rows[bundle].append({"sha256": sha256, "size": 1, "stored": 1.0, "removed": None})
    rows[case].append(
        {
            "number": number, "id": new_id(), "sha256": sha256, "analysis": analysis_key(ANALYSIS), "tool_version": "1",
            "rules_digest": "0", "options": "{}", "name": f"{name}.tar.xz", "status": "ok", "reason": "",
            "made": number * 200.0, "kept": False, "thread": number, "superseded": False,
        }
    )  # fmt: skip
    rows[document].append({"case": number, "packed": b""})
    told = {"name": name, "verdict": verdict, "rule": rules[0], "mechanism": "fault-compaction", "sentence": sentence}
    rows[host].append({**cells, **told, "undecided": 3, "case": number, "place": 0})
    for place, rule in enumerate(rules):
        rows[finding].append({**found, "rule": rule, "case": number, "host": 0, "place": place})
    texts = [name, sentence, *rules, "fault-compaction 5.14.0-427.el9.x86_64 Red Hat Enterprise Linux 9.4",
             *(" ".join(chosen.sample(WORDS, 12)) for _ in range(3))]  # fmt: skip
    rows[word] += [{"text": text, "thread": number, "source": "case"} for text in sorted(words_in(texts))]
    if number % 5 == 0:
        state = chosen.choice(("new", "waiting", "solved"))
        rows[work].append({"thread": number, "state": state, "assignee": "anna", "ticket": "", "changed": 1.0})
    if number % 50 == 0:
        text = "customer runs a cronjob at noon"
        rows[note].append({"id": new_id(), "thread": number, "at": 1.0, "author": "anna", "owner": "x", "text": text})
        rows[word] += [{"text": text, "thread": number, "source": "work"} for text in sorted(words_in([text]))]


if __name__ == "__main__":
    main()
