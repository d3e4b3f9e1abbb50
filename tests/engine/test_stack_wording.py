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


FLAT = """# Samples: 1K of event 'cycles'
#
# Overhead  Command          Shared Object      Symbol
# ........  ...............  .................  ......
#
    70.00%  {first}  [kernel.kallsyms]  [k] __pageblock_pfn_to_page
    18.00%  {first}  [kernel.kallsyms]  [k] compact_zone
     2.00%  java             libc.so.6          [.] malloc
"""
ALWAYS = {"enabled": "[always] madvise never", "defrag": "[always] defer defer+madvise madvise never"}


def judged(folder: Path, report: str) -> dict[str, Any]:
    """The result on a text of perf report beside the settings that let page faults compact."""
    settings = folder / "sys/kernel/mm/transparent_hugepage"
    settings.mkdir(parents=True)
    for name, value in ALWAYS.items():
        (settings / name).write_text(value + "\n")
    (folder / "perf-report.txt").write_text(report)
    return analyze([folder], rules(), STRICT)


def test_a_flat_profile_says_that_it_cannot_tell_callers(tmp_path: Path) -> None:
    """What a text without callers, or with a part of the rows, does not show is not 0.0 %."""
    result = judged(tmp_path, FLAT.format(first="java           "))
    assert (result["verdict"]["rule"], result["verdict"]["confidence"]) == ("THP-019", "possible")
    (under_faults,) = (rule["tree"] for rule in result["rules"] if rule["id"] == "THP-010")
    compacting = under_faults["children"][0]
    assert compacting["value"] == "unknown"
    assert "cannot be determined from this source" in compacting["text"]
    texts = str([result["ruled_out"], [r["tree"] for r in result["rules"] if "tree" in r]])
    assert not re.search(r"\b0\.0 % of the non-idle samples (?!that are listed)", texts)
    shares = [e for other in result["ruled_out"] for e in other["evidence"] if "non-idle samples" in e["text"]]
    assert shares
    assert all(e.get("value") != 0.0 for e in shares)


@pytest.mark.parametrize("task", ["kcompactd0     ", "khugepaged     ", "kswapd0        "])
def test_compaction_of_the_kernels_own_threads_is_not_that_of_programs(tmp_path: Path, task: str) -> None:
    """Each of them has its own mechanism."""
    assert "THP-019" not in {f["rule"] for f in judged(tmp_path, FLAT.format(first=task))["findings"]}


def test_rows_that_do_not_name_their_task_leave_it_open(tmp_path: Path) -> None:
    """perf report --sort symbol: whose compaction it is cannot be told."""
    report = "\n".join(line.replace("Command          ", "").replace("{first}  ", "") for line in FLAT.splitlines())
    result = judged(tmp_path, report.replace("java             ", ""))
    (rule,) = (r for r in result["rules"] if r["id"] == "THP-019")
    assert rule["outcome"] == "unknown"


def test_a_text_with_callers_decides_it_instead(tmp_path: Path) -> None:
    """A flat text of the same recording tells less."""
    for name in ("report-none.txt", "report-caller.txt"):
        shutil.copy(RECORDING / name, tmp_path)
    assert "THP-019" not in {f["rule"] for f in judged(tmp_path, "no recording here\n")["findings"]}
