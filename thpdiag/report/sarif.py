"""SARIF 2.1.0 (OASIS), as GitHub code scanning, Jenkins and editors read it: one run, one result per finding.

GitHub wants a file and line for every result, at most 1,024 characters of a rule's full description, 25,000 results and
10 MB packed with gzip, of which it keeps the 5,000 gravest results; what does not fit is left out, the mildest first,
and a notification and a warning say how many. It knows a result again by `primaryLocationLineHash`, and the runs of one
host by `automationDetails.id`; of many bundles it takes that of the upload. It shows a result with `suppressions` as an
open alert, so what is accepted is left out unless asked for. Precision and problem.severity belong to the rule there;
these are no security findings, and have no security-severity. What is decided of each host, and what could not be read,
are properties and notifications of the run; with a bundle that nothing came of the run has not been successful.
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
    Gravest,
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
from thpdiag.report.messages import cited_line, few_lines, remedy_text
from thpdiag.report.presentation import Presentation, Suppressed, rank

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MAX_RESULTS = 25_000
MAX_PACKED_BYTES = 10_000_000
RESULTS_PER_CHECK = 100  # results between two looks at the size
SHOWN_RESULTS = 5_000  # results that GitHub shows of those that it takes
LEFT_OUT = f"results are left out, the mildest first: GitHub takes {MAX_RESULTS:,} of a run, and 10 MB packed"
MAX_RELATED = 10
MAX_NOTIFICATIONS = 200
MAX_HOSTS = 10_000
MAX_DESCRIPTION = 1024  # characters of a rule's full description
MAX_ID = 100
PRECISION = {"confirmed": "very-high", "likely": "high", "possible": "low"}
_PROBLEM_SEVERITY = {"error": "error", "warning": "warning", "note": "recommendation"}
_FAILED = len(LEVELS)  # before notifications of all levels
_OPEN_INDEX = '"ruleIndex": -1'  # no string can look like it: a quote within one is written as \"


class Sarif(Writer):
    """Results wait until it is known which fit; the place of each one's rule in the list of rules is put in last."""

    def __init__(self, presentation: Presentation, new_spool: Callable[[], Spool], *, many: bool = False) -> None:
        self._presentation = presentation
        self._results, self._hosts = new_spool(), new_spool()
        self._notifications: Gravest[dict[str, Any]] = Gravest(MAX_NOTIFICATIONS)
        self._gravest: dict[str, Finding] = {}  # by rule
        self._surest: dict[str, str] = {}
        self._count = self._characters = self._count_of_hosts = self._failed = self._left_out = 0
        self._tool: Tool | None = None
        self._category, self._many = "", many

    def add(self, bundle: Bundle) -> None:
        results = [(rank(one.finding.severity), self._result(one)) for one in bundle.found]
        name = {"bundle": prose(bundle.path)} if bundle.path else {}
        hosts = [to_json(_host(host) | name) for host in bundle.hosts]
        notified = [one for host in bundle.hosts for one in _problems(host, bundle.path)]
        for one in bundle.found:
            self._add_rule(one.finding)
        for weight, text in results:
            self._results.add(weight, text)
            self._characters += len(text)
        for text in hosts[: max(MAX_HOSTS - self._count_of_hosts, 0)]:
            self._hosts.add(0, text)
        if not bundle.whole:
            self._failed += not (bundle.hosts or bundle.stray)
            grade, what = ("warning", "incomplete result") if bundle.hosts else ("error", "no result")
            grade = "note" if bundle.stray else grade
            told = f"{bundle.path}: {what} ({bundle.why})"
            notified.append((_FAILED, _notification(grade, told, bundle.path)))
        for weight, one_notified in notified:
            self._notifications.put(weight, one_notified)
        self._count += len(results)
        self._count_of_hosts += len(hosts)
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
        if self._count - self._left_out > SHOWN_RESULTS:
            results = self._count - self._left_out
            yield f"SARIF: {results:,} results; GitHub shows the {SHOWN_RESULTS:,} worst"

    def _add_rule(self, finding: Finding) -> None:
        """Each rule once, as its gravest and surest finding has it."""
        name, order = visible(finding.rule), list(PRECISION)
        if name not in self._gravest or rank(finding.severity) > rank(self._gravest[name].severity):
            self._gravest[name] = finding
        if finding.confidence:
            self._surest[name] = min(finding.confidence, self._surest.get(name, order[-1]), key=order.index)

    def _result(self, one: Located) -> str:
        """The rule in a line of its own, and the result with an index to be filled in."""
        found = _result(one, self._presentation)
        return f"{found['ruleId']}\n{to_json({**found, 'ruleIndex': -1})}"

    def _frame(self) -> dict[str, Any]:
        """The log without its results and hosts."""
        tool = self._tool or Tool.model_construct()
        rules = [_rule(name, self._gravest[name], self._surest.get(name, "possible")) for name in sorted(self._gravest)]
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
        """What is left out, and the problems, those that may hide evidence before the others."""
        notified = [_notification("warning", f"{self._left_out:,} {LEFT_OUT}")] if self._left_out else []
        notified += self._notifications
        if more := self._notifications.left_out:
            notified.append(_notification("note", f"{more:,} more notifications are left out"))
        if (more := self._count_of_hosts - MAX_HOSTS) > 0:
            told = f"{more:,} of {self._count_of_hosts:,} hosts are not in the list of hosts"
            notified.append(_notification("note", told))
        return notified

    def _fitting(self) -> tuple[int, Mapping[str, int]]:
        """How many of the gravest results GitHub takes, and the places of their rules."""
        count = min(self._count, MAX_RESULTS)
        if self._characters > MAX_PACKED_BYTES:
            count = self._count_that_fit(count)
        names = {text.partition("\n")[0] for text in islice(self._results.texts(), count)}
        self._gravest = {name: finding for name, finding in self._gravest.items() if name in names}
        return count, self._rule_places()

    def _count_that_fit(self, most: int) -> int:
        """Packed as GitHub's uploader does it, with all that stands around them."""
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
        return {name: index for index, name in enumerate(sorted(self._gravest))}


render = partial(write_one, Sarif)


def _with_rule_index(text: str, places: Mapping[str, int]) -> str:
    rule, _, result = text.partition("\n")
    return result.replace(_OPEN_INDEX, f'"ruleIndex": {places[rule]}', 1)


def _category(hosts: Iterable[Result]) -> str:
    """The hosts of the run: the next bundle of the same ones replaces its results, another host's does not."""
    names = ",".join(sorted({quote(messages.name(host), safe="", errors="replace") for host in hosts}))
    return names if len(names) <= MAX_ID else hash_name(names)


def _host(host: Result) -> dict[str, str]:
    """What is decided of a host."""
    status, sentence = host.verdict.status, messages.sentence(host)
    return {"name": prose(messages.name(host)), "status": status, "sentence": prose(sentence)}


def _rule(rule: str, first: Finding, surest: str) -> dict[str, Any]:
    title = _without_links(prose(first.title or first.mechanism or first.rule))
    means = _without_links(prose(first.means or title))
    steps = [line for advice in first.remedies for line in remedy_text(advice)]
    short = means if len(means) <= MAX_DESCRIPTION else f"{means[: MAX_DESCRIPTION - 4]} ..."
    return {
        "id": rule,
        "shortDescription": {"text": title[:MAX_DESCRIPTION]},
        "fullDescription": {"text": short},
        "help": {"text": _without_links("\n".join([means, *steps]))},
        "defaultConfiguration": {"level": level(first)},
        "properties": {
            "precision": PRECISION[surest],
            "problem.severity": _PROBLEM_SEVERITY[level(first)],
            "tags": list(dict.fromkeys(["performance", "huge-pages", visible(first.mechanism or "unknown")])),
        },
    }


def _result(one: Located, presentation: Presentation) -> dict[str, Any]:
    """A result, all but the place of its rule among those of the run."""
    finding, host = one.finding, prose(messages.name(one.host))
    bundle = prose(one.bundle)
    here = next((e for e in finding.evidence if (e.member, line_number(e)) == (one.path, one.line)), None)
    message = [*few_lines(one.host, finding), *([f"Bundle {bundle}"] if bundle else [])]
    inside = "/".join(filter(None, [host, prose(finding.entity or "")]))  # what on the host it is about
    found = {
        "ruleId": visible(finding.rule),
        "level": level(finding),
        "message": {"text": _without_links("\n".join(message))},
        "locations": [
            _location(one.file, one.line, here) | {"logicalLocations": [{"fullyQualifiedName": inside}]}
        ],
        "partialFingerprints": {"primaryLocationLineHash": one.fingerprint},
        "properties": {
            "confidence": finding.confidence or "unknown", "severity": finding.severity or "unknown",
            "role": messages.role(one.host, finding), "host": host, **({"bundle": bundle} if bundle else {}),
        },
    }  # fmt: skip
    others = [e for e in messages.places(finding.evidence) if (e.member, line_number(e)) != (one.path, one.line)]
    if others:
        found["relatedLocations"] = [
            {"id": number, **_location(file_of(one.bundle, e.member or ""), line_number(e), e),
             "message": {"text": _without_links(prose(e.text or "evidence"))}}
            for number, e in enumerate(others[:MAX_RELATED], 1)
        ]  # fmt: skip
    if presentation.suppressed is Suppressed.SHOWN:
        found["suppressions"] = []
        if mark := finding.suppressed:
            why = prose(f"{mark.reason or 'no reason given'}{f' (until {mark.expires})' if mark.expires else ''}")
            found["suppressions"] = [{"kind": "external", "status": "accepted", "justification": why}]
    return found


def _location(member: str, line: int, evidence: Evidence | None) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": line}
    if evidence and (text := cited_line(evidence)):
        region["snippet"] = {"text": visible(text)}
    uri = quote(member.lstrip("/"), safe="/", errors="replace") or "input"
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}


def _problems(host: Result, bundle: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The problems of a host as notifications with their weight; a bug of a reader is an error."""
    for problem in host.problems:
        grade = "error" if problem.kind == "bug" else "warning" if problem.hides else "note"
        text = ": ".join(filter(None, [bundle, problem.text or "odd input"]))
        place = file_of(bundle, problem.member) if problem.member else None
        yield LEVELS.index(grade), _notification(grade, text, place, line_number(problem))


def _notification(grade: str, text: str, member: str | None = None, line: int = 1) -> dict[str, Any]:
    """`level` is one of LEVELS, `member` a file that it is about."""
    told: dict[str, Any] = {"level": grade, "message": {"text": _without_links(prose(text))}}
    return told | ({"locations": [_location(member, line, None)]} if member else {})


def _without_links(text: str) -> str:
    """Messages may hold links, `[words](target)`, and readers make them live: ours have none."""
    return text.replace("](", "] (")
