"""Supportconfigs of five releases, made with SUSE's own scripts: what each file states is known, by line."""

from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path

import pytest

from analyze_bytes import STRICT, result_of, rules
from conftest import ROOT
from parse_bytes import readings
from text_damage import mutant
from thpdiag.host.cases import host_cases
from thpdiag.host.reading import ParsedInput, read_input
from thpdiag.knowledge.paths import collected_file, is_wanted, root_of
from thpdiag.model import Case, Fact
from thpdiag.pipeline import analyze

FOLDER = ROOT / "fixtures" / "collectors" / "supportconfig"
BUNDLES = {path.name.split("_")[1]: path for path in sorted(FOLDER.iterdir()) if path.is_dir()}
OS = {"db1": "15 SP6", "app2": "15 SP5", "sap3": "12 SP5", "web4": "16.0", "erp5": "11 SP3"}
SCRIPT = {"db1": "3.2.8-1", "app2": "3.1.15-11.7.1", "sap3": "3.0-72", "web4": "3.2.14", "erp5": "2.25-480"}
FILES_OF_THP = {"erp5": 7}  # which Linux 3.0 has; later ones have at least ten
SETTINGS = {
    "db1": ("always", "madvise"), "app2": ("madvise", "defer+madvise"), "sap3": ("never", "never"),
    "web4": ("never", "defer"), "erp5": ("always", "always"),
}  # fmt: skip
_THP_FILE = re.compile(r"# /sys/kernel/mm/transparent_hugepage/(\S+)$")
_NOT_READ = re.compile(r"stats/|pages_collapsed|full_scans")  # what the kernel counts


def packed(folder: Path, mode: str = "w:xz") -> bytes:
    """The archive as supportconfig makes it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                tar.add(path, f"{folder.name}/{path.relative_to(folder)}")
    return buffer.getvalue()


def case_of(path: Path) -> Case:
    (case,) = host_cases(read_input([path], STRICT), STRICT)
    return case


def facts(case: Case) -> list[Fact]:
    return [*case.facts, *(fact for state in case.states for fact in state.facts)]


def stated(folder: Path) -> dict[int, tuple[str, str]]:
    """Line, file and text of each setting in memory.txt."""
    lines = (folder / "memory.txt").read_text().split("\n")
    named = ((number, found[1]) for number, line in enumerate(lines, 1) if (found := _THP_FILE.match(line)))
    return {number + 1: (knob, lines[number]) for number, knob in named if not _NOT_READ.search(knob)}


@pytest.mark.parametrize("host", BUNDLES)
def test_each_setting_is_read_with_its_line(host: str) -> None:
    """Nothing of what the files state is assumed, and nothing else is told."""
    case = case_of(BUNDLES[host])
    lines = stated(BUNDLES[host])
    read = {f.cite.line: f for f in facts(case) if f.name.startswith("thp.") and f.cite.member.endswith("memory.txt")}
    enabled, defrag = SETTINGS[host]

    assert len(lines) >= FILES_OF_THP.get(host, 10)
    assert lines.keys() - read.keys() == set()
    for line, (_, text) in lines.items():
        word = re.search(r"\[(\S+)\]", text)
        values = {str(f.value) for f in facts(case) if f.cite.line == line and f.cite.member.endswith("memory.txt")}
        assert (word[1] if word else text) in values
    by_name = {f.name: f for f in facts(case) if f.name in ("thp.enabled", "thp.defrag")}
    assert {name: (f.value, f.provenance) for name, f in by_name.items()} == {
        "thp.enabled": (enabled, ""), "thp.defrag": (defrag, ""),
    }  # fmt: skip


@pytest.mark.parametrize("host", BUNDLES)
def test_host_release_time_and_version(host: str) -> None:
    """As a sosreport: who it was, when, and which script made it."""
    known = {f.name: f for f in facts(case_of(BUNDLES[host])) if f.name in ("host.name", "os.name", "capture.tool")}
    times = [f for f in facts(case_of(BUNDLES[host])) if f.name == "capture.time"]

    assert known["host.name"].value == host
    assert OS[host] in str(known["os.name"].value)
    assert known["capture.tool"].value == f"supportconfig {SCRIPT[host]}"
    assert times
    assert all(f.cite.text.startswith("Fri Nov 27 18:0") for f in times)


def test_a_running_setting_hides_that_of_a_start_up_file() -> None:
    """sysctl -a says 60, /etc/sysctl.d says 10."""
    result = result_of(BUNDLES["db1"])
    setting = result["host"]["settings"]["sysctl.vm.swappiness"]

    assert (setting["value"], setting["provenance"]) == (60, "measured")


def test_what_was_left_out_and_what_was_stopped() -> None:
    """Parts that were switched off, and commands that took too long, are told as those of sos."""
    case = case_of(BUNDLES["web4"])
    left_out = {f.value for f in case.facts if f.name == "capture.left_out"}
    stopped = {(f.value, f.label("plugin")) for f in case.facts if f.name == "capture.timed_out"}

    assert left_out == {"Tuned", "Boot_Files", "SYSFS"}
    assert any("was configured to leave out these parts: Tuned, Boot Files;" in note.text for note in case.notes)
    assert ("sleep 6", "Hardware") in stopped
    assert all("SEMAPHORE" not in str(value) for value, _ in stopped)


def test_why_a_file_is_missing(tmp_path: Path) -> None:
    """A part that did not run is the reason that the report gives."""
    folder = tmp_path / BUNDLES["web4"].name
    for path in BUNDLES["web4"].rglob("*.txt"):
        if path.name not in ("memory.txt", "proc.txt"):
            folder.mkdir(exist_ok=True)
            text = path.read_text().replace("Memory Details...                            Done",
                                            "Memory Details...                            Excluded")  # fmt: skip
            (folder / path.name).write_text(text)
    ask = analyze([folder], rules(), STRICT)["ask"]["text"]

    assert "because supportconfig did not run its part Memory Details" in ask


@pytest.mark.parametrize("host", BUNDLES)
@pytest.mark.parametrize(("mode", "name"), [("w:xz", "scc.txz"), ("w:bz2", "nts.tbz"), ("w:gz", "scc.tgz")])
def test_packed_as_unpacked(host: str, mode: str, name: str, tmp_path: Path) -> None:
    """The archives of all versions say what their folders say."""
    archive = tmp_path / name
    archive.write_bytes(packed(BUNDLES[host], mode))

    assert {(f.name, f.value, f.cite.line) for f in facts(case_of(archive))} == {
        (f.name, f.value, f.cite.line) for f in facts(case_of(BUNDLES[host]))
    }


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 0.95, 0.999])
def test_a_cut_archive(share: float, tmp_path: Path) -> None:
    """What arrived is read, the loss is told, and no setting is assumed for one that may be in what is lost."""
    data = packed(BUNDLES["app2"])
    archive = tmp_path / "scc_app2_261127_1803.txz"
    archive.write_bytes(data[: int(len(data) * share)])
    parsed = read_input([archive], STRICT)

    assert parsed.problems
    whole = {(f.name, f.value) for f in facts(case_of(BUNDLES["app2"])) if f.name.startswith("thp.") and not f.labels}
    for case in host_cases(parsed, STRICT):
        read = {
            (f.name, f.value) for f in facts(case) if f.name.startswith("thp.") and not f.provenance and not f.labels
        }
        assert read <= whole


@pytest.mark.parametrize("seed", range(12))
def test_a_broken_file(seed: int, tmp_path: Path) -> None:
    """Bytes of memory.txt are changed or lost: no failure, and no word of a setting that nobody wrote."""
    folder = tmp_path / BUNDLES["db1"].name
    folder.mkdir()
    for path in BUNDLES["db1"].glob("*.txt"):
        (folder / path.name).write_bytes(path.read_bytes())
    data = (folder / "memory.txt").read_bytes()
    (folder / "memory.txt").write_bytes(mutant(data, seed) if seed % 2 else data[: len(data) * seed // 12])
    for case in host_cases(read_input([folder], STRICT), STRICT):
        values = {str(f.value) for f in facts(case) if f.name == "thp.enabled" and not f.provenance}
        assert values <= {"always"}


def given(path: Path) -> ParsedInput:
    return read_input([path], STRICT)


def test_one_file_alone() -> None:
    """Who sends memory.txt alone, whatever it is called, is understood too."""
    found = given(BUNDLES["sap3"] / "memory.txt")
    values = {r.record.name: r.record.value for rs in found.readings.values() for r in rs if isinstance(r.record, Fact)}

    assert (values["thp.enabled"], values["thp.defrag"]) == ("never", "never")


def test_an_excerpt_in_a_mail() -> None:
    """Sections between words of people: the settings count, and so does what is written around them."""
    lines = (BUNDLES["app2"] / "memory.txt").read_text()
    at = lines.index("#==[ Configuration File ]===========================#\n# /sys/kernel/mm/transparent_hugepage")
    mail = f"Hello,\n\nthis is what supportconfig says:\n\n{lines[at : at + 4000]}\n\nThe host is slow since Monday.\n"
    settings = [r.record for r in readings(mail.encode()) if isinstance(r.record, Fact)]

    assert any(f.name.startswith("thp.") for f in settings)


@pytest.mark.parametrize(
    ("path", "file", "wanted"),
    [
        ("scc_db1_261127_1803/memory.txt", "memory.txt", True),
        ("nts_db1_130101_0903/sar/sar01", "sar/sar01", True),
        ("scc_db1_261127_1803_8f0e/y2log.txt", "y2log.txt", False),
        ("ticket/files/scc_db1_261127_1803/open-files.txt", "open-files.txt", False),
        ("x.txt", None, True),
    ],
)
def test_the_map(path: str, file: str | None, wanted: bool) -> None:
    """Which files of the bundle are read; files that are called alike elsewhere are none of it."""
    assert collected_file(path) == file
    assert is_wanted(path) is wanted
    assert bool(root_of(path)) is (file is not None)
