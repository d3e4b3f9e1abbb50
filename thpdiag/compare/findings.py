"""What became of a finding: fixed, improved, unchanged, worse, new, or unknown; and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from thpdiag.compare.figures import (
    CPU_TIME_MECHANISMS,
    ENDED_BY_BOOT,
    FALLBACK,
    MEASURED_MECHANISMS,
    Change,
    changes_of,
    direction,
    figure_names_of,
)
from thpdiag.compare.model import Status
from thpdiag.compare.pair import SWITCHES, Pair, entity, known_setting
from thpdiag.compare.text import describe_changes
from thpdiag.model.result import Finding, Result

SETTING_ROLES = ("configuration", "risk")
_PSEUDONYMS = "but the names of one side are pseudonyms, so the subjects cannot be matched"
_NO_KNOWN_CHANGE = "; no known setting changed, so it may come back"
_TOTAL_SINCE_BOOT = "a total since boot, which is no evidence of a present problem"
_UNDECIDED_REASONS = {
    "absent": "The rule was not evaluated in AFTER.",
    "excluded": "In AFTER, another rule supersedes it.",
}


@dataclass(frozen=True, slots=True)
class JudgedFinding:
    """A finding and its status. `needs_load`: another recording under the same load would decide it."""

    status: Status
    reason: str
    before: Finding | None
    after: Finding | None
    changes: Sequence[Change] = ()
    needs_load: bool = False

    @property
    def finding(self) -> Finding:
        finding = self.after or self.before
        if finding is None:
            raise ValueError("a finding of neither side")
        return finding


def finding_key(finding: Finding) -> tuple[str, str]:
    return finding.rule, entity(finding)


def judge(before: Finding | None, after: Finding | None, pair: Pair) -> JudgedFinding:
    """Return the status of a finding on one side or both."""
    if before is None:
        if after is None:
            raise ValueError("a finding of neither side")
        return _judge_new(after, pair)
    changes = changes_of(before, *pair.sides, pair.load_of(before).work)
    if after is not None:
        return _judge_both(before, after, changes, pair)
    judge_as = partial(JudgedFinding, before=before, after=None, changes=changes)
    outcome = pair.outcomes(before.rule)[1]
    if outcome == "fires":  # for another process, zone or device
        other = "about another process or device; nothing was found about this one"
        return judge_as("cannot_tell", f"found after too, {_PSEUDONYMS if pair.half_redacted else other}")
    if {evidence.kind for evidence in before.evidence} == {"total"}:
        return JudgedFinding("cannot_tell", f"no longer found; it was {_TOTAL_SINCE_BOOT}", before, None)
    if _is_about_settings(before):
        if outcome == "silent":
            return judge_as("fixed", "about settings, and its rule finds nothing after")
        return judge_as("cannot_tell", _describe_undecided(outcome))
    return _judge_missing(before, outcome, changes, pair)


def _describe_undecided(outcome: str) -> str:
    return _UNDECIDED_REASONS.get(outcome, "In AFTER, the data does not decide its rule.")


def _is_about_settings(finding: Finding) -> bool:
    """Whether a finding concerns settings only, which do not depend on the load."""
    kinds = {evidence.kind for evidence in finding.evidence}
    return finding.role in SETTING_ROLES and kinds <= {"policy", "state", "action", "application", "testimony", None}


def _is_cleared(host: Result, finding: Finding) -> bool:
    """Whether the all-clear of a result covers the mechanism, even if a rule for it is undecided."""
    return host.verdict.status == "nothing_found" and finding.mechanism in MEASURED_MECHANISMS


def _judge_new(after: Finding, pair: Pair) -> JudgedFinding:
    outcome, load = pair.outcomes(after.rule)[0], pair.load
    changes = changes_of(after, *pair.sides, load.work)
    has_risen = direction(changes) == "up"
    judge_as = partial(JudgedFinding, before=None, after=after, changes=changes)
    if outcome == "silent" and load.word == "more" and not has_risen and not _is_about_settings(after):
        return judge_as("cannot_tell", f"found after; before it was not, but {load.text}")
    if outcome == "fires" and pair.half_redacted and after.entity:
        return judge_as("cannot_tell", f"found before too, {_PSEUDONYMS}")
    if outcome == "silent" or (_is_cleared(pair.before, after) and has_risen):
        changed = f": {describe_changes(changes)}" if has_risen else ""
        work = f"; {load.text}" if load.word == "more" else ""
        return judge_as("new", f"before, the rule was decided and did not fire{changed}{work}")
    if outcome == "fires":
        return judge_as("new", "before, it was found only about another process or device")
    reason = "was not evaluated" if outcome == "absent" else "could not be decided"
    is_lead = after.rule == pair.after.verdict.rule and pair.before.verdict.status == "cannot_tell"
    if is_lead and has_risen and load.word in ("same", "less"):  # with exchanged sides it would be improved
        changed = describe_changes(changes)
        return judge_as("worse", f"its figures rose: {changed}; {load.text}. Before, the rule {reason}")
    return judge_as("cannot_tell", f"found after; before, the rule {reason}, so it may have been there")


def _judge_both(before: Finding, after: Finding, changes: Sequence[Change], pair: Pair) -> JudgedFinding:
    """Return the status of a finding on both sides: more, less, or unchanged, by its own figures."""
    trend, load, moved = direction(changes), pair.load_of(before), describe_changes(changes)
    judge_as = partial(JudgedFinding, before=before, after=after, changes=changes)
    if not pair.has_new_evidence(before, after):
        reason = "AFTER cites the same lines of the same files as BEFORE, so it is not a second measurement"
        return JudgedFinding("cannot_tell", reason, before, after)
    if trend == "apart":
        return judge_as("cannot_tell", f"found again; its figures disagree: {moved}")
    if trend == "up":
        return _judge_increase(before, after, changes, pair)
    if trend == "down" and load.is_comparable:
        return judge_as("improved", f"still found, with less of it: {moved}; {load.text}")
    if trend == "down":
        return judge_as("cannot_tell", f"still found, with less of it ({moved}), but {load.text}", needs_load=True)
    if trend == "same" and not all(change.direction == "same" for change in changes):
        return judge_as("unchanged", f"found again; what differs is within the noise: {moved}")
    work = f"; {load.text}" if any(change.unscaled != "same" for change in changes) else ""
    return judge_as("unchanged", "found again" + (f": {moved}{work}" if changes else ""))


def _judge_increase(before: Finding, after: Finding, changes: Sequence[Change], pair: Pair) -> JudgedFinding:
    """Return the status of a finding on both sides whose figures rose."""
    moved, load = describe_changes(changes), pair.load_of(before)
    judge_as = partial(JudgedFinding, before=before, after=after, changes=changes)
    if figure_names_of(before) == (FALLBACK,) and "never" in (known_setting(pair.after, name) for name in SWITCHES):
        reason = f"found again: {moved}; this setting is meant to give small pages at once instead of waiting"
        return judge_as("unchanged", reason)
    if load.word == "unknown" and any(change.before.unit == "1/s" for change in changes):
        return judge_as("cannot_tell", f"found again, with more of it ({moved}), but {load.text}", needs_load=True)
    if load.word not in ("less", "more") or not all(c.is_stack_share for c in changes if c.direction == "up"):
        return judge_as("worse", f"found again, with more of it: {moved}")
    # Only a share of call stacks rose, and the other users of the CPU changed with the work.
    reason = f"found again, with a larger share of the samples: {moved}; {load.text}"
    if load.word == "more" and not all(c.is_stack_share for c in changes):  # the counters per work did not rise
        return judge_as("unchanged", reason)
    return judge_as("cannot_tell", reason, needs_load=True)


def _judge_missing(before: Finding, outcome: str, changes: Sequence[Change], pair: Pair) -> JudgedFinding:
    """Return the status of a finding that AFTER lacks: it is gone, or was not evaluated, or the work ended."""
    trend, load, moved = direction(changes), pair.load_of(before), describe_changes(changes)
    is_decided = outcome == "silent" or (_is_cleared(pair.after, before) and trend == "down")
    undecided = _describe_undecided(outcome)
    judge_as = partial(JudgedFinding, before=before, after=None, changes=changes)
    if trend == "up":
        return judge_as(*_judge_rise(outcome, load.word, moved, load.text), needs_load=load.word == "unknown")
    if not load.is_comparable:
        reason = f"no longer found, but {load.text}" if is_decided else f"{load.text}. {undecided}"
        return judge_as("cannot_tell", reason, needs_load=True)
    if pair.reboot_evidence and before.mechanism in ENDED_BY_BOOT:  # which defragments memory
        reboot = f"the host was rebooted in between ({pair.reboot_evidence})"
        if trend == "down" and not load.weak and any(name in SWITCHES for name, _, _ in pair.switched_settings):
            return judge_as("improved", f"{moved}; but {reboot}, which alone has this effect for a while")
        return judge_as("cannot_tell", f"no longer found, but {reboot}: a reboot alone ends it for a while")
    if is_decided:
        return _judge_silent(before, outcome, changes, pair)
    if trend == "down":
        return judge_as("improved", f"{moved}; {load.text}. {undecided}")
    return _judge_by_switch(before, undecided, changes, pair)


def _judge_by_switch(before: Finding, undecided: str, changes: Sequence[Change], pair: Pair) -> JudgedFinding:
    """Judge a finding not evaluated in AFTER: a switch that moved CPU time to programs is an experiment."""
    judge_as = partial(JudgedFinding, before=before, after=None)
    if before.mechanism not in CPU_TIME_MECHANISMS or changes or pair.kernel_time is None:
        return judge_as("cannot_tell", undecided, changes=changes)
    if pair.cpu_time_change is not None:
        return judge_as("improved", f"{_describe_experiment(pair)}. {undecided}", changes=[pair.cpu_time_change])
    kept = f" ({describe_changes([pair.programs_time])})" if pair.programs_time is not None else ""
    reason = (
        f"across the switch {describe_changes([pair.kernel_time])}, but programs did not get that time{kept}, and "
        f"system time alone proves nothing. {undecided}"
    )
    return judge_as("cannot_tell", reason, changes=changes)


def _judge_rise(outcome: str, load: str, moved: str, load_text: str) -> tuple[Status, str]:
    """Return the status of a missing finding whose figures rose. Other causes (file reads: compaction, reclaim) raise
    them as well, so it is not worse if the rule is silent."""
    if load == "unknown":
        return "cannot_tell", f"its figures rose ({moved}), but {load_text}"
    if outcome in ("unknown", "absent"):
        return "worse", f"its figures rose: {moved}. {_describe_undecided(outcome)}"
    result = "its rule finds nothing" if outcome == "silent" else "another rule supersedes it"
    return "cannot_tell", f"{result}, but its figures rose: {moved}"


def _judge_silent(before: Finding, outcome: str, changes: Sequence[Change], pair: Pair) -> JudgedFinding:
    """Return the status of a finding whose rule, or the all-clear, is a no in AFTER, by the mechanism's own figures."""
    trend, load, moved = direction(changes), pair.load_of(before), describe_changes(changes)
    fixed: Status = "fixed" if pair.has_changed and not load.weak else "improved"
    evidence = "its rule finds nothing" if outcome == "silent" else "the mechanism was measured and is not active"
    caveat = "" if pair.has_changed else _NO_KNOWN_CHANGE

    def judge_as(status: Status, reason: str, *, needs_load: bool = False) -> JudgedFinding:
        return JudgedFinding(status, f"{evidence}{reason}", before, None, changes, needs_load)

    if trend == "down":
        return judge_as(fixed, f": {moved}; {load.text}{caveat}")
    if trend == "apart":
        return judge_as("cannot_tell", f", but its figures disagree: {moved}")
    if trend == "same":
        return judge_as("cannot_tell", f", but its figures barely changed: {moved}")
    if not figure_names_of(before) and load.weak:
        return judge_as("cannot_tell", f", but {load.weak}", needs_load=True)
    if not figure_names_of(before):
        return judge_as(fixed, f"; {load.text}{caveat}")
    if pair.cpu_time_change is not None and before.mechanism in CPU_TIME_MECHANISMS:
        reason = f"{evidence}; {_describe_experiment(pair)}"
        return JudgedFinding("improved", reason, before, None, [pair.cpu_time_change])
    return judge_as("cannot_tell", ", but none of its figures was measured on both sides")


def _describe_experiment(pair: Pair) -> str:
    """Return what the switch changed in CPU time."""
    moved = [change for change in (pair.cpu_time_change, pair.programs_time) if change is not None]
    return f"across the switch {describe_changes(moved)}; {pair.load.weak or pair.load.text}"
