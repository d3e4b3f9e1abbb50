"""Names of files as senders give them: shown to people and kept in a column, never a part of a path.

What looks like a path, or would show as something else than it is, is refused rather than mended: no sender who means
well has such a name, and a mended one would be another than they gave.
"""

from __future__ import annotations

import unicodedata
from http import HTTPStatus
from typing import Final

from thpdiag.serve.uploads.refused import RefusedError

LONGEST: Final = 255  # bytes, as in file systems
TURNING: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # text direction
_HIDDEN: Final = {"Cc", "Cs", "Zl", "Zp"}  # control characters, half characters, separators of lines


def plain(name: str) -> str:
    """The name as it was given; RefusedError if it is no plain name of a file."""
    if not name.strip() or name in {".", ".."}:
        raise _no_name("an upload needs the name of a file")
    if "/" in name or "\\" in name:
        raise _no_name("the name of an upload is that of a file, without folders")
    if any(c in TURNING or unicodedata.category(c) in _HIDDEN for c in name):
        raise _no_name("the name of the upload has control characters")
    if len(name.encode()) > LONGEST:
        raise _no_name(f"the name of the upload is longer than {LONGEST} bytes")
    return name


def _no_name(sentence: str) -> RefusedError:
    return RefusedError(HTTPStatus.BAD_REQUEST, sentence)
