"""Whether a figure changed: effect size, noise, the same work; and what tells the load."""

from __future__ import annotations

import pytest

from thpdiag.compare.document import document
from thpdiag.compare.figures import SHARE, Figure, change
from thpdiag.compare.model import ComparedSetting
from thpdiag.compare.pair import load, pair_hosts
from thpdiag.model.result import Result, as_result

LEAST = {"schema": "thpdiag/result/1", "verdict": {"status": "cannot_tell"}}
STALL = "node_vmstat_compact_stall"
HANDED_OUT = "node_vmstat_pgalloc_normal"


def rate(value: float, samples: int | None = 12, deviation: float = 1.0, name: str = STALL) -> Figure:
    low, high = value - deviation, value + deviation
    return Figure(name, value, "1/s", samples, low, high, deviation if samples else None)


def share(value: float, samples: int | None) -> Figure:
    likely = (value * (samples or 0) + 1) / ((samples or 0) + 2)
    deviation = (likely * (1 - likely)) ** 0.5 if samples else None
    return Figure(SHARE + "compaction", value, "ratio", samples, None, None, deviation)


@pytest.mark.parametrize(
    ("before", "after", "work", "expected"),
    [
        pytest.param(rate(890), rate(0, deviation=0), None, "down", id="gone"),
        pytest.param(rate(100), rate(80), None, "same", id="a-fifth-less"),
        pytest.param(rate(100, deviation=90), rate(60, deviation=90), None, "noise", id="wide-spread"),
        pytest.param(
            rate(100, samples=3, deviation=40), rate(35, samples=3, deviation=20), None, "noise", id="three-samples"
        ),
        pytest.param(rate(100, samples=1), rate(1, samples=1), None, "noise", id="one-sample-each"),
        pytest.param(rate(100, samples=2), rate(10, samples=2), None, "down", id="two-samples-apart"),
        pytest.param(
            rate(100, samples=2, deviation=95), rate(10, samples=2, deviation=9), None, "noise", id="two-overlap"
        ),
        pytest.param(rate(100, samples=None), rate(1, samples=None), None, "noise", id="spread-not-known"),
        pytest.param(rate(100), rate(300), 3.0, "same", id="three-times-the-work"),
        pytest.param(rate(100), rate(100), 4.0, "down", id="the-same-for-four-times-the-work"),
        pytest.param(rate(100), rate(60), 0.5, "same", id="half-the-work"),
        pytest.param(rate(300), rate(30), 0.05, "same", id="fewer-though-more-for-the-same-work"),
        pytest.param(rate(100), rate(100), 0.1, "same", id="no-more-but-for-a-tenth-of-the-work"),
        pytest.param(rate(100), rate(400), 20.0, "same", id="more-though-less-for-the-same-work"),
        pytest.param(share(0.1, 3000), share(0.03, 3000), 3.0, "same", id="a-share-that-other-work-thinned"),
        pytest.param(share(0.3, 3000), share(0.0, 3000), 3.0, "down", id="a-share-that-went"),
        pytest.param(rate(0, deviation=0), rate(0.05, deviation=0), None, "same", id="nothing-to-nothing"),
        pytest.param(rate(0, deviation=0), rate(50), None, "up", id="from-nothing"),
        pytest.param(share(0.3, 30), share(0.16, 30), None, "noise", id="few-samples-of-stacks"),
        pytest.param(share(0.3, 3000), share(0.16, 3000), None, "down", id="many-samples-of-stacks"),
        pytest.param(share(0.95, None), share(0.1, None), None, "down", id="flat-shares-far-apart"),
        pytest.param(share(0.04, None), share(0.01, None), None, "noise", id="flat-shares-near"),
        pytest.param(share(0.019, 9000), share(0.0, 9000), None, "same", id="shares-that-nobody-feels"),
    ],
)
def test_a_change_is_more_than_noise_and_more_than_nothing(
    before: Figure, after: Figure, work: float | None, expected: str
) -> None:
    """Half as much again, beyond two standard errors, more than what is nothing, for the same work."""
    assert change(before, after, work).direction == expected


def _of(**figures: float) -> dict[str, Figure]:
    names = {
        "pages": HANDED_OUT,
        "faults": "node_vmstat_pgfault",
        "programs": "cpu_ratio.user_total",
        "sys": "cpu_ratio.sys_total",
    }
    return {
        names[key]: Figure(names[key], value, "ratio" if names[key].startswith("cpu") else "1/s")
        for key, value in figures.items()
    }


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(_of(pages=1e5, programs=0.2), _of(pages=9e4, programs=0.9), "same", id="pages-first"),
        pytest.param(_of(pages=1e5, programs=0.5), _of(pages=4e3, programs=0.9), "less", id="others-fill-the-cpu"),
        pytest.param(_of(faults=1e4), _of(faults=3e4), "more", id="faults"),
        pytest.param(_of(programs=0.5), _of(programs=0.1), "less", id="programs-ended"),
        pytest.param(_of(programs=0.01), _of(programs=0.02), "unknown", id="nothing-ran"),
        pytest.param(_of(sys=0.9), _of(sys=0.8), "unknown", id="kernel-time-is-no-load"),
        pytest.param(_of(pages=1e5), _of(programs=0.5), "unknown", id="nothing-in-common"),
    ],
)
def test_the_load_is_judged_by_the_best_measure_of_both(
    before: dict[str, Figure], after: dict[str, Figure], expected: str
) -> None:
    """Pages handed out, then page faults, then the CPU time of programs; never the kernel's own time."""
    assert load(before, after).word == expected


@pytest.mark.parametrize(
    ("names", "same"),
    [
        (("db1", "db1"), "same"), (("db1", "db1.example.com"), "same"), (("db1.a.org", "db1.b.org"), "different"),
        (("db1", "db2"), "different"), (("host", "db1"), "unnamed"), (("", ""), "unnamed"),
    ],
)  # fmt: skip
def test_hosts_are_told_by_their_names(names: tuple[str, str], same: str) -> None:
    """A result calls a host without a name `host`; that name pairs with any."""
    one, two = (as_result({**LEAST, "host": {"name": name}}) for name in names)

    assert pair_hosts([one], [two])[0][0].same == same


def _set(value: object, **more: object) -> Result:
    return as_result({**LEAST, "host": {"settings": {"thp.enabled": {"value": value, **more}}}})


def settings(before: Result, after: Result) -> list[ComparedSetting]:
    return document(before, after).hosts[0].settings


def test_a_change_that_the_next_boot_takes_back_is_told() -> None:
    """The boot line still says what was there before."""
    boot = {"value": "always", "from": "the boot line", "assumed": False}
    (row,) = settings(_set("always"), _set("never", next_boot=boot))

    assert row.lasting == "lost at the next boot: always then (from the boot line)"


def test_settings_that_agree_are_no_change() -> None:
    """Nor is a value that only one side knows, unless it is one of the two policies."""
    assert settings(_set("never"), _set("never")) == []
    assert [row.name for row in settings(_set("never"), _set(None))] == ["thp.enabled"]


def test_what_counts_the_work_is_not_compared_for_the_same_work() -> None:
    """Twice the pages handed out are twice the pages, though the work is twice as well."""
    pages = change(rate(100, name=HANDED_OUT), rate(200, name=HANDED_OUT), 2.0)

    assert pages.direction == "up"
