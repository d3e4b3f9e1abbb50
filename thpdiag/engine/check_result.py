"""The result of one check, and its class of evidence.

A result holds values: the verdict, the measured value, the citation. Its text is built when it is read, because most
results (one per check, entity and window) are never reported.

Classes of evidence, and which of them are independent of one another:

- `policy`: settings in force. `state`: properties of the host and of its memory. `total`: a count since boot, or of a
  process's whole life. None of them proves that there is a problem now.
- `stack`: call stacks. `counter`: a kernel counter's change, whichever tool printed it (vmstat's si is the change of
  pswpin). `cpu`: the split of CPU_PREFIXES time. `effect`: growth of memory, pace, load. These cover a stretch of time.
- `toggle`: the same measurement with the setting on and off.
- `log`: kernel messages. `application`: messages of a program about itself. `action`: what an operator did. They only
  support: a program warns of a setting, not of its effect; a message reports that something hung, not why.
- `testimony`: reports by people. It makes a finding `likely`, and adds nothing to a measurement.

CPU split and growth both show the effect on the host: they count as one of the three kinds of DESIGN 1, `effect`.

Several sources may answer one check. Sources of the same thing (renderings of one recording, two recorders of one
metric of one entity) are one witness: what one of them cannot tell, another may (`witness_answer`). Different things,
any of which may answer (several processes, recordings of different times), are several witnesses: one with partial
evidence leaves the check unknown, one without evidence does not (`any_answer`). So an additional source never makes
unknown what another source has decided about the same thing.

`Bound` holds the margin by which a check was met or missed: the limit and the measured value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from thpdiag.engine.quantity import format_quantity, parse_duration, parse_quantity
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
from thpdiag.engine.wording import requirement
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Citation, Evidence, Moment, Verdict3
from thpdiag.model.facts import OPERATOR_KINDS
from thpdiag.model.text import sentence

NO, UNKNOWN, YES = Verdict3.NO, Verdict3.UNKNOWN, Verdict3.YES

# The kind of each class that covers a stretch of time. Two kinds confirm a finding.
INDEPENDENT: Mapping[str, str] = {"stack": "stack", "counter": "counter", "cpu": "effect", "effect": "effect"}
DYNAMIC = frozenset(INDEPENDENT)
LASTING = frozenset({"policy", "state", "total", "application"})  # no later recording can change a no of these classes
CPU_PREFIXES = ("cpu_ratio.", "process_cpu")
EFFECT_PREFIXES = (
    "process_", "node_load", "node_procs", "node_pressure", "vmstat_cache", "cgroup_memory_some", "cgroup_memory_full",
)  # fmt: skip
CLASS_OF_KIND = {"setting": "policy", "counter": "total", "rate": "counter", "testimony": "testimony"}
APPLICATION_PREFIXES = ("app.thp_warning", "app.latency", "app.log")  # facts from messages of an application


def independent_kinds(classes: frozenset[str] | set[str]) -> frozenset[str]:
    """Return the independent kinds of evidence among some classes."""
    return frozenset(INDEPENDENT[class_] for class_ in classes if class_ in INDEPENDENT)


def metric_class(metric: str, as_: str) -> str:
    """Return the class of a value of a metric, read as `as_` (`rate`, `delta`, ...)."""
    if as_ == "since_boot_rate" or metric.endswith(".lifetime"):
        return "total"
    if metric.startswith(CPU_PREFIXES):
        return "cpu"
    if metric.startswith(EFFECT_PREFIXES) or as_ in ("knee", "step"):
        return "effect"
    known = term(metric)
    if known and known.kind in ("counter", "rate"):
        return "counter"
    return "effect" if as_ in ("delta", "slope") else "state"


def fact_class(name: str) -> str:
    """Return the class of a fact, or of the latest value of a metric."""
    if name.startswith(APPLICATION_PREFIXES):
        return "application"
    known = term(name)
    return CLASS_OF_KIND.get(known.kind, "state") if known else "state"


def check_class(check: Check) -> str:
    """Return the class of a yes of the check, the CPU use of a process being measured over a stretch of time."""
    match check:
        case FactCheck():
            return fact_class(check.fact)
        case SeriesCheck():
            return metric_class(check.series, check.as_)
        case ChangeCheck():
            return metric_class(as_list(check.change.of)[0], "delta")
        case ProfileCheck():
            return "stack"
        case EventCheck() if check.anywhere is not None or check.under is not None:
            return "stack"
        case EventCheck():
            return "action" if set(as_list(check.event)) <= OPERATOR_KINDS else "log"
        case ToggleCheck():
            return "toggle"
        case ProcessCheck() if check.process.cpu_above is not None:
            return "cpu"
        case _:
            return "state"


Words = str | Callable[[], str]  # a text, or a function that builds it on demand


def text_of(words: Words) -> str:
    return words if isinstance(words, str) else words()


@dataclass(frozen=True)
class CheckResult:
    """The result of a check.

    - `words`: what was observed; `headline`: a shorter text for headlines.
    - `class_`: the evidence class, if it differs from that of the check.
    - `missing`: vocabulary names whose absence made the result unknown.
    - `assumed`: a yes that rests on a default value that was not measured.
    - `window`: the time that the result covers; it begins `reach` seconds (one interval of the source) earlier.
    - `weak`: evidence (a total since boot) that never raises the confidence above possible; `surer` names better
      evidence.
    - `held`: how long the values were within their bounds, in seconds, samples or as a share, like `for` of the check.
    - `short_of`: the name of the bound that decided, if it is not the usual one.
    - `confidence`: that of the rule that the check names.
    - `partial`: some evidence for a yes was seen, but not enough to decide.
    """

    check: Check | None
    value: Verdict3
    words: Words
    cite: Citation | None = None
    measured: float | str | None = None
    unit: str = ""
    missing: tuple[str, ...] = ()
    class_: str = ""
    assumed: bool = False
    weak: bool = False
    surer: str = ""
    window: tuple[Moment, Moment] | None = None
    reach: float = 0.0
    held: float | None = None
    short_of: str = ""
    confidence: str = ""
    headline: Words = ""
    partial: bool = False

    @cached_property
    def text(self) -> str:
        return sentence(text_of(self.words))

    @cached_property
    def kind(self) -> str:
        """The evidence class."""
        return self.class_ or (check_class(self.check) if self.check else "state")

    @property
    def requirement(self) -> str:
        """The condition for a yes, in words."""
        return requirement(self.check) if self.check else ""

    def evidence(self, check: str) -> Evidence:
        brief = text_of(self.headline)
        return Evidence(check, self.text, self.cite, self.measured, self.unit, self.kind, self.window, brief)

    def with_remark(self, remark: Words, value: Verdict3) -> CheckResult:
        """Return the result with another verdict, and a remark appended to its text."""
        return replace(self, value=value, words=lambda: self.text + text_of(remark))

    def with_lost_input(self, hidden: frozenset[str], tainted: frozenset[str] = frozenset()) -> CheckResult:
        """Weaken the result where parts of the input were lost. A no becomes unknown unless it cites an intact
        member. A yes becomes weak if its member has a wrong checksum."""
        if self.value is YES and tainted and (self.cite is None or self.cite.member in tainted):
            return replace(self, weak=True)
        if self.value is NO and hidden and (self.cite is None or self.cite.member in hidden):
            lost = "; but part of the input could not be read"
            return replace(self, value=UNKNOWN, words=lambda: f"{self.text}{lost}")
        return self


CheckResults = Mapping[str, CheckResult]  # of the checks of a rule, by their names


def unknown_result(
    check: Check, missing: str | Sequence[str], words: Words, class_: str = "", *, partial: bool = False
) -> CheckResult:
    """Return an unknown result: the input lacks the data."""
    names = (missing,) if isinstance(missing, str) else tuple(missing)
    return CheckResult(check, UNKNOWN, words, class_=class_, missing=names, partial=partial)


def witness_answer(results: Sequence[CheckResult]) -> CheckResult:
    """Return the result of sources of the same thing, best source first: the first decided one, else the first
    partial one."""
    return min(results, key=lambda r: (r.value is UNKNOWN, not r.partial))


def any_answer(results: Iterable[CheckResult]) -> CheckResult:
    """Return the result for several things any of which may satisfy the check: a yes, else a partial one, else a no."""
    return max(results, key=_answer_rank)


def _answer_rank(result: CheckResult) -> int:
    if result.value is UNKNOWN:
        return 2 if result.partial else 0
    return 3 if result.value is YES else 1


Limits = tuple[tuple[str, str | float | None], ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """A comparison of a measured value with a limit, both in base units of `unit`.

    `word` is above, below, at least or for (how long the values must stay within their bounds).
    """

    word: str
    limit: float
    measured: float
    unit: str

    @property
    def is_met(self) -> bool:
        if self.word == "above":
            return self.measured > self.limit
        return self.measured < self.limit if self.word == "below" else self.measured >= self.limit

    @property
    def gap(self) -> float:
        return abs(self.limit - self.measured)

    @property
    def part(self) -> float:
        """The gap relative to the limit."""
        return self.gap / abs(self.limit) if self.limit else self.gap

    def margin(self) -> str:
        """Return the outcome of the comparison in words."""
        limit, gap = format_quantity(self.limit, self.unit), format_quantity(self.gap, self.unit)
        return f"{self.word} {limit}: {'met' if self.is_met else 'missed'} by {gap}"

    def describe(self) -> str:
        """Return in words how far the measured value is from the other side of the limit."""
        needs_more = (self.word == "below") is self.is_met
        limit, measured, gap = (format_quantity(v, self.unit) for v in (self.limit, self.measured, self.gap))
        if self.word == "for" and self.unit == "seconds":
            return f"it held for {measured} of for {limit} needed: {gap} {'longer' if needs_more else 'shorter'}"
        difference = f"{gap} {'more' if needs_more else 'less'}"
        if self.word == "for":
            return f"it held in {measured} of in {limit} needed: {difference}"
        return f"{self.word} {limit}: measured {measured}, {difference}"


def deciding_bound(check: Check, answer: CheckResult) -> Bound | None:
    """Return the bound that decides a result: of a no the first that was missed, of a yes the one met by the least
    margin."""
    bounds = list(check_bounds(check, answer))
    unmet = [bound for bound in bounds if not bound.is_met]
    if unmet:
        return unmet[0]
    durations = [bound for bound in bounds if bound.word == "for"]
    return min(durations or bounds, key=lambda bound: bound.part, default=None)


def check_bounds(check: Check, answer: CheckResult) -> Iterator[Bound]:
    """Yield every bound of the check with its measured value; none if the check measured nothing."""
    measured = answer.measured
    if answer.value is UNKNOWN or isinstance(measured, str) or measured is None:
        return
    unit = answer.unit
    if isinstance(check, FactCheck) and not unit:
        unit = known.unit if (known := term(check.fact)) else ""
    for word, limit in _limits(check, answer):
        if limit is not None:
            yield Bound(word, parse_quantity(limit), float(measured), unit)
    if isinstance(check, SeriesCheck) and check.for_ and answer.held is not None:
        for needed, for_unit in zip(parse_duration(check.for_), ("seconds", "samples", "ratio"), strict=True):
            if needed is not None:
                yield Bound("for", float(needed), answer.held, for_unit)


def _limits(check: Check, answer: CheckResult) -> Limits:
    match check:
        case SeriesCheck() | FactCheck():
            return (("above", check.above), ("below", check.below))
        case ChangeCheck():
            change = check.change
            if answer.short_of == "at_least":
                return (("at least", change.at_least),)
            return (("above", change.above), ("below", change.below))
        case ProfileCheck():
            return (("at least", check.profile.at_least), ("below", check.profile.below))
        case ProcessCheck():
            return (("above", check.process.cpu_above),)
        case EventCheck():
            return (("at least", check.at_least),)
        case ToggleCheck():
            return (("at least", check.toggle.ratio),)
        case _:
            return ()
