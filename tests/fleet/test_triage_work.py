"""What a worker does with a bundle that changes, that is not there any more, that lies among broken ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest

import small_fleets
from small_results import ANALYSIS
from thpdiag.cli.options import exit_code
from thpdiag.engine.load import Rule
from thpdiag.errors import StoreFullError
from thpdiag.fleet import work
from thpdiag.fleet.batch import run_batch
from thpdiag.fleet.sources.collections import Collection
from thpdiag.fleet.sources.item import BundleItem
from thpdiag.fleet.work import (
    ItemResult,
    RunConfig,
    Skipped,
    Workers,
    failed_result,
    unread_result,
    work_on,
)
from thpdiag.host.options import Options
from thpdiag.pipeline import analyze
from thpdiag.sandbox.outcome import Outcome, Status
from thpdiag.sandbox.preload import WorkerDiedError
from thpdiag.store.results import KnownContents, PackedResult, unread_key
from thpdiag.store.store import Store

NOTHING = json.dumps({"problems": [], "inputs": [], "unknown": [], "findings": []}).encode()
Analyzed = Callable[..., Outcome]


@pytest.fixture
def bundle(tmp_path: Path) -> BundleItem:
    (tmp_path / "a.txt").write_text("a\n", encoding="utf-8")
    return BundleItem(str(tmp_path / "a.txt"), "in/a.txt", 2)


@pytest.fixture
def asked(tmp_path: Path) -> RunConfig:
    (tmp_path / "scratch").mkdir()
    return RunConfig(ANALYSIS, tmp_path / "scratch")


def done(monkeypatch: pytest.MonkeyPatch, item: BundleItem, asked: RunConfig, analyzed: Analyzed) -> list[ItemResult]:
    """The results of an item whose analysis ends as the function says."""
    monkeypatch.setattr(work, "analyze_isolated", analyzed)
    return work_on(item, asked)


def ends(results: list[ItemResult]) -> list[tuple[str, str]]:
    return [(one.path, one.status) for one in results if isinstance(one, PackedResult)]


def test_a_bundle_that_is_still_written(monkeypatch: pytest.MonkeyPatch, bundle: BundleItem, asked: RunConfig) -> None:
    """A result under the sha256 of what it was before would be wrong; it is tried twice, and named."""
    sizes: list[int] = []

    def growing(paths: list[Path], *_: object, **__: object) -> Outcome:
        with paths[0].open("a", encoding="utf-8") as out:
            out.write("more\n")
        sizes.append(paths[0].stat().st_size)
        return Outcome(Status.OK, content=NOTHING)

    results = done(monkeypatch, bundle, asked, growing)

    assert (ends(results), len(sizes)) == ([("in/a.txt", "refused")], 2)
    assert "changed while it was read" in results[0].reason  # type: ignore[union-attr]
    assert results[0].sha256 == unread_key("in/a.txt")


def test_a_bundle_that_was_written_just_now(
    monkeypatch: pytest.MonkeyPatch, bundle: BundleItem, asked: RunConfig
) -> None:
    """The second attempt has all of it."""
    left = ["the end\n"]

    def growing(paths: list[Path], *_: object, **__: object) -> Outcome:
        with paths[0].open("a", encoding="utf-8") as out:
            out.write(left.pop() if left else "")
        return Outcome(Status.TIMEOUT)

    results = done(monkeypatch, bundle, asked, growing)

    assert (ends(results), results[0].size) == ([("in/a.txt", "timeout")], 10)  # type: ignore[union-attr]


def test_a_bundle_that_vanished(bundle: BundleItem, asked: RunConfig) -> None:
    """Since it was listed."""
    Path(bundle.place).unlink()

    assert ends(work_on(bundle, asked)) == [("in/a.txt", "refused")]


def test_what_is_no_bundle_has_no_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: RunConfig) -> None:
    """A note beside the bundles; it counts as a bundle only, and is known by its path: its content may yet come."""
    note = tmp_path / "README.txt"
    note.write_text("the bundles of last week\n")

    def really(paths: list[Path], rules: list[Rule], options: Options, **_: object) -> Outcome:
        return Outcome(Status.OK, content=json.dumps(analyze(paths, rules, options), default=dict).encode())

    (one,) = done(monkeypatch, BundleItem(str(note), "in/README.txt", 2), asked, really)

    assert isinstance(one, PackedResult)
    assert (one.status, one.reason, one.hosts, one.document) == ("refused", work.NOT_RECOGNISED, (), None)
    assert one.sha256 == unread_key("in/README.txt")


def test_one_of_a_collection_cannot_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: RunConfig) -> None:
    """The others are done all the same, and the collection as a whole is not called unreadable."""
    for name in ("1", "3"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    inner = [BundleItem(str(tmp_path / name), name) for name in ("1", "2", "3")]
    monkeypatch.setattr(work, "open_collection", lambda *_: Collection(tuple(inner)))
    results = done(monkeypatch, BundleItem("c.tar", "c.tar"), asked, lambda *_, **__: Outcome(Status.TIMEOUT))

    assert ends(results) == [("c.tar/1", "timeout"), ("c.tar/2", "refused"), ("c.tar/3", "timeout")]


@pytest.mark.parametrize(
    ("recognised", "expected"),
    [
        ({"1", "2", "beside"}, ["c.tar/1 ok", "c.tar/2 ok", "c.tar/b ok"]),
        ({"1", "beside"}, ["c.tar/1 ok", "c.tar/2 refused", "c.tar/b ok"]),
        ({"1", "2"}, ["c.tar/1 ok", "c.tar/2 ok"]),
        ({"beside", "c.tar"}, ["c.tar ok"]),
        ({"c.tar"}, ["c.tar/1 refused", "c.tar/2 refused"]),
    ],
)
def test_what_lies_beside_the_archives(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: RunConfig, recognised: set[str], expected: list[str]
) -> None:
    """A host that came unpacked has its result, logs of the collector none; a host with packed logs is one bundle."""
    for name in ("1", "2", "beside", "c.tar"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    inner = Collection(
        tuple(BundleItem(str(tmp_path / name), name) for name in ("1", "2")), BundleItem(str(tmp_path / "beside"), "b")
    )
    monkeypatch.setattr(work, "open_collection", lambda *_: inner)

    def analyzed(paths: list[Path], *_: object, **__: object) -> Outcome:
        given = [{"reader": "vmstat"}] if paths[0].name in recognised else []
        return Outcome(Status.OK, content=json.dumps({**json.loads(NOTHING), "inputs": given, "findings": []}).encode())

    monkeypatch.setattr(work, "rows_of_document", lambda *_: ())
    results = done(monkeypatch, BundleItem(str(tmp_path / "c.tar"), "c.tar"), asked, analyzed)

    assert [" ".join(one) for one in ends(results)] == expected


@pytest.mark.parametrize("free", [0, 1 << 30])
def test_no_room_is_the_bundles_doing_if_it_goes_with_it(
    monkeypatch: pytest.MonkeyPatch, bundle: BundleItem, asked: RunConfig, free: int
) -> None:
    """A disk that stays full ends the run, which would call all others limited."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))

    def full(*_: object, **__: object) -> Outcome:
        return Outcome(Status.LIMIT, work.DISK_SPACE)

    if free:
        assert ends(done(monkeypatch, bundle, asked, full)) == [("in/a.txt", "limit (disk space)")]
    else:
        with pytest.raises(StoreFullError, match="no room to work in"):
            done(monkeypatch, bundle, asked, full)


def test_a_mistake_of_ours_is_a_line(monkeypatch: pytest.MonkeyPatch, bundle: BundleItem, asked: RunConfig) -> None:
    """What and where, without the path of the machine."""
    trace = 'Traceback (most recent call last):\n  File "/opt/demo/reading.py", line 33, in read\n    x\nKeyError: 1\n'
    results = done(monkeypatch, bundle, asked, lambda *_, **__: Outcome(Status.BUG, trace))

    assert ends(results) == [("in/a.txt", "bug")]
    assert results[0].reason == "thpdiag failed on it, please report that: KeyError: 1 (reading.py, line 33)"  # type: ignore[union-attr]


def ended(error: BaseException) -> Future[list[ItemResult]]:
    future: Future[list[ItemResult]] = Future()
    future.set_exception(error)
    return future


@pytest.mark.parametrize(
    ("error", "first", "second"),
    [
        (WorkerDiedError(-9), "again", "lost"),
        (MemoryError(), "again", "lost"),
        (BlockingIOError(11, "no more processes"), "again", "lost"),
        (TimeoutError("Task timeout", 1), "timeout", "timeout"),
        (KeyError("x"), "bug", "bug"),
    ],
)
def test_what_costs_one_bundle(asked: RunConfig, error: BaseException, first: str, second: str) -> None:
    """Never the batch: what the machine did is tried again, what thpdiag did is told."""
    item = BundleItem("a", "in/a")
    found = [Workers(asked, 1).collect(ended(error), item, attempt) for attempt in (1, 2)]

    assert [ends(one)[0][1] if one else "again" for one in found] == [first, second]


def test_what_ends_the_batch(asked: RunConfig) -> None:
    """A full disk is no matter of a bundle."""
    with pytest.raises(StoreFullError):
        Workers(asked, 1).collect(ended(StoreFullError("no room")), BundleItem("a", "in/a"), 1)


class Played:
    """A machine whose items end with the results that it was given."""

    room = 9

    def __init__(self, *results: list[ItemResult]) -> None:
        self._results = {one[0].path.partition("/")[0]: one for one in results}
        self.items = [BundleItem("", label) for label in self._results]

    def submit(self, item: BundleItem) -> Future[list[ItemResult]]:
        future: Future[list[ItemResult]] = Future()
        future.set_result(self._results[item.label])
        return future

    def collect(self, future: Future[list[ItemResult]], item: BundleItem, attempt: int) -> list[ItemResult]:
        return future.result()

    def check_alive(self) -> None:
        """All is there."""


def stored(folder: Path, *results: list[ItemResult]) -> dict[str, str]:
    """What is in the store after a further run with these results."""
    with Store.open(folder, ANALYSIS) as store:
        machine = Played(*results)
        run_batch(machine.items, machine, store, lambda _: None)
        return {one.result.path: one.result.status for one in store.results()}


def test_what_is_read_at_last_was_never_unreadable(tmp_path: Path) -> None:
    """A failure under a path goes with the first result of it, of whatever run; other failures stay."""
    item, other = BundleItem("", "c.tar"), BundleItem("", "d.tar")
    first = stored(
        tmp_path, [unread_result(item, "lost", "killed", 2)], [unread_result(other, "refused", "is a device")]
    )
    assert first == {"c.tar": "lost", "d.tar": "refused"}

    again = stored(tmp_path, [PackedResult("1" * 64, "c.tar/web1", 1, "ok")], [failed_result(other, KeyError(1), 1)])
    assert again == {"c.tar/web1": "ok", "d.tar": "bug"}

    assert stored(tmp_path, [Skipped("2" * 64, "d.tar")]) == {"c.tar/web1": "ok"}


def test_reasons_are_lines(tmp_path: Path) -> None:
    """Whatever an error said."""
    with Store.open(tmp_path, ANALYSIS) as store:
        machine = Played([unread_result(BundleItem("", "a"), "refused", "two\nlines\x1b[31m")])
        run_batch(machine.items, machine, store, lambda _: None)
        assert [one.result.reason for one in store.results()] == ["two lines\\x1b[31m"]


def test_hours_are_told(asked: RunConfig) -> None:
    """For what the guard cannot end."""
    (result,) = Workers(asked, 1).collect(ended(TimeoutError()), BundleItem("", "a"), 1) or ()

    assert isinstance(result, PackedResult)
    assert result.reason == "no result within 24 hours"


def test_contents_that_are_known() -> None:
    """By half of their sha256; what was not read never is."""
    contents = [f"{number:064x}" for number in (5, 1 << 200, 3 << 250)]
    known = KnownContents.from_digests([*contents, unread_key("a")])

    assert all(content in known for content in contents)
    assert [f"{number:064x}" in known for number in (6 << 130, 1 << 201, 2 << 250, 0xF << 252)] == [False] * 4
    assert "0" * 64 not in KnownContents()


UNDECIDED = {"rule": "THP-001", "missing": [], "ask_for": []}
PROBLEM = {"member": "a.txt", "text": "cannot be read", "kind": "unreadable", "hides": True}


@pytest.mark.parametrize(
    ("problems", "unknown", "reader", "expected"),
    [
        ([], [UNDECIDED], "meminfo", ("ok", "")),
        ([PROBLEM], [], "meminfo", ("ok", "")),
        ([PROBLEM], [UNDECIDED], "meminfo", ("partial", "a.txt: cannot be read")),
        ([PROBLEM, PROBLEM], [UNDECIDED], "meminfo", ("partial", "a.txt: cannot be read (and 1 more)")),
        ([PROBLEM, PROBLEM | {"kind": "limit"}], [], "meminfo", ("limit", "a.txt: cannot be read")),
        ([], [UNDECIDED], "", ("refused", work.NOT_RECOGNISED)),
        ([PROBLEM], [UNDECIDED], "", ("refused", f"{work.NOT_RECOGNISED}; a.txt: cannot be read")),
        ([PROBLEM | {"kind": "limit"}], [UNDECIDED], "", ("refused", f"{work.NOT_RECOGNISED}; a.txt: cannot be read")),
    ],
)
def test_the_status_of_a_document(
    problems: list[dict[str, object]], unknown: list[dict[str, object]], reader: str, expected: tuple[str, str]
) -> None:
    """Damage that decides nothing is none; as the exit codes of analyze have it."""
    document = small_fleets.host("db1", small_fleets.said("cannot_tell")) | {
        "problems": problems,
        "unknown": unknown,
        "inputs": [{"member": "a.txt", "reader": reader}],
    }
    assert work.status_of_document(document) == expected
    assert {"ok": 0, "partial": 5, "limit": 6, "refused": 3}[expected[0]] == exit_code(document)
