"""How evidence from call stacks reads: which functions are named, what a share fell short of, no chart of one point."""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from analyze_bytes import STRICT, rules
from profile_stacks import RECORDING
from thpdiag.engine.stacks import format_stack
from thpdiag.model.result import Evidence
from thpdiag.pipeline import analyze
from thpdiag.report import html, messages


@cache
def recorded() -> dict[str, Any]:
    """Five seconds, 107 samples."""
    with TemporaryDirectory() as folder:
        for name in ("perf.data", "kallsyms"):
            shutil.copy(RECORDING / name, Path(folder))
        return analyze([Path(folder)], rules(), STRICT)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("a b", "a < b"),
        ("a b c d e f g h", "a < b < c < d < ... < h"),
        ("a b c d e f g h [unknown] [unknown]", "a < b < c < d < ... < h"),
        ("a [unknown] b [unknown]", "a < [unknown] < b"),
        ("[unknown] [unknown]", "[unknown] < [unknown]"),
    ],
)
def test_callers_without_a_name_are_left_out(names: str, text: str) -> None:
    """The outermost function with a name tells how the kernel was entered; the program's address tells nothing."""
    assert format_stack(names.split()) == text


def test_a_no_says_what_the_share_fell_short_of() -> None:
    """Else 13.1 % would seem to speak for what it rules out."""
    said = {other["rule"]: other["because"] for other in recorded()["ruled_out"]}
    assert "13.1 %" in said["ALT-16"]
    assert ", less than 30 %, most in" in said["ALT-16"]
    assert said["ALT-07"].endswith("are in JVM garbage collection (top frame)")  # 0.0 %: nothing to compare


def test_a_recording_of_one_bucket_has_no_chart() -> None:
    """A single point is no course over time."""
    assert recorded()["profiles"][0]["signatures"]
    assert recorded()["timeline"]["series"] == []


def test_a_place_is_cited_once() -> None:
    """Several checks of one rule look at the same recording."""
    cited = (("b", 1), ("a", None), ("b", 1), ("", None))
    places = [Evidence.model_validate({"member": member, "line": line}) for member, line in cited]
    assert messages.places(places) == places[:2]
    page = html.render(recorded())
    assert '<code class="place">perf.data</code>' in page
    assert not re.search(r'(<code class="place">perf.data</code>)\s*\1', page)
