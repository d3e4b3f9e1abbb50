"""SARIF 2.1.0 (OASIS), as GitHub code scanning, Jenkins and editors read it: one run, one result per finding.

GitHub requires a file and line for every result, and accepts at most 1,024 characters of a rule's full description,
25,000 results and 10 MB packed with gzip, of which it keeps the 5,000 most severe results. What exceeds this is left
out, the least severe first, and a notification and a warning state how many. GitHub recognizes a result by
`primaryLocationLineHash`, and the runs of one host by `automationDetails.id`; for several bundles it uses that of the
upload. It shows a result with `suppressions` as an open alert, so accepted findings are left out unless requested.
Precision and problem.severity belong to the rule there; these are no security findings and have no security-severity.
The verdict of each host, and problems while reading, are properties and notifications of the run; a bundle without a
result makes the run unsuccessful.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import quote

from thpdiag.model.result import Evidence, Finding, Result, Tool
from thpdiag.report import messages
from thpdiag.report.ci import (
    LEVELS,
    Bundle,
    HighestWeights,
    Located,
    Spool,
    Writer,
    file_of,
    hash_name,
    level,
    line_number,
    write_one,
)
from thpdiag.report.escaping import prose, visible
from thpdiag.report.json import fill_lists, json_list, to_json
from thpdiag.report.messages import annotation_lines, cited_line, remedy_text
from thpdiag.report.presentation import Presentation, Suppressed, rank

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MAX_RESULTS = 25_000
MAX_PACKED_BYTES = 10_000_000
RESULTS_PER_CHECK = 100  # results between two checks of the size
MAX_SHOWN_RESULTS = 5_000  # of the accepted results
LEFT_OUT = f"results are left out, the mildest first: GitHub takes {MAX_RESULTS:,} of a run, and 10 MB packed"
MAX_RELATED = 10
MAX_NOTIFICATIONS = 200
MAX_HOSTS = 10_000
MAX_DESCRIPTION = 1024  # characters of a rule's full description
MAX_ID = 100
PRECISION = {"confirmed": "very-high", "likely": "high", "possible": "low"}
_PROBLEM_SEVERITY = {"error": "error", "warning": "warning", "note": "recommendation"}
_FAILED = len(LEVELS)  # weight above all levels
_OPEN_INDEX = '"ruleIndex": -1'  # no string can contain it: a quote within one is written as \"


class Sarif(Writer):
    """Results are kept until it is known which fit; the index of their rules is filled in last."""

    def __init__(self, presentation: Presentation, new_spool: Callable[[], Spool], *, many: bool = False) -> None:
        self._presentation = presentation
        self._results, self._hosts = new_spool(), new_spool()
        self._notifications: HighestWeights[dict[str, Any]] = HighestWeights(MAX_NOTIFICATIONS)
        self._worst: dict[str, Finding] = {}  # by rule
        self._confidence: dict[str, str] = {}
        self._count = self._characters = self._host_count = self._failed = self._left_out = 0
        self._tool: Tool | None = None
        self._category, self._many = "", many

    def add(self, bundle: Bundle) -> None:
        results = [(rank(located.finding.severity), self._result(located)) for located in bundle.findings]
        name = {"bundle": prose(bundle.path)} if bundle.path else {}
        hosts = [to_json(_host(host) | name) for host in bundle.hosts]
        notified = [located for host in bundle.hosts for located in _problems(host, bundle.path)]
        for located in bundle.findings:
            self._add_rule(located.finding)
        for weight, text in results:
            self._results.add(weight, text)
            self._characters += len(text)
        for text in hosts[: max(MAX_HOSTS - self._host_count, 0)]:
            self._hosts.add(0, text)
        if not bundle.is_complete:
            self._failed += not (bundle.hosts or bundle.is_stray)
            grade, outcome = ("warning", "incomplete result") if bundle.hosts else ("error", "no result")
            grade = "note" if bundle.is_stray else grade
            message = f"{bundle.path}: {outcome} ({bundle.outcome})"
            notified.append((_FAILED, _notification(grade, message, bundle.path)))
        for weight, notification in notified:
            self._notifications.put(weight, notification)
        self._count += len(results)
        self._host_count += len(hosts)
        self._tool = self._tool or bundle.tool
        self._category = "" if self._many else f"thpdiag/{_category(bundle.hosts)}/"

    def pieces(self) -> Iterator[str]:
        count, places = self._fitting()
        self._left_out = self._count - count
        texts = (_with_rule_index(text, places) for text in islice(self._results.texts(), count))
        yield from fill_lists(self._frame(), {"results": texts, "hosts": self._hosts.texts()})

    def warnings(self) -> Iterator[str]:
        if self._left_out:
            yield f"SARIF: {self._left_out:,} {LEFT_OUT}"
        if self._count - self._left_out > MAX_SHOWN_RESULTS:
            results = self._count - self._left_out
            yield f"SARIF: {results:,} results; GitHub shows the {MAX_SHOWN_RESULTS:,} worst"

    def _add_rule(self, finding: Finding) -> None:
        """Take each rule once, with its most severe finding and its highest confidence."""
        name, order = visible(finding.rule), list(PRECISION)
        if name not in self._worst or rank(finding.severity) > rank(self._worst[name].severity):
            self._worst[name] = finding
        if finding.confidence:
            self._confidence[name] = min(finding.confidence, self._confidence.get(name, order[-1]), key=order.index)

    def _result(self, located: Located) -> str:
        """Return the rule on its own line, and the result with an index to be filled in."""
        result = _result(located, self._presentation)
        return f"{result['ruleId']}\n{to_json({**result, 'ruleIndex': -1})}"

    def _frame(self) -> dict[str, Any]:
        """Return the log without its results and hosts."""
        tool = self._tool or Tool.model_construct()
        rules = [_rule(name, self._worst[name], self._confidence.get(name, "possible")) for name in sorted(self._worst)]
        driver = {"name": "thpdiag", "rules": rules, "properties": {"rulesDigest": visible(tool.rules_digest or "")}}
        invocation = {"executionSuccessful": not self._failed, "toolExecutionNotifications": self._tool_notifications()}
        run = {
            "tool": {"driver": driver | ({"version": visible(tool.version)} if tool.version else {})},
            **({"automationDetails": {"id": self._category}} if self._category else {}),
            "invocations": [invocation],
            "columnKind": "unicodeCodePoints",
            "results": [],
            "properties": {"hosts": []},
        }
        return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}

    def _tool_notifications(self) -> list[dict[str, Any]]:
        """Return what is left out, and the problems, those that may hide evidence first."""
        notified = [_notification("warning", f"{self._left_out:,} {LEFT_OUT}")] if self._left_out else []
        notified += self._notifications
        if more := self._notifications.left_out:
            notified.append(_notification("note", f"{more:,} more notifications are left out"))
        if (more := self._host_count - MAX_HOSTS) > 0:
            text = f"{more:,} of {self._host_count:,} hosts are not in the list of hosts"
            notified.append(_notification("note", text))
        return notified

    def _fitting(self) -> tuple[int, Mapping[str, int]]:
        """Return how many of the most severe results GitHub accepts, and the indices of their rules."""
        count = min(self._count, MAX_RESULTS)
        if self._characters > MAX_PACKED_BYTES:
            count = self._count_that_fit(count)
        names = {text.partition("\n")[0] for text in islice(self._results.texts(), count)}
        self._worst = {name: finding for name, finding in self._worst.items() if name in names}
        return count, self._rule_places()

    def _count_that_fit(self, most: int) -> int:
        """Count the results that fit when packed as GitHub's uploader does, with everything around them."""
        packer, size, fitting = zlib.compressobj(wbits=31), 0, 0
        for piece in fill_lists(self._frame(), {"results": (), "hosts": self._hosts.texts()}):
            size += len(packer.compress(piece.encode()))
        places, texts = self._rule_places(), islice(self._results.texts(), most)
        while portion := list(islice(texts, RESULTS_PER_CHECK)):
            text = "".join(json_list([_with_rule_index(text, places) for text in portion], depth=3))
            size += len(packer.compress(text.encode())) + len(packer.flush(zlib.Z_SYNC_FLUSH))
            if size > MAX_PACKED_BYTES:
                break
            fitting += len(portion)
        return fitting

    def _rule_places(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(sorted(self._worst))}


render = partial(write_one, Sarif)


def _with_rule_index(text: str, places: Mapping[str, int]) -> str:
    rule, _, result = text.partition("\n")
    return result.replace(_OPEN_INDEX, f'"ruleIndex": {places[rule]}', 1)


def _category(hosts: Iterable[Result]) -> str:
    """Return an id of the hosts of the run: the next bundle of the same hosts replaces its results."""
    names = ",".join(sorted({quote(messages.name(host), safe="", errors="replace") for host in hosts}))
    return names if len(names) <= MAX_ID else hash_name(names)


def _host(host: Result) -> dict[str, str]:
    """Return the verdict of a host."""
    status, sentence = host.verdict.status, messages.sentence(host)
    return {"name": prose(messages.name(host)), "status": status, "sentence": prose(sentence)}


def _rule(rule: str, finding: Finding, confidence: str) -> dict[str, Any]:
    title = _without_links(prose(finding.title or finding.mechanism or finding.rule))
    meaning = _without_links(prose(finding.means or title))
    steps = [line for advice in finding.remedies for line in remedy_text(advice)]
    short = meaning if len(meaning) <= MAX_DESCRIPTION else f"{meaning[: MAX_DESCRIPTION - 4]} ..."
    return {
        "id": rule,
        "shortDescription": {"text": title[:MAX_DESCRIPTION]},
        "fullDescription": {"text": short},
        "help": {"text": _without_links("\n".join([meaning, *steps]))},
        "defaultConfiguration": {"level": level(finding)},
        "properties": {
            "precision": PRECISION[confidence],
            "problem.severity": _PROBLEM_SEVERITY[level(finding)],
            "tags": list(dict.fromkeys(["performance", "huge-pages", visible(finding.mechanism or "unknown")])),
        },
    }


def _result(located: Located, presentation: Presentation) -> dict[str, Any]:
    """Return a result without the index of its rule."""
    finding, host = located.finding, prose(messages.name(located.host))
    bundle = prose(located.bundle)
    cited = next((e for e in finding.evidence if (e.member, line_number(e)) == (located.path, located.line)), None)
    message = [*annotation_lines(located.host, finding), *([f"Bundle {bundle}"] if bundle else [])]
    inside = "/".join(filter(None, [host, prose(finding.entity or "")]))
    result = {
        "ruleId": visible(finding.rule),
        "level": level(finding),
        "message": {"text": _without_links("\n".join(message))},
        "locations": [
            _location(located.file, located.line, cited) | {"logicalLocations": [{"fullyQualifiedName": inside}]}
        ],
        "partialFingerprints": {"primaryLocationLineHash": located.fingerprint},
        "properties": {
            "confidence": finding.confidence or "unknown", "severity": finding.severity or "unknown",
            "role": messages.role(located.host, finding), "host": host, **({"bundle": bundle} if bundle else {}),
        },
    }  # fmt: skip
    place = (located.path, located.line)
    others = [e for e in messages.places(finding.evidence) if (e.member, line_number(e)) != place]
    if others:
        result["relatedLocations"] = [
            {"id": number, **_location(file_of(located.bundle, e.member or ""), line_number(e), e),
             "message": {"text": _without_links(prose(e.text or "evidence"))}}
            for number, e in enumerate(others[:MAX_RELATED], 1)
        ]  # fmt: skip
    if presentation.suppressed is Suppressed.SHOWN:
        result["suppressions"] = []
        if acceptance := finding.suppressed:
            until = f" (until {acceptance.expires})" if acceptance.expires else ""
            reason = prose(f"{acceptance.reason or 'no reason given'}{until}")
            result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": reason}]
    return result


def _location(member: str, line: int, evidence: Evidence | None) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": line}
    if evidence and (text := cited_line(evidence)):
        region["snippet"] = {"text": visible(text)}
    uri = quote(member.lstrip("/"), safe="/", errors="replace") or "input"
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}


def _problems(host: Result, bundle: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the problems of a host as notifications with their weight; a bug of a parser is an error."""
    for problem in host.problems:
        grade = "error" if problem.kind == "bug" else "warning" if problem.hides else "note"
        text = ": ".join(filter(None, [bundle, problem.text or "odd input"]))
        place = file_of(bundle, problem.member) if problem.member else None
        yield LEVELS.index(grade), _notification(grade, text, place, line_number(problem))


def _notification(grade: str, text: str, member: str | None = None, line: int = 1) -> dict[str, Any]:
    """Return a notification of level `grade`, one of LEVELS, about the file `member` if there is one."""
    notification: dict[str, Any] = {"level": grade, "message": {"text": _without_links(prose(text))}}
    return notification | ({"locations": [_location(member, line, None)]} if member else {})


def _without_links(text: str) -> str:
    """Break links, `[words](target)`, which viewers of messages would make live."""
    return text.replace("](", "] (")
