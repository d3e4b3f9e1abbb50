"""Call stacks with weights: the one shape for perf script, perf report, perf top and folded stacks.

Renderings of one recording differ only in what they cannot tell (`stacks`, `has_time`, `percent_only`) and in
what they lost (`ledger`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from thpdiag.model.citation import Citation
from thpdiag.model.moment import Moment


class Stacks(StrEnum):
    """How much of the call chain the source shows."""

    FULL = "full"
    PARTIAL = "partial"  # perf report: below the percent limit, or cut by [...]
    NONE = "none"  # leaf only: perf top, flat report


@dataclass(frozen=True, slots=True)
class Frame:
    """A function.

    `name` is normalised (no offset, no `.isra.0`, no `_[k]`); `kernel` is None when the source does not say.
    """

    name: str
    dso: str = ""
    kernel: bool | None = None


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """Weight of one stack in one task (and cpu, and 10 ms bin where known).

    `stack` holds indices into `Profile.frames`, leaf first; empty = a sample without a stack. `weight` is the summed
    period, or samples, or percent (0..100) when `Profile.percent_only`. `samples` counts samples, 0 if unknown.
    """

    stack: tuple[int, ...]
    weight: float
    samples: int
    cite: Citation
    comm: str = ""
    pid: int | None = None
    tid: int | None = None
    cpu: int | None = None
    bin: int | None = None  # 10 ms bins since `Profile.start`


@dataclass(frozen=True, slots=True)
class Ledger:
    """What became of the samples of the source: none is lost silently.

    `odd` counts by reason what was read but not kept; `lost` is what the recording itself says it lost (LOST records,
    "Lost N chunks"). For percent sources `unlisted` is the share (0..100) that the text does not show.
    """

    read: int = 0
    kept: int = 0
    without_stack: int = 0
    unknown_symbol: int = 0
    odd: Mapping[str, int] = field(default_factory=dict)
    lost: int | None = None
    unlisted: float = 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """One event of one recording. Several events of a recording are several profiles, never added."""

    reader: str
    event: str
    frames: tuple[Frame, ...]
    rows: tuple[ProfileRow, ...]
    stacks: Stacks
    cite: Citation
    ledger: Ledger = Ledger()
    percent_only: bool = False
    has_time: bool = False
    start: Moment | None = None
    end: Moment | None = None
    total_samples: int | None = None  # as the source states it ("Samples: 124K"), None if it does not
    facts: Mapping[str, str] = field(default_factory=dict)  # header: hostname, release, perf version, command line
