"""`--timings`: how long stages and rules took, beside the result and never in it."""

from __future__ import annotations

from pathlib import Path

from analyze_bytes import rules
from command_line import STORY, Run
from thpdiag.engine.timing import TITLE


def test_timings_go_to_a_file_of_their_own(run: Run, tmp_path: Path) -> None:
    """Each stage and each rule has a row; the result has the same bytes with and without."""
    file = tmp_path / "timings.tsv"
    with_them = run("analyze", STORY, "-f", "json", "--timings", str(file))

    rows = [line.split("\t") for line in file.read_text().splitlines()]
    assert rows[0] == [TITLE]
    stages = [r[1] for r in rows if r[0] == "stage"]
    assert stages == ["read", "cases", "rules", "lines that are cited", "result", "reports"]
    assert {r[1] for r in rows if r[0] == "rule"} == {rule.id for rule in rules()}
    assert all(float(r[2]) >= 0 and r[3].isdigit() for r in rows if r[0] == "rule")
    assert with_them.out == run("analyze", STORY, "-f", "json").out


def test_timings_go_to_stderr(run: Run) -> None:
    """Without a file they are told beside the report."""
    done = run("analyze", STORY, "--timings")

    assert TITLE in done.err
    assert "rule\t" in done.err
    assert "rule\t" not in done.out


def test_the_time_asked_for_has_a_stage_of_its_own(run: Run) -> None:
    """With a window the rules are judged on the rest too."""
    assert (
        "stage\trules outside of the requested time range" in run("analyze", STORY, "--since", "10:40", "--timings").err
    )


def test_timings_spare_what_is_there(run: Run, tmp_path: Path) -> None:
    """`--timings a.tar b.tar` does not overwrite a bundle; timings of before may be overwritten."""
    bundle, old = tmp_path / "a.txt", tmp_path / "old.tsv"
    bundle.write_text("precious\n")
    old.write_text(f"{TITLE}\n")

    assert run("analyze", "--timings", str(bundle), STORY).code == 2
    assert bundle.read_text() == "precious\n"
    assert run("analyze", "--timings", str(old), STORY).code == 0
    assert "stage\tread" in old.read_text()
