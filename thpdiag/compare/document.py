"""The comparison document: one JSON-able mapping that all its outputs are made from (comparison.schema.json).

Same documents, same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from thpdiag.compare.answer import answer
from thpdiag.compare.change import Change, change, per_work
from thpdiag.compare.figures import SHARE, Figure, Host
from thpdiag.compare.judged import Finding, Judged, judge
from thpdiag.compare.notes import notes
from thpdiag.compare.paired import named, paired
from thpdiag.compare.settings import facts, settings
from thpdiag.compare.sides import Pair, key
from thpdiag.compare.timelines import timeline
from thpdiag.compare.wording import named as called
from thpdiag.reports.severities import rank
from thpdiag.reports.verdict import distinct, hosts, leading, sentence

SCHEMA = "thpdiag/comparison/1"
STATUSES = ("worse", "new", "cannot_tell", "unchanged", "improved", "fixed")
MOST_EVIDENCE = 3
_FELT = 0.02  # of the samples: a smaller share of stacks on both sides is not listed


def document(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The comparison of two result documents. Hosts in the order of BEFORE, the worst first."""
    found = paired(hosts(before), hosts(after))
    rows = [_host(Pair(old, new, same)) for old, new, same in found.pairs]
    alone = [
        {"side": side, "name": named(host), "sentence": sentence(host), "status": host["verdict"]["status"]}
        for side, host in found.alone
    ]
    sides = (*hosts(before), *hosts(after))
    told = {"redacted": True} if all(one["tool"]["redacted"] for one in sides) else {}
    return {"schema": SCHEMA, **told, "hosts": rows, "alone": alone}


def _host(pair: Pair) -> dict[str, Any]:
    judged = _judged(pair)
    changed, only = _figures(pair)
    return {
        "name": named(pair.before) or named(pair.after), "same": pair.same,
        "answer": answer(pair, judged),
        "before": _side(pair.before), "after": _side(pair.after),
        "load": {"word": pair.load.word, "text": pair.load.text, "work": _round(pair.load.work)},
        "notes": notes(pair),
        "facts": facts(pair), "settings": settings(pair),
        "findings": [_finding(one, pair) for one in judged],
        "figures": changed, **only,
        "timelines": {"before": timeline(pair.before), "after": timeline(pair.after)},
    }  # fmt: skip


def _judged(pair: Pair) -> list[Judged]:
    """Findings of both sides: those that lead first, then the worst; remarks on the context are none."""
    old, new = ({key(f): f for f in reversed(_told(one))} for one in (pair.before, pair.after))
    judged = [judge(old.get(name), new.get(name), pair) for name in dict.fromkeys((*old, *new))]
    leaders = [one["verdict"]["rule"] for one in (pair.before, pair.after)]

    def order(one: Judged) -> tuple[bool, bool, int, int, str, str]:
        rule = one.finding["rule"]
        return (
            rule != leaders[0], rule != leaders[1], -rank(one.finding["severity"]), STATUSES.index(one.status),
            *key(one.finding),
        )  # fmt: skip

    return sorted(judged, key=order)


def _told(host: Host) -> list[Finding]:
    return [finding for finding in host["findings"] if finding["role"] != "context"]


def _side(host: Host) -> dict[str, Any]:
    verdict, lead = host["verdict"], leading(host)
    return {
        "case": host["case"], "status": verdict["status"], "rule": verdict["rule"], "mechanism": verdict["mechanism"],
        "severity": verdict["severity"], "confidence": verdict["confidence"], "sentence": sentence(host),
        "title": lead["title"] if lead else None,
        "version": host["tool"]["version"], "rules_digest": host["tool"]["rules_digest"],
    }  # fmt: skip


def _finding(judged: Judged, pair: Pair) -> dict[str, Any]:
    finding, rule = judged.finding, judged.finding["rule"]
    out: list[dict[str, Any]] = next((one["evidence"] for one in pair.after["ruled_out"] if one["rule"] == rule), [])
    return {
        "rule": rule, "mechanism": finding["mechanism"], "title": finding["title"], "severity": finding["severity"],
        "role": finding["role"], "entity": finding["entity"], "status": judged.status, "reason": judged.reason,
        "suppressed": finding["suppressed"],
        "outcomes": dict(zip(("before", "after"), pair.outcome(rule), strict=True)),
        "numbers": [number(one) for one in judged.changes],
        "evidence": {
            "before": _evidence(judged.before["evidence"] if judged.before else []),
            "after": _evidence(judged.after["evidence"] if judged.after else out),
        },
    }  # fmt: skip


def _evidence(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Measurements before settings, each figure once."""
    ordered = sorted(distinct(rows), key=lambda row: row["kind"] in ("policy", "state", "action", "log"))
    return [{"text": row["text"], "member": row["member"], "line": row["line"]} for row in ordered[:MOST_EVIDENCE]]


def _figures(pair: Pair) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """All figures that both sides have, those first that moved; and the names of those that only one has."""
    old, new = pair.sides
    shared = [
        change(before, after, pair.load.work)
        for name in sorted({*old.figures, *new.figures})
        if (before := old.get(name)) and (after := new.get(name)) and _shown(before, after)
    ]
    shared.sort(key=lambda one: (one.direction not in ("up", "down"), one.before.name))
    known = {one.before.name for one in shared}
    only = {
        f"only_{side}": sorted(called(name) for name in one.figures if name not in known and not name.startswith(SHARE))
        for side, one in (("before", old), ("after", new))
    }
    return [number(one) for one in shared], only


def _shown(before: Figure, after: Figure) -> bool:
    return not before.name.startswith(SHARE) or max(before.value, after.value) >= _FELT


def number(one: Change) -> dict[str, Any]:
    """A figure on both sides, with the effect."""
    return {
        "name": one.before.name, "text": called(one.before.name), "unit": one.before.unit,
        "before": _value(one.before), "after": _value(one.after),
        "difference": _round(one.difference), "ratio": _round(one.ratio), "change": one.direction, "alone": one.alone,
        "per_work": per_work(one.before),
    }  # fmt: skip


def _value(figure: Figure) -> dict[str, Any]:
    return {
        "value": _round(figure.value), "samples": figure.samples, "min": _round(figure.low),
        "max": _round(figure.high), "member": figure.member or None, "line": figure.line,
    }  # fmt: skip


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def failing(comparison: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Findings that are new or worse."""
    for host in comparison["hosts"]:
        yield from (one for one in host["findings"] if one["status"] in ("new", "worse"))
