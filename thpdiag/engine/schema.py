"""The form of a rule file, validated by pydantic; `thpdiag rules schema` prints it as JSON Schema for editors.

Every check is a mapping with exactly one of the keys `fact`, `series`, `change`, `profile`, `event`, `process`,
`toggle`, `rule`. Quantities are numbers with a unit (`30 %`, `2 /s`, `64 MiB`, `30 s`) or `$param`.
"""

# Without `from __future__ import annotations`: pydantic would compile each annotation from its string at every start.

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from thpdiag.engine.quantity import parse_quantity, split_unit
from thpdiag.knowledge.platforms import era_of_behaviour
from thpdiag.knowledge.switches import compared_figures, switches

OTHER_SETTING = "recording.other_setting"  # vocabulary name for the missing second side of a `toggle` check
Effect = Literal["kernel", "stalls", "work", "growth", "sys_share"]  # kinds, or one metric (knowledge/switches.yaml)

Severity = Literal["critical", "high", "medium", "low", "info"]
Status = Literal["draft", "test", "stable", "deprecated"]
Role = Literal["root_cause", "contributing", "configuration", "risk", "alternative", "context"]
_SAMPLE_DURATION = re.compile(r"\d+ samples?|\d+(?:\.\d+)? ?% of samples")
_TIME_UNITS = ("s", "ms", "min", "h", "d")
Entity = Literal["process", "zone", "cpu", "device", "cgroup", "thp_size"]


def _check_quantity(value: str | float) -> str | float:
    if not (isinstance(value, str) and value.startswith("$")):
        parse_quantity(value)
    return value


def _check_number(value: str | float) -> str | float:
    parse_quantity(value)
    return value


def _check_duration(value: str) -> str:
    is_exempt = value.startswith("$") or _SAMPLE_DURATION.fullmatch(value.strip())
    if not is_exempt and split_unit(value)[1] not in _TIME_UNITS:
        raise ValueError(f"'{value}' is not a duration; write `30 s`, `3 samples` or `50 % of samples`")
    return value


Quantity = Annotated[str | float, AfterValidator(_check_quantity)]
Names = str | Annotated[list[str], Field(min_length=1)]


def as_list(names: Names | None) -> list[str]:
    """Return one name or several as a list, empty if the key is missing."""
    return [names] if isinstance(names, str) else list(names or ())


class Strict(BaseModel):
    """No key that is not listed."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Param(Strict):
    """A threshold. `means` says what it is and why this number."""

    default: Annotated[str | float, AfterValidator(_check_number)]
    means: str = Field(min_length=20)
    no_case: str | None = Field(
        default=None, min_length=20, description="why no case notices if the value is doubled or halved"
    )


class AnyCheck(Strict):
    """Base class of all kinds of checks."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the facts and metrics that the check reads."""
        return ()

    @property
    def needs(self) -> tuple[str, ...]:
        """The data that decides the check: vocabulary names, or `profile`, `kernel_log`, `task_stack`."""
        return self.metrics


class FactCheck(AnyCheck):
    """The value of a fact.

    A metric's name gives its latest value. Several facts of the name: one that fits is enough.
    """

    fact: str
    is_: str | float | None = Field(default=None, alias="is")
    one_of: list[str | float] | None = None
    is_not: str | float | None = None
    above: Quantity | None = None
    below: Quantity | None = None
    matches: str | None = Field(default=None, description="regular expression (RE2), searched")
    present: Literal[True] | None = Field(default=None, description="any value will do")
    where: dict[str, str] = Field(default_factory=dict, description="labels the fact must have")

    @field_validator("is_", "one_of", "is_not")
    @classmethod
    def _resolve_era(cls, value: Any, info: ValidationInfo) -> Any:
        """Replace a behaviour, by which rules name a `kernel.era`, with the code that the fact has."""
        if info.data.get("fact") != "kernel.era":
            return value
        return [era_of_behaviour(str(v)) for v in value] if isinstance(value, list) else era_of_behaviour(str(value))

    @model_validator(mode="after")
    def _require_test(self) -> Self:
        tests = [self.is_, self.one_of, self.is_not, self.above, self.below, self.matches, self.present]
        if not any(t is not None for t in tests):
            raise ValueError("does not check the value; add one of is, one_of, is_not, above, below, matches, present")
        return self

    @property
    def metrics(self) -> tuple[str, ...]:
        return (self.fact,)


As = Literal["level", "mean", "last", "rate", "delta", "slope", "spread", "step", "rise", "knee", "since_boot_rate"]


class SeriesCheck(AnyCheck):
    """A metric over time.

    `as`: level (each value), mean, last, rate (per second, of a counter), delta (growth over the window), slope
    (fitted, per second), spread ((max - min) / max), step (largest change of the mean relative to before), rise (the
    most from one value to the next), knee (rate after the bend / before), since_boot_rate (a total divided by uptime;
    proves nothing about now). `for`: a duration (`30 s`), `3 samples`, or `50 % of samples`; without it one value (or
    the figure of the whole window) decides.
    """

    series: str
    as_: As = Field(default="level", alias="as")
    above: Quantity | None = None
    below: Quantity | None = None
    for_: Annotated[str, AfterValidator(_check_duration)] | None = Field(default=None, alias="for")
    min_samples: int = Field(default=1, ge=1, description="fewer values leave the check unknown")

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.above is None and self.below is None:
            raise ValueError("does not check the values; add above or below")
        return self

    @property
    def metrics(self) -> tuple[str, ...]:
        return (self.series,)

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.series, "uptime.seconds") if self.as_ == "since_boot_rate" else self.metrics


class Change(Strict):
    """One delta per another over the window.

    Fail per stall, RSS per fault. `per: 1` or none compares the delta alone. `as`: growth (last value less first) or
    climb (of a gauge: from a low to a later high, at most; what a job took and gave back in the window counts).
    `within`: of a longer window the growth of counters in its busiest stretch of so long counts, so that a limit means
    the same in a minute and in a day.
    """

    of: Names
    as_: Literal["growth", "climb"] = Field(default="growth", alias="as", description="what of `of` is compared")
    per: Names | None = None
    above: Quantity | None = None
    below: Quantity | None = None
    at_least: Quantity | None = Field(default=None, description="the delta of `of` must reach this, else no")
    per_at_least: Quantity | None = Field(default=None, description="the delta of `per` must reach this, else unknown")
    over: Quantity | None = Field(default=None, description="the window must be this long, else unknown")
    within: Quantity | None = Field(default=None, description="of a longer window its busiest stretch of so long")

    @model_validator(mode="after")
    def _check_within(self) -> Self:
        if self.within is not None and (self.per is not None or self.as_ != "growth" or self.below is None):
            raise ValueError("`within` needs `below`, and goes neither with `per` nor with `as: climb`")
        return self


class ChangeCheck(AnyCheck):
    change: Change

    @property
    def metrics(self) -> tuple[str, ...]:
        return (*as_list(self.change.of), *as_list(self.change.per))


class Profile(Strict):
    """Share of non-idle samples whose leaf (`self`) or any frame (`anywhere`) is of a symbol family.

    `under`: families that must be callers, in this order from the leaf outwards, gaps allowed; `not_under`: none of
    these may be a caller. `of`: all (default), comm, thread or cpu (the largest share within one of them), symbol (of
    the samples that match self/anywhere alone: chain purity), callers (of those that `under` alone matches: what the
    callers spend their time on). `measures`: of CPU time (default), of the time in which tasks did not run though they
    had work, or of calls; a recording of one says nothing of another. Fewer than `min_samples` samples leave the check
    unknown, and so do fewer than a fifth of that in the part that a share is asked of, or a yes by fewer than a tenth.
    """

    self_: Names | None = Field(default=None, alias="self")
    anywhere: Names | None = None
    under: Names | None = None
    not_under: Names | None = None
    comm: str | None = Field(default=None, description="only tasks whose command matches (RE2, whole)")
    not_comm: str | None = Field(default=None, description="not tasks of a group of symbols.yaml")
    unnamed: bool = Field(default=False, description="only tasks that the recording does not name")
    flat: bool = Field(default=False, description="of recordings that show no callers; a no if all of them do")
    listed: bool = Field(default=False, description="of the rows that a text lists; what it cuts off is not asked")
    of: Literal["all", "comm", "thread", "cpu", "symbol", "callers"] = "all"
    at_least: Quantity | None = None
    below: Quantity | None = None
    min_samples: int = Field(default=50, ge=1)
    measures: Literal["cpu", "off-cpu", "calls"] = "cpu"

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if (self.self_ is None) == (self.anywhere is None):
            raise ValueError("needs exactly one of self and anywhere")
        if (self.at_least is None) == (self.below is None):
            raise ValueError("needs exactly one of at_least and below")
        if self.of == "callers" and self.under is None:
            raise ValueError("`of: callers` needs under")
        return self


# The vocabulary name of missing call stacks, by the quantity they measure.
PROFILE_NAMES = {"cpu": "profile", "off-cpu": "profile.off_cpu", "calls": "profile.calls"}


class ProfileCheck(AnyCheck):
    profile: Profile

    @property
    def needs(self) -> tuple[str, ...]:
        return (PROFILE_NAMES[self.profile.measures],)


class EventCheck(AnyCheck):
    """Kernel messages, task stacks, operator actions."""

    event: Names
    where: dict[str, str] = Field(
        default_factory=dict,
        description="fields: a word, in which * is anything, '!= word' (also where nothing is known), or '>= 9'",
    )
    anywhere: Names | None = Field(default=None, description="a symbol family that must be in the call trace")
    under: Names | None = Field(default=None, description="families that must be callers of it, in order")
    not_anywhere: Names | None = None
    at_least: int = Field(default=1, ge=1)

    @property
    def needs(self) -> tuple[str, ...]:
        return ("task_stack",) if as_list(self.event) == ["task_stack"] else ("kernel_log",)


class Process(Strict):
    """What runs on the host, or what the process is that `for_each` binds."""

    app: Names | None = Field(default=None, description="applications of knowledge/applications.yaml")
    comm: str | None = Field(default=None, description="command name, RE2, whole")
    args: str | None = Field(default=None, description="in the command line, RE2, searched")
    cpu_above: Quantity | None = Field(
        default=None, description="CPU use in CPUs: the mean over what was recorded, else that of its lifetime"
    )

    @model_validator(mode="after")
    def _check_selection(self) -> Self:
        if self.app is None and self.comm is None and self.args is None:
            raise ValueError("selects no process; add app, comm, or args")
        return self


class ProcessCheck(AnyCheck):
    process: Process

    @property
    def needs(self) -> tuple[str, ...]:
        return ("process.command",) if self.process.cpu_above is None else ("process.command", "process_cpu_ratio")


class Toggle(Strict):
    """Two states that differ in one setting, compared; with `switches` each state and the next, so many times.

    The more permissive value is expected to be the worse one, or, where huge pages help, the better one. No metric
    moved by the ratio is no; too few samples, or fewer switches, is unknown.
    """

    setting: Names = Field(description="settings, or a name for several (knowledge/switches.yaml)")
    ratio: Quantity
    effects: list[Effect] = Field(default_factory=lambda: list(switches()["usual"]))
    expected: Literal["worse", "better"] = "worse"
    min_samples: int = Field(default=5, ge=1)
    switches: int = Field(default=1, ge=1)

    @property
    def settings(self) -> list[str]:
        return [one for name in as_list(self.setting) for one in switches()["settings"].get(name, [name])]

    @property
    def metrics(self) -> list[str]:
        return [name for kind in self.effects for name in switches()["effects"].get(kind, [kind])]


class ToggleCheck(AnyCheck):
    toggle: Toggle

    @property
    def needs(self) -> tuple[str, ...]:
        return (*self.toggle.settings, *(n for metric in self.toggle.metrics for n in compared_figures()[metric].names))


class RuleCheck(AnyCheck):
    """Another rule's outcome in the same state."""

    rule: str
    is_: Literal["fires", "silent"] = Field(default="fires", alias="is")


Check = FactCheck | SeriesCheck | ChangeCheck | ProfileCheck | EventCheck | ProcessCheck | ToggleCheck | RuleCheck
CHECKS: dict[str, type[AnyCheck]] = {
    "fact": FactCheck, "series": SeriesCheck, "change": ChangeCheck, "profile": ProfileCheck, "event": EventCheck,
    "process": ProcessCheck, "toggle": ToggleCheck, "rule": RuleCheck,
}  # fmt: skip


class Confidence(Strict):
    """Expressions of check names; the highest that holds counts. What is not listed is `possible`."""

    likely: str | None = None
    confirmed: str | None = None


class RuleFile(Strict):
    """One rule: what it looks for, what it means, what to do."""

    id: str = Field(pattern=r"^[A-Z][A-Z0-9]{1,11}-\d{2,6}$")
    title: str = Field(min_length=10, max_length=120, description="a state, not an instruction")
    headline: str | None = Field(
        default=None,
        max_length=160,
        description=(
            "the sentence of the verdict, with {entity} and {pace}: the rate of a change; of a "
            "context rule, the first sentence of an undecided verdict"
        ),
    )
    status: Status
    severity: Severity
    mechanism: str
    role: Role
    for_each: Entity | None = None
    until: Literal["end"] | None = Field(
        default=None, description="end: a stretch of what was recorded shows it only if it is the last one"
    )
    params: dict[str, Param] = Field(default_factory=dict)
    checks: dict[str, Any]
    when: str
    confidence: Confidence = Confidence()
    excluded_by: list[str] = Field(default_factory=list)
    demoted_by: list[str] = Field(default_factory=list)
    raised_by: list[str] = Field(default_factory=list)
    explains: list[str] = Field(default_factory=list)
    means: str = Field(min_length=40)
    remedies: list[str] = Field(default_factory=list)
    verify: str = ""
    false_positives: list[str] = Field(default_factory=list)
    references: list[str] = Field(min_length=1)
    examples: list[str] = Field(default_factory=list)


class CaseState(Strict):
    """One of several states of a small host; what is said beside them holds in all."""

    facts: dict[str, Any] = Field(default_factory=dict)
    stacks: list[str] = Field(default_factory=list)
    flat: list[str] = Field(default_factory=list)
    off_cpu: list[str] = Field(default_factory=list)
    calls: list[str] = Field(default_factory=list)
    series: dict[str, str] = Field(default_factory=dict)
    events: list[dict[str, Any]] = Field(default_factory=list)


class CaseFile(Strict):
    """One case of a NAME.cases.yaml: a small host and what the rule must say of it.

    `facts`: name -> value (or a list of {value, LABEL: ...}). `stacks`: `"leaf < caller < caller WEIGHT [comm]"`.
    `flat`: the same without callers, from a source that has none. `off_cpu`, `calls`: recordings of
    waits and of calls, as `stacks`. `series`: name -> promtool notation with a step
    (`"100+40x30 @2s"`, `"5 7 9 @10s"`), for entities `name{pid=1,comm=x}`. `events`: lists of {kind, FIELD: value,
    stack: "a < b"}. `processes`: command lines. `states`: several of all this, in order, for toggles.
    """

    name: str
    facts: dict[str, Any] = Field(default_factory=dict)
    stacks: list[str] = Field(default_factory=list)
    flat: list[str] = Field(default_factory=list)
    off_cpu: list[str] = Field(default_factory=list)
    calls: list[str] = Field(default_factory=list)
    series: dict[str, str] = Field(default_factory=dict)
    events: list[dict[str, Any]] = Field(default_factory=list)
    processes: list[str] = Field(default_factory=list)
    read: list[Literal["kernel_log", "processes"]] = Field(
        default_factory=list, description="sources that were read and hold nothing more"
    )
    states: list[CaseState] = Field(default_factory=list)
    outcome: Literal["fires", "silent", "unknown", "excluded"]
    confidence: Literal["confirmed", "likely", "possible"] | None = None
    demoted_by: list[str] = Field(default_factory=list, description="rules that also fire, and demote this finding")
    explains: list[str] = Field(default_factory=list, description="rules that also fire, and follow from this finding")

    @model_validator(mode="after")
    def _check_states(self) -> Self:
        fields = [name for name in ("stacks", "flat", "off_cpu", "calls", "series") if getattr(self, name)]
        if self.states and fields:
            raise ValueError(f"{', '.join(fields)} beside states would be left out; put it into the state it is of")
        return self
