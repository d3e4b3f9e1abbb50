"""What advice needs to know of a host: where its settings are, what they are and what runs on it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from thpdiag.knowledge import applications, platforms
from thpdiag.model import Case, Fact, Sample, Series, State

DIRECTORIES = ("transparent_hugepage", "redhat_transparent_hugepage")
ASKED = "process_asked_huge_bytes"
MUCH = 2.0**30  # bytes; a judgement: whose faults hold a process up fill gigabytes, and small heaps of others ask too
# What may stand in a command that somebody runs as root. A customer's file says what it likes.
_WORD = re.compile(r"[A-Za-z0-9_+.-]{1,40}")


@dataclass(frozen=True, slots=True)
class HostView:
    """`settings` are the values in force (`thp.enabled` -> `always`), those in `assumed` were not read from the kernel.

    `directory` is the name below /sys/kernel/mm, empty if unknown. `bootline` is the value of transparent_hugepage=
    there. `asks`: a process holds much memory that asked for huge pages itself.
    `versions` are those of applications, `os` is the release of the distribution. `container` names what kind of
    container the input is from.
    """

    platform: str = ""
    era: str = ""
    directory: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    accepts: Mapping[str, frozenset[str]] = field(default_factory=dict)
    apps: tuple[str, ...] = ()
    tuned: str = ""
    bootline: str = ""
    container: str = ""
    asks: bool = False
    assumed: frozenset[str] = frozenset()
    versions: Mapping[str, str] = field(default_factory=dict)
    os: str = ""
    arch: str = ""
    kernel: str = ""

    @property
    def family(self) -> platforms.Family:
        return platforms.family(self.platform)

    @property
    def age(self) -> str:
        """The era as read, else that of the distribution's own kernel."""
        return self.era or platforms.era_of(self.platform)

    @property
    def place(self) -> str:
        """The directory to print: on RHEL 6 the one that all its releases have. Empty: print both with a test."""
        if self.platform:
            return platforms.directory(self.platform)
        return self.directory if self.directory in DIRECTORIES else ""

    def takes(self, setting: str, value: str) -> bool:
        """Whether the kernel accepts a word for a setting (`enabled`, `defrag`, `khugepaged/defrag`)."""
        words = self.accepts.get(f"thp.{setting.replace('/', '.')}")
        if words is None:
            words = platforms.accepted(setting, self._platform(), self.age)
        return words is None or value in words

    def _platform(self) -> str:
        """Of a host that shows RHEL 6's directory and nothing else the strictest release is taken."""
        return self.platform or ("el6.1" if self.directory == DIRECTORIES[1] else "")

    def stances(self) -> Iterator[tuple[applications.Application, applications.Stance]]:
        """The applications of this host and what their makers say for it."""
        told = {"platform": self.platform, "os": self.os, "arch": self.arch, "kernel": self.kernel}
        for name in self.apps:
            if app := applications.application(name):
                yield app, applications.stance(app, {**told, "version": self.versions.get(name, "")})

    @property
    def units(self) -> tuple[str, ...]:
        """The systemd units of the applications that run here: what must find the settings in force."""
        names = [unit for app, _ in self.stances() for unit in app.units]
        return tuple(name if "." in name else f"{name}.service" for name in dict.fromkeys(names))

    @property
    def plain(self) -> bool:
        """The kernel has no settings for single mappings: RHEL 6.1 to 6.4."""
        return not self.takes("enabled", "madvise")

    def measured(self, name: str) -> str | None:
        """The value of a setting as the kernel shows it; None if it is assumed or unfit for a command."""
        value = self.settings.get(name)
        return value if value is not None and name not in self.assumed and _WORD.fullmatch(value) else None


def host_view(case: Case, state: State | None) -> HostView:
    """The host as it was in a state."""
    facts = [*case.facts, *(state.facts if state else ())]
    settings, assumed = _settings(facts)
    if state:
        settings.update({name: str(value) for name, value in state.settings.items()})
        assumed -= set(state.settings)
    return HostView(
        platform=_last(facts, "platform"), era=_last(facts, "kernel.era"), directory=_last(facts, "thp.directory"),
        settings=settings, assumed=frozenset(assumed), accepts=_accepts(facts),
        apps=tuple(dict.fromkeys(str(f.value) for f in facts if f.name == "app")),
        tuned=_profile(_last(facts, "tuned.profile")), bootline=_word(_last(facts, "boot.transparent_hugepage")),
        container=_word(_last(facts, "host.container")), asks=bool(state and any(map(_asks, state.samples))),
        versions={f.label("app") or "": str(f.value) for f in facts if f.name == "app.version"},
        os=_last(facts, "os.version"), arch=_last(facts, "kernel.arch"), kernel=_last(facts, "kernel.release"),
    )  # fmt: skip


def _asks(row: Sample | Series) -> bool:
    """Whether it is a look at a process with much memory that asked for huge pages (VmFlags of smaps)."""
    return isinstance(row, Sample) and row.values.get(ASKED, 0.0) >= MUCH


def _settings(facts: Iterable[Fact]) -> tuple[dict[str, str], set[str]]:
    """Values in force, and the names of those that are only inferred. What was measured wins."""
    settings: dict[str, str] = {}
    inferred: set[str] = set()
    for fact in facts:
        if fact.labels or not fact.name.startswith(("thp.", "sysctl.")) or fact.name.endswith(".accepts"):
            continue
        if not fact.provenance:
            inferred.discard(fact.name)
        elif fact.name in settings:
            continue
        else:
            inferred.add(fact.name)
        settings[fact.name] = str(fact.value)
    return settings, inferred


def _accepts(facts: Iterable[Fact]) -> dict[str, frozenset[str]]:
    ending = ".accepts"
    return {f.name.removesuffix(ending): frozenset(str(f.value).split()) for f in facts if f.name.endswith(ending)}


def _last(facts: Iterable[Fact], name: str) -> str:
    return next((str(f.value) for f in reversed(list(facts)) if f.name == name), "")


def _word(value: str) -> str:
    return value if _WORD.fullmatch(value) else ""


def _profile(value: str) -> str:
    """tuned joins several profiles with blanks."""
    return value if all(map(_WORD.fullmatch, value.split())) else ""
