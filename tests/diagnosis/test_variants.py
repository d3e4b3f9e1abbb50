"""The same host with other names, times, totals and line ends: what hurts is found again, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from analyze_bytes import document
from conftest import ROOT
from pasted_variants import CHANGED, SHORT, WHOLE, sampled

FIXTURES = ROOT / "fixtures"
SICK = {
    "acceptance/bcachefs-kcompactd/bundle/session.txt": "non-thp-high-order",
    "acceptance/growth-in-pidstat/bundle/session.txt": "khugepaged-bloat",
    "acceptance/leak-of-a-minute/bundle/session.txt": "memory-leak",
    "acceptance/switch-of-a-timed-job/bundle/session.txt": "huge-pages-proven",
    "stories/bioinformatics-ubuntu1404/bundle/session.txt": "allocation-knee",
    "stories/hadoop-centos62/bundle/ticket.txt": "compaction-lock-convoy",
}
HEALTHY = (
    "healthy/database-start/bundle/loop.txt",
    "healthy/light-load/bundle/loops/counters.txt",
    "healthy/pasted-verification/bundle/session.txt",
)
COUNTERS = re.compile(r"(?m)^((?:thp|compact|pg|numa|allocstall|pswp)\w+) (\d+)$")
CAUSES = ("root_cause", "alternative")


def totals(text: str) -> str:
    """The host is up for longer, and counted more before the first look."""
    return COUNTERS.sub(lambda m: f"{m[1]} {int(m[2]) + 10**9}", text)


def hours_later(text: str) -> str:
    """Times in seconds since 1970."""
    return re.sub(r"(?m)^(1[5-7]\d{8})\b", lambda m: str(int(m[1]) + 5 * 3600), text)


def another_program(text: str) -> str:
    return re.sub(r"\b(?:growth|leak|alloc160|churn|grow)\b", "ledgerd", text)


def another_host(text: str) -> str:
    return re.sub(r"\b(?:bio1|vm|db1|demo|host1)\b", "rack7-node12", text)


VARIANTS: tuple[Callable[[str], str], ...] = (
    totals,
    hours_later,
    another_program,
    another_host,
    lambda text: text.replace("\n", "\r\n"),
    lambda text: re.sub(r"(?m)$", "  ", text),
    lambda text: "".join(f"{n}:{line}" for n, line in enumerate(text.splitlines(keepends=True), 1)),
    lambda text: another_host(another_program(hours_later(totals(text)))),
)


def causes(text: str) -> list[tuple[str, str]]:
    """Mechanism and confidence of the cause that leads, and every further cause that is more than a hypothesis."""
    found: dict[str, Any] = document(text.encode())
    first, *rest = [(f["mechanism"], f["confidence"]) for f in found["findings"] if f["role"] in CAUSES] or [("", "")]
    return [first, *(one for one in rest if one[1] != "possible")]


@pytest.mark.parametrize("file", SICK)
def test_what_hurts_is_found_again(file: str) -> None:
    """With the same confidence, and nothing beside it."""
    text = (FIXTURES / file).read_text()
    own = causes(text)
    assert own[0][0] == SICK[file]
    assert [causes(variant(text)) for variant in VARIANTS] == [own] * len(VARIANTS)


@pytest.mark.parametrize("file", HEALTHY)
def test_nothing_is_found_where_nothing_was(file: str) -> None:
    """No cause, not even as a hypothesis."""
    text = (FIXTURES / file).read_text()
    assert [causes(variant(text)) for variant in VARIANTS] == [[("", "")]] * len(VARIANTS)


TEXTS = [
    paths[0].relative_to(FIXTURES).as_posix()
    for kind in ("acceptance", "stories", "healthy", "captures")
    for bundle in sorted((FIXTURES / kind).glob("*/bundle"))
    if len(paths := [p for p in bundle.rglob("*") if p.is_file()]) == 1 and paths[0].stat().st_size < 60_000
]
PASTES = {**WHOLE, **CHANGED, **SHORT}
PAIRS = [(file, form) for file in TEXTS if file.endswith(".txt") for form in PASTES]


@pytest.mark.parametrize(("file", "form"), sampled(PAIRS, "verdicts", 5))
def test_a_damaged_paste_gives_no_other_cause(file: str, form: str) -> None:
    """The same as the text itself where nothing is lost; else the same, less sure, or none."""
    text = (FIXTURES / file).read_text()
    own, found = causes(text), causes(PASTES[form](text))
    if form in WHOLE:
        assert found == own
    assert {one for one in found if one[1] in ("likely", "confirmed")} <= {
        (mechanism, level) for mechanism, most in own for level in ("likely", most)
    }
