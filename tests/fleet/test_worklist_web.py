"""Lists of web servers: every way to write a link, and every way in which a page or a folder may be lost."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from remote_servers import Web, web
from thpdiag.errors import InputError
from thpdiag.fleet.sources import remote as lists
from thpdiag.fleet.sources.item import UnreadError
from thpdiag.fleet.sources.items import find_items

GONE = "cannot be fetched: it does not exist; check the address"
pytestmark = pytest.mark.usefixtures("asked_directly")


@pytest.fixture
def server() -> Iterator[Web]:
    with web() as running:
        yield running


def listed(server: Web, below: str = "/n/") -> list[tuple[str, str]]:
    """Paths below /n/ and why they are refused."""
    root = f"{server.address}/n/"
    return [(item.label.removeprefix(root), item.refused) for item in find_items([server.address + below])]


def test_a_list_of_the_web(server: Web) -> None:
    """The links of a page and of those below it, once each; not what leads elsewhere or sorts the page."""
    server.files["/n/"] = (
        b'<a href="../">up</a> <a href="?C=M">sort</a> <a href="b.tar.xz">b</a> <a href="b.tar.xz.sha256">sum</a>'
        b'<a href="/n/a%20a.zip">a</a> <a href="/elsewhere.tar">no</a> <a href="http://other/n/c.tar">no</a>'
        b'<a href="deep/">deep</a> <a href="b.tar.xz">again</a> <a href=".hidden.tar">no</a>'
    )
    server.files["/n/deep/"] = b'<a href="c.tar">c</a> <a href="/n/">up</a> <a href="/n/deep/">itself</a>'
    assert listed(server) == [("a%20a.zip", ""), ("b.tar.xz", ""), ("deep/c.tar", "")]
    assert listed(server, "/n/**/*.tar*") == [("b.tar.xz", ""), ("deep/c.tar", "")]


@pytest.mark.parametrize(
    ("link", "paths"),
    [
        ('<a href="./web1.tar">', {"web1.tar"}),
        ('<a href="./2026-11-23T09:14-web2.tar.xz">', {"2026-11-23T09:14-web2.tar.xz"}),
        ('<a href="./deep/">', {"deep/"}),
        ('<a href="deep/../web1.tar">', {"web1.tar"}),
        ("<A class=x HREF = 'web1.tar' >", {"web1.tar"}),
        ("<a href=web1.tar>", {"web1.tar"}),
        ('<a href="x&amp;y.tar">', {"x&y.tar"}),
        ('<a href=" a b&#246;\n.tar ">', {"a%20b%C3%B6.tar"}),
        ('<a href="web1.tar#top">', {"web1.tar"}),
        ('<a href="/n%2Fm/web1.tar">', set()),
        ('<a href="/%6e/web1.tar">', {"web1.tar"}),
        ('<a href="HTTP://HOST/n/web1.tar">', {"web1.tar"}),
        ('<a href="//host/n/web1.tar">', {"web1.tar"}),
        ('<a href="http://other/n/web1.tar"><a href="//other/n/web1.tar"><a href="ftp://host/n/web1.tar">', set()),
        (
            '<a href="../web1.tar"><a href="/web1.tar"><a href="deep/../../web1.tar"><a href="../n/../m/web1.tar">',
            set(),
        ),
        ('<a href="%2e%2e/web1.tar"><a href="..%2fweb1.tar"><a href="x/%2E./web1.tar"><a href="..\\web1.tar">', set()),
        ('<a href=".x.tar"><a href="./.x.tar"><a href=".git/"><a href="%2egit/"><a href="deep/.x/y.tar">', set()),
        (
            '<a href="."><a href="./"><a href="#top"><a href="?C=M"><a href="web1.tar?sig=1"><a href=""><a name="x">',
            set(),
        ),
        ('<a href="http://[::1/x"><a href="mailto:me@host"><a href="javascript:void(0)"><a href="//">', set()),
        ('<!-- <a href="old.tar"> --> <b href="web1.tar"> <img src="web2.tar">', set()),
    ],
)
def test_links(link: str, paths: set[str]) -> None:
    """A link is what HTML says that it is, and leads only down, on the same server, to names that are not hidden."""
    assert lists.links_below(link, "http://host/n/") == paths


@pytest.mark.parametrize("page", ["<![x[ ]]> <a href='a.tar'>", f"<a href='&#{'9' * 5000};'>"])
def test_a_page_that_cannot_be_taken_apart(page: str) -> None:
    """No mistake of ours, whatever the parser makes of it."""
    with pytest.raises(UnreadError, match=r"^cannot be listed: its page is damaged$"):
        lists.links_below(page, "http://host/n/")


def test_links_that_begin_with_a_dot(server: Web) -> None:
    """Many servers write all of them so."""
    server.files["/n/"] = b'<a href="./web1.tar">1</a><a href="./09:14-web2.tar">2</a><a href="./deep/">d</a>'
    server.files["/n/deep/"] = b'<a href="../../">up</a><a href="./web3.tar">3</a>'
    assert listed(server) == [("09:14-web2.tar", ""), ("web1.tar", ""), ("deep/web3.tar", "")]


@pytest.mark.parametrize("asked", [True, False])
def test_packed_lists(server: Web, asked: bool) -> None:
    """A server that may pack is asked not to; one that packs without being asked is understood, in folders too."""
    pages = {"/n/": b'<a href="a.tar">a</a><a href="deep/">d</a>', "/n/deep/": b'<a href="b.tar">b</a>'}
    server.packs = asked
    server.files |= pages if asked else {path: gzip.compress(page) for path, page in pages.items()}
    assert listed(server) == [("a.tar", ""), ("deep/b.tar", "")]


def test_a_packed_list_that_is_damaged(server: Web) -> None:
    """It is not taken for an empty one."""
    server.files |= {"/n/": b'<a href="deep/">d</a>', "/n/deep/": b"\x1f\x8b damaged"}
    assert listed(server) == [("deep", "cannot be listed: its page is packed and damaged")]


@pytest.mark.parametrize("packed", [True, False])
def test_a_page_that_is_too_long(server: Web, monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    """Neither memory nor patience ends before it does."""
    monkeypatch.setattr(lists, "_MAX_PAGE_BYTES", 999)
    server.files["/n/"] = gzip.compress(bytes(1000)) if packed else bytes(1000)
    with pytest.raises(InputError, match=r"/n/ cannot be listed: its page has more than 999 bytes; check the address$"):
        find_items([f"{server.address}/n/"])


def test_each_lost_folder_is_told_and_the_others_are_listed(server: Web) -> None:
    """Gone, forbidden, broken, no list; an empty one loses nothing."""
    names = ("broken", "cut", "empty", "forbidden", "gone", "json", "web")
    server.files["/n/"] = b"".join(f'<a href="{name}/">'.encode() for name in names) + b'<a href="a.tar">'
    server.files |= {"/n/empty/": b"", "/n/json/": b"[]", "/n/web/": b'<a href="b.tar">'}
    server.types["/n/json/"] = "application/json"
    server.statuses |= {"/n/broken/": 500, "/n/forbidden/": 403}
    server.cut.add("/n/cut/")
    assert listed(server) == [
        ("a.tar", ""),
        ("broken", "cannot be fetched: the server answers 500; run it again"),
        ("cut", "cannot be fetched: the connection was cut; run it again"),
        ("forbidden", "cannot be fetched: access is denied (403); check the account that is configured for it"),
        ("gone", GONE),
        ("json", "cannot be listed: not a page of links"),
        ("web/b.tar", ""),
    ]


def test_a_lost_folder_may_be_the_first(server: Web) -> None:
    """It is no mistake of the user, unlike a list that is not there at all."""
    server.files |= {"/n/": b'<a href="gone/"><a href="web/">', "/n/web/": b'<a href="b.tar">'}
    assert listed(server) == [("gone", GONE), ("web/b.tar", "")]
    with pytest.raises(InputError, match=r"/gone/ cannot be fetched: it does not exist; check the address$"):
        find_items([f"{server.address}/gone/"])


def test_a_list_that_breaks_off_says_so(server: Web) -> None:
    """A server that no longer answers is not asked for folder after folder."""
    server.files["/n/"] = b'<a href="a.tar"><a href="b/"><a href="c/">'
    server.silent.add("/n/b/")
    assert listed(server) == [
        ("a.tar", ""),
        ("(what is lost)", "cannot be fetched: the connection was cut; run it again"),
    ]
    assert set(server.asked) == {"/n/", "/n/b/"}


def test_a_list_of_too_many_pages(server: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as are looked at are looked at, however many wait; then it is said that there are more."""
    monkeypatch.setattr(lists, "_MAX_PAGES", 3)
    server.files["/n/"] = b"".join(b'<a href="%d/">' % number for number in range(9))
    server.files |= {f"/n/{number}/": b'<a href="a.tar">' for number in range(9)}
    why = "has a list of more than 3 pages; the other pages were not read"
    assert listed(server) == [("0/a.tar", ""), ("1/a.tar", ""), ("(what is lost)", why)]
    monkeypatch.setattr(lists, "_MAX_PAGES", 10)
    assert listed(server) == [(f"{number}/a.tar", "") for number in range(9)]


def test_a_folder_that_leads_into_itself(server: Web) -> None:
    """It ends as deep as folders of this machine do, and says so."""
    server.files |= {f"/n/{'a/' * depth}": b'<a href="a/">a</a>' for depth in range(40)}
    server.files["/n/"] += b'<a href="b.tar">'
    why = "lies in more than 32 folders and was not read"
    assert listed(server) == [("b.tar", ""), ("a/" * 32 + "a", why)]
    assert len(server.asked) == 33


def test_only_folders_that_a_pattern_reaches_are_asked_for(server: Web) -> None:
    """The others may be many, or lost."""
    server.files |= {
        "/n/": b'<a href="a.tar"><a href="web1/"><a href="web2/"><a href="db/">',
        "/n/web1/": b'<a href="b.tar"><a href="deep/">',
    }
    assert listed(server, "/n/*.tar") == [("a.tar", "")]
    assert server.asked == ["/n/"]
    assert listed(server, "/n/web*/*.tar") == [("web1/b.tar", ""), ("web2", GONE)]
    assert server.asked[1:] == ["/n/", "/n/web1/", "/n/web2/"]


def test_a_list_that_moved(server: Web) -> None:
    """Its links are those of where it is now; its files are asked for by the address that was named."""
    server.moved["/n/"] = "/mirror/m/index.html"
    server.types["/mirror/m/index.html"] = "text/html"
    server.files["/mirror/m/index.html"] = b'<a href="a.tar"><a href="/mirror/m/b.tar"><a href="/n/c.tar"><a href="#">'
    assert listed(server) == [("a.tar", ""), ("b.tar", "")]


def test_a_list_with_a_password(server: Web) -> None:
    """It goes along to what the list names, and is not told."""
    server.files["/n/"] = f'<a href="a.tar"><a href="/n/b.tar"><a href="{server.address}/n/c.tar">'.encode()
    with_password = server.address.replace("//", "//me:secret@")
    found = list(find_items([f"{with_password}/n/"]))
    assert [item.place for item in found] == [f"{with_password}/n/{name}.tar" for name in "abc"]
    assert [item.label for item in found] == [f"{server.address}/n/{name}.tar" for name in "abc"]
