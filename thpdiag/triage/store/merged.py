"""Shards into one store: what another store has and this one has not, in portions, each of them whole."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from thpdiag.triage.store.form import address, located
from thpdiag.triage.store.packed import UNREAD
from thpdiag.triage.store.rows import FINDING, HOST

PORTION: Final = 200  # bundles in one transaction: a crash or a full disk costs no more than one portion

_RUNS: Final = (
    """INSERT INTO analysis (tool_version, rules_digest, options)
       SELECT tool_version, rules_digest, options FROM other.analysis WHERE true ON CONFLICT DO NOTHING""",
    """INSERT INTO run (token, begun, analysis)
       SELECT theirs.token, theirs.begun, ours.id FROM other.run theirs
       JOIN other.analysis a ON a.id = theirs.analysis
       JOIN analysis ours USING (tool_version, rules_digest, options) WHERE true ON CONFLICT (token) DO NOTHING""",
)
_BUNDLES: Final = """
    INSERT INTO bundle (run, analysis, sha256, path, size, status, reason, attempts)
    SELECT ours.id, ours.analysis, b.sha256, b.path, b.size, b.status, b.reason, b.attempts
    FROM other.bundle b JOIN other.run theirs ON theirs.id = b.run JOIN run ours ON ours.token = theirs.token
    WHERE b.id > ? AND b.id <= ? ORDER BY b.id ON CONFLICT (sha256, analysis) DO NOTHING"""
_WITHOUT: Final = """
    DELETE FROM bundle WHERE id IN (
        SELECT ours.id FROM other.bundle b JOIN other.document d ON d.bundle = b.id
        JOIN other.run theirs ON theirs.id = b.run JOIN run here ON here.token = theirs.token
        JOIN bundle ours ON ours.sha256 = b.sha256 AND ours.analysis = here.analysis
        WHERE b.id > ? AND b.id <= ? AND NOT EXISTS (SELECT 1 FROM document WHERE document.bundle = ours.id))"""
# What one could not read and another did; the name of such a row is made of its path.
_READ: Final = f"""
    DELETE FROM bundle WHERE sha256 LIKE '{UNREAD}%' AND (path, analysis) IN (
        SELECT path, analysis FROM bundle WHERE sha256 NOT LIKE '{UNREAD}%')"""
# The rows of a portion that were new, beside their numbers in the other store.
_NEW: Final = """
    FROM other.bundle b JOIN other.run theirs ON theirs.id = b.run JOIN run ours ON ours.token = theirs.token
    JOIN bundle new ON new.sha256 = b.sha256 AND new.analysis = ours.analysis"""
_WHERE: Final = "WHERE b.id > ? AND b.id <= ? AND new.id > ?"
_PARTS: Final = (
    f"""INSERT INTO document (bundle, packed)
        SELECT new.id, d.packed {_NEW} JOIN other.document d ON d.bundle = b.id {_WHERE}""",
    f"""INSERT INTO host (bundle, place, {", ".join(HOST)})
        SELECT new.id, h.place, {", ".join(f"h.{name}" for name in HOST)}
        {_NEW} JOIN other.host h ON h.bundle = b.id {_WHERE}""",
    f"""INSERT INTO finding (bundle, host, place, {", ".join(FINDING)})
        SELECT new.id, f.host, f.place, {", ".join(f"f.{name}" for name in FINDING)}
        {_NEW} JOIN other.finding f ON f.bundle = b.id {_WHERE}""",
)
_MARKS: Final = """
    INSERT INTO mark (run, at, kind) SELECT ours.id, m.at, m.kind
    FROM other.mark m JOIN other.run theirs ON theirs.id = m.run JOIN run ours ON ours.token = theirs.token
    WHERE NOT EXISTS (SELECT 1 FROM mark WHERE mark.run = ours.id AND mark.at = m.at AND mark.kind = m.kind)"""


def merge_into(database: sqlite3.Connection, place: Path) -> int:
    """Add what the store at `place` has to an open database; how many bundles were new. Merging twice adds nothing.

    A document takes the place of an attempt that came to none, and any result that of a bundle which could not be read
    under its path.
    """
    database.execute("ATTACH ? AS other", (address(located(place)),))
    try:
        with database:  # ends the transaction either way
            database.execute("BEGIN IMMEDIATE")
            for query in (*_RUNS, _MARKS):
                database.execute(query)
        (last,) = database.execute("SELECT coalesce(max(id), 0) FROM other.bundle").fetchone()
        new = sum(_portion(database, first) for first in range(0, last, PORTION))
        with database:
            database.execute("BEGIN IMMEDIATE")
            database.execute(_READ)
        return new
    finally:
        database.execute("DETACH other")


def _portion(database: sqlite3.Connection, first: int) -> int:
    with database:
        database.execute("BEGIN IMMEDIATE")
        database.execute(_WITHOUT, (first, first + PORTION))
        (before,) = database.execute("SELECT coalesce(max(id), 0) FROM bundle").fetchone()
        new = database.execute(_BUNDLES, (first, first + PORTION)).rowcount
        for query in _PARTS:
            database.execute(query, (first, first + PORTION, before))
    return max(new, 0)
