"""A comparison as one HTML page: no external resources, no script, the same bytes for the same document.

It uses the style and the parts of the report's page; the comparison itself is embedded as JSON.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from thpdiag.compare import text
from thpdiag.compare.model import ComparedRecording, ComparedStack, ComparedTimeline, Comparison, Timelines
from thpdiag.model.result import Action, Timeline, TimelineSeries
from thpdiag.report.charts.icicle import differential
from thpdiag.report.charts.panels import drawable, panels
from thpdiag.report.html import embedded_document, environment, policy_for, style
from thpdiag.report.messages import REDACTED
from thpdiag.report.presentation import PLAIN, Presentation

MAX_FRAMES = 800  # in the call graph
MAX_CHANGED = 15  # stacks listed below the call graph
_COLOURS = {"fixed": "nothing_found", "improved": "low", "worse": "high", "new": "high"}


def render(comparison: Comparison, _presentation: Presentation = PLAIN) -> str:
    return _environment().get_template("page.html").render(
        hosts=comparison.hosts, alone=comparison.alone, redacted=REDACTED if comparison.redacted else "",
        style=Markup(_style()), policy=policy(), data=embedded_document(comparison),
    )  # fmt: skip


@cache
def policy() -> str:
    """Return the content security policy of the page, which has no script."""
    return policy_for(_style())


@cache
def _style() -> str:
    return style() + files(__package__).joinpath("page.css").read_text(encoding="utf-8")


def _panels(timelines: Timelines, side: ComparedTimeline, prefix: str) -> Markup:
    """Return the panels of one side, with the scale of both."""
    timeline = Timeline.model_construct(
        series=[TimelineSeries.model_construct(**dict(series)) for series in side.series],
        actions=[Action.model_construct(**dict(series)) for series in side.actions],
    )
    highs: dict[str, float] = {}
    for series in (*timelines.before.series, *timelines.after.series):
        values = [row[2] for row in series.points if drawable(row[2])]
        highs[series.metric] = max([highs.get(series.metric, 0.0), *values])
    return panels(timeline, prefix, highs)


def _differential(recording: ComparedRecording, name: str) -> Markup:
    """Return the call graph of both sides, coloured by the difference."""
    return differential(((row.stack, row.before, row.after) for row in recording.stacks), name, MAX_FRAMES)


def _most_changed(recording: ComparedRecording) -> list[ComparedStack]:
    changed = (row for row in recording.stacks if row.before != row.after)
    return sorted(changed, key=lambda row: (-abs(row.after - row.before), row.stack))[:MAX_CHANGED]


@cache
def _environment() -> Environment:
    loader = ChoiceLoader([PackageLoader(__package__, "."), PackageLoader("thpdiag.report.html", ".")])
    env = environment(loader)
    env.globals |= {
        "colours": _COLOURS, "differential": _differential, "most_changed": _most_changed, "panels": _panels,
        "words": text,
    }  # fmt: skip
    return env
