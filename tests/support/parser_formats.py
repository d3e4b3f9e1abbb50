"""The content of `thpdiag/parsers/formats.json`, how each format begins, from the modules of all parsers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from re import _constants as opcodes  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from thpdiag.model.parser import BulkParser, Parser
from thpdiag.parsers import constants


def describe_formats() -> str:
    """Return the text of the file."""
    tables: dict[str, list[dict[str, Any]]] = {"lines": [], "bytes": []}
    for module, constant, parser in constants():
        row: dict[str, Any] = {"name": parser.name, "module": module, "constant": constant}
        if isinstance(parser, BulkParser):
            row |= _pattern(parser.opens) | {"min_size": parser.min_size}
        else:
            row |= _pattern(parser.opens) | {"words": required_words(parser.opens)}
            row |= {"suffixes": [path.pattern for path in parser.paths], "priority": parser.priority}
        tables["lines" if isinstance(parser, Parser) else "bytes"].append({k: v for k, v in row.items() if v})
    return json.dumps(tables, indent=1, ensure_ascii=False) + "\n"


def _pattern(opens: re.Pattern[Any] | None) -> dict[str, Any]:
    if opens is None:
        return {}
    starts = opens.pattern
    text = starts if isinstance(starts, str) else starts.decode("latin-1")
    return {"starts": text, "flags": opens.flags & ~re.UNICODE}


def required_words(pattern: re.Pattern[str] | None) -> list[str]:
    """Return words of which every matching text contains one; empty if the pattern has no such words."""
    if pattern is None or pattern.flags & re.IGNORECASE:
        return []
    return sorted(_required(_parser.parse(pattern.pattern, pattern.flags)) or ())


def _required(items: Iterable[tuple[Any, Any]]) -> set[str] | None:
    """Return the best set of words that parts of a sequence require: the longest words, then the fewest."""
    found: list[set[str]] = []
    run = ""
    for opcode, argument in (*items, (None, None)):
        if opcode is opcodes.LITERAL:
            run += chr(argument)
            continue
        if run:
            found.append({run})
            run = ""
        if opcode is opcodes.IN and all(kind is opcodes.LITERAL for kind, _ in argument):
            found.append({chr(code) for _, code in argument})
        parts = [_required(part) for part in _parts(opcode, argument)]
        if parts and all(parts):
            found.append(set().union(*(words for words in parts if words)))
    return max(found, key=lambda words: (min(map(len, words)), -len(words)), default=None)


def _parts(opcode: Any, argument: Any) -> list[Any]:
    """Return alternatives of which every match contains one."""
    if opcode is opcodes.BRANCH:
        return list(argument[1])
    if opcode is opcodes.SUBPATTERN and not argument[1] & re.IGNORECASE:
        return [argument[-1]]
    if opcode in (opcodes.MAX_REPEAT, opcodes.MIN_REPEAT, opcodes.POSSESSIVE_REPEAT) and argument[0] > 0:
        return [argument[2]]
    return [argument] if opcode is opcodes.ATOMIC_GROUP else []
