"""A folder in all packings that a customer may send: archives, compressed, nested, in another order."""

from __future__ import annotations

import bz2
import io
import lzma
import random
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import zstandard

Files = Mapping[str, bytes]


def files(folder: Path) -> dict[str, bytes]:
    """Return paths and contents of a folder, sorted."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def tar(content: Files) -> bytes:
    """Return an uncompressed tar without times and users."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def gz(data: bytes) -> bytes:
    """Return gzip with its checksum."""
    packer = zlib.compressobj(6, wbits=31)
    return packer.compress(data) + packer.flush()


def xz(data: bytes) -> bytes:
    return lzma.compress(data, preset=1)


def zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def zipped(content: Files) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), data)
    return out.getvalue()


def nested(content: Files) -> bytes:
    """Return a tar that contains the archive of a host, as `sos collect` makes it, here without a suffix."""
    return tar({"host": xz(tar(content))})


def multi_stream(content: Files) -> bytes:
    """Return gzip in two members, as `cat a.gz b.gz` makes it."""
    whole = tar(content)
    return gz(whole[: len(whole) // 2]) + gz(whole[len(whole) // 2 :])


def shuffled(content: Files, seed: int) -> dict[str, bytes]:
    """Return the members in another order."""
    names = list(content)
    random.Random(seed).shuffle(names)
    return {name: content[name] for name in names}


PACKINGS: Mapping[str, Callable[[Files], bytes]] = {
    "tar": tar,
    "tar.gz": lambda content: gz(tar(content)),
    "tar.xz": lambda content: xz(tar(content)),
    "tar.bz2": lambda content: bz2.compress(tar(content)),
    "tar.zst": lambda content: zst(tar(content)),
    "zip": zipped,
    "two streams": multi_stream,
}
