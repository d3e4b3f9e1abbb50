"""What is in a store: bundles, hosts, findings, one after the other, in memory that does not grow with their number."""

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
_MADE: Final = """
    SELECT b.id, a.tool_version, a.rules_digest, a.options, r.begun
    FROM bundle b JOIN run r ON r.id = b.run JOIN analysis a ON a.id = b.analysis"""
# Not those of which there is a younger result of the same content by another analysis.
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
    """`incomplete` bundles did not end `ok`; `findings` are counted by severity."""

    hosts: int
    incomplete: int
    findings: Mapping[str | None, int]


class StoreReader:
    """A store that is read, also one that a run is adding to. Each iterator sees one moment of it."""

    def __init__(self, file: Path, database: sqlite3.Connection) -> None:
        self.file, self._database = file, database
        self.aside = SpillFile(file.parent)  # for what is worked out of it and does not fit into memory

    @classmethod
    def at(cls, place: Path) -> Self:
        """Open the store in a folder, or one that is named itself."""
        file = database_path(place)
        with store_errors(file):
            return cls(file, open_for_reading(file))

    def results(self) -> Iterator[StoredResult]:
        """All bundles in the order in which they were stored, with their documents."""
        return map(self._stored_result, self._rows(f"{_BUNDLES} ORDER BY b.id"))

    def current(self) -> Iterator[StoredResult]:
        """The same in the order of their paths, which no run changes, but for results that a younger one replaces."""
        for number in self._current():
            yield from map(self._stored_result, self._rows(f"{_BUNDLES} WHERE b.id = ?", number))

    def result(self, sha256: str) -> list[StoredResult]:
        """What is stored of one content: a result per analysis, the first made first."""
        return list(map(self._stored_result, self._rows(f"{_BUNDLES} WHERE b.sha256 = ? ORDER BY b.id", sha256)))

    def has_document(self, sha256: str, analysis: Analysis) -> bool | None:
        """Whether this content has a result of the analysis: None if not, False if all attempts came to no document."""
        query = """
            SELECT EXISTS (SELECT 1 FROM document d WHERE d.bundle = b.id) FROM bundle b
            JOIN analysis a ON a.id = b.analysis
            WHERE b.sha256 = ? AND a.tool_version = ? AND a.rules_digest = ? AND a.options = ?"""
        values = (sha256, analysis.tool_version, analysis.rules_digest, analysis.options_text)
        found = next(self._rows(query, *map(bind_text, values)), None)
        return None if found is None else bool(found[0])

    def analyzed_contents(self, analysis: Analysis) -> Iterator[tuple[str, bool]]:
        """Each content that has a result of the analysis, and whether that has a document (as `has_document`)."""
        query = """
            SELECT b.sha256, EXISTS (SELECT 1 FROM document d WHERE d.bundle = b.id) FROM bundle b
            JOIN analysis a ON a.id = b.analysis
            WHERE a.tool_version = ? AND a.rules_digest = ? AND a.options = ?"""
        values = (analysis.tool_version, analysis.rules_digest, analysis.options_text)
        return ((sha256, bool(document)) for sha256, document in self._rows(query, *map(bind_text, values)))

    def hosts(self) -> Iterator[Row]:
        """A row per host, with its bundle, apps (a list), settings and measures (maps by name).

        A bundle without a host (`refused`, for instance) has one row, whose `place` and columns of a host are None.
        """
        return map(self._host, self._rows(f"{_SUMMARY} ORDER BY b.id, h.place"))

    def findings(self) -> Iterator[Row]:
        """A row per finding, with `bundle` and `place` of its host as in `hosts`."""
        return map(_finding_row, self._rows(f"{_FINDINGS} ORDER BY bundle, host, place"))

    def fleet(self) -> Iterator[Row]:
        """The rows of `hosts` in the order of paths, without replaced results, each as `of_bundles` has it."""
        numbers = self._current()
        while portion := tuple(islice(numbers, BUNDLES_PER_QUERY)):
            yield from self.of_bundles(*portion)

    def of_bundles(self, *numbers: int) -> Iterator[Row]:
        """The rows of `hosts` of these bundles, each with its `findings`, the analysis and the begin of the run."""
        among = f"IN ({', '.join('?' * len(numbers))})"
        findings: dict[tuple[int, int], list[Row]] = {}
        for one in map(_finding_row, self._rows(f"{_FINDINGS} WHERE bundle {among} ORDER BY place", *numbers)):
            findings.setdefault((one["bundle"], one["place"]), []).append(one)
        made = {
            number: dict(zip(("tool_version", "rules_digest", "options", "begun"), cells, strict=True))
            for number, *cells in self._rows(f"{_MADE} WHERE b.id {among}", *numbers)
        }
        hosts: dict[int, list[tuple[Any, ...]]] = {}
        for values in self._rows(f"{_SUMMARY} WHERE b.id {among} ORDER BY h.place", *numbers):
            hosts.setdefault(values[0], []).append(values)
        for number in numbers:
            for row in map(self._host, hosts.get(number, ())):
                yield row | made[number] | {"findings": findings.get((number, row["place"]), [])}

    def document(self, number: int) -> Mapping[str, Any] | None:
        """The result document of a bundle, if there is one."""
        found = next(self._rows(f"{_BUNDLES} WHERE b.id = ?", number), None)
        return self._stored_result(found).result.document if found else None

    def names(self) -> Iterator[Row]:
        """Bundle, place, name and time of the data of all hosts that have a name, in the order of `fleet`."""
        return self._names("b.path, b.sha256, b.id, h.place")

    def by_name(self) -> Iterator[Row]:
        """The same by name; those of one name in the order of `fleet`."""
        return self._names("h.name, b.path, b.sha256, b.id, h.place")

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

    def totals(self, analysis: int | None = None) -> Totals:
        """Hosts, findings and incomplete bundles of all that is stored but replaced results, or of one analysis."""
        which = _YOUNGEST if analysis is None else f"{_YOUNGEST} AND b.analysis = {analysis:d}"
        of_host = f"FROM host h JOIN bundle b ON b.id = h.bundle WHERE {which}"
        of_finding = f"FROM finding f JOIN bundle b ON b.id = f.bundle WHERE {which}"
        ((hosts,),) = self._rows(f"SELECT count(*) {of_host}")
        ((incomplete,),) = self._rows(f"SELECT count(*) FROM bundle b WHERE b.status <> 'ok' AND {which}")
        return Totals(
            hosts, incomplete, dict(self._rows(f"SELECT f.severity, count(*) {of_finding} GROUP BY 1 ORDER BY 1"))
        )

    def runs(self) -> Iterator[Row]:
        """The runs in the order in which they began, each with its analysis and how many bundles are stored of it."""
        columns = ("begun", "tool_version", "rules_digest", "options", "bundles")
        query = """
            SELECT r.begun, a.tool_version, a.rules_digest, a.options, count(b.id)
            FROM run r JOIN analysis a ON a.id = r.analysis LEFT JOIN bundle b ON b.run = r.id
            GROUP BY r.id ORDER BY r.begun, r.id"""
        for values in self._rows(query):
            row = dict(zip(columns, values, strict=True))
            yield row | {"options": self._json(row["options"])}

    @contextmanager
    def moment(self) -> Iterator[None]:
        """Everything that is read within sees the store as it is now, whatever a run adds meanwhile."""
        with store_errors(self.file):
            self._database.execute("BEGIN")
        try:
            yield
        finally:
            with store_errors(self.file):
                self._database.execute("ROLLBACK")

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

    def copy_to(self, file: Path) -> None:
        """Write all of it to a file that is empty or not there."""
        with store_errors(self.file):
            self._database.execute("VACUUM INTO ?", (str(file),))

    def close(self) -> None:
        self.aside.close()
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
            yield from iter(rows.fetchone, None)  # `yield from rows` closes them, also of a store that is closed

    def _current(self) -> Iterator[int]:
        query = f"SELECT b.id FROM bundle b WHERE {_YOUNGEST} ORDER BY b.path, b.sha256, b.id"
        # 8 bytes each: what SQLite sorts takes ten times as much for as long as its rows are read.
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
            found: Mapping[str, Any] = json.loads(zlib.decompress(packed))
        except (zlib.error, ValueError) as error:
            raise StoreError(f"{self.file}: the result of bundle {sha256} is damaged ({error})") from error
        return found

    def _json(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise StoreError(f"{self.file}: the store is damaged ({error})") from error


def _finding_row(values: tuple[Any, ...]) -> Row:
    return dict(zip(("bundle", "place", *FINDING_FIELDS), values, strict=True))
