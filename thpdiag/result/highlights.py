"""What a picture of the tree of calls marks: the functions that findings speak of, and where stacks enter the kernel.

Asked of the paths that the document shows, so it needs no times and no numpy, and says nothing of what was folded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thpdiag.engine.checks.profile import only
from thpdiag.engine.schema import Profile as ProfileSpec
from thpdiag.engine.schema import listed
from thpdiag.engine.stacks import member_of
from thpdiag.knowledge.symbols import families, families_of
from thpdiag.model import Frame

# As perf names the object of a function: `[xfs]`, or the file of the module
_MODULE = re.compile(r"\[(?P<name>[\w-]+)\]|(?:.*/)?(?P<file>[\w-]+)\.ko(?:\.(?:xz|gz|zst))?")
_NO_MODULES = frozenset({"[unknown]", "[kernel]", "[vdso]", "[vsyscall]", "[heap]", "[stack]", "[anon]", "[bpf]"})

Path = tuple[str, list[str]]  # of a task: its name and the functions, outermost first


@dataclass(frozen=True, slots=True)
class _Asked:
    """A check of call stacks over the names of a document: the tasks that count, and the functions that fit each part.

    `leaf`: only the running function counts.
    """

    tasks: frozenset[str]
    leaf: bool
    where: frozenset[str]
    under: tuple[frozenset[str], ...]
    never: frozenset[str]

    def matched(self, path: Path) -> list[str]:
        """The functions of a path that the check speaks of; none if the path does not fit."""
        task, functions = path
        inner = functions[::-1]
        upto = 1 if self.leaf else len(inner)
        at = next((place for place, name in enumerate(inner[:upto]) if name in self.where), None)
        if at is None or task not in self.tasks:
            return []
        beyond = inner[at + 1 :]
        if not self.never.isdisjoint(beyond) or not self._in_order(beyond):
            return []
        own = [name for name in inner[at:upto] if name in self.where]
        return own + [name for name in beyond if any(name in wanted for wanted in self.under)]

    def _in_order(self, callers: Iterable[str]) -> bool:
        rest = iter(callers)
        return all(any(name in wanted for name in rest) for wanted in self.under)


def matched(folded: Sequence[Sequence[Any]], checks: Iterable[ProfileSpec]) -> dict[str, Any]:
    """The keys of the document for what checks matched; the functions of the first check come first."""
    paths = list(_paths(folded))
    members = {name: member_of(name) for _, functions in paths for name in functions}
    tasks = frozenset(task for task, _ in paths)
    names: dict[str, None] = {}
    stacks: set[int] = set()
    for asked in dict.fromkeys(_asked(check, tasks, members) for check in checks):
        for number, path in enumerate(paths if asked.where else ()):
            if hit := asked.matched(path):
                stacks.add(number)
                names |= dict.fromkeys(hit)
    return {"matched": list(names), "matched_stacks": sorted(stacks)} if names else {}


def kernel_entries(folded: Sequence[Sequence[Any]], frames: Iterable[tuple[str, Frame]]) -> list[str]:
    """The functions at which a path enters the kernel; `frames` are those of the recording with the names shown."""
    kernel: dict[str, bool] = {}
    for name, frame in frames:
        inside = _of_kernel_family(frame.name) if frame.kernel is None else frame.kernel
        kernel[name] = kernel.get(name, True) and inside
    entries = (next((name for name in functions if kernel.get(name)), None) for _, functions in _paths(folded))
    return sorted(set(filter(None, entries)))


def modules(folded: Sequence[Sequence[Any]], frames: Iterable[tuple[str, Frame]]) -> dict[str, list[str]]:
    """By kernel module the functions of it that a path shows; a module may be of anybody, the kernel is not."""
    there = frozenset(name for _, functions in _paths(folded) for name in functions)
    found: dict[str, set[str]] = {}
    for name, frame in frames:
        if name in there and (module := _MODULE.fullmatch(frame.dso)) and module[0] not in _NO_MODULES:
            found.setdefault(module["name"] or module["file"], set()).add(name)
    return {module: sorted(names) for module, names in sorted(found.items())}


def _of_kernel_family(name: str) -> bool:
    """Whether a function of a source that does not say is known to be the kernel's."""
    return any(families()[family].objects is None for family in families_of(name))


def _paths(folded: Sequence[Sequence[Any]]) -> Iterator[Path]:
    for stack, _ in folded:
        task, *functions = stack.split(";")
        yield task, functions


def _asked(check: ProfileSpec, tasks: frozenset[str], members: Mapping[str, frozenset[str]]) -> _Asked:
    def fitting(choice: Iterable[str]) -> frozenset[str]:
        wanted = frozenset(choice)
        return frozenset(name for name, own in members.items() if not own.isdisjoint(wanted))

    picked = only(check)
    return _Asked(
        tasks if picked is None else frozenset(task for task in tasks if picked(task)),
        check.self_ is not None,
        fitting(listed(check.self_ if check.self_ is not None else check.anywhere)),
        tuple(fitting([family]) for family in listed(check.under)),
        fitting(listed(check.not_under)),
    )
