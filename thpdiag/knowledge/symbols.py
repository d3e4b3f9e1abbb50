"""Function names: what they are called when the compiler's additions are taken off, and which family they belong to.

    __alloc_pages_slowpath.constprop.0 -> __alloc_pages_slowpath -> page_alloc

Families are in symbols.yaml, each with its source. One function may belong to several families.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from types import MappingProxyType

from thpdiag.errors import RuleError
from thpdiag.knowledge.yaml_nodes import shipped

_BEFORE = re.compile(
    r"(?:\? |\[[k.guHm]\] "  # unreliable frames of the kernel log, the place
    r"|__pfx_|__pi_(?=[a-z_])"  # what is before a function (6.2 and later), its position-independent copy (arm64)
    r"|\.(?=[a-z_]))"  # 64-bit PowerPC of before ELFv2: the code of a function, without the dot its descriptor
)
_AFTER = re.compile(
    r"(?:\+0x[0-9a-f]{1,16}(?:/0x[0-9a-f]{1,16})?"  # offset, size
    r"|\.(?:isra|constprop|part|clone|lto_priv|__uniq)\.\d+|\.llvm\.[0-9a-f]+"  # compilers; clone: GCC before 4.6
    r"|\.cold(?:\.\d+)?|\.localalias(?:\.\d+)?"
    r"|_\[[kijw]\]"  # folded stacks
    r"| \[[^\]\s]{1,64}\]| \(inlined\)"  # the place, the mark of perf script
    r"|_noprof)$"  # memory allocation profiling, 6.10 and later
)
# Mapping symbols of ARM tell code from data; perf before 5.16 takes those of modules for functions.
_UNRESOLVED = re.compile(r"(?:\[unknown\]|\[.{1,200}\]|(?:0x)?[0-9a-f]{8,16}|\$[adtx](?:\.\w{1,40})?|)$")
_IDLE_TASK = re.compile(r"(?:swapper(?:/\d+)?|\[?idle\]?|:0|kworker/\d+:\d+)?$")
_LONGEST = 4000  # characters; longer names (C++ templates) are left as they are


@dataclass(frozen=True, slots=True)
class Family:
    """Functions of one kind of work. `title` names it in a sentence, `ambiguous` names count in some tasks only.

    `objects` are those of programs that hold the functions; None: the kernel's.
    """

    name: str
    title: str
    means: str
    symbols: re.Pattern[str]
    source: str
    ambiguous: re.Pattern[str]
    objects: re.Pattern[str] | None = None

    def matches(self, name: str) -> bool:
        """Whether the normalised name belongs to the family by itself."""
        return self.symbols.match(name) is not None

    def doubtful(self, name: str) -> bool:
        """Whether the name belongs to the family in some tasks only (`is_idle` knows which)."""
        return self.ambiguous.match(name) is not None


def _pattern(names: Iterable[str]) -> re.Pattern[str]:
    """One expression for exact names and those with a star; matches nothing if there are none."""
    return re.compile("|".join(translate(n) if "*" in n else re.escape(n) + r"\Z" for n in names) or r"(?!)")


def normalise(name: str) -> str:
    """The function's own name: no offset, no mark of the place, nothing that the compiler or the kernel build added."""
    name = name.strip()
    if len(name) > _LONGEST:
        return name
    while found := _BEFORE.match(name):
        name = name[found.end() :]
    while found := _AFTER.search(name):
        if not found.start():
            break
        name = name[: found.start()]
    return name


@cache
def families() -> Mapping[str, Family]:
    """All families by name, read once."""
    raw = shipped("symbols.yaml")["families"]
    return MappingProxyType({name: _family(name, raw) for name in raw})


def _family(name: str, raw: Mapping[str, Mapping[str, object]]) -> Family:
    entry = raw[name]
    symbols = list(_names(entry, "symbols", name))
    for part in _names(entry, "includes", name):
        if part not in raw:
            raise RuleError(f"symbols.yaml: family {name} includes {part}, which does not exist")
        symbols.extend(_names(raw[part], "symbols", part))
    objects = list(_names(entry, "objects", name))
    return Family(
        name,
        str(entry["title"]),
        str(entry["means"]),
        _pattern(symbols),
        str(entry["source"]),
        _pattern(_names(entry, "ambiguous", name)),
        _pattern(objects) if objects else None,
    )


def _names(entry: Mapping[str, object], key: str, family: str) -> Iterable[str]:
    value = entry.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise RuleError(f"symbols.yaml: {key} of family {family} is not a list of names")
    return value


@cache
def _starred() -> tuple[Mapping[str, tuple[str, ...]], re.Pattern[str]]:
    """Families by exact name, and one expression for all names with a star: most names are in neither."""
    exact: dict[str, tuple[str, ...]] = {}
    starred: set[str] = set()
    raw = shipped("symbols.yaml")["families"]
    for family in raw:
        for name in _names(raw[family], "symbols", family):
            if "*" in name:
                starred.add(name)
            else:
                exact[name] = ()
    for name in exact:
        exact[name] = tuple(family.name for family in families().values() if family.matches(name))
    return exact, _pattern(sorted(starred))


def families_of(name: str) -> tuple[str, ...]:
    """The families that a normalised name belongs to by itself."""
    exact, starred = _starred()
    known = exact.get(name)
    if known is not None or not starred.match(name):
        return known or ()
    return tuple(family.name for family in families().values() if family.matches(name))


def unresolved(name: str) -> bool:
    """Whether perf had no name for the address."""
    return bool(_UNRESOLVED.match(name))


def is_idle(name: str, comm: str = "") -> bool:
    """Whether a sample with this leaf function in this task is a CPU without work.

    Halting is idling only in an idle task: in a virtual machine, tasks that wait for a spin lock halt too. Kernels
    before 3.3 or so show the idle tasks of further CPUs under the name of a kworker. An idle task does nothing but
    idle and interrupts, so that its unresolved samples count as idle.
    """
    idle = families()["idle"]
    if idle.matches(name):
        return True
    if not is_idle_task(comm):
        return False
    return idle.doubtful(name) or (comm.startswith("swapper") and unresolved(name))


def is_idle_task(comm: str) -> bool:
    """Whether a command is that of a CPU's idle task, or may be (`is_idle`)."""
    return _IDLE_TASK.match(comm) is not None
