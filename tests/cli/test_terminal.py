"""What reaches the terminal, a pipe or a file: the same bytes every time, and nothing that acts on its own."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console

from command_line import LEAK, STORY, Run, apart, at_a_terminal, packed
from thpdiag.cli.terminal import show_progress

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


def test_who_waits_is_told_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of the member, with what it tries to do to the terminal taken off; nothing stays on the screen."""
    screen = io.StringIO()
    monkeypatch.setattr("thpdiag.cli.terminal.QUIET_SECONDS", 0.0)
    monkeypatch.setattr("rich.console.Console", lambda **_: Console(file=screen, force_terminal=True))
    with show_progress() as show:
        show(f"bundle/{ESCAPE}]0;owned\x07[red]messages")
        for waiting in [t for t in threading.enumerate() if isinstance(t, threading.Timer)]:
            waiting.join()

    assert "[red]messages" in screen.getvalue()
    assert f"{ESCAPE}]0" not in screen.getvalue()
    assert screen.getvalue().endswith(f"{ESCAPE}[2K")


def test_what_is_to_be_done_at_the_end_is_done() -> None:
    """The process ends at once, with its code, but not before the functions of `atexit`."""
    program = (
        "import atexit, sys\nsys.argv = ['thpdiag', 'rules', 'show', 'THP-999']\n"
        "atexit.register(print, 'the end')\nfrom thpdiag.cli import program\nprogram()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (2, "the end\n")
    assert "THP-999" in done.stderr
