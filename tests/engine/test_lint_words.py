"""What `rules lint` says of remedies, words, relations between rules, and cases."""

from __future__ import annotations

import pytest

from faulty_rules import GOOD, GOOD_CASES, among, marked, one_complaint, said

REMEDIES = [
    ("unknown-remedy", "[defrag-never]", "[«defrag-newer]", "did you mean 'defrag-never'?"),
    ("remedy-does-not-cure", "[defrag-never]", "[«numa-settings]", "does not cure fault-compaction"),
    ("cause-without-remedy", "role: root_cause", "«role: root_cause", "a cause has a remedy"),
    ("cure-without-verification", "role: root_cause", "«role: root_cause", "a way to verify its cure"),
    (
        "vague-verification",
        "verify: compact_stall stands still.",
        "verify: The «problem is gone.",
        "cannot be measured",
    ),
    ("listed-twice", "[defrag-never]", "[defrag-never, «defrag-never]", "is twice in remedies"),
    ("refers-to-itself", "means: Programs", "explains: [«THP-999]\nmeans: Programs", "cannot name itself"),
    (
        "role-against-mechanism",
        "mechanism: fault-compaction\nrole",
        "mechanism: memory-leak\n«role",
        "of kind alternative",
    ),
    ("look-alikes-not-faced", "role: root_cause", "«role: root_cause", "memory-pressure, non-thp-high-order"),
    ("title-is-an-order", "Page faults compact memory", "«Disable compaction of memory", "gives an order ('Disable')"),
    ("title-ending", "title: Page faults compact memory", "«title: Page faults compact memory.", "no full stop"),
    ("no-sentence", "verify: compact_stall stands still.", "«verify: compact_stall stands still", "whole sentences"),
    (
        "means-repeats-title",
        "means: Programs",
        "«means: Page faults compact memory, all the time, on every CPU.\n#",
        "explain the mechanism",
    ),
    ("blaming-word", "means: Programs wait", "means: The host is «misconfigured, and programs wait", "blames"),
    ("advice-in-text", "wants a huge page.", "wants a huge page; «please disable them.", "is an advice"),
    ("todo", "verify: compact_stall stands still.", "verify: «TODO say what stands still.", "TODO say"),
]
TAKEN_OUT = {
    "cause-without-remedy": "remedies: [defrag-never]\n",
    "cure-without-verification": "verify: compact_stall stands still.\n",
    "look-alikes-not-faced": "false_positives:\n  - Other users of large blocks compact as well.\n",
    "role-against-mechanism": "",
}


@pytest.mark.parametrize(("name", "good", "bad", "words"), REMEDIES, ids=[row[0] for row in REMEDIES])
def test_what_a_rule_says_wrongly_is_said(name: str, good: str, bad: str, words: str) -> None:
    """Remedies, verification, other rules, words: one mistake, one complaint, at its place."""
    assert GOOD.count(good) == 1
    text, place = marked(GOOD.replace(good, bad).replace(TAKEN_OUT.get(name, "\0"), ""))
    if name == "role-against-mechanism":
        text = text.replace("[defrag-never]", "[not-thp]")

    one_complaint(said(text), name, place, words)


@pytest.mark.parametrize(
    ("name", "first", "second", "words"),
    [
        ("excluded-and-demoted", "excluded_by: [ALT-99]\ndemoted_by: [«ALT-99]\n", "", "keep one of the two"),
        (
            "explains-its-excluder",
            "excluded_by: [ALT-99]\nexplains: [«ALT-99]\n",
            "",
            "keep one of explains and excluded_by",
        ),
        ("explain-each-other", "explains: [«ALT-99]\n", "explains: [THP-999]\n", "explains THP-999 too"),
    ],
)
def test_relations_of_two_rules_that_contradict_each_other_are_said(
    name: str, first: str, second: str, words: str
) -> None:
    """In the rule that says it, at the name of the other."""
    text, place = marked(GOOD.replace("means: Programs", f"{first}means: Programs"))
    other = (
        GOOD.replace("THP-999", "ALT-99")
        .replace("compact memory\n", "compact something\n")
        .replace("one_of: [always]", "is: never")
    )
    other = (
        other.replace("fault-compaction", "memory-leak")
        .replace("root_cause", "alternative")
        .replace("[defrag-never]", "[not-thp]")
    )
    found = among(text, other.replace("means: Programs", f"{second}means: Programs"))

    one_complaint([line for line in found if line.startswith("compaction-0.yaml")], name, place, words)


def test_a_check_on_an_excluder_is_said() -> None:
    """Exclusion takes care of it already."""
    text = GOOD.replace("{fact: thp.defrag, one_of: [always]}", "{rule: «ALT-99, is: silent}")
    text, place = marked(text.replace("means: Programs", "excluded_by: [ALT-99]\nmeans: Programs"))
    found = [line for line in said(text) if "[case-kinds]" not in line]

    one_complaint(found, "excluder-checked-too", place, "names ALT-99 already")


CASES = [
    ("case-kinds", "- name: nothing known\n  outcome: unknown\n", "", "1:1", "no case with outcome unknown"),
    (
        "few-look-alikes",
        '- name: the counter rests\n  series: {node_vmstat_compact_stall: "5+0x12 @10s"}\n  outcome: silent\n',
        "",
        "6:3",
        "looks alike",
    ),
    ("level-without-case", "  confidence: likely\n", "", "1:1", "add one with confidence: likely"),
    ("case-name-twice", "name: chains elsewhere", "name: the counter rests", "9:3", "describe the difference"),
    ("unknown-name-in-case", "{thp.defrag: always}", "{thp.defrg: always}", "2:11", "did you mean 'thp.defrag'?"),
    ("unknown-name-in-case", "kind: oom_kill", "kind: oom_kil", "11:19", "did you mean 'oom_kill'?"),
    (
        "empty-case",
        '  facts: {thp.defrag: always}\n  series: {node_vmstat_compact_stall: "0+200x12 @10s"}\n',
        "",
        "1:3",
        "an empty host cannot fire",
    ),
]


@pytest.mark.parametrize(
    ("name", "good", "bad", "place", "words"), CASES, ids=[f"{i}-{row[0]}" for i, row in enumerate(CASES)]
)
def test_cases_that_prove_little_are_said(name: str, good: str, bad: str, place: str, words: str) -> None:
    """In the file of the cases, at the case or at the name."""
    assert GOOD_CASES.count(good) == 1
    found = said(GOOD, GOOD_CASES.replace(good, bad))

    assert all(line.startswith("fault-compaction.cases.yaml:") for line in found)
    one_complaint(found, name, place, words)
