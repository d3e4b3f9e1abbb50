"""virsh on the host of virtual machines: dominfo, list, dumpxml.

    Id:             2                      <domain type='kvm' id='2'>         Id   Name     State
    Name:           guest1                   <memoryBacking>                 -------------------------
    State:          running                    <hugepages>                    2    guest1   running

A guest that runs makes the host one of virtual machines, whose makers want huge pages there. Not so a guest whose
memory is of reserved huge pages (memoryBacking), which dumpxml alone tells. An `id` is that of a running guest.
Sizes are not used: what a guest's balloon holds is how it was started, or what happens now, which one output cannot
tell. dommemstat is not read: its faults and swap are those of the guest, and its rss leaves out reserved huge pages.
Source: libvirt tools/virsh-domain-monitor.c (cmdDominfo, cmdList), docs/formatdomain; recorded with 9.0.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import any_of

_ROW = re.compile(
    r"(?:Id|Name|UUID|OS Type|State|CPU\(s\)|CPU time|(?:Max|Used) memory|Persistent|Autostart(?: Once)?|Managed save"
    r"|Security (?:model|DOI|label)|Messages):(?: |\s*$)"
)
_RUNS = re.compile(r"State:\s{1,20}running\s*$| {1,3}\d{1,6} {1,6}\S.{0,250}\s{2,}running\s*$")
_HEAD = re.compile(r" Id +Name +State\s*$")
_LISTED = re.compile(r" (?:\d{1,6}|-) {2,6}\S|-{20,}\s*$")
_DOMAIN = re.compile(r"<domain type=['\"](?:kvm|qemu)['\"](?P<id> id=['\"]\d{1,6}['\"])?")
_RESERVED = re.compile(r"\s*<hugepages\b")
_XML = re.compile(r"\s*<[/!\w]|\s{2,}\S")


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """`app`: that virtual machines run here."""
    running: tuple[int, str] | None = None
    for number, text in lines:
        found = _DOMAIN.match(text)
        if _RUNS.match(text) or (found and found["id"]):
            running = running or (number, text)
        elif _RESERVED.match(text):
            return
    if running:
        yield Fact("app", "kvm", source.cite(*running), (("pid", ""),), source.time)


PARSER = Parser(
    "virsh", "virsh dominfo, list and dumpxml", read,
    opens=re.compile(rf"Id: {{8,16}}(?:\d{{1,6}}|-)\s*$|{_HEAD.pattern}|{_DOMAIN.pattern}"),
    continues=any_of(_ROW, _HEAD, _LISTED, _XML),
)  # fmt: skip
