"""Inputs that the tests make: archives whose bytes are always the same, broken and hostile ones among them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

BROKEN_RULE = """\
id: ACME-001
title: A rule of somebody else
status: stable
severity: medium
mechanism: fault-compaction
role: root_cause
checks:
  policy: {fact: thp.defrag, is: always}
when: polcy
means: Page faults may compact memory here, which is nothing bad by itself.
references: [none]
"""


class Interrupting(io.BytesIO):
    """Standard input at which the user presses Ctrl-C."""

    def read(self, *_: object) -> bytes:
        raise KeyboardInterrupt


class Failing(io.BytesIO):
    """Standard input that fails in a way that nothing expects."""

    def read(self, *_: object) -> bytes:
        raise ZeroDivisionError


def pack(folder: Path, path: Path) -> Path:
    """A plain tar of a folder, the same wherever it is made."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.mtime, entry.mode = 0, 0o755 if entry.isdir() else 0o644
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        return entry

    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        archive.add(folder, "bundle", filter=plain)
    return path


def pack_files(path: Path, files: dict[str, bytes]) -> Path:
    """A plain tar of files with these names, whatever they lead to."""
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def pack_deep(path: Path, content: bytes, depth: int) -> Path:
    """A tar in a tar in a tar."""
    name = "ticket.txt"
    for _ in range(depth):
        pack_files(path, {name: content})
        name, content = "inner.tar", path.read_bytes()
    return path


def cut(path: Path, share: float) -> Path:
    """A file that ends too early."""
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    return path


def noise(path: Path) -> Path:
    path.write_bytes(bytes(range(256)) * 64)
    return path


def prose(path: Path) -> Path:
    path.write_text("It was a dark and stormy night.\n" * 40)
    return path


def rule_folder(folder: Path, text: str = BROKEN_RULE) -> Path:
    """A folder with one rule of somebody else, which names a check that does not exist."""
    folder.mkdir(exist_ok=True)
    (folder / "acme.yaml").write_text(text)
    return folder
