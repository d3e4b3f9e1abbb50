"""What a file is by its first bytes: an archive, compressed, encrypted, or of a kind that is not opened."""

from __future__ import annotations

import re

from thpdiag.bundle.codecs import FIRST_BYTES, codec_of
from thpdiag.bundle.tar_format import BLOCK, is_tar

SNIFF = 2 * BLOCK
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_ENCRYPTED_NAME = re.compile(r"\.(?:gpg|pgp|asc)$")
_PACKED_NAME = re.compile(r"\.(?:tar|tgz|tbz2?|txz|tzst|zip|tar\.\w{1,5})$", re.IGNORECASE)
# Names of what we do not open: the content must be looked at, since members may be hidden in it.
CLOSED_NAMES = (".gpg", ".pgp", ".asc", ".7z", ".rar", ".cpio", ".lz4", ".lz", ".Z")
_FOREIGN = (
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"070701", "a cpio archive"),
    (b"\x04\x22\x4d\x18", "compressed by lz4"),
    (b"\x1f\x9d", "compressed by compress (.Z)"),
    (b"LZIP", "compressed by lzip"),
)
# OpenPGP packets (RFC 9580): a session key encrypted to a public key (version 3 or 6) or by a passphrase (4 to 6),
# whose version stands behind a length of one, two or four bytes; or the text armour.
_PGP = re.compile(
    rb"(?s)-----BEGIN PGP MESSAGE-----|(?:\x84.|\x85..|\x86....)[\x03\x06]|(?:\x8c.|\x8d..)[\x04-\x06]"
    rb"|\xc1(?:[\x00-\xbf]|[\xc0-\xdf].|\xff....)[\x03\x06]|\xc3[\x00-\xbf][\x04-\x06]"
)


def is_zip(head: bytes) -> bool:
    return head.startswith(_ZIP)


def is_packed(head: bytes) -> bool:
    """Whether the file is an archive or compressed, so that members may be in it."""
    return bool(codec_of(head)) or is_zip(head) or is_tar(head)


def may_be_packed(buffer: bytes, at: int, size: int) -> bool:
    """A quick look at the content at `at` of the buffer (two blocks of it at least): False is sure, True is not."""
    return buffer[at] in FIRST_BYTES or (size >= BLOCK and buffer[at + 257 : at + 262] == b"ustar")


def named_as_archive(path: str) -> bool:
    return bool(_PACKED_NAME.search(path))


def is_encrypted(head: bytes) -> bool:
    """Whether the content is an OpenPGP message. Few bytes decide, so ask only for what should be an archive."""
    return bool(_PGP.match(head))


def named_as_encrypted(path: str) -> bool:
    return bool(_ENCRYPTED_NAME.search(path))


def unsupported_format(head: bytes) -> str:
    """The name of a kind of archive that we do not open, or empty."""
    return next((name for magic, name in _FOREIGN if head.startswith(magic)), "")
