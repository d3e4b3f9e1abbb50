"""Two results of a host, and what applies to all of their findings: load, reboot, changed settings.

Whether AFTER did the same work as BEFORE decides what can be called fixed. The number of allocated pages is the best
measure in the kernel: it is the same with and without huge pages, and does not grow without a workload. Page faults are
the second choice (huge pages reduce them). The CPU time of programs is the last, because any program may use it. The
kernel's own time is no measure of load, because a fix reduces it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Literal

from thpdiag.compare.figures import Change, Figure, Side, change, numeric, series_means, side
from thpdiag.compare.model import Outcome
from thpdiag.model.result import Finding, Result
from thpdiag.report.quantity import quantity

Figures = Mapping[str, Figure]
LoadWord = Literal["same", "more", "less", "unknown"]
Sameness = Literal["same", "different", "unnamed"]
SideName = Literal["before", "after"]

UNNAMED = "host"  # name of a host in a result if the input does not name it
SMALL_PAGES_PER_HUGE_PAGE = 512  # on x86-64
MAX_LESS_RATIO, MIN_MORE_RATIO = 0.5, 2.0  # of the work; in between it is the same
LOAD_MEASURES = {
    "node_vmstat_pgalloc_normal": "memory pages allocated",
    "node_vmstat_pgfault": "page faults",
    "node_vmstat_pgfault:rate": "page faults",
    "cpu_ratio.user_total": "CPU time of programs",
}
_IDLE_FAULTS = 100.0  # per second; any busy program causes more
_IDLE_LEVELS = {"cpu_ratio.user_total": 0.05}  # on both sides: the host was idle
_LOAD_WORDS: dict[str, str] = {
    "same": "the load is comparable",
    "more": "more work was done after",
    "less": "much less work was done after",
}
_PID = re.compile(r"(?:(?<!\s)\s+)?\(\d+\)$|(?<=^process )\d+$")
_NUMBERED = re.compile(r"(?<=^kcompactd)\d+$|(?<=^kswapd)\d+$")
_GENERIC_NAMES = frozenset({"khugepaged", "kcompactd", "kswapd", "process", ""})
_KERNEL_TIME = ("cpu_ratio.sys_share", "cpu_ratio.sys_total", "cpu_ratio.sys_total_steal")
_PROGRAMS_TIME = "cpu_ratio.user_total"
MAX_CLOCK_DIFFERENCE_SECONDS = 600.0  # between the clocks of two recordings
_NEUTRAL_OPTIONS = frozenset({"suppress", "baseline", "case"})  # options that do not change the findings
_FAULTS = "process_faults_total:rate"
SWITCHES = ("thp.enabled", "thp.defrag")


@dataclass(frozen=True, slots=True)
class Load:
    """The load of AFTER relative to BEFORE: `word` is same, more, less or unknown; `work` the ratio, if it is measured.

    `weak` states why the measure may be that of other programs, so that nothing can be called fixed by it.
    """

    word: LoadWord
    text: str
    by: Change | None = None
    work: float | None = None
    weak: str = ""

    @property
    def is_comparable(self) -> bool:
        return self.word in ("same", "more")


def load(before: Figures, after: Figures) -> Load:
    """Return the load by the best measure that both sides have."""
    name = next((name for name in LOAD_MEASURES if name in before and name in after), None)
    if name is None:
        return Load("unknown", "no figure on both sides shows how much work was done")
    measured = change(before[name], after[name])
    old, new, unit = before[name].value, after[name].value, before[name].unit
    figures = f"{LOAD_MEASURES[name]} {quantity(old, unit)} before, {quantity(new, after[name].unit)} after"
    if old <= _IDLE_LEVELS.get(name, 1.0) and new <= _IDLE_LEVELS.get(name, 1.0):
        return Load("unknown", f"almost no work was done on either side ({figures})", measured)
    ratio = new / old if old > 0 else float("inf")
    word: LoadWord = "less" if ratio < MAX_LESS_RATIO else "more" if ratio > MIN_MORE_RATIO else "same"
    weak = "the programs are unknown" if name.startswith("cpu_ratio") else ""
    work = ratio if not weak and 0 < ratio < float("inf") else None
    return Load(word, f"{_LOAD_WORDS[word]} ({figures}{'; ' if weak else ''}{weak})", measured, work, weak)


def require_same_programs(measured: Load, before: frozenset[str], after: frozenset[str]) -> Load:
    """Return the load; it is weaker if the two sides show no common program.

    The timelines show only the processes that grew most, so others may be present. Hence if pages measure the load,
    nothing can be called fixed, and if CPU time does, the load is unknown.
    """
    if not measured.is_comparable or not before or not after or before & after:
        return measured
    weak = f"the programs of BEFORE ({', '.join(sorted(before)[:3])}) are not in AFTER"
    if measured.weak:
        return Load("unknown", f"{weak}, other programs may use the CPU", measured.by)
    return Load(measured.word, f"{measured.text}, but {weak}", measured.by, measured.work, weak)


def check_busiest_program(
    measured: Load, faults: tuple[Mapping[str, float], Mapping[str, float]], sides: tuple[Figures, Figures]
) -> Load:
    """Return the load; it is not the same if the program with most page faults did much less or more."""
    if measured.word != "same":
        return measured
    cases: Sequence[tuple[LoadWord, int, int]] = (("less", 0, 1), ("more", 1, 0))
    for word, busy, other in cases:
        name = max(faults[busy], key=lambda name: (faults[busy][name], name), default="")
        times = _min_decrease(faults[busy].get(name, 0.0), faults[other].get(name), sides[busy], sides[other])
        if times is not None and times > MIN_MORE_RATIO:
            before, after = (quantity(side_faults[name], "1/s") for side_faults in faults)
            text = f"{_LOAD_WORDS[word]} (page faults of {name} {before} before, {after} after)"
            return Load(word, text, measured.by, times if word == "more" else None)
    return measured


def _min_decrease(most: float, remaining: float | None, busy: Figures, other: Figures) -> float | None:
    """Return the minimum factor by which a program did less; None if it has too few faults or is unknown.

    A huge page saves at most 511 faults, so counting all huge pages of the host as its own bounds what it can have
    touched.
    """
    total, huge = busy.get("node_vmstat_pgfault"), other.get("node_vmstat_thp_fault_alloc")
    if remaining is None or total is None or huge is None or most < max(total.value / 2, _IDLE_FAULTS):
        return None
    touched = remaining + (SMALL_PAGES_PER_HUGE_PAGE - 1) * huge.value
    return most / touched if touched > 0 else None


@dataclass(frozen=True)
class Pair:
    """Two results that are taken for one host."""

    before: Result
    after: Result
    same: Sameness = "same"

    @property
    def results(self) -> tuple[Result, Result]:
        return self.before, self.after

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        return side(self.before), side(self.after)

    @cached_property
    def load(self) -> Load:
        figures = self.sides[0].figures, self.sides[1].figures
        measured = check_busiest_program(load(*figures), (_faults(self.before), _faults(self.after)), figures)
        return require_same_programs(measured, *self.processes)

    @cached_property
    def processes(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of the processes in the timelines; without the kernel threads, which always exist, in BEFORE."""
        before, after = (frozenset(_processes(result)) for result in self.results)
        return before - _GENERIC_NAMES, after

    def load_of(self, finding: Finding) -> Load:
        """Return the load that a finding requires: khugepaged works on idle processes too, if they exist."""
        if finding.mechanism == "khugepaged-bloat" and (name := entity(finding)):
            is_present = name in self.processes[1]
            return Load("same" if is_present else "unknown", f"{name} is {'there' if is_present else 'not seen'} after")
        return self.load

    @cached_property
    def half_redacted(self) -> bool:
        """Whether only one side has pseudonyms, so that names cannot be matched."""
        return bool(self.before.tool.redacted) != bool(self.after.tool.redacted)

    @cached_property
    def reboot_evidence(self) -> str:
        """The evidence for a reboot in between; empty if there is none."""
        if self.same == "different":
            return ""
        old, new = (result.host.kernel or "" for result in self.results)
        if old and new and not self.are_alike(old, new):
            return f"kernel {old} before, {new} after"
        up_before, up_after = (result.host.uptime for result in self.results)
        if self.is_reversed or not numeric(up_before) or not numeric(up_after):
            return ""
        if up_after < up_before:
            return "the uptime after is shorter than before"
        ends = [max(_times(result), default=0.0) for result in self.results]
        if all(ends) and ends[1] - up_after > ends[0] + MAX_CLOCK_DIFFERENCE_SECONDS:
            return "the uptime after is shorter than the time in between"
        return ""

    def are_alike(self, before: str, after: str) -> bool:
        """Whether two words about the host are equal; a redacted word may be truncated."""
        short, long = sorted((before, after), key=len)
        return before == after or (self.half_redacted and long.startswith(short))

    @cached_property
    def is_reversed(self) -> bool:
        """Whether AFTER was recorded first, according to the clocks of both."""
        ends, begins = _times(self.before), _times(self.after)
        return self.same != "different" and bool(ends and begins) and max(begins) < min(ends)

    @cached_property
    def switched_settings(self) -> list[tuple[str, str, str]]:
        """The huge-page settings that are known on both sides and differ: (name, before, after)."""
        return [row for row in self.differing if row[0].startswith("thp.")]

    @cached_property
    def differing(self) -> list[tuple[str, str, str]]:
        """All settings that are known on both sides and differ. An assumed value of AFTER, a default, is no change."""
        before = self.before.host.settings
        rows = ((name, before[name].value, known_setting(self.after, name)) for name in sorted(before))
        return [(name, str(old), str(new)) for name, old, new in rows if None not in (old, new) and old != new]

    @cached_property
    def has_changed(self) -> bool:
        """Whether any known change may have helped; always true for two different hosts."""
        return self.same == "different" or bool(self.differing)

    @cached_property
    def kernel_time(self) -> Change | None:
        """The kernel's CPU time, if it fell by half or more after a change of a huge-page policy."""
        before, after = (s.figures for s in self.sides)
        name = next((name for name in _KERNEL_TIME if name in before and name in after), None)
        if name is None or not self.load.is_comparable or not any(row[0] in SWITCHES for row in self.switched_settings):
            return None
        measured = change(before[name], after[name])
        has_halved = measured.direction == "down" and after[name].value * 2 <= before[name].value
        return measured if has_halved else None

    @cached_property
    def programs_time(self) -> Change | None:
        """The CPU time of programs on both sides."""
        before, after = (s.figures.get(_PROGRAMS_TIME) for s in self.sides)
        return change(before, after) if before is not None and after is not None else None

    @cached_property
    def cpu_time_change(self) -> Change | None:
        """The kernel's CPU time, if it fell after a change of a huge-page policy and programs got clearly more.

        If programs only kept their time, the fall of system time alone is no evidence: its cause may have ended.
        """
        programs = self.programs_time
        return self.kernel_time if programs is not None and programs.direction == "up" else None

    @cached_property
    def same_files(self) -> bool:
        """Whether both were made from the same files with the same options: a result compared with itself."""
        before, after = ({digest for _, digest in _digests(result)} for result in self.results)
        return bool(before) and before == after and self.same_options

    @cached_property
    def same_options(self) -> bool:
        """Whether both were analysed with the same options; those that only name or accept findings do not count."""
        old, new = ({n: v for n, v in r.tool.options.items() if n not in _NEUTRAL_OPTIONS} for r in self.results)
        return old == new

    def has_new_evidence(self, before: Finding, after: Finding) -> bool:
        """Whether AFTER measured anything for a finding that BEFORE had not: bundles of one host share old recordings,
        and two parts of one bundle share records without a time."""
        if self.same_files:
            return True
        old = {digest for _, digest in _digests(self.before)}
        shared = {member for member, digest in _digests(self.after) if digest in old}
        before_places, after_places = _measured_places(before), _measured_places(after)
        after_members = {member for member, _, _ in after_places}
        return not after_places or not after_places <= before_places or not after_members <= shared

    def outcomes(self, rule: str) -> tuple[Outcome, Outcome]:
        """Return the outcome of a rule before and after; `absent` if it was not evaluated."""
        outcomes: list[Outcome] = []
        for result in self.results:
            outcomes.append(next((r.outcome for r in result.rules if r.id == rule), "absent"))
        return outcomes[0], outcomes[1]


def pair_hosts(before: Sequence[Result], after: Sequence[Result]) -> tuple[list[Pair], list[tuple[SideName, Result]]]:
    """Return the pairs of hosts with one name, and unpaired hosts with their side. Single hosts are paired whatever
    their names; a note says so."""
    if len(before) == len(after) == 1:
        return [Pair(before[0], after[0], _sameness(before[0], after[0]))], []
    left, pairs = list(after), []
    unpaired: list[tuple[SideName, Result]] = []
    for host in before:
        partner = next((other for other in left if _sameness(host, other) == "same"), None)
        if partner is None:
            unpaired.append(("before", host))
        else:
            left.remove(partner)
            pairs.append(Pair(host, partner))
    unpaired += [("after", host) for host in left]
    return pairs, unpaired


def own_name(host: Result) -> str:
    """Return the host's own name, empty if the input does not contain it."""
    name = host.host.name or host.case or ""
    return "" if name == UNNAMED else name


def _sameness(before: Result, after: Result) -> Sameness:
    names = own_name(before), own_name(after)
    if not all(names) or Pair(before, after).half_redacted:
        return "unnamed"
    short_names = [name.partition(".")[0] for name in names]
    is_same = names[0] == names[1] or (short_names[0] == short_names[1] and any("." not in name for name in names))
    return "same" if is_same else "different"


def known_setting(host: Result, name: str) -> object:
    """Return the value of a setting; None if it is unknown or only an assumed default."""
    setting = host.host.settings.get(name)
    return None if setting is None or setting.provenance in ("assumed", "unknown") else setting.value


def entity(finding: Finding) -> str:
    """Return the entity of a finding without the process id: a restarted process counts as the same."""
    return _PID.sub("", finding.entity or "")


def _digests(host: Result) -> set[tuple[str, str]]:
    return {(row.member, row.sha256) for row in host.inputs if row.sha256}


def _measured_places(finding: Finding) -> set[tuple[str, int | None, str | None]]:
    """Return the citations of a finding's evidence, without settings and the like, which need not be measured again."""
    rows = (
        row for row in finding.evidence if row.kind not in ("policy", "state", "action", "application", "testimony")
    )
    return {(row.member or "", row.line, row.text) for row in rows}


def _processes(host: Result) -> Iterator[str]:
    for series in host.timeline.series:
        if series.metric.startswith("process_") and series.entity:
            yield _NUMBERED.sub("", _PID.sub("", series.entity)).strip()


def _faults(host: Result) -> dict[str, float]:
    """Return the page faults per second of each program in the timeline, summed over its processes."""
    totals: dict[str, float] = {}
    for series in host.timeline.series:
        if series.metric == _FAULTS and series.entity and (means := series_means(series)):
            name = _PID.sub("", series.entity)
            totals[name] = totals.get(name, 0.0) + fmean(means)
    return totals


def _times(host: Result) -> list[float]:
    series = (s for s in host.timeline.series if s.clock == "utc")
    return [row[0] for s in series for row in s.points if numeric(row[0])]
