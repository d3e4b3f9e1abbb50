"""Archives of Performance Co-Pilot inside of bundles: unpacked beside each other for pmrep, then gone."""

from __future__ import annotations

import io
import lzma
import shutil
import tarfile
import tempfile
from pathlib import Path

import pytest

from conftest import ROOT
from thpdiag.host import sibling_files as side_by_side
from thpdiag.host.options import Options
from thpdiag.host.reading import ParsedInput, read_input
from thpdiag.model import ProblemKind, Sample, Series

ARCHIVE = ROOT / "fixtures" / "recordings" / "pcp"
PLACE = "sosreport-web1-2026-11-20-abcdefg/var/log/pcp/pmlogger/web1"
WITH_PMREP = pytest.mark.skipif(shutil.which("pmrep") is None, reason="pmrep is not installed")


def bundle(target: Path, parts: tuple[str, ...] = ("meta", "0", "index")) -> Path:
    """A sosreport with an archive as pmlogger leaves it after a day: all but the index packed with xz."""
    with tarfile.open(target, "w:xz") as tar:
        for part in parts:
            data = (ARCHIVE / f"web1.{part}").read_bytes()
            name = f"{PLACE}/20261120.{part}"
            if part != "index":
                data, name = lzma.compress(data), f"{name}.xz"
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return target


def rows(given: ParsedInput) -> int:
    records = [reading.record for found in given.readings.values() for reading in found]
    return sum(len(r) if isinstance(r, Series) else 1 for r in records if isinstance(r, (Sample, Series)))


@pytest.fixture(autouse=True)
def nothing_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Temporary folders of the test are in a place of its own."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@WITH_PMREP
@pytest.mark.parametrize("order", [("meta", "0", "index"), ("0", "index", "meta")])
def test_an_archive_in_a_bundle_is_read(order: tuple[str, ...], tmp_path: Path, nothing_left_behind: Path) -> None:
    """In whatever order its parts come; nothing is left of what was unpacked, and no path of it is told."""
    given = read_input([bundle(tmp_path / "sosreport-web1.tar.xz", order)], Options())
    assert rows(given) >= 4
    assert list(nothing_left_behind.iterdir()) == []
    (recording,) = (item for item in given.inputs if item.first)
    assert (recording.reader, recording.member) == ("pcp_archive", f"{PLACE}/20261120.0.xz")
    assert str(nothing_left_behind) not in repr(given)


def test_an_archive_without_its_names_says_what_to_ask_for(tmp_path: Path, nothing_left_behind: Path) -> None:
    """Its .meta is not in the bundle, or no pmrep is here."""
    given = read_input([bundle(tmp_path / "sosreport-web1.tar.xz", ("0", "index"))], Options())
    (problem,) = given.problems
    assert (problem.kind, rows(given)) == (ProblemKind.UNREADABLE, 0)
    assert "pmrep -z -a /var/log/pcp/pmlogger/web1/20261120 -o csv" in problem.text
    assert list(nothing_left_behind.iterdir()) == []


@WITH_PMREP
def test_no_more_is_unpacked_than_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing_left_behind: Path
) -> None:
    """Then a problem says so."""
    monkeypatch.setattr(side_by_side.SpooledMembers.__init__, "__defaults__", (3000,))
    given = read_input([bundle(tmp_path / "sosreport-web1.tar.xz")], Options())
    assert rows(given) == 0
    assert ProblemKind.LIMIT in {problem.kind for problem in given.problems}
    assert list(nothing_left_behind.iterdir()) == []
