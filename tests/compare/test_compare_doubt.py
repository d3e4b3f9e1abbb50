"""What must not be called fixed, worse or new: changes that the load, other programs, a boot or redaction explain."""

from __future__ import annotations

from typing import Any

import pytest

from comparison_pairs import FORMATS, captured, changed, document, statuses

FAULTS = "process_faults_total:rate"


def _as_before(after: dict[str, Any]) -> None:
    after["host"]["settings"] = captured("storm-always")["host"]["settings"]


def test_without_a_known_change_nothing_is_called_fixed() -> None:
    """The same settings on both sides: it may have gone by itself, and so come back."""
    host = changed("storm-always", "storm-thp-never", _as_before)

    assert statuses(host)["THP-010"] == "improved"
    assert "Improved, although no known setting changed" in host["answer"]["sentence"]
    assert "No setting that both sides have differs." in FORMATS["text"]({"hosts": [host], "alone": []})


def test_an_assumed_default_is_no_change() -> None:
    """AFTER does not show the setting; what its distribution starts with was not switched by anybody."""

    def assumed(after: dict[str, Any]) -> None:
        _as_before(after)
        after["host"]["settings"]["thp.defrag"] = {"value": "madvise", "provenance": "assumed"}

    host = changed("storm-always", "storm-thp-never", assumed)

    assert statuses(host)["THP-010"] == "improved"
    assert "from always to madvise" not in host["answer"]["sentence"]


def test_a_rule_that_is_undecided_after_is_not_no_longer_found() -> None:
    """Nothing but a recording with nothing in it: the reason is what is lacking."""
    nothing = {"schema": "thpdiag/result/1", "host": {"name": "demo"}, "verdict": {"status": "cannot_tell"}}
    (host,) = document(captured("storm-always"), nothing)["hosts"]

    assert set(statuses(host).values()) == {"cannot_tell"}
    assert not any("no longer found, but" in finding["reason"] for finding in host["findings"])


def _program(times: float) -> Any:
    """The program that makes the page faults does this many times as much as before; the host as much as it did."""

    def scaled(after: dict[str, Any]) -> None:
        before = captured("storm-always")["timeline"]["series"]
        rows = next(one["points"] for one in before if one["metric"] == FAULTS and one["entity"].startswith("churn"))
        measures = after["host"]["measures"]
        measures["node_vmstat_pgalloc_normal"] = captured("storm-always")["host"]["measures"][
            "node_vmstat_pgalloc_normal"
        ]
        measures["node_vmstat_thp_fault_alloc"] |= {"value": 0.0, "min": 0.0, "max": 0.0, "deviation": 0.0}
        for one in after["timeline"]["series"]:
            if one["metric"] == FAULTS:
                one["points"] = [[row[0], *(times * value for value in row[1:])] for row in rows]

    return scaled


def test_the_program_of_before_must_do_its_work() -> None:
    """Other programs may hand out as many pages: that of BEFORE at a tenth of its page faults fixes nothing."""
    less = changed("storm-always", "storm-thp-never", _program(0.1))
    same = changed("storm-always", "storm-thp-never", _program(1.0))

    assert (less["load"]["word"], statuses(less)["THP-010"]) == ("less", "cannot_tell")
    assert "page faults of churn" in less["load"]["text"]
    assert (same["load"]["word"], statuses(same)["THP-010"]) == ("same", "fixed")


def _only_work(times: float) -> Any:
    """AFTER is BEFORE with other numbers: the program's page faults, and stalls in step with them."""

    def scaled(after: dict[str, Any]) -> None:
        for one in after["timeline"]["series"]:
            if one["metric"] == FAULTS:
                one["points"] = [[row[0], *(times * value for value in row[1:])] for row in one["points"]]
        stalls = after["host"]["measures"]["node_vmstat_compact_stall"]
        stalls |= {key: times * stalls[key] for key in ("value", "min", "max", "deviation")}
        after["host"]["measures"]["node_vmstat_pgfault"]["value"] *= times

    return scaled


def test_more_of_it_while_the_program_does_more_is_not_worse() -> None:
    """The pages that the whole host handed out are as many: what the program did tells the work."""
    host = changed("storm-always", "storm-always", _only_work(20.0))

    assert host["load"]["word"] == "more"
    assert statuses(host)["THP-010"] == "unchanged"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("knee", "storm-always", id="fewer-stalls-for-much-less-work"),
        pytest.param("migration", "storm-always", id="a-larger-part-of-less-work"),
        pytest.param("migration", "file-streaming", id="reclaim-of-other-work"),
        pytest.param("knee", "storm-defrag-never", id="small-pages-are-wanted-with-defrag-never"),
        pytest.param("stress-io", "file-streaming", id="the-rule-finds-nothing"),
    ],
)
def test_what_the_work_explains_is_not_worse(before: str, after: str) -> None:
    """A rate that fell, a share alone while the load is another, or a figure that the rule takes for something else."""
    (host,) = document(captured(before), captured(after))["hosts"]

    assert "worse" not in statuses(host).values()


def test_what_a_calm_host_could_not_show_is_not_new() -> None:
    """BEFORE did a fraction of the work; only what rose more than the work is new."""
    (idle,) = document(captured("idle-host"), captured("stress-io"))["hosts"]
    (storm,) = document(captured("idle-host"), captured("storm-always"))["hosts"]

    assert statuses(idle)["ALT-05"] == "cannot_tell"
    assert statuses(storm)["THP-010"] == "new"


def _redacted(after: dict[str, Any]) -> None:
    after["tool"]["redacted"] = True
    after["host"] |= {"name": "host1", "kernel": (after["host"]["kernel"] or "").partition("-")[0]}
    for one in after["inputs"]:
        one["sha256"] = None
    for finding in after["findings"]:
        finding["entity"] = "proc1 (13398)" if finding.get("entity") else None


def test_names_of_one_redacted_side_are_no_other_host_program_or_boot() -> None:
    """A pseudonym is neither equal nor different; a finding about a program is not new because of it."""
    before = captured("khugepaged-growth")
    before["host"] |= {"name": "db1", "kernel": "6.18.44-custom"}
    after = captured("khugepaged-growth")
    after["host"]["kernel"] = "6.18.44-custom"
    _redacted(after)
    (host,) = document(before, after)["hosts"]

    assert host["same"] == "unnamed"
    assert set(statuses(host).values()) <= {"unchanged", "cannot_tell"}
    assert statuses(host)["THP-030"] == "cannot_tell"
    assert any("The names of AFTER are pseudonyms" in note for note in host["notes"])
    assert not any("booted" in note for note in host["notes"])
    assert [row["name"] for row in host["facts"]] == []


def test_two_results_that_were_redacted_apart_are_doubted() -> None:
    """Both call their first host host1."""
    before = captured("storm-always")
    _redacted(before)
    host = changed("storm-always", "storm-thp-never", _redacted)
    (both,) = document(before, {**captured("storm-thp-never"), "tool": {**before["tool"]}})["hosts"]

    assert not any("both sides are pseudonyms" in note for note in host["notes"])
    assert not any("both sides are pseudonyms" in note for note in both["notes"])  # the checksums are there
    after = captured("storm-thp-never")
    _redacted(after)
    (apart,) = document(before, after)["hosts"]
    assert any("both sides are pseudonyms" in note for note in apart["notes"])


def test_a_boot_is_seen_by_the_clocks_too() -> None:
    """Up for longer than BEFORE was, but not for as long as lies between the two."""

    def a_week_later(after: dict[str, Any]) -> None:
        for one in after["timeline"]["series"]:
            one["points"] = [[row[0] + 7 * 86400, *row[1:]] for row in one["points"]]
        after["host"]["uptime"] += 2 * 86400

    host = changed("storm-always", "storm-thp-never", a_week_later)

    assert any("shorter than the time in between" in note for note in host["notes"])
    assert statuses(host)["THP-010"] == "improved"


def test_the_same_files_that_decide_nothing_are_unchanged() -> None:
    """Given twice by mistake: that is the answer, not what the input lacks."""
    (host,) = document(captured("small-pages-after-huge-ones"), captured("small-pages-after-huge-ones"))["hosts"]

    assert host["answer"]["status"] == "unchanged"
    assert "are the same files" in host["answer"]["sentence"]


def test_what_was_accepted_is_no_other_analysis() -> None:
    """Nor is what the case is called: the same files stay the same."""
    host = changed("alloc-churn", "alloc-churn", lambda one: one["tool"].update(options={"suppress": "a", "case": "b"}))

    assert set(statuses(host).values()) <= {"unchanged"}
    assert not any("different options" in note for note in host["notes"])


def test_a_finding_that_may_have_been_there_is_not_said_to_be_absent() -> None:
    """BEFORE had no problem as far as was looked, and the rule of AFTER's was undecided there."""

    before = captured("redis-never")
    before["host"]["measures"], before["timeline"]["series"] = {}, []
    for rule in before["rules"]:
        rule["outcome"] = "unknown" if rule["id"] == "THP-030" else rule["outcome"]
    (host,) = document(before, captured("khugepaged-growth"))["hosts"]

    assert statuses(host)["THP-030"] == "cannot_tell"
    assert "whether BEFORE had it is unknown" in host["answer"]["sentence"]
    assert "BEFORE had no such problem" not in host["answer"]["sentence"]


def test_sides_exchanged_are_a_regression() -> None:
    """What is fixed one way round is a regression the other, with the figure that rose; what is new does not remain."""
    always, never = captured("storm-always"), captured("storm-defrag-never")
    (host,) = document(never, always)["hosts"]

    assert statuses(host)["THP-010"] == "new"
    assert host["answer"]["sentence"].startswith("Regression after the change of thp.defrag from never to always: ")
    assert "compact_stall rose from 0/s to 279/s" in host["answer"]["sentence"]
    text = FORMATS["text"]({"hosts": [host], "alone": []})
    assert "New or worse: " in text
    assert ", new)" not in text.partition("\nRemains: ")[2].partition("\n!")[0]


def test_a_cured_host_that_is_inconclusive_shows_the_regression_too() -> None:
    """Its rule is undecided, but the mechanism's figures rose at less work: improved the other way round."""
    always, never = captured("storm-always"), captured("storm-defrag-never")
    never["verdict"] = {"status": "cannot_tell", "sentence": "Inconclusive."}
    for rule in never["rules"]:
        rule["outcome"] = "unknown" if rule["id"] == "THP-010" else rule["outcome"]
    (back,), (forth,) = document(never, always)["hosts"], document(always, never)["hosts"]

    assert statuses(forth)["THP-010"] == "improved"
    assert statuses(back)["THP-010"] == "worse"
    assert back["answer"]["sentence"].startswith("Regression after the change of thp.defrag from never to always: ")
