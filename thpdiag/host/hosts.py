"""Records by host: which host each record is about. What others say in passing becomes a note.

Within one text, blocks are grouped by speaker and by host name (prompt, uname). The group with the measurements is the
host of the text; a uname that another speaker quotes never reaches it, unless a prompt of that host stands above it.
Across members, groups of one host name join; a group without a name joins the only named host. A capture keeps
`proc/version` beside `loops/counters.txt`; only the first says by its path where the copy of the host, its root,
begins.

Duplicate host names: `localhost` on two machines is two hosts. A switch of a setting from one capture to the next
proves what it did, unless they are of two machines. One machine has one boot at a time, so what the captures tell of
boots may exclude one another; under one boot the kernel stays the same, and counters never fall. A name that
installers give (`localhost`) says nothing, so there the boots must speak for one machine.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, takewhile
from typing import NamedTuple

from thpdiag.detect import MAIN, TaggedRecord
from thpdiag.detect.transcript import has_domain, without_domain
from thpdiag.host.clock.anchors import boot_times, exclude_one_machine, same_boot
from thpdiag.host.series import rows_having
from thpdiag.knowledge.paths import is_default_hostname, root_of
from thpdiag.model import Event, Fact, Note, Problem, Profile, Record, Sample, Series
from thpdiag.model.case import member_of
from thpdiag.model.facts import OPERATOR_KINDS, ClockAnchor
from thpdiag.model.text import host_name, quoted

SHELL = "the host of the shell"  # beside hosts that its commands reach, where nothing names it
PAGE_FAULTS = "node_vmstat_pgfault"
_NUMBERED = re.compile(r"(?<![A-Za-z0-9])(?P<stem>[A-Za-z]{2,20})-?\d{1,4}(?![A-Za-z0-9])")
# Words before a number in names of files that may be of one host: what was done how often, when, under which settings,
# with which program or release.
_COUNTED = re.compile(
    r"always|after|attempt|baseline|before|bench(?:mark)?|boot|capture|case|centos|collection|collectl|comment|conf(?:ig)?|"
    r"copy|core|cpu|crash|data|day|debian|disk|dump|el|event|example|exp(?:eriment)?|fast|fedora|file|fix(?:ed)?|flame|"
    r"free|good|graph|hang|healthy|hour|idle|image|incident|info|interval|io|iostat|issue|iteration|job|kernel|level|"
    r"lines?|linux|load|log|loop|madvise|mail|measurement|meminfo|memory|message|minutes?|month|mpstat|msg|never|new|"
    r"night|nmon|normal|note|numa|off|ol|old|on|option|out(?:put)?|page|part|pass|paste|peak|perf|period|phase|pid|"
    r"pidstat|point|problem|proc|profile|ps|query|record(?:ing)?|reply|report|result|rhel|round|run|sa|sample|sar|"
    r"scenario|screen(?:shot)?|seconds?|section|session|shot|sick|sles|slow|snap(?:shot)?|spike|stack|stage|stall|state|"
    r"stats?|step|strace|suse|table|task|terminal|test|text|thp|thread|ticket|time|top|trace|trial|try|txt|ubuntu|"
    r"update|variant|version|vmstat|week|window|work|year|zone|bad|bug|sr",
    re.IGNORECASE,
)
SYSTEM_FOLDERS = frozenset({"dev", "etc", "proc", "run", "sos_commands", "sys", "usr", "var"})  # node0 is no host there
MENTIONED_FACTS = ("kernel.release", "os.name", "thp.directory")  # what a note says of a host that is not measured


@dataclass(slots=True)
class HostRecords:
    """Records of one host, in reading order."""

    host: str
    root: str
    shared_name: str = ""  # the name that other hosts of the input have too
    records: list[Record] = field(default_factory=list)


class HostGroups(NamedTuple):
    """The hosts of an input, and notes about those that were only mentioned."""

    hosts: Sequence[HostRecords]
    notes: Sequence[Note]


def root_finder(members: Iterable[str]) -> Callable[[str], str]:
    """The root of each member: the longest root of a system tree that it lies under, empty if there is none."""
    known = sorted({root_of(member) for member in members} - {""}, key=len, reverse=True)
    return lambda member: next((root for root in known if member.startswith(f"{root}/")), "")


def group_by_host(members: Mapping[str, Sequence[TaggedRecord]]) -> HostGroups:
    """The records of all members by host. `members` maps a member to its readings in order."""
    parts: list[HostRecords] = []
    notes: list[Note] = []
    root_of_member = root_finder(members)
    for member, readings in members.items():
        records, mentions = _records_of_member(root_of_member(member), readings)
        parts += records
        notes += mentions
    _name_by_path(parts)
    _name_by_domain(parts)
    hosts = _join_by_host(parts)
    alike: dict[str, list[HostRecords]] = defaultdict(list)
    for host in hosts:
        if host.shared_name and host.records:
            alike[host.shared_name].append(host)
    for name, captures in alike.items():
        text = (
            f"{len(captures)} captures have a host named {host_name(name)}, and nothing shows that it is one "
            "machine, or their boots, kernels or counters exclude it: they are treated as separate hosts "
            "and not compared"
        )
        notes.append(Note(text, captures[0].records[0].cite))
    return HostGroups([h for h in hosts if h.host or not all(map(_is_of_capture, h.records))] or hosts, notes)


def _name_by_path(parts: Sequence[HostRecords]) -> None:
    """Call hosts that nothing in their files names as these files or folders are called: `db1.txt` beside `db2.txt`."""
    named = {member for part in parts if part.host for member in _members(part)}
    names: dict[str, str] = {}  # by member
    alike: dict[tuple[str, str], set[str]] = defaultdict(set)  # by folder and by what they have in common
    found = {member: tuple(_names_in_path(member)) for part in parts if not part.root for member in _members(part)}
    for folder, stem, name in (one for several in found.values() for one in several):
        alike[folder, stem].add(name)
    for member, several in found.items():
        if name := next((name for folder, stem, name in several if len(alike[folder, stem]) > 1), ""):
            names[member] = name
    for part in parts:
        of = {names.get(member, "") for member in _members(part)}
        if not part.host and not part.root and len(of) == 1 and not named & _members(part):
            (part.host,) = of


def _members(part: HostRecords) -> set[str]:
    return set(map(member_of, part.records))


def _names_in_path(member: str) -> Iterator[tuple[str, str, str]]:
    """What may be the name of a host in a path, with the folder it stands in and what comes before its number."""
    folder = ""
    for component in takewhile(lambda name: name not in SYSTEM_FOLDERS, member.split("/")):
        for found in _NUMBERED.finditer(component):
            if not _COUNTED.fullmatch(found["stem"]):
                yield folder, found["stem"].lower(), found[0]
        folder = f"{folder}/{component}"


def _name_by_domain(parts: Sequence[HostRecords]) -> None:
    """Call hosts of one name in several domains by the whole name, so that they are not joined.

    One that a text does not give a domain is of neither; in a copy of one system two are names of one host.
    """
    names: dict[object, set[str]] = defaultdict(set)  # those with a domain, by part, or by root and host
    domains: dict[str, set[str]] = defaultdict(set)
    keys = [(part.root, part.host) if part.root else number for number, part in enumerate(parts)]
    for key, part in zip(keys, parts, strict=True):
        printed = (str(r.value) for r in part.records if isinstance(r, Fact) and r.name == "host.name")
        short = without_domain(part.host)
        names[key] |= {name for name in (part.host, *printed) if has_domain(name) and without_domain(name) == short}
    for key, part in zip(keys, parts, strict=True):
        domains[without_domain(part.host)] |= names[key] if len(names[key]) == 1 else set()
    for key, part in zip(keys, parts, strict=True):
        if len(names[key]) == 1 and len(domains[without_domain(part.host)]) > 1:
            (part.host,) = names[key]


def _is_of_capture(record: Record) -> bool:
    """Whether it tells of a collector and of no host."""
    return isinstance(record, Problem) or (isinstance(record, Fact) and record.name.startswith("capture."))


def _is_measurement(record: Record) -> bool:
    """Whether the record measures a host, rather than tell what it is or was told to do."""
    if isinstance(record, Event):
        return record.kind not in OPERATOR_KINDS
    return isinstance(record, Sample | Series | Profile) or (
        isinstance(record, Fact) and record.name.startswith("work.")
    )


def _is_read(reading: TaggedRecord) -> bool:
    """Whether a parser made it of what a host printed, and nobody told or did it."""
    return reading.reader not in ("", "prose", "operator_actions") and not isinstance(reading.record, Problem)


def _records_of_member(root: str, readings: Sequence[TaggedRecord]) -> tuple[list[HostRecords], list[Note]]:
    """The records of one member by host; groups that only mention a host become notes.

    What a speaker said before the host got a name belongs to the first one named.
    """
    first: dict[str, str] = {}
    for reading in readings:
        speaker, host, *remote = reading.group
        if host and not remote:
            first.setdefault(speaker, host)
    if any(len(reading.group) > 2 for reading in readings):  # what the shell's own host printed is of none of those
        for reading in readings:
            if not reading.group[1] and _is_read(reading):
                first.setdefault(reading.group[0], SHELL)
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for reading in readings:
        speaker, host, *_ = reading.group
        groups[speaker, host or first.get(speaker, "")].append(reading.record)
    measured = {key for key, records in groups.items() if any(map(_is_measurement, records))}
    named = {host for _, host in measured if host}
    hosts: dict[str, HostRecords] = {}
    notes: list[Note] = []
    for (speaker, host), records in groups.items():
        if (speaker, host) in measured or host in named or (speaker == MAIN and (not measured or host in ("", SHELL))):
            hosts.setdefault(host, HostRecords(host, root)).records.extend(records)
        elif facts := [r for r in records if isinstance(r, Fact) and r.name in MENTIONED_FACTS]:
            who = f"{quoted(speaker)} mentions" if speaker else "the text mentions"
            what = "; ".join(dict.fromkeys(f"{f.name} {quoted(f.value)}" for f in facts))
            name = f"another host ({host_name(host)})" if host else "a host"
            text = f"{who} {name}: {what}; it was not measured here and has no influence"
            notes.append(Note(text, facts[0].cite))
    return list(hosts.values()), [*notes, *_reason_of_split(hosts)]


def _reason_of_split(hosts: Mapping[str, HostRecords]) -> Iterator[Note]:
    """Why one text is taken for several hosts: what a tool prints names another one than the prompt above it."""
    printed = {
        name: next((r for r in of.records if isinstance(r, Fact) and r.name == "host.name"), None)
        for name, of in hosts.items()
        if name
    }
    typed = [name for name, fact in printed.items() if fact is None]
    for name, fact in printed.items():
        if fact is not None and typed:
            prompts = ", ".join(map(host_name, typed))
            text = (
                f"the prompts in this text name {prompts}, and what was printed there names {host_name(name)}: they "
                "are treated as separate hosts"
            )
            yield Note(text, fact.cite)


def _join_by_host(parts: Sequence[HostRecords]) -> list[HostRecords]:
    """The records of each host. Those without a name join the host of their bundle root; outside of all roots the only
    one that is named in their folder, or in the nearest folder above in which any is.

    Of several copied system trees each without a name is a host of its own: to compare two hosts as if they were one
    before and after a switch would prove anything. So is one with another kernel than the named host has. Captures
    that have the name of their host in common may be of several machines.
    """
    if len(parts) < 2:
        return list(parts)
    apart = len({part.root for part in parts if part.root}) > 1
    named: dict[str, set[str]] = defaultdict(set)  # the hosts that are named in a folder or below it
    for part in parts:
        for folder in _folders(part) if part.host else ():
            named[folder].add(part.host)
    of_root = {root: _host_of_root(root, parts) for root in {part.root for part in parts}}
    machine = _root_of_machine(parts, of_root)
    joined: dict[tuple[str, str], HostRecords] = {}
    for part in parts:
        other = _has_other_kernel(part, parts, of_root)
        host = part.host or of_root[part.root]
        if not host and not other and not (apart and part.root):
            near = next((named[folder] for folder in _folders(part) if folder in named), set[str]())
            host = next(iter(near)) if len(near) == 1 else ""
        place = machine.get((host, part.root), "") if host else part.root if apart or other else ""
        several = bool(host) and len({p for (name, _), p in machine.items() if name == host}) > 1
        shared_name = host if several and place else ""
        name = f"{host} ({place})" if shared_name else host
        joined.setdefault((host, place), HostRecords(name, part.root, shared_name)).records.extend(part.records)
    return list(joined.values())


def _folders(part: HostRecords) -> Iterator[str]:
    """The folder of a part's member and those above it, the nearest first."""
    path = part.records[0].cite.member if part.records else ""
    while path:
        path = path.rpartition("/")[0]
        yield path


def _host_of_root(root: str, parts: Sequence[HostRecords]) -> str:
    """The host that a root is a copy of: the only one named in it, else the one that its uname names."""
    own = [p for p in parts if p.host and p.root == root]
    if len({p.host for p in own}) == 1:
        return own[0].host
    built = {p.host for p in own for r in p.records if isinstance(r, Fact) and r.name == "kernel.build"}
    return built.pop() if root and len(built) == 1 else ""


def _has_other_kernel(part: HostRecords, parts: Sequence[HostRecords], of_root: Mapping[str, str]) -> bool:
    """Whether what has no name has measured a kernel, and none that a named host has: more likely another host."""
    if part.host or of_root[part.root]:
        return False
    here = [part] if not part.root else [p for p in parts if p.root == part.root and not p.host]
    there = [p for p in parts if p.host or of_root[p.root]]
    return _kernels_differ(*([r for part in parts for r in part.records] for parts in (here, there)))


def _root_of_machine(parts: Iterable[HostRecords], of_root: Mapping[str, str]) -> Mapping[tuple[str, str], str]:
    """By name and root the first root of the same machine, for names that several machines have."""
    captures: dict[str, dict[str, list[Record]]] = defaultdict(dict)
    for part in parts:
        host = part.host or of_root[part.root]
        if host and part.root:
            captures[host].setdefault(part.root, []).extend(part.records)
    return {
        (host, root): group[0]
        for host, of in captures.items()
        if len(of) > 1
        for group in separate_machines(host, of)
        for root in group
    }


class _Capture(NamedTuple):
    """What a capture tells of its machine."""

    records: Sequence[Record]
    boots: Sequence[ClockAnchor]

    @property
    def last_read(self) -> float | None:
        return max((anchor.read.seconds for anchor in self.boots if anchor.read), default=None)

    @property
    def page_faults(self) -> list[float]:
        samples = (r for r in self.records if isinstance(r, Sample | Series))
        return [row.values[PAGE_FAULTS] for row in rows_having(samples, PAGE_FAULTS) if row.kind == "system"]


def separate_machines(name: str, captures: Mapping[str, Sequence[Record]]) -> list[list[str]]:
    """The captures (by root) of a name, those of one machine together, in the order given."""
    known = {root: _Capture(records, boot_times(records)[0]) for root, records in captures.items()}
    apart = {
        frozenset(pair)
        for pair in combinations(captures, 2)
        if _are_different_machines(name, known[pair[0]], known[pair[1]])
    }
    groups: list[list[str]] = []
    for root in captures:
        own = next((g for g in groups if not any(frozenset((root, other)) in apart for other in g)), None)
        groups.append([root]) if own is None else own.append(root)
    return groups


def _are_different_machines(name: str, one: _Capture, other: _Capture) -> bool:
    """Whether two captures of a name are of two machines."""
    if exclude_one_machine(one.boots, other.boots):
        return True
    if same_boot(one.boots, other.boots):
        return _kernels_differ(one.records, other.records) or _counter_fell(one, other)
    return is_default_hostname(name) and not (one.boots and other.boots)


def _kernels_differ(one: Sequence[Record], other: Sequence[Record]) -> bool:
    here, there = (
        {str(r.value) for r in records if isinstance(r, Fact) and r.name == "kernel.release" and not r.provenance}
        for records in (one, other)
    )
    return bool(here) and bool(there) and not here & there


def _counter_fell(one: _Capture, other: _Capture) -> bool:
    """Whether a counter was lower in the later capture, under one boot."""
    first_read, other_read = one.last_read, other.last_read
    if first_read is None or other_read is None or first_read == other_read:
        return False
    first, later = (one, other) if first_read < other_read else (other, one)
    lowest, highest = min(first.page_faults, default=None), max(later.page_faults, default=None)
    return lowest is not None and highest is not None and highest < lowest
