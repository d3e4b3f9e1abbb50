"""A correct rule and its cases, copies of it with one mistake, and the place of the expected complaint.

`«` in a faulty text marks the expected place of the caret; it is removed before the text is read.
"""

from __future__ import annotations

import re

from thpdiag.engine.lint import lint_rules
from thpdiag.engine.lint.issue import Cases
from thpdiag.engine.load import Rule, RuleSource, load_rule
from thpdiag.knowledge.yaml_nodes import load_with_places

RULE = "fault-compaction.yaml"
CASES = "fault-compaction.cases.yaml"
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
false_positives:
  - Other users of large blocks compact as well.
references: [mm/compaction.c]
"""
GOOD_CASES = """\
- name: chains and a moving counter
  facts: {thp.defrag: always}
  series: {node_vmstat_compact_stall: "0+200x12 @10s"}
  outcome: fires
  confidence: likely
- name: the counter rests
  series: {node_vmstat_compact_stall: "5+0x12 @10s"}
  outcome: silent
- name: chains elsewhere
  stacks: [main 100]
  events: [{kind: oom_kill, comm: java}]
  outcome: silent
- name: nothing known
  outcome: unknown
"""
_HEAD = re.compile(r"(?P<path>\S+?):(?P<line>\d+):(?P<column>\d+): \[(?P<name>[\w-]+)\] (?P<message>.*)")


def rule(text: str, path: str = RULE) -> Rule:
    return load_rule(path, text)


def cases(text: str, path: str = CASES) -> Cases:
    data, places = load_with_places(text)
    return Cases(data, RuleSource(path, text, places))


def said(text: str, written: str = GOOD_CASES) -> list[str]:
    """Return all complaints about a rule with these cases."""
    one = rule(text)
    return lint_rules([one], {one.id: cases(written)})


def among(*texts: str) -> list[str]:
    """Return all complaints about several rules together, without cases."""
    return lint_rules([rule(text, f"compaction-{number}.yaml") for number, text in enumerate(texts)])


def marked(text: str) -> tuple[str, str]:
    """Return the text without its mark, and `line:column` of the mark."""
    before, sign, after = text.partition("«")
    assert sign, "no mark in the broken text"
    line = before.count("\n") + 1
    return before + after, f"{line}:{len(before) - before.rfind(chr(10))}"


def one_complaint(found: list[str], name: str, place: str, words: str = "") -> None:
    """Assert exactly one complaint, of this name, at this place, with a caret there and with these words."""
    assert len(found) == 1, found
    head, row, caret = found[0].splitlines()
    told = _HEAD.fullmatch(head)
    assert told, head
    assert (told["name"], f"{told['line']}:{told['column']}") == (name, place)
    assert caret.index("^") == int(told["column"]) + 1
    assert row.startswith("  ")
    assert words in told["message"]
