"""What one check said, and the class of evidence that it is.

A result holds values: verdict, what was measured, where it stands. Its words are made when somebody reads them: of one
result per check, entity and window few are reported.

Classes of evidence, and which of them are independent of one another:

- `policy`: settings in force. `state`: what the host is and how its memory lies. `total`: a count since boot, or of a
  process's whole life. None of them proves that anything hurts now.
- `stack`: call stacks. `counter`: a kernel counter's change, whichever tool printed it (vmstat's si is the change of
  pswpin). `cpu`: how CPU time is split. `effect`: growth of memory, pace, load. These speak of a stretch of time.
- `toggle`: the same with the setting on and off.
- `log`: kernel messages. `application`: what a program says of itself. `action`: what an operator did. They support: a
  program warns of a setting, not of what the setting does; a message says that something hung, not why.
- `testimony`: reports by people. It makes a finding `likely`, and adds nothing to a measurement.

CPU split and growth are two faces of one thing, what it did to the host: one kind of DESIGN 1's three, `effect`.

Several sources answer one check. Those that show the same thing (renderings of one recording, two recorders of one
metric of one entity) are one witness: what one of them cannot tell, another one may (`witness_answer`). Different
things, any of which may show what is asked (several processes, recordings of different times), are several witnesses:
one that saw a part of it leaves the question open, one that saw nothing does not (`any_answer`). So a source that is
added never makes undecided what another one has decided about the same thing.

By how much a check was missed or met: the number it compares with, and the one that was measured.
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

# Of the classes that speak of a stretch of time, the kind that each is of: two kinds confirm a finding.
INDEPENDENT: Mapping[str, str] = {"stack": "stack", "counter": "counter", "cpu": "effect", "effect": "effect"}
DYNAMIC = frozenset(INDEPENDENT)
LASTING = frozenset({"policy", "state", "total", "application"})  # no further recording could turn a no of theirs
CPU = ("cpu_ratio.", "process_cpu")
EFFECTS = (
    "process_",
    "node_load",
    "node_procs",
    "node_pressure",
    "vmstat_cache",
    "cgroup_memory_some",
    "cgroup_memory_full",
)
CLASS_OF_KIND = {"setting": "policy", "counter": "total", "rate": "counter", "testimony": "testimony"}
OF_ITSELF = ("app.thp_warning", "app.latency", "app.log")  # facts that an application wrote about itself


def independent_kinds(classes: frozenset[str] | set[str]) -> frozenset[str]:
    """The independent kinds among classes of evidence."""
    return frozenset(INDEPENDENT[one] for one in classes if one in INDEPENDENT)


def metric_class(metric: str, as_: str) -> str:
    """The class of a figure of a metric."""
    if as_ == "since_boot_rate" or metric.endswith(".lifetime"):
        return "total"
    if metric.startswith(CPU):
        return "cpu"
    if metric.startswith(EFFECTS) or as_ in ("knee", "step"):
        return "effect"
    known = term(metric)
    if known and known.kind in ("counter", "rate"):
        return "counter"
    return "effect" if as_ in ("delta", "slope") else "state"


def fact_class(name: str) -> str:
    """The class of a fact, or of the latest value of a metric."""
    if name.startswith(OF_ITSELF):
        return "application"
    known = term(name)
    return CLASS_OF_KIND.get(known.kind, "state") if known else "state"


def check_class(check: Check) -> str:
    """The class of a yes of the check; of a process's CPU use, where it is that of a stretch of time."""
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


Words = str | Callable[[], str]  # a text, or what makes it when it is read


def text_of(words: Words) -> str:
    return words if isinstance(words, str) else words()


@dataclass(frozen=True)
class CheckResult:
    """The answer of a check: `words` says what was found.

    `class_` is the evidence class, where it is not that of the check. `missing` are vocabulary names whose absence made
    it unknown. An `assumed` yes rests on a default that nobody measured. `window` is the time it speaks of, which
    begins `reach` seconds (an interval of the source) before. `weak` evidence (a total since boot) never raises the
    confidence above possible; `surer` says what would make it solid. `held` is for how long (or in how many samples, or
    in what share of them) the values were where they must stay, `short_of` the bound that decided, where that is not
    the usual one. `confidence` is that of the rule that it speaks of. `headline` is the text without what a headline
    has no room for. `partial`: a part of what a yes takes was seen, and whether all of it was there is unknown.
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
        """What was found."""
        return sentence(text_of(self.words))

    @cached_property
    def kind(self) -> str:
        """The evidence class."""
        return self.class_ or (check_class(self.check) if self.check else "state")

    @property
    def requirement(self) -> str:
        """What a yes takes."""
        return requirement(self.check) if self.check else ""

    def evidence(self, check: str) -> Evidence:
        brief = text_of(self.headline)
        return Evidence(check, self.text, self.cite, self.measured, self.unit, self.kind, self.window, brief)

    def with_remark(self, remark: Words, value: Verdict3) -> CheckResult:
        """The result with another verdict, and the reason for that after its text."""
        return replace(self, value=value, words=lambda: self.text + text_of(remark))

    def with_lost_input(self, hidden: frozenset[str], tainted: frozenset[str] = frozenset()) -> CheckResult:
        """The same answer when parts of the input were lost: a no that no intact member speaks for is unknown.

        What a member says whose checksum does not fit is weak: it may be wrong.
        """
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
    """An answer that the input does not hold."""
    names = (missing,) if isinstance(missing, str) else tuple(missing)
    return CheckResult(check, UNKNOWN, words, class_=class_, missing=names, partial=partial)


def witness_answer(results: Sequence[CheckResult]) -> CheckResult:
    """The answer of sources that show the same thing, the best first: the first that decides it, else that saw part
    of it."""
    return min(results, key=lambda r: (r.value is UNKNOWN, not r.partial))


def any_answer(results: Iterable[CheckResult]) -> CheckResult:
    """The answer of things any of which may show it: a yes, else what was seen in part, else a no; of several the
    first."""
    return max(results, key=_weight)


def _weight(result: CheckResult) -> int:
    if result.value is UNKNOWN:
        return 2 if result.partial else 0
    return 3 if result.value is YES else 1


Limits = tuple[tuple[str, str | float | None], ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """`word` is above, below, at least or for (how long it must hold); values are in base units of `unit`."""

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
        """The gap relative to the bound: how near it was."""
        return self.gap / abs(self.limit) if self.limit else self.gap

    def margin(self) -> str:
        """How it came out."""
        limit, gap = format_quantity(self.limit, self.unit), format_quantity(self.gap, self.unit)
        return f"{self.word} {limit}: {'met' if self.is_met else 'missed'} by {gap}"

    def describe(self) -> str:
        """What it would take to be on the other side."""
        more = (self.word == "below") is self.is_met
        much = f"{format_quantity(self.gap, self.unit)} {'more' if more else 'less'}"
        if self.word == "for":
            longer = f"{format_quantity(self.gap, self.unit)} {'longer' if more else 'shorter'}"
            far = longer if self.unit == "seconds" else much
            held, needed = _format_duration(self.measured, self.unit), _format_duration(self.limit, self.unit)
            return f"it held {held} of {needed} needed: {far}"
        limit, measured = format_quantity(self.limit, self.unit), format_quantity(self.measured, self.unit)
        return f"{self.word} {limit}: measured {measured}, {much}"


def _format_duration(value: float, unit: str) -> str:
    return f"for {format_quantity(value, unit)}" if unit == "seconds" else f"in {format_quantity(value, unit)}"


def deciding_bound(check: Check, answer: CheckResult) -> Bound | None:
    """The bound that the answer hangs on: of an answer of no the first that was not met, of a yes the nearest one."""
    every = list(check_bounds(check, answer))
    unmet = [bound for bound in every if not bound.is_met]
    if unmet:
        return unmet[0]
    lasted = [bound for bound in every if bound.word == "for"]
    return min(lasted or every, key=lambda bound: bound.part, default=None)


def check_bounds(check: Check, answer: CheckResult) -> Iterator[Bound]:
    """All numbers that the check compares with what it measured; none where it measured nothing."""
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
        must = parse_duration(check.for_)
        needed = must.seconds if must.seconds is not None else must.share if must.samples is None else must.samples
        of = "seconds" if must.seconds is not None else "ratio" if must.share is not None else "samples"
        yield Bound("for", float(needed or 0), answer.held, of)


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
