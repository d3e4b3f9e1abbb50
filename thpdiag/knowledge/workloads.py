"""Workloads (workloads.yaml): figures in the output of load generators and programs, options of programs for huge
pages, and changes by operators between two measurements.
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
    """A line of output with a figure of the work done.

    `heading` names the lines below it, `under` the heading above. Without `tool`, any program may print it.
    """

    line: re.Pattern[str]
    tool: str = ""
    unit: str = ""
    of: str = ""
    heading: str = ""
    under: str = ""


class WorkLines(NamedTuple):
    """Patterns of the output of load generators and programs; see workloads.yaml."""

    figures: tuple[Figure, ...]
    opens: re.Pattern[str]
    rest: re.Pattern[str]
    units: Mapping[str, float]
    warms: frozenset[str]


class Switches(NamedTuple):
    """Patterns and values of program options, on command lines and in files, and of changes by operators."""

    own: tuple[tuple[re.Pattern[str], str], ...]
    configured: tuple[tuple[re.Pattern[str], str], ...]
    changes: tuple[tuple[re.Pattern[str], str], ...]


@cache
def work_lines() -> WorkLines:
    """Return the compiled figures."""
    data = load_shipped("workloads.yaml")
    lines = [
        row | {"line": _PLACE.sub(lambda name: f"(?P<{name[1]}>{_NUMBER})", row["line"])} for row in data["figures"]
    ]
    opening = [row["line"] for row in lines if row.get("tool") and not row.get("under")]
    anonymous = [re.sub(r"\(\?P<\w+>", "(?:", line) for line in opening]
    return WorkLines(
        figures=tuple(Figure(**row | {"line": re.compile(row["line"], re.ASCII)}) for row in lines),
        opens=re.compile("|".join(f"(?:{_from_start(line)})" for line in (*anonymous, data["opens"])), re.ASCII),
        rest=re.compile("|".join(f"(?:{line})" for line in data["rest"]), re.ASCII),
        units=data["units"],
        warms=frozenset(tool for tool, row in data["tools"].items() if row["warms"]),
    )


@cache
def switches() -> Switches:
    """Return the compiled options and changes."""
    data = load_shipped("workloads.yaml")
    return Switches(
        own=tuple((re.compile(rf"(?<!\S){word}"), value) for row in data["own"] for value, word in row.items()),
        configured=tuple(
            (re.compile(rf"(?<![\w-]){word}"), value)
            for row in (*data["own"], *data["configured"])
            for value, word in row.items()
        ),
        changes=tuple((re.compile(row["command"]), row["what"]) for row in data["changes"]),
    )


def _from_start(pattern: str) -> str:
    """Return a pattern for `match` that is equivalent to one for `search`."""
    return pattern.removeprefix("^") if pattern.startswith("^") else f".{{0,400}}?{pattern}"


def own_switch(command: str) -> tuple[str, str]:
    """Return a command without the program's option for huge pages, and its value: always, never, or empty.

    >>> own_switch("java -XX:+UseTransparentHugePages -jar a.jar")
    ('java -jar a.jar', 'always')
    """
    for pattern, value in switches().own:
        if option := pattern.search(command):
            return " ".join(f"{command[: option.start()]} {command[option.end() :]}".split()), value
    return " ".join(command.split()), ""


def configured_switch(text: str) -> str:
    """Return the value of the last option in a configuration: always, madvise, never, default, or empty."""
    options = ((match.start(), value) for pattern, value in switches().configured for match in pattern.finditer(text))
    return max(options, default=(0, ""))[1]


def changes_of(command: str) -> list[tuple[str, str]]:
    """Return the changes that a command makes on the host, with their object: ("restart", "mysqld")."""
    changes = ((pattern.search(command), kind) for pattern, kind in switches().changes)
    return [(kind, (match.groupdict().get("of") or "").removesuffix(".service")) for match, kind in changes if match]
