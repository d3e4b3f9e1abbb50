"""Recordings of call stacks in the result: the tree of calls, shares of families, the ledger of losses, and what
findings saw in them when.

Signatures are what findings cite as call stacks: a recording has hundreds of families, and nobody reads their courses.
What a picture of the tree of calls marks (the functions that findings speak of, where stacks enter the kernel) is asked
of the paths that the document shows, so it needs no times and no numpy, and says nothing of what was folded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from thpdiag.diagnosis.diagnose import Diagnosis
from thpdiag.diagnosis.excerpts import place
from thpdiag.diagnosis.times import recording_times, shared_axis, time_of_day
from thpdiag.engine.checks.profile import comm_filter, matching
from thpdiag.engine.quantity import format_quantity
from thpdiag.engine.schema import Profile as ProfileSpec
from thpdiag.engine.schema import ProfileCheck, as_list
from thpdiag.engine.stacks import cpu_time_profiles, function_families
from thpdiag.engine.state_view import compiled_profile
from thpdiag.engine.wording import signature_words
from thpdiag.knowledge.symbols import families, families_of
from thpdiag.model import Evidence, Finding, Frame, Ledger, Profile, State
from thpdiag.model import result as document_model
from thpdiag.model.document import present_keys
from thpdiag.model.facts import ClockAnchor
from thpdiag.model.numeric import Bools, np
from thpdiag.model.result import HeatCell, Moment, SampleLoss, StackSignature, TimelineSeries
from thpdiag.model.text import quoted, sentence

if TYPE_CHECKING:
    from thpdiag.engine.compiled_profile import Bools
    from thpdiag.engine.profile_views import HeatMap, ShareSeries, Step, TimedProfile, WorstSecond

MAX_SIGNATURES = 6  # of a document
MAX_OF_RECORDING = 3
MAX_PICTURES = 2  # recordings whose pictures the document holds
ALIKE = 0.01  # of the weight that either matches
POINTS = 300  # of a series: the width of a chart
MAX_TEXT = 120_000  # characters of all paths of a document, so that a page stays small
LEAST_TEXT = 20_000  # for one recording of many
# As perf names the object of a function: `[xfs]`, or the file of the module
_MODULE = re.compile(r"\[(?P<name>[\w-]+)\]|(?:.*/)?(?P<file>[\w-]+)\.ko(?:\.(?:xz|gz|zst))?")
_NO_MODULES = frozenset({"[unknown]", "[kernel]", "[vdso]", "[vsyscall]", "[heap]", "[stack]", "[anon]", "[bpf]"})

Path = tuple[str, list[str]]  # of a task: its name and the functions, outermost first


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """What a check of a rule looks for, in one recording over its time. `spoken_by` are (rule, check)."""

    profile: Profile
    what: str
    spoken_by: tuple[tuple[str, str], ...]
    share: float
    course: ShareSeries
    onset: Step | None
    worst: WorstSecond | None
    picture: HeatMap | None = None


def signatures(diagnosis: Diagnosis) -> list[Signature]:
    """Those of the findings, the leading one's first; of several that match the same samples the first."""
    found: list[Signature] = []
    known: dict[tuple[int, str, str], int] = {}  # where in `found`; -1: nowhere
    for finding, evidence, check, profile in _stack_evidence(diagnosis):
        key = (id(profile), signature_words(check), check.comm or "")
        if key not in known:
            one = _signature(profile, check)
            known[key] = -1 if one is None else _place(one, check, found)
        if (at := known[key]) >= 0:
            by = (finding.outcome.rule, evidence.check)
            found[at] = replace(found[at], spoken_by=(*found[at].spoken_by, by))
    return found


def _place(one: Signature, check: ProfileSpec, found: list[Signature]) -> int:
    """The place of a signature among those found, -1 if there is no room for it."""
    beside = [at for at, other in enumerate(found) if other.profile is one.profile]
    for at in beside:  # two that match the same samples, as far as a chart could show
        apart = abs(one.course.hit - found[at].course.hit).sum()
        if apart <= ALIKE * max(one.course.hit.sum(), found[at].course.hit.sum()):
            return at
    if len(found) >= MAX_SIGNATURES or len(beside) >= MAX_OF_RECORDING:
        return -1
    picture = None
    if not beside and len({id(other.profile) for other in found}) < MAX_PICTURES:
        seen = _matched_over_time(one.profile, check)
        # In cells as those of the picture of all samples
        picture = None if seen is None else seen[0].picture(seen[1], seen[0].picture().level)
    found.append(replace(one, picture=picture))
    return len(found) - 1


def _stack_evidence(diagnosis: Diagnosis) -> Iterator[tuple[Finding, Evidence, ProfileSpec, Profile]]:
    """Findings with the recordings that their stacks were seen in."""
    rules = {rule.id: rule for rule in diagnosis.rules}
    states = {state.id: state for state in diagnosis.case.states}
    for finding in diagnosis.findings:
        state = states.get(finding.outcome.state)
        for evidence in finding.outcome.evidence if state else ():
            check = rules[finding.outcome.rule].checks.get(evidence.check)
            if not isinstance(check, ProfileCheck) or check.profile.at_least is None or evidence.cite is None:
                continue
            for profile in cpu_time_profiles(state.profiles) if state else ():
                if profile.cite.member == evidence.cite.member:
                    yield finding, evidence, check.profile, profile


def _signature(profile: Profile, check: ProfileSpec) -> Signature | None:
    """None if the recording has no times, or nothing in it matches."""
    if (seen := _matched_over_time(profile, check)) is None:
        return None
    time, matched = seen
    course = time.course(matched)
    share = float(course.hit.sum() / course.weight.sum())
    name = signature_words(check) + (f" of {check.comm}" if check.comm else "")
    return Signature(profile, name, (), share, course, time.onset(course), time.worst(matched))


def _matched_over_time(profile: Profile, check: ProfileSpec) -> tuple[TimedProfile, Bools] | None:
    """The recording over time, and which of its rows match."""
    if not profile.has_time or profile.start is None:
        return None
    from thpdiag.engine.profile_views import timed_profile  # numpy: only where there is a profile

    known = compiled_profile(profile)
    time, picked = timed_profile(known), comm_filter(check)
    if time is None:
        return None
    tasks = None if picked is None else np.fromiter((bool(picked(t.comm)) for t in profile.tasks), np.bool_)
    matched = time.rows_of(matching(check, known), tasks)
    return (time, matched) if matched.any() else None


def onset_moment(signature: Signature, anchors: Sequence[ClockAnchor]) -> Moment | None:
    """The first bad moment in numbers and in words."""
    step, profile = signature.onset, signature.profile
    if step is None:
        return None
    after = (step.at.minus(profile.start) if profile.start else None) or 0.0
    text = (
        f"since {time_of_day(step.at, profile, anchors)}, {format_quantity(after, 'seconds')} into the recording: "
        f"{format_quantity(step.before, 'ratio')} before, {format_quantity(step.after, 'ratio')} from then on"
    )
    return Moment.model_construct(t=round(step.at.seconds, 2), clock=step.at.clock.value, text=text)


def _worst_moment(signature: Signature, anchors: Sequence[ClockAnchor]) -> Moment | None:
    worst = signature.worst
    if worst is None:
        return None
    length = "second" if worst.seconds == 1 else f"{worst.seconds} seconds"
    day, share = time_of_day(worst.at, signature.profile, anchors), format_quantity(worst.share, "ratio")
    return Moment.model_construct(
        t=round(worst.at.seconds, 2), clock=worst.at.clock.value, text=f"worst {length}: {day}, {share}"
    )


def heat(picture: HeatMap) -> list[str]:
    """The digits of a picture, one text per column: as lists of numbers they would be most of the document."""
    return ["".join(map(str, column)) for column in picture.cells.tolist()]


def share_series(signature: Signature, anchors: Sequence[ClockAnchor]) -> TimelineSeries:
    """The share over time as a series of the timeline, by the wall clock where that is known well enough."""
    source = signature.profile
    axis = shared_axis(source, anchors)
    start = source.start if axis is None or source.start is None else axis[0].wall_time(source.start)
    sure = f", its time {axis[1]}" if axis else ""
    return TimelineSeries.model_construct(
        metric="profile", means=f"share of the non-idle samples in {signature.what}{sure}", unit="ratio",
        source=str(source.cite), **present_keys(clock=start.clock.value if start else None), panel="call_stacks",
        points=_points(signature.course, start.seconds if start else 0.0),
    )  # fmt: skip


def _points(course: ShareSeries, start: float) -> list[list[float | None]]:
    """[middle, min, max, mean] of so many buckets as a chart has room for; those that are not known are left out.

    A bucket of a sparse recording lasts for many seconds: a share placed at its begin would come before its cause.
    """
    size = -(-len(course) // POINTS)
    shares, known = course.shares, course.known
    points: list[list[float | None]] = []
    for at in range(0, len(course), size):
        here = slice(at, at + size)
        if known[here].any():
            inner = shares[here][known[here]]
            mean = course.hit[here][known[here]].sum() / course.weight[here][known[here]].sum()
            middle = start + course.seconds((at + min(at + size, len(course))) / 2)
            points.append([round(middle, 2), *(round(float(v), 4) for v in (inner.min(), inner.max(), mean))])
    return points


def profile_documents(diagnosis: Diagnosis, found: Sequence[Signature]) -> list[document_model.Profile]:
    """One for each event of each recording; `found` are the signatures of the findings."""
    anchors = diagnosis.case.anchors
    every = [(profile, state) for state in diagnosis.case.states for profile in state.profiles]
    drawn = [profile for profile, _ in every if profile.has_time and profile.start]
    drawn.sort(key=lambda profile: not any(s.picture and s.profile is profile for s in found))
    room = max(LEAST_TEXT, MAX_TEXT // max(1, len(every)))
    checks = [(profile, check) for _, _, check, profile in _stack_evidence(diagnosis)]
    return [
        document_model.Profile.model_construct(
            **_recording(profile, state, room, [check for seen, check in checks if seen is profile]),
            **recording_times(profile, anchors),
            **(_picture(profile) if any(profile is one for one in drawn[:MAX_PICTURES]) else {}),
            **present_keys(signatures=[_signature_document(s, anchors) for s in found if s.profile is profile]),
        )
        for profile, state in every
    ]


def _recording(profile: Profile, state: State, room: int, checks: Sequence[ProfileSpec]) -> dict[str, Any]:
    """`folded` has (stack root first, share of the non-idle weight), `families` the share of what holds each family;
    `checks` are what findings saw in it."""
    from thpdiag.engine.profile_views import call_tree, frame_label

    known = compiled_profile(profile)
    tree = call_tree(known, room)
    folded = [(path, float(f"{share:.4g}")) for path, share in tree.stacks]
    frames = [(frame_label(frame), frame) for frame in profile.frames]
    paths = [(task, functions) for task, *functions in (stack.split(";") for stack, _ in folded)]
    shares = {name: known.share(name) for name, family in sorted(families().items()) if family.listed}
    return {
        "event": profile.event, "samples": known.samples, "reader": profile.reader, "state": sentence(quoted(state.id)),
        **place(profile.cite), **present_keys(symbols=profile.facts.get("symbols")),
        "loss": _loss(profile.ledger), "folded": folded, "folded_least": float(f"{tree.least:.4g}"),
        "folded_into_callers": float(f"{tree.folded:.4g}"),
        **matched_functions(paths, checks),
        **present_keys(kernel_entries=kernel_entries(paths, frames)),
        **({"modules": within} if (within := modules(paths, frames)) else {}),
        "families": {name: float(f"{share:.6g}") for name, share in shares.items() if share > 0},
    }  # fmt: skip


def _loss(ledger: Ledger) -> SampleLoss:
    lost = ledger.lost_share
    told: dict[str, Any] = {} if lost is None else {"lost": ledger.lost, "lost_share": float(f"{lost:.6g}")}
    return SampleLoss.model_construct(
        read=ledger.read, kept=ledger.kept, without_stack=ledger.without_stack, unknown_symbol=ledger.unknown_symbol,
        odd=dict(sorted(ledger.odd.items())), **told, truncated=ledger.truncated, throttled=ledger.throttled,
        unlisted=float(f"{ledger.unlisted / 100:.6g}"),
    )  # fmt: skip


def _picture(profile: Profile) -> dict[str, Any]:
    """The picture of all samples, and what one of its cells is."""
    from thpdiag.engine.profile_views import timed_profile  # numpy: only where there is a profile

    time = timed_profile(compiled_profile(profile))
    if time is None:
        return {}
    picture = time.picture()
    cell = HeatCell.model_construct(begin=picture.begin, seconds=picture.seconds, samples=picture.level)
    return {"heat": heat(picture), "heat_cell": cell}


def _signature_document(signature: Signature, anchors: Sequence[ClockAnchor]) -> StackSignature:
    return StackSignature.model_construct(
        what=signature.what, rules=list(dict.fromkeys(rule for rule, _ in signature.spoken_by)),
        share=float(f"{signature.share:.4g}"),
        **present_keys(
            onset=onset_moment(signature, anchors), worst=_worst_moment(signature, anchors),
            heat=heat(signature.picture) if signature.picture else None,
        ),
    )  # fmt: skip


# What a picture of the tree of calls marks


class _StackCheck(NamedTuple):
    """A check of call stacks over the names of a document: the tasks that count, and the functions that fit each part.

    `leaf`: only the running function counts.
    """

    tasks: frozenset[str]
    leaf: bool
    where: frozenset[str]
    under: tuple[frozenset[str], ...]
    never: frozenset[str]

    def matching_functions(self, path: Path) -> list[str]:
        """The functions of a path that the check speaks of; none if the path does not fit."""
        task, functions = path
        inner = functions[::-1]
        upto = 1 if self.leaf else len(inner)
        at = next((place for place, name in enumerate(inner[:upto]) if name in self.where), None)
        if at is None or task not in self.tasks:
            return []
        beyond = inner[at + 1 :]
        rest = iter(beyond)
        in_order = all(any(name in wanted for name in rest) for wanted in self.under)
        if not in_order or not self.never.isdisjoint(beyond):
            return []
        own = [name for name in inner[at:upto] if name in self.where]
        return own + [name for name in beyond if any(name in wanted for wanted in self.under)]


def matched_functions(paths: Sequence[Path], checks: Iterable[ProfileSpec]) -> dict[str, Any]:
    """The keys of the document for what checks matched; the functions of the first check come first."""
    members = {name: function_families(name) for _, functions in paths for name in functions}
    tasks = frozenset(task for task, _ in paths)
    names: dict[str, None] = {}
    stacks: set[int] = set()
    for asked in dict.fromkeys(_stack_check(check, tasks, members) for check in checks):
        for number, path in enumerate(paths if asked.where else ()):
            if hit := asked.matching_functions(path):
                stacks.add(number)
                names |= dict.fromkeys(hit)
    return {"matched": list(names), "matched_stacks": sorted(stacks)} if names else {}


def _stack_check(check: ProfileSpec, tasks: frozenset[str], members: Mapping[str, frozenset[str]]) -> _StackCheck:
    def fitting(choice: Iterable[str]) -> frozenset[str]:
        wanted = frozenset(choice)
        return frozenset(name for name, own in members.items() if not own.isdisjoint(wanted))

    picked = comm_filter(check)
    return _StackCheck(
        tasks if picked is None else frozenset(task for task in tasks if picked(task)),
        check.self_ is not None,
        fitting(as_list(check.self_ if check.self_ is not None else check.anywhere)),
        tuple(fitting([family]) for family in as_list(check.under)),
        fitting(as_list(check.not_under)),
    )


def kernel_entries(paths: Sequence[Path], frames: Iterable[tuple[str, Frame]]) -> list[str]:
    """The functions at which a path enters the kernel; `frames` are those of the recording with the names shown.

    A function of a source that does not say whose it is is the kernel's if its family is.
    """
    kernel: dict[str, bool] = {}
    for name, frame in frames:
        inside = frame.kernel
        if inside is None:
            inside = any(families()[family].objects is None for family in families_of(frame.name))
        kernel[name] = kernel.get(name, True) and inside
    entries = (next((name for name in functions if kernel.get(name)), None) for _, functions in paths)
    return sorted(set(filter(None, entries)))


def modules(paths: Sequence[Path], frames: Iterable[tuple[str, Frame]]) -> dict[str, list[str]]:
    """By kernel module the functions of it that a path shows; a module may be of anybody, the kernel is not."""
    shown = frozenset(name for _, functions in paths for name in functions)
    found: dict[str, set[str]] = {}
    for name, frame in frames:
        if name in shown and (module := _MODULE.fullmatch(frame.dso)) and module[0] not in _NO_MODULES:
            found.setdefault(module["name"] or module["file"], set()).add(name)
    return {module: sorted(names) for module, names in sorted(found.items())}
