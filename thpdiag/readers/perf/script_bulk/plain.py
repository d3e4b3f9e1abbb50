"""A line's bytes as the text that the readers of lines would get, where that is plain to see."""

from __future__ import annotations

from thpdiag.bundle.transcript import clean

LONGEST = 4096  # bytes; what is longer goes the long way


def plain(raw: bytes) -> str | None:
    """The line; None where encoding, escapes, quoting or length are a matter for those who read line by line."""
    if len(raw) > LONGEST:
        return None
    if raw.isascii() and (text := raw.decode()).isprintable():
        text = text.rstrip()
        return None if text.lstrip()[:1] == ">" else text
    if b"\r" in raw or b"\0" in raw or b"\x1b" in raw:
        return None
    try:
        text = clean(raw.decode())
    except UnicodeDecodeError:
        return None
    return None if text.lstrip()[:1] == ">" else text
