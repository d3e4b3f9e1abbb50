"""What reaches the terminal, a pipe or a file: the same bytes every time, and nothing that acts on its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from analyze_bytes import rules
from command_line import LEAK, STORY, SUPPORT, Run, apart, at_a_terminal, packed
from thpdiag.report.quantity import quantity

ESCAPE = "\x1b"


def test_stderr_is_silent_when_nothing_is_wrong(tmp_path: Path, run: Run) -> None:
    """Notices are for terminals."""
    assert run("analyze", STORY, "-o", tmp_path / "page.html").err == ""


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    """Whatever the hash seed, the time zone and the language of the analyst."""
    made = []
    for seed, zone, language in (("1", "UTC", "C"), ("2", "Asia/Tokyo", "C.UTF-8")):
        files = [tmp_path / f"{seed}.{form}" for form in ("json", "html")]
        outputs = [f"-o{file}" for file in files]
        text = apart("analyze", LEAK, *outputs, PYTHONHASHSEED=seed, TZ=zone, LC_ALL=language).stdout
        made.append([text, *(file.read_bytes() for file in files)])

    assert all(made[0])
    assert made[0] == made[1]


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


def stages(written: str) -> dict[str, list[str]]:
    """What the line of progress showed, by its stage, in the order of the stages."""
    found: dict[str, list[str]] = {}
    for stage, counts in re.findall(r"\x1b\[2K\r\x1b\[\?7l(\w+): (.*?)\x1b\[\?7h", written):
        found.setdefault(stage, []).append(counts)
    return found


@pytest.mark.parametrize("more", [(), ("--isolate",)], ids=["here", "in a child"])
def test_a_terminal_is_told_how_far_the_analysis_is(tmp_path: Path, more: tuple[str, ...]) -> None:
    """Three stages, each with its own counts: bytes and members, rules, reports. Nothing of it stays on the screen."""
    bundle, page = packed(LEAK, tmp_path / "bundle.tar.xz"), tmp_path / "page.html"
    written = at_a_terminal("analyze", str(bundle), "-o", str(page), *more)

    shown, size = stages(written), quantity(bundle.stat().st_size, "bytes")
    members = len(inputs_of(bundle))
    assert list(shown) == ["Reading", "Judging", "Writing"]
    assert shown["Reading"][0] == f"0 B of {size}, 0 files"
    assert shown["Reading"][-1].startswith(f"{size} of {size}, {members} files")
    assert shown["Judging"][0] == f"0 of {len(rules())} rules"
    assert re.fullmatch(r"(\d+) of \1 rules, window (\d+) of \2", shown["Judging"][-1])
    assert shown["Writing"] == ["cited lines", "report 1 of 2, text", "report 2 of 2, html"]
    assert "\r" not in written.rpartition(f"{ESCAPE}[2K\r")[2].replace("\r\n", "")


def inputs_of(bundle: Path) -> set[str]:
    """The members that an analysis reads."""
    done = apart("inputs", bundle, "-f", "json")
    return {row["member"] for row in json.loads(done.stdout)["inputs"]}


def test_progress_names_the_host_where_there_are_several() -> None:
    """Rules are judged on one host after the other, and on its states."""
    last = stages(at_a_terminal("analyze", str(STORY), str(LEAK)))["Judging"][-1]

    assert "host 2 of 2" in last


def test_progress_is_for_terminals_that_want_it(tmp_path: Path) -> None:
    """Not with --progress none, nor where a line cannot be drawn anew."""
    for settings in ({"TERM": "xterm"}, {"TERM": "dumb"}):
        options = ["--progress", "none", "--color", "never"] if settings["TERM"] == "xterm" else []
        written = at_a_terminal("analyze", str(STORY), "-o", f"html={tmp_path / 'page.html'}", *options, **settings)
        assert ESCAPE not in written


def test_names_in_progress_do_not_act_on_the_terminal(tmp_path: Path) -> None:
    """The name of a member is shown, not sent."""
    (tmp_path / f"a{ESCAPE}]0;owned\x07.txt").write_bytes((STORY / "ticket.txt").read_bytes())
    written = at_a_terminal("analyze", str(tmp_path))

    assert "owned" in stages(written)["Reading"][-1]
    assert f"{ESCAPE}]0" not in written


def test_a_child_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    """Of what a hostile child writes only counts are shown, and words without their escapes."""
    (tmp_path / "a.txt").write_text("thpdiag_mock prints_escapes\n")
    program = [str(SUPPORT / "misbehaving_analyze.py"), "normal"]
    written = at_a_terminal("analyze", "--isolate", str(tmp_path), program=program)

    assert any("owned" in counts for counts in stages(written)["Judging"])
    assert f"{ESCAPE}]0" not in written


def test_what_is_to_be_done_at_the_end_is_done() -> None:
    """The process ends at once, with its code, but not before the functions of `atexit`."""
    program = (
        "import atexit, sys\nsys.argv = ['thpdiag', 'rules', 'show', 'THP-999']\n"
        "atexit.register(print, 'the end')\nfrom thpdiag.cli import program\nprogram()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (2, "the end\n")
    assert "THP-999" in done.stderr
