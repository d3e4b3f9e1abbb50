"""Suppressions and baselines: what they accept, until when, and what is said of entries that accept nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ci_schemas import result, with_findings
from command_line import LEAK, Run
from thpdiag.errors import AcceptanceError
from thpdiag.model.document import plain_document
from thpdiag.model.result import schema
from thpdiag.report.baseline import Acceptance, Judge, baseline, baseline_text, day, parse_suppressions, read_baseline
from thpdiag.report.html import render as page
from thpdiag.report.text import render as text

TODAY = date(2026, 11, 20)
KNOWN = "reason: change 4711 is planned"
FOUND = {"rule": "THP-013", "mechanism": "khugepaged-scan", "entity": "redis (12)", "fingerprint": "0" * 15 + "a"}


@dataclass(frozen=True)
class Marked:
    """A result with marks, as JSON has it, and what is said of the entries."""

    document: dict[str, Any]
    warnings: list[str]
    notes: list[str]


def marked(document: dict[str, Any], found: Sequence[Acceptance], today: date, options: dict[str, str]) -> Marked:
    judge = Judge(found, today, options)
    return Marked(plain_document(judge.mark_document(document)), list(judge.warnings()), list(judge.notes()))


def entries(*rows: str) -> list[Acceptance]:
    return list(parse_suppressions("known.yaml", "".join(f"- {row}\n" for row in rows)))


def judged(document: dict[str, Any], *rows: str, today: date = TODAY) -> Marked:
    return marked(document, entries(*(f"{{{row}, {KNOWN}}}" for row in rows)), today, {"suppress": "known.yaml"})


def complaint(text_: str) -> str:
    with pytest.raises(AcceptanceError) as caught:
        parse_suppressions("known.yaml", text_)
    return str(caught.value)


def written(folder: Path, text_: str, name: str = "known.yaml") -> Path:
    path = folder / name
    path.write_text(text_)
    return path


@pytest.mark.parametrize(
    ("row", "fits"),
    [
        ("rule: THP-013", True),
        ("rule: khugepaged-scan", True),
        ("rule: THP-01", False),
        ("rule: THP-013, host: ho*", True),
        ("rule: THP-013, host: db*", False),
        ("rule: THP-013, entity: redis", True),
        ("rule: THP-013, entity: redis (12)", True),
        ("rule: THP-013, entity: redis (13)", False),
        ("rule: THP-013, expires: 2026-11-20", True),
        ("rule: THP-013, expires: 2026-11-19", False),
    ],
)
def test_what_a_suppression_accepts(row: str, fits: bool) -> None:
    """Rule or mechanism, host, process with or without its pid, and the last day counts."""
    found = judged(with_findings(FOUND), row)
    mark = found.document["findings"][0].get("suppressed")
    assert (mark is not None) is fits
    assert bool(found.warnings) is not fits
    if mark:
        assert (mark["by"], mark["reason"]) == ("suppression", "change 4711 is planned")
    jsonschema.validate(found.document, schema())


def test_a_name_with_brackets_fits_itself() -> None:
    """A kernel thread is suppressed by its name as the report writes it, though brackets mean something in a glob."""
    thread = FOUND | {"entity": "[md0_raid1] (12)"}
    found = judged(with_findings(thread), 'rule: THP-013, entity: "[md0_raid1]"').document
    assert "suppressed" in found["findings"][0]


def test_nothing_but_the_mark_changes() -> None:
    """Verdict, evidence and order stay; the document that was given is not touched."""
    before = result("found")
    found = judged(before, "rule: THP-001")
    assert found.document["findings"][0].pop("suppressed")["expires"] is None
    assert found.document["tool"].pop("options") == before["tool"]["options"] | {"suppress": "known.yaml"}
    before["tool"].pop("options")
    assert found.document == before


def test_every_host_is_marked() -> None:
    """At the top, where the worst host stands, and in its own document."""
    before = result("several_hosts")
    rule = before["findings"][0]["rule"]
    found = judged(before, f"rule: {rule}").document
    hit = [f for one in (found, *found["cases"]) for f in one.get("findings", ()) if f["rule"] == rule]
    assert len(hit) > 1
    assert all(f["suppressed"] for f in hit)


def test_marks_are_judged_anew() -> None:
    """A document that was marked by an older file has the marks of the new one only."""
    once = judged(with_findings(FOUND), "rule: THP-013").document
    again = marked(once, entries(f"{{rule: THP-001, {KNOWN}}}"), TODAY, {"suppress": "", "baseline": "b"}).document
    assert "suppressed" not in again["findings"][0]
    assert again["tool"]["options"] == {"baseline": "b"}


def test_what_has_no_effect_is_told_with_its_place_and_the_likely_word() -> None:
    """Expired, about nothing, misspelt; without a last day only on request."""
    rows = ["rule: THP-013, expires: 2026-01-01", "rule: khugepaged-scam", "rule: THP-013"]
    found = judged(with_findings(FOUND), *rows)
    assert found.warnings[0].startswith("known.yaml:1: THP-013: expired on 2026-01-01, no longer accepts anything")
    assert found.warnings[1].startswith("known.yaml:2: khugepaged-scam: accepts no finding of this input")
    assert found.warnings[1].endswith("did you mean 'khugepaged-scan'?")
    assert len(found.warnings) == 2
    assert "known.yaml:3: THP-013: has no last day (expires)" in found.notes


@pytest.mark.parametrize(
    ("text_", "said"),
    [
        (f"- rule: THP-013\n  {KNOWN}\n  hosts: db1", "known.yaml:3:3: unknown key 'hosts'; did you mean 'host'?"),
        ("- rule: THP-013", "known.yaml:1:3: the key 'reason' is missing"),
        ("- rule: THP-013\n  reason: ''", "known.yaml:2:3: reason: a text, not an empty text"),
        (f"- rule: [THP-013]\n  {KNOWN}", "known.yaml:1:3: rule: a text, not a list"),
        (f"- rule: THP-013\n  {KNOWN}\n  expires: 2026-02-30", "known.yaml:3:3: expires: 2026-02-30 is not a date"),
        (
            f"- rule: THP-013\n  {KNOWN}\n  expires: next year",
            "known.yaml:3:3: expires: a day is written as YYYY-MM-DD",
        ),
        (f"rule: THP-013\n{KNOWN}", "known.yaml:1:1: suppressions must be a list"),
        ("- THP-013", "known.yaml:1:3: an entry has rule, host, entity, reason, expires"),
        ("- &a rule: x", "known.yaml:1:3: aliases and anchors are not supported"),
        ("- rule: 'x", "known.yaml:1:11: found unexpected end of stream"),
    ],
)
def test_mistakes_have_a_place(text_: str, said: str) -> None:
    """File, line, column, what is wrong, and the likely right word."""
    assert complaint(text_).startswith(said)


def test_all_mistakes_of_a_file_are_told_at_once() -> None:
    """Nobody mends a file line by line."""
    assert complaint("- {}\n- {rule: 1}").count("known.yaml:") == 5  # and where an example is


def test_an_empty_file_accepts_nothing() -> None:
    """A list without entries is no mistake."""
    assert parse_suppressions("known.yaml", "# nothing yet\n") == []


@pytest.mark.parametrize("text_", ["2026-1-1", "20260101", "2026-W01-1", "", "٢٠٢٦-٠١-٠١"])
def test_a_day_is_written_in_one_way(text_: str) -> None:
    """What fromisoformat also takes is not taken: files are read by people."""
    with pytest.raises(ValueError, match="YYYY-MM-DD"):
        day(text_)


def a_baseline(folder: Path, *findings: dict[str, Any], expires: date | None = None) -> Path:
    data = baseline([with_findings(*findings)], "as of spring", expires)
    return written(folder, baseline_text(data), "baseline.json")


@pytest.mark.parametrize(
    ("now", "accepts"),
    [
        ({}, True),
        ({"entity": "redis (99)"}, True),
        ({"severity": "low", "confidence": "possible"}, True),
        ({"severity": "critical"}, False),
        ({"confidence": "confirmed"}, False),
        ({"fingerprint": "0" * 15 + "b"}, False),
    ],
)
def test_what_got_graver_or_surer_counts_as_new(now: dict[str, Any], accepts: bool, tmp_path: Path) -> None:
    """A baseline accepts a finding as it was."""
    found = marked(with_findings(FOUND | now), read_baseline(a_baseline(tmp_path, FOUND)), TODAY, {})
    assert bool(found.document["findings"][0].get("suppressed")) is accepts
    graver = not accepts and "fingerprint" not in now
    assert sum("counts as new" in told for told in found.warnings) == graver


def test_a_byte_order_mark_is_no_mistake(run: Run, tmp_path: Path) -> None:
    """Editors on Windows write one into results, baselines and suppressions."""
    kept, made, known = tmp_path / "result.json", a_baseline(tmp_path, FOUND), tmp_path / "known.yaml"
    kept.write_text("\ufeff" + json.dumps(with_findings(FOUND | {"severity": "high"})), encoding="utf-8")
    made.write_text("\ufeff" + made.read_text(), encoding="utf-8")
    known.write_text(f"\ufeff- rule: THP-013\n  {KNOWN}\n", encoding="utf-8")
    assert len(read_baseline(made)) == 1
    gate = ("render", kept, "--fail-on", "high")
    assert (run(*gate).code, run(*gate, "--suppress", known).code) == (1, 0)


def test_a_host_without_a_name_is_accepted_with_a_warning(tmp_path: Path) -> None:
    """Two pastes without a host name have the same fingerprints: what was accepted of one hides that of the other."""
    accepts = [a_baseline(tmp_path, FOUND), tmp_path / "named.json"]
    accepts[1].write_text(accepts[0].read_text().replace('"host": "host"', '"host": "db1"'))
    nameless, named = (marked(with_findings(FOUND), read_baseline(path), TODAY, {}).warnings for path in accepts)
    assert [told.partition(": its host has no name")[1] != "" for told in nameless] == [True]
    assert named == []


def test_two_findings_of_one_fingerprint_accept_no_mixture(tmp_path: Path) -> None:
    """Of a grave guess and a sure trifle nobody accepted the grave and sure one; a lesser one needs no entry."""
    kinds = [("high", "possible"), ("low", "confirmed"), ("low", "possible"), ("low", "confirmed")]
    path = a_baseline(tmp_path, *(FOUND | {"severity": s, "confidence": c} for s, c in kinds))
    assert [(e.severity, e.confidence) for e in read_baseline(path)] == [("high", "possible"), ("low", "confirmed")]
    grave = FOUND | {"severity": "high", "confidence": "confirmed"}
    assert "suppressed" not in marked(with_findings(grave), read_baseline(path), TODAY, {}).document["findings"][0]


def test_a_baseline_is_the_same_whatever_the_order(tmp_path: Path) -> None:
    """Same findings, same bytes; the entity goes without its pid."""
    other = FOUND | {"rule": "THP-001", "fingerprint": "1" * 16}
    one = a_baseline(tmp_path, FOUND, other).read_bytes()
    assert a_baseline(tmp_path, other, FOUND).read_bytes() == one
    assert b"redis (12)" not in one


@pytest.mark.parametrize(
    ("text_", "said"),
    [
        ("{", "baseline.json:1:2: a baseline is JSON, as `thpdiag baseline create` writes it: expecting property name"),
        ("[]", "baseline.json: not a baseline: its schema is not thpdiag/baseline/1"),
        ('{"schema": "thpdiag/baseline/1", "accepted": [], "x": 1}', "baseline.json: unknown key 'x'"),
        ('{"schema": "thpdiag/baseline/1", "accepted": [1]}', "baseline.json: accepted[0]: an entry is an object"),
        (
            '{"schema": "thpdiag/baseline/1", "accepted": [{"fingerprint": "1", "rule": "a", "severity": "hgh",'
            ' "confidence": "likely", "reasons": "x"}]}',
            "baseline.json: accepted[0]: unknown key 'reasons'; did you mean 'reason'?\n"
            "baseline.json: accepted[0]: the key 'reason' is missing\n"
            "baseline.json: accepted[0]: fingerprint: 16 digits of 0 to 9 and a to f, not '1'\n"
            "baseline.json: accepted[0]: severity: one of info, low, medium, high, critical, not 'hgh'; did you mean",
        ),
    ],
)
def test_mistakes_in_a_baseline(text_: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a merge of two files makes of it is told, not taken."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, text_, "baseline.json")
    with pytest.raises(AcceptanceError) as caught:
        read_baseline(Path("baseline.json"))
    assert str(caught.value).startswith(said)


def test_the_gate_and_the_reports(run: Run, tmp_path: Path) -> None:
    """With the files a gate passes that failed, and a result that was marked once keeps it."""
    known = written(tmp_path, f"- rule: ALT-01\n  {KNOWN}\n  expires: 2027-01-31\n")
    kept = tmp_path / "result.json"
    assert run("analyze", LEAK, "--fail-on", "low", "-o", f"json={kept}").code == 1
    plain = run("render", kept, "--fail-on", "low")
    told = run("render", kept, "--fail-on", "low", "--suppress", known, "--today", "2027-01-31")
    assert (plain.code, told.code, told.err) == (1, 0, "")
    assert "Accepted by a suppression until 2027-01-31: change 4711 is planned" in told.out
    late = run("render", kept, "--fail-on", "low", "--suppress", known, "--today", "2027-02-01")
    assert (late.code, "expired on 2027-01-31" in late.err) == (1, True)
    again = run("analyze", LEAK, "--fail-on", "low", "--suppress", known, "--today", "2027-01-31", "-f", "json")
    assert again.code == 0
    assert run("render", "-", "-f", "json", stdin=again.out.encode()).out == again.out


def test_a_baseline_of_what_was_found(run: Run, tmp_path: Path) -> None:
    """Created from the bundle or its result it is the same; it passes the gate until its last day."""
    kept, first, second = tmp_path / "result.html", tmp_path / "1.json", tmp_path / "2.json"
    said = ("--reason", "a leak of our own", "--expires", "2027-01-31")
    run("analyze", LEAK, "-o", kept)
    made = run("baseline", "create", LEAK, "-o", first, *said)
    assert (made.code, made.out) == (0, "")
    run("baseline", "create", kept, "-o", second, *said)
    assert first.read_bytes() == second.read_bytes()
    gate = ("render", kept, "--fail-on", "info", "--baseline", first, "--today")
    assert [run(*gate, today).code for today in ("2027-01-31", "2027-02-01")] == [0, 1]
    shown = run("baseline", "show", first, "--today", "2027-02-01").out
    assert "ALT-01  medium, likely: A process keeps mapping and touching more memory" in shown
    assert "EXPIRED on 2027-01-31: a leak of our own" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_comparison_fails_for_nothing_that_is_accepted(run: Run, tmp_path: Path) -> None:
    """What is new after is no regression if somebody accepts it; the comparison says so."""
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    after.write_text(run("analyze", LEAK, "-f", "json").out)
    document = json.loads(after.read_text())
    document["findings"], document["verdict"] = [], {"status": "nothing_found"}
    for rule in document["rules"]:
        rule["outcome"] = "silent"
    before.write_text(json.dumps(document))
    known = written(tmp_path, f"- rule: ALT-01\n  {KNOWN}\n")
    assert run("compare", before, after, "--fail-on", "medium").code == 1
    told = run("compare", before, after, "--fail-on", "medium", "--suppress", known)
    assert (told.code, told.err) == (0, "")
    assert "accepted by a suppression: change 4711 is planned" in told.out


def test_a_finding_keeps_its_name_whatever_the_case_is_called(run: Run) -> None:
    """`--case` names the ticket, not the host: a baseline holds for the next ticket too."""
    names = [
        [f["fingerprint"] for f in run("analyze", LEAK, "-f", "json", *more).document["findings"]]
        for more in ((), ("--case", "ticket 4711"))
    ]
    assert names[0] == names[1] != []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["baseline", "create", "absent.json", "-o", "x", "--reason", "y"], 3, "no such file"),
        (["baseline", "create", LEAK, "-o", "x", "--reason", " "], 2, "--reason is empty"),
        (["baseline", "create", LEAK, "-o", "x", "--reason", "y", "--expires", "soon"], 2, "--expires: a day is"),
        (["baseline", "show", "absent.json"], 2, "absent.json: cannot be read"),
        (["analyze", LEAK, "--suppress", "absent.yaml"], 2, "absent.yaml: cannot be read"),
        (["analyze", LEAK, "--baseline", "absent.json"], 2, "absent.json: cannot be read"),
    ],
)
def test_mistakes_of_a_user(
    run: Run, arguments: list[str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence, the right exit code."""
    monkeypatch.chdir(tmp_path)
    told = run(*arguments)
    assert (told.code, said in told.err) == (code, True)


def test_an_accepted_finding_is_folded_and_says_why() -> None:
    """Page and text tell reason and day, in the verdict too; what is accepted is no advice to try first."""
    beside = {"rule": "THP-040", "role": "configuration", "severity": "high"}
    document = with_findings(FOUND, beside, verdict={"status": "found", "rule": "THP-013"})
    plain, known = page(document), page(judged(document, "rule: THP-013", "rule: THP-040").document)
    assert '<details class="finding" open>' in plain
    assert '<details class="finding" open>' not in known
    assert known.count("by a suppression: change 4711 is planned") == 3  # once in the text for a ticket
    told = text(judged(document, "rule: THP-013", "rule: THP-040").document)
    assert told.count("Accepted by a suppression: change 4711 is planned") == 2


def test_hostile_words_stay_words(run: Run, tmp_path: Path) -> None:
    """A reason with an escape sequence or markup reaches neither terminal nor page as such."""
    hostile = written(tmp_path, '- rule: "THP-\\x1b[31m"\n  reason: "<b>\\x1b[31m</b>"\n  expires: 2020-01-01\n')
    said = run("analyze", LEAK, "--suppress", hostile).err
    assert "\x1b" not in said
    assert "expired on 2020-01-01" in said
    found = marked(with_findings(FOUND), entries('{rule: THP-013, reason: "<b>x</b>"}'), TODAY, {}).document
    assert "<b>x" not in page(found)
