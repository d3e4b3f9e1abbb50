"""The host in the result: what it is, its settings, the few figures that every report shows, free memory by block size.

Settings are those of the state of the verdict, else of the latest state: the value in force, how it is known, what was
said elsewhere, what will hold. One that only start-up files or the boot line speak of has no value: nobody knows what
the kernel has. Values of other states are told too, so that nobody takes a measurement before a change for one after
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from thpdiag.diagnosis.diagnose import DECISIVE, Diagnosis
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

UNKNOWN = "settings not in the input"
MEASURED = "measured"
WRITTEN = "written at a prompt, not read back"
MAX_PLACES = 20  # that are told of one setting
MAX_FREE_BLOCKS = 12  # readings of a document
LEVELS = (
    "cpu_ratio.sys_total", "cpu_ratio.sys_total_steal", "cpu_ratio.sys_share", "cpu_ratio.softirq", "cpu_ratio.iowait",
    "cpu_ratio.steal", "cpu_ratio.busy", "cpu_ratio.user_total", "node_vmstat_pgfault:rate",
)  # fmt: skip
RATES = (
    "node_vmstat_compact_stall", "node_vmstat_compact_fail", "node_vmstat_thp_fault_alloc",
    "node_vmstat_thp_fault_fallback", "node_vmstat_thp_collapse_alloc", "node_allocstall_total",
    "node_vmstat_pgfault", "node_vmstat_pgalloc_normal",
)  # fmt: skip
LATEST = ("node_memory_AnonHugePages_bytes", "node_memory_MemTotal_bytes", "node_memory_MemFree_bytes")
_FACTS = {"os": "os.name", "kernel": "kernel.release", "era": "kernel.era", "platform": "platform"}


def host(diagnosis: Diagnosis, views: Sequence[StateView], quotes: Quotes) -> Host:
    case = diagnosis.case
    found: dict[str, Any] = {}
    for key, name in _FACTS.items():
        facts = sorted((fact for fact in case.facts if fact.name == name), key=lambda fact: bool(fact.provenance))
        if facts:  # what was read goes before what was inferred
            found[key] = str(facts[0].value)
    uptime = next((fact for fact in case.facts if fact.name == "uptime.seconds"), None)
    return Host.model_construct(
        name=case.name,
        **found,
        **present_keys(uptime=float(uptime.value) if uptime is not None else None, free_blocks=_free_blocks(views)),
        apps=list(dict.fromkeys(str(fact.value) for fact in case.facts if fact.name == "app")),
        settings=settings(diagnosis, quotes),
        measures=_measures(views),
    )


def state_words(settings: Mapping[str, object]) -> str:
    """The state of a host by its settings, as people would name it: `thp.defrag madvise, thp.enabled always`."""
    known = (f"{name} {quoted(settings[name])}" for name in sorted(DECISIVE) if name in settings)
    return sentence(", ".join(known)) or UNKNOWN


def settings(diagnosis: Diagnosis, quotes: Quotes) -> dict[str, Setting]:
    """By name; of a size of huge pages `thp.size.enabled{size=64kB}`."""
    case, chosen = diagnosis.case, state_of_settings(diagnosis)
    events: list[Event] = [*case.events, *(event for state in case.states for event in state.events)]
    written = {event.cite for event in events if event.kind == "setting_written"}
    facts: dict[str, Fact | None] = {}
    for fact in (*(chosen.facts if chosen else ()), *case.facts):
        name = _key(fact)
        if name and (name not in facts or _is_better(fact, facts[name], written)):
            facts[name] = fact
    about = [fact for fact in case.facts if fact.name.startswith("setting.")]
    for fact in about:
        if fact.name == "setting.said":
            facts.setdefault(_key_of_subject(fact), None)
    here = [fact for fact in (chosen.facts if chosen else ()) if fact.name == "setting.contradiction"]
    found = {}
    for name, in_force in sorted(facts.items()):
        own = {str(f.value) for f in (chosen.facts if chosen else ()) if _key(f) == name}
        found[name] = Setting.model_construct(
            **_value_in_force(in_force, written, quotes),
            **_other_values([f for f in (*here, *about) if _key_of_subject(f) == name], quotes),
            **present_keys(other_states=_other_states(name, own, chosen, case, quotes)),
        )
    return found


def state_of_settings(diagnosis: Diagnosis) -> State | None:
    """The state of the verdict, else the latest."""
    states, leader = diagnosis.case.states, diagnosis.leader
    if leader is not None:
        return next((state for state in states if state.id == leader.outcome.state), None)
    known = [state for state in states if state.settings] or states  # what belongs to no state stands last
    return max(reversed(known), key=lambda state: -1 if state.order is None else state.order, default=None)


def _key(fact: Fact) -> str:
    """The key of a fact that is a setting of the whole host or of one size of huge pages; empty of any other."""
    known = term(fact.name)
    if not known or known.kind != "setting":
        return ""
    if fact.name.startswith("thp.size."):
        return f"{fact.name}{{size={fact.label('size')}}}"
    return "" if fact.labels else fact.name


def _key_of_subject(fact: Fact) -> str:
    """The key of the setting that a fact speaks of."""
    setting, size = fact.label("setting") or "", fact.label("size")
    return f"{setting}{{size={size}}}" if size else setting


def _is_better(fact: Fact, other: Fact | None, written: set[Citation]) -> bool:
    """A reading of the same value is better than the command that wrote it, and one of sysctl than a start-up file."""
    if other is not None and other.provenance == "rc file" and fact.name.startswith("sysctl."):
        return not fact.provenance
    by_command = other is not None and not other.provenance and other.cite in written and fact.value == other.value
    return by_command and not fact.provenance and fact.cite not in written


def _value_in_force(fact: Fact | None, written: set[Citation], quotes: Quotes) -> dict[str, Any]:
    if fact is None:
        return {"value": None, "provenance": "unknown"}
    how = fact.provenance or (WRITTEN if fact.cite in written else MEASURED)
    return {"value": fact.value, "provenance": how, **quoted_place(fact.cite, quotes)}


def _other_values(about: Sequence[Fact], quotes: Quotes) -> dict[str, Any]:
    """What other places say of a setting; absent where none does."""
    said, boot, against = [], None, []
    for fact in about:
        where = quoted_place(fact.cite, quotes)
        if fact.name == "setting.said":
            counts, why = fact.label("counts") == "yes", present_keys(why=fact.label("why"))
            said.append(
                ConfiguredSetting.model_construct(
                    value=fact.value, place=fact.label("place"), counts=counts, **why, **where
                )
            )
        elif fact.name == "setting.contradiction" and fact.value != "none":
            kind: Any = fact.label("kind")
            against.append(Contradiction.model_construct(text=cast("str", fact.value), kind=kind, **where))
        elif fact.name == "setting.next_boot" and boot is None:
            value = None if fact.value == "unknown" else fact.value
            assumed = fact.provenance == "assumed"
            boot = NextBoot.model_construct(value=value, from_=fact.label("from"), assumed=assumed, **where)
    return present_keys(said=said[:MAX_PLACES], next_boot=boot, contradictions=against[:MAX_PLACES])


def _other_states(
    name: str, own: set[str], chosen: State | None, case: Case, quotes: Quotes
) -> list[OtherStateSetting]:
    """Other values that the kernel showed at other times."""
    seen, found = set(own), []
    for state in case.states:
        for fact in state.facts if state is not chosen else ():
            if _key(fact) == name and not fact.provenance and str(fact.value) not in seen:
                seen.add(str(fact.value))
                found.append(OtherStateSetting.model_construct(value=fact.value, **quoted_place(fact.cite, quotes)))
    return found[:MAX_PLACES]


def _measures(views: Sequence[StateView]) -> dict[str, Measure]:
    """Means, rates and latest values by metric; of several states each has its own line."""
    found: dict[str, Measure] = {}
    for view in views:
        settings = view.state.settings
        known = ", ".join(f"{n.removeprefix('thp.')} {settings[n]}" for n in sorted(DECISIVE) if n in settings)
        suffix = f" [{known or view.state.id}]" if len(views) > 1 else ""
        for metric in (*LEVELS, *RATES, *LATEST):
            tracks = view.catalogue.tracks(metric)
            if tracks:
                found[f"{metric}{suffix}"] = _measure(tracks[0])
    return found


def _measure(track: Track) -> Measure:
    known = term(track.metric)
    unit = known.unit if known else ""
    if track.metric in LEVELS:
        mean = float(track.points.values.mean()) if len(track) > 1 else track.last
        value, window = mean, f"mean of {len(track)} samples"
    elif track.metric in LATEST:
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
    """Of how many samples a level or a rate is, and how far they lie apart: a comparison must know what is noise."""
    if len(track) < 2 or (track.metric in RATES and unit != "1/s"):
        return {}
    points = rates(track) if track.metric in RATES else track.points
    if points is None or not len(points):
        return {}
    values = points.values
    ends = {"min": values.min(), "max": values.max(), "deviation": values.std()}
    return {"samples": len(values), **{key: _round(float(value)) for key, value in ends.items()}}


def _round(value: float) -> float:
    return float(f"{value:.6g}")


def _free_blocks(views: Sequence[StateView]) -> list[FreeBlocks]:
    """The first and the last reading of /proc/buddyinfo for each zone, source and state; of many zones the ones with
    most free memory stay."""
    found = []
    for view in views:
        for table in view.catalogue.having("node_buddyinfo_blocks_order0"):
            rows = [row for row in (table.samples[0], table.samples[len(table.samples) - 1]) if free_blocks(row)]
            found += [_reading(row) for row in (rows[:1] if len(table.samples) == 1 else rows)]
    found.sort(key=lambda one: -sum(count * 2**order for order, count in enumerate(one.counts)))
    return sorted(
        found[:MAX_FREE_BLOCKS], key=lambda one: (one.node or "", one.zone or "", one.member or "", one.line or 0)
    )


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
