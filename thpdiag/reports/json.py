"""The result document as JSON: sorted keys, ASCII only, the same bytes for the same document.

Whatever is not printable ASCII is written as \\uXXXX, so that no hostile name acts on a terminal. NaN and the
infinities are no JSON and become null.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from thpdiag.json_text import plain
from thpdiag.reports.presentation import PLAIN, Presentation

FORMAT = "json"


def render(document: Mapping[str, Any], _presentation: Presentation = PLAIN) -> str:
    return written(document)


def written(value: object) -> str:
    """Any value in this form, for the formats that are JSON of another shape."""
    return json.dumps(plain(value), sort_keys=True, indent=1, allow_nan=False) + "\n"


def filled(frame: Mapping[str, Any], lists: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """`written(frame)` in pieces; its empty lists of these names, of which none is there twice, have `listed` items.

    A quote within a string is written as \\", so that no string of a stranger looks like the name of a list.
    """
    text = written(frame)
    for name in sorted(lists, key=lambda name: text.index(f'"{name}": []')):
        before, sign, text = text.partition(f'"{name}": []')
        yield before + sign.removesuffix("[]")
        yield from listed(lists[name], len(before) - before.rfind("\n") - 1)
    yield text


def listed(items: Iterable[str], depth: int = 0) -> Iterator[str]:
    """A list of `written` values in the same form, a piece for each; its own line begins with `depth` spaces."""
    margin, opening = "\n" + " " * (depth + 1), "["
    for item in items:
        yield opening + margin + item.rstrip("\n").replace("\n", margin)
        opening = ","
    yield "[]" if opening == "[" else margin[:-1] + "]"
