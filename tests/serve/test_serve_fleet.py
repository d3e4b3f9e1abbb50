"""The fleet over all cases: which hosts it has, what is made of them in a child, and when that is made again."""

from __future__ import annotations

import csv
import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from serve_application import Whole, served
from serve_storage_fixtures import Hands, cased
from small_results import document
from thpdiag.fleet.page import page_script, page_style
from thpdiag.report.html import policy_for
from thpdiag.sandbox.outcome import Allowed, Status
from thpdiag.sandbox.preload import run_in_child_of_worker
from thpdiag.serve.access.principals import Mode
from thpdiag.serve.fleet import CHILD_LIMITS, FleetCache
from thpdiag.serve.fleet_files import (
    DOWNLOAD_FILES,
    PAGE_FILE,
    SPOOL_FILE,
    FleetCase,
    NamedHost,
    case_state,
    fleet_cases,
    has_all_cases,
    latest_hosts,
    make_fleet,
    read_hosts,
    read_spool,
    write_spool,
)
from thpdiag.serve.storage.storage import Storage

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\udcff"
LONG = 120.0  # seconds that a child may take on a busy machine


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder in which a fleet is made."""
    folder = tmp_path / "made"
    folder.mkdir()
    return folder


def named(number: int, host: str, **more: Any) -> dict[str, Any]:
    """A result of a host of this name."""
    one = document(number)
    return {**one, "case": host, "host": {**one["host"], "name": host}, **more}


def places(*rows: tuple[int, int, str, str | None, str | None]) -> set[tuple[int, int]]:
    return latest_hosts(
        NamedHost((case, place), content, name, recorded) for case, place, content, name, recorded in rows
    )


def fleet_of(storage: Storage) -> list[FleetCase]:
    return list(fleet_cases(storage.engine, case_state(storage.engine)))


def test_of_each_host_the_latest_case_counts() -> None:
    """By when its data was, if that is known of all on one clock; else by when the case was made."""
    early, late, local = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", "2026-01-15T00:00:00"
    assert places((1, 0, "a", "web", late), (2, 0, "b", "web", early)) == {(1, 0)}
    assert places((1, 0, "a", "web", late), (2, 0, "b", "web", None)) == {(2, 0)}
    assert places((1, 0, "a", "web", late), (2, 0, "b", "web", local)) == {(2, 0)}
    assert places((1, 0, "a", "web", early), (2, 0, "b", "web", early)) == {(2, 0)}
    assert places((1, 0, "a", "web", early), (1, 1, "a", "db", early), (2, 0, "b", "db", late)) == {(1, 0), (2, 0)}


def test_names_that_say_nothing_join_no_hosts() -> None:
    """None at all, one that installers give, one that two hosts of a bundle have."""
    assert places((1, 0, "a", None, None), (2, 0, "b", None, None)) == {(1, 0), (2, 0)}
    assert places((1, 0, "a", "localhost", None), (2, 0, "b", "localhost", None)) == {(1, 0), (2, 0)}
    assert places((1, 0, "a", "x", None), (1, 1, "a", "x", None), (2, 0, "b", "x", None)) == {(1, 0), (1, 1), (2, 0)}


def test_a_content_that_was_analysed_again_counts_once() -> None:
    """By its last case, also if its hosts have no names, or fewer of them are found now."""
    assert places((1, 0, "a", None, None), (2, 0, "a", None, None)) == {(2, 0)}
    assert places((1, 0, "a", "web", None), (1, 1, "a", "db", None), (2, 0, "a", "web", None)) == {(2, 0)}


def test_rows_come_from_the_database_as_they_were_stored(storage: Storage, data: Path) -> None:
    """Hosts with their findings, by a file that the child reads; nothing of those that a later case replaces."""
    cased(storage, 1, named(1, "web"))
    cased(storage, 2, {**named(2, "db"), "cases": [named(2, "db"), named(3, "cache")]})
    cased(storage, 4, named(4, "web"))
    found = fleet_of(storage)
    write_spool(data / SPOOL_FILE, found)

    assert [part.result.path for part in found] == ["2.tar", "4.tar"]
    assert [len(part.result.hosts) for part in found] == [2, 1]
    assert [cells[0] for part in found for cells, _ in part.result.hosts] == ["db", "cache", "web"]
    assert {len(findings) for part in found for _, findings in part.result.hosts} == {2}
    assert list(read_spool(data / SPOOL_FILE)) == found


def test_the_last_cases_are_taken_if_there_are_too_many(storage: Storage) -> None:
    """As many as are asked for."""
    for number in range(5):
        cased(storage, number, named(number, f"h{number}"))

    assert [part.result.path for part in fleet_cases(storage.engine, case_state(storage.engine), 2)] == [
        "3.tar",
        "4.tar",
    ]


def test_a_state_changes_with_every_case(storage: Storage) -> None:
    """One that comes, one that goes, and one in place of another, whose number a database may give again."""
    seen = [case_state(storage.engine)]
    first = cased(storage, 1, named(1, "a"))
    seen.append(case_state(storage.engine))
    second = cased(storage, 2, named(2, "b"))
    seen.append(case_state(storage.engine))
    storage.removal.delete_case(second)
    assert case_state(storage.engine) == seen[1]
    cased(storage, 3, named(3, "c"))
    seen.append(case_state(storage.engine))

    assert len(set(seen)) == 4
    assert [has_all_cases(storage.engine, then) for then in seen] == [True, True, False, True]
    storage.removal.delete_case(first)
    assert has_all_cases(storage.engine, seen[1]) is False


def test_what_is_made_has_every_host_and_nothing_of_a_stranger(storage: Storage, data: Path) -> None:
    """The page shows names as text and links nowhere; files and list lead to cases."""
    keys = {name: cased(storage, number, named(number, name)) for number, name in enumerate(("a", HOSTILE, "c"))}
    write_spool(data / SPOOL_FILE, fleet_of(storage))
    made = make_fleet(data)
    page = (data / PAGE_FILE).read_text("utf-8")
    rows = list(csv.DictReader(StringIO((data / DOWNLOAD_FILES["csv"]).read_text("utf-8"))))
    told = json.loads((data / DOWNLOAD_FILES["json"]).read_text("utf-8"))

    assert made.content == b"3"
    assert sorted(file.name for file in data.iterdir()) == sorted([PAGE_FILE, "hosts.jsonl", *DOWNLOAD_FILES.values()])
    assert "<img src=x" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;\\u202e" in page
    assert "/cases/" not in page
    assert (
        policy_for(page_style(), page_script()).replace("'", "&#39;") in page
        or policy_for(page_style(), page_script()) in page
    )
    assert {row["page"] for row in rows} == {f"/cases/{key}" for key in keys.values()}
    assert {host["page"] for host in told["hosts"]} == {f"/cases/{key}" for key in keys.values()}
    listed = {host.label: host.page for host in read_hosts(data)}
    assert (listed["a"], listed["c"], len(listed)) == (f"/cases/{keys['a']}", f"/cases/{keys['c']}", 3)


def test_what_is_sorted_in_the_child_needs_no_other_folder(storage: Storage, data: Path) -> None:
    """SQLite puts what it sorts beyond some megabytes into a file, for which the child has no folder but its own."""
    for number in range(5):
        cased(storage, number, named(number, f"h{number}"))
    long = [replace(one, result=replace(one.result, path=one.id * 32_000)) for one in fleet_of(storage)]
    write_spool(data / SPOOL_FILE, long)

    outcome = run_in_child_of_worker(partial(make_fleet, data), CHILD_LIMITS, Allowed(scratch=data))

    assert outcome.detail == ""
    assert (outcome.status, outcome.content) == (Status.OK, b"5")


def test_it_is_made_once_and_again_with_another_case(storage: Storage, hands: Hands) -> None:
    """In a child; what was made before is shown in the meantime, and goes with any of its cases."""
    kept = FleetCache(storage, hands)
    assert kept.view(LONG).made is None
    first = cased(storage, 1, named(1, "a"))
    made = kept.view(LONG).made
    assert made
    stamp = (made.folder / PAGE_FILE).stat().st_mtime_ns
    assert (made.hosts, made.current) == (1, True)
    assert kept.view(LONG).made == made
    assert (made.folder / PAGE_FILE).stat().st_mtime_ns == stamp

    cased(storage, 2, named(2, "b"))
    before = kept.view(0).made
    assert before
    assert (before.folder, before.current) == (made.folder, False)
    kept.wait()
    after = kept.view(0).made
    assert after
    assert (after.hosts, after.current, made.folder.exists()) == (2, True, False)

    storage.removal.delete_case(first)
    assert list(storage.folder.glob("fleet/*/page.html")) == []
    assert kept.view(0).made is None
    kept.wait()


def test_what_cannot_be_made_is_said_and_tried_again_later(storage: Storage, hands: Hands) -> None:
    """Not at once, so that a look costs nothing; it is no reason to fail."""
    cased(storage, 1, named(1, "a"))
    (storage.folder / "fleet").write_text("in the way")
    kept = FleetCache(storage, hands)
    assert kept.view(LONG).mistake == 'the fleet could not be built: the data folder answers "File exists"'
    (storage.folder / "fleet").unlink()
    assert kept.view(LONG).mistake != ""
    hands.now += 61
    look = kept.view(LONG)

    assert look.mistake == ""
    assert look.made


def test_attempts_that_fail_become_rare_and_are_logged(
    storage: Storage, hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    """Each has a line of its begin and one of its end; the page says until when none is made, whatever cases come."""
    cased(storage, 1, named(1, "a"))
    (storage.folder / "fleet").write_text("in the way")
    kept, waits = FleetCache(storage, hands), []
    with caplog.at_level(logging.INFO, "thpdiag.serve.fleet"):
        for number in range(2, 10):
            until = kept.view(LONG).until
            assert until
            cased(storage, number, named(number, f"h{number}"))
            hands.now = until - 1
            assert kept.view(LONG).until == until
            waits.append(until)
            hands.now = until

    assert [round(after - before) for before, after in pairwise(waits)] == [120, 240, 480, 960, 1920, 3600, 3600]
    assert len([one for one in caplog.messages if "is being built" in one]) == 8
    assert len([one for one in caplog.messages if "could not be built" in one]) == 8


def test_a_fleet_that_takes_long_says_until_when(asked: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list, the page and the files; it ends in the log."""
    go_on = threading.Event()
    monkeypatch.setattr("thpdiag.serve.fleet.write_spool", lambda *_: go_on.wait(LONG) and {}["x"])
    monkeypatch.setattr("thpdiag.serve.pages.fleet.WAIT_SECONDS", 0)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    asked.uploaded(b"1", "1.tar")
    asked.done(asked.claimed(), named(1, "web"))

    pages = [asked.ask("GET", path) for path in ("/fleet", "/fleet/page", "/fleet/fleet.csv")]
    go_on.set()
    asked.server.fleet.wait()
    failed = asked.ask("GET", "/fleet/page")

    assert [page.status for page in pages] == [200, 503, 503]
    assert all("since 2027-01-15 08:00 UTC" in page.body.decode() for page in pages)
    assert all("by 2027-01-15 08:15 UTC" in page.body.decode() for page in pages)
    assert "The next attempt is not before 2027-01-15 08:01 UTC" in failed.body.decode()


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Whole]:
    """A server with a fleet that was made."""
    with served(tmp_path) as made:
        yield made


def test_the_pages_of_a_fleet(asked: Whole) -> None:
    """The list with links, the page in its frame under its policy, the files by a real server and written down."""
    assert "There are no cases yet" in asked.ask("GET", "/fleet").body.decode()
    assert asked.ask("GET", "/fleet/page").status == 503
    keys = []
    for number in range(3):
        asked.uploaded(f"{number}".encode(), f"{number}.tar")
        keys.append(asked.done(asked.claimed(), named(number, f"web{number}")))
    kept = FleetCache(asked.storage, asked.hands)
    assert kept.view(LONG).made
    page = asked.ask("GET", "/fleet").body.decode()
    some = asked.ask("GET", "/fleet?q=WEB1&result=high").body.decode()
    none = asked.ask("GET", "/fleet?result=nothing_found").body.decode()
    frame = asked.ask("GET", "/fleet/page")

    assert all(f'href="/cases/{key}"' in page for key in keys)
    assert 'sandbox="allow-scripts"' in page
    assert [f'href="/cases/{key}"' in some for key in keys] == [False, True, False]
    assert "No host matches" in none
    assert frame.headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none'; ")
    with asked.listening() as url, urlopen(f"{url}/fleet/fleet.csv") as answer:
        assert answer.headers["content-disposition"].startswith("attachment")
        assert len(answer.read().splitlines()) == 4
    assert asked.audited()[0] == ("download", "done", "fleet.csv")


def test_a_fleet_is_for_readers(tmp_path: Path) -> None:
    """All of it."""
    with served(tmp_path, Mode.TOKENS) as locked:
        token = locked.token("upload")
        for address in ("/fleet", "/fleet/page", "/fleet/fleet.csv", "/fleet/fleet.json"):
            assert locked.ask("GET", address, token).status == 403
            assert locked.ask("GET", address).status == 401


def test_a_mistake_of_ours_is_told_in_place_of_waiting(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says that the log has it, and the thread gives it to the log."""
    logged: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", logged.append)
    monkeypatch.setattr("thpdiag.serve.fleet.write_spool", lambda *_: {}["secret"])
    cased(storage, 1, named(1, "web"))

    look = FleetCache(storage, storage.clock).view(LONG)

    assert (look.made, look.waits) == (None, False)
    assert look.mistake.endswith("see the server log")
    assert [one.exc_type for one in logged] == [KeyError]


def test_the_page_says_where_its_results_are(storage: Storage, data: Path) -> None:
    """No file of a batch, and no run of one: they were never there."""
    cased(storage, 1, named(1, "web"))
    write_spool(data / SPOOL_FILE, fleet_of(storage))
    make_fleet(data)

    page = (data / PAGE_FILE).read_text(encoding="utf-8")

    assert "its results are in the database of the server that made it" in page
    assert "results.sqlite" not in page
    assert "<dt>Begun</dt>" not in page
