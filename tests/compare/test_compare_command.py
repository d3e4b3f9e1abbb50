"""`thpdiag compare`: what it takes, what it writes, its exit codes, and what hostile or damaged results do to it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from command_line import Run
from comparison_pairs import FORMATS, captured, document, path_of
from thpdiag.report.html import from_page
from thpdiag.report.html import render as report_page

LEAST = {"schema": "thpdiag/result/1", "verdict": {"status": "cannot_tell"}}
HOSTILE = "</title></script><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m\u202e{{7*7}}"


@pytest.fixture
def saved(tmp_path: Path) -> dict[str, Path]:
    """Results of a storm with huge pages and without, as JSON, and the first as a page."""
    paths = {name: tmp_path / f"{name}.json" for name in ("storm-always", "storm-thp-never")}
    for name, path in paths.items():
        path.write_text(json.dumps(captured(name)))
    page = tmp_path / "report.html"
    page.write_text(report_page(captured("storm-always")), encoding="utf-8")
    return paths | {"page": page}


def test_bundles_results_and_pages_compare_alike(run: Run, saved: dict[str, Path]) -> None:
    """A bundle, its saved result and its page are the same BEFORE."""
    after = saved["storm-thp-never"]
    every = [
        run("compare", before, after)
        for before in (path_of("storm-thp-never", "before"), saved["storm-always"], saved["page"])
    ]

    assert [done.code for done in every] == [0, 0, 0]
    assert every[0].out == every[1].out == every[2].out
    assert "Fixed after the change of thp.enabled" in " ".join(every[0].out.split())


def test_the_gate_is_about_what_is_new_or_worse(run: Run, saved: dict[str, Path]) -> None:
    """Exit 1 if a finding of that severity is new or worse, not for what was there or is gone."""
    always, never = saved["storm-always"], saved["storm-thp-never"]

    assert run("compare", always, never, "--fail-on", "medium").code == 0
    assert run("compare", always, never, "--fail-on", "low").code == 1  # what remains of the switch is new, and low
    assert run("compare", never, always, "--fail-on", "high").code == 1
    assert run("compare", always, always, "--fail-on", "info").code == 0


def test_the_call_graphs_of_both_are_one(run: Run, saved: dict[str, Path], tmp_path: Path) -> None:
    """Stacks of one event with both shares, drawn in the page; none where one side has no recording."""
    page = tmp_path / "c.html"
    done = run("compare", saved["storm-always"], saved["storm-thp-never"], "-f", "json", "-o", f"html={page}")
    (host,) = done.document["hosts"]
    compacting = [one for one in host["recording"]["stacks"] if "compact_zone" in one["stack"]]
    assert sum(one["before"] for one in compacting) > 0.1
    assert sum(one["after"] for one in compacting) == 0
    assert "Call graph of both" in page.read_text(encoding="utf-8")
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps({**captured("storm-thp-never"), "profiles": []}))
    (host,) = run("compare", saved["storm-always"], bare, "-f", "json").document["hosts"]
    assert "recording" not in host


def test_all_formats_are_written(run: Run, saved: dict[str, Path], tmp_path: Path) -> None:
    """-o may be given several times; what is not a format of a comparison is a mistake."""
    page, plain = tmp_path / "c.html", tmp_path / "c.json"
    done = run("compare", saved["storm-always"], saved["storm-thp-never"], "-o", f"html={page}", "-o", str(plain))

    assert done.code == 0
    assert json.loads(plain.read_text()) == from_page(page.read_text())
    assert run("compare", saved["page"], saved["page"], "-o", "sarif=x").code == 2


def test_a_comparison_is_rendered_again(run: Run, saved: dict[str, Path], tmp_path: Path) -> None:
    """From its JSON and from its page, to the same bytes; with the gate; as nothing that only results can be."""
    sides = saved["storm-thp-never"], saved["storm-always"]
    paths = [tmp_path / name for name in ("c.html", "c.json", "c.txt")]
    run("compare", *sides, "-o", f"html={paths[0]}", "-o", f"json={paths[1]}", "-o", f"text={paths[2]}")
    page, _, text = (path.read_text() for path in paths)

    for source in paths[:2]:
        assert run("render", source).out == text
        assert run("render", source, "-f", "html").out == page
        assert run("render", source, "--fail-on", "high").code == 1
        assert run("render", source, "-f", "sarif").code == 2
        assert run("render", source, "-o", "csv=x").code == 2
        assert run("render", source, "--redact").code == 2
        told = run("compare", source, sides[0])
        assert (told.code, "is a comparison; only" in told.err) == (3, True)


def test_an_accepted_finding_is_told_in_text_and_page(run: Run, saved: dict[str, Path], tmp_path: Path) -> None:
    """By whom, until when and why; it fails no gate."""
    accepts = tmp_path / "known.yaml"
    accepted = ("THP-010", "THP-012", "THP-016")
    accepts.write_text("".join(f"- rule: {rule}\n  reason: known since May\n" for rule in accepted))
    told = ("compare", saved["storm-thp-never"], saved["storm-always"], "--suppress", accepts)

    assert run(*told, "--fail-on", "high").code == 0
    for form in ("text", "html"):
        assert "known since May" in run(*told, "-f", form).out


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda text: text[: len(text) // 2] + '"thpdiag/result/1"', id="cut"),
        pytest.param(lambda text: text.replace('"measures": {', '"measures": [], "x": {', 1), id="list-for-map"),
        pytest.param(lambda _: '{"schema": "thpdiag/result/1", "verdict": 3}', id="no-verdict"),
        pytest.param(lambda _: '{"schema": "thpdiag/result/1", "cases": [1]}', id="no-case"),
    ],
)
def test_a_damaged_result_is_one_sentence(run: Run, saved: dict[str, Path], spoil: Any) -> None:
    """Exit 3 and a sentence on stderr; no traceback."""
    path = saved["storm-always"]
    path.write_text(spoil(path.read_text()))
    done = run("compare", path, saved["storm-thp-never"])

    assert done.code == 3
    assert "Traceback" not in done.err
    assert len(done.err.strip().split("\n")) == 1


def test_what_is_not_there_or_not_recognised_is_told(run: Run, saved: dict[str, Path], tmp_path: Path) -> None:
    """Exit 3, whichever side it is."""
    novel = tmp_path / "novel.txt"
    novel.write_text("It was a dark and stormy night.\n" * 40)

    assert run("compare", tmp_path / "absent", saved["page"]).code == 3
    assert run("compare", saved["page"], novel).code == 3


def test_the_least_documents_compare() -> None:
    """A result of which all keys are absent says nothing, and nothing is made of it."""
    comparison = document(LEAST, LEAST)
    texts = {name: render(comparison) for name, render in FORMATS.items()}

    assert comparison["hosts"][0]["answer"]["status"] == "cannot_tell"
    assert "Cannot compare: BEFORE is inconclusive" in " ".join(texts["text"].split())


def test_a_result_of_an_older_version_compares() -> None:
    """Without samples and spread of measures, those of the timeline count; CPU time of programs tells the load."""
    before, after = captured("alloc-churn"), captured("churn-never")
    for one in (before, after):
        one["host"]["measures"] = {
            name: {key: measure[key] for key in ("value", "unit", "window", "source")}
            for name, measure in one["host"]["measures"].items()
            if name.startswith(("cpu_ratio.sys", "node_vmstat_compact", "node_vmstat_thp"))
        }
    (host,) = document(before, after)["hosts"]

    assert host["load"]["word"] == "same"
    assert host["answer"]["status"] == "improved"  # the load is known by CPU time only


def _poisoned(value: Any) -> Any:
    """Every string of a document but those of our own enumerations made hostile."""
    if isinstance(value, dict):
        return {key: item if key in _KEPT else _poisoned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_poisoned(item) for item in value]
    return f"{value}{HOSTILE}" if isinstance(value, str) else value


_WORDS = """schema status severity confidence role outcome unit metric mechanism rule id kind clock panel window
families points measures state value to classes by"""
_KEPT = frozenset(re.findall(r"\w+", _WORDS))


def test_hostile_words_stay_words(tmp_path: Path) -> None:
    """Nothing of a customer's names is alive in the page, or acts on a terminal."""
    before, after = (_poisoned(captured(name)) for name in ("storm-always", "storm-thp-never"))
    comparison = document(before, after)
    page, text = FORMATS["html"](comparison), FORMATS["text"](comparison)

    assert re.findall(r"<(?:script|img)[^>]*>", page) == ['<script type="application/gzip+base64" id="result">']
    assert "\x1b" not in text + page
    assert "\u202e" not in text + page


def test_the_page_fetches_nothing_and_runs_nothing() -> None:
    """Its policy allows one style and no script."""
    page = FORMATS["html"](document(captured("storm-always"), captured("storm-thp-never")))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)

    assert policy is not None
    assert policy[1].startswith("default-src &#39;none&#39;; style-src &#39;sha256-")
    assert "script-src" not in policy[1]
    assert re.findall(r'(?:src|href)="(?!#)', page) == []
    assert " style=" not in page


def test_a_cut_bundle_compares_like_any(run: Run, tmp_path: Path) -> None:
    """AFTER without the counters and the recording: the command answers, and fixes nothing."""
    blind = tmp_path / "after"
    shutil.copytree(path_of("storm-thp-never", "after"), blind)
    for name in ("loops", "perf-script.txt", "proc/vmstat"):
        target = blind / name
        shutil.rmtree(target) if target.is_dir() else target.unlink()
    done = run("compare", path_of("storm-thp-never", "before"), blind)

    assert done.code == 0
    assert "FIXED" not in done.out
    assert "CANNOT TELL" in done.out
