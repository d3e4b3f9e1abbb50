"""The first block of the text report: what a reader knows after the first screen, to be pasted into a ticket."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, Run
from thpdiag.report.layout import columns
from thpdiag.report.presentation import Presentation
from thpdiag.report.text import render

FIXTURES = ROOT / "fixtures"
STORIES = (
    "hadoop-centos62",
    "voltdb-rhel66-kvm",
    "mero-centos7",
    "bioinformatics-ubuntu1404",
    "redis-shop-ubuntu",
    "redis-shop-first-test",  # the cause is another: network processing
)
LABEL = re.compile("^(?:Do now|Undo|Verify|To send): +")
SHORT, BRIEF, FULL = (Presentation(level) for level in (-1, 0, 1))


@pytest.fixture(scope="module")
def documents() -> dict[str, dict[str, Any]]:
    """Results that were made once."""
    return {}


def result(run: Run, documents: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    if name not in documents:
        documents[name] = json.loads(run("analyze", FIXTURES / name, "-f", "json").out)
    return documents[name]


def words(text: str) -> str:
    return " ".join(text.split())


def distinct(finding: dict[str, Any]) -> list[str]:
    """Its lines of evidence; two checks that looked at one figure are one line."""
    first: dict[tuple[Any, ...], str] = {}
    for one in finding["evidence"]:
        figure = (one.get("value"), one.get("unit")) if one.get("value") is not None else one["text"]
        first.setdefault((one.get("member"), one.get("line"), figure), one["text"])
    return list(first.values())


@pytest.mark.parametrize("story", STORIES)
def test_the_block_tells_what_a_ticket_needs(story: str, run: Run, documents: dict[str, dict[str, Any]]) -> None:
    """Verdict, severity, confidence and its reason, host, kernel, proofs with places, do now, undo, verify."""
    found = result(run, documents, f"stories/{story}")
    block = render(found, SHORT)
    verdict, host = found["verdict"], found["host"]
    (leading,) = (one for one in found["findings"] if one["rule"] == verdict["rule"])
    assert len(block.splitlines()) <= 14
    assert words(re.sub(r" \(lines \d+ to \d+\)", "", verdict["sentence"])) in words(block)
    assert f"Severity {verdict['severity']}, confidence {verdict['confidence']} (" in block
    assert host["name"] in block
    assert host["kernel"] in block
    placed = {f"{one['member']}:{one['line']}" for one in leading["evidence"] if one.get("line")}
    proofs = [row for row in block.splitlines() if any(place in row for place in placed)]
    assert len(proofs) >= min(2, len(distinct(leading)))
    lines = [LABEL.sub("", row).strip() for row in block.splitlines()]
    at_once = [one for one in leading["remedies"] if one["undo_now"] and str(one["restart"]).startswith("none")]
    step = (at_once or leading["remedies"])[0]
    wanted = [*step["now"], *step["undo_now"], *([step["verify"]["how"]] if step["verify"] else [])]
    assert all(row.strip() in lines for command in wanted for row in command.split("\n"))
    commands = {row.strip() for command in wanted for row in command.split("\n")}
    assert all(columns(row) <= 80 for row in block.splitlines() if LABEL.sub("", row).strip() not in commands)


@pytest.mark.parametrize("story", STORIES)
def test_the_report_is_short_and_the_full_one_whole(story: str, run: Run, documents: dict[str, dict[str, Any]]) -> None:
    """The default fits two screens and begins with the block; nothing of the leading finding is lost in --full."""
    found = result(run, documents, f"stories/{story}")
    block, brief, full = (render(found, one) for one in (SHORT, BRIEF, FULL))
    assert brief.startswith(block)
    assert full.startswith(block)
    assert len(brief.splitlines()) < 60
    (leading,) = (one for one in found["findings"] if one["rule"] == found["verdict"]["rule"])
    rows = [LABEL.sub("", row).strip() for row in full.splitlines()]
    assert all(words(text) in words(full) for text in distinct(leading))
    for step in leading["remedies"]:
        assert f"[{step['id']}]" in full
        assert all(row.strip() in rows for command in step["now"] for row in command.split("\n") if row.strip())
    for other in found["findings"]:
        assert other["rule"] in full
    long = [row for row in rows if columns(row) > 60 and not row.startswith("[ -e ~/")]  # the old value, for each step
    commands = [command for step in leading["remedies"] for command in (*step["now"], *step["persist"])]
    assert all(long.count(row) <= 1 for row in long if row in commands)


def test_a_unit_is_printed_once(run: Run, documents: dict[str, dict[str, Any]]) -> None:
    """Further steps write their line into it."""
    full = render(result(run, documents, "stories/mero-centos7"), FULL)
    assert full.count("[Unit]") == 1
    assert full.count("# in the unit of step 1:") == 1


def test_an_inconclusive_input_says_what_to_send(run: Run, documents: dict[str, dict[str, Any]]) -> None:
    """The block ends with the request, and the report does not repeat it."""
    found = result(run, documents, "healthy/kvm-host")
    assert found["verdict"]["status"] == "cannot_tell"
    block, brief = render(found, SHORT), render(found)
    assert "To send: " in block
    assert found["ask"]["commands"][0] in block
    assert brief.count(found["ask"]["commands"][0]) == 1


def test_a_healthy_input_is_said_to_be_healthy(run: Run, documents: dict[str, dict[str, Any]]) -> None:
    """Three lines, and what is not the cause in sentences that deny."""
    found = result(run, documents, "healthy/light-load")
    assert "No huge-page problem" in render(found, SHORT)
    brief = render(found)
    assert "Not memory pressure: " in brief
    denials = brief.partition("Not the cause:\n")[2].partition("\n\n")[0]
    assert all(row.startswith(("  Not ", "      ", "  and ")) for row in denials.splitlines())


def test_a_wrong_configuration_alone_leads(run: Run, documents: dict[str, dict[str, Any]]) -> None:
    """Its sentence, its severity and its remedy, not that the input decides nothing."""
    found = result(run, documents, "stories/tuned-overrides-boot-line")
    assert found["verdict"]["status"] == "cannot_tell"
    block = render(found, SHORT)
    title = next(one["title"] for one in found["findings"] if one["role"] == "configuration")
    assert block.startswith(f"thpdiag: {title[:40]}")
    assert "Severity medium, confidence confirmed" in block
    assert "Do now: " in block


def test_a_second_bad_host_has_its_own_block(run: Run) -> None:
    """With severity and first remedy."""
    out = run("analyze", FIXTURES / "stories/hadoop-centos62", FIXTURES / "stories/voltdb-rhel66-kvm").out
    second = out.partition("\nHost dr1:\n")[2]
    assert "Severity high" in second
    assert "Do now: " in second
    assert len(second.splitlines()) <= 14
    both = run("analyze", FIXTURES / "stories/hadoop-centos62", FIXTURES / "stories/voltdb-rhel66-kvm", "--short").out
    assert both.count("Do now: ") == 2


@pytest.mark.parametrize("file", sorted((ROOT / "tests/results").glob("*.json")), ids=lambda file: file.stem)
def test_no_result_breaks_the_bounds(file: Path) -> None:
    """Whatever a document holds: 14 lines, and fewer than 60 of a single host."""
    found = json.loads(file.read_text())
    assert len(render({**found, "cases": []}, SHORT).splitlines()) <= 14
    if file.stem != "hostile":  # whose sentences are as long as strangers make them
        assert len(render({**found, "cases": []}).splitlines()) < 60


def test_colours_are_for_terminals_that_want_them(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--color` decides; else NO_COLOR and FORCE_COLOR. Without the escapes the text is the same."""
    saved = ROOT / "tests/results/found.json"
    plain = run("render", saved).out
    assert "\x1b" not in plain
    colored = run("render", saved, "--color", "always").out
    assert re.sub("\x1b\\[[0-9;]*m", "", colored) == plain
    assert "\x1b[1;31mthpdiag: CPUs queue" in colored
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert run("render", saved).out == colored
    assert run("render", saved, "--color", "never").out == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert run("render", saved).out == plain
