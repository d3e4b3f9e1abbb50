"""The smaller commands: rules, explain, series, flame, ask, capture-script, redact, baseline; options of all."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from contract.made_inputs import BROKEN_RULE, rule_folder
from contract.recorded_answers import compare
from contract.report_parts import describe_report, passages, without_versions
from contract.run_command import run_command
from contract.separate_words import figures, separate

HADOOP, REDIS = "fixtures/stories/hadoop-centos62/bundle", "fixtures/stories/redis-shop-ubuntu/bundle"
LEAK, STORM = "fixtures/captures/true-leak/bundle", "fixtures/captures/storm-always/bundle"
PERF = "fixtures/recordings/fault-compaction/perf.data"
TEXTS = [
    "rules docs",
    "rules coverage",
    "rules lint",
    "rules test THP-060 THP-071",
    "explain THP-001",
    f"explain THP-041 {REDIS}",
    f"analyze {HADOOP} -v",
    f"analyze {STORM} -vv",
    f"analyze {STORM} --redact",
    f"inputs {STORM} -v",
    f"series {STORM} --list",
    f"ask {LEAK} --text-only",
    f"ask {HADOOP}",
]
DOCUMENTS = [
    f"explain THP-041 {REDIS} -f json",
    f"explain THP-010 {LEAK} -f json",
    f"analyze {STORM} --redact -f json",
    f"analyze {HADOOP} {REDIS} -f json",
    f"analyze {STORM} --at 11:55:40 -f json",
    f"analyze {STORM} --since 11:55:30 --until 11:55:40 -f json",
    f"analyze {REDIS} --set THP-041.share=90% -f json",
    f"analyze {STORM} --isolate -f json",
    f"flame {STORM} -f json",
    f"flame {STORM} -f speedscope",
    f"flame {PERF} -f json --by cpu",
    f"series {STORM} node_vmstat_compact_stall -o json",
]
TABLES = [
    f"series {HADOOP} cpu_ratio.sys_share node_context_switches_total:rate",
    f"series {STORM} node_vmstat_compact_* --since 11:55:30",
    f"flame {HADOOP}",
    f"flame {STORM} --by pid --kernel-marks",
    f"flame {STORM} --weight period",
    f"flame {PERF} --by none --idle",
]
SCRIPTS = [
    "capture-script",
    "capture-script --for THP-001",
    "capture-script --for THP-030 --seconds 600 --interval 5 --pid 42",
    f"ask {LEAK} --script-only",
]


@pytest.mark.parametrize("command", TEXTS)
def test_texts_are_as_recorded(command: str) -> None:
    """The figures and places in them; then their passages."""
    done = run_command(*command.split())
    out = without_versions(done.out)
    compare("commands", command, {"exit": done.code, **describe_report(out)})
    compare("commands", command, [passages(out), passages(done.err)], words=True)


@pytest.mark.parametrize("command", DOCUMENTS)
def test_documents_are_as_recorded(command: str) -> None:
    """Keys and values; then the sentences."""
    done = run_command(*command.split())
    values, words = separate(json.loads(without_versions(done.out)))
    compare("commands", command, {"exit": done.code, "document": values})
    compare("commands", command, words, words=True)


@pytest.mark.parametrize("command", TABLES)
def test_rows_are_as_recorded(command: str) -> None:
    """Every row of series and every stack."""
    done = run_command(*command.split())
    compare("commands", command, {"exit": done.code, "rows": done.out.splitlines()})


@pytest.mark.parametrize("command", SCRIPTS)
def test_scripts_for_the_customer_are_as_recorded(command: str) -> None:
    """What a script reads and runs; then its lines."""
    done = run_command(*command.split())
    reads = sorted(set(re.findall(r"(?:/proc|/sys|/etc)/[\w./*-]+", done.out)))
    options = re.findall(r"getopts ([\w:]+)", done.out)
    compare("commands", command, {"exit": done.code, "reads": reads, "options": options})
    compare("commands", command, done.out.splitlines(), words=True)


def test_the_list_of_rules_is_as_recorded() -> None:
    """Id, severity, role and mechanism of each; then the titles."""
    rows = [line.split(maxsplit=4) for line in run_command("rules", "list").out.splitlines()]
    compare("commands", "rules list", {row[0]: row[1:4] for row in rows})
    compare("commands", "rules list", {row[0]: row[4] for row in rows}, words=True)


def test_rules_of_others_are_analysed_and_listed(tmp_path: Path) -> None:
    """A folder of rules takes part in lint, list, test and analyze."""
    folder = rule_folder(tmp_path / "acme", BROKEN_RULE.replace("polcy", "policy"))
    case = "- name: never\n  facts: {thp.defrag: never}\n  outcome: silent\n"
    (folder / "acme.cases.yaml").write_text(case.replace("silent", "fires"))
    failing = run_command("rules", "test", "ACME-001", "--rules", folder)
    (folder / "acme.cases.yaml").write_text(case)
    passing = run_command("rules", "test", "ACME-001", "--rules", folder, "--no-mutate")
    document = run_command("analyze", STORM, "--rules", folder, "-f", "json").document
    compare("commands", "rules of others", {
        "failing": [failing.code, "ACME-001: case 'never'" in failing.out],
        "passing": [passing.code, figures(passing.out)],
        "lint": run_command("rules", "lint", folder).code,
        "listed": "ACME-001" in run_command("rules", "list", "--rules", folder).out,
        "finding": [separate(finding)[0] for finding in document["findings"] if finding["rule"] == "ACME-001"],
        "packs": [{**pack, "digest": "..."} for pack in document["tool"]["packs"]],
    })  # fmt: skip


def test_a_saved_result_is_redacted_as_an_analysed_one(tmp_path: Path) -> None:
    """`redact RESULT` says what `analyze --redact` says."""
    saved = tmp_path / "saved.json"
    saved.write_text(run_command("analyze", STORM, "-f", "json").out)
    redacted = run_command("redact", saved).document
    assert redacted["findings"] == run_command("analyze", STORM, "--redact", "-f", "json").document["findings"]
    assert run_command("redact", saved, "-o", f"html={tmp_path / 'page.html'}").code == 0


def test_a_baseline_and_a_suppression_accept_findings(tmp_path: Path) -> None:
    """What is accepted fails no gate and is marked; what is not does."""
    baseline, suppressions = tmp_path / "baseline.json", tmp_path / "known.yaml"
    made = run_command("baseline", "create", HADOOP, "-o", baseline, "--reason", "known", "--expires", "2999-12-31")
    suppressions.write_text("- rule: THP-001\n  reason: known since May\n")
    gate = ("analyze", HADOOP, "--fail-on", "low", "-f", "json")
    suppressed = run_command(*gate, "--suppress", suppressions)
    values, words = separate({
        "made": made.code,
        "baseline": without_tool(json.loads(baseline.read_text())),
        "shown": describe_report(run_command("baseline", "show", baseline).out),
        "gates": [run_command(*gate).code, run_command(*gate, "--baseline", baseline).code, suppressed.code],
        "suppressed": {finding["rule"]: finding.get("suppressed") for finding in suppressed.document["findings"]},
    })  # fmt: skip
    compare("commands", "baseline", values)
    compare("commands", "baseline", words, words=True)


def without_tool(document: dict[str, Any]) -> Any:
    return json.loads(without_versions(json.dumps(document)))


def test_standard_input_and_several_paths_are_read() -> None:
    """`-` is standard input; a paste has the same findings as its file."""
    ticket = Path(__file__).parents[2] / HADOOP / "ticket.txt"
    piped = run_command("analyze", "-", "-f", "json", stdin=io.BytesIO(ticket.read_bytes())).document
    filed = run_command("analyze", ticket, "-f", "json").document
    assert [f["fingerprint"] for f in piped["findings"]] == [f["fingerprint"] for f in filed["findings"]]
    assert len(run_command("analyze", HADOOP, REDIS, "-f", "json").document["cases"]) == 2


def test_the_csv_of_a_series_has_its_columns() -> None:
    """The header that spreadsheets of others rely on."""
    rows = csv.reader(io.StringIO(run_command("series", HADOOP, "cpu_ratio.sys_share").out))
    compare("commands", "columns of series", next(rows))


def test_every_command_has_its_options() -> None:
    """Names of commands and options, from the help of each."""
    found: dict[str, Any] = {}
    left: list[tuple[str, ...]] = [()]
    while left:
        command = left.pop()
        text = run_command(*command, "--help").out
        names = re.findall(r"^│ (\w[\w-]*)(?: {2,}\S| *│)", text, re.MULTILINE)
        begins = re.findall(r"^│ (?:[* ] +)?((?:--?\w[\w-]* +)+)", text, re.MULTILINE)
        options = sorted({option for begin in begins for option in begin.split()})
        found[" ".join(("thpdiag", *command))] = {"options": options, "commands": sorted(names)}
        left += [(*command, name) for name in names]
    compare("commands", "help", found)
