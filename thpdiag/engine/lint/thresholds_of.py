"""Every number that a rule compares with: where it stands, what it is, and the unit of what it is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from thpdiag.engine.load import Rule, Where
from thpdiag.engine.quantity import split
from thpdiag.engine.schema import (
    ChangeCheck,
    Check,
    FactCheck,
    ProcessCheck,
    ProfileCheck,
    SeriesCheck,
    ToggleCheck,
    listed,
)
from thpdiag.knowledge.vocabulary import term

TIMES = ("for", "over", "within")
QUANTITIES = ("above", "below", "at_least", "per_at_least", "ratio", "cpu_above", *TIMES)
ANY = "any"  # ratios of unlike things have a unit that nobody writes
FIGURES = ("spread", "step", "knee")  # ratios, whatever the metric is


@dataclass(frozen=True, slots=True)
class Threshold:
    """`written` is as the check has it (maybe `$param`), `text` what that stands for.

    `unit` is that of what it is held against; `whole` names what cannot be more than all of it.
    """

    check: str
    key: str
    where: Where
    written: str | float
    text: str | float
    unit: str
    whole: str = ""

    @property
    def number(self) -> float:
        return split(self.text)[0]

    @property
    def own_unit(self) -> str:
        """The unit as it is written: `%`, `MiB/s`, nothing."""
        return split(self.text)[1]


def thresholds(rule: Rule) -> Iterator[Threshold]:
    """All of a rule, in the order of its file; `for` only where it is a time."""
    for name, check in rule.checks.items():
        for where, key, written in _quantities(rule.file.checks[name], ("checks", name)):
            param = rule.file.params.get(written[1:]) if isinstance(written, str) and written[:1] == "$" else None
            text = param.default if param else written
            if not (key == "for" and "sample" in str(text)):
                unit = _unit(check, key)
                yield Threshold(name, key, where, written, text, unit, _whole(check, key))


def _quantities(row: object, at: Where) -> Iterator[tuple[Where, str, str | float]]:
    if not isinstance(row, dict):
        return
    for key, value in row.items():
        if key == "where":
            continue
        if key in QUANTITIES and isinstance(value, str | int | float):
            yield (*at, key), key, value
        else:
            yield from _quantities(value, (*at, key))


def _of(name: str) -> str:
    known = term(name)
    return known.unit if known else ANY


def _unit(check: Check, key: str) -> str:
    """The base unit that a threshold of a check must have."""
    if key in TIMES:
        return "seconds"
    match check:
        case FactCheck():
            return _of(check.fact) or ANY
        case SeriesCheck():
            return _of_series(check)
        case ChangeCheck():
            return _of_change(check, key)
        case ProfileCheck() | ProcessCheck():
            return "ratio"
        case ToggleCheck():
            return "factor"
        case _:
            return "1"


def _of_series(check: SeriesCheck) -> str:
    if check.as_ in FIGURES:
        return "ratio"
    unit = _of(check.series)
    if check.as_ in ("rate", "since_boot_rate", "slope") and unit != ANY:
        return unit if unit.endswith("/s") else f"{unit}/s"
    return unit


def _of_change(check: ChangeCheck, key: str) -> str:
    of, per = _of(listed(check.change.of)[0]), [_of(name) for name in listed(check.change.per)]
    if key == "at_least" or (key in ("above", "below") and not per):
        return of
    if key == "per_at_least":
        return per[0] if per else ANY
    if of == per[0]:
        return "quotient"
    return of if per[0] in ("1", "pages", "blocks") and of not in ("1", "pages", "blocks") else ANY


def _whole(check: Check, key: str) -> str:
    """What cannot be more than all, by name; empty where more than 1 is possible."""
    if key in TIMES:
        return ""
    if isinstance(check, ProfileCheck):
        return "the samples"
    name = check.fact if isinstance(check, FactCheck) else check.series if isinstance(check, SeriesCheck) else ""
    figure = isinstance(check, SeriesCheck) and check.as_ not in ("level", "mean", "last", "spread")
    spread = isinstance(check, SeriesCheck) and check.as_ == "spread"
    if figure or not name or name.startswith("process_cpu_ratio"):
        return ""
    return "the largest value" if spread else "the whole" if _of(name) == "ratio" else ""
