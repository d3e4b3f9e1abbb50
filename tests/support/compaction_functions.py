"""Which functions of a kernel run for memory compaction alone, and which it shares with others.

    python tests/support/compaction_functions.py linux-5.15 linux-6.8 ...

reads the sources of kernels (of each at least mm/ and include/linux/) and prints names for the families of
`thpdiag/knowledge/symbols.yaml`: a flat profile shows what ran, not who called it, so that only a function that nobody
else calls is proof. Names alone, no text of the kernel.

alone       of mm/compaction.c, called (or handed on as a pointer) by compact_zone and what it calls, by nobody else
contiguous  of mm/compaction.c, called by these and by alloc_contig_range, by nobody else
helpers     look at blocks of pages for these, and for others too: weak evidence
entries     call compact_zone: who asked for the compaction
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

CORE = ("compact_zone", "__compact_zone")
ANEW = "reset_isolation_suitable"  # by this kswapd has compaction start anew
CONTIGUOUS = ("alloc_contig_range", "alloc_contig_range_noprof", "__alloc_contig_migrate_range")
KINDS = ("alone", "contiguous", "helpers", "entries")
BLOCKS = re.compile("page_?block|pfnblock|online_page|isolation_suitable")

_ASIDE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.M)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(?P<name>[a-z_]\w*)\((?P<body>(?:\\\n|[^\n])*)", re.M)
_HEAD = re.compile(r"\b(?P<name>[a-z_]\w*)\s*\([^;{}]*\)[\s\w]*$")
_WORD = re.compile(r"(?<![.>\w])[a-z_]\w+")


class Sources(NamedTuple):
    """The functions of a kernel: which others each one names, and the files that define it."""

    calls: Mapping[str, frozenset[str]]
    files: Mapping[str, frozenset[str]]

    def of(self, name: str) -> frozenset[str]:
        """What a function calls, by way of functions and macros of headers too: these are part of their callers."""
        found, new = set(), set(self.calls[name])
        while new:
            found |= new
            new = {c for n in new if self.inline(n) for c in self.calls[n]} - found
        return frozenset(found)

    def inline(self, name: str) -> bool:
        return all(path.endswith(".h") for path in self.files[name])


def functions(text: str) -> Iterator[tuple[str, str]]:
    """The functions and macros that a file defines, each with its body."""
    text = _ASIDE.sub(" ", text)
    for macro in _MACRO.finditer(text):
        yield macro["name"], macro["body"]
    text = _DIRECTIVE.sub("", text)
    depth = begin = head = 0
    for found in re.finditer(r"[{};]", text):
        at, sign = found.start(), found[0]
        depth = max(0, depth + {"{": 1, "}": -1, ";": 0}[sign])
        if sign == "{" and depth == 1:
            begin = at
        elif depth == 0:
            if sign == "}" and (name := _HEAD.search(text[head:begin])):
                yield name["name"], text[begin:at]
            head = at + 1


def read_sources(tree: Path) -> Sources:
    """All functions of a tree; of several with one name everything that one of them names."""
    bodies: dict[str, list[str]] = defaultdict(list)
    files: dict[str, set[str]] = defaultdict(set)
    for path in sorted(tree.rglob("*.[ch]")):
        for name, body in functions(path.read_text("utf-8", "replace")):
            bodies[name].append(body)
            files[name].add(path.relative_to(tree).as_posix())
    calls = {
        n: frozenset(w for body in found for w in _WORD.findall(body) if w in bodies) for n, found in bodies.items()
    }
    return Sources(calls, {name: frozenset(paths) for name, paths in files.items()})


def only_under(roots: Iterable[str], sources: Sources) -> frozenset[str]:
    """The roots, and what nobody calls but these and what only they call."""
    callers: dict[str, set[str]] = defaultdict(set)
    for caller, called in sources.calls.items():
        for name in called - {caller}:
            callers[name].add(caller)
    inside = frozenset(roots) & sources.calls.keys()
    while more := {name for name, who in callers.items() if name not in inside and who <= inside}:
        inside |= more
    return inside


def families(tree: Path) -> dict[str, frozenset[str]]:
    """The names of each kind in one kernel."""
    sources = read_sources(tree)
    own = {name for name, paths in sources.files.items() if paths == {"mm/compaction.c"}}
    alone = only_under({*CORE, ANEW}, sources) & own
    contiguous = (only_under({*CORE, ANEW, *CONTIGUOUS}, sources) & own) - alone
    called = {c for name in alone | contiguous for c in sources.of(name)} - alone - contiguous
    helpers = {c for c in called if BLOCKS.search(c) and not sources.inline(c)}
    entries: set[str] = set()
    while more := {n for n, c in sources.calls.items() if c & {*CORE, *entries} and "compact" in n} - entries - alone:
        entries |= more
    return dict(zip(KINDS, map(frozenset, (alone, contiguous, helpers, entries)), strict=True))


def main(trees: list[Path]) -> None:
    """Print each kind of all kernels, with those that have the name if not all have."""
    found = {tree.name: families(tree) for tree in trees}
    for kind in KINDS:
        print(f"{kind}:")
        for name in sorted({name for of in found.values() for name in of[kind]}):
            kernels = [kernel for kernel, of in found.items() if name in of[kind]]
            print(f"  {name}: {'all' if len(kernels) == len(found) else ', '.join(kernels)}")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
