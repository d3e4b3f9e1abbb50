"""The five stories and their comment cases: each bundle gives the diagnosis that its expected.yaml names.

The finding is asserted by id, never the whole list, so that a further rule breaks nothing here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import STRICT, result_of, rules
from conftest import ROOT
from thpdiag.host.options import Options, parse_window
from thpdiag.knowledge.mechanisms import mechanisms
from thpdiag.knowledge.yaml_nodes import load
from thpdiag.pipeline import analyze
from thpdiag.report import FORMATS

STORIES = sorted(p.parent for p in (ROOT / "fixtures" / "stories").glob("*/expected.yaml"))
CAPTURES = sorted(
    p.parent for p in (ROOT / "fixtures" / "captures").glob("*/expected.yaml") if "verdict:" in p.read_text()
)


def expected(folder: Path) -> dict[str, Any]:
    return dict(load((folder / "expected.yaml").read_text()))


@pytest.mark.parametrize("folder", [*STORIES, *CAPTURES], ids=lambda f: f"{f.parent.name}/{f.name}")
def test_a_story_gets_its_diagnosis(folder: Path) -> None:
    """Verdict, host, findings and words are as expected.yaml says."""
    document = result_of(folder / "bundle")
    wanted = expected(folder)
    verdict = {key: document["verdict"].get(key) for key in wanted["verdict"]}
    assert verdict == wanted["verdict"], document["verdict"]["sentence"]
    assert {k: document["host"].get(k) for k in wanted.get("host", {})} == wanted.get("host", {})
    found = {f["rule"] for f in document["findings"]}
    assert set(wanted.get("must_find", ())) <= found
    assert not set(wanted.get("must_not_find", ())) & found
    text = FORMATS["text"](document)
    for words in wanted.get("must_say", ()):
        assert words in text
    for words in wanted.get("must_not_say", ()):
        assert not re.search(re.escape(words), text, re.IGNORECASE)
    if wanted.get("no_thp_finding"):
        assert [f["rule"] for f in document["findings"] if f["rule"].startswith("THP")] == []


@pytest.mark.parametrize("folder", [*STORIES, *CAPTURES], ids=lambda f: f"{f.parent.name}/{f.name}")
def test_nothing_that_follows_from_the_cause_is_ruled_out(folder: Path) -> None:
    """ "Not the cause: programs compact memory" beside a queue for the lock of compaction would be nonsense."""
    document = result_of(folder / "bundle")
    cause = mechanisms().get(document["verdict"].get("mechanism", ""))
    of = {rule.id: rule.file.mechanism for rule in rules()}
    out = {of[rule["rule"]] for rule in document["ruled_out"]}
    assert cause is None or out & {cause.name, *cause.leads_to} == set()


@pytest.mark.parametrize("folder", STORIES, ids=lambda f: f.name)
def test_a_story_says_where_it_comes_from(folder: Path) -> None:
    """ORIGIN.md says what is recorded and what is reconstructed."""
    assert len((folder / "ORIGIN.md").read_text()) > 60


def test_the_first_story_as_published(stories: Path) -> None:
    """The text with all its comments: the convoy, confirmed by its own captures, and nobody else's kernel."""
    document = analyze([stories / "1-hadoop-centos62.txt"], rules(), STRICT)
    verdict = document["verdict"]
    assert (verdict["mechanism"], verdict["confidence"]) == ("compaction-lock-convoy", "confirmed")
    leader = document["findings"][0]
    assert any("10.5 times" in e["text"] for e in leader["evidence"])
    commands = "\n".join(c for r in leader["remedies"] for c in (*r["now"], *r["persist"]))
    assert "/sys/kernel/mm/redhat_transparent_hugepage/defrag" in commands
    assert "madvise" not in commands
    assert document["host"]["kernel"].startswith("2.6.32-220.7.1.el6")
    assert any("havoc" in note["text"] for note in document["notes"])


def test_the_third_story_as_published(stories: Path) -> None:
    """One function with 2.76 % of the samples, and a chain that goes through compaction nearly always."""
    document = analyze([stories / "3-mero-centos7.txt"], rules(), STRICT)
    assert document["verdict"]["mechanism"] == "compaction-tlb-shootdown"
    assert document["verdict"]["confidence"] in ("likely", "confirmed")
    assert document["host"]["kernel"] == "3.10.0-229.14.1.el7.x86_64"


@pytest.mark.parametrize(
    ("name", "mechanism"),
    [
        ("2-voltdb-rhel66-kvm", "khugepaged-bloat"),
        ("4-bioinformatics-ubuntu1404", "allocation-knee"),
        ("5-redis-shop-ubuntu", "huge-pages-proven"),
    ],
)
def test_a_story_without_recordings(stories: Path, name: str, mechanism: str) -> None:
    """What its author writes is testimony: it makes the mechanism likely, and never confirms it."""
    verdict = analyze([stories / f"{name}.txt"], rules(), STRICT)["verdict"]
    assert (verdict["mechanism"], verdict["confidence"]) == (mechanism, "likely")


def test_two_captures_of_one_host_are_compared() -> None:
    """A capture with huge pages on and one with them off are two states; the second confirms the first and is later."""
    folder = ROOT / "fixtures" / "captures"
    document = analyze([folder / "alloc-churn" / "bundle", folder / "churn-never" / "bundle"], rules(), STRICT)
    assert (document["verdict"]["rule"], document["verdict"]["state"]) == ("THP-010", "past")
    toggles = [e["text"] for e in document["findings"][0]["evidence"] if e["kind"] == "toggle"]
    assert len(toggles) == 1
    assert "thp.enabled always" in toggles[0]
    assert {i["member"].split("/")[0] for i in document["inputs"]} == {"alloc-churn", "churn-never"}


def test_what_is_confirmed_asks_for_no_proof() -> None:
    """Where an on/off comparison confirms the cause, no remedy says that the input does not prove it."""
    document = result_of(ROOT / "fixtures" / "stories" / "redis-shop-ubuntu" / "bundle")
    assert document["verdict"]["confidence"] == "confirmed"
    assert "collect-more" not in [r["id"] for r in document["findings"][0]["remedies"]]


def test_evidence_from_outside_the_time_asked_for_is_a_hypothesis() -> None:
    """Counters of another time keep their finding, as possible only, and say what is missing."""
    folder = ROOT / "fixtures" / "captures" / "alloc-churn" / "bundle"
    whole = result_of(folder)
    before = analyze([folder], rules(), Options(strict=True, window=parse_window(None, "2026-11-20 05:00:00", None)))
    levels = [{f["rule"]: f["confidence"] for f in d["findings"]} for d in (whole, before)]
    assert levels[0]["THP-012"] == "likely"
    assert levels[1]["THP-012"] == "possible"
    finding = next(f for f in before["findings"] if f["rule"] == "THP-012")
    assert finding["raise_confidence"] == ["evidence from the requested time range"]
    assert before["verdict"]["sentence"].startswith("Outside the requested time range: ")
    assert "requested time range" not in whole["verdict"]["sentence"]
