"""The workbench of rule authors: skeletons, the catalogue in words, what no rule covers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analyze_bytes import rules
from command_line import Run
from faulty_rules import GOOD, rule
from thpdiag.authoring.catalogue import catalogue, check_words
from thpdiag.authoring.testing import rule_coverage, without_cases
from thpdiag.engine.schema import CHECKS
from thpdiag.knowledge.mechanisms import mechanisms


@pytest.mark.parametrize("mechanism", ["khugepaged-bloat", "not-applicable", "mthp"])
def test_a_new_rule_lacks_only_what_is_marked(mechanism: str, tmp_path: Path, run: Run) -> None:
    """Lint complains of the lines with TODO and of nothing else; the cases pass and notice every check."""
    made = run("rules", "new", mechanism, "--rules", tmp_path)
    assert made.code == 0
    assert made.out.split() == [str(tmp_path / f"{mechanism}{end}.yaml") for end in ("", ".cases")]
    text = (tmp_path / f"{mechanism}.yaml").read_text()
    identity = re.findall(r"^id: (\S+)$", text, re.MULTILINE)[0]

    linted = run("rules", "lint", tmp_path)
    complaints = [line for line in linted.out.splitlines() if line.startswith(str(tmp_path))]

    assert linted.code == 4
    assert len(complaints) == text.count("TODO") > 5
    assert all("[todo]" in line for line in complaints)
    assert run("rules", "test", identity, "--rules", tmp_path).code == 0


def test_text_with_a_colon_needs_quotes(tmp_path: Path, run: Run) -> None:
    """YAML makes a mapping of it, and the complaint says what to do."""
    assert run("rules", "new", "fault-compaction", "--rules", tmp_path).code == 0
    rule = tmp_path / "fault-compaction.yaml"
    marked = next(line for line in rule.read_text().splitlines() if "TODO what distinguishes" in line)
    rule.write_text(rule.read_text().replace(marked, "  - a leak: memory never comes back"))
    answer = run("rules", "lint", tmp_path)
    assert "text is wanted here; put text that has a colon and a space in quotes" in answer.out + answer.err


def test_every_mechanism_has_a_skeleton(run: Run, tmp_path: Path) -> None:
    """All of them in one folder: their ids do not meet, and nothing but duplicates of the sample checks is said."""
    for mechanism in mechanisms():
        assert run("rules", "new", mechanism, "--rules", tmp_path).code == 0, mechanism

    found = run("rules", "lint", tmp_path).out
    assert set(re.findall(r"\[([\w-]+)\]", "".join(re.findall(r"^\S+: \[.*$", found, re.MULTILINE)))) == {
        "todo",
        "duplicate-condition",
    }


def test_a_new_rule_overwrites_nothing(run: Run, tmp_path: Path) -> None:
    """Not the rule, and not cases that stand there alone."""
    (tmp_path / "memory-leak.cases.yaml").write_text("mine")

    done = run("rules", "new", "memory-leak", "--rules", tmp_path)
    named = run(
        "rules", "new", "acme-07", "--mechanism", "memory-leak", "--name", "leak", "--rules", tmp_path / "other"
    )

    assert (done.code, "already exists" in done.err) == (2, True)
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["memory-leak.cases.yaml"]
    assert (tmp_path / "memory-leak.cases.yaml").read_text() == "mine"
    assert named.code == 0
    assert "id: ACME-07" in (tmp_path / "other" / "leak.yaml").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["memory-leek"], "did you mean 'memory-leak'?"),
        (["THP-001"], "there is a rule THP-001 already"),
        (["ACME-01", "--mechanism", "leak"], "no mechanism 'leak'"),
    ],
)
def test_a_new_rule_needs_a_name_that_can_be(arguments: list[str], words: str, run: Run, tmp_path: Path) -> None:
    """A typing mistake makes no file."""
    done = run("rules", "new", *arguments, "--rules", tmp_path)

    assert done.code == 2
    assert words in done.err
    assert list(tmp_path.iterdir()) == []


def test_the_catalogue_has_a_section_for_each_rule() -> None:
    """By role and id, each once, and links lead to sections that exist."""
    page = catalogue(rules())
    headings = re.findall(r"^### (.*)$", page, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    links = set(re.findall(r"\(#((?:thp|alt|ctx)-[^)]*)\)", page))

    assert sorted(heading.split(":")[0] for heading in headings) == sorted(one.id for one in rules())
    assert links <= anchors
    assert "None " not in re.sub(r"[.:] None ", "", page)
    assert "{" not in page


def test_every_check_is_told_in_words() -> None:
    """Of all shipped rules: with its numbers, and without the form of the file."""
    told = [(check, check_words(check)) for one in rules() for check in one.checks.values()]

    assert {type(check).__name__ for check, _ in told} <= {model.__name__ for model in CHECKS.values()}
    assert all(20 < len(words) < 500 or "fires" in words or "runs" in words for _, words in told)
    assert not [words for _, words in told if re.search(r"_=|\bNone\b|\bis $|  |FactCheck", words)]


def test_a_rule_of_the_catalogue_reads_as_it_is_meant() -> None:
    """Word for word, for one rule."""
    section = catalogue([rule(GOOD)]).partition("### ")[2]

    assert section.startswith(
        "THP-999: Page faults compact memory\n\nhigh, root cause, stable; mechanism `fault-compaction`"
    )
    assert "Fires when *stalling* and *compacting*.\nLikely when *policy*.\n" in section
    assert "- *stalling*: `node_vmstat_compact_stall` (compact_stall) per second is above 2 /s for 1 s\n" in section
    samples = "at least 10 % of the samples that are not idle end in spin locks, called by memory compaction"
    assert f"- *compacting*: {samples}\n" in section
    assert "| share | 10 % | what sampling cannot miss |" in section
    assert "- `defrag-never`: " in section


def test_docs_writes_a_file(run: Run, tmp_path: Path) -> None:
    """`-o FILE` has what stdout would have, further folders included."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "compaction.yaml").write_text(GOOD)

    assert run("rules", "docs", "--rules", tmp_path / "mine", "-o", tmp_path / "rules.md").out == ""
    assert (tmp_path / "rules.md").read_text() == run("rules", "docs", "--rules", tmp_path / "mine").out
    assert "### THP-999: " in (tmp_path / "rules.md").read_text()


def test_coverage_says_what_no_rule_uses() -> None:
    """One rule uses what stands in it; the rest of each table is unused."""
    found = {one.kind: one for one in rule_coverage([rule(GOOD)])}

    assert "fault-compaction" not in found["mechanisms"].unused
    assert len(found["mechanisms"].unused) == len(mechanisms()) - 1
    assert not {"compaction", "spin_lock"} & set(found["families"].unused)
    assert found["families"].total - len(found["families"].unused) == 2
    assert "thp.defrag" not in found["names"].unused
    assert found["events"].total == len(found["events"].unused)
    assert without_cases([rule(GOOD)], {}) == {"THP-999": ("fires", "silent", "unknown")}


def test_coverage_fits_a_terminal(run: Run) -> None:
    """80 columns; the same as JSON; exit 0 whatever is missing."""
    text = run("rules", "coverage")
    document = run("rules", "coverage", "-f", "json").document

    assert (text.code, max(map(len, text.out.splitlines())) <= 80) == (0, True)
    assert document["rules"] == len(rules())
    assert {
        row["kind"]: row["total"] - row["used"] == len(row["unused"]) for row in document["covered"]
    } == dict.fromkeys(("mechanisms", "remedies", "applications", "events", "families", "names"), True)
