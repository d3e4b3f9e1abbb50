"""What a collector says of itself, applied to what it brought: cut outputs, copies of links, remarks.

"sos gave up" is not "this host has none": the output of a command that was stopped says nothing by what it lacks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from thpdiag.knowledge.collectors import of_interest
from thpdiag.knowledge.paths import is_tail, root_of, system_path
from thpdiag.model import Citation, Fact, InputRecord, Note, Problem, ProblemKind, Record
from thpdiag.recognise import Reading

_PROGRAM_FOLDER = re.compile(r"^/(?:usr/|)s?bin/")
_SIGNS = re.compile(r"[^\w\-./]+")


def once(readings: Mapping[str, Sequence[Reading]], inputs: Iterable[InputRecord]) -> dict[str, Sequence[Reading]]:
    """The readings without those of links that somebody's unpacker made files of.

    sos has `free -> sos_commands/memory/free` beside the tree, and `var/log/messages -> sos_strings/...`.
    """
    same: dict[tuple[str, str], set[str]] = defaultdict(set)
    for item in inputs:
        if item.reader and item.sha256:
            same[(root_of(item.member), item.sha256)].add(item.member)
    doubled = {m for (root, _), members in same.items() if root and len(members) > 1 for m in _copies(members)}
    return {member: found if member not in doubled else () for member, found in readings.items()}


def _copies(members: set[str]) -> set[str]:
    """Of members that hold the same: what has no place on the host beside what has, and the log beside its tail.

    The tail says by its name that it is one.
    """
    paths = {member: system_path(member) for member in members}
    tails = {paths[member] for member in members if is_tail(member)}
    outside = {member for member in members if paths[member] is None} if set(paths.values()) != {None} else set()
    return outside | {member for member in members if paths[member] in tails and not is_tail(member)}


def given_up(readings: Mapping[str, Sequence[Reading]]) -> list[Problem]:
    """What each collector gave up on, once, if it could have told something of memory."""
    outputs = {(root_of(m), path.rpartition("/")[2]): m for m in readings if (path := system_path(m) or "")}
    found: dict[tuple[str, str, str], Problem] = {}
    for fact in _facts(readings.values()):
        if fact.name == "capture.timed_out":
            plugin, command = fact.label("plugin") or "", fact.label("command") or ""
            if of_interest(plugin, command):
                root = root_of(fact.cite.member)
                found.setdefault((root, plugin, command), _problem(fact, outputs.get((root, output_name(command)))))
    return list(found.values())


def _problem(fact: Fact, output: str | None) -> Problem:
    seconds, command = fact.label("seconds"), fact.label("command")
    after = f" after {seconds} s" if seconds else ""
    if not command:
        text = f"sos gave up on its plugin {fact.label('plugin')}{after}; what it had not copied by then is missing"
        return Problem(fact.cite, text, ProblemKind.UNREADABLE, hides=False)
    if output:
        text = f"sos stopped `{command}`{after}; its output is incomplete"
        return Problem(Citation(output), text, ProblemKind.UNREADABLE, hides=True)
    text = f"sos stopped `{command}`{after}; its output is missing"
    return Problem(fact.cite, text, ProblemKind.UNREADABLE, hides=False)


def output_name(command: str) -> str:
    """The file that sos keeps a command's output in.

    >>> output_name("/bin/ps axo flags,state,%mem")
    'ps_axo_flags_state_mem'
    """
    return _SIGNS.sub("_", _PROGRAM_FOLDER.sub("", command)).replace("/", ".").strip(" ._-")


def remarks(records: Iterable[Record]) -> list[Note]:
    """What a reader of the report must know of the capture of one host."""
    notes: dict[str, Note] = {}
    for record in records:
        member = record.cite.member
        if is_tail(member):
            text = f"of {system_path(member)} only the end is in the capture; what happened before is not known"
            notes.setdefault(member, Note(text, Citation(member)))
        if isinstance(record, Fact) and record.name == "host.container":
            text = (
                f"the capture was made inside a container ({record.value}): settings and counters are those of its "
                "host, sizes and processes its own"
            )
            notes.setdefault("container", Note(text, record.cite))
    return list(notes.values())


def only_of_the_capture(records: Sequence[Record]) -> bool:
    """Whether records tell of a collector and of no host."""
    return all(isinstance(r, Problem) or (isinstance(r, Fact) and r.name.startswith("capture.")) for r in records)


def _facts(readings: Iterable[Sequence[Reading]]) -> Iterator[Fact]:
    return (r.record for found in readings for r in found if isinstance(r.record, Fact))
