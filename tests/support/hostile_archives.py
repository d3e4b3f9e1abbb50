"""Builds hostile archives for the tests of intake; none are stored in the repository.

Every case is a function that writes one archive to an open file. `CASES` has the expected answer of intake: part of the
text of one of its problems, or empty if the archive is harmless for a reader that extracts nothing.
"""

from __future__ import annotations

import bz2
import io
import lzma
import random
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO

import zstandard

from hostile_zips import zip_bomb, zip_methods, zip_of, zip_overlapping, zip_records, zip_special

USTAR = b"ustar\x0000"
END = bytes(1024)
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Hostile:
    """`says` must be in the text of a problem (empty: no problem needed); `limits` are scaled down with the archive.

    `full` is the count of the complete proof, `small` that of daily tests; `write` gets one of them. `wants` are
    prefixes of the wanted paths, by default all.
    """

    name: str
    write: Callable[[BinaryIO, int], None]
    says: str = ""
    small: int = 1
    full: int = 1
    limits: dict[str, int] = field(default_factory=dict)
    wants: str = ""


def header(name: bytes, size: int = 0, kind: bytes = b"0", link: bytes = b"", raw_size: bytes = b"") -> bytes:
    """Return a ustar header with a right checksum, whatever else is wrong. `raw_size` replaces 12 bytes of the size."""
    block = bytearray(512)
    block[: len(name)] = name[:100]
    block[100:136] = b"0000644\0" + b"0000000\0" * 2 + (raw_size or b"%011o\0" % size)
    block[136:148] = b"14600000000\0"
    block[156:157] = kind
    block[157 : 157 + len(link)] = link[:100]
    block[257:265] = USTAR
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + sum(block[156:]) + 256)
    return bytes(block)


def member(name: bytes, data: bytes = b"harmless\n", kind: bytes = b"0") -> bytes:
    return header(name, len(data), kind) + data + bytes(-len(data) % 512)


def pax(*records: tuple[bytes, bytes]) -> bytes:
    """Return an extended header with these records."""
    body = b""
    for key, value in records:
        length = len(key) + len(value) + 3
        length += len(str(length + len(str(length))))
        body += b"%d %s=%s\n" % (length, key, value)
    return member(b"pax", body, b"x")


def _tar(*parts: bytes) -> Callable[[BinaryIO, int], None]:
    """Return a tar of these parts, followed by an ordinary member that must be found."""
    return lambda out, _: _write(out, [*parts, member(b"proc/after", b"after\n"), END])


def _write(out: BinaryIO, parts: list[bytes]) -> None:
    for part in parts:
        out.write(part)


# Codecs: whole streams, so that a bomb is a small one many times over.

CODECS: dict[str, Callable[[bytes], bytes]] = {
    "gz": lambda data: zlib.compress(data, 9, 31),
    "bz2": bz2.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,  # as the zstd program does
}


def _bomb(codec: str, *, single: bool = False) -> Callable[[BinaryIO, int], None]:
    """Write `count` times 16 MiB of zeros as one member, in many streams or in one."""

    def write(out: BinaryIO, count: int) -> None:
        first = header(b"var/log/messages", count * 16 * MIB)
        if single:
            out.write(CODECS[codec](first + bytes(count * 16 * MIB)))
            return
        out.write(CODECS[codec](first))
        piece = CODECS[codec](bytes(16 * MIB))
        for _ in range(count):
            out.write(piece)

    return write


def _nested(depth: int, codec: str) -> Callable[[BinaryIO, int], None]:
    def write(out: BinaryIO, _: int) -> None:
        data = member(b"proc/vmstat", b"nr_free_pages 1\n") + END
        for level in range(depth):
            data = CODECS[codec](member(b"level%d.tar" % level, data) + END)
        out.write(data)

    return write


def _nested_bomb(out: BinaryIO, count: int) -> None:
    """Write a bomb in a bomb in a tar: every level multiplies."""
    inner = io.BytesIO()
    _bomb("bz2")(inner, count)
    packed = CODECS["bz2"](member(b"inner.tar.bz2", inner.getvalue()) + END)
    _write(out, [member(b"%d.tar.bz2" % number, packed) for number in range(4)])
    out.write(END)


def _chain(out: BinaryIO, count: int) -> None:
    data = b"text\n" * 100
    for _ in range(count):
        data = CODECS["gz"](data)
    out.write(data)


def _xz_dictionary(out: BinaryIO, _: int) -> None:
    """Write a block header that requires a dictionary of 4 GiB."""
    stream = b"\xfd7zXZ\0" + b"\x00\x04" + struct.pack("<I", zlib.crc32(b"\x00\x04"))
    block = b"\x02\x00\x21\x01\x28" + bytes(3)
    out.write(stream + block + struct.pack("<I", zlib.crc32(block)) + bytes(64))


def _xz_wide(out: BinaryIO, count: int) -> None:
    """Write two levels of xz that each fill a dictionary of `count` MiB."""
    noise = random.Random(1).randbytes(MIB)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": count * MIB}]
    inner = lzma.compress(noise + bytes((count + 2) * MIB) + noise, filters=filters)
    filled = member(b"a.xz", inner) + member(b"zeros", bytes((count + 2) * MIB)) + member(b"proc/after") + END
    out.write(lzma.compress(filled, filters=filters))


def _zst_window(out: BinaryIO, _: int) -> None:
    """Write a frame header that requires a window of 2 GiB."""
    out.write(b"\x28\xb5\x2f\xfd\x00" + bytes([(31 - 10) << 3]) + b"\x01\x00\x00")


# Headers


def _members(out: BinaryIO, count: int, data: bytes = b"x") -> None:
    packer = zlib.compressobj(1, wbits=31)
    for start in range(0, count, 10_000):
        out.write(
            packer.compress(b"".join(member(b"d/%d" % n, data) for n in range(start, min(start + 10_000, count))))
        )
    out.write(packer.compress(member(b"proc/after") + END) + packer.flush())


def _links(out: BinaryIO, count: int) -> None:
    packer = zlib.compressobj(1, wbits=31)
    for number in range(count):
        name, target = b"n/" + b"a" * 50 + b"/%d" % number, b"/" + b"b" * 60 + b"/%d" % (number % 7)
        out.write(packer.compress(header(name, 0, b"2", target)))
    out.write(packer.compress(member(b"proc/after", b"after\n") + END) + packer.flush())


def _long_link_names(out: BinaryIO, count: int) -> None:
    packer = zlib.compressobj(1, wbits=31)
    for number in range(count):
        name = b"%d/" % number + b"a/" * 2000
        out.write(packer.compress(member(b"././@LongLink", name, b"L") + header(b"a", 0, b"2", b"b")))
    out.write(packer.compress(END) + packer.flush())


def _long_names(out: BinaryIO, count: int) -> None:
    """Write names of 4 KB, and a directory link, so that each member is looked up by its aliases too."""
    packer = zlib.compressobj(1, wbits=31)
    out.write(packer.compress(header(b"d", 0, b"2", b"0")))
    for number in range(count):
        name = b"%d/" % number + b"a/" * 2000 + b"f"
        out.write(packer.compress(member(b"././@LongLink", name, b"L") + member(b"a", b"x")))
    out.write(packer.compress(END) + packer.flush())


def _link_web(out: BinaryIO, count: int) -> None:
    """Write directories that link to each other, so that infinitely many paths lead to a file."""
    parts = [header(b"%d/%d" % (a, b), 0, b"2", b"../%d" % b) for a in range(count) for b in range(count)]
    parts += [member(b"%d/x/proc/vmstat" % a) for a in range(count)]
    _write(out, [*parts, member(b"proc/after", b"after\n"), END])


def _extended(kind: bytes, size: int, count: int, *, announced: int = 0) -> Callable[[BinaryIO, int], None]:
    """Write `count` extended headers with a body of `size` bytes; `announced` is the size in the header."""

    def write(out: BinaryIO, _: int) -> None:
        packer = zlib.compressobj(1, wbits=31)
        for _number in range(count):
            out.write(packer.compress(header(b"long", announced or size, kind) + b"a" * size + bytes(-size % 512)))
        out.write(packer.compress(member(b"proc/after", b"after\n") + END) + packer.flush())

    return write


def _damaged_often(out: BinaryIO, count: int) -> None:
    bad = bytearray(header(b"bad"))
    bad[0] ^= 1
    _write(out, [member(b"first"), *[bytes(bad) + member(b"d/%d" % n) for n in range(count)], END])


def _sparse_old(out: BinaryIO, _: int) -> None:
    """Write one byte of data in a file of 1 TiB."""
    block = bytearray(header(b"var/log/lastlog", 1, b"S"))
    block[257:265] = b"ustar  \0"
    block[345:512] = bytes(167)
    block[386:410] = b"%011o\0%011o\0" % (1 << 32, 1)
    block[483:495] = b"\x80" + (1 << 40).to_bytes(11, "big")
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + sum(block[156:]) + 256)
    _write(out, [bytes(block), b"x" + bytes(511), member(b"proc/after", b"after\n"), END])


def _sparse_map(out: BinaryIO, count: int) -> None:
    """Write a map of 200,000 pieces in the body."""
    text = b"%d\n" % count + b"".join(b"%d\n0\n" % n for n in range(count))
    text += bytes(-len(text) % 512)
    keys = (
        (b"GNU.sparse.major", b"1"),
        (b"GNU.sparse.minor", b"0"),
        (b"GNU.sparse.name", b"s"),
        (b"GNU.sparse.realsize", b"9"),
    )
    _write(out, [pax(*keys), member(b"s", text), member(b"proc/after", b"after\n"), END])


def _long_line(out: BinaryIO, count: int) -> None:
    for _ in range(count):
        out.write(zlib.compress(b"A" * 16 * MIB, 9, 31))


_SMALL_RATIO = {"ratio_after": 32 * MIB}
_NEGATIVE = b"\xff" * 10 + b"\xfe\x00"

CASES: tuple[Hostile, ...] = (
    Hostile("dotdot", _tar(member(b"../../../escaped"), member(b"a/../../escaped")), "leaves the bundle"),
    Hostile("absolute", _tar(member(b"/tmp/escaped"), member(b"//escaped"))),
    Hostile(
        "link_then_write",
        _tar(header(b"d", 0, b"2", b"/"), member(b"d/escaped"), header(b"e", 0, b"2", b".."), member(b"e/x")),
    ),
    Hostile(
        "link_to_passwd", _tar(header(b"proc/vmstat", 0, b"2", b"/etc/passwd"), header(b"p", 0, b"1", b"/etc/passwd"))
    ),
    Hostile(
        "link_to_dev_zero",
        _tar(header(b"proc/vmstat", 0, b"2", b"/dev/zero"), header(b"q", 0, b"2", b"../../dev/zero")),
    ),
    Hostile("devices", _tar(*[header(b"dev/%d" % n, 0, b"%d" % (n % 2 * 3 + 3)) for n in range(50)]), "device or FIFO"),
    Hostile("fifo", _tar(header(b"fifo", 0, b"6")), "device or FIFO"),
    Hostile(
        "link_circle",
        _tar(header(b"a", 0, b"2", b"b"), header(b"b", 0, b"2", b"a"), header(b"c", 0, b"2", b"c")),
        "in a loop",
    ),
    Hostile("hard_link_to_itself", _tar(header(b"a", 0, b"1", b"a")), "in a loop"),
    Hostile("link_chain", _tar(*[header(b"l%d" % n, 0, b"2", b"l%d" % (n + 1)) for n in range(40)], member(b"l40"))),
    Hostile(
        "link_to_directory_above",
        _tar(header(b"a/b/c", 0, b"2", b".."), header(b"a/b/d", 0, b"2", b"."), member(b"a/b/f")),
    ),
    Hostile("link_web", _link_web, small=40, full=150),
    Hostile("links", _links, "limits links", small=15_000, full=300_000, limits={"links": 10_000}),
    Hostile("long_link_names", _long_link_names, "limits links", small=300, full=12_000, limits={"link_bytes": MIB}),
    Hostile("long_names", _long_names, "limit wanted", small=1_500, full=600_000, limits={"wanted": 1_000}),
    Hostile(
        "members", _members, "limit members", small=30_000, full=1_200_000, limits={"members": 20_000}, wants="proc/"
    ),
    Hostile("members_wanted", _members, "limit wanted", small=3_000, full=400_000, limits={"wanted": 2_000}),
    Hostile("members_empty", partial(_members, data=b""), "limit empty", small=3_000, full=400_000),
    Hostile("size_negative", _tar(header(b"neg", raw_size=_NEGATIVE), member(b"b")), "impossible size"),
    Hostile("size_minus", _tar(header(b"neg", raw_size=b"-0000000512\0"), member(b"b")), "impossible size"),
    Hostile("size_huge", _tar(header(b"huge", raw_size=b"\x80" + b"\xff" * 11)), "impossible size"),
    Hostile("size_exabyte", _tar(header(b"big", raw_size=b"\x80" + (1 << 60).to_bytes(11, "big"))), "missing"),
    Hostile("pax_size_negative", _tar(pax((b"size", b"-1536")), member(b"n"), member(b"b")), "impossible number"),
    Hostile(
        "pax_size_words", _tar(pax((b"size", b"1e9")), member(b"n"), pax((b"size", b"9" * 18)), member(b"b")), "number"
    ),
    Hostile(
        "pax_digits",
        _tar(member(b"pax", b"0" * 200_000, b"x"), member(b"pax", b"1" * 200_000, b"x")),
        "damaged extended header",
    ),
    Hostile(
        "pax_lengths",
        _tar(member(b"p", b"0 path=x\n", b"x"), member(b"p", b"99 path=x\n", b"x"), member(b"b")),
        "damaged ext",
    ),
    Hostile("pax_sparse_flood", _tar(*[pax(*[(b"GNU.sparse.offset", b"1")] * 9000)] * 30), "extended headers"),
    Hostile("pax_of_a_gigabyte", _extended(b"x", 4 * MIB, 1, announced=1 << 30), "limit metadata"),
    Hostile("pax_of_four_megabytes", _extended(b"x", 4 * MIB, 1), "limit metadata"),
    Hostile("long_name_of_a_gigabyte", _extended(b"L", 4 * MIB, 1, announced=1 << 30), "limit metadata"),
    Hostile("long_name_of_64_kilobytes", _extended(b"L", 65_536, 1), "limit name"),
    Hostile("long_link_of_four_megabytes", _extended(b"K", 4 * MIB, 1), "limit metadata"),
    Hostile("extended_chain", _extended(b"x", 0, 5_000), "extended headers"),
    Hostile("long_name_chain", _extended(b"L", 4_000, 5_000), "extended headers"),
    Hostile(
        "odd_names",
        _tar(*[member(n) for n in (b"a\nb", b"\x1b[31mred", b"\xff\xfe", b"\xe2\x80\xaereversed", b"\x7f", b" ")]),
    ),
    Hostile("no_name", _tar(member(b""), member(b"."), member(b"..")), "without a name"),
    Hostile(
        "directory_of_a_terabyte",
        _tar(header(b"d/", 1 << 30, b"5"), header(b"e", raw_size=b"\x80" + (1 << 40).to_bytes(11), kind=b"5")),
    ),
    Hostile("sparse_terabyte", _sparse_old, "limit hole_bytes"),
    Hostile("sparse_map", _sparse_map, "sparse map", small=200_000, full=200_000),
    Hostile(
        "sparse_map_wrong",
        _tar(pax((b"GNU.sparse.map", b"5,5,1,9"), (b"GNU.sparse.size", b"9")), member(b"s")),
        "out of order",
    ),
    Hostile("damaged_header", _tar(member(b"a"), b"\1" + member(b"bad")[1:], member(b"b")), "checksum"),
    Hostile("damaged_often", _damaged_often, "and similar ones", small=2_000, full=50_000),
    Hostile("zeros_in_the_middle", _tar(member(b"a"), bytes(4096), member(b"b")), "blocks of zeros"),
    Hostile("no_end_mark", lambda out, _: _write(out, [member(b"a"), member(b"b")]), "end mark"),
    Hostile("same_name", _tar(member(b"a", b"1"), member(b"a", b"2"), member(b"a", b"3")), "more than once"),
    Hostile("bomb_gz", _bomb("gz"), "limit ratio", small=4, full=400, limits=_SMALL_RATIO),
    Hostile("bomb_bz2", _bomb("bz2"), "limit ratio", small=4, full=400, limits=_SMALL_RATIO),
    Hostile("bomb_xz", _bomb("xz"), "limit ratio", small=4, full=400, limits=_SMALL_RATIO),
    Hostile("bomb_zst", _bomb("zst"), "limit ratio", small=4, full=400, limits=_SMALL_RATIO),
    Hostile("bomb_gz_single", _bomb("gz", single=True), "limit ratio", small=4, full=70, limits=_SMALL_RATIO),
    Hostile("bomb_bz2_single", _bomb("bz2", single=True), "limit ratio", small=4, full=70, limits=_SMALL_RATIO),
    Hostile("bomb_xz_single", _bomb("xz", single=True), "limit ratio", small=4, full=70, limits=_SMALL_RATIO),
    Hostile("bomb_zst_single", _bomb("zst", single=True), "limit ratio", small=4, full=70, limits=_SMALL_RATIO),
    Hostile("bomb_in_bombs", _nested_bomb, "limit ratio", small=3, full=100, limits=_SMALL_RATIO),
    Hostile("nested_six_times", _nested(6, "gz"), "limit nesting"),
    Hostile("codec_chain", _chain, "limit nesting", small=20, full=500),
    Hostile("dictionary_xz", _xz_dictionary, "limit codec_memory"),
    Hostile("dictionary_zst", _zst_window, "limit codec_memory"),
    Hostile("dictionaries_nested", _xz_wide, small=16, full=64),
    Hostile("zip_names", zip_of(zip_special), "leaves the bundle"),
    Hostile("zip_bomb", zip_bomb(zipfile.ZIP_DEFLATED), "limit ratio", small=4, full=100, limits=_SMALL_RATIO),
    Hostile("zip_bomb_bz2", zip_bomb(zipfile.ZIP_BZIP2), "limit ratio", small=4, full=100, limits=_SMALL_RATIO),
    Hostile("zip_overlapping", zip_overlapping, "limit ratio", small=20, full=1000, limits=_SMALL_RATIO),
    Hostile("zip_records", zip_records, "limit members", small=30_000, full=1_200_000),
    Hostile("zip_methods", zip_methods, "zip method 14"),
    Hostile("long_line", _long_line, "limit line", small=1, full=64),
)


def small_limits(case: Hostile) -> dict[str, int]:
    """Return the limits for the small counts."""
    return {"members": 20_000, **case.limits}


def whole_archives() -> Iterator[tuple[str, bytes]]:
    """Return each case at its small count, as bytes: seeds for mutation."""
    for case in CASES:
        out = io.BytesIO()
        if case.small == 1:
            case.write(out, 1)
            yield case.name, out.getvalue()
