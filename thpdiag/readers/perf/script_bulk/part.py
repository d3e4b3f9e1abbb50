"""What was read of a range of a text, in a form that another process can be given; and all ranges as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from thpdiag.bundle.lines import Undecoded
from thpdiag.model import Chains, Citation, Frame, Profile, Record, Rows, Task
from thpdiag.model.profile import UNKNOWN
from thpdiag.ragged import gathered, starts_of
from thpdiag.reader import Source
from thpdiag.readers.perf.script_bulk.chains import ChainTable
from thpdiag.readers.perf.script_bulk.hashing import Ints
from thpdiag.readers.perf.script_bulk.tally import First, TallyRows, together
from thpdiag.readers.perf.script_bulk.windows import LINE
from thpdiag.readers.perf.script_events import Span, only_used, profile
from thpdiag.readers.perf.script_samples import Around

Who = tuple[Task, int | None]  # and on which CPU


@dataclass(frozen=True, slots=True, eq=False)
class EventPart:
    """One event. `lines` and `texts` are those of the first sample of each chain."""

    name: str
    first: First
    rows: TallyRows
    lines: Ints
    texts: dict[int, str]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A range of a text. Lines count from 1 in the range."""

    count: int
    frames: tuple[Frame, ...]
    chain_frames: NDArray[np.int32]
    chain_starts: Ints
    whos: tuple[Who, ...]
    events: tuple[EventPart, ...]
    around: Around
    odd: Undecoded


def records(part: Part, source: Source) -> Iterator[Record]:
    """Problems and profiles, as the reader of lines gives them."""
    yield from part.around.facts()
    yield from part.around.problems()
    yield from part.odd.problems(source.member, LINE)
    for event in sorted(part.events, key=lambda event: event.first.line):
        yield _profile(event, part, source)


def _profile(event: EventPart, part: Part, source: Source) -> Profile:
    rows, first = event.rows, event.first
    timed = rows.time[rows.time != UNKNOWN]
    span = Span(int(timed.min()) if len(timed) else None, first.last, first.zero)
    if not span.timed:
        rows = together([replace(rows, time=np.full(len(rows), UNKNOWN, np.int64))])
    used, chain = only_used(rows.chain, len(part.chain_starts) - 1)
    lengths = np.diff(part.chain_starts)[used]
    frames = part.chain_frames[gathered(part.chain_starts[:-1][used], lengths)]
    texts = tuple(event.texts.get(number, "") for number in used.tolist()) if len(event.texts) >= len(used) else ()
    chains = Chains(frames, starts_of(lengths), event.lines[used], texts)
    bins = rows.time - (span.first or 0)
    bins[(rows.time == UNKNOWN) | (bins > np.iinfo(np.int32).max)] = UNKNOWN
    tasks: dict[Task, int] = {}
    task = np.array([tasks.setdefault(who, len(tasks)) for who, _ in part.whos], np.int32)
    cpu = np.array([UNKNOWN if number is None else number for _, number in part.whos], np.int32)
    columns = Rows(chain, task[rows.who], cpu[rows.who], bins.astype(np.int32), rows.weight, rows.samples)
    own, number = only_used(columns.task, len(tasks))
    columns = replace(columns, task=number)
    everyone = tuple(tasks)
    told = (chains, tuple(everyone[i] for i in own.tolist()), columns)
    return profile(event.name, source.cite(first.line, first.text), part.frames, told, span, part.around)


def joined(parts: Sequence[Part]) -> Part:
    """Ranges that follow one another, as one."""
    if len(parts) == 1:
        return parts[0]
    frames: dict[Frame, int] = {}
    whos: dict[Who, int] = {}
    chains, around, odd = ChainTable(), Around(), Undecoded()
    events: dict[str, list[EventPart]] = {}
    before = 0
    for part in parts:
        frame = np.array([frames.setdefault(f, len(frames)) for f in part.frames], np.int32)
        who = np.array([whos.setdefault(w, len(whos)) for w in part.whos], np.int32)
        chain = _chains(chains, frame, part)
        for event in part.events:
            events.setdefault(event.name, []).append(_moved(event, chain, who, before))
        _around(around, part.around, before)
        odd.add(part.odd, before)
        before += part.count
    merged = tuple(_event(of) for of in events.values())
    return Part(before, tuple(frames), *chains.columns(), tuple(whos), merged, around, odd)


def _chains(chains: ChainTable, frame: NDArray[np.int32], part: Part) -> NDArray[np.int32]:
    """The new number of each chain."""
    lengths = np.diff(part.chain_starts)
    numbers = np.empty(len(lengths), np.int32)
    filled = lengths > 0
    if filled.any():
        numbers[filled] = chains.of(frame[part.chain_frames], starts_of(lengths[filled]))
    if not filled.all():
        numbers[~filled] = chains.one(())
    return numbers


def _moved(event: EventPart, chain: NDArray[np.int32], who: NDArray[np.int32], before: int) -> EventPart:
    """With other numbers of chains and tasks, and lines behind those of the ranges before."""
    lines = np.zeros(int(chain.max(initial=0)) + 1, np.int64)
    known = event.lines[: len(chain)]
    seen = np.flatnonzero(known)
    lines[chain[seen]] = known[seen] + before
    first = replace(
        event.first,
        line=event.first.line + before,
        timed=event.first.timed and event.first.timed + before,
    )
    rows = replace(event.rows, chain=chain[event.rows.chain], who=who[event.rows.who])
    texts = {int(chain[number]): text for number, text in event.texts.items()}
    return EventPart(event.name, first, rows, lines, texts)


def _event(parts: list[EventPart]) -> EventPart:
    """One event of several ranges; the first mention of a chain counts."""
    lines = np.zeros(max(len(part.lines) for part in parts), np.int64)
    first, texts = replace(parts[0].first), dict(parts[0].texts)
    for part in parts:
        new = np.flatnonzero((lines[: len(part.lines)] == 0) & (part.lines != 0))
        lines[new] = part.lines[new]
        for number, text in part.texts.items():
            texts.setdefault(number, text)
        if part.first.timed:
            first.time(part.first.timed, part.first.last, zero=part.first.zero)
    return EventPart(parts[0].name, first, _rows([part.rows for part in parts]), lines, texts)


def _rows(parts: list[TallyRows]) -> TallyRows:
    """All rows. Ranges follow one another in time, so that few keys are in two of them."""
    ends = [(int(rows.time.min()), int(rows.time.max())) for rows in parts if len(rows)]
    shared = [np.zeros(len(rows), np.bool_) for rows in parts]
    for (_, last), (first, _) in pairwise(ends):
        low, high = min(last, first), max(last, first)
        for rows, marks in zip(parts, shared, strict=True):
            marks |= (rows.time >= low) & (rows.time <= high)
    if sum(int(marks.sum()) for marks in shared) > sum(map(len, parts)) // 4 or not _in_turn(ends):
        return together(parts)
    apart = [rows.only(~marks) for rows, marks in zip(parts, shared, strict=True)]
    mixed = together([rows.only(marks) for rows, marks in zip(parts, shared, strict=True)])
    return TallyRows(*(np.concatenate([getattr(p, name) for p in (*apart, mixed)]) for name in TallyRows.__slots__))


def _in_turn(ends: list[tuple[int, int]]) -> bool:
    """Whether each range begins and ends later than the one before."""
    return all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(ends))


def _around(total: Around, part: Around, before: int) -> None:
    for name, value in part.header.items():
        total.tell(name, value, _moved_cite(part.told[name], before))
    for why, cite in part.odd.items():
        total.odd.setdefault(why, _moved_cite(cite, before))
    total.counts.update(part.counts)
    if part.lost is not None:
        total.lost = (total.lost or 0) + part.lost


def _moved_cite(cite: Citation, before: int) -> Citation:
    return replace(cite, line=(cite.line or 0) + before)
