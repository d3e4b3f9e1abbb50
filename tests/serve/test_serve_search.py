"""Search over findings, hosts and notes, on both databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from serve_application import BEFORE, served
from serve_storage_fixtures import ANALYSIS, Opened, cased, done, sent
from small_results import document
from thpdiag.serve.storage.cases import CaseFilter
from thpdiag.serve.storage.database import word, write_transaction
from thpdiag.serve.storage.storage import Storage
from thpdiag.serve.storage.work import MAX_WORDS, words_in


def with_words(number: int, name: str, title: str, text: str) -> dict[str, Any]:
    made = document(number)
    found = {"rule": "THP-010", "mechanism": "fault-compaction", "title": title, "evidence": [{"text": text}]}
    return {**made, "host": {**made["host"], "name": name}, "findings": [found]}


def found(storage: Storage, words: str) -> list[str]:
    question = CaseFilter(words=words)
    cases = storage.cases.page(question)
    assert storage.cases.count(question) == len(cases)
    assert storage.cases.size(question) == (len(cases), False)
    return [case.id for case in cases]


def test_cases_are_found_by_their_words(storage: Storage) -> None:
    """Beginnings of words of names, titles and evidence, all of them, in capitals or not."""
    db = cased(storage, 1, with_words(1, "db-7.example.org", "Page faults compact memory", "compact_stall 2,087/s"))
    web = cased(storage, 2, with_words(2, "web-1.example.org", "khugepaged takes CPU time", "Größe ÄNDERT sich"))

    assert found(storage, "compact_st") == [db]
    assert found(storage, "DB-7") == [db]
    assert found(storage, "example.org") == [web, db]
    assert found(storage, "example faults") == [db]
    assert found(storage, "thp-010 web") == [web]
    assert found(storage, "größe ändert") == [web]
    assert db in found(storage, "7")  # the other one's id may begin so, too
    assert found(storage, "nowhere") == []
    assert found(storage, "%") == [web, db]
    assert found(storage, db[:8]) == [db]


def test_notes_and_tickets_are_found(storage: Storage) -> None:
    """As long as they are there; they go with their case."""
    key = cased(storage, 1)
    note = storage.work.add_note(1, "anna", "token:1", "customer says **cronjob** at noon")
    storage.work.set(1, "new", "Bert", "https://tickets.example.org/THP-7")

    assert [found(storage, text) for text in ("cronj", "bert", "thp-7", "noon tickets")] == [[key]] * 4
    assert storage.work.delete_note(1, note, None)
    assert found(storage, "cronjob") == []
    assert found(storage, "bert") == [key]
    storage.removal.delete_case(key)
    with write_transaction(storage.engine) as connection:
        assert connection.execute(word.select()).all() == []


def test_words_are_those_of_the_latest_version(storage: Storage) -> None:
    """Those of an older one count again once the newer is deleted."""
    first = cased(storage, 1, with_words(1, "alpha", "x", "y"))
    storage.accept_together([sent(storage, 2)], ANALYSIS, first)
    claim = storage.jobs.claim()
    assert claim is not None
    second = done(storage, claim, with_words(2, "beta", "x", "y"))

    assert (found(storage, "alpha"), found(storage, "beta")) == ([], [second])
    storage.removal.delete_case(second)
    assert (found(storage, "alpha"), found(storage, "beta")) == ([first], [])


def test_cases_of_an_earlier_version_are_found_after_a_start(opened: Opened) -> None:
    """Their words are written down when the server begins."""
    storage = opened()
    key = cased(storage, 1, with_words(1, "alpha", "x", "y"))
    with write_transaction(storage.engine) as connection:
        connection.execute(word.delete())
    assert found(storage, "alpha") == []
    storage.resume(ANALYSIS)
    assert found(storage, "alpha") == [key]


@pytest.mark.parametrize("text", ["", "\x00\ud800", "x" * 100_000, "-._" * 50, "a\u202eb"])
def test_any_text_has_words(storage: Storage, text: str) -> None:
    """Of bounded number and length, whatever a customer's host is called."""
    cased(storage, 1, with_words(1, text or "x", text, text))
    found(storage, text)
    assert len(words_in(f"w{n}" for n in range(5_000))) == MAX_WORDS


def test_a_search_that_finds_very_many_is_not_counted_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page and API say that there are more; a list without words is counted whole."""
    monkeypatch.setattr("thpdiag.serve.storage.cases.MAX_COUNTED", 1)
    with served(tmp_path) as whole:
        cased(whole.storage, 1)
        cased(whole.storage, 2)
        queries = ("?q=demo", "?q=host1", "")
        pages = [whole.ask("GET", f"/cases{query}").body.decode() for query in queries]
        told = [whole.ask("GET", f"/api/v1/cases{query}").told for query in queries]

    counted = [page.rpartition('<p class="small">')[2].partition(",")[0] for page in pages]
    assert counted == ["more than 1 case", "1 case", "2 cases"]
    assert [(one["total"], one["more"]) for one in told] == [(1, True), (1, False), (2, False)]


def test_the_page_and_the_api_search(tmp_path: Path) -> None:
    """By words, state and owner; what was asked for is in the form again."""
    with served(tmp_path) as whole:
        key = whole.completed(BEFORE)
        page = whole.ask("GET", "/cases?q=page+faults").body.decode()
        assert f"/cases/{key}" in page
        assert 'value="page faults"' in page
        assert f"/cases/{key}" not in whole.ask("GET", "/cases?q=nothing+like+it").body.decode()
        assert whole.ask("GET", "/api/v1/cases?q=faults&state=new").told["total"] == 1
        assert whole.ask("GET", "/api/v1/cases?q=faults&state=solved").told["total"] == 0
        assert whole.ask("GET", "/api/v1/cases?q=faults&assignee=anna").told["total"] == 0
