"""Annotations of GitHub Actions: lines `::error file=..,line=..,title=..::message`, which the runner takes from stdout.

It shows at most ten of each kind and step, so no more are printed, the most severe of all bundles first. A message has
%, CR and LF as %25, %0D and %0A, a property also : and , as %3A and %2C. A host whose cause is not among the findings
gets a notice with its verdict. For several bundles the first notice counts the hosts by verdict, and one warning names
the bundles without a complete result, since there may be more of them than GitHub shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from thpdiag.model.finding import SEVERITIES
from thpdiag.model.result import Finding, Result
from thpdiag.report import AnyResult, messages
from thpdiag.report.ci import Bundle, HighestWeights, Located, Spool, Writer, level, write_one
from thpdiag.report.escaping import prose, visible
from thpdiag.report.messages import acceptance, annotation_lines, headline, plural
from thpdiag.report.presentation import PLAIN, Presentation, rank

MAX_SHOWN = 10  # annotations of a kind
KINDS = ("error", "warning", "notice")
VERDICT = len(SEVERITIES)  # greater than any severity
MAX_NAMED = 20  # bundles without a complete result
VERDICT_WORDS = {
    "found": "with a cause", "cannot_tell": "cannot tell", "nothing_found": "nothing found",
    "not_applicable": "without transparent huge pages",
}  # fmt: skip


def render(document: AnyResult, presentation: Presentation = PLAIN) -> str:
    return write_one(GitHub, document, presentation) or "\n"


class GitHub(Writer):
    """The annotations that are shown, and the number of the others."""

    def __init__(self, presentation: Presentation, new_spool: Callable[[], Spool], *, many: bool = False) -> None:
        self._kept: dict[str, HighestWeights[str]] = {kind: HighestWeights(MAX_SHOWN) for kind in KINDS}
        self._verdicts, self._ends = Counter[str](), Counter[str]()
        self._named: list[str] = []
        self._bundles, self._many = 0, many

    def add(self, bundle: Bundle) -> None:
        """Take the findings of its hosts, and the verdicts that no finding reports."""
        reported = {(id(located.host), located.finding.rule) for located in bundle.findings}
        unreported = [host for host in bundle.hosts if (id(host), host.verdict.rule) not in reported]  # or accepted
        annotations = [("notice", VERDICT, _verdict(host, bundle.path)) for host in unreported]
        annotations += [(_kind(row.finding), rank(row.finding.severity), _annotation(row)) for row in bundle.findings]
        for kind, weight, text in annotations:
            self._kept[kind].put(weight, text)
        self._bundles += 1
        self._verdicts.update(host.verdict.status for host in bundle.hosts)
        if not bundle.is_complete:
            self._ends[bundle.status] += 1
            if len(self._named) < MAX_NAMED:
                self._named.append(prose(f"{bundle.path}: {bundle.outcome}"))

    def pieces(self) -> Iterator[str]:
        if self._ends:
            self._kept["warning"].put(VERDICT, self._incomplete())
        if self._many:
            counts = [f"{n:,} {words}" for status, words in VERDICT_WORDS.items() if (n := self._verdicts[status])]
            hosts = f"{plural(self._verdicts.total(), 'host')} in {plural(self._bundles, 'bundle')}"
            totals = f"{hosts}: {', '.join(counts) or 'none'}"
            self._kept["notice"].put(VERDICT + 1, _command("notice", {"title": "thpdiag triage"}, totals))
        yield from (f"{text}\n" for kept in self._kept.values() for text in kept)
        if left_out := sum(kept.left_out for kept in self._kept.values()):  # not a command: printed to the log
            yield f"thpdiag: {left_out:,} more, which GitHub would not show; the text report has all\n"

    def _incomplete(self) -> str:
        count = self._ends.total()
        ends = ", ".join(f"{number:,} {prose(end)}" for end, number in sorted(self._ends.items()))
        more = [f"and {count - len(self._named):,} more"] if count > len(self._named) else []
        title = {"title": f"thpdiag triage: no complete result of {plural(count, 'bundle')}"}
        return _command("warning", title, "\n".join([ends, *self._named, *more]))


def _kind(finding: Finding) -> str:
    return "notice" if finding.suppressed else level(finding).replace("note", "notice")


def _annotation(located: Located) -> str:
    title = f"{visible(located.finding.rule)} {headline(located.finding)}"
    properties = {"file": visible(located.file), "line": str(located.line), "title": title}
    rows = [*annotation_lines(located.host, located.finding), *_bundle_line(located.bundle)]
    return _command(_kind(located.finding), properties, "\n".join(rows))


def _verdict(host: Result, bundle: str) -> str:
    finding = messages.lead_finding(host)
    aside = f" ({acceptance(finding)})" if finding and finding.suppressed else ""
    rows = [prose(f"{messages.sentence(host)}{aside}"), *_bundle_line(bundle)]
    return _command("notice", {"title": prose(f"thpdiag {messages.name(host)}")}, "\n".join(rows))


def _bundle_line(bundle: str) -> list[str]:
    return [f"Bundle {visible(bundle)}"] if bundle else []


def _command(kind: str, properties: Mapping[str, str], message: str) -> str:
    """Return a line that the runner executes; texts must be `visible`, except line ends in the message."""
    fields = ",".join(
        f"{name}={_escape(value).replace(':', '%3A').replace(',', '%2C')}" for name, value in properties.items()
    )
    return f"::{kind} {fields}::{_escape(message)}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
