"""What comes before a header to say what does not fit into it: PAX records, GNU long names.

A PAX record is `LENGTH KEY=VALUE\\n`, LENGTH counting itself. Only the keys that lead to content are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.bundle.header import BLOCK

HARMLESS = re.compile(rb"(?:[1-9]\d [acm]time=\d{1,12}(?:\.\d{1,12})?\n){1,3}\0*")  # what sos's tars are full of
_LENGTH = re.compile(rb"([1-9][0-9]{0,8}) ")
_DIGITS = re.compile(rb"[0-9]{1,19}")


class ExtendedHeaderError(ValueError):
    """A PAX header that does not follow its own lengths, or holds an impossible number."""


@dataclass(slots=True)
class Extended:
    """What the next ordinary header is to be understood with."""

    path: bytes | None = None
    link: bytes | None = None
    size: int | None = None
    sparse: dict[bytes, bytes] = field(default_factory=dict)
    sparse_map: list[int] = field(default_factory=list)  # of GNU.sparse.offset and .numbytes records (format 0.0)

    def read(self, kind: bytes, body: bytes) -> None:
        """Takes in the body of an extended header of type flag `kind`; raises ExtendedHeaderError.

        Global headers (`g`) speak of the archive (git writes a commit id there) and lead to no content.
        """
        if kind == b"L":
            self.path = body.partition(b"\0")[0]
        elif kind == b"K":
            self.link = body.partition(b"\0")[0]
        elif kind != b"g":
            for key, value in _records(body):
                self._add(key, value)

    def name(self, stored: bytes) -> bytes:
        """The name of the member whose header has the name `stored`."""
        return self.sparse.get(b"GNU.sparse.name", stored if self.path is None else self.path)

    def _add(self, key: bytes, value: bytes) -> None:
        if key == b"path":
            self.path = value
        elif key == b"linkpath":
            self.link = value
        elif key == b"size":
            self.size = decimal(value)
        elif key in {b"GNU.sparse.offset", b"GNU.sparse.numbytes"}:
            self.sparse_map.append(decimal(value))
        elif key.startswith(b"GNU.sparse."):
            self.sparse[key] = value


def decimal(value: bytes) -> int:
    if not _DIGITS.fullmatch(value):
        raise ExtendedHeaderError("extended header with an impossible number")
    return int(value)


def padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _records(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at < len(body) and body[at] != 0:
        match = _LENGTH.match(body, at)
        end = at + int(match[1]) if match else 0
        if match is None or end > len(body) or end <= match.end() or body[end - 1 : end] != b"\n":
            raise ExtendedHeaderError("damaged extended header")
        key, equals, value = body[match.end() : end - 1].partition(b"=")
        if not equals:
            raise ExtendedHeaderError("damaged extended header")
        yield key, value
        at = end
