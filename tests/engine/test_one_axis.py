"""Call stacks stand on one axis of time with what other sources measured, if it is known well enough when they were."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from test_profile_time import START, recording, shares
from test_recording_in_reports import BOOTED, judged
from thpdiag.diagnosis.times import shared_axis
from thpdiag.model import Citation, Clock, Moment
from thpdiag.model.facts import ClockAnchor

ZERO = 1795153220.0  # of BOOTED


def parts(result: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    told = result["timeline"]
    return [s for s in told["series"] if s["panel"] == "call_stacks"], told["episodes"]


def test_shares_and_episodes_move_to_the_wall_clock() -> None:
    """With the boot's time every share and every stretch stands at its time of day, and its title says how sure."""
    (alone, *_), before = parts(judged())
    (beside, *_), after = parts(judged(around=BOOTED))
    assert (alone["clock"], beside["clock"]) == ("boot", "utc")
    assert [row[0] - ZERO for row in beside["points"]] == pytest.approx([row[0] for row in alone["points"]])
    assert [row[1:] for row in beside["points"]] == [row[1:] for row in alone["points"]]
    assert beside["means"] == f"{alone['means']}, its time give or take 1 s"
    moved = [(e["rule"], e["from"] - ZERO, e["to"] - ZERO) for e in after if e["clock"] == "utc"]
    stayed = [(e["rule"], e["from"], e["to"]) for e in before if e["clock"] == "boot"]
    assert moved
    assert [row[0] for row in moved] == [row[0] for row in stayed]
    assert [row[1:] for row in moved] == [pytest.approx(row[1:]) for row in stayed]


@pytest.mark.parametrize(
    ("clock", "within", "placed"),
    [
        (Clock.UTC, 1.0, True),
        (Clock.LOCAL, 3.0, True),
        (Clock.UTC, 60.0, False),
        (Clock.DAY, 1.0, False),
    ],
)
def test_rough_times_stay_apart(clock: Clock, within: float, placed: bool) -> None:
    """An uptime in minutes or a time without a date could draw a cause behind its effect."""
    profile = recording(shares(lambda _: 0.5)).profile
    profile = replace(profile, end=Moment(START + 60, Clock.BOOT))
    join = ClockAnchor(Moment(ZERO, clock), within, "by a test", Citation("uptime"))
    assert (shared_axis(profile, [join]) is not None) is placed


def test_a_recording_by_the_wall_clock_needs_no_join() -> None:
    """Its times are what they are, whatever is known of the boot."""
    profile = recording(shares(lambda _: 0.5)).profile
    profile = replace(profile, start=Moment(ZERO, Clock.UTC), end=Moment(ZERO + 60, Clock.UTC))
    assert shared_axis(profile, [ClockAnchor(Moment(5.0, Clock.UTC), 1.0, "by a test", Citation("stat"))]) is None
