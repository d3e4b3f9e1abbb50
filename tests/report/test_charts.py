"""Charts of a page: what is drawn where, from parts of a completed result document."""

from __future__ import annotations

import re
from typing import Any

import pytest

from thpdiag.model.result import Timeline, as_result
from thpdiag.report.charts.axes import WIDTH, anchor, ticks, time_scale
from thpdiag.report.charts.free_blocks import histogram, large_share
from thpdiag.report.charts.panels import axes, episodes, panels
from thpdiag.report.quantity import span

LEAST = {"schema": "thpdiag/result/1", "verdict": {"status": "cannot_tell"}}
Rows = list[list[float | None]]


def one(points: Rows, **more: Any) -> dict[str, Any]:
    return {"metric": "m", "unit": "1", "clock": "day", "panel": "cpu", "points": points, **more}


def timeline(*series: dict[str, Any], **more: Any) -> Timeline:
    return as_result({**LEAST, "timeline": {"series": list(series), **more}}).timeline


def flat(times: range, level: float = 1.0) -> Rows:
    return [[float(at), level, level, level] for at in times]


def places(path: str) -> list[list[tuple[int, int]]]:
    """The points of each stretch of a path, as a browser draws them."""
    found = []
    for part in filter(None, path.removesuffix("z").split("M")):
        start, _, steps = part.removesuffix("z").partition("l")
        at = tuple(map(int, start.split(",")))
        drawn = [at]
        for step in steps.split():
            right, down = map(int, step.split(","))
            at = (at[0] + right, at[1] + down)
            drawn.append(at)
        found.append(drawn)
    return found


def drawn(page: str, look: str) -> list[list[tuple[int, int]]]:
    path = re.search(f'class="{look}"[^>]* d="([^"]*)"', page)
    assert path is not None
    return places(path[1])


def test_a_spike_of_one_bucket_stays_in_the_drawing() -> None:
    """However many points are thinned out, the largest value touches the top."""
    points = flat(range(1500))
    points[777] = [777.0, 1.0, 100.0, 3.0]
    page = panels(timeline(one(points)), "p")
    (band,) = drawn(page, "b1")
    assert min(level for _, level in band) == 2
    (mean,) = drawn(page, "s1")
    assert len(mean) <= WIDTH / 2 + 1


def test_a_long_silence_is_drawn_narrow() -> None:
    """Two captures an hour apart are two lines with a gap between; an episode is shaded where it was."""
    episode = {"from": 3600, "to": 3638, "clock": "day", "text": "e", "rule": "THP-1"}
    page = panels(timeline(one(flat(range(0, 40, 2)) + flat(range(3600, 3640, 2))), episodes=[episode]), "p")
    first, second = drawn(page, "s1")
    assert first[-1][0] > 0.4 * WIDTH
    assert second[0][0] > first[-1][0]
    (x, width) = re.findall('class="shade" x="([^"]*)" width="([^"]*)"', page)[0]
    assert float(x) == pytest.approx(second[0][0], abs=1)
    assert float(x) + float(width) == pytest.approx(WIDTH, abs=0.2)
    assert 'class="gap"' in page


def test_a_slow_source_is_no_silence() -> None:
    """A day of one sample in ten minutes keeps its width beside a minute of one a second."""
    scale = time_scale([list(range(0, 86400, 600)), list(range(3600, 3660))])
    assert len(scale.stretches) == 1
    assert scale.x(43200) == pytest.approx(WIDTH * 43200 / 85800)


def test_two_points_at_one_time_are_no_silence() -> None:
    """What two sources say at the same times is one line, without a gap between them."""
    page = panels(timeline(one([row for row in flat(range(0, 100, 5)) for _ in range(2)])), "p")
    assert len(drawn(page, "s1")) == 1


def test_odd_points_do_not_break_the_drawing() -> None:
    """Absent, infinite and enormous values are left out; a series without any point is not drawn."""
    odd: Rows = [[0.0, None, None, None], [1e300, 0.0, 1.0, 1.0], [1.0, float("nan"), 1.0, 1.0]]
    assert panels(timeline(one(odd)), "p") == ""
    (mean,) = drawn(panels(timeline(one(flat(range(5, 6), 7.0))), "p"), "s1")
    assert all(0 <= level <= 100 for _, level in mean)


def test_runs_of_one_metric_are_one_line_and_counters_have_a_plot_each() -> None:
    """Two recordings of kernel time share line and colour; two counters of different size do not share a scale."""
    (axis,) = axes(
        timeline(
            one(flat(range(10)), metric="sys", source="a"),
            one(flat(range(20, 30)), metric="sys", source="b"),
            one(flat(range(10)), metric="user"),
            one(flat(range(10)), metric="compact_stall", panel="huge_pages"),
            one(flat(range(10), 9000.0), metric="thp_fault_alloc", panel="huge_pages"),
        )
    )
    assert [[line.metric for line in plot.lines] for plot in axis.plots] == [
        ["sys", "user"],
        ["compact_stall"],
        ["thp_fault_alloc"],
    ]
    assert axis.plots[0].lines[0].numbers == (0, 1)
    assert axis.plots[0].lines[0].sources == ("a", "b")


def test_clocks_do_not_share_an_axis() -> None:
    """Seconds after boot and the time of day stand below one another, that with more points first."""
    found = axes(timeline(one(flat(range(10)), clock="boot"), one(flat(range(100)), clock="utc")))
    assert [axis.clock for axis in found] == ["utc", "boot"]


def test_the_same_stretch_is_one_episode_with_all_that_is_said_of_it() -> None:
    """Two findings about the same time are one shade with one number."""
    told = [
        {"from": 5, "to": 9, "clock": "day", "text": text, "rule": rule}
        for text, rule in (("a", "THP-1"), ("b", "THP-2"), ("a", "THP-2"))
    ]
    (found,) = episodes(timeline(episodes=told))
    assert (found.number, found.rules, found.texts) == (1, ("THP-1", "THP-2"), ("a", "b"))


def test_stretches_that_are_nearly_the_same_are_one_episode() -> None:
    """Sources begin some seconds apart; what begins later by a quarter or more of the time is another one."""
    spans = [(0, 20), (3, 20), (10, 20), (3, 20)]
    told = [
        {"from": first, "to": last, "clock": "day", "text": f"t{number}", "rule": "THP-1"}
        for number, (first, last) in enumerate(spans)
    ]
    found = episodes(timeline(episodes=told))
    assert [(one.first, one.last, one.texts) for one in found] == [(0, 20, ("t0", "t1", "t3")), (10, 20, ("t2",))]


def test_an_episode_of_the_whole_time_does_not_shade_everything() -> None:
    """It is a strip at the foot; what an operator did before the recording, or is seen after it, is not drawn."""
    told = [
        {"from": first, "to": last, "clock": "day", "text": "e", "rule": "THP-1"} for first, last in ((0, 9), (50, 60))
    ]
    page = panels(timeline(one(flat(range(10))), episodes=told, actions=[{"t": -5, "clock": "day", "text": "a"}]), "p")
    assert re.findall('class="shade" x="[^"]*" width="[^"]*" y="([^"]*)" height="([^"]*)"', page) == [("92", "8")]
    assert 'class="action"' not in page


def test_a_share_of_time_is_drawn_as_one_of_the_whole() -> None:
    """3 % of CPU time lie near the ground, and charts side by side can have one scale."""
    (axis,) = axes(timeline(one(flat(range(10), 0.03), unit="ratio")))
    assert axis.plots[0].high == 1.0
    (axis,) = axes(timeline(one(flat(range(10), 2.0), metric="m", panel="huge_pages")), {"m": 300.0})
    assert axis.plots[0].high == 300.0


def test_a_counter_that_stood_still_is_told_in_words() -> None:
    """Five plots of nothing hide the one of something; that it was watched is said."""
    page = panels(
        timeline(
            one(flat(range(10), 0.0), metric="compact_stall", panel="huge_pages", source="a:2"),
            one(flat(range(10), 3.0), metric="thp_fault_alloc", panel="huge_pages"),
        ),
        "p",
    )
    assert page.count("<figure") == 1
    assert 'Recorded, always 0: compact_stall <code class="place">a:2</code>' in page


def test_marks_are_whole_times_with_room_between() -> None:
    """A quarter of an hour has marks at whole minutes; a week has dates."""
    assert [told for _, told in ticks(time_scale([list(range(36000, 36900, 10))]), "day")] == [
        "10:00",
        "10:05",
        "10:10",
    ]
    week = ticks(time_scale([list(range(0, 7 * 86400, 600))]), "utc")
    assert 2 <= len(week) <= 5
    assert all(re.fullmatch(r"01-0\d 00:00", told) for _, told in week)


def test_marks_tell_different_times_apart() -> None:
    """Within a second no date tells marks apart; a time of a later day says so."""
    assert [told for _, told in ticks(time_scale([[1000.0, 1001.0]]), "utc")] == ["00:16:40", "00:16:41"]
    assert ticks(time_scale([list(range(0, 30 * 3600, 600))]), "day")[-1][1] == "00:00:00 (+1 d)"


@pytest.mark.parametrize(("first", "last"), [(1_795_175_726, 1_795_175_750), (0, 59), (0, 4 * 86400), (7, 86400 + 7)])
@pytest.mark.parametrize("clock", ["utc", "day", "boot", None])
def test_marks_do_not_lie_on_one_another(first: int, last: int, clock: str | None) -> None:
    """On a telephone, where the chart is 360 pixels and a letter six wide, there is room between their words."""
    end = -1.0
    for place, told in ticks(time_scale([[float(at) for at in range(first, last + 1)]]), clock):
        wide = 6 * len(told) / 0.36
        left = {"start": place, "middle": place - wide / 2, "end": place - wide}[anchor(place)]
        assert left > end
        end = left + wide


def test_a_stretch_of_one_day_names_the_day_once() -> None:
    """Over midnight both days are told; other clocks have none."""
    assert span(0, 60, "utc") == "1970-01-01 00:00:00 to 00:01:00 UTC"
    assert span(0, 86400, "local") == "1970-01-01 00:00:00 to 1970-01-02 00:00:00"
    assert span(0, 0.5, "utc") == "1970-01-01 00:00:00 UTC"
    assert span(0, 60, "day") == "00:00:00 to 00:01:00"
    assert span(1, 2, "boot") == "1.0 s after boot to 2.0 s after boot"


def test_free_blocks_are_a_strip_of_orders() -> None:
    """Empty cells stay empty, the largest order stands on top, and the numbers are in the caption."""
    series = [
        one(
            flat(range(10), count),
            metric=f"node_buddyinfo_blocks_order{order}",
            panel="free_blocks",
            entity="zone DMA",
            means="free blocks of that order",
        )
        for order, count in enumerate([500.0, 0.0, 3.0])
    ]
    page = panels(timeline(*series), "p")
    assert "Free blocks by order of zone DMA<" in page
    assert "at most 500" in page
    tops = {
        int(top)
        for path in re.findall('class="l[0-9]"[^>]* d="([^"]*)"', page)
        for top in re.findall(",([0-9]+)h", path)
    }
    assert tops == {0, 20}


def test_two_zones_are_two_strips() -> None:
    """Blocks of one zone never stand between those of another, whose name the caption has."""
    series = [
        one(flat(range(10)), metric=f"node_buddyinfo_blocks_order{order}", panel="free_blocks", entity=zone)
        for zone in ("zone DMA", "zone Normal")
        for order in range(3)
    ]
    page = panels(timeline(*series), "p")
    assert re.findall("Free blocks by order of (zone [A-Za-z]*)<", page) == ["zone DMA", "zone Normal"]
    assert page.count('viewBox="0 0 1000 30"') == 2


def test_a_histogram_has_the_memory_in_each_order() -> None:
    """Three blocks of order 2 are three quarters of the memory that is free; of nothing free nothing is drawn."""
    assert re.findall(r"M([0-9]+),24v-([0-9.]+)h", histogram([4, 0, 3])) == [("0", "6"), ("20", "18")]
    assert 'd=""' in histogram([0, 0])
    assert large_share([512, *[0] * 8, 3]) == pytest.approx(0.75)
    assert large_share([512]) == large_share([]) == 0


@pytest.mark.parametrize("at", [0.0, 500.0, 1000.0])
def test_a_point_alone_is_seen(at: float) -> None:
    """A rate between two snapshots is one point, mostly at the edge: still a dash within the chart."""
    around = one(flat(range(0, 1001, 100)), metric="other", panel="huge_pages")
    page = panels(timeline(one([[at, 1.0, 1.0, 1.0]], panel="huge_pages"), around), "p")
    ((left, right),) = [(line[0][0], line[-1][0]) for line in drawn(page, "s1")]
    assert right - left >= 5
    assert 0 <= left < right <= WIDTH


def test_hostile_names_are_text() -> None:
    """A process, a source and an action cannot leave their place."""
    bad = '"><script>alert(1)</script>\x1b'
    page = panels(
        timeline(
            one(flat(range(9)), entity=bad, source=bad, means=bad),
            episodes=[{"from": 1, "to": 2, "clock": "day", "text": bad, "rule": bad}],
            actions=[{"t": 3, "clock": "day", "text": bad}],
        ),
        "p",
    )
    assert "<script" not in page
    assert "\x1b" not in page
    assert page.count("&lt;script&gt;") == 6
