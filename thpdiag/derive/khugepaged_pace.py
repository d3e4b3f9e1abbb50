"""The pace of khugepaged in pages per second, by its settings: pages_to_scan, then a pause of scan_sleep_millisecs.

By default 4096 pages every 10 s. More pages with a longer pause in proportion are the same pace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from thpdiag.model import Fact

_PAGES, _PAUSE = "thp.khugepaged.pages_to_scan", "thp.khugepaged.scan_sleep_millisecs"
_LEAST = 1.0  # milliseconds that are taken for no pause at all


def scan_rate(facts: Iterable[Fact]) -> Iterator[Fact]:
    """thp.khugepaged.scan_rate in pages per second, where the kernel shows both settings."""
    numbers = (f for f in facts if not f.provenance and not isinstance(f.value, str))
    told = {f.name: f for f in numbers if f.name in (_PAGES, _PAUSE)}
    if len(told) == 2:
        pages, pause = float(told[_PAGES].value), float(told[_PAUSE].value)
        rate = pages * 1000 / max(pause, _LEAST)
        yield Fact("thp.khugepaged.scan_rate", round(rate, 1), told[_PAUSE].cite)
