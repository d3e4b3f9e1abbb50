"""The host in the result: its properties, settings, metrics, and free memory by block size.

Settings are those of the state of the verdict, or else of the latest state: the value in force, its provenance,
configured values, and the value after a reboot. A setting that is only in start-up files or on the boot line has no
value, because the kernel's value is unknown. Values in other states are listed too, so that measurements before and
after a change are not confused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from thpdiag.diagnosis.diagnose import DECIDING_SETTINGS, Diagnosis
from thpdiag.diagnosis.excerpts import Quotes, quoted_place
from thpdiag.diagnosis.times import moment_text
from thpdiag.engine.state_view import StateView
from thpdiag.host.memory import free_blocks
from thpdiag.host.rates import growth, observed_seconds, rates
from thpdiag.host.series import Track
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Case, Citation, Event, Fact, Sample, State
from thpdiag.model.document import present_keys
from thpdiag.model.result import (
    ConfiguredSetting,
    Contradiction,
    FreeBlocks,
    Host,
    Measure,
    NextBoot,
    OtherStateSetting,
    Setting,
)
from thpdiag.model.text import quoted, sentence

UNKNOWN_SETTINGS = "settings not in the input"
MEASURED_PROVENANCE = "measured"
WRITTEN_PROVENANCE = "written at a prompt, not read back"
MAX_PLACES = 20  # listed per setting
MAX_FREE_BLOCKS = 12  # readings in a document
MEAN_METRICS = (
    "cpu_ratio.sys_total", "cpu_ratio.sys_total_steal", "cpu_ratio.sys_share", "cpu_ratio.softirq", "cpu_ratio.iowait",
    "cpu_ratio.steal", "cpu_ratio.busy", "cpu_ratio.user_total", "node_vmstat_pgfault:rate",
)  # fmt: skip
RATE_METRICS = (
    "node_vmstat_compact_stall", "node_vmstat_compact_fail", "node_vmstat_thp_fault_alloc",
    "node_vmstat_thp_fault_fallback", "node_vmstat_thp_collapse_alloc", "node_allocstall_total",
    "node_vmstat_pgfault", "node_vmstat_pgalloc_normal",
)  # fmt: skip
LATEST_METRICS = ("node_memory_AnonHugePages_bytes", "node_memory_MemTotal_bytes", "node_memory_MemFree_bytes")
_FACT_OF_KEY = {"os": "os.name", "kernel": "kernel.release", "era": "kernel.era", "platform": "platform"}


def host(diagnosis: Diagnosis, views: Sequence[StateView], quotes: Quotes) -> Host:
    case = diagnosis.case
    properties: dict[str, Any] = {}
    for key, name in _FACT_OF_KEY.items():
        facts = sorted((fact for fact in case.facts if fact.name == name), key=lambda fact: bool(fact.provenance))
        if facts:  # read before inferred
            properties[key] = str(facts[0].value)
    uptime = next((fact for fact in case.facts if fact.name == "uptime.seconds"), None)
    return Host.model_construct(
        name=case.name,
        **properties,
        **present_keys(uptime=float(uptime.value) if uptime is not None else None, free_blocks=_free_blocks(views)),
        apps=list(dict.fromkeys(str(fact.value) for fact in case.facts if fact.name == "app")),
        settings=settings(diagnosis, quotes),
        measures=_measures(views),
    )


def state_words(settings: Mapping[str, object]) -> str:
    """Return the state of a host by its settings: `thp.defrag madvise, thp.enabled always`."""
    settings_text = (f"{name} {quoted(settings[name])}" for name in sorted(DECIDING_SETTINGS) if name in settings)
    return sentence(", ".join(settings_text)) or UNKNOWN_SETTINGS


def settings(diagnosis: Diagnosis, quotes: Quotes) -> dict[str, Setting]:
    """Return the settings by name; for a size of huge pages the name is `thp.size.enabled{size=64kB}`."""
    case, lead_state = diagnosis.case, state_of_settings(diagnosis)
    events: list[Event] = [*case.events, *(event for state in case.states for event in state.events)]
    written = {event.cite for event in events if event.kind == "setting_written"}
    facts: dict[str, Fact | None] = {}
    for fact in (*(lead_state.facts if lead_state else ()), *case.facts):
        name = _key(fact)
        if name and (name not in facts or _is_better(fact, facts[name], written)):
            facts[name] = fact
    setting_facts = [fact for fact in case.facts if fact.name.startswith("setting.")]
    for fact in setting_facts:
        if fact.name == "setting.said":
            facts.setdefault(_key_of_subject(fact), None)
    contradictions = [fact for fact in (lead_state.facts if lead_state else ()) if fact.name == "setting.contradiction"]
    documents = {}
    for name, in_force in sorted(facts.items()):
        values = {str(f.value) for f in (lead_state.facts if lead_state else ()) if _key(f) == name}
        documents[name] = Setting.model_construct(
            **_value_in_force(in_force, written, quotes),
            **_other_values([f for f in (*contradictions, *setting_facts) if _key_of_subject(f) == name], quotes),
            **present_keys(other_states=_other_states(name, values, lead_state, case, quotes)),
        )
    return documents


def state_of_settings(diagnosis: Diagnosis) -> State | None:
    """Return the state of the verdict, or else the latest one."""
    states, leader = diagnosis.case.states, diagnosis.leader
    if leader is not None:
        return next((state for state in states if state.id == leader.outcome.state), None)
    known = [state for state in states if state.settings] or states  # data without a state is last
    return max(reversed(known), key=lambda state: -1 if state.order is None else state.order, default=None)


def _key(fact: Fact) -> str:
    """The name of a setting of the host or of one size of huge pages; empty for other facts."""
    known = term(fact.name)
    if not known or known.kind != "setting":
        return ""
    if fact.name.startswith("thp.size."):
        return f"{fact.name}{{size={fact.label('size')}}}"
    return "" if fact.labels else fact.name


def _key_of_subject(fact: Fact) -> str:
    """The name of the setting that a fact describes."""
    setting, size = fact.label("setting") or "", fact.label("size")
    return f"{setting}{{size={size}}}" if size else setting


def _is_better(fact: Fact, other: Fact | None, written: set[Citation]) -> bool:
    """Whether a fact is preferred: a reading over the command that wrote the same value, a sysctl over a start-up
    file."""
    if other is not None and other.provenance == "rc file" and fact.name.startswith("sysctl."):
        return not fact.provenance
    is_command = other is not None and not other.provenance and other.cite in written and fact.value == other.value
    return is_command and not fact.provenance and fact.cite not in written


def _value_in_force(fact: Fact | None, written: set[Citation], quotes: Quotes) -> dict[str, Any]:
    if fact is None:
        return {"value": None, "provenance": "unknown"}
    how = fact.provenance or (WRITTEN_PROVENANCE if fact.cite in written else MEASURED_PROVENANCE)
    return {"value": fact.value, "provenance": how, **quoted_place(fact.cite, quotes)}


def _other_values(facts: Sequence[Fact], quotes: Quotes) -> dict[str, Any]:
    """Configured values, contradictions and the value after a reboot; keys are absent without such values."""
    configured, next_boot, contradictions = [], None, []
    for fact in facts:
        source = quoted_place(fact.cite, quotes)
        if fact.name == "setting.said":
            is_effective, reason = fact.label("counts") == "yes", present_keys(why=fact.label("why"))
            configured.append(
                ConfiguredSetting.model_construct(
                    value=fact.value, place=fact.label("place"), counts=is_effective, **reason, **source
                )
            )
        elif fact.name == "setting.contradiction" and fact.value != "none":
            kind: Any = fact.label("kind")
            contradictions.append(Contradiction.model_construct(text=cast("str", fact.value), kind=kind, **source))
        elif fact.name == "setting.next_boot" and next_boot is None:
            value = None if fact.value == "unknown" else fact.value
            assumed = fact.provenance == "assumed"
            next_boot = NextBoot.model_construct(value=value, from_=fact.label("from"), assumed=assumed, **source)
    return present_keys(said=configured[:MAX_PLACES], next_boot=next_boot, contradictions=contradictions[:MAX_PLACES])


def _other_states(
    name: str, own: set[str], excluded: State | None, case: Case, quotes: Quotes
) -> list[OtherStateSetting]:
    values, documents = set(own), []
    for state in case.states:
        for fact in state.facts if state is not excluded else ():
            if _key(fact) == name and not fact.provenance and str(fact.value) not in values:
                values.add(str(fact.value))
                documents.append(OtherStateSetting.model_construct(value=fact.value, **quoted_place(fact.cite, quotes)))
    return documents[:MAX_PLACES]


def _measures(views: Sequence[StateView]) -> dict[str, Measure]:
    """Means, rates and latest values by metric, separately for each state."""
    measures: dict[str, Measure] = {}
    for view in views:
        settings = view.state.settings
        text = ", ".join(f"{n.removeprefix('thp.')} {settings[n]}" for n in sorted(DECIDING_SETTINGS) if n in settings)
        suffix = f" [{text or view.state.id}]" if len(views) > 1 else ""
        for metric in (*MEAN_METRICS, *RATE_METRICS, *LATEST_METRICS):
            tracks = view.catalogue.tracks(metric)
            if tracks:
                measures[f"{metric}{suffix}"] = _measure(tracks[0])
    return measures


def _measure(track: Track) -> Measure:
    known = term(track.metric)
    unit = known.unit if known else ""
    if track.metric in MEAN_METRICS:
        mean = float(track.points.values.mean()) if len(track) > 1 else track.last
        value, window = mean, f"mean of {len(track)} samples"
    elif track.metric in LATEST_METRICS:
        value, window = track.last, "latest"
    elif (total := growth(track)) is None:
        value, unit, window = track.last, "1", "since boot"
    elif seconds := observed_seconds(track):
        value, unit, window = total / seconds, "1/s", f"over {seconds:.0f} s"
    else:
        value, unit, window = total, "1", f"growth over {len(track)} samples"
    return Measure.model_construct(
        value=_round(value), unit=unit, window=window, source=track.place, **_spread(track, unit)
    )


def _spread(track: Track, unit: str) -> dict[str, Any]:
    """The number of samples of a mean or a rate and their spread, which comparisons need to tell changes from noise."""
    if len(track) < 2 or (track.metric in RATE_METRICS and unit != "1/s"):
        return {}
    points = rates(track) if track.metric in RATE_METRICS else track.points
    if points is None or not len(points):
        return {}
    values = points.values
    ends = {"min": values.min(), "max": values.max(), "deviation": values.std()}
    return {"samples": len(values), **{key: _round(float(value)) for key, value in ends.items()}}


def _round(value: float) -> float:
    return float(f"{value:.6g}")


def _free_blocks(views: Sequence[StateView]) -> list[FreeBlocks]:
    """The first and the last reading of /proc/buddyinfo per zone, source and state; of many zones those with most
    free memory."""
    readings = []
    for view in views:
        for table in view.catalogue.having("node_buddyinfo_blocks_order0"):
            rows = [row for row in (table.samples[0], table.samples[len(table.samples) - 1]) if free_blocks(row)]
            readings += [_reading(row) for row in (rows[:1] if len(table.samples) == 1 else rows)]
    readings.sort(key=lambda r: -sum(count * 2**order for order, count in enumerate(r.counts)))
    return sorted(readings[:MAX_FREE_BLOCKS], key=lambda r: (r.node or "", r.zone or "", r.member or "", r.line or 0))


def _reading(sample: Sample) -> FreeBlocks:
    labels, blocks = dict(sample.entity), free_blocks(sample)
    return FreeBlocks.model_construct(
        node=labels.get("node", ""),
        zone=labels.get("zone", ""),
        counts=[int(blocks.get(order, 0)) for order in range(max(blocks) + 1)],
        member=sample.cite.member,
        line=sample.cite.line,
        **present_keys(when=moment_text(sample.time) if sample.time else None),
    )
