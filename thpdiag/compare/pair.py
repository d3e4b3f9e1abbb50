"""Two results of a host side by side, and what holds for all of their findings: load, reboot, switched settings.

Whether AFTER did the work that BEFORE did decides what can be called mended. Pages handed out are the best measure that
the kernel has: they count the same with and without huge pages, and stand still when the workload does. Page faults
come second (huge pages make fewer of them). The CPU time of programs comes last, since any program fills it; the
kernel's own time is no load at all, as it is what a fix takes away.
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

UNNAMED = "host"  # what a result calls a host whose name is not in the input
PAGES_OF_HUGE = 512  # on the machines where huge pages hurt most
LESS, MORE = 0.5, 2.0  # times the work: in between it is the same
LOAD_MEASURES = {
    "node_vmstat_pgalloc_normal": "memory pages allocated",
    "node_vmstat_pgfault": "page faults",
    "node_vmstat_pgfault:rate": "page faults",
    "cpu_ratio.user_total": "CPU time of programs",
}
_IDLE_FAULTS = 100.0  # a second; of fewer no program lives
_IDLE = {"cpu_ratio.user_total": 0.05}  # below this nothing ran on either side
_LOAD_WORDS: dict[str, str] = {
    "same": "the load is comparable",
    "more": "more work was done after",
    "less": "much less work was done after",
}
_PID = re.compile(r"(?:(?<!\s)\s+)?\(\d+\)$|(?<=^process )\d+$")
_NUMBERED = re.compile(r"(?<=^kcompactd)\d+$|(?<=^kswapd)\d+$")
_THREADS = frozenset({"khugepaged", "kcompactd", "kswapd", "process", ""})
_KERNEL_TIME = ("cpu_ratio.sys_share", "cpu_ratio.sys_total", "cpu_ratio.sys_total_steal")
_PROGRAMS_TIME = "cpu_ratio.user_total"
_CLOCKS_DIFFER = 600.0  # seconds that the clocks of two recordings are trusted to
_NAMING = frozenset({"suppress", "baseline", "case"})  # options that change no finding
_FAULTS = "process_faults_total:rate"
SWITCHES = ("thp.enabled", "thp.defrag")


@dataclass(frozen=True, slots=True)
class Load:
    """`word` is same, more, less or unknown; `work` how many times the work was done, where the measure is one of work.

    `weak`: by a measure that other programs may fill, so that nothing can be called fixed by it.
    """

    word: LoadWord
    text: str
    by: Change | None = None
    work: float | None = None
    weak: str = ""

    @property
    def comparable(self) -> bool:
        return self.word in ("same", "more")


def load(before: Figures, after: Figures) -> Load:
    """By the best measure that both sides have."""
    name = next((name for name in LOAD_MEASURES if name in before and name in after), None)
    if name is None:
        return Load("unknown", "no figure on both sides shows how much work was done")
    measured = change(before[name], after[name])
    old, new, unit = before[name].value, after[name].value, before[name].unit
    told = f"{LOAD_MEASURES[name]} {quantity(old, unit)} before, {quantity(new, after[name].unit)} after"
    if old <= _IDLE.get(name, 1.0) and new <= _IDLE.get(name, 1.0):
        return Load("unknown", f"almost no work was done on either side ({told})", measured)
    ratio = new / old if old > 0 else float("inf")
    word: LoadWord = "less" if ratio < LESS else "more" if ratio > MORE else "same"
    weak = "the programs are unknown" if name.startswith("cpu_ratio") else ""
    work = ratio if not weak and 0 < ratio < float("inf") else None
    return Load(word, f"{_LOAD_WORDS[word]} ({told}{'; ' if weak else ''}{weak})", measured, work, weak)


def same_processes(measured: Load, before: frozenset[str], after: frozenset[str]) -> Load:
    """The same work is that of the same programs, as far as both sides show any.

    Of many processes the timelines show the few that grew most: others may be there. So where pages tell the load
    nothing can be called fixed, and CPU time tells nothing.
    """
    if not measured.comparable or not before or not after or before & after:
        return measured
    weak = f"the programs of BEFORE ({', '.join(sorted(before)[:3])}) are not in AFTER"
    if measured.weak:
        return Load("unknown", f"{weak}, other programs may use the CPU", measured.by)
    return Load(measured.word, f"{measured.text}, but {weak}", measured.by, measured.work, weak)


def busiest_program(
    measured: Load, faults: tuple[Mapping[str, float], Mapping[str, float]], sides: tuple[Figures, Figures]
) -> Load:
    """Not the same work, if the program that makes most page faults did much less or more, whatever others did."""
    if measured.word != "same":
        return measured
    turns: Sequence[tuple[LoadWord, int, int]] = (("less", 0, 1), ("more", 1, 0))
    for word, busy, calm in turns:
        name = max(faults[busy], key=lambda name: (faults[busy][name], name), default="")
        times = _times_less(faults[busy].get(name, 0.0), faults[calm].get(name), sides[busy], sides[calm])
        if times is not None and times > MORE:
            before, after = (quantity(one[name], "1/s") for one in faults)
            told = f"{_LOAD_WORDS[word]} (page faults of {name} {before} before, {after} after)"
            return Load(word, told, measured.by, times if word == "more" else None)
    return measured


def _times_less(most: float, left: float | None, busy: Figures, calm: Figures) -> float | None:
    """How many times less the program did at least; None if it is not the one that counts, or not known.

    A huge page saves at most 511 faults, so with all huge pages of the host counted as its own this is the most that
    it can have touched.
    """
    total, huge = busy.get("node_vmstat_pgfault"), calm.get("node_vmstat_thp_fault_alloc")
    if left is None or total is None or huge is None or most < max(total.value / 2, _IDLE_FAULTS):
        return None
    touched = left + (PAGES_OF_HUGE - 1) * huge.value
    return most / touched if touched > 0 else None


@dataclass(frozen=True)
class Pair:
    """What is taken for one host, before and after."""

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
        measured = busiest_program(load(*figures), (_faults(self.before), _faults(self.after)), figures)
        return same_processes(measured, *self.processes)

    @cached_property
    def processes(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of the processes that the timelines show; kernel threads are there, whatever runs."""
        before, after = (frozenset(_processes(one)) for one in self.results)
        return before - _THREADS, after

    def load_of(self, finding: Finding) -> Load:
        """What of the load a finding needs: khugepaged works on a process that does nothing, if only it is there."""
        if finding.mechanism == "khugepaged-bloat" and (name := entity(finding)):
            there = name in self.processes[1]
            return Load("same" if there else "unknown", f"{name} is {'there' if there else 'not seen'} after")
        return self.load

    @cached_property
    def half_redacted(self) -> bool:
        """Whether the names of one side only are pseudonyms, so that no name of the one is any of the other."""
        return bool(self.before.tool.redacted) != bool(self.after.tool.redacted)

    @cached_property
    def reboot_evidence(self) -> str:
        """By what it is known that the host was booted in between; empty if nothing says so."""
        if self.same == "different":
            return ""
        old, new = (one.host.kernel or "" for one in self.results)
        if old and new and not self.alike(old, new):
            return f"kernel {old} before, {new} after"
        up_before, up_after = (one.host.uptime for one in self.results)
        if self.is_reversed or not numeric(up_before) or not numeric(up_after):
            return ""
        if up_after < up_before:
            return "the uptime after is shorter than before"
        ends = [max(_times(one), default=0.0) for one in self.results]
        if all(ends) and ends[1] - up_after > ends[0] + _CLOCKS_DIFFER:
            return "the uptime after is shorter than the time in between"
        return ""

    def alike(self, before: str, after: str) -> bool:
        """Whether two words about the host are the same, as far as a redacted one tells: its end may be cut."""
        short, long = sorted((before, after), key=len)
        return before == after or (self.half_redacted and long.startswith(short))

    @cached_property
    def is_reversed(self) -> bool:
        """Whether AFTER was recorded first, as far as the clocks of both tell."""
        ends, begins = _times(self.before), _times(self.after)
        return self.same != "different" and bool(ends and begins) and max(begins) < min(ends)

    @cached_property
    def switched_settings(self) -> list[tuple[str, str, str]]:
        """Settings of huge pages that are known on both sides, and differ: (name, before, after)."""
        return [row for row in self.differing if row[0].startswith("thp.")]

    @cached_property
    def differing(self) -> list[tuple[str, str, str]]:
        """All such settings. That of AFTER may not be assumed: what a distribution begins with nobody switched to."""
        before = self.before.host.settings
        rows = ((name, before[name].value, known_setting(self.after, name)) for name in sorted(before))
        return [(name, str(old), str(new)) for name, old, new in rows if None not in (old, new) and old != new]

    @cached_property
    def has_changed(self) -> bool:
        """Whether there is anything known that can have helped; a good and a bad host need nothing."""
        return self.same == "different" or bool(self.differing)

    @cached_property
    def kernel_time(self) -> Change | None:
        """The kernel's CPU time, if it fell by half or more across a switch of huge pages."""
        before, after = (one.figures for one in self.sides)
        name = next((name for name in _KERNEL_TIME if name in before and name in after), None)
        if name is None or not self.load.comparable or not any(row[0] in SWITCHES for row in self.switched_settings):
            return None
        measured = change(before[name], after[name])
        fell = measured.direction == "down" and after[name].value * 2 <= before[name].value
        return measured if fell else None

    @cached_property
    def programs_time(self) -> Change | None:
        """The CPU time of programs on both sides."""
        before, after = (one.figures.get(_PROGRAMS_TIME) for one in self.sides)
        return change(before, after) if before is not None and after is not None else None

    @cached_property
    def cpu_time_change(self) -> Change | None:
        """The kernel's CPU time, if it fell across a switch of huge pages and programs got clearly more.

        Programs that only keep theirs leave system time alone to speak, which proves nothing: what made it may as well
        have ended.
        """
        programs = self.programs_time
        return self.kernel_time if programs is not None and programs.direction == "up" else None

    @cached_property
    def same_files(self) -> bool:
        """Whether both were made of the very same files with the same options: a result compared with itself."""
        before, after = ({digest for _, digest in _digests(one)} for one in self.results)
        return bool(before) and before == after and self.same_options

    @cached_property
    def same_options(self) -> bool:
        """Whether both were analysed alike; what was accepted, and what the case is called, changes no finding."""
        before, after = (
            {name: value for name, value in one.tool.options.items() if name not in _NAMING} for one in self.results
        )
        return before == after

    def looked_twice(self, before: Finding, after: Finding) -> bool:
        """Whether AFTER measured anything for a finding that BEFORE did not have: bundles of one host have old
        recordings in common, and two parts of one bundle what has no time."""
        if self.same_files:
            return True
        old = {digest for _, digest in _digests(self.before)}
        shared = {member for member, digest in _digests(self.after) if digest in old}
        seen, again = _measured_places(before), _measured_places(after)
        return not again or not again <= seen or not {member for member, _, _ in again} <= shared

    def outcomes(self, rule: str) -> tuple[Outcome, Outcome]:
        """What a rule said before and after; `absent` where it was not asked."""
        found: list[Outcome] = []
        for one in self.results:
            found.append(next((r.outcome for r in one.rules if r.id == rule), "absent"))
        return found[0], found[1]


def pair_hosts(before: Sequence[Result], after: Sequence[Result]) -> tuple[list[Pair], list[tuple[SideName, Result]]]:
    """By name, and what has no partner with its side; of one host on each side the two belong together whatever they
    are called, and that is told."""
    if len(before) == len(after) == 1:
        return [Pair(before[0], after[0], _sameness(before[0], after[0]))], []
    left, pairs = list(after), []
    alone: list[tuple[SideName, Result]] = []
    for host in before:
        partner = next((other for other in left if _sameness(host, other) == "same"), None)
        if partner is None:
            alone.append(("before", host))
        else:
            left.remove(partner)
            pairs.append(Pair(host, partner))
    alone += [("after", host) for host in left]
    return pairs, alone


def own_name(host: Result) -> str:
    """The host's own name, empty if the input does not tell it."""
    name = host.host.name or host.case or ""
    return "" if name == UNNAMED else name


def _sameness(before: Result, after: Result) -> Sameness:
    names = own_name(before), own_name(after)
    if not all(names) or Pair(before, after).half_redacted:
        return "unnamed"
    short = [name.partition(".")[0] for name in names]
    alike = names[0] == names[1] or (short[0] == short[1] and any("." not in name for name in names))
    return "same" if alike else "different"


def known_setting(host: Result, name: str) -> object:
    """The value of a setting; None if nothing tells it, which a default that is only assumed does not."""
    setting = host.host.settings.get(name)
    return None if setting is None or setting.provenance in ("assumed", "unknown") else setting.value


def entity(finding: Finding) -> str:
    """What a finding is about, without the process id: a process that was started anew is the same to us."""
    return _PID.sub("", finding.entity or "")


def _digests(host: Result) -> set[tuple[str, str]]:
    return {(one.member, one.sha256) for one in host.inputs if one.sha256}


def _measured_places(finding: Finding) -> set[tuple[str, int | None, str | None]]:
    """What was seen for a finding, but for settings and the like, which need no second look."""
    rows = (
        row for row in finding.evidence if row.kind not in ("policy", "state", "action", "application", "testimony")
    )
    return {(row.member or "", row.line, row.text) for row in rows}


def _processes(host: Result) -> Iterator[str]:
    for series in host.timeline.series:
        if series.metric.startswith("process_") and series.entity:
            yield _NUMBERED.sub("", _PID.sub("", series.entity)).strip()


def _faults(host: Result) -> dict[str, float]:
    """Page faults a second of each program that the timeline shows, its processes together."""
    found: dict[str, float] = {}
    for series in host.timeline.series:
        if series.metric == _FAULTS and series.entity and (means := series_means(series)):
            name = _PID.sub("", series.entity)
            found[name] = found.get(name, 0.0) + fmean(means)
    return found


def _times(host: Result) -> list[float]:
    series = (one for one in host.timeline.series if one.clock == "utc")
    return [row[0] for one in series for row in one.points if numeric(row[0])]
