"""Documents cut in two: values, which refactoring must not change, and sentences, whose wording may change.

In the values a sentence stands as its figures: numbers with their units, sorted, so that other words or another
order of words change nothing, and another figure does. Which strings are sentences is decided by their key.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

SENTENCES = frozenset(
    {
        "because", "cost", "defect", "definition", "description", "detail", "doubt", "expect",
        "fullDescription", "help", "lasting",
        "markdown", "means", "message", "needed", "note", "notes", "proof", "raise_confidence", "reason", "restart",
        "safety", "sentence", "shortDescription", "summary", "symbols", "text", "title", "what", "when", "why",
    }
)  # fmt: skip
SENTENCES_BELOW = {  # a key that is a sentence only below another one
    "from": ("next_boot",),
    "metric": ("verify",),
    "window": ("measures",),
}
VOLATILE = frozenset({"rules_digest", "version"})  # of the tool: they change with each release and each rule
VOLATILE_BELOW = (("tool",), ("before",), ("after",))  # a result names its tool, a comparison those of both sides
MAX_NUMBERS = 40  # of a longer list of numbers only a digest, the length and the sum are kept
MAX_SPACES = 3  # in a value that is no sentence
MAX_STACKS = 8  # of more stacks only the first ones are kept whole

_NUMBER = r"(?<![\w.])[+\-−]?\d+(?:[.,:/x-]\d+)*"
_UNIT = r"%|‰|[kKMGT]?i?B(?![\w])(?:/s)?|[kMG]?Hz\b|[mnµu]?s\b|min\b|h\b|/s\b|1/s\b"
_FIGURE = re.compile(rf"({_NUMBER})(?:\s?({_UNIT}))?")


def figures(text: str) -> list[str]:
    """The numbers of a text with their units, sorted."""
    return list(_figures(text))


@lru_cache(1 << 16)
def _figures(text: str) -> tuple[str, ...]:
    return tuple(sorted(f"{number} {unit}" if unit else number for number, unit in _FIGURE.findall(text)))


def digest(value: Any) -> str:
    """A short name of any JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]


def separate(document: Any) -> tuple[Any, dict[str, str]]:
    """The values of a document, and its sentences by their place in it."""
    words: dict[str, str] = {}
    return _values(document, (), words), words


def _values(value: Any, path: tuple[str, ...], words: dict[str, str]) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    match value:
        case str() if is_sentence(path, value):
            words[".".join(path)] = value
            return {"figures": figures(value)} if value else ""
        case str() if path[-2:-1] in VOLATILE_BELOW and path[-1] in VOLATILE:
            return "..." if value else value
        case {"rules": list(rules), **rest} if rules and all(
            isinstance(rule, Mapping) and "id" in rule for rule in rules
        ):
            return _values({**rest, "rules": {rule["id"]: rule for rule in rules}}, path, words)
        case Mapping() if path and path[-1] == "odd":  # its keys are sentences
            words.update({".".join((*path, str(i))): key for i, key in enumerate(sorted(value))})
            return sorted([number, *figures(key)] for key, number in value.items())
        case Mapping():
            return {key: _values(item, (*path, key), words) for key, item in value.items()}
        case list():
            return _list(value, path, words)
    return value


def _list(value: list[Any], path: tuple[str, ...], words: dict[str, str]) -> Any:
    if path and path[-1] == "folded" and len(value) > MAX_STACKS:
        return [*value[:MAX_STACKS], _summary(value[MAX_STACKS:])]
    numbers = list(_numbers(value))
    if len(numbers) > MAX_NUMBERS or (path and path[-1] == "heat"):
        return _summary(value)
    return [_values(item, (*path, str(i)), words) for i, item in enumerate(value)]


def _summary(value: list[Any]) -> dict[str, Any]:
    numbers = [number for number in _numbers(value, deep=True) if number is not None]
    return {"digest": digest(value), "length": len(value), "sum": f"{math.fsum(numbers):.9g}"}


def _numbers(value: Any, *, deep: bool = False) -> Iterator[float | None]:
    """The numbers of nested lists; nothing if they hold anything else, unless asked to go on."""
    found: list[float | None] = []
    for item in value:
        if isinstance(item, list):
            found.extend(_numbers(item, deep=deep))
        elif isinstance(item, int | float) or item is None:
            found.append(item)
        elif not deep:
            return
    yield from found


def is_sentence(path: tuple[str, ...], value: str) -> bool:
    """Whether what stands there is a sentence of ours, by its key or by that of the list that it stands in."""
    key = path[-1] if path else ""
    if key.isdecimal():
        key = next((key for key in reversed(path) if not key.isdecimal()), "")
    if key == "value":  # of evidence that is no number and no word
        return "evidence" in path and value.count(" ") > MAX_SPACES
    return key in SENTENCES or any(above in path for above in SENTENCES_BELOW.get(key, ()))


def differences(recorded: Any, actual: Any, path: str = "") -> Iterator[str]:
    """Every place at which two values differ, with both."""
    if recorded == actual:
        return
    if isinstance(recorded, Mapping) and isinstance(actual, Mapping):
        for key in [*recorded, *(key for key in actual if key not in recorded)]:
            if key not in actual:
                yield f"{path}.{key}: is gone, was {_short(recorded[key])}"
            elif key not in recorded:
                yield f"{path}.{key}: is new: {_short(actual[key])}"
            else:
                yield from differences(recorded[key], actual[key], f"{path}.{key}")
    elif isinstance(recorded, list) and isinstance(actual, list) and _pair_up(recorded, actual):
        for i, (old, new) in enumerate(zip(recorded, actual, strict=True)):
            yield from differences(old, new, f"{path}[{i}]")
    elif isinstance(recorded, list) and isinstance(actual, list):
        gone, new = _beside(recorded, actual), _beside(actual, recorded)
        yield f"{path}: {len(recorded)} -> {len(actual)} items; gone: {_short(gone)}; new: {_short(new)}"
    else:
        yield f"{path}: {_short(recorded)} -> {_short(actual)}"


def _pair_up(recorded: list[Any], actual: list[Any]) -> bool:
    """Whether items at the same place of two lists are the same thing: not of words, where one more shifts the rest."""
    return len(recorded) == len(actual) and not all(isinstance(item, str) for item in (*recorded, *actual))


def _beside(items: list[Any], others: list[Any]) -> list[Any]:
    """Items that the other list does not have, or not as often."""
    left = [json.dumps(other, sort_keys=True) for other in others]
    found = []
    for item in items:
        try:
            left.remove(json.dumps(item, sort_keys=True))
        except ValueError:
            found.append(item)
    return found


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}... ({len(text)} characters)"
