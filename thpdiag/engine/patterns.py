"""Patterns of rules on names that are asked again and again: the same few, in listings of thousands of processes."""

from __future__ import annotations

from functools import lru_cache

import re2


@lru_cache(2**16)
def named(pattern: str, comm: str) -> bool:
    """Whether this is the whole name of a program or kernel thread."""
    return bool(re2.fullmatch(pattern, comm))
