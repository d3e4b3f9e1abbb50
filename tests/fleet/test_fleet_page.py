"""The page of a fleet, as its HTML: what it says of which store, in which order, and that nothing is left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from small_fleets import bundle, found, host, many, page, page_of, read, rows, said, store, texts
from small_results import ANALYSIS
from thpdiag.report.html import digest, policy_for
from thpdiag.store.results import Analysis


def test_the_first_sentences_tell_the_night(tmp_path: Path) -> None:
    """Bundles, hosts, findings by severity, the other hosts, and how many bundles failed and why."""
    bundles = [
        bundle(1, host("a", found("high"))), bundle(2, host("b", found("high", state="past"))),
        bundle(3, host("c", found("low"))), bundle(4, host("d", said("cannot_tell"))),
        bundle(5, host("e", said("nothing_found"))), bundle(6), bundle(7, status="refused", reason="a fifo"),
        bundle(8, host("f", said("nothing_found")), status="partial", reason="a member is cut"),
    ]  # fmt: skip

    tree = read(page_of(tmp_path, bundles))

    assert texts(tree, "//h1") == ["8 bundles, 6 hosts: 3 with a finding (2 high and 1 low)."]
    assert texts(tree, "//header//p") == [
        "1 finding of these was over at the end of the bundle.",
        "The other hosts: 1 cannot tell and 2 nothing found.",
        "3 bundles without a complete result: 1 partial, 1 refused and 1 timeout.",
    ]
    assert tree.xpath("//header")[0].get("class") == "verdict high"
    assert texts(tree, "//title") == ["Triage of 8 bundles: 3 with a finding"]


@pytest.mark.parametrize(
    ("bundles", "first", "colour", "shown"),
    [
        ([], "No bundle was read.", "", {"made"}),
        ([bundle(1)], "1 bundle, and no host in any of them.", "", {"incomplete-h", "made"}),
        ([bundle(1, host("a", said("nothing_found")))], "1 bundle, 1 host: none with a finding.", "nothing_found",
         {"counts", "hosts-h", "made"}),
        ([bundle(1, host("a", said("nothing_found"))), bundle(2, host("b", said("cannot_tell")))],
         "2 bundles, 2 hosts: none with a finding.", "", {"counts", "hosts-h", "made"}),
        ([bundle(1, host("a", said("not_applicable"))), bundle(2)],
         "2 bundles, 1 host: none with a finding.", "", {"counts", "hosts-h", "incomplete-h", "made"}),
        ([bundle(1, host("a", found("low"))), bundle(2, host("a", found("low")))],
         "2 bundles, 2 hosts (1 name): 2 with a finding (2 low).", "low", {"counts", "hosts-h", "made"}),
    ],
    ids=["none", "all failed", "one well", "one open", "one failed", "one host twice"],
)  # fmt: skip
def test_small_fleets(bundles: list[Any], first: str, colour: str, shown: set[str], tmp_path: Path) -> None:
    """Nothing is called well of which nothing is known, and only sections that have something are there."""
    tree = read(page_of(tmp_path, bundles))

    assert texts(tree, "//h1") == [first]
    assert tree.xpath("//header")[0].get("class").split() == ["verdict", *([colour] if colour else [])]
    assert {one.get("id") for one in tree.xpath("//h2")} - {"changes-h"} == shown


def test_hosts_stand_gravest_first(tmp_path: Path) -> None:
    """By severity, confidence and name as people count; what is accepted below what is not; then those without."""
    verdicts = {
        "web10": found("high"), "web9": found("high"), "sure": found("high", confidence="confirmed"),
        "bad": found("critical", confidence="possible"), "known": found("critical"), "open": said("cannot_tell"),
        "well": said("nothing_found"), "without": said("not_applicable"), "odd": {"status": "of a later version"},
    }  # fmt: skip
    bundles = [bundle(number, host(name, verdict)) for number, (name, verdict) in enumerate(sorted(verdicts.items()))]

    html = page_of(tmp_path, bundles, known="- {rule: THP-010, host: known, reason: a change}")

    found_rows = rows(read(html), "hosts")
    assert [row[0].split()[0] for row in found_rows] == [
        "bad", "sure", "web9", "web10", "known", "open", "well", "without", "odd",
    ]  # fmt: skip
    assert [row[1] for row in found_rows] == [
        "critical", "high", "high", "high", "critical accepted", "cannot tell", "nothing found", "not applicable",
        "unknown",
    ]  # fmt: skip
    assert "1 finding of these is accepted by suppression or baseline." in texts(read(html), "//header//p")


def test_a_row_tells_all_of_its_host(tmp_path: Path) -> None:
    """Name with link and bundle, result, sentence, mechanism, confidence, kernel, distribution, applications."""
    whole = bundle(1, host("db1", found("medium"), host={"apps": ["redis", "jvm"]}))
    bare = bundle(2, {"verdict": found("medium", mechanism=None, confidence=None)})
    well = bundle(3, {"verdict": said("nothing_found")}, status="partial", reason="cut")

    html = page_of(tmp_path, [whole, bare, well], page=lambda row: f"hosts/{row['host']}.html" if row["host"] else "")

    first, second, third = rows(read(html), "hosts")
    assert first == [
        "db1 nightly/1.tar", "medium", "Page faults compact memory themselves.", "fault-compaction", "likely",
        "6.1.0-28-amd64", "Debian GNU/Linux 12", "jvm redis",
    ]  # fmt: skip
    assert second[:2] == ["nightly/2.tar", "medium"]
    assert second[3:] == ["unknown", "unknown", "unknown", "unknown", "–"]
    assert third[1] == "nothing found incomplete"
    assert third[3:5] == ["–", "–"]
    assert [one.get("href") for one in read(html).xpath("//*[@id='hosts']//a")] == ["hosts/db1.html"]


def test_counts_are_those_of_the_rows(tmp_path: Path) -> None:
    """Each value of a table of counts stands in as many rows, and all rows are counted."""
    tree = read(page_of(tmp_path, many(300)))

    told = {
        table.get("data-counts"): {row[0].text_content(): int(row[1].text_content()) for row in table.xpath(".//tr")}
        for table in tree.xpath("//table[@data-counts]")
    }
    listed = rows(tree, "hosts")
    assert told["Verdict"] == {"found": 30, "nothing found": 267}
    assert told["Severity"] == dict.fromkeys(("critical", "high", "medium", "low", "info"), 6)
    assert told["Mechanism"] == {"fault-compaction": sum(row[3] == "fault-compaction" for row in listed)}
    assert told["Kernel"] == {f"6.1.{n}": sum(row[5] == f"6.1.{n}" for row in listed) for n in range(7)}
    assert told["Application"] == {app: sum(app in row[7].split() for row in listed) for app in ("redis", "jvm")}
    assert told["Distribution"] == {"Debian GNU/Linux 12": 297}


def test_long_tables_fold_in_leaves_of_200(tmp_path: Path) -> None:
    """Each leaf is a table with a heading, only the first is unfolded, and one folds when another opens."""
    tree = read(page_of(tmp_path, many(450)))

    folds = tree.xpath("//*[@id='hosts']//details")
    assert [one.xpath("summary")[0].text_content() for one in folds] == [
        "Hosts 1 to 200", "Hosts 201 to 400", "Hosts 401 to 446",
    ]  # fmt: skip
    assert [(one.get("name"), one.get("open")) for one in folds] == [("hosts", ""), ("hosts", None), ("hosts", None)]
    assert [len(one.xpath(".//tbody/tr")) for one in folds] == [200, 200, 46]
    assert all(len(one.xpath(".//thead//th")) == 8 for one in folds)


def test_of_too_many_hosts_the_gravest_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts are of all; the page says how many it leaves out, and where they are to be had."""
    monkeypatch.setattr("thpdiag.fleet.page.MAX_HOST_ROWS", 20)

    tree = read(page_of(tmp_path, many(200)))

    listed = rows(tree, "hosts")
    assert [row[1] for row in listed] == [
        grade for grade in ("critical", "high", "medium", "low", "info") for _ in "1234"
    ]
    assert texts(tree, "//h1")[0].startswith("200 bundles, 198 hosts: 20 with a finding (4 critical")
    assert texts(tree, "//*[@id='hosts']/p")[0].startswith("These are the first 20 of 198 hosts")
    assert "thpdiag triage export" in texts(tree, "//*[@id='hosts']/p")[0]


def test_bundles_without_a_result_have_a_reason(tmp_path: Path) -> None:
    """By status and name, each with its reason and how often it was tried; those that are whole are not listed."""
    bundles = [
        bundle(10, reason="longer than 600 s"), bundle(2, reason="longer than 600 s", attempts=2),
        bundle(3, status="lost"), bundle(4, host("a", said("cannot_tell")), status="partial", reason="cut"),
        bundle(5, host("b", said("cannot_tell"))),
    ]  # fmt: skip

    assert rows(read(page_of(tmp_path, bundles)), "incomplete") == [
        ["nightly/3.tar", "lost", "unknown", "1"], ["nightly/4.tar", "partial", "cut", "1"],
        ["nightly/2.tar", "timeout", "longer than 600 s", "2"], ["nightly/10.tar", "timeout", "longer than 600 s", "1"],
    ]  # fmt: skip


def test_how_it_was_made(tmp_path: Path) -> None:
    """Version, rules, options and begin of each analysis, what is accepted by whom, and that a result was replaced."""
    store(tmp_path, [bundle(1, host("a", said("nothing_found")))])
    html = page_of(tmp_path, []), page(tmp_path, known="- {rule: THP-010, host: db1, reason: change 4711}")
    store(tmp_path, [bundle(1, host("a", found("low")))], Analysis("1.1", "fedcba9876543210"))

    plain, accepting, both = (texts(read(one), "//section[h2[@id='made']]//dd") for one in (*html, page(tmp_path)))

    assert plain[:3] == ["1.0, 1 bundle", ANALYSIS.rules_digest, "since=03:00"]
    assert re.fullmatch(r"2 runs, the first 20\S+ \S+ UTC, the last 20\S+ \S+ UTC", plain[3])
    assert plain[4] == "no suppression, no baseline"
    assert accepting[4] == "THP-010 on db1: change 4711 (known.yaml:1)"
    assert both[4:7] == ["1.1, 1 bundle", "fedcba9876543210", "none that change the analysis"]
    assert texts(read(page(tmp_path)), "//h1") == ["1 bundle, 1 host: 1 with a finding (1 low)."]


def test_only_our_style_and_script_may_act(tmp_path: Path) -> None:
    """The policy names the hashes of what is in the page and nothing else; no attribute is a style or a handler."""
    tree = read(page_of(tmp_path, many(300)))

    (policy,) = (one.get("content") for one in tree.xpath("//meta[@http-equiv]"))
    (style,), (script,) = (tree.xpath(f"//{name}") for name in ("style", "script"))
    assert policy == policy_for(style.text, script.text)
    assert digest(script.text) in policy
    names = {name for one in tree.iter() for name in getattr(one, "attrib", ())}
    assert {name for name in names if name == "style" or name.startswith("on") or name == "src"} == set()


def test_the_same_store_is_the_same_page(tmp_path: Path) -> None:
    """Bundles that were done in another order make the same lists."""
    bundles = many(120)
    one, again = page_of(tmp_path / "one", bundles), page(tmp_path / "one")
    other = page_of(tmp_path / "other", reversed(bundles))

    assert one == again
    assert one.partition('id="made"')[0] == other.partition('id="made"')[0]
