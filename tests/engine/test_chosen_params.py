"""`--set RULE.PARAM=VALUE`: another threshold for one run, checked, recorded and told."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from analyze_bytes import rules
from command_line import STORY, Run
from thpdiag.engine.load import changed_params, digest, with_set_params
from thpdiag.engine.quantity import parse_quantity
from thpdiag.errors import UsageError

MANY = "THP-013.often=0.1 /s"


def param(texts: list[str], rule: str, name: str) -> str | float:
    return next(r for r in with_set_params(rules(), texts) if r.id == rule).file.params[name].default


def test_a_value_reaches_the_check_that_uses_it() -> None:
    """Only the named rule changes, and its check compares with the new number."""
    changed = with_set_params(rules(), ["thp-013.often = 6 /min"])

    own = next(r for r in changed if r.id == "THP-013")
    assert parse_quantity(own.checks["often"].above) == pytest.approx(0.1)  # type: ignore[union-attr, arg-type]
    assert [r for r in changed if r.id != "THP-013"] == [r for r in rules() if r.id != "THP-013"]
    assert changed_params(changed) == "THP-013.often=6 /min"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("THP-01.often=1 /s", "did you mean 'THP-"),
        ("THP-013.oftn=1 /s", "did you mean 'often'?"),
        ("THP-013.often=1", "takes /s or /min or /h"),
        ("THP-013.often=1 %", "has the unit %"),
        ("THP-013.failures=30 %", "takes no unit"),
        ("THP-013.often=many", "is not a number"),
        ("THP-013.often=", "takes RULE.PARAM=VALUE"),
        ("often=1 /s", "takes RULE.PARAM=VALUE"),
        (f"THP-013.failures={'9' * 400}", "too large"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, says: str) -> None:
    """A share is no count, a typing error gets the nearest name."""
    with pytest.raises(UsageError, match=re.escape(says)):
        with_set_params(rules(), [text])


def test_one_parameter_is_set_once() -> None:
    """Of two values nobody knows which was meant."""
    with pytest.raises(UsageError, match="set twice"):
        with_set_params(rules(), [MANY, "thp-013.often=1 /s"])


def test_every_parameter_takes_its_own_value() -> None:
    """What a rule file has is always allowed, and changes nothing but the digest."""
    texts = [f"{r.id}.{name}={p.default}" for r in rules() for name, p in r.file.params.items()]
    changed = with_set_params(rules(), texts)

    assert all(a.checks == b.checks for a, b in zip(changed, rules(), strict=True))
    assert len(changed_params(changed).split(", ")) == len(texts)


def test_the_digest_tells_other_thresholds() -> None:
    """Results of one digest were judged alike."""
    assert digest(with_set_params(rules(), [MANY])) != digest(rules())
    assert digest(with_set_params(rules(), [MANY])) == digest(with_set_params(rules(), ["thp-013.often=0.1 /s"]))


def test_the_result_and_the_reports_tell_it(run: Run, tmp_path: Path) -> None:
    """Document, text and page name the changed threshold; without it nothing is named."""
    page, data = tmp_path / "r.html", tmp_path / "r.json"
    done = run("analyze", STORY, "--set", MANY, "-o", f"html={page}", "-o", f"json={data}")

    assert json.loads(data.read_text())["tool"]["options"] == {"set": MANY}
    assert f"Options that change the analysis: set={MANY}" in done.out
    assert f"set={MANY}" in page.read_text()
    assert "Options that change" not in run("analyze", STORY).out


def test_a_threshold_decides_the_outcome(run: Run) -> None:
    """What fires at the rule's own threshold is silent at a higher one."""
    plain = {r["id"]: r["outcome"] for r in run("analyze", STORY, "-f", "json").document["rules"]}
    higher = run("analyze", STORY, "-f", "json", "--set", "THP-001.share=99 %").document

    assert plain["THP-001"] == "fires"
    assert {r["id"]: r["outcome"] for r in higher["rules"]}["THP-001"] != "fires"


@pytest.mark.parametrize("command", [["inputs"], ["explain", "THP-001"], ["analyze"]])
def test_every_command_that_judges_takes_it(run: Run, command: list[str]) -> None:
    """A mistake in it is exit code 2 before anything is read."""
    assert run(*command, STORY, "--set", "THP-013.oftn=1 /s").code == 2


def test_cases_show_what_another_threshold_does(run: Run) -> None:
    """`rules test --set` fails where a case depends on the threshold."""
    assert run("rules", "test", "THP-013", "--no-mutate").code == 0
    assert run("rules", "test", "THP-013", "--no-mutate", "--set", "THP-013.often=1 /s").code == 1
