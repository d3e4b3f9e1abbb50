"""JUnit XML as Jenkins and GitLab read it: one suite per host, one case per rule, and a first case for the verdict.

A case fails only at or above the severity of `--fail-on`, so that the tests agree with the exit code; a finding below
it passes and is printed in system-out. Rules that are undecided for lack of data, and accepted findings, are skipped
with a reason. Names of suites and cases are unique, since GitLab drops duplicates; a second bundle of a host has its
path after the name. There is no time in the file: the same result gives the same bytes. Problems that may hide evidence
are the suite's system-err; a bug of a parser is an error of the verdict, and so is a bundle without a result; a file
that is no bundle is skipped. gitlab.com parses at most 500,000 test cases of a report. With one case for each rule, a
warning is given from some 5,000 hosts on, and nothing is left out: Jenkins reads all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from html import escape

from thpdiag.model.result import Finding, Problem, Result, RuleResult, UnknownRule
from thpdiag.report import messages
from thpdiag.report.ci import Bundle, Spool, UniqueNames, Writer, write_one
from thpdiag.report.escaping import prose, visible
from thpdiag.report.messages import acceptance, annotation_lines, headline
from thpdiag.report.presentation import Presentation, fails, rank

ATTACHMENT = "[[ATTACHMENT|"  # Jenkins and GitLab fetch the file named after it
MAX_TEST_CASES = 500_000
COUNTS = ("tests", "failures", "errors", "skipped")

Case = tuple[str, str, str]  # name, kind (error, failure, skipped or empty) and content


class JUnit(Writer):
    """The suites as text, and their counts of tests, failures, errors and skipped cases."""

    def __init__(self, presentation: Presentation, new_spool: Callable[[], Spool], *, many: bool = False) -> None:
        self._presentation, self._suites = presentation, new_spool()
        self._classes, self._hosts = UniqueNames(), set[str]()
        self._counts: Counter[str] = Counter()

    def add(self, bundle: Bundle) -> None:
        suites = []
        for host in bundle.hosts:
            name = messages.name(host)
            is_repeated = bundle.path and name in self._hosts
            hiding = [] if bundle.is_complete else [f"incomplete: {bundle.outcome}"]
            hiding += [_problem(problem) for problem in host.problems if problem.hides]
            cases = list(_cases(host, self._presentation))
            tool = host.tool
            options = {f"option {key}": str(value) for key, value in sorted(tool.options.items()) if value is not None}
            properties = {"bundle": bundle.path, "thpdiag": tool.version, "rules": tool.rules_digest}
            properties |= {"verdict": host.verdict.status, **options}
            suites.append((f"{name} ({bundle.path})" if is_repeated else name, cases, properties, hiding))
            self._hosts.add(name)
        if not bundle.hosts:
            message = f"{bundle.status}: {bundle.reason}" if bundle.reason else bundle.status
            case = "verdict", "error", _element("error", bundle.reason, type=bundle.status, message=message)
            if bundle.is_stray:
                case = "verdict", "skipped", _element("skipped", "", message=message)
            suites = [(bundle.path, [case], {"bundle": bundle.path}, [])]
        for suite in suites:
            self._suites.add(0, self._suite(*suite))

    def pieces(self) -> Iterator[str]:
        numbers = _attributes({key: str(self._counts[key]) for key in COUNTS[:-1]})
        yield f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="thpdiag"{numbers}>\n'
        yield from self._suites.texts()
        yield "</testsuites>\n"

    def warnings(self) -> Iterator[str]:
        if (tests := self._counts["tests"]) > MAX_TEST_CASES:
            yield f"JUnit: {tests:,} test cases; gitlab.com reads {MAX_TEST_CASES:,} of a report at most"

    def _suite(self, name: str, cases: list[Case], properties: Mapping[str, object], hiding: list[str]) -> str:
        kinds = Counter(kind for _, kind, _ in cases)
        counts = dict(zip(COUNTS, (len(cases), kinds["failure"], kinds["error"], kinds["skipped"]), strict=True))
        self._counts.update(counts)
        # Dots become underscores, since Jenkins takes the text before the last dot as the package; `a.b` and `a_b`
        # would then be equal.
        shown = prose(name)
        plain = shown.replace(".", "_")
        given = self._classes(plain)
        numbers = {key: str(count) for key, count in counts.items()}
        property_elements = "".join(
            f"<property{_attributes({'name': prose(key), 'value': prose(str(value))})}/>"
            for key, value in properties.items()
            if value
        )
        rows = [
            f"<testsuite{_attributes({'name': shown + given.removeprefix(plain), **numbers})}>",
            f"<properties>{property_elements}</properties>",
        ]
        rows += [
            f"<testcase{_attributes({'classname': f'thpdiag.{given}', 'name': case})}>{inner}</testcase>"
            for case, _, inner in cases
        ]
        if any(hiding):
            rows.append(_element("system-err", "\n".join(prose(text) for text in hiding if text)))
        return "\n".join([*rows, "</testsuite>\n"])


render = partial(write_one, JUnit)


def _cases(host: Result, presentation: Presentation) -> Iterator[Case]:
    """Yield the verdict, then every rule in the order of the document; a repeated name gets a number."""
    yield _verdict(host)
    found: dict[str, list[Finding]] = {}
    for finding in host.findings:
        found.setdefault(finding.rule, []).append(finding)
    known = {rule.id: rule for rule in host.rules}
    missing = {unknown.rule: unknown for unknown in host.unknown}
    names = UniqueNames(["verdict"])
    for rule in dict.fromkeys([*known, *found, *missing]):
        title = known[rule].title if rule in known else None
        kind, inner = _rule(host, found.get(rule, []), known.get(rule), missing.get(rule), presentation)
        yield names(prose(f"{rule} {title or messages.rule_title(host, rule)}")), kind, inner


def _verdict(host: Result) -> Case:
    sentence = prose(messages.sentence(host))
    if bugs := [prose(_problem(problem)) for problem in host.problems if problem.kind == "bug"]:
        return "verdict", "error", _element("error", "\n".join(bugs), type="bug", message=bugs[0])
    if host.verdict.status == "cannot_tell":
        return "verdict", "skipped", _element("skipped", "", message=sentence)
    return "verdict", "", _element("system-out", sentence)


def _rule(
    host: Result, findings: list[Finding], rule: RuleResult | None, unknown: UnknownRule | None,
    presentation: Presentation,
) -> tuple[str, str]:  # fmt: skip
    live = [finding for finding in findings if not finding.suppressed]
    if live:
        worst = max(live, key=lambda finding: rank(finding.severity))
        text = "\n\n".join("\n".join(annotation_lines(host, finding)) for finding in live)
        if any(fails(finding, presentation.fail_on) for finding in live):
            return "failure", _element("failure", text, type=worst.severity or "", message=headline(worst))
        return "", _element("system-out", text)
    if findings:
        return "skipped", _element("skipped", "", message="; ".join(dict.fromkeys(map(acceptance, findings))))
    if unknown is not None or (rule and rule.outcome == "unknown"):
        needs = ", ".join(unknown.missing) if unknown else ""
        return "skipped", _element("skipped", "", message=f"could not be decided; needs {needs or 'more data'}")
    if rule and rule.outcome == "excluded":
        return "", _element("system-out", "another rule supersedes it")
    return "", ""


def _problem(problem: Problem) -> str:
    place = messages.place(problem)
    return f"{place}: {problem.text or problem.kind or 'irregular input'}" if place else problem.text or ""


def _element(name: str, text: str, **attributes: str) -> str:
    """Return an element. `text` may have several lines; `visible` escapes characters that XML 1.0 does not allow."""
    shown = "\n".join(visible(row) for row in text.split("\n")).replace(ATTACHMENT, ATTACHMENT.replace("|", " |"))
    opening = f"{name}{_attributes({key: prose(value) for key, value in attributes.items()})}"
    return f"<{opening}>{escape(shown)}</{name}>" if shown else f"<{opening}/>"


def _attributes(values: Mapping[str, str]) -> str:
    return "".join(f' {name}="{escape(value)}"' for name, value in values.items())
