"""SARIF 2.1.0 (OASIS), as GitHub code scanning, Jenkins and editors read it: one run, one result per finding.

GitHub wants a file and line for every result, at most 1,024 characters of a rule's full description and 25,000 results;
it knows a result again by `primaryLocationLineHash`, and the runs of one host by `automationDetails.id`. It shows a
result with `suppressions` as an open alert, so what is accepted is left out unless asked for. Precision and
problem.severity belong to the rule there; these are no security findings, and have no security-severity. What is
decided of each host, and what could not be read, are properties and notifications of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from thpdiag.reports import verdict
from thpdiag.reports.excerpt import said_line
from thpdiag.reports.finding_text import few_lines
from thpdiag.reports.json import written
from thpdiag.reports.located import Located, hashed, line, located
from thpdiag.reports.presentation import PLAIN, Presentation, Suppressed
from thpdiag.reports.remedy_text import remedy
from thpdiag.reports.severities import rank
from thpdiag.reports.visible import prose, visible

FORMAT = "sarif"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST_RESULTS = 25_000
MOST_RELATED = 10
MOST_NOTIFICATIONS = 200
LONGEST = 1024  # characters of a rule's full description
LONGEST_ID = 100
PRECISION = {"confirmed": "very-high", "likely": "high", "possible": "low"}
_PROBLEM_SEVERITY = {"error": "error", "warning": "warning", "note": "recommendation"}


def render(document: Mapping[str, Any], presentation: Presentation = PLAIN) -> str:
    found = located(document, presentation)[:MOST_RESULTS]
    hosts = verdict.hosts(document)
    rules = _rules(found)
    places = {rule["id"]: index for index, rule in enumerate(rules)}
    tool = hosts[0]["tool"]
    driver = {"name": "thpdiag", "rules": rules, "properties": {"rulesDigest": visible(tool["rules_digest"] or "")}}
    run = {
        "tool": {"driver": driver | ({"version": visible(tool["version"])} if tool["version"] else {})},
        "automationDetails": {"id": f"thpdiag/{_category(hosts)}/"},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": list(_notifications(hosts))}],
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, places, presentation) for one in found],
        "properties": {"hosts": [_host(host) for host in hosts]},
    }  # fmt: skip
    return written({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _category(hosts: Iterable[Mapping[str, Any]]) -> str:
    """The hosts of the run: the next bundle of the same ones replaces its results, another host's does not."""
    names = ",".join(sorted({quote(verdict.name(host), safe="", errors="replace") for host in hosts}))
    return names if len(names) <= LONGEST_ID else hashed(names)


def _host(host: Mapping[str, Any]) -> dict[str, str]:
    sentence, status = prose(verdict.sentence(host)), host["verdict"]["status"]
    return {"name": prose(verdict.name(host)), "status": status, "sentence": sentence}


def _rules(found: Iterable[Located]) -> list[dict[str, Any]]:
    """Each rule once, as its gravest and surest finding has it."""
    by_rule: dict[str, list[Mapping[str, Any]]] = {}
    for one in found:
        by_rule.setdefault(visible(one.finding["rule"]), []).append(one.finding)
    return [_rule(rule, findings) for rule, findings in sorted(by_rule.items())]


def _rule(rule: str, findings: list[Mapping[str, Any]]) -> dict[str, Any]:
    first = findings[0]
    title = _unlinked(prose(first["title"] or first["mechanism"] or first["rule"]))
    means = _unlinked(prose(first["means"] or title))
    order = list(PRECISION)
    surest = min((f["confidence"] for f in findings if f["confidence"] in order), key=order.index, default="possible")
    steps = [line for advice in first["remedies"] for line in remedy(advice)]
    properties = {
        "precision": PRECISION[surest],
        "problem.severity": _PROBLEM_SEVERITY[_level(first)],
        "tags": list(dict.fromkeys(["performance", "huge-pages", visible(first["mechanism"] or "unknown")])),
    }
    return {
        "id": rule,
        "shortDescription": {"text": title[:LONGEST]},
        "fullDescription": {"text": means if len(means) <= LONGEST else f"{means[: LONGEST - 4]} ..."},
        "help": {"text": _unlinked("\n".join([means, *steps]))},
        "defaultConfiguration": {"level": _level(first)},
        "properties": properties,
    }


def _level(finding: Mapping[str, Any]) -> str:
    severity = rank(finding["severity"])
    return "error" if severity >= rank("high") else "warning" if severity >= rank("medium") else "note"


def _result(one: Located, places: Mapping[str, int], presentation: Presentation) -> dict[str, Any]:
    finding, rule = one.finding, visible(one.finding["rule"])
    said = next((s for s in finding["evidence"] if (s["member"], line(s)) == (one.path, one.line)), None)
    result = {
        "ruleId": rule,
        "ruleIndex": places[rule],
        "level": _level(finding),
        "message": {"text": _unlinked("\n".join(few_lines(one.host, finding)))},
        "locations": [_location(one.path, one.line, said) | _inside(one)],
        "partialFingerprints": {"primaryLocationLineHash": one.fingerprint},
        "properties": {
            "confidence": finding["confidence"] or "unknown", "severity": finding["severity"] or "unknown",
            "role": verdict.role(one.host, finding), "host": prose(verdict.name(one.host)),
        },
    }  # fmt: skip
    others = [s for s in verdict.places(finding["evidence"]) if (s["member"], line(s)) != (one.path, one.line)]
    if others:
        related = enumerate(others[:MOST_RELATED], 1)
        result["relatedLocations"] = [
            {"id": n, **_location(s["member"], line(s), s), **_message(s)} for n, s in related
        ]
    if presentation.suppressed is Suppressed.SHOWN:
        result["suppressions"] = list(_suppressions(finding))
    return result


def _inside(one: Located) -> dict[str, Any]:
    """The host, and what on the host it is about."""
    names = filter(None, [prose(verdict.name(one.host)), prose(one.finding["entity"] or "")])
    return {"logicalLocations": [{"fullyQualifiedName": "/".join(names)}]}


def _message(said: Mapping[str, Any]) -> dict[str, Any]:
    return {"message": {"text": _unlinked(prose(said["text"] or "evidence"))}}


def _location(member: str, at: int, said: Mapping[str, Any] | None) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": at}
    if said and (text := said_line(said)):
        region["snippet"] = {"text": visible(text)}
    uri = quote(member.lstrip("/"), safe="/", errors="replace") or "input"
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}


def _suppressions(finding: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if said := finding["suppressed"]:
        until = f" (until {said['expires']})" if said["expires"] else ""
        why = prose(f"{said['reason'] or 'no reason given'}{until}")
        yield {"kind": "external", "status": "accepted", "justification": why}


def _notifications(hosts: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The problems that may hide evidence, then the others; a bug of a reader is an error."""
    problems = [problem for host in hosts for problem in host["problems"]]
    problems.sort(key=lambda problem: (problem["kind"] != "bug", not problem["hides"]))
    for problem in problems[:MOST_NOTIFICATIONS]:
        level = "error" if problem["kind"] == "bug" else "warning" if problem["hides"] else "note"
        told: dict[str, Any] = {"level": level, "message": {"text": _unlinked(prose(problem["text"] or "odd input"))}}
        if problem["member"]:
            told["locations"] = [_location(problem["member"], line(problem), None)]
        yield told


def _unlinked(text: str) -> str:
    """Messages may hold links, `[words](target)`, and readers make them live: ours have none."""
    return text.replace("](", "] (")
