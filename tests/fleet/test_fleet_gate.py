"""The gate of a fleet: what fails it, what is accepted, and what of the files had no effect on any host."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from small_fleets import bundle, found, host, said, store
from small_results import content
from thpdiag.fleet import formats as sentences
from thpdiag.fleet.overview import FAILED, INCOMPLETE, Fleet, Gate
from thpdiag.report.baseline import Acceptance, Judge, baseline, baseline_text, parse_suppressions, read_baseline
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import BundleResult

TODAY = date(2027, 1, 1)
WELL = said("nothing_found")
RULES = [
    {"id": rule, "outcome": "silent", "mechanism": mechanism}
    for rule, mechanism in (("THP-010", "fault-compaction"), ("THP-011", "khugepaged-cpu"))
]


def grave(number: int, severity: str = "high", **more: Any) -> BundleResult:
    """A bundle of a host with one finding, whose fingerprint is its own."""
    document = host(f"db{number}", found(severity), rules=RULES, **more)
    document["findings"][0]["fingerprint"] = content(number)[:16]
    return bundle(number, document)


def judged(folder: Path, bundles: Iterable[BundleResult], entries: list[Acceptance], fail_on: str = "high") -> Fleet:
    """A fleet whose gate was asked for; its store is closed."""
    with StoreReader.at(store(folder, bundles)) as reading:
        fleet = Fleet(reading, Judge(entries, TODAY, {}), fail_on)
        assert fleet.overview.gate
    return fleet


def suppressed(text: str) -> list[Acceptance]:
    return [*parse_suppressions("known.yaml", text)]


def test_a_grave_finding_fails_the_gate(tmp_path: Path) -> None:
    """Counted by finding and by host; below the limit is none."""
    two = grave(1)
    assert two.document
    two.document["findings"].append({"rule": "THP-011", "severity": "critical"})

    fleet = judged(tmp_path, [two, grave(2), grave(3, "medium"), bundle(4, host("web1", WELL))], [])

    assert fleet.overview.gate == Gate("high", failing=3, failing_hosts=2, undecided=0, incomplete=0, bundles=4)
    assert fleet.overview.gate.exit_code == FAILED


@pytest.mark.parametrize(("fail_on", "failing"), [("never", 0), ("critical", 0), ("medium", 1), ("info", 1)])
def test_the_limit_is_the_one_of_one_bundle(tmp_path: Path, fail_on: str, failing: int) -> None:
    """A finding as grave as it or graver."""
    assert judged(tmp_path, [grave(1, "medium")], [], fail_on).overview.gate.failing == failing


NONE_GRAVE = "no finding of severity high or above is not accepted"
UNREAD = "3 bundles without a complete result may have more"
UNDECIDED = "on 2 of the hosts and bundles some rule could not be decided"


@pytest.mark.parametrize(
    ("gate", "code", "told"),
    [
        (Gate("high"), 0, f"Gate: passed, {NONE_GRAVE}."),
        (Gate("high", failing=1, failing_hosts=1, incomplete=3), FAILED,
         "Gate: failed, 1 finding of severity high or above on 1 host is not accepted."),
        (Gate("high", undecided=2, incomplete=3, fail_on_missing=True), FAILED,
         f"Gate: failed, {NONE_GRAVE}; {UNDECIDED}."),
        (Gate("never", undecided=2, fail_on_missing=True), FAILED, f"Gate: failed, {UNDECIDED}."),
        (Gate("never", fail_on_missing=True), 0, "Gate: passed, every rule could be decided."),
        (Gate("high", undecided=2, incomplete=3), INCOMPLETE, f"Gate: not decided, {NONE_GRAVE}; {UNREAD}."),
        (Gate("high", undecided=2), 0, f"Gate: passed, {NONE_GRAVE}."),
        (Gate("never", incomplete=3), INCOMPLETE, ""),
    ],
)  # fmt: skip
def test_the_sentence_says_what_the_exit_code_says(gate: Gate, code: int, told: str) -> None:
    """A finding wins over a partly failed batch, and over rules that nobody could decide where they do not count."""
    assert (gate.exit_code, sentences.describe_gate(gate)) == (code, told)


def test_open_rules_and_incomplete_bundles_are_counted(tmp_path: Path) -> None:
    """A host is undecided with one open rule, a bundle without a host too; one of several hosts is incomplete once."""
    several = {"cases": [host("a", WELL, unknown=[{"rule": "X"}]), host("b", WELL, unknown=[])], **host("a", WELL)}

    fleet = judged(tmp_path, [bundle(1, several, status="limit"), bundle(2), bundle(3, host("c", WELL))], [])

    assert (fleet.overview.gate.undecided, fleet.overview.gate.incomplete, fleet.overview.gate.bundles) == (2, 2, 3)


def test_a_suppression_of_some_hosts_accepts_their_findings(tmp_path: Path) -> None:
    """The others go on failing; nothing of it is stored."""
    entries = suppressed("- {rule: THP-010, host: 'db[12]', reason: known}")

    fleet = judged(tmp_path, [grave(1), grave(2), grave(3)], entries)

    assert (fleet.overview.gate.failing, list(fleet.judge.warnings())) == (1, [])
    with StoreReader.at(tmp_path) as reading:
        again = Fleet(reading, fleet.judge, "high")
        assert [one.accepted for one in again.hosts()] == [True, True, False]
        assert [one.accepted for one in Fleet(reading, Judge([], TODAY, {}), "high").hosts()] == [False] * 3


def test_a_baseline_of_a_fleet_lets_only_new_and_graver_through(tmp_path: Path) -> None:
    """Each entry accepts one host's finding, as grave as it was."""
    then = [grave(1), grave(2, "medium")]
    file = tmp_path / "baseline.json"
    file.write_text(baseline_text(baseline((one.document or {} for one in then), "as found", None)))
    entries: list[Acceptance] = [*read_baseline(file)]

    fleet = judged(tmp_path / "out", [grave(1), grave(2, "high"), grave(3)], entries)

    assert (fleet.overview.gate.failing, fleet.overview.gate.failing_hosts) == (2, 2)
    (warning,) = fleet.judge.warnings()
    assert warning.endswith("accepted as medium, likely, is high, likely now, and counts as new")


def test_an_entry_without_effect_is_judged_over_the_whole_fleet(tmp_path: Path) -> None:
    """One that fits the last host only is none; one that fits nobody is told once, and what may have been meant."""
    text = "- {rule: THP-010, host: db3, reason: a}\n- {rule: THP-O11, reason: b}\n- {rule: THP-011, reason: c}"

    fleet = judged(tmp_path, [grave(1), grave(2), grave(3)], suppressed(text))

    none = "accepts no finding of this input"
    assert list(fleet.judge.warnings()) == [
        f"known.yaml:2: THP-O11: {none}; no rule or mechanism 'THP-O11'; did you mean 'THP-011'?",
        f"known.yaml:3: THP-011: {none}",
    ]


def test_an_expired_entry_accepts_nothing(tmp_path: Path) -> None:
    """The gate fails, and the entry says why."""
    fleet = judged(tmp_path, [grave(1)], suppressed("- {rule: THP-010, reason: known, expires: '2026-12-31'}"))

    assert fleet.overview.gate.failing == 1
    (warning,) = fleet.judge.warnings()
    assert "expired on 2026-12-31" in warning


def test_what_is_no_longer_found_is_told_on_request(tmp_path: Path) -> None:
    """A host of the baseline that is there and well; of one that is not there nothing is known."""
    file = tmp_path / "baseline.json"
    then = [grave(1).document or {}, grave(2).document or {}]
    file.write_text(baseline_text(baseline(then, "as found", date(2027, 12, 31))))

    fleet = judged(tmp_path / "out", [bundle(1, host("db1", WELL))], [*read_baseline(file)])

    assert (list(fleet.judge.warnings()), len(list(fleet.judge.notes()))) == ([], 1)
    assert next(fleet.judge.notes()).endswith("no longer found")


def test_an_accepted_verdict_stays_one(tmp_path: Path) -> None:
    """Only the gate and the order of hosts know of the acceptance."""
    with StoreReader.at(store(tmp_path, [grave(1), grave(2, "low")])) as reading:
        fleet = Fleet(reading, Judge(suppressed("- {rule: THP-010, host: db1, reason: known}"), TODAY, {}), "high")
        told = fleet.overview

    assert [(one.name, one.accepted) for one in told.found.items] == [("db2", False), ("db1", True)]
    assert (told.accepted, told.found.total, told.gate.failing) == (1, 2, 0)
