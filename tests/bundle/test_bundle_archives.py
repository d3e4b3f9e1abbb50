"""Ordinary archives of every form give what libarchive gives: names, sizes, content."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import random
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import libarchive
import pytest

from hostile_archives import CODECS, END, header, member, pax
from thpdiag.bundle import Limits, Member, members
from thpdiag.model import Problem, ProblemKind

Content = dict[str, tuple[int, str]]
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def everything(path: str) -> bool:
    return True


def read(
    path: Path, wants: Callable[[str], object] = everything, **kwargs: object
) -> tuple[dict[str, bytes], list[Problem]]:
    """Content by path, and the problems of the intake and of the members."""
    found: dict[str, bytes] = {}
    problems: list[Problem] = []
    for one in members([path], wants, **kwargs):  # type: ignore[arg-type]
        if isinstance(one, Member):
            data = b"".join(one.chunks())
            assert one.sha256 == hashlib.sha256(data).hexdigest()
            found[one.path] = data
            problems += one.problems
        else:
            problems.append(one)
    return found, problems


def tree(chance: random.Random) -> Iterator[tuple[str, bytes]]:
    """Files as a bundle has them: empty, tiny, block-sized, large, deep, long names, other scripts."""
    for number, size in enumerate((0, 1, 511, 512, 513, 1024, 65_535, 65_536, 70_000, 300_000)):
        yield f"proc/{number}/maps", chance.randbytes(size)
    yield "version.txt", b"sosreport: 4.5\n"
    yield "a" * 99, b"name of 99 bytes"
    yield "b" * 100, b"name of 100 bytes"
    yield "c" * 101, b"name of 101 bytes"
    yield "/".join(["sys/devices/system/node/node0"] * 5), b"longer than a ustar name"
    yield "/".join(["d" * 60] * 20), b"longer than a ustar prefix"
    yield "var/log/messages-20240514", b"May 14 07:00:00 host0 kernel: x\n" * 20_000
    yield "srv/daten/\u00fcbersicht.txt", "gr\u00fc\u00df".encode()


def tar_of(files: list[tuple[str, bytes]], format_: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format_) as archive:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_715_670_000.5 if format_ == tarfile.PAX_FORMAT else 1_715_670_000
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def oracle(path: Path) -> Content:
    """What libarchive finds: size and hash by name."""
    found: Content = {}
    with libarchive.file_reader(str(path)) as archive:
        for entry in archive:
            if entry.isfile:
                data = b"".join(entry.get_blocks())
                found[entry.pathname.removeprefix("./")] = (len(data), hashlib.sha256(data).hexdigest())
    return found


def ours(path: Path) -> Content:
    found, problems = read(path)
    assert problems == []
    return {name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in found.items()}


@pytest.fixture(scope="module")
def files() -> list[tuple[str, bytes]]:
    return list(tree(random.Random(7)))


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("codec", ["", *CODECS])
def test_tar_reads_as_libarchive_reads_it(
    format_: str, codec: str, files: list[tuple[str, bytes]], tmp_path: Path
) -> None:
    """Every tar format in every compression gives libarchive's names, sizes and content."""
    if format_ == "ustar":
        files = [(name, data) for name, data in files if len(name) < 250 and not name.startswith("c")]
    path = tmp_path / "bundle"
    data = tar_of(files, FORMATS[format_])
    path.write_bytes(CODECS[codec](data) if codec else data)
    assert ours(path) == oracle(path)
    assert len(ours(path)) == len(files)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_zip_reads_as_libarchive_reads_it(method: int, files: list[tuple[str, bytes]], tmp_path: Path) -> None:
    """A zip gives libarchive's names, sizes and content, also where its sizes come after the data."""
    path = tmp_path / "bundle.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for number, (name, data) in enumerate(files):
            with archive.open(name, "w", force_zip64=number % 2 == 0) as entry:
                entry.write(data)
    assert ours(path) == oracle(path)


@pytest.mark.parametrize(
    "options", [["--format=gnu"], ["--format=pax"], ["--format=ustar"], ["--format=v7"], ["--format=oldgnu"]]
)
def test_gnu_tar_reads_as_libarchive_reads_it(options: list[str], tmp_path: Path) -> None:
    """GNU tar's own forms, with links, holes and a leading ./, give libarchive's names, sizes and content."""
    (tmp_path / "in" / "proc").mkdir(parents=True)
    (tmp_path / "in" / "proc" / "vmstat").write_bytes(b"nr_free_pages 1\n")
    (tmp_path / "in" / "hard").hardlink_to(tmp_path / "in" / "proc" / "vmstat")
    (tmp_path / "in" / "link").symlink_to("proc/vmstat")
    path = tmp_path / "bundle.tar"
    subprocess.run(["tar", "-C", tmp_path / "in", *options, "-cf", path, "."], check=True)
    # libarchive gives a hard link as an empty file; the content is under the other name.
    expected = {name: one for name, one in oracle(path).items() if one[0]}
    assert ours(path) == expected


@pytest.mark.parametrize("version", ["0.0", "0.1", "1.0", "old"])
def test_holes_of_sparse_members_are_zeros(version: str, tmp_path: Path) -> None:
    """The four sparse formats of GNU tar give the file with its holes."""
    source = tmp_path / "log"
    with source.open("wb") as out:
        for place in (100_000, 300_000, 900_000):
            out.seek(place)
            out.write(b"May 14 07:00:00 host0 kernel: x\n" * 200)
        out.truncate(1_000_000)
    options = ["--format=oldgnu"] if version == "old" else ["--format=pax", f"--sparse-version={version}"]
    path = tmp_path / "bundle.tar"
    subprocess.run(["tar", "-C", tmp_path, *options, "--hole-detection=raw", "-Scf", path, "log"], check=True)
    assert read(path) == ({"log": source.read_bytes()}, [])


@pytest.mark.parametrize("codec", CODECS)
def test_streams_one_after_another_are_one_file(codec: str, tmp_path: Path) -> None:
    """Several gzip members, xz or bzip2 streams or zstd frames are read to the end, with padding between them."""
    data = member(b"proc/vmstat", b"a" * 5000) + member(b"proc/meminfo", b"b" * 5000) + END
    path = tmp_path / "bundle"
    packed = [CODECS[codec](data[at : at + 1000]) for at in range(0, len(data), 1000)]
    path.write_bytes((bytes(8) if codec in {"gz", "xz"} else b"").join(packed))
    assert read(path) == ({"proc/vmstat": b"a" * 5000, "proc/meminfo": b"b" * 5000}, [])


def test_xz_of_several_blocks(tmp_path: Path) -> None:
    """A multi-block file as `xz -T2` writes it is read whole."""
    data = tar_of([("a", random.Random(3).randbytes(200_000))], tarfile.GNU_FORMAT)
    packed = subprocess.run(
        ["xz", "-T2", "--block-size=65536", "-c"], input=data, capture_output=True, check=True
    ).stdout
    (tmp_path / "bundle").write_bytes(packed)
    assert list(read(tmp_path / "bundle")[0]) == ["a"]


@pytest.mark.parametrize("codec", CODECS)
def test_single_compressed_file_keeps_its_name(codec: str, tmp_path: Path) -> None:
    """A compressed file that is no archive is one member under its own name, whatever nobody wants."""
    path = tmp_path / f"messages.{codec}"
    path.write_bytes(CODECS[codec](b"line 1\nline 2\n"))
    assert read(path, lambda _: False) == ({f"messages.{codec}": b"line 1\nline 2\n"}, [])


def test_archives_in_archives_join_their_paths(tmp_path: Path) -> None:
    """A zip with the tar of sos collect with a node's tar.xz with a compressed log gives one path to each file."""
    log = gzip.compress(b"kernel: x\n")
    node = lzma.compress(member(b"var/log/messages.gz", log) + member(b"proc/vmstat", b"x 1\n") + END)
    with zipfile.ZipFile(tmp_path / "case.zip", "w") as archive:
        archive.writestr("collect.tar", member(b"node1.tar.xz", node) + END)
    root = "collect.tar/node1.tar.xz/"
    expected = {f"{root}var/log/messages.gz": b"kernel: x\n", f"{root}proc/vmstat": b"x 1\n"}
    assert read(tmp_path / "case.zip") == (expected, [])


def test_archives_are_told_by_content_not_by_name(tmp_path: Path) -> None:
    """A tar.gz named .txt is opened, and a text named .tar.gz is a text, of which more may be lost."""
    (tmp_path / "a.txt").write_bytes(gzip.compress(member(b"proc/vmstat", b"x 1\n") + END))
    (tmp_path / "b.tar.gz").write_bytes(b"just text\n")
    content, (problem,) = read(tmp_path)
    assert content == {"a.txt/proc/vmstat": b"x 1\n", "b.tar.gz": b"just text\n"}
    assert (problem.kind, problem.cite.member, problem.hides) == (ProblemKind.DAMAGED, "b.tar.gz", True)


@pytest.mark.parametrize("pack", [lambda data: data, *CODECS.values()])
def test_standard_input_reads_like_a_file(pack: Callable[[bytes], bytes]) -> None:
    """`-` takes an archive from a stream that cannot be sought in."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    packed = Pipe(pack(member(b"proc/vmstat", b"x 1\n") + END))
    assert read(Path("-"), stdin=packed) == ({"proc/vmstat": b"x 1\n"}, [])


def test_zip_on_standard_input_is_held_in_memory_up_to_a_limit() -> None:
    """A zip from a stream is read while it is small; a larger one is a problem that names the limit."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("proc/vmstat", "x 1\n" * 1000)

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    assert list(read(Path("-"), stdin=Pipe(out.getvalue()))[0]) == ["proc/vmstat"]
    found, problems = read(Path("-"), stdin=Pipe(out.getvalue()), limits=Limits(held_bytes=1000))
    assert found == {}
    assert [(one.kind, one.hides_data, "held_bytes" in one.text) for one in problems] == [
        (ProblemKind.LIMIT, True, True)
    ]


def test_only_wanted_members_are_given(tmp_path: Path) -> None:
    """`wants` is asked once for every file and decides; what follows a large unwanted member is found."""
    asked: list[str] = []

    def wants(path: str) -> bool:
        asked.append(path)
        return path.endswith("vmstat")

    files = [("etc/a", b"x" * 200_000), ("proc/vmstat", b"x 1\n"), ("usr/b", b"y" * 700)]
    (tmp_path / "bundle.tar").write_bytes(tar_of(files, tarfile.GNU_FORMAT))
    assert read(tmp_path / "bundle.tar", wants) == ({"proc/vmstat": b"x 1\n"}, [])
    assert asked == ["etc/a", "proc/vmstat", "usr/b"]


def test_link_before_its_target_makes_the_target_wanted(tmp_path: Path) -> None:
    """As in sos: `free` at the root, a link whose target comes later, through a linked directory too."""
    with tarfile.open(tmp_path / "bundle.tar.xz", "w:xz") as archive:
        for name, target in (
            ("r/free", "sos_commands/memory/free"),
            ("r/proc", "/data/proc"),
            ("r/dangling", "nowhere"),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
        for name in ("r/data/proc/vmstat", "r/sos_commands/memory/free"):
            info = tarfile.TarInfo(name)
            info.size = 4
            archive.addfile(info, io.BytesIO(b"text"))
    wanted = {"r/free", "r/proc/vmstat", "r/dangling"}
    found = {
        one.path: one.aliases
        for one in members([tmp_path / "bundle.tar.xz"], wanted.__contains__)
        if isinstance(one, Member)
    }
    assert found == {"r/data/proc/vmstat": ("r/proc/vmstat",), "r/sos_commands/memory/free": ("r/free",)}


def test_link_behind_its_target_is_followed_by_a_second_reading(tmp_path: Path) -> None:
    """A hard link that follows what it names is wanted: a file is read again, a stream cannot be and that is said."""
    with tarfile.open(tmp_path / "bundle.tar", "w") as archive:
        info = tarfile.TarInfo("data")
        info.size = 4
        archive.addfile(info, io.BytesIO(b"text"))
        info = tarfile.TarInfo("proc/vmstat")
        info.type, info.linkname = tarfile.LNKTYPE, "data"
        archive.addfile(info)

    def wants(path: str) -> bool:
        return path == "proc/vmstat"

    assert read(tmp_path / "bundle.tar", wants) == ({"data": b"text"}, [])
    found, problems = read(Path("-"), wants, stdin=io.BytesIO((tmp_path / "bundle.tar").read_bytes()))
    assert found == {}
    assert [one.cite.member for one in problems] == ["data"]
    assert problems[0].hides_data


def test_late_link_in_an_archive_in_a_directory_is_followed_too(tmp_path: Path) -> None:
    """The second reading reaches into archives that lie in a directory."""
    (tmp_path / "b.tar").write_bytes(member(b"data", b"text") + header(b"free", 0, b"1", b"data") + END)
    (tmp_path / "other").write_bytes(b"x")
    assert read(tmp_path, lambda path: path == "b.tar/free") == ({"b.tar/data": b"text"}, [])


def test_names_of_a_zip_from_windows_have_slashes(tmp_path: Path) -> None:
    """Some Windows packers write backslashes; a reader looks for `proc/vmstat`."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo("proc_vmstat")
        info.create_system = 0
        archive.writestr(info, "x 1\n")
    (tmp_path / "w.zip").write_bytes(out.getvalue().replace(b"proc_vmstat", b"proc\\vmstat"))
    assert read(tmp_path / "w.zip") == ({"proc/vmstat": b"x 1\n"}, [])


def test_encrypted_and_foreign_archives_are_named(tmp_path: Path) -> None:
    """GnuPG, 7-Zip and RAR files give a clear problem and no member."""
    for name, data, word in (
        ("secured-sosreport.tar.xz.gpg", b"\x85\x02\x0c\x03" + bytes(600), "GnuPG"),
        ("passphrase.gpg", b"\x8c\x0d\x04\x09\x03" + bytes(600), "GnuPG"),
        ("armour.asc", b"-----BEGIN PGP MESSAGE-----\n\nhQIM\n", "GnuPG"),
        ("x.7z", b"7z\xbc\xaf\x27\x1c" + bytes(600), "7-Zip"),
        ("x.rar", b"Rar!\x1a\x07\x01\x00" + bytes(600), "RAR"),
    ):
        (tmp_path / name).write_bytes(data)
        found, problems = read(tmp_path / name)
        assert found == {}
        assert [(one.kind, one.cite.member) for one in problems] == [(ProblemKind.UNREADABLE, name)]
        assert word in problems[0].text


def test_encrypted_archive_in_an_archive_is_named_although_nobody_wants_it(tmp_path: Path) -> None:
    """What lies in an encrypted member is hidden, so it is said."""
    (tmp_path / "b.tar").write_bytes(
        member(b"n/sos.tar.xz.gpg", b"\x85\x02\x0c\x03" + bytes(600)) + member(b"key.gpg", b"\x99\x01") + END
    )
    found, problems = read(tmp_path / "b.tar", lambda _: False)
    assert (found, [one.cite.member for one in problems]) == ({}, ["n/sos.tar.xz.gpg"])


def test_concatenated_tars_are_read_on(tmp_path: Path) -> None:
    """Members behind the end mark (`cat a.tar b.tar`) are read, and the gap is reported."""
    (tmp_path / "ab.tar").write_bytes(member(b"a") + END + member(b"b") + END)
    found, problems = read(tmp_path / "ab.tar")
    assert list(found) == ["a", "b"]
    assert ["zeros" in one.text for one in problems] == [True]


def test_limit_of_one_member_is_a_problem_of_that_member(tmp_path: Path) -> None:
    """A member over `member_bytes` is cut, with a problem at the member; the next one is read."""
    (tmp_path / "b.tar").write_bytes(member(b"log", b"x" * 10_000) + member(b"next") + END)
    found, problems = read(tmp_path / "b.tar", limits=Limits(member_bytes=1000))
    assert (len(found["log"]), found["next"]) == (1000, b"harmless\n")
    assert [(one.cite.member, one.kind) for one in problems] == [("log", ProblemKind.LIMIT)]


def test_time_limit_ends_the_walk_with_a_problem(tmp_path: Path) -> None:
    """When the CPU limit is passed the reading ends and says so."""
    (tmp_path / "b.tar").write_bytes(member(b"log", b"x" * 10_000) + END)
    found, problems = read(tmp_path / "b.tar", limits=Limits(cpu_seconds=-1.0))
    assert b"".join(found.values()) == b""
    assert any("cpu_seconds" in one.text and one.hides_data for one in problems)


def test_pax_path_and_size_hold_for_the_next_member_alone(tmp_path: Path) -> None:
    """An extended header renames one member and no other."""
    (tmp_path / "b.tar").write_bytes(
        pax((b"path", b"real/name")) + member(b"short", b"1") + member(b"other", b"2") + END
    )
    assert read(tmp_path / "b.tar") == ({"real/name": b"1", "other": b"2"}, [])
