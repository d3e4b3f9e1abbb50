"""How a list of kernel symbols begins: without numpy, for who only wants to know whether it is one."""

from __future__ import annotations

import re

_OPENS = re.compile(rb"(?:([0-9a-f]{16}|[0-9a-f]{8}|[ ]*\(null\)) [A-Za-z?-] \S+(?:[\t ]+\[[^\]\s]+\])?\r?(?:\n|\Z))")


def width_of(text: bytes) -> int:
    """How many characters wide the addresses are; 0 where the text does not begin with a symbol."""
    found = _OPENS.match(text)
    return len(found[1]) if found and len(found[1]) in (8, 16) else 0
