"""`rules test` with one thing wrong in a rule at a time: what is made wrong, and which cases notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyze_bytes import rules
from command_line import Run
from conftest import ROOT
from thpdiag.authoring.cases import known_gaps
from thpdiag.authoring.testing import mutants, run_case, trials, unnoticed_mistakes
from thpdiag.engine.load import builtin_rules, load_rule
from thpdiag.engine.schema import CaseFile

MOST_GAPS = 0  # lines of rules/unnoticed.txt; this number may only become smaller
RULE = """
id: ACME-01
title: Memory is short and something happens to it
status: draft
severity: low
mechanism: memory-pressure
role: alternative
params:
  free: {default: 64 MiB, means: free memory below which this tiny rule speaks}
  often: {default: 10 /s, means: stalls per second that this tiny rule asks for}
checks:
  little: {series: node_memory_MemFree_bytes, below: $free}
  swaps: {series: node_vmstat_compact_stall, as: rate, above: $often}
  thp: {fact: thp.enabled, is: always}
when: little and (swaps or thp)
confidence: {likely: swaps}
means: A tiny rule that is there to be made wrong by the tests, in every way there is.
references: [none]
"""
FREE, SWAPS = "node_memory_MemFree_bytes", "node_vmstat_compact_stall"


def case(free: float, swaps: str | None, outcome: str, enabled: str = "never", **more: object) -> CaseFile:
    series = {FREE: f"{int(free * 2**20)}x10 @10s", **({SWAPS: swaps} if swaps else {})}
    return CaseFile.model_validate(
        {"name": f"{free} {swaps}", "series": series, "facts": {"thp.enabled": enabled}, "outcome": outcome, **more}
    )


GOOD = (
    case(40, "0+150x10 @10s", "fires", confidence="likely"),
    case(40, "0+60x10 @10s", "silent"),
    case(40, "0+60x10 @10s", "fires", "always", confidence="possible"),
    case(100, "0+150x10 @10s", "silent"),
    case(40, None, "unknown"),
)


def missed(cases: tuple[CaseFile, ...], text: str = RULE) -> list[str]:
    rule = load_rule("acme.yaml", text)
    ready = trials(rule, [rule], cases)
    assert all(run_case(rule, [rule], one).passed for one in ready)
    return [line.removeprefix("ACME-01: ") for line in unnoticed_mistakes(rule, [rule], ready)]


def test_good_cases_notice_everything() -> None:
    """Checks, thresholds both ways, the level, the condition."""
    whats = [mutant.what for mutant in mutants(load_rule("acme.yaml", RULE))]

    assert missed(GOOD) == []
    assert len(whats) == len(set(whats)) == 6 + 4 + 1 + 2


@pytest.mark.parametrize(
    ("without", "goes_unnoticed"),
    [
        (0, ["parameter 'often' doubled", "without confidence 'likely'", "check 'swaps' forced to yes"]),
        (2, ["check 'thp' forced to no"]),
        (3, ["parameter 'free' doubled"]),
    ],
)
def test_a_missing_case_is_missed(without: int, goes_unnoticed: list[str]) -> None:
    """Each case is there for something."""
    left = missed(GOOD[:without] + GOOD[without + 1 :])

    assert set(goes_unnoticed) & set(left)


def test_far_values_notice_no_threshold() -> None:
    """Cases far from a threshold leave it open on both sides."""
    far = (case(1, "0+9000x10 @10s", "fires"), case(9000, "0+0x10 @10s", "silent", "always"))

    assert {f"parameter '{p}' {w}" for p in ("free", "often") for w in ("doubled", "halved")} <= set(missed(far))


def test_a_parameter_may_say_why_no_case_is_near() -> None:
    """Then its value is left as it is."""
    reason = "the number only keeps one noisy sample from counting"
    text = RULE.replace("this tiny rule speaks}", f"this tiny rule speaks, no_case: {reason}}}")

    whats = [mutant.what for mutant in mutants(load_rule("acme.yaml", text))]
    assert not any("'free'" in what for what in whats)
    assert any("'often'" in what for what in whats)


def test_counts_stay_whole() -> None:
    """Half of three events is no number of events."""
    text = RULE.replace("  thp: {fact: thp.enabled, is: always}", "  thp: {event: oom_kill, at_least: $times}").replace(
        "params:", "params:\n  times: {default: 3, means: messages that this tiny rule asks for}"
    )
    counts = [m.rule.checks["thp"].at_least for m in mutants(load_rule("acme.yaml", text)) if "'times'" in m.what]  # type: ignore[union-attr]

    assert counts == [6, 1]


def test_what_is_known_to_go_unnoticed_only_shrinks() -> None:
    """The list names rules that exist, each line once, and has no more lines than before."""
    lines = [row for row in (ROOT / "rules" / "unnoticed.txt").read_text().splitlines() if not row.startswith("#")]

    assert len(lines) == len(set(lines)) <= MOST_GAPS
    assert {row.split(":")[0] for row in lines} <= {rule.id for rule in rules()}
    assert known_gaps([builtin_rules()]) == set(lines)


def test_a_known_gap_passes_until_a_case_notices(run: Run, tmp_path: Path) -> None:
    """In a folder of one's own too; a line that is no longer true is a failure."""
    cases = (
        "- {name: short, series: {node_memory_MemFree_bytes: '1000'}, facts: {thp.enabled: always}, outcome: fires}\n"
    )
    (tmp_path / "acme.yaml").write_text(RULE)
    (tmp_path / "acme.cases.yaml").write_text(cases)
    lines = run("rules", "test", "ACME-01", "--rules", str(tmp_path)).out.splitlines()
    known = [line.removesuffix(": no case notices") for line in lines]
    (tmp_path / "unnoticed.txt").write_text("# known\n" + "\n".join(known))

    assert known
    assert run("rules", "test", "ACME-01", "--rules", str(tmp_path)).code == 0
    assert run("rules", "test", "ACME-01", "--gaps", "--rules", str(tmp_path)).code == 1
    (tmp_path / "unnoticed.txt").write_text("\n".join([*known, "ACME-01: check 'thp' forced to no"]))
    done = run("rules", "test", "ACME-01", "--rules", str(tmp_path))
    assert (done.code, "remove the line from unnoticed.txt" in done.out) == (1, True)
