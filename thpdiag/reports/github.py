"""Annotations of GitHub Actions: lines `::error file=..,line=..,title=..::message`, which the runner takes from stdout.

It shows at most ten of each kind and step, so no more are printed, the gravest first. A message has %, CR and LF as
%25, %0D and %0A, a property also : and , as %3A and %2C. A host whose cause is not among them gets a
notice with its verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from thpdiag.reports import verdict
from thpdiag.reports.finding_text import few_lines, headline
from thpdiag.reports.gravest import Gravest
from thpdiag.reports.located import Located, accepted, located
from thpdiag.reports.presentation import PLAIN, Presentation
from thpdiag.reports.severities import SEVERITIES, rank
from thpdiag.reports.visible import prose, visible

FORMAT = "github"
MOST = 10
KINDS = ("error", "warning", "notice")
VERDICT = len(SEVERITIES)  # before a finding of any severity


class Annotations:
    """Those that are shown, and how many are not."""

    def __init__(self) -> None:
        self._kept: dict[str, Gravest[str]] = {kind: Gravest(MOST) for kind in KINDS}

    def add(self, hosts: Iterable[Mapping[str, Any]], found: Sequence[Located], bundle: str = "") -> None:
        """The findings of hosts, and the verdicts that none of these tells; all of them, or none."""
        told = [("notice", VERDICT, _verdict(host, bundle)) for host in hosts if _is_silent(host, found)]
        told += [(_kind(one.finding), rank(one.finding["severity"]), _annotation(one)) for one in found]
        for kind, weight, text in told:
            self.put(kind, weight, text)

    def put(self, kind: str, weight: int, text: str) -> None:
        """One annotation; `weight` is the rank of its severity, or VERDICT before all of these."""
        self._kept[kind].put(weight, text)

    def lines(self) -> Iterator[str]:
        yield from (f"{text}\n" for kept in self._kept.values() for text in kept)
        if left_out := sum(kept.left_out for kept in self._kept.values()):  # a line that is no command, for the log
            yield f"thpdiag: {left_out:,} more, which GitHub would not show; the text report has all\n"


def render(document: Mapping[str, Any], presentation: Presentation = PLAIN) -> str:
    hosts, told = verdict.hosts(document), Annotations()
    told.add(hosts, located(hosts, presentation))
    return "".join(told.lines()) or "\n"


def _is_silent(host: Mapping[str, Any], found: Iterable[Located]) -> bool:
    """Whether no annotation tells the verdict: there is no cause, or somebody accepted it."""
    return not any(one.host is host and one.finding["rule"] == host["verdict"]["rule"] for one in found)


def _kind(finding: Mapping[str, Any]) -> str:
    if finding["suppressed"]:
        return "notice"
    severity = rank(finding["severity"])
    return "error" if severity >= rank("high") else "warning" if severity >= rank("medium") else "notice"


def _annotation(one: Located) -> str:
    title = f"{visible(one.finding['rule'])} {headline(one.finding)}"
    properties = {"file": visible(one.path), "line": str(one.line), "title": title}
    return command(_kind(one.finding), properties, "\n".join([*few_lines(one.host, one.finding), *_of(one.bundle)]))


def _verdict(host: Mapping[str, Any], bundle: str) -> str:
    title = prose(f"thpdiag {verdict.name(host)}")
    finding = verdict.leading(host)
    aside = f" ({accepted(finding)})" if finding and finding["suppressed"] else ""
    return command("notice", {"title": title}, "\n".join([prose(f"{verdict.sentence(host)}{aside}"), *_of(bundle)]))


def _of(bundle: str) -> list[str]:
    return [f"Bundle {visible(bundle)}"] if bundle else []


def command(kind: str, properties: Mapping[str, str], message: str) -> str:
    """A line that the runner acts upon; texts must be `visible`, but for line ends in the message."""
    told = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{kind} {told}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
