"""Check that each chart of a finding shows the entity that the finding names."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from thpdiag.diagnosis.timeline import PROCESS_METRICS
from thpdiag.model.result import Finding, Result, as_result
from thpdiag.report import messages
from thpdiag.report.charts.panels import axes, panels

PID = re.compile(r"\((\d+)")


def charts_show_what_findings_name(document: dict[str, Any]) -> int:
    """Return the number of charts checked: each is of the process of the finding or of the host.

    Those of the lead finding come first.
    """
    checked = 0
    for host in map(as_result, document.get("cases", [document])):
        entities = {finding.rule: finding.entity for finding in host.findings if finding.entity}
        for series in host.timeline.series:
            for rule in series.rules:
                wanted, seen = PID.search(entities.get(rule, "")), PID.search(series.entity or "")
                assert not (wanted and seen) or wanted[1] == seen[1], (rule, series.metric, series.entity)
                checked += 1
        leading = messages.lead_finding(host)
        if leading and any(leading.rule in one.rules and len(one.points) > 1 for one in host.timeline.series):
            _charts_of_the_leading_finding_come_first(host, leading)
    return checked


def _charts_of_the_leading_finding_come_first(host: Result, leading: Finding) -> None:
    """Assert that the first charts name its rule and include the series of its process."""
    first = axes(host.timeline, rules=messages.charted_rules(host))[0].first
    ranks = [all(leading.rule not in line.rules for line in plot.lines) for plot in first]
    assert ranks == sorted(ranks)
    assert not ranks[0]
    drawn = {(line.metric.removesuffix(":rate"), line.entity) for plot in first for line in plot.lines}
    known = {(one.metric.removesuffix(":rate"), one.entity) for one in host.timeline.series if len(one.points) > 1}
    assert {(metric, leading.entity) for metric in PROCESS_METRICS} & known <= drawn
    head = unescape(panels(host.timeline, "p", rules=messages.charted_rules(host))).partition("</figcaption>")[0]
    assert f'<code class="rule">{leading.rule}</code>' in head or "Free blocks" in head
