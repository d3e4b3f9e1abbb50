"""Blocks amid sentences, without a prompt: tables, settings, counters, call graphs and traces."""

from __future__ import annotations

from itertools import product

import pytest

from parse_bytes import readings
from pasted_sessions import DRESSES, ENABLED, THP, records, told
from thpdiag.model import Profile, Sample

BLOCKS = {
    "uname": ("Linux db1 2.6.32-220.el6.x86_64 #1 SMP Tue Dec 6 19:48:22 GMT 2011 x86_64 x86_64 x86_64 GNU/Linux",
    "uname"),
    "sysfs": ("[always] madvise never", "thp_sysfs"),
    "vmstat": ("procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n"
               " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
               "31  0      0 812344  10240 204800    0    0     0    12 9000 4000 20 78  2  0  0\n"
               "33  0      0 812300  10240 204800    0    0     0     8 9100 4100 21 77  2  0  0", "vmstat"),
    "collectl": ("#<--------CPU--------><----------Disks-----------><----------Network---------->\n"
                 "#cpu sys inter  ctxsw KBRead  Reads KBWrit Writes   KBIn  PktIn  KBOut  PktOut\n"
                 "  96  93 45000  12000      0      0    120      9    300    400    500     600\n"
                 "  97  94 45100  12100      0      0    130      9    310    410    510     610", "collectl_text"),
    "perf top of old": ("   PerfTop:   16096 irqs/sec  kernel:92.6%  exact:  0.0% [1000Hz cycles],  (all, 16 CPUs)\n"
                        "             samples  pcnt function                      DSO\n"
                        "             _______ _____ _____________________________ ___________________\n"
                        "           201433.00 91.2% _spin_lock_irq                [kernel.kallsyms]\n"
                        "             5120.00  2.3% compact_zone                  [kernel.kallsyms]\n"
                        "             3100.00  1.4% _raw_spin_lock_irqsave        [kernel.kallsyms]", "perf_top"),
    "perf top": ("Samples: 87K of event 'cycles', 4000 Hz, Event count (approx.): 2201433 lost: 0/0 drop: 0/0\n"
                 "Overhead  Shared Object  Symbol\n 61.20%  [kernel]  [k] _spin_lock_irq\n"
                 " 12.10%  [kernel]  [k] compact_zone\n  3.00%  java  [.] run", "perf_report"),
    "meminfo": ("MemTotal:       99056200 kB\nMemFree:         4872172 kB\nBuffers:          333824 kB\n"
    "Cached:          2872172 kB\n"
                "AnonHugePages:  62156800 kB", "proc_meminfo"),
    "buddyinfo": ("Node 0, zone      DMA      1      1      1      0      2      1      1      0      1      1      3\n"
                  "Node 0, zone   Normal  91234  45011   9000    120      3      0      0      0      0      0      0",
                  "buddyinfo"),
    "counters": ("compact_stall 4711\ncompact_fail 4700\ncompact_success 11\nthp_fault_alloc 8", "proc_vmstat"),
    "hung task": ("INFO: task java:4711 blocked for more than 120 seconds.\n"
    "\"echo 0 > /proc/sys/kernel/hung_task_timeout_secs\" disables this message.\n"
                  "Call Trace:\n [<ffffffff8116a4b3>] compact_zone+0x53/0x400\n"
                  " [<ffffffff8116a9e1>] try_to_compact_pages+0x111/0x180", "kernel_log"),
    "perf report": ("# Samples: 60K of event 'cycles'\n# Overhead  Command  Shared Object      Symbol\n"
    "# ........  .......  .................  ....................\n"
                    "#\n    41.07%  java     [kernel.kallsyms]  [k] _raw_spin_lock_irqsave\n            |\n"
                    "            --- _raw_spin_lock_irqsave\n"
                    "               |--92.10%-- compact_zone\n                --7.90%-- [...]", "perf_report"),
}  # fmt: skip
AROUND = {
    "alone": "{}",
    "in prose": "Hello,\n\nplease look at this:\n\n{}\n\nThis was on Monday. Any idea?\n",
    "right after a sentence": "We saw this on the host:\n{}\n\nThanks",
    "right before a sentence": "Hi\n\n{}\nand it went on like that for hours.\n",
}


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_without_a_prompt_is_found(block: str) -> None:
    """Tables, settings, counters and traces amid sentences, however the mail was sent."""
    content, reader = BLOCKS[block]
    alone = [r for r in readings(content.encode()) if r.reader == reader]
    assert alone
    for dress, around in product(["", "quoted", "indented", "html", "dos", "coloured"], AROUND):
        text = AROUND[around].format(content)
        found = readings((DRESSES[dress](text) if dress else text).encode())
        assert len([r for r in found if r.reader == reader]) >= len(alone), (dress, around)


def test_a_name_that_signs_a_letter_is_no_call_graph() -> None:
    """Below the last row of perf top: then the profile is flat, and says so."""
    letter = f"{BLOCKS['perf top'][0]}\n\n-- \nMartin\n"
    profiles = [r.record for r in readings(letter.encode()) if isinstance(r.record, Profile)]
    assert [profile.stacks.name for profile in profiles] == ["NONE"]


def test_prose_alone_measures_nothing() -> None:
    """Sentences with numbers and commands in them are no measurement."""
    text = "Our system used 95 % sys CPU for 30 seconds, compact_stall went up to 5000 and memory was 12 GB.\n"
    text += f"You may run\n  echo never > {THP}/enabled\nto cure it, as vmstat 1 or perf top show.\n"
    assert [r for r in records(text) if isinstance(r, (Sample, Profile))] == []
    assert told(text) == [(ENABLED, "never", "prose")]
