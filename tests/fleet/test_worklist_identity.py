"""By what a bundle is known again: the same content the same wherever it lies, other content never."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thpdiag.bundle.limits import GIB, MIB, Limits
from thpdiag.fleet.sources.item import UnreadError, identity


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small unpacked bundle."""
    root = tmp_path / "host"
    (root / "proc" / "1").mkdir(parents=True)
    (root / "proc" / "vmstat").write_text("thp_fault_alloc 1\n")
    (root / "proc" / "1" / "maps").write_bytes(b"")
    (root / "free").symlink_to("proc/vmstat")
    return root


@settings(deadline=None)  # files are made
@given(st.binary(max_size=3 * 1000))
def test_a_file_is_known_by_its_sha256(content: bytes) -> None:
    """As sha256sum says it."""
    with TemporaryDirectory() as scratch:
        file = Path(scratch, "a.tar")
        file.write_bytes(content)
        assert identity(file) == (hashlib.sha256(content).hexdigest(), len(content))


def test_a_large_file_is_read_whole(tmp_path: Path) -> None:
    """More than a piece, and a piece that is not full."""
    content = os.urandom(1 << 16) * 40 + b"end"
    (tmp_path / "a").write_bytes(content)
    assert identity(tmp_path / "a") == (hashlib.sha256(content).hexdigest(), len(content))


def test_a_copy_of_a_folder_is_the_same(folder: Path, tmp_path: Path) -> None:
    """Under any name, with other times and rights, with an empty folder more."""
    shutil.copytree(folder, tmp_path / "copy", symlinks=True, copy_function=shutil.copyfile)
    (tmp_path / "copy" / "proc" / "vmstat").chmod(0o600)
    (tmp_path / "copy" / "empty").mkdir()
    assert identity(tmp_path / "copy") == identity(folder)
    assert identity(folder).size == len("thp_fault_alloc 1\n")


CHANGES = {
    "a byte": lambda root: (root / "proc/vmstat").write_text("thp_fault_alloc 2\n"),
    "a byte more": lambda root: (root / "proc/vmstat").write_text("thp_fault_alloc 1\n\n"),
    "a name": lambda root: (root / "proc/vmstat").rename(root / "proc/vmstat2"),
    "a folder": lambda root: (root / "proc/1").rename(root / "proc/2"),
    "a file more": lambda root: (root / "proc/meminfo").touch(),
    "a file less": lambda root: (root / "proc/1/maps").unlink(),
    "a link's target": lambda root: ((root / "free").unlink(), (root / "free").symlink_to("proc/1/maps")),
    "a link that was a file": lambda root: ((root / "free").unlink(), (root / "free").write_text("proc/vmstat")),
    "two files changed places": lambda root: (
        (root / "proc/vmstat").rename(root / "x"),
        (root / "proc/1/maps").rename(root / "proc/vmstat"),
        (root / "x").rename(root / "proc/1/maps"),
    ),
    "a pipe more": lambda root: os.mkfifo(root / "pipe"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_any_change_makes_another_bundle(folder: Path, what: str) -> None:
    """Whatever the change."""
    before = identity(folder).sha256
    CHANGES[what](folder)
    assert identity(folder).sha256 != before


TREES = st.dictionaries(
    st.lists(st.sampled_from(["a", "b", "f 1", "\x1b", "é"]), min_size=1, max_size=3).map(lambda p: "/".join(p) + ".x"),
    st.binary(max_size=4),
    max_size=5,
)  # fmt: skip


@settings(deadline=None)  # files are made
@given(TREES, TREES)
def test_only_equal_trees_are_the_same(one: dict[str, bytes], other: dict[str, bytes]) -> None:
    """Neither names that run into contents nor folders deceive it."""
    found = []
    for tree in (one, other):
        with TemporaryDirectory() as root:
            for path, content in tree.items():
                Path(root, path).parent.mkdir(parents=True, exist_ok=True)
                Path(root, path).write_bytes(content)
            found.append(identity(Path(root)).sha256)
    assert (found[0] == found[1]) == (one == other)


def test_names_that_print_alike_are_not_the_same(tmp_path: Path) -> None:
    """The bytes of a name count, not how it is shown."""
    found = set()
    for number, name in enumerate((b"\xff", b"\\xff")):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / os.fsdecode(name)).touch()
        found.add(identity(tmp_path / str(number)).sha256)
    assert len(found) == 2


def test_traps_in_a_folder(folder: Path) -> None:
    """Circles of links, pipes, sockets and devices are listed and not opened; a link out of it is not followed."""
    (folder / "loop").symlink_to("loop")
    (folder / "up").symlink_to("..")
    (folder / "null").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(folder / "socket"))
    assert identity(folder).size == len("thp_fault_alloc 1\n")


@pytest.mark.parametrize("which", ["pipe", "link", "gone", "/dev/zero"])
def test_what_is_no_file_is_refused(tmp_path: Path, which: str) -> None:
    """At once: nothing hangs, nothing is read without end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a").touch()
    (tmp_path / "link").symlink_to("a")
    with pytest.raises(UnreadError, match=r"^(is not a regular file|cannot be read: .*)$"):
        identity(tmp_path / which)


def test_an_unreadable_file_of_a_folder_counts_by_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundle can be read without it, and is another one than with it."""
    whole, opening = identity(folder).sha256, os.open

    def shut(name: str, *rest: object, **more: object) -> int:
        if name == "vmstat":
            raise PermissionError(13, "Permission denied")
        return opening(name, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", shut)
    without = identity(folder).sha256
    (folder / "proc/vmstat").unlink()
    assert len({whole, without, identity(folder).sha256}) == 3


def test_a_file_that_grows_is_read_as_far_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is written to faster than it is read would never end."""
    file = tmp_path / "log"
    file.write_bytes(b"x" * 100)
    read = os.read

    def grown(opened: int, size: int) -> bytes:
        with file.open("ab") as writing:
            writing.write(b"y" * 100)
        return read(opened, size)

    monkeypatch.setattr(os, "read", grown)
    assert identity(file) == (hashlib.sha256(b"x" * 100).hexdigest(), 100)


def test_holes_cost_nothing_and_say_nothing(tmp_path: Path) -> None:
    """A folder with a file of 100 GB that holds a line; the same file with fewer zeros on the disk is the same."""
    (tmp_path / "host").mkdir()
    log = tmp_path / "host" / "lastlog"
    with log.open("wb") as file:
        file.truncate(100 * GIB)
        file.seek(50 * GIB + 4097)
        file.write(b"a line")
    before = identity(tmp_path / "host")
    assert before.size == 100 * GIB
    with log.open("r+b") as file:
        file.seek(3 * MIB)
        file.write(bytes(2 * MIB))
    assert identity(tmp_path / "host") == before
    with log.open("r+b") as file:
        file.seek(70 * GIB)
        file.write(b"!")
    assert identity(tmp_path / "host") != before


def test_where_data_lie_between_holes_counts(tmp_path: Path) -> None:
    """The same piece at another place of a file of the same size is another file."""
    found = set()
    for place in (0, 5 * MIB, 5 * MIB + 1):
        with (tmp_path / "a").open("wb") as file:
            file.truncate(9 * MIB)
            file.seek(place)
            file.write(b"x")
        found.add(identity(tmp_path).sha256)
    assert len(found) == 3


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(members=2), r"holds more than 2 files \(limit members\)"),
        (Limits(total_bytes=4), r"holds more than 0 GiB \(limit total_bytes\)"),
    ],
)
def test_limits_of_a_folder(folder: Path, limits: Limits, message: str) -> None:
    """They are named."""
    with pytest.raises(UnreadError, match=message):
        identity(folder, limits)


def test_a_file_above_the_limit_is_not_begun(tmp_path: Path) -> None:
    """Its size is known before."""
    with (tmp_path / "a").open("wb") as file:
        file.truncate(65 * GIB)
    with pytest.raises(UnreadError, match=r"holds more than 64 GiB \(limit total_bytes\)"):
        identity(tmp_path / "a")


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    """Said as the system says it."""
    with pytest.raises(UnreadError, match="cannot be read: No such file or directory"):
        identity(tmp_path / "gone")


def test_nothing_stays_open(folder: Path) -> None:
    """Also when a limit ends the walk in the middle."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    identity(folder)
    with pytest.raises(UnreadError):
        identity(folder, Limits(total_bytes=4))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
