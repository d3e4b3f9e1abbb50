"""Two sources of one thing that differ are a problem; two that agree, or speak of different times, are none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from thpdiag.engine.sources import recordings, source_disagreements
from thpdiag.engine.state_view import StateView
from thpdiag.host.catalogue import Catalogue
from thpdiag.model import (
    Case,
    Citation,
    Clock,
    Frame,
    Ledger,
    Moment,
    Profile,
    Sample,
    StackCounts,
    Stacks,
    State,
)


def scene(samples: list[Sample], profiles: list[Profile]) -> StateView:
    state = State("all", {}, 0, (), tuple(samples), tuple(profiles))
    return StateView(Case("h", (), (state,)), state, Catalogue(samples))


def series(reader: str, value: float, start: float = 0.0) -> list[Sample]:
    return [
        Sample("system", {"cpu_ratio.sys_total": value}, Citation(f"{reader}.txt", i + 1), reader,
               time=Moment(1000 + start + 10 * i, Clock.UTC))
        for i in range(10)
    ]  # fmt: skip


def profile(reader: str, inside: float, total: int = 1000) -> Profile:
    frames = (Frame("compact_zone"), Frame("work"))
    cite = Citation(f"{reader}.txt", 1)
    counts = StackCounts()
    counts.add((0,), inside, 0, cite)
    counts.add((1,), 100 - inside, 0, cite)
    columns = (counts.chains(), counts.tasks(), counts.rows())
    return Profile(reader, "cycles", frames, *columns, Stacks.FULL, cite, Ledger(read=total, kept=total))


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (series("mpstat", 0.72), 1),
        (series("mpstat", 0.35), 0),
        (series("mpstat", 0.72, start=5000.0), 0),
        (series("vmstat", 0.72), 0),
    ],
    ids=["differs", "agrees", "another time", "the same tool"],
)
def test_two_tools_over_the_same_time(other: list[Sample], expected: int) -> None:
    """Only tools that saw the same time can disagree."""
    found = list(source_disagreements(scene([*series("vmstat", 0.4), *other], [])))
    assert len(found) == expected
    assert all("differs between two sources" in p.text and p.kind.value == "disagreement" for p in found)


@pytest.mark.parametrize(
    ("other", "expected"),
    [(profile("folded", 20.0), 1), (profile("folded", 61.0), 0), (profile("folded", 20.0, total=400), 0)],
    ids=["differs", "agrees", "another recording"],
)
def test_two_renderings_of_one_recording(other: Profile, expected: int) -> None:
    """The same number of samples of the same event in another format is the same recording."""
    found = list(source_disagreements(scene([], [profile("perf_script", 60.0), other])))
    assert len(found) == expected
    assert all("memory compaction" in p.text for p in found)


FUNCTIONS = tuple(Frame(f"function_{number}") for number in range(8))


def rendering(reader: str, shares: list[float], **more: object) -> Profile:
    """What ran, in percent; by default of 1,000 samples."""
    cite, counts = Citation(f"{reader}.txt", 1), StackCounts()
    for number, share in enumerate(shares):
        counts.add((number,), share, 0, cite)
    columns = (counts.chains(), counts.tasks(), counts.rows())
    percent = reader in ("perf_report", "perf_top")
    given: dict[str, object] = {"total_samples": 1000, "ledger": Ledger(read=1000, kept=1000), "percent_only": percent}
    return Profile(reader, "cycles", FUNCTIONS, *columns, Stacks.FULL, cite, **(given | more))  # type: ignore[arg-type]


RAN = [30.0, 20.0, 15.0, 12.0, 9.0, 7.0, 4.0, 3.0]
ON_A = {"hostname": "a"}
NO_TITLE = {"total_samples": None, "ledger": Ledger()}


def counted(samples: int) -> dict[str, object]:
    return {"total_samples": samples}


def lasting(first: float, last: float) -> dict[str, object]:
    return {"start": Moment(first, Clock.BOOT), "end": Moment(last, Clock.BOOT), "has_time": True}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (rendering("perf_report", RAN), rendering("perf_report", RAN), True),
        (rendering("perf_script", RAN, **lasting(5, 35)), rendering("perf_report", RAN), True),
        (rendering("perf_script", RAN, **lasting(5, 35)), rendering("perf_data", RAN, **lasting(5.2, 35.1)), True),
        (rendering("perf_script", RAN, **lasting(5, 35)), rendering("perf_data", RAN, **lasting(65, 95)), False),
        (rendering("perf_script", RAN, **counted(12_345)), rendering("perf_report", RAN, **counted(12_000)), True),
        (rendering("perf_script", RAN, **counted(13_345)), rendering("perf_report", RAN, **counted(12_000)), False),
        (rendering("perf_script", RAN), rendering("perf_report", RAN, **counted(999)), False),
        (rendering("perf_script", RAN), rendering("perf_report", list(reversed(RAN))), False),
        (rendering("perf_script", RAN), rendering("perf_report", RAN, **NO_TITLE), True),
        (rendering("perf_script", RAN), rendering("perf_report", list(reversed(RAN)), **NO_TITLE), False),
        (rendering("perf_script", RAN), rendering("perf_report", RAN[:3], **NO_TITLE), False),
        (rendering("perf_script", RAN), rendering("perf_top", RAN), False),
        (rendering("perf_script", RAN, facts=ON_A), rendering("perf_data", RAN, facts={"hostname": "b"}), False),
    ],
    ids=[
        "two texts", "one with times", "the same time", "another time", "thousands", "other thousands", "other number",
        "other functions", "no title", "no title, other functions", "no title, few functions", "live", "another host",
    ],
)  # fmt: skip
def test_what_renders_one_recording(one: Profile, other: Profile, same: object) -> None:
    """Titles, times and what ran must agree; a text without a title is known by what ran."""
    assert (len(recordings((one, other))) == 1) == same


def test_the_rendering_that_tells_most_comes_first() -> None:
    """Callers before shares before a list that was cut."""
    flat = replace(rendering("perf_report", RAN), stacks=Stacks.NONE)
    graph, script = rendering("perf_report", RAN), rendering("perf_script", RAN)
    assert [list(group) for group in recordings((flat, graph, script))] == [[script, graph, flat]]
