"""`--set RULE.PARAM=VALUE`: thresholds that a user gives other values, for a host that they know to be another."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from thpdiag.engine.load import Rule, with_params
from thpdiag.engine.quantity import alike, split
from thpdiag.errors import RuleError, UsageError
from thpdiag.knowledge.complaints import suggestion

_FORM = re.compile(r"(?P<rule>[^.=\s]+)\.(?P<param>[^.=\s]+)\s*=\s*(?P<value>.*\S)", re.DOTALL)
_PLAIN = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)
Values = Mapping[str, Mapping[str, str | float]]  # by rule and parameter


def with_chosen(rules: Sequence[Rule], texts: Sequence[str]) -> tuple[Rule, ...]:
    """The rules with the values that `texts` give. UsageError says what of them is wrong."""
    chosen = _values(rules, texts)
    return tuple(_with(rule, chosen[rule.id]) if rule.id in chosen else rule for rule in rules)


def told(rules: Sequence[Rule]) -> str:
    """What of the rules was changed, as `--set` takes it, in the order of their names."""
    found = [f"{r.id}.{name}={value}" for r in sorted(rules, key=lambda r: r.id) for name, value in r.changed.items()]
    return ", ".join(found)


def _values(rules: Sequence[Rule], texts: Sequence[str]) -> Values:
    by_id = {rule.id: rule for rule in rules}
    chosen: dict[str, dict[str, str | float]] = {}
    for text in texts:
        found = _FORM.fullmatch(text.strip())
        if not found:
            raise UsageError(f"--set takes RULE.PARAM=VALUE, such as THP-013.often=0.1 /s, not {text!r}")
        rule = by_id.get(found["rule"].upper())
        if rule is None:
            raise UsageError(f"--set: no rule {found['rule']!r}{suggestion(found['rule'].upper(), by_id)}")
        own = chosen.setdefault(rule.id, {})
        name = _param(rule, found["param"])
        if name in own:
            raise UsageError(f"--set: {rule.id}.{name} is set twice")
        own[name] = _value(rule, name, found["value"])
    return {rule: dict(sorted(own.items())) for rule, own in sorted(chosen.items())}


def _param(rule: Rule, name: str) -> str:
    params = rule.file.params
    if name not in params:
        known = f"it has {', '.join(params)}" if params else "it has none"
        raise UsageError(f"--set: {rule.id} has no parameter {name!r}{suggestion(name, params)} ({known})")
    return name


def _value(rule: Rule, name: str, text: str) -> str | float:
    """The value as the rule file would have it, in a unit of the kind that the rule's own value has."""
    default = rule.file.params[name].default
    usual = split(default)[1]
    units = alike(usual)
    wanted = " or ".join(units) if usual else "no unit"
    try:
        number, unit = split(float(text) if _PLAIN.fullmatch(text) else text)
    except ValueError as error:
        raise UsageError(f"--set {rule.id}.{name}: {text!r} is no number; the rule has {default}") from error
    if unit not in units:
        given = f"the unit {unit}" if unit else "no unit"
        raise UsageError(f"--set {rule.id}.{name}: {text!r} has {given}; the rule has {default}, so it takes {wanted}")
    if not math.isfinite(number):
        raise UsageError(f"--set {rule.id}.{name}: the number is too large")
    if unit:
        return f"{text.strip().removesuffix(unit).strip()} {unit}"
    return int(number) if number == int(number) else number


def _with(rule: Rule, values: Mapping[str, str | float]) -> Rule:
    try:
        return with_params(rule, values)
    except RuleError as error:
        names = ", ".join(values)
        raise UsageError(f"--set: {rule.id} cannot take this value of {names}: {error}") from error
