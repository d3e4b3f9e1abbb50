"""Did the fix work? Pairs of recordings of which it is known, and pairs of which nobody can know it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from comparison_pairs import CASES, FORMATS, PAIRS, captured, changed, compared, document, expected, result, statuses
from thpdiag.compare.model import schema
from thpdiag.report.layout import columns
from thpdiag.report.presentation import Presentation

HOLDERS = ("alloc-churn", "khugepaged-growth", "redis-always", "stress-io", "idle-host", "knee")
_UNSTEADY = re.compile(
    r'sha256-[\w+/=]+|<script type="application/gzip\+base64".*?</script>|<style>.*?</style>'
    r'|(?<=timelines">Timelines).*?</section>',
    re.DOTALL,
)


@pytest.mark.parametrize("case", CASES)
def test_what_is_expected_of_a_pair_is_said(case: str) -> None:
    """Answer, load and findings are those of expected.yaml, and the text says what it must and not what it must not."""
    said, (host,) = expected(case), compared(case)["hosts"]
    text = " ".join(FORMATS["text"](compared(case)).split())

    assert (host["answer"]["status"], host["load"]["word"], host["same"]) == (
        said["answer"],
        said["load"],
        said["same"],
    )
    assert {rule: statuses(host).get(rule) for rule in said["findings"]} == said["findings"]
    assert [words for words in said["must_say"] if words.lower() not in text.lower()] == []
    assert [words for words in said["must_not_say"] if words.lower() in text.lower()] == []


@pytest.mark.parametrize("case", CASES)
def test_a_comparison_follows_its_schema(case: str) -> None:
    """Every key is described, and no other is there."""
    jsonschema.Draft202012Validator(schema()).validate(compared(case))


@pytest.mark.parametrize("name", HOLDERS)
def test_a_result_compared_with_itself_is_unchanged(name: str) -> None:
    """Nothing is fixed, new or worse, and no figure moved."""
    (host,) = document(captured(name), captured(name))["hosts"]

    assert set(statuses(host).values()) <= {"unchanged"}
    assert [row["name"] for row in host["figures"] if row["change"] != "same"] == []
    assert "BEFORE and AFTER are the same files." in host["notes"]


def _blind(after: dict[str, Any]) -> None:
    """What a bundle without counters and call stacks tells: the rules are undecided."""
    kept = {name: m for name, m in after["host"]["measures"].items() if name.startswith("cpu_ratio")}
    after["host"]["measures"], after["profiles"], after["host"]["free_blocks"] = kept, [], []
    after["timeline"]["series"] = [s for s in after["timeline"]["series"] if s["panel"] in ("cpu", "processes")]
    for rule in after["rules"]:
        rule["outcome"] = "unknown" if rule["outcome"] == "silent" else rule["outcome"]
    after["verdict"] = {"status": "cannot_tell"}


def test_counters_that_are_missing_after_fix_nothing() -> None:
    """Unknown is not silent: without counters or stacks after, nothing of compaction is called fixed or improved."""
    found = statuses(changed("storm-always", "storm-thp-never", _blind))

    assert {found[rule] for rule in ("THP-010", "THP-012", "THP-016")} == {"cannot_tell"}


def _counter_up(after: dict[str, Any]) -> None:
    for name, measure in after["host"]["measures"].items():
        if name.startswith("cpu_ratio.sys"):
            measure.update(value=0.01, min=0.0, max=0.02, deviation=0.005)
        if name == "node_vmstat_compact_stall":
            measure.update(value=9000.0, min=8000.0, max=9900.0, deviation=500.0)


def test_less_kernel_time_with_more_stalls_is_worse() -> None:
    """Kernel time alone never decides: the mechanism's own counter rose."""
    host = changed("alloc-churn", "churn-never", _counter_up)

    assert statuses(host)["THP-012"] in ("worse", "cannot_tell")
    assert host["answer"]["status"] in ("worse", "cannot_tell")


@pytest.mark.parametrize(("outcome", "status"), [("unknown", "worse"), ("silent", "cannot_tell")])
def test_a_counter_that_rose_alone_is_worse_unless_the_rule_says_no(outcome: str, status: str) -> None:
    """Without call stacks that speak against it. Other things count there too, so where the rule says no nothing is."""

    def rise(after: dict[str, Any]) -> None:
        _counter_up(after)
        after["profiles"], after["verdict"] = [], {"status": "cannot_tell"}
        for rule in after["rules"]:
            rule["outcome"] = outcome if rule["id"] == "THP-012" else rule["outcome"]

    assert statuses(changed("alloc-churn", "churn-never", rise))["THP-012"] == status


def test_after_a_reboot_nothing_is_called_fixed() -> None:
    """A boot makes memory whole: with a switch it is improved at most, without one it cannot be told."""

    def booted(after: dict[str, Any]) -> None:
        after["host"]["uptime"] = 300.0

    def only_booted(after: dict[str, Any]) -> None:
        booted(after)
        after["host"]["settings"] = captured("alloc-churn")["host"]["settings"]

    switched = changed("alloc-churn", "churn-never", booted)
    unswitched = changed("alloc-churn", "churn-never", only_booted)

    assert statuses(switched)["THP-010"] == "improved"
    assert statuses(unswitched)["THP-010"] == "cannot_tell"
    assert any("booted in between" in note for note in unswitched["notes"])
    assert "fixed" not in statuses(switched).values()


def test_another_kernel_is_a_reboot() -> None:
    """The running kernel changes by a boot only."""

    def updated(after: dict[str, Any]) -> None:
        after["host"]["kernel"] = "6.19.1"

    assert statuses(changed("alloc-churn", "churn-never", updated))["THP-010"] == "improved"


def test_other_programs_on_the_cpus_are_no_load() -> None:
    """Where only CPU time tells the load, the programs of BEFORE must be seen after."""

    def uncounted(after: dict[str, Any]) -> None:
        for name in ("node_vmstat_pgalloc_normal", "node_vmstat_pgfault"):
            del after["host"]["measures"][name]

    host = changed("alloc-churn", "idle-host", uncounted)

    assert host["load"]["word"] == "unknown"
    assert set(statuses(host).values()) == {"cannot_tell"}


def test_the_work_of_other_programs_fixes_nothing() -> None:
    """As many pages handed out, but to another program: improved at most, and told."""
    (host,) = document(captured("storm-always"), captured("redis-always"))["hosts"]

    assert host["load"]["word"] == "same"
    assert "the programs of BEFORE (churn) are not in AFTER" in host["answer"]["sentence"]
    assert "fixed" not in {f["status"] for f in host["findings"] if f["role"] not in ("configuration", "risk")}


def test_less_kernel_time_that_programs_did_not_get_tells_nothing() -> None:
    """Across a switch, too: what used the kernel may have ended. The numbers are told."""
    said = expected("hadoop-centos62")
    before, after = result(said["before"]), result(said["after"])
    programs = after["host"]["measures"]["cpu_ratio.user_total"]
    programs |= {key: 0.4 * programs[key] for key in ("value", "min", "max", "deviation")}
    (host,) = document(before, after)["hosts"]

    assert statuses(host)["THP-001"] == "cannot_tell"
    assert "71.8 % to 6.7 %" in host["answer"]["sentence"]
    assert "system time alone proves nothing" in host["answer"]["sentence"]


def test_a_program_that_is_gone_fixes_nothing() -> None:
    """The lock of a process that is not there after is not better; no figure of its own says so."""
    assert changed("mmap-lock", "fork-exec", lambda _: None)["answer"]["status"] == "cannot_tell"


def test_a_rule_that_was_not_asked_after_fixes_nothing() -> None:
    """Results of different rules do not compare."""

    def without(after: dict[str, Any]) -> None:
        after["rules"] = [rule for rule in after["rules"] if rule["id"] != "THP-012"]
        after["verdict"] = {"status": "cannot_tell"}
        after["tool"]["rules_digest"] = "other"

    host = changed("storm-always", "storm-thp-never", without)

    assert statuses(host)["THP-012"] == "improved"
    assert any("different rules" in note for note in host["notes"])


def test_more_of_it_for_more_work_is_not_worse() -> None:
    """A rate is compared for the same work: three times the work with three times the stalls is unchanged."""

    def busier(after: dict[str, Any]) -> None:
        for name in ("node_vmstat_pgalloc_normal", "node_vmstat_compact_stall", "node_vmstat_compact_fail"):
            measure = after["host"]["measures"][name]
            measure.update({key: measure[key] * 3 for key in ("value", "min", "max", "deviation")})

    host = changed("alloc-churn", "alloc-churn", busier)

    assert statuses(host)["THP-010"] == "unchanged"


def test_another_root_cause_after_is_told() -> None:
    """What leads after is named in the answer."""
    (host,) = document(captured("alloc-churn"), captured("khugepaged-growth"))["hosts"]

    assert host["answer"]["root_cause_differs"]
    assert "The root cause is another one after" in host["answer"]["sentence"]


def test_two_hosts_are_told_apart_loudly() -> None:
    """A good and a bad host: no word of a fix."""
    host = changed("storm-always", "storm-thp-never", lambda after: after["host"].update(name="other7"))

    assert host["same"] == "different"
    assert "found on demo only" in host["answer"]["sentence"]
    assert any("two hosts, demo and other7" in note for note in host["notes"])


def test_hosts_are_paired_by_name_and_the_others_are_told() -> None:
    """Of several hosts each is compared with its own; a short name and the long one are the same."""
    before, after = [], []
    for name, other in (("a1", "a1.example.com"), ("b2", "b2"), ("c3", "d4")):
        one, two = captured("alloc-churn"), captured("churn-never")
        one["host"]["name"], two["host"]["name"] = name, other
        before.append(one)
        after.insert(0, two)
    comparison = document({**before[0], "cases": before}, {**after[0], "cases": after})

    assert [host["name"] for host in comparison["hosts"]] == ["a1", "b2"]
    assert [(one["side"], one["name"]) for one in comparison["alone"]] == [("before", "c3"), ("after", "d4")]
    assert "c3 (only BEFORE)" in FORMATS["text"](comparison)


def test_the_same_lines_are_no_second_look() -> None:
    """What AFTER has from the files of BEFORE (old recordings of sar, an untimed profile) says nothing about after."""

    def part(after: dict[str, Any]) -> None:
        after["tool"]["options"] = {"since": "10:00"}

    def newer(after: dict[str, Any]) -> None:
        part(after)
        for item in after["inputs"]:
            item["sha256"] = "0" * 64

    assert statuses(changed("alloc-churn", "alloc-churn", part))["THP-010"] == "cannot_tell"
    assert statuses(changed("alloc-churn", "alloc-churn", newer))["THP-010"] == "unchanged"


def test_several_states_in_one_result_are_told() -> None:
    """The whole session holds both tables; its figures are those of the state of its verdict."""
    whole = result("fixtures/stories/hadoop-centos62/bundle")
    (host,) = document(whole, result("fixtures/comparisons/hadoop-centos62/after"))["hosts"]

    assert any("BEFORE holds 2 states" in note for note in host["notes"])
    assert host["answer"]["status"] == "improved"


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("verbosity", [0, 1])
def test_the_text_fits_a_terminal(case: str, verbosity: int) -> None:
    """No line is wider than 80 columns, commands apart."""
    text = FORMATS["text"](compared(case), Presentation(verbosity=verbosity))
    told = text.partition("\nWhat to send\n")[0]

    assert [line for line in told.split("\n") if columns(line) > 80] == []


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_golden_outputs(form: str) -> None:
    """The whole output of two saved results, which later rules and readers do not change.

    Of the page without its looks, the charts and the packed document, which are not of this room.
    """
    folder = PAIRS / "storm-thp-never"
    before, after = (json.loads((folder / f"{side}.json").read_text()) for side in ("before", "after"))
    actual = _UNSTEADY.sub("", FORMATS[form](document(before, after)))
    golden = folder / f"golden.{form}"
    if os.environ.get("BLESS") == "1":
        golden.write_text(actual)

    assert actual == golden.read_text()


def test_the_same_bytes_from_a_saved_result(tmp_path: Path) -> None:
    """A result that went through JSON gives the same comparison."""
    before, after = (json.loads(json.dumps(captured(name))) for name in ("alloc-churn", "churn-never"))

    assert FORMATS["json"](document(before, after)) == FORMATS["json"](compared("churn-never"))
