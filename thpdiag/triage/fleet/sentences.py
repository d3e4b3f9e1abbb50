"""Outliers, histories and the gate as sentences. Names of customers are in them as they are: writers make them safe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from thpdiag.reports.quantity import quantity
from thpdiag.reports.severities import NEVER
from thpdiag.reports.verdict import plural
from thpdiag.triage.fleet.distribution import Counts, Numbers
from thpdiag.triage.fleet.gate import FAILED, INCOMPLETE, Gate
from thpdiag.triage.fleet.outliers import Outlier
from thpdiag.triage.fleet.over_time import VERDICT, Change, Difference, Far, History, Seen

MOST: Final = 3  # values that are told of a group
_ENDS: Final = {0: "passed", FAILED: "failed", INCOMPLETE: "not decided"}  # by exit code


def outlier(one: Outlier) -> str:
    """`thp.enabled is always on 1 of the 11 hosts that tell it; never on 10 (12 hosts: redis on el8 with ...)`."""
    group = f"({plural(one.size, 'host')}: {one.group.definition})"
    if isinstance(one.distribution, Counts):
        told = f"{one.title} is {one.value} on {one.same:,} of the {one.distribution.n:,} hosts that tell it"
        return f"{told}; {_others(one.distribution, str(one.value))} {group}"
    value = " ".join(filter(None, (quantity(one.value, one.unit), one.window)))
    told = f"{one.title}: {value}; {_numbers(one.distribution, 'hosts', one.unit)}"
    return f"{told}, {_score(one.score)} {group}"


def history(one: History) -> Iterator[str]:
    """A sentence for each event, the changes in their order first."""
    yield from map(_change, one.changes)
    yield from map(_difference, one.differences)
    yield from map(_far, one.far)
    if one.more:
        yield f"and {one.more:,} more"


def order(one: History) -> str:
    """How many bundles, and whether anybody knows which was first."""
    known = "" if one.ordered else "; in which order they were recorded is not known"
    return f"{one.bundles:,} bundles name this host{known}"


def gate(found: Gate) -> str:
    """What `--fail-on` and `--fail-on-missing` came to; empty if nothing was to fail.

    What has no complete result is in the sentence: of that nobody knows whether it would have failed.
    """
    asked = [_severe(found)] if found.fail_on != NEVER else []
    if found.missing:
        asked.append(f"on {found.undecided:,} of the hosts and bundles some rule could not be decided")
    elif found.fail_on_missing:
        asked.append("every rule could be decided")
    if not asked:
        return ""
    code = found.exit_code
    if code == INCOMPLETE:
        asked.append(f"{plural(found.incomplete, 'bundle')} without a complete result may have more")
    return f"Gate: {_ENDS[code]}, {'; '.join(asked)}."


def _severe(found: Gate) -> str:
    if not found.failing:
        return f"no finding that nobody accepts is {found.fail_on} or graver"
    findings, hosts = plural(found.failing, "finding"), plural(found.failing_hosts, "host")
    are = "is" if found.failing == 1 else "are"
    return f"{findings} on {hosts} {are} {found.fail_on} or graver, and accepted by nobody"


def _others(group: Counts, own: str) -> str:
    return ", ".join(f"{value} on {count:,}" for value, count in group.counts[:MOST] if value != own)


def _numbers(group: Numbers, what: str, unit: str | None) -> str:
    least, lower, median, upper, most = (
        quantity(value, unit) for value in (group.least, group.lower, group.median, group.upper, group.most)
    )
    return f"of {group.n:,} {what} the median is {median}, half are from {lower} to {upper}, all from {least} to {most}"


def _score(score: float | None) -> str:
    return "and half of the others or more are the same" if score is None else f"modified z-score {score:.1f}"


def _change(one: Change) -> str:
    told = f"{one.name}: {one.before} -> {one.after}, between {_seen(one.last)} and {_seen(one.first)}"
    return f"{told} (judged by other rules or options)" if one.name == VERDICT and one.other_rules else told


def _difference(one: Difference) -> str:
    return f"{one.name} differs: {', '.join(f'{value} in {count:,}' for value, count in one.counts)}"


def _far(one: Far) -> str:
    value = " ".join(filter(None, (quantity(one.value, one.unit), one.window)))
    told = f"{one.title}: {value} in {_seen(one.seen)}"
    return f"{told}; {_numbers(one.distribution, 'of its bundles', one.unit)}, {_score(one.score)}"


def _seen(seen: Seen) -> str:
    if seen.recorded is None:
        return seen.path
    moment = seen.recorded.replace("T", " ").replace("Z", " UTC")
    return f"{seen.path} ({moment if moment.endswith('UTC') else f'{moment} local time'})"
