"""Results of a triage among bundles: they are no bundles, and hide none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bundle_lists import make, refused, told
from thpdiag.errors import InputError
from thpdiag.fleet.sources.item import MAX_FOLDER_DEPTH
from thpdiag.fleet.sources.items import find_items
from thpdiag.fleet.sources.local import PAGES_FOLDER, is_store
from thpdiag.store.schema import open_for_writing


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """We stand in an empty folder."""
    monkeypatch.chdir(tmp_path)


def make_results(folder: str, *reports: str) -> None:
    """A folder of results: a store as triage makes it, its pages, and reports that somebody had it write there."""
    make(*(f"{folder}/{name}" for name in ("index.html", "lock", "ballast", f"{PAGES_FOLDER}/a1b2.html", *reports)))
    open_for_writing(Path(folder, "results.sqlite")).close()


@pytest.mark.usefixtures("here")
def test_hidden_names_empty_folders_and_results_are_passed_over() -> None:
    """The folder that results go to, and that of another run, with the reports in them."""
    make(
        "n/.part.tar.xz",
        "n/.git/config",
        "n/empty/",
        "n/a.tar",
        "n/out/hosts/c.html",
        "n/out/lock",
        "n/out/.work/d.tar",
    )
    make_results("n/old", "junit.xml", "fleet.md", "summary.txt")
    make_results("n/old/older")
    assert told("n", besides=(Path("n/out"),)) == told("n/*", besides=(Path("n/out"),)) == ["n/a.tar"]
    assert told("n") == ["n/a.tar", "n/out/hosts", "n/out/lock"]


@pytest.mark.parametrize("how", ["results", "besides"])
@pytest.mark.usefixtures("here")
def test_bundles_beside_results_are_read(how: str) -> None:
    """Somebody had the results written to the folder of his bundles: nothing is lost, and no report is a bundle."""
    make("p/22/web1.tar.xz", "p/22/web1.tar.xz.md5", "p/22/perf.data", "p/22/hosts/web2.tar.xz", "p/22/web3/proc/stat")
    make("p/22/run.log", "p/21/web1.tar.xz")
    if how == "results":
        make_results("p/22")
    besides = () if how == "results" else (Path("p/22"),)
    expected = ["21/web1.tar.xz", *(f"22/{name}" for name in ("hosts/web2.tar.xz", "perf.data", "web1.tar.xz", "web3"))]
    assert told("p", besides=besides) == [f"p/{name}" for name in expected]
    assert told("p/22", besides=besides) == expected[1:]
    assert told("p/*/*", besides=besides) == [f"p/{name}" for name in expected]


@pytest.mark.usefixtures("here")
def test_results_in_an_unpacked_bundle() -> None:
    """It is one bundle as before; while results are written into it, it cannot be read, and that is said."""
    make("n/web1/sos_commands/kernel/uname_-a", "n/web1/proc/stat", "n/web2.tar")
    make_results("n/web1")
    assert told("n") == ["n/web1", "n/web2.tar"]
    (found,) = (item for item in find_items(["n"], [Path("n/web1")]) if item.refused)
    assert (found.label, found.refused) == ("n/web1", "has results of this run in it; name another --out-dir")


@pytest.mark.usefixtures("here")
def test_results_in_results_without_end() -> None:
    """As deep as is looked into, and no deeper."""
    deepest = "n/" + "d/" * (MAX_FOLDER_DEPTH + 300)
    Path(deepest).mkdir(parents=True)
    for folder in [Path(deepest), *Path(deepest).parents][:-2]:
        (folder / "results.sqlite").touch()
    make("n/a.tar")
    assert told("n") == ["n/a.tar"]
    assert [*refused("n").values()] == [f"lies in more than {MAX_FOLDER_DEPTH} folders and was not read"]


@pytest.mark.parametrize("result", ["results", "besides"])
@pytest.mark.usefixtures("here")
def test_results_beside_plain_files_change_nothing(result: str) -> None:
    """A second run on a folder that is one bundle finds one bundle, though the first left its results there."""
    make("host/vmstat.txt", "host/sar.txt", "host/out/later")
    if result == "results":
        make_results("host/out")
    besides = (Path("host/out"),) if result == "besides" else ()
    assert told("host", besides=besides) == ["host"]
    assert told("host/*", besides=besides) == ["host/sar.txt", "host/vmstat.txt"]


@pytest.mark.usefixtures("here")
def test_a_link_to_results_beside_plain_files_changes_nothing() -> None:
    """Somebody keeps those of all days hidden, and links to the last."""
    make("host/vmstat.txt")
    make_results("host/.days/23")
    Path("host/latest").symlink_to(".days/23")
    assert told("host") == ["host"]
    make("host/.days/23/a.tar")
    assert told("host") == ["host/latest/a.tar", "host/vmstat.txt"]


@pytest.mark.usefixtures("here")
def test_the_folder_of_results_is_no_bundle() -> None:
    """Also if it is named, and what is in it fits no pattern."""
    make_results("out")
    with pytest.raises(InputError, match=r"^out holds no bundle; check the path$"):
        find_items(["out"])
    for pattern in ("out/*", "*/*", "**/*.html", "o*", "out/*/*"):
        with pytest.raises(InputError, match="nothing matches this pattern"):
            find_items([pattern])


def test_pages_of_hosts_are_where_triage_writes_them() -> None:
    """The work list stands below the pages and names their folder itself."""
    assert PAGES_FOLDER == PAGES_FOLDER


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", True),
        (b"SQLite format 3\0" + bytes(52) + b"ThpD" + bytes(28), True),
        (b"SQLite format 3\0" + bytes(24) + b"\0\0\0\1" + bytes(24) + b"ThpD" + bytes(28), True),
        (b"SQLite format 3\0" + bytes(24) + b"\0\0\0\1" + bytes(56), False),
        (b"SQLite format 3\0" + bytes(52) + b"GPKG" + bytes(28), False),
        (b"SQLite format 3\0", False),
        (b"x" * 4096, False),
    ],
)
def test_what_is_a_store(tmp_path: Path, content: bytes, expected: bool) -> None:
    """Nobody opens a database of a customer to find that out."""
    (tmp_path / "results.sqlite").write_bytes(content)
    assert is_store(tmp_path / "results.sqlite") is expected


def test_a_store_that_a_run_was_killed_over(tmp_path: Path) -> None:
    """All of it is in the log beside it."""
    database = open_for_writing(tmp_path / "results.sqlite")
    assert b"ThpD" not in (tmp_path / "results.sqlite").read_bytes()[:100]
    assert is_store(tmp_path / "results.sqlite")
    database.close()
    assert b"ThpD" in (tmp_path / "results.sqlite").read_bytes()[:100]
    assert is_store(tmp_path / "results.sqlite")


@pytest.mark.usefixtures("here")
def test_what_is_called_as_a_store_and_is_none() -> None:
    """A pipe, a link, a folder, somebody's database: the bundles beside it are found, and it is told of."""
    make("n/1/results.sqlite", "n/1/a.tar", "n/2/results.sqlite/", "n/2/a.tar", "n/3/a.tar", "n/4/a.tar")
    os.mkfifo("n/3/results.sqlite")
    Path("n/4/results.sqlite").symlink_to("../1/results.sqlite")
    assert [name for name in told("n") if name.endswith(".tar")] == [f"n/{number}/a.tar" for number in range(1, 5)]
    assert refused("n") == {"n/3/results.sqlite": "is a named pipe (fifo)"}
