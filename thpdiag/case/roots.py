"""Which bundle a member belongs to, when an input holds several: the folder above a copied system tree.

A capture keeps `proc/version` beside `loops/counters.txt`; only the first says by its path where the copy of the
host begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from thpdiag.knowledge.paths import root_of


def roots(members: Iterable[str]) -> Callable[[str], str]:
    """The root of each member: the longest root of a system tree that it lies under, empty if there is none."""
    known = sorted({root_of(member) for member in members} - {""}, key=len, reverse=True)
    return lambda member: next((root for root in known if member.startswith(f"{root}/")), "")
