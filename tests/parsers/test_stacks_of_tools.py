"""Call stacks of other tools than perf: one recording says the same in each, and what is no CPU time is never one."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyze_bytes import STRICT, result_of, rules
from conftest import ROOT
from thpdiag.engine.stacks import cpu_time_profiles, samples_cpu_time, sees_kernel
from thpdiag.engine.state_view import compiled_profile
from thpdiag.model import Measure, Problem, Profile, Record
from thpdiag.model.parser import Content, Source
from thpdiag.parsers import all_parsers, bulk_parsers
from thpdiag.pipeline import analyze

RECORDING = ROOT / "fixtures" / "recordings" / "fault-compaction"
READERS = ROOT / "fixtures" / "readers"
RENDERINGS = ("script.txt", "folded.txt", "flamegraph.svg", "inferno.svg", "thpdiag.speedscope.json", "profile.pb.gz")
BINARY = ("pprof", "flame_graph", "speedscope", "firefox_profile")


def read(name: str, path: str, data: bytes) -> list[Record]:
    """What the reader of this name makes of the bytes of a member."""
    for bulk in bulk_parsers():
        if bulk.name == name and bulk.claims(path, data[:65536], len(data)):
            return [r for r in bulk.read(Source(path), Content(iter((data,)), len(data))) if not isinstance(r, tuple)]
    parser = next((p for p in all_parsers() if p.name == name), None)
    if parser is None:
        return []
    lines = data.decode("utf-8", "replace").splitlines()
    return list(parser.read(Source(path), list(enumerate(lines, 1))))


def profiles(name: str, file: Path) -> list[Profile]:
    return [r for r in read(name, file.name, file.read_bytes()) if isinstance(r, Profile)]


@pytest.mark.parametrize("file", RENDERINGS)
def test_one_recording_has_one_verdict(file: str) -> None:
    """perf script, folded stacks, both flame graphs, speedscope's file and pprof of one recording: half of the samples
    are in compaction under a huge page fault."""
    result = analyze([RECORDING / file], rules(), STRICT)
    found = next(f for f in result["findings"] if f["rule"] == result["verdict"]["rule"])
    assert (result["verdict"]["rule"], result["verdict"]["confidence"]) == ("THP-010", "likely")
    share = next(e["value"] for e in found["evidence"] if e.get("unit") == "ratio")
    assert share == pytest.approx(0.507, abs=0.003)  # flamegraph.pl's collapser loses the last of 107 samples


def test_a_table_without_callers_tells_a_lower_bound() -> None:
    """pprof -top has shares with all that a function calls, not who calls it."""
    result = analyze([RECORDING / "pprof-top.txt"], rules(), STRICT)
    assert result["verdict"]["status"] == "found"
    assert result["verdict"]["mechanism"] in ("fault-compaction", "compaction-lock-convoy")


CASES = {
    "bcc/offcputime": Measure.OFF_CPU, "bcc/offcputime-python": Measure.OFF_CPU, "bcc/profile": Measure.CPU,
    "bcc/profile-delimited": Measure.CPU, "bcc/stackcount": Measure.CALLS, "bcc/stackcount-P": Measure.CALLS,
    "bpftrace/profile": Measure.CPU, "bpftrace/tracepoint": Measure.CALLS, "bpftrace/json": Measure.CALLS,
    "bpftrace/sum": Measure.OTHER, "flame_graph/off-cpu": Measure.OFF_CPU, "flame_graph/inferno": Measure.CPU,
    "flame_graph/flamegraph-reverse": Measure.CPU, "speedscope/own-export": Measure.OTHER,
    "firefox_profile/samply": Measure.CPU, "firefox_profile/gecko": Measure.CPU, "pprof/go-cpu": Measure.CPU,
    "pprof/go-heap": Measure.OTHER, "pprof/go-top": Measure.CPU, "jstack/jdk17": Measure.SNAPSHOT,
    "jstack/jdk8": Measure.SNAPSHOT, "gdb_threads/churn": Measure.SNAPSHOT, "gdb_threads/pstack": Measure.SNAPSHOT,
}  # fmt: skip
PROGRAM_ALONE = ("pprof/go-cpu", "pprof/go-top", "pprof/go-heap", "jstack/", "gdb_threads/")


@pytest.mark.parametrize("case", CASES)
def test_what_is_counted_is_known(case: str) -> None:
    """Samples, waits, calls, threads, bytes: by the tool's own words or by what the stacks show."""
    name = case.split("/")[0]
    found = [p for file in sorted((READERS / case).iterdir()) for p in profiles(name, file)]
    assert found
    for profile in found:
        assert profile.measures is CASES[case]
        assert profile.shows_kernel is not case.startswith(PROGRAM_ALONE)


def test_only_cpu_time_of_the_kernel_answers_questions_about_it() -> None:
    """A wait, a call, a thread dump or a profile of Go is none of the recordings that shares are asked of."""
    for case, measure in CASES.items():
        found = [p for file in sorted((READERS / case).iterdir()) for p in profiles(case.split("/")[0], file)]
        wanted = measure is Measure.CPU and not case.startswith(PROGRAM_ALONE)
        assert bool(cpu_time_profiles(found)) is wanted, case


@pytest.mark.parametrize("case", ["pprof/go-cpu", "jstack/jdk17", "gdb_threads/churn", "pprof/go-heap", "bpftrace/sum"])
def test_what_does_not_show_the_kernel_rules_nothing_out(case: str) -> None:
    """No compaction in a profile of the program alone is no sign that there is none."""
    result = result_of(READERS / case)
    assert result["verdict"]["status"] == "cannot_tell"
    assert not [r for r in result["ruled_out"] if "non-idle samples" in r.get("because", "")]


def test_folded_waits_are_no_cpu_time() -> None:
    """offcputime -f, which writes what a profile writes: the scheduler is in each stack."""
    lines = [
        f"java;main;asm_exc_page_fault;handle_mm_fault;io_schedule;schedule;__schedule {n}000" for n in range(1, 40)
    ]
    found = read("folded", "out.folded", "\n".join(lines).encode())
    assert [p.measures for p in found if isinstance(p, Profile)] == [Measure.OFF_CPU]
    shown = [p for p in read("folded", "x", b"a;main;b 4\na;main;c 9\n") if isinstance(p, Profile)]
    assert (shown[0].measures, shown[0].shows_kernel) == (Measure.CPU, False)


def test_events_of_the_program_alone() -> None:
    """cycles:u, which perf takes by itself where the kernel may not be sampled."""
    profile = profiles("folded", READERS / "folded" / "marks" / "out.folded")[0]
    for event, seen in (("cycles", True), ("cycles:u", False), ("cycles:ppp", True), ("cpu_core/cycles/u", False),
                        ("cycles:uk", True), ("cpu-clock:uppp", False), ("cycles:uH", False)):  # fmt: skip
        from dataclasses import replace

        one = replace(profile, event=event, measures=None)
        assert samples_cpu_time(one)
        assert sees_kernel(one) is seen, event


def test_waits_for_work_are_no_waits() -> None:
    """Of the time off the CPU that of sleeping threads is in no share."""
    profile = profiles("bcc", READERS / "bcc" / "offcputime-python" / "out.txt")[0]
    assert compiled_profile(profile).weight == 1201337
    assert compiled_profile(profile).samples is None


def test_a_flame_graph_may_stand_on_its_head() -> None:
    """Root at the top or at the bottom, or the leaf at the root: the same stacks."""
    found = profiles("flame_graph", READERS / "flame_graph" / "flamegraph-reverse" / "graph.svg")[0]
    other = profiles("flame_graph", READERS / "flame_graph" / "inferno" / "graph.svg")[0]
    assert {tuple(found.names(c)) for c in range(len(found.chains))} == {
        tuple(other.names(c)) for c in range(len(other.chains))
    }


def test_frames_that_are_missing_from_a_picture_are_counted() -> None:
    """A damaged rectangle takes what lies on it with it, and the ledger says so."""
    text = (RECORDING / "flamegraph.svg").read_text()
    broken = re.sub(
        r"<title>(__handle_mm_fault \([^)]*\))</title><rect x=\"[\d.]+\"", r"<title>\1</title><rect x=\"?\"", text
    )
    records = read("flame_graph", "x.svg", broken.encode())
    assert any(isinstance(r, Problem) for r in records)
    assert next(r for r in records if isinstance(r, Profile)).ledger.odd


def test_documents_that_are_too_deep_or_no_recording() -> None:
    """Depth, circles, numbers beyond any range and no tables at all: a problem, no exception, no memory."""
    deep = b'{"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": ' + b"[" * 100_000
    circle = {"meta": {"processType": 0, "categories": []}, "threads": [
        {"name": "a", "samples": {"stack": [0, 1, 7]}, "stackTable": {"prefix": [1, 0], "frame": [0, 0]},
         "frameTable": {"func": [0]}, "funcTable": {"name": [0]}, "stringArray": ["f"]}]}  # fmt: skip
    nothing = {"meta": {"processType": 0}, "threads": "none"}
    entities = (
        b'<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY a "&b;&b;">]>'
        b"<svg><text>Flame Graph</text><title>&a; (1 samples, 1%)</title>"
    )
    for name, data in (("speedscope", deep), ("firefox_profile", json.dumps(circle).encode()),
                       ("firefox_profile", json.dumps(nothing).encode()), ("flame_graph", entities)):  # fmt: skip
        records = read(name, "x", data)
        assert records
        assert all(isinstance(r, Problem) for r in records), name


def test_a_packed_pprof_that_unpacks_to_more_than_is_read() -> None:
    """A bomb costs a limit, and says what to send instead."""
    body = (RECORDING / "profile.pb.gz").read_bytes()
    plain = gzip.decompress(body)
    found = read("pprof", "a.pb.gz", gzip.compress(plain + (b"\x32\x7f" + bytes(127)) * (300 << 10)))
    assert "pprof -traces" in next(r for r in found if isinstance(r, Problem)).text


def damaged(data: bytes, seed: int, count: int) -> Iterator[bytes]:
    """Cut at any byte, with bytes flipped, doubled or taken out."""
    choice = random.Random(seed)
    for number in range(count):
        at, length = choice.randrange(len(data)), choice.randrange(1, 40)
        if number % 4 == 0:
            yield data[:at]
        elif number % 4 == 1:
            yield data[:at] + bytes([choice.randrange(256)]) + data[at + 1 :]
        elif number % 4 == 2:
            yield data[:at] + data[at : at + length] * 3 + data[at + length :]
        else:
            yield data[:at] + data[at + length :]


def small(name: str) -> tuple[str, bytes]:
    """The smallest fixture of a reader."""
    files = [f for f in (READERS / name).rglob("*") if f.is_file() and f.parent.parent.name == name]
    file = min(files, key=lambda f: f.stat().st_size)
    data = file.read_bytes()
    return file.name, gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def check_damaged(name: str, count: int, seed: int) -> None:
    path, data = small(name)
    for bytes_ in damaged(data, seed, count):
        for record in read(name, path, bytes_):
            if isinstance(record, Profile):
                assert record.ledger.kept <= record.ledger.read + 1
                compiled_profile(record).weight  # noqa: B018 - indices fit


@pytest.mark.parametrize("name", BINARY)
def test_damage_is_no_exception(name: str) -> None:
    """Whatever is cut or changed: records or problems."""
    check_damaged(name, 200, 1)


@pytest.mark.proof
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("name", BINARY)
def test_proof_of_a_hundred_thousand_damaged_files(name: str, part: int) -> None:
    """The same 100,000 times for each format."""
    check_damaged(name, 10_000, 100 + part)
