"""Citations, moments, facts, events, problems, and the excerpts that a report quotes.

Every fact, sample, stack and event carries a citation: where it was read. A moment keeps the clock it was read from,
because most recordings do not say what clock that is.

What joins the clocks of one host: the wall clock's time of a boot, from which perf and the kernel's log count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from thpdiag.model.text import sentence

MAX_CITED_CHARS = 240  # characters of a cited line that are worth keeping
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")  # but tabs


def excerpt_of(line: str) -> str:
    """What a citation keeps of a line: its beginning, without control characters."""
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
    """What the seconds of a moment count from."""

    UTC = "utc"  # seconds since 1970-01-01 00:00 UTC
    LOCAL = "local"  # the same count, of the host's wall clock, zone unknown
    DAY = "day"  # seconds since a midnight of unknown date (collectl -oT, top, sar rows); may exceed 86400 after a wrap
    BOOT = "boot"  # seconds since boot (perf script, dmesg brackets)
    SESSION = "session"  # seconds that the commands of a pasted session name, since the first; in one member

    @property
    def is_of_one_member(self) -> bool:
        """Whether what stands in another member cannot be compared: of which day, or session, that is nobody knows."""
        return self in (Clock.DAY, Clock.SESSION)


class Pace(NamedTuple):
    """Where the seconds between moments come from, if a command tells them and no clock was printed.

    `words` name the pause (`sleep 300`); all pauses of a `stretch` of the session are known. That is the least that
    passed: the commands took some time too. `loose`: each was typed for itself, whenever the user came back, or took
    long.
    """

    words: str
    stretch: int
    loose: bool = False

    def overrun(self, seconds: float) -> float:
        """By how many seconds more than these may have passed."""
        return seconds + 60.0 if self.loose else 0.1 * seconds + 1.0


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """Seconds on a clock. Moments of different clocks are never compared; `minus` says None for them.

    `within` says by how many seconds a moment that was put on another clock than its source's may be wrong, either way.
    `pace` says what command the time is taken from, where none was printed.
    """

    seconds: float
    clock: Clock
    within: float = field(default=0.0, compare=False)
    pace: Pace | None = field(default=None, compare=False)

    def minus(self, other: Moment) -> float | None:
        """Seconds from `other` to this moment, None if the clocks differ."""
        return self.seconds - other.seconds if self.clock is other.clock else None

    def plus(self, seconds: float) -> Moment:
        return Moment(self.seconds + seconds, self.clock, self.within, self.pace)


def zoned_moment(seconds: float, zone: str) -> Moment:
    """A date and clock time, counted as if they were UTC, in their zone: `Z`, `UTC`, `GMT`, `+05:30`, `-0800`.

    Without a zone they are the host's wall clock.
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
    """A value with a name of `knowledge/vocabulary.yaml`, which also gives its unit.

    `labels` tell apart several facts of one name (`(("node", "0"), ("zone", "Normal"))`). `provenance` says how the
    value is known when it was not read where the kernel shows it: `boot line`, `tuned`, `rc file`, `assumed`;
    empty means measured.
    """

    name: str
    value: Value
    cite: Citation
    labels: tuple[tuple[str, str], ...] = ()
    time: Moment | None = None
    provenance: str = ""

    def label(self, key: str) -> str | None:
        return dict(self.labels).get(key)


# what an operator did, as distinct from what the kernel said
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
    """Why. `hides_data` kinds may have taken evidence away, so that "no" is not to be believed."""

    DAMAGED = "damaged"  # bytes are broken or missing
    LIMIT = "limit"  # a limit of ours cut the input
    REFUSED = "refused"  # unsafe (a device, a path that leaves the bundle)
    UNREADABLE = "unreadable"  # permission, encryption, a format that this version does not read
    ODD = "odd"  # one line did not fit its format; the rest was read
    UNRECOGNISED = "unrecognised"  # no reader knows the format
    DISAGREEMENT = "disagreement"  # two sources say different things
    BUG = "bug"  # a bug in thpdiag

    @property
    def hides_data(self) -> bool:
        return self in {ProblemKind.DAMAGED, ProblemKind.LIMIT, ProblemKind.UNREADABLE, ProblemKind.BUG}


@dataclass(frozen=True, slots=True)
class Problem:
    """`text` is a sentence without the place; the place is `cite`. `count` folds many alike into one.

    `hides` is None when the kind decides whether evidence may be missing, else it decides. `taints` says that what was
    read before may be wrong too: a checksum over all of it does not fit, and where the damage lies is not known.
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
    """A cited line that is to be quoted.

    `kind` is the class of evidence it speaks for; empty: only the line itself is wanted. A snapshot of many lines
    (/proc/vmstat, meminfo) is cited by its first, and `names` are what the kernel calls there what it is cited for.
    `text` is the line as a reader saw it, as far as the citation kept it.
    """

    member: str
    line: int
    kind: str = ""
    names: tuple[str, ...] = ()
    text: str = ""


class Excerpt(NamedTuple):
    """Lines of a file as they stand there. `lines[cited]` is the cited one, line number `line`."""

    line: int
    lines: tuple[str, ...]
    cited: int = 0


DAY = 86_400.0  # seconds
MAX_DRIFT = 1e-4  # of the time since boot: a crystal is good to 50 parts in a million, its calibration adds as much


@dataclass(frozen=True, slots=True)
class ClockAnchor:
    """The wall clock's time at second 0 of the boot's clock, right to `within` seconds and `drift` per second since.

    `read` is when it was read, if that is known: the boot lasted until then.
    """

    zero: Moment
    within: float
    how: str
    cite: Citation
    drift: float = MAX_DRIFT
    read: Moment | None = None

    def wall_time(self, boot: Moment) -> Moment:
        """The time of day of a moment on the boot's clock; of a clock without date that of its first day."""
        at = self.zero.seconds + boot.seconds
        return Moment(at % DAY if self.zero.clock is Clock.DAY else at, self.zero.clock)

    def uncertainty(self, boot: Moment) -> float:
        """By how many seconds `wall_time` may be wrong, either way."""
        return self.within + self.drift * abs(boot.seconds)
