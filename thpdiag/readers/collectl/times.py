"""When collectl printed a row at a terminal: the time before it, with -oT, -oD or -od.

    10:33:08 ...        20261120 10:33:08.004 ...        11/20 10:33:08 ...

The host's wall clock; only -oD tells the year. Source: collectl formatit.ph, 3.5 to 4.3.
"""

from __future__ import annotations

import re

from thpdiag.model import Clock, Moment
from thpdiag.readers.elements.daytime import DayClock, date_seconds, day_seconds

TIME = re.compile(r"(?:(\d{8}|\d\d/\d\d)\s+)?(\d\d:\d\d:\d\d(?:\.\d+)?)\s+")
WAITING = re.compile(r"waiting for (\d+(?:\.\d+)?) second sample")  # the first line, without a row


def when(found: re.Match[str], days: DayClock) -> Moment | None:
    """The moment of what `TIME` found; `days` counts midnights where there is no date with a year."""
    date, clock = found.groups()
    seconds = day_seconds(clock)
    if seconds is None:
        return None
    if date and len(date) == 8:
        midnight = date_seconds(int(date[:4]), int(date[4:6]), int(date[6:]))
        return None if midnight is None else Moment(midnight + seconds, Clock.LOCAL)
    return days.at(seconds)
