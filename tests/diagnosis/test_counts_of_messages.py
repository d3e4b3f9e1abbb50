"""What a sentence says of kernel messages with something in their trace is what a plain search of the file counts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import STRICT, document, rules
from conftest import ROOT
from thpdiag.knowledge.symbols import Family, families
from thpdiag.pipeline import analyze

LOGS = [path for path in sorted((ROOT / "fixtures").glob("*/*/*")) if path.is_dir() and "kernel_log" in path.parts]
LOGS += sorted((ROOT / "fixtures/acceptance").glob("*/bundle"))
SENTENCE = re.compile(r"(?P<kinds>.+) \(with (?P<trace>.+) in the trace\): (?P<count>\d+) times in (?P<member>.+)")
MESSAGES = {
    "a CPU was stuck in the kernel": r"soft lockup",
    "a CPU did not answer at all": r"hard LOCKUP",
    "a task did not run for a long time": r"blocked for more than",
    "a CPU held up read-copy-update": r"rcu.*(?:stall|expedited)",
    "the kernel could not get contiguous memory": r"page allocation failure",
}
FUNCTION = re.compile(r"\b([a-zA-Z_][\w.]*)\+0x[0-9a-f]+/0x")


@cache
def by_title() -> dict[str, Family]:
    return {family.title: family for family in families().values()}


def named(words: str) -> list[Family] | None:
    """The families of `one or another`; None if it speaks of callers or of single functions, which this leaves out."""
    found = [by_title().get(word) for word in words.split(" or ")]
    return None if None in found else [family for family in found if family]


def traces(text: str, kinds: str) -> Iterator[set[str]]:
    """The functions in the 60 lines after each message of these kinds, up to the next message."""
    starts = re.compile("|".join(MESSAGES[kind] for kind in kinds.split(" or ")))
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if starts.search(line):
            part = lines[at + 1 : at + 60]
            end = next((n for n, other in enumerate(part) if any(re.search(m, other) for m in MESSAGES.values())), 60)
            yield set(FUNCTION.findall("\n".join(part[:end])))


def sentences(bundle: Path) -> Iterator[re.Match[str]]:
    result: dict[str, Any] = analyze([bundle], rules(), STRICT)
    for entry in (*result["ruled_out"], *result["findings"]):
        for line in (*entry.get("evidence", ()), *entry.get("against", ())):
            if match := SENTENCE.fullmatch(line["text"]):
                yield match


@pytest.mark.parametrize("bundle", LOGS, ids=lambda path: "-".join(path.parts[-3:]))
def test_nothing_is_said_to_be_absent_that_a_search_finds(bundle: Path) -> None:
    """With one of the functions that a sentence names, and none of those that it says are not counted."""
    for match in sentences(bundle):
        with_, _, without = match["trace"].partition(" and without ")
        wanted, other = named(with_), named(without) if without else []
        if wanted is None or other is None or match["count"] != "0":
            continue
        text = (bundle / match["member"]).read_text("utf-8", "replace")
        for functions in traces(text, match["kinds"]):
            present = [f.name for f in wanted if any(map(f.matches, functions))]
            beside = [f.name for f in other if any(map(f.matches, functions))]
            assert not present or beside, match[0]


def test_a_sentence_names_what_it_leaves_out() -> None:
    """A task that waits inside kcompactd has compaction in its trace, and is not what page faults suffer from."""
    told = [m["trace"] for bundle in LOGS for m in sentences(bundle) if m["trace"].startswith("memory compaction and")]
    assert told
    assert all("without kcompactd" in trace for trace in told)


HUNG = """[  483.616000] INFO: task java:4711 blocked for more than 120 seconds.
[  483.616010] Call Trace:
[  483.616020]  [<ffffffff81523a70>] schedule+0x29/0x70
[  483.616030]  [<ffffffff81524a70>] io_schedule+0x73/0xc0
[  483.616040]  [<ffffffffa0123a70>] {function}+0x20/0x30 [nfs]
[  483.616050]  [<ffffffffa0124a70>] nfs_file_write+0xa4/0x1d0 [nfs]
"""


def notes(text: str) -> list[str]:
    return [note["text"] for note in document(text.encode())["notes"] if "no finding explains" in note["text"]]


def test_a_hung_task_that_nothing_explains_is_told() -> None:
    """With the function that it waits in, not that of every wait, and how often."""
    [note] = notes(HUNG.format(function="nfs_wait_bit_killable") * 2)
    assert "a task did not run for a long time (java, in nfs_wait_bit_killable), 2 times" in note


def test_what_a_finding_explains_is_no_loose_end() -> None:
    """Compaction below a huge-page fault is what the finding is about."""
    text = HUNG.format(function="compact_zone").replace("nfs_file_write", "do_huge_pmd_anonymous_page")
    assert document(text.encode())["verdict"]["status"] == "found"
    assert notes(text) == []
    [note] = notes(text + HUNG.format(function="nfs_wait_bit_killable"))
    assert "nfs_wait_bit_killable" in note
