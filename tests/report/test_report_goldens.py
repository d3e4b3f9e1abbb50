"""Golden reports for tickets and CI: each example document in each of these formats, byte for byte.

`BLESS=1` writes them, beside the documents, with the name of the format as suffix.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_schemas import RESULTS, result
from thpdiag.report import FORMATS

GOLDEN = sorted(FORMATS.keys() - {"text", "json", "html"})


@pytest.mark.parametrize("form", GOLDEN)
@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_report_is_the_golden_one(path: Path, form: str) -> None:
    """What others' programs and tickets get changes only on purpose."""
    golden, actual = path.with_suffix(f".{form}"), FORMATS[form](result(path.stem)).encode()
    if os.environ.get("BLESS") == "1":
        golden.write_bytes(actual)
    assert golden.exists(), f"no golden {golden.name}; read what is written, then run with BLESS=1"
    assert actual == golden.read_bytes()
