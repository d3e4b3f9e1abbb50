"""Two documents of a host side by side, and what holds for all of their findings: load, reboot, switched settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from thpdiag.compare.change import Change, change
from thpdiag.compare.figures import Host, absent_share, figures, numeric
from thpdiag.compare.load import Load, load, of_process, with_processes, with_program
from thpdiag.compare.own_figures import Side
from thpdiag.compare.paired import half_redacted

_PID = re.compile(r"\s*\(\d+\)$|(?<=^process )\d+$")
_NUMBERED = re.compile(r"(?<=^kcompactd)\d+$|(?<=^kswapd)\d+$")
_THREADS = frozenset({"khugepaged", "kcompactd", "kswapd", "process", ""})
_KERNEL_TIME = ("cpu_ratio.sys_share", "cpu_ratio.sys_total", "cpu_ratio.sys_total_steal")
_CLOCKS_DIFFER = 600.0  # seconds that the clocks of two recordings are trusted to
_NAMING = frozenset({"suppress", "baseline", "case"})  # options that change no finding
_FAULTS = "process_faults_total:rate"
SWITCHES = ("thp.enabled", "thp.defrag")


@dataclass(frozen=True)
class Pair:
    """Completed documents of what is taken for one host, before and after."""

    before: Host
    after: Host
    same: str = "same"  # or different, unnamed

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        before, after = (Side(figures(one), absent_share(one, "")) for one in (self.before, self.after))
        return before, after

    @cached_property
    def load(self) -> Load:
        before, after = (side.figures for side in self.sides)
        judged = with_program(load(before, after), (_faults(self.before), _faults(self.after)), (before, after))
        return with_processes(judged, *self.processes)

    @cached_property
    def half_redacted(self) -> bool:
        return half_redacted(self.before, self.after)

    @cached_property
    def processes(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of the processes that the timelines show; kernel threads are there, whatever runs."""
        before, after = (frozenset(_processes(one)) for one in (self.before, self.after))
        return before - _THREADS, after

    def load_of(self, finding: Mapping[str, Any]) -> Load:
        """What of the load a finding needs: khugepaged works on a process that does nothing."""
        if finding["mechanism"] == "khugepaged-bloat" and entity(finding):
            return of_process(entity(finding), self.processes[1])
        return self.load

    @cached_property
    def rebooted(self) -> str:
        """By what it is known that the host was booted in between; empty if nothing says so."""
        if self.same == "different":
            return ""
        kernels = [one["host"]["kernel"] or "" for one in (self.before, self.after)]
        if all(kernels) and not self.alike(*kernels):
            return f"kernel {kernels[0]} before, {kernels[1]} after"
        uptimes = [one["host"]["uptime"] for one in (self.before, self.after)]
        if self.reversed or not all(map(numeric, uptimes)):
            return ""
        if uptimes[1] < uptimes[0]:
            return "the uptime after is shorter than before"
        ends = [max(_times(one), default=0.0) for one in (self.before, self.after)]
        if all(ends) and ends[1] - uptimes[1] > ends[0] + _CLOCKS_DIFFER:
            return "the uptime after is shorter than the time in between"
        return ""

    def alike(self, before: str, after: str) -> bool:
        """Whether two words about the host are the same, as far as a redacted one tells: its end may be cut."""
        short, long = sorted((before, after), key=len)
        return before == after or (self.half_redacted and long.startswith(short))

    @cached_property
    def reversed(self) -> bool:
        """Whether AFTER was recorded first, as far as the clocks of both tell."""
        ends, begins = _times(self.before), _times(self.after)
        return self.same != "different" and bool(ends and begins) and max(begins) < min(ends)

    @cached_property
    def switched(self) -> list[tuple[str, str, str]]:
        """Settings of huge pages that are known on both sides, and differ: (name, before, after)."""
        return [row for row in self.differing if row[0].startswith("thp.")]

    @cached_property
    def differing(self) -> list[tuple[str, str, str]]:
        """All such settings. That of AFTER may not be assumed: what a distribution begins with nobody switched to."""
        before = self.before["host"]["settings"]
        rows = ((name, before[name]["value"], known(self.after, name)) for name in sorted(before))
        return [(name, str(old), str(new)) for name, old, new in rows if None not in (old, new) and old != new]

    @cached_property
    def changed(self) -> bool:
        """Whether there is anything known that can have helped; a good and a bad host need nothing."""
        return self.same == "different" or bool(self.differing)

    @cached_property
    def kernel_time(self) -> Change | None:
        """The kernel's CPU time, if it fell by half or more across a switch of huge pages."""
        before, after = (side.figures for side in self.sides)
        name = next((name for name in _KERNEL_TIME if name in before and name in after), None)
        if name is None or not self.load.comparable or not any(said[0] in SWITCHES for said in self.switched):
            return None
        measured = change(before[name], after[name])
        fell = measured.direction == "down" and after[name].value * 2 <= before[name].value
        return measured if fell else None

    @cached_property
    def programs_time(self) -> Change | None:
        """The CPU time of programs on both sides."""
        before, after = (side.figures.get("cpu_ratio.user_total") for side in self.sides)
        return change(before, after) if before is not None and after is not None else None

    @cached_property
    def toggled(self) -> Change | None:
        """The kernel's CPU time, if it fell across a switch of huge pages and programs got clearly more.

        Programs that only keep theirs leave system time alone to speak, which proves nothing: what made it may as well
        have ended.
        """
        programs = self.programs_time
        return self.kernel_time if programs is not None and programs.direction == "up" else None

    @cached_property
    def same_files(self) -> bool:
        """Whether both were made of the very same files with the same options: a result compared with itself."""
        before, after = ({digest for _, digest in _digests(one)} for one in (self.before, self.after))
        return bool(before) and before == after and self.same_options

    @cached_property
    def same_options(self) -> bool:
        """Whether both were analysed alike; what was accepted, and what the case is called, changes no finding."""
        before, after = (
            {name: value for name, value in one["tool"]["options"].items() if name not in _NAMING}
            for one in (self.before, self.after)
        )
        return before == after

    def looked_twice(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Whether AFTER measured anything for a finding that BEFORE did not have: bundles of one host have old
        recordings in common, and two parts of one bundle what has no time."""
        if self.same_files:
            return True
        old = {digest for _, digest in _digests(self.before)}
        shared = {member for member, digest in _digests(self.after) if digest in old}
        seen, again = _measured(before), _measured(after)
        return not again or not again <= seen or not {member for member, _, _ in again} <= shared

    def outcome(self, rule: str) -> tuple[str, str]:
        """What a rule said before and after; `absent` where it was not asked."""
        before, after = (_outcome(one, rule) for one in (self.before, self.after))
        return before, after


def known(host: Host, name: str) -> object:
    """The value of a setting; None if nothing tells it, which a default that is only assumed does not."""
    setting = host["host"]["settings"].get(name)
    return None if setting is None or setting["provenance"] in ("assumed", "unknown") else setting["value"]


def _outcome(host: Host, rule: str) -> str:
    return next((str(one["outcome"]) for one in host["rules"] if one["id"] == rule), "absent")


def _digests(host: Host) -> set[tuple[str, str]]:
    return {(one["member"], one["sha256"]) for one in host["inputs"] if one["sha256"]}


def _measured(finding: Mapping[str, Any]) -> set[tuple[str, int | None, str]]:
    """What was seen for a finding, but for settings and the like, which need no second look."""
    rows = (row for row in finding["evidence"] if row["kind"] not in ("policy", "state", "action", "application"))
    return {(row["member"] or "", row["line"], row["text"]) for row in rows}


def _processes(host: Host) -> Iterator[str]:
    for series in host["timeline"]["series"]:
        if series["metric"].startswith("process_") and series["entity"]:
            name = _PID.sub("", series["entity"])
            yield _NUMBERED.sub("", name).strip()


def _faults(host: Host) -> dict[str, float]:
    """Page faults a second of each program that the timeline shows, its processes together."""
    found: dict[str, float] = {}
    for series in host["timeline"]["series"]:
        means = [row[3] for row in series["points"] if numeric(row[3])]
        if series["metric"] == _FAULTS and series["entity"] and means:
            name = _PID.sub("", series["entity"])
            found[name] = found.get(name, 0.0) + fmean(means)
    return found


def _times(host: Host) -> list[float]:
    series = host["timeline"]["series"]
    return [row[0] for one in series if one["clock"] == "utc" for row in one["points"] if numeric(row[0])]


def entity(finding: Mapping[str, Any]) -> str:
    """What a finding is about, without the process id: a process that was started anew is the same to us."""
    return _PID.sub("", finding["entity"] or "")


def key(finding: Mapping[str, Any]) -> tuple[str, str]:
    return finding["rule"], entity(finding)
