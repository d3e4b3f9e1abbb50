"""The timeline of the result document.

Series in at most 1,500 buckets each and 6,000 in all, by the panel of the chart that they belong to; episodes that
checks found; operator actions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from thpdiag.derive.boot_clock import Join, joins
from thpdiag.derive.catalogue import Catalogue
from thpdiag.derive.rates import rates
from thpdiag.derive.series import Points, Track
from thpdiag.diagnosis import Diagnosis
from thpdiag.engine.judged import Scene
from thpdiag.engine.wording import spelled
from thpdiag.knowledge.vocabulary import term
from thpdiag.model.moment import Clock
from thpdiag.result.recorded import beside_others
from thpdiag.result.signatures import Signature
from thpdiag.result.signatures import series as over_time

MOST_BUCKETS = 1500  # of a series
LEAST_BUCKETS = 200  # of a series among many
ALL_BUCKETS = 6000  # of a document: a page holds them all
OF_HOST: Mapping[str, tuple[str, ...]] = {
    "cpu": (
        "cpu_ratio.sys_total", "cpu_ratio.sys_total_steal", "cpu_ratio.user_total", "cpu_ratio.softirq",
        "cpu_ratio.iowait",
    ),
    "huge_pages": (
        "node_vmstat_compact_stall", "node_vmstat_compact_fail", "node_vmstat_thp_fault_alloc",
        "node_vmstat_thp_fault_fallback", "node_vmstat_thp_collapse_alloc",
    ),
    "memory": ("node_memory_AnonHugePages_bytes", "node_memory_MemFree_bytes"),
}  # fmt: skip
HOW = {
    "prompt": "wrote", "prose": "the text shows a write of", "no-effect": "tried in vain to write",
    "failed": "failed to write", "sudo-redirect": "tried in vain (shell redirection without root) to write",
}  # fmt: skip
BLOCKS = "node_buddyinfo_blocks_order{}"
ORDERS = 11  # 0 to 10, more than most kernels have
_VIRTUAL = "process_virtual_memory_bytes"
OF_PROCESSES = ("process_resident_memory_bytes", _VIRTUAL, "process_faults_total")
MOST_PROCESSES = 3
_PID = re.compile(r"([0-9]+)\)?\Z")
_ZONE = 900  # seconds: time zones differ by whole quarters of an hour
_BEGUN_TOGETHER = 30  # seconds


def timeline(diagnosis: Diagnosis, all_scenes: Sequence[Scene], seen: Sequence[Signature] = ()) -> dict[str, Any]:
    """Series with times, of the metrics a reader of the report looks for first, and of what findings saw in stacks."""
    known = joins(diagnosis.case.facts)
    signed = [over_time(one, known) for one in seen]
    signed = [told for told in signed if len(told["points"]) > 1]  # one point is no course
    tracks = [(panel, track) for scene in all_scenes for panel, track in _tracks(scene.catalogue)]
    most = max(LEAST_BUCKETS, min(MOST_BUCKETS, ALL_BUCKETS // max(1, len(tracks))))
    series = [told | {"panel": "call_stacks"} for told in signed]
    series += [_series(track, most) | {"panel": panel} for panel, track in tracks]
    return {"series": series, "episodes": _episodes(diagnosis, seen, known), "actions": _actions(diagnosis)}


def _tracks(catalogue: Catalogue) -> Iterator[tuple[str, Track]]:
    """What is drawn of a state, by panel: of the host, of the processes that grew most, of the largest zone."""
    for panel, metrics in OF_HOST.items():
        for metric in metrics:
            tracks = [t for t in catalogue.tracks(metric) if t.timed and len(t) > 1]
            tracks.sort(key=_still)
            yield from ((panel, t) for t in tracks[:1])
    threads = {t.name for t in catalogue.tracks(_VIRTUAL) if not t.column.any()}  # of the kernel: no memory
    for metric in OF_PROCESSES:
        tracks = [t for t in catalogue.tracks(metric) if t.timed and len(t) > 2]
        tracks = [t for t in tracks if t.name not in threads] or tracks  # none but those tells that no program ran
        tracks = list(_one_source(sorted(tracks, key=_nameless)))
        tracks.sort(key=lambda t: (-_moved(t), -t.last, t.name))  # what stands still: the largest
        yield from (("processes", t) for t in tracks[:MOST_PROCESSES])
    zones = [t for t in catalogue.tracks(BLOCKS.format(0)) if t.timed and len(t) > 1]
    if zones:
        largest = max(zones, key=lambda t: (_free(catalogue, t), t.name))
        yield from (("free_blocks", track) for track in _orders(catalogue, largest))


def _one_source(tracks: Iterable[Track]) -> Iterator[Track]:
    """Of sources that watched one process at one time the first; others say the same again.

    Of two with other clocks (top tells the time of day only) that is so if they began together, but for the time zone.
    """
    seen: list[tuple[str, Clock | None, float, float]] = []
    for track in tracks:
        times = track.points.index
        if not len(times):
            continue
        one = (_process(track), track.table.clock, float(times[0]), float(times[-1]))
        if not any(_together(one, other) for other in seen):
            seen.append(one)
            yield track


def _together(one: tuple[str, Clock | None, float, float], other: tuple[str, Clock | None, float, float]) -> bool:
    name, clock, first, last = one
    if name != other[0]:
        return False
    if clock is other[1]:
        return first <= other[3] and other[2] <= last
    apart = (first - other[2] + _ZONE / 2) % _ZONE - _ZONE / 2
    return Clock.BOOT not in (clock, other[1]) and abs(apart) <= _BEGUN_TOGETHER


def _process(track: Track) -> str:
    """The process id: `churn (4711)` of one source is `process 4711` of another."""
    found = _PID.search(track.name)
    return found[1] if found else track.name


def _nameless(track: Track) -> tuple[bool, bool]:
    """Sources that tell the name of the process and the date come first."""
    return track.name.startswith("process "), track.table.clock is Clock.DAY


def _orders(catalogue: Catalogue, zone: Track) -> Iterator[Track]:
    """The free blocks of each order in the zone of a track, by the same source."""
    for order in range(ORDERS):
        tracks = catalogue.tracks(BLOCKS.format(order))
        yield from (t for t in tracks if t.table is zone.table)


def _free(catalogue: Catalogue, zone: Track) -> float:
    """The free pages of a zone in its last sample."""
    return sum((track.last * 2.0**order for order, track in enumerate(_orders(catalogue, zone))), 0.0)


def _moved(track: Track) -> float:
    values = track.points.values
    return float(values.max() - values.min())


def _still(track: Track) -> tuple[bool, bool]:
    """Sources that move come first, for vmstat 4.0.0 to 4.0.2 repeats the memory of its first row; then dated ones."""
    return not _moved(track), track.table.clock is Clock.DAY


def _series(track: Track, most: int) -> dict[str, Any]:
    known = term(track.metric)
    counter = known is not None and known.kind == "counter"
    points = rates(track) if counter else track.points
    clock = track.table.clock
    unit = "1/s" if counter else (known.unit if known else "")
    return {
        "metric": f"{track.metric}{':rate' if counter else ''}", "means": spelled([track.metric]), "unit": unit,
        "source": str(track.cite(0)),
        **({"entity": track.name} if track.name else {}), **({"clock": clock.value} if clock else {}),
        "points": buckets(points, most) if points is not None else [],
    }  # fmt: skip


def buckets(points: Points, most: int = MOST_BUCKETS) -> list[list[float]]:
    """[time, min, max, mean] per bucket, values to four digits; a bucket is one sample while there are few enough."""
    if not len(points):
        return []
    import numpy as np

    size = -(-len(points) // most)
    values, starts = points.values, np.arange(0, len(points), size)
    columns = (
        points.index[starts],
        np.minimum.reduceat(values, starts),
        np.maximum.reduceat(values, starts),
        np.add.reduceat(values, starts) / np.diff(starts, append=len(values)),
    )
    return [
        [float(f"{at:.12g}"), *(float(f"{v:.4g}") for v in values)]
        for at, *values in zip(*(c.tolist() for c in columns), strict=True)
    ]


def _episodes(diagnosis: Diagnosis, seen: Sequence[Signature], known: Sequence[Join]) -> list[dict[str, Any]]:
    """Stretches that findings speak of; what began while recording stacks, from then on."""
    onsets = {by: s.onset.at for s in seen if s.onset for by in s.spoken_by}
    recordings = {(p.cite.member, p.start, p.end): p for state in diagnosis.case.states for p in state.profiles}
    found = []
    for finding in diagnosis.findings:
        for evidence in finding.outcome.evidence:
            if evidence.window:
                first, last = evidence.window
                recording = recordings.get((evidence.cite.member if evidence.cite else "", first, last))
                first = onsets.get((finding.outcome.rule, evidence.check), first)
                if recording and (placed := beside_others(recording, known)):
                    first, last = placed[0].wall(first), placed[0].wall(last)
                found.append(
                    {"from": first.seconds, "to": last.seconds, "clock": first.clock.value, "text": evidence.text,
                     "rule": finding.outcome.rule}
                )  # fmt: skip
    return found


def _actions(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    found = []
    for event in diagnosis.case.events:
        how = event.fields.get("how", "prompt")
        text = f"{HOW.get(how, how)} {event.fields.get('value', '')} to {event.fields.get('path', '')}"
        time = {"t": event.time.seconds, "clock": event.time.clock.value} if event.time else {}
        line = {"line": event.cite.line} if event.cite.line is not None else {}
        found.append({**time, "text": text, "member": event.cite.member, **line})
    return found
