"""The JSON Schemas that the package ships are those of the models."""

import json
import os
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from thpdiag.model import explanation, result

SCHEMAS = {"result.schema.json": result.schema, "explain.schema.json": explanation.schema}


def _lines(schema: dict[str, Any]) -> Iterator[str]:
    """One line for each key of each object."""
    yield "{"
    parts = list(schema.items())
    for number, (key, part) in enumerate(parts):
        comma = "," if number + 1 < len(parts) else ""
        if key in ("properties", "$defs"):
            rows = [f"  {json.dumps(name)}: {json.dumps(sub)}" for name, sub in part.items()]
            yield f"{json.dumps(key)}: {{"
            yield from (f"{row}," for row in rows[:-1])
            yield f"{rows[-1]}\n}}{comma}"
        else:
            yield f"{json.dumps(key)}: {json.dumps(part)}{comma}"
    yield "}\n"


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_the_schema_that_is_shipped_is_that_of_the_model(name: str) -> None:
    """BLESS=1 writes it anew."""
    made: Callable[[], dict[str, Any]] = SCHEMAS[name]
    text, path = "\n".join(_lines(made())), Path(str(files("thpdiag.model").joinpath(name)))
    if os.environ.get("BLESS") == "1":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text
