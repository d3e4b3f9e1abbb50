"""Copies that tar makes of /sys and /proc: files filled up with zeros, and files that are empty."""

from __future__ import annotations

import io
import tarfile
from itertools import chain
from pathlib import Path

import pytest

from thpdiag.bundle.member import without_padding
from thpdiag.host.options import Options
from thpdiag.host.reading import read_input
from thpdiag.model import Fact

PAGE = 4096


def tar_of(folder: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(folder / "host.tar", "w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return folder / "host.tar"


@pytest.mark.parametrize("root", ["sys/kernel/mm/transparent_hugepage/", "transparent_hugepage/", ""])
def test_files_filled_up_with_zeros_are_read(tmp_path: Path, root: str) -> None:
    """`tar czf thp.tgz /sys/kernel/mm/transparent_hugepage`, or of a folder in it."""
    path = tar_of(
        tmp_path,
        {
            f"{root}enabled": b"always [madvise] never\n".ljust(PAGE, b"\0"),
            f"{root}hugepages-64kB/enabled": b"[always] inherit madvise never\n".ljust(PAGE, b"\0"),
            f"{root}khugepaged/max_ptes_none": b"511\n".ljust(PAGE, b"\0"),
        },
    )
    readings = read_input([path], Options()).readings.values()
    facts = {one.record.name: one.record.value for one in chain(*readings) if isinstance(one.record, Fact)}
    assert facts["thp.enabled"] == "madvise"
    assert facts["thp.size.enabled"] == "always"
    assert facts["thp.khugepaged.max_ptes_none"] == 511


def test_empty_files_of_proc_are_named(tmp_path: Path) -> None:
    """tar copies as many bytes as a file is said to have, which is none."""
    path = tar_of(tmp_path, {"proc/meminfo": b"", "proc/mdstat": b""})
    problems = read_input([path], Options()).problems
    assert [(problem.cite.member, problem.text.split(",")[0]) for problem in problems] == [("proc/meminfo", "empty")]


def test_letters_in_utf16_are_no_padding() -> None:
    """Their last byte is a zero."""
    assert without_padding("ab\n".encode("utf-16-le")) == "ab\n".encode("utf-16-le")
    assert without_padding(b"511\n" + bytes(4092)) == b"511\n"
