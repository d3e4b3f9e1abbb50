"""Outliers in each group of hosts: planted ones are found, and groups without any have none."""

from __future__ import annotations

import os
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thpdiag.fleet import formats as sentences
from thpdiag.fleet.hosts import (
    ALL_HOSTS,
    MIN_HOSTS,
    FleetHost,
    Group,
    Measure,
    Setting,
    groups_of_host,
    platform_family,
)
from thpdiag.fleet.outliers import NumberDistribution, Outlier, Survey, ValueDistribution
from thpdiag.store import results as free_memory

STALL = "node_vmstat_compact_stall"
GROUPS = 300 if os.environ.get("THPDIAG_PROOF") == "1" else 100  # drawn from one distribution


def one(number: int, **more: Any) -> FleetHost:
    """A host of a fleet that is all alike."""
    known = {"name": f"web{number}", "platform": "el8.6", "era": "E6", "kernel": "4.18.0-372.el8", "apps": ("redis",)}
    return FleetHost(number, number, 0, f"{number:064x}", f"{number}.tar", 1, "ok", **{**known, **more})


def stalls(values: Iterable[float], **more: Any) -> list[FleetHost]:
    return [one(at, measures={STALL: Measure(value, "1/s")}, **more) for at, value in enumerate(values)]


def enabled(values: Iterable[str], **more: Any) -> list[FleetHost]:
    return [one(at, settings={"thp.enabled": Setting(value, "measured")}, **more) for at, value in enumerate(values)]


def outliers(hosts: Sequence[FleetHost]) -> list[Outlier]:
    survey = Survey(hosts)
    return [found for host in hosts for found in survey.outliers(host)]


def test_a_rate_far_from_the_others_is_told_with_their_distribution() -> None:
    """Value, unit, score by hand, the five numbers, the group and how many hosts tell it."""
    hosts = [*stalls([10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 500]), one(11)]

    (found,) = outliers(hosts)

    assert (found.host.number, found.value, found.unit, found.name) == (10, 500, "1/s", STALL)
    # on logarithms of value + 1: median log 16, MAD log 19 - log 16 = 0.1719; 0.6745 * (log 501 - log 16) / 0.1719.
    # As they are: median 15, MAD 3; 0.6745 * 485 / 3 = 109.
    assert found.score == pytest.approx(13.52, abs=0.01)
    assert isinstance(found.distribution, NumberDistribution)
    told = found.distribution
    assert (told.n, told.least, told.lower, told.median, told.upper, told.most) == (11, 10, 12.5, 15, 17.5, 500)
    assert (found.hosts, found.group.definition) == (12, "redis on el8 with kernels of era E6")


def test_a_low_value_can_be_an_outlier_too() -> None:
    """A host without any huge pages where the others have half their memory in them."""
    hosts = [
        one(at, measures={"node_memory_AnonHugePages_bytes": Measure(part * 1e9, "bytes"),
                          "node_memory_MemTotal_bytes": Measure(100e9, "bytes")})
        for at, part in enumerate([50, 51, 52, 53, 49, 48, 50, 47, 0])
    ]  # fmt: skip

    (found,) = outliers(hosts)

    assert (found.host.number, found.value, found.unit) == (8, 0.0, "ratio")
    assert found.score is not None
    assert found.score < -3.5


def test_what_is_larger_than_all_memory_came_from_elsewhere() -> None:
    """A share above 1 is no share, and a memory of nothing has none."""
    odd = {
        "node_memory_AnonHugePages_bytes": Measure(9.0, "bytes"),
        "node_memory_MemTotal_bytes": Measure(1.0, "bytes"),
    }
    none = {
        "node_memory_AnonHugePages_bytes": Measure(0.0, "bytes"),
        "node_memory_MemTotal_bytes": Measure(0.0, "bytes"),
    }

    assert outliers([one(at, measures=odd) for at in range(9)] + [one(9, measures=none)]) == []


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0] * 9 + [0.9], []),  # below the floor of one a second
        ([0] * 9 + [1.0], [9]),  # all others are the same: no score, and at most a tenth, or one, differ
        ([0] * 9 + [279], [9]),
        ([0] * 18 + [279, 280], [18, 19]),
        ([0] * 16 + [279, 280, 281], []),  # three of nineteen are no exceptions
        ([100] * 9 + [190], []),  # less than twice as many
        ([100] * 9 + [40], [9]),
        ([0] * 6 + [2, 3, 4, 5], []),  # MAD is 0, the quartiles are not: none of these is far from them
        ([0] * 6 + [2, 3, 4, 100_000], [9]),
    ],
)
def test_where_most_hosts_have_the_same_number(values: list[float], expected: list[int]) -> None:
    """MAD 0: the interquartile range decides, and where that is 0 too, being an exception does."""
    assert [found.host.number for found in outliers(stalls(values))] == expected


def test_one_far_beyond_many_that_differ_a_little_is_seen() -> None:
    """Of 100 hosts, 80 of them without a stall: one in 20 that stall is no outlier, unless it is far beyond these."""
    calm = [0.0] * 80

    assert [found.value for found in outliers(stalls([*calm, *[3.0] * 19, 5000.0]))] == [5000.0]
    assert outliers(stalls([*calm, *[50.0] * 19, 90.0])) == []


def test_a_rate_comes_with_the_time_that_it_is_of() -> None:
    """Five stalls a second mean less of two seconds than of a day; without a time none is made up."""
    hosts = [*stalls([0] * 9), one(9, measures={STALL: Measure(279, "1/s", "over 2 s")})]

    (found,) = outliers(hosts)

    assert found.window == "over 2 s"
    assert sentences.describe_outlier(found).startswith(
        "direct compactions: 279/s over 2 s; of 10 hosts the median is 0/s"
    )
    assert outliers(stalls([0] * 9 + [279]))[0].window == ""


def test_the_score_is_none_where_the_others_are_all_the_same() -> None:
    """Any number would be made up: they have no spread."""
    (found,) = outliers(stalls([0] * 9 + [279]))

    assert found.score is None


@pytest.mark.parametrize("measure", [Measure(1e9, "1"), Measure(-5.0, "1/s")])
def test_a_total_since_boot_is_no_rate(measure: Measure) -> None:
    """Nobody knows when it came about; nor is a negative rate one."""
    hosts = [*stalls([0] * 9), one(9, measures={STALL: measure})]

    assert outliers(hosts) == []


def test_a_measure_of_one_of_several_states_is_not_compared() -> None:
    """Which state the others' measures are of is unknown."""
    hosts = [*stalls([0] * 9), one(9, measures={f"{STALL} [enabled always]": Measure(279.0, "1/s")})]

    assert outliers(hosts) == []


def test_a_setting_that_few_have_is_told_with_what_the_others_have() -> None:
    """How many have it, and the counts of the values."""
    (found,) = outliers(enabled(["madvise"] * 8 + ["never", "always"])[:9])

    assert (found.host.number, found.name, found.value, found.score, found.same) == (8, "thp.enabled", "never", None, 1)
    assert found.distribution == ValueDistribution(9, (("madvise", 8), ("never", 1)), 0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["always"] * 5 + ["madvise"] * 4 + ["never"], []),  # nobody has most: half is not 60 in 100
        (["always"] * 6 + ["madvise"] * 3 + ["never"], [9]),
        (["always"] * 18 + ["never"] * 2, [18, 19]),
        (["always"] * 17 + ["never"] * 3, []),
        (["always"] * 6 + ["never"], []),  # seven hosts say nothing
    ],
)
def test_when_a_setting_is_an_exception(values: list[str], expected: list[int]) -> None:
    """At most a tenth of the group, or one host, have it, and at least 60 in 100 have another."""
    assert [found.host.number for found in outliers(enabled(values))] == expected


def test_an_assumed_setting_is_no_measured_one() -> None:
    """It neither differs nor does it count among the others."""
    assumed = [one(at, settings={"thp.enabled": Setting("always", "assumed")}) for at in range(20, 40)]
    hosts = [*enabled(["madvise"] * 8), *assumed, one(50, settings={"thp.enabled": Setting("never", "written")})]

    assert outliers(hosts) == []
    (found,) = outliers([*hosts, one(60, settings={"thp.enabled": Setting("always", "measured")})])
    assert (found.host.number, found.distribution.n, found.hosts) == (60, 9, 30)


def test_numbers_are_one_value_however_they_are_written() -> None:
    """511 of one bundle and 511.0 of another."""
    values: list[int | float] = [511, 511.0] * 5 + [0]
    hosts = [one(at, settings={"thp.khugepaged.max_ptes_none": Setting(v, "measured")}) for at, v in enumerate(values)]

    (found,) = outliers(hosts)

    assert (found.value, found.distribution) == ("0", ValueDistribution(11, (("511", 10), ("0", 1)), 0))


def test_settings_that_follow_the_size_of_memory_are_compared_as_numbers() -> None:
    """Two hosts rarely have the same `min_free_kbytes`; ten times as much is another matter."""
    name = "sysctl.vm.min_free_kbytes"
    values = [67584, 70144, 65536, 66100, 90112, 68000, 67000, 69000, 900000]
    (found,) = outliers([one(at, settings={name: Setting(v, "measured")}) for at, v in enumerate(values)])

    assert (found.host.number, found.name) == (8, name)


def test_a_small_group_gives_way_to_a_wider_one() -> None:
    """Seven like it are too few; all with the same application, then all hosts are asked."""
    narrow = enabled(["never"] + ["madvise"] * (MIN_HOSTS - 2))
    elsewhere = enabled(["madvise"] * 10, platform="sles15")
    others = enabled(["madvise"] * 20, apps=("postgresql",))

    assert outliers(narrow) == []
    (found,) = outliers([*narrow, *elsewhere])
    assert (found.group, found.hosts) == (Group(("redis",)), 17)
    (found,) = outliers([*narrow, *others])
    assert (found.group, found.group.definition, found.hosts) == (ALL_HOSTS, "all hosts", 27)


def test_what_a_host_is_compared_in_goes_by_who_tells_it() -> None:
    """The narrowest group is large, but few of it tell the setting: the wider one answers."""
    hosts = [*enabled(["never"] + ["madvise"] * 3), *(one(at) for at in range(10, 30))]
    hosts += enabled(["madvise"] * 10, apps=("jvm",))

    (found,) = outliers(hosts)

    assert (found.group, found.distribution.n, found.hosts) == (ALL_HOSTS, 14, 34)


def test_what_is_unknown_of_a_host_is_no_match() -> None:
    """Without platform or kernel it is in wider groups only; without an application it shares none."""
    assert list(groups_of_host(one(1))) == [Group(("redis",), "el8", "kernels of era E6"), Group(("redis",)), ALL_HOSTS]
    assert list(groups_of_host(one(1, era=None))) == [
        Group(("redis",), "el8", "kernels 4.18"),
        Group(("redis",)),
        ALL_HOSTS,
    ]
    assert list(groups_of_host(one(1, era=None, kernel="odd"))) == [Group(("redis",)), ALL_HOSTS]
    assert list(groups_of_host(one(1, platform=None))) == [Group(("redis",)), ALL_HOSTS]
    assert list(groups_of_host(one(1, apps=()))) == [Group((), "el8", "kernels of era E6"), ALL_HOSTS]


@pytest.mark.parametrize(
    ("platform", "expected"),
    [("el8.6", "el8"), ("el6", "el6"), ("ubuntu22.04", "ubuntu22.04"), ("sles15", "sles15"), ("el8.x", "el8.x")],
)
def test_the_family_of_a_platform(platform: str, expected: str) -> None:
    """Minor releases of el are one family; what is not known stands for itself."""
    assert platform_family(platform) == expected


def test_kernels_are_compared_within_a_platform_only() -> None:
    """A kernel of another distribution is no odd kernel."""
    hosts = [one(at) for at in range(20)] + [one(20, platform="sles15", kernel="5.14.21", era="E7", apps=("jvm",))]
    assert outliers(hosts) == []

    (found,) = outliers([*hosts, one(21, kernel="4.18.0-80.el8", apps=("postgresql",))])

    assert (found.title, found.value, found.group.definition) == ("kernel release", "4.18.0-80.el8", "all hosts on el8")


def test_the_order_for_people() -> None:
    """Stalls before settings of huge pages, kernels, memory and the rest."""
    like = {"thp.enabled": Setting("always", "measured"), "sysctl.vm.swappiness": Setting(60, "measured")}
    odd = {"thp.enabled": Setting("never", "measured"), "sysctl.vm.swappiness": Setting(1, "measured")}
    calm, busy = Measure(0.0, "1/s"), Measure(300.0, "1/s")
    hosts = [
        one(at, settings=like, measures={STALL: calm, free_memory.UNUSABLE_FREE: Measure(0.1, "ratio")})
        for at in range(9)
    ]
    hosts.append(
        one(
            9,
            settings=odd,
            kernel="4.18.0-80.el8",
            measures={STALL: busy, free_memory.UNUSABLE_FREE: Measure(0.9, "ratio")},
        )
    )

    found = sorted(outliers(hosts), key=lambda outlier: outlier.rank)

    names = [STALL, "thp.enabled", "kernel", free_memory.UNUSABLE_FREE, "sysctl.vm.swappiness"]
    assert [outlier.name for outlier in found] == names


def test_hosts_that_do_not_stand_for_themselves_are_left_out() -> None:
    """An older bundle of a host neither counts nor differs."""
    hosts = enabled(["madvise"] * 9 + ["never"])
    survey = Survey(hosts, lambda host: host.number != 9)

    assert [list(survey.outliers(host)) for host in hosts] == [[]] * 10
    assert survey.groups[ALL_HOSTS] == 9


@pytest.mark.parametrize(("hosts", "most"), [(8, 0.05), (20, 0.03), (100, 0.01)])
@pytest.mark.parametrize("spread", ["normal", "lognormal", "exponential", "uniform"])
def test_groups_without_an_outlier_have_none(hosts: int, most: float, spread: str) -> None:
    """Of many groups drawn from one distribution hardly any has one, as the module of distributions promises."""
    draw = random.Random(f"{spread} {hosts}")
    values = {
        "normal": lambda: max(0.0, draw.gauss(500, 100)), "lognormal": lambda: draw.lognormvariate(3, 1),
        "exponential": lambda: draw.expovariate(0.02), "uniform": lambda: draw.uniform(0, 400),
    }[spread]  # fmt: skip
    found = sum(bool(outliers(stalls(values() for _ in range(hosts)))) for _ in range(GROUPS))

    assert found <= GROUPS * most


@given(st.lists(st.floats(0, 1e6), min_size=8, max_size=40))
@example([0.0, 0.0, *[213086.0] * 4, *[172030.0] * 2, 988975.0])  # two far below, one far above
def test_any_numbers_have_few_outliers(values: list[float]) -> None:
    """Whatever the numbers: nothing fails, the median is none, and less than a quarter lie apart on either side."""
    found = outliers(stalls(values))

    medians = [one.distribution.median for one in found if isinstance(one.distribution, NumberDistribution)]
    sides = Counter(float(one.value) > median for one, median in zip(found, medians, strict=True))
    assert all(count < len(values) / 4 for count in sides.values())
    assert all(
        outlier.value != outlier.distribution.median
        for outlier in found
        if isinstance(outlier.distribution, NumberDistribution)
    )


@given(st.lists(st.sampled_from(["always", "madvise", "never", "\x1b[2J"]), min_size=8, max_size=40))
def test_any_settings_have_few_outliers(values: list[str]) -> None:
    """At most a tenth of the hosts for each value that is not the common one, or one."""
    found = outliers(enabled(values))

    assert len(found) <= 3 * max(1, len(values) // 10)
    assert all(outlier.same is not None and outlier.same <= max(1, len(values) // 10) for outlier in found)


def test_memory_grows_with_the_numbers_only() -> None:
    """Of a host that passes by its numbers stay, 8 bytes each in up to three groups, and no setting of it."""

    def peak(hosts: int) -> int:
        settings = {f"thp.{name}": Setting("always", "measured") for name in range(50)}
        measures = {STALL: Measure(3.0, "1/s"), free_memory.UNUSABLE_FREE: Measure(0.5, "ratio")}
        tracemalloc.start()
        Survey(one(at, settings=dict(settings), measures=dict(measures)) for at in range(hosts))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(2200) - peak(200) < 2000 * 100


def test_hosts_that_stall_a_little_are_no_outliers_of_those_that_do_not() -> None:
    """Where three of four hosts hardly stall, what a few more do is told from 10/s on only."""
    calm = [0.0] * 12 + [0.1, 0.2, 0.3, 0.4]

    assert outliers(stalls([*calm, 2, 3, 5, 9])) == []
    assert [found.value for found in outliers(stalls([*calm, 2, 3, 5, 300]))] == [300]
