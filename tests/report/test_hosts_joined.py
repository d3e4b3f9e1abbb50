"""Two hosts in one input are two diagnoses: each is told what it is told alone, and nothing of the other.

Joined in one archive, as sos collect does, or several sosreports in a folder. And whatever the order and the names of
the members, the diagnosis is the same.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import BUNDLES, document, documents, name
from packed_bundles import files, tar
from thpdiag.report import FORMATS

PROOF = os.environ.get("THPDIAG_PROOF") == "1"
SMALL = 1_000_000  # bytes: a larger recording takes long and shows nothing else
SAID = ("verdict", "findings", "ruled_out", "unknown", "rules", "host", "timeline", "profiles", "ask", "problems")


@cache
def under(bundle: Path) -> dict[str, bytes]:
    """The members of a fixture in a folder of its own."""
    return {f"{bundle.parent.name}/{path}": data for path, data in files(bundle).items()}


@cache
def alone(bundle: Path) -> dict[str, Any]:
    return document(tar(under(bundle)))


def host(bundle: Path) -> str:
    return str(alone(bundle)["host"].get("name") or alone(bundle)["case"])


# What names nobody belongs to the only host that is named beside it.
NAMELESS = ("order9-driver-failure", "tuned-overrides-boot-line")
FEW = [b for b in BUNDLES if sum(map(len, files(b).values())) < SMALL and b.parent.name not in NAMELESS]


def pairs() -> list[tuple[Path, Path]]:
    """Fixtures of hosts with different names, some of them by default."""
    every = [(one, other) for one, other in combinations(FEW, 2) if not PROOF or one != other]
    random.Random(11).shuffle(every)
    return every if PROOF else every[:8]


def said(one: Mapping[str, Any]) -> str:
    return json.dumps({key: one[key] for key in SAID}, sort_keys=True)


def test_each_host_is_told_what_it_is_told_alone() -> None:
    """Verdict, findings, what is unknown, settings, figures: byte for byte, for pairs drawn the same each time."""
    told, tried = [], 0
    for one, other in pairs():
        if host(one) == host(other) or "cases" in alone(one) or "cases" in alone(other):
            continue
        tried += 1
        wanted = sorted(said(alone(b)) for b in (one, other))
        got = sorted(said(d) for d in documents(document(tar({**under(one), **under(other)}))))
        if got != wanted:
            told.append(f"{name(one)} + {name(other)}")
    assert told == []
    assert tried >= (20 if PROOF else 4)


def test_the_worst_of_two_comes_first_and_all_reports_show_both() -> None:
    """A confirmed cause stands before a host of which nothing can be told, whichever comes first in the input."""
    worse, better = (next(b for b in BUNDLES if b.parent.name == n) for n in ("hadoop-centos62", "sudo-echo"))
    results = [document(tar({**under(a), **under(b)})) for a, b in ((worse, better), (better, worse))]
    for result in results:
        assert [one["host"]["name"] for one in result["cases"]] == ["node1", "node4"]
        assert result["verdict"] == result["cases"][0]["verdict"] == alone(worse)["verdict"]
        for form in ("text", "html", "markdown", "json"):
            if form in FORMATS:
                assert {n for n in ("node1", "node4") if n in FORMATS[form](result)} == {"node1", "node4"}, form


@pytest.mark.parametrize("seed", range(6))
def test_the_order_and_names_of_members_change_nothing(seed: int) -> None:
    """Three hosts in one archive, members in any order and folders of any name."""
    dice = random.Random(seed)
    wanted_names = ("hadoop-centos62", "voltdb-rhel66-kvm", "mero-centos7", "sles11-raw-spin-lock", "uek-without-thp")
    drawn = dice.sample(wanted_names, 3)
    chosen = [b for b in FEW if b.parent.name in drawn]
    folders = [f"{dice.randrange(10**6)}-{n}" for n in dice.sample(["a", "node", "x.y", "Z_1"], len(chosen))]
    members = {
        f"{folder}/{path}": data
        for bundle, folder in zip(chosen, folders, strict=True)
        for path, data in files(bundle).items()
    }
    order = dice.sample(sorted(members), len(members))
    got = documents(document(tar({path: members[path] for path in order})))
    assert len(got) == len(chosen)
    wanted = sorted(_without_paths(alone(bundle)) for bundle in chosen)
    assert sorted(_without_paths(one) for one in got) == wanted


def _without_paths(one: Mapping[str, Any]) -> str:
    """Verdict, host and findings with their numbers and lines; members by their last name."""
    kept = {key: one[key] for key in ("verdict", "findings", "ruled_out")}
    return json.dumps(_last_names(kept), sort_keys=True)


def _last_names(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: (v.rpartition("/")[2] if k == "member" else _last_names(v)) for k, v in value.items()}
    return [_last_names(item) for item in value] if isinstance(value, list) else value
