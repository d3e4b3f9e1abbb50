"""Shares that perf prints of a kind of event: kvm stat, c2c report.

perf kvm stat report: why virtual machines left for the host, and what that cost.

                 VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time
           EPT_VIOLATION      41234    40.12%    62.31%      1.05us   2913.40us      9.12us ( +-   1.20% )

The host serves a first touch of the guest's memory in EPT_VIOLATION (NPF on AMD), by small or huge pages of its own.
Source: tools/perf/builtin-kvm.c (to 6.3; later in columns that can be sorted).

perf c2c report: cache lines that CPUs take from each other.

      Load Operations                   :      12345
      Load Local HITM                   :        123
Source: tools/perf/builtin-c2c.c (print_c2c__display_stats).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, any_of, with_errors

KVM_HEAD = re.compile(r"\s{1,30}(?:VM-EXIT|Event name)\s+Samples\s+(?:Samples%|Sample%)\s+Time%\s+Min Time")
KVM_ROW = re.compile(
    r"\s{0,30}(?P<event>[A-Za-z][\w.:/-]{1,40})\s+(?P<count>\d{1,15})\s+[\d.]{1,6}%\s+(?P<time>\d{1,3}\.\d\d)%"
    r"\s+[\d.]{1,15}us\s"
)
KVM_REST = re.compile(r"Analyze events for |Total Samples:\d{1,15}, Total events handled time:|\s{0,4}Total\s|#")
FIRST_TOUCH = ("EPT_VIOLATION", "EPT_MISCONFIG", "npf", "NPF", "EPT violation")


@with_errors("perf_kvm")
def read_kvm_stat(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """The share of the host's time for the guest's memory."""
    for number, text in lines:
        if found := KVM_ROW.match(text):
            if found["event"] in FIRST_TOUCH:
                labels = (("event", found["event"]), ("times", found["count"]))
                ratio, cite = round(float(found["time"]) / 100, 6), source.cite(number, text)
                yield Fact("kvm.memory_exit_ratio", ratio, cite, labels)
        elif text.strip() and not (KVM_HEAD.match(text) or KVM_REST.match(text)):
            errors.note(number, text, "a line that perf kvm stat does not print")


C2C_HEAD = re.compile(r"\s{4,20}Trace Event Information\s*$|={40,60}\s*$")
C2C_ROW = re.compile(r"\s{1,6}(?P<name>[A-Z][A-Za-z0-9 ,/()-]{2,40}?)\s+:\s+(?P<count>\d{1,15})\s*$")


@with_errors("perf_c2c")
def read_c2c_report(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """The share of loads that another CPU had changed the line of."""
    counts: dict[str, tuple[int, int, str]] = {}
    for number, text in lines:
        if found := C2C_ROW.match(text):
            counts.setdefault(found["name"], (int(found["count"]), number, text))
        elif text.strip() and not C2C_HEAD.match(text):
            errors.note(number, text, "a line that perf c2c report does not print here")
    loads = counts.get("Load Operations")
    taken = [counts[name] for name in ("Load Local HITM", "Load Remote HITM") if name in counts]
    if loads and loads[0] and taken:
        ratio = sum(count for count, _, _ in taken) / loads[0]
        yield Fact("c2c.hitm_ratio", round(min(ratio, 1.0), 6), source.cite(*max(taken)[1:]))


KVM = Parser(
    "perf_kvm", "perf kvm stat", read_kvm_stat, opens=KVM_HEAD,
    continues=any_of(KVM_HEAD, KVM_ROW, KVM_REST, blank=True),
)  # fmt: skip
C2C = Parser(
    "perf_c2c", "perf c2c report", read_c2c_report, opens=re.compile(r"\s{4,20}Trace Event Information\s*$"),
    continues=any_of(C2C_HEAD, C2C_ROW),
)  # fmt: skip
