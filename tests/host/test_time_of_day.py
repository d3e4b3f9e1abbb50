"""`--since`, `--until` and `--at` by the time of day, for sources that know their date, and what cannot be placed."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from analyze_bytes import STRICT, rules
from profile_stacks import RECORDING
from thpdiag.host.options import UNPLACED, parse_window
from thpdiag.model import Clock, Moment
from thpdiag.pipeline import analyze

DAY = 1795132800.0  # 2026-11-20 00:00:00 UTC
SCRIPT = (RECORDING / "script.txt").read_text()


@pytest.mark.parametrize(
    ("given", "time", "inside"),
    [
        (("09:40", None, None), 9.7, True),
        (("09:40", None, None), 9.6, False),
        (("09:40", "10:00", None), 9.9, True),
        (("09:40", "10:00", None), 10.1, False),
        ((None, "10:00", None), 33.9, True),  # the next morning
        ((None, None, "00:02"), 23.99, True),  # five minutes around reach over midnight
        ((None, None, "00:02"), 0.1, True),
        ((None, None, "00:02"), 23.5, False),
        ((None, None, "23:58"), 24.01, True),
    ],
)
@pytest.mark.parametrize("clock", [Clock.UTC, Clock.LOCAL])
def test_a_time_of_day_means_every_day(
    given: tuple[str | None, str | None, str | None], time: float, inside: bool, clock: Clock
) -> None:
    """A source with a date is cut by the hours of its day."""
    window = parse_window(*given)
    assert window is not None
    assert window.holds(Moment(DAY + time * 3600, clock)) is inside


@pytest.mark.parametrize(("since", "said"), [("09:40", True), ("2026-11-20 09:40", True), ("11420", False)])
def test_a_recording_that_cannot_be_placed_is_named(since: str, said: bool) -> None:
    """Its times count since the boot, and nobody knows when that was."""
    options = replace(STRICT, window=parse_window(since, None, None))
    document = analyze([Path("-")], rules(), options, stdin=io.BytesIO(SCRIPT.encode()))
    assert (UNPLACED in [problem["text"] for problem in document["problems"]]) is said
    (profile,) = document["profiles"]
    assert (profile["samples"] == 107) is said
