"""Differences of hosts from their like on the page of a fleet: words, pictures, and odd numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from small_fleets import bundle, host, many, page_of, read, rows, said, texts
from thpdiag.fleet.outliers import NumberDistribution, Spread, ValueDistribution
from thpdiag.fleet.page.rows import STRIP_WIDTH, bar_strip, box_strip


def numbers(least: float, lower: float, median: float, upper: float, most: float) -> NumberDistribution:
    return NumberDistribution(9, least, lower, median, upper, most, 1, (Spread(median, 1, lower, upper),))


def test_a_difference_is_told_with_the_group(tmp_path: Path) -> None:
    """The value, how the group lies in words and as a picture, who is in it and how many, and how far away it is."""
    bundles = [
        bundle(number, host(f"web{number}", said("nothing_found"), host={
            "settings": {"thp.enabled": {"value": "never" if number == 3 else "always", "provenance": "measured"}},
            "measures": {
                "node_vmstat_compact_stall": {"value": 400.0 if number == 4 else 1 + number / 10, "unit": "1/s"},
            },
        })) for number in range(10)
    ]  # fmt: skip

    tree = read(page_of(tmp_path, bundles))

    first, second = rows(tree, "outliers")
    assert first[:3] == ["web4 nightly/4.tar", "direct compactions", "400/s"]
    assert first[3] == "median 1.55/s, half of them 1.23/s to 1.77/s, all 1/s to 400/s"
    assert first[4] == "redis on debian12 with kernels of era E7 10 hosts"
    assert re.fullmatch(r"\+\d+\.\d", first[5])
    assert second == [
        "web3 nightly/3.tar", "thp.enabled", "never", "9 always and 1 never",
        "redis on debian12 with kernels of era E7 10 hosts", "1 of 10",
    ]  # fmt: skip
    assert len(tree.xpath("//*[@id='outliers']//tbody//svg[@aria-hidden]")) == 2
    assert "at least 8 of them" in texts(tree, "//*[@id='outliers']/p")[0]


def test_of_who_is_in_a_group_not_all_tell_everything(tmp_path: Path) -> None:
    """The size of the group and the number of those that were compared are two numbers."""
    bundles = [
        bundle(number, host(f"web{number}", said("nothing_found"), host={
            "settings": {"thp.enabled": {"value": "never" if number == 3 else "always", "provenance": "measured"}}
            if number < 9 else {},
        })) for number in range(12)
    ]  # fmt: skip

    (row,) = rows(read(page_of(tmp_path, bundles)), "outliers")

    assert row[4].endswith("12 hosts, 9 of them with this data")
    assert row[5] == "1 of 9"


def test_a_fleet_of_the_like_has_no_differences(tmp_path: Path) -> None:
    """There is no such section then."""
    bundles = [bundle(number, host(f"web{number}", said("nothing_found"))) for number in range(20)]

    assert read(page_of(tmp_path, bundles)).xpath("//*[@id='outliers']") == []


def test_differences_have_links_to_hosts(tmp_path: Path) -> None:
    """Where hosts have pages."""
    tree = read(page_of(tmp_path, many(60), page=lambda row: f"hosts/{row['bundle']}.html"))

    assert len(tree.xpath("//*[@id='outliers']//td/a[starts-with(@href, 'hosts/')]")) == len(rows(tree, "outliers")) > 0


def test_a_box_lies_where_its_numbers_do() -> None:
    """On a scale from the least to the most; the host has its place on it, and the order is kept."""
    drawn = box_strip(10.0, numbers(0, 2, 4, 6, 10))

    (least, most) = re.findall(r'class="s8" d="M([\d.]+) 8H([\d.]+)"', drawn)[0]
    (lower, width) = re.findall(r'class="b1" x="([\d.]+)" y="3" width="([\d.]+)"', drawn)[0]
    (median,) = re.findall(r'class="middle" d="M([\d.]+) ', drawn)
    (own,) = re.findall(r'cx="([\d.]+)"', drawn)
    assert [float(one) for one in (least, lower, median, most, own)] == [4, 34.4, 64.8, 156, 156]
    assert float(lower) + float(width) == pytest.approx(4 + 152 * 0.6)


def test_a_box_far_below_one_host_is_still_to_be_seen() -> None:
    """A scale that is stretched where the others are: quartiles at a thousandth of the most are pixels apart."""
    drawn = box_strip(1000.0, numbers(0, 5, 10, 20, 1000))

    (lower, width) = re.findall(r'class="b1" x="([\d.]+)" y="3" width="([\d.]+)"', drawn)[0]
    assert float(lower) > 10
    assert float(width) > 15


@pytest.mark.parametrize(
    ("value", "five"),
    [
        (0.0, (0, 0, 0, 0, 0)), (5.0, (5, 5, 5, 5, 5)), (-3.0, (-9, -4, -3, -2, 9)),
        (1.7e308, (-1.7e308, 0, 0, 0, 1.7e308)), (1e308, (0, 0, 0, 0, 1e308)), (5e-324, (0, 0, 0, 0, 5e-324)),
    ],
)  # fmt: skip
def test_no_number_breaks_a_picture(value: float, five: tuple[float, float, float, float, float]) -> None:
    """All the same, negative, beyond what can be subtracted: every place is a number inside of the picture."""
    found = re.findall(r' (?:x|cx)="([^"]+)"|M([^ ]+) ', box_strip(value, numbers(*five)))
    places = [float(one or other) for one, other in found]

    assert len(places) == 4
    assert all(0 <= place <= STRIP_WIDTH for place in places)


def test_a_bar_is_divided_as_the_hosts_are() -> None:
    """Widths in proportion, the host's own value in the second colour; one of a thousand is still to be seen."""
    drawn = bar_strip("never", ValueDistribution(1000, (("always", 750), ("madvise", 249), ("never", 1)), 0))

    parts = re.findall(r'class="(b\d)" x="([\d.]+)" y="3" width="([\d.]+)"', drawn)
    assert [look for look, _, _ in parts] == ["b1", "b3", "b2"]
    assert float(parts[0][2]) == pytest.approx((STRIP_WIDTH - 4) * 0.75 - 1)
    assert float(parts[2][2]) == 2
    assert all(float(x) + float(width) <= STRIP_WIDTH for _, x, width in parts)


def test_a_value_that_is_none_of_the_frequent_is_in_the_rest() -> None:
    """Then the rest has the colour of the host."""
    shown = tuple((f"v{number}", 20) for number in range(5))

    assert re.findall(r'class="(b\d)"', bar_strip("odd", ValueDistribution(103, shown, 3))) == [
        "b1",
        "b3",
        "b4",
        "b5",
        "b6",
        "b2",
    ]
    assert re.findall(r'class="(b\d)"', bar_strip("v0", ValueDistribution(103, shown, 3))) == [
        "b2",
        "b3",
        "b4",
        "b5",
        "b6",
        "b8",
    ]
