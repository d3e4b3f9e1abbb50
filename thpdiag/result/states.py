"""The state of a host by its settings, as people would name it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from thpdiag.diagnosis import DECISIVE

UNKNOWN = "settings not in the input"


def state_words(settings: Mapping[str, object]) -> str:
    """`thp.defrag madvise, thp.enabled always`."""
    return ", ".join(f"{name} {value}" for name, value in _decisive(settings)) or UNKNOWN


def short_words(settings: Mapping[str, object]) -> str:
    """`defrag madvise, enabled always`; empty where neither is known."""
    return ", ".join(f"{name.removeprefix('thp.')} {value}" for name, value in _decisive(settings))


def _decisive(settings: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    return ((name, settings[name]) for name in sorted(DECISIVE) if name in settings)
