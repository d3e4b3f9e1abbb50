"""The first screen of the page shows one command; its undo takes back that command and nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest

from advice_items import advice
from test_advice import SETTINGS, USUAL
from thpdiag.diagnosis.remedies import HostView
from thpdiag.model.result import Finding
from thpdiag.report import html, messages

DEBIAN = HostView("debian12", "E7", "transparent_hugepage", SETTINGS, tuned="balanced")


@pytest.mark.parametrize(
    ("name", "mechanism", "back"),
    [
        ("defrag-never", "fault-compaction", [f"echo always > {USUAL}/defrag"]),
        ("thp-never", "huge-page-zeroing", [f"echo always > {USUAL}/enabled"]),
        ("reduce-fragmentation", "allocation-knee", ["sysctl -p ~/min_free.before"]),
        ("tuned-profile", "setting-overridden", []),
        ("application-switch", "fault-compaction", []),
        ("kernel-update", "thp-direct-reclaim", []),
    ],
)
def test_what_now_changed_is_taken_back_alone(name: str, mechanism: str, back: list[str]) -> None:
    """Start-up files and the boot line are no part of it, as the command does not write them; who only looks needs
    none.
    """
    host = (
        HostView("el8", "E6", "transparent_hugepage", SETTINGS, tuned="balanced") if name == "tuned-profile" else DEBIAN
    )
    for item in advice([name], mechanism, host):
        if item["id"] == name:
            assert item["undo_now"] == back
            assert [line for line in item["undo"] if line in back] == back


def test_all_that_is_undone_includes_what_was_made_to_last() -> None:
    """The full list begins with the value that is in force, then comes the boot."""
    (item,) = advice(["defrag-never"], "fault-compaction", DEBIAN)
    assert item["undo"][: len(item["undo_now"])] == item["undo_now"]
    assert any("systemctl disable" in line for line in item["undo"])


def test_the_first_screen_undoes_the_command_that_it_shows() -> None:
    """The unit and its removal belong together, further down."""
    (item,) = advice(["defrag-never"], "fault-compaction", DEBIAN)
    finding = {
        "rule": "THP-012", "mechanism": "fault-compaction", "title": "Programs stall", "severity": "high",
        "confidence": "likely", "role": "root_cause", "remedies": [item],
    }  # fmt: skip
    verdict = {"status": "found", "rule": "THP-012", "mechanism": "fault-compaction", "severity": "high",
               "confidence": "likely", "sentence": "Programs stall."}  # fmt: skip
    page = html.render({"schema": "thpdiag/result/1", "case": "x", "verdict": verdict, "findings": [finding]})
    (screen,) = re.findall(r"<header class=\"verdict.*?</header>", page, re.DOTALL)
    assert f"echo always &gt; {USUAL}/defrag" in screen
    assert "systemctl" not in screen
    assert "systemctl disable thp-settings.service" in page


def test_the_first_screen_tries_what_acts_at_once() -> None:
    """A step that needs a restart, or only looks, stands below; a setting that can be set back is tried first."""
    steps = [
        {"id": "look", "restart": "Redis", "undo_now": []},
        {"id": "wrap", "restart": "the program", "undo_now": ["rm"]},
        {"id": "knob", "restart": "none for new memory; the application, to give back", "undo_now": ["echo"]},
    ]
    finding = Finding.model_validate({"rule": "THP-1", "remedies": steps})
    assert messages.first_step(finding) == (3, finding.remedies[2])
    finding = Finding.model_validate({"rule": "THP-1", "remedies": steps[:2]})
    assert messages.first_step(finding) == (1, finding.remedies[0])


def test_what_is_over_is_not_tried_again() -> None:
    """The page of a trouble that ended says when its first command is meant."""
    page = {state: html.render(_of_state(state)) for state in ("past", "present")}
    assert "Do now (if it comes back)" in page["past"]
    assert "if it comes back" not in page["present"]
    assert "Undo (only after that)" in page["past"]  # by itself it would bring the trouble back
    assert "Undo (only" not in page["present"]
    assert "these steps are for when it returns" in page["past"].partition(">What to do<")[2]
    assert "for when it comes back" not in page["present"]
    assert "Do now<" in page["present"]


def _of_state(state: str) -> dict[str, Any]:
    remedy = {"id": "a", "now": ["echo never"], "undo_now": ["echo always"], "restart": "none"}
    return {
        "schema": "thpdiag/result/1",
        "verdict": {"status": "found", "rule": "THP-1", "state": state},
        "findings": [{"rule": "THP-1", "remedies": [remedy]}],
    }
