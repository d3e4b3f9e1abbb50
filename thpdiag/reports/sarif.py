"""SARIF 2.1.0 (OASIS), as GitHub code scanning, Jenkins and editors read it: one run, one result per finding.

GitHub wants a file and line for every result, at most 1,024 characters of a rule's full description and 25,000 results;
it knows a result again by `primaryLocationLineHash`, and the runs of one host by `automationDetails.id`. It shows a
result with `suppressions` as an open alert, so what is accepted is left out unless asked for. Precision and
problem.severity belong to the rule there; these are no security findings, and have no security-severity. What is
decided of each host, and what could not be read, are properties and notifications of the run.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from thpdiag.reports import verdict
from thpdiag.reports.excerpt import said_line
from thpdiag.reports.finding_text import few_lines
from thpdiag.reports.gravest import Gravest
from thpdiag.reports.json import written
from thpdiag.reports.located import Located, hashed, line, located
from thpdiag.reports.presentation import PLAIN, Presentation, Suppressed
from thpdiag.reports.remedy_text import remedy
from thpdiag.reports.severities import rank
from thpdiag.reports.visible import prose, visible

FORMAT = "sarif"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST_RESULTS = 25_000
LEFT_OUT = f"results are left out, the mildest first: GitHub takes {MOST_RESULTS:,} of a run, and 10 MB packed"
MOST_RELATED = 10
MOST_NOTIFICATIONS = 200
LEVELS = ("note", "warning", "error")
LONGEST = 1024  # characters of a rule's full description
LONGEST_ID = 100
PRECISION = {"confirmed": "very-high", "likely": "high", "possible": "low"}
_PROBLEM_SEVERITY = {"error": "error", "warning": "warning", "note": "recommendation"}


def render(document: Mapping[str, Any], presentation: Presentation = PLAIN) -> str:
    hosts, rules, problems = verdict.hosts(document), Rules(), Notifications()
    every = located(hosts, presentation)
    found = every[:MOST_RESULTS]
    for one in found:
        rules.add(one.finding)
    problems.add(hosts)
    notified, places = [*left_out(len(every) - len(found)), *problems.listed()], rules.places()
    whole = log(hosts[0]["tool"], rules.listed(), notified, f"thpdiag/{_category(hosts)}/")
    run = whole["runs"][0]
    run["results"] = [numbered(result(one, presentation), places) for one in found]
    run["properties"]["hosts"] = [told(host) for host in hosts]
    return written(whole)


def log(
    tool: Mapping[str, Any], rules: list[dict[str, Any]], notified: list[dict[str, Any]], category: str = ""
) -> dict[str, Any]:
    """The log of one run, without its results and hosts; without a category GitHub takes that of the upload."""
    driver = {"name": "thpdiag", "rules": rules, "properties": {"rulesDigest": visible(tool["rules_digest"] or "")}}
    run = {
        "tool": {"driver": driver | ({"version": visible(tool["version"])} if tool["version"] else {})},
        **({"automationDetails": {"id": category}} if category else {}),
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notified}],
        "columnKind": "unicodeCodePoints",
        "results": [],
        "properties": {"hosts": []},
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _category(hosts: Iterable[Mapping[str, Any]]) -> str:
    """The hosts of the run: the next bundle of the same ones replaces its results, another host's does not."""
    names = ",".join(sorted({quote(verdict.name(host), safe="", errors="replace") for host in hosts}))
    return names if len(names) <= LONGEST_ID else hashed(names)


def told(host: Mapping[str, Any]) -> dict[str, str]:
    """What is decided of a host."""
    status = prose(str(host["verdict"]["status"] or ""))
    return {"name": prose(verdict.name(host)), "status": status, "sentence": prose(verdict.sentence(host))}


class Rules:
    """Each rule once, as its gravest and surest finding has it."""

    def __init__(self) -> None:
        self._gravest: dict[str, Mapping[str, Any]] = {}
        self._surest: dict[str, str] = {}

    def add(self, finding: Mapping[str, Any]) -> None:
        name, order = visible(finding["rule"]), list(PRECISION)
        if name not in self._gravest or rank(finding["severity"]) > rank(self._gravest[name]["severity"]):
            self._gravest[name] = finding
        if finding["confidence"] in order:
            self._surest[name] = min(finding["confidence"], self._surest.get(name, order[-1]), key=order.index)

    def only(self, names: Container[str]) -> None:
        """Forget all others."""
        self._gravest = {name: finding for name, finding in self._gravest.items() if name in names}

    def listed(self) -> list[dict[str, Any]]:
        return [_rule(n, self._gravest[n], self._surest.get(n, "possible")) for n in sorted(self._gravest)]

    def places(self) -> dict[str, int]:
        """Where in that list each rule is."""
        return {name: index for index, name in enumerate(sorted(self._gravest))}


def _rule(rule: str, first: Mapping[str, Any], surest: str) -> dict[str, Any]:
    title = _unlinked(prose(first["title"] or first["mechanism"] or first["rule"]))
    means = _unlinked(prose(first["means"] or title))
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


def result(one: Located, presentation: Presentation) -> dict[str, Any]:
    """A result, all but the place of its rule among those of the run, which is known at the end."""
    finding = one.finding
    said = next((s for s in finding["evidence"] if (s["member"], line(s)) == (one.path, one.line)), None)
    bundle = [f"Bundle {prose(one.bundle)}"] if one.bundle else []
    found = {
        "ruleId": visible(finding["rule"]),
        "level": _level(finding),
        "message": {"text": _unlinked("\n".join([*few_lines(one.host, finding), *bundle]))},
        "locations": [_location(one.path, one.line, said) | _inside(one)],
        "partialFingerprints": {"primaryLocationLineHash": one.fingerprint},
        "properties": {
            "confidence": finding["confidence"] or "unknown", "severity": finding["severity"] or "unknown",
            "role": verdict.role(one.host, finding), "host": prose(verdict.name(one.host)),
            **({"bundle": prose(one.bundle)} if bundle else {}),
        },
    }  # fmt: skip
    others = [s for s in verdict.places(finding["evidence"]) if (s["member"], line(s)) != (one.path, one.line)]
    if others:
        related = enumerate(others[:MOST_RELATED], 1)
        found["relatedLocations"] = [
            {"id": n, **_location(s["member"], line(s), s), **_message(s)} for n, s in related
        ]  # fmt: skip
    if presentation.suppressed is Suppressed.SHOWN:
        found["suppressions"] = list(_suppressions(finding))
    return found


def numbered(found: Mapping[str, Any], places: Mapping[str, int]) -> dict[str, Any]:
    """A result with the place of its rule."""
    return {**found, "ruleIndex": places[found["ruleId"]]}


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


class Notifications:
    """The problems that may hide evidence, before the others; a bug of a reader is an error and comes first."""

    def __init__(self) -> None:
        self._kept: Gravest[dict[str, Any]] = Gravest(MOST_NOTIFICATIONS)

    def add(self, hosts: Iterable[Mapping[str, Any]], bundle: str = "") -> None:
        """The problems of hosts; all of them, or none."""
        before = f"{bundle}: " if bundle else ""
        told = []
        for problem in (problem for host in hosts for problem in host["problems"]):
            level = "error" if problem["kind"] == "bug" else "warning" if problem["hides"] else "note"
            text = f"{before}{problem['text'] or 'odd input'}"
            told.append((LEVELS.index(level), notification(level, text, problem["member"], line(problem))))
        for weight, one in told:
            self.put(weight, one)

    def put(self, weight: int, one: dict[str, Any]) -> None:
        """One of them; `weight` is the place of its level among LEVELS, or more."""
        self._kept.put(weight, one)

    def listed(self) -> list[dict[str, Any]]:
        count = self._kept.left_out
        return [*self._kept, *([notification("note", f"{count:,} more notifications are left out")] if count else [])]


def notification(level: str, text: str, member: str | None = None, at: int = 1) -> dict[str, Any]:
    """`level` is one of LEVELS, `member` a file that it is about."""
    said: dict[str, Any] = {"level": level, "message": {"text": _unlinked(prose(text))}}
    return said | ({"locations": [_location(member, at, None)]} if member else {})


def left_out(count: int) -> Iterator[dict[str, Any]]:
    """The notification of results that GitHub would not take."""
    if count:
        yield notification("warning", f"{count:,} {LEFT_OUT}")


def _unlinked(text: str) -> str:
    """Messages may hold links, `[words](target)`, and readers make them live: ours have none."""
    return text.replace("](", "] (")
