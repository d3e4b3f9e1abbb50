"""The time that hurt, as the user names it: `--since`, `--until`, `--at`; and the one process (`--process`).

Records with a time outside the window take no part. Records without a time, or on another clock than the window's,
stay: they cannot be placed. Times since boot are compared with a window of the wall clock where something joins the two
(`thpdiag.derive.boot_clock`); what may be inside, as far as the join is uncertain, stays too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from thpdiag.bundle.stamps import stamp
from thpdiag.derive.boot_clock import DAY, Join, join_of
from thpdiag.errors import UsageError
from thpdiag.model import Citation, Clock, Event, Moment, Problem, Profile, Record, Sample, Series
from thpdiag.model.profile import BIN, UNKNOWN
from thpdiag.readers.daytime import day_seconds

UNPLACED = "takes part whole: nothing joins its times to those of --since, --until or --at"
AROUND = 300.0  # seconds before and after `--at`
_DAYTIME = re.compile(r"(\d{1,2}:\d\d)(:\d\d)?$")
_UPTIME = re.compile(r"(\d+(?:\.\d+)?)$")


@dataclass(frozen=True, slots=True)
class Window:
    """From `since` to `until`, either open.

    Both are on one clock; wall clocks with and without zone compare as equal. A time of day means every day.
    """

    since: Moment | None = None
    until: Moment | None = None

    def holds(self, moment: Moment, within: float = 0.0) -> bool | None:
        """Whether the moment, right to `within` seconds, may be inside; None if its clock is another one."""
        for bound, sign in ((self.since, 1), (self.until, -1)):
            if bound is None:
                continue
            at = _on(bound.clock, moment, self._middle)
            if at is None:
                return None
            if (at - bound.seconds) * sign < -within:
                return False
        return True

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


def _on(clock: Clock, moment: Moment, middle: float) -> float | None:
    """The moment's seconds on a window's clock, None if nothing joins the two."""
    if moment.clock is clock or {moment.clock, clock} == {Clock.UTC, Clock.LOCAL}:
        return moment.seconds
    if clock is Clock.DAY and moment.clock in (Clock.UTC, Clock.LOCAL):
        return (moment.seconds - middle + DAY / 2) % DAY + middle - DAY / 2
    return None


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

    `2026-11-20 03:35[:43]`, an epoch, `03:35[:43]` of the recording's day, or seconds since boot.
    """
    plain = text.strip()
    if (found := _DAYTIME.match(plain)) and (seconds := day_seconds(found[1] + (found[2] or ":00"))) is not None:
        return Moment(seconds, Clock.DAY)
    if known := stamp(plain) or stamp(f"{plain}:00"):
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
    """What is said of recordings of stacks that take part whole, for nobody knows when they were made."""
    profiles = [record for record in records if isinstance(record, Profile)] if window else []
    whole = dict.fromkeys(p.cite.member for p in profiles if window and not _placed(p, window, joins))
    return [Problem(Citation(member), UNPLACED) for member in whole]


def _placed(profile: Profile, window: Window, joins: Sequence[Join]) -> bool:
    start = profile.start if profile.has_time else None
    return start is not None and window.places(start, join_of(profile, joins))


def _is(sample: Sample | Series, process: str) -> bool:
    labels = dict(sample.entity)
    return process in (labels.get("pid"), labels.get("comm"))


def _part(record: Record, window: Window, joins: Sequence[Join]) -> Record | None:
    if isinstance(record, Profile):
        return _cut(record, window, join_of(record, joins))
    if isinstance(record, Series):
        return _rows(record, window, joins)
    time = record.time if isinstance(record, (Sample, Event)) else None
    return None if time is not None and not window.may_hold(time, joins) else record


def _rows(series: Series, window: Window, joins: Sequence[Join]) -> Series | None:
    """The rows that may be inside."""
    import numpy as np

    times = (series.time(number) for number in range(len(series)))
    keep = np.fromiter((time is None or bool(window.may_hold(time, joins)) for time in times), np.bool_, len(series))
    return series.only(keep) if keep.any() else None


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
