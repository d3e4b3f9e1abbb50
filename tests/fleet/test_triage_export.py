"""`thpdiag triage export`: the store as a table, in a file or on standard output."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from small_results import ANALYSIS, result
from thpdiag.cli import cli
from thpdiag.errors import StoreError, UsageError
from thpdiag.store.reading import FLAT_COLUMNS
from thpdiag.store.store import Store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Nine hosts with two findings each, and a bundle that was killed."""
    with Store.open(tmp_path / "out", ANALYSIS) as store:
        for number in range(10):
            store.add(result(number))
    return tmp_path / "out"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["triage", "export", *map(str, arguments)])


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet", "OUT.CSV"])
def test_a_file_has_the_format_of_its_name(folder: Path, name: str) -> None:
    """19 rows in each; nothing else is written beside it or to standard output."""
    file = folder.parent / name
    done = run(folder, "-o", file)

    assert (done.exit_code, done.output) == (0, "")
    assert sorted(path.name for path in folder.parent.iterdir()) == sorted(["out", name])
    data = file.read_bytes()
    if name.endswith("parquet"):
        parquet = pytest.importorskip("pyarrow.parquet")
        assert parquet.read_table(file).num_rows == 19
    elif name.endswith("jsonl"):
        assert len([json.loads(line) for line in data.splitlines()]) == 19
    else:
        assert len(list(csv.DictReader(io.StringIO(data.decode())))) == 19


def test_a_format_that_is_named_needs_no_suffix(folder: Path) -> None:
    """`jsonl=FILE`, whatever the file is called."""
    file = folder.parent / "rows.txt"
    assert run(folder, "-o", f"jsonl={file}").exit_code == 0
    assert set(json.loads(file.read_text().splitlines()[0])) == set(FLAT_COLUMNS)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_standard_output_has_the_bytes_of_the_file(folder: Path, form: str) -> None:
    """For a pipe; the same as in a file."""
    file = folder.parent / f"rows.{form}"
    run(folder, "-o", file)
    assert run(folder, "-o", f"{form}=-").stdout_bytes == file.read_bytes()


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("parquet=-", "parquet is binary"),
        ("-", "name the format and the file"),
        ("csv", "name the format and the file"),
        ("out.xlsx", "the suffix names no format"),
        ("xml=out.csv2", "the suffix names no format"),
        (".", "that is a folder"),
    ],
)
def test_a_wrong_target_is_refused_before_anything_is_read(tmp_path: Path, output: str, told: str) -> None:
    """With the right words for it; there is no store at all here."""
    done = run(tmp_path, "-o", output)
    assert isinstance(done.exception, UsageError)
    assert told in str(done.exception)


def test_what_is_no_store_is_said(tmp_path: Path) -> None:
    """A folder without results."""
    done = run(tmp_path, "-o", tmp_path / "out.csv")
    assert isinstance(done.exception, StoreError)
    assert list(tmp_path.iterdir()) == []
