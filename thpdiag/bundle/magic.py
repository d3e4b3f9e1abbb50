"""File types by magic: archives, compressed and encrypted files, and formats that are not opened."""

from __future__ import annotations

import codecs
import re

from thpdiag.bundle.codecs import FIRST_BYTES, GZIP_MAGIC, XZ_MAGIC, ZSTD_MAGIC, codec_of
from thpdiag.bundle.member import NON_TEXT_BYTES, utf16_of
from thpdiag.bundle.tar_format import BLOCK, is_tar

SNIFF = 2 * BLOCK
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_ENCRYPTED_NAME = re.compile(r"\.(?:gpg|pgp|asc)$")
_TAR_NAME = re.compile(r"\.(?:tar|tgz|tbz2?|txz|tzst|tar\.\w{1,5})$", re.IGNORECASE)
_ZIP_OR_COMPRESSED_NAME = re.compile(r"\.(?:zip|gz|bz2|xz|zst)$", re.IGNORECASE)
# Members with these names are always examined: they may have members, or be damaged or encrypted archives.
ARCHIVE_NAMES = (
    ".tar", ".tgz", ".tbz", ".tbz2", ".txz", ".tzst", ".zip", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst",
    ".gpg", ".pgp", ".asc", ".7z", ".rar", ".cpio", ".lz4", ".lz", ".Z",
)  # fmt: skip
_FOREIGN = (
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"070701", "a cpio archive"),
    (b"\x04\x22\x4d\x18", "compressed by lz4"),
    (b"\x1f\x9d", "compressed by compress (.Z)"),
    (b"LZIP", "compressed by lzip"),
)
# OpenPGP packets (RFC 9580): a session key encrypted to a public key (version 3 or 6) or by a passphrase (4 to 6),
# with the version after a length of one, two or four bytes; or the text armour.
_PGP = re.compile(
    rb"(?s)-----BEGIN PGP MESSAGE-----|(?:\x84.|\x85..|\x86....)[\x03\x06]|(?:\x8c.|\x8d..)[\x04-\x06]"
    rb"|\xc1(?:[\x00-\xbf]|[\xc0-\xdf].|\xff....)[\x03\x06]|\xc3[\x00-\xbf][\x04-\x06]"
)


def is_zip(head: bytes) -> bool:
    return head.startswith(_ZIP)


def is_packed(head: bytes) -> bool:
    """Whether a file is an archive or compressed, so that it may have members."""
    return bool(codec_of(head)) or is_zip(head) or is_tar(head)


def may_be_packed(buffer: bytes, offset: int, size: int) -> bool:
    """Whether the content at `offset` (at least two blocks) may be packed; a cheap test with false positives."""
    return buffer[offset] in FIRST_BYTES or (size >= BLOCK and buffer[offset + 257 : offset + 262] == b"ustar")


def named_as_archive(path: str) -> bool:
    return bool(_TAR_NAME.search(path)) or path.lower().endswith(".zip")


def archive_defect(path: str, head: bytes, *, unpacked: bool) -> str:
    """Describe why a file is not an archive or compressed although its name or first bytes suggest that; else empty.

    `unpacked`: it is the content of a compressed file with that name, which may still be expected to be a tar archive.
    A text with such a name is valid.
    """
    named = bool(_TAR_NAME.search(path)) or (not unpacked and bool(_ZIP_OR_COMPRESSED_NAME.search(path)))
    if named and not head.strip(b"\0"):
        return f"has the name of an archive or a compressed file and {'holds only zeros' if head else 'is empty'}"
    if is_text(head):
        return ""
    if named:
        return "has the name of an archive or a compressed file, but not the first bytes of one"
    if any(_one_bit_away(head, magic, offset) for magic, offset in _FAMILIAR):
        return "starts like an archive or a compressed file with one bit changed"
    return ""


_FAMILIAR = (*((magic, 0) for magic in (GZIP_MAGIC, XZ_MAGIC, ZSTD_MAGIC, *_ZIP)), (b"ustar", 257))


def _one_bit_away(head: bytes, magic: bytes, offset: int) -> bool:
    part = head[offset : offset + len(magic)]
    return len(part) == len(magic) and (int.from_bytes(part) ^ int.from_bytes(magic)).bit_count() == 1


def is_text(head: bytes) -> bool:
    """Whether a file with this beginning may be a text, in UTF-16 or in UTF-8 without control characters."""
    if utf16_of(head):
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return len(head.translate(None, NON_TEXT_BYTES)) == len(head)


def is_encrypted(head: bytes) -> bool:
    """Whether the content is an OpenPGP message. The magic is short: call this only for expected archives."""
    return bool(_PGP.match(head))


def named_as_encrypted(path: str) -> bool:
    return bool(_ENCRYPTED_NAME.search(path))


def unsupported_format(head: bytes) -> str:
    """Return the name of an archive format that is not supported, or empty."""
    return next((name for magic, name in _FOREIGN if head.startswith(magic)), "")
