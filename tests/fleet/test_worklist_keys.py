"""Addresses as people write them, and keys of object stores with every character that they may have."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote_servers import Bucket, web
from thpdiag.errors import InputError
from thpdiag.fleet.sources.items import find_items
from thpdiag.fleet.sources.remote import fetch
from thpdiag.store.results import public_path

MOST = 1 << 30


def told(*names: str) -> list[str]:
    return [item.label for item in find_items(names)]


def test_keys_with_marks_of_the_web(bucket: Bucket, tmp_path: Path) -> None:
    """In an object store they are letters: neither the copy nor the result loses what comes behind."""
    bucket.put({f"c/nightly{mark}{number}.tar": b"1" for mark in "#?" for number in (5, 6)})
    found = list(find_items(["s3://bucket/c/"]))
    stored = [public_path(item.label) for item in found]
    assert stored == [f"s3://bucket/c/nightly{name}.tar" for name in ("#5", "#6", "?5", "?6")]
    assert [fetch(item.place, tmp_path, MOST).name for item in found[1:3]] == ["nightly_6.tar", "nightly_5.tar"]
    assert told("s3://bucket/c/nightly#5.tar") == ["s3://bucket/c/nightly#5.tar"]


def test_a_version_of_an_object(bucket: Bucket, tmp_path: Path) -> None:
    """It is the one that was named, in results too."""
    first, _ = bucket.versions("a.tar", b"old", b"new")
    (item,) = find_items([f"s3://bucket/a.tar?versionId={first}"])
    place = fetch(item.place, tmp_path, MOST)
    assert (place.name, place.read_bytes()) == ("a.tar", b"old")
    assert public_path(item.label) == f"s3://bucket/a.tar?versionId={first}"


def test_kinds_in_capitals(bucket: Bucket, tmp_path: Path) -> None:
    """They are the same kinds."""
    bucket.put({"n/a.tar": b"1"})
    assert told("S3://bucket/n/", "S3://bucket/n/*") == ["s3://bucket/n/a.tar"] * 2
    assert fetch("S3://bucket/n/a.tar", tmp_path, MOST).read_bytes() == b"1"
    with web() as server:
        server.files["/a.tar"] = b"the bundle"
        address = server.address.replace("http", "HTTP")
        assert fetch(f"{address}/a.tar", tmp_path, MOST).read_bytes() == b"the bundle"


def test_a_key_that_looks_like_a_pattern(bucket: Bucket) -> None:
    """An object of exactly this name is found beside what the pattern fits; `[[]` is the bracket alone."""
    bucket.put({"n/a[1].tar": b"1", "n/a2.tar": b"1"})
    assert told("s3://bucket/n/a[1].tar") == ["s3://bucket/n/a[1].tar"]
    assert told("s3://bucket/n/a[[]1].tar") == ["s3://bucket/n/a[1].tar"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("s3://bucket", "s3://bucket names no object; with / at its end it is all that lies there"),
        ("s3://", "s3:// names no bucket; check the address"),
        ("s3:///a.tar", "s3:///a.tar names no bucket; check the address"),
        (
            "s3://no such bucket!/",
            "s3://no such bucket!/ cannot be fetched: no bucket or object can have this name; check the address",
        ),
        ("s3://bu*/a.tar", "s3://bu*/a.tar is a pattern of servers or buckets; name one of them"),
        ("http://*.host/", "http://*.host/ is a pattern of servers or buckets; name one of them"),
        ("http:///x/", "http:///x/ names no server; check the address"),
        ("http://[::1/x/", "http://[::1/x/ is not a valid address: invalid server name; check the address"),
        (
            "http://me:sec/ret@host/x/",
            "http://_/host/x/ is not a valid address: invalid server name; check the address",
        ),
        (
            "http://host:port/x.tar",
            "http://host:port/x.tar is not a valid address: invalid server name; check the address",
        ),
    ],
)
@pytest.mark.usefixtures("bucket")
def test_addresses_that_cannot_be(name: str, message: str) -> None:
    """Said at once, with the address, in words that tell what to do."""
    with pytest.raises(InputError) as said:
        find_items([name])
    assert str(said.value) == message


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("a.tar a.tar.gz a.tar.md5 a.tar.sha256", "a.tar a.tar.gz"),
        ("a.tar a.tar-1 a.tar.gz a.tar.gz.asc a.tar.md5 b.tar.md5", "a.tar a.tar-1 a.tar.gz b.tar.md5"),
        ("perf.data perf.data.old perf.data.tar.bz2", "perf.data perf.data.old"),
        ("perf.data.tar.bz2 web1.data web1.data.tar.bz2", "perf.data.tar.bz2 web1.data"),
        ("m/a.tar n/a.tar.md5", "m/a.tar n/a.tar.md5"),
        ("a.tar a.tar.d/x.tar a.tar.md5", "a.tar a.tar.d/x.tar"),
        (".a.tar .a.tar.md5", ""),
    ],
)
def test_what_belongs_to_an_object_farther_up(bucket: Bucket, names: str, expected: str) -> None:
    """Other names may stand between an archive and its checksum, a recording and what `perf archive` made of it."""
    bucket.put({f"n/{name}": b"1" for name in (*names.split(), "z.tar")})
    assert told("s3://bucket/n/") == [f"s3://bucket/n/{name}" for name in (*expected.split(), "z.tar")]


def test_what_belongs_to_an_object_that_a_pattern_leaves_out(bucket: Bucket) -> None:
    """It is no bundle either, as in a folder."""
    bucket.put({f"n/{name}": b"1" for name in ("perf.data", "perf.data.tar.bz2", "web.tar.bz2")})
    assert told("s3://bucket/n/*.tar.bz2") == ["s3://bucket/n/web.tar.bz2"]
