"""Numbers and times as people read them: 93.8 %, 24.0 GiB, 10:33:08."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def quantity(value: object, unit: str | None = None) -> str:
    """A value in a base unit of the vocabulary. Text stays text, None is `unknown`."""
    if value is None:
        return "unknown"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    try:
        return _number(float(value), unit or "") if math.isfinite(value) else "unknown"
    except OverflowError:  # an integer beyond any float
        return "out of range"


def percent(share: float) -> str:
    """A share of 1 as percent, with as many digits as tell."""
    return f"{100 * share:.2f} %" if 0 < abs(share) < 0.01 else f"{100 * share:.1f} %"


def duration(seconds: float) -> str:
    """Seconds in the two largest units that fit."""
    if not math.isfinite(seconds) or abs(seconds) < 60:
        return f"{seconds:.3g} s"
    whole = round(abs(seconds))
    days, hours, minutes = whole // _DAY, whole // 3600 % 24, whole // 60 % 60
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (whole % 60, "s")]
    first = next(place for place, (count, _) in enumerate(parts) if count)
    shown = " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count)
    return f"-{shown}" if seconds < 0 else shown


def moment(seconds: float | None, clock: str | None) -> str:
    """A time on one of the model's clocks; without a clock it is a sample number."""
    if seconds is None or not math.isfinite(seconds):
        return "unknown"
    if clock in {"utc", "local"}:
        return _date(seconds) + (" UTC" if clock == "utc" else "")
    if clock == "day":
        whole = math.floor(seconds)
        day = f" (+{whole // _DAY} d)" if whole >= _DAY else ""
        return f"{whole // 3600 % 24:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}{day}"
    if clock == "session":
        return f"{seconds:.0f} s into the session"
    return f"{seconds:.1f} s after boot" if clock == "boot" else f"sample {seconds:g}"


def span(first: float, last: float, clock: str | None) -> str:
    """Two times; the date once where both are of one day, one time where they read the same."""
    begin, end = moment(first, clock), moment(last, clock)
    if begin == end:
        return begin
    day, blank, hour = end.partition(" ")
    if clock in {"utc", "local"} and blank and begin.startswith(f"{day} "):
        return f"{begin.removesuffix(' UTC')} to {hour}"
    return f"{begin} to {end}"


def _date(seconds: float) -> str:
    try:
        return f"{_EPOCH + timedelta(seconds=math.floor(seconds)):%Y-%m-%d %H:%M:%S}"
    except OverflowError:  # a clock gone wild
        return f"{seconds:g} s"


def _number(value: float, unit: str) -> str:
    if unit == "ratio":
        return percent(value)
    if unit in {"bytes", "bytes/s"}:
        return _bytes(value) + unit.removeprefix("bytes")
    if unit == "seconds":
        return duration(value)
    plain = f"{value:,.0f}" if value.is_integer() or abs(value) >= 1000 else f"{value:.3g}"
    return plain if unit in {"", "1"} else f"{plain} {unit}".replace(" 1/s", "/s")


def _bytes(value: float) -> str:
    step = min(int(math.log2(abs(value)) // 10), len(_BINARY) - 1) if abs(value) >= 1 else 0
    return f"{value / 1024**step:.{1 if step else 0}f} {_BINARY[step]}"
