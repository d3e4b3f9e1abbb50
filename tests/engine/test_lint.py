"""What `rules lint` says of names, numbers and form: one mistake in a copy of a good rule, one complaint there."""

from __future__ import annotations

import pytest

from faulty_rules import GOOD, GOOD_CASES, among, marked, one_complaint, said
from thpdiag.engine.lint import LINTS, lint_names


def test_a_good_rule_is_not_complained_about() -> None:
    """The rule that the others are made from is in order, and so are its cases."""
    assert said(GOOD) == []


def test_every_check_has_a_name_and_a_line() -> None:
    """Names are stable, lower case with hyphens, and none is given twice."""
    names = [lint.name for lint in LINTS]

    assert len(set(names)) == len(names) > 30
    assert all(name == name.lower().replace("_", "-").strip("-") for name in lint_names())
    assert all(10 < len(says) < 100 for says in lint_names().values())


NAMES = [
    ("unknown-metric", "node_vmstat_compact_stall,", "«node_vmstat.compact_stall,", "is not in the vocabulary"),
    (
        "alias-of-metric",
        "series: node_vmstat_compact_stall",
        "series: «compact_stall",
        "write node_vmstat_compact_stall",
    ),
    ("unknown-event", "{fact: thp.defrag, one_of: [always]}", "{event: «soft_lokup}", "did you mean 'soft_lockup'?"),
    ("unknown-family", "self: spin_lock", "self: «spin_lok", "did you mean 'spin_lock'?"),
    ("unknown-family", "of: all, at", "of: all, not_comm: «compactor, at", "did you mean 'compactors'?"),
    (
        "unknown-mechanism",
        "mechanism: fault-compaction",
        "mechanism: «fault-compacting",
        "did you mean 'fault-compaction'?",
    ),
    ("unknown-application", "{fact: thp.defrag, one_of: [always]}", "{process: {app: «rediss}}", "mean 'redis'?"),
    ("unknown-value", "one_of: [always]", "one_of: [always, «allways]", "did you mean 'always'?"),
    ("unknown-field", "one_of: [always]", "one_of: [always], where: {«nodee: a}", "did you mean 'node'?"),
    (
        "for-each-unused",
        "role: root_cause\n",
        "role: root_cause\nfor_each: «zone\n",
        "no check looks at a metric of a zone",
    ),
]
THRESHOLDS = [
    (
        "bare-threshold",
        "one_of: [always]}",
        "one_of: [always]}\n  busy: {series: cpu_ratio.system, «above: 30 %}",
        "30 %",
    ),
    (
        "unused-parameter",
        "  stall: {",
        "  «unused: {default: 3 %, means: less than that is noise}\n  stall: {",
        "take it out",
    ),
    ("threshold-without-reason", "what sampling cannot miss", "share of samples in this function", "not why this one"),
    ("unit-mismatch", "default: 2 /s", "default: 2 MiB", "write /s or /min or /h"),
    ("share-out-of-range", "default: 10 %", "default: 110 %", "110 % of the samples cannot be"),
    ("threshold-always-met", "default: 10 %", "default: 0 %", "always holds"),
    ("too-short-for", "default: 1 s", "default: 0.1 s", "shorter than any recorder's interval"),
]
PLACES = {
    "threshold-without-reason": "{default: 10 %, «means:",
    "unit-mismatch": "rate, «above: $stalls",
    "share-out-of-range": "all, «at_least: $share",
    "threshold-always-met": "all, «at_least: $share",
    "too-short-for": "$stalls, «for: $stall",
}
FORM = [
    ("key-order", "status: stable\nseverity: high\n", "severity: high\n«status: stable\n", "after 'title'"),
    ("id-prefix", "id: THP-999", "«id: CTX-999", "an id with CTX is of role context"),
    ("bad-pattern", "one_of: [always]", "«matches: '(?=always)'", "is not an RE2 regular expression"),
    ("pattern-of-everything", "one_of: [always]", "«matches: '.*'", "or `present: true`"),
    ("needless-anchor", "{fact: thp.defrag, one_of: [always]}", "{process: {«comm: '^java$'}}", "without ^ and $"),
    ("missing-example", "references:", "references: [mm/compaction.c]\nexamples: [«stories/nowhere]\n#", "no fixture"),
    ("reference-form", "[mm/compaction.c]", "[«the internet]", "name a file of the kernel"),
    ("reference-folder", "[mm/compaction.c]", "[«memory/compaction.c]", "not a folder of the kernel's source"),
    ("long-line", "references:", f"«false_alarms: {'x' * 400}\nreferences:", ""),
    (
        "allow-of-nothing",
        "role: root_cause",
        "role: root_cause  «# lint: allow unused-chek for a while",
        "'unused-check'?",
    ),
    (
        "allow-of-nothing",
        "role: root_cause",
        "role: root_cause  «# lint: allow unused-check for a while",
        "nothing to complain",
    ),
]


@pytest.mark.parametrize(("name", "good", "bad", "words"), [row for row in [*NAMES, *FORM] if row[0] != "long-line"])
def test_a_wrong_name_is_said(name: str, good: str, bad: str, words: str) -> None:
    """The caret stands under the word itself, and the right word is offered; `policy` may be out of use then."""
    assert GOOD.count(good) == 1
    text, place = marked(GOOD.replace(good, bad))

    one_complaint(said(text), name, place, words)


@pytest.mark.parametrize(("name", "good", "bad", "words"), THRESHOLDS, ids=lambda value: value.split(":")[0][:24])
def test_a_wrong_threshold_is_said(name: str, good: str, bad: str, words: str) -> None:
    """The caret stands under the key that holds the number; what the number would have to be is said."""
    broken = GOOD.replace(good, bad)
    if spot := PLACES.get(name):
        broken = broken.replace(spot.replace("«", ""), spot)
    text, place = marked(broken)
    found = [line for line in said(text) if "[unused-check]" not in line]

    one_complaint(found, name, place, words)


@pytest.mark.parametrize(
    ("name", "check", "words"),
    [
        ("counter-as-level", "{«series: node_vmstat_compact_stall, above: $stalls}", "write `as: rate`"),
        ("gauge-as-rate", "{series: node_procs_running, «as: rate, above: $stalls}", "write delta or slope"),
        ("gauge-as-rate", "{change: {of: node_procs_running, below: $stalls, «within: 300 s}}", "leave it out"),
        ("rate-of-rate", "{series: 'node_forks_total:rate', «as: rate, above: $stalls}", "write level or mean"),
        ("for-without-use", "{series: cpu_ratio.system, as: mean, above: $share, «for: 5 s}", "has no meaning"),
        ("number-of-a-word", "{fact: thp.defrag, «above: 1}", "compare with is or one_of"),
        ("empty-range", "{series: cpu_ratio.system, above: $share, below: 0}", "turn the bounds round"),
        ("bare-threshold", "{series: cpu_ratio.system, «above: 30 %}", "make it a parameter"),
    ],
)
def test_a_check_that_asks_for_what_cannot_be_is_said(name: str, check: str, words: str) -> None:
    """Totals as levels, rates of gauges, bounds without room between them."""
    mark = "" if "«" in check else "«"
    text = GOOD.replace("  policy: {fact: thp.defrag, one_of: [always]}", f"  {mark}policy: {check}")
    found = said(marked(text)[0])

    one_complaint([line for line in found if f"[{name}]" in line], name, marked(text)[1], words)


def test_two_thresholds_do_not_share_their_reason() -> None:
    """Words that are copied from one parameter to the next explain neither."""
    broken = GOOD.replace(
        "{default: 1 s, means: shorter stretches are single allocations}",
        "{default: 1 s, «means: what sampling cannot miss}",
    )
    text, place = marked(broken)

    one_complaint(said(text), "threshold-without-reason", place, "'stall' has the words of 'share'")


def test_a_file_is_named_after_its_rule() -> None:
    """Small words with hyphens, of which one stands in the rule."""
    from thpdiag.engine.lint import lint_rules
    from thpdiag.engine.load import load_rule

    shouted = lint_rules([load_rule("Fault_Compaction.yaml", GOOD)])
    other = lint_rules([load_rule("bananas.yaml", GOOD)])

    one_complaint(shouted, "file-name", "1:1", "call it fault-compaction.yaml")
    one_complaint(other, "file-name", "2:1", "which has no words of the rule")


def test_a_long_line_is_said() -> None:
    """What nobody reads to its end is folded."""
    text = GOOD.replace("verify: compact_stall", "verify: " + "more and more words; " * 20 + "compact_stall")
    line = text[: text.index("verify:")].count("\n") + 1

    one_complaint(said(text), "long-line", f"{line}:1", "fold it")


def test_what_two_rules_share_is_said() -> None:
    """One title, one condition: the later rule is told of the earlier."""
    second = GOOD.replace("THP-999", "THP-998")
    found = among(GOOD, second)

    assert [line.split("]")[0].split("[")[1] for line in found] == ["duplicate-title", "duplicate-condition"]
    assert "compaction-0.yaml:2:1: [duplicate-title] THP-998 has this title (compaction-1.yaml)" in found[0]


def test_a_comment_excepts_a_rule_from_a_check() -> None:
    """With a reason; without one that is said instead."""
    broken = GOOD.replace("title: Page faults compact memory", "title: Disable compaction in memory")
    silent = broken.replace(
        "role: root_cause", "role: root_cause  # lint: allow title-is-an-order quoted from a vendor"
    )
    bare = broken.replace("role: root_cause", "role: root_cause  # lint: allow title-is-an-order")

    assert "[title-is-an-order]" in said(broken)[0]
    assert said(silent) == []
    one_complaint(said(bare), "allow-without-reason", "6:1", "give a reason")


def test_cases_without_rule_and_rules_without_cases_are_said() -> None:
    """A file of cases whose rule was renamed would be run by nobody."""
    from faulty_rules import cases, rule
    from thpdiag.engine.lint import lint_rules

    lone = lint_rules([rule(GOOD)], {})
    stray = lint_rules([], {}, [cases(GOOD_CASES, "other.cases.yaml").source])

    one_complaint(lone, "no-cases", "1:1", "fault-compaction.cases.yaml")
    one_complaint(stray, "cases-without-rule", "1:1", "there is no other.yaml")
