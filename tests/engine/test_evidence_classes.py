"""Classes of evidence: which are one and the same, how high they make a finding, what is missing, what would help."""

from __future__ import annotations

from typing import Any

import pytest

from analyze_bytes import rules
from faulty_rules import GOOD
from thpdiag.authoring.cases import build_host
from thpdiag.diagnosis.diagnose import Diagnosis, diagnose
from thpdiag.diagnosis.result_document import document
from thpdiag.engine.check_result import INDEPENDENT, fact_class, independent_kinds, metric_class
from thpdiag.engine.evaluate import evaluate
from thpdiag.engine.load import Rule, load_rule
from thpdiag.engine.schema import CaseFile
from thpdiag.engine.state_view import state_views
from thpdiag.model import RuleOutcome
from thpdiag.model.result import Finding as _Finding
from thpdiag.report import messages
from thpdiag.report.html import render as html
from thpdiag.report.text import render as text

STALLING = {
    "node_vmstat_compact_stall": "0+200x12 @10s", "node_vmstat_thp_fault_alloc": "0+100x12 @10s",
    "node_vmstat_thp_fault_fallback": "0+100x12 @10s",
}  # fmt: skip
CHAINS = ["isolate_migratepages_block < compact_zone < try_to_compact_pages < do_huge_pmd_anonymous_page 40", "main 60"]
BUSY = {"cpu_ratio.sys_total": "0.6+0x60 @2s", "cpu_ratio.sys_share": "0.7+0x60 @2s"}


def rule(checks: str, when: str, more: str = "", name: str = "THP-999", role: str = "root_cause") -> Rule:
    """A rule with these checks, which is as sure as its evidence allows wherever it fires."""
    head, _, rest = GOOD.partition("params:\n")
    tail = rest[rest.index("means: Programs") :]
    head = head.replace("THP-999", name).replace("role: root_cause", f"role: {role}")
    level = f"confidence:\n  confirmed: {when}\n"
    return load_rule(f"{name}.yaml", f"{head}checks:\n{checks}when: {when}\n{level}{more}{tail}")


def outcome(one: Rule, *others: Rule, **host: Any) -> RuleOutcome:
    case = build_host(CaseFile(name="x", outcome="fires", **host))
    (scene,) = state_views(case)
    return evaluate([*others, one], scene)[one.id]


def diagnosed(**host: Any) -> Diagnosis:
    case = build_host(CaseFile(name="x", outcome="fires", **host))
    return diagnose(case, rules(), [(scene, evaluate(rules(), scene)) for scene in state_views(case)])


def finding(found: Diagnosis, name: str) -> dict[str, Any]:
    return next(f for f in document([found])["findings"] if f["rule"] == name)


@pytest.mark.parametrize(
    ("metric", "as_", "wanted"),
    [
        ("cpu_ratio.sys_total", "level", "cpu"),
        ("process_cpu_ratio", "level", "cpu"),
        ("process_cpu_ratio.lifetime", "last", "total"),
        ("process_resident_memory_bytes", "delta", "effect"),
        ("process_resident_memory_bytes", "knee", "effect"),
        ("swap_in_bytes:rate", "level", "counter"),
        ("node_vmstat_compact_stall", "rate", "counter"),
        ("node_vmstat_compact_stall", "since_boot_rate", "total"),
        ("node_memory_MemFree_bytes", "level", "state"),
        ("node_memory_MemFree_bytes", "delta", "effect"),
    ],
)
def test_a_figure_has_one_class(metric: str, as_: str, wanted: str) -> None:
    """By what it measures, not by the tool: si of vmstat is the kernel's counter of pages swapped in."""
    assert metric_class(metric, as_) == wanted


def test_facts_have_classes() -> None:
    """A counter's latest value is a total; what a program warns of is not what the kernel did."""
    wanted = {"thp.enabled": "policy", "node_vmstat_compact_stall": "total", "app.thp_warning": "application",
              "memory.available_ratio": "state", "app.version": "state"}  # fmt: skip
    assert {name: fact_class(name) for name in wanted} == wanted


def test_cpu_split_and_growth_are_one_kind() -> None:
    """Both are what it did to the host; stacks and counters are the other two of DESIGN 1."""
    assert sorted(set(INDEPENDENT.values())) == ["counter", "effect", "stack"]
    assert len(independent_kinds({"cpu", "effect"})) == 1
    assert independent_kinds({"policy", "state", "total", "log", "application", "action"}) == frozenset()
    two = rule(
        '  busy: {series: cpu_ratio.sys_total, above: 30 %, for: 30 s}\n'
        '  grown: {series: node_memory_AnonPages_bytes, as: delta, above: 1 GiB}\n', "busy and grown",
    )  # fmt: skip
    grown = {"node_memory_AnonPages_bytes": "0+100000000x60 @2s"}
    assert outcome(two, series={**BUSY, **grown}).confidence == "likely"


@pytest.mark.parametrize(
    ("check", "host"),
    [
        ("{series: node_vmstat_compact_stall, as: since_boot_rate, above: 0.1 /s}",
         {"facts": {"uptime.seconds": 1e6}, "series": {"node_vmstat_compact_stall": "9000000"}}),
        ("{fact: node_vmstat_compact_fail, above: 1000}", {"facts": {"node_vmstat_compact_fail": 9e6}}),
        ("{fact: thp.defrag, is: always}", {"facts": {"thp.defrag": "always"}}),
        ("{fact: app.thp_warning, present: true}", {"facts": {"app.thp_warning": "redis: THP is enabled"}}),
        ("{event: oom_kill}", {"events": [{"kind": "oom_kill", "comm": "java"}]}),
        ("{event: operator_compaction}", {"events": [{"kind": "operator_compaction"}]}),
    ],
)  # fmt: skip
def test_what_only_supports_is_possible(check: str, host: dict[str, Any]) -> None:
    """A total, a setting, a warning, a message, a command: none says that huge pages hurt now."""
    assert outcome(rule(f"  only: {check}\n", "only"), **host).confidence == "possible"


def test_the_traffic_to_swap_does_not_confirm_other_counters() -> None:
    """Both stand in /proc/vmstat; call stacks are another witness."""
    swap = {"swap_in_bytes:rate": "27000000+0x30 @2s", "node_vmstat_pgscan_direct": "0+1000x12 @5s"}
    both = rule('  swap: {series: "swap_in_bytes:rate", above: 10 MiB/s}\n'
                '  scan: {series: node_vmstat_pgscan_direct, as: rate, above: 1 /s}\n', "swap and scan")  # fmt: skip
    assert outcome(both, series=swap).confidence == "likely"


def test_what_rests_on_a_hypothesis_is_one() -> None:
    """A rule that asks whether another fires is no surer for that than the other, and names its evidence."""
    hypothesis = rule("  only: {fact: thp.defrag, is: always}\n", "only")
    likely = rule("  moving: {series: node_vmstat_compact_stall, as: rate, above: 1 /s}\n", "moving")
    resting = rule("  other: {rule: THP-999}\n", "other", name="THP-998", role="configuration")
    host = {"facts": {"thp.defrag": "always"}, "series": STALLING}
    assert outcome(resting, hypothesis, **host).confidence == "possible"
    found = outcome(resting, likely, **host)
    assert (found.confidence, found.evidence_classes) == ("likely", ("counter",))


def test_a_yes_under_not_speaks_against() -> None:
    """It makes nothing surer, and stands with what speaks against the finding."""
    one = rule(
        "  moving: {series: node_vmstat_compact_stall, as: rate, above: 1 /s}\n"
        "  waiting: {series: cpu_ratio.iowait, above: 20 %, for: 50 % of samples}\n"
        "  calm: {fact: thp.defrag, is: always}\n", "moving and (calm or not waiting)",
    )  # fmt: skip
    found = outcome(one, facts={"thp.defrag": "always"}, series={**STALLING, "cpu_ratio.iowait": "0.5+0x60 @2s"})
    assert found.confidence == "likely"
    assert "cpu" not in found.evidence_classes
    assert [e.check for e in found.against] == ["waiting"]


def test_a_hypothesis_silences_no_likely_finding() -> None:
    """It makes a hypothesis of it; one that is as sure silences it, and so does what says what the host is."""
    warned = "  warned: {fact: app.thp_warning, present: true}\n"
    other = rule(warned, "warned", name="THP-998")
    moving = "  moving: {series: node_vmstat_compact_stall, as: rate, above: 1 /s}\n"
    one = rule(moving, "moving", more="excluded_by: [THP-998]\n")
    host = {"facts": {"app.thp_warning": "x"}, "series": STALLING}
    assert outcome(one, other, **host).confidence == "possible"
    context = rule(warned, "warned", name="THP-998", role="context")
    assert outcome(one, context, **host).value.word == "no"
    sure = rule("  scan: {series: node_vmstat_thp_fault_alloc, as: rate, above: 1 /s}\n", "scan", name="THP-998")
    assert outcome(one, sure, **host).value.word == "no"


def test_classes_that_are_missing_are_those_asked_for_and_not_there() -> None:
    """Stacks alone: the counters, the CPU split and a switch are missing; growth of memory nobody asks for here."""
    told = finding(diagnosed(stacks=CHAINS), "THP-010")
    assert told["classes_spoken"] == ["stack"]
    assert told["classes_missing"] == ["counter", "cpu", "toggle"]
    still = {"node_vmstat_compact_stall": "5+0x12 @10s"}
    told = finding(diagnosed(stacks=CHAINS, series=still), "THP-010")
    assert "counter" not in told["classes_missing"], "it was recorded; that it does not speak for it is another thing"


def test_what_would_raise_it_does() -> None:
    """The step that is promised comes true when the customer sends what is asked for."""
    told = finding(diagnosed(stacks=CHAINS), "THP-010")
    assert told["confidence"] == "likely"
    steps = {tuple(step["classes"]): (step["to"], step["ask_for"]) for step in told["raises"]}
    assert steps[("counter",)][0] == steps[("cpu",)][0] == "confirmed"
    assert any("/proc/vmstat" in command for command in steps[("counter",)][1])
    for more in (STALLING, BUSY):
        found = finding(diagnosed(stacks=CHAINS, series=more), "THP-010")
        assert found["confidence"] == "confirmed"
        assert found["raises"] == []


def test_a_total_never_becomes_more() -> None:
    """Counters since boot: what is promised is not that the same total could prove it."""
    one = rule("  often: {fact: node_vmstat_compact_fail, above: 1000}\n"
               "  moving: {series: node_vmstat_compact_stall, as: rate, above: 1 /s}\n", "often or moving")  # fmt: skip
    found = outcome(one, facts={"node_vmstat_compact_fail": 9e6})
    assert found.confidence == "possible"
    assert [(step.to, step.classes) for step in found.raises] == [("likely", ("counter",))]


def test_it_is_told_in_words() -> None:
    """In text and on the page: what speaks, what is missing, and the command on a line of its own."""
    told = document([diagnosed(stacks=CHAINS)])
    leader = told["findings"][0]
    reason = messages.confidence_reason(_Finding.model_validate(leader))
    assert reason.startswith("Supported by call stacks. Not in the bundle: an on/off comparison")
    for report in (" ".join(text(told).split()), " ".join(html(told).split())):
        assert reason in report
        assert "It would become confirmed if it shows in" in report
    assert any(
        line.strip() == command for command in leader["raises"][0]["ask_for"] for line in text(told).splitlines()
    )
