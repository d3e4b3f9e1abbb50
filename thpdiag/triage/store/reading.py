"""What is in a store: bundles, hosts, findings, one after the other, in memory that does not grow with their number."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from thpdiag.errors import StoreError
from thpdiag.triage.store.bundle import Analysis, BundleResult, Stored
from thpdiag.triage.store.form import located, to_read
from thpdiag.triage.store.rows import FINDING, HOST
from thpdiag.triage.store.trouble import told

Row = dict[str, Any]
_BUNDLES: Final = """
    SELECT b.sha256, b.path, b.size, b.status, b.reason, b.attempts, d.packed,
           a.tool_version, a.rules_digest, a.options, r.begun
    FROM bundle b JOIN run r ON r.id = b.run JOIN analysis a ON a.id = b.analysis
    LEFT JOIN document d ON d.bundle = b.id"""
BUNDLE_COLUMNS: Final = ("path", "sha256", "size", "status", "reason", "attempts")
HOST_COLUMNS: Final = tuple({"name": "host", "title": "case"}.get(name, name) for name in HOST)
_SUMMARY: Final = f"""
    SELECT b.id, {", ".join(f"b.{name}" for name in BUNDLE_COLUMNS)}, h.place,
           {", ".join(f"h.{name}" for name in HOST)}
    FROM bundle b LEFT JOIN host h ON h.bundle = b.id ORDER BY b.id, h.place"""
FLAT_COLUMNS: Final = (
    *BUNDLE_COLUMNS, *(f"verdict_{n}" if n in FINDING else n for n in HOST_COLUMNS),
    *FINDING, "tool_version", "rules_digest", "options", "begun",
)  # fmt: skip
_FLAT: Final = f"""
    SELECT {", ".join(f"b.{name}" for name in BUNDLE_COLUMNS)}, {", ".join(f"h.{name}" for name in HOST)},
           {", ".join(f"f.{name}" for name in FINDING)}, a.tool_version, a.rules_digest, a.options, r.begun
    FROM bundle b JOIN run r ON r.id = b.run JOIN analysis a ON a.id = b.analysis
    LEFT JOIN host h ON h.bundle = b.id LEFT JOIN finding f ON f.bundle = h.bundle AND f.host = h.place
    ORDER BY b.id, h.place, f.place"""


class Reading:
    """A store that is read, also one that a run is adding to. Each iterator sees one moment of it."""

    def __init__(self, file: Path, database: sqlite3.Connection) -> None:
        self.file, self._database = file, database

    @classmethod
    def at(cls, place: Path) -> Self:
        """Open the store in a folder, or one that is named itself."""
        file = located(place)
        with told(file):
            return cls(file, to_read(file))

    def results(self) -> Iterator[Stored]:
        """All bundles in the order in which they were stored, with their documents."""
        return map(self._stored, self._rows(f"{_BUNDLES} ORDER BY b.id"))

    def result(self, sha256: str) -> list[Stored]:
        """What is stored of one content: a result per analysis, the first made first."""
        return list(map(self._stored, self._rows(f"{_BUNDLES} WHERE b.sha256 = ? ORDER BY b.id", sha256)))

    def hosts(self) -> Iterator[Row]:
        """A row per host, with its bundle, apps (a list), settings and measures (maps by name).

        A bundle without a host (`refused`, for instance) has one row, whose `place` and columns of a host are None.
        """
        columns = ("bundle", *BUNDLE_COLUMNS, "place", *HOST_COLUMNS)
        for values in self._rows(_SUMMARY):
            row = dict(zip(columns, values, strict=True))
            yield row | {name: self._json(row[name] or "null") for name in ("apps", "settings", "measures")}

    def findings(self) -> Iterator[Row]:
        """A row per finding, with `bundle` and `place` of its host as in `hosts`."""
        found = self._rows(f"SELECT bundle, host, {', '.join(FINDING)} FROM finding ORDER BY bundle, host, place")
        return (dict(zip(("bundle", "place", *FINDING), values, strict=True)) for values in found)

    def flat(self) -> Iterator[tuple[Any, ...]]:
        """All of it as one table (FLAT_COLUMNS): a row per finding, one for a host or bundle that has none."""
        return self._rows(_FLAT)

    def verdicts(self) -> Iterator[Row]:
        """How many hosts have each verdict, mechanism, confidence and severity; the most frequent first."""
        columns = ("verdict", "mechanism", "confidence", "severity")
        query = f"SELECT {', '.join(columns)}, count(*) FROM host GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2, 3, 4"
        return (dict(zip((*columns, "hosts"), values, strict=True)) for values in self._rows(query))

    def statuses(self) -> dict[str, int]:
        """How many bundles ended in which way."""
        return dict(self._rows("SELECT status, count(*) FROM bundle GROUP BY status ORDER BY status"))

    def marks(self) -> list[tuple[str, str]]:
        """What befell the runs: when (UTC) and what."""
        return list(self._rows("SELECT at, kind FROM mark ORDER BY rowid"))

    def check(self) -> None:
        """Read all of the store and compare it with itself; an error says what is wrong."""
        found = [line for (line,) in self._rows("PRAGMA integrity_check")]
        lost = list(self._rows("PRAGMA foreign_key_check"))
        if found != ["ok"] or lost:
            raise StoreError(f"{self.file}: the store is damaged ({found[0]}, {len(lost)} rows without their bundle)")
        for _ in self.results():
            pass

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        with told(self.file):
            yield from self._database.execute(query, values)

    def _stored(self, row: tuple[Any, ...]) -> Stored:
        sha256, path, size, status, reason, attempts, packed, version, digest, options, begun = row
        document = None if packed is None else self._document(packed, sha256)
        result = BundleResult(sha256, path, size, status, reason, attempts, document)
        return Stored(result, Analysis(version, digest, self._json(options)), begun)

    def _document(self, packed: bytes, sha256: str) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = json.loads(zlib.decompress(packed))
        except (zlib.error, ValueError) as error:
            raise StoreError(f"{self.file}: the result of bundle {sha256} is damaged ({error})") from error
        return found

    def _json(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise StoreError(f"{self.file}: the store is damaged ({error})") from error
