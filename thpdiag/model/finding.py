"""Results of the engine: three-valued outcomes of rules, and the findings made from those that fired."""

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
EXCLUDED = "excluded_by"  # takes the place of a check in evidence that another rule explains the observation


class Verdict3(Enum):
    """The three values of Kleene's logic."""

    NO = 0
    UNKNOWN = 1
    YES = 2

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Evidence:
    """One piece of evidence: the check, a sentence with the numbers, the citation.

    `kind` is the evidence class (`thpdiag.engine.confidence`). `window` is the time that it covers, if the source has a
    clock. `brief` is a shorter text for headlines.
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
        """Whether it states that another rule explains the observation."""
        return self.check == EXCLUDED


class Raise(NamedTuple):
    """Further evidence of these classes, from the vocabulary names in `missing`, would raise the confidence to `to`."""

    to: str
    classes: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """The outcome of one rule in one state of one host, before ranking.

    `missing` are vocabulary names that would decide what is unknown. A `firm` no rests on measured settings and facts
    alone, so that no further recording could change it. `window` is the stretch of a longer recording that was
    evaluated; None: everything that was recorded. `answers` are the results of the checks by name
    (`thpdiag.engine.state_view.CheckResult`), `excluders` the outcomes of the rules that would silence it.
    `evidence_classes` are the classes of evidence for it, `available_classes` those of which the input has any data.
    `mistake` is an error in thpdiag that prevented the evaluation. `title` is that of the rule. `in_range` is whether
    it is in the requested time range.
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
    evidence_classes: tuple[str, ...] = ()
    available_classes: tuple[str, ...] = ()
    raises: tuple[Raise, ...] = ()
    mistake: str = ""
    title: str = ""
    in_range: bool = True

    @property
    def confidence_rank(self) -> int:
        """The confidence as a number, -1 without one."""
        return CONFIDENCES.index(self.confidence) if self.confidence else -1

    @property
    def is_excluded(self) -> bool:
        """Whether the condition held, but another rule explains the observation."""
        return any(e.excludes for e in self.against)


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that fired, after ranking. `role` is the role after ranking.

    `consequences` are the rules that fire because of this one, `attached` the configuration and risks that belong to
    it. `under` are the huge-page settings in force when it was measured; `past` means that the latest settings differ.
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
    def confidence_rank(self) -> int:
        """The confidence as a number."""
        return CONFIDENCES.index(self.confidence)

    def with_role(self, role: str) -> Finding:
        return replace(self, role=role)


_PID = re.compile(r" \(\d+\)")


def fingerprint(rule: str, host: str, entity: str) -> str:
    """Return 16 hex digits of the rule, the host and the entity of a finding, for baselines and CI.

    A second bundle of the same host yields the same fingerprint: it excludes lines, times and values, and the pid of a
    process.
    """
    return sha256("\0".join((rule, host, _PID.sub("", entity))).encode("utf-8", "replace")).hexdigest()[:16]
