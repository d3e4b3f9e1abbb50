"""One host over time: its order, what changed, what came and went, and numbers far from its own history."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from small_fleets import bundle, found, host, said, store
from small_results import ANALYSIS
from thpdiag.fleet import formats as sentences
from thpdiag.fleet.hosts import bundles_of_hosts, replaced_hosts
from thpdiag.fleet.outliers import History, histories, survey
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import Analysis, BundleResult

WELL = said("nothing_found")
NOON = 1_795_175_726  # 2026-11-20 11:55:26 UTC
DAY = 86_400


def measured(**settings: str) -> dict[str, Any]:
    """Settings of huge pages as a host's bundle tells them."""
    return {f"thp.{name}": {"value": value, "provenance": "measured"} for name, value in settings.items()}


def at(day: float | None, name: str = "db1", verdict: dict[str, Any] = WELL, clock: str = "utc", **known: Any) -> Any:
    """A document of a host with data of a day."""
    times = {} if day is None else {"profiles": [{"clock": clock, "last": NOON + day * DAY}]}
    return host(name, verdict, host=known, **times)


def told(folder: Path, documents: Iterable[dict[str, Any]]) -> list[History]:
    """The histories of bundles in this order of paths."""
    store(folder, [bundle(number, document) for number, document in enumerate(documents)])
    with StoreReader.at(folder) as reading:
        return list(histories(reading))


def test_what_changed_and_between_which_bundles(tmp_path: Path) -> None:
    """In the order of the data, not of the paths; each change with the bundles before and after it."""
    newer = at(2, kernel="6.1.0-30", settings=measured(enabled="never"))
    older = at(0, kernel="6.1.0-28", settings=measured(enabled="always"))

    (history,) = told(tmp_path, [newer, older])

    assert (history.name, history.bundles, history.ordered) == ("db1", 2, True)
    changes = {change.name: (change.before, change.after) for change in history.changes}
    assert changes == {"kernel": ("6.1.0-28", "6.1.0-30"), "thp.enabled": ("always", "never")}
    assert (history.changes[0].last.path, history.changes[0].first.path) == ("nightly/1.tar", "nightly/0.tar")
    assert list(sentences.describe_history(history))[1] == (
        "thp.enabled: always -> never, between nightly/1.tar (2026-11-20 11:55:26 UTC) "
        "and nightly/0.tar (2026-11-22 11:55:26 UTC)"
    )


def test_a_verdict_comes_and_goes(tmp_path: Path) -> None:
    """What cannot be told in between is neither."""
    verdicts = [WELL, found("high"), said("cannot_tell"), found("high"), WELL]

    (history,) = told(tmp_path, [at(day, verdict=verdict) for day, verdict in enumerate(verdicts)])

    assert [(change.before, change.after) for change in history.changes] == [
        ("nothing found", "fault-compaction, high"), ("fault-compaction, high", "nothing found"),
    ]  # fmt: skip
    assert history.changes[1].last.path == "nightly/3.tar"


def test_what_a_bundle_does_not_tell_did_not_change(tmp_path: Path) -> None:
    """Nor does an assumed setting: the value is compared with the last one that was measured."""
    assumed = {"thp.enabled": {"value": "always", "provenance": "assumed"}}
    settings = [measured(enabled="never"), {}, assumed, measured(enabled="never")]

    (history,) = told(tmp_path, [at(day, settings=known) for day, known in enumerate(settings)])

    assert not history.eventful


@pytest.mark.parametrize(
    ("days", "clocks", "ordered"),
    [
        ((0, 1), ("utc", "utc"), True),
        ((0, 1), ("local", "local"), True),
        ((0, 1), ("utc", "local"), True),
        ((0, 0.5), ("utc", "local"), False),  # no zone is 14 h from UTC, some are 12
        ((1, 1), ("utc", "utc"), False),
        ((0, None), ("utc", "utc"), False),
        ((None, None), ("utc", "utc"), False),
    ],
)
def test_when_the_order_is_known(
    tmp_path: Path, days: tuple[float | None, float | None], clocks: tuple[str, str], ordered: bool
) -> None:
    """Both have a date, on one clock, or so far apart that no time zone matters."""
    documents = [
        at(day, clock=clock, settings=measured(enabled=value))
        for day, clock, value in zip(days, clocks, ("always", "never"), strict=True)
    ]

    (history,) = told(tmp_path, documents)

    assert history.ordered is ordered
    assert bool(history.changes) is ordered
    assert bool(history.differences) is not ordered


def test_without_an_order_it_is_told_that_bundles_differ(tmp_path: Path) -> None:
    """How many bundles have which value, and that nobody knows which was first."""
    values = ("always", "never", "always")

    (history,) = told(tmp_path, [at(None, settings=measured(enabled=value)) for value in values])

    (difference,) = history.differences
    assert (difference.name, difference.counts) == ("thp.enabled", (("always", 2), ("never", 1)))
    assert list(sentences.describe_history(history)) == ["thp.enabled differs: always in 2, never in 1"]
    assert "the order of their recordings is unknown" in sentences.describe_order(history)


def test_a_number_far_from_its_own_history(tmp_path: Path) -> None:
    """With its distribution; of fewer than eight bundles nothing is said."""
    rates = [5, 6, 7, 5, 6, 7, 6, 900, 6]
    documents = [
        at(day, measures={"node_vmstat_compact_stall": {"value": rate, "unit": "1/s"}})
        for day, rate in enumerate(rates)
    ]

    (history,) = told(tmp_path, documents)

    (far,) = history.far
    assert (far.value, far.seen.path, far.distribution.n, far.distribution.median) == (900, "nightly/7.tar", 9, 6)
    assert next(iter(sentences.describe_history(history))).startswith(
        "direct compactions: 900/s in nightly/7.tar (2026-11-27 11:55:26 UTC); of 9 of its bundles the median is 6/s"
    )


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST.localdomain", "(none)", "host", ""])
def test_a_name_that_installers_give_joins_nothing(tmp_path: Path, name: str) -> None:
    """Two machines called localhost are two hosts."""
    assert told(tmp_path, [at(day, name=name) for day in range(3)]) == []


def test_hosts_without_a_name_are_not_joined(tmp_path: Path) -> None:
    """Nor with each other."""
    documents = [{**at(day), "host": {"kernel": "6.1.0"}} for day in range(2)]

    assert told(tmp_path, documents) == []


def test_a_verdict_of_other_rules_is_told_as_such(tmp_path: Path) -> None:
    """That a finding came may be the doing of the rules."""
    store(tmp_path, [bundle(0, at(0))])
    store(tmp_path, [bundle(1, at(1, verdict=found("high")))], Analysis("1.1", "fedcba9876543210"))

    with StoreReader.at(tmp_path) as reading:
        (history,) = histories(reading)

    (change,) = history.changes
    assert change.other_rules
    assert next(sentences.describe_history(history)).endswith("(evaluated with other rules or options)")


def test_a_host_counts_once_in_its_group(tmp_path: Path) -> None:
    """With its latest bundle; where no order is known, with the last by path."""
    documents = [at(0, f"web{number}", settings=measured(enabled="always")) for number in range(9)]
    documents += [at(1, "web0", settings=measured(enabled="never")), at(None, "web1"), at(None, "web1")]
    store(tmp_path, [bundle(number, document) for number, document in enumerate(documents, 10)])

    with StoreReader.at(tmp_path) as reading:
        before, groups = len(replaced_hosts(reading)), survey(reading).groups
        names = [one.name for one in bundles_of_hosts(reading)]

    assert names == ["web0", "web1"]
    assert before == 3
    assert max(groups.values()) == 9


def test_many_changes_end_with_how_many_more(tmp_path: Path) -> None:
    """A host that changes in every bundle fills no memory."""
    (history,) = told(tmp_path, [at(day, settings=measured(enabled=str(day))) for day in range(205)])

    assert (len(history.changes), history.more) == (200, 4)
    assert list(sentences.describe_history(history))[-1] == "and 4 more"


def test_a_time_that_is_none_orders_nothing(tmp_path: Path) -> None:
    """A store of somebody else can have anything in it."""
    store(tmp_path, [bundle(0, at(0)), bundle(1, at(1))])
    result = BundleResult("0" * 64, "a", 1, "ok", document=at(2))
    with store_of(tmp_path) as writing:
        writing.add(result)
        writing._database.execute("UPDATE host SET recorded = '2026-99-99'")

    with StoreReader.at(tmp_path) as reading:
        assert [one.ordered for one in bundles_of_hosts(reading)] == [False]


def store_of(folder: Path) -> Any:
    from thpdiag.store.store import Store

    return Store.open(folder, ANALYSIS)


def test_a_name_of_two_machines_in_one_bundle_joins_nothing(tmp_path: Path) -> None:
    """Which of the two another bundle is of, nobody knows."""
    both = {**at(0), "cases": [at(0), at(1)]}

    assert told(tmp_path, [both, at(2)]) == []
