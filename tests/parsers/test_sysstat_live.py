"""Recordings made now by an installed sysstat, and real ones of others: all renderings agree, cell for cell."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sysstat_rows import Cells, by_lines, cells, in_bulk, problems, samples
from test_readers import readings
from thpdiag.model import Clock, Fact, Sample
from thpdiag.parsers import all_parsers, bulk_parsers
from thpdiag.parsers.sysstat import sadc, sadf, sar

SADC = [
    file
    for file in (Path("/usr/lib/sysstat/sadc"), Path("/usr/lib64/sa/sadc"), Path("/usr/lib/sa/sadc"))
    if file.exists()
]
CORPUS = {  # file of the corpus: reader
    "centos7-iostat-x.txt": "iostat",
    "centos7-mpstat-A.txt": "mpstat",
    "centos7-pidstat-h.txt": "pidstat",
    "centos7-pidstat.txt": "pidstat",
    "rhel6-sadf-x.xml": "sadf",
    "sa-10.1.5.bin": "sadc",
    "sa-11.5.7.bin": "sadc",
    "sa-12.0.6.bin": "sadc",
    "sa-9.0.4_rh6.5.bin": "sadc",
    "sar-10.1.5.txt": "sar",
}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three records of everything."""
    if not SADC or not shutil.which("sadf") or not shutil.which("sar"):
        pytest.skip("sysstat is not installed")
    file = tmp_path_factory.mktemp("sysstat") / "sa20"
    subprocess.run([SADC[0], "-S", "XALL", "1", "3", file], check=True, capture_output=True)
    return file


def printed(*command: str | Path, **more: str) -> bytes:
    environment = {"LC_ALL": "C", "S_TIME_FORMAT": "ISO", "TZ": "UTC", "PATH": "/usr/bin:/bin", **more}
    return subprocess.run(command, check=True, capture_output=True, env=environment).stdout


def unswapped(found: Cells) -> Cells:
    """Without what needs the machine, which rows of -d and -p do not name."""
    return {
        key: {name: v for name, v in values.items() if not name.startswith("swap_")} for key, values in found.items()
    }


def test_every_form_of_a_recording_says_the_same(recording: Path) -> None:
    """sar's text, sadf -d, -p, -j, -x and the file itself: same moments, same entities, same numbers."""
    text = cells(by_lines(sar.PARSER, printed("sar", "-A", "-f", recording)))
    assert len(text) >= 4
    forms = {form: printed("sadf", form, recording, "--", "-A") for form in ("-d", "-p", "-j", "-x")}
    assert cells(in_bulk(sadf.BULK_PARSER, forms["-j"])) == text
    assert cells(in_bulk(sadf.BULK_PARSER, forms["-x"])) == text
    assert cells(by_lines(sadf.PARSER, forms["-d"])) == unswapped(text)
    assert cells(by_lines(sadf.PARSER, forms["-p"])) == unswapped(text)
    assert cells(in_bulk(sadc.BULK_PARSER, recording.read_bytes())) == text


def test_text_in_bulk_is_text_by_lines(recording: Path) -> None:
    """Row for row, over several days in one file."""
    data = printed("sar", "-A", "-f", recording) * 3
    assert samples(in_bulk(sar.BULK_PARSER, data)) == samples(by_lines(sar.PARSER, data))


def test_every_cell_is_the_one_that_sadf_prints(recording: Path) -> None:
    """Against the rows of `sadf -d` taken apart here by hand, so that no code of ours is on both sides."""
    lines = printed("sadf", "-d", recording, "--", "-r", "ALL").decode().splitlines()
    columns, *rows = (line.split(";") for line in lines)
    found = samples(by_lines(sar.PARSER, printed("sar", "-r", "ALL", "-f", recording)))
    for name, column in (("MemFree", "kbmemfree"), ("AnonPages", "kbanonpg"), ("Committed_AS", "kbcommit")):
        expected = [int(row[columns.index(column)]) * 1024 for row in rows]
        assert [row.values[f"node_memory_{name}_bytes"] for row in found] == expected


def test_local_time_is_not_taken_for_utc(recording: Path) -> None:
    """-T in another zone: five hours and a half off, on another clock."""
    utc = samples(by_lines(sadf.PARSER, printed("sadf", "-d", recording, "--", "-B")))
    local = samples(by_lines(sadf.PARSER, printed("sadf", "-T", "-d", recording, "--", "-B", TZ="XXX-05:30")))
    assert [(r.time.clock, r.time.seconds - 19800) for r in local if r.time] == [
        (Clock.LOCAL, r.time.seconds) for r in utc if r.time
    ]


def test_the_header_says_what_the_host_is(recording: Path) -> None:
    """Release and machine as uname prints them, and as many CPUs as sar counts."""
    facts = {f.name: f.value for f in in_bulk(sadc.BULK_PARSER, recording.read_bytes()) if isinstance(f, Fact)}
    told = re.match(rb"Linux (\S+) \((\S*)\)\s+\S+\s+_(\S+)_\t\((\d+) CPU\)", printed("sar", "-u", "-f", recording))
    assert told
    names = ("kernel.release", "host.name", "kernel.arch", "cpu.count")
    assert [str(facts[name]) for name in names] == [part.decode() for part in told.groups()]


@pytest.mark.parametrize("name", CORPUS)
def test_files_of_others_are_claimed_by_their_reader(corpus: Path, name: str) -> None:
    """Each by one reader, and nothing in it is odd."""
    found = readings(corpus / "metrics" / "sysstat" / name)
    assert {r.reader for r in found} == {CORPUS[name]}
    assert {p.kind for p in problems(r.record for r in found)} <= {"unreadable"}


def test_rows_of_others_are_all_there(corpus: Path) -> None:
    """Counted in the texts with nothing but patterns."""
    folder = corpus / "metrics" / "sysstat"
    text = (folder / "sar-10.1.5.txt").read_text()
    blocks = [block.split("\n") for block in text.split("\n\n")]
    useful = [b for b in blocks if re.search(r" (?:%idle|pgpgin/s|kbmemfree|kbswpfree|runq-sz|pswpin/s|proc/s)", b[0])]
    rows = sum(bool(re.match(r"\d\d:", line)) for block in useful for line in block[1:])
    assert len(samples(r.record for r in readings(folder / "sar-10.1.5.txt"))) == rows
    pidstat = [r.record for r in readings(folder / "centos7-pidstat.txt")]
    lines = (folder / "centos7-pidstat.txt").read_text().splitlines()[3:]
    assert sum(isinstance(r, Sample) for r in pidstat) == sum(bool(re.match(r"\d\d:", line)) for line in lines)


def test_no_file_of_another_kind_is_claimed(corpus: Path) -> None:
    """Of all files of the corpus' metrics, these readers take theirs only."""
    own = {*CORPUS.values()}
    for file in sorted((corpus / "metrics").rglob("*")):
        if file.is_file() and file.name not in CORPUS and file.suffix != ".yaml" and "iostat" not in file.name:
            assert not own & {r.reader for r in readings(file)}, file


def test_every_reader_of_this_family_has_a_title() -> None:
    """The reference page of formats names them by it."""
    titles = {parser.name: parser.title for parser in (*all_parsers(), *bulk_parsers())}
    assert all(titles[name] for name in ("sar", "sadf", "sadc", "mpstat", "iostat", "pidstat"))
