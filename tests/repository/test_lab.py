"""The kernel lab: labels from a recorded trace, and the score of the cuts that are shipped."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from command_line import ROOT

sys.path.insert(0, str(ROOT / "lab"))

import cut
import labels
import score

SHIPPED = ROOT / "fixtures" / "lab"
WITNESS = SHIPPED / "witness"
CAUSES = {
    "6.18/fork-cow/during": "fork-cow",  # begins within the recording
    "6.12/fault-compaction/during": "fault-compaction",
    "5.10/khugepaged-bloat/during": "khugepaged-bloat",
    "5.10/khugepaged-bloat/after": "none",
    "5.10/memory-leak/during": "none",
    "6.1/fault-compaction/during": "fault-compaction",  # begun 34 s after the boot: `uptime` said 0 min
    "6.12-arm64/fault-compaction/during": "fault-compaction",
    "6.12-arm64/idle/after": "none",  # soft interrupts, and no packets
    "6.12-rt/fault-compaction/during": "none",  # a kernel without huge pages
    "6.12/mthp-fallback/during": "mthp",
    "6.12/khugepaged-cpu/during": "khugepaged-cpu",
    "6.12/memory-pressure/during": "none",  # much is free when it begins
    "6.12/background-compaction/after": "none",  # memory is unmapped when it ends
    "7.3/madvise-stalls/during": "fault-compaction",
}
RECORDINGS = score.recordings(SHIPPED)


def test_label_of_a_recorded_trace(tmp_path: Path) -> None:
    """The trace of churning page faults says compaction, and the one under the cure does not."""
    case = tmp_path / "case"
    shutil.copytree(WITNESS, case)
    labels.label_case(case)
    said = {
        phase: json.loads((case / phase / "label.json").read_text("utf-8"))["labels"] for phase in ("during", "after")
    }
    assert "fault-compaction" in said["during"]
    assert "fault-compaction" not in said["after"]


def test_first_touch_needs_the_same_load_under_the_cure() -> None:
    """Three times the memory, in huge pages of faults; not what khugepaged added."""
    during = {"load_mib": 600.0, "load_huge_mib": 590.0, "khugepaged_added_mib": 0.0}
    assert labels.is_first_touch(during, {"load_mib": 2.0})
    assert not labels.is_first_touch(during, {"load_mib": 500.0})
    assert not labels.is_first_touch(during | {"khugepaged_added_mib": 500.0}, {"load_mib": 2.0})


@pytest.mark.parametrize(
    ("said", "cause", "column"),
    [
        (("fault-compaction",), "compaction-lock-convoy", "right"),
        (("fault-compaction",), "none", "undecided"),
        (("fault-compaction",), "memory-leak", "other"),
        (("memory-leak",), "khugepaged-bloat", "wrong"),
        (("memory-leak",), "none", "right"),
        ((), "io-wait", "other"),
        ((), "none", "right"),
    ],
)
def test_what_an_answer_is_worth(said: tuple[str, ...], cause: str, column: str) -> None:
    """A cause that no label has is wrong where it is about huge pages."""
    assert score.column(said, cause) == column


def test_confidence_is_scored() -> None:
    """A sure wrong cause costs more than a hypothesis."""
    one = score.Recording("6.1/idle/during", Path("x"), ())
    sure, unsure = ([score.score(one, "fork-cow", level)] for level in ("confirmed", "possible"))
    assert score.brier(sure) > score.brier(unsure) > 0  # type: ignore[operator]
    assert score.brier([score.score(one, "none", "")]) is None


def test_cuts_are_small() -> None:
    """The repository stays small."""
    sizes = [recording.bundle.stat().st_size for recording in RECORDINGS]
    assert max(sizes) <= cut.MAX_BYTES
    assert sum(sizes) <= 1_500_000


def test_score_of_shipped_cuts() -> None:
    """What the kernel shows is named, and nothing about huge pages is said of a leak or under the cure."""
    some = [recording for recording in RECORDINGS if recording.name in CAUSES]
    given = {one.recording.name: (one.cause, one.column) for one, _ in score.own_answers(some, 0)}
    assert given == {name: (cause, "right") for name, cause in CAUSES.items()}


def test_answers_of_another_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Answers from a file are scored without thpdiag; one that is missing is none."""
    answers = tmp_path / "answers.json"
    answers.write_text('{"5.10/memory-leak/during": ["fork-cow", "confirmed"]}', "utf-8")
    monkeypatch.setattr(sys, "argv", ["score.py", str(SHIPPED), "--answers", str(answers)])
    score.main()
    said = capsys.readouterr().out
    assert "confirmed  0 of 1 right" in said
    assert "5.10/memory-leak/during              wrong      fork-cow confirmed" in said
