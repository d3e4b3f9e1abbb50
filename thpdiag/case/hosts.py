"""Which host is each record about? One pile of records per host; what others say in passing becomes a note.

Within one text blocks are grouped by speaker and by host name (prompt, uname). The group with the measurements is
the host of the text; a uname that another speaker quotes never reaches it. Across members, piles of one host name
join; a pile without a name joins the only named host.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from thpdiag.case.collected import only_of_the_capture
from thpdiag.case.namesakes import machines
from thpdiag.case.roots import roots
from thpdiag.model import Event, Fact, Note, Profile, Record, Sample, Series
from thpdiag.model.event import OPERATOR_KINDS
from thpdiag.recognise import MAIN, Reading


@dataclass(slots=True)
class Pile:
    """Records of one host, in reading order."""

    host: str
    root: str
    namesake: str = ""  # the name that other hosts of the input have too
    records: list[Record] = field(default_factory=list)

    @property
    def measured(self) -> bool:
        return any(_measures(record) for record in self.records)


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts of an input, and notes about those that were only mentioned."""

    piles: Sequence[Pile]
    notes: Sequence[Note]


def _measures(record: Record) -> bool:
    """Whether the record measures a host, rather than tell what it is or was told to do."""
    if isinstance(record, (Sample, Series, Profile)):
        return True
    if isinstance(record, Event):
        return record.kind not in OPERATOR_KINDS
    return isinstance(record, Fact) and record.name == "work.seconds"


def hosts(members: Mapping[str, Sequence[Reading]]) -> Hosts:
    """The piles of all members, joined by host. `members` maps a member to its readings in order."""
    piles: list[Pile] = []
    notes: list[Note] = []
    root = roots(members)
    for member, readings in members.items():
        own, told = _of_member(root(member), readings)
        piles += own
        notes += told
    every = _joined(piles)
    notes += _namesakes(every)
    told_of = [pile for pile in every if pile.host or not only_of_the_capture(pile.records)]
    return Hosts(told_of or every, notes)


def _of_member(root: str, readings: Sequence[Reading]) -> tuple[list[Pile], list[Note]]:
    """The piles of one member; groups that only mention a host become notes."""
    groups = _grouped(readings)
    measured = [key for key, records in groups.items() if any(_measures(r) for r in records)]
    piles: dict[str, Pile] = {}
    notes: list[Note] = []
    for (speaker, host), records in groups.items():
        mentioned = bool(measured) and (speaker, host) not in measured
        if mentioned and (speaker != MAIN or host):
            notes += _mention(speaker, host, records)
            continue
        if speaker != MAIN and not measured:
            notes += _mention(speaker, host, records)
            continue
        piles.setdefault(host, Pile(host, root)).records.extend(records)
    return list(piles.values()), notes


def _grouped(readings: Sequence[Reading]) -> dict[tuple[str, str], list[Record]]:
    """Records by speaker and host; what a speaker said before the host got a name belongs to the first one named."""
    first: dict[str, str] = {}
    for reading in readings:
        speaker, host = reading.group
        if host:
            first.setdefault(speaker, host)
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for reading in readings:
        speaker, host = reading.group
        groups[(speaker, host or first.get(speaker, ""))].append(reading.record)
    return groups


def _mention(speaker: str, host: str, records: Iterable[Record]) -> list[Note]:
    """One note for what a speaker says of a host that is not the one measured."""
    facts = [r for r in records if isinstance(r, Fact) and r.name in ("kernel.release", "os.name", "thp.directory")]
    if not facts:
        return []
    who = f"{speaker} speaks" if speaker else "the text speaks"
    what = "; ".join(dict.fromkeys(f"{f.name} {f.value}" for f in facts))
    name = f"another host ({host})" if host else "a host"
    return [Note(f"{who} of {name}: {what}; it was not measured here and has no influence", facts[0].cite)]


def _joined(piles: Sequence[Pile]) -> list[Pile]:
    """One pile per host. An unnamed pile joins the host of its bundle root; outside of all roots the only one that is
    named in its folder, or in the nearest folder above in which any is.

    Of several copied system trees each without a name is a host of its own: to compare two hosts as if they were one
    before and after a switch would prove anything. So is one with another kernel than the named host has. Captures
    that have the name of their host in common may be of several machines (`thpdiag.case.namesakes`).
    """
    apart = len({pile.root for pile in piles if pile.root}) > 1
    named = _named(piles)
    of_root = {root: _host_of(root, piles) for root in {pile.root for pile in piles}}
    machine = _machines(piles, of_root)
    joined: dict[tuple[str, str], Pile] = {}
    for pile in piles:
        other = _of_another_kernel(pile, piles, of_root)
        alone = other or (apart and pile.root != "")
        host = pile.host or of_root[pile.root] or ("" if alone else _nearest(pile, named))
        place = machine.get((host, pile.root), "") if host else pile.root if apart or other else ""
        several = bool(host) and len({p for (name, _), p in machine.items() if name == host}) > 1
        told = f"{host} ({place})" if several and place else host
        own = joined.setdefault((host, place), Pile(told, pile.root, host if several and place else ""))
        own.records.extend(pile.records)
    return list(joined.values())


def _namesakes(joined: Iterable[Pile]) -> Iterator[Note]:
    """That captures of one name were taken for several hosts."""
    alike: dict[str, list[Pile]] = defaultdict(list)
    for pile in joined:
        if pile.namesake and pile.records:
            alike[pile.namesake].append(pile)
    for name, piles in alike.items():
        text = (
            f"{len(piles)} captures have a host named {name}, and nothing shows that it is one machine, or their "
            "boots, kernels or counters exclude it: they are taken for hosts of their own and not compared"
        )
        yield Note(text, piles[0].records[0].cite)


def _machines(piles: Iterable[Pile], of_root: Mapping[str, str]) -> Mapping[tuple[str, str], str]:
    """By name and root the first root of the same machine, for names that several machines have."""
    captures: dict[str, dict[str, list[Record]]] = defaultdict(dict)
    for pile in piles:
        host = pile.host or of_root[pile.root]
        if host and pile.root:
            captures[host].setdefault(pile.root, []).extend(pile.records)
    groups = {host: machines(host, of) for host, of in captures.items()}
    return {(host, root): group[0] for host, of in groups.items() if len(of) > 1 for group in of for root in group}


def _named(piles: Sequence[Pile]) -> dict[str, set[str]]:
    """The hosts that are named in a folder or below it."""
    found: dict[str, set[str]] = defaultdict(set)
    for pile in piles:
        for folder in _folders(pile) if pile.host else ():
            found[folder].add(pile.host)
    return found


def _nearest(pile: Pile, named: Mapping[str, set[str]]) -> str:
    """The only host that is named where the pile lies; empty if several are."""
    near = next((named[folder] for folder in _folders(pile) if folder in named), set[str]())
    return next(iter(near)) if len(near) == 1 else ""


def _folders(pile: Pile) -> Iterator[str]:
    """The folder of a pile's member and those above it, the nearest first."""
    path = pile.records[0].cite.member if pile.records else ""
    while path:
        path = path.rpartition("/")[0]
        yield path


def _of_another_kernel(pile: Pile, piles: Sequence[Pile], of_root: Mapping[str, str]) -> bool:
    """Whether what has no name has measured a kernel, and none that a named host has: more likely another host."""
    if pile.host or of_root[pile.root]:
        return False
    here = _kernels([pile] if not pile.root else [p for p in piles if p.root == pile.root and not p.host])
    there = _kernels([p for p in piles if p.host or of_root[p.root]])
    return bool(here) and bool(there) and not here & there


def _kernels(piles: Iterable[Pile]) -> set[str]:
    facts = (r for pile in piles for r in pile.records if isinstance(r, Fact) and r.name == "kernel.release")
    return {str(fact.value) for fact in facts if not fact.provenance}


def _host_of(root: str, piles: Sequence[Pile]) -> str:
    """The host that a root is a copy of: the only one named in it, else the one that its uname names."""
    own = [p for p in piles if p.host and p.root == root]
    if len({p.host for p in own}) == 1:
        return own[0].host
    said = (
        {p.host for p in own for r in p.records if isinstance(r, Fact) and r.name == "kernel.build"} if root else set()
    )
    return said.pop() if len(said) == 1 else ""
