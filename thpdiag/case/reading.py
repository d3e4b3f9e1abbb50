"""Read every member that may hold evidence: what was recognised in it, what became of it, what went wrong."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from thpdiag.bundle import Member, members
from thpdiag.bundle.open import STDIN, lasting
from thpdiag.bundle.stream import CHUNK
from thpdiag.bundle.transcript import clean
from thpdiag.case.again import again
from thpdiag.case.beside import beside, is_recording
from thpdiag.case.collected import given_up, once
from thpdiag.case.folded import folded
from thpdiag.case.kept import MOST, Kept
from thpdiag.case.options import Options
from thpdiag.case.rhythm import rhythm
from thpdiag.case.side_by_side import SideBySide
from thpdiag.case.symbols import with_symbols
from thpdiag.knowledge.paths import is_tail, system_path, wants
from thpdiag.model import Citation, InputRecord, Problem, ProblemKind, Profile, Record, Series, SymbolList
from thpdiag.model.record import begun, ended
from thpdiag.reader import Content
from thpdiag.readers import all_readers, bulk_readers
from thpdiag.recognise import Reading, Recogniser

FIRST_BYTES, FIRST_LINE = 1024, 80  # looked at, and shown, of what no reader knows
NOISE = 0.05  # share of NUL bytes, or of control characters, in the head of a member above which it is no text
_NEVER_TYPED = bytes(sorted(set(range(32)) - set(b"\a\b\t\n\v\f\r\x1b")))  # nor printed by terminals' programs
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Input:
    """Everything that was read: readings by member, what became of each member, and what went wrong.

    `kept` are the texts themselves, as far as there was room.
    """

    readings: Mapping[str, Sequence[Reading]]
    inputs: Sequence[InputRecord]
    problems: Sequence[Problem]
    kept: Kept = field(default_factory=Kept)


def read(
    paths: Sequence[Path], options: Options, *, stdin: BinaryIO | None = None, progress: Progress | None = None
) -> Input:
    """Recognise and read every member that may hold evidence."""
    recogniser = Recogniser(all_readers(), strict=options.strict)
    # What a recording that is named here asks for is not read twice; few come out of archives.
    twice = all(lasting(path) for path in paths) and not any(map(is_recording, paths))
    seen = _Seen(kept=Kept(MOST) if STDIN in paths else Kept())
    later: list[tuple[Member, str]] = []
    with SideBySide() as together:
        for member in members([*paths, *beside(paths)], wants, options.limits, stdin):
            if isinstance(member, Problem):
                seen.problems.append(member)
                continue
            if progress:
                progress(member.path)
            begin = _begin(member)
            seen.kept.watch(member)
            found = _read(member, recogniser, together, twice=twice)
            member.finish()
            if found is None:
                later.append((member, begin))
            else:
                seen.add(member, found, begin)
        for member, begin in later:
            seen.add(member, together.read(member.path, recogniser), begin)
    seen.problems += given_up(seen.readings)
    whole = partial(_lists, seen.inputs, paths, options, recogniser)
    named, said = with_symbols(once(seen.readings, seen.inputs), recogniser, whole)
    return Input(
        {member: named[member] for member in sorted(named, key=_place)},
        sorted(seen.inputs, key=lambda i: _place(i.member)),
        sorted([*seen.problems, *said], key=lambda p: _place(p.cite.member)),
        seen.kept,
    )


@dataclass(slots=True)
class _Seen:
    """What was read so far."""

    readings: dict[str, list[Reading]] = field(default_factory=dict)
    inputs: list[InputRecord] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    kept: Kept = field(default_factory=Kept)

    def add(self, member: Member, found: Sequence[Reading], begin: str) -> None:
        """What is in a member; `begin` is how it begins."""
        self.readings.setdefault(member.path, []).extend(found)
        own = [r.record for r in found if isinstance(r.record, Problem)]
        if member.lined and len(own) < len(found):
            self.kept.add(member)
        self.problems += [*own, *member.problems]
        rows = _inputs(member, found, len(own) + len(member.problems))
        self.inputs += [row if row.reader else replace(row, size=member.length, first_line=begin) for row in rows]


def _lists(
    inputs: Sequence[InputRecord], paths: Sequence[Path], options: Options, recogniser: Recogniser, left: set[str]
) -> dict[str, list[Reading]]:
    """All of the lists that were left in these members."""
    wanted = {member: {row.sha256 for row in inputs if row.member == member} for member in left}
    found: dict[str, list[Reading]] = {}
    for member in again(wanted, paths, options.limits):
        listed = _read(member, recogniser, SideBySide(), twice=False) or ()
        member.finish()
        if member.sha256 in wanted[member.path]:
            found.setdefault(member.path, []).extend(r for r in listed if isinstance(r.record, SymbolList))
    return found


def _place(member: str) -> list[str]:
    """By folder, as a directory is walked: what an archive says does not depend on the order of its members."""
    return member.split("/")


def _read(member: Member, recogniser: Recogniser, together: SideBySide, *, twice: bool) -> list[Reading] | None:
    """What is in a member, None if it is read together with others, later. `twice`: it can be read a second time."""
    head = member.head()
    paths = [system_path(path) or path for path in (member.path, *member.aliases)]
    if reader := next((r for r in bulk_readers() if any(r.claims(p, head, member.size) for p in paths)), None):
        if together.keeps(member, reader, paths):
            return None
        chunks = member.chunks() if b"\0" in head else member.chunks_of_lines()
        left = twice and reader.on_demand
        if left:
            member.keep(0)
        content = Content(chunks, member.size, member.file, again=left)
        return list(recogniser.bulk(reader, member.path, content))
    if _is_noise(head):
        return [_problem(member, "not text", ProblemKind.UNRECOGNISED)]
    lines = islice(member.lines(), 1, None) if is_tail(member.path) else member.lines()  # a tail is cut anywhere
    return folded(recogniser.read(member.path, lines, head.decode("utf-8", "replace"), member.aliases))


def _is_noise(head: bytes) -> bool:
    """Whether a member that begins so is no text. A short one is looked at all the same: that costs little."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return False
    odd = len(head) - len(head.translate(None, _NEVER_TYPED)) if len(head) >= CHUNK else head.count(0)
    return odd > NOISE * len(head)


def _begin(member: Member) -> str:
    """How the text of a member begins: its first line that is not empty; nothing, if it is no text."""
    head = member.head()[:FIRST_BYTES]
    if b"\0" in head:
        return ""
    lines = (clean(line) for line in head.decode("utf-8", "replace").splitlines())
    return next((line.strip()[:FIRST_LINE] for line in lines if line.strip()), "")


def _problem(member: Member, text: str, kind: ProblemKind) -> Reading:
    return Reading(Problem(Citation(member.path), text, kind), "", ("", ""))


def _inputs(member: Member, found: Sequence[Reading], problems: int) -> list[InputRecord]:
    """One line per reader that found something in the member, or one that says that none did."""
    by_reader: dict[str, list[Reading]] = {}
    for reading in found:
        if not isinstance(reading.record, Problem):
            by_reader.setdefault(reading.reader, []).append(reading)
    if not by_reader:  # recognised all the same, if a reader says what is wrong with it
        reader = next((reading.reader for reading in found if reading.reader), "")
        return [InputRecord(member.path, reader, 0, sha256=member.sha256, problems=problems)]
    rows = []
    for reader, items in by_reader.items():
        times = [t for r in items for t in (begun(r.record), ended(r.record)) if t]
        same = times if len({t.clock for t in times}) == 1 else []
        first, last = (min(same), max(same)) if same else (None, None)
        period, gaps = rhythm(reading.record for reading in items)
        row = InputRecord(member.path, reader, _count(items), first, last, member.sha256, problems)
        rows.append(replace(row, period=period, gaps=gaps))
    return rows


def _count(items: Sequence[Reading]) -> int:
    """Samples for recordings of stacks (rows where there are only shares); rows, snapshots, facts, events otherwise."""
    counted = [reading for reading in items if isinstance(reading.record, Profile)] or items
    return sum(_size(reading.record) for reading in counted)


def _size(record: Record) -> int:
    if isinstance(record, Profile):
        return record.ledger.read or len(record.rows)
    return len(record) if isinstance(record, Series) else 1
