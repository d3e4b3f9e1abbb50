"""Normalised function names, without additions of the compiler, and the symbol families they belong to.

    __alloc_pages_slowpath.constprop.0 -> __alloc_pages_slowpath -> page_alloc

Families are in symbols.yaml, each with its source. A function may belong to several families.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from functools import cache, lru_cache
from types import MappingProxyType
from typing import NamedTuple

from thpdiag.errors import RuleError
from thpdiag.knowledge.yaml_nodes import load_shipped

_PREFIX = re.compile(
    r"(?:\? |\[[k.guHm]\] "  # unreliable frames of the kernel log, the CPU mode
    r"|__pfx_|__pi_(?=[a-z_])"  # padding before a function (6.2 and later), its position-independent copy (arm64)
    r"|\.(?=[a-z_]))"  # 64-bit PowerPC before ELFv2: the code of a function; the name without dot is its descriptor
)
_SUFFIX = re.compile(
    r"(?:\+0x[0-9a-f]{1,16}(?:/0x[0-9a-f]{1,16})?"  # offset, size
    r"|\.(?:isra|constprop|part|clone|lto_priv|__uniq)\.\d+|\.llvm\.[0-9a-f]+"  # compilers; clone: GCC before 4.6
    r"|\.cold(?:\.\d+)?|\.localalias(?:\.\d+)?"
    r"|_\[[kijw]\]"  # folded stacks
    r"| \[[^\]\s]{1,64}\]| \(inlined\)"  # the module, the mark of perf script
    r"|_noprof)$"  # memory allocation profiling, 6.10 and later
)
# Mapping symbols of ARM separate code from data; perf before 5.16 treats those of modules as functions.
_UNRESOLVED = re.compile(r"(?:\[unknown\]|\[.{1,200}\]|(?:0x)?[0-9a-f]{8,16}|\$[adtx](?:\.\w{1,40})?|)$")
_IDLE_TASK = re.compile(r"(?:swapper(?:/\d+)?|\[?idle\]?|:0|kworker/\d+:\d+)?$")
_MAX_NAME_CHARS = 4000  # longer names (C++ templates) are not normalised


class NameSet:
    """A set of names, with a star for any text at the end or the beginning."""

    def __init__(self, names: Iterable[str]) -> None:
        names = tuple(names)
        self.exact = frozenset(name for name in names if "*" not in name)
        self.beginnings = tuple(name[:-1] for name in names if name.endswith("*"))
        self.endings = tuple(name[1:] for name in names if name.startswith("*"))
        if wrong := [name for name in names if name.count("*") > 1 or "*" in name[1:-1]]:
            raise RuleError(f"symbols.yaml: {wrong[0]}: a name has one star, at its end or beginning")

    def __contains__(self, name: str) -> bool:
        return name in self.exact or name.startswith(self.beginnings) or name.endswith(self.endings)


class Family(NamedTuple):
    """Functions of one kind of work."""

    name: str
    title: str  # as used in a sentence
    means: str
    symbols: NameSet
    source: str
    ambiguous: NameSet  # names that belong to the family only in some tasks
    objects: re.Pattern[str] | None = None  # program objects with the functions; None: the kernel
    listed: bool = True  # its share of a profile is meaningful by itself

    def matches(self, name: str) -> bool:
        """Whether a normalised name belongs to the family in any task."""
        return name in self.symbols

    def doubtful(self, name: str) -> bool:
        """Whether a name belongs to the family only in some tasks (see `is_idle`)."""
        return name in self.ambiguous


def normalise(name: str) -> str:
    """Return the name of a function without offset, module, and additions of the compiler or kernel build."""
    name = name.strip()
    if len(name) > _MAX_NAME_CHARS:
        return name
    while prefix := _PREFIX.match(name):
        name = name[prefix.end() :]
    while (suffix := _SUFFIX.search(name)) and suffix.start():
        name = name[: suffix.start()]
    return name


@cache
def families() -> Mapping[str, Family]:
    """Return all families by name."""
    raw = load_shipped("symbols.yaml")["families"]
    return MappingProxyType({name: _family(name, raw) for name in raw})


class TaskGroup(NamedTuple):
    """Commands that rules exclude together. `title` is their name in a sentence."""

    title: str
    names: NameSet


@cache
def task_groups() -> Mapping[str, TaskGroup]:
    """Return all groups of tasks by name."""
    raw = load_shipped("symbols.yaml")["tasks"]
    return MappingProxyType({name: TaskGroup(row["title"], NameSet(row["names"])) for name, row in raw.items()})


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
        NameSet(symbols),
        str(entry["source"]),
        NameSet(_names(entry, "ambiguous", name)),
        re.compile("|".join(map(translate, objects))) if objects else None,
        entry.get("listed") is not False,
    )


def _names(entry: Mapping[str, object], key: str, family: str) -> Iterable[str]:
    value = entry.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise RuleError(f"symbols.yaml: {key} of family {family} is not a list of names")
    return value


@cache
def _names_of_all_families() -> NameSet:
    raw = load_shipped("symbols.yaml")["families"]
    return NameSet({name for family in raw for name in _names(raw[family], "symbols", family)})


@lru_cache(maxsize=8192)
def families_of(name: str) -> tuple[str, ...]:
    """Return the families of a normalised name; empty for most names."""
    if name not in _names_of_all_families():
        return ()
    return tuple(family.name for family in families().values() if family.matches(name))


def is_unresolved(name: str) -> bool:
    """Whether perf had no name for the address."""
    return bool(_UNRESOLVED.match(name))


def is_idle(name: str, comm: str = "") -> bool:
    """Whether a sample with this leaf function in this task is from an idle CPU.

    Halting means idling only in an idle task: in a virtual machine, tasks that wait for a spin lock halt too. Kernels
    before about 3.3 show the idle tasks of further CPUs under the name of a kworker. An idle task only idles and
    handles interrupts, so its unresolved samples count as idle.
    """
    idle = families()["idle"]
    if idle.matches(name):
        return True
    if not is_idle_task(comm):
        return False
    return idle.doubtful(name) or (comm.startswith("swapper") and is_unresolved(name))


def is_idle_task(comm: str) -> bool:
    """Whether a command is, or may be, the idle task of a CPU (see `is_idle`)."""
    return _IDLE_TASK.match(comm) is not None
