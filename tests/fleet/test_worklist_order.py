"""The order of the work list and its division among runs."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thpdiag.errors import InputError, UsageError
from thpdiag.fleet.batch import MAX_WAITING, Prefetch
from thpdiag.fleet.sources.item import BundleItem
from thpdiag.fleet.sources.items import Shard, find_items

NAMES = tuple(f"web{number}" for number in range(12))
SIZES = st.lists(st.integers(1, 50), max_size=60)


def sized(sizes: list[int]) -> list[BundleItem]:
    return [BundleItem(f"/{number}", str(number), size) for number, size in enumerate(sizes)]


def taken(ahead: Prefetch) -> Iterator[BundleItem]:
    """All items, each once the list has come as far as it may."""
    while True:
        ahead.settle(60)
        if (item := ahead.take()) is None:
            return
        yield item


@given(SIZES, st.integers(1, 70))
def test_the_biggest_of_the_next_ones_comes_first(sizes: list[int], most: int) -> None:
    """Each item once; none that was waiting is bigger than the one given before it."""
    items = sized(sizes)
    with Prefetch(items, most) as ahead:
        given_ = list(taken(ahead))
        assert ahead.is_over
    assert sorted(item.label for item in given_) == sorted(item.label for item in items)
    for turn, item in enumerate(given_):
        waiting = [other for other in items[: turn + most] if other not in given_[:turn]]
        assert item == min(waiting, key=lambda other: (-other.size, int(other.label)))


def test_unknown_sizes_come_before_and_refused_items_after() -> None:
    """An unknown size may be the biggest; what is not read is no work."""
    items = [
        BundleItem("a", "a", 5),
        BundleItem("b", "b"),
        BundleItem("c", "c", 9, refused="is a device"),
        BundleItem("d", "d", 7),
    ]
    with Prefetch(items) as ahead:
        assert [item.label for item in taken(ahead)] == ["b", "d", "a", "c"]


def test_no_more_is_asked_for_than_may_wait() -> None:
    """The list may have no end; one more is at hand, for which there is no room yet."""
    asked: list[int] = []

    def endless() -> Iterator[BundleItem]:
        while True:
            asked.append(len(asked))
            yield BundleItem("/", str(len(asked)), len(asked) % 7 + 1)

    with Prefetch(endless()) as ahead:
        assert len(list(zip(range(10), taken(ahead), strict=False))) == 10
        ahead.settle(60)
        assert MAX_WAITING + 10 <= ahead.count <= len(asked) <= ahead.count + 1 <= MAX_WAITING + 12


def test_a_list_that_is_slow_delays_nothing() -> None:
    """What it has said so far can be begun with, although nobody knows whether more comes."""
    going_on = Event()

    def slow() -> Iterator[BundleItem]:
        yield BundleItem("a", "a", 5)
        going_on.wait()
        yield BundleItem("b", "b", 9)

    with Prefetch(slow()) as ahead:
        while not ahead.count:
            ahead.settle(0.01)
        assert (ahead.take(), ahead.take(), ahead.is_over) == (BundleItem("a", "a", 5), None, False)
        going_on.set()
        assert [item.label for item in taken(ahead)] == ["b"]
        assert ahead.is_over


def test_an_error_of_the_list_comes_to_who_takes() -> None:
    """At once, whatever still waits."""

    def broken() -> Iterator[BundleItem]:
        yield BundleItem("a", "a", 5)
        raise InputError("the list breaks off")

    with Prefetch(broken()) as ahead:
        ahead.settle(60)
        with pytest.raises(InputError, match="breaks off"):
            ahead.take()
        assert not ahead.is_over


@settings(max_examples=20)
@given(st.lists(st.text(max_size=20), unique=True, max_size=40), st.integers(1, 9))
def test_shards_share_the_list(told: list[str], of: int) -> None:
    """Each bundle is done by exactly one of the runs, whatever its name."""
    bundles = [BundleItem("", name) for name in told]
    shares = [list(Shard(number, of).select(bundles)) for number in range(1, of + 1)]
    assert sorted(item.label for share in shares for item in share) == sorted(told)


@pytest.mark.parametrize(
    "named",
    [
        lambda place: ["."],
        lambda place: [str(place)],
        lambda place: ["../job"],
        lambda place: ["in"],
        lambda place: ["*/*.tar"],
        lambda place: [f"in/{name}.tar" for name in NAMES],
        lambda place: ["in", "more/in"],
    ],
    ids=["here", "whole path", "beside", "below", "pattern", "files", "two alike"],
)
@pytest.mark.parametrize("by", ["names", "list", "stdin"])
def test_shards_of_jobs_in_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: Callable[[Path], list[str]], by: str
) -> None:
    """Jenkins calls the second of two `job@2`: together they do all, and nothing twice."""
    shares = []
    for number in (1, 2):
        here = tmp_path / str(number) / ("here" if number == 1 else "here@2")
        for folder in (here / "in", here / "more/in", here.parent / "job"):
            folder.mkdir(parents=True)
            for name in NAMES:
                (folder / f"{name}.tar").write_text("x", encoding="ascii")
        monkeypatch.chdir(here)
        names = named(here)
        if by == "names":
            found = find_items(names, shard=Shard(number, 2))
        elif any("*" in name for name in names):
            pytest.skip("a list has no patterns")
        else:
            lines = io.BytesIO("".join(f"{name}\n" for name in names).encode())
            (here / "list").write_bytes(lines.getvalue())
            found = find_items([], lists=["list" if by == "list" else "-"], stdin=lines, shard=Shard(number, 2))
        shares.append({str(Path(item.place).resolve().relative_to(tmp_path / str(number))) for item in found})
    shares = [{path.replace("here@2", "here") for path in share} for share in shares]
    assert shares[0].isdisjoint(shares[1])
    assert all(any(path.endswith(f"/{name}.tar") for path in shares[0] | shares[1]) for name in NAMES)
    assert all(shares)


def test_an_address_of_a_list_is_in_the_same_shard_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name has that of the list's folder in brackets where the query, which may be a key, is left out."""
    lines = "".join(f"https://nowhere.invalid/x.tar?key={number}\n" for number in range(40))
    shares = []
    for number, folder in ((1, "here"), (2, "here@2")):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        found = find_items([], lists=["-"], stdin=io.BytesIO(lines.encode()), shard=Shard(number, 2))
        shares.append({item.place for item in found})
    assert shares[0].isdisjoint(shares[1])
    assert len(shares[0] | shares[1]) == 40


def test_shards_are_about_equal() -> None:
    """Of ten thousand names each of eight runs has its share."""
    shares = [sum(Shard(number, 8).has(f"nightly/web{i}.tar.xz") for i in range(10_000)) for number in range(1, 9)]
    assert min(shares) > 1100
    assert max(shares) < 1400


def test_a_shard_is_the_same_in_any_process() -> None:
    """Python's own hash of a text is another in each. Versions must divide alike, or a matrix loses bundles."""
    program = (
        "from thpdiag.fleet.sources.items import Shard\n"
        "print(''.join(str(Shard(1, 2).has(f'web{i}.tar'))[0] for i in range(16)))"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout.strip()
        for seed in ("1", "2")
    }  # fmt: skip
    assert answers == {"FFTTTFFFTTFFFFFF"}


@pytest.mark.parametrize("text", ["1/1", "2/8", "8/8", "1000/9999999"])
def test_forms_of_a_shard(text: str) -> None:
    """From 1 on."""
    shard = Shard.parse(text)
    assert f"{shard.number}/{shard.count}" == text


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "01/2", "1/ 2", "١/٢", "1/2\n"])
def test_no_shards(text: str) -> None:
    """The message says the form."""
    with pytest.raises(UsageError, match="--shard takes I/N with I from 1 to N, such as 2/8, not"):
        Shard.parse(text)
