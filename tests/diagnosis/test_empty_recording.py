"""A recording in which nothing is left is recognised all the same."""

from __future__ import annotations

import io
from pathlib import Path

from analyze_bytes import STRICT, rules
from profile_stacks import RECORDING
from thpdiag.pipeline import analyze


def test_a_recording_without_samples_is_a_recording() -> None:
    """Cut behind its header: what it is, that it is cut, that no sample is in it; not that nothing was recognised."""
    head = (RECORDING / "perf.data").read_bytes()[:400]
    document = analyze([Path("-")], rules(), STRICT, stdin=io.BytesIO(head))
    assert [(i["reader"], i["records"]) for i in document["inputs"]] == [("perf_data", 0)]
    said = [problem["text"] for problem in document["problems"]]
    assert any("is cut" in text for text in said)
    assert "no sample was found in it" in said
    assert document["verdict"]["status"] == "cannot_tell"
    assert "recognised" not in document["verdict"]["sentence"]
