"""The work list: what the user names becomes bundles, by rules a user can predict."""

from __future__ import annotations

import os
import socket
from glob import glob
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundle_lists import make, refused, told
from thpdiag.errors import InputError
from thpdiag.fleet.sources.item import MAX_FOLDER_DEPTH, BundleItem
from thpdiag.fleet.sources.items import distinct_labels, find_items
from thpdiag.fleet.sources.local import FOLDER_MARKS, Pattern


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder called `here`, in which we stand."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_a_file_is_a_bundle_with_its_own_name_and_size(here: Path) -> None:
    """Where it lies is not told."""
    make("nightly/web1.tar.xz")
    for name in ("nightly/web1.tar.xz", str(here / "nightly/web1.tar.xz"), "nightly/../nightly/web1.tar.xz"):
        (item,) = find_items([name])
        assert (item.label, item.size, item.refused) == ("web1.tar.xz", 19, "")
        assert Path(item.place).is_absolute()
        assert Path(item.place).samefile("nightly/web1.tar.xz")


@pytest.mark.usefixtures("here")
def test_a_folder_of_bundles() -> None:
    """Archives, folders and other files, in the order of names; folders by the same rule."""
    make("n/b.tar.xz", "n/a.zip", "n/c/proc/vmstat", "n/d/x.tgz", "n/d/y.tar", "n/e/sar.txt", "n/e/top.txt", "n/z.txt")
    assert told("n") == ["n/a.zip", "n/b.tar.xz", "n/c", "n/d/x.tgz", "n/d/y.tar", "n/e", "n/z.txt"]


@pytest.mark.usefixtures("here")
def test_a_hidden_name_is_read_if_it_is_named() -> None:
    """What the user says counts."""
    make("n/.part.tar.xz")
    assert told("n/.part.tar.xz") == [".part.tar.xz"]


@pytest.mark.usefixtures("here")
def test_the_users_own_links_are_followed() -> None:
    """The place is where they lead, for later nothing is opened through a link."""
    make("far/a.tar", "far/n/x.tar", "far/n/y.tar")
    Path("a").symlink_to("far/a.tar")
    Path("n").symlink_to("far/n")
    assert told("a", "n") == ["a", "n/x.tar", "n/y.tar"]
    assert not Path(next(find_items(["a"])).place).is_symlink()


@pytest.mark.usefixtures("here")
def test_what_is_no_file_is_told_of() -> None:
    """A pipe would hang whoever opens it."""
    make("n/a.tar")
    os.mkfifo("n/pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("n/socket")
    assert refused("n", "/dev/null") == {
        "n/pipe": "is a named pipe (fifo)",
        "n/socket": "is a socket",
        "null": "is a device",
    }


@pytest.mark.usefixtures("here")
def test_an_unreadable_folder_is_told_of_and_the_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is the system's."""
    make("n/a.tar", "n/shut/b.tar", "n/z.tar")
    scandir = os.scandir

    def shut(folder: Path) -> object:
        if Path(folder).name == "shut":
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", shut)
    assert refused("n") == {"n/shut": "cannot be read: Permission denied"}
    assert told("n") == ["n/a.tar", "n/z.tar"]


@pytest.mark.usefixtures("here")
def test_folders_have_a_depth_limit() -> None:
    """It is told, with the place."""
    make("n/" + "d/" * (MAX_FOLDER_DEPTH + 9) + "a.tar", "n/b.tar")
    (found,) = refused("n").items()
    assert found == (
        "n" + "/d" * (MAX_FOLDER_DEPTH + 1),
        f"lies in more than {MAX_FOLDER_DEPTH} folders and was not read",
    )
    assert told("n") == ["n/b.tar"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone.tar", "gone.tar does not exist; check the path"),
        ("a.tar/b", "a.tar/b does not exist; check the path"),
        ("bad\nname\x1b", "bad\\nname\\x1b does not exist; check the path"),
        ("nul\0", "nul\\x00 is not a file name; check the path"),
        ("-", "- is not a bundle; --from - reads a list of bundles from standard input"),
        ("", "an empty name is not a bundle"),
        ("x" * 300, "x" * 300 + " cannot be read: File name too long; check the path"),
        ("*.zip", "*.zip: nothing matches this pattern; check the path"),
        ("gone/*.zip", "gone/*.zip: nothing matches this pattern; check the path"),
        ("empty", "empty holds no bundle; check the path"),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_name_that_is_not_there_is_said_before_anything_begins(name: str, message: str) -> None:
    """In one sentence, though a good name stands before it."""
    make("a.tar", "empty/within/")
    with pytest.raises(InputError) as said:
        find_items(["a.tar", name])
    assert str(said.value) == message


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("n/**/*.tar.xz", ["n/a.tar.xz", "n/p/b.tar.xz", "n/p/q/c.tar.xz"]),
        ("n/*.tar.xz", ["n/a.tar.xz"]),
        ("n/*/[bc].tar.xz", ["n/p/b.tar.xz"]),
        ("n/**/q", ["n/p/q/c.tar.xz"]),
        ("n/**/**/c.*", ["n/p/q/c.tar.xz"]),
        ("n/p/**", ["p/b.tar.xz", "p/q/c.tar.xz"]),
        ("*/p/q/?.tar.xz", ["here/n/p/q/c.tar.xz"]),
        ("n/.*", ["n/.d.tar.xz"]),
    ],
)
@pytest.mark.usefixtures("here")
def test_patterns(pattern: str, expected: list[str]) -> None:
    """As the shell takes them; each bundle once."""
    make("n/a.tar.xz", "n/p/b.tar.xz", "n/p/q/c.tar.xz", "n/.d.tar.xz", "n/readme")
    Path("n/round").symlink_to(".")
    assert told(pattern) == expected


PARTS = st.sampled_from(["a", "b", "ab", ".a", "c.tar"])
GLOBS = st.sampled_from(["*", "**", "a*", "?", "[ab]", "[!a]", ".*", "a", "*.tar", "??"])


@settings(deadline=None, max_examples=60)  # files are made
@given(st.sets(st.lists(PARTS, min_size=1, max_size=3).map(tuple), max_size=8), st.lists(GLOBS, min_size=1, max_size=4))
def test_patterns_fit_what_they_fit_in_python(paths: set[tuple[str, ...]], parts: list[str]) -> None:
    """Any pattern, any tree: the same names below the folder as those of the glob module."""
    pattern = Pattern(Path(), tuple(parts))
    with TemporaryDirectory() as root:
        for path in paths:
            Path(root, *path).mkdir(parents=True, exist_ok=True)
        there = {path.relative_to(root).parts for path in Path(root).rglob("*")}
        found = glob("/".join(parts), root_dir=root, recursive=True)  # noqa: PTH207 - Path.glob takes hidden names
        found = [path for path in found if Path(root, path).exists()]  # "a/**" names an "a" that is not there
        expected = {Path(path).parts for path in found} - {()}
    assert {path for path in there if pattern.matches(path)} == expected


@pytest.mark.usefixtures("here")
def test_a_file_that_is_called_as_a_pattern() -> None:
    """What is there is meant."""
    make("a[1].tar", "a1.tar", "*")
    assert told("a[1].tar") == ["a[1].tar"]
    assert told("*") == ["*"]
    assert told("a[[]*") == ["here/a[1].tar"]


@pytest.mark.usefixtures("here")
def test_addresses_are_left_as_they_are() -> None:
    """But what is told of them has no key in it."""
    (item,) = find_items(["https://me:secret@host/a.tar?token=secret"])
    assert item == BundleItem("https://me:secret@host/a.tar?token=secret", "https://host/a.tar")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["n/a", "n/b"], ["a", "b"]),
        (["n/a", "m/a"], ["n/a", "m/a"]),
        (["x/n/a", "y/n/a"], ["a", "a.2"]),
        (["x/a", "y/a", "x"], ["a", "y/a", "x"]),
        (["x/a", "y/a", "a.2", "x", "y"], ["a", "a.3", "a.2", "x", "y"]),
        (["n/a", "./n/a", "n/b/../a"], ["a", "a", "a"]),
        (["https://b/k?x=1", "https://b/k?x=2"], ["https://b/k", "https://b/k.2"]),
        (["s3://b/k?x=1", "s3://b/k?x=2"], ["s3://b/k?x=1", "s3://b/k?x=2"]),
        (["."], ["here"]),
        ([".."], ["up"]),
        (["/"], ["root"]),
    ],
)
def test_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], expected: list[str]) -> None:
    """Each once, and none is the beginning of another's path."""
    (tmp_path / "up" / "here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "up" / "here")
    assert distinct_labels(names) == expected


@given(st.lists(st.lists(st.sampled_from(["a", "b", "a.2", "a.3", "b.2"]), min_size=1, max_size=3), max_size=12))
def test_labels_are_never_alike(paths: list[list[str]]) -> None:
    """Neither they nor what may be found below them."""
    found = distinct_labels([*dict.fromkeys("/".join(["root", *parts]) for parts in paths)])
    assert len(set(found)) == len(found)
    assert not [(a, b) for a in found for b in found if b.startswith(f"{a}/")]


HOSTILE = st.binary(min_size=1, max_size=24).map(lambda raw: raw.replace(b"/", b"_").replace(b"\0", b"\\x00"))


def is_plain(name: bytes) -> bool:
    """Whether a folder of this name is listed, and does not make a host of the folder in which it lies."""
    return not name.startswith(b".") and os.fsdecode(name) not in FOLDER_MARKS


@settings(deadline=None)  # files are made
@given(st.sets(HOSTILE.filter(is_plain), min_size=1, max_size=12))
def test_any_name_is_found_and_told_in_print(names: set[bytes]) -> None:
    """Each file of a folder once, under a name of its own; deterministic in order."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch, "n")
        for name in names:
            (folder / os.fsdecode(name)).mkdir(parents=True)
            (folder / os.fsdecode(name) / "vmstat.txt").write_bytes(name)
        found = list(find_items([str(folder)]))
        assert found == list(find_items([str(folder)]))
    assert [os.fsencode(item.place.rpartition("/")[2]) for item in found] == sorted(names)
    assert len({item.label for item in found}) == len(found)
    assert all(item.label.isprintable() for item in found)


def test_ten_thousand_names(tmp_path: Path) -> None:
    """All of them, sorted."""
    for number in range(10_000):
        (tmp_path / f"{number:05}.tar").touch()
    expected = [f"{tmp_path.name}/{number:05}.tar" for number in range(10_000)]
    assert [item.label for item in find_items([str(tmp_path)])] == expected
