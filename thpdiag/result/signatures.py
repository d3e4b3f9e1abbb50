"""The signatures that findings rest on, over the time of the recordings that show them.

Only those that a finding cites as a call stack: a recording has hundreds of families, and nobody reads their courses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from thpdiag.derive.boot_clock import Join
from thpdiag.diagnosis import Diagnosis
from thpdiag.engine.checks.profile import matching, only, what
from thpdiag.engine.profiles import compiled
from thpdiag.engine.quantity import shown
from thpdiag.engine.sampled_events import timed_ones
from thpdiag.engine.schema import Profile as ProfileSpec
from thpdiag.engine.schema import ProfileCheck
from thpdiag.model import Evidence, Finding, Profile, State
from thpdiag.result.recorded import beside_others, of_day

if TYPE_CHECKING:
    from thpdiag.engine.compiled import Bools
    from thpdiag.engine.profile_time import Course, Picture, Step, Timed, Worst

MOST = 6  # signatures of a document
MOST_OF_ONE = 3  # recording
MOST_PICTURES = 2  # recordings whose pictures the document holds
ALIKE = 0.01  # of the weight that either matches
POINTS = 300  # of a series: the width of a chart


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """What a check of a rule looks for, in one recording over its time. `spoken_by` are (rule, check)."""

    profile: Profile
    what: str
    spoken_by: tuple[tuple[str, str], ...]
    share: float
    course: Course
    onset: Step | None
    worst: Worst | None
    picture: Picture | None = None


def signatures(diagnosis: Diagnosis) -> list[Signature]:
    """Those of the findings, the leading one's first; of several that match the same samples the first."""
    found: list[Signature] = []
    named: dict[tuple[int, str, str], int] = {}  # where in `found`; -1: nowhere
    for finding, evidence, check, profile in stack_evidence(diagnosis):
        key = (id(profile), what(check), check.comm or "")
        by = (finding.outcome.rule, evidence.check)
        if key not in named:
            one = _signature(profile, check)
            named[key] = -1 if one is None else _placed(one, check, found)
        if (at := named[key]) >= 0:
            found[at] = replace(found[at], spoken_by=(*found[at].spoken_by, by))
    return found


def _placed(one: Signature, check: ProfileSpec, found: list[Signature]) -> int:
    """The place of a signature among those found, -1 if there is no room for it."""
    beside = [at for at, other in enumerate(found) if other.profile is one.profile]
    if (same := next((at for at in beside if _same(found[at], one)), None)) is not None:
        return same
    if len(found) >= MOST or len(beside) >= MOST_OF_ONE:
        return -1
    drawn = not beside and len({id(other.profile) for other in found}) < MOST_PICTURES
    found.append(replace(one, picture=_pictured(one.profile, check)) if drawn else one)
    return len(found) - 1


def _same(one: Signature, other: Signature) -> bool:
    """Whether two signatures match the same samples, as far as a chart could show."""
    apart = abs(one.course.hit - other.course.hit).sum()
    return bool(apart <= ALIKE * max(one.course.hit.sum(), other.course.hit.sum()))


def stack_evidence(diagnosis: Diagnosis) -> Iterator[tuple[Finding, Evidence, ProfileSpec, Profile]]:
    """Findings with the recordings that their stacks were seen in."""
    rules = {rule.id: rule for rule in diagnosis.rules}
    states = {state.id: state for state in diagnosis.case.states}
    for finding in diagnosis.findings:
        state: State | None = states.get(finding.outcome.state)
        for evidence in finding.outcome.evidence if state else ():
            check = rules[finding.outcome.rule].checks.get(evidence.check)
            if not isinstance(check, ProfileCheck) or check.profile.at_least is None or evidence.cite is None:
                continue
            for profile in timed_ones(state.profiles) if state else ():
                if profile.cite.member == evidence.cite.member:
                    yield finding, evidence, check.profile, profile


def _signature(profile: Profile, check: ProfileSpec) -> Signature | None:
    """None if the recording has no times, or nothing in it matches."""
    if (seen := _matched(profile, check)) is None:
        return None
    time, matched = seen
    course = time.course(matched)
    share = float(course.hit.sum() / course.weight.sum())
    name = what(check) + (f" of {check.comm}" if check.comm else "")
    return Signature(profile, name, (), share, course, time.onset(course), time.worst(matched))


def _pictured(profile: Profile, check: ProfileSpec) -> Picture | None:
    """In cells as those of the picture of all samples."""
    seen = _matched(profile, check)
    return None if seen is None else seen[0].picture(seen[1], seen[0].picture().level)


def _matched(profile: Profile, check: ProfileSpec) -> tuple[Timed, Bools] | None:
    """The recording over time, and which of its rows match."""
    if not profile.has_time or profile.start is None:
        return None
    import numpy as np

    from thpdiag.engine.profile_time import timed  # numpy: only where there is a profile

    known = compiled(profile)
    time, picked = timed(known), only(check)
    if time is None:
        return None
    tasks = None if picked is None else np.fromiter((bool(picked(t.comm)) for t in profile.tasks), np.bool_)
    matched = time.matched(matching(check, known), tasks)
    return (time, matched) if matched.any() else None


def signature_document(signature: Signature, known: Sequence[Join]) -> dict[str, Any]:
    """A signature below its recording."""
    onset, worst = onset_document(signature, known), _worst(signature, known)
    rules = list(dict.fromkeys(rule for rule, _ in signature.spoken_by))
    return {
        "what": signature.what, "rules": rules, "share": float(f"{signature.share:.4g}"),
        **({"onset": onset} if onset else {}), **({"worst": worst} if worst else {}),
        **({"heat": heat(signature.picture)} if signature.picture else {}),
    }  # fmt: skip


def onset_document(signature: Signature, known: Sequence[Join]) -> dict[str, Any] | None:
    """The first bad moment in numbers and in words."""
    step = signature.onset
    if step is None:
        return None
    after = (step.at.minus(signature.profile.start) if signature.profile.start else None) or 0.0
    text = (
        f"since {of_day(step.at, signature.profile, known)}, {shown(after, 'seconds')} into the recording: "
        f"{shown(step.before, 'ratio')} before, {shown(step.after, 'ratio')} from then on"
    )
    return {"t": round(step.at.seconds, 2), "clock": step.at.clock.value, "text": text}


def _worst(signature: Signature, known: Sequence[Join]) -> dict[str, Any] | None:
    worst = signature.worst
    if worst is None:
        return None
    length = "second" if worst.seconds == 1 else f"{worst.seconds} seconds"
    text = f"worst {length}: {of_day(worst.at, signature.profile, known)}, {shown(worst.share, 'ratio')}"
    return {"t": round(worst.at.seconds, 2), "clock": worst.at.clock.value, "text": text}


def heat(picture: Picture) -> list[str]:
    """The digits of a picture, one text per column: as lists of numbers they would be most of the document."""
    return ["".join(map(str, column)) for column in picture.cells.tolist()]


def picture_document(time: Timed) -> dict[str, Any]:
    """The picture of all samples, and what one of its cells is."""
    picture = time.picture()
    cell = {"begin": picture.begin, "seconds": picture.seconds, "samples": picture.level}
    return {"heat": heat(picture), "heat_cell": cell}


def series(signature: Signature, known: Sequence[Join]) -> dict[str, Any]:
    """The share over time as a series of the timeline, by the wall clock where that is known well enough."""
    source = signature.profile
    placed = beside_others(source, known)
    start = source.start if placed is None or source.start is None else placed[0].wall(source.start)
    sure = f", its time {placed[1]}" if placed else ""
    return {
        "metric": "profile", "means": f"share of the non-idle samples in {signature.what}{sure}", "unit": "ratio",
        "source": str(source.cite), **({"clock": start.clock.value} if start else {}),
        "points": _points(signature.course, start.seconds if start else 0.0),
    }  # fmt: skip


def _points(course: Course, start: float) -> list[list[float]]:
    """[middle, min, max, mean] of so many buckets as a chart has room for; those that are not known are left out.

    A bucket of a sparse recording lasts for many seconds: a share placed at its begin would come before its cause.
    """
    size = -(-len(course) // POINTS)
    shares, known = course.shares, course.known
    points = []
    for at in range(0, len(course), size):
        here = slice(at, at + size)
        if known[here].any():
            inner = shares[here][known[here]]
            mean = course.hit[here][known[here]].sum() / course.weight[here][known[here]].sum()
            middle = course.seconds((at + min(at + size, len(course))) / 2)
            row = (start + middle, inner.min(), inner.max(), mean)
            points.append([round(row[0], 2), *(round(float(v), 4) for v in row[1:])])
    return points
