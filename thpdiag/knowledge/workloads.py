"""Work that is measured: figures that load generators and programs print, a program's own switch for huge pages, and
what people change on a host between two measurements (workloads.yaml).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from thpdiag.knowledge.yaml_nodes import load_shipped

# The number of `{name}` in a pattern, without thousands of digits and without a sign.
_NUMBER = r"\d{1,15}(?:\.\d{1,12})?"
_PLACE = re.compile(r"\{([a-z]\w*)\}")


class Figure(NamedTuple):
    """A line that tells something of the work done.

    `heading` names the lines below it, `under` the heading above. Without a `tool` any program prints it.
    """

    line: re.Pattern[str]
    tool: str = ""
    unit: str = ""
    of: str = ""
    heading: str = ""
    under: str = ""


class WorkLines(NamedTuple):
    """What load generators and programs print of their work: see workloads.yaml."""

    figures: tuple[Figure, ...]
    opens: re.Pattern[str]
    rest: re.Pattern[str]
    units: Mapping[str, float]
    warms: frozenset[str]


class Switches(NamedTuple):
    """Patterns with what they mean: a program's own switch on its command line and in files, and changes by people."""

    own: tuple[tuple[re.Pattern[str], str], ...]
    configured: tuple[tuple[re.Pattern[str], str], ...]
    changes: tuple[tuple[re.Pattern[str], str], ...]


@cache
def work_lines() -> WorkLines:
    """The figures, compiled."""
    known = load_shipped("workloads.yaml")
    lines = [
        row | {"line": _PLACE.sub(lambda name: f"(?P<{name[1]}>{_NUMBER})", row["line"])} for row in known["figures"]
    ]
    opening = [row["line"] for row in lines if row.get("tool") and not row.get("under")]
    anonymous = [re.sub(r"\(\?P<\w+>", "(?:", line) for line in opening]
    return WorkLines(
        figures=tuple(Figure(**row | {"line": re.compile(row["line"], re.ASCII)}) for row in lines),
        opens=re.compile("|".join(f"(?:{_from_start(line)})" for line in (*anonymous, known["opens"])), re.ASCII),
        rest=re.compile("|".join(f"(?:{line})" for line in known["rest"]), re.ASCII),
        units=known["units"],
        warms=frozenset(tool for tool, row in known["tools"].items() if row["warms"]),
    )


@cache
def switches() -> Switches:
    """The switches and changes, compiled."""
    known = load_shipped("workloads.yaml")
    return Switches(
        own=tuple((re.compile(rf"(?<!\S){word}"), value) for row in known["own"] for value, word in row.items()),
        configured=tuple(
            (re.compile(rf"(?<![\w-]){word}"), value)
            for row in (*known["own"], *known["configured"])
            for value, word in row.items()
        ),
        changes=tuple((re.compile(row["command"]), row["what"]) for row in known["changes"]),
    )


def _from_start(pattern: str) -> str:
    """The pattern for a match, not a search."""
    return pattern.removeprefix("^") if pattern.startswith("^") else f".{{0,400}}?{pattern}"


def own_switch(command: str) -> tuple[str, str]:
    """A command without a program's own switch for huge pages, and what that says: always, never, or nothing.

    >>> own_switch("java -XX:+UseTransparentHugePages -jar a.jar")
    ('java -jar a.jar', 'always')
    """
    for pattern, value in switches().own:
        if found := pattern.search(command):
            return " ".join(f"{command[: found.start()]} {command[found.end() :]}".split()), value
    return " ".join(command.split()), ""


def configured_switch(text: str) -> str:
    """What the last of such switches in a configuration says: always, madvise, never, default, or nothing."""
    found = ((match.start(), value) for known, value in switches().configured for match in known.finditer(text))
    return max(found, default=(0, ""))[1]


def changes_of(command: str) -> list[tuple[str, str]]:
    """What a command changes on the host, and of what: ("restart", "mysqld")."""
    found = ((pattern.search(command), what) for pattern, what in switches().changes)
    return [(what, (match.groupdict().get("of") or "").removesuffix(".service")) for match, what in found if match]
