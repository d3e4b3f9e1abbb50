"""Which part of a collector copies what, and since which version (collectors.yaml)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from thpdiag.knowledge.yaml_nodes import shipped


@dataclass(frozen=True, slots=True)
class Copied:
    """Something that sos copies.

    `what` names the file or command for people; `paths` are its paths on the host, one of which is there if it was
    copied; `command` matches what sos runs for it, None for a file; `since` is the first version that has it, or empty.
    """

    names: re.Pattern[str]
    plugins: tuple[str, ...]
    what: str
    paths: re.Pattern[str]
    command: re.Pattern[str] | None
    since: str


@cache
def _sos() -> tuple[Copied, ...]:
    return tuple(
        Copied(
            re.compile(row["names"]),
            tuple(row["plugins"]),
            row["what"],
            re.compile(row["paths"]),
            re.compile(row["command"]) if "command" in row else None,
            row.get("since", ""),
        )
        for row in shipped("collectors.yaml")["sos"]
    )


def copied(name: str) -> Copied | None:
    """How sos gets a name of the vocabulary, None if it does not."""
    return next((row for row in _sos() if row.names.fullmatch(name)), None)


def of_interest(plugin: str, command: str = "") -> bool:
    """Whether a plugin of sos, or one of its commands, copies anything that a name of the vocabulary stands for."""
    rows = [row for row in _sos() if plugin in row.plugins]
    return any(not command or (row.command is not None and row.command.fullmatch(command)) for row in rows)


def older(version: str, than: str) -> bool:
    """Whether a version of sos is older than another, by its numbers; what has no number is older than none."""
    one, other = (tuple(int(part[:6]) for part in re.findall(r"\d+", text)[:3]) for text in (version, than))
    return bool(one) and one[: len(other)] < other
