"""`thpdiag explain` on a bundle: it says what `analyze` says, by how much, and what would have turned it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from analyze_bytes import BUNDLES, STRICT, name, rules
from command_line import LEAK, ROOT, STORY, Run
from thpdiag.bundle import Limits
from thpdiag.diagnosis.explanation import citations, explain
from thpdiag.diagnosis.result_document import document
from thpdiag.engine.load import Rule
from thpdiag.host.excerpts import cited_lines
from thpdiag.host.reading import read_input
from thpdiag.model import Verdict3
from thpdiag.model.document import plain_document
from thpdiag.model.explanation import Explanation, schema
from thpdiag.pipeline import diagnose_input
from thpdiag.report.explained import render
from thpdiag.report.layout import WIDTH, columns

PROOF = os.environ.get("THPDIAG_PROOF") == "1"
SCHEMA = schema()
COMMAND = re.compile(r" {6}\S")
VALUES = {"yes": Verdict3.YES, "no": Verdict3.NO, "unknown": Verdict3.UNKNOWN}


def leaves(node: dict[str, Any]) -> dict[str, dict[str, Any]]:
    if node["op"] == "check":
        return {node["expr"]: node}
    return {name: leaf for child in node["children"] for name, leaf in leaves(child).items()}


@pytest.mark.parametrize("bundle", BUNDLES if PROOF else BUNDLES[::4], ids=name)
def test_it_never_contradicts_analyze(bundle: Path) -> None:
    """Every rule on every fixture: the same outcome, confidence and role; the change turns it; lines are where they are
    said to be; the form is that of the schema, and the text keeps to 80 columns."""
    given = read_input([bundle], STRICT)
    found = diagnose_input(given, rules(), STRICT)
    every = {d["case"]: d for d in (document([one]) for one in found)}
    cites = [cite for rule in rules() for cite in citations(rule, found)]
    quotes = cited_lines(cites, given.texts, [bundle], Limits())
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for number, rule in enumerate(rules()):
        explanation = explain(rule, found, quotes)
        told = plain_document(explanation)
        Explanation.model_validate(told)
        if PROOF or number % 8 == 0:  # the schema is made of this model, and slow to hold against
            validator.validate(told)
        for host in told["hosts"]:
            same_as_the_result(host, every[host["case"]], rule)
            turned_by_its_change(host, rule)
            quoted_truly(host, bundle)
        text = render(explanation)
        assert max(columns(line) for line in text.splitlines() if not COMMAND.match(line) and "/" not in line) <= WIDTH


def same_as_the_result(host: dict[str, Any], result: dict[str, Any], rule: Rule) -> None:
    assert host["outcome"] == next(r["outcome"] for r in result["rules"] if r["id"] == rule.id)
    finding = next((f for f in result["findings"] if f["rule"] == rule.id), None)
    assert (host["finding"] is None) == (finding is None)
    if finding:
        assert all(host["finding"][key] == finding[key] for key in ("confidence", "role", "severity"))


def turned_by_its_change(host: dict[str, Any], rule: Rule) -> None:
    """With its steps the condition holds, or holds no longer; with one step less it does not."""
    change = host["change"]
    if change is None:
        return
    values = {name: VALUES[leaf["value"]] for name, leaf in leaves(host["tree"]).items()}
    steps = {s["check"]: VALUES[s["to"]] for s in change["steps"] if s["check"]}
    fires = change["to"] == "fire"
    assert (rule.when.value({**values, **steps}.__getitem__) is Verdict3.YES) is fires, rule.id
    for left in steps:
        fewer = {n: v for n, v in steps.items() if n != left}
        assert (rule.when.value({**values, **fewer}.__getitem__) is Verdict3.YES) is not fires, rule.id


def quoted_truly(host: dict[str, Any], bundle: Path) -> None:
    """As `sed -n Np` prints them, for members that lie open in a folder."""
    for leaf in leaves(host["tree"]).values():
        file = bundle / str(leaf["member"])
        if leaf["source"] and file.is_file() and file.suffix not in (".gz", ".xz", ".bz2"):
            line = file.read_bytes().split(b"\n")[leaf["source_line"] - 1].decode("utf-8", "replace").rstrip("\r")
            assert leaf["source"][:60] in line or "\ufffd" in line or "\r" in line


def counters(folder: Path, uptime: float, stalls: int) -> Path:
    (folder / "proc").mkdir(parents=True)
    (folder / "proc" / "vmstat").write_text(f"compact_stall {stalls}\ncompact_fail 200000\n")
    (folder / "proc" / "uptime").write_text(f"{uptime:.2f} 1.00\n")
    return folder


def test_by_how_much_and_what_to_ask_for(run: Run, tmp_path: Path) -> None:
    """A threshold that was missed says by how much, an unknown check which command decides it."""
    silent = run("explain", "THP-013", counters(tmp_path / "b", 1e7, 300000), "--set", "THP-013.failures=9999").out
    unknown = run("explain", "THP-016", STORY).out

    assert "above 0.05/s: missed by 0.02/s" in silent
    assert re.search(r"Would have fired with:\s+often yes: .*measured\s+0\.03/s,\s+0\.02/s\s+more", silent, re.DOTALL)
    assert "| compact_stall 300000" in silent
    assert "To decide it ask the customer for\n      perf record" in unknown
    assert "$failures = 9999 (set for this run)" in silent
    assert "Options that change the analysis: set=THP-013.failures=9999" in silent


def test_a_firing_rule_says_what_would_have_silenced_it(run: Run) -> None:
    """The nearest number, and by how much; what is unknown needs no change."""
    text = run("explain", "THP-001", STORY).out

    change = text[text.index("Would not have fired with:") :]
    assert re.search(r"compacting no: .*?measured\s+2\.2 %,\s+1\.7 %\s+less", change, re.DOTALL)
    assert "convoy no" not in change


def test_states_excluders_and_confidence_are_told(run: Run) -> None:
    """What would demote it, which classes spoke, and the other states of the host."""
    text = run("explain", "THP-001", STORY).out

    assert "On node1: fires: confirmed, root cause" in text
    assert "Would demote it:\n  ALT-10 unknown" in text
    assert re.search(r"\nConfidence: confirmed\n  Support: .*stack.*toggle", text)
    assert re.search(r"\nIn each of \d states:\n", text)
    assert "| 223182.00 93.8% _spin_lock_irq [kernel.kallsyms]" in text


def test_it_takes_the_options_of_analyze(run: Run) -> None:
    """A time or a process narrows what is looked at, as there."""
    for bundle, options in ((STORY, ["--since", "10:40"]), (LEAK, ["--process", "kswapd0"])):
        whole = run("analyze", bundle, "-f", "json", *options).document
        told = run("explain", "THP-001", bundle, "-f", "json", *options).document

        assert told["hosts"][0]["outcome"] == next(r["outcome"] for r in whole["rules"] if r["id"] == "THP-001")
        assert told["tool"]["options"] == whole["tool"]["options"] != {}
    assert run("explain", "THP-001", "-f", "json").document["hosts"] == []


def test_hostile_words_stay_words(run: Run, tmp_path: Path) -> None:
    """Escapes and control characters of names and lines are shown, never sent; 80 columns hold."""
    folder = tmp_path / "bun\x1b[31mdle"
    (folder / "proc").mkdir(parents=True)
    long = "x" * 500
    (folder / "proc" / "vmstat").write_text(f"compact_stall 300000\ncompact_fail 200000 \x1b]0;owned\x07{long}\u202e\n")
    (folder / "proc" / "uptime").write_text("1000000.00 1.00\n")
    text = run("explain", "THP-013", folder).out

    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
    assert max(columns(line) for line in text.splitlines() if not COMMAND.match(line)) <= WIDTH


def test_several_hosts_are_explained_one_by_one(run: Run, tmp_path: Path) -> None:
    """Each host has its own tree."""
    for host, value in (("one", 300000), ("two", 3)):
        proc = tmp_path / f"sosreport-{host}-2024" / "proc"
        proc.mkdir(parents=True)
        (proc / "vmstat").write_text(f"compact_stall {value}\ncompact_fail {value}\n")
        (proc / "uptime").write_text("1000000.00 1.00\n")
        (proc.parent / "hostname").write_text(f"{host}\n")
    hosts = run("explain", "THP-013", tmp_path, "-f", "json").document["hosts"]

    assert sorted(h["outcome"] for h in hosts) == ["fires", "silent"]


def test_of_a_snapshot_the_line_that_names_it_is_quoted(run: Run, tmp_path: Path) -> None:
    """The result cites its first line."""
    text = run("explain", "THP-013", counters(tmp_path / "b", 1e6, 300000)).out

    assert re.search(r"in: +proc/vmstat:2\n +\| compact_fail 200000", text)


def test_another_rule_is_named_by_its_title(run: Run) -> None:
    """An id alone says nothing to who reads the answer."""
    text = run("explain", "THP-152", ROOT / "fixtures/captures/churn-never/bundle").out
    title = run("explain", "CTX-51").out.splitlines()[0].split(maxsplit=1)[1]
    assert f"is: not found: {title} (CTX-51)" in " ".join(text.split())
