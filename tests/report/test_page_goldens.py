"""Golden pages: the same document gives the same page, byte for byte, on every machine and in every process.

The goldens lie beside the documents. What differs with the version of zlib, the packed result, stands in them unpacked
as its digest; style and script stand as their names, for they are read as what they are. `BLESS=1` writes them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from markupsafe import escape

from ci_schemas import RESULTS
from thpdiag.model.document import compact
from thpdiag.report.html import from_page, opening, policy, render, script, style

RENDERED = """
import json, sys
from hashlib import sha256
from thpdiag.report.html import render
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        print(sha256(render(json.load(file)).encode()).hexdigest())
"""


def _told(page: str) -> str:
    """The page with its unchanging parts by name and its data by what they are unpacked."""
    data = page.partition('id="result">')[2].partition("</script>")[0]
    digest = sha256(compact(from_page(page)).encode()).hexdigest()
    for text, name in (
        (data, f"result {digest}"),
        (opening(), "opening"),
        (script(), "script"),
        (style(), "style"),
        (escape(policy()), "policy"),
    ):
        assert page.count(text) == 1, name
        page = page.replace(text, f"[{name}]")
    return page


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_page_is_the_golden_one(path: Path) -> None:
    """What people read changes only on purpose."""
    golden, actual = path.with_suffix(".html"), _told(render(json.loads(path.read_text(encoding="utf-8")))).encode()
    if os.environ.get("BLESS") == "1":
        golden.write_bytes(actual)
    assert golden.exists(), f"no golden {golden.name}; read what is written, then run with BLESS=1"
    assert actual == golden.read_bytes()


def test_another_process_makes_the_same_page() -> None:
    """Neither the order of sets nor anything else of the process is seen in a page."""
    ours = [sha256(render(json.loads(path.read_text(encoding="utf-8"))).encode()).hexdigest() for path in RESULTS]
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", RENDERED, *map(str, RESULTS)],
            capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        assert done.stdout.split() == ours
