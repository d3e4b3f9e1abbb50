"""JUnit XML as Jenkins and GitLab read it: one suite per host, one case per rule, and a first case for the verdict.

A case fails only from the severity of `--fail-on` on, so that the tests agree with the exit code; a finding below it
passes and is told in system-out. What could not be decided, for want of data, and what somebody accepted is skipped
with its reason. Suites and cases have names of their own, since GitLab drops what comes twice; a second bundle of a
host has its path behind the name. There is no time in it: the same result gives the same bytes. Problems that may hide
evidence are the suite's system-err; a bug of a reader is an error of the verdict, and so is that nothing came of a
bundle of many; a file that is no bundle is skipped. GitLab parses no more than 500,000 test cases of a report on
gitlab.com; there is one for each rule, so that is told from some 5,000 hosts on, and nothing is left out: Jenkins reads
them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from html import escape

from thpdiag.model.result import Finding, Problem, Result, RuleResult, UnknownRule
from thpdiag.report import messages
from thpdiag.report.ci import Bundle, Distinct, Spool, Writer, write_one
from thpdiag.report.escaping import prose, visible
from thpdiag.report.messages import acceptance, few_lines, headline
from thpdiag.report.presentation import Presentation, fails, rank

ATTACHMENT = "[[ATTACHMENT|"  # Jenkins and GitLab fetch the file that is named behind it
MAX_TEST_CASES = 500_000
COUNTS = ("tests", "failures", "errors", "skipped")

Case = tuple[str, str, str]  # its name, its kind (error, failure, skipped or empty) and what stands in it


class JUnit(Writer):
    """The suites as they are written, and how many tests, failures, errors and skipped there are in them."""

    def __init__(self, presentation: Presentation, new_spool: Callable[[], Spool], *, many: bool = False) -> None:
        self._presentation, self._suites = presentation, new_spool()
        self._classes, self._hosts = Distinct(), set[str]()
        self._counts: Counter[str] = Counter()

    def add(self, bundle: Bundle) -> None:
        suites = []
        for host in bundle.hosts:
            name = messages.name(host)
            again = bundle.path and name in self._hosts
            hiding = [] if bundle.whole else [f"incomplete: {bundle.why}"]
            hiding += [_problem(problem) for problem in host.problems if problem.hides]
            cases = list(_cases(host, self._presentation))
            tool = host.tool
            options = {f"option {key}": str(value) for key, value in sorted(tool.options.items()) if value is not None}
            properties = {"bundle": bundle.path, "thpdiag": tool.version, "rules": tool.rules_digest}
            properties |= {"verdict": host.verdict.status, **options}
            suites.append((f"{name} ({bundle.path})" if again else name, cases, properties, hiding))
            self._hosts.add(name)
        if not bundle.hosts:
            message = f"{bundle.status}: {bundle.reason}" if bundle.reason else bundle.status
            case = "verdict", "error", _element("error", bundle.reason, type=bundle.status, message=message)
            if bundle.stray:
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
        # A class is a name without dots, so `a.b` and `a_b` would be one; Jenkins takes what stands before the last
        # dot as the package.
        shown = prose(name)
        plain = shown.replace(".", "_")
        given = self._classes(plain)
        numbers = {key: str(count) for key, count in counts.items()}
        told = "".join(
            f"<property{_attributes({'name': prose(key), 'value': prose(str(value))})}/>"
            for key, value in properties.items()
            if value
        )
        rows = [
            f"<testsuite{_attributes({'name': shown + given.removeprefix(plain), **numbers})}>",
            f"<properties>{told}</properties>",
        ]
        rows += [
            f"<testcase{_attributes({'classname': f'thpdiag.{given}', 'name': case})}>{inner}</testcase>"
            for case, _, inner in cases
        ]
        if any(hiding):
            rows.append(_element("system-err", "\n".join(prose(one) for one in hiding if one)))
        return "\n".join([*rows, "</testsuite>\n"])


render = partial(write_one, JUnit)


def _cases(host: Result, presentation: Presentation) -> Iterator[Case]:
    """The verdict, then every rule in the order of the document, with a number where its name comes again."""
    yield _verdict(host)
    found: dict[str, list[Finding]] = {}
    for finding in host.findings:
        found.setdefault(finding.rule, []).append(finding)
    known = {rule.id: rule for rule in host.rules}
    missing = {unknown.rule: unknown for unknown in host.unknown}
    names = Distinct(["verdict"])
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
        told = "\n\n".join("\n".join(few_lines(host, finding)) for finding in live)
        if any(fails(finding, presentation.fail_on) for finding in live):
            return "failure", _element("failure", told, type=worst.severity or "", message=headline(worst))
        return "", _element("system-out", told)
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
    """`text` may have several lines; what XML 1.0 has no character for is written out by `visible`."""
    shown = "\n".join(visible(row) for row in text.split("\n")).replace(ATTACHMENT, ATTACHMENT.replace("|", " |"))
    opening = f"{name}{_attributes({key: prose(value) for key, value in attributes.items()})}"
    return f"<{opening}>{escape(shown)}</{name}>" if shown else f"<{opening}/>"


def _attributes(values: Mapping[str, str]) -> str:
    return "".join(f' {name}="{escape(value)}"' for name, value in values.items())
