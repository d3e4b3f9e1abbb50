"""What became of a finding: fixed, improved, unchanged, worse, new, or that it cannot be told, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from thpdiag.compare.figures import (
    CORE,
    ENDED_BY_BOOT,
    FALLBACK,
    IN_CPU_TIME,
    Change,
    direction,
    own_changes,
    own_names,
)
from thpdiag.compare.model import Status
from thpdiag.compare.pair import SWITCHES, Pair, entity, known_setting
from thpdiag.compare.text import describe_changes
from thpdiag.model.result import Finding, Result

OF_SETTINGS = ("configuration", "risk")
_PSEUDONYMS = "but the names of one side are pseudonyms, so the subjects cannot be matched"
_UNCHANGED = "; no known setting changed, so it may come back"
_SINCE_BOOT = "a total since boot, which is no evidence of a present problem"
_UNDECIDED = {
    "absent": "The rule was not evaluated in AFTER.",
    "excluded": "In AFTER, another rule supersedes it.",
}


@dataclass(frozen=True, slots=True)
class Judged:
    """A finding of either side with what became of it. `needs_load`: a second look at the same work would tell."""

    status: Status
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


def finding_key(finding: Finding) -> tuple[str, str]:
    return finding.rule, entity(finding)


def judge(before: Finding | None, after: Finding | None, pair: Pair) -> Judged:
    """A finding as it was, as it is, or both."""
    if before is None:
        if after is None:
            raise ValueError("a finding of neither side")
        return _judge_new(after, pair)
    changes = own_changes(before, *pair.sides, pair.load_of(before).work)
    if after is not None:
        return _found_again(before, after, changes, pair)
    judge_as = partial(Judged, before=before, after=None, changes=changes)
    outcome = pair.outcomes(before.rule)[1]
    if outcome == "fires":  # about another process, zone or device
        reason = (
            _PSEUDONYMS if pair.half_redacted else "about another process or device; nothing was found about this one"
        )
        return judge_as("cannot_tell", f"found after too, {reason}")
    if {evidence.kind for evidence in before.evidence} == {"total"}:
        return Judged("cannot_tell", f"no longer found; it was {_SINCE_BOOT}", before, None)
    if _is_about_settings(before):
        if outcome == "silent":
            return judge_as("fixed", "about settings, and its rule finds nothing after")
        return judge_as("cannot_tell", _describe_undecided(outcome))
    return _judge_missing(before, outcome, changes, pair)


def _describe_undecided(outcome: str) -> str:
    return _UNDECIDED.get(outcome, "In AFTER, the data does not decide its rule.")


def _is_about_settings(finding: Finding) -> bool:
    """Whether it is about settings only, which are as they are under any load."""
    kinds = {evidence.kind for evidence in finding.evidence}
    return finding.role in OF_SETTINGS and kinds <= {"policy", "state", "action", "application", "testimony", None}


def _is_cleared(host: Result, finding: Finding) -> bool:
    """Whether the all-clear of a result speaks of the mechanism, though a rule of it is undecided."""
    return host.verdict.status == "nothing_found" and finding.mechanism in CORE


def _judge_new(after: Finding, pair: Pair) -> Judged:
    outcome, load = pair.outcomes(after.rule)[0], pair.load
    changes = own_changes(after, *pair.sides, load.work)
    rose = direction(changes) == "up"
    judge_as = partial(Judged, before=None, after=after, changes=changes)
    if outcome == "silent" and load.word == "more" and not rose and not _is_about_settings(after):
        return judge_as("cannot_tell", f"found after; before it was not, but {load.text}")
    if outcome == "fires" and pair.half_redacted and after.entity:
        return judge_as("cannot_tell", f"found before too, {_PSEUDONYMS}")
    if outcome == "silent" or (_is_cleared(pair.before, after) and rose):
        moved = f": {describe_changes(changes)}" if rose else ""
        work = f"; {load.text}" if load.word == "more" else ""
        return judge_as("new", f"before, the rule was decided and did not fire{moved}{work}")
    if outcome == "fires":
        return judge_as("new", "before, it was found only about another process or device")
    why = "was not evaluated" if outcome == "absent" else "could not be decided"
    leads = after.rule == pair.after.verdict.rule and pair.before.verdict.status == "cannot_tell"
    if leads and rose and load.word in ("same", "less"):  # with the sides exchanged it would be called improved
        moved = describe_changes(changes)
        return judge_as("worse", f"its figures rose: {moved}; {load.text}. Before, the rule {why}")
    return judge_as("cannot_tell", f"found after; before, the rule {why}, so it may have been there")


def _found_again(before: Finding, after: Finding, changes: Sequence[Change], pair: Pair) -> Judged:
    """Found on both sides: more, less, or as it was, by its own figures."""
    way, load, moved = direction(changes), pair.load_of(before), describe_changes(changes)
    judge_as = partial(Judged, before=before, after=after, changes=changes)
    if not pair.looked_twice(before, after):
        reason = "AFTER cites the same lines of the same files as BEFORE, so it is not a second measurement"
        return Judged("cannot_tell", reason, before, after)
    if way == "apart":
        return judge_as("cannot_tell", f"found again; its figures disagree: {moved}")
    if way == "up":
        return _more_of_it(before, after, changes, pair)
    if way == "down" and load.comparable:
        return judge_as("improved", f"still found, with less of it: {moved}; {load.text}")
    if way == "down":
        return judge_as("cannot_tell", f"still found, with less of it ({moved}), but {load.text}", needs_load=True)
    if way == "same" and not all(change.direction == "same" for change in changes):
        return judge_as("unchanged", f"found again; what differs is within the noise: {moved}")
    work = f"; {load.text}" if any(change.alone != "same" for change in changes) else ""
    return judge_as("unchanged", "found again" + (f": {moved}{work}" if changes else ""))


def _more_of_it(before: Finding, after: Finding, changes: Sequence[Change], pair: Pair) -> Judged:
    """Found again, with more of it."""
    moved, load = describe_changes(changes), pair.load_of(before)
    judge_as = partial(Judged, before=before, after=after, changes=changes)
    if own_names(before) == (FALLBACK,) and "never" in (known_setting(pair.after, name) for name in SWITCHES):
        reason = f"found again: {moved}; this setting is meant to give small pages at once instead of waiting"
        return judge_as("unchanged", reason)
    if load.word == "unknown" and any(change.before.unit == "1/s" for change in changes):
        return judge_as("cannot_tell", f"found again, with more of it ({moved}), but {load.text}", needs_load=True)
    if load.word not in ("less", "more") or not all(c.of_stacks for c in changes if c.direction == "up"):
        return judge_as("worse", f"found again, with more of it: {moved}")
    # Only a share of call stacks rose, and what uses the CPU beside it changed with the work.
    reason = f"found again, with a larger share of the samples: {moved}; {load.text}"
    if load.word == "more" and not all(c.of_stacks for c in changes):  # its counters did not rise for the same work
        return judge_as("unchanged", reason)
    return judge_as("cannot_tell", reason, needs_load=True)


def _judge_missing(before: Finding, outcome: str, changes: Sequence[Change], pair: Pair) -> Judged:
    """No longer found: is it gone, was it not looked at, or did the work end?"""
    way, load, moved = direction(changes), pair.load_of(before), describe_changes(changes)
    decided = outcome == "silent" or (_is_cleared(pair.after, before) and way == "down")
    undecided = _describe_undecided(outcome)
    judge_as = partial(Judged, before=before, after=None, changes=changes)
    if way == "up":
        return judge_as(*_risen(outcome, load.word, moved, load.text), needs_load=load.word == "unknown")
    if not load.comparable:
        reason = f"no longer found, but {load.text}" if decided else f"{load.text}. {undecided}"
        return judge_as("cannot_tell", reason, needs_load=True)
    if pair.reboot_evidence and before.mechanism in ENDED_BY_BOOT:  # memory is whole then, whatever was changed
        why = f"the host was rebooted in between ({pair.reboot_evidence})"
        if way == "down" and not load.weak and any(name in SWITCHES for name, _, _ in pair.switched_settings):
            return judge_as("improved", f"{moved}; but {why}, which alone has this effect for a while")
        return judge_as("cannot_tell", f"no longer found, but {why}: a reboot alone ends it for a while")
    if decided:
        return _judge_no(before, outcome, changes, pair)
    if way == "down":
        return judge_as("improved", f"{moved}; {load.text}. {undecided}")
    return _by_switch(before, undecided, changes, pair)


def _by_switch(before: Finding, undecided: str, changes: Sequence[Change], pair: Pair) -> Judged:
    """Not looked at after. A switch of huge pages that gave the kernel's CPU time to programs is an experiment."""
    judge_as = partial(Judged, before=before, after=None)
    if before.mechanism not in IN_CPU_TIME or changes or pair.kernel_time is None:
        return judge_as("cannot_tell", undecided, changes=changes)
    if pair.cpu_time_change is not None:
        return judge_as("improved", f"{_experiment(pair)}. {undecided}", changes=[pair.cpu_time_change])
    kept = f" ({describe_changes([pair.programs_time])})" if pair.programs_time is not None else ""
    reason = (
        f"across the switch {describe_changes([pair.kernel_time])}, but programs did not get that time{kept}, and "
        f"system time alone proves nothing. {undecided}"
    )
    return judge_as("cannot_tell", reason, changes=changes)


def _risen(outcome: str, load: str, moved: str, load_text: str) -> tuple[Status, str]:
    """More of what it counts, though it was not found again: other things count there as well, reading of files for
    one (compaction, reclaim), so nothing is worse where the rule says no."""
    if load == "unknown":
        return "cannot_tell", f"its figures rose ({moved}), but {load_text}"
    if outcome in ("unknown", "absent"):
        return "worse", f"its figures rose: {moved}. {_describe_undecided(outcome)}"
    why = "its rule finds nothing" if outcome == "silent" else "another rule supersedes it"
    return "cannot_tell", f"{why}, but its figures rose: {moved}"


def _judge_no(before: Finding, outcome: str, changes: Sequence[Change], pair: Pair) -> Judged:
    """The rule says no, or the all-clear does: what do the mechanism's own figures say?"""
    way, load, moved = direction(changes), pair.load_of(before), describe_changes(changes)
    fixed: Status = "fixed" if pair.has_changed and not load.weak else "improved"
    why = "its rule finds nothing" if outcome == "silent" else "the mechanism was measured and is not active"
    back = "" if pair.has_changed else _UNCHANGED

    def judge_as(status: Status, reason: str, *, needs_load: bool = False) -> Judged:
        return Judged(status, f"{why}{reason}", before, None, changes, needs_load)

    if way == "down":
        return judge_as(fixed, f": {moved}; {load.text}{back}")
    if way == "apart":
        return judge_as("cannot_tell", f", but its figures disagree: {moved}")
    if way == "same":
        return judge_as("cannot_tell", f", but its figures barely changed: {moved}")
    if not own_names(before) and load.weak:
        return judge_as("cannot_tell", f", but {load.weak}", needs_load=True)
    if not own_names(before):
        return judge_as(fixed, f"; {load.text}{back}")
    if pair.cpu_time_change is not None and before.mechanism in IN_CPU_TIME:
        return Judged("improved", f"{why}; {_experiment(pair)}", before, None, [pair.cpu_time_change])
    return judge_as("cannot_tell", ", but none of its figures was measured on both sides")


def _experiment(pair: Pair) -> str:
    """What the switch did, by CPU time alone."""
    moved = [one for one in (pair.cpu_time_change, pair.programs_time) if one is not None]
    return f"across the switch {describe_changes(moved)}; {pair.load.weak or pair.load.text}"
