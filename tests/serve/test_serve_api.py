"""The API of cases: lists, one, its files, comparisons, deletion; for whom, and what is written down."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from serve_application import AFTER, BEFORE, Header, Whole, in_other_words, served
from serve_requests import Answer
from serve_storage_fixtures import database, postgres_server  # noqa: F401  # fixtures
from thpdiag.compare.page import policy as of_comparison
from thpdiag.report import FORMATS
from thpdiag.report.html import policy
from thpdiag.report.json import to_json
from thpdiag.serve.access.principals import Mode
from thpdiag.serve.api.cases import KINDS, report_files
from thpdiag.serve.storage.retention import Removal

CASES = "/api/v1/cases"
BEGAN = json.loads(BEFORE.read_bytes())
NOBODYS = "0" * 32


@pytest.fixture
def whole(tmp_path: Path, database: str | None) -> Iterator[Whole]:  # noqa: F811
    with served(tmp_path, Mode.TOKENS, database) as made:
        yield made


@pytest.fixture
def read(whole: Whole) -> Header:
    return whole.token("read")


@pytest.fixture
def admin(whole: Whole) -> Header:
    return whole.token("admin")


def hosts(answer: Answer) -> list[str]:
    return [case["host"]["name"] for case in answer.told["cases"]]


def several(whole: Whole, count: int) -> list[str]:
    """Cases of as many hosts, a day apart."""
    made = []
    for number in range(count):
        whole.uploaded(f"bundle {number}".encode(), f"{number}.tar")
        made.append(whole.done(whole.claimed(), in_other_words(BEGAN, name=f"web{number}")))
        whole.hands.now += 86_400
    return made


def test_a_list_goes_on_from_page_to_page(whole: Whole, read: Header) -> None:
    """The latest first, each case once, with the address of the next page in the answer and in its header."""
    several(whole, 5)
    place, seen = f"{CASES}?limit=2&host=WEB", []

    while place:
        answer = whole.ask("GET", place, read)
        seen.append(hosts(answer))
        place = answer.told["next"]
        assert (answer.status, answer.told["total"]) == (200, 5)
        assert answer.headers.get("link", "") == (f'<{place}>; rel="next"' if place else "")

    assert seen == [["web4", "web3"], ["web2", "web1"], ["web0"]]


def test_a_list_is_filtered(whole: Whole, read: Header) -> None:
    """By all that the description names; what nothing has gives an empty list."""
    several(whole, 3)
    whole.completed(AFTER)
    verdict = BEGAN["verdict"]
    digest = whole.ask("GET", f"{CASES}?host=web1", read).told["cases"][0]["sha256"]

    def asked(query: str) -> list[str]:
        return hosts(whole.ask("GET", f"{CASES}?{query}", read))

    assert asked("verdict=nothing_found") == ["demo"]
    assert asked(f"mechanism={verdict['mechanism']}") == asked(f"rule={verdict['rule']}") == ["web2", "web1", "web0"]
    assert asked(f"sha256={digest}") == ["web1"]
    assert asked("since=2027-01-16&until=2027-01-17T08:00:00Z") == ["web1"]
    assert asked("since=2027-01-17T09:00:00%2B01:00&verdict=found") == ["web2"]
    assert asked("host=nobody") == asked("rule=%00") == asked("host=%25") == []


def test_a_filter_that_makes_no_sense_is_refused(whole: Whole, read: Header) -> None:
    """A list that heeded half of what was asked would be a wrong answer."""
    numbers = ("limit=0", "limit=201", "limit=x", "limit=٣", "below=-1", f"below={'9' * 30}")
    for query in (*numbers, "since=yesterday", "until=2027-13-01", "sha256=abc", "hots=web1", "host=a&host=b"):
        answer = whole.ask("GET", f"{CASES}?{query}", read)
        assert (answer.status, answer.told["status"]) == (400, 400), query
        assert answer.headers["content-type"] == "application/problem+json", query


def test_one_case_has_its_hosts_and_findings(whole: Whole, read: Header) -> None:
    """And the addresses of its report in every format."""
    key = whole.completed(BEFORE)

    told = whole.ask("GET", f"{CASES}/{key}", read).told

    (host,) = told["hosts"]
    assert host["leading"]["rule"] == BEGAN["verdict"]["rule"] == told["verdict"]["rule"]
    assert [f["rule"] for f in host["findings"]] == [f["rule"] for f in BEGAN["findings"]]
    assert host["undecided"] == [u["rule"] for u in BEGAN["unknown"]]
    assert {whole.ask("GET", place, read).status for place in told["files"]} == {200}
    assert len(told["files"]) == len(FORMATS)


def test_a_report_is_what_render_writes(whole: Whole, read: Header) -> None:
    """The page is shown under its own policy, in a sandbox; every other file is saved; each is written down."""
    key = whole.completed(BEFORE)

    for name, form in report_files().items():
        answer = whole.ask("GET", f"{CASES}/{key}/{name}", read)

        assert answer.body.decode() == FORMATS[form](BEGAN)
        assert answer.headers["content-type"] == KINDS[form][1]
        assert answer.headers["x-content-type-options"] == "nosniff"
        if form == "html":
            kept = f"sandbox allow-scripts; {policy()}; frame-ancestors 'self'"
            assert answer.headers["content-security-policy"] == kept
        else:
            assert f'attachment; filename="thpdiag-demo-{key[:8]}.' in answer.headers["content-disposition"]
            assert "sandbox" in answer.headers["content-security-policy"]
    assert whole.audited() == [("download", "done", key)] * len(report_files())


def test_a_redacted_report_names_nobody(whole: Whole, read: Header) -> None:
    """Neither in it nor in the name of its file."""
    document = in_other_words({**BEGAN, "case": "customer-db1"}, name="customer-db1")
    whole.uploaded(b"x", "customer-db1.tar")
    key = whole.done(whole.claimed(), document)

    plain = whole.ask("GET", f"{CASES}/{key}/report.json", read)
    answer = whole.ask("GET", f"{CASES}/{key}/report.json?redact=1", read)
    page = whole.ask("GET", f"{CASES}/{key}/report.html?redact=1", read)

    assert b"customer-db1" in plain.body
    assert "customer-db1" in plain.headers["content-disposition"]
    assert "customer" not in answer.headers["content-disposition"]
    assert answer.told["tool"]["redacted"] is True
    assert b"customer-db1" not in answer.body + page.body
    assert whole.ask("GET", f"{CASES}/{key}/report.json?redact=yes", read).status == 400


@pytest.mark.parametrize("form", ["html", "json", "txt"])
def test_two_cases_are_compared(whole: Whole, read: Header, form: str) -> None:
    """As `thpdiag compare` does; both are written down."""
    before, after = whole.completed(BEFORE), whole.completed(AFTER)

    answer = whole.ask("GET", f"/api/v1/compare/{form}?before={before}&after={after}", read)

    kept = of_comparison() if form == "html" else "sandbox"
    assert answer.status == 200
    assert kept in answer.headers["content-security-policy"]
    assert (form == "html") == ("content-disposition" not in answer.headers)
    assert sorted(whole.audited()) == sorted([("download", "done", before), ("download", "done", after)])


def test_what_cannot_be_compared_is_refused(whole: Whole, read: Header) -> None:
    """One side missing, unknown, or a format that there is none of."""
    key = whole.completed(BEFORE)
    queries = [f"before={key}", f"before={key}&after={NOBODYS}", f"before={key}&after=../x", "before=&after="]

    assert [whole.ask("GET", f"/api/v1/compare/json?{q}", read).status for q in queries] == [400, 404, 404, 404]
    assert whole.ask("GET", f"/api/v1/compare/exe?before={key}&after={key}", read).status == 404


def test_a_case_is_deleted_for_good(whole: Whole, read: Header, admin: Header) -> None:
    """By an admin only; its report, its bundle and its row are gone, and the audit says who did it."""
    key = whole.completed(BEFORE)
    place = f"{CASES}/{key}"

    assert whole.ask("DELETE", place, read).status == 403
    assert whole.ask("DELETE", place, admin).status == 204
    gone = [whole.ask("GET", p, read) for p in (place, f"{place}/report.html")] + [whole.ask("DELETE", place, admin)]
    assert [a.status for a in gone] == [404, 404, 404]
    assert whole.ask("GET", CASES, read).told["total"] == whole.storage.bundles.total() == 0
    assert whole.audited()[0] == ("delete", "done", key)


def test_a_folder_that_became_read_only_keeps_its_cases(
    whole: Whole, read: Header, admin: Header, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a file system does after errors of its disk: that is not for whoever asks to mend, and it says so."""
    key = whole.completed(BEFORE)

    def refuse(*_arguments: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(Removal, "delete_case", refuse)
        answer = whole.ask("DELETE", f"{CASES}/{key}", admin)
    assert answer.status == 503
    assert answer.told["detail"] == "the storage of this server cannot be used at the moment"
    assert whole.ask("GET", f"{CASES}/{key}", read).status == 200


def test_a_case_is_kept_and_released(whole: Whole, read: Header, admin: Header) -> None:
    """By an admin; of a case that is not there nothing is written down."""
    key = whole.completed(BEFORE)
    place = f"{CASES}/{key}/kept"

    def kept() -> bool:
        return bool(whole.ask("GET", f"{CASES}/{key}", read).told["kept"])

    assert (whole.ask("PUT", place, read).status, kept()) == (403, False)
    assert (whole.ask("PUT", place, admin).status, kept()) == (204, True)
    assert (whole.ask("DELETE", place, admin).status, kept()) == (204, False)
    assert whole.ask("PUT", f"{CASES}/{NOBODYS}/kept", admin).status == 404
    assert [line[0] for line in whole.audited() if line[1] == "done"] == ["release", "keep"]


def test_a_trick_in_the_name_of_a_file_finds_nothing(whole: Whole, read: Header) -> None:
    """By its form, or because there is no such file."""
    key = whole.completed(BEFORE)
    tricks = ("..%2f..%2fserve.sqlite", "%2e%2e", "report.html%00", "report.json%2f..")
    for name in ("report.exe", "report", "kept", *tricks):
        assert whole.ask("GET", f"{CASES}/{key}/{name}", read).status in (400, 404, 405), name


def test_a_trick_in_an_id_finds_nothing(whole: Whole, admin: Header) -> None:
    """Of a case, a job or a side of a comparison."""
    for key in ("A" * 32, "0" * 31, "0" * 33, "..", "%2e%2e%2f", "x' OR '1'='1", "𝟎" * 32):
        target = key.replace(" ", "%20").encode().decode("latin-1")
        places = [f"{CASES}/{target}", f"{CASES}/{target}/report.html", f"/api/v1/jobs/{target}"]
        assert {whole.ask("GET", place, admin).status for place in places} <= {400, 404}, key
        assert whole.ask("DELETE", places[0], admin).status in (400, 404), key


def test_an_upload_token_sees_no_case(whole: Whole) -> None:
    """It sends, and learns what became of what it sent; nothing else."""
    key, sends = whole.completed(BEFORE), whole.token("upload")
    places = [CASES, f"{CASES}/{key}", f"{CASES}/{key}/report.html", f"/api/v1/compare/json?before={key}&after={key}"]

    assert [whole.ask("GET", p, sends).status for p in (*places, "/metrics")] == [403] * 5
    assert [whole.ask("GET", p).status for p in (*places, "/metrics")] == [401] * 5


def test_hostile_texts_stay_data(whole: Whole, read: Header) -> None:
    """Half characters, control characters and markup of a host's name are JSON in ASCII."""
    name = "\udc80\x1b[2J<script>\u202e"
    whole.uploaded(b"x", "b.tar")
    key = whole.done(whole.claimed(), in_other_words(BEGAN, name=name))

    one, listed = whole.ask("GET", f"{CASES}/{key}", read), whole.ask("GET", CASES, read)

    assert one.told["hosts"][0]["name"] == name
    assert one.body.isascii()
    assert listed.body.isascii()
    for form in report_files():
        assert whole.ask("GET", f"{CASES}/{key}/{form}", read).status == 200, form
    assert json.loads(whole.ask("GET", f"{CASES}/{key}/report.json", read).body) == json.loads(
        to_json(in_other_words(BEGAN, name=name))
    )
