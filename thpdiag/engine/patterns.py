"""Patterns of rules on names that are asked again and again: the same few, in listings of thousands of processes."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import re2


@lru_cache(2**16)
def named(pattern: str, comm: str) -> bool:
    """Whether this is the whole name of a program or kernel thread."""
    return bool(_compiled(pattern).fullmatch(comm))


@cache
def _compiled(pattern: str) -> Any:
    """Patterns are those of rules, so they are few; re2 makes itself a new key of what it has compiled at each call."""
    return re2.compile(pattern)
