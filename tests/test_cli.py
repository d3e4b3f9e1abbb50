"""The command line: what goes where, which exit code, and that a mistake is one sentence."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from conftest import ROOT
from thpdiag.cli import COMMANDS, main
from thpdiag.engine.load import builtin_rules, load_rules
from thpdiag.result.schema import schema

STORY = ROOT / "fixtures" / "stories" / "hadoop-centos62" / "bundle"
LEAK = ROOT / "fixtures" / "captures" / "true-leak" / "bundle"
ESCAPE = "\x1b"
DEEPER_THAN_WE_GO = 6

BROKEN = """\
id: ACME-001
title: A rule of somebody else
status: stable
severity: medium
mechanism: fault-compaction
role: root_cause
checks:
  policy: {fact: thp.defrag, is: always}
when: polcy
means: Page faults may compact memory here, which is nothing bad by itself.
references: [none]
"""


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.out)
        return loaded


Run = Callable[..., Outcome]


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in this process; stdin is not a terminal, nor are the others."""

    def _run(*arguments: str | Path, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        return Outcome(int(left.value.code or 0), out.decode(), err.decode())

    return _run


def apart(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "thpdiag", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, check=False)


def at_a_terminal(*arguments: str, **environment: str) -> str:
    """What a command writes when all its streams are one terminal."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "thpdiag", *arguments]
    settings = {**os.environ, "TERM": "xterm-256color", **environment}
    with subprocess.Popen(command, cwd=ROOT, env=settings, stdin=follower, stdout=follower, stderr=follower):
        os.close(follower)
        written = b"".join(_until_closed(leader))
    os.close(leader)
    return written.decode()


def _until_closed(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:  # Linux answers EIO once the other side is closed
            return
        if not chunk:
            return
        yield chunk


def packed(folder: Path, path: Path) -> Path:
    with tarfile.open(path, "w:xz") as archive:
        archive.add(folder, arcname="bundle")
    return path


def nested(path: Path, depth: int) -> Path:
    """A tar in a tar in a tar, with a story at the bottom."""
    data = (STORY / "ticket.txt").read_bytes()
    name = "ticket.txt"
    for _ in range(depth):
        outer = io.BytesIO()
        with tarfile.open(fileobj=outer, mode="w") as archive:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        data, name = outer.getvalue(), "inner.tar"
    path.write_bytes(data)
    return path


def unusable(kind: str, folder: Path) -> Path:
    path = folder / kind
    match kind:
        case "empty-folder":
            path.mkdir()
        case "empty-file":
            path.touch()
        case "noise":
            path.write_bytes(bytes(range(256)) * 64)
        case "novel":
            path.write_text("It was a dark and stormy night.\n" * 40)
    return path


UNUSABLE = ["empty-folder", "empty-file", "noise", "novel", "missing"]


@pytest.mark.parametrize("kind", UNUSABLE)
def test_input_that_says_nothing_is_one_sentence_and_exit_3(kind: str, tmp_path: Path, run: Run) -> None:
    """Empty, noise, prose or absent: stderr says what was expected."""
    done = run("analyze", unusable(kind, tmp_path))

    assert done.code == 3
    assert len(done.err.splitlines()) == 1
    assert "expected a sosreport" in done.err


@pytest.mark.parametrize("kind", UNUSABLE)
def test_input_that_says_nothing_still_gives_a_document(kind: str, tmp_path: Path, run: Run) -> None:
    """A program that reads our JSON gets one, and it is valid."""
    document = run("analyze", unusable(kind, tmp_path), "-f", "json").document

    jsonschema.validate(document, schema())
    assert document["verdict"]["status"] == "cannot_tell"
    assert document["findings"] == []


def test_a_missing_path_beside_a_good_one_is_not_overlooked(tmp_path: Path, run: Run) -> None:
    """What is there is analysed, what is not there decides the exit code."""
    done = run("analyze", STORY, tmp_path / "gone", "-f", "json")

    assert done.code == 3
    assert "no such file" in done.err
    assert done.document["verdict"]["status"] == "found"


@pytest.mark.parametrize(
    ("level", "code"), [("critical", 1), ("high", 1), ("low", 1), ("never", 0)], ids=lambda value: str(value)
)
def test_fail_on_makes_findings_an_exit_code(level: str, code: int, run: Run) -> None:
    """A critical finding is at or above every level."""
    assert run("analyze", STORY, "--fail-on", level).code == code


def test_fail_on_counts_from_its_level_up(run: Run) -> None:
    """A finding below the level does not fail."""
    severities = {finding["severity"] for finding in run("analyze", LEAK, "-f", "json").document["findings"]}

    assert "critical" not in severities
    assert run("analyze", LEAK, "--fail-on", "critical").code == 0


def test_fail_on_missing_makes_open_rules_an_exit_code(run: Run) -> None:
    """One pasted table leaves rules open."""
    assert run("analyze", STORY, "--fail-on-missing").code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze"],
        ["analyze", str(STORY), "--format", "pdf"],
        ["analyze", str(STORY), "-o", "pdf=x"],
        ["analyze", str(STORY), "-o", "html="],
        ["analyze", str(STORY), "--since", "yesterday-ish"],
        ["analyze", str(STORY), "--since", "2012-02-02 00:00", "--until", "2012-02-01 00:00"],
        ["analyze", str(STORY), "--at", "12:00", "--since", "11:00"],
        ["explain", "THP-999"],
        ["rules", "show", "nonsense"],
        ["rules", "test", "THP-999"],
        ["capture-script", "--for", "THP-999"],
        ["nonsense"],
    ],
    ids=" ".join,
)
def test_a_command_line_that_makes_no_sense_is_exit_2(arguments: list[str], run: Run) -> None:
    """The mistake is said on stderr, nothing is printed."""
    done = run(*arguments)

    assert done.code == 2
    assert done.err
    assert "Traceback" not in done.err
    assert done.out == ""


def test_a_misspelt_rule_is_answered_with_the_likely_one(run: Run) -> None:
    """Who types THP-01 meant one that exists."""
    assert re.search(r"did you mean '(THP|ALT)-\d+'", run("explain", "THP-01").err)


def test_a_file_that_cannot_be_written_is_exit_2(tmp_path: Path, run: Run) -> None:
    """The sentence names the path."""
    done = run("analyze", STORY, "-o", f"html={tmp_path}/no/such/folder.html")

    assert done.code == 2
    assert "no/such/folder.html" in done.err


@pytest.mark.parametrize("command", [["analyze", str(STORY), "--rules"], ["rules", "lint"]], ids=["analyze", "lint"])
def test_a_broken_rule_is_exit_4_and_points_at_the_place(command: list[str], tmp_path: Path, run: Run) -> None:
    """File, line, column, the line itself, a caret, and the likely right word."""
    (tmp_path / "acme.yaml").write_text(BROKEN)
    done = run(*command, tmp_path)
    place, line, caret = done.err.splitlines()

    assert done.code == 4
    assert re.search(r"acme\.yaml:9:\d+: unknown check 'polcy'; did you mean 'policy'\?", place)
    assert line.strip() == "when: polcy"
    assert caret.strip() == "^"


def test_a_truncated_archive_that_leaves_rules_open_is_exit_5(tmp_path: Path, run: Run) -> None:
    """What came before the cut is analysed, and the document says where it ends."""
    whole = packed(LEAK, tmp_path / "whole.tar.xz").read_bytes()
    cut = tmp_path / "cut.tar.xz"
    cut.write_bytes(whole[: len(whole) // 2])
    done = run("analyze", cut, "-f", "json")

    assert done.code == 5
    jsonschema.validate(done.document, schema())
    assert {p["kind"] for p in done.document["problems"] if p.get("hides")} == {"damaged"}
    assert done.document["inputs"]


def test_an_archive_that_goes_too_deep_is_exit_6(tmp_path: Path, run: Run) -> None:
    """The limit is named, other input is analysed all the same."""
    done = run("analyze", nested(tmp_path / "deep.tar", DEEPER_THAN_WE_GO), STORY, "-f", "json")

    assert done.code == 6
    assert [p["text"] for p in done.document["problems"] if p["kind"] == "limit"]
    assert done.document["verdict"]["status"] == "found"


def test_an_archive_within_the_limits_is_exit_0(tmp_path: Path, run: Run) -> None:
    """The test above would pass if every archive were refused."""
    assert run("analyze", nested(tmp_path / "flat.tar", 2)).code == 0


def test_a_mistake_of_ours_is_exit_70(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """It says that it is ours, and leaves what a report needs."""
    monkeypatch.setattr("thpdiag.cli.doctor.all_readers", lambda: 1 / 0)
    done = run("doctor")

    assert done.code == 70
    assert "ZeroDivisionError" in done.err
    assert "mistake of thpdiag" in done.err.splitlines()[-1]


def test_an_interrupted_run_is_exit_130(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """Ctrl-C leaves no traceback."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("thpdiag.cli.doctor.all_readers", interrupted)
    done = run("doctor")

    assert done.code == 130
    assert "Traceback" not in done.err


def test_several_outputs_of_one_run(tmp_path: Path, run: Run) -> None:
    """Each `-o` writes its file, by name or by suffix; stdout has the text."""
    done = run("analyze", STORY, "-o", f"html={tmp_path / 'page'}", "-o", tmp_path / "result.json")

    assert done.code == 0
    assert (tmp_path / "page").read_text().startswith("<!DOCTYPE html>")
    assert json.loads((tmp_path / "result.json").read_text())["verdict"]["rule"] == "THP-001"
    assert done.out == run("analyze", STORY).out


def test_an_output_on_stdout_takes_the_place_of_the_text(run: Run) -> None:
    """`-o json=-` prints one document and nothing else."""
    assert run("analyze", STORY, "-o", "json=-").document["verdict"]["rule"] == "THP-001"


def test_stderr_is_silent_when_nothing_is_wrong(tmp_path: Path, run: Run) -> None:
    """Notices are for terminals."""
    assert run("analyze", STORY, "-o", tmp_path / "page.html").err == ""


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
    other = run("analyze", LEAK, "--process", "no-such-process", "-f", "json").document

    assert "ALT-01" in {finding["rule"] for finding in mine["findings"]}
    assert "ALT-01" not in {finding["rule"] for finding in other["findings"]}


def test_the_case_gets_its_name(run: Run) -> None:
    """`--case` names it in the document."""
    assert run("analyze", STORY, "--case", "ticket 4711", "-f", "json").document["case"] == "ticket 4711"


def test_inputs_says_what_was_recognised(run: Run) -> None:
    """Reader and records per member, and what rules lack, for programs."""
    document = run("inputs", STORY, "-f", "json").document

    assert set(document) == {"schema", "inputs", "problems", "rules"}
    assert {(i["member"], i["reader"]) for i in document["inputs"]} >= {("ticket.txt", "perf_top")}
    assert all(i["records"] > 0 for i in document["inputs"])
    assert any(rule["missing"] for rule in document["rules"])


def test_inputs_says_it_to_people(run: Run) -> None:
    """The same as text."""
    assert re.search(r"ticket\.txt\n    perf_top: \d+ record", run("inputs", STORY).out)


def test_explain_says_what_a_rule_means(run: Run) -> None:
    """The condition, the levels and the sources, in 80 columns."""
    done = run("explain", "thp-001")

    assert done.out.startswith("THP-001  CPUs queue")
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
    assert "Would have fired with: " in run("explain", "THP-016", STORY).out


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


def test_a_failing_case_is_exit_1(tmp_path: Path, run: Run) -> None:
    """The line names rule, case, and what came out."""
    (tmp_path / "acme.yaml").write_text(BROKEN.replace("polcy", "policy"))
    (tmp_path / "acme.cases.yaml").write_text("- name: never\n  facts: {thp.defrag: never}\n  outcome: fires\n")
    done = run("rules", "test", "ACME-001", "--rules", tmp_path)

    assert done.code == 1
    assert "ACME-001: case 'never': expected fires, got silent" in done.out


def test_a_rule_without_cases_is_exit_1(tmp_path: Path, run: Run) -> None:
    """A rule that nothing tests does not pass."""
    (tmp_path / "acme.yaml").write_text(BROKEN.replace("polcy", "policy"))

    assert run("rules", "test", "ACME-001", "--rules", tmp_path).code == 1


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


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_the_same_input_gives_the_same_bytes(form: str) -> None:
    """Whatever the hash seed, the time zone and the language of the analyst."""
    one = apart("analyze", LEAK, "-f", form, PYTHONHASHSEED="1", TZ="UTC", LC_ALL="C")
    other = apart("analyze", LEAK, "-f", form, PYTHONHASHSEED="2", TZ="Asia/Tokyo", LC_ALL="C.UTF-8")

    assert one.stdout
    assert one.stdout == other.stdout


def test_the_document_does_not_know_where_it_was_made(tmp_path: Path, run: Run) -> None:
    """The same archive elsewhere gives the same bytes, and no path of the analyst is in them."""
    (tmp_path / "elsewhere").mkdir()
    paths = [packed(LEAK, tmp_path / "bundle.tar.xz"), packed(LEAK, tmp_path / "elsewhere" / "bundle.tar.xz")]
    one, other = (run("analyze", path, "-f", "json").out for path in paths)

    assert one == other
    assert str(tmp_path) not in one


def test_output_into_a_pipe_has_no_escape_codes() -> None:
    """Even when the environment promises a terminal."""
    for arguments in (["--help"], ["analyze", str(STORY), "-vv"], ["rules", "list"], ["nonsense"]):
        done = apart(*arguments, TERM="xterm-256color")
        assert ESCAPE not in (done.stdout + done.stderr).decode()


def test_no_color_is_respected() -> None:
    """At a terminal help is coloured, and not with NO_COLOR."""
    colour = re.compile(rf"{ESCAPE}\[[0-9;]*3[0-9]")

    assert colour.search(at_a_terminal("--help", NO_COLOR=""))
    assert not colour.search(at_a_terminal("--help", NO_COLOR="1"))


def test_a_terminal_is_told_what_was_written(tmp_path: Path) -> None:
    """The notice of a written file is for a person."""
    written = at_a_terminal("analyze", str(STORY), "-o", f"html={tmp_path / 'page.html'}")

    assert f"{tmp_path / 'page.html'} written" in written.replace("\r\n", "\n").splitlines()


def test_what_a_customer_wrote_does_not_act_on_the_terminal(tmp_path: Path, run: Run) -> None:
    """Escape codes in a process name and in a file name are shown, not sent."""
    text = (STORY / "ticket.txt").read_text().replace("java", "ja\x1b]0;owned\x07va")
    (tmp_path / "a\x1b[31m.txt").write_text(text)

    for arguments in (["analyze", "-vv"], ["inputs"], ["explain", "THP-001"]):
        done = run(*arguments, tmp_path)
        assert ESCAPE not in done.out + done.err
        assert done.code == 0
