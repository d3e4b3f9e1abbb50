"""Citations, moments, facts, events, problems, and the excerpts that a report quotes.

Every fact, sample, stack and event carries a citation: where it was read. A moment keeps the clock it was read from,
because most recordings do not state which clock that is. A clock anchor, the wall-clock time of a boot, converts the
times since boot of perf and the kernel log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from thpdiag.model.text import sentence

MAX_CITED_CHARS = 240  # of a line
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")  # without tabs


def excerpt_of(line: str) -> str:
    """Return the part of a line that a citation keeps: its beginning, without control characters."""
    text = line[:MAX_CITED_CHARS]
    return text if text.isprintable() else _CONTROL.sub("?", text)


class Citation(NamedTuple):
    """A line of a member of the bundle.

    `member` is the customer's path inside the bundle, never the analyst's. `line` counts from 1; it is None
    where the source has no lines. `text` is the line as read (control characters and quoting removed), cut to
    `MAX_CITED_CHARS` characters, so that a report can quote it without the bundle.
    """

    member: str
    line: int | None = None
    text: str = ""

    def __str__(self) -> str:
        return self.member if self.line is None else f"{self.member}:{self.line}"


class Clock(StrEnum):
    """The clock of a moment: what its seconds count from."""

    UTC = "utc"  # seconds since 1970-01-01 00:00 UTC
    LOCAL = "local"  # the same count, of the host's wall clock, zone unknown
    DAY = "day"  # seconds since a midnight of unknown date (collectl -oT, top, sar rows); may exceed 86400 after a wrap
    BOOT = "boot"  # seconds since boot (perf script, dmesg brackets)
    SESSION = "session"  # seconds since the first command of a pasted session, from its commands (`sleep 300`)

    @property
    def is_of_one_member(self) -> bool:
        """Whether times of different members are not comparable, because their day or session is unknown."""
        return self in (Clock.DAY, Clock.SESSION)


class Pace(NamedTuple):
    """The command that determines the seconds between moments if no clock was printed.

    `words` are the pause (`sleep 300`); all pauses within a `stretch` of the session are known. The pauses are a lower
    bound, because the commands took time too. `loose`: each command was typed by hand, at any time, or ran long.
    """

    words: str
    stretch: int
    loose: bool = False

    def overrun(self, seconds: float) -> float:
        """Return by how many seconds more than these may have passed."""
        return seconds + 60.0 if self.loose else 0.1 * seconds + 1.0


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """Seconds on a clock. Moments of different clocks are never compared; `minus` returns None for them.

    `within` is the error in seconds of a moment that was converted from another clock. `pace` is the command from which
    the time is inferred, if none was printed.
    """

    seconds: float
    clock: Clock
    within: float = field(default=0.0, compare=False)
    pace: Pace | None = field(default=None, compare=False)

    def minus(self, other: Moment) -> float | None:
        """Return the seconds from `other` to this moment, None if the clocks differ."""
        return self.seconds - other.seconds if self.clock is other.clock else None

    def plus(self, seconds: float) -> Moment:
        return Moment(self.seconds + seconds, self.clock, self.within, self.pace)


def zoned_moment(seconds: float, zone: str) -> Moment:
    """Return the moment of a date and time, given as seconds as if in UTC, in a zone: `Z`, `UTC`, `GMT`, `+05:30`,
    `-0800`.

    Without a zone it is on the host's wall clock.
    """
    if not zone:
        return Moment(seconds, Clock.LOCAL)
    if zone[0] not in "+-":
        return Moment(seconds, Clock.UTC)
    digits = zone.replace(":", "")
    shift = int(digits[1:3]) * 3600 + int(digits[3:5]) * 60
    return Moment(seconds - shift if zone[0] == "+" else seconds + shift, Clock.UTC)


Value = str | int | float


@dataclass(frozen=True, slots=True)
class Fact:
    """A value with a name of `knowledge/vocabulary.yaml`, which also defines its unit.

    `labels` distinguish facts of one name (`(("node", "0"), ("zone", "Normal"))`). `provenance` is the source of a
    value that is not the kernel's own report: `boot line`, `tuned`, `rc file`, `assumed`; empty means measured.
    """

    name: str
    value: Value
    cite: Citation
    labels: tuple[tuple[str, str], ...] = ()
    time: Moment | None = None
    provenance: str = ""

    def label(self, key: str) -> str | None:
        return dict(self.labels).get(key)


# actions of an operator, as opposed to messages of the kernel
OPERATOR_KINDS = frozenset({"setting_written", "operator_compaction", "operator_drop_caches", "operator_change"})


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a `kind` in the vocabulary (`hung_task`, `soft_lockup`, `setting_written`, ...).

    `stack` is the call trace, leaf first, function names as printed without offsets; empty if there was none.
    """

    kind: str
    cite: Citation
    time: Moment | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    stack: tuple[str, ...] = ()


class ProblemKind(StrEnum):
    """The reason for a problem. With `hides_data` kinds evidence may be missing, so that a "no" is not certain."""

    DAMAGED = "damaged"  # bytes are broken or missing
    LIMIT = "limit"  # the input exceeds a limit of thpdiag
    REFUSED = "refused"  # unsafe (a device, a path that leaves the bundle)
    UNREADABLE = "unreadable"  # permission, encryption, a format that this version does not read
    ODD = "odd"  # one line did not fit its format; the rest was read
    UNRECOGNISED = "unrecognised"  # no parser for the format
    DISAGREEMENT = "disagreement"  # two sources contradict each other
    BUG = "bug"  # a bug in thpdiag

    @property
    def hides_data(self) -> bool:
        return self in {ProblemKind.DAMAGED, ProblemKind.LIMIT, ProblemKind.UNREADABLE, ProblemKind.BUG}


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem at a place. `text` is a sentence without the place, which is `cite`; `count` merges equal problems.

    `hides`, if not None, overrides whether evidence may be missing, which the kind determines otherwise. `taints` means
    that data read before may be wrong too: a checksum over all of it does not match, and the damaged place is unknown.
    """

    cite: Citation
    text: str
    kind: ProblemKind = ProblemKind.ODD
    reader: str = ""
    count: int = 1
    hides: bool | None = None
    taints: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", sentence(self.text))

    @property
    def hides_data(self) -> bool:
        return self.kind.hides_data if self.hides is None else self.hides


class ExcerptRequest(NamedTuple):
    """A cited line to quote.

    `kind` is the class of evidence that cites it; empty if only the line itself is needed. A snapshot of many lines
    (/proc/vmstat, meminfo) is cited by its first line, and `names` are the kernel's names of the cited rows. `text` is
    the line as parsed, as far as the citation kept it.
    """

    member: str
    line: int
    kind: str = ""
    names: tuple[str, ...] = ()
    text: str = ""


class Excerpt(NamedTuple):
    """Lines of a file, unchanged. `lines[cited]` is the cited one, line number `line`."""

    line: int
    lines: tuple[str, ...]
    cited: int = 0


DAY = 86_400.0  # seconds
MAX_DRIFT = 1e-4  # of the time since boot: 50 ppm of the crystal, and as much again of its calibration


@dataclass(frozen=True, slots=True)
class ClockAnchor:
    """The wall-clock time at second 0 of the boot clock, with the error `within` plus `drift` per second since.

    `read` is when it was read, if known: the boot lasted at least until then.
    """

    zero: Moment
    within: float
    how: str
    cite: Citation
    drift: float = MAX_DRIFT
    read: Moment | None = None

    def wall_time(self, boot: Moment) -> Moment:
        """Return a moment on the boot clock as wall-clock time; on a clock without date as the time of day."""
        seconds = self.zero.seconds + boot.seconds
        return Moment(seconds % DAY if self.zero.clock is Clock.DAY else seconds, self.zero.clock)

    def uncertainty(self, boot: Moment) -> float:
        """Return the error of `wall_time` in seconds."""
        return self.within + self.drift * abs(boot.seconds)
