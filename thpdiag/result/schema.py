"""The JSON Schema of the result document, and the document with every key that the schema knows.

The schema itself is `result.schema.json` beside this file (draft 2020-12); it changes only with its version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

Schema = Mapping[str, Any]


def schema() -> dict[str, Any]:
    """The schema as a fresh dict."""
    loaded: dict[str, Any] = json.loads(_text())
    return loaded


def completed(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with every absent key present and empty: lists and maps without items, else None.

    Reports read the completed document, so that they need no case for each key that may be absent. Keys that the
    schema does not know are left out.
    """
    root = schema()
    full: dict[str, Any] = _complete(document, root, root)
    return full


@cache
def _text() -> str:
    return files("thpdiag.result").joinpath("result.schema.json").read_text(encoding="utf-8")


def _resolved(part: Schema, root: Schema) -> Schema:
    """The schema that `$ref` points at; ours points nowhere but to the root and to `$defs`."""
    ref: str | None = part.get("$ref")
    if ref is None:
        return part
    target: Schema = root if ref == "#" else root["$defs"][ref.rpartition("/")[2]]
    return target


def _complete(value: object, part: Schema, root: Schema) -> Any:
    part = _resolved(part, root)
    if isinstance(value, Mapping):
        return _complete_object(value, part, root)
    if isinstance(value, list | tuple):
        items = part.get("items")
        if not isinstance(items, Mapping) or _flat(items, root):
            return list(value)
        return [_complete(item, items, root) for item in value]
    return value if value is not None else _empty(part, root)


def _flat(part: Schema, root: Schema) -> bool:
    """Whether there is nothing to complete in it, however deep: thousands of points are rows of numbers."""
    part = _resolved(part, root)
    if part.get("type") == "object" or "properties" in part or "additionalProperties" in part:
        return False
    items = part.get("items")
    return not isinstance(items, Mapping) or _flat(items, root)


def _complete_object(value: Mapping[str, Any], part: Schema, root: Schema) -> dict[str, Any]:
    properties: Schema = part.get("properties", {})
    full = {key: _complete(value.get(key), sub, root) for key, sub in properties.items()}
    more = part.get("additionalProperties")
    if isinstance(more, Mapping):  # a map: names to values of one kind
        full.update({key: _complete(item, more, root) for key, item in value.items() if key not in properties})
    return full


def _empty(part: Schema, root: Schema) -> Any:
    """What stands for an absent value; a nullable object stays None, so that it can be told from an empty one."""
    kind = part.get("type")
    if kind == "array":
        return []
    return _complete_object({}, part, root) if kind == "object" else None
