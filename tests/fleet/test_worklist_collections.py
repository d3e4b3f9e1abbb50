"""Archives of archives: each of their archives becomes a bundle; ordinary bundles are found out at once."""

from __future__ import annotations

import io
import json
import lzma
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thpdiag.errors import InputError
from thpdiag.fleet.sources import collections
from thpdiag.fleet.sources import collections as inner
from thpdiag.fleet.sources.collections import Collection, open_collection
from thpdiag.fleet.sources.item import BundleItem, UnreadError
from thpdiag.sandbox.outcome import Answer, Outcome, Status
from thpdiag.sandbox.preload import WorkerPool, call_handler

EXAMPLES = 150 if os.environ.get("THPDIAG_PROOF") == "1" else 30
HOSTS = {f"web{number}.tar.xz": lzma.compress(bytes([number]) * 5000) + bytes(900) for number in range(3)}
COLLECT = "sos-collector-2026-11-20-abcde"


def tarred(files: Mapping[str, bytes], form: str = "w") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=form) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def zipped(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return out.getvalue()


PACKERS: dict[str, Callable[[Mapping[str, bytes]], bytes]] = {
    "c.tar": tarred,
    "c.tar.gz": partial(tarred, form="w:gz"),
    "c.tar.xz": partial(tarred, form="w:xz"),
    "c.tar.bz2": partial(tarred, form="w:bz2"),
    "c.zip": zipped,
}


@pytest.fixture(scope="module")
def single() -> Iterator[WorkerPool]:
    """A process with one thread, from which the guard may fork; those of other tests may have left some in this one."""
    with WorkerPool(1, call_handler, [inner.__name__]) as pool:
        yield pool


@pytest.fixture(autouse=True)
def guard_elsewhere(single: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collections, "run_in_child", lambda *given: single.submit(given).result())


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def tried(scratch: Path, content: bytes, name: str = "c.tar", most: int = 1 << 30) -> Collection | None:
    """What is found in an archive; one that is none leaves nothing behind."""
    place = scratch.parent / name
    place.write_bytes(content)
    found = open_collection(place, scratch, most)
    assert found or not list(scratch.iterdir())
    return found


def contents(found: Collection | None) -> dict[str, bytes]:
    return {item.label: Path(item.place).read_bytes() for item in found or () if not item.refused}


def beside(found: Collection) -> dict[str, bytes]:
    """The files beside the archives, by their paths."""
    assert found.siblings is not None
    folder = Path(found.siblings.place)
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found.siblings.size == sum(map(len, files.values()))
    return files


@pytest.mark.parametrize("name", PACKERS)
def test_the_archives_of_a_collection_are_bundles(scratch: Path, name: str) -> None:
    """Byte for byte, with their sizes; what else is in it is one bundle more."""
    files = {f"case/{host}": content for host, content in HOSTS.items()}
    found = tried(scratch, PACKERS[name]({"case/web0.tar.xz.md5": b"1", **files, "case/notes.txt": b"2"}), name)
    assert contents(found) == HOSTS
    assert found is not None
    assert beside(found) == {"case/web0.tar.xz.md5": b"1", "case/notes.txt": b"2"}
    assert [item.size for item in found] == [len(content) for content in HOSTS.values()]
    assert [Path(item.place).name for item in found] == list(HOSTS)


@pytest.mark.parametrize("name", ["c.tar", "c.tar.xz"])
def test_sos_collect(scratch: Path, name: str) -> None:
    """As sos 4 packs it: checksums, logs and a manifest as in a report of one host, which are of none."""
    files = {
        f"{COLLECT}/version.txt": b"sosreport: 4.8.2\n",
        f"{COLLECT}/sos_reports/manifest.json": b"{" * 40_000,
        **{f"{COLLECT}/sos_logs/{number}.log": b"log" * 20 for number in range(80)},
        f"{COLLECT}/sosreport-a.tar.xz": bytes(900_000),
        f"{COLLECT}/sosreport-b.tar.xz": bytes(800_000),
    }
    found = tried(scratch, PACKERS[name](files), name)
    assert [item.label for item in found or ()] == ["sosreport-a.tar.xz", "sosreport-b.tar.xz"]
    assert found is not None
    assert found.siblings is None


@pytest.mark.parametrize(
    "files",
    [
        {"case/web0.tar.xz": bytes(9000), "case/vmstat.txt": b"1"},
        {**HOSTS, "perf.data": bytes(200_000)},
        {f"a/b/c/d/{host}": content for host, content in HOSTS.items()},
        {"sosreport-x/proc/fs.tar": bytes(9000), "sosreport-x/b.tar": bytes(9000), "sosreport-x/c.tar": bytes(9000)},
        {"host/proc/a.tar": bytes(9000), "host/b.tar": bytes(9000)},
        {"var/a.tar": bytes(9000), "var/b.tar": bytes(9000)},
        {"case/a.tar.md5": bytes(9000), "case/b.tar.md5": bytes(9000)},
        {"case/messages.gz": bytes(9000), "case/sar.gz": bytes(9000)},
        {},
    ],
    ids=["one archive", "mostly other bytes", "too deep", "a report", "a host", "a root", "sums", "logs", "empty"],
)
@pytest.mark.parametrize("name", ["c.tar", "c.tar.xz"])
def test_no_collection(scratch: Path, files: dict[str, bytes], name: str) -> None:
    """Nothing is left in the scratch folder, though archives may have been written on the way."""
    assert tried(scratch, PACKERS[name](files), name) is None


@pytest.mark.parametrize(
    "files", [{"case/web0.tar.xz": b"1"}, {"a.zip": b"1", "b.zip": b"1", "perf.data": bytes(range(256))}]
)
def test_no_collection_in_a_zip(scratch: Path, files: dict[str, bytes]) -> None:
    """One archive, or mostly other bytes."""
    assert tried(scratch, zipped(files), "c.zip") is None


@pytest.mark.parametrize("content", [b"", b"vmstat", b"PK\x03\x04" + bytes(99), b"\xfd7zXZ\0" + bytes(99)])
def test_what_is_only_named_as_an_archive(scratch: Path, content: bytes) -> None:
    """Its analysis says what is wrong with it."""
    assert tried(scratch, content) is None


@pytest.mark.parametrize("name", ["vmstat.txt", "sosreport-web1.tar.xz", "thp-capture-x.tar.gz", "c.tar.md5"])
def test_no_child_is_made_for_a_name_that_says_enough(
    scratch: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No archive by its name, or that of one host: no child is made."""
    monkeypatch.setattr(collections, "run_in_child", None)
    assert tried(scratch, tarred(HOSTS), name) is None


def test_an_ordinary_bundle_is_found_out_at_its_beginning(tmp_path: Path) -> None:
    """However long it is, and though it has no name that says so: what comes behind is not even read."""
    read: list[int] = []

    class Counted(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            read.append(size or 0)
            return super().read(size)

    content = lzma.compress(tarred({f"bundle/{number}.txt": bytes(1000) for number in range(9000)}), preset=0)
    content += bytes(4 << 20)
    one = inner._CollectionReader(inner.Budget(inner.ReadLimits()), tmp_path, 1 << 30)
    with pytest.raises(inner.OneBundleError):
        one.read(Counted(content))
    assert sum(read) <= 256 * 1024


def test_a_log_before_everything_is_not_decompressed_to_its_end(tmp_path: Path) -> None:
    """One member of 200 MB of zeros, which is 30 KB packed: two of them are enough."""
    content = lzma.compress(tarred({"bundle/a.log": bytes(200 << 20)})[: 8 << 20], preset=0)
    one = inner._CollectionReader(inner.Budget(inner.ReadLimits()), tmp_path, 1 << 30)
    with pytest.raises(inner.OneBundleError):
        one.read(io.BytesIO(content))
    assert one._read_bytes < 3 << 20


def test_hostile_names_stay_names(scratch: Path) -> None:
    """Nothing is written elsewhere, and nothing under a name of theirs; two alike are told apart."""
    names = [
        "../../../a.tar",
        "/b/../../c.tar",
        "-rf.tar",
        "..tar",
        "n\n\x1b[31m.tar",
        "n" * 300 + ".tar",
        "same.tar",
        "same.tar",
    ]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for number, name in enumerate(names):
            info = tarfile.TarInfo(name)
            info.size = 700 + number
            tar.addfile(info, io.BytesIO(bytes([number]) * info.size))
    found = tried(scratch, out.getvalue())
    assert found is not None
    assert [item.label for item in found] == [
        "a.tar", "c.tar", "-rf.tar", "..tar", "n\\n\\x1b[31m.tar", "n" * 300 + ".tar", "same.tar", "same.tar.2",
    ]  # fmt: skip
    for number, item in enumerate(found):
        assert Path(item.place).read_bytes() == bytes([number]) * item.size
        assert Path(item.place).resolve().is_relative_to(scratch)
    assert sorted(path.name for path in scratch.parent.iterdir()) == ["c.tar", "scratch"]


def test_hostile_names_beside_the_archives(scratch: Path) -> None:
    """They lie where their harmless parts say, below the scratch folder; what has no place of its own is told of."""
    names = ["../../up.txt", "a//./b.txt", "/opt/c.txt", "..txt", "x\n.txt", "x_n.txt", "d" * 4000, "a/b.txt/e.txt"]
    found = tried(scratch, tarred({**HOSTS, **{name: name.encode() for name in names}}, form="w"))
    assert found is not None
    there = beside(found)
    assert set(there) == {"up.txt", "a/b.txt", "opt/c.txt", "_txt", "x_n.txt", "d" * 120}
    assert there["x_n.txt"] == b"x\n.txt"
    assert [item.refused for item in found if item.refused] == [
        "2 of the files beside its archives could not be written to the scratch folder and were not read"
    ]


@pytest.mark.parametrize("name", PACKERS)
def test_no_room_for_what_lies_beside(scratch: Path, name: str) -> None:
    """It is told, and the archives have their results; no half of a file is left to be analysed."""
    files = {**HOSTS, "notes/a.txt": b"a" * 100, "notes/b.txt": bytes(2500), "notes/c.txt": b"c" * 100}
    found = tried(scratch, PACKERS[name](files), name, most=sum(map(len, HOSTS.values())) + 300)
    assert contents(found) == HOSTS
    assert found is not None
    assert set(beside(found)) == {"notes/a.txt", "notes/c.txt"}
    assert [item.refused.split(" could")[0] for item in found if item.refused] == ["1 of the files beside its archives"]


def test_a_cut_collection_gives_what_there_is(scratch: Path) -> None:
    """The archive in which it ends too; and one item says that others may be missing."""
    found = tried(scratch, tarred(HOSTS)[:2500])
    assert found is not None
    cut, lost = list(contents(found)), [item for item in found if item.refused]
    assert cut == ["web0.tar.xz", "web1.tar.xz"]
    assert [item.label for item in lost] == ["(what is lost)"]
    assert "the archive ends inside a member; members after offset" in lost[0].refused


def test_a_damaged_member_of_a_zip(scratch: Path) -> None:
    """The others are read; of one that cannot be unpacked the reason is told."""
    content = bytearray(zipped(HOSTS))
    content[content.index(b"web1.tar.xz") - 30] ^= 1  # the magic of its header
    found = tried(scratch, bytes(content), "c.zip")
    assert [(item.label, item.refused) for item in found or ()] == [
        ("web0.tar.xz", ""),
        ("web1.tar.xz", next(item.refused for item in found or () if item.refused)),
        ("web2.tar.xz", ""),
    ]
    assert [item.refused.split(" at offset")[0] for item in found or () if item.refused] == ["has no header"]


@pytest.mark.parametrize("name", ["c.tar", "c.zip"])
def test_no_room(scratch: Path, name: str) -> None:
    """Said in one sentence; nothing is left behind."""
    with pytest.raises(UnreadError, match=r"^its archives need more room than there is for scratch files$"):
        tried(scratch, PACKERS[name](HOSTS), name, most=2000)
    assert not list(scratch.iterdir())


@settings(
    deadline=None, derandomize=True, max_examples=150 if os.environ.get("THPDIAG_PROOF") == "1" else 30, database=None
)
@given(st.sampled_from(sorted(PACKERS)), st.data())
def test_any_damage_comes_to_an_end_with_a_name(name: str, data: st.DataObject) -> None:
    """Whatever bytes a collection has: it is none, or each of its archives is a file of the size that is told."""
    content = bytearray(PACKERS[name](HOSTS))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        cut, more = data.draw(st.integers(0, 700)), data.draw(st.binary(max_size=20))
        content[at : at + cut] = more or b"x"
    with TemporaryDirectory() as scratch:
        place, folder = Path(scratch, name), Path(scratch, "out")
        place.write_bytes(content)
        folder.mkdir()
        answer = inner.unpack_collection(place, folder, 1 << 20)
        found = collections._collection(json.loads(answer.content), place, folder) if answer.content else ()
        assert [item for item in found if not item.refused and Path(item.place).stat().st_size != item.size] == []


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said as no room is: the system may know before the count does."""
    (tmp_path / "c.tar").write_bytes(tarred(HOSTS))
    opening = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, mode, **more: opening(Path("/dev/full") if mode == "wb" else path, mode, **more)
    )
    with pytest.raises(InputError, match=r"^its archives need more room than there is for scratch files$"):
        inner.unpack_collection(tmp_path / "c.tar", tmp_path, 1 << 30)


def test_a_file_that_cannot_be_opened_is_left_to_its_analysis(scratch: Path) -> None:
    """It says why."""
    assert open_collection(scratch.parent / "gone.tar", scratch) is None


def test_a_child_that_does_not_end_well_decides_nothing(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The analysis comes to the same end and says which."""
    monkeypatch.setattr(collections, "run_in_child", lambda *_: Outcome(Status.SIGNAL, "11"))
    assert tried(scratch, tarred(HOSTS)) is None


@pytest.mark.parametrize("link", ["0", "beside"])
def test_a_child_that_was_taken_over_leads_nowhere(scratch: Path, monkeypatch: pytest.MonkeyPatch, link: str) -> None:
    """A folder that became a link is refused; names of its answer are names only."""

    def planted(*_: object) -> Outcome:
        (scratch / "collection" / link).symlink_to("/etc")
        archives = [{"path": "x/../../passwd", "size": 1, "problem": ""}]
        told = {"archives": archives, "siblings": {"kept": 0, "size": 0, "lost": 0}, "problem": ""}
        return Outcome(Status.OK, content=json.dumps(told).encode())

    monkeypatch.setattr(collections, "run_in_child", planted)
    with pytest.raises(UnreadError, match="the child process that reads it cannot be trusted"):
        tried(scratch, tarred(HOSTS))


def test_a_bomb_is_cut_and_told(tmp_path: Path) -> None:
    """A collection that unpacks to more than its limits allow gives what came before."""
    (tmp_path / "out").mkdir()
    content = tarred({"a.tar": bytes(100_000), "b.tar": bytes(900_000)})
    budget = inner.Budget(inner.ReadLimits(total_bytes=300_000))
    found = inner._CollectionReader(budget, tmp_path / "out", 1 << 30).read(io.BytesIO(content))
    assert [one.path for one in found.archives] == ["a.tar", "b.tar"]
    assert "limit total_bytes" in found.problem


def test_the_answer_is_plain() -> None:
    """What the child hands over is JSON of ours."""
    assert Answer(b"").content == b""
    assert list(Collection((BundleItem("p", "t"),), BundleItem("q", "u"))) == [BundleItem("p", "t")]
