"""What a name says: that a folder is one bundle, that a file is an archive, or belongs to one beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bundle_lists import make, told
from thpdiag.fleet.sources.item import is_archive, is_of_recording
from thpdiag.fleet.sources.items import find_items


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """We stand in an empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "mark", ["proc/", "sys/", "etc/", "var/", "sos_commands/", "sos_logs/", "version.txt", "capture.log"]
)
@pytest.mark.usefixtures("here")
def test_a_folder_with_a_mark_is_one_bundle(mark: str) -> None:
    """Whatever else is in it."""
    make(f"host/{mark}", "host/old.tar.gz", "host/notes/day.txt")
    assert told("host") == ["host"]


@pytest.mark.parametrize("mark", ["etc/passwd", "var/log", "version.txt", "sos_logs/sos.log"])
@pytest.mark.usefixtures("here")
def test_archives_of_hosts_outweigh_a_lone_mark(mark: str) -> None:
    """What a CI or a collector leaves beside them makes them no single host; a folder is told as well."""
    make(f"n/{mark}", "n/web1.tar.xz", "n/web1.tar.xz.sha256", "n/web2.tar.xz")
    others = {"etc/passwd": ["n/etc"], "var/log": ["n/var"]}.get(mark, [])
    assert told("n") == sorted([*others, "n/web1.tar.xz", "n/web2.tar.xz"])


@pytest.mark.usefixtures("here")
def test_what_sos_collect_leaves_is_no_host() -> None:
    """Its logs and its list of reports are those of the collector."""
    make("n/sos_logs/sos.log", "n/sos_reports/manifest.json", "n/web1.tar.xz", "n/web2.tar.xz")
    assert told("n") == ["n/web1.tar.xz", "n/web2.tar.xz"]


@pytest.mark.usefixtures("here")
def test_the_number_of_a_build_is_passed_over() -> None:
    """Also where a pattern fits it; named alone it is read."""
    make("n/version.txt", "n/web1.tar.xz", "n/web2.tar.xz")
    assert told("n/*") == told("n") == ["n/web1.tar.xz", "n/web2.tar.xz"]
    assert told("n/version.txt", "n/web1.tar.xz") == ["web1.tar.xz"]
    assert told("n/version.txt") == ["version.txt"]


@pytest.mark.parametrize("marks", [("proc/stat",), ("sos_commands/a/b",), ("capture.log",), ("etc/passwd", "var/log")])
@pytest.mark.usefixtures("here")
def test_archives_do_not_outweigh_the_marks_of_a_host(marks: tuple[str, ...]) -> None:
    """Someone keeps old logs of the host beside them."""
    make(*(f"n/{mark}" for mark in marks), "n/logs.tar.gz", "n/crash.tar.gz")
    assert told("n") == ["n"]


@pytest.mark.usefixtures("here")
def test_companions_do_not_outweigh_a_mark() -> None:
    """What `perf archive` made of recordings are no hosts."""
    make("n/etc/passwd", *(f"n/{name}" for name in ("perf.data", "perf.data.tar.bz2", "b.data", "b.data.tar.bz2")))
    assert told("n") == ["n"]


@pytest.mark.usefixtures("here")
def test_a_mark_is_of_its_kind() -> None:
    """A file called `proc` or a folder called `version.txt` says nothing."""
    make("host/proc", "host/version.txt/vmstat.txt")
    assert told("host") == ["host/proc", "host/version.txt"]


@pytest.mark.usefixtures("here")
def test_a_folder_of_plain_files_is_one_bundle() -> None:
    """Its size is that of its files."""
    make("host/vmstat.txt", "host/sar.txt")
    assert [(item.label, item.size) for item in find_items(["host"])] == [("host", 15 + 12)]


@pytest.mark.usefixtures("here")
def test_checksums_and_signatures_of_an_archive_are_passed_over() -> None:
    """Only beside the archive: alone nobody knows what they are, and an armoured archive is a bundle."""
    make("n/a.tar.xz", "n/a.tar.xz.sha256", "n/a.tar.xz.md5", "n/a.tar.xz.asc", "n/a.tar.xz.sig", "n/SHA256SUMS")
    make("n/b.tar.asc", "n/c.sha256", "m/notes.txt", "m/notes.txt.md5")
    assert told("n") == ["n/a.tar.xz", "n/b.tar.asc", "n/c.sha256"]
    assert told("m") == ["m"]


@pytest.mark.usefixtures("here")
def test_what_stands_beside_archives_for_people_is_passed_over() -> None:
    """A README makes no nightly gate fail; named alone, or where there is no archive, it may be what somebody sent."""
    make("n/a.tar.xz", "n/README.md", "n/LICENSE", "n/index.html", "n/readme", "n/readme-of-host7.txt", "n/b/proc/stat")
    make("m/README.txt", "m/vmstat.txt", "k/README", "k/host/proc/stat")
    assert told("n") == ["n/a.tar.xz", "n/b", "n/readme-of-host7.txt"]
    assert told("m") == ["m"]
    assert told("k") == ["k/host"]
    assert told("n/README.md") == ["README.md"]
    assert told("n/README.md", "n/a.tar.xz") == ["a.tar.xz"]


@pytest.mark.usefixtures("here")
def test_what_belongs_to_a_recording_is_read_with_it() -> None:
    """The archive of its programs makes a folder no folder of bundles; beside bundles it is none."""
    make("case/perf.data", "case/perf.data.tar.bz2", "case/kallsyms", "case/vmstat.txt")
    make("n/a.tar.xz", "n/perf.data", "n/perf.data.tar.bz2", "n/System.map-5.14.0", "n/b.tar.gz", "n/b.tar.gz.tar")
    assert told("case") == ["case"]
    assert told("n") == ["n/a.tar.xz", "n/b.tar.gz", "n/b.tar.gz.tar", "n/perf.data"]
    assert told("n/perf.data", "n/perf.data.tar.bz2") == ["perf.data"]
    assert told("n/perf.data.tar.bz2") == ["perf.data.tar.bz2"]
    assert told("case/kallsyms") == ["kallsyms"]


@pytest.mark.parametrize("name", ["web1", "run-17", "web1.txt", "datastore", "perfdata", "web1.database"])
@pytest.mark.usefixtures("here")
def test_a_file_that_is_no_recording_has_no_archive(name: str) -> None:
    """A marker that something else left beside a bundle does not swallow it, whether the shell names both or we do."""
    make(f"n/{name}", f"n/{name}.tar.xz", f"n/{name}.tar.bz2", "n/zzz.tar.xz")
    expected = [name, f"{name}.tar.bz2", f"{name}.tar.xz"]
    assert told("n") == [f"n/{one}" for one in (*expected, "zzz.tar.xz")]
    assert told(*(f"n/{one}" for one in expected)) == expected


@pytest.mark.parametrize(
    "name", ["perf.data", "perf.data.old", "perf.data.2026112009153012", "web1-perf.data", "web1.data", "web1.perf"]
)
@pytest.mark.usefixtures("here")
def test_names_of_recordings(name: str) -> None:
    """The archive of each belongs to it, in a folder and in a store of objects, which has paths only."""
    make(f"n/{name}", f"n/{name}.tar.bz2", "n/zzz.tar.xz")
    assert told("n") == [f"n/{name}", "n/zzz.tar.xz"]
    assert is_of_recording(f"a/{name}.tar.bz2", {f"a/{name}"})
    assert not is_of_recording(f"{name}.d/web1.tar.bz2", {f"{name}.d/web1"})


@pytest.mark.usefixtures("here")
def test_an_archive_of_performance_co_pilot_is_one_bundle() -> None:
    """Its first file stands for it; a part without it is told of by itself."""
    make("n/a.tar", *(f"n/20261120.{part}" for part in ("0", "1", "12", "meta.xz", "index")), "n/lost.meta")
    make("n/messages.0", "n/messages.1")
    assert told("n") == ["n/20261120.0", "n/a.tar", "n/lost.meta", "n/messages.0", "n/messages.1"]


@pytest.mark.usefixtures("here")
def test_what_belongs_to_another_is_read_if_a_pattern_fits_nothing_else() -> None:
    """The user asked for it; as soon as the pattern fits a bundle too, it belongs to it as ever."""
    make("m/p/20261120.0", "m/p/20261120.meta", "m/p/20261120.index", "m/q/a.tar", "m/q/a.tar.md5")
    assert told("m/p/*.meta") == ["p/20261120.meta"]
    assert told("m/**/*.m*") == ["m/p/20261120.meta", "m/q/a.tar.md5"]
    assert told("m/*/*.[0i]*") == ["m/p/20261120.0"]
    assert told("m/**") == ["m/p", "m/q/a.tar"]


@pytest.mark.usefixtures("here")
def test_checksums_are_passed_over_as_the_shell_names_them_too() -> None:
    """`n/*` is the same whether the shell or we take it apart; a checksum that is named alone is read."""
    make("n/a.tar.xz", "n/a.tar.xz.sha256", "n/sha256sum.txt")
    assert told("n/a.tar.xz", "n/a.tar.xz.sha256", "n/sha256sum.txt") == ["a.tar.xz"]
    assert told("n/*") == ["n/a.tar.xz"]
    assert told("n/a.tar.xz.sha256") == ["a.tar.xz.sha256"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.tar.xz", True), ("A.ZIP", True), ("a.tgz", True), ("secured-a.tar.xz.gpg", True), ("a.7z", True),
        ("a.tar.asc", True), ("a.tar.md5", False), ("a.tar.xz.sha256", False), ("messages.gz", False), ("a.txt", False),
    ],
)  # fmt: skip
def test_what_is_an_archive_by_name(name: str, expected: bool) -> None:
    """Also one that will be refused; not its checksum."""
    assert is_archive(name) is expected
