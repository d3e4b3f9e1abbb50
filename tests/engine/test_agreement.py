"""Two sources of one thing that differ are a problem; two that agree, or speak of different times, are none."""

from __future__ import annotations

import pytest

from thpdiag.engine.sources import source_disagreements
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
