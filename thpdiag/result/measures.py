"""The few figures of a host that every report shows, each with unit, window and source."""

from __future__ import annotations

from typing import Any

from thpdiag.derive.rates import growth
from thpdiag.derive.series import Track
from thpdiag.diagnosis import Diagnosis
from thpdiag.engine.scenes import scenes
from thpdiag.knowledge.vocabulary import term

LEVELS = (
    "cpu_ratio.sys_total", "cpu_ratio.sys_total_steal", "cpu_ratio.sys_share", "cpu_ratio.softirq", "cpu_ratio.iowait",
    "cpu_ratio.steal",
)  # fmt: skip
RATES = (
    "node_vmstat_compact_stall", "node_vmstat_compact_fail", "node_vmstat_thp_fault_alloc",
    "node_vmstat_thp_fault_fallback", "node_vmstat_thp_collapse_alloc",
)  # fmt: skip
LAST = ("node_memory_AnonHugePages_bytes", "node_memory_MemTotal_bytes", "node_memory_MemFree_bytes")


def measures(diagnosis: Diagnosis) -> dict[str, Any]:
    """Means, rates and latest values by metric; of several states each has its own line."""
    found: dict[str, Any] = {}
    all_scenes = scenes(diagnosis.case)
    for scene in all_scenes:
        suffix = f" [{_label(scene.state.settings) or scene.state.id}]" if len(all_scenes) > 1 else ""
        for metric in (*LEVELS, *RATES, *LAST):
            tracks = scene.catalogue.tracks(metric)
            if tracks and (entry := _measure(tracks[0])):
                found[f"{metric}{suffix}"] = entry
    return found


def _label(settings: Any) -> str:
    return ", ".join(
        f"{k.removeprefix('thp.')} {v}" for k, v in sorted(settings.items()) if k in ("thp.enabled", "thp.defrag")
    )


def _measure(track: Track) -> dict[str, Any] | None:
    known = term(track.metric)
    unit, source = known.unit if known else "", str(track.cite(0))
    values = [v for _, v, _ in track.points]
    if track.metric in LEVELS:
        return {
            "value": _round(sum(values) / len(values)),
            "unit": unit,
            "window": f"mean of {len(values)} samples",
            "source": source,
        }
    if track.metric in LAST:
        return {"value": _round(values[-1]), "unit": unit, "window": "latest", "source": source}
    total = growth(track)
    if total is None:
        return {"value": _round(values[-1]), "unit": "1", "window": "since boot", "source": source}
    if track.duration:
        return {
            "value": _round(total / track.duration),
            "unit": "1/s",
            "window": f"over {track.duration:.0f} s",
            "source": source,
        }
    return {"value": _round(total), "unit": "1", "window": f"growth over {len(values)} samples", "source": source}


def _round(value: float) -> float:
    return float(f"{value:.6g}")
