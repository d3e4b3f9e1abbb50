"""kubectl (or oc) describe node: what Kubernetes knows of a host.

    Name:               worker-1
    Roles:              worker
    Capacity:
      cpu:                16
      hugepages-1Gi:      0
      hugepages-2Mi:      1Gi
      memory:             65780000Ki
    System Info:
      Kernel Version:     5.14.0-284.59.1.el9_2.x86_64
      OS Image:           Red Hat Enterprise Linux CoreOS 414.92.202403270157-0 (Plow)
      Architecture:       amd64

Each node is a host. Capacity is what the host has, Allocatable what is left for pods: of that nothing is used. The
hugepages of a size are those that were reserved (hugetlbfs); of two sizes /proc/meminfo would count one, so then
neither is taken. A condition (MemoryPressure) is the kubelet's own judgement, by thresholds that stand elsewhere.
Varies: blanks before the rows. Source: kubectl pkg/describe/describe.go (describeNode), 1.10 to 1.31.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, with_errors
from thpdiag.parsers._units import parse_quantity

NAME = "kubectl_node"
_NAME = re.compile(r"Name: {1,30}([a-z0-9][a-z0-9.-]{0,252})\s*$")
_ROW = re.compile(r"\s{0,4}(?P<key>[A-Za-z][\w ./-]{0,80}):(?: +(?P<value>\S.{0,200}?))?\s*$")
_OTHER = re.compile(
    r" |[A-Z][\w ./()-]{0,80}:|[\w./-]{1,250}[:=]|-{4}|(?:Type +Status|[A-Z]\w+ +(?:True|False|Unknown)) "
)
_RESERVED = re.compile(r"hugepages-(\d{1,4}[KMG]i)$")
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
_FACTS = {"Kernel Version": "kernel.release", "OS Image": "os.name", "Architecture": "kernel.arch"}


@with_errors(NAME)
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """Facts of the host, and its memory."""
    section, first, memory = "", (0, ""), 0.0
    reserved: dict[float, float] = {}
    for number, text in lines:
        row, cite = _ROW.match(text), source.cite(number, text)
        key, value = (row["key"], row["value"] or "") if row else ("", "")
        if row and not value:
            section = key
        if name := _NAME.match(text):
            yield Fact("host.name", name[1], cite, time=source.time)
        elif section == "System Info" and key in _FACTS and value:
            yield Fact(_FACTS[key], _ARCHITECTURES.get(value, value), cite, time=source.time)
        elif section == "Capacity" and key == "cpu" and value.isdecimal() and 0 < int(value[:6]) < 2**20:
            yield Fact("cpu.count", int(value[:6]), cite, time=source.time)
        elif section == "Capacity" and (key == "memory" or _RESERVED.match(key)):
            size, page = parse_quantity(value), parse_quantity(key.partition("-")[2])
            first = first if first[0] else (number, text)
            if size is None:
                odd.note(number, text, "not a size of memory")
            elif page:
                reserved[page.value] = size.value
            else:
                memory = size.value
    yield from _memory(source, memory, reserved, first)


def _memory(source: Source, memory: float, reserved: dict[float, float], first: tuple[int, str]) -> Iterator[Sample]:
    values = {"node_memory_MemTotal_bytes": memory} if memory else {}
    if len(used := [page for page, size in reserved.items() if size]) == 1:
        values["node_memory_Hugepagesize_bytes"] = used[0]
        values["node_memory_HugePages_Total"] = reserved[used[0]] // used[0]
    if values:
        yield Sample("system", values, source.cite(*first), NAME, time=source.time)


def _continues(text: str) -> bool:
    return not text.strip() or (_OTHER.match(text) is not None and not text.startswith("Name:"))


def _confirm(ahead: list[str]) -> bool:
    return len(ahead) > 2 and ahead[1].startswith("Roles:") and ahead[2].startswith("Labels:")


PARSER = Parser(NAME, "kubectl describe node", read, opens=_NAME, confirm=_confirm, continues=_continues)
