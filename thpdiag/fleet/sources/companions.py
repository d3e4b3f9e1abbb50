"""What a name says of a file: that it is an archive, or that it belongs to another file beside it and is no bundle.

- checksums and signatures belong to their archive, and lists of them to all archives of the folder, as do the README,
  the licence, the list of a web server (`index.html`) and `version.txt`, the number of a build;
- `NAME.tar.bz2` belongs to the file `NAME` if that is called as a recording is (`perf.data`, `web1.data`, `web1.perf`):
  `perf archive` makes it, with the programs of the recording. Beside any other `NAME` it is a bundle by itself;
- `kallsyms` and `System.map` have the kernel's functions for a recording beside them;
- an archive of Performance Co-Pilot is `NAME.0`, `NAME.1` ..., `NAME.meta` and `NAME.index`, packed or not: the first
  stands for all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Final

from thpdiag.bundle.magic import named_as_archive

_SUM: Final = re.compile(r"\.(?:md5|sha1|sha224|sha256|sha384|sha512|b2|asc|sig|sign|minisig)(?:sums?)?$", re.I)
_SUMS: Final = re.compile(r"(?:md5|sha\d+|b2)[-_]?sums?(?:\.(?:txt|asc|sig|gpg))?|checksums?(?:\.txt)?", re.I)
_NOTES: Final = re.compile(r"(?:read[-_.]?me|licen[cs]e|index)(?:\.(?:txt|md|rst|html?))?", re.I)
_NUMBER: Final = "version.txt"  # where it is the mark of a host, the folder is one bundle and nobody asks for more
_CLOSED: Final = re.compile(r"\.(?:gpg|pgp|asc)$", re.I)
_UNREAD: Final = re.compile(r"\.(?:7z|rar|cpio)$", re.I)
_SUFFIXES: Final = ("", ".gz", ".bz2", ".xz", ".zst", ".lzma")
_PACKED: Final = r"(?:\.(?:gz|bz2|xz|zst|lzma))?"
_OF_PERF: Final = re.compile(r"(.+)\.(?:tar(?:\.(?:gz|bz2|xz|zst))?|tgz|tbz2?|txz)", re.S)
_RECORDING: Final = re.compile(r"(?:.*[._-])?perf\.data(?:[._-].*)?|.+\.data(?:\.(?:old|\d+))?|.+\.perf", re.S | re.I)
_SYMBOLS: Final = re.compile(rf"(?:(?:proc[._-])?kallsyms(?:[.-][\w.+~-]*)?|System\.map(?:-[^/]*)?){_PACKED}")
_OF_PCP: Final = re.compile(rf"(.+)\.(?:meta|index|[1-9]\d{{0,4}}){_PACKED}", re.S)


def is_archive(name: str) -> bool:
    """Whether the name is that of an archive, be it one that cannot be read: encrypted, or of a kind not opened."""
    if _SUM.search(name) and not _CLOSED.search(name):
        return False
    return named_as_archive(_CLOSED.sub("", name)) or bool(_UNREAD.search(name))


def is_checksum(name: str, files: Collection[str]) -> bool:
    """Whether a name is that of the checksum or signature of an archive among these files."""
    stem, found = _SUM.subn("", name)
    return bool(found) and stem in files and is_archive(stem)


def is_list_of_checksums(name: str) -> bool:
    """Whether a name is as that of SHA256SUMS."""
    return bool(_SUMS.fullmatch(name))


def is_for_readers(name: str) -> bool:
    """Whether a name is that of a README, a licence or a web server's list: what stands beside bundles for people."""
    return bool(_NOTES.fullmatch(name))


def is_recording(name: str) -> bool:
    """Whether a name, or the last part of a path, is one that people give to what perf recorded."""
    return bool(_RECORDING.fullmatch(name.rpartition("/")[2])) and not is_archive(name)


def is_of_recording(name: str, files: Collection[str]) -> bool:
    """Whether a name is that of what `perf archive` makes of a file among these."""
    found = _OF_PERF.fullmatch(name)
    return found is not None and found[1] in files and is_recording(found[1])


def companion_test(files: Collection[str]) -> Callable[[str], bool]:
    """Whether a name belongs to another file of one folder, which has these files."""
    archives = any(is_archive(name) and not is_of_recording(name, files) for name in files)
    others = any(
        not (is_archive(name) or is_list_of_checksums(name) or is_for_readers(name) or _SYMBOLS.fullmatch(name))
        for name in files
    )

    def _companion(name: str) -> bool:
        if is_checksum(name, files) or is_of_recording(name, files):
            return True
        if found := _OF_PCP.fullmatch(name):
            needed = ([f"{found[1]}.{part}{packed}" for packed in _SUFFIXES] for part in ("0", "meta"))
            if all(any(other in files for other in others) for others in needed):
                return True
        if archives and (is_list_of_checksums(name) or is_for_readers(name) or name == _NUMBER):
            return True
        return bool(others and _SYMBOLS.fullmatch(name))

    return _companion
