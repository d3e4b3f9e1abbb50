"""Shares of samples and changes of counters in a result are what a plain count over the files gives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from analyze_bytes import result_of, rules
from conftest import ROOT
from thpdiag.knowledge.symbols import Family, families, normalise

CAPTURES = [
    ROOT / "fixtures/captures" / name / "bundle"
    for name in ("compact-memory", "file-streaming", "fork-exec", "idle-host", "mmap-lock", "storm-always", "stress-io")
]
SHARE = re.compile(
    r"(?P<share>[\d.]+) % of the non-idle samples are in (?P<what>[^,(]+(?:\([^)]*\))?[^,(]*?)(?P<top> \(top frame\))?"
    r"(?: called from (?P<under>[^,]+?))?(?:, not for (?P<without>[^,]+))?(?:, less than .+|, most in .+)?"
)
GROWTH = re.compile(
    r"(?P<name>[a-z][a-z0-9_]+)(?: rose by (?P<grown>[\d,]+)| changed by 0) in [\d.,]+ (?:s|min|h) "
    r"\(lines (?P<first>\d+) to (?P<last>\d+)\)(?:;.*)?"
)
RATE = re.compile(
    r"(?P<name>[a-z][a-z0-9_]+): (?:above [^ ]+ in [\d,]+ of )?(?P<still>0/s in )?(?P<samples>[\d,]+) samples "
    r"\(lines (?P<first>\d+) to (?P<last>\d+)\).*"
)


def sentences(bundle: Path) -> Iterator[tuple[str, str]]:
    """The member and the words of all evidence of a result."""
    result = result_of(bundle)
    for part in (*result["ruled_out"], *result["findings"]):
        for line in (*part.get("evidence", ()), *part.get("against", ())):
            if line.get("member"):
                yield line["member"], line["text"]


@cache
def samples(path: Path) -> list[tuple[str, list[str]]]:
    """The command and the functions, leaf first, of each sample of a perf script; idle ones left out."""
    idle = families()["idle"]
    found = []
    for block in re.split(r"\n{2,}", path.read_text("utf-8", "replace").strip("\n")):
        head, *lines = block.strip("\n").split("\n")
        frames = [normalise(line.split(None, 1)[1].rpartition(" (")[0]) for line in lines if len(line.split()) > 1]
        if not head.startswith("swapper") and not any(idle.matches(name) for name in frames[:1]):
            found.append((head.split()[0], frames))
    return found


def choice(words: str) -> list[Family]:
    """The families of `one or another`; none if one of them is not known by this title."""
    by_title = {family.title: family for family in families().values()}
    found = [by_title.get(word) for word in words.split(" or ")]
    return [] if None in found else [family for family in found if family]


def holds(frames: list[str], chain: list[list[Family]]) -> bool:
    """Whether the frames hold one of each choice, in this order, whatever is between."""
    at = 0
    for name in frames:
        if at < len(chain) and any(family.matches(name) for family in chain[at]):
            at += 1
    return at == len(chain)


@pytest.mark.parametrize(
    "bundle", [path for path in CAPTURES if path.parent.name != "idle-host"], ids=lambda path: path.parent.name
)
def test_a_share_of_samples_is_that_of_a_plain_count(bundle: Path) -> None:
    """Of the samples of the perf script; a share that is not nothing is never printed as 0.0 %."""
    checked = 0
    for member, text in sentences(bundle):
        found = SHARE.fullmatch(text)
        if not member.endswith("perf-script.txt") or not found:
            continue
        chain = [choice(part) for part in (found["what"], *(found["under"] or "").split(" within ")) if part]
        without = choice(found["without"]) if found["without"] else []
        if not all(chain) or (found["without"] and not without):
            continue
        rows = samples(bundle / member)
        fitting = sum(
            holds(frames[:1] if found["top"] and len(chain) == 1 else frames, chain)
            and not any(family.matches(name) for family in without for name in frames)
            for _, frames in rows
            if not found["top"] or (frames and any(family.matches(frames[0]) for family in chain[0]))
        )
        assert abs(100 * fitting / len(rows) - float(found["share"])) <= 0.06, text
        checked += 1
    assert checked >= 5


@pytest.mark.parametrize("bundle", CAPTURES, ids=lambda path: path.parent.name)
def test_a_change_of_a_counter_is_that_of_its_first_and_last_line(bundle: Path) -> None:
    """The counter's lines of /proc/vmstat between those that are named, and how many samples there are."""
    checked = 0
    for member, text in sentences(bundle):
        found = GROWTH.fullmatch(text) or RATE.fullmatch(text)
        if not found or not member.endswith("loops/counters.txt"):
            continue
        lines = (bundle / member).read_text().splitlines()
        first, last = int(found["first"]) - 1, int(found["last"])
        while last < len(lines) and not lines[last].isdigit():  # a round begins with its time
            last += 1
        lines = lines[first:last]
        values = [int(m[1]) for line in lines if (m := re.fullmatch(rf"{found['name']} (\d+)", line))]
        if not values:  # a figure made of several
            continue
        checked += 1
        if "grown" in found.groupdict():
            assert values[-1] - values[0] == int((found["grown"] or "0").replace(",", "")), text
        else:
            assert len(values) == int(found["samples"].replace(",", "")), text
            assert not found["still"] or values[-1] == values[0], text
    assert checked >= 3


@pytest.mark.parametrize("bundle", CAPTURES, ids=lambda path: path.parent.name)
def test_a_process_that_is_said_to_be_absent_is_in_no_list(bundle: Path) -> None:
    """No word of the file, or last part of a path in it, is such a name."""
    checks = {(rule.id, name): check for rule in rules() for name, check in rule.checks.items()}
    for entry in result_of(bundle)["ruled_out"]:
        for line in entry["evidence"]:
            check = getattr(checks.get((entry["rule"], line.get("check"))), "process", None)
            if check is None or not check.comm or not line["text"].startswith(("no such process", "not among")):
                continue
            words = re.findall(r"[^\s/()]+", (bundle / line["member"]).read_text("utf-8", "replace"))
            assert not [word for word in words if re.fullmatch(check.comm, word)], (entry["rule"], line)


@pytest.mark.parametrize("bundle", CAPTURES, ids=lambda path: path.parent.name)
def test_a_share_of_memory_is_that_of_the_line_that_is_cited(bundle: Path) -> None:
    """What is available of all memory, in kB of meminfo or in MiB of top, at one of the moments that the file holds."""
    for member, text in sentences(bundle):
        if not (found := re.match(r"available memory: ([\d.]+) %", text)):
            continue
        words = (bundle / member).read_text()
        [total, *_] = re.findall(r"(?m)^(?:MemTotal: +|MiB Mem : +)([\d.]+)", words)
        left = re.findall(r"(?m)^MemAvailable: +(\d+)|([\d.]+) avail Mem", words)
        shares = [100 * float(one or other) / float(total) for one, other in left]
        assert any(abs(share - float(found[1])) <= 0.06 for share in shares), text
