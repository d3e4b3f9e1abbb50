"""What `rules lint` says of a rule: each habit that must not creep in is complained about, a good rule is not."""

from __future__ import annotations

import pytest

from thpdiag.engine.lint import complaints
from thpdiag.engine.load import load_rule

GOOD = """\
id: THP-999
title: Page faults compact memory
status: stable
severity: high
mechanism: fault-compaction
role: root_cause
params:
  stalls: {default: 2 /s, means: more than a cured host shows in any minute}
  share: {default: 10 %, means: what sampling cannot miss}
  stall: {default: 1 s, means: shorter stretches are single allocations}
checks:
  stalling: {series: node_vmstat_compact_stall, as: rate, above: $stalls, for: $stall}
  compacting: {profile: {self: spin_lock, under: [compaction], of: all, at_least: $share}}
  policy: {fact: thp.defrag, one_of: [always]}
when: stalling and compacting
confidence:
  likely: policy
means: Programs wait while the kernel moves pages together for them, at every fault that wants a huge page.
remedies: [defrag-never]
verify: compact_stall stands still.
references: [mm/compaction.c]
"""


def said(text: str) -> str:
    return "\n".join(complaints([load_rule("rule.yaml", text)]))


def test_a_good_rule_is_not_complained_about() -> None:
    """The rule that the others are made from is in order."""
    assert said(GOOD) == ""


@pytest.mark.parametrize(
    ("good", "bad", "complaint"),
    [
        ("series: node_vmstat_compact_stall", "series: node_vmstat.compact_stall", "is not in the vocabulary"),
        ("self: spin_lock", "self: spin_lok", "unknown symbol family 'spin_lok'; did you mean 'spin_lock'?"),
        ("mechanism: fault-compaction", "mechanism: fault-compacting", "unknown mechanism 'fault-compacting'"),
        ("[defrag-never]", "[defrag-newer]", "unknown remedy 'defrag-newer'; did you mean 'defrag-never'?"),
        ("[defrag-never]", "[numa-settings]", "'numa-settings' does not cure fault-compaction"),
        ("remedies: [defrag-never]\n", "", "a cause has a remedy"),
        ("verify: compact_stall stands still.\n", "", "a root cause says how its cure is verified"),
        ("one_of: [always]", "matches: '(?=always)'", "is no regular expression of RE2"),
        ("likely: policy", "likely: stalling", "check 'policy' is in no condition"),
        ("for: $stall}", "for: 1 s}", "parameter 'stall' is used by no check"),
        ("at_least: $share", "at_least: 10 %", "at_least: 10 % has no reason"),
        ("title: Page faults compact", "title: Disable compaction of", "the title gives an order ('Disable')"),
        ("compact memory\n", "compact memory.\n", "a title has no full stop"),
        ("likely: policy", "likely: policy\n  confirmed: policy", "likely and confirmed have the same condition"),
        ("references:", "examples: [stories/nowhere]\nreferences:", "no fixture 'stories/nowhere'"),
    ],
    ids=lambda value: value.split(":")[0].strip()[:30],
)
def test_what_is_wrong_with_a_rule_is_said(good: str, bad: str, complaint: str) -> None:
    """One change to the good rule, one complaint at its place."""
    assert good in GOOD

    found = said(GOOD.replace(good, bad))

    assert complaint in found
    assert found.startswith("rule.yaml:")


def test_unknown_events_and_applications_are_said() -> None:
    """Both are names of our knowledge, as symbols are."""
    checks = "  seen: {event: soft_lokup}\n  runs: {process: {app: rediss}}\nwhen: seen and runs and stalling"
    found = said(GOOD.replace("when: stalling", checks))

    assert "unknown event 'soft_lokup'; did you mean 'soft_lockup'?" in found
    assert "unknown application 'rediss'; did you mean 'redis'?" in found
