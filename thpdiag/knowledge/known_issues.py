"""Known issues (known_issues/*.yaml): defects of kernels and applications related to huge pages, with affected versions
and workarounds. docs/how-to/add-a-known-issue.md describes the keys.

Versions are compared number by number. A kernel belongs to a line of successive releases, and versions of different
lines are never compared, because distributions backport single changes to kernels that keep their old number.

    el9_4, el9       5.14.0-427.13.1.el9_4    a minor release with its updates, and the major release
    sles15.6         6.4.0-150600.23.87-default
    ubuntu6.8        6.8.0-45-generic         the kernels named generic and lowlatency, whose numbers are one series
    uek5.15          5.15.0-206.153.7.el9uek
    mainline         6.8.9, 6.8.9-300.fc40, 6.1.90-99.173.amzn2023, Debian's by its own version (6.1.90)

Source of the version formats: packages of the distributions, as in the output of `uname -r` and `uname -v`.
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
# In the order in which they are listed.
HARMS = ("data", "hang", "stall", "slow", "memory", "settings", "crash", "figures", "security")

Numbers = tuple[int, ...]
_NUMBERS = re.compile(r"\d{1,7}(?:[.-]\d{1,7}){0,9}")
_LINES = (  # the first match counts; groups are inserted into the name of the line
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
    """Versions of one line (empty for an application) from `since` up to, but not including, `fixed`.

    Without `fixed`, no fix is known, and `last` is the last version known to be affected.
    """

    line: str
    since: str = ""
    fixed: str = ""
    last: str = ""


class Workaround(NamedTuple):
    """A workaround: `sets` are settings and values, as in remedies.yaml; `back` the values that undo them.

    `run` and `undo` are further commands. `until` states when to undo it.
    """

    sets: Mapping[str, Any] = {}
    back: Mapping[str, str] = {}
    run: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    remedy: str = ""
    until: str = ""


class KnownIssue(NamedTuple):
    """A known issue. `needs`: conditions on facts by name: one_of, least, most, from, below (versions), matches (RE2).

    `mended` names the component with the fix, if it is neither the kernel nor the application.
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
    """All entries; `date` is the day of the last comparison with their sources."""

    issues: tuple[KnownIssue, ...]
    date: str


def family_names() -> list[str]:
    """Return the names of the catalogue's files."""
    folder = files("thpdiag.knowledge") / FOLDER
    return sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".yaml"))


@cache
def catalogue() -> Catalogue:
    """Load the entries of all families."""
    tables = [(name.removesuffix(".yaml"), load_shipped(f"{FOLDER}/{name}")) for name in family_names()]
    tables += [("packs", table) for table in pack_parts("known_issues.yaml")]
    issues = tuple(_issue(key, row, family) for family, table in tables for key, row in table["issues"].items())
    return Catalogue(issues, max((str(table["checked"]) for _, table in tables), default=""))


def catalogue_words() -> str:
    """Return the date and the number of entries as text."""
    return f"{catalogue().date}, {len(catalogue().issues)} entries"


def line_title(line: str) -> str:
    """Return the title of a line of kernels: `kernel of SLES 15 SP6:`."""
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
        key, **plain, family=family, kernels=tuple(map(_range, row.get("kernels", ()))),
        app=app.get("name", ""), versions=tuple(map(_range, app.get("versions", ()))),
        workaround=Workaround(**work),
    )  # fmt: skip


def _range(row: Mapping[str, Any]) -> Range:
    return Range(*(str(row.get(key, "")) for key in ("on", "from", "fixed", "last")))


# Versions


def numbers(version: str) -> Numbers:
    """Return the numbers at the beginning of a version: 5.14.0-427.13.1.el9_4 is 5, 14, 0, 427, 13, 1."""
    match = _NUMBERS.match(version.lstrip("vV"))
    return tuple(int(number) for number in re.split("[.-]", match[0])) if match else ()


def kernel_version(release: str, build: str = "") -> tuple[tuple[str, ...], Numbers]:
    """Return the lines of a kernel, the most specific first, and its numbers; no line if it is unknown.

    `build` is the output of `uname -v`. On Debian the release has only the ABI, and the build the version.
    """
    for pattern, name in _LINES:
        if match := pattern.match(release):
            line = name.format(*match.groups())
            return ((line, line.partition("_")[0]) if "_" in line else (line,)), numbers(release)
    if match := _DEBIAN.search(build):
        return (MAINLINE,), numbers(match[1])
    return (), ()


def place_in(ranges: tuple[Range, ...], version: Numbers) -> tuple[str, Range | None]:
    """Return whether a version is `affected`, `fixed`, or `outside` of all ranges, and the range that determines it."""
    for versions in ranges:
        if not (versions.since and version < numbers(versions.since)) and not _is_after(versions, version):
            return "affected", versions
    fixed = (r for r in ranges if r.fixed and version >= numbers(r.fixed) and _is_in_branch_of_fix(r, version))
    last = max(fixed, key=lambda versions: numbers(versions.fixed), default=None)
    return ("fixed", last) if last else ("outside", None)


def _is_in_branch_of_fix(versions: Range, version: Numbers) -> bool:
    """Whether a version is in the stable branch of a fix. A range is not valid for other branches of mainline Linux."""
    return versions.line != MAINLINE or version[:2] == numbers(versions.fixed)[:2]


def _is_after(versions: Range, version: Numbers) -> bool:
    """Whether a version is later than a range; `last: 6.8` includes all of 6.8."""
    if versions.fixed:
        return version >= numbers(versions.fixed)
    end = numbers(versions.last)
    return bool(end) and version[: len(end)] > end
