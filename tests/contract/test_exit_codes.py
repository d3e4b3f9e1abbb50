"""Exit codes, which scripts rely on: one row for each way in which a command ends."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from contract.made_inputs import (
    Failing,
    Interrupting,
    cut,
    noise,
    pack,
    pack_deep,
    prose,
    rule_folder,
)
from contract.run_command import ROOT, run_command

STORY = "fixtures/stories/hadoop-centos62/bundle"
LEAK = "fixtures/captures/true-leak/bundle"
Make = Callable[[Path], Path]

MADE: dict[str, Make] = {
    "empty-file": lambda folder: (folder / "empty").touch() or folder / "empty",  # type: ignore[func-returns-value]
    "empty-folder": lambda folder: folder,
    "noise": lambda folder: noise(folder / "noise"),
    "prose": lambda folder: prose(folder / "prose"),
    "missing": lambda folder: folder / "missing",
    "cut": lambda folder: cut(pack(ROOT / LEAK, folder / "cut.tar"), 0.5),
    "deep": lambda folder: pack_deep(folder / "deep.tar", (ROOT / STORY / "ticket.txt").read_bytes(), 6),
    "flat": lambda folder: pack_deep(folder / "flat.tar", (ROOT / STORY / "ticket.txt").read_bytes(), 2),
    "rules": lambda folder: rule_folder(folder / "rules"),
    "unwritable": lambda folder: folder / "no" / "such" / "folder.html",
}
ENDS = [  # exit code, command; {NAME} is an input of MADE
    (0, f"analyze {STORY}"),
    (0, "analyze {flat}"),
    (0, f"analyze {STORY} --fail-on never"),
    (0, f"analyze {LEAK} --fail-on critical"),
    (1, f"analyze {STORY} --fail-on critical"),
    (1, f"analyze {STORY} --fail-on low"),
    (1, f"analyze {STORY} --fail-on-missing"),
    (1, f"analyze {STORY} {{missing}} --fail-on low"),
    (2, "analyze"),
    (2, f"analyze {STORY} --format pdf"),
    (2, f"analyze {STORY} -o pdf=x"),
    (2, f"analyze {STORY} -o html="),
    (2, f"analyze {STORY} -o html={{unwritable}}"),
    (2, f"analyze {STORY} --since nonsense"),
    (2, f"analyze {STORY} --since 12:00 --until 11:00"),
    (2, f"analyze {STORY} --at 12:00 --since 11:00"),
    (2, f"analyze {STORY} --at 25:61"),
    (2, f"analyze {STORY} --set THP-001.nothing=1"),
    (2, "explain THP-999"),
    (2, "rules show nonsense"),
    (2, "rules test THP-999"),
    (2, "capture-script --for THP-999"),
    (2, "nonsense"),
    (2, "analyze --nonsense"),
    (3, "analyze {empty-file}"),
    (3, "analyze {empty-folder}"),
    (3, "analyze {noise}"),
    (3, "analyze {prose}"),
    (3, "analyze {missing}"),
    (3, f"analyze {STORY} {{missing}}"),
    (3, "inputs {prose}"),
    (3, "compare {missing} {noise}"),
    (3, "render {prose}"),
    (4, f"analyze {STORY} --rules {{rules}}"),
    (4, "rules lint {rules}"),
    (5, "analyze {cut}"),
    (5, "inputs {cut}"),
    (6, f"analyze {{deep}} {STORY}"),
]


@pytest.mark.parametrize(("code", "command"), ENDS, ids=[f"{code}-{command}" for code, command in ENDS])
def test_a_command_ends_with_its_code(code: int, command: str, tmp_path: Path) -> None:
    """A mistake is told on stderr without a traceback, and stdout has nothing but what was asked for."""
    done = run_command(*(_made(word, tmp_path) for word in command.split()))

    assert done.code == code, f"exit {done.code} instead of {code}: {done.err}"
    assert "Traceback" not in done.err
    if code in (2, 3, 4):
        assert done.err
    if code in (2, 4):
        assert done.out == ""


def _made(word: str, folder: Path) -> str:
    """A word of a command with the path of an input that is made in its place."""
    return re.sub(r"\{([\w-]+)\}", lambda name: str(MADE[name[1]](folder)), word)


@pytest.mark.parametrize("made", ["empty-file", "prose", "missing", "cut", "deep"])
def test_a_document_is_printed_also_where_nothing_could_be_read(made: str, tmp_path: Path) -> None:
    """Programs that read the JSON get one with exit 3, 5 and 6."""
    done = run_command("analyze", MADE[made](tmp_path), "-f", "json")

    assert done.code in (3, 5, 6)
    assert {"schema", "verdict", "findings", "problems", "inputs", "tool"} <= set(done.document)


@pytest.mark.parametrize(("code", "stdin"), [(3, io.BytesIO), (70, Failing), (130, Interrupting)])
def test_what_happens_on_standard_input_has_its_code(code: int, stdin: type[io.BytesIO]) -> None:
    """Nothing there; a mistake of ours, which is said to be one; Ctrl-C."""
    done = run_command("render", "-", stdin=stdin())

    assert done.code == code
    assert code != 70 or "bug in thpdiag" in done.err
