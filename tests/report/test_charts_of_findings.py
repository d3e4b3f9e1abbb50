"""The charts of findings over all fixtures: each shows what the finding names, before all others."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from analyze_bytes import BUNDLES, documents, name, result_of
from thpdiag.diagnosis.timeline import OF_PROCESSES
from thpdiag.model.result import Finding, Result, as_result
from thpdiag.report import messages
from thpdiag.report.charts.panels import axes, panels, placed_actions

PID = re.compile(r"\((\d+)")
STORY = next(bundle for bundle in BUNDLES if "hadoop-centos62" in bundle.parts and "flat" not in str(bundle))


def hosts(bundle: Path) -> list[Result]:
    return [as_result(one) for one in documents(result_of(bundle))]


@pytest.mark.parametrize("bundle", BUNDLES, ids=name)
def test_a_chart_of_a_finding_shows_what_it_names(bundle: Path) -> None:
    """Of its process, or of the host, and never of another process; those of the leading finding come first."""
    for host in hosts(bundle):
        entities = {finding.rule: finding.entity for finding in host.findings if finding.entity}
        for series in host.timeline.series:
            for rule in series.rules:
                wanted, seen = PID.search(entities.get(rule, "")), PID.search(series.entity or "")
                assert not (wanted and seen) or wanted[1] == seen[1], (rule, series.metric, series.entity)
        leading = messages.leading(host)
        if leading and any(leading.rule in one.rules and len(one.points) > 1 for one in host.timeline.series):
            charts_of_the_leading_finding_come_first(host, leading)


def charts_of_the_leading_finding_come_first(host: Result, leading: Finding) -> None:
    """The first charts name its rule; what was recorded of its process over time is among them."""
    first = axes(host.timeline, rules=messages.charted_rules(host))[0].first
    ranks = [all(leading.rule not in line.rules for line in plot.lines) for plot in first]
    assert ranks == sorted(ranks)
    assert not ranks[0]
    drawn = {(line.metric.removesuffix(":rate"), line.entity) for plot in first for line in plot.lines}
    known = {(one.metric.removesuffix(":rate"), one.entity) for one in host.timeline.series if len(one.points) > 1}
    assert {(metric, leading.entity) for metric in OF_PROCESSES} & known <= drawn
    head = unescape(panels(host.timeline, "p", rules=messages.charted_rules(host))).partition("</figcaption>")[0]
    assert f'<code class="rule">{leading.rule}</code>' in head or "Free blocks" in head


def test_a_switch_without_a_time_stands_before_the_rows_below_it() -> None:
    """In a pasted session the order of lines is that of time: the lines of both switches have their words."""
    (host,) = hosts(STORY)
    marks = placed_actions(host.timeline)
    assert [(mark.words, mark.before) for mark in marks] == [("enabled: never", True), ("enabled: always", True)]
    assert marks[0].time < marks[1].time
    page = panels(host.timeline, "p", rules=messages.charted_rules(host))
    first = page.partition("</figure>")[0]
    assert first.count('class="action"') == 2
    assert re.findall('class="mark"[^>]*>([^<]*)<', first) == ["enabled: never", "enabled: always"]
