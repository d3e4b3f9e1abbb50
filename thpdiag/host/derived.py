"""Metrics and facts that follow from others.

Metrics: sums and shares of a row, CPU shares and swap rates from counters.

CPU shares come from the counters of /proc/stat, one row per interval, as other tools print them. An interval in which a
counter fell (a reset) or none moved says nothing. Modes that a kernel does not have count as 0.

Facts: kernel era, platform, applications, pace of khugepaged, settings, shares of memory.
`add_derived_facts` is the order of all derivations. khugepaged scans pages_to_scan pages, then pauses for
scan_sleep_millisecs (4096 pages every 10 s by default): more pages with a longer pause in proportion are the same pace.
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
from thpdiag.host.settings import add_setting_facts, assumed_settings, first_fact, of_running_kernel, smaller_sizes
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
SHARES: Mapping[str, tuple[str, str]] = {  # of the first in the second
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
ZONES = ("", "_dma", "_dma32", "_normal", "_high", "_movable")  # one counter for all from 4.8 on
DIRECT_RECLAIM, KSWAPD_RECLAIM = (tuple(f"node_vmstat_pgsteal_{by}{z}" for z in ZONES) for by in ("direct", "kswapd"))
DIRECT_RECLAIM_SHARE = "node_direct_reclaim_share.lifetime"
ALLOCSTALLS = ("allocstall_dma", "allocstall_dma32", "allocstall_normal", "allocstall_movable", "allocstall")
RESTS = {  # of the first without the second
    "process_small_pages_bytes": ("process_resident_memory_bytes", "process_anon_huge_bytes"),
    "process_anon_shared_bytes": ("process_anon_mapped_bytes", "process_anon_proportional_bytes"),
}
ANON_PAGES = "node_memory_AnonPages_bytes"
ANON_COUNTERS = ("nr_anon_pages", "nr_zone_inactive_anon")
CGROUP_LISTS = ("cgroup_memory_active_anon_bytes", "cgroup_memory_inactive_anon_bytes")  # of anonymous pages
CGROUP_ANON = "cgroup_memory_anon_bytes"  # that are mapped
MIN_LISTED_BYTES = 256.0 * 2**20  # bytes; of a smaller control group nobody asks where they went
PAGE_BYTES = 4096.0  # pswpin and pswpout count base pages; the page size of other architectures is not in these files
SWAP_RATES = {"node_vmstat_pswpin": "swap_in_bytes:rate", "node_vmstat_pswpout": "swap_out_bytes:rate"}
CPU_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
NEEDED_COUNTERS = tuple(f"node_cpu_seconds_total.{mode}" for mode in CPU_MODES[:4])
OPTIONAL_MODES = ("iowait", "softirq", "steal")  # where the source has them


def with_sums(sample: Sample | Series, huge_page: float = DEFAULT_HUGE_PAGE_BYTES) -> Sample | Series:
    """The row, or rows, with sums and shares added where all parts are there.

    process_fault_bytes_total is the most that the faults can have brought: one huge page each.
    """
    values: Mapping[str, Any] = sample.values
    added = {
        name: sum(values[part] for part in parts)
        for name, parts in SUMS.items()
        if name not in values and all(part in values for part in parts)
    }
    added |= _over_zones(values)
    for faults, brought in FAULT_BYTES.items():
        if (count := added.get(faults, values.get(faults))) is not None:
            added[brought] = count * huge_page
    resolution = _with_rounding(sample.resolution, added, huge_page)
    added |= _rests(values)
    for name, (part, whole) in SHARES.items():
        if part in values and whole in values and (share := _share(values[part], values[whole])) is not None:
            added[name] = share
    if isinstance(sample, Series):
        return replace(sample, values={**values, **added}, resolution=resolution) if added else sample
    if sample.kind == "cgroup":
        added |= _unmapped_share(values)
    return replace(sample, values={**values, **added}, resolution=resolution) if added else sample


def _unmapped_share(values: Mapping[str, Any]) -> dict[str, float]:
    """What part of the anonymous memory of a control group no process has mapped any more."""
    # Without shmem (version 1 of old kernels) it is at most the file cache.
    shmem = next((values[n] for name in ("shmem", "file") if (n := f"cgroup_memory_{name}_bytes") in values), None)
    if shmem is None or not all(name in values for name in (*CGROUP_LISTS, CGROUP_ANON)):
        return {}
    total = sum(values[name] for name in CGROUP_LISTS)
    rest = total - values[CGROUP_ANON] - shmem - values.get("cgroup_memory_swapcached_bytes", 0.0)
    if total < MIN_LISTED_BYTES:
        return {}
    return {"cgroup_memory_unmapped_share": max(rest, 0.0) / total}


def _over_zones(values: Mapping[str, Any]) -> dict[str, Any]:
    """What /proc/vmstat counts zone by zone on some kernels, for all zones."""
    added: dict[str, Any] = {}
    if stalls := [values[n] for s in ALLOCSTALLS if (n := f"node_vmstat_{s}") in values]:
        added["node_allocstall_total"] = sum(stalls)
    direct, background = ([values[n] for n in names if n in values] for names in (DIRECT_RECLAIM, KSWAPD_RECLAIM))
    if direct and background and (share := _share(sum(direct), sum(direct) + sum(background))) is not None:
        added[DIRECT_RECLAIM_SHARE] = share
    # Since 4.8, which counts by zone, this counter has the pages within huge pages, as AnonPages of meminfo does.
    if ANON_PAGES not in values and all(f"node_vmstat_{name}" in values for name in ANON_COUNTERS):
        added[ANON_PAGES] = values["node_vmstat_nr_anon_pages"] * PAGE_BYTES
    return added


def _with_rounding(known: Mapping[str, float], added: Iterable[str], huge_page: float) -> Mapping[str, float]:
    """The quanta of a row with those of sums of rounded parts."""
    found = dict(known)
    found |= {name: off for name in added if name in SUMS and (off := sum(known.get(part, 0.0) for part in SUMS[name]))}
    found |= {brought: found[of] * huge_page for of, brought in FAULT_BYTES.items() if of in found}
    return found


def _rests(values: Mapping[str, Any]) -> dict[str, Any]:
    """What is left of a whole without a part."""
    return {n: values[whole] - values[part] for n, (whole, part) in RESTS.items() if {whole, part} <= values.keys()}


def _share(part: Any, whole: Any) -> Any:
    """A share, or one per row; None, or NaN in a row, where there is no whole."""
    if isinstance(whole, float | int):
        return part / whole if whole > 0 else None
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)


def rates_of_counters(samples: Iterable[Sample | Series]) -> Iterator[Sample | Series]:
    """CPU shares from /proc/stat and swap rates from /proc/vmstat, a row per interval."""
    for table in make_tables(sample for sample in samples if sample.kind == "system"):
        if len(table.samples) < 2:
            continue
        if table.metrics >= set(NEEDED_COUNTERS):
            yield from _cpu_shares(table)
        for counter, name in SWAP_RATES.items():
            if counter in table.metrics and (track := make_track(table, counter)) and (points := rates(track)):
                yield from _as_rows(points.samples, {name: points.values * PAGE_BYTES}, f"{table.reader} ({name})")


def _cpu_shares(table: Table) -> Iterator[Sample | Series]:
    """The shares of CPU time between the rows of a table that have all needed counters."""
    rows = Track(NEEDED_COUNTERS[0], table, table.samples)
    known = np.logical_and.reduce([(column := rows.column_of(name)) == column for name in NEEDED_COUNTERS])
    if known.sum() < 2:
        return
    rows = Track(NEEDED_COUNTERS[0], table, select_rows(table.samples, known))
    counters = {mode: rows.column_of(f"node_cpu_seconds_total.{mode}") for mode in CPU_MODES}
    grown = {mode: np.diff(np.nan_to_num(column, nan=0.0)) for mode, column in counters.items()}
    total = sum(grown.values(), np.zeros(len(rows) - 1))
    good = (total > 0) & (np.minimum.reduce(list(grown.values())) >= 0)
    if rows.seconds is not None:
        good &= ~find_gaps(rows.seconds)
    if not good.any():
        return
    grown, total = {mode: column[good] for mode, column in grown.items()}, total[good]
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
        present = counters[mode][1:][good]
        if (present == present).any():
            values[f"cpu_ratio.{mode}"] = np.where(present == present, grown[mode] / total, np.nan)
    yield from _as_rows(select_rows(rows.samples, np.concatenate(([False], good))), values, f"{table.reader} (rates)")


def _as_rows(
    samples: Samples, columns: Mapping[str, Array[np.floating[Any]]], reader: str
) -> Iterator[Sample | Series]:
    """Rows of the host with these values at the places and times of others: a Series of a Series, else samples."""
    if isinstance(samples, Series):
        values = {name: column.astype(float) for name, column in columns.items()}
        yield replace(samples, values=values, reader=reader, resolution={}, since_boot=None)
        return
    for at, sample in enumerate(samples):
        row = {name: float(column[at]) for name, column in columns.items() if column[at] == column[at]}
        yield Sample("system", row, sample.cite, reader, time=sample.time)


def application_facts(facts: Sequence[Fact]) -> Iterator[Fact]:
    """app and app.version. A package alone does not run: its version counts for a process that does.

    Versions that processes tell of themselves come first, then those of packages.
    """
    programs: dict[tuple[str, str], Fact] = {}  # the first process of each: a host runs thousands of the same
    for fact in facts:
        if fact.name == "process.command":
            programs.setdefault((fact.label("comm") or "", str(fact.value)), fact)
        elif fact.name == "java.option" and fact.value == "true":  # as on its command line
            programs.setdefault(("java", f"java -XX:+{fact.label('option')}"), fact)
    running: set[str] = set()
    for (comm, command), fact in programs.items():
        for app in running_applications(comm, command):
            if app.name not in running:
                running.add(app.name)
                yield Fact("app", app.name, fact.cite, (("pid", fact.label("pid") or ""),))
    known = {f.label("app") for f in facts if f.name == "app.version"}
    told = [(app.name, v, f.cite) for f in programs.values() for app, v in version_in_command(str(f.value))]
    told += [(f.label("app") or "", str(f.value), f.cite) for f in facts if f.name == "package.version"]
    for name, version, cite in told:
        if name in running and name not in known:
            known.add(name)
            yield Fact("app.version", version, cite, (("app", name),))


HOST_FACTS = {"platform": "platform", "os": "os.version", "arch": "kernel.arch", "kernel": "kernel.release"}


def stance_facts(facts: Sequence[Fact]) -> Iterator[Fact]:
    """app.stance of each application that runs here, or whose version the input tells; `none` if no process is one.

    What depends on a version that nobody tells is unknown.
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


LEAST_PAUSE = 1.0  # milliseconds that are taken for no pause at all


def scan_rate(facts: Iterable[Fact]) -> Iterator[Fact]:
    """thp.khugepaged.scan_rate in pages per second, where the kernel shows both settings."""
    names = ("thp.khugepaged.pages_to_scan", "thp.khugepaged.scan_sleep_millisecs")
    known = {f.name: f for f in facts if f.name in names and not f.provenance and not isinstance(f.value, str)}
    if len(known) == len(names):
        pages, pause = (float(known[name].value) for name in names)
        yield Fact("thp.khugepaged.scan_rate", round(pages * 1000 / max(pause, LEAST_PAUSE), 1), known[names[1]].cite)


# The family and major release that commands differ by. Order matters: a release string is surer than a name in prose.
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
_REAL_TIME = re.compile(r"\bPREEMPT[_ ]RT\b")  # excludes TRANSPARENT_HUGEPAGE: mm/Kconfig of 5.15 and later
_EL6 = ((131, "6.0"), (220, "6.1"), (279, "6.2"), (358, "6.3"), (431, "6.4"))  # first build of the next minor release


def platform_facts(facts: Sequence[Fact], states: Sequence[State]) -> Iterator[Fact]:
    """kernel.era, platform and thp.applicable, each citing what it was read from."""
    release, system = first_fact(facts, "kernel.release"), first_fact(facts, "os.name")
    known = era(str(release.value)) if release else None
    if known and release and known.id != "none":
        yield Fact("kernel.era", known.id, release.cite)
    if (place := _platform(release, system)) is not None:
        yield place
    shown = next((f for s in states for f in s.facts if f.name in ("thp.enabled", "thp.defrag")), None)
    directory = None if shown else _directory(facts, release)
    built_in = first_fact(of_running_kernel(facts, release), "kernel.thp_built_in")
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
    """Family and release, of RHEL 6 with the minor release, for those differ in path and values.

    By the kernel's build 6.0 to 6.4, and `6.5` for all later ones; by a name `6.6` is 6.5 too, `6` alone a late one.
    """
    for source, patterns in ((release, _RELEASES), (system, _NAMES)):
        text = str(source.value) if source else ""
        for pattern, family in patterns:
            if source is None or not (found := pattern.search(text)):
                continue
            version = found[1]
            if (family, version) == ("el", "6") and source is release:
                build = int(number[1]) if (number := re.match(r"2\.6\.32-(\d+)", text)) else 431
                version = next((minor for limit, minor in _EL6 if build < limit), "6.5")
            elif (family, version) == ("el", "6"):
                minor = re.search(r"\b6\.(\d+)", text)
                version = f"6.{min(int(minor[1]), 5)}" if minor else "6.5"
            return Fact("platform", f"{family}{version}", source.cite)
    return None


def _directory(facts: Sequence[Fact], release: Fact | None) -> Fact | None:
    """What a listing says of the THP directory; that the mainline name is missing says nothing on RHEL 6."""
    named = [f for f in facts if f.name == "thp.directory"]
    present = next((f for f in named if f.value != "absent"), None)
    red_hat_6 = release is None or ".el6" in str(release.value)
    return present or next((f for f in named if f.label("directory") is None or not red_hat_6), None)


def add_derived_facts(case: Case) -> Case:
    """The case with derived facts and series added; what was read stays as it is."""
    sized = huge_page_fact(case)
    huge_page = float(sized.value) if sized else DEFAULT_HUGE_PAGE_BYTES
    states = tuple(_add_to_state(state, huge_page) for state in case.states)
    facts = (*case.facts, *((sized,) if sized else ()), *_release_of_recording(case))
    if not facts and not any(state.facts for state in states):
        return replace(case, states=states)  # nothing but rows and stacks, of which nothing more follows
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
    """The kernel's release from the header of a perf recording, where nothing else measured it."""
    if not any(f.name == "kernel.release" and not f.provenance for f in case.facts):
        profiles = (p for s in case.states for p in s.profiles if p.facts.get("release"))
        yield from (Fact("kernel.release", p.facts["release"], p.cite) for p in islice(profiles, 1))


def _add_to_state(state: State, huge_page: float) -> State:
    samples = tuple(with_sums(s, huge_page) for s in state.samples)
    of_memory = (*memory_shares(samples), *partially_mapped_share(samples), *slab_facts(samples))
    facts = (*state.facts, *zone_facts(samples), *of_memory)
    return replace(state, samples=(*samples, *rates_of_counters(samples)), facts=facts)
