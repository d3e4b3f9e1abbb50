"""The time, which tests give themselves: seconds since 1970 in UTC."""

from __future__ import annotations

from collections.abc import Callable

Clock = Callable[[], float]
DAY = 86_400.0
