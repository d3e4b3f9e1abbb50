"""JUnit XML as Jenkins and GitLab read it: one suite per host, one case per rule, and a first case for the verdict.

A case fails only from the severity of `--fail-on` on, so that the tests agree with the exit code; a finding below it
passes and is told in system-out. What could not be decided, for want of data, and what somebody accepted is skipped
with its reason. Suites and cases have names of their own, since GitLab drops what comes twice. There is no time in it:
the same result gives the same bytes. Problems that may hide evidence are the suite's system-err; a bug of a reader is
an error of the verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from thpdiag.reports import verdict
from thpdiag.reports.finding_text import few_lines, headline
from thpdiag.reports.located import accepted
from thpdiag.reports.presentation import PLAIN, Presentation
from thpdiag.reports.severities import fails, rank
from thpdiag.reports.visible import prose, visible

FORMAT = "junit"
KINDS = ("error", "failure", "skipped")
ATTACHMENT = "[[ATTACHMENT|"  # Jenkins and GitLab fetch the file that is named behind it

Host = Mapping[str, Any]
Case = tuple[str, str, str]  # its name, its kind (one of KINDS, or empty) and what stands in it


def render(document: Mapping[str, Any], presentation: Presentation = PLAIN) -> str:
    names: Counter[str] = Counter()
    suites, total = [], Counter[str]()
    for host in verdict.hosts(document):
        name = prose(verdict.name(host))
        names[name] += 1
        cases = list(_cases(host, presentation))
        total.update(_counts(cases))
        suites.append(_suite(name if names[name] == 1 else f"{name} ({names[name]})", host, cases))
    numbers = _attributes({key: str(total[key]) for key in ("tests", "failures", "errors")})
    body = "\n".join(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="thpdiag"{numbers}>\n{body}\n</testsuites>\n'


def _counts(cases: list[Case]) -> Counter[str]:
    kinds = Counter(kind for _, kind, _ in cases)
    return Counter(tests=len(cases), failures=kinds["failure"], errors=kinds["error"], skipped=kinds["skipped"])


def _suite(name: str, host: Host, cases: list[Case]) -> str:
    counts = _counts(cases)
    numbers = {key: str(counts[key]) for key in ("tests", "failures", "errors", "skipped")}
    group = f"thpdiag.{name.replace('.', '_')}"  # Jenkins takes what stands before the last dot as the package
    rows = [f"<testsuite{_attributes({'name': name, **numbers})}>", *_properties(host)]
    rows += [
        f"<testcase{_attributes({'classname': group, 'name': case})}>{inner}</testcase>" for case, _, inner in cases
    ]
    if hiding := "\n".join(prose(_problem(problem)) for problem in host["problems"] if problem["hides"]):
        rows.append(_element("system-err", hiding))
    return "\n".join([*rows, "</testsuite>"])


def _properties(host: Host) -> Iterator[str]:
    tool = host["tool"]
    told = {"thpdiag": tool["version"], "rules": tool["rules_digest"], "verdict": host["verdict"]["status"]}
    told |= {f"option {name}": str(value) for name, value in sorted(tool["options"].items()) if value is not None}
    rows = (f"<property{_attributes({'name': prose(k), 'value': prose(str(v))})}/>" for k, v in told.items() if v)
    yield f"<properties>{''.join(rows)}</properties>"


def _cases(host: Host, presentation: Presentation) -> Iterator[Case]:
    """The verdict, then every rule in the order of the document, with a number where its name comes again."""
    yield _verdict(host)
    found: dict[str, list[Mapping[str, Any]]] = {}
    for finding in host["findings"]:
        found.setdefault(finding["rule"], []).append(finding)
    known = {rule["id"]: rule for rule in host["rules"]}
    missing = {unknown["rule"]: unknown for unknown in host["unknown"]}
    names: Counter[str] = Counter(["verdict"])
    for rule in dict.fromkeys([*known, *found, *missing]):
        name = prose(f"{rule} {known.get(rule, {}).get('title') or verdict.title(host, rule)}")
        names[name] += 1
        kind, inner = _rule(host, found.get(rule, []), known.get(rule, {}), missing.get(rule), presentation)
        yield name if names[name] == 1 else f"{name} ({names[name]})", kind, inner


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
