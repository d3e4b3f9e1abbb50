"""The mirror of the law of less (DESIGN 4): adding input never makes a decided answer undecided.

For every bundle a member is added to all the others; for one recording each of its renderings is added to it. Not
counted is what contradicts, which a Problem tells. What else changes an answer stands in a list that the proof holds
to exactly: it may become shorter.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from analyze_bytes import BUNDLES, STRICT, name, rules
from conftest import ROOT
from profile_stacks import RECORDING
from thpdiag.diagnosis.diagnose import Diagnosis
from thpdiag.host.cases import host_cases
from thpdiag.host.reading import ParsedInput, read_input
from thpdiag.model import ProblemKind, RuleOutcome, Verdict3
from thpdiag.pipeline import analyze, diagnose_case

PROOF = os.environ.get("THPDIAG_PROOF") == "1"
OTHER_RECORDINGS = {  # or such as do not say that they are of the same one
    *("report-group.txt", "report-group-none.txt", "report-events.txt", "top.txt", "top-graph.txt", "pprof-top.txt"),
}
RENDERINGS = sorted(p.name for p in RECORDING.glob("*.txt") if p.name not in OTHER_RECORDINGS)
WHOLE = ("perf.data", "kallsyms")


def judged(given: ParsedInput) -> dict[str, Diagnosis]:
    return {case.name: diagnose_case(case, rules(), STRICT) for case in host_cases(given, STRICT)}


ANOTHER_STRETCH = "it shows a stretch of time in which the rest says something else, or too little"
ANOTHER_MOMENT = "it shows the same figure at a later moment"
EXCEPTIONS = {
    ("captures/fork-exec", "host.txt", "ALT-05"): ANOTHER_STRETCH,
    ("captures/fork-exec", "vmstat.txt", "ALT-05"): ANOTHER_STRETCH,
    ("captures/knee", "loops/counters.txt", "THP-027"): ANOTHER_MOMENT,
    ("captures/knee-of-fragmentation", "loops/counters.txt", "THP-020"): ANOTHER_STRETCH,
    ("captures/knee-of-fragmentation", "loops/counters.txt", "THP-022"): ANOTHER_MOMENT,
    ("captures/knee-of-fragmentation", "loops/counters.txt", "THP-027"): ANOTHER_MOMENT,
    ("captures/knee-of-the-host", "loops/counters.txt", "THP-022"): ANOTHER_MOMENT,
    ("captures/migration", "loops/counters.txt", "THP-016"): ANOTHER_STRETCH,
    ("captures/migration", "loops/counters.txt", "THP-027"): ANOTHER_MOMENT,
    ("captures/migration", "loops/counters.txt", "THP-043"): ANOTHER_STRETCH,
    ("captures/migration", "loops/processes.txt", "THP-043"): ANOTHER_STRETCH,
    ("captures/small-pages-after-huge-ones", "loops/counters.txt", "THP-013"): ANOTHER_MOMENT,
    ("captures/small-pages-after-huge-ones", "loops/counters.txt", "THP-016"): ANOTHER_STRETCH,
    ("captures/small-pages-after-huge-ones", "loops/counters.txt", "THP-022"): ANOTHER_MOMENT,
}
"""All members of bundles by which a rule answers something else, though no Problem tells of a contradiction."""


def is_answer(outcome: RuleOutcome) -> bool:
    """A yes that is a hypothesis is none: more evidence may deny it, and says why."""
    return outcome.value is not Verdict3.UNKNOWN and outcome.confidence != "possible"


def changed_by(member: str, full: Diagnosis, less: Diagnosis) -> Iterator[str]:
    """The rules that answer something else, or nothing more, with the member; a hypothesis may only be denied."""
    disagreements = [p for p in full.case.problems if p.kind is ProblemKind.DISAGREEMENT]
    if any(member == p.cite.member or member in format(p.text) for p in disagreements):
        return
    for rule, before in less.outcomes.items():
        now = full.outcomes[rule].value
        if now is not before.value and (is_answer(before) or (before.value, now) == (Verdict3.YES, Verdict3.UNKNOWN)):
            yield rule


def check(bundle: Path, given: ParsedInput, members: Sequence[str]) -> None:
    full = judged(given)
    for member in members:
        rest = {other: rows for other, rows in given.readings.items() if other != member}
        changed = set[str]()
        for host, less in judged(ParsedInput(rest, given.inputs, given.problems)).items():
            whole = full.get(host, next(iter(full.values())))  # without the member that names it, it has another name
            changed.update(changed_by(member, whole, less))
        known = {rule for where, file, rule in EXCEPTIONS if (where, file) == (name(bundle), member)}
        assert changed == known, f"{name(bundle)}: {member}"


@pytest.mark.parametrize("bundle", BUNDLES if PROOF else BUNDLES[::2], ids=name)
def test_a_bundle_with_more_in_it_is_as_decided(bundle: Path) -> None:
    """One member of every second bundle by default, another one in each; all with THPDIAG_PROOF=1."""
    given = read_input([bundle], STRICT)
    members = sorted(given.readings)
    if len(members) > 1:
        check(bundle, given, members if PROOF else members[BUNDLES.index(bundle) * 11 % len(members) :][:1])


CAPTURES = ROOT / "fixtures/captures"


@pytest.mark.parametrize(
    ("bundle", "members"),
    [
        ("knee-of-the-host", ["loops/counters.txt"]),  # what a context rule denies stayed open for want of a curve
        ("growth-without-knee", ["top.txt", "vmstat.txt"]),  # times of day, on no clock of the others
        ("small-pages-after-huge-ones", ["loops/counters.txt", "proc/buddyinfo"]),  # the one copy after the loop
        ("storm-always", ["top.txt"]),  # rounded sizes before exact ones
    ],
)
def test_what_was_lost_by_more_evidence_is_not_again(bundle: str, members: list[str]) -> None:
    """Each was found by the whole proof; and the exceptions of these are what they are held to be."""
    check(CAPTURES / bundle / "bundle", read_input([CAPTURES / bundle / "bundle"], STRICT), members)


@pytest.mark.parametrize(
    "fixture",
    [
        *("systemd_analyze/time", "work_figures/stress-ng-yaml", "waagent/agent", "mongodb_log/slow-8.0"),
        *("below/cgroup", "kubectl_pod/events", "function_graph/switches", "bpftrace_histograms/sums"),
        *("perf_lock/fields", "gc_log/pauses-alone", "perf_c2c/pareto", "java_native_memory/jdk17"),
    ],
)
def test_a_file_of_another_tool_makes_nothing_undecided(fixture: str, tmp_path: Path) -> None:
    """What says nothing of the time that a capture shows leaves what it decides."""
    bundle = CAPTURES / "storm-always" / "bundle"
    shutil.copytree(bundle, tmp_path / "more")
    shutil.copytree(ROOT / "fixtures/readers" / fixture, tmp_path / "more" / "ticket")
    before, now = (analyze([folder], rules(), STRICT) for folder in (bundle, tmp_path / "more"))
    cases = [{one["id"]: one["outcome"] for one in case["rules"]} for case in (before, now)]
    assert {rule for rule, outcome in cases[0].items() if outcome != "unknown" == cases[1][rule]} == set()


def test_an_advice_that_depends_on_the_version_is_open_without_it(tmp_path: Path) -> None:
    """Whether huge pages are off where they are wanted: MongoDB wants them from version 8 on."""
    fixture = ROOT / "fixtures/acceptance/mongodb-8-with-never/bundle"
    shutil.copytree(fixture, tmp_path / "less", ignore=shutil.ignore_patterns("mongod_--version"))
    wanted = [
        {one["id"]: one["outcome"] for one in analyze([folder], rules(), STRICT)["rules"]}["THP-081"]
        for folder in (fixture, tmp_path / "less")
    ]
    assert wanted == ["fires", "unknown"]


def outcomes(folder: Path, *files: str) -> dict[str, str]:
    folder.mkdir()
    for file in files:
        shutil.copy(RECORDING / file, folder)
    document = analyze([folder], rules(), STRICT)
    assert [p for p in document["problems"] if p["kind"] == "disagreement"] == []
    return {rule["id"]: rule["outcome"] for rule in document["rules"]}


def decided(given: dict[str, str]) -> dict[str, str]:
    return {rule: outcome for rule, outcome in given.items() if outcome != "unknown"}


@pytest.mark.parametrize("rendering", RENDERINGS)
def test_a_rendering_beside_its_recording_takes_no_answer_away(rendering: str, tmp_path: Path) -> None:
    """What perf report leaves out its perf.data has told; and what the text alone tells stays told, too."""
    own = decided(outcomes(tmp_path / "recording", *WHOLE))
    both = outcomes(tmp_path / "both", *WHOLE, rendering)
    assert len(own) > 20
    assert {rule: both[rule] for rule in own} == own
    alone = decided(outcomes(tmp_path / "alone", rendering))
    assert [rule for rule in alone if both[rule] == "unknown"] == []


@pytest.mark.parametrize("rendering", ["script.txt", "folded.txt", "report-callee.txt", "report-sort-comm.txt"])
def test_a_recording_without_names_takes_nothing_from_a_text_that_has_them(rendering: str, tmp_path: Path) -> None:
    """perf.data was sent without kallsyms, its text with the names of all functions."""
    alone = decided(outcomes(tmp_path / "alone", rendering))
    both = outcomes(tmp_path / "both", rendering, "perf.data")
    assert len(alone) > 10
    assert {rule: both[rule] for rule in alone} == alone


@pytest.mark.parametrize(
    "poor", ["report-none.txt", "report-limit.txt", "report-browser-closed.txt", "report-max-stack.txt"]
)
def test_two_texts_of_one_recording_are_as_decided_as_the_better_one(poor: str, tmp_path: Path) -> None:
    """Neither perf.data nor times: the title, or what ran, tells that it is one recording."""
    alone = decided(outcomes(tmp_path / "alone", "report-callee.txt"))
    both = outcomes(tmp_path / "both", "report-callee.txt", poor)
    assert {rule: both[rule] for rule in alone} == alone


@pytest.mark.parametrize("other", ["top.txt", "report-group-none.txt", "pprof-top.txt"])
def test_another_recording_without_callers_leaves_open_what_it_saw(other: str, tmp_path: Path) -> None:
    """Who called what another look saw is open, whatever the first recording says of its own time."""
    own = decided(outcomes(tmp_path / "recording", *WHOLE))
    both = outcomes(tmp_path / "both", *WHOLE, other)
    assert {rule for rule in own if both[rule] == "unknown"}
    assert both["THP-010"] == own["THP-010"] == "fires"


def test_another_recording_of_too_few_samples_says_nothing(tmp_path: Path) -> None:
    """38 samples without callers are no reason to doubt the other recording."""
    own = decided(outcomes(tmp_path / "recording", *WHOLE))
    both = outcomes(tmp_path / "both", *WHOLE, "report-events.txt")
    assert {rule: both[rule] for rule in own} == own
