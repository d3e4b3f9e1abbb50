"""The time that hurt, as the user names it: `--since`, `--until`, `--at`; and the one process (`--process`).

Records with a time outside the window take no part. Records without a time, or on another clock than the window's,
stay: they cannot be placed, and recordings among them are named. Times since boot are compared with a window of the
wall clock where something joins the two (`thpdiag.derive.boot_clock`); what may be inside, as far as that is uncertain,
stays too. A time typed without a zone is the host's where its zone is known, else it is taken as sources write theirs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from thpdiag.bundle.stamps import stamp
from thpdiag.derive.boot_clock import DAY, Join, joins_of, of_one_boot
from thpdiag.derive.host_zone import Zone
from thpdiag.derive.wall_times import local_times
from thpdiag.errors import UsageError
from thpdiag.model import Citation, Clock, Event, Moment, Problem, Profile, Record, Sample, Series
from thpdiag.model.profile import BIN, UNKNOWN
from thpdiag.model.record import begun
from thpdiag.readers.elements.daytime import day_seconds

UNPLACED = "takes part whole: nothing joins its times to those of --since, --until or --at"
AROUND = 300.0  # seconds before and after `--at`
_DAYTIME = re.compile(r"(\d{1,2}:\d\d)(:\d\d)?$")
_SHORT = re.compile(r"([ T]\d\d:\d\d) ?(Z|UTC|[+-]\d\d:?\d\d)$")
_UPTIME = re.compile(r"(\d+(?:\.\d+)?)$")


@dataclass(frozen=True, slots=True)
class Window:
    """From `since` to `until`, either open.

    Both are on one clock; wall clocks with and without zone compare as equal. A time of day means every day.
    """

    since: Moment | None = None
    until: Moment | None = None
    zone: Zone | None = None

    def on(self, zone: Zone | None) -> Window:
        """The same for a host of this zone: a wall clock's times in UTC, with all of an hour that is shown twice."""
        if zone is None:
            return self
        since, until = self.since, self.until
        if since and since.clock is Clock.LOCAL:
            since = Moment(since.seconds - max(zone.offsets(since.seconds)), Clock.UTC)
        if until and until.clock is Clock.LOCAL:
            until = Moment(until.seconds - min(zone.offsets(until.seconds)), Clock.UTC)
        return Window(since, until, zone)

    def holds(self, moment: Moment, within: float = 0.0) -> bool | None:
        """Whether the moment, right to `within` seconds, may be inside; None if its clock is another one."""
        for bound, sign in ((self.since, 1), (self.until, -1)):
            if bound is None:
                continue
            at = self._on(bound.clock, moment.clock, moment.seconds)
            if at is None:
                return None
            if (at - bound.seconds) * sign < -(within + moment.within):
                return False
        return True

    def rows(self, series: Series) -> Series | None:
        """The rows that may be inside; all if their clock is another one, none if there are none."""
        import numpy as np

        if series.seconds is None or series.clock is None:
            return series
        keep = np.ones(len(series), np.bool_)
        for bound, sign in ((self.since, 1), (self.until, -1)):
            if bound is not None:
                at = self._on(bound.clock, series.clock, series.seconds)
                if at is None:
                    return series
                keep &= ~((at - bound.seconds) * sign < -series.within)  # a row without a time stays
        return series if keep.all() else series.only(keep) if keep.any() else None

    def _on(self, clock: Clock, of: Clock, seconds: Any) -> Any:
        """Seconds of one clock on a window's, one or many; None if nothing joins the two."""
        if of is clock or {of, clock} == {Clock.UTC, Clock.LOCAL}:
            return seconds
        if clock is not Clock.DAY or of is Clock.BOOT:
            return None
        if self.zone and of is Clock.UTC:
            seconds = self.zone.local(seconds) if isinstance(seconds, (int, float)) else local_times(seconds, self.zone)
        return (seconds - self._middle + DAY / 2) % DAY + self._middle - DAY / 2

    @property
    def _middle(self) -> float:
        """Around which seconds of a day the window lies: it may reach over midnight (`--at 00:02`)."""
        bounds = [bound.seconds for bound in (self.since, self.until) if bound is not None]
        return sum(bounds) / 2 if len(bounds) == 2 else DAY / 2

    def may_hold(self, moment: Moment, joins: Iterable[Join]) -> bool:
        """Whether the moment may be inside: by its own clock, else by the first join to the window's."""
        held = self.holds(moment)
        if held is None and moment.clock is Clock.BOOT:
            told = (self.holds(join.wall(moment), join.off(moment)) for join in joins)
            held = next((inside for inside in told if inside is not None), None)
        return held is not False

    def places(self, moment: Moment, joins: Iterable[Join]) -> bool:
        """Whether it can be told if the moment is inside."""
        known = [moment, *(join.wall(moment) for join in joins if moment.clock is Clock.BOOT)]
        return any(self.holds(one) is not None for one in known)


def parsed(since: str | None, until: str | None, at: str | None) -> Window | None:
    """The window of the options; UsageError if a time cannot be read."""
    if at is not None:
        if since is not None or until is not None:
            raise UsageError("--at stands alone; --since and --until name a stretch of time")
        middle = moment(at)
        return Window(middle.plus(-AROUND), middle.plus(AROUND))
    if since is None and until is None:
        return None
    window = Window(None if since is None else moment(since), None if until is None else moment(until))
    if window.since and window.until and window.holds(window.since) is False:
        raise UsageError(f"--until {until} is before --since {since}")
    return window


def moment(text: str) -> Moment:
    """A time as typed.

    `2026-11-20 03:35[:43][Z]`, an epoch, `03:35[:43]` of the recording's day, or seconds since boot.
    """
    plain = text.strip()
    if (found := _DAYTIME.match(plain)) and (seconds := day_seconds(found[1] + (found[2] or ":00"))) is not None:
        return Moment(seconds, Clock.DAY)
    if known := stamp(plain) or stamp(f"{plain}:00") or stamp(_SHORT.sub(r"\1:00\2", plain)):
        return known
    if found := _UPTIME.match(plain):
        return Moment(float(found[1]), Clock.BOOT)
    raise UsageError(f"'{text}' is no time; write 2026-11-20 03:35:43, 03:35:43, an epoch, or seconds since boot")


def inside(records: Sequence[Record], window: Window | None, process: str, joins: Sequence[Join] = ()) -> list[Record]:
    """The records that take part."""
    kept: Iterable[Record] = records
    if process:
        kept = [r for r in kept if not isinstance(r, (Sample, Series)) or r.kind != "process" or _is(r, process)]
    if window is None:
        return list(kept)
    return [part for r in kept if (part := _part(r, window, joins)) is not None]


def unplaced(records: Iterable[Record], window: Window | None, joins: Sequence[Join] = ()) -> list[Problem]:
    """What is said of recordings that take part whole, for nobody knows when they were made. A snapshot is none."""
    if window is None:
        return []
    rows: Counter[tuple[object, ...]] = Counter()
    whole: dict[str, None] = {}
    for record in records:
        member = record.cite.member
        if isinstance(record, Profile) and not _placed(record, window, joins):
            whole[member] = None
        elif isinstance(record, (Sample, Series)) and not _row_placed(record, window, joins):
            key = (member, record.reader, record.kind, record.entity)
            rows[key] += len(record) if isinstance(record, Series) else 1
            if rows[key] > 1:
                whole[member] = None
    return [Problem(Citation(member), UNPLACED) for member in whole]


def _row_placed(row: Sample | Series, window: Window, joins: Sequence[Join]) -> bool:
    time = begun(row)
    return time is not None and window.places(time, of_one_boot(joins, row.cite))


def _placed(profile: Profile, window: Window, joins: Sequence[Join]) -> bool:
    start = profile.start if profile.has_time else None
    return start is not None and window.places(start, joins_of(profile, joins))


def _is(sample: Sample | Series, process: str) -> bool:
    labels = dict(sample.entity)
    return process in (labels.get("pid"), labels.get("comm"))


def _part(record: Record, window: Window, joins: Sequence[Join]) -> Record | None:
    if isinstance(record, Profile):
        return _cut(record, window, joins_of(record, joins))
    if isinstance(record, Series):
        return window.rows(record)
    time = record.time if isinstance(record, (Sample, Event)) else None
    return None if time is not None and not window.may_hold(time, of_one_boot(joins, record.cite)) else record


def _cut(profile: Profile, window: Window, joins: Sequence[Join]) -> Profile | None:
    """The rows of a profile whose time bins are inside."""
    if profile.start is None or not profile.has_time:
        return profile
    import numpy as np

    bins, start = np.unique(profile.rows.bin).tolist(), profile.start
    outside = [b for b in bins if b != UNKNOWN and not window.may_hold(start.plus(b * BIN), joins)]
    if not outside:
        return profile
    rows = profile.rows.only(~np.isin(profile.rows.bin, outside))
    return replace(profile, rows=rows) if len(rows) else None
