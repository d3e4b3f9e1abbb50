"""JUnit XML as Jenkins and GitLab read it: one suite per host, one case per rule, and a first case for the verdict.

A case fails only from the severity of `--fail-on` on, so that the tests agree with the exit code; a finding below it
passes and is told in system-out. What could not be decided, for want of data, and what somebody accepted is skipped
with its reason. Suites and cases have names of their own, since GitLab drops what comes twice. There is no time in it:
the same result gives the same bytes. Problems that may hide evidence are the suite's system-err; a bug of a reader is
an error of the verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from thpdiag.reports import verdict
from thpdiag.reports.distinct import Distinct
from thpdiag.reports.finding_text import few_lines, headline
from thpdiag.reports.located import accepted
from thpdiag.reports.presentation import PLAIN, Presentation
from thpdiag.reports.severities import fails, rank
from thpdiag.reports.visible import prose, visible

FORMAT = "junit"
KINDS = ("error", "failure", "skipped")
ATTACHMENT = "[[ATTACHMENT|"  # Jenkins and GitLab fetch the file that is named behind it
CLOSING = "</testsuites>\n"

Host = Mapping[str, Any]
Case = tuple[str, str, str]  # its name, its kind (one of KINDS, or empty) and what stands in it


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite as it is written, and how many tests, failures, errors and skipped there are in it."""

    text: str
    counts: Counter[str]


class Names:
    """Names of suites and their classes. A class is a name without dots, so `a.b` and `a_b` would be one."""

    def __init__(self) -> None:
        self._classes = Distinct()

    def __call__(self, name: str) -> tuple[str, str]:
        shown = prose(name)
        plain = shown.replace(".", "_")  # Jenkins takes what stands before the last dot as the package
        given = self._classes(plain)
        return shown + given.removeprefix(plain), f"thpdiag.{given}"


def render(document: Mapping[str, Any], presentation: Presentation = PLAIN) -> str:
    names, hosts = Names(), verdict.hosts(document)
    suites = [suite(host, names(verdict.name(host)), presentation) for host in hosts]
    return "".join([opening(one.counts for one in suites), *(one.text for one in suites), CLOSING])


def opening(counts: Iterable[Counter[str]]) -> str:
    """What stands before the suites, with the numbers of all of them."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    numbers = _attributes({key: str(total[key]) for key in ("tests", "failures", "errors")})
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="thpdiag"{numbers}>\n'


def suite(
    host: Host, names: tuple[str, str], presentation: Presentation, bundle: str = "", incomplete: str = ""
) -> Suite:
    """The suite of a host; of one among many bundles the properties name its own, and why it is not whole is said."""
    cases = list(_cases(host, presentation))
    hiding = [incomplete, *(_problem(problem) for problem in host["problems"] if problem["hides"])]
    return _suite(names, cases, {"bundle": bundle, **_told(host)}, "\n".join(prose(one) for one in hiding if one))


def without_result(names: tuple[str, str], kind: str, why: str, bundle: str) -> Suite:
    """The suite of a bundle that nothing came of: its verdict is an error of this kind."""
    error = _element("error", why, type=kind, message=f"{kind}: {why}" if why else kind)
    return _suite(names, [("verdict", "error", error)], {"bundle": bundle}, "")


def _suite(names: tuple[str, str], cases: list[Case], properties: Mapping[str, str], hiding: str) -> Suite:
    counts = _counts(cases)
    numbers = {key: str(counts[key]) for key in ("tests", "failures", "errors", "skipped")}
    name, group = names
    rows = [f"<testsuite{_attributes({'name': name, **numbers})}>", _properties(properties)]
    rows += [
        f"<testcase{_attributes({'classname': group, 'name': case})}>{inner}</testcase>" for case, _, inner in cases
    ]
    if hiding:
        rows.append(_element("system-err", hiding))
    return Suite("\n".join([*rows, "</testsuite>\n"]), counts)


def _counts(cases: list[Case]) -> Counter[str]:
    kinds = Counter(kind for _, kind, _ in cases)
    return Counter(tests=len(cases), failures=kinds["failure"], errors=kinds["error"], skipped=kinds["skipped"])


def _told(host: Host) -> Mapping[str, str]:
    tool = host["tool"]
    told = {"thpdiag": tool["version"], "rules": tool["rules_digest"], "verdict": host["verdict"]["status"]}
    return told | {f"option {name}": str(value) for name, value in sorted(tool["options"].items()) if value is not None}


def _properties(told: Mapping[str, str]) -> str:
    rows = (f"<property{_attributes({'name': prose(k), 'value': prose(str(v))})}/>" for k, v in told.items() if v)
    return f"<properties>{''.join(rows)}</properties>"


def _cases(host: Host, presentation: Presentation) -> Iterator[Case]:
    """The verdict, then every rule in the order of the document, with a number where its name comes again."""
    yield _verdict(host)
    found: dict[str, list[Mapping[str, Any]]] = {}
    for finding in host["findings"]:
        found.setdefault(finding["rule"], []).append(finding)
    known = {rule["id"]: rule for rule in host["rules"]}
    missing = {unknown["rule"]: unknown for unknown in host["unknown"]}
    names = Distinct(["verdict"])
    for rule in dict.fromkeys([*known, *found, *missing]):
        name = prose(f"{rule} {known.get(rule, {}).get('title') or verdict.title(host, rule)}")
        kind, inner = _rule(host, found.get(rule, []), known.get(rule, {}), missing.get(rule), presentation)
        yield names(name), kind, inner


def _verdict(host: Host) -> Case:
    sentence = prose(verdict.sentence(host))
    if bugs := [prose(_problem(problem)) for problem in host["problems"] if problem["kind"] == "bug"]:
        return "verdict", "error", _element("error", "\n".join(bugs), type="bug", message=bugs[0])
    if host["verdict"]["status"] == "cannot_tell":
        return "verdict", "skipped", _element("skipped", "", message=sentence)
    return "verdict", "", _element("system-out", sentence)


def _rule(
    host: Host, findings: list[Mapping[str, Any]], rule: Mapping[str, Any], unknown: Mapping[str, Any] | None,
    presentation: Presentation,
) -> tuple[str, str]:  # fmt: skip
    live = [finding for finding in findings if not finding["suppressed"]]
    if live:
        return _found(host, live, presentation)
    if findings:
        return "skipped", _element("skipped", "", message="; ".join(dict.fromkeys(map(accepted, findings))))
    if unknown is not None or rule.get("outcome") == "unknown":
        needs = ", ".join(unknown["missing"]) if unknown else ""
        return "skipped", _element("skipped", "", message=f"could not be decided; needs {needs or 'more data'}")
    taken = "another rule takes its place" if rule.get("outcome") == "excluded" else ""
    return "", _element("system-out", taken) if taken else ""


def _found(host: Host, live: list[Mapping[str, Any]], presentation: Presentation) -> tuple[str, str]:
    worst = max(live, key=lambda finding: rank(finding["severity"]))
    told = "\n\n".join("\n".join(few_lines(host, finding)) for finding in live)
    if any(fails(finding, presentation.fail_on) for finding in live):
        return "failure", _element("failure", told, type=worst["severity"] or "", message=headline(worst))
    return "", _element("system-out", told)


def _problem(problem: Mapping[str, Any]) -> str:
    place = verdict.place(problem)
    return f"{place}: {problem['text'] or problem['kind'] or 'odd input'}" if place else problem["text"] or ""


def _element(name: str, text: str, **attributes: str) -> str:
    """`text` may have several lines; what XML 1.0 has no character for is written out by `visible`."""
    shown = "\n".join(visible(row) for row in text.split("\n")).replace(ATTACHMENT, ATTACHMENT.replace("|", " |"))
    opening = f"{name}{_attributes({key: prose(value) for key, value in attributes.items()})}"
    return f"<{opening}>{escape(shown)}</{name}>" if shown else f"<{opening}/>"


def _attributes(values: Mapping[str, str]) -> str:
    return "".join(f' {name}="{escape(value)}"' for name, value in values.items())
