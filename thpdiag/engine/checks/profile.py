"""`profile`: the share of non-idle samples that a symbol family takes, alone or under certain callers.

A source that shows no callers cannot decide a clause about callers: what it leaves open counts as possible in both
directions, so the answer is yes or no only where the open part cannot change it. Samples that the recording lost are
open too, and if there are many the whole recording is weak evidence: what is lost is not lost at random.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import re2

from thpdiag.engine.check_result import NO, UNKNOWN, YES, CheckResult, any_answer, unknown_result, witness_answer
from thpdiag.engine.expression import negate
from thpdiag.engine.quantity import format_quantity, parse_quantity
from thpdiag.engine.schema import Profile as ProfileSpec
from thpdiag.engine.schema import ProfileCheck, as_list
from thpdiag.engine.sources import DOUBT, recordings
from thpdiag.engine.stacks import NOT_CPU_TIME, Place, format_stack, measure_words, measured_profiles
from thpdiag.engine.state_view import StateView, compiled_profile
from thpdiag.engine.wording import callers_words, denominator_words, family_words, signature_words
from thpdiag.knowledge.symbols import task_groups
from thpdiag.model import Citation, Measure, Profile, Stacks, Verdict3
from thpdiag.model.text import path_name, sentence

if TYPE_CHECKING:
    from thpdiag.engine.compiled_profile import ChainMatches, CompiledProfile, GroupWeights

MANY_LOST = 0.05  # of the samples; perf report warns above it (tools/perf/builtin-report.c)
SMALLEST_GROUP = 0.02  # of the non-idle weight: a command below it is no subject of `of: comm`
SEEN = 0.1  # of min_samples must show it: two or three samples of a short recording may be chance
PART = 0.2  # of min_samples must be of the command or function that a share is asked of


class Share(NamedTuple):
    """`seen` of the samples matched; the true share lies between `low` and `high`, for some callers are not shown and
    some samples were lost. `chain` is the heaviest matched one, `group` the command, thread or CPU, `part` how much of
    the profile that is a share of."""

    seen: float
    low: float
    high: float
    group: str = ""
    chain: int | None = None
    part: float = 1.0
    line: int = 0  # of the row with callees that tells it, where it is a lower bound

    @property
    def is_visible(self) -> bool:
        """Whether the source tells the share: what was not seen may be there where not all of it is shown."""
        return self.seen > 0 or self.high == 0


def judge(check: ProfileCheck, view: StateView) -> CheckResult:
    """The answer of any recording of the state that measures CPU time; renderings of one recording are one witness.

    Where one rendering says yes and a better one no, they contradict each other (`thpdiag.engine.sources`): yes stands.
    """
    if not view.state.profiles:
        return unknown_result(check, check.needs[0], "no recording of call stacks in the input")
    timed = measured_profiles(view.state.profiles, Measure(check.profile.measures))
    if not timed:
        return unknown_result(check, check.needs[0], _why_none(check.profile, view.state.profiles))
    groups = recordings(tuple(timed))
    answers = []
    for renderings in groups:
        if check.profile.flat and renderings[0].stacks is not Stacks.NONE:
            answers.append(CheckResult(check, NO, "the recording shows callers", renderings[0].cite))
            continue
        told = [_judge_profile(check, compiled_profile(profile)) for profile in renderings]
        answers += [answer for answer in told if answer.value is YES] or [witness_answer(told)]
    if check.profile.flat and (shown := [a for a in answers if a.value is NO and a.measured is None]):
        answers = [a for a in answers if a.value is YES] or shown  # what shows callers covers the question
    return any_answer(
        sorted(answers, key=lambda a: a.measured if isinstance(a.measured, float) else -1.0, reverse=True)
    )


def _why_none(spec: ProfileSpec, profiles: Sequence[Profile]) -> str:
    """Why no recording measures what is asked."""
    if spec.measures != "cpu":
        return f"no recording of {NOT_CPU_TIME[Measure(spec.measures)]} in the input"
    return f"{path_name(profiles[0].cite.member)} {measure_words(profiles[0])}"


def _judge_profile(check: ProfileCheck, profile: CompiledProfile) -> CheckResult:
    source, spec, member = profile.profile, check.profile, path_name(profile.profile.cite.member)
    if profile.samples is not None and profile.samples < spec.min_samples:
        text = f"only {profile.samples} samples that are not idle in {member}, {spec.min_samples} are needed"
        return unknown_result(check, check.needs[0], text)
    if profile.idle_host:
        text = f"the host was idle when perf top looked ({source.facts['irqs_per_second']} samples per second)"
        return unknown_result(check, check.needs[0], text)
    if profile.weight <= 0:
        return unknown_result(check, check.needs[0], f"no samples that are not idle in {member}")
    share = _largest_share(spec, profile)
    doubt = DOUBT in source.facts
    few = _too_few_samples(spec, profile, share)
    value = UNKNOWN if few else _compare_share(spec, share)
    value = UNKNOWN if doubt and value is NO else value  # other names may say something else
    surer = _need_fewer_lost(source) or (_need_symbols(source) if doubt else "")

    @cache
    def headline() -> str:
        return _share_words(spec, share, value)

    return CheckResult(
        check, value, lambda: headline() + _details(profile, share, value) + few,
        _cite(source, share),
        share.seen if share.is_visible else None, "ratio",
        missing=check.needs if value is UNKNOWN else (), weak=bool(surer), surer=sentence(surer),
        partial=value is UNKNOWN,
        window=(source.start, source.end) if source.start and source.end else None,
        headline="" if share.chain is None else headline,
    )  # fmt: skip


def _cite(source: Profile, share: Share) -> Citation:
    """Where the share is seen."""
    if share.line:
        return Citation(source.cite.member, share.line)
    return source.cite if share.chain is None else source.citation(share.chain)


def _need_fewer_lost(source: Profile) -> str:
    """What would make the evidence solid; empty if the recording lost few samples or does not say."""
    lost = source.ledger.lost_share or 0.0
    if lost <= MANY_LOST:
        return ""
    few = format_quantity(MANY_LOST, "ratio")
    better = f"a recording that loses at most {few} of its samples (perf record: smaller -F, larger -m)"
    share = format_quantity(lost, "ratio")
    return f"{better}: {path_name(source.cite.member)} lost {share}, so its evidence is only possible"


def _need_symbols(source: Profile) -> str:
    """What would show that the names of the kernel's functions are right."""
    better = "a symbol list of the recorded kernel (/proc/kallsyms and `uname -r` of that boot)"
    return f"{better}: {path_name(source.cite.member)} has its names from {source.facts['symbols']}"


def _compare_share(check: ProfileSpec, share: Share) -> Verdict3:
    bound = parse_quantity(check.at_least if check.at_least is not None else check.below or 0)
    reached = YES if share.low >= bound else (NO if share.high < bound else UNKNOWN)
    return reached if check.at_least is not None else negate(reached)


def _too_few_samples(check: ProfileSpec, profile: CompiledProfile, share: Share) -> str:
    """That there are too few samples to go by, as the end of a sentence; empty if there are enough."""
    if profile.samples is None:
        return ""
    of = profile.samples * share.part
    if check.of in ("symbol", "callers") and 0 < of < PART * check.min_samples:
        return f"; {round(of)} of {profile.samples} samples are too few to compute a share"
    seen = of * share.seen
    if check.at_least is not None and 0 < seen < SEEN * check.min_samples and _compare_share(check, share) is YES:
        return f"; {round(seen)} of {profile.samples} samples may be chance"
    return ""


def _largest_share(check: ProfileSpec, profile: CompiledProfile) -> Share:
    """The share that `of` asks for; of several groups the largest, which may be as large as any of them may be."""
    found = matching(check, profile)
    grouping = profile.grouping(check.of, comm_filter(check))
    sums, ledger = profile.sums(found, grouping), profile.profile.ledger
    lost = (ledger.lost or 0) / max(1, ledger.read)
    where = tuple(as_list(check.self_ if check.self_ is not None else check.anywhere))
    unlisted = 0.0 if check.listed else profile.hidden_weight(where, found.sure)
    if check.of == "all":
        # What tasks do that have no name may be of these commands
        named = check.comm is not None or check.not_comm is not None
        unnamed = profile.sums(found, profile.grouping("all", operator.not_)) if named else []
        rest = unlisted + sum(group.possible for group in unnamed)
        shares = [_with_callees(check, profile, _share(sums[0], profile.weight, rest, lost))]
    elif check.of == "symbol":
        whole = sums[0].sure + sums[0].astray
        shares = [_share(sums[0], whole, 0.0, lost, least=sums[0].held)]
        if sums[0].held <= 0 and unlisted > 0:  # the rows that a text leaves out may be all there is of it
            shares = [shares[0]._replace(high=1.0)]
    elif check.of == "callers":
        calling = profile.sums(_callers_alone(check, profile), grouping)[0]
        shares = [_share(sums[0], calling.held, 0.0, lost, least=calling.sure or calling.held)]
    else:
        big = [group for group in sums if group.weight >= SMALLEST_GROUP * profile.weight]
        least = PART * check.min_samples * profile.weight
        big = [group for group in big if profile.samples is None or profile.samples * group.weight >= least]
        shares = [_share(group, group.weight, 0.0, lost) for group in big] or [Share(0.0, 0.0, 1.0)]
    most = min(shares, key=lambda s: (-s.low, -s.high, s.group))
    most = most._replace(high=max(s.high for s in shares), part=most.part / profile.weight)
    if most.low > 0 and not most.line:
        most = most._replace(chain=profile.heaviest(found, grouping, most.group))
    return most


def _with_callees(check: ProfileSpec, profile: CompiledProfile, share: Share) -> Share:
    """The share, where a text without chains has shares with callees that tell a larger lower bound."""
    if check.anywhere is None or check.not_under is not None:
        return share
    families = [tuple(as_list(check.anywhere)), *((family,) for family in as_list(check.under))]
    least, line = profile.least_share(families, comm_filter(check))
    if check.listed and not check.under and profile.profile.inclusive:
        return share._replace(seen=least, low=least, high=profile.listed_share(families[0]), line=line)
    if least <= share.low:
        return share
    return share._replace(seen=least, low=least, high=max(share.high, least), line=line)


def matching(check: ProfileSpec, profile: CompiledProfile) -> ChainMatches:
    """The chains that the check is about, whatever their share."""
    return profile.find(
        tuple(as_list(check.self_ if check.self_ is not None else check.anywhere)),
        Place.ANYWHERE if check.self_ is None else Place.SELF,
        under=[(family,) for family in as_list(check.under)],
        never=tuple(as_list(check.not_under)),
    )


def _callers_alone(check: ProfileSpec, profile: CompiledProfile) -> ChainMatches:
    """The chains of the callers, whatever they call."""
    first, *outer = ((family,) for family in as_list(check.under))
    return profile.find(first, Place.ANYWHERE, under=outer, never=tuple(as_list(check.not_under)))


def comm_filter(check: ProfileSpec) -> Callable[[str], object] | None:
    """Which commands count, None if all do; a task whose command the source does not tell is none of them."""
    if check.unnamed:
        return operator.not_
    if check.comm is None and check.not_comm is None:
        return None
    wanted = re2.compile(check.comm).fullmatch if check.comm is not None else bool
    others = task_groups()[check.not_comm].names if check.not_comm is not None else ()
    return lambda comm: comm and wanted(comm) and comm not in others


def _share(sums: GroupWeights, total: float, rest: float, lost: float, least: float | None = None) -> Share:
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


def _share_words(check: ProfileSpec, share: Share, value: Verdict3) -> str:
    """What was seen of what."""
    if check.of == "callers":
        where = f"in {family_words(as_list(check.self_) or as_list(check.anywhere))}"
    else:
        where = f"in {signature_words(check)}" if check.of != "symbol" else _beside_the_symbol(check)
    of, most = denominator_words(check, share.group), format_quantity(share.high, "ratio")
    if value is UNKNOWN and not share.is_visible:
        known = f"{most} at most" if share.high < 1 else "none, some or all"
        return f"what share {of} is {where} cannot be determined from this source: {known}"
    seen = format_quantity(share.seen, "ratio") if share.is_visible else f"at most {most}"
    text = f"{'at least ' if share.line else ''}{seen} {of} are {where}"
    if value is NO and check.at_least is not None and share.high > 0:
        text += f", less than {check.at_least}"
    if value is UNKNOWN and share.high > share.low and not share.line:
        text += f"; up to {most} cannot be determined from this source"
    return text


def _beside_the_symbol(check: ProfileSpec) -> str:
    """What the check looks for of samples that are named already: who calls it, and what for."""
    callers = callers_words(check.under) if check.under is not None else ""
    others = f"not for {family_words(check.not_under)}" if check.not_under is not None else ""
    return ", ".join(filter(None, (callers, others))) or f"in {signature_words(check)}"


def _details(profile: CompiledProfile, share: Share, value: Verdict3) -> str:
    """Where most of it is, and what that is worth."""
    details = ""
    if share.chain is not None:
        names = profile.profile.names(share.chain)
        details = f", most in {format_stack(names)}{'' if len(names) > 1 else ' alone'}"
    if DOUBT in profile.profile.facts:
        details += "; the names of the kernel's functions may be wrong"
    if (lost := profile.profile.ledger.lost_share or 0.0) > MANY_LOST:
        weak = ", which makes it weak evidence" if value is YES else ""
        details += f"; the recording lost {format_quantity(lost, 'ratio')} of its samples{weak}"
    return details
