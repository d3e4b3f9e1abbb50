"""What counts where several sources of one metric differ, how others are named, and that one CPU is not the host."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from thpdiag.engine.check_result import NO, UNKNOWN, YES, CheckResult
from thpdiag.engine.checks import judge
from thpdiag.engine.schema import SeriesCheck
from thpdiag.engine.sources import source_disagreements
from thpdiag.engine.state_view import StateView
from thpdiag.host.catalogue import Catalogue, StretchCatalogue
from thpdiag.host.series import Stretch
from thpdiag.model import Case, Citation, Clock, Moment, Sample, State

SHARE = "cpu_ratio.sys_share"
HALF = {"above": "50 %", "for": "50 % of samples"}


def rows(
    values: Sequence[float], member: str, *, step: float = 10.0, start: float = 1000.0, cpu: str = "",
    resolution: float = 0.0, timed: bool = True,
) -> list[Sample]:  # fmt: skip
    """Kernel time of the host, or of one CPU."""
    kind, entity = ("cpu", (("cpu", cpu),)) if cpu else ("system", ())
    times = [Moment(start + step * at, Clock.UTC) if timed else None for at in range(len(values))]
    quantum = {SHARE: resolution} if resolution else {}
    return [
        Sample(kind, {SHARE: value}, Citation(member, line), "x", entity, time, quantum)
        for line, (value, time) in enumerate(zip(values, times, strict=True), 1)
    ]


def scene(samples: Sequence[Sample]) -> StateView:
    state = State("all", {}, 0, samples=tuple(samples))
    return StateView(Case("x", (), (state,)), state, Catalogue(samples))


def judged(samples: Sequence[Sample], **given: object) -> CheckResult:
    return judge(SeriesCheck.model_validate({"series": SHARE, **given}), scene(samples))


def test_one_busy_cpu_is_not_the_host() -> None:
    """The rows of a CPU are as many and as exact as those of the host, and speak of that CPU only."""
    host = rows([0.4] * 12, "mpstat.txt", resolution=0.01)
    said = judged([*rows([0.9] * 12, "mpstat.txt", cpu="0"), *host], **HALF)
    assert said.value is NO
    assert "cpu 0" not in said.text


def test_a_host_of_which_only_a_cpu_was_recorded_is_unknown() -> None:
    """`sar -P 0` and nothing else."""
    said = judged(rows([0.9] * 12, "sar.txt", cpu="0"), **HALF)
    assert (said.value, said.missing) == (UNKNOWN, (SHARE,))


def test_a_rule_for_each_cpu_asks_that_cpu() -> None:
    """And never the host in its place."""
    both = scene([*rows([0.9] * 12, "a.txt", cpu="0"), *rows([0.1] * 12, "a.txt", cpu="1"), *rows([0.6] * 12, "a.txt")])
    check = SeriesCheck.model_validate({"series": SHARE, **HALF})
    answers = [judge(check, both.bind("cpu", (("cpu", number),))).value for number in "012"]
    assert answers == [YES, NO, UNKNOWN]


def test_a_stretch_of_time_keeps_cpus_and_host_apart() -> None:
    """What is cut out of a recording is asked in the same way."""
    whole = Catalogue([*rows([0.9] * 12, "a.txt", cpu="0"), *rows([0.6] * 12, "a.txt")])
    part = StretchCatalogue(whole, Stretch(1010.0, 1060.0, Clock.UTC, member="a.txt"))
    assert [t.table.kind for t in part.tracks(SHARE)] == ["system"]
    assert [t.table.kind for t in part.tracks(SHARE, (("cpu", "0"),))] == ["cpu"]


def test_a_cpu_does_not_contradict_the_host() -> None:
    """No disagreement of sources is told where one speaks of a part of what the other speaks of."""
    own = [
        Sample("cpu" if cpu else "system", {"cpu_ratio.sys_total": value}, Citation(f"{cpu or 'all'}.txt", line),
               cpu or "all", (("cpu", cpu),) if cpu else (), Moment(1000.0 + 10 * line, Clock.UTC))
        for cpu, value in (("0", 0.9), ("1", 0.1), ("", 0.5)) for line in range(1, 13)
    ]  # fmt: skip
    assert list(source_disagreements(scene(own))) == []


def test_a_poorer_source_does_not_overrule_what_the_best_one_saw() -> None:
    """The same twelve looks, rounded in the one source: seven of its values are just beyond the bound."""
    exact = rows([0.52, 0.45] * 5 + [0.49, 0.49], "exact.txt")
    rounded = rows([0.52, 0.45] * 5 + [0.51, 0.51], "rounded.txt", resolution=0.001)
    said = judged([*exact, *rounded], **HALF)
    assert said.value is NO
    assert said.text.endswith("; not so in rounded.txt")


def test_a_yes_of_the_best_source_stands_though_others_differ() -> None:
    """And the report says which."""
    said = judged(
        [*rows([0.6] * 12, "exact.txt"), *rows([0.4] * 12, "b.txt", resolution=0.01),
         *rows([0.6] * 12, "c.txt", resolution=0.01)], **HALF
    )  # fmt: skip
    assert said.value is YES
    assert said.text.endswith("; also recorded in c.txt; not so in b.txt")


def test_another_time_is_no_contradiction() -> None:
    """Busy minutes that the best source has no rows of, and those of which nobody knows when they were."""
    day = rows([0.1] * 100, "day.txt")
    for elsewhere in (rows([0.9] * 40, "later.txt", start=9000), rows([0.9] * 40, "undated.txt", timed=False)):
        said = judged([*day, *elsewhere], above="50 %", **{"for": "20 samples"})
        assert said.value is YES


@pytest.mark.parametrize(("must", "wanted"), [("30 s", YES), ("3 samples", YES), ("4 min", NO)])
def test_what_is_over_between_two_looks_is_hidden(must: str, wanted: object) -> None:
    """Forty seconds do not show in averages over two minutes; four minutes would."""
    averages = rows([0.3] * 30, "averages.txt", step=120)
    seconds = rows([0.1] * 200 + [0.9] * (40 if must != "4 min" else 250) + [0.1] * 200, "seconds.txt", step=1)
    assert judged([*averages, *seconds], above="50 %", **{"for": must}).value is wanted


def test_a_file_with_two_recordings_is_named_once() -> None:
    """It cannot both have it and not have it."""
    other = [Sample("system", s.values, s.cite, "y", time=s.time) for s in rows([0.2] * 12, "two.txt")]
    said = judged([*rows([0.6] * 12, "best.txt"), *rows([0.6] * 12, "two.txt"), *other], **HALF)
    assert said.text.endswith("; also recorded in two.txt")
    alone = judged([*rows([0.6] * 12, "two.txt"), *other], **HALF)
    assert "recorded in" not in alone.text
    assert "not so in" not in alone.text


BLOCKS = "node_buddyinfo_blocks_order10"


def blocks(values: Sequence[float], member: str, zone: str) -> list[Sample]:
    """Free blocks of a zone."""
    return [
        Sample(
            "zone", {BLOCKS: value}, Citation(member, at), "x", (("zone", zone),), Moment(1000.0 + 10 * at, Clock.UTC)
        )
        for at, value in enumerate(values, 1)
    ]


FELL = SeriesCheck.model_validate({"series": BLOCKS, "as": "delta", "below": -10})


@pytest.mark.parametrize("zone", ["DMA", "Normal"])
def test_one_look_undoes_no_answer(zone: str) -> None:
    """Of a zone that was watched for long, or of another one: a single reading tells of no change."""
    watched = blocks([100.0] * 9, "loop.txt", "DMA")
    assert judge(FELL, scene(watched)).value is NO
    assert judge(FELL, scene([*watched, *blocks([90.0], "buddyinfo", zone)])).value is NO
    assert judge(FELL, scene(blocks([90.0], "buddyinfo", zone))).value is UNKNOWN


def test_what_was_seen_in_part_stays_open() -> None:
    """Another zone was low in all of its three readings, which are too few: nobody knows how it went on."""
    low = SeriesCheck.model_validate({"series": BLOCKS, "below": 50, "for": "60 s"})
    watched = blocks([100.0] * 9, "loop.txt", "DMA")
    assert judge(low, scene(watched)).value is NO
    assert judge(low, scene([*watched, *blocks([10.0] * 3, "other.txt", "Normal")])).value is UNKNOWN
    assert judge(low, scene([*watched, *blocks([10.0] * 3, "other.txt", "DMA")])).value is NO
