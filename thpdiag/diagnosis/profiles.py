"""Recordings of call stacks in the result: the call tree, shares of symbol families, lost samples, and signatures over
time.

A signature is the chains that a profile check of a finding matches. A recording has hundreds of families, so only these
are shown over time. The functions that the call tree highlights (those of findings, and the entries into the kernel)
are computed from the paths in the document, which needs no times and no numpy and excludes folded functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from thpdiag.diagnosis.diagnose import Diagnosis
from thpdiag.diagnosis.excerpts import place
from thpdiag.diagnosis.times import recording_times, shared_axis, time_of_day
from thpdiag.engine.checks.profile import comm_filter, matching_chains
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
MAX_SIGNATURES_PER_RECORDING = 3
MAX_HEAT_MAPS = 2  # recordings with heat maps in the document
MAX_WEIGHT_DIFFERENCE = 0.01  # relative, between two signatures that count as one
MAX_POINTS = 300  # of a series: the width of a chart
MAX_TEXT = 120_000  # characters of all paths in a document, to keep the page small
MIN_TEXT = 20_000  # characters for one recording of many
# The object of a function as printed by perf: `[xfs]`, or the file of the module
_MODULE = re.compile(r"\[(?P<name>[\w-]+)\]|(?:.*/)?(?P<file>[\w-]+)\.ko(?:\.(?:xz|gz|zst))?")
_NO_MODULES = frozenset({"[unknown]", "[kernel]", "[vdso]", "[vsyscall]", "[heap]", "[stack]", "[anon]", "[bpf]"})

Path = tuple[str, list[str]]  # of a task: its name and the functions, outermost first


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """The matches of a profile check in one recording over time. `checks` are pairs of rule and check name."""

    profile: Profile
    what: str
    checks: tuple[tuple[str, str], ...]
    share: float
    course: ShareSeries
    onset: Step | None
    worst: WorstSecond | None
    heat_map: HeatMap | None = None


def signatures(diagnosis: Diagnosis) -> list[Signature]:
    """Return the signatures of the findings, leader first. Of several that match the same samples only the first is
    kept."""
    result: list[Signature] = []
    known: dict[tuple[int, str, str], int] = {}  # index in `result`, -1 if left out
    for finding, evidence, check, profile in _stack_evidence(diagnosis):
        key = (id(profile), signature_words(check), check.comm or "")
        if key not in known:
            signature = _signature(profile, check)
            known[key] = -1 if signature is None else _add_signature(signature, check, result)
        if (i := known[key]) >= 0:
            result[i] = replace(result[i], checks=(*result[i].checks, (finding.outcome.rule, evidence.check)))
    return result


def _add_signature(new: Signature, check: ProfileSpec, found: list[Signature]) -> int:
    """Add a signature to a list; return its index, that of an equal one, or -1 if there is no room."""
    same_profile = [i for i, other in enumerate(found) if other.profile is new.profile]
    for i in same_profile:  # practically the same samples
        difference = abs(new.course.hit - found[i].course.hit).sum()
        if difference <= MAX_WEIGHT_DIFFERENCE * max(new.course.hit.sum(), found[i].course.hit.sum()):
            return i
    if len(found) >= MAX_SIGNATURES or len(same_profile) >= MAX_SIGNATURES_PER_RECORDING:
        return -1
    heat_map = None
    if not same_profile and len({id(other.profile) for other in found}) < MAX_HEAT_MAPS:
        matched = _matched_over_time(new.profile, check)
        # The cells have the same level as those of the heat map of all samples.
        heat_map = None if matched is None else matched[0].heat_map(matched[1], matched[0].heat_map().level)
    found.append(replace(new, heat_map=heat_map))
    return len(found) - 1


def _stack_evidence(diagnosis: Diagnosis) -> Iterator[tuple[Finding, Evidence, ProfileSpec, Profile]]:
    """Yield the findings with the recordings of their stacks."""
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
    """The signature of a check; None if the recording has no times or nothing matches."""
    if (match := _matched_over_time(profile, check)) is None:
        return None
    time, matched = match
    course = time.share_series(matched)
    share = float(course.hit.sum() / course.weight.sum())
    name = signature_words(check) + (f" of {check.comm}" if check.comm else "")
    return Signature(profile, name, (), share, course, time.first_step(course), time.worst(matched))


def _matched_over_time(profile: Profile, check: ProfileSpec) -> tuple[TimedProfile, Bools] | None:
    """The recording over time, and the mask of its matching rows."""
    if not profile.has_time or profile.start is None:
        return None
    from thpdiag.engine.profile_views import timed_profile  # numpy: only where there is a profile

    compiled = compiled_profile(profile)
    time, is_match = timed_profile(compiled), comm_filter(check)
    if time is None:
        return None
    tasks = None if is_match is None else np.fromiter((bool(is_match(t.comm)) for t in profile.tasks), np.bool_)
    matched = time.rows_of(matching_chains(check, compiled), tasks)
    return (time, matched) if matched.any() else None


def onset_moment(signature: Signature, anchors: Sequence[ClockAnchor]) -> Moment | None:
    """Return the first bad moment in numbers and words."""
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


def heat_columns(heat_map: HeatMap) -> list[str]:
    """Return the digits of a heat map, one string per column: lists of numbers would be most of the document."""
    return ["".join(map(str, column)) for column in heat_map.cells.tolist()]


def share_series(signature: Signature, anchors: Sequence[ClockAnchor]) -> TimelineSeries:
    """Return the share over time as a series of the timeline, on the wall clock if that is known well enough."""
    source = signature.profile
    axis = shared_axis(source, anchors)
    start = source.start if axis is None or source.start is None else axis[0].wall_time(source.start)
    accuracy = f", its time {axis[1]}" if axis else ""
    return TimelineSeries.model_construct(
        metric="profile", means=f"share of the non-idle samples in {signature.what}{accuracy}", unit="ratio",
        source=str(source.cite), **present_keys(clock=start.clock.value if start else None), panel="call_stacks",
        points=_points(signature.course, start.seconds if start else 0.0),
    )  # fmt: skip


def _points(course: ShareSeries, start: float) -> list[list[float | None]]:
    """[middle, min, max, mean] of at most MAX_POINTS buckets; unknown ones are omitted. The time is the middle,
    because a bucket of a sparse recording covers many seconds and its beginning may precede the cause."""
    size = -(-len(course) // MAX_POINTS)
    shares, known = course.shares, course.known
    points: list[list[float | None]] = []
    for first in range(0, len(course), size):
        part = slice(first, first + size)
        if known[part].any():
            inner = shares[part][known[part]]
            mean = course.hit[part][known[part]].sum() / course.weight[part][known[part]].sum()
            middle = start + course.seconds((first + min(first + size, len(course))) / 2)
            points.append([round(middle, 2), *(round(float(v), 4) for v in (inner.min(), inner.max(), mean))])
    return points


def profile_documents(diagnosis: Diagnosis, found: Sequence[Signature]) -> list[document_model.Profile]:
    """Return a document for each event of each recording. `found` are the signatures of the findings."""
    anchors = diagnosis.case.anchors
    profiles = [(profile, state) for state in diagnosis.case.states for profile in state.profiles]
    timed = [profile for profile, _ in profiles if profile.has_time and profile.start]
    timed.sort(key=lambda profile: not any(s.heat_map and s.profile is profile for s in found))
    room = max(MIN_TEXT, MAX_TEXT // max(1, len(profiles)))
    checks = [(profile, check) for _, _, check, profile in _stack_evidence(diagnosis)]
    return [
        document_model.Profile.model_construct(
            **_recording(profile, state, room, [check for other, check in checks if other is profile]),
            **recording_times(profile, anchors),
            **(_heat_map(profile) if any(profile is other for other in timed[:MAX_HEAT_MAPS]) else {}),
            **present_keys(signatures=[_signature_document(s, anchors) for s in found if s.profile is profile]),
        )
        for profile, state in profiles
    ]


def _recording(profile: Profile, state: State, room: int, checks: Sequence[ProfileSpec]) -> dict[str, Any]:
    """The keys of a recording. `checks` are those of findings with evidence in it. `folded` has (stack root first,
    share of the non-idle weight), `families` the share of chains with each family."""
    from thpdiag.engine.profile_views import call_tree, frame_label

    compiled = compiled_profile(profile)
    tree = call_tree(compiled, room)
    folded = [(path, float(f"{share:.4g}")) for path, share in tree.stacks]
    frames = [(frame_label(frame), frame) for frame in profile.frames]
    paths = [(task, functions) for task, *functions in (stack.split(";") for stack, _ in folded)]
    shares = {name: compiled.share(name) for name, family in sorted(families().items()) if family.listed}
    return {
        "event": profile.event, "samples": compiled.samples, "reader": profile.reader,
        "state": sentence(quoted(state.id)), **place(profile.cite),
        **present_keys(symbols=profile.facts.get("symbols")),
        "loss": _loss(profile.ledger), "folded": folded, "folded_least": float(f"{tree.least:.4g}"),
        "folded_into_callers": float(f"{tree.folded:.4g}"),
        **matched_functions(paths, checks),
        **present_keys(kernel_entries=kernel_entries(paths, frames)),
        **({"modules": within} if (within := modules(paths, frames)) else {}),
        "families": {name: float(f"{share:.6g}") for name, share in shares.items() if share > 0},
    }  # fmt: skip


def _loss(ledger: Ledger) -> SampleLoss:
    lost = ledger.lost_share
    lost_keys: dict[str, Any] = {} if lost is None else {"lost": ledger.lost, "lost_share": float(f"{lost:.6g}")}
    return SampleLoss.model_construct(
        read=ledger.read, kept=ledger.kept, without_stack=ledger.without_stack, unknown_symbol=ledger.unknown_symbol,
        odd=dict(sorted(ledger.odd.items())), **lost_keys, truncated=ledger.truncated, throttled=ledger.throttled,
        unlisted=float(f"{ledger.unlisted / 100:.6g}"),
    )  # fmt: skip


def _heat_map(profile: Profile) -> dict[str, Any]:
    """The heat map of all samples, with the size of its cells."""
    from thpdiag.engine.profile_views import timed_profile  # numpy: only where there is a profile

    time = timed_profile(compiled_profile(profile))
    if time is None:
        return {}
    heat_map = time.heat_map()
    cell = HeatCell.model_construct(begin=heat_map.begin, seconds=heat_map.seconds, samples=heat_map.level)
    return {"heat": heat_columns(heat_map), "heat_cell": cell}


def _signature_document(signature: Signature, anchors: Sequence[ClockAnchor]) -> StackSignature:
    return StackSignature.model_construct(
        what=signature.what, rules=list(dict.fromkeys(rule for rule, _ in signature.checks)),
        share=float(f"{signature.share:.4g}"),
        **present_keys(
            onset=onset_moment(signature, anchors), worst=_worst_moment(signature, anchors),
            heat=heat_columns(signature.heat_map) if signature.heat_map else None,
        ),
    )  # fmt: skip


# Highlights of the call tree


class _StackCheck(NamedTuple):
    """A profile check over the names in a document: the tasks that count, and the functions that match each part.

    `leaf`: only the running function counts.
    """

    tasks: frozenset[str]
    leaf: bool
    where: frozenset[str]
    under: tuple[frozenset[str], ...]
    never: frozenset[str]

    def matching_functions(self, path: Path) -> list[str]:
        """Return the functions of a path that match the check; none unless the whole path matches."""
        task, functions = path
        inner = functions[::-1]
        limit = 1 if self.leaf else len(inner)
        position = next((place for place, name in enumerate(inner[:limit]) if name in self.where), None)
        if position is None or task not in self.tasks:
            return []
        callers = inner[position + 1 :]
        rest = iter(callers)
        in_order = all(any(name in wanted for name in rest) for wanted in self.under)
        if not in_order or not self.never.isdisjoint(callers):
            return []
        matches = [name for name in inner[position:limit] if name in self.where]
        return matches + [name for name in callers if any(name in wanted for wanted in self.under)]


def matched_functions(paths: Sequence[Path], checks: Iterable[ProfileSpec]) -> dict[str, Any]:
    """Return the keys of the document about matches of checks; the functions of the first check come first."""
    members = {name: function_families(name) for _, functions in paths for name in functions}
    tasks = frozenset(task for task, _ in paths)
    names: dict[str, None] = {}
    stacks: set[int] = set()
    for stack_check in dict.fromkeys(_stack_check(check, tasks, members) for check in checks):
        for number, path in enumerate(paths if stack_check.where else ()):
            if matches := stack_check.matching_functions(path):
                stacks.add(number)
                names |= dict.fromkeys(matches)
    return {"matched": list(names), "matched_stacks": sorted(stacks)} if names else {}


def _stack_check(check: ProfileSpec, tasks: frozenset[str], members: Mapping[str, frozenset[str]]) -> _StackCheck:
    def fitting(choice: Iterable[str]) -> frozenset[str]:
        wanted = frozenset(choice)
        return frozenset(name for name, families_of_name in members.items() if not families_of_name.isdisjoint(wanted))

    is_match = comm_filter(check)
    return _StackCheck(
        tasks if is_match is None else frozenset(task for task in tasks if is_match(task)),
        check.self_ is not None,
        fitting(as_list(check.self_ if check.self_ is not None else check.anywhere)),
        tuple(fitting([family]) for family in as_list(check.under)),
        fitting(as_list(check.not_under)),
    )


def kernel_entries(paths: Sequence[Path], frames: Iterable[tuple[str, Frame]]) -> list[str]:
    """Return the functions at which a path enters the kernel. `frames` are those of the recording with the names
    shown. If the source does not state whether a function is in the kernel, its symbol family decides."""
    kernel: dict[str, bool] = {}
    for name, frame in frames:
        is_kernel = frame.kernel
        if is_kernel is None:
            is_kernel = any(families()[family].objects is None for family in families_of(frame.name))
        kernel[name] = kernel.get(name, True) and is_kernel
    entries = (next((name for name in functions if kernel.get(name)), None) for _, functions in paths)
    return sorted(set(filter(None, entries)))


def modules(paths: Sequence[Path], frames: Iterable[tuple[str, Frame]]) -> dict[str, list[str]]:
    """Return the functions shown by kernel module. Names of modules, unlike those of the kernel, may be private."""
    shown = frozenset(name for _, functions in paths for name in functions)
    result: dict[str, set[str]] = {}
    for name, frame in frames:
        if name in shown and (module := _MODULE.fullmatch(frame.dso)) and module[0] not in _NO_MODULES:
            result.setdefault(module["name"] or module["file"], set()).add(name)
    return {module: sorted(names) for module, names in sorted(result.items())}
