"""The document of `thpdiag explain`, as frozen models; its JSON Schema is made of them."""

from __future__ import annotations

from typing import Any, Final, Literal

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
    Worded,
    json_schema,
)
from thpdiag.model.result import Confidence

SCHEMA: Final = "thpdiag/explain/1"
NUMBER = "In base units (share, seconds, bytes, per second); null if it is not finite."

Outcome = Literal["fires", "silent", "unknown", "excluded"]
Outcome3 = Literal["yes", "no", "unknown"]


class Param(Document):
    """A parameter of the rule."""

    name: Public
    value: Public
    means: Public
    set: bool = Field(description="Whether --set gave the value.")


class ExplainedRule(Document):
    """What the rule itself says."""

    id: Public
    title: Public
    severity: Public
    role: Public
    mechanism: Public
    means: Public
    when: Public = Field(description="The condition over the names of checks.")
    confidence: dict[Public, Public] = Field(description="The condition of each level above possible.")
    params: list[Param]
    excluded_by: list[Public]
    demoted_by: list[Public]
    explains: list[Public]
    verify: Public
    false_positives: list[Public]
    references: list[Public]


class SettingsState(Worded):
    """A stretch of unchanged settings."""

    id: Place
    text: Sentence
    settings: dict[Public, Quoted]


class ExplainedWindow(Document):
    """The part of a recording that a tree is of."""

    from_: Number = Field(alias="from")
    to: Number
    clock: Public
    text: Public


class Bound(Document):
    """One limit of a check and what was measured against it."""

    word: Literal["above", "below", "at least", "for"]
    limit: Number | None = Field(description=NUMBER)
    measured: Number | None = Field(description=NUMBER)
    gap: Number | None = Field(description=NUMBER)
    unit: Public | None
    met: bool
    text: Public


class Node(Worded):
    """The condition of the rule, or a part of it, as evaluated."""

    expr: Public = Field(description="The expression, or the name of the check.")
    op: Public = Field(description="check, all of, any of, not, or `N of`.")
    value: Outcome3
    children: list[Node]
    text: Sentence | None = Field(None, description="What was seen.")
    needed: Sentence | None = Field(None, description="What a yes takes.")
    class_: Public | None = Field(None, alias="class", description="The class of evidence.")
    measured: Number | Quoted | None = None
    unit: Public | None = None
    member: Place | None = None
    line: int | None = None
    source_line: int | None = Field(
        None, description="The line that names it: of a snapshot of many lines `line` is the first."
    )
    source: Quoted | None = Field(
        None, description="The text of source_line, shortened; null if it cannot be read again."
    )
    window: ExplainedWindow | None = None
    weak: bool | None = None
    assumed: bool | None = None
    bounds: list[Bound] = Field([])
    missing: list[Public] = Field([])


class Level(Document):
    """The condition of a level of confidence."""

    level: Confidence | None
    expr: Public
    value: Outcome3
    checks: list[Node] = Field(description="Checks that are not in the condition.")


class OtherRule(Worded):
    """A rule that would silence or demote this one."""

    rule: Public
    outcome: Outcome
    confidence: Confidence | None
    text: Sentence | None
    member: Place | None
    line: int | None
    source_line: int | None
    source: Quoted | None
    missing: list[Public]


class Surer(Worded):
    """Further evidence that would raise the confidence."""

    to: Confidence | None
    classes: list[Public]
    ask_for: list[Command]


class ExplainedFinding(Worded):
    """What the rule found."""

    confidence: Confidence | None
    role: Public
    severity: Public
    classes_spoken: list[Public]
    classes_missing: list[Public]
    raise_confidence: list[Sentence]
    consequences: list[Public]
    demoted_by: list[Public]
    surer: list[Surer]


class MissingName(Worded):
    """A name of the vocabulary that the input does not have."""

    name: Public
    ask_for: Command


class Step(Worded):
    """One check that would have to turn."""

    check: Public | None = Field(description="Null where another rule silences this one.")
    to: Literal["yes", "no"]
    needed: Sentence
    text: Sentence = Field(description="What was seen instead.")
    by: Public | None = Field(description="By how much it was missed or met.")
    window: Public | None
    ask_for: list[Command] = Field(description="Commands that get what is unknown from the customer.")


class Change(Document):
    """The smallest change that would have turned the rule; null if none of at most four checks would."""

    to: Literal["fire", "silent"]
    steps: list[Step]


class StateOutcome(Document):
    """The rule in one state of the host, in short."""

    state: SettingsState | None
    outcome: Outcome
    confidence: Confidence | None
    window: ExplainedWindow | None
    entity: Entity | None
    change: Change | None


class ExplainedHost(Worded):
    """The rule on one host."""

    case: HostName
    outcome: Outcome
    notes: list[Sentence] = Field(description="What decided beside the condition.")
    state: SettingsState | None
    entity: Entity | None = Field(description="The process, zone, CPU or device that the tree is of.")
    window: ExplainedWindow | None = Field(
        description="The part of the recording that the tree is of; null: all of it."
    )
    tree: Node
    levels: list[Level]
    excluders: list[OtherRule] = Field(description="Rules that would silence it.")
    demoters: list[OtherRule] = Field(description="Rules beside which it only contributes.")
    finding: ExplainedFinding | None
    missing: list[MissingName]
    change: Change | None
    states: list[StateOutcome] = Field(description="The rule in each state of the host, in short.")


class ExplanationTool(Document):
    """What made the document."""

    version: Public
    rules_digest: Public | None = Field(description="As in the result document; null without an input.")
    options: dict[Public, Quoted] = Field(description="Options of the run that change the analysis.")
    redacted: Literal[True] | None = Field(
        None, description="There if names of the customer are replaced by pseudonyms."
    )


class Explanation(Document):
    """Why a rule fires on each host of an input or does not.

    Outcome and confidence are those of the result document.
    """

    schema_: Literal["thpdiag/explain/1"] = Field(alias="schema")
    rule: ExplainedRule
    hosts: list[ExplainedHost] = Field(description="One entry per host; empty without an input.")
    tool: ExplanationTool


def schema() -> dict[str, Any]:
    """The JSON Schema of the document of `thpdiag explain`."""
    return json_schema(Explanation, SCHEMA, "thpdiag explain -f json")
