"""Hostile zip archives, for tests/support/hostile_archives.py."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import BinaryIO

MIB = 1 << 20


def zip_of(fill: Callable[[zipfile.ZipFile], None]) -> Callable[[BinaryIO, int], None]:
    def write(out: BinaryIO, _: int) -> None:
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            fill(archive)
            archive.writestr("proc/after", "after\n")

    return write


def zip_special(archive: zipfile.ZipFile) -> None:
    for name, mode, text in (
        ("../../escaped", 0o100644, "x"),
        ("/escaped", 0o100644, "x"),
        ("link", 0o120777, "/etc/passwd"),
        ("link/escaped", 0o100644, "x"),
        ("fifo", 0o010644, ""),
        ("dev", 0o060644, ""),
    ):
        info = zipfile.ZipInfo(name)
        info.create_system, info.external_attr = 3, mode << 16
        archive.writestr(info, text)


def zip_bomb(method: int) -> Callable[[BinaryIO, int], None]:
    def write(out: BinaryIO, count: int) -> None:
        with (
            zipfile.ZipFile(out, "w", method) as archive,
            archive.open("var/log/messages", "w", force_zip64=True) as entry,
        ):
            for _ in range(count):
                entry.write(bytes(16 * MIB))

    return write


def zip_overlapping(out: BinaryIO, count: int) -> None:
    """Write `count` records on one body: each unpacks the same bytes again."""
    data = bytes(4 * MIB)
    body = zlib.compress(data, 9)[2:-4]
    crc = zlib.crc32(data)
    local = struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 8, 0, 33, crc, len(body), len(data), 4, 0) + b"same"
    out.write(local + body)
    records = [_record(b"same", 8, crc, len(body), len(data)) for _ in range(count)]
    _zip_end(out, records, len(local) + len(body))


def zip_records(out: BinaryIO, count: int) -> None:
    local = struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 0, 0, 33, 0, 0, 0, 1, 0) + b"a"
    out.write(local)
    _zip_end(out, [_record(b"%07d" % number, 0, 0, 0, 0) for number in range(count)], len(local))


def zip_methods(out: BinaryIO, _: int) -> None:
    """Write an unsupported method, an encrypted entry, and an offset outside the file."""
    local = struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 14, 0, 33, 0, 4, 4, 1, 0) + b"aabcd"
    out.write(local)
    odd = [
        _record(b"lzma", 14, 0, 4, 4),
        _record(b"crypt", 0, 0, 4, 4, flags=1),
        _record(b"far", 0, 0, 4, 4, offset=1 << 31),
    ]
    _zip_end(out, odd, len(local))


def _record(name: bytes, method: int, crc: int, packed: int, size: int, flags: int = 0, offset: int = 0) -> bytes:
    fixed = (0x314, 20, flags, method, 0, 33, crc, packed, size, len(name), 0, 0, 0, 0, 0o100644 << 16, offset)
    return struct.pack("<4s6H3L5H2L", b"PK\x01\x02", *fixed) + name


def _zip_end(out: BinaryIO, records: list[bytes], offset: int) -> None:
    size = sum(map(len, records))
    out.write(b"".join(records))
    out.write(
        struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, len(records) & 0xFFFF, len(records) & 0xFFFF, size, offset, 0)
    )
