"""The boot line of the present boot, and those of others: an old log has one for each boot.

/proc/cmdline is that of the running kernel. What a log says counts where nothing better was read, and of several that
differ the last of one file. A boot line of an earlier boot says nothing about now.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from thpdiag.knowledge.paths import root_of
from thpdiag.model import Citation, Fact

PARAMETERS = {
    "boot.transparent_hugepage": "thp.enabled",
    "boot.transparent_hugepage_shmem": "thp.shmem_enabled",
    "boot.thp_anon": "thp.size.enabled",
}
MOST_SIZES = 64
_UNITS = {"K": 1, "M": 1024, "G": 1024 * 1024}
_SIZE = re.compile(r"(\d{1,7})([KMG]?)", re.IGNORECASE)


def present(facts: Sequence[Fact]) -> list[Citation]:
    """Where the boot lines of the present boot stand: one, or one for each bundle of the host."""
    lines = [f for f in facts if f.name == "boot.cmdline"]
    lines = lines or [f for f in facts if f.name in PARAMETERS]  # told without the line
    own = [f for f in lines if not of_log(f)]
    if own:
        return list({(root_of(f.cite.member), f.cite.member): f.cite for f in _in_order(own)}.values())
    said = {_said(f, facts) for f in lines}
    if len(said) > 1 and len({f.cite.member for f in lines}) > 1:
        return []
    return [f.cite for f in _in_order(lines)[-1:]]


def others(facts: Sequence[Fact]) -> list[Fact]:
    """The facts of boot lines that are not of the present boot."""
    now = {(c.member, c.line) for c in present(facts)}
    boot = [f for f in facts if f.name in PARAMETERS or f.name == "boot.cmdline"]
    return [f for f in boot if (f.cite.member, f.cite.line) not in now]


def sizes(text: str) -> Iterator[tuple[str, str]]:
    """Sizes and words of thp_anon=: `16K-32K:always;2M:inherit` -> 16kB always, 32kB always, 2048kB inherit."""
    told: dict[str, str] = {}
    for part in text.split(";")[:MOST_SIZES]:
        names, _, word = part.partition(":")
        for name in names.split(",")[:MOST_SIZES]:
            first, _, last = name.partition("-")
            for size in _doubled(_kilobytes(first), _kilobytes(last or first)):
                told[f"{size}kB"] = word
    yield from list(told.items())[:MOST_SIZES]


def _doubled(first: int, last: int) -> Iterator[int]:
    size = first
    while 0 < size <= last:
        yield size
        size *= 2


def _kilobytes(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    return int(found[1]) * _UNITS.get(found[2].upper(), 0) if found else 0


def of_log(fact: Fact) -> bool:
    """`Kernel command line: ...` or `Command line: ...`"""
    return "ommand line" in fact.cite.text


def _in_order(facts: Sequence[Fact]) -> list[Fact]:
    return sorted(facts, key=lambda f: (f.cite.member, f.cite.line or 0))


def _said(line: Fact, facts: Sequence[Fact]) -> tuple[tuple[str, str], ...]:
    here = (line.cite.member, line.cite.line)
    told = {(f.name, str(f.value)) for f in facts if f.name in PARAMETERS and (f.cite.member, f.cite.line) == here}
    return tuple(sorted(told))
