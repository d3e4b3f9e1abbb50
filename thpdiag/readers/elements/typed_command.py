"""The command line above a table: what was typed says the interval and the units that the table does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from thpdiag.readers.elements.quantities import number

_ENDS = re.compile(r"[|;&<>#]")


@dataclass(frozen=True, slots=True)
class Typed:
    """Options (letter or long name -> value, empty for switches) and the positional arguments of one program."""

    options: dict[str, str]
    arguments: tuple[str, ...]

    def interval(self) -> float | None:
        """The first bare number (`vmstat 5`, `pidstat -r 2 30`), in seconds."""
        found = next((number(a) for a in self.arguments if number(a) is not None), None)
        return found or None


@lru_cache(64)  # a recorder gives the same command to each of its blocks
def typed(command: str, program: str, with_value: str = "") -> Typed | None:
    """The arguments of `program` in a command line, None if it is not in it.

    `with_value` are the option letters that take a value. Wrappers before the program (sudo, nohup, timeout 60) are
    skipped, what follows a pipe or a redirection does not belong to it.
    """
    words = _ENDS.split(command, maxsplit=1)[0].split()
    at = next((i for i, word in enumerate(words) if word.rpartition("/")[2] == program), None)
    if at is None:
        return None
    options: dict[str, str] = {}
    arguments: list[str] = []
    rest = iter(words[at + 1 :])
    for word in rest:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            options[name] = value if equals else (next(rest, "") if name == "unit" else "")
        elif word.startswith("-") and len(word) > 1:
            _letters(word[1:], with_value, rest, options)
        else:
            arguments.append(word)
    return Typed(options, tuple(arguments))


def _letters(cluster: str, with_value: str, rest: Iterator[str], options: dict[str, str]) -> None:
    """`-wS M`, `-SM`, `-i2`: letters up to the first that takes a value; what follows it is the value."""
    for at, letter in enumerate(cluster):
        if letter in with_value:
            options[letter] = cluster[at + 1 :] or next(rest, "")
            return
        options[letter] = ""
