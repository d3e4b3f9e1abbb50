"""What the page of a fleet tells of hosts with several bundles: what changed when, the latest first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from small_fleets import bundle, found, host, page, page_of, read, rows, said, store, texts
from thpdiag.store.results import Analysis

DAY = 86_400
BEGUN = 1_793_491_200  # 2026-11-01 00:00 UTC


def night(day: int | None, name: str, verdict: dict[str, Any], stalls: float = 1.0, **known: Any) -> dict[str, Any]:
    """A host as it was in one night; None is a night of which nobody knows."""
    measures = {"node_vmstat_compact_stall": {"value": stalls, "unit": "1/s"}}
    points = [] if day is None else [[BEGUN + DAY * day, 0, 0, 0]]
    series = {"series": [{"clock": "utc", "points": points}]}
    return host(name, verdict, host={"measures": measures, **known}, timeline=series)


def setting(value: str) -> dict[str, Any]:
    return {"thp.enabled": {"value": value, "provenance": "measured"}}


def test_changes_stand_latest_first(tmp_path: Path) -> None:
    """What it was, until which bundle, what it is, since which; verdicts before settings before kernels of one day."""
    bundles = [
        bundle(1, night(0, "db1", said("nothing_found"), settings=setting("never"), kernel="5.4.0")),
        bundle(2, night(1, "db1", said("nothing_found"), settings=setting("never"), kernel="5.4.1")),
        bundle(3, night(2, "db1", found("high"), settings=setting("always"), kernel="5.4.1")),
        bundle(4, night(2, "other", said("nothing_found"))),
    ]  # fmt: skip

    tree = read(
        page_of(tmp_path, bundles, page=lambda row: f"{row['bundle']}.html" if row["verdict"] == "found" else "")
    )

    assert rows(tree, "changes") == [
        ["db1 3 bundles", "verdict", "nothing found", "fault-compaction, high",
         "until nightly/2.tar 2026-11-02 00:00:00 UTC since nightly/3.tar 2026-11-03 00:00:00 UTC"],
        ["db1 3 bundles", "thp.enabled", "never", "always",
         "until nightly/2.tar 2026-11-02 00:00:00 UTC since nightly/3.tar 2026-11-03 00:00:00 UTC"],
        ["db1 3 bundles", "kernel release", "5.4.0", "5.4.1",
         "until nightly/1.tar 2026-11-01 00:00:00 UTC since nightly/2.tar 2026-11-02 00:00:00 UTC"],
    ]  # fmt: skip
    assert tree.xpath("//*[@id='changes']//a/@href") == ["3.html", "3.html"]
    assert "two machines" in texts(tree, "//*[@id='changes']/p")[0]


def test_an_earlier_bundle_is_said_to_be_one(tmp_path: Path) -> None:
    """By the time of its data, whatever it is called. It counts as well: two of one name can be two machines."""
    bundles = [
        bundle(1, night(2, "db1", said("nothing_found"))), bundle(2, night(0, "db1", found("critical"))),
        bundle(3, night(1, "db1", found("low"))), bundle(4, night(0, "db2", found("low"))),
    ]  # fmt: skip

    tree = read(page_of(tmp_path, bundles))

    assert texts(tree, "//h1") == ["4 bundles, 4 hosts (2 names): 3 with a finding (1 critical and 2 low)."]
    assert texts(tree, "//header//p")[0] == "2 findings of these are of hosts with a later bundle."
    assert [row[:2] for row in rows(tree, "hosts")] == [
        ["db1 nightly/2.tar", "critical there is a later bundle"], ["db1 nightly/3.tar", "low there is a later bundle"],
        ["db2 nightly/4.tar", "low"], ["db1 nightly/1.tar", "nothing found"],
    ]  # fmt: skip


def test_without_an_order_nothing_changed_to_anything(tmp_path: Path) -> None:
    """Where no time is known it is told that the bundles differ, and in how many."""
    bundles = [
        bundle(number, night(None, "db1", said("nothing_found"), settings=setting("never" if number else "always")))
        for number in range(3)
    ]

    tree = read(page_of(tmp_path, bundles))

    assert rows(tree, "changes") == [
        ["db1 3 bundles", "thp.enabled", "never in 2 and always in 1", "their order is not known", ""],
    ]  # fmt: skip
    assert [row[1] for row in rows(tree, "hosts")] == ["nothing found one of several bundles"] * 3


def test_a_number_far_from_the_hosts_own(tmp_path: Path) -> None:
    """With the distribution over its bundles, in words and as a picture."""
    bundles = [
        bundle(number, night(number, "db1", said("nothing_found"), stalls=300.0 if number == 8 else 1 + number / 10))
        for number in range(10)
    ]

    tree = read(page_of(tmp_path, bundles))

    assert rows(tree, "changes") == [
        ["db1 10 bundles", "direct compactions",
         "median 1.45/s, half of them 1.23/s to 1.68/s, all 1/s to 300/s, in 10 bundles", "300/s",
         "in nightly/8.tar 2026-11-09 00:00:00 UTC"],
    ]  # fmt: skip
    assert len(tree.xpath("//*[@id='changes']//tbody//svg")) == 1


def test_another_verdict_of_other_rules_is_said_to_be_so(tmp_path: Path) -> None:
    """A host may not have changed at all where the rules did."""
    store(tmp_path, [bundle(1, night(0, "db1", said("nothing_found")))])
    store(tmp_path, [bundle(2, night(1, "db1", found("high")))], Analysis("2.0", "fedcba9876543210"))

    (row,) = rows(read(page(tmp_path)), "changes")

    assert row[3] == "fault-compaction, high the bundles were not judged by the same rules or version"
