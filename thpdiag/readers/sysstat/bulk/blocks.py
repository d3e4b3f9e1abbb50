"""What stands between the empty lines of sar's text, as the bytes come."""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST = 16 << 20  # bytes without an empty line, after which a block is cut at a line end
_BREAK = re.compile(rb"\n\r?\n")


def blocks(chunks: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """What stands between empty lines, with the number of its first line."""
    number = 1
    for text in _stretches(chunks):
        yield from _split(number, text)
        number += text.count(b"\n")


def _stretches(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The text cut behind empty lines; where there is none for long, behind any line, or anywhere."""
    held: list[bytes] = []
    size = 0
    for chunk in chunks:
        last = held[-1][-2:] if held else b""  # a break may be cut in two
        if b"\n" not in chunk or not _BREAK.search(last + chunk):
            held.append(chunk)
            size += len(chunk)
            if size < LONGEST:
                continue
            text = b"".join(held)
            end = text.rfind(b"\n") + 1 or len(text)
        else:
            text = b"".join([*held, chunk])
            end = max(found.end() for found in _BREAK.finditer(text, max(size - 2, 0)))
        yield text[:end].replace(b"\r\n", b"\n")
        held, size = [text[end:]], len(text) - end
    yield b"".join(held).replace(b"\r\n", b"\n")


def _split(number: int, whole: bytes) -> Iterator[tuple[int, bytes]]:
    for block in whole.split(b"\n\n"):
        text = block.strip(b"\n")
        if text:
            yield number + len(block) - len(block.lstrip(b"\n")), text
        number += block.count(b"\n") + 2
