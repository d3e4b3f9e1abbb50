"""Lists of bundles: one name per line, relative to the list, and a name that is not there costs its own line only."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thpdiag.errors import InputError
from thpdiag.fleet.sources.item import BundleItem
from thpdiag.fleet.sources.items import MAX_LINE_BYTES, Manifest, find_items


@pytest.fixture
def cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two bundles in a folder beside the one in which we stand, and one elsewhere."""
    for name in ("cases/a.tar", "cases/web/proc/vmstat", "far/c.tar", "here/d.tar"):
        (tmp_path / name).parent.mkdir(parents=True) if not (tmp_path / name).parent.exists() else None
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "cases"


def listed(folder: Path, content: bytes, name: str = "nightly.txt") -> dict[str, str]:
    """What a list leads to: names in results, each with what it is refused for."""
    (folder / name).write_bytes(content)
    return {item.label: item.refused for item in find_items([], lists=[str(folder / name)])}


def test_names_are_relative_to_the_list(cases: Path) -> None:
    """And told below the name of its folder; comments, blank lines, blanks, Windows' ends of lines do not matter."""
    content = b"\xef\xbb\xbf# of tonight\r\n\r\n  a.tar\t\r\n./web/\r\n   # indented\nweb/../a.tar"
    assert listed(cases, content) == {"cases/a.tar": "", "cases/web": ""}
    (_, web, _) = Manifest.open(str(cases / "nightly.txt")).items("cases")
    assert Path(web.place) == cases / "web"


def test_names_elsewhere_are_told_by_their_line(cases: Path) -> None:
    """Where they lie is not told, and two of the same name are two."""
    (cases.parent / "here" / "c.tar").touch()
    content = b"../far/c.tar\n%s\n%s\n." % (os.fsencode(cases.parent / "here/c.tar"), os.fsencode(cases / "a.tar"))
    assert list(listed(cases, content)) == [
        "cases/nightly.txt:1/c.tar",
        "cases/nightly.txt:2/c.tar",
        "cases/a.tar",
        "cases/nightly.txt",
        "cases/web",
    ]


def test_a_line_that_is_not_there_is_refused_and_the_others_are_read(cases: Path) -> None:
    """With the reason of each."""
    (cases / "empty").mkdir()
    os.mkfifo(cases / "pipe")
    content = (
        b"gone.tar\na.tar/b\nempty\npipe\nnul\0\n*.tar\n"
        + b"x" * 300
        + b"\n"
        + b"y" * (5 * MAX_LINE_BYTES)
        + b"\na.tar\n"
    )
    assert listed(cases, content) == {
        "cases/gone.tar": "does not exist",
        "cases/a.tar/b": "does not exist",
        "cases/empty": "holds no bundle",
        "cases/pipe": "is a named pipe (fifo)",
        "cases/nightly.txt:5/nul\\x00": "is not a file name",
        "cases/*.tar": "does not exist",
        "cases/" + "x" * 300: "cannot be read: File name too long",
        "cases/nightly.txt:8": f"is a line of more than {MAX_LINE_BYTES} bytes",
        "cases/a.tar": "",
    }


def test_standard_input_is_relative_to_the_current_folder(cases: Path) -> None:
    """Beside names of the command line, after them."""
    stdin = io.BytesIO(b"d.tar\n/gone\n")
    assert [(item.label, item.refused) for item in find_items([str(cases / "a.tar")], lists=["-"], stdin=stdin)] == [
        ("a.tar", ""),
        ("here/d.tar", ""),
        ("here/stdin:2/gone", "does not exist"),
    ]


@pytest.mark.usefixtures("cases")
def test_a_pipe_is_relative_to_the_current_folder() -> None:
    """What a shell makes of `<(find ...)` lies in a folder of the system."""
    read, write = os.pipe()
    os.write(write, b"d.tar\n")
    os.close(write)
    assert [item.label for item in find_items([], lists=[f"/dev/fd/{read}"])] == ["here/d.tar"]
    os.close(read)


def test_lists_of_one_folder_share_its_name(cases: Path) -> None:
    """The same bundle is told alike by both; their lines are told apart."""
    (cases / "one").write_text("a.tar\n../far/c.tar\n")
    (cases / "two").write_text("a.tar\n../far/c.tar\n")
    found = find_items([str(cases / "web")], lists=[str(cases / "one"), str(cases / "two")])
    assert [item.label for item in found] == [
        "web",
        "cases/a.tar",
        "cases/one:2/c.tar",
        "cases/a.tar",
        "cases/two:2/c.tar",
    ]


def test_addresses_in_a_list(cases: Path) -> None:
    """Without their keys, and apart where only what is left out tells them apart."""
    content = b"s3://b/k.tar\nhttps://me:pw@h/get?id=1\nhttps://me:pw@h/get?id=2\n"
    assert list(listed(cases, content)) == [
        "s3://b/k.tar",
        "https://h/get (cases/nightly.txt:2)",
        "https://h/get (cases/nightly.txt:3)",
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone.txt", "the list gone.txt cannot be read: No such file or directory"),
        ("cases", "the list cases cannot be read: Is a directory"),
        ("bad\n\0", "the list bad\\n\\x00 is not a file name"),
    ],
)
def test_a_list_that_is_not_there_is_said_before_anything_begins(cases: Path, name: str, message: str) -> None:
    """Though a good name stands before it."""
    with pytest.raises(InputError) as said:
        find_items([str(cases / "a.tar")], lists=[str(cases.parent / name)])
    assert str(said.value) == message


@pytest.mark.parametrize("mark", ["utf-16-le", "utf-16-be"])
def test_a_list_of_wide_characters(cases: Path, mark: str) -> None:
    """As a Windows shell writes it: said, not taken for one odd name."""
    with pytest.raises(InputError, match=r"the list nightly.txt is UTF-16; save it as UTF-8"):
        listed(cases, "\ufeffa.tar\n".encode(mark))


@settings(deadline=None)  # files are looked for
@given(st.lists(st.binary(max_size=12), max_size=8))
def test_any_list_gives_an_item_for_each_line_that_says_something(lines: list[bytes]) -> None:
    """Printable names, none for two different lines; a reason for each that cannot be read."""
    lines = [b"q" + line.replace(b"\n", b" ").replace(b"/", b"|") for line in lines]
    found = list(find_items([], lists=["-"], stdin=io.BytesIO(b"\n".join(lines))))
    assert len(found) == len(lines)
    assert all(item.refused and item.label.isprintable() for item in found)
    of_each = dict(zip([item.label for item in found], lines, strict=True))
    assert all(of_each[item.label].strip() == line.strip() for item, line in zip(found, lines, strict=True))


class Endless(io.RawIOBase):
    """So many lines, made as they are read."""

    def __init__(self, lines: int) -> None:
        self.lines: Iterator[bytes] = (b"bundle-%d.tar\n" % number for number in range(lines))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        line = next(self.lines, b"")
        buffer[: len(line)] = line
        return len(line)


def growth(lines: int) -> tuple[str, int, int]:
    """The first name of a list, how many names came after it, and the most memory that they took, in bytes."""
    found = find_items([], lists=["-"], stdin=io.BufferedReader(Endless(lines)))
    first: BundleItem = next(found)
    tracemalloc.start()
    count = sum(1 for _ in found)
    _, most = tracemalloc.get_traced_memory()
    return first.label.rpartition("/")[2], count, most


def test_a_long_list_takes_no_memory() -> None:
    """Nothing is kept of a line that was given. In a process of its own: the interpreter's table of names grows in
    steps, and by how much is a matter of what else has run."""
    program = "import test_worklist_manifest as own; print(*own.growth(4_000))"
    done = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parent, capture_output=True, text=True)
    first, count, most = done.stdout.split()
    assert (first, count) == ("bundle-0.tar", "3999")
    assert int(most) < 400_000, "kept items would be twice that"
