"""Directories: nothing outside is read through a link, nothing hangs, what cannot be read is said."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from thpdiag.bundle import Limits, Member, members
from thpdiag.model import Problem, ProblemKind

SCANDIR = os.scandir
Answer = tuple[dict[str, bytes], list[Problem]]


def everything(path: str) -> bool:
    return True


def read(path: Path, limits: Limits | None = None) -> Answer:
    found: dict[str, bytes] = {}
    problems: list[Problem] = []
    for one in members([path], everything, limits or Limits()):
        if isinstance(one, Member):
            found[one.path] = b"".join(one.chunks())
            problems += one.problems
        else:
            problems.append(one)
    return found, problems


@pytest.fixture
def bundle(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "bundle"
    (root / "proc").mkdir(parents=True)
    (root / "proc" / "vmstat").write_bytes(b"nr_free_pages 1\n")
    (tmp_path / "outside").write_bytes(b"canary\n")
    return root


def test_files_come_sorted_with_paths_from_the_root(bundle: Path) -> None:
    """Names are relative to the directory the user gave, in an order that does not depend on the file system."""
    for name in ("b", "a", "proc/meminfo"):
        (bundle / name).write_bytes(b"")
    assert list(read(bundle)[0]) == ["a", "b", "proc/meminfo", "proc/vmstat"]


def test_links_out_of_the_bundle_lead_nowhere(bundle: Path) -> None:
    """Absolute, climbing and hidden links never give a byte of the analyst's host."""
    (bundle / "abs").symlink_to("/etc/passwd")
    (bundle / "up").symlink_to("../outside")
    (bundle / "far").symlink_to("../../../../../../../../etc/passwd")
    (bundle / "dir").symlink_to("/etc")
    (bundle / "zero").symlink_to("/dev/zero")
    assert read(bundle) == ({"proc/vmstat": b"nr_free_pages 1\n"}, [])


def test_absolute_link_means_the_root_of_the_bundle(bundle: Path) -> None:
    """`/proc/vmstat` in a copied tree is the bundle's file; whoever wants the link gets its target."""
    (bundle / "etc").mkdir()
    (bundle / "etc" / "counters").symlink_to("/proc/vmstat")
    found = [one for one in members([bundle], lambda path: path == "etc/counters") if isinstance(one, Member)]
    assert [(one.path, one.aliases) for one in found] == [("proc/vmstat", ("etc/counters",))]


def test_link_loops_end(bundle: Path) -> None:
    """Links in a circle are flagged, links to a directory above give no endless tree."""
    (bundle / "a").symlink_to("b")
    (bundle / "b").symlink_to("a")
    (bundle / "proc" / "self").symlink_to(".")
    (bundle / "proc" / "root").symlink_to("..")
    found, problems = read(bundle)
    assert list(found) == ["proc/vmstat"]
    assert [("in a loop" in one.text, one.hides_data) for one in problems] == [(True, False)]


def test_fifo_and_socket_are_refused_without_being_opened(bundle: Path) -> None:
    """A FIFO would hang the reader for ever."""
    os.mkfifo(bundle / "trace_pipe")
    os.mkfifo(bundle / "proc" / "kmsg")
    found, problems = read(bundle)
    assert list(found) == ["proc/vmstat"]
    assert [(one.kind, one.count) for one in problems] == [(ProblemKind.REFUSED, 2)]


class Listing:
    """A directory as it is, with names that it says are regular files, which they are not or no longer."""

    def __init__(self, folder: int, wrong: dict[str, bool]) -> None:
        with SCANDIR(folder) as entries:
            self.names = {entry.name: entry.is_file(follow_symlinks=False) for entry in entries} | wrong

    def __enter__(self) -> list[os.DirEntry[str]]:
        return [cast("os.DirEntry[str]", Listed(name, regular)) for name, regular in self.names.items()]

    def __exit__(self, *_: object) -> None:
        pass


@dataclass(frozen=True)
class Listed:
    """An entry of such a directory."""

    name: str
    regular: bool

    def is_symlink(self) -> bool:
        return False

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        return not self.regular and not follow_symlinks

    def is_file(self, *, follow_symlinks: bool) -> bool:
        return self.regular and not follow_symlinks


def test_unreadable_file_is_a_problem(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wanted file without permission is said; the others are read."""
    (bundle / "secret").write_bytes(b"x")
    true_open = os.open

    def refusing(name: str, flags: int, *args: int, **kwargs: int) -> int:
        if name == "secret":
            raise PermissionError(13, "Permission denied")
        return true_open(name, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", refusing)
    found, problems = read(bundle)
    assert list(found) == ["proc/vmstat"]
    assert [(one.cite.member, one.kind, one.hides_data) for one in problems] == [
        ("secret", ProblemKind.UNREADABLE, True)
    ]
    assert "Permission denied" in problems[0].text


def test_unreadable_directory_is_a_problem_that_hides(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies in a directory that cannot be listed is unknown."""
    true_open = os.open

    def refusing(name: str, flags: int, *args: int, **kwargs: int) -> int:
        if name == "proc":
            raise PermissionError(13, "Permission denied")
        return true_open(name, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", refusing)
    found, problems = read(bundle)
    assert found == {}
    assert [(one.cite.member, one.hides_data) for one in problems] == [("proc", True)]


def test_file_that_vanishes_is_a_problem(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file listed and then gone is said."""
    monkeypatch.setattr(os, "scandir", lambda folder: Listing(folder, {"gone": True}))
    found, problems = read(bundle)
    assert list(found) == ["proc/vmstat"]
    assert {(one.cite.member, one.kind) for one in problems} == {
        ("gone", ProblemKind.UNREADABLE),
        ("proc/gone", ProblemKind.UNREADABLE),
    }


def test_file_that_becomes_a_link_is_not_followed(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between listing and opening nobody can slip in a link."""
    (bundle / "x").symlink_to("/etc/passwd")
    monkeypatch.setattr(os, "scandir", lambda folder: Listing(folder, {"x": True}))
    found, problems = read(bundle)
    assert list(found) == ["proc/vmstat"]
    assert [one.cite.member for one in problems] == ["proc/x", "x"]  # none of that name is in proc


def test_growing_file_is_read_up_to_its_size_at_the_start(bundle: Path) -> None:
    """A log that is still written to ends where it ended when it was opened, with a note."""
    log = bundle / "log"
    log.write_bytes(b"x" * 200_000)
    walk = members([bundle], lambda path: path == "log")
    member = next(walk)
    assert isinstance(member, Member)
    chunks = member.chunks()
    given = len(next(chunks))
    with log.open("ab") as out:
        out.write(b"y" * 1000)
    given += sum(map(len, chunks))
    assert given == 200_000
    assert ["grew" in one.text for one in member.problems] == [True]


def test_shrinking_file_is_reported(bundle: Path) -> None:
    """A file cut while it is read says how much is missing."""
    log = bundle / "log"
    log.write_bytes(b"x" * 200_000)
    walk = members([bundle], lambda path: path == "log")
    member = next(walk)
    assert isinstance(member, Member)
    chunks = member.chunks()
    next(chunks)
    os.truncate(log, 100_000)
    for _ in chunks:
        pass
    assert [(one.kind, "100000 bytes are missing" in one.text) for one in member.problems] == [
        (ProblemKind.DAMAGED, True)
    ]


def test_odd_names_are_printable(bundle: Path) -> None:
    """Control characters, bad UTF-8 and bidi marks in names are made visible."""
    for name in (b"a\nb", b"\x1b[31mred", b"\xff\xfe", "\u202egpj".encode()):
        (Path(os.fsdecode(os.fsencode(bundle) + b"/" + name))).write_bytes(b"")
    names = list(read(bundle)[0])
    assert all(name.isprintable() for name in names)
    assert {"a\\nb", "\\x1b[31mred", "\\xff\\xfe", "\\u202egpj"} <= set(names)


def test_deep_directories_end_at_the_limit(tmp_path: Path) -> None:
    """A tree deeper than the limit is cut with a problem that names it, not by a recursion error."""
    (tmp_path / "/".join(["d"] * 20)).mkdir(parents=True)
    problems = read(tmp_path, Limits(directory_depth=10))[1]
    assert [("directory_depth" in one.text, one.hides_data) for one in problems] == [(True, True)]


def test_member_limit_holds_for_directories(bundle: Path) -> None:
    """More files than the limit end with a problem."""
    for number in range(20):
        (bundle / f"{number:02}").write_bytes(b"")
    found, problems = read(bundle, Limits(members=10))
    assert len(found) == 10
    assert ["limit members" in one.text for one in problems] == [True]


def test_device_given_by_the_user_is_refused() -> None:
    """`analyze /dev/zero` is a sentence, not an endless reading."""
    found, problems = read(Path("/dev/zero"))
    assert found == {}
    assert [(one.kind, one.cite.member) for one in problems] == [(ProblemKind.REFUSED, "zero")]


def test_missing_input_is_a_problem(tmp_path: Path) -> None:
    """A path that does not exist is said by its own name, without the analyst's directories."""
    problems = read(tmp_path / "nothing")[1]
    assert [(one.kind, one.cite.member) for one in problems] == [(ProblemKind.UNREADABLE, "nothing")]
    assert str(tmp_path) not in problems[0].text


def test_empty_directory_and_empty_file(tmp_path: Path) -> None:
    """Nothing in them is nothing found, without an error."""
    assert read(tmp_path) == ({}, [])
    (tmp_path / "empty").touch()
    assert read(tmp_path / "empty") == ({"empty": b""}, [])


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_nothing_is_left_open(bundle: Path) -> None:
    """Descriptors are closed again, also when the reading stops half way."""
    before = open_descriptors()
    list(members([bundle], everything))
    walk = members([bundle], everything)
    next(walk)
    walk.close()  # type: ignore[attr-defined]
    assert open_descriptors() == before
