"""Pages of cases, asked in memory: what they say, whom they let change something, what they refuse to show."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from serve_application import AFTER, BEFORE, STORM, Whole, in_other_words, served
from serve_storage_fixtures import cased
from thpdiag.errors import StoreBusyError, StoreError, StoreFullError
from thpdiag.serve.access.principals import Mode
from thpdiag.serve.api.cases import report_files
from thpdiag.serve.pages.lines import MAX_LINE_CHARS, NO_TEXT, NOT_THERE, read_member_lines
from thpdiag.serve.pages.render import static_address
from thpdiag.serve.storage.cases import CASES_PER_PAGE, CaseFilter, Cases
from thpdiag.serve.storage.storage import Storage
from thpdiag.store.results import BundleResult, pack_result

DAY = 86_400.0
BEGIN = 1_800_000_000.0  # 2027-01-15 08:00:00 UTC


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Whole]:
    with served(tmp_path) as made:
        yield made


def text(whole: Whole, target: str, status: int = 200) -> str:
    answer = whole.ask("GET", target)
    assert answer.status == status
    return answer.body.decode()


def words(page: str) -> str:
    """What a page says, without its markup."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page.partition("<main")[2])).split())


def saved(source: Path = BEFORE) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    return whole


def made(whole: Whole, number: int, document: dict[str, Any]) -> str:
    """A case with a content of its own."""
    accepted = whole.uploaded(f"bundle {number}".encode(), f"{number}.tar")
    assert accepted.case is None
    return whole.done(whole.claimed(), document)


def listed(page: str) -> list[str]:
    """The ids of the cases of a list, as they stand."""
    return re.findall(r'class="host"><a href="/cases/([0-9a-f]{32})"', page)


def test_an_empty_list_says_what_to_do(whole: Whole) -> None:
    """Without cases it leads to the upload; where a search found none it leads back."""
    assert "There are no cases yet. Upload a bundle" in words(text(whole, "/cases"))
    whole.completed(BEFORE)
    assert "No case matches" in words(text(whole, "/cases?host=other"))


def test_the_list_is_searched_by_each_field(whole: Whole) -> None:
    """Each alone and all together find the one case; the fields keep what was asked for."""
    found = whole.completed(BEFORE)
    made(whole, 1, in_other_words(saved(AFTER), name="quiet"))
    asked = {
        "host": "DEM", "verdict": "found", "mechanism": "fault-compaction", "rule": "thp-010", "since": "2027-01-15",
        "until": "2027-01-15",
    }  # fmt: skip
    for name in ("host", "verdict", "mechanism", "rule"):
        assert listed(text(whole, f"/cases?{urlencode({name: asked[name]})}")) == [found], name
    page = text(whole, f"/cases?{urlencode(asked)}")
    assert listed(page) == [found]
    for kept in ('value="DEM"', '<option value="found" selected>', 'value="2027-01-15"'):
        assert kept in page
    assert listed(text(whole, "/cases?until=2027-01-14")) == listed(text(whole, "/cases?since=2027-01-16")) == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("since=yesterday", "Since: 'yesterday' is not a date"),
        ("until=2026-02-30", "Until: '2026-02-30' is not a date"),
        ("since=20260101", "is not a date"),
        ("since=9999-12-31", "is not a date"),
        ("since=2026-11-21&until=2026-11-20", "The first day is after the last."),
        ("since=%3Cscript%3E", "Since: '<script>' is not a date"),
    ],
)
def test_a_wrong_date_is_said(query: str, said: str, whole: Whole) -> None:
    """On the page, with status 400; nothing is listed as if it had not been asked for."""
    whole.completed(BEFORE)
    page = text(whole, f"/cases?{query}", 400)
    assert said in words(page)
    assert listed(page) == []


def test_the_list_is_turned_to_older_and_back_to_newer(whole: Whole) -> None:
    """Every case stands on one page, and the way back shows the same pages; what is asked for stays."""
    document = saved()
    keys = [made(whole, number, document) for number in range(2 * CASES_PER_PAGE + 3)][::-1]
    pages, target = [], "/cases?host=demo"
    while target:
        page = text(whole, target)
        pages.append(listed(page))
        link = re.search(r'rel="next" href="([^"]+)"', page)
        target = unescape(link[1]) if link else ""
        assert not target or "host=demo" in target
    assert [key for one in pages for key in one] == keys
    back = [listed(page)]
    while link := re.search(r'rel="prev" href="([^"]+)"', page):
        page = text(whole, unescape(link[1]))
        back.append(listed(page))
    assert back[0] == pages[2]
    assert back[-1] == pages[0]
    assert sorted(map(len, back)) == [3, CASES_PER_PAGE, CASES_PER_PAGE]


def test_numbers_of_pages_that_are_none_show_the_first_page(whole: Whole) -> None:
    """Nothing that stands in an address makes the list fail."""
    key = whole.completed(BEFORE)
    for query in ("below=x", "above=-1", "below=" + "9" * 40, "above=0", "below=%00", "host=%00%ff", "rule=%27"):
        assert whole.ask("GET", f"/cases?{query}").status == 200, query
    assert listed(text(whole, "/cases?above=0")) == [key]


def test_a_case_says_what_it_is_of(whole: Whole) -> None:
    """Host, verdict, times, bundle and its digest; every format of the API is offered, and each can be had.

    The verdict's sentence is the title of the page; what stands on it is the report, in the frame.
    """
    key = whole.completed(STORM)
    case = whole.storage.cases.find(key)
    assert case is not None
    assert case.sentence is not None
    page = text(whole, f"/cases/{key}")
    assert f"<title>shop1: {case.sentence} – thpdiag</title>" in page
    for said in ("shop1", "confirmed", case.sha256, "redis-shop-ubuntu.tar", "2027-01-15 08:00 UTC"):
        assert said in words(page)
    offered = re.findall(rf'href="/api/v1/cases/{key}/([^"]+)" download', page)
    assert set(offered) == set(report_files())
    assert {whole.ask("GET", f"/api/v1/cases/{key}/{name}").status for name in offered} == {200}


def test_a_partial_analysis_says_why(whole: Whole) -> None:
    """The status and the reason stand beside the verdict."""
    accepted = whole.uploaded(b"half", "half.tar")
    result = pack_result(
        BundleResult(accepted.sha256, "half.tar", 4, "partial", "the archive ends early", document=saved())
    )
    key = whole.storage.cases.complete(whole.claimed(), result, whole.server.analysis)
    assert "ended as “partial”. the archive ends early" in words(text(whole, f"/cases/{key}"))


def test_a_report_is_shown_in_a_sandbox_only(whole: Whole) -> None:
    """The frame and the policy of the page both take its origin; that it was given is written down."""
    key = whole.completed(BEFORE)
    assert f'sandbox="allow-scripts" src="/cases/{key}/page"' in text(whole, f"/cases/{key}")
    answer = whole.ask("GET", f"/cases/{key}/page")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'; script-src 'sha256-")
    assert policy.endswith("frame-ancestors 'self'")
    assert whole.audited()[0] == ("download", "done", key)


@pytest.mark.parametrize("rest", ["", "/page", "/lines?member=a&line=1", "/compare?with=x", "/comparison?with=x"])
def test_what_is_no_case_is_not_found(rest: str, whole: Whole) -> None:
    """An id that was never given, and what is none."""
    for key in ("0" * 32, "x", "0" * 31 + "G", "0" * 64):
        assert "There is no such case" in words(text(whole, f"/cases/{key}{rest}", 404))
    for trick in ("%2e%2e", "a%00", "..%2f..%2ffolder"):
        assert whole.ask("GET", f"/cases/{trick}{rest}").status in (400, 404)


def test_a_document_without_form_is_said(whole: Whole) -> None:
    """A result that is none of ours costs its own report, and the case can still be looked at and deleted."""
    key = made(whole, 1, {"findings": [1, {"evidence": "x"}], "host": 3, "verdict": [], "cases": [7]})
    other = whole.completed(AFTER)
    assert whole.ask("GET", f"/cases/{key}").status == 200
    assert whole.ask("GET", "/cases").status == 200
    for rest in ("page", f"comparison?with={other}"):
        answer = whole.ask("GET", f"/cases/{key}/{rest}")
        assert answer.status == 500
        assert "does not have the form of a result" in answer.body.decode()


def test_other_cases_of_the_host_are_compared_the_older_first(whole: Whole) -> None:
    """By the time of the data, whichever was uploaded first, and from whichever it is asked."""
    after, before = whole.completed(AFTER), whole.completed(BEFORE)
    for one, other in ((after, before), (before, after)):
        assert f"/cases/{one}/compare?with={other}" in text(whole, f"/cases/{one}")
        page = words(text(whole, f"/cases/{one}/compare?with={other}"))
        assert page.index("11:55") < page.index("11:57")
        answer = whole.ask("GET", f"/cases/{one}/comparison?with={other}")
        assert "fixed" in answer.body.decode()
        assert "script-src" not in answer.headers["content-security-policy"]
    assert {subject for action, _, subject in whole.audited() if action == "download"} == {after, before}


def test_a_comparison_of_other_things_says_so(whole: Whole) -> None:
    """Different hosts are said; the same case twice, and one that is not there, are not compared."""
    one, other = whole.completed(BEFORE), made(whole, 1, in_other_words(saved(AFTER), name="elsewhere"))
    assert "These are cases of different hosts: demo and elsewhere" in words(
        text(whole, f"/cases/{one}/compare?with={other}")
    )
    assert "the same case twice" in words(text(whole, f"/cases/{one}/compare?with={one}", 404))
    for absent in ("", "x", "0" * 32):
        assert "does not exist" in words(text(whole, f"/cases/{one}/compare?with={absent}", 404))
    assert whole.ask("GET", f"/cases/{one}/comparison").status == 404


def test_hosts_without_a_name_are_not_one_host(whole: Whole) -> None:
    """A case lists others of its host by name; where the input names no host there are none."""
    for name, others in (("web1", True), ("host", False)):
        document = saved()
        document["host"]["name"] = document["case"] = name
        made(whole, 2 * others, document)
        page = words(text(whole, f"/cases/{made(whole, 2 * others + 1, document)}"))
        assert ("Other cases of this host" in page) is others


def test_a_case_says_when_it_expires(whole: Whole) -> None:
    """The files go before it; what is kept does not expire."""
    key = whole.completed(BEFORE)
    assert "Expires 2027-07-14, its files 2027-01-29" in words(text(whole, f"/cases/{key}"))
    whole.hands.now = BEGIN + 15 * DAY
    whole.storage.retention.prune(whole.server.terms)
    assert "Expires 2027-07-14 " in words(text(whole, f"/cases/{key}"))
    whole.storage.cases.set_kept(key, kept=True)
    assert "do not expire" in words(text(whole, f"/cases/{key}"))


def test_cited_lines_are_shown_with_those_around(whole: Whole) -> None:
    """Every place that the case page names leads to its line, which says what finding cites it."""
    key = whole.completed(STORM)
    links = re.findall(r'href="(/cases/[^"]+/lines[^"]+)"', text(whole, f"/cases/{key}"))
    assert links
    page = text(whole, unescape(links[0]))
    line = unescape(links[0]).partition("line=")[2]
    shown = re.search(rf'<li value="{line}" class="cited"><code>(.*)</code> <span', page)
    assert shown is not None
    assert unescape(shown[1]) == (STORM / "session.txt").read_text().split("\n")[int(line) - 1]
    assert "THP-041" in page
    assert whole.audited()[0] == ("download", "done", key)
    later = re.search(r'href="([^"]+)">↓ Later', page)
    assert later is not None
    assert '<li value="51">' in text(whole, unescape(later[1]))


def test_only_files_that_the_result_speaks_of_are_shown(whole: Whole) -> None:
    """Not others of the bundle, and no path of this machine."""
    key = whole.completed(STORM)
    for member in ("/etc/passwd", "../../folder", "", "session.txt/", "a\x00b", "\udc80"):
        query = urlencode({"member": member, "line": 1}, errors="surrogatepass")
        assert whole.ask("GET", f"/cases/{key}/lines?{query}").status == 404
    for line in ("0", "-1", "x", "9" * 30, "999999"):
        assert whole.ask("GET", f"/cases/{key}/lines?member=session.txt&line={line}").status == 200


def test_lines_of_a_bundle_that_is_gone_are_the_excerpt(whole: Whole) -> None:
    """Retention took the bundle and left the case: the page says so and quotes what the result has kept."""
    key = whole.completed(STORM)
    link = unescape(re.findall(r'href="(/cases/[^"]+/lines[^"]+)"', text(whole, f"/cases/{key}"))[0])
    whole.hands.now = BEGIN + 15 * DAY
    assert whole.storage.retention.prune(whole.server.terms).bundles == 1
    page = words(text(whole, link))
    assert "has expired" in page
    assert "13 0 0 9796000 120000" in page
    assert "no longer stored since" in words(text(whole, f"/cases/{key}"))


def test_keeping_releasing_and_deleting(whole: Whole) -> None:
    """Deleting asks first; each is written down; afterwards nothing of the case is there."""
    key = whole.completed(BEFORE)
    for change, kept in (("keep", True), ("release", False)):
        answer = whole.ask("POST", f"/cases/{key}/{change}")
        assert (answer.status, answer.headers["location"]) == (303, f"/cases/{key}")
        case = whole.storage.cases.find(key)
        assert case is not None
        assert case.kept is kept
    assert "This cannot be undone" in words(whole.ask("POST", f"/cases/{key}/delete").body.decode())
    assert whole.storage.cases.find(key) is not None
    assert whole.ask("POST", f"/cases/{key}/delete?sure=yes").headers["location"] == "/cases"
    assert whole.storage.cases.find(key) is None
    assert whole.ask("POST", f"/cases/{key}/delete?sure=yes").status == 404
    assert [action for action, _, _ in whole.audited()] == ["delete", "release", "keep"]


def test_who_may_only_read_changes_nothing(tmp_path: Path) -> None:
    """Pages for readers have no forms; what they post is refused, and so is an admin's post without a token of ours."""
    with served(tmp_path, Mode.TOKENS) as whole:
        key = whole.completed(BEFORE)
        reader, token = whole.signed_in("read")
        page = whole.ask("GET", f"/cases/{key}", reader).body.decode()
        assert not re.findall(r"/(?:delete|keep)\?", page)
        origin = ("origin", "https://thpdiag.example.org")
        for change in ("keep", "release", "delete?sure=yes"):
            assert whole.ask("POST", f"/cases/{key}/{change}", reader, token, origin).status == 403
            assert whole.ask("POST", f"/cases/{key}/{change}", whole.signed_in("admin")[0], origin).status == 403
        assert whole.ask("GET", f"/cases/{key}", whole.token("upload")).status == 403
        admin = whole.signed_in("admin")[0]
        action = re.search(r'action="([^"]+/keep[^"]+)"', whole.ask("GET", f"/cases/{key}", admin).body.decode())
        assert action is not None
        assert whole.ask("POST", unescape(action[1]), admin, origin).status == 303


def test_a_full_or_busy_storage_is_a_page(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what is the matter, not what went wrong inside."""
    for error, status in ((StoreFullError, 507), (StoreBusyError, 503), (StoreError, 503)):

        def fails(_self: Cases, _key: str, error: type[Exception] = error) -> None:
            raise error("secret of the inside")

        monkeypatch.setattr(Cases, "find", fails)
        answer = whole.ask("GET", f"/cases/{'0' * 32}")
        assert answer.status == status
        assert b"secret" not in answer.body


def test_static_files_have_their_digest_in_the_address(whole: Whole) -> None:
    """They may be kept for ever; nothing else of the folder or beside it is served."""
    answer = whole.ask("GET", static_address("style.css"))
    assert (answer.status, answer.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert "immutable" in answer.headers["cache-control"]
    for name in ("style.css", "style.0000000000000000.css", "..%2fshown.py", "%2e%2e", "icon.svg"):
        assert whole.ask("GET", f"/static/{name}").status in (400, 404)


def bundled(tmp_path: Path, name: str, content: bytes) -> Path:
    """A tar archive with one member."""
    file = tmp_path / "bundle"
    with tarfile.open(file, "w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return file


def test_hostile_members_give_data_or_a_reason(tmp_path: Path) -> None:
    """What is no text, too long, or not there is said; a single file is its own bundle."""
    assert read_member_lines([bundled(tmp_path, "raw", b"PERFILE2\0\0" * 99)], "raw", 1, 9).reason == NO_TEXT
    assert read_member_lines([bundled(tmp_path, "raw", b"x")], "other", 1, 9).reason == NOT_THERE
    assert read_member_lines([bundled(tmp_path, "short", b"a\nb\n")], "short", 9, 20).reason
    long = read_member_lines([bundled(tmp_path, "long", b"x" * 100_000 + b"\ntwo\n")], "long", 1, 9)
    assert [(number, len(line)) for number, line in long.lines] == [(1, MAX_LINE_CHARS + 1), (2, 3)]
    assert long.ends
    many = read_member_lines([bundled(tmp_path, "many", b"\r".join([b"part"] * 5_000) + b"\nnext\n")], "many", 1, 9_000)
    assert len(many.lines) <= 200
    plain = tmp_path / ("0" * 62)
    plain.write_bytes(b"one\ntwo\nthree\n")
    assert read_member_lines([plain], "vmstat.txt", 2, 2) == read_member_lines(
        [bundled(tmp_path, "a", b"one\ntwo\nthree\n")], "a", 2, 2
    )
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"\xfd7zXZ\0" + b"\xff" * 500)
    assert "damaged" in read_member_lines([damaged], "a", 1, 2).reason
    packed_twice = tmp_path / "cut"
    packed_twice.write_bytes(gzip.compress(bundled(tmp_path, "z", b"one\n" * 9_000).read_bytes())[:60])
    cut = read_member_lines([packed_twice], "z", 9_000, 9_000)
    assert not cut.lines
    assert cut.reason


def test_the_way_back_is_the_same_on_both_databases(storage: Storage) -> None:
    """`above` gives those just before a number in the list, latest first."""
    for number in range(5):
        cased(storage, number)
    numbers = [case.number for case in storage.cases.page(CaseFilter())]
    assert [case.number for case in storage.cases.page(CaseFilter(), limit=2, above=numbers[4])] == numbers[2:4]
