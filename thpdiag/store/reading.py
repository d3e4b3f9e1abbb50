"""Reading a store: iterators over bundles, hosts and findings in constant memory."""

from __future__ import annotations

import json
import sqlite3
import zlib
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from thpdiag.errors import StoreError
from thpdiag.store.results import FINDING_FIELDS, HOST_FIELDS, Analysis, BundleResult, StoredResult
from thpdiag.store.schema import bind_text, database_path, open_for_reading, store_errors
from thpdiag.store.spill import SpillFile

Row = dict[str, Any]
BUNDLES_PER_QUERY: Final = 50
_BUNDLES: Final = """
    SELECT b.sha256, b.path, b.size, b.status, b.reason, b.attempts, d.packed,
           a.tool_version, a.rules_digest, a.options, r.begun
    FROM bundle b JOIN run r ON r.id = b.run JOIN analysis a ON a.id = b.analysis
    LEFT JOIN document d ON d.bundle = b.id"""
BUNDLE_COLUMNS: Final = ("path", "sha256", "size", "status", "reason", "attempts")
HOST_COLUMNS: Final = tuple({"name": "host", "title": "case"}.get(name, name) for name in HOST_FIELDS)
_SUMMARY: Final = f"""
    SELECT b.id, {", ".join(f"b.{name}" for name in BUNDLE_COLUMNS)}, h.place,
           {", ".join(f"h.{name}" for name in HOST_FIELDS)}
    FROM bundle b LEFT JOIN host h ON h.bundle = b.id"""
_FINDINGS: Final = f"SELECT bundle, host, {', '.join(FINDING_FIELDS)} FROM finding"
_ORIGINS: Final = """
    SELECT b.id, a.tool_version, a.rules_digest, a.options, r.begun
    FROM bundle b JOIN run r ON r.id = b.run JOIN analysis a ON a.id = b.analysis"""
# Excludes results for which there is a younger one of the same content by another analysis.
_YOUNGEST: Final = """NOT EXISTS (
    SELECT 1 FROM run r, bundle new JOIN run s ON s.id = new.run
    WHERE r.id = b.run AND new.sha256 = b.sha256 AND (s.begun, s.id, new.id) > (r.begun, r.id, b.id))"""
FLAT_COLUMNS: Final = (
    *BUNDLE_COLUMNS, *(f"verdict_{n}" if n in FINDING_FIELDS else n for n in HOST_COLUMNS),
    *FINDING_FIELDS, "tool_version", "rules_digest", "options", "begun",
)  # fmt: skip
_FLAT: Final = f"""
    SELECT {", ".join(f"b.{name}" for name in BUNDLE_COLUMNS)}, {", ".join(f"h.{name}" for name in HOST_FIELDS)},
           {", ".join(f"f.{name}" for name in FINDING_FIELDS)}, a.tool_version, a.rules_digest, a.options, r.begun
    FROM bundle b JOIN run r ON r.id = b.run JOIN analysis a ON a.id = b.analysis
    LEFT JOIN host h ON h.bundle = b.id LEFT JOIN finding f ON f.bundle = h.bundle AND f.host = h.place
    ORDER BY b.id, h.place, f.place"""


class Totals(NamedTuple):
    """Counts of a store: `incomplete` bundles have a status other than `ok`; `findings` are counted by severity."""

    hosts: int
    incomplete: int
    findings: Mapping[str | None, int]


class StoreReader:
    """A store opened for reading, also while a run adds to it. Each iterator sees one snapshot."""

    def __init__(self, file: Path, database: sqlite3.Connection) -> None:
        self.file, self._database = file, database
        self.spill_file = SpillFile(file.parent)  # for derived data that does not fit into memory

    @classmethod
    def at(cls, place: Path) -> Self:
        """Open a store, given its folder or its file."""
        file = database_path(place)
        with store_errors(file):
            return cls(file, open_for_reading(file))

    def results(self) -> Iterator[StoredResult]:
        """All bundles with their documents, in the order of storing."""
        return map(self._stored_result, self._rows(f"{_BUNDLES} ORDER BY b.id"))

    def current(self) -> Iterator[StoredResult]:
        """All bundles with their documents, in the order of paths, without results that a younger one replaces."""
        for number in self._current():
            yield from map(self._stored_result, self._rows(f"{_BUNDLES} WHERE b.id = ?", number))

    def result(self, sha256: str) -> list[StoredResult]:
        """The results of one content, one per analysis, the oldest first."""
        return list(map(self._stored_result, self._rows(f"{_BUNDLES} WHERE b.sha256 = ? ORDER BY b.id", sha256)))

    def has_document(self, sha256: str, analysis: Analysis) -> bool | None:
        """Whether this content has a document by the analysis: False for a result without one, None for no result."""
        query = """
            SELECT EXISTS (SELECT 1 FROM document d WHERE d.bundle = b.id) FROM bundle b
            JOIN analysis a ON a.id = b.analysis
            WHERE b.sha256 = ? AND a.tool_version = ? AND a.rules_digest = ? AND a.options = ?"""
        values = (sha256, analysis.tool_version, analysis.rules_digest, analysis.options_text)
        row = next(self._rows(query, *map(bind_text, values)), None)
        return None if row is None else bool(row[0])

    def analyzed_contents(self, analysis: Analysis) -> Iterator[tuple[str, bool]]:
        """Each content with a result of the analysis, and whether that result has a document."""
        query = """
            SELECT b.sha256, EXISTS (SELECT 1 FROM document d WHERE d.bundle = b.id) FROM bundle b
            JOIN analysis a ON a.id = b.analysis
            WHERE a.tool_version = ? AND a.rules_digest = ? AND a.options = ?"""
        values = (analysis.tool_version, analysis.rules_digest, analysis.options_text)
        return ((sha256, bool(document)) for sha256, document in self._rows(query, *map(bind_text, values)))

    def hosts(self) -> Iterator[Row]:
        """A row per host, with its bundle, apps (a list), settings and measures (mappings by name).

        A bundle without a host (status `refused`, for instance) has one row, in which `place` and the host columns are
        None.
        """
        return map(self._host, self._rows(f"{_SUMMARY} ORDER BY b.id, h.place"))

    def findings(self) -> Iterator[Row]:
        """A row per finding, with `bundle` and `place` of its host as in `hosts`."""
        return map(_finding_row, self._rows(f"{_FINDINGS} ORDER BY bundle, host, place"))

    def fleet(self) -> Iterator[Row]:
        """The rows of `rows_of_bundles` for all bundles in the order of paths, without replaced results."""
        numbers = self._current()
        while portion := tuple(islice(numbers, BUNDLES_PER_QUERY)):
            yield from self.rows_of_bundles(*portion)

    def rows_of_bundles(self, *numbers: int) -> Iterator[Row]:
        """The rows of `hosts` for these bundles, each with its `findings`, the analysis and the start of the run."""
        condition = f"IN ({', '.join('?' * len(numbers))})"
        findings: dict[tuple[int, int], list[Row]] = {}
        for finding in map(_finding_row, self._rows(f"{_FINDINGS} WHERE bundle {condition} ORDER BY place", *numbers)):
            findings.setdefault((finding["bundle"], finding["place"]), []).append(finding)
        origins = {
            number: dict(zip(("tool_version", "rules_digest", "options", "begun"), cells, strict=True))
            for number, *cells in self._rows(f"{_ORIGINS} WHERE b.id {condition}", *numbers)
        }
        hosts: dict[int, list[tuple[Any, ...]]] = {}
        for values in self._rows(f"{_SUMMARY} WHERE b.id {condition} ORDER BY h.place", *numbers):
            hosts.setdefault(values[0], []).append(values)
        for number in numbers:
            for row in map(self._host, hosts.get(number, ())):
                yield row | origins[number] | {"findings": findings.get((number, row["place"]), [])}

    def document(self, number: int) -> Mapping[str, Any] | None:
        """The result document of a bundle, or None."""
        row = next(self._rows(f"{_BUNDLES} WHERE b.id = ?", number), None)
        return self._stored_result(row).result.document if row else None

    def names(self) -> Iterator[Row]:
        """Bundle, place, name and recording time of all hosts with a name, in the order of `fleet`."""
        return self._names("b.path, b.sha256, b.id, h.place")

    def by_name(self) -> Iterator[Row]:
        """The rows of `names` ordered by name; hosts of one name in the order of `fleet`."""
        return self._names("h.name, b.path, b.sha256, b.id, h.place")

    def flat(self) -> Iterator[tuple[Any, ...]]:
        """The store as one table (FLAT_COLUMNS): a row per finding, one for each host or bundle without findings."""
        return self._rows(_FLAT)

    def verdicts(self) -> Iterator[Row]:
        """The number of hosts by verdict, mechanism, confidence and severity; the most frequent first."""
        columns = ("verdict", "mechanism", "confidence", "severity")
        query = f"SELECT {', '.join(columns)}, count(*) FROM host GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2, 3, 4"
        return (dict(zip((*columns, "hosts"), values, strict=True)) for values in self._rows(query))

    def statuses(self) -> dict[str, int]:
        """The number of bundles by status."""
        return dict(self._rows("SELECT status, count(*) FROM bundle GROUP BY status ORDER BY status"))

    def totals(self, analysis: int | None = None) -> Totals:
        """The totals of all results except replaced ones, or of one analysis."""
        which = _YOUNGEST if analysis is None else f"{_YOUNGEST} AND b.analysis = {analysis:d}"
        of_host = f"FROM host h JOIN bundle b ON b.id = h.bundle WHERE {which}"
        of_finding = f"FROM finding f JOIN bundle b ON b.id = f.bundle WHERE {which}"
        ((hosts,),) = self._rows(f"SELECT count(*) {of_host}")
        ((incomplete,),) = self._rows(f"SELECT count(*) FROM bundle b WHERE b.status <> 'ok' AND {which}")
        return Totals(
            hosts, incomplete, dict(self._rows(f"SELECT f.severity, count(*) {of_finding} GROUP BY 1 ORDER BY 1"))
        )

    def runs(self) -> Iterator[Row]:
        """The runs in the order of their start, each with its analysis and the number of its bundles."""
        columns = ("begun", "tool_version", "rules_digest", "options", "bundles")
        query = """
            SELECT r.begun, a.tool_version, a.rules_digest, a.options, count(b.id)
            FROM run r JOIN analysis a ON a.id = r.analysis LEFT JOIN bundle b ON b.run = r.id
            GROUP BY r.id ORDER BY r.begun, r.id"""
        for values in self._rows(query):
            row = dict(zip(columns, values, strict=True))
            yield row | {"options": self._json(row["options"])}

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Within this context all reads see the same snapshot of the store."""
        with store_errors(self.file):
            self._database.execute("BEGIN")
        try:
            yield
        finally:
            with store_errors(self.file):
                self._database.execute("ROLLBACK")

    def marks(self) -> list[tuple[str, str]]:
        """The incidents of the runs: time (UTC) and kind."""
        return list(self._rows("SELECT at, kind FROM mark ORDER BY rowid"))

    def check(self) -> None:
        """Check the integrity of the database and read all results; raises StoreError if something is damaged."""
        lines = [line for (line,) in self._rows("PRAGMA integrity_check")]
        orphans = list(self._rows("PRAGMA foreign_key_check"))
        if lines != ["ok"] or orphans:
            raise StoreError(
                f"{self.file}: the store is damaged ({lines[0]}, {len(orphans)} rows without their bundle)"
            )
        for _ in self.results():
            pass

    def copy_to(self, file: Path) -> None:
        """Write a copy to a file that is empty or does not exist."""
        with store_errors(self.file):
            self._database.execute("VACUUM INTO ?", (str(file),))

    def close(self) -> None:
        self.spill_file.close()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        with store_errors(self.file):
            rows = self._database.execute(query, values)
            yield from iter(rows.fetchone, None)  # `yield from rows` would close the cursor, even of a closed store

    def _current(self) -> Iterator[int]:
        query = f"SELECT b.id FROM bundle b WHERE {_YOUNGEST} ORDER BY b.path, b.sha256, b.id"
        # An array needs 8 bytes per row; SQLite would hold ten times as much while its sorted rows are read.
        return iter(array("q", (number for (number,) in self._rows(query))))

    def _names(self, order: str) -> Iterator[Row]:
        columns = ("bundle", "place", "name", "recorded")
        query = f"""
            SELECT {", ".join(f"h.{name}" for name in columns)} FROM host h JOIN bundle b ON b.id = h.bundle
            WHERE h.name IS NOT NULL AND {_YOUNGEST} ORDER BY {order}"""
        return (dict(zip(columns, values, strict=True)) for values in self._rows(query))

    def _host(self, values: tuple[Any, ...]) -> Row:
        row = dict(zip(("bundle", *BUNDLE_COLUMNS, "place", *HOST_COLUMNS), values, strict=True))
        return row | {name: self._json(row[name] or "null") for name in ("apps", "settings", "measures")}

    def _stored_result(self, row: tuple[Any, ...]) -> StoredResult:
        sha256, path, size, status, reason, attempts, packed, version, digest, options, begun = row
        document = None if packed is None else self._document(packed, sha256)
        result = BundleResult(sha256, path, size, status, reason, attempts, document)
        return StoredResult(result, Analysis(version, digest, self._json(options)), begun)

    def _document(self, packed: bytes, sha256: str) -> Mapping[str, Any]:
        try:
            document: Mapping[str, Any] = json.loads(zlib.decompress(packed))
        except (zlib.error, ValueError) as error:
            raise StoreError(f"{self.file}: the result of bundle {sha256} is damaged ({error})") from error
        return document

    def _json(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise StoreError(f"{self.file}: the store is damaged ({error})") from error


def _finding_row(values: tuple[Any, ...]) -> Row:
    return dict(zip(("bundle", "place", *FINDING_FIELDS), values, strict=True))
