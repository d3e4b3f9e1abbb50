"""`profile`: the share of non-idle samples that a symbol family takes, alone or under certain callers.

A source that shows no callers cannot decide a clause about callers: what it leaves open counts as possible in both
directions, so the answer is yes or no only where the open part cannot change it. Samples that the recording lost are
open too, and if there are many the whole recording is weak evidence: what is lost is not lost at random.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import re2

from thpdiag.engine.expression import negated
from thpdiag.engine.family_words import callers_words, family_words
from thpdiag.engine.judged import NO, UNKNOWN, YES, Judged, Scene, unknown
from thpdiag.engine.profiles import compiled
from thpdiag.engine.quantity import quantity, shown
from thpdiag.engine.sampled_events import timed_ones
from thpdiag.engine.schema import Profile as ProfileSpec
from thpdiag.engine.schema import listed
from thpdiag.engine.stacks import Place, shortened
from thpdiag.model import Profile, Verdict3

if TYPE_CHECKING:
    from thpdiag.engine.compiled import Compiled, Found, Sums

MANY_LOST = 0.05  # of the samples; perf report warns above it (tools/perf/builtin-report.c)
DOUBT = "symbols_doubt"  # fact of a profile: why the names of its kernel functions may be wrong
SMALLEST_GROUP = 0.02  # of the non-idle weight: a command below it is no subject of `of: comm`
SEEN = 0.1  # of min_samples must show it: two or three samples of a short recording may be chance
PART = 0.2  # of min_samples must be of the command or function that a share is asked of


@dataclass(frozen=True, slots=True)
class Share:
    """`seen` of the samples matched; the true share lies between `low` and `high`, for some callers are not shown and
    some samples were lost. `chain` is the heaviest matched one, `group` the command, thread or CPU, `part` how much of
    the profile that is a share of."""

    seen: float
    low: float
    high: float
    group: str = ""
    chain: int | None = None
    part: float = 1.0


def judge(check: ProfileSpec, scene: Scene) -> Judged:
    """The most telling answer over all profiles of the state that measure CPU time: yes before unknown before no."""
    needed = _needed(check)
    if not scene.state.profiles:
        return unknown("profile", "no recording of call stacks in the input", needed=needed, kind="stack")
    timed = timed_ones(scene.state.profiles)
    if not timed:
        one = scene.state.profiles[0]
        text = f"{one.cite.member} counts {one.event}, which does not tell where CPU time goes"
        return unknown("profile", text, needed=needed, kind="stack")
    answers = [_on(check, compiled(profile), needed) for profile in timed]
    return max(answers, key=lambda a: (a.value.value, _strength(a)))


def _strength(answer: Judged) -> float:
    return answer.measured if isinstance(answer.measured, float) else -1.0


def _on(check: ProfileSpec, profile: Compiled, needed: str) -> Judged:
    source = profile.profile
    if profile.samples is not None and profile.samples < check.min_samples:
        text = (
            f"only {profile.samples} samples that are not idle in {source.cite.member}, {check.min_samples} are needed"
        )
        return unknown("profile", text, needed=needed, kind="stack")
    if profile.idle_host:
        text = f"the host was idle when perf top looked ({source.facts['irqs_per_second']} samples per second)"
        return unknown("profile", text, needed=needed, kind="stack")
    if profile.weight <= 0:
        return unknown("profile", f"no samples that are not idle in {source.cite.member}", needed=needed, kind="stack")
    share = _largest(check, profile)
    doubt = DOUBT in source.facts
    few = _few(check, profile, share)
    value = UNKNOWN if few else _decided(check, share)
    value = UNKNOWN if doubt and value is NO else value  # other names may say something else
    cite = source.cite if share.chain is None else source.citation(share.chain)
    missing = ("profile",) if value is UNKNOWN else ()
    window = (source.start, source.end) if source.start and source.end else None
    said = _said(check, profile, share, value) + few
    surer = _fewer_lost(source) or (_sure_names(source) if doubt else "")
    return Judged(
        value, said, needed, "stack", cite, share.seen, "ratio",
        missing=missing, weak=bool(surer), surer=surer, window=window,
    )  # fmt: skip


def _fewer_lost(source: Profile) -> str:
    """What would make the evidence solid; empty if the recording lost few samples or does not say."""
    lost = source.ledger.lost_share or 0.0
    if lost <= MANY_LOST:
        return ""
    few = shown(MANY_LOST, "ratio")
    better = f"a recording that loses at most {few} of its samples (perf record: smaller -F, larger -m)"
    return f"{better}: {source.cite.member} lost {shown(lost, 'ratio')}, so that what it shows counts as possible only"


def _sure_names(source: Profile) -> str:
    """What would show that the names of the kernel's functions are right."""
    better = "a list of symbols that is known to be of the recorded kernel (/proc/kallsyms and `uname -r` of that boot)"
    return f"{better}: {source.cite.member} has its names from {source.facts['symbols']}"


def _decided(check: ProfileSpec, share: Share) -> Verdict3:
    bound = quantity(check.at_least if check.at_least is not None else check.below or 0)
    reached = YES if share.low >= bound else (NO if share.high < bound else UNKNOWN)
    return reached if check.at_least is not None else negated(reached)


def _few(check: ProfileSpec, profile: Compiled, share: Share) -> str:
    """That there are too few samples to go by, as the end of a sentence; empty if there are enough."""
    if profile.samples is None:
        return ""
    of = profile.samples * share.part
    if check.of in ("symbol", "callers") and 0 < of < PART * check.min_samples:
        return f"; {round(of)} of {profile.samples} samples are too few to tell a share of them"
    seen = of * share.seen
    if check.at_least is not None and 0 < seen < SEEN * check.min_samples and _decided(check, share) is YES:
        return f"; {round(seen)} of {profile.samples} samples may be chance"
    return ""


def _largest(check: ProfileSpec, profile: Compiled) -> Share:
    """The share that `of` asks for; of several groups the largest, which may be as large as any of them may be."""
    found = matching(check, profile)
    grouping = profile.grouping(check.of, only(check))
    sums, ledger = profile.sums(found, grouping), profile.profile.ledger
    lost = (ledger.lost or 0) / max(1, ledger.read)
    if check.of == "all":
        shares = [_share(sums[0], profile.weight, ledger.unlisted, lost)]
    elif check.of == "symbol":
        shares = [_share(sums[0], sums[0].sure + sums[0].astray, 0.0, lost, least=sums[0].held)]
    elif check.of == "callers":
        calling = profile.sums(_callers_alone(check, profile), grouping)[0]
        shares = [_share(sums[0], calling.held, 0.0, lost, least=calling.sure or calling.held)]
    else:
        big = [group for group in sums if group.weight >= SMALLEST_GROUP * profile.weight]
        least = PART * check.min_samples * profile.weight
        big = [group for group in big if profile.samples is None or profile.samples * group.weight >= least]
        shares = [_share(group, group.weight, 0.0, lost) for group in big] or [Share(0.0, 0.0, 1.0)]
    most = min(shares, key=lambda s: (-s.low, -s.high, s.group))
    most = replace(most, high=max(s.high for s in shares), part=most.part / profile.weight)
    return replace(most, chain=profile.heaviest(found, grouping, most.group)) if most.low > 0 else most


def matching(check: ProfileSpec, profile: Compiled) -> Found:
    """The chains that the check is about, whatever their share."""
    return profile.find(
        tuple(listed(check.self_ if check.self_ is not None else check.anywhere)),
        Place.ANYWHERE if check.self_ is None else Place.SELF,
        under=[(family,) for family in listed(check.under)],
        never=tuple(listed(check.not_under)),
    )


def _callers_alone(check: ProfileSpec, profile: Compiled) -> Found:
    """The chains of the callers, whatever they call."""
    first, *outer = ((family,) for family in listed(check.under))
    return profile.find(first, Place.ANYWHERE, under=outer, never=tuple(listed(check.not_under)))


def only(check: ProfileSpec) -> Callable[[str], object] | None:
    """Which commands count, None if all do."""
    return None if check.comm is None else re2.compile(check.comm).fullmatch


def _share(sums: Sums, total: float, rest: float, lost: float, least: float | None = None) -> Share:
    """Matched and open weight relative to the denominator that `of` names.

    `rest` is what the source does not list, `lost` the lost samples for each that is there, `least` what the
    denominator is if what is open is as good as can be.
    """
    least = total if least is None else least
    low = sums.sure / total if total > 0 else 0.0
    if least <= 0:  # perhaps nothing that was kept is of it, but all that was lost
        return Share(low, low / (1 + lost), 1.0 if lost > 0 else 0.0, sums.group, part=total)
    high = (sums.possible + rest) / least
    return Share(low, low / (1 + lost), min(1.0, (high + lost) / (1 + lost)), sums.group, part=total)


def _callers(check: ProfileSpec) -> str:
    if check.under is None:
        return ""
    return f" {callers_words(check.under)}"


def what(check: ProfileSpec) -> str:
    """What the check looks for, in words."""
    text = family_words(check.self_ if check.self_ is not None else check.anywhere)
    text = f"{text} (top frame)" if check.self_ is not None else text
    text += _callers(check)
    if check.not_under is not None:
        text += f", not for {family_words(check.not_under)}"
    return text


def _apart(check: ProfileSpec) -> str:
    """What the check looks for of samples that are named already: who calls it, and what for."""
    others = f"not for {family_words(check.not_under)}" if check.not_under is not None else ""
    return ", ".join(filter(None, (_callers(check), others))) or f"in {what(check)}"


def _of(check: ProfileSpec, group: str = "") -> str:
    if check.of == "symbol":
        return f"of the samples in {family_words(check.self_ if check.self_ is not None else check.anywhere)}"
    if check.of == "all":
        return "of the non-idle samples"
    if check.of == "callers":
        return f"of the samples in {' within '.join(family_words(name) for name in listed(check.under))}"
    return f"of the non-idle samples of {group or 'one ' + check.of}"


def _needed(check: ProfileSpec) -> str:
    bound = f"at least {check.at_least}" if check.at_least is not None else f"below {check.below}"
    return f"{what(check)}: {bound} {_of(check)}"


def _said(check: ProfileSpec, profile: Compiled, share: Share, value: Verdict3) -> str:
    where = _apart(check) if check.of == "symbol" else f"in {what(check)}"
    where = f"in {family_words(listed(check.self_) or listed(check.anywhere))}" if check.of == "callers" else where
    text = f"{shown(share.seen, 'ratio')} {_of(check, share.group)} are {where.strip()}"
    if value is NO and check.at_least is not None and share.seen > 0:
        text += f", less than {check.at_least}"
    if value is UNKNOWN and share.high > share.low:
        text += f"; up to {shown(share.high, 'ratio')} cannot be told from this source"
    if share.chain is not None:
        names = profile.profile.names(share.chain)
        text += f", most in {shortened(names)}{'' if len(names) > 1 else ' alone'}"
    if DOUBT in profile.profile.facts:
        text += "; the names of the kernel's functions may be wrong"
    if (lost := profile.profile.ledger.lost_share or 0.0) > MANY_LOST:
        weak = ", which makes it weak evidence" if value is YES else ""
        text += f"; the recording lost {shown(lost, 'ratio')} of its samples{weak}"
    return text
