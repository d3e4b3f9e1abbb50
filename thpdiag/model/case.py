"""A case: everything that was read about one host, cut into states; and what a parser may yield."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from thpdiag.model.facts import Citation, ClockAnchor, Event, Fact, Moment, Problem
from thpdiag.model.profile import Profile, SymbolList, SymbolTable
from thpdiag.model.series import Listing, Sample, Series
from thpdiag.model.text import sentence


class InputRecord(NamedTuple):
    """A member of which at least one reader read something (or which none recognised: `reader` is empty).

    Of one that none recognised `size` is how many bytes it has and `first_line` how its text begins. `period` are the
    usual seconds from one row to the next, `gaps` first and last moment of stretches without rows.
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
    """Something said about another host or in passing; it has no influence on the diagnosis."""

    text: str
    cite: Citation | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", sentence(self.text))


@dataclass(frozen=True, slots=True)
class State:
    """A stretch in which the settings did not change. Checks run inside one state.

    `settings` are the values known to hold (`thp.enabled` -> `never`); `order` counts stretches of the case in
    time, the largest is the latest; None if the place in time is unknown. `labels` are the settings that a heading or
    the name of a file tells, where the kernel does not show them.
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

    `anchors` tell when it was booted, the most exact first. `process` is the only one that was looked at
    (`--process`), empty for all. `host` is the host's own name as far as the input tells, whatever the case is called
    (`--case`).
    """

    name: str
    facts: tuple[Fact, ...]
    states: tuple[State, ...]
    events: tuple[Event, ...] = ()
    problems: tuple[Problem, ...] = ()
    inputs: tuple[InputRecord, ...] = ()
    notes: tuple[Note, ...] = ()
    hidden: frozenset[str] = field(default_factory=frozenset)  # damaged members; "*" = we do not know what is missing
    tainted: frozenset[str] = field(default_factory=frozenset)  # members of which what was read may be wrong
    process: str = ""
    host: str = ""
    anchors: tuple[ClockAnchor, ...] = ()


Record = Fact | Sample | Listing | Series | Profile | Event | Problem | SymbolList | SymbolTable


def member_of(record: Record) -> str:
    """The member that it stands in; a citation of a row quotes its line, which thousands of them need not make."""
    return record.member if isinstance(record, Series | Listing) else record.cite.member


def end_of(record: Record) -> Moment | None:
    """When its last part was recorded, None if the source does not say."""
    if isinstance(record, Series):
        return record.time(len(record) - 1) if len(record) else None
    return record.end if isinstance(record, Profile) else begin_of(record)


def begin_of(record: Record) -> Moment | None:
    """When it was read or began, None if the source does not say."""
    if isinstance(record, Problem | SymbolList | SymbolTable):
        return None
    if isinstance(record, Series):
        return record.time(0) if len(record) else None
    return record.start if isinstance(record, Profile) else record.time
