"""Bundles that are elsewhere: listed, copied blindly, and every trouble of the way in one sentence without a key."""

from __future__ import annotations

import builtins
import gzip
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from remote_servers import KEY, Bucket, Web, web
from thpdiag.errors import InputError, UsageError
from thpdiag.fleet.sources.item import BundleItem, UnreadError
from thpdiag.fleet.sources.items import find_items
from thpdiag.fleet.sources.remote import fetch

MOST = 1 << 30
pytestmark = pytest.mark.usefixtures("asked_directly")


@pytest.fixture
def server() -> Iterator[Web]:
    with web() as running:
        running.files["/a.tar"] = b"the bundle"
        yield running


def told(*names: str) -> list[str]:
    return [item.label for item in find_items(names)]


@contextmanager
def no_thread_more() -> Iterator[None]:
    """A process that forks must have none; those of the servers of these tests do not count."""
    before = set(threading.enumerate())
    yield
    more = [thread.name for thread in threading.enumerate() if thread not in before]
    assert [name for name in more if "process_request" not in name] == []


def failed(address: str, folder: Path, most: int = MOST) -> str:
    """Why it cannot be fetched; nothing of it is left behind, and no thread."""
    with no_thread_more(), pytest.raises(UnreadError) as said:
        fetch(address, folder, most)
    assert not list(folder.iterdir())
    for secret in (KEY, "127.0.0.1", "token", "me:"):
        assert secret not in str(said.value)
    return str(said.value)


def test_a_copy_from_the_web(server: Web, tmp_path: Path) -> None:
    """Byte for byte, under its name; the key is sent and not kept."""
    place = fetch(f"{server.address}/a.tar?token=a%2Fb+c", tmp_path, MOST)
    assert (place.name, place.read_bytes()) == ("a.tar", b"the bundle")
    assert server.asked == ["/a.tar?token=a%2Fb+c"]


def test_no_thread_is_left(server: Web, tmp_path: Path) -> None:
    """A name of a server is looked up in one, which is gone then."""
    with no_thread_more():
        fetch(server.address.replace("127.0.0.1", "localhost") + "/a.tar", tmp_path, MOST)


def test_a_copy_is_blind(server: Web, tmp_path: Path) -> None:
    """What a server says is packed stays so: nothing is unpacked on the way."""
    server.files["/a.tar.gz"] = gzip.compress(bytes(1 << 20))
    assert fetch(f"{server.address}/a.tar.gz", tmp_path, 5000).read_bytes() == server.files["/a.tar.gz"]


def test_a_moved_bundle(server: Web, tmp_path: Path) -> None:
    """It is followed, under the name that was asked for."""
    assert fetch(f"{server.address}/moved", tmp_path, MOST).read_bytes() == b"the bundle"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/x/..%2F..%2Fetc", "etc"),
        ("/%2e%2e", "_"),
        ("/", "bundle"),
        ("/a%0Ab%1B.tar", "a_b_.tar"),
        ("/-rf", "_rf"),
    ],
)
def test_names_of_copies_are_harmless(server: Web, tmp_path: Path, path: str, name: str) -> None:
    """They lie in the folder, whatever the address says."""
    server.files[path] = b"1"
    place = fetch(server.address + path, tmp_path, MOST)
    assert place == tmp_path / name
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/status/404", "cannot be fetched: it does not exist; check the address"),
        ("/status/401", "cannot be fetched: access is denied (401); check the account that is configured for it"),
        ("/status/403", "cannot be fetched: access is denied (403); check the account that is configured for it"),
        ("/status/410", "cannot be fetched: the server answers 410; check the address"),
        ("/status/500", "cannot be fetched: the server answers 500; run it again"),
        ("/cut", "cannot be fetched: the connection was cut; run it again"),
    ],
)
def test_troubles_of_the_web(server: Web, tmp_path: Path, path: str, message: str) -> None:
    """One sentence each."""
    address = server.address.replace("//", "//me:secret@")
    assert failed(f"{address}{path}?token={KEY}", tmp_path) == message


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    """Refused at once."""
    with web() as gone:
        address = gone.address
    assert (
        failed(f"{address}/a.tar?token={KEY}", tmp_path)
        == "cannot be fetched: the connection was refused; check the name and port of the server"
    )
    assert failed("http://[::1", tmp_path) == "is not a valid address: invalid server name; check the address"


def test_no_more_is_fetched_than_is_allowed(server: Web, tmp_path: Path) -> None:
    """By its size before it begins, and of a stream without one as it comes."""
    server.files["/large"] = bytes(5000)
    assert failed(f"{server.address}/large", tmp_path, 4999) == "is larger than 4999 bytes, the most that is fetched"
    assert fetch(f"{server.address}/large", tmp_path, 5000).stat().st_size == 5000
    (tmp_path / "large").unlink()
    assert failed(f"{server.address}/endless", tmp_path, 1 << 22).startswith("is larger than 4194304 bytes")
    assert server.given_up.wait(30)


def test_a_copy_from_s3(bucket: Bucket, tmp_path: Path) -> None:
    """Any key; keys may hold what addresses of the web may not."""
    bucket.put({"nightly/a b?c#d%20.tar": b"the bundle"})
    (item,) = find_items(["s3://bucket/nightly/"])
    assert item == BundleItem("s3://bucket/nightly/a b?c#d%20.tar", "s3://bucket/nightly/a b?c#d%20.tar", 10)
    assert fetch(item.place, tmp_path, MOST).read_bytes() == b"the bundle"


@pytest.mark.parametrize("key", ["bucket/gone.tar", "nobucket/a.tar"])
@pytest.mark.usefixtures("bucket")
def test_what_is_not_in_s3(tmp_path: Path, key: str) -> None:
    """Neither the object nor the bucket."""
    assert failed(f"s3://{key}", tmp_path) == "cannot be fetched: it does not exist; check the address"


def test_too_large_for_s3(bucket: Bucket, tmp_path: Path) -> None:
    """By the size that the store tells."""
    bucket.put({"a.tar": bytes(5000)})
    assert failed("s3://bucket/a.tar", tmp_path, 4999) == "is larger than 4999 bytes, the most that is fetched"


@pytest.mark.usefixtures("bucket")
def test_a_cut_connection_to_s3(server: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever came is thrown away."""
    from s3fs import S3FileSystem

    monkeypatch.setattr(S3FileSystem, "retries", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.address)
    server.cut.add("/bucket/a.tar")
    assert failed("s3://bucket/a.tar", tmp_path) == "cannot be fetched: the connection was cut; run it again"


def test_without_credentials(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said, not guessed."""
    bucket.put({"a.tar": b"1"})
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "no credentials for it; configure them " in failed("s3://bucket/a.tar", tmp_path)
    monkeypatch.setenv("FSSPEC_S3_ANON", "true")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("ExpiredToken", "cannot be fetched: the credentials have expired; renew them"),
        (
            "AccessDenied",
            "cannot be fetched: access is denied (AccessDenied); check the account that is configured for it",
        ),
        (
            "InvalidAccessKeyId",
            "cannot be fetched: access is denied (InvalidAccessKeyId); check the account that is configured for it",
        ),
        ("SomethingNew", "cannot be fetched: the server failed; run it again"),
    ],
)
def test_refusals_of_s3(
    bucket: Bucket, server: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    """As the store words them in its XML; the message of the server is not repeated."""
    answer = f"<Error><Code>{code}</Code><Message>{KEY} at 127.0.0.1</Message></Error>".encode()
    monkeypatch.setattr(server.RequestHandlerClass, "do_GET", lambda handler: _refused(handler, answer))
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.address)
    assert failed("s3://bucket/a.tar", tmp_path) == message


def _refused(handler: Any, answer: bytes) -> None:
    handler.send_response(403)
    handler.send_header("Content-Length", str(len(answer)))
    handler.end_headers()
    handler.wfile.write(answer)


def test_a_prefix_of_s3(bucket: Bucket) -> None:
    """Every object in the order of names; no folders, checksums, README, hidden names."""
    bucket.put({
        "n/b.tar.xz": b"12", "n/b.tar.xz.asc": b"1", "n/b.tar.xz.sha256": b"1", "n/a/deep/er.tar": b"123",
        "n/SHA256SUMS": b"1", "n/empty/": b"", "n/.part.tar": b"1", "n/.git/x": b"1", "n/c.txt": b"1",
        "nightly.tar": b"1", "n/alone.sha256": b"1", "n/README.md": b"1",
    })  # fmt: skip
    assert [(item.label.removeprefix("s3://bucket/"), item.size) for item in find_items(["s3://bucket/n/"])] == [
        ("n/a/deep/er.tar", 3),
        ("n/alone.sha256", 1),
        ("n/b.tar.xz", 2),
        ("n/c.txt", 1),
    ]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("n/*.tar.xz", ["n/web1.tar.xz", "n/web2.tar.xz"]),
        ("n/web?.tar.xz", ["n/web1.tar.xz", "n/web2.tar.xz"]),
        ("n/web[2-9]*", ["n/web2.tar.xz"]),
        ("**/web*", ["n/m/web3.tar.xz", "n/web1.tar.xz", "n/web2.tar.xz"]),
        ("n/**", ["n/db.tar", "n/m/web3.tar.xz", "n/web1.tar.xz", "n/web2.tar.xz"]),
        ("n/*/*", ["n/m/web3.tar.xz"]),
    ],
)
def test_patterns_of_s3(bucket: Bucket, pattern: str, expected: list[str]) -> None:
    """As of local names."""
    names = ("web1.tar.xz", "web2.tar.xz", "db.tar", "m/web3.tar.xz", ".web4.tar.xz")
    bucket.put({f"n/{name}": b"1" for name in names})
    assert told(f"s3://bucket/{pattern}") == [f"s3://bucket/{key}" for key in expected]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("s3://bucket/gone/", "s3://bucket/gone/ holds no bundle; check the address"),
        ("s3://bucket/*.zip", "s3://bucket/*.zip is a pattern that matches nothing; check the address"),
        ("s3://nobucket/", "s3://nobucket/ cannot be fetched: it does not exist; check the address"),
    ],
)
def test_a_list_without_a_bundle_is_said_before_anything_begins(bucket: Bucket, name: str, message: str) -> None:
    """As a local name that is not there."""
    bucket.put({"a.tar": b"1"})
    with pytest.raises(InputError) as said:
        find_items(["s3://bucket/a.tar", name])
    assert str(said.value) == message


def test_a_long_prefix_is_listed_page_by_page(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thousand and five keys in three requests, each made when its names are wanted; folders cost nothing more.

    A list that is begun in one thread goes on in another.
    """
    from s3fs import S3FileSystem

    bucket.put({f"n/{number % 50:02}/web{number:04}.tar": b"" for number in range(2005)})
    asked = []
    ask = S3FileSystem._call_s3

    async def counted(self: Any, method: str, *rest: Any, **more: Any) -> Any:
        asked.append(method)
        return await ask(self, method, *rest, **more)

    monkeypatch.setattr(S3FileSystem, "_call_s3", counted)
    found = find_items(["s3://bucket/n/"])
    first = [next(found) for _ in range(900)]
    assert len(asked) == 1
    with ThreadPoolExecutor(1) as elsewhere:
        keys = [item.label for item in (*first, *elsewhere.submit(list, found).result())]
    assert asked == ["list_objects_v2"] * 3
    assert keys == sorted(f"s3://bucket/n/{number % 50:02}/web{number:04}.tar" for number in range(2005))


def test_addresses_in_a_list(bucket: Bucket, tmp_path: Path) -> None:
    """A prefix is taken apart; what cannot be listed costs its own line."""
    bucket.put({"n/a.tar": b"1", "n/b.tar": b"1"})
    (tmp_path / "list").write_text(
        "s3://bucket/n/\ns3://nobucket/\nodd://x/y\nfile:///etc/passwd\ns3://bucket/unasked.tar\n"
    )
    assert [(item.label, item.refused) for item in find_items([], lists=[str(tmp_path / "list")])] == [
        ("s3://bucket/n/a.tar", ""),
        ("s3://bucket/n/b.tar", ""),
        ("s3://nobucket", "cannot be fetched: it does not exist; check the address"),
        ("odd://x/y", "odd:// is not an address type that fsspec supports"),
        ("file:///etc/passwd", "of files of this machine name the path, and of addresses only the file itself"),
        ("s3://bucket/unasked.tar", ""),
    ]


HERE = "of files of this machine name the path, and of addresses only the file itself"
KINDS = {
    "odd://x/y": "odd:// is not an address type that fsspec supports",
    "file:///etc/passwd": HERE,
    "zip://x::s3://bucket/a.zip": HERE,
    "ftp://host/a.tar": "ftp:// is a kind of address that thpdiag does not read; copy the bundles here first",
    "gs://b/a.tar": "gs:// needs more than the extra 'thpdiag[remote]': Please install gcsfs to access Google Storage",
}


@pytest.mark.parametrize(("name", "message"), KINDS.items())
def test_kinds_of_addresses(name: str, message: str) -> None:
    """What cannot be read is said before anything begins."""
    with pytest.raises(UsageError) as said:
        find_items([name])
    assert str(said.value) == message


def test_the_extra_is_named_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    importing = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "fsspec":
            raise ImportError(name)
        return importing(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError) as said:
        find_items(["s3://bucket/a.tar"])
    assert str(said.value) == "s3:// needs an extra: pip install 'thpdiag[remote]'"
