"""Lints of checks: names that exist; numbers with a reason, the right unit and a possible value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf

from thpdiag.engine.lint.issue import LintIssue, RuleSet, lint
from thpdiag.engine.load import Rule, Where
from thpdiag.engine.quantity import parse_quantity, split_unit
from thpdiag.engine.schema import (
    ChangeCheck,
    Check,
    EventCheck,
    FactCheck,
    ProcessCheck,
    ProfileCheck,
    SeriesCheck,
    ToggleCheck,
    as_list,
)
from thpdiag.knowledge.applications import applications
from thpdiag.knowledge.mechanisms import mechanisms
from thpdiag.knowledge.platforms import behaviours, eras
from thpdiag.knowledge.symbols import families, task_groups
from thpdiag.knowledge.vocabulary import Term, entities_of, event, names, possible_names, term
from thpdiag.knowledge.yaml_nodes import suggestion

# Names

_FIELDS = re.compile(r"\((?:labels?|fields) (?P<names>[^)]*)\)")
_ENTITY_LABELS = {"pid", "comm", "node", "zone", "cpu", "device", "size"}  # labels of entities
SETTING_VALUES: Mapping[str, tuple[str, ...]] = {
    "thp.enabled": ("always", "madvise", "never"),
    "thp.defrag": ("always", "defer", "defer+madvise", "madvise", "never"),
    "thp.shmem_enabled": ("always", "within_size", "advise", "never", "deny", "force"),
    "boot.transparent_hugepage": ("always", "madvise", "never"),
    "thp.applicable": ("yes", "no"),
    "thp.khugepaged.defrag": ("0", "1", "yes", "no"),
}


def families_of(check: Check) -> list[str]:
    """Return the symbol families of a check, without single functions (`=name`)."""
    match check:
        case ProfileCheck():
            spec = check.profile
            parts = (spec.self_, spec.anywhere, spec.under, spec.not_under)
        case EventCheck():
            parts = (check.anywhere, check.under, check.not_anywhere, None)
        case _:
            return []
    return [word for part in parts for word in as_list(part) if not word.startswith("=")]


@lint("a fact or metric that the vocabulary does not have")
def unknown_metric(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for name, check in rule.checks.items():
        for word in check.metrics:
            if term(word) is None and not _vocabulary_name(word):
                message = f"'{word}' is not in the vocabulary{suggestion(word, names())}"
                yield LintIssue(message, ("checks", name), word)


@lint("a metric by the name of another tool")
def alias_of_metric(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for name, check in rule.checks.items():
        for word in check.metrics:
            if term(word) is None and (replacement := _vocabulary_name(word)):
                message = f"'{word}' is what another tool calls it; write {replacement}"
                yield LintIssue(message, ("checks", name), word)


def _vocabulary_name(word: str) -> str:
    """The vocabulary's name for a name of other tools or of kernel files."""
    candidates = [name for name in possible_names(word) if term(name) is not None and name != word]
    preferred = [name for name in candidates if name in names() or name == candidates[0]]
    return preferred[0] if preferred and re.fullmatch(r"[\w%/-]+", word) and _is_foreign_name(word) else ""


def _is_foreign_name(word: str) -> bool:
    """Whether a word cannot be a misspelled vocabulary name, which the pattern of kernel counters would accept."""
    return not word.startswith(("node_", "process_", "cpu_ratio", "thp.", "sysctl")) and ":" not in word


@lint("an event that no reader yields")
def unknown_event(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for name, check in rule.checks.items():
        for word in as_list(check.event) if isinstance(check, EventCheck) else ():
            if event(word) is None:
                yield LintIssue(f"unknown event '{word}'{suggestion(word, names())}", ("checks", name), word)


@lint("a symbol family, or a group of tasks, that symbols.yaml does not have")
def unknown_family(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for name, check in rule.checks.items():
        for word in families_of(check):
            if word not in families():
                message = f"unknown symbol family '{word}'{suggestion(word, families())}"
                yield LintIssue(message, ("checks", name), word)
        group = check.profile.not_comm if isinstance(check, ProfileCheck) else None
        if group is not None and group not in task_groups():
            yield LintIssue(
                f"unknown group of tasks '{group}'{suggestion(group, task_groups())}", ("checks", name), group
            )


@lint("a mechanism that mechanisms.yaml does not have")
def unknown_mechanism(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    word = rule.file.mechanism
    if word not in mechanisms():
        yield LintIssue(f"unknown mechanism '{word}'{suggestion(word, mechanisms())}", ("mechanism",), word)


@lint("an application that applications.yaml does not have")
def unknown_application(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    known = [app.name for app in applications()]
    for name, check in rule.checks.items():
        for word in as_list(check.process.app) if isinstance(check, ProcessCheck) else ():
            if word not in known:
                yield LintIssue(f"unknown application '{word}'{suggestion(word, known)}", ("checks", name), word)


@lint("a word that a setting never has")
def unknown_value(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for name, check in rule.checks.items():
        if not isinstance(check, FactCheck) or (known := _values_of_fact(check.fact)) is None:
            continue
        for value in (check.is_, check.is_not, *(check.one_of or ())):
            if value is not None and str(value) not in known:
                words = behaviours() if check.fact == "kernel.era" else known
                message = f"{check.fact} is never '{value}', but one of {', '.join(words)}"
                yield LintIssue(message + suggestion(str(value), words), ("checks", name), str(value))


def _values_of_fact(fact: str) -> tuple[str, ...] | None:
    if fact == "kernel.era":
        return eras()
    if fact == "app":
        return tuple(app.name for app in applications())
    return SETTING_VALUES.get(fact)


@lint("a label or field that such facts and events do not have")
def unknown_field(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for name, check in rule.checks.items():
        if isinstance(check, FactCheck) and (known := term(check.fact)):
            fields = _labels_in(known.means) | _ENTITY_LABELS
        elif isinstance(check, EventCheck):
            fields = {
                word
                for kind in as_list(check.event)
                if (kind_term := event(kind))
                for word in _labels_in(kind_term.means)
            }
        else:
            continue
        for word in check.where:
            if word not in fields:
                hint = suggestion(word, fields) or (f"; it has {', '.join(sorted(fields))}" if fields else "")
                yield LintIssue(f"nothing of that kind has a '{word}'{hint}", ("checks", name, "where", word))


def _labels_in(means: str) -> set[str]:
    """The labels or fields that the vocabulary lists in brackets."""
    match = _FIELDS.search(means)
    return set(re.findall(r"[a-z_]+", match["names"])) if match else set()


@lint("for_each of something that no check looks at")
def for_each_unused(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    entity = rule.file.for_each
    if entity is None:
        return
    kinds = {kind for check in rule.checks.values() for word in check.metrics for kind in entities_of(word)}
    if entity not in kinds:
        message = f"no check looks at a metric of a {entity}; take for_each out, or ask for one"
        yield LintIssue(message, ("for_each",), entity)


# Thresholds: every number of a check, with its position and unit

TIME_KEYS = ("for", "over", "within")
QUANTITIES = ("above", "below", "at_least", "per_at_least", "ratio", "cpu_above", *TIME_KEYS)
ANY_UNIT = "any"  # the unit of ratios of unlike quantities, which is not written
RATIO_FIGURES = ("spread", "step", "knee")  # ratios of any metric


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number of a check. `written` is its text in the check (perhaps `$param`), `text` the value.

    `unit` is that of the measured value; `whole` names the quantity of which the value is a share.
    """

    check: str
    key: str
    where: Where
    written: str | float
    text: str | float
    unit: str
    whole: str = ""

    @property
    def number(self) -> float:
        return split_unit(self.text)[0]

    @property
    def own_unit(self) -> str:
        """The unit as written: `%`, `MiB/s`, or none."""
        return split_unit(self.text)[1]


def thresholds(rule: Rule) -> Iterator[Threshold]:
    """Yield all thresholds of a rule in file order; `for` only if it is a time."""
    for name, check in rule.checks.items():
        for where, key, written in _quantities(rule.file.checks[name], ("checks", name)):
            param = rule.file.params.get(written[1:]) if isinstance(written, str) and written[:1] == "$" else None
            text = param.default if param else written
            if not (key == "for" and "sample" in str(text)):
                unit = _base_unit(check, key)
                yield Threshold(name, key, where, written, text, unit, _whole_name(check, key))


def _quantities(row: object, parent: Where) -> Iterator[tuple[Where, str, str | float]]:
    if not isinstance(row, dict):
        return
    for key, value in row.items():
        if key == "where":
            continue
        if key in QUANTITIES and isinstance(value, str | int | float):
            yield (*parent, key), key, value
        else:
            yield from _quantities(value, (*parent, key))


def _unit_of(name: str) -> str:
    known = term(name)
    return known.unit if known else ANY_UNIT


def _base_unit(check: Check, key: str) -> str:
    """The base unit of the value that is compared with a threshold."""
    if key in TIME_KEYS:
        return "seconds"
    match check:
        case FactCheck():
            return _unit_of(check.fact) or ANY_UNIT
        case SeriesCheck():
            return _series_unit(check)
        case ChangeCheck():
            return _change_unit(check, key)
        case ProfileCheck() | ProcessCheck():
            return "ratio"
        case ToggleCheck():
            return "factor"
        case _:
            return "1"


def _series_unit(check: SeriesCheck) -> str:
    if check.as_ in RATIO_FIGURES:
        return "ratio"
    unit = _unit_of(check.series)
    if check.as_ in ("rate", "since_boot_rate", "slope") and unit != ANY_UNIT:
        return unit if unit.endswith("/s") else f"{unit}/s"
    return unit


def _change_unit(check: ChangeCheck, key: str) -> str:
    unit, per = _unit_of(as_list(check.change.of)[0]), [_unit_of(name) for name in as_list(check.change.per)]
    if key == "at_least" or (key in ("above", "below") and not per):
        return unit
    if key == "per_at_least":
        return per[0] if per else ANY_UNIT
    if unit == per[0]:
        return "quotient"
    return unit if per[0] in ("1", "pages", "blocks") and unit not in ("1", "pages", "blocks") else ANY_UNIT


def _whole_name(check: Check, key: str) -> str:
    """The quantity of which the value is a share; empty if it may exceed 1."""
    if key in TIME_KEYS:
        return ""
    if isinstance(check, ProfileCheck):
        return "the samples"
    name = check.fact if isinstance(check, FactCheck) else check.series if isinstance(check, SeriesCheck) else ""
    is_figure = isinstance(check, SeriesCheck) and check.as_ not in ("level", "mean", "last", "spread")
    is_spread = isinstance(check, SeriesCheck) and check.as_ == "spread"
    if is_figure or not name or name.startswith("process_cpu_ratio"):
        return ""
    return "the largest value" if is_spread else "the whole" if _unit_of(name) == "ratio" else ""


def bounds(check: Check) -> tuple[float, float]:
    """Return the limits between which a value must be."""
    match check:
        case SeriesCheck() | FactCheck():
            low, high = check.above, check.below
        case ChangeCheck():
            low, high = check.change.above, check.change.below
        case ProfileCheck():
            low, high = check.profile.at_least, check.profile.below
        case _:
            low = high = None
    return (-inf if low is None else parse_quantity(low), inf if high is None else parse_quantity(high))


# Numbers

MIN_SECONDS = 1.0  # the shortest interval of vmstat, sar, collectl and top
LEVEL_FIGURES = ("level", "mean", "last", "spread")
# Words that introduce a reason: the effect of a larger or smaller number, or its source.
_REASON = re.compile(
    r"[;:,]|\d|\b(?:above|below|beyond|less|more|fewer|shorter|longer|larger|smaller|higher|lower|than|that|which|where|"
    r"because|from|since|until|before|after|enough|too|so|as|at|can|cannot|could|should|must|hurts?|matters?|worth|"
    r"noise|mean anything)\b"
)
ALLOWED_UNITS = {
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


@lint("a number in a check that is not a parameter with a reason")
def bare_threshold(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    """`0`, `1` and durations need no reason."""
    for item in thresholds(rule):
        if item.key != "for" and str(item.written) not in ("0", "1") and not str(item.written).startswith("$"):
            message = f"{item.key}: {item.written} has no reason; make it a parameter with `means`"
            yield LintIssue(message, item.where)


@lint("a parameter that no check uses")
def unused_parameter(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    used = {item.written for item in thresholds(rule)} | set(re.findall(r"\$\w+", str(rule.file.checks)))
    for name in rule.file.params:
        if f"${name}" not in used:
            yield LintIssue(f"parameter '{name}' is used by no check; take it out", ("params", name))


@lint("a parameter without a reason for its number")
def threshold_without_reason(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    seen: dict[str, str] = {}
    for name, param in rule.file.params.items():
        means = " ".join(param.means.split()).lower()
        if means in seen:
            message = f"'{name}' has the words of '{seen[means]}'; give a reason for this number"
            yield LintIssue(message, ("params", name, "means"))
        elif not _REASON.search(means):
            message = "explains the number, but not why this one (what less or more would mean, where it is from)"
            yield LintIssue(message, ("params", name, "means"))
        seen.setdefault(means, name)


@lint("a threshold in another unit than what it is compared with")
def unit_mismatch(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for item in thresholds(rule):
        fitting = ALLOWED_UNITS.get(item.unit, ("",) if item.unit != ANY_UNIT else None)
        if fitting is None or item.own_unit in fitting or item.number == 0:
            continue
        value = f"'{item.text}'" + (f" ({item.written})" if item.written != item.text else "")
        shown = " or ".join(unit for unit in fitting if unit) or "a number alone"
        unit = {"1": "a count", "quotient": "a ratio", "factor": "a ratio"}.get(item.unit, item.unit)
        yield LintIssue(f"{value} does not fit what is measured in {unit}; write {shown}", item.where)


@lint("a share below 0 or above 100 %")
def share_out_of_range(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for item in thresholds(rule):
        if item.whole and not 0 <= item.number <= 1:
            message = f"{item.text} of {item.whole} cannot be; write a share between 0 and 100 %"
            yield LintIssue(message, item.where)


@lint("a check whose bounds leave no number between them")
def empty_range(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for name, check in rule.checks.items():
        low, high = bounds(check)
        if low >= high:
            yield LintIssue("no number is above the one and below the other; turn the bounds round", ("checks", name))


@lint("a threshold that nothing can miss")
def threshold_always_met(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    """Examples: `at_least: 0 %` of samples, `above: -1` for a value that is never negative."""
    for item in thresholds(rule):
        is_minimum = item.number == 0 and item.key == "at_least" and item.whole
        if is_minimum or (item.number < 0 and item.key == "above" and item.whole):
            yield LintIssue(f"{item.key}: {item.text} always holds; ask for more than nothing", item.where)


@lint("a total since boot compared as if it were a level")
def counter_as_level(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for name, check, known in _series_checks(rule):
        if known.kind == "counter" and check.as_ in LEVEL_FIGURES:
            message = f"{check.series} is a total since boot; `as: {check.as_}` proves nothing now; write `as: rate`"
            yield LintIssue(f"{message} or `as: delta`", ("checks", name, "as" if check.as_ != "level" else "series"))


@lint("the rate of something that is not a counter")
def gauge_as_rate(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for name, check, known in _series_checks(rule):
        if known.kind in ("gauge", "state") and check.as_ in ("rate", "since_boot_rate"):
            message = f"{check.series} is not a counter; `as: {check.as_}` of it means nothing, write delta or slope"
            yield LintIssue(message, ("checks", name, "as"))
    for name, other in rule.checks.items():
        if isinstance(other, ChangeCheck) and other.change.within is not None:
            for metric in (n for n in as_list(other.change.of) if (meant := term(n)) and meant.kind != "counter"):
                message = f"{metric} is not a counter; `within` has no meaning, leave it out"
                yield LintIssue(message, ("checks", name, "change", "within"))


@lint("the rate or growth of what is a rate already")
def rate_of_rate(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for name, check, known in _series_checks(rule):
        if known.kind == "rate" and check.as_ in ("rate", "since_boot_rate", "delta"):
            message = (
                f"{check.series} is per second already; `as: {check.as_}` of it means nothing, write level or mean"
            )
            yield LintIssue(message, ("checks", name, "as"))


def _series_checks(rule: Rule) -> Iterator[tuple[str, SeriesCheck, Term]]:
    for name, check in rule.checks.items():
        if isinstance(check, SeriesCheck) and (known := term(check.series)):
            yield name, check, known


@lint("a duration shorter than any recorder's interval")
def too_short_for(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for item in thresholds(rule):
        if item.key in TIME_KEYS and item.number < MIN_SECONDS:
            message = (
                f"{item.text} is shorter than any recorder's interval, so that one sample decides; write 1 s or more"
            )
            yield LintIssue(message, item.where)


@lint("a duration with a figure of the whole recording")
def for_without_use(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for name, check, _known in _series_checks(rule):
        if check.for_ is not None and check.as_ not in ("level", "rate"):
            message = f"`as: {check.as_}` is one figure of the whole recording, for which `for` has no meaning; drop it"
            yield LintIssue(message, ("checks", name, "for"))


@lint("a bound for a fact that is a word, or more events than there can be")
def number_of_a_word(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    """`above` never holds for a fact that is a word."""
    for name, check in rule.checks.items():
        if isinstance(check, FactCheck) and (known := term(check.fact)) and not known.unit:
            key = "above" if check.above is not None else "below" if check.below is not None else ""
            if key and known.kind == "setting" and not check.fact.startswith("sysctl."):
                yield LintIssue(f"{check.fact} is a word; compare with is or one_of", ("checks", name, key))
        if isinstance(check, EventCheck) and check.at_least > MAX_EVENTS:
            message = f"{check.at_least} events are more than a log of the kernel keeps"
            yield LintIssue(message, ("checks", name, "at_least"))


MAX_EVENTS = 10_000
