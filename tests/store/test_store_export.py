"""A store as CSV, JSON Lines and Parquet: the same rows in each, safe to open, as they were where the format can."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from small_results import ANALYSIS, document, result
from thpdiag.errors import StoreError, UsageError
from thpdiag.store.export import FORMATS, export
from thpdiag.store.reading import FLAT_COLUMNS, StoreReader
from thpdiag.store.store import Store

HOSTILE = "=1+1\x1b[2J\udc80\u202e\"',\r\n"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two hosts with two findings each, one without, one with a hostile name, one bundle that was killed."""
    silent = {**document(2), "findings": []}
    hostile = {**document(3), "case": HOSTILE, "host": {"name": HOSTILE, "apps": [HOSTILE]}}
    with Store.open(tmp_path, ANALYSIS) as made:
        for one in (result(1), replace(result(2), document=silent), replace(result(3), document=hostile), result(9)):
            made.add(one)
    return tmp_path


def written(folder: Path, name: str) -> bytes:
    out = io.BytesIO()
    with StoreReader.at(folder) as reading:
        FORMATS[name](reading, out)
    return out.getvalue()


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written(folder, "jsonl").splitlines()]


def test_rows(store: Path) -> None:
    """A row per finding; one for a host or a bundle that has none, empty where nothing is known."""
    found = [(r["path"], r["host"], r["verdict_rule"], r["rule"], r["status"]) for r in lines(store)]

    assert found == [
        ("in/1.tar", "host1", "THP-001", "THP-001", "ok"),
        ("in/1.tar", "host1", "THP-001", "THP-009", "ok"),
        ("in/2.tar", "host2", "THP-002", None, "ok"),
        ("in/3.tar", HOSTILE, "THP-003", "THP-003", "ok"),
        ("in/3.tar", HOSTILE, "THP-003", "THP-009", "ok"),
        ("in/9.tar", None, None, None, "signal 9"),
    ]


def test_json_lines_are_exact_and_ascii(store: Path) -> None:
    """All columns, each string as it was, one line per row whatever is in it."""
    assert written(store, "jsonl").isascii()
    assert {tuple(row) for row in lines(store)} == {tuple(sorted(FLAT_COLUMNS))}
    assert lines(store)[3]["apps"] == HOSTILE
    assert json.loads(lines(store)[0]["settings"]) == {"thp.enabled": {"value": "always", "provenance": "assumed"}}


def test_csv_is_safe(store: Path) -> None:
    """No formula, no control characters; the rest as in JSON Lines."""
    text = written(store, "csv").decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))

    assert rows[3]["host"].startswith("'=1+1\\x1b[2J\\udc80\\u202e")
    assert not {"\x1b", "\u202e"} & set(text)
    plain = [{name: "" if value is None else str(value) for name, value in row.items()} for row in lines(store)[:3]]
    truths = {"True": "1", "False": "0"}
    assert rows[:3] == [{name: truths.get(row[name], row[name]) for name in FLAT_COLUMNS} for row in plain]


def test_parquet_has_the_same_rows(store: Path) -> None:
    """Numbers and truths are such; a lone surrogate, which Parquet cannot hold, is shown."""
    parquet = pytest.importorskip("pyarrow.parquet")

    table = parquet.read_table(io.BytesIO(written(store, "parquet")))

    assert table.column_names == list(FLAT_COLUMNS)
    assert str(table.schema.field("size").type) == "int64"
    shown = [{n: _shown(value) for n, value in row.items()} for row in lines(store)]
    assert table.to_pylist() == [{name: row[name] for name in FLAT_COLUMNS} for row in shown]


def _shown(value: Any) -> Any:
    return value.replace("\udc80", "\\udc80") if isinstance(value, str) else value


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_store(name: str, tmp_path: Path) -> None:
    """A batch of nothing: a header, no rows."""
    Store.open(tmp_path, ANALYSIS).close()

    data = written(tmp_path, name)

    if name == "parquet":
        assert pytest.importorskip("pyarrow.parquet").read_table(io.BytesIO(data)).num_rows == 0
    else:
        assert data.count(b"\n") == (name == "csv")


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_by_its_suffix(name: str, store: Path, tmp_path: Path) -> None:
    """It is there whole, and nothing beside it."""
    folder = tmp_path / "exports"
    folder.mkdir()

    with StoreReader.at(store) as reading:
        export(reading, folder / f"fleet.{name}")

    assert [file.name for file in folder.iterdir()] == [f"fleet.{name}"]
    assert (folder / f"fleet.{name}").read_bytes() == written(store, name)


def test_a_copy_is_a_store(store: Path, tmp_path: Path) -> None:
    """It has all results, and is whole."""
    with StoreReader.at(store) as reading:
        export(reading, tmp_path / "copy.sqlite")
        with StoreReader.at(tmp_path / "copy.sqlite") as copy:
            copy.check()
            assert list(copy.results()) == list(reading.results())
    assert not list(tmp_path.glob(".*part"))


def test_a_file_that_cannot_be_written(store: Path, tmp_path: Path) -> None:
    """No format, no folder, a damaged store: one sentence, and what was there stays."""
    old = tmp_path / "old.csv"
    old.write_text("old")
    (tmp_path / "damaged").write_bytes(b"x" * 5000)

    with StoreReader.at(store) as reading:
        with pytest.raises(UsageError, match=r"the suffix names no format; one of \.csv, \.jsonl, \.parquet, \.sqlite"):
            export(reading, tmp_path / "fleet.xlsx")
        with pytest.raises(UsageError, match=r"fleet\.csv: cannot be written \(No such file or directory\)"):
            export(reading, tmp_path / "none" / "fleet.csv")
    with pytest.raises(StoreError, match="damaged"), StoreReader.at(tmp_path / "damaged") as reading:
        export(reading, old)
    assert old.read_text() == "old"
    assert not list(tmp_path.glob(".*part"))
