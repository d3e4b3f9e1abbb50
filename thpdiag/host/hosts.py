"""Records by host: which host each record is about. Statements about other hosts become notes.

Within one text, blocks are grouped by speaker and by host name (prompt, uname). The group with the measurements is the
host of the text; a uname quoted by another speaker is not assigned to it, unless it follows a prompt of that host.
Across members, groups of one host name are joined; a group without a name joins the only named host. A capture may hold
`proc/version` and `loops/counters.txt`; only the path of the first shows where the copy of the host's files, its root,
begins.

Duplicate host names: `localhost` on two machines is two hosts. A setting that changes between two captures shows the
effect of the change only if both are of one machine. A machine has one boot at a time, so the boots in two captures may
exclude each other; in one boot the kernel stays the same and counters never fall. A default name of installers
(`localhost`) is no evidence, so for it the boots must agree.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, takewhile
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

SHELL_HOST = "the host of the shell"  # name of the local host if only remote hosts are named
PAGE_FAULTS = "node_vmstat_pgfault"
_NUMBERED = re.compile(r"(?<![A-Za-z0-9])(?P<stem>[A-Za-z]{2,20})-?\d{1,4}(?![A-Za-z0-9])")
# Words before a number in file names that do not name a host: repetitions, times, settings, programs, releases.
_COUNTED_WORDS = re.compile(
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
SYSTEM_FOLDERS = frozenset({"dev", "etc", "proc", "run", "sos_commands", "sys", "usr", "var"})  # without host names
MENTIONED_FACTS = ("kernel.release", "os.name", "thp.directory")  # reported of a host without measurements


@dataclass(slots=True)
class HostRecords:
    """Records of one host, in reading order."""

    host: str
    root: str
    shared_name: str = ""  # a name that several hosts of the input have
    records: list[Record] = field(default_factory=list)


class HostGroups(NamedTuple):
    """The hosts of an input, and notes about those that were only mentioned."""

    hosts: Sequence[HostRecords]
    notes: Sequence[Note]


def root_finder(members: Iterable[str]) -> Callable[[str], str]:
    """Return a function that maps a member to its root: the longest system root above it, or an empty string."""
    known = sorted({root_of(member) for member in members} - {""}, key=len, reverse=True)
    return lambda member: next((root for root in known if member.startswith(f"{root}/")), "")


def group_by_host(members: Mapping[str, Sequence[TaggedRecord]]) -> HostGroups:
    """Return the records of all members by host. `members` maps a member to its readings in order."""
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
    sharing: dict[str, list[HostRecords]] = defaultdict(list)
    for host in hosts:
        if host.shared_name and host.records:
            sharing[host.shared_name].append(host)
    for name, captures in sharing.items():
        text = (
            f"{len(captures)} captures have a host named {host_name(name)}, and nothing shows that it is one "
            "machine, or their boots, kernels or counters exclude it: they are treated as separate hosts "
            "and not compared"
        )
        notes.append(Note(text, captures[0].records[0].cite))
    return HostGroups([h for h in hosts if h.host or not all(map(_is_of_capture, h.records))] or hosts, notes)


def _name_by_path(parts: Sequence[HostRecords]) -> None:
    """Name unnamed hosts after their files or folders: `db1.txt` and `db2.txt`."""
    named = {member for part in parts if part.host for member in _members(part)}
    names: dict[str, str] = {}  # by member
    siblings: dict[tuple[str, str], set[str]] = defaultdict(set)  # names by folder and by the word before the number
    candidates = {member: tuple(_names_in_path(member)) for part in parts if not part.root for member in _members(part)}
    for folder, stem, name in chain.from_iterable(candidates.values()):
        siblings[folder, stem].add(name)
    for member, triples in candidates.items():
        if name := next((name for folder, stem, name in triples if len(siblings[folder, stem]) > 1), ""):
            names[member] = name
    for part in parts:
        part_names = {names.get(member, "") for member in _members(part)}
        if not part.host and not part.root and len(part_names) == 1 and not named & _members(part):
            (part.host,) = part_names


def _members(part: HostRecords) -> set[str]:
    return set(map(member_of, part.records))


def _names_in_path(member: str) -> Iterator[tuple[str, str, str]]:
    """Yield possible host names in a path, each with its folder and the word before its number."""
    folder = ""
    for component in takewhile(lambda name: name not in SYSTEM_FOLDERS, member.split("/")):
        for match in _NUMBERED.finditer(component):
            if not _COUNTED_WORDS.fullmatch(match["stem"]):
                yield folder, match["stem"].lower(), match[0]
        folder = f"{folder}/{component}"


def _name_by_domain(parts: Sequence[HostRecords]) -> None:
    """Name hosts with one short name in several domains by their full names, so that they are not joined.

    A host without a domain is left as it is. In a copy of one system two full names belong to one host.
    """
    names: dict[object, set[str]] = defaultdict(set)  # full names by part, or by root and host
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
    """Whether a record is about the collector rather than the host."""
    return isinstance(record, Problem) or (isinstance(record, Fact) and record.name.startswith("capture."))


def _is_measurement(record: Record) -> bool:
    """Whether a record measures a host, rather than describe it or a change of it."""
    if isinstance(record, Event):
        return record.kind not in OPERATOR_KINDS
    return isinstance(record, Sample | Series | Profile) or (
        isinstance(record, Fact) and record.name.startswith("work.")
    )


def _is_from_output(reading: TaggedRecord) -> bool:
    """Whether a parser read the record from output of a host, rather than from prose or an operator's action."""
    return reading.reader not in ("", "prose", "operator_actions") and not isinstance(reading.record, Problem)


def _records_of_member(root: str, readings: Sequence[TaggedRecord]) -> tuple[list[HostRecords], list[Note]]:
    """Return the records of one member by host; groups that only mention a host become notes.

    Records of a speaker before the first host name belong to that host.
    """
    first: dict[str, str] = {}
    for reading in readings:
        speaker, host, *remote = reading.group
        if host and not remote:
            first.setdefault(speaker, host)
    if any(len(reading.group) > 2 for reading in readings):  # remote hosts, to which local output does not belong
        for reading in readings:
            if not reading.group[1] and _is_from_output(reading):
                first.setdefault(reading.group[0], SHELL_HOST)
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for reading in readings:
        speaker, host, *_ = reading.group
        groups[speaker, host or first.get(speaker, "")].append(reading.record)
    measured = {key for key, records in groups.items() if any(map(_is_measurement, records))}
    named = {host for _, host in measured if host}
    hosts: dict[str, HostRecords] = {}
    notes: list[Note] = []
    for (speaker, host), records in groups.items():
        is_local = speaker == MAIN and (not measured or host in ("", SHELL_HOST))
        if (speaker, host) in measured or host in named or is_local:
            hosts.setdefault(host, HostRecords(host, root)).records.extend(records)
        elif facts := [r for r in records if isinstance(r, Fact) and r.name in MENTIONED_FACTS]:
            subject = f"{quoted(speaker)} mentions" if speaker else "the text mentions"
            values = "; ".join(dict.fromkeys(f"{f.name} {quoted(f.value)}" for f in facts))
            name = f"another host ({host_name(host)})" if host else "a host"
            text = f"{subject} {name}: {values}; it was not measured here and has no influence"
            notes.append(Note(text, facts[0].cite))
    return list(hosts.values()), [*notes, *_split_notes(hosts)]


def _split_notes(hosts: Mapping[str, HostRecords]) -> Iterator[Note]:
    """Yield notes on why one text is split into hosts: a tool printed another host name than the prompt above it."""
    printed = {
        name: next((r for r in part.records if isinstance(r, Fact) and r.name == "host.name"), None)
        for name, part in hosts.items()
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
    """Return the records of each host.

    Parts without a name join the host of their bundle root; outside of all roots, the only host named in their folder
    or in the nearest folder above with a named host. If there are several copied system trees, each without a name is a
    host of its own, because comparing two hosts as one before and after a change would give false evidence. So is a
    part with another kernel than the named host. Captures with one host name may be of several machines.
    """
    if len(parts) < 2:
        return list(parts)
    has_several_roots = len({part.root for part in parts if part.root}) > 1
    named: dict[str, set[str]] = defaultdict(set)  # hosts named in a folder or below it
    for part in parts:
        for folder in _folders(part) if part.host else ():
            named[folder].add(part.host)
    host_by_root = {root: _host_of_root(root, parts) for root in {part.root for part in parts}}
    machine = _root_of_machine(parts, host_by_root)
    joined: dict[tuple[str, str], HostRecords] = {}
    for part in parts:
        is_other_machine = _has_other_kernel(part, parts, host_by_root)
        host = part.host or host_by_root[part.root]
        if not host and not is_other_machine and not (has_several_roots and part.root):
            nearest = next((named[folder] for folder in _folders(part) if folder in named), set[str]())
            host = next(iter(nearest)) if len(nearest) == 1 else ""
        is_separate = has_several_roots or is_other_machine
        place = machine.get((host, part.root), "") if host else part.root if is_separate else ""
        is_shared = bool(host) and len({p for (name, _), p in machine.items() if name == host}) > 1
        shared_name = host if is_shared and place else ""
        name = f"{host} ({place})" if shared_name else host
        joined.setdefault((host, place), HostRecords(name, part.root, shared_name)).records.extend(part.records)
    return list(joined.values())


def _folders(part: HostRecords) -> Iterator[str]:
    """Yield the folder of a part's member and those above it, nearest first."""
    path = part.records[0].cite.member if part.records else ""
    while path:
        path = path.rpartition("/")[0]
        yield path


def _host_of_root(root: str, parts: Sequence[HostRecords]) -> str:
    """Return the host of a root: the only one named in it, else the one in its uname."""
    named = [p for p in parts if p.host and p.root == root]
    if len({p.host for p in named}) == 1:
        return named[0].host
    uname_hosts = {p.host for p in named for r in p.records if isinstance(r, Fact) and r.name == "kernel.build"}
    return uname_hosts.pop() if root and len(uname_hosts) == 1 else ""


def _has_other_kernel(part: HostRecords, parts: Sequence[HostRecords], host_by_root: Mapping[str, str]) -> bool:
    """Whether a part without a name has another kernel than all named hosts, so that it is probably another host."""
    if part.host or host_by_root[part.root]:
        return False
    unnamed = [part] if not part.root else [p for p in parts if p.root == part.root and not p.host]
    named = [p for p in parts if p.host or host_by_root[p.root]]
    return _kernels_differ(*([r for part in parts for r in part.records] for parts in (unnamed, named)))


def _root_of_machine(parts: Iterable[HostRecords], host_by_root: Mapping[str, str]) -> Mapping[tuple[str, str], str]:
    """Return by name and root the first root of the same machine, for names that several captures have."""
    captures: dict[str, dict[str, list[Record]]] = defaultdict(dict)
    for part in parts:
        host = part.host or host_by_root[part.root]
        if host and part.root:
            captures[host].setdefault(part.root, []).extend(part.records)
    return {
        (host, root): group[0]
        for host, records_by_root in captures.items()
        if len(records_by_root) > 1
        for group in separate_machines(host, records_by_root)
        for root in group
    }


class _Capture(NamedTuple):
    """The records of a capture and the boots that they state."""

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
    """Return the captures (by root) of a host name, grouped by machine, in the order given."""
    known = {root: _Capture(records, boot_times(records)[0]) for root, records in captures.items()}
    different = {
        frozenset(pair)
        for pair in combinations(captures, 2)
        if _are_different_machines(name, known[pair[0]], known[pair[1]])
    }
    groups: list[list[str]] = []
    for root in captures:
        group = next((g for g in groups if not any(frozenset((root, other)) in different for other in g)), None)
        groups.append([root]) if group is None else group.append(root)
    return groups


def _are_different_machines(name: str, left: _Capture, right: _Capture) -> bool:
    """Whether two captures of a name are of two machines."""
    if exclude_one_machine(left.boots, right.boots):
        return True
    if same_boot(left.boots, right.boots):
        return _kernels_differ(left.records, right.records) or _counter_fell(left, right)
    return is_default_hostname(name) and not (left.boots and right.boots)


def _kernels_differ(left: Sequence[Record], right: Sequence[Record]) -> bool:
    releases = [
        {str(r.value) for r in records if isinstance(r, Fact) and r.name == "kernel.release" and not r.provenance}
        for records in (left, right)
    ]
    return all(releases) and not releases[0] & releases[1]


def _counter_fell(left: _Capture, right: _Capture) -> bool:
    """Whether a counter was lower in the later capture of the same boot."""
    left_read, right_read = left.last_read, right.last_read
    if left_read is None or right_read is None or left_read == right_read:
        return False
    earlier, later = (left, right) if left_read < right_read else (right, left)
    lowest, highest = min(earlier.page_faults, default=None), max(later.page_faults, default=None)
    return lowest is not None and highest is not None and highest < lowest
