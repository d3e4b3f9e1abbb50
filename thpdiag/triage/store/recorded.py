"""When the data of a host was recorded, as far as its document tells: the last time that anything in it has."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

_SPOKEN: Final = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.\d+)? (UTC|local time)", re.ASCII)
_ZONE: Final = {"utc": "Z", "local": "", "UTC": "Z", "local time": ""}
_EARLIEST, _LATEST = 631_152_000.0, 4_102_444_800.0  # 1990 and 2100: a clock beyond tells nothing


def recorded(document: Mapping[str, Any]) -> str | None:
    """`2026-11-20T11:55:51Z`; without the Z it is the host's local time, of which nobody knows the zone.

    None if nothing has a date: counters since boot, a clock of the day or of the boot. Of times of both kinds UTC
    counts. It comes from the time line (the last bucket of any series), from recordings and from lists of free blocks.
    """
    found = {*_series(document), *_recordings(document), *_free_blocks(document)}
    in_utc = [told for told in found if told.endswith("Z")]
    return max(in_utc or found, default=None)


def _series(document: Mapping[str, Any]) -> Iterator[str]:
    for one in _mappings(_mapping(document.get("timeline")).get("series")):
        points = one.get("points")
        last = points[-1] if isinstance(points, list) and points else None
        yield from _iso(last[0] if isinstance(last, list) and last else None, one.get("clock"))


def _recordings(document: Mapping[str, Any]) -> Iterator[str]:
    for one in _mappings(document.get("profiles")):
        yield from _iso(one.get("last"), one.get("clock"))


def _free_blocks(document: Mapping[str, Any]) -> Iterator[str]:
    for one in _mappings(_mapping(document.get("host")).get("free_blocks")):
        said = _SPOKEN.fullmatch(str(one.get("when", "")))
        if said:
            yield f"{said[1]}T{said[2]}{_ZONE[said[3]]}"


def _iso(seconds: object, clock: object) -> Iterator[str]:
    if clock in ("utc", "local") and isinstance(seconds, int | float) and _EARLIEST <= seconds <= _LATEST:
        yield f"{datetime.fromtimestamp(math.floor(seconds), UTC):%Y-%m-%dT%H:%M:%S}{_ZONE[str(clock)]}"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []
