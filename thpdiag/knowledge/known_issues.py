"""Known issues (known_issues/*.yaml): defects of kernels and applications that have to do with huge pages, in which
versions they are, what mends them and until when. docs/how-to/add-a-known-issue.md says what the keys mean.

Versions are compared number by number. A kernel is of a line of releases that are made from each other, and versions of
two lines are never compared: distributions take single changes into kernels that keep their old number.

    el9_4, el9       5.14.0-427.13.1.el9_4    a minor release with its updates, and all of a major one
    sles15.6         6.4.0-150600.23.87-default
    ubuntu6.8        6.8.0-45-generic         the kernels named generic and lowlatency, whose numbers are one series
    uek5.15          5.15.0-206.153.7.el9uek
    mainline         6.8.9, 6.8.9-300.fc40, 6.1.90-99.173.amzn2023, Debian's by its own version (6.1.90)

Source of the forms: packages of the distributions, as `uname -r` and `uname -v` print them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from thpdiag.knowledge.packs import pack_parts
from thpdiag.knowledge.yaml_nodes import load_shipped

FOLDER = "known_issues"
MAINLINE = "mainline"
HARMS = (
    "data",
    "hang",
    "stall",
    "slow",
    "memory",
    "settings",
    "crash",
    "figures",
    "security",
)  # in the order in which they are listed

Numbers = tuple[int, ...]
_NUMBERS = re.compile(r"\d{1,7}(?:[.-]\d{1,7}){0,9}")
_LINES = (  # the first that is found; the groups behind the name of the line
    (re.compile(r"(\d+\.\d+)\.\d+-.*\.el\d+uek"), "uek{0}"),
    (re.compile(r".*\.el(\d+_\d+)(?:\.|$)"), "el{0}"),
    (re.compile(r".*\.el(\d+)(?:\.|$)"), "el{0}"),
    (re.compile(r".*-1(\d)0([0-7])00\.\d"), "sles1{0}.{1}"),
    (re.compile(r"5\.3\.18-5[79]\."), "sles15.3"),
    (re.compile(r"5\.3\.18-2[24]\."), "sles15.2"),
    (re.compile(r"4\.12\.14-19[57]\."), "sles15.1"),
    (re.compile(r"4\.12\.14-12[02]\."), "sles12.5"),
    (re.compile(r"3\.0\.\d+-[\d.]+-(?:default|pae|xen|bigmem)"), "sles11"),
    (re.compile(r"(\d+\.\d+)\.0-\d{1,4}-(?:generic|lowlatency)"), "ubuntu{0}"),
    (
        re.compile(r"\d+\.\d+\.[1-9]\d{0,3}(?:-\d+\.fc\d+|-[\d.]+\.amzn|\+deb\d+-|-arch\d|-flatcar|-talos|\+?$)"),
        MAINLINE,
    ),
)
_DEBIAN = re.compile(r"\bDebian (\d+\.\d+\.\d+)-")


class Range(NamedTuple):
    """Versions of one line (empty for those of an application): `from` included, the first `fixed` one not.

    Without `fixed` none is known; then `last` is the last one that is known to be affected, of a line that goes on.
    """

    line: str
    since: str = ""
    fixed: str = ""
    last: str = ""


class Workaround(NamedTuple):
    """`sets` are settings with the words that help, as in remedies.yaml; `back` what they are set to when it is over.

    `run` and `undo` are further commands. `until` says when to undo it.
    """

    sets: Mapping[str, Any] = {}
    back: Mapping[str, str] = {}
    run: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    remedy: str = ""
    until: str = ""


class KnownIssue(NamedTuple):
    """`needs` are conditions on facts by name: one_of, least and most, from and below (versions), matches (RE2).

    `mended` says what has the fix where that is no version of the kernel or the application.
    """

    id: str
    title: str
    harm: str
    defect: str
    source: str
    date: str
    family: str
    kernels: tuple[Range, ...] = ()
    app: str = ""
    versions: tuple[Range, ...] = ()
    needs: Mapping[str, Mapping[str, Any]] = {}
    workaround: Workaround = Workaround()
    mended: str = ""
    doubt: str = ""


class Catalogue(NamedTuple):
    """All entries; `date` is the day on which they were last compared with their sources."""

    issues: tuple[KnownIssue, ...]
    date: str


def family_names() -> list[str]:
    """The files of the catalogue."""
    folder = files("thpdiag.knowledge") / FOLDER
    return sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".yaml"))


@cache
def catalogue() -> Catalogue:
    """The entries of all families."""
    tables = [(name.removesuffix(".yaml"), load_shipped(f"{FOLDER}/{name}")) for name in family_names()]
    tables += [("packs", table) for table in pack_parts("known_issues.yaml")]
    issues = tuple(_issue(key, row, family) for family, table in tables for key, row in table["issues"].items())
    return Catalogue(issues, max((str(table["checked"]) for _, table in tables), default=""))


def catalogue_words() -> str:
    """Its date and how many entries it has."""
    known = catalogue()
    return f"{known.date}, {len(known.issues)} entries"


def line_title(line: str) -> str:
    """A line of kernels for people: `kernel of SLES 15 SP6`."""
    for prefix, name in (("el", "RHEL "), ("sles", "SLES "), ("ubuntu", "Ubuntu, Linux "), ("uek", "UEK, Linux ")):
        if line.startswith(prefix):
            rest = line.removeprefix(prefix).replace("_", ".")
            return f"kernel of {name}{rest.replace('15.', '15 SP') if prefix == 'sles' else rest}:"
    return "Linux"


def _issue(key: str, row: Mapping[str, Any], family: str) -> KnownIssue:
    plain = {name: value for name, value in row.items() if name not in ("kernels", "app", "workaround")}
    app = row.get("app", {})
    work: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in row.get("workaround", {}).items()
    }
    return KnownIssue(
        key, **plain, family=family, kernels=tuple(_range(one) for one in row.get("kernels", ())),
        app=app.get("name", ""), versions=tuple(_range(one) for one in app.get("versions", ())),
        workaround=Workaround(**work),
    )  # fmt: skip


def _range(row: Mapping[str, Any]) -> Range:
    return Range(*(str(row.get(key, "")) for key in ("on", "from", "fixed", "last")))


# Versions


def numbers(version: str) -> Numbers:
    """The numbers that a version begins with: 5.14.0-427.13.1.el9_4 is 5, 14, 0, 427, 13, 1."""
    found = _NUMBERS.match(version.lstrip("vV"))
    return tuple(int(number) for number in re.split("[.-]", found[0])) if found else ()


def kernel_version(release: str, build: str = "") -> tuple[tuple[str, ...], Numbers]:
    """The lines that a kernel is of, the most exact first, and its numbers; no line where they do not tell.

    `build` is what `uname -v` prints. Debian's release names only the interface, and its build the version.
    """
    for pattern, name in _LINES:
        if found := pattern.match(release):
            line = name.format(*found.groups())
            return ((line, line.partition("_")[0]) if "_" in line else (line,)), numbers(release)
    if found := _DEBIAN.search(build):
        return (MAINLINE,), numbers(found[1])
    return (), ()


def place_in(ranges: tuple[Range, ...], version: Numbers) -> tuple[str, Range | None]:
    """Where a version lies: `affected`, `fixed`, or `outside` of all; and the range that says so."""
    for one in ranges:
        if not (one.since and version < numbers(one.since)) and not _is_behind(one, version):
            return "affected", one
    mended = (one for one in ranges if one.fixed and version >= numbers(one.fixed) and _is_of_branch(one, version))
    last = max(mended, key=lambda one: numbers(one.fixed), default=None)
    return ("fixed", last) if last else ("outside", None)


def _is_of_branch(one: Range, version: Numbers) -> bool:
    """Whether a version is of the stable branch of a fix: of later ones of Linux itself the range does not tell."""
    return one.line != MAINLINE or version[:2] == numbers(one.fixed)[:2]


def _is_behind(one: Range, version: Numbers) -> bool:
    """Whether a version is later than a range; `last: 6.8` has all of 6.8."""
    if one.fixed:
        return version >= numbers(one.fixed)
    end = numbers(one.last)
    return bool(end) and version[: len(end)] > end
