"""The store of a batch: what was put in comes out, once, as it was; what is no store is refused in one sentence."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from small_results import ANALYSIS, content, document, result
from thpdiag.errors import StoreError
from thpdiag.store import schema as form
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import FINDING_FIELDS, Analysis, BundleResult, StoredResult, public_path, unread_key
from thpdiag.store.store import Store

OTHER = Analysis("1.1", ANALYSIS.rules_digest, ANALYSIS.options)
HOSTILE = (
    "", "'; DROP TABLE bundle; --", '"', "a\0b", "\x1b[2J", "line\r\nend", "\udc80name", "\ud83dx", "\U0001f600",
    "\u202egpj.exe", "=cmd|' /C calc'!A0", "</script><script>", "%s %d {}", "?1 :a @b $c", "NULL", "x" * 70_000,
)  # fmt: skip


def stored(folder: Path, *results: BundleResult, analysis: Analysis = ANALYSIS) -> Path:
    with Store.open(folder, analysis) as store:
        for one in results:
            store.add(one)
    return folder


def read(folder: Path) -> list[StoredResult]:
    with StoreReader.at(folder) as reading:
        reading.check()
        return list(reading.results())


def spoiled(folder: Path, statement: str) -> Path:
    """A store that somebody has changed."""
    file = stored(folder, result(0)) / form.DATABASE_NAME
    database = sqlite3.connect(file)
    database.execute(statement)
    database.commit()
    database.close()
    return file


def test_what_was_added_comes_back(tmp_path: Path) -> None:
    """Ten bundles, one of them killed: in the order in which they were added, with document and analysis."""
    results = [result(number) for number in range(10)]

    found = read(stored(tmp_path / "new" / "out", *results))

    assert [one.result for one in found] == results
    assert {(one.analysis.tool_version, one.analysis.options_text) for one in found} == {("1.0", '{"since":"03:00"}')}


def test_done_is_by_content_and_by_analysis(tmp_path: Path) -> None:
    """Another version, other rules or other options make it undone; the order of options does not."""
    options = {"a": 1, "b": [2]}
    stored(tmp_path, result(1), analysis=Analysis("1.0", "r", options))
    done = {}
    for name, analysis in {
        "same": Analysis("1.0", "r", {"b": [2], "a": 1}),
        "version": Analysis("1.1", "r", options),
        "rules": Analysis("1.0", "s", options),
        "options": Analysis("1.0", "r", {"a": 1}),
    }.items():
        with Store.open(tmp_path, analysis) as store:
            done[name] = (store.has_document(content(1), analysis), store.has_document(content(2), analysis))

    assert done == {
        "same": (True, None), "version": (None, None), "rules": (None, None), "options": (None, None),
    }  # fmt: skip


def test_adding_twice_changes_nothing(tmp_path: Path) -> None:
    """Neither in one run nor in the next; the first result stays. Another analysis has a result of its own."""
    with Store.open(tmp_path, ANALYSIS) as store:
        assert store.add(result(1))
        assert not store.add(replace(result(1), path="elsewhere", status="timeout", document=None))
    with Store.open(tmp_path, ANALYSIS) as store:
        assert not store.add(replace(result(1), document=document(2)))
    stored(tmp_path, replace(result(1), attempts=2), analysis=OTHER)

    with StoreReader.at(tmp_path) as reading:
        reading.check()
        assert [one.result for one in reading.results()] == [result(1), replace(result(1), attempts=2)]
        assert len(list(reading.result(content(1)))) == 2
        assert len(list(reading.hosts())) == 2
        assert len(list(reading.findings())) == 4


def test_hosts_and_findings_are_rows(tmp_path: Path) -> None:
    """Several hosts of one bundle have a row each, a killed bundle one without a host; assumed settings say so."""
    both = {**document(3), "cases": [document(3), document(4)]}
    stored(tmp_path, replace(result(3), document=both), result(9))

    with StoreReader.at(tmp_path) as reading:
        hosts, findings = list(reading.hosts()), list(reading.findings())
        assert reading.statuses() == {"ok": 1, "signal 9": 1}
        verdicts = [(row["mechanism"], row["hosts"]) for row in reading.verdicts()]

    assert [(row["bundle"], row["place"], row["host"], row["status"]) for row in hosts] == [
        (1, 0, "host3", "ok"), (1, 1, "host4", "ok"), (2, None, None, "signal 9"),
    ]  # fmt: skip
    assert hosts[0]["apps"] == ["redis", "java"]
    assert hosts[0]["settings"] == {"thp.enabled": {"value": "always", "provenance": "assumed"}}
    assert hosts[1]["measures"] == {"swap": {"value": 4 / 3, "unit": "bytes"}}
    assert [(row["place"], row["rule"]) for row in findings] == [
        (0, "THP-003"), (0, "THP-009"), (1, "THP-004"), (1, "THP-009"),
    ]  # fmt: skip
    assert verdicts == [("fault-compaction", 1), ("khugepaged-cpu", 1)]


def test_runs_tell_how_results_were_made(tmp_path: Path) -> None:
    """Each run in order, one that stored nothing too, with its version, rules, options and number of bundles."""
    stored(tmp_path, result(1), result(2))
    stored(tmp_path, result(2))
    stored(tmp_path, result(2), analysis=OTHER)

    with StoreReader.at(tmp_path) as reading:
        runs = list(reading.runs())

    assert [(run["tool_version"], run["bundles"]) for run in runs] == [("1.0", 2), ("1.0", 0), ("1.1", 1)]
    assert all(run["rules_digest"] == ANALYSIS.rules_digest and run["options"] == ANALYSIS.options for run in runs)
    assert all(run["begun"].startswith("20") for run in runs)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_strings_come_back_as_they_were(text: str, tmp_path: Path) -> None:
    """In every field: of bundle, analysis, document, host and finding."""
    finding = dict.fromkeys(FINDING_FIELDS, text)
    verdict = dict.fromkeys(("status", "rule", "mechanism", "severity", "confidence", "state", "sentence"), text)
    host = dict.fromkeys(("name", "os", "kernel", "era", "platform"), text)
    more = {"apps": [text], "settings": {text: {"value": text, "provenance": text}}, "measures": {text: {"value": 1}}}
    whole = {text: text, "case": text, "verdict": verdict, "findings": [finding], "host": host | more}
    one = BundleResult(text, text, 1, text, text, 1, whole)
    analysis = Analysis(text, text, {text: text})

    (found,) = read(stored(tmp_path, one, analysis=analysis))
    with StoreReader.at(tmp_path) as reading:
        (row,), (fired,) = reading.hosts(), reading.findings()

    assert (found.result, found.analysis) == (one, analysis)
    cells = {name for name, value in row.items() if value == text}
    assert {"path", "sha256", "status", "reason", "host", "case", "os", "kernel", "verdict", "sentence"} <= cells
    assert (row["apps"], row["settings"]) == ([text], more["settings"])
    assert {fired[name] for name in FINDING_FIELDS[:-1]} == {text}


@pytest.mark.parametrize(
    "odd",
    [
        {"cases": 5, "findings": {}, "host": [], "verdict": None},
        {"findings": [None, 1, {"rule": 7, "severity": ["high"]}], "host": {"apps": "x", "settings": [1], "name": 4}},
        {"host": {"measures": {"a": {"value": float("nan")}, "b": 3, "c": {"value": [1]}}}},
        {},
    ],
)  # fmt: skip
def test_a_document_of_another_form_is_kept(odd: dict[str, object], tmp_path: Path) -> None:
    """What the rows cannot have is left out of them; the bundle is stored."""
    with Store.open(tmp_path, ANALYSIS) as store:
        assert store.add(replace(result(1), document=odd))
        assert [row["verdict"] for row in store.hosts()] == [None]
        store.check()


def test_merging_shards(tmp_path: Path) -> None:
    """Two shards that share a bundle make what one run makes; merging again, or itself, adds nothing."""
    one = stored(tmp_path / "1", *map(result, range(0, 12)))
    two = stored(tmp_path / "2", *map(result, range(10, 450)))
    stored(two, result(3), analysis=OTHER)

    with Store.open(tmp_path / "all", ANALYSIS) as store:
        assert store.merge([one, two / form.DATABASE_NAME, two]) == 12 + 438 + 1
        store.check()
        assert [found.result for found in store.results()] == [*map(result, range(450)), result(3)]
        assert len(list(store.findings())) == 2 * (405 + 1)
        assert store.has_document(content(449), ANALYSIS) is False
        assert store.merge([tmp_path / "all"]) == 0


def test_merging_what_is_no_store(tmp_path: Path) -> None:
    """It is named, and the store is as it was."""
    (tmp_path / "no").write_text("no database, and longer than the head of one. " * 20)
    with Store.open(tmp_path / "all", ANALYSIS) as store:
        store.add(result(1))
        with pytest.raises(StoreError, match=r"no: the store is damaged|all.*file is not a database"):
            store.merge([tmp_path / "no"])
        assert store.add(result(2))
        store.check()


@pytest.mark.parametrize("action", ["read", "write"])
@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("PRAGMA user_version = 2", "later version of thpdiag (form 2; this one knows 1)"),
        ("PRAGMA application_id = 1", "no store of thpdiag"),
        ("DROP TABLE mark", ""),
    ],
)
def test_other_forms_are_refused(action: str, statement: str, told: str, tmp_path: Path) -> None:
    """A later form, and the database of another program, are named and not touched; what is this form is taken."""
    file = spoiled(tmp_path, statement)
    before = file.read_bytes()
    if not told:
        StoreReader.at(file).close()
        return

    with pytest.raises(StoreError) as refused:
        StoreReader.at(tmp_path) if action == "read" else Store.open(tmp_path, ANALYSIS)

    assert told in str(refused.value)
    assert refused.value.exit_code == 3
    assert file.read_bytes() == before


@pytest.mark.parametrize(("at", "data"), [(0, b"x" * 100), (4096, b"\xff" * 60_000)], ids=["head", "pages"])
def test_a_damaged_file_is_one_sentence(at: int, data: bytes, tmp_path: Path) -> None:
    """Neither a traceback nor results that were never stored."""
    file = stored(tmp_path, *map(result, range(50))) / form.DATABASE_NAME
    whole = bytearray(file.read_bytes())
    whole[at : at + len(data)] = data
    file.write_bytes(whole)

    with pytest.raises(StoreError, match=r"results\.sqlite: the store is damaged") as told:
        read(tmp_path)
    assert told.value.exit_code == 3
    with pytest.raises(StoreError, match="damaged"), Store.open(tmp_path, ANALYSIS) as store:
        store.check()


def test_a_damaged_document_is_named(tmp_path: Path) -> None:
    """Its bundle is told; the others can still be read."""
    file = spoiled(tmp_path, "UPDATE document SET packed = x'00112233'")

    with pytest.raises(StoreError, match=f"result of bundle {content(0)} is damaged"):
        read(file)


def test_there_is_no_store(tmp_path: Path) -> None:
    """Reading makes none."""
    with pytest.raises(StoreError, match="no such store"):
        StoreReader.at(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "roots", "told"),
    [
        ("/data/jan/a/b.tar.xz", ["/data/jan", "/data"], "jan/a/b.tar.xz"),
        ("/data/feb/b.tar.xz", ["/data/jan", "/data"], "data/feb/b.tar.xz"),
        ("/data/jan/b.tar.xz", ["/data/jan/b.tar.xz"], "b.tar.xz"),
        ("/elsewhere/b.tar.xz", ["/data"], "b.tar.xz"),
        ("../../home/me/b.tar.xz", [], "b.tar.xz"),
        ("nightly/b.tar.xz", ["nightly"], "nightly/b.tar.xz"),
        ("odd//name ", [], "odd//name "),
        ("s3://bucket/k/b.tar.xz", [], "s3://bucket/k/b.tar.xz"),
        ("https://me:secret@host/b.tar.xz?X-Signature=secret#part", [], "https://host/b.tar.xz"),
        ("HTTPS://host:8443/b.tar.xz#part?", [], "https://host:8443/b.tar.xz"),
        ("http://[::1]:80/b.tar.xz", [], "http://[::1]:80/b.tar.xz"),
        ("https://[broken/b.tar.xz", [], "https://[broken/b.tar.xz"),
        ("http://[::1/x/", [], "http://[::1/x/"),
        ("https://me:sec?ret@host/b.tar.xz", [], "https://_"),
        ("https://me:sec/ret@host/b.tar.xz", [], "https://_/host/b.tar.xz"),
        ("odd://host/b.tar.xz?sig=secret", [], "odd://host/b.tar.xz"),
        ("s3://bucket/c/nightly#5.tar", [], "s3://bucket/c/nightly#5.tar"),
        ("S3://bucket/c/nightly?5.tar", [], "s3://bucket/c/nightly?5.tar"),
        ("s3://bucket/b.tar?versionId=7", [], "s3://bucket/b.tar?versionId=7"),
        ("s3://me:sec/ret@bucket/b@c.tar", [], "s3://_/c.tar"),
        ("s3://me:secret@bucket/b@c.tar", [], "s3://bucket/b@c.tar"),
        ("s3://bucket/a\nb\x1b.tar", [], "s3://bucket/a\\nb\\x1b.tar"),
    ],
)
def test_paths_tell_nothing_of_the_machine(path: str, roots: list[str], told: str) -> None:
    """Relative to what the user named; addresses without secrets."""
    assert public_path(path, roots) == told


def test_an_absolute_path_is_not_stored(tmp_path: Path) -> None:
    """Whoever forgets to make it relative loses its folders, not the customer's trust."""
    (found,) = read(stored(tmp_path, replace(result(1), path="/home/me/b.tar.xz")))

    assert found.result.path == "b.tar.xz"


def test_an_attempt_without_a_document_is_replaced(tmp_path: Path) -> None:
    """By the next one, whatever it comes to, until there is a document; then that stays. The attempts are counted."""
    bad = BundleResult(content(1), "in/1.tar", 1, "timeout", "took too long", 2)
    good = result(1)
    stored(tmp_path, bad)
    with Store.open(tmp_path, ANALYSIS) as store:
        assert store.has_document(content(1), ANALYSIS) is False
        assert [store.add(bad), store.add(good), store.add(bad)] == [True, True, False]

    with StoreReader.at(tmp_path) as reading:
        assert reading.has_document(content(1), ANALYSIS) is True
        (found,) = reading.results()
        assert len(list(reading.findings())) == 2
    assert (found.result.status, found.result.attempts, found.result.document) == ("ok", 5, good.document)


def test_what_is_current_comes_in_the_order_of_paths(tmp_path: Path) -> None:
    """However the work was shared out, and without what a younger result of the same content replaces."""
    stored(tmp_path, *map(result, (3, 1, 2)))
    stored(tmp_path, result(2), analysis=OTHER)

    with StoreReader.at(tmp_path) as store:
        found = [(one.result.path, one.analysis.tool_version) for one in store.current()]

    assert found == [("in/1.tar", "1.0"), ("in/2.tar", "1.1"), ("in/3.tar", "1.0")]


def test_merging_replaces_an_attempt_without_a_document(tmp_path: Path) -> None:
    """By one that another shard has; never the other way round."""
    bad = BundleResult(content(1), "in/1.tar", 1, "timeout", "took too long")
    stored(tmp_path / "a", bad, result(2))
    stored(tmp_path / "b", result(1), BundleResult(content(2), "in/2.tar", 2, "timeout", "took too long"))
    with Store.open(tmp_path / "a", ANALYSIS) as store:
        assert store.merge([tmp_path / "b", tmp_path / "b"]) == 1
        store.check()

    assert {one.result.path: one.result.status for one in read(tmp_path / "a")} == {"in/1.tar": "ok", "in/2.tar": "ok"}


def test_merging_drops_what_another_shard_could_read(tmp_path: Path) -> None:
    """A bundle that was not readable for one is no failure of the batch, whichever comes first; others stay."""
    bad, other = (BundleResult(unread_key(path), path, 1, "refused", "no access") for path in ("in/1.tar", "in/9.tar"))
    stored(tmp_path / "a", bad, other)
    stored(tmp_path / "b", result(1))
    for name, shards in (("ab", "ab"), ("ba", "ba")):
        with Store.open(tmp_path / name, ANALYSIS) as store:
            store.merge(tmp_path / shard for shard in shards)
            store.check()
        found = {one.result.path: one.result.status for one in read(tmp_path / name)}
        assert found == {"in/1.tar": "ok", "in/9.tar": "refused"}


def test_a_walk_that_ends_after_its_store_was_closed_is_silent(tmp_path: Path) -> None:
    """An interrupt leaves walks behind, which are taken away when the store is closed already."""
    stored(tmp_path, *map(result, range(3)))
    with StoreReader.at(tmp_path) as store:
        walk = store.fleet()
        next(walk)

    del walk
