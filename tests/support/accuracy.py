"""How often the diagnosis is right: expected mechanisms against diagnosed ones, over all fixtures, and with less input.

    make accuracy                                   20 smaller inputs per fixture, and each file of it alone
    python tests/support/accuracy.py --drops 100 --seed 3   more, others

With less input a diagnosis may become weaker. It must not change to another one, and no likely or confirmed finding may
appear that the full input does not have (a breach). The last table shows how often each level of confidence named the
right cause, over all of these inputs, and the promised rate.

For an input without measurements, only settings or one reading of each counter, an expert cannot decide either: such
answers have a column of their own, `no data`.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from analyze_bytes import STRICT, rules, sure
from expected_diagnosis import CAUSES, NONE, Expected, every
from random_reductions import less_at_random
from thpdiag.diagnosis.diagnose import Diagnosis
from thpdiag.diagnosis.ranking import THP, mechanism_kind
from thpdiag.host.cases import host_cases
from thpdiag.host.reading import ParsedInput, read_input
from thpdiag.model import CONFIDENCES, SEVERITIES, Event, Profile, Sample, Series
from thpdiag.pipeline import diagnose_case

RIGHT, WEAKER, NOTHING, UNKNOWN, UNMEASURED = "right", "weaker", "nothing", "unknown", "no data"
PLAIN = (RIGHT, WEAKER, NOTHING, UNKNOWN, UNMEASURED)  # columns; every other column is a wrong mechanism
# General names of a cause where the input has no details: the kind of compaction, the knee, the group that swaps.
GENERAL = {
    "compaction-lock-convoy": "fault-compaction",
    "compaction-tlb-shootdown": "fault-compaction",
    "allocation-knee": "fault-compaction",
    "cgroup-reclaim": "swap-storm",
}
PROVEN = "huge-pages-proven"  # any of these if a switched setting shows it
LIKELY = CONFIDENCES.index("likely")
PROMISES = (0.5, 0.9, 0.99)  # expected rate of right causes at each of CONFIDENCES
NAME, CELL = 30, 8


@dataclass(frozen=True, slots=True)
class Given:
    """The outcome for one input: mechanism and level of the verdict, the status, and the likely or confirmed findings.

    `passed_over`: causes above `possible` although a `possible` finding is the verdict.
    """

    mechanism: str
    level: int
    status: str
    sure: dict[str, int]
    passed_over: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """An input of a fixture with its outcome, its column in the table, and breaches."""

    expected: Expected
    gone: str
    given: Given
    column: str
    breaches: tuple[str, ...]

    @classmethod
    def judge(cls, expected: Expected, gone: str, data: ParsedInput, full: Given | None = None) -> Answer:
        """What thpdiag answers to this input; a finding that is surer than with the full input breaks the law."""
        less = given(data)
        breaches = tuple(sorted(r for r, level in less.sure.items() if full and level > full.sure.get(r, 0)))
        place = column(expected, less)
        return cls(expected, gone, less, UNMEASURED if place == UNKNOWN and not is_measured(data) else place, breaches)

    @property
    def names_the_cause(self) -> bool:
        """Whether the mechanism is the expected one or the general case of it, at any level."""
        return same_cause(self.expected, self.given)


def given(data: ParsedInput) -> Given:
    """Return the verdict on readings; of several hosts the worst."""
    found = [diagnose_case(case, rules(), STRICT) for case in host_cases(data, STRICT)]
    levels: dict[str, str] = {}
    for finding in (f for one in found for f in one.findings):
        known = levels.get(finding.outcome.rule, "possible")
        levels[finding.outcome.rule] = max(known, finding.confidence, key=CONFIDENCES.index)
    worst = max(found, key=_weight, default=None)
    leader = worst.leader if worst else None
    if worst is None or leader is None:
        return Given(NONE, -1, worst.status if worst else "cannot_tell", sure(levels))
    level = CONFIDENCES.index(leader.confidence)
    surer = (f for f in worst.findings if f.role in CAUSES and CONFIDENCES.index(f.confidence) >= LIKELY > level)
    return Given(leader.mechanism, level, "found", sure(levels), tuple(f.outcome.rule for f in surer))


def _weight(diagnosis: Diagnosis) -> tuple[int, int]:
    leader = diagnosis.leader
    return (SEVERITIES.index(leader.severity), CONFIDENCES.index(leader.confidence)) if leader else (-1, -1)


def column(expected: Expected, given: Given) -> str:
    """Return the column of the table for the answer.

    A `possible` finding about something else is weaker, not wrong; so is the general case of the same cause.
    """
    if given.mechanism == NONE:
        if NONE in expected.mechanisms:
            return RIGHT
        return UNKNOWN if given.status == "cannot_tell" else NOTHING
    if given.mechanism in expected.mechanisms:
        return RIGHT if given.level >= expected.least else WEAKER
    return WEAKER if same_cause(expected, given) or given.level < LIKELY else given.mechanism


def same_cause(expected: Expected, given: Given) -> bool:
    """Return whether the mechanism is expected, the general case of an expected one, or its proof by a switch."""
    proven = given.mechanism == PROVEN and any(mechanism_kind(name) == THP for name in expected.mechanisms)
    general = {GENERAL.get(name) for name in expected.mechanisms}
    return proven or given.mechanism in expected.mechanisms or given.mechanism in general


def answers(expected: Expected, drops: int, seed: int, *, alone: bool = False) -> Iterator[Answer]:
    """Yield the full input, then the smaller ones, then (on request) each file alone."""
    data = read_input([expected.bundle], STRICT)
    full = Answer.judge(expected, "", data)
    yield full
    chance = random.Random(f"{seed} {expected.name}")
    smaller = [less_at_random(data, chance) for _ in range(drops)]
    if alone and len(data.readings) > 1:
        smaller += [
            (f"all but {member}", ParsedInput({member: rows}, data.inputs, data.problems))
            for member, rows in data.readings.items()
        ]
    for gone, rest in smaller:
        yield Answer.judge(expected, gone, rest, full.given)


def is_measured(data: ParsedInput) -> bool:
    """Return whether there is a measurement: a profile, a message, or a metric of one entity at two times."""
    readings = Counter[tuple[object, ...]]()
    for record in (row.record for rows in data.readings.values() for row in rows):
        if isinstance(record, Profile | Event) or (isinstance(record, Series) and len(record) > 1):
            return True
        if isinstance(record, Sample):
            readings.update((record.kind, record.entity, name) for name in record.values)
    return any(count > 1 for count in readings.values())


# The table


def table(all_of_them: Sequence[Answer]) -> Iterator[str]:
    """Yield rows of expected mechanisms, columns of diagnosed ones; letters for wrong ones are explained below."""
    wrong = sorted({a.column for a in all_of_them} - set(PLAIN))
    letters = [chr(ord("a") + n) for n in range(len(wrong))]
    width = max(2, (78 - NAME - CELL * (len(PLAIN) + 1)) // max(1, len(wrong)))
    width = min(width, 5)
    yield "expected".ljust(NAME) + "".join(c.rjust(CELL) for c in ("inputs", *PLAIN)) + _row(letters, width)
    for name in sorted({a.expected.mechanisms[0] for a in all_of_them}, key=lambda n: (n == NONE, n)):
        counts = Counter(a.column for a in all_of_them if a.expected.mechanisms[0] == name)
        plain = (counts.total(), *(counts[c] for c in PLAIN))
        yield (
            name.ljust(NAME)
            + "".join(_count(n).rjust(CELL) for n in plain)
            + _row((_count(counts[c]) for c in wrong), width)
        )
    for letter, name in zip(letters, wrong, strict=True):
        yield f"  {letter} = {name}"


def _row(cells: Iterable[str], width: int) -> str:
    return "".join(cell.rjust(width) for cell in cells)


def _count(number: int) -> str:
    return str(number) if number else "."


def summary(all_of_them: Sequence[Answer]) -> str:
    """The figures in one line."""
    counts = Counter(a.column for a in all_of_them)
    wrong = counts.total() - sum(counts[c] for c in PLAIN)
    broken = sum(bool(a.breaches) for a in all_of_them)
    weaker = counts[WEAKER] + counts[UNKNOWN]
    return (
        f"{counts.total()} inputs: {counts[RIGHT]} right, {weaker} weaker or unknown, {counts[NOTHING]} nothing found, "
        f"{counts[UNMEASURED]} without anything measured, {wrong} wrong, {broken} breaches"
    )


def reliability(all_of_them: Sequence[Answer]) -> Iterator[str]:
    """Return for each level the number of verdicts, the number of right ones, and the promised rate.

    The last line is the Brier score: the mean of the squared distance between the promised rate of a verdict's level
    and 1 if it names the cause, 0 if not. Inputs without a cause count if a verdict names one anyway.
    """
    verdicts = [a for a in all_of_them if a.given.mechanism != NONE]
    yield "level".ljust(NAME) + "".join(c.rjust(CELL) for c in ("inputs", "right", "share", "target"))
    for level, promise in zip(CONFIDENCES, PROMISES, strict=True):
        hits = [a.names_the_cause for a in verdicts if CONFIDENCES[a.given.level] == level]
        share = f"{sum(hits) / len(hits):.1%}" if hits else "-"
        cells = (_count(len(hits)), _count(sum(hits)), share, f"{promise:.0%}" if level != CONFIDENCES[0] else "-")
        yield level.ljust(NAME) + "".join(cell.rjust(CELL) for cell in cells)
    misses = [(PROMISES[a.given.level] - a.names_the_cause) ** 2 for a in verdicts]
    yield f"Brier score of {len(misses)} verdicts: " + (f"{sum(misses) / len(misses):.4f}" if misses else "-")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--drops", type=int, default=20, help="smaller inputs per fixture")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--list", action="store_true", help="name every answer that is wrong, or surer than the full one"
    )
    asked = parser.parse_args()
    found = [answer for expected in every() for answer in answers(expected, asked.drops, asked.seed, alone=True)]
    for title, part in (("Everything that was sent", False), ("With less of it", True)):
        chosen = [a for a in found if bool(a.gone) == part]
        sys.stdout.write("\n".join(["", title, "", *table(chosen), summary(chosen), ""]))
        for answer in chosen if asked.list else ():
            if answer.column not in PLAIN or answer.breaches:
                sys.stdout.write(f"{answer.expected.name}: {answer.column} {answer.breaches} without {answer.gone}\n")
    sys.stdout.write("\n".join(["", "What a level of confidence is worth", "", *reliability(found), ""]))


if __name__ == "__main__":
    main()
