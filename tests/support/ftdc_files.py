"""Files of MongoDB's diagnostic data (FTDC), written by the description in its src/mongo/db/ftdc/README.md."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

MASK = (1 << 64) - 1


def bson(document: Mapping[str, Any]) -> bytes:
    """A document of numbers (int: 64 bits), texts, bytes and further documents; a pair is a timestamp."""
    return _framed(b"".join(_field(name, value) for name, value in document.items()))


def _framed(fields: bytes) -> bytes:
    return struct.pack("<i", len(fields) + 5) + fields + b"\0"


def _field(name: str, value: object) -> bytes:
    key = name.encode() + b"\0"
    match value:
        case bool():
            return b"\x08" + key + bytes([value])
        case int() if name in ("_id", "start", "end", "localTime"):
            return b"\x09" + key + struct.pack("<q", value)
        case int() if name == "type":
            return b"\x10" + key + struct.pack("<i", value)
        case int():
            return b"\x12" + key + struct.pack("<q", value)
        case float():
            return b"\x01" + key + struct.pack("<d", value)
        case str():
            return b"\x02" + key + struct.pack("<i", len(value) + 1) + value.encode() + b"\0"
        case bytes():
            return b"\x05" + key + struct.pack("<i", len(value)) + b"\0" + value
        case tuple():
            return b"\x11" + key + struct.pack("<II", *value)
        case Mapping():
            return b"\x03" + key + bson(value)
    raise TypeError(name)


def numbers(document: Mapping[str, Any]) -> list[int]:
    """The numbers of a document that FTDC keeps, in their order."""
    found: list[int] = []
    for value in document.values():
        if isinstance(value, Mapping):
            found += numbers(value)
        elif isinstance(value, tuple):
            found += reversed(value)
        elif not isinstance(value, str | bytes):
            found.append(int(value))
    return found


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def chunk(samples: Sequence[Mapping[str, Any]]) -> bytes:
    """The document of type 1 that holds these samples."""
    rows = [numbers(sample) for sample in samples]
    deltas = [(b - a) & MASK for column in zip(*rows, strict=True) for a, b in pairwise(column)]
    packed, at = bytearray(), 0
    while at < len(deltas):
        packed += varint(deltas[at])
        zeros = 0
        while not deltas[at] and at + zeros + 1 < len(deltas) and not deltas[at + zeros + 1]:
            zeros += 1
        if not deltas[at]:
            packed += varint(zeros)
        at += 1 + zeros
    plain = bson(samples[0]) + struct.pack("<II", len(rows[0]), len(rows) - 1) + bytes(packed)
    data = struct.pack("<I", len(plain)) + zlib.compress(plain)
    return bson({"_id": samples[0]["start"], "type": 1, "data": data})


def metadata(host: str, version: str, kernel: str, start: int) -> bytes:
    """The document of type 0 that begins a file."""
    told = {
        "start": start,
        "buildInfo": {"start": start, "version": version, "end": start},
        "hostInfo": {"system": {"hostname": host, "numCores": 16}, "extra": {"kernelVersion": kernel}},
    }
    return bson({"_id": start, "type": 0, "doc": told})
