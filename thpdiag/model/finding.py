"""What the engine says: three-valued outcomes of rules, and the findings made of those that fired."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import sha256
from typing import NamedTuple

from thpdiag.model.facts import Citation, Moment
from thpdiag.model.text import sentence

SEVERITIES = ("info", "low", "medium", "high", "critical")
CONFIDENCES = ("possible", "likely", "confirmed")
EXCLUDED = "excluded_by"  # stands for a check in what says that another rule explains it


class Verdict3(Enum):
    """Kleene's three values."""

    NO = 0
    UNKNOWN = 1
    YES = 2

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Evidence:
    """One line of proof: what check spoke, a sentence with the numbers, where it stands.

    `kind` is the evidence class (`thpdiag.engine.confidence`). `window` is the stretch of time it speaks of, where the
    source has a clock. `brief` is the text without what a headline has no room for.
    """

    check: str
    text: str
    cite: Citation | None = None
    value: float | str | None = None
    unit: str = ""
    kind: str = "state"
    window: tuple[Moment, Moment] | None = None
    brief: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", sentence(self.text))
        object.__setattr__(self, "brief", sentence(self.brief) or self.text)

    @property
    def excludes(self) -> bool:
        """Whether it is that another rule explains it."""
        return self.check == EXCLUDED


class Raise(NamedTuple):
    """What would make a finding surer: evidence of these classes, from what these names ask for, makes it `to`."""

    to: str
    classes: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """One rule on one state of one host, before findings are ranked and folded.

    `missing` are vocabulary names that would decide what is unknown. A `firm` no rests on
    measured settings and facts alone: no further recording could turn it. `window` is the stretch of a longer recording
    in which it was judged so; None: all of what was recorded. `answers` are what the checks said, by name
    (`thpdiag.engine.state_view.CheckResult`), `excluders` the outcomes of the rules that would silence it, `spoken` the
    classes of evidence that speak for it, `heard` those of which the input holds something, whatever it says. `mistake`
    is what went wrong in thpdiag, where the rule could not be judged for that. `title` is the rule's. `in_range` is
    whether it is of the requested time range.
    """

    rule: str
    value: Verdict3
    state: str
    confidence: str | None = None
    evidence: tuple[Evidence, ...] = ()
    against: tuple[Evidence, ...] = ()
    missing: tuple[str, ...] = ()
    entity: str = ""
    raise_confidence: tuple[str, ...] = ()
    firm: bool = False
    window: tuple[Moment, Moment] | None = None
    answers: Mapping[str, object] = field(default_factory=dict)
    excluders: tuple[RuleOutcome, ...] = ()
    role: str = ""
    spoken: tuple[str, ...] = ()
    heard: tuple[str, ...] = ()
    raises: tuple[Raise, ...] = ()
    mistake: str = ""
    title: str = ""
    in_range: bool = True

    @property
    def sureness(self) -> int:
        """The confidence as a number, -1 without one."""
        return CONFIDENCES.index(self.confidence) if self.confidence else -1

    @property
    def is_excluded(self) -> bool:
        """Whether the rule held, and another one explains what it saw."""
        return any(e.excludes for e in self.against)


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that fired, with its place among the others. `role` is the role after ranking.

    `consequences` are the rules that fire because of this one, `attached` the configuration and risks that
    belong to it. `under` are the settings of huge pages that it was measured under, `past` says that the latest ones
    are others.
    """

    outcome: RuleOutcome
    severity: str
    confidence: str
    role: str
    title: str
    mechanism: str
    consequences: tuple[str, ...] = ()
    demoted_by: tuple[str, ...] = ()
    attached: tuple[str, ...] = ()
    under: Mapping[str, str] = field(default_factory=dict)
    past: bool = False

    @property
    def sureness(self) -> int:
        """The confidence as a number."""
        return CONFIDENCES.index(self.confidence)

    def with_role(self, role: str) -> Finding:
        return replace(self, role=role)


_PID = re.compile(r" \(\d+\)")


def fingerprint(rule: str, host: str, entity: str) -> str:
    """16 hex digits of the rule, the host and what on the host the finding is about, for baselines and CI.

    A second bundle of the same host gives the same: no line, time or value goes into it, and of a process its name
    without its pid.
    """
    return sha256("\0".join((rule, host, _PID.sub("", entity))).encode("utf-8", "replace")).hexdigest()[:16]
