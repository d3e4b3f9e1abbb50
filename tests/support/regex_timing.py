"""Runs every regular expression of thpdiag on text that is made to lead it astray; started by test_patterns.py.

    python regex_timing.py 2000

For each pattern words are grown from its own parts and one part is repeated to the given length, then a character that
fits nowhere follows. The name of the pattern is printed before it runs, so that the last line names the one that never
ended.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
import re
import sys
from collections.abc import Iterator
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import thpdiag

PLAIN = (
    " ",
    "a",
    "1",
    "-",
    ".",
    "/",
    "a ",
    "1 ",
    "a:",
    "(",
    "=",
    ";",
    "0x1 ",
    "%",
    "|",
    '"',
    ">",
    "> ",
    ": ",
    ",",
    "[a] ",
    "a/",
)
SEARCHED = 400  # characters for patterns that are tried at every place
WORDS = 12  # grown from each pattern


def patterns() -> dict[str, re.Pattern[str]]:
    """All compiled patterns of all modules, by the module and name where they stand."""
    found: dict[str, re.Pattern[str]] = {}
    for module in pkgutil.walk_packages(thpdiag.__path__, "thpdiag."):
        if not module.name.endswith("__main__"):
            for name, value in vars(importlib.import_module(module.name)).items():
                found |= {f"{module.name}.{name}{key}": p for key, p in _within(value, "")}
    return found


def _within(value: Any, key: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield key, value
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _within(item, f"{key}[{number}]")
    elif isinstance(value, dict):
        for word, item in value.items():
            yield from _within(item, f"{key}[{word}]")
    elif type(value).__name__ == "Parser":
        yield from _within((value.opens, value.paths), key)


def grown(tree: Any, choice: random.Random) -> str:
    """A text that the pattern may begin to match."""
    return "".join(_part(str(op), argument, choice) for op, argument in tree)


def _part(op: str, argument: Any, choice: random.Random) -> str:
    match op:
        case "LITERAL":
            return chr(argument)
        case "ANY" | "NOT_LITERAL":
            return choice.choice("a 1:.")
        case "IN":
            return _one_of(argument, choice)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            low, high, inner = argument
            times = low if low == high else min(int(high), low + choice.randrange(3))
            return "".join(grown(inner, choice) for _ in range(min(times, 20)))
        case "SUBPATTERN":
            return grown(argument[3], choice)
        case "ATOMIC_GROUP":
            return grown(argument, choice)
        case "BRANCH":
            return grown(choice.choice(argument[1]), choice)
    return ""


def _one_of(items: Any, choice: random.Random) -> str:
    op, argument = choice.choice(items)
    match str(op):
        case "LITERAL":
            return chr(argument)
        case "RANGE":
            return chr(argument[0])
        case "CATEGORY":
            return {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a"}.get(str(argument), "-")
    return choice.choice("a 1")


def astray(pattern: re.Pattern[str], length: int) -> Iterator[str]:
    """Texts of that length: plain ones, and the pattern's own with one part repeated."""
    choice = random.Random(len(pattern.pattern))
    for plain in PLAIN:
        yield plain * (length // len(plain)) + "\x01"
    for _ in range(WORDS):
        word = grown(_parser.parse(pattern.pattern, pattern.flags), choice) or "a"
        start = choice.randrange(len(word))
        part = word[start : choice.randrange(start, len(word)) + 1]
        yield word[:start] + part * (length // len(part)) + "\x01"
        yield word * (length // len(word)) + "\x01"


if __name__ == "__main__":
    every = patterns()
    for place, pattern in sorted(every.items()):
        print(place, flush=True)
        for text in astray(pattern, int(sys.argv[1])):
            pattern.match(text)
            pattern.search(text[-SEARCHED:])
    print(f"{len(every)} patterns")
