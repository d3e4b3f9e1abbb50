r"""Virtualization and container platforms: virsh, kubectl, esxtop, the agent of Azure.

virsh on the host of virtual machines: dominfo, list, dumpxml.

    Id:             2                      <domain type='kvm' id='2'>         Id   Name     State
    Name:           guest1                   <memoryBacking>                 -------------------------
    State:          running                    <hugepages>                    2    guest1   running

A running guest identifies the host as one of virtual machines, for which huge pages are recommended. A guest whose
memory consists of reserved huge pages (memoryBacking, printed by dumpxml only) does not. Only running guests have an
`id`. Sizes are not used: one output cannot show whether a balloon was configured or was inflated later. dommemstat is
not read: its faults and swap are those of the guest, and its rss excludes reserved huge pages.
Source: libvirt tools/virsh-domain-monitor.c (cmdDominfo, cmdList), docs/formatdomain; recorded with 9.0.0.

kubectl (or oc) describe node: the description of a host in Kubernetes.

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

Each node is a host. Capacity is the size of the host; Allocatable, the part for pods, is not used. hugepages of a size
are reserved pages (hugetlbfs); /proc/meminfo counts one size only, so if two are in use neither is read. A condition
(MemoryPressure) is a decision of the kubelet, whose thresholds are not shown. Varies: blanks before the rows. Source:
kubectl pkg/describe/describe.go (describeNode), 1.10 to 1.31.

kubectl describe pod, kubectl get events: containers that the kernel killed at their memory limit.

    Node:         worker-3/10.0.0.13
    Containers:
      app:
        Last State:     Terminated
          Reason:       OOMKilled
    LAST SEEN   TYPE      REASON       OBJECT          MESSAGE
    12m         Warning   OOMKilling   node/worker-3   Memory cgroup out of memory: Killed process 12345 (java) ...

Ages are not dates. The host is the named node, not the machine on which kubectl ran. SystemOOM concerns the whole node.
Reconstructed from kubectl pkg/describe/describe.go (describeContainers), pkg/printers events, node-problem-detector
(OOMKilling), 1.20 to 1.31.

esxtop -b on VMware ESXi: CPU and memory of each virtual machine, as CSV.

    "(PDH-CSV 4.0) (UTC)(0)","\\esx1\Memory\Memory Overcommit (1 Minute Avg)","\\esx1\Group Cpu(4711:db1)\% Ready",...
    "11/20/2026 09:54:16","0.41","38.20",...

One column per counter of each guest, many thousands; a guest is a group of worlds, identified by number and name.
Units: percent of one CPU, summed over the worlds of a group; MBytes. Ready is the time in which a virtual CPU could run
but had no CPU. With columns by world it is that of the virtual CPUs (vmx-vcpu-0); with groups only, the value is
divided by the members, not all of which are virtual CPUs, so it is a lower bound. The balloon (memctl) is memory that a
guest returned, swapped is memory that the host swapped out. The first row has averages since boot and is left out.
The file does not identify the guest under analysis, so no guest is treated as the host. No host name is read.
Source: VMware, Interpreting esxtop statistics; column names of 5.5 to 8.0.

waagent.log: the log of the Azure agent in a guest.

    2026-11-20T09:54:16.302123Z INFO Daemon Daemon Azure Linux Agent Version: 2.2.46
    2026/11/20 09:54:16.302123 INFO Azure Linux Agent Version:2.2.18

A host with this agent is a guest of Azure, on Hyper-V. Distribution and version are those at the time of the line, and
the log covers months, so other files are used for both. The agent reports only its own memory.
Source: Azure/WALinuxAgent, azurelinuxagent/common/logger.py, azurelinuxagent/daemon/main.py, 2.2 to 2.15.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from thpdiag.model import Event, Fact, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, any_of, member_parser, printable, with_errors
from thpdiag.parsers._units import parse_number, parse_quantity

_DOMINFO_ROW = re.compile(
    r"(?:Id|Name|UUID|OS Type|State|CPU\(s\)|CPU time|(?:Max|Used) memory|Persistent|Autostart(?: Once)?|Managed save"
    r"|Security (?:model|DOI|label)|Messages):(?: |\s*$)"
)
_RUNNING = re.compile(r"State:\s{1,20}running\s*$| {1,3}\d{1,6} {1,6}\S.{0,250}\s{2,}running\s*$")
_LIST_HEAD = re.compile(r" Id +Name +State\s*$")
_LIST_ROW = re.compile(r" (?:\d{1,6}|-) {2,6}\S|-{20,}\s*$")
_DOMAIN = re.compile(r"<domain type=['\"](?:kvm|qemu)['\"](?P<id> id=['\"]\d{1,6}['\"])?")
_RESERVED_PAGES = re.compile(r"\s*<hugepages\b")
_XML = re.compile(r"\s*<[/!\w]|\s{2,}\S")


def parse_virsh(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield `app` if virtual machines run on the host."""
    running: tuple[int, str] | None = None
    for number, text in lines:
        domain = _DOMAIN.match(text)
        if _RUNNING.match(text) or (domain and domain["id"]):
            running = running or (number, text)
        elif _RESERVED_PAGES.match(text):
            return
    if running:
        yield Fact("app", "kvm", source.cite(*running), (("pid", ""),), source.time)


VIRSH = Parser(
    "virsh", "virsh dominfo, list and dumpxml", parse_virsh,
    opens=re.compile(rf"Id: {{8,16}}(?:\d{{1,6}}|-)\s*$|{_LIST_HEAD.pattern}|{_DOMAIN.pattern}"),
    continues=any_of(_DOMINFO_ROW, _LIST_HEAD, _LIST_ROW, _XML),
)  # fmt: skip


KUBECTL_NODE_NAME = "kubectl_node"
_NODE_NAME = re.compile(r"Name: {1,30}([a-z0-9][a-z0-9.-]{0,252})\s*$")
_NODE_ROW = re.compile(r"\s{0,4}(?P<key>[A-Za-z][\w ./-]{0,80}):(?: +(?P<value>\S.{0,200}?))?\s*$")
_NODE_OTHER = re.compile(
    r"(?!Name:)(?: |[A-Z][\w ./()-]{0,80}:|[\w./-]{1,250}[:=]|-{4}|(?:Type +Status|[A-Z]\w+ +(?:True|False|Unknown)) )"
)
_RESERVED = re.compile(r"hugepages-(\d{1,4}[KMG]i)$")
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
_NODE_FACTS = {"Kernel Version": "kernel.release", "OS Image": "os.name", "Architecture": "kernel.arch"}


@with_errors(KUBECTL_NODE_NAME)
def parse_kubectl_node(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield facts of each host, and its memory."""
    section, first, memory = "", (0, ""), 0.0
    reserved: dict[float, float] = {}
    for number, text in lines:
        row, cite = _NODE_ROW.match(text), source.cite(number, text)
        key, value = (row["key"], row["value"] or "") if row else ("", "")
        if row and not value:
            section = key
        if name := _NODE_NAME.match(text):
            yield Fact("host.name", name[1], cite, time=source.time)
        elif section == "System Info" and key in _NODE_FACTS and value:
            yield Fact(_NODE_FACTS[key], _ARCHITECTURES.get(value, value), cite, time=source.time)
        elif section == "Capacity" and key == "cpu" and value.isdecimal() and 0 < int(value[:6]) < 2**20:
            yield Fact("cpu.count", int(value[:6]), cite, time=source.time)
        elif section == "Capacity" and (key == "memory" or _RESERVED.match(key)):
            size, page = parse_quantity(value), parse_quantity(key.partition("-")[2])
            first = first if first[0] else (number, text)
            if size is None:
                errors.note(number, text, "not a size of memory")
            elif page:
                reserved[page.value] = size.value
            else:
                memory = size.value
    yield from _node_memory(source, memory, reserved, first)


def _node_memory(
    source: Source, memory: float, reserved: dict[float, float], first: tuple[int, str]
) -> Iterator[Sample]:
    values = {"node_memory_MemTotal_bytes": memory} if memory else {}
    if len(used := [page for page, size in reserved.items() if size]) == 1:
        values["node_memory_Hugepagesize_bytes"] = used[0]
        values["node_memory_HugePages_Total"] = reserved[used[0]] // used[0]
    if values:
        yield Sample("system", values, source.cite(*first), KUBECTL_NODE_NAME, time=source.time)


KUBECTL_NODE = Parser(
    KUBECTL_NODE_NAME, "kubectl describe node", parse_kubectl_node, opens=_NODE_NAME,
    confirm=lambda ahead: len(ahead) > 2 and ahead[1].startswith("Roles:") and ahead[2].startswith("Labels:"),
    continues=any_of(_NODE_OTHER, blank=True),
)  # fmt: skip


KUBECTL_POD_NAME = "kubectl_pod"
_CGROUP_FIELDS = {"constraint": "CONSTRAINT_MEMCG"}
_POD_REASON = re.compile(r"\s{6,16}Reason:\s+(?P<reason>\w{1,40})\s*$")
_POD_NODE = re.compile(r"Node:\s+(?P<node>[a-z0-9][a-z0-9.-]{0,252})(?:/\S{1,60})?\s*$")
_POD_CONTAINER = re.compile(r"\s{2}(?P<name>[a-z0-9][a-z0-9.-]{0,62}):\s*$")
_EVENT_ROW = re.compile(r"(?:\S{1,63}\s+)?\S{1,20}(?: \(x\d{1,7} over \S{1,10}\))?\s+(?:Warning|Normal)\s")
_KILLED_EVENT = re.compile(
    r"(?:\S{1,63}\s+)?(?:\S{1,20}(?: \(x\d{1,7} over \S{1,10}\))?)\s+Warning\s+(?P<reason>OOMKilling|SystemOOM)\s+"
    r"(?:\S{1,20}(?: \(x\d{1,7} over \S{1,10}\))?\s+)?(?P<object>[\w.-]{1,40}/\S{1,200})\s+(?P<message>\S.{0,2000})$"
)
_KILLED_PROCESS = re.compile(r"(?:[Kk]illed process \d{1,10} \(|victim process: )(?P<comm>[^,)]{1,15})")


@with_errors(KUBECTL_POD_NAME)
def parse_kubectl_pod(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield host.name, and oom_kill for each killed container and each such event, if all are of one node."""
    container, nodes = "", dict[str, tuple[int, str]]()
    kills: list[Event] = []
    for number, text in lines:
        fields: dict[str, str] = {}
        if match := _POD_NODE.match(text):
            nodes.setdefault(match["node"], (number, text))
        elif match := _POD_CONTAINER.match(text):
            container = match["name"]
        elif (match := _POD_REASON.match(text)) and match["reason"] == "OOMKilled":
            fields = {"comm": container, **_CGROUP_FIELDS}
        elif match := _KILLED_EVENT.match(text):
            nodes.setdefault(match["object"].removeprefix("node/"), (number, text))
            process = _KILLED_PROCESS.search(match["message"])
            fields = {"comm": printable(process["comm"]) if process else ""}
            if "cgroup" in match["message"]:
                fields |= _CGROUP_FIELDS
        if fields:
            kills.append(Event("oom_kill", source.cite(number, text), source.time, fields))
    if kills and len(nodes) == 1:
        ((node, line),) = nodes.items()
        yield Fact("host.name", node, source.cite(*line), time=source.time)
        yield from kills
    elif kills:
        cite, reason = kills[0].cite, "ended at its limit, on a node that is not shown, or several"
        errors.note(cite.line or 0, cite.text, reason)


KUBECTL_POD = Parser(
    KUBECTL_POD_NAME, "kubectl describe pod, kubectl get events", parse_kubectl_pod,
    opens=re.compile(rf"{_NODE_NAME.pattern}|(?:NAMESPACE\s+)?LAST SEEN\s+TYPE\s+REASON\s+OBJECT\s"),
    confirm=lambda ahead: ahead[0][:5] != "Name:" or any(text.startswith("Namespace:") for text in ahead[1:3]),
    continues=any_of(_NODE_OTHER, _EVENT_ROW, blank=True),
)  # fmt: skip


ESXTOP_NAME = "esxtop"
MAX_GUESTS = 500
MAX_ROW_BYTES = 32 << 20
_ESXTOP_HEAD = re.compile(r'"\(PDH-CSV 4\.0\) \([^"]{1,60}","\\\\[^"\\]{1,255}\\')
_ESX_COUNTER = re.compile(r"\\(?:Group Cpu\(|Physical Cpu Load\\|Memory\\Memory Overcommit)")
_COUNTER = re.compile(
    r"\\\\[^\\]{1,255}\\(?:(?P<vcpu>Vcpu)\((?P<of>\d{1,10}:[^:]{1,255}):\d{1,10}:vmx-vcpu-\d{1,3}[^)]{0,255}\)\\% Ready"
    r"|Group Cpu\((?P<cpu>\d{1,10}:[^)]{1,255})\)\\(?P<group>% Ready|Members)"
    r"|Group Memory\((?P<memory>\d{1,10}:[^)]{1,255})\)\\(?P<size>Memctl(?: Current)?|Swapped) MBytes)$"
)
_ESXTOP_ROW = re.compile(r'"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d"(?:,|$)')


class _Column(NamedTuple):
    """The position of a column, its guest, and its counter."""

    position: int
    guest: str
    counter: str


@with_errors(ESXTOP_NAME)
def parse_esxtop(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield guest.cpu_ready_ratio, guest.balloon_bytes and guest.swapped_bytes of each guest: means of all rows."""
    columns, width, first, skipped = list[_Column](), 0, (0, ""), (0, "")
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for number, text in lines:
        if _ESXTOP_HEAD.match(text):
            titles = _csv_cells(text)
            columns, width, skipped = _guest_columns(titles), len(titles), (0, "")
        elif _ESXTOP_ROW.match(text) and len(cells := _csv_cells(text)) == width:
            if not skipped[0]:
                skipped = (number, text)
                continue
            first = first if first[0] else (number, text)
            for column in columns:
                value = parse_number(cells[column.position])
                if value is not None and value < 1e9:
                    total = sums[column.guest, column.counter]
                    total[0], total[1] = total[0] + value, total[1] + 1
        elif text.strip():
            errors.note(number, text, "a row of esxtop with other columns than its head")
    means = {key: total / count for key, (total, count) in sums.items()}
    yield from _guest_facts(source, means, first)


def _csv_cells(text: str) -> list[str]:
    try:
        return next(csv.reader([text]), [])
    except csv.Error:
        return []


def _guest_columns(titles: Sequence[str]) -> list[_Column]:
    """Return the columns that are used, of at most `MAX_GUESTS` guests."""
    columns: list[_Column] = []
    guests: set[str] = set()
    for index, title in enumerate(titles):
        match = _COUNTER.match(title)
        guest = (match["of"] or match["cpu"] or match["memory"]) if match else ""
        if not match or (guest not in guests and len(guests) >= MAX_GUESTS):
            continue
        guests.add(guest)
        columns.append(_Column(index, guest, match["vcpu"] or match["group"] or match["size"].partition(" ")[0]))
    return columns


def _guest_facts(source: Source, means: dict[tuple[str, str], float], first: tuple[int, str]) -> Iterator[Fact]:
    cite = source.cite(*first)
    for guest in dict.fromkeys(guest for guest, counter in means if counter in ("Vcpu", "Memctl", "Swapped")):
        labels = (("guest", printable(guest.partition(":")[2])),)
        ready, members = means.get((guest, "% Ready")), means.get((guest, "Members"), 0.0)
        lower_bound = ready / members if ready is not None and members >= 1 else None
        percent = means.get((guest, "Vcpu"), lower_bound)
        if percent is not None and percent <= 100:
            yield Fact("guest.cpu_ready_ratio", round(percent / 100, 4), cite, labels)
        for counter, name in (("Memctl", "guest.balloon_bytes"), ("Swapped", "guest.swapped_bytes")):
            if (guest, counter) in means:
                yield Fact(name, round(means[guest, counter] * 2**20), cite, labels)


ESXTOP = Parser(
    ESXTOP_NAME, "esxtop in batch mode", parse_esxtop, opens=_ESXTOP_HEAD, continues=_ESXTOP_ROW.match,
    confirm=lambda ahead: _ESX_COUNTER.search(ahead[0]),
)  # fmt: skip
ESXTOP_BULK = member_parser(
    ESXTOP, lambda _path, head, _size: _ESX_COUNTER.search(head.decode("latin-1")), MAX_ROW_BYTES,
    re.compile(rb'(?:\xef\xbb\xbf)?"\(PDH-CSV 4\.0\) \('),
)  # fmt: skip


_WAAGENT = re.compile(
    r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d\.\d{6}Z? (?:VERBOSE|INFO|WARNING|ERROR) (?:[A-Z]\w{2,40} ){0,2}"
)
_AGENT = re.compile(
    rf"{_WAAGENT.pattern}(?:Azure Linux Agent Version: ?\d|WALinuxAgent-\d[\w.]* (?:running|forwarding))"
)


def parse_waagent(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield host.hypervisor at the first line in which the agent names itself."""
    for number, line in lines:
        if _AGENT.match(line):
            yield Fact("host.hypervisor", "hyperv", source.cite(number, line))
            return


WAAGENT = Parser(
    "waagent", "the log of Azure's agent", parse_waagent, opens=_AGENT, continues=_WAAGENT.match,
    paths=(re.compile(r"(?:^|/)var/log/waagent\.log(?:\.\d+)?$"),),
)  # fmt: skip
