"""A case: everything that was read about one host, cut into states; and the records that a parser may yield."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from thpdiag.model.facts import Citation, ClockAnchor, Event, Fact, Moment, Problem
from thpdiag.model.profile import Profile, SymbolList, SymbolTable
from thpdiag.model.series import Listing, Sample, Series
from thpdiag.model.text import sentence


class InputRecord(NamedTuple):
    """A member and one parser that read records from it (`reader` is empty if none recognised it).

    For an unrecognised member, `size` is its length in bytes and `first_line` the beginning of its text. `period` is
    the usual number of seconds between rows, `gaps` are the first and last moment of stretches without rows.
    """

    member: str
    reader: str
    records: int
    first: Moment | None = None
    last: Moment | None = None
    sha256: str = ""
    problems: int = 0
    size: int | None = None
    first_line: str = ""
    period: float | None = None
    gaps: tuple[tuple[Moment, Moment], ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """A remark in the report, for example about another host; it does not influence the diagnosis."""

    text: str
    cite: Citation | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", sentence(self.text))


@dataclass(frozen=True, slots=True)
class State:
    """A stretch in which the settings did not change. Checks run inside one state.

    `settings` are the known values (`thp.enabled` -> `never`); `order` numbers the states of the case in time, the
    largest is the latest; None if the time is unknown. `labels` are settings stated by a heading or a file name, if the
    kernel does not show them.
    """

    id: str
    settings: Mapping[str, str]
    order: int | None
    facts: tuple[Fact, ...] = ()
    samples: tuple[Sample | Series, ...] = ()
    profiles: tuple[Profile, ...] = ()
    events: tuple[Event, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """One host with its states. `facts` are those that hold in all states (kernel, memory size, processes).

    `anchors` are the times of its boots, most exact first. `process` is the only process analysed (`--process`), empty
    for all. `host` is the host's own name if known, whatever name the case has (`--case`).
    """

    name: str
    facts: tuple[Fact, ...]
    states: tuple[State, ...]
    events: tuple[Event, ...] = ()
    problems: tuple[Problem, ...] = ()
    inputs: tuple[InputRecord, ...] = ()
    notes: tuple[Note, ...] = ()
    hidden: frozenset[str] = field(default_factory=frozenset)  # damaged members; "*" if unknown data are missing
    tainted: frozenset[str] = field(default_factory=frozenset)  # members whose records may be wrong
    process: str = ""
    host: str = ""
    anchors: tuple[ClockAnchor, ...] = ()


Record = Fact | Sample | Listing | Series | Profile | Event | Problem | SymbolList | SymbolTable


def member_of(record: Record) -> str:
    """Return the member of a record, without building a citation, which would quote a line per row."""
    return record.member if isinstance(record, Series | Listing) else record.cite.member


def end_of(record: Record) -> Moment | None:
    """Return when the last part of a record was recorded, None if the source does not state it."""
    if isinstance(record, Series):
        return record.time(len(record) - 1) if len(record) else None
    return record.end if isinstance(record, Profile) else begin_of(record)


def begin_of(record: Record) -> Moment | None:
    """Return when a record was read or began, None if the source does not state it."""
    if isinstance(record, Problem | SymbolList | SymbolTable):
        return None
    if isinstance(record, Series):
        return record.time(0) if len(record) else None
    return record.start if isinstance(record, Profile) else record.time
