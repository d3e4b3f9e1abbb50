"""`analyze --isolate`: the same answer, and a bundle that misbehaves ends with a name, an exit code and a document."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from command_line import SUPPORT
from conftest import ROOT
from thpdiag.model.result import schema
from thpdiag.sandbox.programs import find_program

Done = subprocess.CompletedProcess[bytes]
BUNDLE = ROOT / "fixtures/stories/redis-shop-ubuntu/bundle"
PCP = ROOT / "fixtures/recordings/pcp"
RECORDING = "perf.data"


def thpdiag(*arguments: str | Path, stdin: bytes = b"", mode: str = "normal") -> Done:
    program = [sys.executable, str(ROOT / "tests/support/misbehaving_analyze.py"), mode]
    return subprocess.run([*program, *map(str, arguments)], input=stdin, capture_output=True, check=False, cwd=ROOT)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """A bundle as it comes."""
    path = tmp_path / "bundle.tar.xz"
    with tarfile.open(path, "w:xz") as archive:
        archive.add(BUNDLE, "bundle")
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Callable[[str], Path]:
    """A bundle of which a member makes the reader misbehave, beside one that is as it should be."""

    def _bad(word: str) -> Path:
        (tmp_path / "a.txt").write_text(f"thpdiag_mock {word}\n")
        (tmp_path / "proc").mkdir(exist_ok=True)
        (tmp_path / "proc/loadavg").write_text("0.41 0.32 0.20 2/345 6789\n")
        return tmp_path

    return _bad


def same(*arguments: str | Path, stdin: bytes = b"") -> Done:
    """The run with the guard, which is as the one without."""
    plain, guarded = (thpdiag("analyze", *arguments, *more, stdin=stdin) for more in ((), ("--isolate",)))
    assert (guarded.returncode, guarded.stdout, guarded.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    return guarded


def test_the_answer_is_the_same(tmp_path: Path) -> None:
    """To the byte, in any format."""
    written = []
    for number, more in enumerate(((), ("--isolate",))):
        files = [tmp_path / f"{number}.{suffix}" for suffix in ("txt", "json", "html")]
        assert thpdiag("analyze", BUNDLE, *more, *(f"-o{file}" for file in files)).returncode == 0
        written.append([file.read_bytes() for file in files])
    assert written[0] == written[1]


def test_an_archive_and_a_stream_are_the_same(packed: Path) -> None:
    """The child gets the one by its name and the other as its standard input."""
    assert same(packed, "-f", "json").returncode == 0
    assert same("-", "-f", "json", stdin=packed.read_bytes()).returncode == 0


@pytest.mark.parametrize("path", ["nowhere", "LICENSE", "/dev/null"])
def test_a_mistake_of_the_user_is_the_same(path: str) -> None:
    """What is not there, and what nobody recognises."""
    assert same(path).returncode == 3


@pytest.mark.skipif(find_program("pmrep") is None, reason="no pmrep")
@pytest.mark.parametrize("path", [PCP, PCP / "web1.0"])
def test_programs_of_readers_work_inside(path: Path) -> None:
    """pmrep finds the files of the archive and what it needs of the system."""
    document = json.loads(same(path, "-f", "json").stdout)
    assert [i["reader"] for i in document["inputs"] if i["records"]]
    assert document["problems"] == []


@pytest.mark.parametrize(
    ("word", "mode", "code", "text"),
    [
        ("loops", "brief", 6, "limit of CPU time"),
        ("waits_without_end", "hurried", 6, "took too long"),
        ("kills_itself", "normal", 6, "signal 9"),
        ("prints_without_end", "normal", 6, "limit of output"),
        ("aborts", "normal", 70, "signal 6"),
        ("reads_address_zero", "normal", 70, "signal 11"),
        ("leaves_at_once", "normal", 70, "failed"),
    ],
)
def test_a_bundle_that_ends_the_child_is_told(
    word: str, mode: str, code: int, text: str, bad: Callable[[str], Path]
) -> None:
    """On stderr, by the exit code, and in a document that claims nothing."""
    done = thpdiag("analyze", "--isolate", "-f", "json", bad(word), mode=mode)
    document = json.loads(done.stdout)

    assert done.returncode == code
    assert text in done.stderr.decode()
    jsonschema.validate(document, schema())
    assert document["verdict"]["status"] == "cannot_tell"
    assert [p["kind"] for p in document["problems"]] == ["bug" if code == 70 else "limit"]


@pytest.mark.parametrize("options", [["--isolate"], ["--max-memory", "512 MiB"]], ids=["isolated", "here"])
def test_a_reader_that_takes_all_memory_costs_its_member_only(options: list[str], bad: Callable[[str], Path]) -> None:
    """The others are read; the document names the limit."""
    done = thpdiag("analyze", *options, "-f", "json", bad("allocates"))
    document = json.loads(done.stdout)

    assert done.returncode == 6
    assert [(p["kind"], p["member"]) for p in document["problems"]] == [("limit", "a.txt")]
    assert "loadavg" in [i["reader"] for i in document["inputs"]]


def test_an_analysis_that_takes_all_memory_has_a_document(bad: Callable[[str], Path]) -> None:
    """Outside of a reader too: one sentence, and no traceback."""
    done = thpdiag("analyze", "--max-memory", "512 MiB", "-f", "json", bad("answers"), mode="greedy")
    document = json.loads(done.stdout)
    text = "the analysis needed more than 512.0 MiB of memory (limit --max-memory); there is no result"

    assert (done.returncode, done.stderr.decode()) == (6, f"thpdiag: {text}\n")
    assert [(p["kind"], p["text"]) for p in document["problems"]] == [("limit", text)]
    jsonschema.validate(document, schema())


def test_reading_ends_at_the_time_that_is_given(bad: Callable[[str], Path]) -> None:
    """What comes after is not read, and the document names the limit."""
    done = thpdiag("analyze", "--max-time", "1 s", "-f", "json", bad("takes_a_second"))
    problems = json.loads(done.stdout)["problems"]

    assert {p["kind"] for p in problems} == {"limit"}
    assert any("took more than 1 s" in p["text"] for p in problems)


def test_a_reader_that_raises_costs_its_member_only(bad: Callable[[str], Path]) -> None:
    """As it does without the guard."""
    document = json.loads(same(bad("raises"), "-f", "json").stdout)
    assert [(p["kind"], p["member"]) for p in document["problems"]] == [("bug", "a.txt")]


def test_an_open_rule_fails_the_gate_of_a_bundle_that_was_ended(bad: Callable[[str], Path]) -> None:
    """Exit 1 comes before 6, and a mistake of ours before all."""
    gate = ("analyze", "--isolate", "--fail-on-missing")
    assert thpdiag(*gate, bad("kills_itself")).returncode == 1
    assert thpdiag(*gate, bad("aborts")).returncode == 70


def incomplete(*arguments: str | Path) -> Done:
    """On a machine without Landlock and namespaces."""
    program = [sys.executable, str(SUPPORT / "without_layers.py"), *map(str, arguments)]
    return subprocess.run(program, capture_output=True, check=False, cwd=ROOT)


def test_layers_that_are_missing_are_told(tmp_path: Path) -> None:
    """On stderr, and in the document as a note; what was found is the same."""
    text = tmp_path / "loadavg"
    text.write_text("0.41 0.32 0.20 2/345 6789\n")
    whole, found = thpdiag("analyze", text, "-f", "json"), incomplete("analyze", text, "-f", "json", "--isolate")
    sentence = "The sandbox was incomplete, as this machine lacks: an empty network namespace, Landlock."
    document = json.loads(found.stdout)

    assert (found.returncode, found.stderr.decode()) == (whole.returncode, f"thpdiag: {sentence}\n")
    assert document.pop("notes") == [{"text": sentence}]
    assert document == {key: value for key, value in json.loads(whole.stdout).items() if key != "notes"}
    jsonschema.validate(json.loads(found.stdout), schema())


@pytest.mark.parametrize("command", [["analyze"], ["triage", "--out-dir", "OUT"]], ids=["analyze", "triage"])
def test_a_sandbox_that_is_demanded_is_whole(command: list[str], tmp_path: Path) -> None:
    """Else nothing is read; one sentence says which layers this machine lacks."""
    (tmp_path / "loadavg").write_text("0.41 0.32 0.20 2/345 6789\n")
    words = [str(tmp_path / "out") if word == "OUT" else word for word in command]
    found = incomplete(*words, tmp_path / "loadavg", "--require-sandbox")
    text = "the sandbox is incomplete on this machine, which lacks: an empty network namespace, Landlock"

    assert (found.returncode, found.stdout, found.stderr.decode()) == (6, b"", f"thpdiag: {text}\n")
