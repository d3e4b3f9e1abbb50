"""Options of an analysis: the time window (`--since`, `--until`, `--at`), the process (`--process`), and others.

Records with a time outside the window are excluded. Records without a time, or on a clock that is not comparable with
the window's, are included, and recordings among them are named in a problem. Times since boot are compared with a
wall-clock window by the anchors of the host (`clock.anchors`); records that may be inside, given the uncertainty, are
included. A time typed without a zone is in the host's zone if that is known, else on the clock that the sources use.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from thpdiag.bundle import Limits
from thpdiag.detect.timestamps import parse_timestamp
from thpdiag.errors import UsageError
from thpdiag.host.clock.anchors import anchors_of_boot, anchors_of_profile
from thpdiag.host.clock.timezone import Timezone
from thpdiag.host.clock.wall_clock import local_times
from thpdiag.model import Citation, Clock, Entity, Event, Moment, Problem, Profile, Record, Sample, Series
from thpdiag.model.case import begin_of
from thpdiag.model.facts import DAY, ClockAnchor
from thpdiag.model.numeric import np
from thpdiag.model.profile import BIN, UNKNOWN
from thpdiag.parsers._time import day_seconds

UNPLACED = "is used as a whole: its times cannot be related to --since, --until, or --at"
AT_MARGIN_SECONDS = 300.0  # before and after `--at`
_TIME_OF_DAY = re.compile(r"(\d{1,2}:\d\d)(:\d\d)?$")
_SHORT_TIME = re.compile(r"([ T]\d\d:\d\d) ?(Z|UTC|[+-]\d\d:?\d\d)$")
_UPTIME = re.compile(r"(\d+(?:\.\d+)?)$")


class Window(NamedTuple):
    """The time from `since` to `until`; either may be None.

    Both are on one clock; wall clocks with and without zone are comparable. A time of day means every day.
    """

    since: Moment | None = None
    until: Moment | None = None
    zone: Timezone | None = None

    def on_host_clock(self, zone: Timezone | None) -> Window:
        """Return the window with wall-clock times in UTC for a host of this zone, including all of a repeated hour."""
        if zone is None:
            return self
        since, until = self.since, self.until
        if since and since.clock is Clock.LOCAL:
            since = Moment(since.seconds - max(zone.offsets(since.seconds)), Clock.UTC)
        if until and until.clock is Clock.LOCAL:
            until = Moment(until.seconds - min(zone.offsets(until.seconds)), Clock.UTC)
        return Window(since, until, zone)

    def holds(self, moment: Moment, within: float = 0.0) -> bool | None:
        """Return whether a moment, with the error `within`, may be inside; None if its clock is not comparable."""
        inside = self._inside(moment.clock, moment.seconds, within + moment.within)
        return None if inside is None else bool(inside)

    def rows(self, series: Series) -> Series | None:
        """Return the rows that may be inside; all if their clock is not comparable, None if there are none."""
        if series.seconds is None or series.clock is None:
            return series
        keep = self._inside(series.clock, series.seconds, series.within)
        if keep is None or keep is True or keep.all():
            return series
        return series.only(keep) if keep.any() else None

    def _inside(self, clock: Clock, seconds: Any, within: float) -> Any:
        """Return whether seconds of a clock, one or many, may be inside; None if that clock is not comparable.

        A row without a time may be inside.
        """
        inside: Any = True
        for bound, sign in ((self.since, 1), (self.until, -1)):
            if bound is not None:
                at = self._on_clock(bound.clock, clock, seconds)
                if at is None:
                    return None
                inside = inside & ((at - bound.seconds) * sign >= -within) | (at != at)
                if inside is False:
                    return False
        return inside

    def _on_clock(self, target: Clock, source: Clock, seconds: Any) -> Any:
        """Return seconds of one clock on the window's, one or many; None if the two are not comparable."""
        if source is target or {source, target} == {Clock.UTC, Clock.LOCAL}:
            return seconds
        if target is not Clock.DAY or source in (Clock.BOOT, Clock.SESSION):
            return None
        if self.zone and source is Clock.UTC:
            seconds = self.zone.local(seconds) if isinstance(seconds, (int, float)) else local_times(seconds, self.zone)
        # the day is counted around the middle of the window, which may pass midnight (`--at 00:02`)
        bounds = [bound.seconds for bound in (self.since, self.until) if bound is not None]
        middle = sum(bounds) / 2 if len(bounds) == 2 else DAY / 2
        return (seconds - middle + DAY / 2) % DAY + middle - DAY / 2

    def may_hold(self, moment: Moment, anchors: Iterable[ClockAnchor]) -> bool:
        """Whether a moment may be inside: by its own clock, else by the first comparable anchor."""
        held = self.holds(moment)
        if held is None and moment.clock is Clock.BOOT:
            answers = (self.holds(anchor.wall_time(moment), anchor.uncertainty(moment)) for anchor in anchors)
            held = next((inside for inside in answers if inside is not None), None)
        return held is not False

    def can_place(self, moment: Moment, anchors: Iterable[ClockAnchor]) -> bool:
        """Whether it is decidable if a moment is inside."""
        known = [moment, *(anchor.wall_time(moment) for anchor in anchors if moment.clock is Clock.BOOT)]
        return any(self.holds(candidate) is not None for candidate in known)


def parse_window(since: str | None, until: str | None, at: str | None) -> Window | None:
    """Return the window of the options; UsageError if a time cannot be parsed."""
    if at is not None:
        if since is not None or until is not None:
            raise UsageError("use --at alone, or --since and --until for a time range")
        middle = parse_moment(at)
        return Window(middle.plus(-AT_MARGIN_SECONDS), middle.plus(AT_MARGIN_SECONDS))
    if since is None and until is None:
        return None
    window = Window(None if since is None else parse_moment(since), None if until is None else parse_moment(until))
    if window.since and window.until and window.holds(window.since) is False:
        raise UsageError(f"--until {until} is before --since {since}; swap the two")
    return window


def parse_moment(text: str) -> Moment:
    """Return a time as typed.

    `2026-11-20[ 03:35[:43][Z]]`, an epoch, `03:35[:43]` of the recording's day, or seconds since boot.
    """
    plain = text.strip()
    if (match := _TIME_OF_DAY.match(plain)) and (seconds := day_seconds(match[1] + (match[2] or ":00"))) is not None:
        return Moment(seconds, Clock.DAY)
    spellings = (plain, f"{plain}:00", f"{plain} 00:00:00", _SHORT_TIME.sub(r"\1:00\2", plain))
    if moment := next(filter(None, map(parse_timestamp, spellings)), None):
        return moment
    if match := _UPTIME.match(plain):
        return Moment(float(match[1]), Clock.BOOT)
    raise UsageError(
        f"'{text}' is not a time; write 2026-11-20, 2026-11-20 03:35:43, 03:35:43, an epoch, or seconds since boot"
    )


def records_in_window(
    records: Sequence[Record], window: Window | None, process: str, anchors: Sequence[ClockAnchor] = ()
) -> list[Record]:
    """Return the records of the process, if one is named, that may be inside of the window."""
    kept: Iterable[Record] = records
    if process:
        kept = [
            r
            for r in records
            if not isinstance(r, Sample | Series) or r.kind != "process" or _is_process(r.entity, process)
        ]
    if window is None:
        return list(kept)
    return [part for r in kept if (part := _part_in_window(r, window, anchors)) is not None]


def _is_process(entity: Entity, process: str) -> bool:
    labels = dict(entity)
    return process in (labels.get("pid"), labels.get("comm"))


def unplaced_recordings(
    records: Iterable[Record], window: Window | None, anchors: Sequence[ClockAnchor] = ()
) -> list[Problem]:
    """Return a problem for each recording that is used as a whole because its time is unknown; not for snapshots."""
    if window is None:
        return []
    rows: Counter[tuple[object, ...]] = Counter()
    unplaced: dict[str, None] = {}
    for record in records:
        if not isinstance(record, Profile | Sample | Series):
            continue
        if isinstance(record, Profile):
            time, known = record.start if record.has_time else None, anchors_of_profile(record, anchors)
        else:
            time, known = begin_of(record), list(anchors_of_boot(anchors, record.cite))
        if time is not None and window.can_place(time, known):
            continue
        member, size = record.cite.member, 2
        if not isinstance(record, Profile):
            key = (member, record.reader, record.kind, record.entity)
            rows[key] += len(record) if isinstance(record, Series) else 1
            size = rows[key]
        if size > 1:
            unplaced[member] = None
    return [Problem(Citation(member), UNPLACED) for member in unplaced]


def check_process(records: Iterable[Record], process: str) -> None:
    """Raise UsageError if no record is about the process named in the options, for example after a typing error."""
    names: set[str] = set()
    for record in records:
        if isinstance(record, Profile):
            names.update(str(name) for task in record.tasks for name in (task.comm, task.pid) if name)
        elif isinstance(record, Sample | Series) and record.kind == "process":
            names.update(text for label, text in record.entity if label in ("pid", "comm"))
    if process in names:
        return
    if not names:
        raise UsageError(f"no process '{process}': the input lists no processes; omit --process")
    from thpdiag.knowledge.yaml_nodes import suggestion  # only for an error

    raise UsageError(
        f"no process '{process}' in the input{suggestion(process, names) or '; give a PID or a command name'}"
    )


def _part_in_window(record: Record, window: Window, anchors: Sequence[ClockAnchor]) -> Record | None:
    """Return the record, or the rows of a series or profile, that may be inside."""
    if isinstance(record, Series):
        return window.rows(record)
    if isinstance(record, Profile):
        if record.start is None or not record.has_time:
            return record
        bins, start, known = np.unique(record.rows.bin).tolist(), record.start, anchors_of_profile(record, anchors)
        outside = [b for b in bins if b != UNKNOWN and not window.may_hold(start.plus(b * BIN), known)]
        rows = record.rows.only(~np.isin(record.rows.bin, outside)) if outside else record.rows
        return replace(record, rows=rows) if len(rows) else None if outside else record
    time = record.time if isinstance(record, Sample | Event) else None
    return None if time is not None and not window.may_hold(time, anchors_of_boot(anchors, record.cite)) else record


@dataclass(frozen=True, slots=True)
class Options:
    """The options of an analysis.

    `process` restricts it to one process (pid or name); `case` names the case in the report. `typed_options` are the
    options as typed, for the result document. `every_input` adds a row per member to it.
    """

    window: Window | None = None
    case: str = ""
    process: str = ""
    limits: Limits = field(default_factory=Limits)
    strict: bool = False
    every_input: bool = False
    typed_options: Mapping[str, str] = field(default_factory=dict)
