"""What two documents are compared by: levels, rates and shares of one host, each with its samples and their spread.

Only what was measured over time: a total since boot says nothing about now, and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, pstdev
from typing import Any, TypeGuard

Host = Mapping[str, Any]  # a completed result document of one host

SHARE = "stacks:"  # begins the name of a share of call stacks
UNUSABLE = "free memory in blocks too small for a huge page"
_MOST = 1e100
HUGE_ORDER = 9  # 2 MiB of 4 KiB pages
_SETTINGS = (("thp.defrag", "defrag"), ("thp.enabled", "enabled"))


@dataclass(frozen=True, slots=True)
class Figure:
    """A value in a base unit. `samples` is None where the document does not say how many there were."""

    name: str
    value: float
    unit: str
    samples: int | None = None
    low: float | None = None
    high: float | None = None
    deviation: float | None = None
    member: str = ""
    line: int | None = None

    @property
    def error(self) -> float | None:
        """The standard error of the value; None if it cannot be told."""
        if self.samples is None or self.deviation is None:
            return None
        return self.deviation / sqrt(max(self.samples - 1, 1))  # `deviation` is that of these samples alone


def figures(host: Host) -> dict[str, Figure]:
    """By name: measures of the state that the verdict is about, shares of call stacks, free memory by size."""
    found = {figure.name: figure for figure in (*_drawn(host), *_measures(host), *_shares(host))}
    unusable = _unusable(host["host"]["free_blocks"])
    return found | ({unusable.name: unusable} if unusable else {})


def numeric(value: object) -> TypeGuard[float]:
    """Whether it is a number that can be compared; neither NaN nor beyond what scaling bears."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_MOST < value < _MOST


def states(host: Host) -> list[str]:
    """The names of the states of settings that measures tell apart; none if there is only one."""
    return list(dict.fromkeys(name.partition(" [")[2][:-1] for name in host["host"]["measures"] if " [" in name))


def state(host: Host) -> str:
    """The state that the settings of the document are of; empty if there is only one."""
    known, settings = states(host), host["host"]["settings"]
    own = ", ".join(f"{short} {settings[name]['value']}" for name, short in _SETTINGS if name in settings)
    fitting = [label for label in known if label == own]
    fitting += [label for label in known if label and all(part in own.split(", ") for part in label.split(", "))]
    return next(iter(fitting), known[-1] if known else "")


def _measures(host: Host) -> Iterator[Figure]:
    chosen = state(host)
    for key, measure in host["host"]["measures"].items():
        name, _, label = key.partition(" [")
        value, window = measure["value"], measure["window"] or ""
        over_time = window not in ("since boot", "") and not window.startswith("growth over")
        if numeric(value) and over_time and label[:-1] == chosen:
            member, line = _place(measure["source"] or "")
            yield Figure(
                name, float(value), measure["unit"] or "", **_spread(host, name, measure), member=member, line=line
            )


def _drawn(host: Host) -> Iterator[Figure]:
    """Levels and rates of the whole host that only the timeline has: documents of older versions tell the load so."""
    if states(host):
        return
    for series in host["timeline"]["series"]:
        means = [row[3] for row in series["points"] if numeric(row[3])]
        if series["entity"] or series["unit"] not in ("ratio", "1/s") or not means or series["panel"] == "call_stacks":
            continue
        member, line = _place(series["source"] or "")
        name = series["metric"].removesuffix(":rate")
        spread = len(means), min(means), max(means), pstdev(means)
        yield Figure(name, fmean(means), series["unit"], *spread, member, line)


def _spread(host: Host, name: str, measure: Mapping[str, Any]) -> dict[str, Any]:
    """The spread of a measure; of a document that does not tell it, that of the points of its timeline."""
    keys = ("samples", "min", "max", "deviation")
    if all(numeric(measure[key]) for key in keys):
        return {
            "samples": measure["samples"],
            "low": measure["min"],
            "high": measure["max"],
            "deviation": measure["deviation"],
        }
    for series in host["timeline"]["series"]:
        if (
            series["metric"].removesuffix(":rate") == name.removesuffix(":rate")
            and series["source"] == measure["source"]
        ):
            means = [row[3] for row in series["points"] if numeric(row[3])]
            if means:
                return {"samples": len(means), "low": min(means), "high": max(means), "deviation": pstdev(means)}
    return {}


def _place(source: str) -> tuple[str, int | None]:
    """`member:line` apart."""
    member, sign, line = source.rpartition(":")
    return (member, int(line)) if sign and line.isascii() and line.isdigit() and len(line) < 19 else (source, None)


def _shares(host: Host) -> Iterator[Figure]:
    """The share of each family of functions in the recordings, those with more samples weighing more.

    A family that a recording does not show had no sample in it.
    """
    recorded = [profile for profile in _recorded(host)]
    counts = [profile["samples"] or 0 for profile in recorded]
    for name in sorted({name for profile in recorded for name in profile["families"]}):
        shares = [float(profile["families"].get(name, 0.0)) for profile in recorded]
        share = sum(s * n for s, n in zip(shares, counts, strict=True)) / sum(counts) if sum(counts) else fmean(shares)
        yield _share(name, share, sum(counts), recorded[0])


def absent_share(host: Host, name: str) -> Figure | None:
    """The share of a family that no recording shows: none of its samples, if there are recordings."""
    recorded = _recorded(host)
    if not recorded:
        return None
    return _share(name.removeprefix(SHARE), 0.0, sum(profile["samples"] or 0 for profile in recorded), recorded[0])


def _recorded(host: Host) -> list[Mapping[str, Any]]:
    return [
        profile
        for profile in host["profiles"]
        if profile["families"] and (profile["samples"] is None or profile["samples"] > 0)
    ]


def _share(name: str, share: float, samples: int, profile: Mapping[str, Any]) -> Figure:
    """With the spread that a share of so many samples has by chance; one sample more or less is always thinkable."""
    if not samples:
        return Figure(SHARE + name, share, "ratio", member=profile["member"] or "", line=profile["line"])
    likely = (share * samples + 1) / (samples + 2)
    deviation = sqrt(likely * (1 - likely))
    member, line = profile["member"] or "", profile["line"]
    return Figure(SHARE + name, share, "ratio", samples, None, None, deviation, member, line)


def _unusable(rows: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Of the zone with most memory the free share in blocks smaller than a huge page, when it was read last."""
    free = [(sum(_pages(row["counts"])), row) for row in rows]
    total, row = max(free, key=lambda pair: pair[0], default=(0, {}))
    if not total:
        return None
    last = [other for other in rows if (other["node"], other["zone"]) == (row["node"], row["zone"])][-1]
    pages = list(_pages(last["counts"]))
    if not sum(pages):
        return None
    small = sum(pages[:HUGE_ORDER]) / sum(pages)
    return Figure(UNUSABLE, small, "ratio", member=last["member"] or "", line=last["line"])


def _pages(counts: Iterable[int]) -> Iterator[int]:
    return (count << order for order, count in enumerate(counts) if order < 64)
