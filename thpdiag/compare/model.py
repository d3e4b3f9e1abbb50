"""The comparison document, as frozen models; its JSON Schema is made of them. Absent data is null, never zero."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from thpdiag.model.document import (
    Command,
    Document,
    Entity,
    HostName,
    Number,
    Place,
    Public,
    Quoted,
    Sentence,
    Share,
    Stack,
    json_schema,
)
from thpdiag.model.result import Acceptance

SCHEMA: Final = "thpdiag/comparison/1"

Status = Annotated[
    Literal["fixed", "improved", "unchanged", "worse", "new", "cannot_tell"],
    Field(
        description="Fixed: its rule is decided and does not fire, and its figures fell at a comparable load. "
        "Improved: its figures fell, or, after a switch of huge pages, kernel time fell while program time did not."
        " Cannot tell: the rule is undecided, the load is not comparable, or the figures disagree."
    ),
]
STATUSES: tuple[Status, ...] = ("worse", "new", "cannot_tell", "unchanged", "improved", "fixed")
Outcome = Literal["fires", "silent", "unknown", "excluded", "absent"]
Direction = Literal["up", "down", "same", "noise"]
Bucket = Annotated[list[Number], Field(min_length=4, max_length=4)]  # checked: it is taken apart
Points = Annotated[list[Bucket], Field(json_schema_extra={"maxItems": 200})]


class Placed(Document):
    """A place in the bundle."""

    member: Place | None = Field(description="The customer's path inside the bundle.")
    line: int | None = Field(description="The line from 1, or the byte offset where the member has no lines.")


class Side(Document):
    """One of the two results."""

    case: HostName | None = Field(description="The name of the case.")
    status: Public = Field(description="The status of the verdict.")
    rule: Public | None = Field(description="The rule of its root cause.")
    mechanism: Public | None = Field(description="The mechanism of its root cause.")
    title: Public | None = Field(description="The root cause in one line.")
    severity: Public | None = Field(description="How much it hurts.")
    confidence: Public | None = Field(description="How sure it is.")
    sentence: Sentence = Field(description="The verdict in one sentence.")
    version: Public | None = Field(description="The version of thpdiag that made the result.")
    rules_digest: Public | None = Field(description="The digest of the rules that it used.")


class Value(Placed):
    """A figure on one side."""

    value: Number | None = Field(description="The value in the unit of the figure.")
    samples: int | None = Field(description="Of how many samples or intervals it is.")
    min: Number | None = Field(description="The least of them.")
    max: Number | None = Field(description="The most of them.")


class ComparedFigure(Document):
    """A figure on both sides, with the effect."""

    name: Public = Field(
        description="The name of the vocabulary; `stacks:FAMILY` is the share of samples in a family of functions."
    )
    text: Public = Field(description="Its name for people.")
    unit: Public = Field(description="The unit of the values.")
    before: Value = Field(description="Before.")
    after: Value = Field(description="After.")
    difference: Number | None = Field(description="After minus before.")
    ratio: Number | None = Field(description="After as a multiple of before; null if it was nothing.")
    change: Direction = Field(
        description="Up or down for the same work, by at least half as much again and by more than two standard "
        "errors; noise: as much, but within these; same: less."
    )
    alone: Direction | None = Field(None, description="What `change` would be without regard to the work.")
    per_work: bool = Field(description="Whether it was compared for the same work (`load.work`).")


class ComparedEvidence(Placed):
    """What was seen, and where."""

    text: Sentence | None = Field(description="What was seen, with its numbers.")


class Outcomes(Document):
    """What a rule said on both sides."""

    before: Outcome = Field(description="Before; absent means that it was not asked.")
    after: Outcome = Field(description="After; absent means that it was not asked.")


class EvidenceOfSides(Document):
    """What was seen on both sides."""

    before: list[ComparedEvidence] = Field(description="Before.")
    after: list[ComparedEvidence] = Field(description="After.")


class ComparedFinding(Document):
    """A finding of either side, with what became of it."""

    rule: Public = Field(description="The rule that fired.")
    mechanism: Public | None = Field(description="Its mechanism.")
    title: Public | None = Field(description="The finding in one line.")
    severity: Public | None = Field(description="How much it hurts, after if it is found there.")
    role: Public | None = Field(description="Its place after ranking.")
    entity: Entity | None = Field(description="The process, zone, cpu or device concerned.")
    status: Status = Field(description="What became of it.")
    reason: Sentence = Field(description="Why, with the numbers.")
    suppressed: Acceptance | None = Field(description="By which file it is accepted; it then fails no gate.")
    outcomes: Outcomes = Field(description="The outcome of its rule.")
    numbers: list[ComparedFigure] = Field(description="Its figures on both sides.")
    evidence: EvidenceOfSides = Field(
        description="What was seen, where; for a rule that is silent after, the evidence against it."
    )


class SettingValue(Placed):
    """A setting on one side."""

    value: Quoted | Number | None = Field(description="The value.")
    provenance: Public | None = Field(description="How it is known.")


class ComparedSetting(Document):
    """A setting that differs."""

    name: Public = Field(description="The name of the vocabulary.")
    before: SettingValue | None = Field(description="Before.")
    after: SettingValue | None = Field(description="After.")
    lasting: Sentence = Field(description="What the next boot makes of it, if that is known.")


class ComparedFact(Document):
    """What differs of the host itself."""

    name: Public = Field(description="What.")
    before: Quoted | None = Field(description="Before.")
    after: Quoted | None = Field(description="After.")


class ComparedSeries(Document):
    """A series of the whole host."""

    metric: Public = Field(description="The name of the vocabulary.")
    panel: Public | None = Field(description="The panel that it belongs to.")
    means: Public | None = Field(description="What it measures.")
    unit: Public | None = Field(description="The unit.")
    source: Place | None = Field(description="The source.")
    clock: Public | None = Field(description="What times count.")
    points: Points = Field(description="Buckets of [time, min, max, mean].")


class ComparedAction(Placed):
    """What an operator did."""

    t: Number | None = Field(description="When, on `clock`.")
    clock: Public | None = Field(description="What times count.")
    text: Sentence | None = Field(description="What was done.")


class ComparedTimeline(Document):
    """The part of a timeline that a chart beside another one shows."""

    series: list[ComparedSeries] = Field(description="Series of the whole host, at most 200 buckets each.")
    actions: list[ComparedAction] = Field(description="What operators did.")


class Timelines(Document):
    """Parts of both timelines, for charts."""

    before: ComparedTimeline = Field(description="Before.")
    after: ComparedTimeline = Field(description="After.")


class ComparedStack(Document):
    """A call stack of both recordings."""

    stack: Stack = Field(description="The task's name or ?, then the functions from the root, joined by ;")
    before: Share = Field(description="Its own share (0..1) of the non-idle samples before; 0 of what is not listed.")
    after: Share = Field(description="Its own share after.")


class ComparedRecording(Document):
    """Two recordings of call stacks of one event, those that the root causes rest on."""

    before: Place | None = Field(description="The recording before.")
    after: Place | None = Field(description="The recording after.")
    stacks: list[ComparedStack] = Field(description="Those of both, at most 300, the largest first.")


class Remaining(Document):
    """What AFTER still or newly has."""

    rule: Public = Field(description="The rule.")
    title: Public | None = Field(description="The finding in one line.")
    severity: Public | None = Field(description="How much it hurts.")
    status: Status = Field(description="What became of it.")


class Request(Document):
    """What to send to decide an unknown outcome."""

    text: Sentence = Field(description="What to write to the customer.")
    commands: list[Command] = Field(description="Commands that get it.")


class Answer(Document):
    """Did it help."""

    status: Status = Field(
        description="What became of the root cause of BEFORE, or of that of AFTER if BEFORE has none."
    )
    sentence: Sentence = Field(description="The answer in one sentence.")
    root_cause_differs: bool = Field(description="Whether AFTER has another root cause than BEFORE.")
    remains: list[Remaining] = Field(description="What AFTER still or newly has.")
    ask: Request = Field(description="What to send to decide an unknown outcome.")


class ComparedLoad(Document):
    """Whether AFTER did the work that BEFORE did."""

    word: Literal["same", "more", "less", "unknown"] = Field(
        description="Less is below half, more above twice the work."
    )
    text: Sentence = Field(description="By what, with the numbers.")
    work: Number | None = Field(description="How many times the work was done after, where the kernel counts work.")


class ComparedHost(Document):
    """A host that both sides have."""

    name: HostName = Field(description="The host's name, empty if neither input has it.")
    same: Literal["same", "different", "unnamed"] = Field(
        description="Whether both are of one host, by its name; different hosts are compared as a good and a bad one."
    )
    answer: Answer = Field(description="Did it help.")
    before: Side = Field(description="The result before.")
    after: Side = Field(description="The result after.")
    load: ComparedLoad = Field(description="Whether AFTER did the work that BEFORE did.")
    notes: list[Sentence] = Field(
        description="What a reader must know first: other hosts, a reboot, swapped order, several states."
    )
    facts: list[ComparedFact] = Field(description="What differs of the host itself, and its uptimes.")
    settings: list[ComparedSetting] = Field(description="Settings that differ.")
    findings: list[ComparedFinding] = Field(description="Findings of both sides, the root causes first.")
    figures: list[ComparedFigure] = Field(description="All figures that both sides have, those that moved first.")
    only_before: list[Public] = Field(description="What only BEFORE measured.")
    only_after: list[Public] = Field(description="What only AFTER measured.")
    timelines: Timelines = Field(description="Parts of both timelines, for charts.")
    recording: ComparedRecording | None = Field(
        None, description="Call stacks of both; absent if one side has none, or none of the same event."
    )


class HostOfOneSide(Document):
    """A host of one side only."""

    side: Literal["before", "after"] = Field(description="The side that has it.")
    name: HostName = Field(description="Its name, empty if the input does not have it.")
    sentence: Sentence = Field(description="Its verdict in one sentence.")
    status: Public = Field(description="The status of its verdict.")


class Comparison(Document):
    """What became of the findings of a host between two results, BEFORE and AFTER; or how two hosts differ.

    Absent data is null, never zero.
    """

    schema_: Literal["thpdiag/comparison/1"] = Field(
        alias="schema", description="The version of this schema that the document follows."
    )
    redacted: Literal[True] | None = Field(
        None, description="There if names of the customer are replaced by pseudonyms in both results."
    )
    hosts: list[ComparedHost] = Field(description="The hosts that both sides have, in the order of BEFORE.")
    alone: list[HostOfOneSide] = Field(description="Hosts of one side only, which are not compared.")


def schema() -> dict[str, Any]:
    """The JSON Schema of the comparison document; it changes only with its version."""
    return json_schema(Comparison, SCHEMA, "thpdiag comparison")
