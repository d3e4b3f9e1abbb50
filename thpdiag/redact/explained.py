"""The document of `thpdiag explain` without what belongs to the customer. What the rule itself says is ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thpdiag.redact.document import learnt, string
from thpdiag.redact.names import Names
from thpdiag.redact.words import Words

# Answers, names of the vocabulary and words of a rule; a state is named after the line that begins it
_FIXED = frozenset({"value", "name", "op", "class", "word", "level", "unit", "check"})


def redacted_explanation(document: Mapping[str, Any], result: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """The explanation with pseudonyms; `result` is that of the same input, which knows what is a host or a program."""
    words = learnt([result], names)[0]
    tool = dict(document["tool"])
    options = {name: words.line(value) for name, value in tool["options"].items()}
    hosts = [_value(host, "", words) for host in document["hosts"]]
    return {**document, "hosts": hosts, "tool": {**tool, "options": options, "redacted": True}}


def _value(value: Any, key: str, words: Words) -> Any:
    if isinstance(value, Mapping):
        return {name: _value(item, key if key == "settings" else name, words) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_value(item, key, words) for item in value]
    if not isinstance(value, str) or key in _FIXED:
        return value
    if key in ("source", "settings"):
        return words.line(value)
    if key in ("notes", "by"):
        return words.sentence(value)
    return words.place(value) if key == "id" else string(value, key, words)
