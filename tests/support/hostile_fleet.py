"""A fleet in which every string that a customer or a child process controls is hostile."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any

from small_fleets import bundle
from test_hostile_words import MARK, WORDS
from thpdiag.store.results import BundleResult

HOSTS = 2 * len(WORDS)
OPTIONS = {f"{MARK}<b>": f"{MARK}</style><script>alert(1)</script>\u202e"}


def hostile_fleet() -> list[BundleResult]:
    """Return hosts with two bundles, so that they have changes; some failed, some are outliers."""
    words = (MARK + word for word in cycle(WORDS))
    return [_bundle(number, words) for number in range(HOSTS)]


def _bundle(number: int, words: Iterator[str]) -> BundleResult:
    path, status, reason = next(words), next(words), next(words)
    if number % 9 == 8:
        return bundle(number, path=path, status=status, reason=reason)
    more = {"status": "partial", "reason": reason} if number % 9 == 7 else {}
    return bundle(number, _document(number, words), path=path, **more)


def _document(number: int, words: Iterator[str]) -> dict[str, Any]:
    name = f"{MARK}{WORDS[number // 2]}"
    told = {key: next(words) for key in ("rule", "mechanism", "sentence", "state")}
    severity = "high" if number % 3 else next(words)
    verdict = {"status": "found", "severity": severity, "confidence": next(words), **told}
    if number % 5 == 4:
        verdict = {"status": next(words), "sentence": next(words)}
    settings = {"thp.enabled": {"value": next(words) if number % 20 == 3 else "always", "provenance": "measured"},
                f"thp.{MARK}<script>": {"value": str(number % 30 == 4), "provenance": "measured"}}  # fmt: skip
    stalls = 5e299 if number == 11 else -1.0 if number == 13 else 1.0 + number / 100
    unit = "1/s" if number % 10 else next(words)
    return {
        "case": next(words), "verdict": verdict, "findings": [{**verdict, "fingerprint": next(words)}],
        "host": {
            "name": name, "kernel": next(words), "os": next(words), "platform": "el8" if number % 2 else next(words),
            "era": next(words) if number % 7 == 6 else "E6", "apps": [next(words) for _ in range(number % 3)],
            "settings": settings, "measures": {"node_vmstat_compact_stall": {"value": stalls, "unit": unit}},
        },
        "timeline": {"series": [{"clock": "utc", "points": [[1_793_491_200 + 86_400 * (number % 2), 0, 0, 0]]}]},
    }  # fmt: skip
