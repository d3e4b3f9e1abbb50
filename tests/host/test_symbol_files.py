"""From files to names: what lies beside a recording, in a sosreport, in what `perf archive` packs."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
from pathlib import Path

import pytest

from conftest import ROOT
from kernel_symbol_files import BASE, BUILD_ID, RELEASE, recording, samples, table
from thpdiag.bundle import members
from thpdiag.detect import Detector, TaggedRecord
from thpdiag.host.kernel_symbols import symbolize_profiles
from thpdiag.host.options import Options
from thpdiag.host.reading import ParsedInput, read_input
from thpdiag.host.sibling_files import is_recording, sibling_files
from thpdiag.knowledge.paths import is_wanted
from thpdiag.model import (
    Citation,
    Fact,
    KernelImage,
    Problem,
    ProblemKind,
    Profile,
    Record,
    SymbolList,
    SymbolTable,
    TableKind,
)
from thpdiag.model.parser import Content, Source
from thpdiag.parsers.perf import data as perf_data
from thpdiag.perf import kallsyms as tables

FOLDER = ROOT / "fixtures/readers/perf_data"
PERF_DATA, KALLSYMS = FOLDER / "plain/perf.data", FOLDER / "plain.kallsyms.txt"
STORE = f"[kernel.kallsyms]/{BUILD_ID}"


def analysed(*paths: Path) -> ParsedInput:
    return read_input(paths, Options(strict=True))


def profile(found: ParsedInput) -> Profile:
    (only,) = (r.record for rs in found.readings.values() for r in rs if isinstance(r.record, Profile))
    return only


def is_named(found: ParsedInput) -> bool:
    return any("do_huge_pmd_anonymous_page" in chain or "clear_page_erms" in chain for chain in samples(profile(found)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(PERF_DATA, tmp_path / "perf.data")
    return tmp_path


def archive(path: Path, entries: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:bz2") as tar:
        for name, data in entries.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def test_the_recording_alone_asks_for_symbols(folder: Path) -> None:
    """One problem that hides evidence; the kernel's share is known."""
    found = analysed(folder / "perf.data")

    (problem,) = [p for p in found.problems if p.kind is ProblemKind.UNREADABLE]
    assert "cat /proc/kallsyms" in problem.text
    assert profile(found).facts["symbols"].startswith("none")
    assert profile(found).kernel is None


@pytest.mark.parametrize("name", ["kallsyms", "kallsyms.gz", "kallsyms.txt", "System.map-6.18.44-generic"])
def test_what_lies_beside_the_recording_is_read(folder: Path, name: str) -> None:
    """Nobody named it."""
    data = KALLSYMS.read_bytes()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    release = profile(analysed(folder / "perf.data")).facts["release"]
    if "System.map" in name:
        (folder / name).rename(folder / f"System.map-{release}")
    found = analysed(folder / "perf.data")

    assert is_named(found)
    assert [p for p in found.problems if p.hides_data] == []
    assert not any(isinstance(r.record, SymbolTable) for rs in found.readings.values() for r in rs)


def build_id() -> str:
    """The kernel's, as the recording tells it."""
    records = perf_data.BULK_PARSER.read(Source("perf.data"), Content(iter([PERF_DATA.read_bytes()])))
    (one,) = (r for r in records if isinstance(r, Profile))
    assert one.kernel is not None
    assert one.kernel.build_id
    return one.kernel.build_id


@pytest.mark.parametrize("own", [True, False])
def test_what_perf_archive_packs_is_read(folder: Path, own: bool) -> None:
    """By its name beside the recording, and by the build id in it; programs are passed over without a word."""
    store = f"[kernel.kallsyms]/{build_id() if own else BUILD_ID}"
    kept = {
        f"{store}/kallsyms": KALLSYMS.read_bytes(),
        f"{store}/probes": b"",
        f"usr/bin/churn/{BUILD_ID}/elf": b"\x7fELF\2\1\1" + bytes(100),
        f"root/churn/{BUILD_ID}/elf": b"\x7fELF\2\1\1" + bytes(100),
        f"[vdso]/{BUILD_ID}/vdso": b"\x7fELF\2\1\1" + bytes(100),
    }
    archive(folder / "perf.data.tar.bz2", kept)
    found = analysed(folder / "perf.data")

    assert is_named(found) is own
    assert profile(found).facts["symbols"] == f"perf.data.tar.bz2/{store}/kallsyms" or not own
    assert ("is of another kernel (build id" in profile(found).facts["symbols"]) is not own
    assert len(found.inputs) == 2


def test_a_folder_with_both_is_read(folder: Path) -> None:
    """As a bundle, without names of files that say anything."""
    shutil.copy(KALLSYMS, folder / "symbols of web1.txt")

    assert is_named(analysed(folder))


def test_only_recordings_have_company(tmp_path: Path) -> None:
    """A text beside kallsyms is a text; what is given is not given twice; absent and unreadable paths are nobody's."""
    (tmp_path / "notes.txt").write_text("see perf.data")
    (tmp_path / "perf.data").write_bytes(b"PERFILE2")
    for name in ("kallsyms", "System.map-5.14.0", "perf.data.tar.gz", "other.tar.gz", "old-kallsyms.png"):
        (tmp_path / name).write_text("x")
    (tmp_path / ".debug").mkdir()
    (tmp_path / "System.map").mkdir()

    near = ["System.map-5.14.0", "kallsyms", "perf.data.tar.gz"]
    assert sibling_files([tmp_path / "notes.txt", tmp_path / "gone", Path("-"), tmp_path]) == []
    assert [p.name for p in sibling_files([tmp_path / "perf.data"])] == [".debug", *near]
    assert [p.name for p in sibling_files([tmp_path / "perf.data", tmp_path / "kallsyms", tmp_path / ".debug"])] == [
        "System.map-5.14.0",
        "perf.data.tar.gz",
    ]
    assert [p.name for p in sibling_files([tmp_path / "perf.data", tmp_path / "perf.data"])] == [".debug", *near]
    assert not is_recording(tmp_path / "notes.txt")


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("sosreport-a/proc/kallsyms", True),
        ("sosreport-a/boot/System.map-5.14.0-427.el9.x86_64", True),
        ("sosreport-a/boot/vmlinuz-5.14.0", False),
        ("sosreport-a/lib/modules/5.14.0/kernel/fs/xfs/xfs.ko.xz", False),
        (f"lib/modules/5.14.0/kernel/fs/xfs/xfs.ko.xz/{BUILD_ID}/elf", True),
        (f"home/x/.debug/{STORE}/kallsyms", True),
        (f"usr/x/.debug/{STORE}/kallsyms", True),
        (f"{STORE}/probes", False),
        (f"[kernel.kcore]/{BUILD_ID}/2026112003355021/kallsyms", True),
        (f"[kernel.kcore]/{BUILD_ID}/2026112003355021/kcore", False),
        (f"usr/bin/redis-server/{BUILD_ID}/elf", False),
        (f"opt/redis/redis-server/{BUILD_ID}/elf", False),
        (f"[vdso]/{BUILD_ID}/vdso", False),
        (f"vmlinux/{BUILD_ID}/elf", True),
        ("usr/lib/debug/lib/modules/5.14.0-427.el9.x86_64/vmlinux", True),
        ("nf_conntrack.ko", True),
    ],
)
def test_symbols_are_wanted_in_bundles(path: str, wanted: bool) -> None:
    """Those of the kernel; those of programs are not."""
    assert bool(is_wanted(path)) is wanted


def test_the_store_is_walked(tmp_path: Path) -> None:
    """A .debug folder as perf leaves it, with links by build id."""
    kallsyms = tmp_path / ".debug" / STORE / "kallsyms"
    kallsyms.parent.mkdir(parents=True)
    shutil.copy(KALLSYMS, kallsyms)
    links = tmp_path / ".debug/.build-id" / BUILD_ID[:2]
    links.mkdir(parents=True)
    (links / BUILD_ID[2:]).symlink_to(f"../../{STORE}")

    found = [m.path for m in members([tmp_path], is_wanted)]  # type: ignore[union-attr]
    assert found == [f".debug/{STORE}/kallsyms"]


def none(left: set[str]) -> dict[str, list[TaggedRecord]]:
    """No list was left where it came from."""
    raise AssertionError(left)


def reading(record: Record) -> TaggedRecord:
    return TaggedRecord(record, "test", ("", ""))


def test_the_hosts_release_names_its_kallsyms() -> None:
    """/proc/kallsyms of a sosreport is of the kernel that its uname tells; of another host's it says nothing."""
    image = KernelImage("6.6.6", "", "_text", BASE)
    waiting = reading(recording([[BASE + 0x1000]], image))
    one = reading(table(member="sosreport-a/proc/kallsyms"))
    for root, fits in (("sosreport-a", False), ("sosreport-b", True)):
        fact = reading(Fact("kernel.release", RELEASE, Citation(f"{root}/proc/version", 1)))
        readings = {"perf.data": [waiting, waiting], "k": [one], f"{root}/proc/version": [fact]}
        named, problems = symbolize_profiles(readings, Detector((), strict=True), none)

        records = [r.record for r in named["perf.data"]]
        assert [isinstance(r, Profile) and "clear_page_erms" in samples(r) for r in records] == [fits, fits]
        assert len(problems) == (0 if fits else 1)
        assert named["k"] == []
        assert named[f"{root}/proc/version"] == [fact]


def test_lists_are_looked_into_only_for_a_recording() -> None:
    """Then hidden addresses and odd lines are told, each list's once; without one nobody asked for names."""
    text = b"0000000000000000 T _text\n0000000000000000 T clear_page_erms\nnothing of the kind\n"
    listed = reading(SymbolList(Citation("kallsyms", 1), TableKind.KALLSYMS, (text,)))
    waiting = reading(recording([[BASE + 0x1000]], KernelImage(RELEASE, "", "_text", BASE)))

    assert symbolize_profiles({"k": [listed]}, Detector((), strict=True), none) == ({"k": []}, [])
    _, problems = symbolize_profiles({"k": [listed], "perf.data": [waiting, waiting]}, Detector((), strict=True), none)
    words = ("not `address type name`", "kptr_restrict hid them from the user who")
    assert [word for word in words if word in str(problems)] == list(words)
    assert len([p for p in problems if p.cite.member == "kallsyms"]) == 2


def test_a_list_that_fails_costs_itself_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """For want of memory or by a mistake of ours: the other list names the functions; tests hear of mistakes."""
    text = b"ffffffff81000000 T _text\nffffffff81001000 T clear_page_erms\n"
    good = SymbolList(Citation("good", 1), TableKind.KALLSYMS, (text,), release=RELEASE)
    waiting = reading(recording([[BASE + 0x1000]], KernelImage(RELEASE, "", "_text", BASE)))
    real = tables.read
    for error, kind in ((MemoryError(), ProblemKind.LIMIT), (IndexError(), ProblemKind.BUG)):

        def read(listed: SymbolList, error: Exception = error) -> tuple[SymbolTable, list[Problem]]:
            if listed.cite.member == "bad":
                raise error
            return real(listed)

        monkeypatch.setattr(tables, "read", read)
        bad = SymbolList(Citation("bad", 1), TableKind.KALLSYMS, (text,), release=RELEASE)
        given = {"bad": [reading(bad)], "good": [reading(good)], "perf.data": [waiting]}
        named, problems = symbolize_profiles(given, Detector(()), none)

        (record,) = [r.record for r in named["perf.data"]]
        assert isinstance(record, Profile)
        assert "clear_page_erms" in samples(record)
        assert [p.kind for p in problems if p.cite.member == "bad"] == [kind]
        with pytest.raises(type(error)):
            symbolize_profiles(given, Detector((), strict=True), none)
