"""Annotations of GitHub Actions: lines `::error file=..,line=..,title=..::message`, which the runner takes from stdout.

It shows at most ten of each kind and step, so no more are printed, the gravest first. A message has %, CR and LF as
%25, %0D and %0A, a property also : and , as %3A and %2C. A host whose cause is not among them gets a
notice with its verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from thpdiag.reports import verdict
from thpdiag.reports.finding_text import few_lines, headline
from thpdiag.reports.located import Located, accepted, located
from thpdiag.reports.presentation import PLAIN, Presentation
from thpdiag.reports.severities import rank
from thpdiag.reports.visible import prose, visible

FORMAT = "github"
MOST = 10
KINDS = ("error", "warning", "notice")


def render(document: Mapping[str, Any], presentation: Presentation = PLAIN) -> str:
    found = located(document, presentation)
    told = [(_kind(one.finding), _annotation(one)) for one in found]
    by_kind = {kind: [text for wanted, text in told if wanted == kind] for kind in KINDS}
    hosts = [host for host in verdict.hosts(document) if _is_silent(host, found)]
    by_kind["notice"] = [*map(_verdict, hosts), *by_kind["notice"]]
    left_out = sum(max(len(texts) - MOST, 0) for texts in by_kind.values())
    every = list(chain.from_iterable(texts[:MOST] for texts in by_kind.values()))
    return "\n".join([*every, *_rest(left_out)]) + "\n"


def _is_silent(host: Mapping[str, Any], found: list[Located]) -> bool:
    """Whether no annotation tells the verdict: there is no cause, or somebody accepted it."""
    told = {(one.host["case"], one.finding["rule"]) for one in found}
    return (host["case"], host["verdict"]["rule"]) not in told


def _kind(finding: Mapping[str, Any]) -> str:
    if finding["suppressed"]:
        return "notice"
    severity = rank(finding["severity"])
    return "error" if severity >= rank("high") else "warning" if severity >= rank("medium") else "notice"


def _annotation(one: Located) -> str:
    title = f"{visible(one.finding['rule'])} {headline(one.finding)}"
    properties = {"file": visible(one.path), "line": str(one.line), "title": title}
    return _command(_kind(one.finding), properties, "\n".join(few_lines(one.host, one.finding)))


def _verdict(host: Mapping[str, Any]) -> str:
    title = prose(f"thpdiag {verdict.name(host)}")
    finding = verdict.leading(host)
    aside = f" ({accepted(finding)})" if finding and finding["suppressed"] else ""
    return _command("notice", {"title": title}, prose(f"{verdict.sentence(host)}{aside}"))


def _command(kind: str, properties: Mapping[str, str], message: str) -> str:
    told = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{kind} {told}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _rest(count: int) -> Iterator[str]:
    """A line that is no command, for the log."""
    if count:
        yield f"thpdiag: {count:,} more, which GitHub would not show; the text report has all"
