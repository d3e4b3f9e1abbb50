"""A case of several files: one bundle of many, by whatever way they came; added to, taken apart, kept and removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect

from serve_application import Whole, archive, served
from serve_storage_fixtures import ANALYSIS, OTHER, Hands, Opened, content, digest, done, sent
from small_results import document
from thpdiag.serve.access.principals import Mode
from thpdiag.serve.storage.backup import check
from thpdiag.serve.storage.bundles import Part, distinct_parts, manifest_digest, read_manifest
from thpdiag.serve.storage.cases import CaseFilter
from thpdiag.serve.storage.database import DAY, TABLES, write_transaction
from thpdiag.serve.storage.retention import Terms
from thpdiag.serve.storage.storage import Storage
from thpdiag.serve.storage.uploads import FilesGoneError, GoneError
from upload_requests import Sending, sending

KIND = "multipart/form-data; boundary=b0undary"
END = b"--b0undary--\r\n"


def together(storage: Storage, *numbers: int, case: str = "", name: str = "") -> tuple[str, str]:
    """The job of uploads that are judged together, and the digest of what it is about."""
    accepted = storage.accept_together([sent(storage, one, name=name) for one in numbers], ANALYSIS, case)
    return accepted.job, accepted.sha256


def judged(storage: Storage, *numbers: int, case: str = "") -> str:
    """The id of the case of uploads that were judged together."""
    together(storage, *numbers, case=case)
    claim = storage.jobs.claim()
    assert claim is not None
    return done(storage, claim, document(numbers[0]))


def test_the_same_files_are_one_bundle_in_any_order(storage: Storage) -> None:
    """By content: a second time there is no second job, and each file is stored once."""
    first, second = together(storage, 1, 2), together(storage, 2, 1)

    assert first == second
    assert storage.jobs.counts() == {"queued": 1}
    assert [one.sha256 for one in storage.bundles.parts(first[1])] == [digest(1), digest(2)]
    assert [known.size for _, known in storage.bundles.files(first[1])] == [1_000, 1_000]
    job = storage.jobs.find(first[0])
    assert job is not None
    assert job.name == "1.tar and 1 more"


def test_one_file_alone_is_no_set(storage: Storage) -> None:
    """Nor are two of the same content: it is the bundle that it would be anyway."""
    assert together(storage, 1)[1] == digest(1)
    assert together(storage, 1, 1)[1] == digest(1)
    assert storage.bundles.parts(digest(1)) == ()


def test_names_tell_files_apart() -> None:
    """Two of one name, in capitals or not, get a number before the ending; the order does not matter."""
    parts = [Part("2" * 64, "SAR.txt"), Part("1" * 64, "sar.txt"), Part("3" * 64, "sar.txt"), Part("1" * 64, "again")]
    names = [one.name for one in distinct_parts(parts)]

    assert names == ["SAR.txt", "sar-2.txt", "sar-3.txt"]
    assert distinct_parts(parts[:3]) == distinct_parts(parts[2::-1])
    assert manifest_digest(distinct_parts(parts)) != manifest_digest(distinct_parts(parts[:2]))


def test_a_file_that_comes_later_makes_a_new_version(storage: Storage) -> None:
    """Of the same case: lists have the latest; the version before is still there, and comes back if that is deleted."""
    first = judged(storage, 1)
    storage.cases.set_kept(first, kept=True)
    second = judged(storage, 2, case=first)
    old, new = storage.cases.find(first), storage.cases.find(second)

    assert old is not None
    assert new is not None
    assert (old.superseded, new.superseded, new.thread, new.kept) == (True, False, old.thread, True)
    assert [case.id for case in storage.cases.page(CaseFilter())] == [second]
    assert {case.id for case in storage.cases.page(CaseFilter(thread=old.thread))} == {first, second}
    assert storage.cases.count(CaseFilter(versions=True)) == 2
    assert storage.removal.delete_case(second)
    assert [case.id for case in storage.cases.page(CaseFilter())] == [first]
    assert storage.content.has(digest(1))
    assert not storage.content.has(digest(2))


def test_a_set_goes_with_its_files(storage: Storage) -> None:
    """With its last case; a file that another case is of stays."""
    alone, both = judged(storage, 1), judged(storage, 1, 2)
    known = storage.cases.find(both)
    assert known is not None

    assert storage.removal.delete_case(both)
    assert (storage.content.has(known.sha256), storage.content.has(digest(1))) == (False, True)
    assert not storage.content.has(digest(2))
    assert storage.removal.delete_case(alone)
    assert list(storage.content.files()) == []
    assert storage.bundles.total() == 0


def test_retention_treats_a_set_as_one(storage: Storage, hands: Hands) -> None:
    """While it waits to be judged and while its case is kept its files stay; then they go, and nothing can be added."""
    together(storage, 1, 2)
    hands.now += 15 * DAY
    assert storage.retention.prune(Terms()).bundles == 0
    claim = storage.jobs.claim()
    assert claim is not None
    key = done(storage, claim, document(1))
    storage.cases.set_kept(key, kept=True)
    assert storage.retention.prune(Terms()).bundles == 0
    storage.cases.set_kept(key, kept=False)
    assert storage.retention.prune(Terms()).bundles == 3
    assert list(storage.content.files()) == []

    with pytest.raises(FilesGoneError):
        together(storage, 3, case=key)


def test_a_set_whose_file_is_gone_says_so(opened: Opened) -> None:
    """The next start marks it, and its analysis fails with that reason."""
    storage = opened()
    job, _ = together(storage, 1, 2)
    storage.content.remove(digest(2))
    storage.resume(ANALYSIS)

    found = storage.jobs.find(job)
    assert found is not None
    assert (found.state, found.status) == ("failed", "gone")


def test_a_held_upload_waits_for_others(storage: Storage, hands: Hands) -> None:
    """It is no bundle, outlives a restart as what it is, and goes if nobody says what it is judged with."""
    key = storage.uploads.begin("a.txt", 4, "ci", held=True)
    storage.uploads.append(key, 0, b"abcd")
    storage.uploads.arrive(key, held=True)
    storage.resume(ANALYSIS)
    found = storage.uploads.find(key)

    assert found is not None
    assert (found.state, found.offset) == ("held", 4)
    assert storage.jobs.counts() == {}
    hands.now += 2 * DAY
    with pytest.raises(GoneError):
        storage.accept_together([key], ANALYSIS)
    assert storage.retention.prune(Terms()).uploads == 1


def test_a_lost_database_finds_sets_again(opened: Opened, tmp_path: Path) -> None:
    """By the list that is among the bundles: it is queued with its files."""
    storage = opened()
    _, whole = together(storage, 1, 2)
    with write_transaction(storage.engine) as connection:
        for table in reversed(TABLES.sorted_tables):
            if table.name != "thpdiag_serve":
                connection.execute(table.delete())

    flaws = list(check(storage, ANALYSIS, repair=True, read=True))

    assert len(flaws) == 3
    assert [one.sha256 for one in storage.bundles.parts(whole)] == [digest(1), digest(2)]
    assert list(check(storage, ANALYSIS, repair=False, read=True)) == []


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"kind":"thpdiag file set 1","files":[["x","y"]]}', '{"kind":"other","files":[]}',
     '{"kind":"thpdiag file set 1","files":[1]}', '{"kind":"thpdiag file set 1"}', "[" * 5_000],
)  # fmt: skip
def test_what_is_no_list_of_files_is_none(text: str, tmp_path: Path) -> None:
    """Whatever somebody uploads."""
    file = tmp_path / "file"
    file.write_text(text, encoding="utf-8")
    assert read_manifest(file) == ()


V2 = ("ALTER TABLE {case} DROP COLUMN thread", "ALTER TABLE {case} DROP COLUMN superseded",
      "ALTER TABLE job DROP COLUMN thread", "ALTER TABLE upload DROP COLUMN held",
      "UPDATE thpdiag_serve SET version = 2")  # fmt: skip


def test_an_earlier_database_is_brought_up(opened: Opened) -> None:
    """Cases that were there are cases of their own; what is new works on them. Words have the index of today alone."""
    storage = opened()
    first = judged(storage, 1)
    with write_transaction(storage.engine) as connection:
        for index in ("case_by_thread", "case_by_version", "word_by_case"):
            connection.exec_driver_sql(f"DROP INDEX {index}")
        connection.exec_driver_sql("CREATE INDEX word_by_thread ON word (thread, source)")
        connection.exec_driver_sql("DROP TABLE part")
        for statement in V2:
            connection.exec_driver_sql(statement.format(case='"case"'))

    again = opened()

    assert "part" in inspect(again.engine).get_table_names()
    assert [index["name"] for index in inspect(again.engine).get_indexes("word")] == ["word_by_case"]
    known = again.cases.find(first)
    assert known is not None
    assert (known.thread, known.superseded) == (known.number, False)
    assert judged(again, 2, case=first)
    assert again.cases.count(CaseFilter()) == 1


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Sending]:
    with sending(tmp_path) as made:
        yield made


def part(disposition: str, data: bytes) -> bytes:
    return f"--b0undary\r\nContent-Disposition: form-data; {disposition}\r\n\r\n".encode() + data + b"\r\n"


def file(number: int) -> bytes:
    return part(f'name="file"; filename="{number}.txt"', content(number))


def names(page: Sending) -> list[list[str]]:
    """Names of the files of each job."""
    found = []
    while (claim := page.storage.jobs.claim()) is not None:
        found.append([one.name for one in page.storage.bundles.parts(claim.job.sha256)] or [claim.job.name])
    return sorted(found)


def test_a_form_of_several_files_is_one_case(page: Sending) -> None:
    """With text that was pasted beside them; files that were not chosen are none."""
    body = file(1) + file(2) + part('name="file"; filename=""', b"") + part('name="text"', b"uname -a\r\n") + END
    answer = page.call("POST", "/upload", body, content_type=KIND)

    assert answer.status == 303
    assert answer.headers["location"].startswith("/jobs/")
    assert names(page) == [["1.txt", "2.txt", "pasted.txt"]]


def test_a_form_may_ask_for_separate_cases(page: Sending) -> None:
    """The answer leads to a list of the jobs."""
    body = file(1) + file(2) + part('name="separate"', b"1") + END
    answer = page.call("POST", "/upload", body, content_type=KIND)
    listed = page.whole.ask("GET", answer.headers["location"]).body.decode()

    assert listed.count('<a href="/jobs/') == 2
    assert names(page) == [["1.txt"], ["2.txt"]]


def test_text_alone_is_a_case(page: Sending) -> None:
    """What was pasted is a file; without file and text the refusal says so."""
    assert page.call("POST", "/upload", part('name="text"', b"some words") + END, content_type=KIND).status == 303
    assert names(page) == [["pasted.txt"]]
    answer = page.call("POST", "/upload", part('name="text"', b"") + END, content_type=KIND, accept="text/html")
    assert answer.status == 400
    assert "no text was pasted" in answer.text


def held(page: Sending, number: int) -> str:
    """The id of an upload that waits for others."""
    where = page.begin(1_000, upload_metadata="filename YS50eHQ=,hold")
    assert page.tus("PATCH", where, content(number), upload_offset="0").status == 204
    return where.rpartition("/")[2]


def test_held_uploads_become_a_case_by_their_ids(page: Sending) -> None:
    """As the script of the page sends them; asking again is answered the same, and each id leads to the job."""
    keys = [held(page, 1), held(page, 2)]
    body = json.dumps({"uploads": keys}).encode()
    answers = [page.call("POST", "/api/v1/cases", body) for _ in range(2)]
    told = [json.loads(answer.body) for answer in answers]

    assert [answer.status for answer in answers] == [201, 201]
    assert told[0] == told[1]
    assert told[0]["size"] == 2_000
    led = page.call("GET", f"/jobs/{keys[1]}")
    assert led.headers["location"] == f"/jobs/{told[0]['job']}"
    assert names(page) == [["a.txt", "a-2.txt"]]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b""), (400, b"[]"), (400, b'{"uploads": []}'), (400, b'{"uploads": ["x"]}'), (400, b'{"uploads": {}}'),
        (400, b'{"uploads": ["%s"], "more": 1}' % (b"0" * 32)), (400, b"[" * 9_000), (400, b'{"uploads": [1]}'),
        (410, b'{"uploads": ["%s"]}' % (b"0" * 32)),
        (404, b'{"uploads": ["%s"], "case": "%s"}' % (b"0" * 32, b"0" * 32)),
    ],
)  # fmt: skip
def test_what_makes_no_case_is_refused(page: Sending, status: int, body: bytes) -> None:
    """With a reason; half an upload is told where it is."""
    assert page.call("POST", "/api/v1/cases", body).status == status
    where = page.begin(10, upload_metadata="filename YQ==,hold")
    half = json.dumps({"uploads": [where.rpartition("/")[2]]}).encode()
    assert page.call("POST", "/api/v1/cases", half).status == 409


def test_a_put_adds_a_file_to_a_case(tmp_path: Path) -> None:
    """The case gets a new version with both files; both are listed there, and the old one leads to it."""
    with served(tmp_path) as whole:
        key = _completed(whole, b"first", "first.txt")
        answer = whole.ask("PUT", f"/api/v1/bundles/second.txt?case={key}", body=b"second")
        assert answer.status == 201, answer
        new = whole.done(whole.claimed(), _document(read=["second.txt"]))
        shown, old = (whole.ask("GET", f"/cases/{one}").body.decode() for one in (new, key))

        assert 'first.txt</bdi></a>, 5 bytes <span class="badge medium">not recognized' in shown
        assert "second.txt</bdi></a>, 6 bytes</li>" in shown
        assert f'href="/cases/{key}"' in shown
        assert f'<a href="/cases/{new}">Open the latest' in old
        assert 'id="upload"' not in old
        assert whole.ask("PUT", f"/api/v1/bundles/x?case={'0' * 32}", body=b"x").status == 404


def test_who_only_uploads_adds_to_what_they_sent(tmp_path: Path) -> None:
    """To another's case they have no way, whatever they know of it, and no upload of another becomes theirs."""
    with served(tmp_path, Mode.TOKENS) as whole:
        mine, other, reads = (whole.token(scope) for scope in ("upload", "upload", "read"))
        owner = f"token:{mine[1].split('_')[1]}"
        key = _completed(whole, b"first", "first.txt", owner)
        asked = [
            whole.ask("PUT", f"/api/v1/bundles/2?case={key}", who, body=b"2").status for who in (mine, other, reads)
        ]
        assert asked == [201, 404, 403]
        upload = whole.storage.uploads.begin("a", 1, owner, held=True)
        whole.storage.uploads.append(upload, 0, b"a")
        body = json.dumps({"uploads": [upload]}).encode()
        assert [whole.ask("POST", "/api/v1/cases", who, body=body).status for who in (other, mine)] == [410, 201]


def test_a_line_of_one_of_several_files_is_shown(tmp_path: Path) -> None:
    """From the file that it is in, an archive or not; nothing is left behind."""
    with served(tmp_path) as whole:
        folder = tmp_path / "b"
        folder.mkdir()
        (folder / "vmstat.txt").write_text("one\ntwo\n", encoding="utf-8")
        keys = []
        for name, data in (("b.tar", archive(folder)), ("notes.txt", b"alpha\nbeta\n")):
            key = whole.storage.uploads.begin(name, len(data), "local:local")
            whole.storage.uploads.append(key, 0, data)
            keys.append(key)
        whole.storage.accept_together(keys, whole.server.analysis)
        members = ["b.tar/vmstat.txt", "notes.txt"]
        case = whole.done(whole.claimed(), _document(read=members))
        for member, words in zip(members, ("two", "beta"), strict=True):
            answer = whole.ask("GET", f"/cases/{case}/lines?member={member}&line=2")
            assert words in answer.body.decode(), answer


def test_junk_is_refused_in_words(tmp_path: Path) -> None:
    """The page of the case says that nothing was recognized and what to do; so does that of the job."""
    with served(tmp_path, Mode.TOKENS) as whole:
        mine = whole.token("upload")
        accepted = whole.uploaded(b"junk", "junk.txt", f"token:{mine[1].split('_')[1]}")
        claim = whole.claimed()
        case = whole.done(claim, _document(read=[]), status="refused")
        page = whole.ask("GET", f"/cases/{case}", whole.token("read", "upload")).body.decode()
        assert "Nothing in this file was recognized" in page
        assert '<details id="add" open>' in page
        assert "Nothing in it was recognized" in whole.ask("GET", f"/jobs/{accepted.job}", mine).body.decode()


def _document(read: list[str]) -> dict[str, Any]:
    inputs = [{"member": member, "reader": "vmstat"} for member in read] + [{"member": "first.txt", "reader": None}]
    return {**document(1), "inputs": inputs}


def _completed(whole: Whole, data: bytes, name: str, owner: str = "local:local") -> str:
    whole.uploaded(data, name, owner)
    return whole.done(whole.claimed(), _document(read=[name]))


def test_the_same_set_by_another_version_is_another_analysis(storage: Storage) -> None:
    """As with one file; the case that is there is found by whoever sends the same again."""
    key = judged(storage, 1, 2)
    again = storage.accept_together([sent(storage, 1), sent(storage, 2)], ANALYSIS)
    other = storage.accept_together([sent(storage, 1), sent(storage, 2)], OTHER)

    assert again.case == key
    assert other.case is None
