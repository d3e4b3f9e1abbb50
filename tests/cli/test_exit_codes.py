"""Exit codes: what each means, and that a mistake is one sentence on stderr."""

from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path

import jsonschema
import pytest

from command_line import LEAK, STORY, Run, packed
from thpdiag.model.result import schema

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
    """Empty, noise, prose or absent: stderr says what is wrong; where there is nothing, nothing is diagnosed."""
    done = run("analyze", unusable(kind, tmp_path))

    assert done.code == 3
    assert len(done.err.splitlines()) == 1
    wrong = {"empty-folder": "the folder has no files", "empty-file": "the file is empty", "missing": "no such file"}
    assert wrong.get(kind, "expected a sosreport") in done.err
    assert bool(done.out) is (kind not in wrong)


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
        ["analyze", str(STORY), "--at", "25:61"],
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
    monkeypatch.setattr("thpdiag.cli.doctor.all_parsers", lambda: 1 / 0)
    done = run("doctor")

    assert done.code == 70
    assert "ZeroDivisionError" in done.err
    assert "bug in thpdiag" in done.err.splitlines()[-1]


def test_an_interrupted_run_is_exit_130(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """Ctrl-C leaves no traceback."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("thpdiag.cli.doctor.all_parsers", interrupted)
    done = run("doctor")

    assert done.code == 130
    assert "Traceback" not in done.err


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
