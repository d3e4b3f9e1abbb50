"""What suppressions and baselines accept in a fleet: judged on small documents made of the rows of the store.

What of the files had no effect is known once all hosts were seen, and not of any bundle alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from thpdiag.accepted.acceptance import Acceptance
from thpdiag.accepted.judge import Judge
from thpdiag.triage.store.reading import Reading, Row


def small(row: Row) -> dict[str, Any]:
    """As much of a result document as an acceptance is about; of a row of `Reading.fleet`."""
    return {"case": row["case"], "host": {"name": row["host"]}, "findings": row["findings"]}


def judged(row: Row, judge: Judge) -> Iterator[tuple[Row, Acceptance | None]]:
    """The findings of a host, each with what accepts it."""
    document = small(row)
    judge.see(document)
    for finding in row["findings"]:
        yield finding, judge.entry(finding, document)


def verdict_accepted(row: Row, judge: Judge) -> bool:
    """Whether the finding of the verdict is accepted; of several of its rule all of them."""
    if not judge.entries:
        return False
    leading = [entry for finding, entry in judged(row, judge) if finding["rule"] == row["rule"]]
    return bool(leading) and all(leading)


def learn(store: Reading, judge: Judge) -> None:
    """Show the judge one whole document: it names all rules, also those that found nothing anywhere."""
    whole = next((row["bundle"] for row in store.names()), None) if judge.entries else None
    if whole is not None:
        judge.see({"rules": (store.document(whole) or {}).get("rules")})
