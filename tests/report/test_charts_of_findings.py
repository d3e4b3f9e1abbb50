"""What a chart of a finding marks. That each shows what the finding names is checked over all fixtures by the contract
(`tests/support/charts_of_findings.py`)."""

from __future__ import annotations

import re

import pytest

from analyze_bytes import BUNDLES, documents, result_of
from charts_of_findings import charts_show_what_findings_name
from thpdiag.model.result import as_result
from thpdiag.report import messages
from thpdiag.report.charts.panels import panels, placed_actions

STORY = next(bundle for bundle in BUNDLES if "hadoop-centos62" in bundle.parts and "flat" not in str(bundle))


def test_a_chart_of_another_process_is_noticed() -> None:
    """A check that holds of any chart would guard nothing."""
    (document,) = documents(result_of(STORY))
    assert charts_show_what_findings_name(document)
    rule = document["verdict"]["rule"]
    findings = [{**one, "entity": "java (1)"} if one["rule"] == rule else one for one in document["findings"]]
    series = [{**one, "rules": [rule], "entity": "bash (2)"} for one in document["timeline"]["series"]]
    with pytest.raises(AssertionError):
        charts_show_what_findings_name(
            {**document, "findings": findings, "timeline": {**document["timeline"], "series": series}}
        )


def test_a_switch_without_a_time_stands_before_the_rows_below_it() -> None:
    """In a pasted session the order of lines is that of time: the lines of both switches have their words."""
    (host,) = map(as_result, documents(result_of(STORY)))
    marks = placed_actions(host.timeline)
    assert [(mark.words, mark.before) for mark in marks] == [("enabled: never", True), ("enabled: always", True)]
    assert marks[0].time < marks[1].time
    page = panels(host.timeline, "p", rules=messages.charted_rules(host))
    first = page.partition("</figure>")[0]
    assert first.count('class="action"') == 2
    assert re.findall('class="mark"[^>]*>([^<]*)<', first) == ["enabled: never", "enabled: always"]
