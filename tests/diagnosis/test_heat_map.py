"""The heat map of a recording: each cell where it belongs, the same scale for all samples and those of a finding."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from thpdiag.model.result import Profile, as_result
from thpdiag.report.charts.heat_map import FINDING_LEVELS, HEIGHT, LEVELS, ROWS, heat_maps

EMPTY = "0" * ROWS
FULL = "9" * ROWS
CELL = {"begin": 1000, "seconds": 1, "samples": 2}


def profile(heat: list[str], **more: Any) -> Profile:
    least = {"schema": "thpdiag/result/1", "verdict": {"status": "cannot_tell"}}
    told = {"clock": "boot", "samples": 10_000, "heat": heat, "heat_cell": CELL, **more}
    (full,) = as_result({**least, "profiles": [told]}).profiles
    return full


def cells(page: str, colour: str) -> set[tuple[int, int]]:
    """(column, row from the top) of the cells of one colour, as a browser draws the strokes."""
    found = set()
    for path in re.findall(f'stroke="{colour}" d="([^"]*)"', page):
        at = (0, 0)
        for move, numbers in re.findall(r"([Mmv])([^Mmv]*)", path):
            steps = [int(number) for number in numbers.split()]
            if move == "v":
                found |= {(at[0], at[1] + down) for down in range(steps[0])}
                at = (at[0], at[1] + steps[0])
            else:
                at = (steps[0], steps[1]) if move == "M" else (at[0] + steps[0], at[1] + steps[1])
    return found


def all_cells(page: str, colours: tuple[str, ...]) -> set[tuple[int, int]]:
    return set().union(*(cells(page, colour) for colour in colours))


def test_the_begin_of_a_second_is_at_the_bottom() -> None:
    """A column for each second from left to right; its first 20 ms at the bottom."""
    page = heat_maps(profile(["9" + EMPTY[1:], EMPTY, EMPTY[2:] + "99"]), "h")
    assert all_cells(page, LEVELS) == {(0, ROWS - 1), (2, 0), (2, 1)}
    assert f'viewBox="-.5 0 3 {ROWS}"' in page


def test_the_strongest_colour_is_the_most_there_is() -> None:
    """Colours go by the largest cell, which the words name with its samples."""
    page = heat_maps(profile(["4321" * 12 + "00"]), "h")
    shares = [len(cells(page, colour)) for colour in LEVELS]
    assert shares == [12, 12, 12, 12]
    assert "strongest color: 8 samples in 20 ms" in page
    assert len(cells(heat_maps(profile(["1" * ROWS]), "h"), LEVELS[-1])) == ROWS


def test_what_findings_saw_has_the_same_scale() -> None:
    """Half of the samples of the fullest cells have half of the levels, in a map of its own colour beneath."""
    half = [EMPTY, "4" * ROWS]
    page = heat_maps(profile([FULL, FULL], signatures=[{"what": "memory compaction", "heat": half}]), "h")
    assert cells(page, FINDING_LEVELS[1]) == {(1, row) for row in range(ROWS)}
    assert len(cells(page, LEVELS[-1])) == 2 * ROWS
    assert "Of them: memory compaction; strongest color: 18 samples in 20 ms" in page
    assert page.count(f'height="{HEIGHT}" role="img"') == 2


def test_a_busy_picture_gets_coarser_and_says_so() -> None:
    """Five minutes of noise stay below 25 KB; a burst of 20 ms stays, since the densest cell of several is drawn."""
    told = random.Random(7)
    heat = ["".join(told.choice("01234") for _ in range(ROWS)) for _ in range(299)]
    burst = EMPTY[:30] + "9" + EMPTY[31:]
    page = heat_maps(profile([*heat, burst]), "h")
    assert "; each cell shows the maximum of" in page
    assert len(page) < 25_000
    assert any(column == 299 for column, _ in cells(page, LEVELS[-1]))
    assert "densest" not in heat_maps(profile([burst]), "h")


def test_few_samples_are_no_pattern() -> None:
    """Of seven samples a second the words promise no pattern."""
    heat = [EMPTY[1:] + "1"] * 30
    assert "too few samples to show a pattern within the seconds" in heat_maps(profile(heat, samples=210), "h")
    assert "repeats every second" in heat_maps(profile(heat, samples=3000), "h")


def test_the_axis_is_the_time_of_the_recording() -> None:
    """From the first second to the last, also where a column is several."""
    page = heat_maps(profile([FULL] * 30, heat_cell={"begin": 3600, "seconds": 10, "samples": 1}, clock="day"), "h")
    assert "01:00:00 to 01:05:00 (time of day)" in page
    assert "each column 10 seconds, superimposed" in page


@pytest.mark.parametrize(
    "more",
    [
        {"heat": []},
        {"heat": ["9" * 49]},
        {"heat": ["x" * 50]},
        {"heat": ["٣" * 50]},
        {"heat_cell": None},
    ],
)
def test_odd_pictures_are_left_out(more: dict[str, Any]) -> None:
    """Nothing to draw, columns that are none, no time: no map, and no mistake."""
    assert heat_maps(profile([FULL]).model_copy(update=more), "h") == ""


def test_odd_cells_do_not_break_it() -> None:
    """An empty picture, a signature of another length, sizes that are none."""
    assert all_cells(heat_maps(profile([EMPTY]), "h"), LEVELS) == set()
    other = heat_maps(profile([FULL], signatures=[{"what": "x", "heat": [FULL, FULL]}]), "h")
    assert "Of them" not in other
    assert heat_maps(profile([FULL], heat_cell={"begin": 5, "seconds": 0, "samples": 0}), "h")


def test_hostile_names_are_text() -> None:
    """What a signature is called makes no element."""
    page = heat_maps(profile([FULL], signatures=[{"what": "<img src=x>\x1b", "heat": [FULL]}]), "h")
    assert "&lt;img src=x&gt;\\x1b" in page
    assert page == heat_maps(profile([FULL], signatures=[{"what": "<img src=x>\x1b", "heat": [FULL]}]), "h")
