"""What is said to speak against a finding, or to rule a cause out: by whom, by how much, of which way of the rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from test_evidence_classes import STALLING, diagnosed, outcome, rule
from thpdiag.engine.expression import parse

GROWING = "  growing: {series: process_resident_memory_bytes, as: delta, above: 100 MiB}\n"
THREAD = {"process_resident_memory_bytes{pid=36,comm=kcompactd0}": "0x12 @10s"}
PROGRAM = {"process_resident_memory_bytes{pid=4711,comm=java}": "900000000-1048576x12 @10s"}


@pytest.mark.parametrize(("series", "value"), [(THREAD, "unknown"), ({**THREAD, **PROGRAM}, "no"), (PROGRAM, "no")])
def test_a_kernel_thread_is_no_witness_of_memory(series: dict[str, str], value: str) -> None:
    """It has none: that it does not grow says nothing of the programs, which were perhaps not listed."""
    found = outcome(rule(GROWING, "growing", "for_each: process\n"), series=series)
    assert found.value.word == value
    assert not any("kcompactd0" in e.text for e in found.against)


def test_a_rule_about_cpu_time_looks_at_kernel_threads() -> None:
    """Theirs is CPU time like that of any other."""
    busy = "  busy: {series: process_cpu_ratio, above: 50 %, for: 50 % of samples}\n"
    series = {**THREAD, "process_cpu_ratio{pid=36,comm=kcompactd0}": "0.9x12 @10s"}
    found = outcome(rule(busy, "busy", "for_each: process\n"), series=series)
    assert (found.value.word, found.entity) == ("yes", "kcompactd0 (36)")


@pytest.mark.parametrize(
    ("values", "told"), [("-1048576x12", "fell by 12.0"), ("+1048576x12", "rose by 12.0"), ("x12", "changed by 0 B")]
)
def test_what_shrinks_falls(values: str, told: str) -> None:
    """Nothing changes by a negative size, and what changed by a positive one rose."""
    series = {"process_resident_memory_bytes{pid=4711,comm=java}": f"900000000{values} @10s"}
    for check in (GROWING, "  growing: {change: {of: process_resident_memory_bytes, above: 100 MiB}}\n"):
        found = outcome(rule(check, "growing", "for_each: process\n"), series=series)
        assert told in found.against[0].text


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ("0.1x6 0.9x2", " in 3 of 10 samples (lines 1 to 10), less than 50 % of them;"),
        ("0.1x9", " in 0 of 10 samples (lines 1 to 10); 10.0 %"),
    ],
)
def test_a_bound_that_some_samples_missed_says_how_many_it_takes(values: str, told: str) -> None:
    """Else three samples above the bound would seem to speak for what they rule out."""
    waiting = "  waiting: {series: cpu_ratio.iowait, above: 20 %, for: 50 % of samples}\n"
    found = outcome(rule(waiting, "waiting"), series={"cpu_ratio.iowait": f"{values} @10s"})
    assert found.value.word == "no"
    assert told in found.against[0].text


def test_a_share_of_a_family_does_not_name_it_twice() -> None:
    """`Samples in spin locks are in spin locks` tells nothing; what they are not for does."""
    locks = "  locks: {profile: {self: spin_lock, not_under: compaction, of: symbol, at_least: 50 %}}\n"
    stacks = ["_raw_spin_lock < compact_zone < try_to_compact_pages 60", "main 40"]
    found = outcome(rule(locks, "locks"), stacks=stacks)
    assert found.against[0].text.startswith("0.0 % of the samples in spin locks are not for memory compaction")


WAYS = (
    "  waiting: {series: cpu_ratio.iowait, above: 20 %, for: 50 % of samples}\n"
    "  writing: {profile: {anywhere: writeback, at_least: 20 %}}\n"
    "  busy: {series: cpu_ratio.sys_total, above: 30 %, for: 50 % of samples}\n"
    "  flowing: {series: node_vmstat_pgpgout, as: rate, above: 51200 /s, for: 50 % of samples}\n"
)
STACKS = ["main 100"]


@pytest.mark.parametrize(
    ("host", "against"),
    [
        ({"cpu_ratio.iowait": "0.5x12 @10s", "cpu_ratio.sys_total": "0.1x12 @10s"}, ["writing"]),
        ({"cpu_ratio.sys_total": "0.5x12 @10s", "cpu_ratio.iowait": "0.1x12 @10s",
          "node_vmstat_pgpgout": "0+10x12 @10s"}, ["flowing"]),
    ],
)  # fmt: skip
def test_another_way_that_nothing_speaks_for_is_no_objection(host: dict[str, str], against: list[str]) -> None:
    """A host that waits for disks need not be busy as well; one that is busy with writing need not wait."""
    level = parse("(waiting and writing) or (busy and flowing)")
    one = replace(rule(WAYS, "(waiting and not busy) or (busy and not waiting)"), confidence={"confirmed": level})
    found = outcome(one, stacks=STACKS, series=host)
    assert found.value.word == "yes"
    assert [e.check for e in found.against] == against


def test_what_a_rule_lacks_stands_before_what_contradicts_it() -> None:
    """The first is the reason that a report gives."""
    one = rule(
        "  calm: {series: cpu_ratio.iowait, above: 20 %, for: 50 % of samples}\n"
        "  moving: {series: node_vmstat_compact_stall, as: rate, above: 90 /s}\n", "moving and not calm",
    )  # fmt: skip
    found = outcome(one, series={**STALLING, "cpu_ratio.iowait": "0.5x12 @10s"})
    assert [e.check for e in found.against] == ["moving", "calm"]


def test_large_figures_are_told_in_words_and_exact_beside_the_text() -> None:
    """68,790,542.2/s is for programs, and they find it in the result."""
    one = rule("  moving: {series: node_vmstat_compact_stall, as: rate, above: 1 /s}\n", "moving")
    (told,) = outcome(one, series={"node_vmstat_compact_stall": "0+68790542.25x12 @1s"}).evidence
    assert "68.8 million/s" in told.text
    assert told.value == pytest.approx(68_790_542.25)


def test_what_the_host_is_rules_out_better_than_how_busy_it_was() -> None:
    """Huge pages of 512 MiB are none of a host whose huge pages have 2 MiB, whatever its counters did."""
    host = diagnosed(
        facts={"thp.hpage_pmd_size": 2097152, "kernel.era": "E8"},
        series={"node_vmstat_thp_fault_alloc": "0+1x6 10+20x5 @10s", "cpu_ratio.sys_share": "0.6x5 0.1x7 @10s"},
    )
    said = {item.rule.id: item.because for item in host.ruled_out}
    assert said["THP-047"] == "the size of a huge page: 2.0 MiB"
    assert said["THP-003"].startswith("a kernel whose page faults for huge pages use")
