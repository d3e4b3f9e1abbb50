"""The commands: what they read, what they print, and where it goes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from command_line import LEAK, ROOT, STORY, Run, packed
from thpdiag.cli import COMMANDS
from thpdiag.engine.load import builtin_rules, load_rules

RESULT = ROOT / "tests" / "results" / "found.json"


def test_several_outputs_of_one_run(tmp_path: Path, run: Run) -> None:
    """Each `-o` writes its file, by name or by suffix; stdout has the text."""
    done = run("analyze", STORY, "-o", f"html={tmp_path / 'page'}", "-o", tmp_path / "result.json")

    assert done.code == 0
    assert (tmp_path / "page").read_text().startswith("<!DOCTYPE html>")
    assert json.loads((tmp_path / "result.json").read_text())["verdict"]["rule"] == "THP-001"
    assert done.out == run("analyze", STORY).out


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.txt", "text"), ("a.htm", "html"), ("a.md", "markdown"), ("a.sarif", "sarif"), ("a.sarif.json", "sarif"),
        ("a.xml", "junit"), ("a.csv", "csv"), ("a.json", "json"),
    ],
)  # fmt: skip
def test_a_suffix_names_the_format(name: str, form: str, tmp_path: Path, run: Run) -> None:
    """`-o FILE` writes what `-f` prints."""
    run("render", RESULT, "-o", tmp_path / name)

    assert (tmp_path / name).read_bytes().decode() == run("render", RESULT, "-f", form).out


def test_a_step_summary_is_added_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """The file that GITHUB_STEP_SUMMARY names belongs to the whole step; any other file is written anew."""
    summary, other = tmp_path / "summary", tmp_path / "other.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    once = run("render", RESULT, "-f", "markdown").out
    for _ in range(2):
        run("render", RESULT, "-o", f"markdown={summary}", "-o", other)

    assert summary.read_text() == once * 2
    assert other.read_text() == once


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        (("json=a", "csv=./a"), "two formats cannot both go to"),
        (("json=-", "csv=-"), "two formats cannot both go to stdout"),
        (("csv=a", "json=absent/a"), "no such folder: absent"),
        (("csv=a", "json=."), ". is a folder"),
    ],
)
def test_an_output_that_cannot_be_is_refused_at_once(
    outputs: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """Not after an hour of analysis, and not after half of the files were written."""
    monkeypatch.chdir(tmp_path)
    done = run("render", RESULT, *(part for output in outputs for part in ("-o", output)))

    assert (done.code, done.out, said in done.err) == (2, "", True)
    assert list(tmp_path.iterdir()) == []


def test_devices_take_more_than_one_format(run: Run) -> None:
    """Only what would be overwritten is refused."""
    assert run("render", RESULT, "-o", "json=/dev/null", "-o", "csv=/dev/null").code == 0


def test_a_closed_stdout_is_no_mistake_of_thpdiag(tmp_path: Path) -> None:
    """A job without stdout writes its files."""
    command = [sys.executable, "-m", "thpdiag", "render", str(RESULT), "-o", str(tmp_path / "a.csv")]
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *command], cwd=ROOT, capture_output=True, check=False)

    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "a.csv").exists()


def test_accepted_findings_are_shown_when_asked_for(tmp_path: Path, run: Run) -> None:
    """`--show-suppressed` brings them back; `--fail-on` makes test cases fail as it does the command."""
    document = json.loads(RESULT.read_text())
    document["findings"][1]["suppressed"] = {"by": "baseline", "reason": "known", "expires": "2030-01-01"}
    file, rule = tmp_path / "result.json", document["findings"][1]["rule"]
    file.write_text(json.dumps(document))

    assert rule not in run("render", file, "-f", "csv").out
    assert rule in run("render", file, "-f", "csv", "--show-suppressed").out
    assert "<failure" not in run("render", file, "-f", "junit").out
    failed = run("render", file, "-f", "junit", "--fail-on", "critical")
    assert (failed.code, failed.out.count("<failure")) == (1, 1)


def test_an_output_on_stdout_takes_the_place_of_the_text(run: Run) -> None:
    """`-o json=-` prints one document and nothing else."""
    assert run("analyze", STORY, "-o", "json=-").document["verdict"]["rule"] == "THP-001"


def test_standard_input_is_read(run: Run) -> None:
    """A paste gives what the file gives."""
    done = run("analyze", "-", stdin=(STORY / "ticket.txt").read_bytes())

    assert done.code == 0
    assert "stdin:" in done.out
    assert run("analyze", STORY).out.splitlines()[0] == done.out.splitlines()[0]


def test_an_archive_on_standard_input_is_read(tmp_path: Path, run: Run) -> None:
    """A stream cannot be sought in, and need not be."""
    archive = packed(STORY, tmp_path / "bundle.tar.xz")

    assert run("analyze", "-", "-f", "json", stdin=archive.read_bytes()).document["verdict"]["rule"] == "THP-001"


@pytest.mark.parametrize("verbosity", [[], ["-v"], ["-vv"]], ids=["plain", "v", "vv"])
def test_render_gives_the_text_of_the_run(verbosity: list[str], tmp_path: Path, run: Run) -> None:
    """From the JSON and from the page alike, without the bundle."""
    files = [tmp_path / "result.json", tmp_path / "page.html"]
    printed = run("analyze", STORY, *verbosity, "-o", files[0], "-o", files[1]).out

    assert [run("render", file, *verbosity).out for file in files] == [printed, printed]


def test_render_reads_standard_input(run: Run) -> None:
    """A result can be piped."""
    result = run("analyze", STORY, "-f", "json").out

    assert run("render", "-", "-f", "json", stdin=result.encode()).out == result


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"{", b"\xff\xfe\x00", b"<html></html>", b"{" * 100_000])
def test_render_refuses_what_is_no_result(content: bytes, run: Run) -> None:
    """One sentence and exit 3."""
    done = run("render", "-", stdin=content)

    assert done.code == 3
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("window", [["--since", "2001-01-01 00:00"], ["--at", "2012-01-01 03:30"]])
def test_a_window_is_named_in_the_document(window: list[str], run: Run) -> None:
    """Who reads the result later sees that it is about a part of the time."""
    told = run("analyze", STORY, *window, "-f", "json").document["tool"]["options"]

    assert told == {window[0].removeprefix("--"): window[1]}


def test_until_takes_the_evidence_of_later_times_away(run: Run) -> None:
    """What was recorded after the window proves nothing; tables without a date stay, and are worth `possible`."""
    before = run("analyze", LEAK, "--until", "2001-01-01 00:00", "-f", "json").document
    after = run("analyze", LEAK, "--since", "2001-01-01 00:00", "-f", "json").document

    assert {f["confidence"] for f in before["findings"] if f["rule"] == "ALT-01"} <= {"possible"}
    assert {f["confidence"] for f in after["findings"] if f["rule"] == "ALT-01"} <= {"likely", "confirmed"}
    assert after["verdict"]["rule"] == "ALT-01"


def test_process_looks_at_one_process(run: Run) -> None:
    """Another process cannot be blamed then."""
    mine = run("analyze", LEAK, "--process", "leak", "-f", "json").document
    other = run("analyze", LEAK, "--process", "kswapd0", "-f", "json").document

    assert "ALT-01" in {finding["rule"] for finding in mine["findings"]}
    assert "ALT-01" not in {finding["rule"] for finding in other["findings"]}


def test_the_case_gets_its_name(run: Run) -> None:
    """`--case` names it in the document."""
    assert run("analyze", STORY, "--case", "ticket 4711", "-f", "json").document["case"] == "ticket 4711"


def test_inputs_says_what_was_recognised(run: Run) -> None:
    """Parser and records per member, and what rules lack, for programs."""
    document = run("inputs", STORY, "-f", "json").document

    assert set(document) == {"schema", "inputs", "problems", "rules"}
    assert {(i["member"], i["reader"]) for i in document["inputs"]} >= {("ticket.txt", "perf_top")}
    assert all(i["records"] > 0 for i in document["inputs"])
    assert any(rule["missing"] for rule in document["rules"])


def test_inputs_says_it_to_people(run: Run) -> None:
    """The same as text in 80 columns: each file once, below it its readers, times and gaps."""
    text = run("inputs", STORY).out

    assert re.match(r"ticket\.txt\n    collectl_text: 44 records, 10:33:08 to 10:52:13, every 2 s\n", text)
    assert "\n        gap of 17.7 min, from 10:33:50 to 10:51:31\n" in text
    assert re.search(r"\n    perf_top: \d+ records\n", text)
    assert max(map(len, text.splitlines())) <= 80
    assert "sha256" not in text
    assert (
        f"\n    sha256 {run('inputs', STORY, '-f', 'json').document['inputs'][0]['sha256']}\n"
        in run("inputs", "-v", STORY).out
    )


def test_explain_says_what_a_rule_means(run: Run) -> None:
    """The condition, the levels and the sources, in 80 columns."""
    done = run("explain", "thp-001")

    assert done.out.startswith("THP-001  Zone lock")
    assert "Fires when: " in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_explain_shows_what_a_bundle_says(run: Run) -> None:
    """Each check has its value and what was needed."""
    done = run("explain", "THP-001", STORY)

    assert "fires" in done.out
    assert "is:     95.4 %" in done.out
    assert "needed: " in done.out
    assert "Would have fired" not in done.out


def test_explain_names_the_smallest_change(run: Run) -> None:
    """A rule that does not fire says what would have made it."""
    assert "\nWould have fired with:\n" in run("explain", "THP-016", STORY).out


def test_rules_list_names_every_rule(run: Run) -> None:
    """One line each, sorted by id."""
    ids = [line.split()[0] for line in run("rules", "list").out.splitlines()]

    assert ids == sorted(rule.id for rule in load_rules([builtin_rules()]))


def test_rules_show_prints_the_file(run: Run) -> None:
    """Comments and all."""
    assert run("rules", "show", "THP-001").out == (ROOT / "rules" / "compaction-lock-convoy.yaml").read_text()


def test_the_schema_of_rules_accepts_the_rules(run: Run) -> None:
    """Editors that use it underline nothing in ours."""
    form = run("rules", "schema").document

    jsonschema.Draft202012Validator.check_schema(form)
    assert {"id", "checks", "when"} <= set(form["properties"])


def test_rules_test_runs_the_cases_of_one_rule(run: Run) -> None:
    """The count is on stderr, failures would be on stdout."""
    done = run("rules", "test", "thp-016")

    assert (done.code, done.out) == (0, "")
    assert re.match(r"\d+ cases of 1 rules, 0 failures", done.err)


def test_capture_script_is_a_script(run: Run) -> None:
    """For all rules, and less of it for one."""
    whole, part = run("capture-script"), run("capture-script", "--for", "thp-001", "--seconds", "30")

    assert whole.out.startswith("#!/bin/sh\n")
    assert part.out.startswith("#!/bin/sh\n")
    assert len(part.out) < len(whole.out)


def test_doctor_says_what_is_there(run: Run) -> None:
    """Version, rules and optional parts."""
    out = run("doctor").out

    assert re.search(r"^thpdiag \d+\.\d+\.\d+, Python 3\.", out)
    assert re.search(r"^rules: \d+ \(digest [0-9a-f]{16}\), readers: \d+$", out, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, run: Run) -> None:
    """Help is exit 0 and begins with what the command does."""
    done = run(name, "--help")

    assert done.code == 0
    assert f"Usage: thpdiag {name}" in done.out
