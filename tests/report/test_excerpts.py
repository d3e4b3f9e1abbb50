"""What evidence quotes of the customer's files: the same lines however they arrive, and never another line."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from analyze_bytes import STRICT, name, result_of, rules
from conftest import ROOT
from packed_bundles import PACKINGS, Files, files, nested, tar
from thpdiag.bundle import Limits, Member
from thpdiag.diagnosis.excerpts import excerpt_request
from thpdiag.host.excerpts import read_excerpts
from thpdiag.host.reading import read_input
from thpdiag.model import Citation, Evidence
from thpdiag.model.facts import Excerpt, ExcerptRequest
from thpdiag.model.result import Evidence as _Evidence
from thpdiag.model.result import complete_document, schema
from thpdiag.report import FORMATS
from thpdiag.report.layout import WIDTH, columns
from thpdiag.report.messages import cited_line, quotation
from thpdiag.report.presentation import Presentation

STORIES = ROOT / "fixtures" / "stories"
BUNDLES = [
    STORIES / "hadoop-centos62" / "bundle",
    STORIES / "mero-centos7" / "bundle",
    STORIES / "redis-shop-ubuntu" / "bundle",
    ROOT / "fixtures" / "captures" / "storm-always" / "bundle",
]
HOST = "sosreport-demo-2026"
MEMBER = f"{HOST}/proc/meminfo"
MEMINFO = b"MemTotal:       24684092 kB\nMemFree:        17128784 kB\nAnonPages:       6248876 kB\n"
CONTENT = {MEMBER: MEMINFO, f"{HOST}/proc/uptime": b"1000.00 1.00\n"}
FREE = ExcerptRequest(MEMBER, 2, "", (), "MemFree:        17128784 kB")
SAID = Excerpt(2, ("MemFree:        17128784 kB",))


def evidence(document: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for one in document["cases"] or [document]:
        for finding in one["findings"]:
            yield from (*finding["evidence"], *finding["against"])
        for other in one["ruled_out"]:
            yield from other["evidence"]


def found(*paths: Path, of: ExcerptRequest = FREE, stdin: io.BytesIO | None = None) -> Excerpt | None:
    """The quote of one passage of what lies at the paths."""
    given = read_input(paths, STRICT, stdin=stdin)
    return read_excerpts([of], given.texts, paths, Limits(), stdin).get(of)


@pytest.fixture(params=["kept", "read again"])
def forgotten(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether nothing is kept of what is read, so that it must be read a second time."""
    if request.param == "read again":
        monkeypatch.setattr(Member, "keep", lambda _self, _most: None)
    return bool(request.param == "read again")


def laid(content: Files, folder: Path) -> Path:
    for path, data in content.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


@pytest.mark.parametrize("bundle", BUNDLES, ids=name)
def test_every_quote_stands_in_the_file_at_its_line(bundle: Path) -> None:
    """As `sed -n Np` prints it; nearly everything that is cited by line is quoted, and the document keeps its form."""
    document = result_of(bundle)
    jsonschema.Draft202012Validator(schema()).validate(document)
    content = {path: data.decode("utf-8", "replace").split("\n") for path, data in files(bundle).items()}
    cited = [e for e in evidence(complete_document(document)) if e["line"] and (e["kind"] != "stack" or e["value"])]
    for said in (e for e in cited if e["excerpt"]):
        lines = content[said["member"].removeprefix("bundle/")]
        assert (
            lines[(said["excerpt_line"] or said["line"]) - 1].rstrip("\r")[:299]
            == cited_line(_Evidence.model_validate(said))[:299]
        )
        assert all(len(line) <= 300 for line in said["excerpt"])
    assert len(cited) > 5
    assert sum(bool(e["excerpt"]) for e in cited) > 0.9 * len(cited)


@pytest.mark.parametrize("packing", PACKINGS)
def test_of_an_archive(packing: str, tmp_path: Path, forgotten: bool) -> None:
    """Kept of the first pass, or met again in a second one."""
    (tmp_path / "upload").write_bytes(PACKINGS[packing](CONTENT))
    assert found(tmp_path / "upload") == SAID


def test_of_a_folder_and_of_an_archive_in_it(tmp_path: Path, forgotten: bool) -> None:
    """Also of two inputs, whose names stand before the paths of their members, and of a packed file."""
    folder = laid(CONTENT, tmp_path / "a")
    (tmp_path / "b.tar").write_bytes(nested(CONTENT))
    (folder / "var.txt.gz").write_bytes(gzip.compress(MEMINFO))
    inside, packed, second = (
        ExcerptRequest(path, 2) for path in (f"b.tar/host/{MEMBER}", "a/var.txt.gz", f"a/{MEMBER}")
    )
    assert found(folder) == SAID
    assert [found(folder, tmp_path / "b.tar", of=of) for of in (inside, packed, second)] == [SAID] * 3


def test_of_a_pipe_what_was_kept_is_quoted(forgotten: bool) -> None:
    """It cannot be read again; a file that is standard input can."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    ticket = ExcerptRequest("stdin", 2)
    kept = None if forgotten else SAID
    assert found(Path("-"), of=ticket, stdin=Pipe(MEMINFO)) == kept
    assert found(Path("-"), stdin=Pipe(tar(CONTENT))) == kept
    assert found(Path("-"), of=ticket, stdin=io.BytesIO(MEMINFO)) == SAID


def gone(path: Path) -> None:
    path.unlink()


def shorter(path: Path) -> None:
    path.write_bytes(MEMINFO[:40])


def another(path: Path) -> None:
    path.write_bytes(MEMINFO.replace(b"17128784", b"27128784"))


@pytest.mark.parametrize("change", [gone, shorter, another])
def test_what_has_changed_since_is_not_quoted(change: Callable[[Path], None], tmp_path: Path, forgotten: bool) -> None:
    """Nobody knows whether the line is still the one that was read, unless it was kept."""
    folder = laid(CONTENT, tmp_path)
    given = read_input([folder], STRICT)
    change(folder / MEMBER)
    assert read_excerpts([FREE], given.texts, [folder], Limits()) == ({} if forgotten else {FREE: SAID})


def test_two_members_of_one_name(tmp_path: Path, forgotten: bool) -> None:
    """The one whose line the citation remembers; nothing if it remembers none and they differ."""
    (tmp_path / "b.tar").write_bytes(twice(MEMBER, MEMINFO, MEMINFO.replace(b"17128784", b"27128784")))
    forgetful, elsewhere = ExcerptRequest(MEMBER, 2), ExcerptRequest(MEMBER, 1)
    assert found(tmp_path / "b.tar") == SAID
    assert found(tmp_path / "b.tar", of=forgetful) is None
    assert found(tmp_path / "b.tar", of=elsewhere) == Excerpt(1, ("MemTotal:       24684092 kB",))


def twice(path: str, *contents: bytes) -> bytes:
    """An archive that holds several members of one name."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for data in contents:
            info = tarfile.TarInfo(path)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_a_recording_in_bytes_is_not_quoted() -> None:
    """Its citations count records, not lines."""
    recording = ROOT / "fixtures" / "readers" / "atop_raw" / "recording"
    assert found(recording, of=ExcerptRequest("recording", 1)) is None


def said(**keys: object) -> _Evidence:
    return _Evidence.model_validate({"kind": "counter", "line": 1} | keys)


@pytest.mark.parametrize(
    ("evidence", "line"),
    [
        pytest.param(said(kind="stack", excerpt=["head", "frame"]), "head", id="a sample"),
        pytest.param(said(excerpt=["names", "row"]), "row", id="a row"),
        pytest.param(said(excerpt=["first", "second"], excerpt_line=1), "first", id="rows"),
        pytest.param(said(), "", id="nothing"),
    ],
)
def test_the_line_that_says_it(evidence: _Evidence, line: str) -> None:
    """Of several lines that are quoted."""
    assert cited_line(evidence) == line


def test_a_terminal_gets_one_line() -> None:
    """At most as wide as it is, nothing that acts on it, and the number of the line where it is another."""
    hostile = "\x1b[2J\u202e\uff21" + "\uff21 wide " * 40
    (line,) = quotation(said(excerpt=[hostile], excerpt_line=7), "      ")
    assert line.startswith("      | line 7: \\x1b[2J\\u202e\uff21")
    assert line.endswith(" ...")
    assert columns(line) <= WIDTH
    assert quotation(said(excerpt=["  a  b "]), "") == ["| a  b"]
    assert quotation(said(), "") == []


def test_reports_show_what_is_quoted() -> None:
    """Text from -v on, the page with its line ends, a stack once where two lines of evidence cite it."""
    document = result_of(BUNDLES[-1])
    plain, more = (FORMATS["text"](document, Presentation(verbosity=v)) for v in (0, 1))
    row = "compact_stall 163647"
    assert row not in plain
    assert f"| line 1736: {row}" in more
    page = FORMATS["html"](document).partition('<script type="application')[0]
    assert f'<code class="excerpt">line 1736: {row}</code>' in page
    assert page.count("pfn_to_online_page ([kernel.kallsyms])\n") == 1


def test_that_no_stack_shows_it_is_no_line() -> None:
    """Such evidence cites where the recording begins."""
    rule, cite = rules()[0], Citation("perf-script.txt", 1, "hog 1 [000] 1.000000: cycles:")
    assert excerpt_request(Evidence("x", "0.0 % of the samples", cite, 0.0, "ratio", "stack"), rule) is None
    assert excerpt_request(Evidence("x", "no place"), rule) is None
    assert excerpt_request(Evidence("x", "2 % of the samples", cite, 0.02, "ratio", "stack"), rule) is not None


def test_counters_that_the_words_name_are_looked_for() -> None:
    """Where evidence of a counter is not of a check of its own."""
    told = Evidence("excluded_by", "compact_stall rose by 5, NrPages too", Citation("a", 1), 5.0, "1", "counter")
    wanted = excerpt_request(told, rules()[0])
    assert wanted is not None
    assert wanted.names == ("compact_stall", "NrPages")


def test_places_of_settings_are_quoted() -> None:
    """The value in force, what other places say, and what will hold."""
    document = result_of(STORIES / "tuned-overrides-boot-line" / "bundle")
    jsonschema.Draft202012Validator(schema()).validate(document)
    enabled = document["host"]["settings"]["thp.enabled"]
    assert enabled["excerpt"] == ["[always] madvise never"]
    assert "transparent_hugepage=never" in enabled["said"][0]["excerpt"][0]
    assert enabled["next_boot"]["excerpt"] == ["Current active profile: throughput-performance"]
    least = {"schema": "thpdiag/result/1", "verdict": {"status": "cannot_tell"}}
    old = complete_document({**least, "host": {"settings": {"a": {"value": 1}}}})
    assert old["host"]["settings"]["a"]["excerpt"] == []
