"""`rules fmt`, and what rules may name besides ids: mechanisms in relations, behaviours of kernels."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from command_line import ROOT, Run
from faulty_rules import GOOD
from thpdiag.authoring.cases import build_host
from thpdiag.authoring.formatting import FormatError, format_rules
from thpdiag.engine.load import load_rule, load_rules
from thpdiag.engine.schema import CaseFile
from thpdiag.errors import RuleError

WRITTEN = """\
# of the file

id: ACME-01   # of the id
# above checks
checks:
  busy: {series: cpu_ratio.sys_total, above: 30 %}   # why so much
  # above the list
  named: {fact: app, one_of: [redis, mongodb,   # lint: allow a-name because
    java]}
  text: "a # in quotes, and a 'quote'"
  url: http://example.org/#place
when: busy
means: Words that are longer than a line may be in this form, which is a hundred characters, are folded at blanks.
at:
- {node: 0, zone: Normal}
- [1, '2', "3"]
- none
# of the end
"""
FORMATTED = """\
# of the file

id: ACME-01  # of the id
# above checks
checks:
  busy:  # why so much
    series: cpu_ratio.sys_total
    above: 30 %
  # above the list
  named:  # lint: allow a-name because
    fact: app
    one_of: [redis, mongodb, java]
  text: "a # in quotes, and a 'quote'"
  url: http://example.org/#place
when: busy
means: >-
  Words that are longer than a line may be in this form, which is a hundred characters, are folded
  at blanks.
at:
  - {node: 0, zone: Normal}
  - [1, '2', "3"]
  - none
# of the end
"""


def test_blocks_with_their_comments() -> None:
    """Each comment stays with its line, each scalar as it is quoted; a second time changes nothing."""
    assert format_rules(WRITTEN) == FORMATTED
    assert format_rules(FORMATTED) == FORMATTED


def test_what_cannot_be_kept_is_refused() -> None:
    """A form that the writer does not know is an error, not another file."""
    with pytest.raises(FormatError):
        format_rules("id: A-01\nchecks:\n- [{a: b}, c]\n")


def test_the_shipped_rules_are_formatted(run: Run) -> None:
    """As `make check` demands it."""
    assert run("rules", "fmt", "--check", str(ROOT / "rules")).out == ""


def test_the_command_writes_or_checks(tmp_path: Path, run: Run) -> None:
    """--check lists and changes nothing; YAML that is no rule is left alone, broken YAML is exit 4."""
    rule, other = tmp_path / "good.yaml", tmp_path / "compose.yaml"
    rule.write_text(GOOD.replace("\nmeans:", "\n\n\nmeans:"), encoding="utf-8")
    other.write_text("services: {a:   b}\n", encoding="utf-8")
    before = rule.read_text(encoding="utf-8")

    checked = run("rules", "fmt", "--check", str(tmp_path))
    assert (checked.code, rule.read_text(encoding="utf-8")) == (1, before)
    assert run("rules", "fmt", str(tmp_path)).code == 0
    assert rule.read_text(encoding="utf-8") == format_rules(before)
    assert other.read_text(encoding="utf-8") == "services: {a:   b}\n"
    assert run("rules", "fmt", "--check", str(tmp_path)).code == 0
    rule.write_text("id: [", encoding="utf-8")
    assert run("rules", "fmt", str(rule)).code == 4


def test_the_recipe_of_the_readme_works_in_a_checkout(tmp_path: Path, run: Run) -> None:
    """The folder of the shipped rules may be named too: it is the same folder, not a second one."""
    assert run("rules", "lint", str(ROOT / "rules")).code == 0
    made = run("rules", "new", "slab-growth", "--rules", str(tmp_path))
    assert made.code == 0
    assert run("rules", "fmt", "--check", str(tmp_path)).code == 0


def test_a_mechanism_stands_for_its_rules(tmp_path: Path) -> None:
    """All rules of it but the one that names it; a mechanism without another rule is an error with a caret."""
    text = (ROOT / "rules" / "compaction-lock-convoy.yaml").read_text(encoding="utf-8")
    assert "compaction-lock-convoy" in load_rule("x", text).file.explains
    shipped = {rule.id: rule for rule in load_rules([ROOT / "rules"])}
    assert {"THP-003", "THP-004", "THP-005"} <= set(shipped["THP-001"].file.explains)
    assert "THP-001" not in shipped["THP-001"].file.explains
    shutil.copy(ROOT / "rules" / "compaction-lock-convoy.yaml", tmp_path)
    with pytest.raises(RuleError, match="no other rule has the mechanism 'fragmentation'"):
        load_rules([tmp_path])


def test_a_behaviour_stands_for_its_era() -> None:
    """In rules and in cases; the fact keeps its code."""
    text = (ROOT / "rules" / "analytics-on-old-kernel.yaml").read_text(encoding="utf-8")
    check = load_rule("x", text).checks["old_kernel"]
    host = build_host(
        CaseFile.model_validate({"name": "a", "outcome": "silent", "facts": {"kernel.era": "async-compaction-only"}})
    )

    assert check.one_of == ["E1", "E2", "E3"]  # type: ignore[union-attr]
    assert [fact.value for fact in host.states[0].facts if fact.name == "kernel.era"] == ["E5"]
