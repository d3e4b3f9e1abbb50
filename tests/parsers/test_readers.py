"""Every reader on its fixtures: fixtures/readers/PARSER/CASE/... beside CASE.golden.json."""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from conftest import ROOT
from golden_records import compare, dump
from thpdiag.bundle import members
from thpdiag.detect import Detector, TaggedRecord
from thpdiag.knowledge.paths import system_path
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Fact, Problem, Sample, Series
from thpdiag.model.parser import Content
from thpdiag.parsers import SOURCES_FILE, all_parsers, bulk_parsers

FOLDER = ROOT / "fixtures" / "readers"
CASES = sorted(case for reader in FOLDER.iterdir() if reader.is_dir() for case in reader.iterdir() if case.is_dir())
WITHOUT_FORMAT = {"operator_actions", "prose"}  # called for prompts and prose, they claim no block
ALSO = {
    "gc_log/jdk17-g1": {"java_page_sizes"},  # a log that says at its start which pages it has
    "java_flags/vm-info": {"os_release", "uname", "proc_meminfo", "thp_sysfs", "sysctl"},  # it copies files of the host
}


def readings(case: Path) -> list[TaggedRecord]:
    found: list[TaggedRecord] = []
    recogniser = Detector(all_parsers(), strict=True)
    for member in members([case], lambda _: True):
        if isinstance(member, Problem):
            found.append(TaggedRecord(member, "", ("", "")))
            continue
        path, head = system_path(member.path) or member.path, member.head()
        if bulk := next((r for r in bulk_parsers() if r.claims(path, head, member.size)), None):
            found.extend(recogniser.bulk(bulk, member.path, Content(member.chunks(), member.size, member.file)))
        else:
            found.extend(recogniser.read(member.path, member.lines(), member.head().decode("utf-8", "replace")))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_a_fixture_reads_as_its_golden_says(case: Path) -> None:
    """What is read equals the golden, and only the reader of the folder (and those of ALSO) finds blocks in it."""
    found = readings(case)
    assert found, "nothing recognised"
    compare(case.parent / f"{case.name}.golden.json", dump(r.record for r in found))
    also = ALSO.get(f"{case.parent.name}/{case.name}", ())
    assert {r.reader for r in found} - WITHOUT_FORMAT == {case.parent.name, *also}


def test_every_reader_has_a_fixture() -> None:
    """A reader without a recorded input is not tested."""
    names = {reader.name for reader in (*all_parsers(), *bulk_parsers())}
    assert names == {case.parent.name for case in CASES}


def test_no_reader_lies_where_it_is_not_found() -> None:
    """One in a room of a room would be silently missing."""
    files = sorted((ROOT / "thpdiag" / "parsers").rglob("*.py"))
    declared = re.findall(
        r"^[A-Z0-9_]+ = (Parser|BulkParser|member_parser)\(", "".join(file.read_text() for file in files), re.MULTILINE
    )
    declared = [name.replace("member_parser", "BulkParser") for name in declared]

    assert Counter(declared) == {"Parser": len(all_parsers()), "BulkParser": len(bulk_parsers())}


def test_every_fixture_folder_says_where_it_comes_from() -> None:
    """ORIGIN.md names kernel, command, and what was reconstructed."""
    assert [c.parent.name for c in CASES if not (c.parent / "ORIGIN.md").is_file()] == []


def test_the_sources_of_each_fact_are_up_to_date() -> None:
    """`rules facts` names the parsers that give a fact, as they do in their fixtures. BLESS=1 writes the table."""
    sources: dict[str, set[str]] = defaultdict(set)
    for case in CASES:
        for record in (found.record for found in readings(case)):
            names = [record.name] if isinstance(record, Fact) else ()
            names = list(record.values) if isinstance(record, Sample | Series) else names
            for known in filter(None, map(term, names)):
                sources[known.name].add(case.parent.name)
    rows = [f"{json.dumps(name)}: {json.dumps(sorted(sources[name]))}" for name in sorted(sources)]
    text = "{\n" + ",\n".join(rows) + "\n}\n"
    if os.environ.get("BLESS") == "1":
        SOURCES_FILE.write_text(text, "utf-8")
    assert SOURCES_FILE.read_text("utf-8") == text
