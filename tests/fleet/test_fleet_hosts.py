"""The hosts of a store: order, names, what is unknown, and what the store derives from a document for a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from small_fleets import bundle, host, said, store
from small_results import ANALYSIS
from thpdiag.errors import StoreError
from thpdiag.fleet.hosts import FleetHost, Measure, Setting, hosts_of_store
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import UNUSABLE_FREE, Analysis, BundleResult, time_of_data, unusable_free_ratio
from thpdiag.store.store import Store

WELL = said("nothing_found")
NOON = 1_795_175_726.0  # 2026-11-20 11:55:26 UTC


def in_folder(folder: Path, *bundles: BundleResult) -> list[FleetHost]:
    with StoreReader.at(store(folder, bundles)) as reading:
        return list(hosts_of_store(reading))


def test_hosts_come_in_the_order_of_paths_and_are_numbered(tmp_path: Path) -> None:
    """Whoever was ready first; of several hosts of a bundle the one of its verdict is first."""
    several = {"cases": [host("b", WELL), host("a", WELL)], **host("b", WELL)}
    found = in_folder(tmp_path, bundle(7, host("z", WELL)), bundle(3, several), bundle(5))

    assert [(one.number, one.path, one.name) for one in found] == [
        (1, "nightly/3.tar", "b"), (2, "nightly/3.tar", "a"), (3, "nightly/5.tar", None), (4, "nightly/7.tar", "z"),
    ]  # fmt: skip


def test_a_bundle_without_a_host_is_unknown_in_everything_else(tmp_path: Path) -> None:
    """Nothing of it is zero, empty text or a verdict."""
    (found,) = in_folder(tmp_path, bundle(1, reason="no result within 600 s"))

    assert (found.known, found.status, found.reason) == (False, "timeout", "no result within 600 s")
    assert (found.verdict, found.undecided, found.recorded, found.kernel) == (None, None, None, None)
    assert (dict(found.settings), dict(found.measures), found.apps, found.label) == ({}, {}, (), "nightly/1.tar")


def test_what_is_no_bundle_is_no_host(tmp_path: Path) -> None:
    """A README beside the bundles: its document says that nothing was recognised, which is true of no host."""
    nothing = bundle(1, host("host", said("cannot_tell"), unknown=[{"rule": "X"}]), status="refused")

    (found,) = in_folder(tmp_path, nothing)

    assert (found.known, found.status, found.verdict, found.undecided) == (False, "refused", None, None)


def test_what_a_document_calls_a_host_without_a_name_is_no_name(tmp_path: Path) -> None:
    """Such hosts are told apart by their bundles' paths."""
    (found,) = in_folder(tmp_path, bundle(1, host("host", WELL)))

    assert (found.name, found.title, found.label) == (None, None, "nightly/1.tar")


def test_values_that_are_none_are_left_out(tmp_path: Path) -> None:
    """A setting nobody read, a measure that is no number or beyond all numbers."""
    known = {
        "settings": {"thp.enabled": {"value": "always", "provenance": "measured"}, "thp.defrag": {"value": None}},
        "measures": {
            "a": {"value": 2, "unit": "1/s", "window": "over 9 s"}, "b": {}, "c": {"value": "x"},
            "d": {"value": 10**400},
        },
    }  # fmt: skip
    (found,) = in_folder(tmp_path, bundle(1, host("db1", WELL, host=known)))

    assert found.settings == {"thp.enabled": Setting("always", "measured")}
    assert found.measures == {"a": Measure(2, "1/s", "over 9 s")}


def test_a_younger_result_of_the_same_bundle_stands_for_the_older(tmp_path: Path) -> None:
    """With other rules the same content is in the store twice, and in the fleet once."""
    store(tmp_path, [bundle(1, host("db1", said("cannot_tell"))), bundle(2, host("db2", WELL))])
    store(tmp_path, [bundle(1, host("db1", WELL))], Analysis("1.1", "fedcba9876543210"))

    with StoreReader.at(tmp_path) as reading:
        found = [(one.name, one.verdict, one.analysis.split()[0]) for one in hosts_of_store(reading)]

    assert found == [("db1", "nothing_found", "1.1"), ("db2", "nothing_found", ANALYSIS.tool_version)]


def test_the_number_of_open_rules_is_stored(tmp_path: Path) -> None:
    """None where the document does not tell, and a number, not its digits."""
    found = in_folder(tmp_path, bundle(1, host("a", WELL, unknown=[{"rule": "X"}] * 3)), bundle(2, host("b", WELL)))

    assert [one.undecided for one in found] == [3, None]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"timeline": {"series": [{"clock": "utc", "points": [[NOON - 60, 1], [NOON, 1]]}]}}, "2026-11-20T11:55:26Z"),
        ({"profiles": [{"clock": "utc", "last": NOON + 0.9}]}, "2026-11-20T11:55:26Z"),
        ({"profiles": [{"clock": "local", "last": NOON}]}, "2026-11-20T11:55:26"),
        ({"host": {"free_blocks": [{"when": "2026-11-20 11:55:26 UTC"}, {}]}}, "2026-11-20T11:55:26Z"),
        ({"host": {"free_blocks": [{"when": "2026-11-20 11:55:26 local time"}]}}, "2026-11-20T11:55:26"),
        (
            {"profiles": [{"clock": "utc", "last": NOON}, {"clock": "local", "last": NOON + 9e4}]},
            "2026-11-20T11:55:26Z",
        ),
        ({"profiles": [{"clock": "boot", "last": 22_531.4}]}, None),
        ({"profiles": [{"clock": "utc", "last": 1e12}]}, None),
        ({"timeline": {"series": [{"clock": "utc", "points": []}, {"clock": "utc", "points": [[None]]}, 3]}}, None),
        ({"timeline": 3, "profiles": None, "host": [], "cases": {}}, None),
    ],
    ids=[
        "series",
        "recording",
        "local",
        "free-blocks",
        "free-blocks-local",
        "utc-first",
        "boot",
        "wild",
        "empty",
        "odd",
    ],
)
def test_when_the_data_of_a_host_is_from(document: dict[str, Any], expected: str | None) -> None:
    """The last time of anything with a date; UTC before local time, and nothing made up."""
    assert time_of_data(document) == expected


def test_free_memory_that_is_too_small_for_a_huge_page() -> None:
    """By hand: 512 single pages and one block of order 9 are 1024 pages, half of them in small blocks."""
    blocks = [{"node": "0", "zone": "Normal", "counts": [512, 0, 0, 0, 0, 0, 0, 0, 0, 1]}]

    assert unusable_free_ratio(blocks) == 0.5
    assert unusable_free_ratio([*blocks, {"node": "0", "zone": "DMA32", "counts": [0] * 9 + [2]}]) == 0.25


def test_the_latest_list_of_each_zone_counts() -> None:
    """The first list of a recording is what was, and one without a time counts only where none has one."""
    first = {"node": "0", "zone": "Normal", "counts": [512], "when": "2026-11-20 11:55:26 UTC"}
    last = {"node": "0", "zone": "Normal", "counts": [0] * 9 + [1], "when": "2026-11-20 11:56:26 UTC"}

    assert unusable_free_ratio([last, first, {**first, "when": None}]) == 0.0


@pytest.mark.parametrize("blocks", [[], [{"counts": [0, 0]}], [{"counts": [-1]}], [{"counts": "x"}], [{}]])
def test_without_free_blocks_nothing_is_known(blocks: list[dict[str, Any]]) -> None:
    """No free memory at all has no share of anything."""
    assert unusable_free_ratio(blocks) is None


def test_the_share_is_a_measure_of_the_host(tmp_path: Path) -> None:
    """Beside those of the document."""
    known = {"free_blocks": [{"node": "0", "zone": "Normal", "counts": [512] + [0] * 8 + [1]}]}
    (found,) = in_folder(tmp_path, bundle(1, host("a", WELL, host=known)))

    assert found.measures == {UNUSABLE_FREE: Measure(0.5, "ratio")}


@pytest.mark.parametrize("rows", ["apps = '[1, \"a\"]'", "settings = '[1]'", "measures = '{\"a\": 3}'"])
def test_a_row_that_is_none_of_ours_is_one_sentence(tmp_path: Path, rows: str) -> None:
    """A store that was merged into this one can have anything in it."""
    store(tmp_path, [bundle(1, host("db1", WELL))])
    with Store.open(tmp_path, ANALYSIS) as writing:
        writing._database.execute(f"UPDATE host SET {rows}")

    with StoreReader.at(tmp_path) as reading, pytest.raises(StoreError, match=r"nightly/1\.tar is damaged"):
        list(hosts_of_store(reading))
