"""What became of a finding: fixed, improved, unchanged, worse, new, or that it cannot be told, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thpdiag.compare.change import Change
from thpdiag.compare.figures import Host
from thpdiag.compare.own_figures import CORE, ENDED_BY_BOOT, FALLBACK, IN_CPU_TIME, direction, names, own, shares
from thpdiag.compare.sides import SWITCHES, Pair, known
from thpdiag.compare.wording import told

Finding = Mapping[str, Any]

OF_SETTINGS = ("configuration", "risk")
_PSEUDONYMS = "but the names of one side are pseudonyms: whether it was about the same cannot be told"
_UNCHANGED = "; no setting is known to have changed, so it may come back"
_SINCE_BOOT = "a total since boot, which says nothing about now"


@dataclass(frozen=True, slots=True)
class Judged:
    """A finding of either side with what became of it."""

    status: str
    reason: str
    before: Finding | None
    after: Finding | None
    changes: Sequence[Change] = ()
    needs_load: bool = False

    @property
    def finding(self) -> Finding:
        found = self.after or self.before
        if found is None:
            raise ValueError("a finding of neither side")
        return found


def judge(before: Finding | None, after: Finding | None, pair: Pair) -> Judged:
    """A finding as it was, as it is, or both."""
    if before is None and after is not None:
        return _appeared(after, pair)
    if before is None:
        raise ValueError("a finding of neither side")
    changes = own(before, *pair.sides, pair.load_of(before).work)
    if after is not None:
        return _stayed(before, after, changes, pair)
    said = pair.outcome(before["rule"])[1]
    if said == "fires":  # about another process, zone or device
        reason = _PSEUDONYMS if pair.half_redacted else "about something else; about this one nothing was found"
        reason = f"found after too, {reason}"
        return Judged("cannot_tell", reason, before, None, changes)
    if {evidence["kind"] for evidence in before["evidence"]} == {"total"}:
        return Judged("cannot_tell", f"no longer found; it was {_SINCE_BOOT}", before, None)
    if _of_settings(before):
        return _settings_gone(before, said, changes)
    return _gone(before, said, changes, pair)


def _appeared(after: Finding, pair: Pair) -> Judged:
    said, _ = pair.outcome(after["rule"])
    changes = own(after, *pair.sides, pair.load.work)
    if said == "silent" and pair.load.word == "more" and direction(changes) != "up" and not _of_settings(after):
        reason = f"found after; before it was not, but {pair.load.text}"
        return Judged("cannot_tell", reason, None, after, changes)
    if said == "fires" and pair.half_redacted and after["entity"]:
        return Judged("cannot_tell", f"found before too, {_PSEUDONYMS}", None, after, changes)
    if said == "silent" or (_cleared(pair.before, after) and direction(changes) == "up"):
        moved = f": {told(changes)}" if direction(changes) == "up" else ""
        work = f"; {pair.load.text}" if pair.load.word == "more" else ""
        return Judged("new", f"it was looked for before and not found{moved}{work}", None, after, changes)
    if said == "fires":
        return Judged("new", "before it was found about something else only", None, after, changes)
    why = "was not asked" if said == "absent" else "could not be decided"
    return Judged(
        "cannot_tell", f"found after; before, the rule {why}, so it may have been there", None, after, changes
    )


def _stayed(before: Finding, after: Finding, changes: Sequence[Change], pair: Pair) -> Judged:
    """Found on both sides: more, less, or as it was, by its own figures."""
    way, load = direction(changes), pair.load_of(before)
    if not pair.looked_twice(before, after):
        reason = "AFTER rests on the same lines of the same files as BEFORE, which is no second look"
        return Judged("cannot_tell", reason, before, after)
    if way == "apart":
        return Judged("cannot_tell", f"found again; its figures disagree: {told(changes)}", before, after, changes)
    if way == "up":
        return _more(before, after, changes, pair)
    if way == "down" and load.comparable:
        return Judged("improved", f"still found, with less of it: {told(changes)}; {load.text}", before, after, changes)
    if way == "down":
        reason = f"still found, with less of it ({told(changes)}), but {load.text}"
        return Judged("cannot_tell", reason, before, after, changes, needs_load=True)
    if way == "same" and not all(c.direction == "same" for c in changes):
        return Judged(
            "unchanged", f"found again; what differs is within the noise: {told(changes)}", before, after, changes
        )
    work = f"; {load.text}" if any(c.alone != "same" for c in changes) else ""
    return Judged("unchanged", "found again" + (f": {told(changes)}{work}" if changes else ""), before, after, changes)


def _more(before: Finding, after: Finding, changes: Sequence[Change], pair: Pair) -> Judged:
    """Found again, with more of it."""
    moved, load = told(changes), pair.load_of(before)
    if names(before) == (FALLBACK,) and "never" in (known(pair.after, name) for name in SWITCHES):
        reason = f"found again: {moved}; small pages at once, instead of waiting, are what this setting is for"
        return Judged("unchanged", reason, before, after, changes)
    if load.word == "unknown" and any(c.before.unit == "1/s" for c in changes):
        reason = f"found again, with more of it ({moved}), but {load.text}"
        return Judged("cannot_tell", reason, before, after, changes, needs_load=True)
    if load.word not in ("less", "more") or not all(shares(c) for c in changes if c.direction == "up"):
        return Judged("worse", f"found again, with more of it: {moved}", before, after, changes)
    # Only a share of call stacks rose, and what uses the CPU beside it changed with the work.
    reason = f"found again, with a larger part of the samples: {moved}; {load.text}"
    if load.word == "more" and not all(map(shares, changes)):  # its counters did not rise for the same work
        return Judged("unchanged", reason, before, after, changes)
    return Judged("cannot_tell", reason, before, after, changes, needs_load=True)


def _of_settings(finding: Finding) -> bool:
    """Whether it is about settings only, which are as they are under any load."""
    kinds = {evidence["kind"] for evidence in finding["evidence"]}
    return finding["role"] in OF_SETTINGS and kinds <= {"policy", "state", "action", "application", None}


def _settings_gone(before: Finding, said: str, changes: Sequence[Change]) -> Judged:
    if said == "silent":
        return Judged("fixed", "about settings, and its rule finds nothing after", before, None, changes)
    return Judged("cannot_tell", _undecided(said), before, None, changes)


def _gone(before: Finding, said: str, changes: Sequence[Change], pair: Pair) -> Judged:
    """No longer found: is it gone, was it not looked at, or did the work end?"""
    mechanism, way, load = before["mechanism"] or "", direction(changes), pair.load_of(before)
    cleared = _cleared(pair.after, before) and way == "down"
    if way == "up":
        return _risen(before, said, changes, pair)
    decided = said == "silent" or cleared
    if not load.comparable:
        reason = f"no longer found, but {load.text}" if decided else f"{load.text}. {_undecided(said)}"
        return Judged("cannot_tell", reason, before, None, changes, needs_load=True)
    if pair.rebooted and mechanism in ENDED_BY_BOOT:
        return _after_boot(before, way, changes, pair)
    if decided:
        return _decided(before, said, changes, pair)
    if way == "down":
        reason = f"{told(changes)}; {load.text}. {_undecided(said)}"
        return Judged("improved", reason, before, None, changes)
    return _by_toggle(before, _undecided(said), changes, pair)


def _cleared(host: Host, finding: Finding) -> bool:
    """Whether the all-clear of a result speaks of the mechanism, though a rule of it is undecided."""
    return host["verdict"]["status"] == "nothing_found" and finding["mechanism"] in CORE


def _risen(before: Finding, said: str, changes: Sequence[Change], pair: Pair) -> Judged:
    """More of what it counts, though it was not found again: other things count there as well, reading of files for
    one (compaction, reclaim), so nothing is worse where the rule says no."""
    load = pair.load_of(before)
    if load.word == "unknown":
        reason = f"its figures rose ({told(changes)}), but {load.text}"
        return Judged("cannot_tell", reason, before, None, changes, needs_load=True)
    if said in ("unknown", "absent"):
        return Judged("worse", f"its own figures rose: {told(changes)}. {_undecided(said)}", before, None, changes)
    why = "its rule finds nothing" if said == "silent" else "another rule took its place"
    return Judged("cannot_tell", f"{why}, but its own figures rose: {told(changes)}", before, None, changes)


def _after_boot(before: Finding, way: str, changes: Sequence[Change], pair: Pair) -> Judged:
    """A reboot makes memory whole: for a while everything is well, whatever was changed."""
    switched = any(name in SWITCHES for name, _, _ in pair.switched)
    if way == "down" and switched and not pair.load_of(before).weak:
        reason = (
            f"{told(changes)}; but the host was booted in between ({pair.rebooted}), which alone does that for a while"
        )
        return Judged("improved", reason, before, None, changes)
    reason = f"no longer found, but the host was booted in between ({pair.rebooted}): that alone ends it for a while"
    return Judged("cannot_tell", reason, before, None, changes)


def _decided(before: Finding, said: str, changes: Sequence[Change], pair: Pair) -> Judged:
    """The rule says no, or the all-clear does: what do the mechanism's own figures say?"""
    mechanism, way, load = before["mechanism"] or "", direction(changes), pair.load_of(before)
    fixed = "fixed" if pair.changed and not load.weak else "improved"
    why = "its rule finds nothing" if said == "silent" else "the mechanism was measured and is not at work"
    back = "" if pair.changed else _UNCHANGED
    if way == "down":
        return Judged(fixed, f"{why}: {told(changes)}; {load.text}{back}", before, None, changes)
    if way == "apart":
        return Judged("cannot_tell", f"{why}, but its figures disagree: {told(changes)}", before, None, changes)
    if way == "same":
        return Judged(
            "cannot_tell", f"{why}, but its own figures hardly changed: {told(changes)}", before, None, changes
        )
    if not names(before) and load.weak:
        return Judged("cannot_tell", f"{why}, but {load.weak}", before, None, changes, needs_load=True)
    if not names(before):
        return Judged(fixed, f"{why}; {load.text}{back}", before, None, changes)
    if pair.toggled is not None and mechanism in IN_CPU_TIME:
        return Judged("improved", f"{why}; {_experiment(pair)}", before, None, [pair.toggled])
    return Judged("cannot_tell", f"{why}, but no figure of its own was measured on both sides", before, None, changes)


def _by_toggle(before: Finding, undecided: str, changes: Sequence[Change], pair: Pair) -> Judged:
    """Not looked at after. A switch of huge pages that gave the kernel's CPU time to programs is an experiment."""
    if (before["mechanism"] or "") not in IN_CPU_TIME or changes or pair.kernel_time is None:
        return Judged("cannot_tell", undecided, before, None, changes)
    if pair.toggled is not None:
        return Judged("improved", f"{_experiment(pair)}. {undecided}", before, None, [pair.toggled])
    kept = f" ({told([pair.programs_time])})" if pair.programs_time is not None else ""
    reason = (
        f"across the switch {told([pair.kernel_time])}, but programs did not get that time{kept}, and system time "
        f"alone proves nothing. {undecided}"
    )
    return Judged("cannot_tell", reason, before, None, changes)


def _experiment(pair: Pair) -> str:
    """What the switch did, by CPU time alone."""
    moved = [one for one in (pair.toggled, pair.programs_time) if one is not None]
    return f"across the switch {told(moved)}; {pair.load.weak or pair.load.text}"


def _undecided(said: str) -> str:
    if said == "absent":
        return "The rule was not asked after."
    if said == "excluded":
        return "After, another rule took its place."
    return "After, its rule cannot be decided by what is there."
