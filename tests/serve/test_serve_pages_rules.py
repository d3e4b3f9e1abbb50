"""The catalogue of the rules of a server, asked in memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import ROOT
from serve_application import BEFORE, Whole, rules, served, with_rules
from thpdiag.engine.load import with_set_params
from thpdiag.serve.access.principals import Mode

RULE = "THP-010"


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Whole]:
    with served(tmp_path) as made:
        yield made


def page(whole: Whole, address: str) -> str:
    answer = whole.ask("GET", address)
    assert answer.status == 200
    return answer.body.decode()


def test_every_rule_is_listed_and_has_a_page(whole: Whole) -> None:
    """Each with a link in the list; each page says what it means, looks at and advises."""
    listed = page(whole, "/rules")

    assert f"{len(rules())} rules" in listed
    for rule in rules():
        assert f'<a href="/rules/{rule.id}">{rule.id}</a>' in listed
        told = page(whole, f"/rules/{rule.id}")
        assert all(f"<dt><code>{name}</code></dt>" in told for name in rule.checks)
        assert all(f"<code>{name}</code>" in told for name in rule.file.remedies)
        assert "What it checks" in told or not any(check.needs for check in rule.checks.values())


@pytest.mark.parametrize(
    ("query", "found", "left_out"),
    [
        ("q=khugepaged+cpu", "THP-034", "ALT-04"),
        ("q=NODE_VMSTAT_COMPACT_STALL", "THP-010", "ALT-04"),
        ("q=kernel-update", "THP-010", "ALT-04"),
        ("severity=critical", "THP-001", "THP-010"),
        ("severity=high&q=lock", "ALT-10", "THP-001"),
        ("severity=nonsense", "THP-001", "NONE"),
    ],
)
def test_rules_are_found_by_words_and_severity(whole: Whole, query: str, found: str, left_out: str) -> None:
    """All words have to be there, in capitals or not."""
    listed = page(whole, f"/rules?{query}")

    assert f"/rules/{found}" in listed
    assert f"/rules/{left_out}" not in listed


def test_what_is_searched_for_is_text(whole: Whole) -> None:
    """It stands in the field again, as it was written."""
    listed = page(whole, "/rules?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")

    assert 'value="&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"' in listed
    assert "No rule has all these words" in listed


@pytest.mark.parametrize("name", ["THP-999", "thp-010", "a" * 300, "%3Cb%3E", "..%2f", "README"])
def test_what_is_no_rule_is_not_there(whole: Whole, name: str) -> None:
    """Names are looked up among the rules and nowhere else."""
    assert whole.ask("GET", f"/rules/{name}").status in (400, 404)


def test_cases_with_the_finding_are_counted(tmp_path: Path, database: str | None) -> None:
    """With a link to their list; none is said as none."""
    with served(tmp_path, database=database) as whole:
        assert "no case has this finding" in page(whole, f"/rules/{RULE}")
        whole.completed(BEFORE)

        assert f'<a href="/cases?rule={RULE}">1 case has this finding</a>' in page(whole, f"/rules/{RULE}")
        assert whole.ask("GET", f"/cases?rule={RULE}").status == 200


def test_a_threshold_that_was_set_here_says_so(whole: Whole) -> None:
    """With the value that this server judges by."""
    chosen = with_rules(whole, with_set_params(rules(), [f"{RULE}.share=7 %"]))
    told = page(chosen, f"/rules/{RULE}")

    assert "<strong>7 %</strong> <span" in told
    assert told.count("set for this server") == 1
    assert "set for this server" not in page(whole, f"/rules/{RULE}")


def test_rules_are_for_readers(tmp_path: Path) -> None:
    """Whoever may only upload sees none, by either page."""
    with served(tmp_path, Mode.TOKENS) as whole:
        assert whole.ask("GET", "/rules", whole.token("read")).status == 200
        assert [whole.ask("GET", at, whole.token("upload")).status for at in ("/rules", f"/rules/{RULE}")] == [403, 403]


def test_the_pages_load_no_pandas() -> None:
    """The server lists rules; the children that analyse are where series are."""
    probe = (
        "import sys; from thpdiag.serve.running import application; from thpdiag.engine.load import rule_set; "
        "from thpdiag.serve.pages.rules import matches, needs_of_rule; "
        "assert all(list(needs_of_rule(rule)) or True for rule in rule_set() if matches(rule, 'memory')); "
        "print([name for name in ('pandas', 'numpy', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT)

    assert done.stdout.strip() == "[]"
