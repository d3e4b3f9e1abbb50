"""A document as JSON: sorted keys, ASCII only, the same bytes for the same document.

Whatever is not printable ASCII is written as \\uXXXX, so that no hostile name acts on a terminal. NaN and the
infinities are no JSON and become null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from json.encoder import encode_basestring_ascii
from operator import itemgetter
from typing import Any

from thpdiag.model.document import Document, json_keys
from thpdiag.report.presentation import PLAIN, Presentation

_NUMBERS, _LISTS = (int, float), (list, tuple)


def render(document: Document | Mapping[str, Any], _presentation: Presentation = PLAIN) -> str:
    return to_json(document)


def to_json(value: object) -> str:
    """Any value in this form, for the formats that are JSON of another shape."""
    return _json(value, "\n") + "\n"


def _json(value: object, margin: str) -> str:
    """What `json.dumps` writes with an indent of 1, in a third of the time: Python encodes that with no help of C."""
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if value is None or isinstance(value, _NUMBERS):
        return "null" if isinstance(value, float) and not math.isfinite(value) else json.dumps(value)
    inner = margin + " "
    if isinstance(value, _LISTS):
        items = [_json(item, inner) for item in value]
        return f"[{inner}{(',' + inner).join(items)}{margin}]" if items else "[]"
    if isinstance(value, Document):
        values, is_set = value.__dict__, value.model_fields_set
        items = [opening + _json(values[name], inner) for name, opening in _openings(type(value)) if name in is_set]
    elif isinstance(value, Mapping):
        items = [f"{encode_basestring_ascii(str(key))}: {_json(value[key], inner)}" for key in sorted(value)]
    else:
        return json.dumps(value)
    return f"{{{inner}{(',' + inner).join(items)}{margin}}}" if items else "{}"


@cache
def _openings(model: type[Document]) -> Sequence[tuple[str, str]]:
    """The fields of a document in the order of their keys, with how each begins."""
    return sorted(((name, f'"{key}": ') for name, key in json_keys(model).items()), key=itemgetter(1))


def fill_lists(frame: Mapping[str, Any], lists: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """`to_json(frame)` in pieces; its empty lists of these names, of which none is there twice, have these items.

    A quote within a string is written as \\", so that no string of a stranger looks like the name of a list.
    """
    text = to_json(frame)
    for name in sorted(lists, key=lambda name: text.index(f'"{name}": []')):
        before, sign, text = text.partition(f'"{name}": []')
        yield before + sign.removesuffix("[]")
        yield from json_list(lists[name], len(before) - before.rfind("\n") - 1)
    yield text


def json_list(items: Iterable[str], depth: int = 0) -> Iterator[str]:
    """A list of `to_json` values in the same form, a piece for each; its own line begins with `depth` spaces."""
    margin, opening = "\n" + " " * (depth + 1), "["
    for item in items:
        yield opening + margin + item.rstrip("\n").replace("\n", margin)
        opening = ","
    yield "[]" if opening == "[" else margin[:-1] + "]"
