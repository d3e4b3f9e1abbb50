"""Run times of the stages of an analysis and of its rules, for rule authors. They are not part of the result."""

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

    The preparation of a recording counts for the first rule that uses it.
    """

    stages: dict[str, float] = field(default_factory=dict)
    rules: dict[str, float] = field(default_factory=dict)
    judged: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure the time of a stage."""
        start = perf_counter()
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0.0) + perf_counter() - start

    @contextmanager
    def rule(self, name: str) -> Iterator[None]:
        """Measure the time of one rule on one view."""
        start = perf_counter()
        try:
            yield
        finally:
            self.rules[name] = self.rules.get(name, 0.0) + perf_counter() - start
            self.judged[name] += 1

    def lines(self) -> list[str]:
        """Return tab-separated rows: stages in order, then rules, slowest first."""
        stages = [f"stage\t{name}\t{seconds:.6f}\t" for name, seconds in self.stages.items()]
        ranked = sorted(self.rules.items(), key=lambda row: (-row[1], row[0]))
        return [TITLE, *stages, *(f"rule\t{name}\t{seconds:.6f}\t{self.judged[name]}" for name, seconds in ranked)]
