"""How long the stages of an analysis and its rules took, for people who write rules. Never a part of a result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

TITLE = "# thpdiag timings: seconds, of all hosts, states and windows together"


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds by stage and by rule, and how often each rule was judged.

    What a recording needs to be ready for questions counts for the rule that asks first.
    """

    stages: dict[str, float] = field(default_factory=dict)
    rules: dict[str, float] = field(default_factory=dict)
    judged: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """The time that the block takes."""
        begun = perf_counter()
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0.0) + perf_counter() - begun

    @contextmanager
    def rule(self, name: str) -> Iterator[None]:
        """The time that one rule takes on one scene."""
        begun = perf_counter()
        try:
            yield
        finally:
            self.rules[name] = self.rules.get(name, 0.0) + perf_counter() - begun
            self.judged[name] += 1

    def lines(self) -> list[str]:
        """Tab-separated rows: stages as they came, rules from the slowest on."""
        stages = [f"stage\t{name}\t{seconds:.6f}\t" for name, seconds in self.stages.items()]
        ranked = sorted(self.rules.items(), key=lambda row: (-row[1], row[0]))
        return [TITLE, *stages, *(f"rule\t{name}\t{seconds:.6f}\t{self.judged[name]}" for name, seconds in ranked)]
