"""`thpdiag serve` on a small disk of its own, which tests fill: a tmpfs visible only to the server process."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from serve_process import Running


@dataclass
class Confined(Running):
    size: str = ""

    @classmethod
    def on_a_small_disk(cls, folder: Path, size: str) -> Iterator[Self]:
        if os.geteuid() != 0 or not shutil.which("unshare"):
            pytest.skip("needs root and unshare for a small tmpfs of its own")
        folder.mkdir()
        trial = ["unshare", "-m", "mount", "-t", "tmpfs", "none", str(folder)]
        if subprocess.run(trial, capture_output=True, check=False).returncode:
            pytest.skip("no file system may be mounted here")
        server = cls(folder, ("--spare", "1 B"), size=size)
        with server.serving():
            yield server

    def command(self) -> list[str]:
        mount = shlex.join(["mount", "-t", "tmpfs", "-o", f"size={self.size}", "none", str(self.folder)])
        return ["unshare", "-m", "sh", "-c", f"{mount} && exec {shlex.join(super().command())}"]

    @property
    def device(self) -> str:
        """Return the device of the folder."""
        assert self.process
        mounts = Path(f"/proc/{self.process.pid}/mounts").read_text().splitlines()
        return next(line.split()[0] for line in mounts if line.split()[1] == str(self.folder))

    @property
    def disk(self) -> Path:
        """Return the folder as the server sees it."""
        assert self.process
        return Path(f"/proc/{self.process.pid}/root{self.folder}")

    def fill(self) -> None:
        """Fill the disk completely."""
        with (self.disk / "filler").open("ab", buffering=0) as file:
            for step in (1 << 20, 4096):
                with suppress(OSError):
                    while True:
                        file.write(bytes(step))

    def make_room(self) -> None:
        (self.disk / "filler").unlink()

    def files(self) -> set[str]:
        """Return the names of uploads and of bundles."""
        return {file.name for file in (*self.disk.glob("uploads/*"), *self.disk.glob("bundles/??/*"))}

    def until_written(self, uploads: int) -> None:
        """Poll until this many uploads have bytes."""
        while sum(file.stat().st_size > 0 for file in self.disk.glob("uploads/*")) < uploads:
            assert self.process
            assert self.process.poll() is None


class Failing(Confined):
    """On an ext4 of its own that becomes read-only when its disk fails."""

    def command(self) -> list[str]:
        image = shlex.quote(str(self.folder.with_suffix(".ext4")))
        make = f"truncate -s {self.size} {image} && mkfs.ext4 -q -e remount-ro {image}"
        mount = f"{make} && mount -o loop {image} {shlex.quote(str(self.folder))}"
        return ["unshare", "-m", "sh", "-c", f"{mount} && exec {shlex.join(Running.command(self))}"]

    def fail(self) -> None:
        """Behave as after an error that the file system finds on its disk."""
        (Path("/sys/fs/ext4") / Path(self.device).name / "trigger_fs_error").write_text("a test")
