"""The few figures of a host that every report shows, each with unit, window and source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thpdiag.derive.rates import growth, rates, watched
from thpdiag.derive.series import Track
from thpdiag.engine.judged import Scene
from thpdiag.knowledge.vocabulary import term
from thpdiag.result.states import short_words

LEVELS = (
    "cpu_ratio.sys_total", "cpu_ratio.sys_total_steal", "cpu_ratio.sys_share", "cpu_ratio.softirq", "cpu_ratio.iowait",
    "cpu_ratio.steal", "cpu_ratio.busy", "cpu_ratio.user_total", "node_vmstat_pgfault:rate",
)  # fmt: skip
RATES = (
    "node_vmstat_compact_stall", "node_vmstat_compact_fail", "node_vmstat_thp_fault_alloc",
    "node_vmstat_thp_fault_fallback", "node_vmstat_thp_collapse_alloc", "node_allocstall_total",
    "node_vmstat_pgfault", "node_vmstat_pgalloc_normal",
)  # fmt: skip
LAST = ("node_memory_AnonHugePages_bytes", "node_memory_MemTotal_bytes", "node_memory_MemFree_bytes")


def measures(all_scenes: Sequence[Scene]) -> dict[str, Any]:
    """Means, rates and latest values by metric; of several states each has its own line."""
    found: dict[str, Any] = {}
    for scene in all_scenes:
        suffix = f" [{short_words(scene.state.settings) or scene.state.id}]" if len(all_scenes) > 1 else ""
        for metric in (*LEVELS, *RATES, *LAST):
            tracks = scene.catalogue.tracks(metric)
            if tracks:
                found[f"{metric}{suffix}"] = _measure(tracks[0])
    return found


def _measure(track: Track) -> dict[str, Any]:
    known = term(track.metric)
    unit = known.unit if known else ""
    if track.metric in LEVELS:
        mean = float(track.points.values.mean()) if len(track) > 1 else track.last
        value, window = mean, f"mean of {len(track)} samples"
    elif track.metric in LAST:
        value, window = track.last, "latest"
    elif (total := growth(track)) is None:
        value, unit, window = track.last, "1", "since boot"
    elif seconds := watched(track):
        value, unit, window = total / seconds, "1/s", f"over {seconds:.0f} s"
    else:
        value, unit, window = total, "1", f"growth over {len(track)} samples"
    return {
        "value": _round(value), "unit": unit, "window": window, "source": str(track.cite(0)), **_spread(track, unit),
    }  # fmt: skip


def _spread(track: Track, unit: str) -> dict[str, Any]:
    """Of how many samples a level or a rate is, and how far they lie apart: a comparison must know what is noise."""
    if len(track) < 2 or (track.metric in RATES and unit != "1/s"):
        return {}
    points = rates(track) if track.metric in RATES else track.points
    if points is None or not len(points):
        return {}
    values = points.values
    return {
        "samples": len(values), "min": _round(float(values.min())), "max": _round(float(values.max())),
        "deviation": _round(float(values.std())),
    }  # fmt: skip


def _round(value: float) -> float:
    return float(f"{value:.6g}")
