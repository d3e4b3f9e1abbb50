"""What decides whether a start-up file works on a host: words and directories of its kernel, what runs, profiles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from thpdiag.derive.boot_line import others
from thpdiag.knowledge import platforms
from thpdiag.knowledge.start_up import tuned_of
from thpdiag.model import Fact, State

MOST_INCLUDES = 16  # profiles that include one another
_OTHER_SPELLING = {"yes": "1", "no": "0"}
_NOT_CLAIMED = frozenset({"el6", "el6.0"})  # 6.0 knows madvise, 6.1 to 6.4 do not


@dataclass(frozen=True, slots=True)
class SetUp:
    """`accepts` are words by setting as the kernel lists them; `present` the directories of sysfs that exist.

    `runs` tells of units and paths whether they run at boot. `profiles` are the active one of tuned and what it
    includes, the one that counts most first; None if the input does not name it. `sure` is False for a version of tuned
    that is known by the kernel alone. `on_boot_line`: the line of this boot has transparent_hugepage=.
    `container`: the input is from inside of one, so that its start-up files are not those of the kernel's host.
    """

    platform: str
    era: str
    accepts: Mapping[str, frozenset[str]]
    present: frozenset[str]
    missing: frozenset[str]
    runs: Mapping[str, str]
    profiles: tuple[str, ...] | None
    notes: frozenset[str] | None
    version: str
    sure: bool
    on_boot_line: bool = False
    container: bool = False

    def refuses(self, setting: str, value: str) -> bool:
        """Whether the kernel does not know the word; False where that cannot be told."""
        words = self.accepts.get(setting)
        if words is None and self.platform not in _NOT_CLAIMED and (self.era or setting != "thp.defrag"):
            words = platforms.accepted(setting.removeprefix("thp.").replace(".", "/"), self.platform, self.era)
        return words is not None and value not in words and not value.isdigit()


def set_up(facts: Sequence[Fact], states: Sequence[State]) -> SetUp:
    """What the input tells of it."""
    every = [*facts, *(f for s in states for f in s.facts)]
    named = {f.name: str(f.value) for f in every if not f.provenance}
    told = {f.name: str(f.value) for f in every}
    version = named.get("tuned.version", "")
    platform = told.get("platform", "")
    present, missing = _directories(every, platform)
    elsewhere = {id(f) for f in others(facts)}
    return SetUp(
        platform, told.get("kernel.era", ""), dict(_accepts(every)), present, missing,
        {str(f.label("unit") or f.label("path")): str(f.value) for f in every if f.name == "rc.state"},
        _profiles(every), _notes(every), version or tuned_of(told.get("kernel.release", "")), bool(version),
        any(f.name == "boot.transparent_hugepage" for f in every if id(f) not in elsewhere),
        any(f.name == "host.container" for f in every),
    )  # fmt: skip


def same(one: object, other: object) -> bool:
    """Whether two spellings of a value mean the same: RHEL 6 prints yes where others print 1."""
    left, right = (_OTHER_SPELLING.get(str(v).strip().lower(), str(v).strip().lower()) for v in (one, other))
    return left == right


def _accepts(facts: Sequence[Fact]) -> Iterator[tuple[str, frozenset[str]]]:
    for fact in facts:
        if fact.name.endswith(".accepts"):
            yield fact.name.removesuffix(".accepts"), frozenset(str(fact.value).split())


def _directories(facts: Sequence[Fact], platform: str) -> tuple[frozenset[str], frozenset[str]]:
    """Which of the two names exist and which do not."""
    seen = {str(f.value) for f in facts if f.name == "thp.directory"}
    present = {_short(name) for name in seen - {"absent"}}
    gone = {_short(f.label("directory") or "") for f in facts if f.name == "thp.directory" and f.value == "absent"}
    if re.fullmatch(r"el6\.[0-3]", platform):
        gone.add("mainline")
    elif platform and not platform.startswith("el6"):
        gone.add("redhat")
    return frozenset(present), frozenset(gone - present - {""})


def _short(directory: str) -> str:
    return "redhat" if directory.startswith("redhat_") else "mainline" if directory else ""


def _profiles(facts: Sequence[Fact]) -> tuple[str, ...] | None:
    """The active profile of tuned and what it includes; of several merged ones the last counts most."""
    active = [str(f.value) for f in facts if f.name == "tuned.profile"]
    if not active:
        return None
    included = {f.label("profile"): str(f.value).split() for f in facts if f.name == "rc.include"}
    chain: list[str] = []
    todo = [name for name in reversed(active[-1].split()) if name != "none"]
    while todo and len(chain) < MOST_INCLUDES:
        name = todo.pop(0)
        if name not in chain:
            chain.append(name)
            todo = [*reversed(included.get(name, [])), *todo]
    return tuple(chain)


def _notes(facts: Sequence[Fact]) -> frozenset[str] | None:
    """The notes that saptune applies; None if the input does not say."""
    told = [str(f.value).split() for f in facts if f.name == "saptune.notes"]
    return frozenset(note for notes in told for note in notes) if told else None
