"""Numbers and times formatted for people: 93.8 %, 24.0 GiB, 10:33:08."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def quantity(value: object, unit: str | None = None) -> str:
    """Format a value in a base unit of the vocabulary. Text is returned unchanged, None is `unknown`."""
    if value is None:
        return "unknown"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    try:
        return _number(float(value), unit or "") if math.isfinite(value) else "unknown"
    except OverflowError:  # an integer larger than any float
        return "out of range"


def percent(share: float) -> str:
    """Format a share of 1 as percent, with two decimals below 1 %."""
    return f"{100 * share:.2f} %" if 0 < abs(share) < 0.01 else f"{100 * share:.1f} %"


def duration(seconds: float) -> str:
    """Format seconds in the two largest units that are not zero."""
    if not math.isfinite(seconds) or abs(seconds) < 60:
        return f"{seconds:.3g} s"
    total = round(abs(seconds))
    days, hours, minutes = total // _DAY, total // 3600 % 24, total // 60 % 60
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (total % 60, "s")]
    first = next(place for place, (count, _) in enumerate(parts) if count)
    shown = " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count)
    return f"-{shown}" if seconds < 0 else shown


def moment(seconds: float | None, clock: str | None) -> str:
    """Format a time on one of the clocks of the model; without a clock it is a sample number."""
    if seconds is None or not math.isfinite(seconds):
        return "unknown"
    if clock in {"utc", "local"}:
        return _date(seconds) + (" UTC" if clock == "utc" else "")
    if clock == "day":
        second = math.floor(seconds)
        day = f" (+{second // _DAY} d)" if second >= _DAY else ""
        return f"{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}{day}"
    if clock == "session":
        return f"{seconds:.0f} s into the session"
    return f"{seconds:.1f} s after boot" if clock == "boot" else f"sample {seconds:g}"


def span(first: float, last: float, clock: str | None) -> str:
    """Format two times: the date once if both are on one day, a single time if both texts are equal."""
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
    except OverflowError:  # beyond the range of datetime
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
