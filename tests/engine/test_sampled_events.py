"""Shares of samples are shares of CPU time only where time was sampled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analyze_bytes import document, found, sure
from kernel_symbol_files import recording
from profile_stacks import RECORDING
from thpdiag.engine.stacks import samples_cpu_time

TIME = ["cpu-clock", "cpu-clock:ppp", "cycles", "cycles:P", "cycles:uppp", "cpu_core/cycles/", "cpu/cycles/ppp",
        "task-clock:u", "", "r3c", "r1a8:u", "cpu/event=0x3c/", "anon group { cpu-clock, page-faults }"]  # fmt: skip
COUNTS = ["compaction:mm_compaction_begin", "kmem:mm_page_alloc", "probe:try_to_compact_pages", "page-faults",
          "major-faults:u", "cache-misses", "LLC-load-misses", "dTLB-loads:pp", "branches", "instructions:u", "cs",
          "context-switches", "cpu/mem-loads,ldlat=30/P", "mem:0xffffffff81000000:rw", "tracepoint 412",
          "anon group { page-faults, cpu-clock }"]  # fmt: skip
SCRIPT = (RECORDING / "script.txt").read_text()


@pytest.mark.parametrize("event", TIME)
def test_clocks_and_cycles_are_time(event: str) -> None:
    """Whatever modifiers and names of hardware they carry."""
    assert samples_cpu_time(replace(recording([[1]], None), event=event))


@pytest.mark.parametrize("event", COUNTS)
def test_what_happens_is_no_time(event: str) -> None:
    """Tracepoints, probes, faults, misses and switches are counted as they happen."""
    assert not samples_cpu_time(replace(recording([[1]], None), event=event))


@pytest.mark.parametrize("event", ["compaction:mm_compaction_begin: zone_start=0x1", "page-faults:", "cache-misses:u:"])
def test_counted_events_are_no_evidence(event: str) -> None:
    """Half of them hold compaction, which does not say how much time it takes: nothing is found, nothing ruled out."""
    result = document(SCRIPT.replace("cpu-clock:", event).encode())
    assert result["profiles"][0]["event"] == event.split(": ")[0].removesuffix(":")
    assert result["verdict"]["status"] == "cannot_tell"
    assert (sure(found(result)), result["ruled_out"]) == ({}, [])
    assert "does not show where CPU time goes" in str(result["rules"])


def test_counted_events_do_not_stand_in_the_way() -> None:
    """Of a recording of both the clock alone is judged."""
    alone = document(SCRIPT.encode())
    _, _, body = SCRIPT.partition("\nchurn")
    counted = f"\nchurn{body}".replace("cpu-clock:", "page-faults:")
    both = document((SCRIPT + counted).encode())
    assert {p["event"] for p in both["profiles"]} == {"cpu-clock", "page-faults"}
    assert both["verdict"]["rule"] == "THP-010"
    assert [r["rule"] for r in both["ruled_out"]] == [r["rule"] for r in alone["ruled_out"]]
