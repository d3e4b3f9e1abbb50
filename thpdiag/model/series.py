"""Time series: the values of one entity from one source, row by row (`Sample`) or as columns (`Series`).

Line parsers yield rows, parsers of whole recordings yield columns; `thpdiag.host.series` makes tables of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from thpdiag.model.facts import Citation, Clock, Moment, Pace, excerpt_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Entity = tuple[tuple[str, str], ...]  # labels of the entity, as in `Sample`; empty for the host
Subject = tuple[str, Entity]  # kind and labels of an entity
NOTHING: Mapping[str, float] = MappingProxyType({})
NO_QUANTA: Mapping[str, Sequence[float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Sample:
    """Values of one entity at one moment.

    `kind` is the entity kind: `system`, `cpu`, `process`, `zone`, `node` (NUMA) or `device`; `entity` names it
    (`(("pid", "4711"), ("comm", "java"))`), empty for `system`. `values` maps metric names (vocabulary, base units:
    bytes, seconds, ratios 0..1) to numbers; values that the source did not print are absent. `resolution` is the
    quantum of values that were printed rounded (2**30 for collectl's `24G`). A `since_boot` row is an average since
    boot (first row of vmstat) and is not used for rates. `reader` names the source format.
    """

    kind: str
    values: Mapping[str, float]
    cite: Citation
    reader: str
    entity: Entity = ()
    time: Moment | None = None
    resolution: Mapping[str, float] = field(default_factory=lambda: NOTHING)
    since_boot: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """Rows of many entities at one moment, as columns of equal length: the processes of one frame of top.

    The fields have the same meaning as in `Sample`; `values` holds NaN where the source printed nothing, and a quantum
    of 0 means an exact value. `first` is the line of the first row; further rows are in the following lines; `texts`
    are the lines. Line parsers yield it if there are many rows; `thpdiag.host.reading` makes samples or series from it,
    and no later stage gets one.
    """

    kind: str
    values: Mapping[str, Sequence[float]]
    member: str
    first: int
    texts: Sequence[str]
    reader: str
    entities: Sequence[Entity]
    time: Moment | None = None
    resolution: Mapping[str, Sequence[float]] = field(default_factory=lambda: NO_QUANTA)
    since_boot: bool = False

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[Sample]:
        """Yield the rows as samples."""
        for row, (entity, text) in enumerate(zip(self.entities, self.texts, strict=True)):
            yield Sample(
                self.kind,
                {name: value for name, column in self.values.items() if (value := column[row]) == value},
                Citation(self.member, self.first + row, excerpt_of(text)),
                self.reader,
                entity,
                self.time,
                {name: column[row] for name, column in self.resolution.items() if column[row]},
                since_boot=self.since_boot,
            )

    @property
    def cite(self) -> Citation:
        """The citation of the first row."""
        return Citation(self.member, self.first, excerpt_of(self.texts[0]))


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Many rows of one entity of one source as columns of equal length, for example a day of vmstat.

    The fields have the same meaning as in `Sample`. `values` holds NaN where the source printed nothing; `seconds` are
    on `clock`, NaN where a row has no time; both are None if no row has one. `lines` is the line of each row (from 1;
    for sources without lines the number of the record). `resolution` applies to all rows. Row `i` is
    `text[starts[i]:ends[i]]` in the source, if the parser keeps the text. `within` and `pace` apply to all times
    (`Moment`). It is a sequence of samples, which are created on access.
    """

    kind: str
    values: Mapping[str, NDArray[np.float64]]
    member: str
    lines: NDArray[np.int64]
    reader: str
    entity: Entity = ()
    seconds: NDArray[np.float64] | None = None
    clock: Clock | None = None
    resolution: Mapping[str, float] = field(default_factory=lambda: NOTHING)
    since_boot: NDArray[np.bool_] | None = None
    text: bytes = b""
    starts: NDArray[np.int64] | None = None
    ends: NDArray[np.int64] | None = None
    within: float = 0.0
    pace: Pace | None = None

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, number: int) -> Sample:
        number = range(len(self))[number]
        cells = {name: float(column[number]) for name, column in self.values.items()}
        values = {name: value for name, value in cells.items() if value == value}  # NaN: not printed
        return Sample(
            self.kind,
            values,
            self.citation(number),
            self.reader,
            self.entity,
            self.time(number),
            {name: quantum for name, quantum in self.resolution.items() if name in values},
            since_boot=self.since_boot is not None and bool(self.since_boot[number]),
        )

    def __iter__(self) -> Iterator[Sample]:
        return (self[number] for number in range(len(self)))

    @property
    def cite(self) -> Citation:
        """The citation of the first row."""
        return self.citation(0)

    def citation(self, number: int) -> Citation:
        text = ""
        if self.starts is not None and self.ends is not None:
            text = self.text[self.starts[number] : self.ends[number]].decode("utf-8", "replace")
        return Citation(self.member, int(self.lines[number]) or None, excerpt_of(text))

    def time(self, number: int) -> Moment | None:
        if self.seconds is None or self.clock is None:
            return None
        seconds = float(self.seconds[number])
        return Moment(seconds, self.clock, self.within, self.pace) if seconds == seconds else None

    def only(self, keep: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Series:
        """Return the rows that are marked, in a slice, or have these indices."""

        def part(column: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
            return None if column is None else column[keep]

        marked = None if self.since_boot is None else self.since_boot[keep]
        starts, ends = (None if column is None else column[keep] for column in (self.starts, self.ends))
        return Series(
            self.kind, {name: column[keep] for name, column in self.values.items()}, self.member, self.lines[keep],
            self.reader, self.entity, part(self.seconds), self.clock, self.resolution, marked, self.text, starts, ends,
            self.within, self.pace,
        )  # fmt: skip
