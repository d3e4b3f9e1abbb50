"""Derived metrics and facts.

Metrics: sums and shares within a row, CPU shares and swap rates from counters.

CPU shares come from the counters of /proc/stat, one row per interval, as other tools print them. An interval in which a
counter fell (a reset) or no counter changed is left out. Modes that a kernel does not have count as 0.

Facts: kernel era, platform, applications, scan rate of khugepaged, settings, shares of memory. `add_derived_facts` runs
all derivations in order. khugepaged scans pages_to_scan pages, then sleeps for scan_sleep_millisecs (4096 pages every
10 s by default); twice the pages with twice the sleep are the same rate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from thpdiag.host.catalogue import make_tables, make_track
from thpdiag.host.memory import (
    DEFAULT_HUGE_PAGE_BYTES,
    huge_page_fact,
    java_shares,
    memory_shares,
    min_free_share,
    partially_mapped_share,
    slab_facts,
    zone_facts,
)
from thpdiag.host.rates import rates
from thpdiag.host.series import Samples, Table, Track, find_gaps, select_rows
from thpdiag.host.settings import add_setting_facts, assumed_settings, facts_of_kernel, first_fact, smaller_sizes
from thpdiag.knowledge.applications import application, running_applications, stance, version_in_command
from thpdiag.knowledge.platforms import era
from thpdiag.model import Case, Fact, Sample, Series, State
from thpdiag.model.numeric import Array, np

SUMS: Mapping[str, tuple[str, ...]] = {
    "process_faults_total": ("process_minor_faults_total", "process_major_faults_total"),
    "process_faults_total:rate": ("process_minor_faults_total:rate", "process_major_faults_total:rate"),
    "process_cpu_seconds_total": ("process_cpu_seconds_total.user", "process_cpu_seconds_total.system"),
    "node_thp_faults_total": ("node_vmstat_thp_fault_alloc", "node_vmstat_thp_fault_fallback"),
}
FAULT_BYTES = {
    "process_faults_total": "process_fault_bytes_total",
    "process_faults_total:rate": "process_fault_bytes_total:rate",
}
SHARES: Mapping[str, tuple[str, str]] = {  # the first metric divided by the second
    "process_resident_share": ("process_resident_memory_bytes", "process_virtual_memory_bytes"),
    "process_anon_huge_share": ("process_anon_huge_bytes", "process_resident_memory_bytes"),
    "process_anon_proportional_share": ("process_anon_proportional_bytes", "process_anon_mapped_bytes"),
    "process_lazy_free_share": ("process_lazy_free_bytes", "process_resident_memory_bytes"),
    "process_locked_share": ("process_locked_bytes", "process_resident_memory_bytes"),
    "node_memory_MemFree_share": ("node_memory_MemFree_bytes", "node_memory_MemTotal_bytes"),
    "node_memory_SUnreclaim_share": ("node_memory_SUnreclaim_bytes", "node_memory_MemTotal_bytes"),
    "cgroup_memory_limit_share": ("cgroup_memory_usage_bytes", "cgroup_memory_limit_bytes"),
    "cgroup_memory_high_share": ("cgroup_memory_usage_bytes", "cgroup_memory_high_limit_bytes"),
    "cgroup_memory_anon_thp_share": ("cgroup_memory_anon_thp_bytes", "cgroup_memory_anon_bytes"),
}
ZONES = ("", "_dma", "_dma32", "_normal", "_high", "_movable")  # from 4.8 on one counter covers all zones
DIRECT_RECLAIM, KSWAPD_RECLAIM = (tuple(f"node_vmstat_pgsteal_{by}{z}" for z in ZONES) for by in ("direct", "kswapd"))
DIRECT_RECLAIM_SHARE = "node_direct_reclaim_share.lifetime"
ALLOCSTALLS = ("allocstall_dma", "allocstall_dma32", "allocstall_normal", "allocstall_movable", "allocstall")
DIFFERENCES = {  # the first metric minus the second
    "process_small_pages_bytes": ("process_resident_memory_bytes", "process_anon_huge_bytes"),
    "process_anon_shared_bytes": ("process_anon_mapped_bytes", "process_anon_proportional_bytes"),
}
ANON_PAGES = "node_memory_AnonPages_bytes"
ANON_COUNTERS = ("nr_anon_pages", "nr_zone_inactive_anon")
CGROUP_LISTS = ("cgroup_memory_active_anon_bytes", "cgroup_memory_inactive_anon_bytes")  # anonymous pages
CGROUP_ANON = "cgroup_memory_anon_bytes"  # mapped anonymous pages
MIN_LISTED_BYTES = 256.0 * 2**20  # smaller control groups are ignored
PAGE_BYTES = 4096.0  # pswpin and pswpout count base pages; the page size of other architectures is not in these files
SWAP_RATES = {"node_vmstat_pswpin": "swap_in_bytes:rate", "node_vmstat_pswpout": "swap_out_bytes:rate"}
CPU_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
NEEDED_COUNTERS = tuple(f"node_cpu_seconds_total.{mode}" for mode in CPU_MODES[:4])
OPTIONAL_MODES = ("iowait", "softirq", "steal")  # not in every source


def with_sums(sample: Sample | Series, huge_page: float = DEFAULT_HUGE_PAGE_BYTES) -> Sample | Series:
    """Return the row, or rows, with the sums and shares whose parts are all present.

    process_fault_bytes_total is an upper bound of what the faults brought: one huge page each.
    """
    values: Mapping[str, Any] = sample.values
    added = {
        name: sum(values[part] for part in parts)
        for name, parts in SUMS.items()
        if name not in values and all(part in values for part in parts)
    }
    added |= _sum_zones(values)
    for faults, name_of_bytes in FAULT_BYTES.items():
        if (count := added.get(faults, values.get(faults))) is not None:
            added[name_of_bytes] = count * huge_page
    resolution = _add_quanta(sample.resolution, added, huge_page)
    added |= _differences(values)
    for name, (part, whole) in SHARES.items():
        if part in values and whole in values and (share := _share(values[part], values[whole])) is not None:
            added[name] = share
    if isinstance(sample, Series):
        return replace(sample, values={**values, **added}, resolution=resolution) if added else sample
    if sample.kind == "cgroup":
        added |= _unmapped_share(values)
    return replace(sample, values={**values, **added}, resolution=resolution) if added else sample


def _unmapped_share(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the share of a control group's anonymous memory that no process maps any more."""
    # Without shmem (cgroup v1 of old kernels) the file cache is an upper bound of it.
    shmem = next((values[n] for name in ("shmem", "file") if (n := f"cgroup_memory_{name}_bytes") in values), None)
    if shmem is None or not all(name in values for name in (*CGROUP_LISTS, CGROUP_ANON)):
        return {}
    total = sum(values[name] for name in CGROUP_LISTS)
    rest = total - values[CGROUP_ANON] - shmem - values.get("cgroup_memory_swapcached_bytes", 0.0)
    if total < MIN_LISTED_BYTES:
        return {}
    return {"cgroup_memory_unmapped_share": max(rest, 0.0) / total}


def _sum_zones(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return sums over all zones of counters that some kernels print per zone in /proc/vmstat."""
    added: dict[str, Any] = {}
    if stalls := [values[n] for s in ALLOCSTALLS if (n := f"node_vmstat_{s}") in values]:
        added["node_allocstall_total"] = sum(stalls)
    direct, background = ([values[n] for n in names if n in values] for names in (DIRECT_RECLAIM, KSWAPD_RECLAIM))
    if direct and background and (share := _share(sum(direct), sum(direct) + sum(background))) is not None:
        added[DIRECT_RECLAIM_SHARE] = share
    # Since 4.8, which counts per zone, this counter includes huge pages, as AnonPages of meminfo does.
    if ANON_PAGES not in values and all(f"node_vmstat_{name}" in values for name in ANON_COUNTERS):
        added[ANON_PAGES] = values["node_vmstat_nr_anon_pages"] * PAGE_BYTES
    return added


def _add_quanta(known: Mapping[str, float], added: Iterable[str], huge_page: float) -> Mapping[str, float]:
    """Return the quanta of a row, with those of the sums of rounded parts."""
    sums = {name: sum(known.get(part, 0.0) for part in SUMS[name]) for name in added if name in SUMS}
    quanta = {**known, **{name: quantum for name, quantum in sums.items() if quantum}}
    return quanta | {size: quanta[count] * huge_page for count, size in FAULT_BYTES.items() if count in quanta}


def _differences(values: Mapping[str, Any]) -> dict[str, Any]:
    pairs = {name: pair for name, pair in DIFFERENCES.items() if set(pair) <= values.keys()}
    return {name: values[whole] - values[part] for name, (whole, part) in pairs.items()}


def _share(part: Any, whole: Any) -> Any:
    """Return a ratio, or one per row; without a positive whole None, or NaN in that row."""
    if isinstance(whole, float | int):
        return part / whole if whole > 0 else None
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)


def rates_of_counters(samples: Iterable[Sample | Series]) -> Iterator[Sample | Series]:
    """Yield CPU shares from /proc/stat and swap rates from /proc/vmstat, one row per interval."""
    for table in make_tables(sample for sample in samples if sample.kind == "system"):
        if len(table.samples) < 2:
            continue
        if table.metrics >= set(NEEDED_COUNTERS):
            yield from _cpu_shares(table)
        for counter, name in SWAP_RATES.items():
            if counter in table.metrics and (track := make_track(table, counter)) and (points := rates(track)):
                yield from _as_rows(points.samples, {name: points.values * PAGE_BYTES}, f"{table.reader} ({name})")


def _cpu_shares(table: Table) -> Iterator[Sample | Series]:
    """Yield the shares of CPU time between those rows of a table that have all needed counters."""
    rows = Track(NEEDED_COUNTERS[0], table, table.samples)
    known = np.logical_and.reduce([(column := rows.column_of(name)) == column for name in NEEDED_COUNTERS])
    if known.sum() < 2:
        return
    rows = Track(NEEDED_COUNTERS[0], table, select_rows(table.samples, known))
    counters = {mode: rows.column_of(f"node_cpu_seconds_total.{mode}") for mode in CPU_MODES}
    grown = {mode: np.diff(np.nan_to_num(column, nan=0.0)) for mode, column in counters.items()}
    total = sum(grown.values(), np.zeros(len(rows) - 1))
    valid = (total > 0) & (np.minimum.reduce(list(grown.values())) >= 0)
    if rows.seconds is not None:
        valid &= ~find_gaps(rows.seconds)
    if not valid.any():
        return
    grown, total = {mode: column[valid] for mode, column in grown.items()}, total[valid]
    kernel, user = grown["system"] + grown["irq"] + grown["softirq"], grown["user"] + grown["nice"]
    busy = user + kernel
    values = {
        "cpu_ratio.user_total": user / total,
        "cpu_ratio.sys_total": kernel / total,
        "cpu_ratio.idle": grown["idle"] / total,
        "cpu_ratio.busy": busy / total,
        "cpu_ratio.sys_share": np.divide(kernel, busy, out=np.full(len(busy), np.nan), where=busy > 0),
    }
    for mode in OPTIONAL_MODES:
        present = counters[mode][1:][valid]
        if (present == present).any():
            values[f"cpu_ratio.{mode}"] = np.where(present == present, grown[mode] / total, np.nan)
    yield from _as_rows(select_rows(rows.samples, np.concatenate(([False], valid))), values, f"{table.reader} (rates)")


def _as_rows(
    samples: Samples, columns: Mapping[str, Array[np.floating[Any]]], reader: str
) -> Iterator[Sample | Series]:
    """Yield rows of the host with these values at the lines and times of `samples`, as a Series if those are one."""
    if isinstance(samples, Series):
        floats = {name: column.astype(float) for name, column in columns.items()}
        yield replace(samples, values=floats, reader=reader, resolution={}, since_boot=None)
        return
    for row, sample in enumerate(samples):
        values = {name: float(column[row]) for name, column in columns.items() if column[row] == column[row]}
        yield Sample("system", values, sample.cite, reader, time=sample.time)


def application_facts(facts: Sequence[Fact]) -> Iterator[Fact]:
    """Yield app and app.version of the applications that run; an installed package alone is no evidence for that.

    Versions from command lines come before versions of packages.
    """
    programs: dict[tuple[str, str], Fact] = {}  # the first process of each command: there may be thousands
    for fact in facts:
        if fact.name == "process.command":
            programs.setdefault((fact.label("comm") or "", str(fact.value)), fact)
        elif fact.name == "java.option" and fact.value == "true":  # spelled as on a command line
            programs.setdefault(("java", f"java -XX:+{fact.label('option')}"), fact)
    running: set[str] = set()
    for (comm, command), fact in programs.items():
        for app in running_applications(comm, command):
            if app.name not in running:
                running.add(app.name)
                yield Fact("app", app.name, fact.cite, (("pid", fact.label("pid") or ""),))
    known = {f.label("app") for f in facts if f.name == "app.version"}
    versions = [(app.name, v, f.cite) for f in programs.values() for app, v in version_in_command(str(f.value))]
    versions += [(f.label("app") or "", str(f.value), f.cite) for f in facts if f.name == "package.version"]
    for name, version, cite in versions:
        if name in running and name not in known:
            known.add(name)
            yield Fact("app.version", version, cite, (("app", name),))


HOST_FACTS = {"platform": "platform", "os": "os.version", "arch": "kernel.arch", "kernel": "kernel.release"}


def stance_facts(facts: Sequence[Fact]) -> Iterator[Fact]:
    """Yield app.stance of each application that runs or has a version; `none` if no listed process is one.

    A stance that depends on an unknown version is left out.
    """
    versions = {f.label("app") or "": f for f in facts if f.name == "app.version"}
    apps = {**versions, **{str(f.value): f for f in reversed(facts) if f.name == "app"}}
    host = {key: str(f.value) for key, name in HOST_FACTS.items() if (f := first_fact(facts, name))} if apps else {}
    for name, fact in apps.items():
        if app := application(name):
            version = {"version": str(versions[name].value)} if name in versions else {}
            word = stance(app, {**host, **version}).word
            if version or word != "depends" or not any({"from", "below"} & row.keys() for row in app.by):
                yield Fact("app.stance", word, fact.cite, (("app", name),))
    listed = (f for f in facts if f.name == "process.command" and f.label("part") is None)
    if not apps and (process := next(listed, None)):
        yield Fact("app.stance", "none", process.cite)


MIN_SLEEP_MS = 1.0  # a sleep of 0 counts as this many milliseconds


def scan_rate(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Yield thp.khugepaged.scan_rate in pages per second, if the kernel shows both settings."""
    names = ("thp.khugepaged.pages_to_scan", "thp.khugepaged.scan_sleep_millisecs")
    known = {f.name: f for f in facts if f.name in names and not f.provenance and not isinstance(f.value, str)}
    if len(known) == len(names):
        pages, pause = (float(known[name].value) for name in names)
        yield Fact("thp.khugepaged.scan_rate", round(pages * 1000 / max(pause, MIN_SLEEP_MS), 1), known[names[1]].cite)


# The distribution family and major release. A kernel release is more reliable than a name in prose and comes first.
_RELEASES = (
    (re.compile(r"\.el(\d+)uek"), "oracle"),
    (re.compile(r"\.el(\d+)(?:[._]|$)"), "el"),
    (re.compile(r"\.fc(\d+)\b"), "fedora"),
)
_NAMES = (
    (re.compile(r"(?:CentOS|Red Hat|RHEL|Oracle Linux|Rocky|Alma|Scientific)\D{0,80}(\d{1,4})"), "el"),
    (re.compile(r"(?:SLES|SUSE Linux Enterprise)\D{0,80}(\d{1,4})"), "sles"),
    (re.compile(r"Ubuntu\D{0,80}(\d{1,4}\.\d{1,4})"), "ubuntu"),
    (re.compile(r"Debian\D{0,80}(\d{1,4})"), "debian"),
    (re.compile(r"Fedora\D{0,80}(\d{1,4})"), "fedora"),
)
_REAL_TIME = re.compile(r"\bPREEMPT[_ ]RT\b")  # has no THP: mm/Kconfig of 5.15 and later
_EL6 = ((131, "6.0"), (220, "6.1"), (279, "6.2"), (358, "6.3"), (431, "6.4"))  # first build of the next minor release


def platform_facts(facts: Sequence[Fact], states: Sequence[State]) -> Iterator[Fact]:
    """Yield kernel.era, platform and thp.applicable, each citing its source."""
    release, system = first_fact(facts, "kernel.release"), first_fact(facts, "os.name")
    known = era(str(release.value)) if release else None
    if known and release and known.id != "none":
        yield Fact("kernel.era", known.id, release.cite)
    if (platform := _platform(release, system)) is not None:
        yield platform
    shown = next((f for s in states for f in s.facts if f.name in ("thp.enabled", "thp.defrag")), None)
    directory = None if shown else _directory_fact(facts, release)
    built_in = first_fact(facts_of_kernel(facts, release), "kernel.thp_built_in")
    real_time = next((f for f in facts if f.name == "kernel.build" and _REAL_TIME.search(str(f.value))), None)
    if shown is not None:
        yield Fact("thp.applicable", "yes", shown.cite)
    elif directory is not None:
        yield Fact("thp.applicable", "no" if directory.value == "absent" else "yes", directory.cite)
    elif built_in is not None and str(built_in.value) == "no":
        yield Fact("thp.applicable", "no", built_in.cite)
    elif release is not None and known and not known.thp:
        yield Fact("thp.applicable", "no", release.cite)
    elif real_time is not None:
        yield Fact("thp.applicable", "no", real_time.cite)


def _platform(release: Fact | None, system: Fact | None) -> Fact | None:
    """Return the distribution family and release; for RHEL 6 with the minor release, as paths and values differ.

    A kernel build maps to 6.0 to 6.4, and to `6.5` for all later ones. In a name, `6.6` and a bare `6` also map to
    `6.5`.
    """
    for source, patterns in ((release, _RELEASES), (system, _NAMES)):
        text = str(source.value) if source else ""
        for pattern, family in patterns:
            if source is None or not (match := pattern.search(text)):
                continue
            version = match[1]
            if (family, version) == ("el", "6") and source is release:
                build = int(number[1]) if (number := re.match(r"2\.6\.32-(\d+)", text)) else 431
                version = next((minor for limit, minor in _EL6 if build < limit), "6.5")
            elif (family, version) == ("el", "6"):
                minor = re.search(r"\b6\.(\d+)", text)
                version = f"6.{min(int(minor[1]), 5)}" if minor else "6.5"
            return Fact("platform", f"{family}{version}", source.cite)
    return None


def _directory_fact(facts: Sequence[Fact], release: Fact | None) -> Fact | None:
    """Return what a listing shows of the THP directory; on RHEL 6 a missing mainline directory is no evidence."""
    directories = [f for f in facts if f.name == "thp.directory"]
    present = next((f for f in directories if f.value != "absent"), None)
    may_be_el6 = release is None or ".el6" in str(release.value)
    return present or next((f for f in directories if f.label("directory") is None or not may_be_el6), None)


def add_derived_facts(case: Case) -> Case:
    """Return the case with derived facts and series added; what was read is unchanged."""
    size_fact = huge_page_fact(case)
    huge_page = float(size_fact.value) if size_fact else DEFAULT_HUGE_PAGE_BYTES
    states = tuple(_add_to_state(state, huge_page) for state in case.states)
    facts = (*case.facts, *((size_fact,) if size_fact else ()), *_release_of_recording(case))
    if not facts and not any(state.facts for state in states):
        return replace(case, states=states)  # only rows and stacks, from which no facts follow
    facts = (*facts, *application_facts(case.facts))
    facts = (*facts, *platform_facts(facts, states))
    facts = (*facts, *stance_facts((*facts, *(f for s in states for f in s.facts))))
    facts, states = add_setting_facts(replace(case, facts=facts, states=states))
    facts = (*facts, *scan_rate(facts))
    states = tuple(replace(s, facts=(*s.facts, *scan_rate(s.facts))) for s in states)
    states = tuple(replace(s, facts=(*s.facts, *min_free_share(facts, s.samples))) for s in states)
    states = tuple(replace(s, facts=(*s.facts, *java_shares((*facts, *s.facts), s.samples))) for s in states)
    states = tuple(replace(s, facts=(*s.facts, *assumed_settings(s, facts))) for s in states)
    states = tuple(replace(s, facts=(*s.facts, *smaller_sizes((*facts, *s.facts)))) for s in states)
    return replace(case, facts=facts, states=states)


def _release_of_recording(case: Case) -> Iterator[Fact]:
    """Yield the kernel release from the header of a perf recording, if nothing else measured it."""
    if not any(f.name == "kernel.release" and not f.provenance for f in case.facts):
        profiles = (p for s in case.states for p in s.profiles if p.facts.get("release"))
        yield from (Fact("kernel.release", p.facts["release"], p.cite) for p in islice(profiles, 1))


def _add_to_state(state: State, huge_page: float) -> State:
    samples = tuple(with_sums(s, huge_page) for s in state.samples)
    memory_facts = (*memory_shares(samples), *partially_mapped_share(samples), *slab_facts(samples))
    facts = (*state.facts, *zone_facts(samples), *memory_facts)
    return replace(state, samples=(*samples, *rates_of_counters(samples)), facts=facts)
