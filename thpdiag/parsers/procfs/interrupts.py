"""Interrupts: /proc/interrupts and /proc/softirqs, by what the kernel itself uses them for.

               CPU0       CPU1
     24:          1          0  IO-APIC   5-edge      ACPI:Ged
    CAL:     120415     118020   Function call interrupts
    TLB:       9213       8120   TLB shootdowns

Units: counts since boot, a column a CPU that is online. Rows of devices are passed over; of the others the sum over all
CPUs of what compaction causes is taken: TLB shootdowns (x86 only), function calls (CAL on x86, without those of TLB
since 3.7; IPIn on arm64, where flushes need none), rescheduling. The words are those of the kernel, the names before
them are not the same everywhere. ERR and MIS have one column.

                        CPU0       CPU1
          HI:          0          1
      NET_RX:      12345      23456

A row is cut if it has fewer columns than the header has CPUs; it is left out. Source: kernel tree, kernel/irq/proc.c,
arch/x86/kernel/irq.c, arch/arm64/kernel/smp.c, fs/proc/softirqs.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors
from thpdiag.parsers._snapshots import Row, snapshots, system_samples

HEADER = re.compile(r"\s+CPU\d{1,5}(?:\s+CPU\d{1,5})*\s*$")
_COUNTS = r"(?P<counts>(?:\s+\d{1,20})+)"
INTERRUPT = re.compile(rf"\s{{0,12}}(?P<name>\d{{1,6}}|[A-Z][A-Z0-9]{{1,7}}):{_COUNTS}(?P<words>(?:\s+\S.*)?)$")
_KINDS = "HI|TIMER|NET_TX|NET_RX|BLOCK|IRQ_POLL|BLOCK_IOPOLL|TASKLET|SCHED|HRTIMER|RCU"
SOFTIRQ = re.compile(rf"\s{{0,12}}(?P<name>{_KINDS}):{_COUNTS}\s*$")
_USES = (
    (re.compile(r"TLB shootdowns$"), "node_interrupts_total.tlb_shootdowns"),
    (re.compile(r"[Ff]unction call interrupts$"), "node_interrupts_total.function_calls"),
    (re.compile(r"Rescheduling interrupts$"), "node_interrupts_total.rescheduling"),
)


def _rows(lines: Lines, row: re.Pattern[str], odd: ParseErrors) -> Iterator[tuple[int, str, re.Match[str], float]]:
    """Each row that has a count for every CPU, with their sum."""
    cpus = 0
    for number, line in lines:
        if HEADER.match(line):
            cpus = line.count("CPU")
        elif (found := row.match(line)) is None:
            if line.strip():
                odd.note(number, line, "not a row of interrupts")
        elif len(counts := found["counts"].split()) >= cpus > 0:
            yield number, line, found, float(sum(map(int, counts[:cpus])))
        elif found["name"] not in ("ERR", "MIS"):
            odd.note(number, line, "the row has fewer columns than there are CPUs, it may be cut; it is left out")


@snapshots("interrupts")
def parse_interrupts(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Sample]:
    """One sample of the host for each printing of the file."""

    def rows() -> Iterator[Row]:
        for number, line, found, total in _rows(lines, INTERRUPT, odd):
            words = found["words"].strip()
            name = next((metric for use, metric in _USES if use.search(words)), None)
            if name and not found["name"].isdecimal():
                yield number, line, name, total

    yield from system_samples(source, INTERRUPTS.name, rows())


@snapshots("softirqs")
def parse_softirqs(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Sample]:
    """One sample of the host for each printing of the file: all kinds together, and those of the network."""

    def rows() -> Iterator[Row]:
        total, last = 0.0, (0, "")
        for number, line, found, count in _rows(lines, SOFTIRQ, odd):
            if found["name"] == "HI" and last[0]:
                yield *last, "node_softirqs_total", total
                total = 0.0
            total, last = total + count, (number, line)
            if found["name"] in ("NET_RX", "NET_TX"):
                yield number, line, f"node_softirqs_total.{found['name'].lower()}", count
        if last[0] and " RCU:" in last[1]:  # the last row: nothing is cut
            yield *last, "node_softirqs_total", total

    yield from system_samples(source, SOFTIRQS.name, rows())


INTERRUPTS = Parser(
    "interrupts", "/proc/interrupts", parse_interrupts, opens=HEADER,
    continues=lambda text: bool(HEADER.match(text) or INTERRUPT.match(text)),
    confirm=lambda ahead: any(INTERRUPT.match(t) and not SOFTIRQ.match(t) for t in ahead[1:2]),
)  # fmt: skip
SOFTIRQS = Parser(
    "softirqs", "/proc/softirqs", parse_softirqs, opens=HEADER,
    continues=lambda text: bool(HEADER.match(text) or SOFTIRQ.match(text)),
    confirm=lambda ahead: any(SOFTIRQ.match(t) for t in ahead[1:2]),
)  # fmt: skip
