"""Kernel era, platform and whether transparent huge pages exist here at all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from thpdiag.derive.settings import first
from thpdiag.knowledge.kernels import era
from thpdiag.model import Fact, State

# The family and major release that commands differ by. Order matters: a release string is surer than a name in prose.
_RELEASES = (
    (re.compile(r"\.el(\d+)uek"), "oracle"),
    (re.compile(r"\.el(\d+)(?:[._]|$)"), "el"),
    (re.compile(r"\.fc(\d+)\b"), "fedora"),
)
_NAMES = (
    (re.compile(r"(?:CentOS|Red Hat|RHEL|Oracle Linux|Rocky|Alma|Scientific)\D{0,80}(\d{1,4})"), "el"),
    (re.compile(r"(?:SLES|SUSE Linux Enterprise)\D{0,80}(\d{1,4})"), "sles"),
    (re.compile(r"Ubuntu\D{0,80}(\d{1,4}\.\d{1,4})"), "ubuntu"),
    (re.compile(r"Debian\D{0,80}(\d{1,4})"), "debian"),
    (re.compile(r"Fedora\D{0,80}(\d{1,4})"), "fedora"),
)
_BUILD = re.compile(r"2\.6\.32-(\d+)")
_EL6 = ((131, "6.0"), (220, "6.1"), (279, "6.2"), (358, "6.3"), (431, "6.4"))  # first build of the next minor release


def platform_facts(facts: Sequence[Fact], states: Sequence[State]) -> Iterator[Fact]:
    """kernel.era, platform and thp.applicable, each citing what it was read from."""
    release, system = first(facts, "kernel.release"), first(facts, "os.name")
    known = era(str(release.value)) if release else None
    if known and release and known.id != "none":
        yield Fact("kernel.era", known.id, release.cite)
    if place := _platform(release, system):
        yield place
    yield from _applicable(facts, states, release)


def _platform(release: Fact | None, system: Fact | None) -> Fact | None:
    if release:
        for pattern, family in _RELEASES:
            if found := pattern.search(str(release.value)):
                major = _minor(str(release.value)) if found[1] == "6" and family == "el" else found[1]
                return Fact("platform", f"{family}{major}", release.cite)
    if system:
        for pattern, family in _NAMES:
            if found := pattern.search(str(system.value)):
                return Fact("platform", f"{family}{_named_minor(found[1], family, str(system.value))}", system.cite)
    return None


def _named_minor(major: str, family: str, name: str) -> str:
    """The same from a release file or prose: `6.6` is 6.5 and later, `6` alone is taken for a late one."""
    if family != "el" or major != "6":
        return major
    found = re.search(r"\b6\.(\d+)", name)
    return f"6.{min(int(found[1]), 5)}" if found else "6.5"


def _minor(release: str) -> str:
    """RHEL 6 minor releases differ in path and values: 6.0 to 6.4 by build, `6.5` for all later ones."""
    found = _BUILD.match(release)
    build = int(found[1]) if found else 431
    return next((minor for limit, minor in _EL6 if build < limit), "6.5")


def _directory(facts: Sequence[Fact], release: Fact | None) -> Fact | None:
    """What a listing says of the THP directory; that the mainline name is missing says nothing on RHEL 6."""
    named = [f for f in facts if f.name == "thp.directory"]
    present = next((f for f in named if f.value != "absent"), None)
    if present is not None:
        return present
    red_hat_6 = release is None or ".el6" in str(release.value)
    return next((f for f in named if f.label("directory") is None or not red_hat_6), None)


def _applicable(facts: Sequence[Fact], states: Sequence[State], release: Fact | None) -> Iterator[Fact]:
    directory = _directory(facts, release)
    built_in = first(facts, "kernel.thp_built_in")
    shown = next((f for s in states for f in s.facts if f.name in ("thp.enabled", "thp.defrag")), None)
    if shown is not None:
        yield Fact("thp.applicable", "yes", shown.cite)
    elif directory is not None:
        yield Fact("thp.applicable", "no" if directory.value == "absent" else "yes", directory.cite)
    elif built_in is not None and str(built_in.value) == "no":
        yield Fact("thp.applicable", "no", built_in.cite)
    elif release is not None and (known := era(str(release.value))) and not known.thp:
        yield Fact("thp.applicable", "no", release.cite)
