"""`profile`: the share of non-idle samples in a symbol family, with or without conditions on callers.

A source without callers cannot decide a condition on callers: those samples count as possible in both directions, so
the answer is yes or no only if they cannot change it. Lost samples are treated likewise. A recording with many of them
is weak evidence as a whole, because samples are not lost at random.
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
from thpdiag.engine.sources import SYMBOL_DOUBT_FACT, recordings
from thpdiag.engine.stacks import NOT_CPU_TIME, Place, format_stack, measure_words, measured_profiles
from thpdiag.engine.state_view import StateView, compiled_profile
from thpdiag.engine.wording import callers_words, denominator_words, family_words, signature_words
from thpdiag.knowledge.symbols import task_groups
from thpdiag.model import Citation, Measure, Profile, Stacks, Verdict3
from thpdiag.model.text import path_name, sentence

if TYPE_CHECKING:
    from thpdiag.engine.compiled_profile import ChainMatches, CompiledProfile, GroupWeights

MAX_LOST_SHARE = 0.05  # of the samples; perf report warns above it (tools/perf/builtin-report.c)
MIN_GROUP_SHARE = 0.02  # of the non-idle weight: smaller commands are ignored by `of: comm`
MIN_SEEN_PART = 0.1  # of min_samples must match: two or three samples of a short recording may be chance
MIN_SUBJECT_PART = 0.2  # of min_samples must be of the command or function whose share is computed


class Share(NamedTuple):
    """A share of the samples and its uncertainty.

    `seen` matched; the true share is between `low` and `high`, because callers may be missing and samples lost. `chain`
    is the heaviest matched chain, `group` the command, thread or CPU, `part` the weight of the denominator.
    """

    seen: float
    low: float
    high: float
    group: str = ""
    chain: int | None = None
    part: float = 1.0
    line: int = 0  # of the row with callees that the share is read from, if it is a lower bound

    @property
    def is_visible(self) -> bool:
        """Whether the source shows the share. A zero does not count where a part of the samples is not listed."""
        return self.seen > 0 or self.high == 0


def judge(check: ProfileCheck, view: StateView) -> CheckResult:
    """The result of any recording in the state that measures CPU time; renderings of one recording are one witness.

    If one rendering answers yes and a better one no, they contradict each other (`thpdiag.engine.sources`): yes counts.
    """
    if not view.state.profiles:
        return unknown_result(check, check.needs[0], "no recording of call stacks in the input")
    measured = measured_profiles(view.state.profiles, Measure(check.profile.measures))
    if not measured:
        return unknown_result(check, check.needs[0], _no_profile_reason(check.profile, view.state.profiles))
    groups = recordings(tuple(measured))
    answers = []
    for renderings in groups:
        if check.profile.flat and renderings[0].stacks is not Stacks.NONE:
            answers.append(CheckResult(check, NO, "the recording shows callers", renderings[0].cite))
            continue
        results = [_judge_profile(check, compiled_profile(profile)) for profile in renderings]
        answers += [answer for answer in results if answer.value is YES] or [witness_answer(results)]
    if check.profile.flat and (with_callers := [a for a in answers if a.value is NO and a.measured is None]):
        answers = [a for a in answers if a.value is YES] or with_callers  # what shows callers covers the question
    return any_answer(
        sorted(answers, key=lambda a: a.measured if isinstance(a.measured, float) else -1.0, reverse=True)
    )


def _no_profile_reason(spec: ProfileSpec, profiles: Sequence[Profile]) -> str:
    """The reason why no recording measures what the check asks for."""
    if spec.measures != "cpu":
        return f"no recording of {NOT_CPU_TIME[Measure(spec.measures)]} in the input"
    return f"{path_name(profiles[0].cite.member)} {measure_words(profiles[0])}"


def _judge_profile(check: ProfileCheck, profile: CompiledProfile) -> CheckResult:
    source, spec, member = profile.profile, check.profile, path_name(profile.profile.cite.member)
    if profile.samples is not None and profile.samples < spec.min_samples:
        text = f"only {profile.samples} samples that are not idle in {member}, {spec.min_samples} are needed"
        return unknown_result(check, check.needs[0], text)
    if profile.is_idle_host:
        text = f"the host was idle when perf top looked ({source.facts['irqs_per_second']} samples per second)"
        return unknown_result(check, check.needs[0], text)
    if profile.weight <= 0:
        return unknown_result(check, check.needs[0], f"no samples that are not idle in {member}")
    share = _largest_share(spec, profile)
    is_doubtful = SYMBOL_DOUBT_FACT in source.facts
    too_few = _too_few_samples(spec, profile, share)
    value = UNKNOWN if too_few else _compare_share(spec, share)
    value = UNKNOWN if is_doubtful and value is NO else value  # with the right names the answer may differ
    surer = _lost_samples_hint(source) or (_symbols_hint(source) if is_doubtful else "")

    @cache
    def headline() -> str:
        return _share_words(spec, share, value)

    return CheckResult(
        check, value, lambda: headline() + _details(profile, share, value) + too_few,
        _cite(source, share),
        share.seen if share.is_visible else None, "ratio",
        missing=check.needs if value is UNKNOWN else (), weak=bool(surer), surer=sentence(surer),
        partial=value is UNKNOWN,
        window=(source.start, source.end) if source.start and source.end else None,
        headline="" if share.chain is None else headline,
    )  # fmt: skip


def _cite(source: Profile, share: Share) -> Citation:
    if share.line:
        return Citation(source.cite.member, share.line)
    return source.cite if share.chain is None else source.citation(share.chain)


def _lost_samples_hint(source: Profile) -> str:
    """Return which recording would be solid evidence, or "" if few samples were lost or the number is unknown."""
    lost = source.ledger.lost_share or 0.0
    if lost <= MAX_LOST_SHARE:
        return ""
    limit = format_quantity(MAX_LOST_SHARE, "ratio")
    hint = f"a recording that loses at most {limit} of its samples (perf record: smaller -F, larger -m)"
    share = format_quantity(lost, "ratio")
    return f"{hint}: {path_name(source.cite.member)} lost {share}, so its evidence is only possible"


def _symbols_hint(source: Profile) -> str:
    """Return what would confirm the names of the kernel's functions."""
    hint = "a symbol list of the recorded kernel (/proc/kallsyms and `uname -r` of that boot)"
    return f"{hint}: {path_name(source.cite.member)} has its names from {source.facts['symbols']}"


def _compare_share(check: ProfileSpec, share: Share) -> Verdict3:
    bound = parse_quantity(check.at_least if check.at_least is not None else check.below or 0)
    reached = YES if share.low >= bound else (NO if share.high < bound else UNKNOWN)
    return reached if check.at_least is not None else negate(reached)


def _too_few_samples(check: ProfileSpec, profile: CompiledProfile, share: Share) -> str:
    """Return, as the end of a sentence, that there are too few samples for an answer, or ""."""
    if profile.samples is None:
        return ""
    count = profile.samples * share.part
    if check.of in ("symbol", "callers") and 0 < count < MIN_SUBJECT_PART * check.min_samples:
        return f"; {round(count)} of {profile.samples} samples are too few to compute a share"
    seen = count * share.seen
    is_small = 0 < seen < MIN_SEEN_PART * check.min_samples
    if check.at_least is not None and is_small and _compare_share(check, share) is YES:
        return f"; {round(seen)} of {profile.samples} samples may be chance"
    return ""


def _largest_share(check: ProfileSpec, profile: CompiledProfile) -> Share:
    """The share that `of` asks for: of several groups the largest, with the largest upper bound of all groups."""
    chains = matching_chains(check, profile)
    grouping = profile.grouping(check.of, comm_filter(check))
    sums, ledger = profile.sums(chains, grouping), profile.profile.ledger
    lost = (ledger.lost or 0) / max(1, ledger.read)
    families = tuple(as_list(check.self_ if check.self_ is not None else check.anywhere))
    unlisted = 0.0 if check.listed else profile.hidden_weight(families, chains.sure)
    if check.of == "all":
        # Samples without a command name may belong to the commands in question.
        has_comm = check.comm is not None or check.not_comm is not None
        unnamed = profile.sums(chains, profile.grouping("all", operator.not_)) if has_comm else []
        rest = unlisted + sum(group.possible for group in unnamed)
        shares = [_with_callee_bound(check, profile, _share(sums[0], profile.weight, rest, lost))]
    elif check.of == "symbol":
        total = sums[0].sure + sums[0].astray
        shares = [_share(sums[0], total, 0.0, lost, smallest_total=sums[0].held)]
        if sums[0].held <= 0 and unlisted > 0:  # the rows that a text omits may contain all of it
            shares = [shares[0]._replace(high=1.0)]
    elif check.of == "callers":
        callers = profile.sums(_caller_chains(check, profile), grouping)[0]
        shares = [_share(sums[0], callers.held, 0.0, lost, smallest_total=callers.sure or callers.held)]
    else:
        groups = [group for group in sums if group.weight >= MIN_GROUP_SHARE * profile.weight]
        min_weight = MIN_SUBJECT_PART * check.min_samples * profile.weight
        groups = [group for group in groups if profile.samples is None or profile.samples * group.weight >= min_weight]
        shares = [_share(group, group.weight, 0.0, lost) for group in groups] or [Share(0.0, 0.0, 1.0)]
    largest = min(shares, key=lambda s: (-s.low, -s.high, s.group))
    largest = largest._replace(high=max(s.high for s in shares), part=largest.part / profile.weight)
    if largest.low > 0 and not largest.line:
        largest = largest._replace(chain=profile.heaviest(chains, grouping, largest.group))
    return largest


def _with_callee_bound(check: ProfileSpec, profile: CompiledProfile, share: Share) -> Share:
    """Raise the share to the lower bound that a text without chains gives by its shares with callees."""
    if check.anywhere is None or check.not_under is not None:
        return share
    families = [tuple(as_list(check.anywhere)), *((family,) for family in as_list(check.under))]
    bound, line = profile.min_share(families, comm_filter(check))
    if check.listed and not check.under and profile.profile.inclusive:
        return share._replace(seen=bound, low=bound, high=profile.listed_share(families[0]), line=line)
    if bound <= share.low:
        return share
    return share._replace(seen=bound, low=bound, high=max(share.high, bound), line=line)


def matching_chains(check: ProfileSpec, profile: CompiledProfile) -> ChainMatches:
    """Return the chains that match the check."""
    return profile.find(
        tuple(as_list(check.self_ if check.self_ is not None else check.anywhere)),
        Place.ANYWHERE if check.self_ is None else Place.SELF,
        under=[(family,) for family in as_list(check.under)],
        never=tuple(as_list(check.not_under)),
    )


def _caller_chains(check: ProfileSpec, profile: CompiledProfile) -> ChainMatches:
    """Return the chains of the callers, whatever they call."""
    first, *outer = ((family,) for family in as_list(check.under))
    return profile.find(first, Place.ANYWHERE, under=outer, never=tuple(as_list(check.not_under)))


def comm_filter(check: ProfileSpec) -> Callable[[str], object] | None:
    """Return a filter of commands, or None if all count. A task whose command is unknown never matches."""
    if check.unnamed:
        return operator.not_
    if check.comm is None and check.not_comm is None:
        return None
    is_match = re2.compile(check.comm).fullmatch if check.comm is not None else bool
    excluded = task_groups()[check.not_comm].names if check.not_comm is not None else ()
    return lambda comm: comm and is_match(comm) and comm not in excluded


def _share(sums: GroupWeights, total: float, rest: float, lost: float, smallest_total: float | None = None) -> Share:
    """Matched and possible weight relative to the denominator that `of` names. `rest` is the weight that the source
    does not list, `lost` the number of lost samples per sample read, `least` the smallest possible denominator."""
    smallest_total = total if smallest_total is None else smallest_total
    low = sums.sure / total if total > 0 else 0.0
    if smallest_total <= 0:  # possibly only lost samples belong to it
        return Share(low, low / (1 + lost), 1.0 if lost > 0 else 0.0, sums.group, part=total)
    high = (sums.possible + rest) / smallest_total
    return Share(low, low / (1 + lost), min(1.0, (high + lost) / (1 + lost)), sums.group, part=total)


def _share_words(check: ProfileSpec, share: Share, value: Verdict3) -> str:
    if check.of == "callers":
        where = f"in {family_words(as_list(check.self_) or as_list(check.anywhere))}"
    else:
        where = f"in {signature_words(check)}" if check.of != "symbol" else _caller_conditions(check)
    denominator, upper = denominator_words(check, share.group), format_quantity(share.high, "ratio")
    if value is UNKNOWN and not share.is_visible:
        known = f"{upper} at most" if share.high < 1 else "none, some or all"
        return f"what share {denominator} is {where} cannot be determined from this source: {known}"
    seen = format_quantity(share.seen, "ratio") if share.is_visible else f"at most {upper}"
    text = f"{'at least ' if share.line else ''}{seen} {denominator} are {where}"
    if value is NO and check.at_least is not None and share.high > 0:
        text += f", less than {check.at_least}"
    if value is UNKNOWN and share.high > share.low and not share.line:
        text += f"; up to {upper} cannot be determined from this source"
    return text


def _caller_conditions(check: ProfileSpec) -> str:
    """The conditions on callers of samples whose function is already named."""
    callers = callers_words(check.under) if check.under is not None else ""
    exclusions = f"not for {family_words(check.not_under)}" if check.not_under is not None else ""
    return ", ".join(filter(None, (callers, exclusions))) or f"in {signature_words(check)}"


def _details(profile: CompiledProfile, share: Share, value: Verdict3) -> str:
    """The chain with most of the samples, and doubts about the recording."""
    details = ""
    if share.chain is not None:
        names = profile.profile.names(share.chain)
        details = f", most in {format_stack(names)}{'' if len(names) > 1 else ' alone'}"
    if SYMBOL_DOUBT_FACT in profile.profile.facts:
        details += "; the names of the kernel's functions may be wrong"
    if (lost := profile.profile.ledger.lost_share or 0.0) > MAX_LOST_SHARE:
        weak = ", which makes it weak evidence" if value is YES else ""
        details += f"; the recording lost {format_quantity(lost, 'ratio')} of its samples{weak}"
    return details
