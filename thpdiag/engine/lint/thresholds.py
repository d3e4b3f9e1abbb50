"""Numbers: each has a reason, a unit that fits, and a size that can occur."""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.engine.lint.complaint import Complaint, Lint, RuleSet
from thpdiag.engine.lint.logic import bounds
from thpdiag.engine.lint.thresholds_of import ANY, TIMES, thresholds
from thpdiag.engine.load import Rule
from thpdiag.engine.schema import ChangeCheck, EventCheck, FactCheck, SeriesCheck, listed
from thpdiag.knowledge.vocabulary import Term, term

SHORTEST = 1.0  # seconds; vmstat, sar, collectl and top do not record more often
LEVELS = ("level", "mean", "last", "spread")
# Words that begin a reason: what happens beyond the number, or where the number comes from.
_REASON = re.compile(
    r"[;:,]|\d|\b(?:above|below|beyond|less|more|fewer|shorter|longer|larger|smaller|higher|lower|than|that|which|where|"
    r"because|from|since|until|before|after|enough|too|so|as|at|can|cannot|could|should|must|hurts?|matters?|worth|"
    r"noise|mean anything)\b"
)
FITTING = {
    "ratio": ("%", ""),
    "quotient": ("%", ""),
    "factor": ("",),
    "seconds": ("s", "ms", "min", "h", "d"),
    "bytes": ("B", "KiB", "MiB", "GiB", "TiB"),
    "bytes/s": ("KiB/s", "MiB/s", "GiB/s", "MiB/min", "MiB/h"),
    "1/s": ("/s", "/min", "/h"),
    "pages/s": ("/s", "/min", "/h"),
    "blocks/s": ("/s", "/min", "/h"),
    "1": ("", "samples"),
    "pages": ("", "pages"),
    "blocks": ("", "blocks"),
    "seconds/s": ("%", ""),
}


def _bare(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    """`0`, `1` and how long something must last need no reason."""
    for one in thresholds(rule):
        if one.key != "for" and str(one.written) not in ("0", "1") and not str(one.written).startswith("$"):
            message = f"{one.key}: {one.written} has no reason; make it a parameter with `means`"
            yield Complaint(message, one.where)


def _unused_parameters(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    used = {one.written for one in thresholds(rule)} | set(re.findall(r"\$\w+", str(rule.file.checks)))
    for name in rule.file.params:
        if f"${name}" not in used:
            yield Complaint(f"parameter '{name}' is used by no check; take it out", ("params", name))


def _reasons(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    seen: dict[str, str] = {}
    for name, param in rule.file.params.items():
        means = " ".join(param.means.split()).lower()
        if means in seen:
            message = f"'{name}' has the words of '{seen[means]}'; say why this number"
            yield Complaint(message, ("params", name, "means"))
        elif not _REASON.search(means):
            message = "says what the number is, but not why this one (what less or more would mean, where it is from)"
            yield Complaint(message, ("params", name, "means"))
        seen.setdefault(means, name)


def _units(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for one in thresholds(rule):
        fitting = FITTING.get(one.unit, ("",) if one.unit != ANY else None)
        if fitting is None or one.own_unit in fitting or one.number == 0:
            continue
        what = f"'{one.text}'" + (f" ({one.written})" if one.written != one.text else "")
        shown = " or ".join(unit for unit in fitting if unit) or "a number alone"
        unit = {"1": "a count", "quotient": "a ratio", "factor": "a ratio"}.get(one.unit, one.unit)
        yield Complaint(f"{what} does not fit what is measured in {unit}; write {shown}", one.where)


def _range(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for one in thresholds(rule):
        if one.whole and not 0 <= one.number <= 1:
            message = f"{one.text} of {one.whole} cannot be; write a share between 0 and 100 %"
            yield Complaint(message, one.where)


def _bounds(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for name, check in rule.checks.items():
        low, high = bounds(check)
        if low >= high:
            yield Complaint("no number is above the one and below the other; turn the bounds round", ("checks", name))


def _always(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    """`at_least: 0 %` of samples, `above: -1` of what is never negative."""
    for one in thresholds(rule):
        least = one.number == 0 and one.key == "at_least" and one.whole
        if least or (one.number < 0 and one.key == "above" and one.whole):
            yield Complaint(f"{one.key}: {one.text} always holds; ask for more than nothing", one.where)


def _counters(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for name, check, known in _series(rule):
        if known.kind == "counter" and check.as_ in LEVELS:
            message = f"{check.series} is a total since boot; `as: {check.as_}` says nothing of now, write `as: rate`"
            yield Complaint(f"{message} or `as: delta`", ("checks", name, "as" if check.as_ != "level" else "series"))


def _gauges(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for name, check, known in _series(rule):
        if known.kind in ("gauge", "state") and check.as_ in ("rate", "since_boot_rate"):
            message = f"{check.series} is no counter; `as: {check.as_}` of it means nothing, write delta or slope"
            yield Complaint(message, ("checks", name, "as"))
    for name, other in rule.checks.items():
        if isinstance(other, ChangeCheck) and other.change.within is not None:
            for of in (n for n in listed(other.change.of) if (meant := term(n)) and meant.kind != "counter"):
                message = f"{of} is no counter; `within` of it means nothing, leave it out"
                yield Complaint(message, ("checks", name, "change", "within"))


def _rates(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for name, check, known in _series(rule):
        if known.kind == "rate" and check.as_ in ("rate", "since_boot_rate", "delta"):
            message = (
                f"{check.series} is per second already; `as: {check.as_}` of it means nothing, write level or mean"
            )
            yield Complaint(message, ("checks", name, "as"))


def _series(rule: Rule) -> Iterator[tuple[str, SeriesCheck, Term]]:
    for name, check in rule.checks.items():
        if isinstance(check, SeriesCheck) and (known := term(check.series)):
            yield name, check, known


def _durations(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for one in thresholds(rule):
        if one.key in TIMES and one.number < SHORTEST:
            message = (
                f"{one.text} is shorter than any recorder's interval, so that one sample decides; write 1 s or more"
            )
            yield Complaint(message, one.where)


def _for_figures(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for name, check, _known in _series(rule):
        if check.for_ is not None and check.as_ not in ("level", "rate"):
            message = f"`as: {check.as_}` is one figure of the whole recording, for which `for` has no meaning; drop it"
            yield Complaint(message, ("checks", name, "for"))


def _texts(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    """`above` of a fact that is a word never holds."""
    for name, check in rule.checks.items():
        if isinstance(check, FactCheck) and (known := term(check.fact)) and not known.unit:
            key = "above" if check.above is not None else "below" if check.below is not None else ""
            if key and known.kind == "setting" and not check.fact.startswith("sysctl."):
                yield Complaint(f"{check.fact} is a word; compare with is or one_of", ("checks", name, key))
        if isinstance(check, EventCheck) and check.at_least > MANY_EVENTS:
            message = f"{check.at_least} events are more than a log of the kernel keeps"
            yield Complaint(message, ("checks", name, "at_least"))


MANY_EVENTS = 10_000

LINTS = (
    Lint("bare-threshold", "a number in a check that is no parameter with a reason", _bare),
    Lint("unused-parameter", "a parameter that no check uses", _unused_parameters),
    Lint("threshold-without-reason", "a parameter that does not say why this number", _reasons),
    Lint("unit-mismatch", "a threshold in another unit than what it is compared with", _units),
    Lint("share-out-of-range", "a share below 0 or above 100 %", _range),
    Lint("empty-range", "a check whose bounds leave no number between them", _bounds),
    Lint("threshold-always-met", "a threshold that nothing can miss", _always),
    Lint("counter-as-level", "a total since boot compared as if it were a level", _counters),
    Lint("gauge-as-rate", "the rate of what is no counter", _gauges),
    Lint("rate-of-rate", "the rate or growth of what is a rate already", _rates),
    Lint("too-short-for", "a duration shorter than any recorder's interval", _durations),
    Lint("for-without-use", "a duration with a figure of the whole recording", _for_figures),
    Lint("number-of-a-word", "a bound for a fact that is a word, or more events than there can be", _texts),
)
