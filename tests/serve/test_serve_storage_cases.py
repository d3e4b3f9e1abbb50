"""Cases: whole documents, and lists by host, verdict, mechanism, rule and time; the same on both databases."""

from __future__ import annotations

from typing import Any

import pytest

from serve_storage_fixtures import ANALYSIS, OTHER, Hands, accepted, cased, digest, done, sent
from small_results import document
from thpdiag.serve.storage.cases import CaseFilter
from thpdiag.serve.storage.storage import Storage

HOSTILE = "host-\x00-\udc80-<script>-'\";--%_\\-é-" + "x" * 10_000


def host(number: int, **verdict: Any) -> dict[str, Any]:
    """One host's part of a document of several."""
    whole = document(number)
    return {**whole, "verdict": {**whole["verdict"], **verdict}}


def test_a_document_comes_back_as_it_was(storage: Storage) -> None:
    """With every string of a stranger, whatever the columns can hold of it."""
    whole = {**document(1), "case": HOSTILE, "host": {"name": HOSTILE}}

    key = cased(storage, 1, whole)

    assert storage.cases.document(key) == whole
    found = storage.cases.find(key)
    assert found is not None
    assert found.host is not None
    assert found.host.startswith("host-\\x00-\\udc80-<script>")
    assert len(found.host) == 255
    assert found.title is not None
    assert len(found.title) > 10_000
    assert storage.cases.count(CaseFilter(same_host=HOSTILE)) == 1
    assert storage.cases.count(CaseFilter(host="\\UDC80-<SCRIPT>-'\";--%_\\")) == 1


def test_a_list_tells_the_leading_verdict(storage: Storage, hands: Hands) -> None:
    """What a list shows stands in columns: nobody unpacks documents for it."""
    key = cased(storage, 3)

    found = storage.cases.find(key)

    assert found is not None
    assert (found.host, found.kernel, found.verdict, found.rule, found.mechanism, found.severity) == (
        "host3", "5.3.0", "found", "THP-003", "fault-compaction", "high",
    )  # fmt: skip
    assert (found.name, found.status, found.made, found.kept) == ("3.tar", "ok", hands.now, False)
    assert (found.tool_version, found.rules_digest, found.options) == ("1.0", "0123456789abcdef", '{"since":"03:00"}')
    assert (found.undecided, found.recorded, found.confidence) == (None, None, None)


def test_an_id_tells_nothing_of_the_next(storage: Storage) -> None:
    """128 random bits each: neither numbers nor times."""
    keys = [cased(storage, number) for number in range(3)]

    assert {len(key) for key in keys} == {32}
    assert len({key[:4] for key in keys} | {key[-4:] for key in keys}) == 6


def test_pages_follow_each_other(storage: Storage) -> None:
    """The latest first; what comes meanwhile shifts nothing."""
    keys = [cased(storage, number) for number in range(5)]

    first = storage.cases.page(CaseFilter(), limit=2)
    cased(storage, 5)
    second = storage.cases.page(CaseFilter(), below=first[-1].number, limit=2)
    third = storage.cases.page(CaseFilter(), below=second[-1].number, limit=2)

    assert [case.id for case in (*first, *second, *third)] == keys[::-1]
    assert storage.cases.count(CaseFilter()) == 6


QUESTIONS = (
    (CaseFilter(host="HOST1"), {1}),
    (CaseFilter(host="ost"), {0, 1, 2, 3, 4}),
    (CaseFilter(host="%"), set()),
    (CaseFilter(host="host_"), set()),
    (CaseFilter(host="É"), set()),
    (CaseFilter(same_host="host1"), {1}),
    (CaseFilter(same_host="host"), set()),
    (CaseFilter(mechanism="fault-compaction"), {0, 3}),
    (CaseFilter(mechanism="Fault-Compaction"), set()),
    (CaseFilter(verdict="found"), {0, 1, 2, 3, 4}),
    (CaseFilter(verdict="nothing_found"), set()),
    (CaseFilter(rule="THP-002"), {2}),
    (CaseFilter(rule="THP-009", mechanism="swap-storm"), {2}),
    (CaseFilter(sha256=digest(4)), {4}),
    (CaseFilter(since=1_800_000_003.0), {3, 4}),
    (CaseFilter(until=1_800_000_003.0), {0, 1, 2}),
    (CaseFilter(since=1_800_000_001.0, until=1_800_000_003.0, host="2"), {2}),
    (CaseFilter(host="x" * 100_000), set()),
    (CaseFilter(rule='\'; DROP TABLE "case"; --'), set()),
)


def test_cases_are_found(storage: Storage, hands: Hands) -> None:
    """Each question has one answer, whichever database is asked; a wildcard is a letter like others."""
    for number in range(5):
        cased(storage, number)
        hands.now += 1

    for question, found in QUESTIONS:
        page = storage.cases.page(question)

        assert {case.host for case in page} == {f"host{number}" for number in found}, question
        assert storage.cases.count(question) == len(found), question


def test_only_ascii_has_capitals(storage: Storage) -> None:
    """Whatever language the server speaks."""
    cased(storage, 1, {**document(1), "host": {"name": "Éa-I"}})

    assert [storage.cases.count(CaseFilter(host=part)) for part in ("ÉA", "éa", "Éa-i", "-ı")] == [1, 0, 1, 0]


def test_a_case_is_found_by_any_of_its_hosts(storage: Storage) -> None:
    """All that is asked must hold of one of them; the list shows the one that leads."""
    calm = host(1, status="nothing_found", mechanism=None, rule=None)
    cased(storage, 1, {"schema": "thpdiag/result/1", "cases": [host(3), {**calm, "findings": []}]})

    def found(question: CaseFilter) -> list[str | None]:
        return [case.host for case in storage.cases.page(question)]

    assert found(CaseFilter(host="host1")) == ["host3"]
    assert found(CaseFilter(host="host1", verdict="nothing_found")) == ["host3"]
    assert found(CaseFilter(host="host1", verdict="found")) == []
    assert found(CaseFilter(host="host3", rule="THP-003")) == ["host3"]
    assert found(CaseFilter(host="host1", rule="THP-003")) == []


def test_the_same_analysis_has_one_case(storage: Storage) -> None:
    """Of two results of the same content the first stays; a later version of thpdiag makes a case of its own."""
    key = cased(storage, 1)
    newer = cased(storage, 1, document(2), OTHER)
    storage.jobs.claim()

    assert newer != key
    assert storage.cases.document(key) == document(1)
    assert storage.cases.document(newer) == document(2)
    assert [case.id for case, _ in storage.cases.documents()] == [key, newer]


def test_two_jobs_of_one_analysis_come_to_one_case(storage: Storage) -> None:
    """A job whose rules were changed on the way may find its case made: it is done with that."""
    accepted(storage, 1)
    claim = storage.jobs.claim()
    assert claim is not None
    accepted(storage, 1, ANALYSIS)
    storage.jobs.requeue(claim)
    first = storage.jobs.claim()
    assert first is not None
    key = done(storage, first, document(1))
    storage.accept(sent(storage, 1), OTHER)
    second = storage.jobs.claim()
    assert second is not None

    assert done(storage, second, document(1)) == key


def test_documents_come_in_their_order(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, a portion at a time."""
    monkeypatch.setattr("thpdiag.serve.storage.cases.CASES_PER_QUERY", 2)
    for number in range(5):
        cased(storage, number)

    found = list(storage.cases.documents())

    assert [whole for _, whole in found] == [document(number) for number in range(5)]
    assert [case.host for case, _ in found] == [f"host{number}" for number in range(5)]


def test_a_document_of_no_form_is_a_case_all_the_same(storage: Storage) -> None:
    """What a child process makes of hostile input may be anything; the page shows what is there."""
    whole: dict[str, Any] = {"host": ["?"], "verdict": 7, "findings": {"a": 1}, "cases": "none"}

    key = cased(storage, 1, whole)

    assert storage.cases.document(key) == whole
    found = storage.cases.find(key)
    assert found is not None
    assert (found.host, found.verdict) == (None, None)
