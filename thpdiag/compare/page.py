"""A comparison as one HTML page: nothing fetched, no script, the same bytes for the same document.

It has the looks and the pieces of the report's page; the comparison itself is embedded as JSON.
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

MAX_FRAMES = 800  # of the call graph
MAX_CHANGED = 15  # stacks named below it
_COLOURS = {"fixed": "nothing_found", "improved": "low", "worse": "high", "new": "high"}


def render(comparison: Comparison, _presentation: Presentation = PLAIN) -> str:
    return _environment().get_template("page.html").render(
        hosts=comparison.hosts, alone=comparison.alone, redacted=REDACTED if comparison.redacted else "",
        style=Markup(_looks()), policy=policy(), data=embedded_document(comparison),
    )  # fmt: skip


@cache
def policy() -> str:
    """The policy of a comparison's page, which has no script."""
    return policy_for(_looks())


@cache
def _looks() -> str:
    return style() + files(__package__).joinpath("page.css").read_text(encoding="utf-8")


def _panels(timelines: Timelines, side: ComparedTimeline, prefix: str) -> Markup:
    """The panels of one side, in the scale of both."""
    timeline = Timeline.model_construct(
        series=[TimelineSeries.model_construct(**dict(one)) for one in side.series],
        actions=[Action.model_construct(**dict(one)) for one in side.actions],
    )
    highs: dict[str, float] = {}
    for one in (*timelines.before.series, *timelines.after.series):
        found = [row[2] for row in one.points if drawable(row[2])]
        highs[one.metric] = max([highs.get(one.metric, 0.0), *found])
    return panels(timeline, prefix, highs)


def _differential(recording: ComparedRecording, name: str) -> Markup:
    """The call graph of both sides, coloured by what changed."""
    return differential(((one.stack, one.before, one.after) for one in recording.stacks), name, MAX_FRAMES)


def _most_changed(recording: ComparedRecording) -> list[ComparedStack]:
    moved = (one for one in recording.stacks if one.before != one.after)
    return sorted(moved, key=lambda one: (-abs(one.after - one.before), one.stack))[:MAX_CHANGED]


@cache
def _environment() -> Environment:
    loader = ChoiceLoader([PackageLoader(__package__, "."), PackageLoader("thpdiag.report.html", ".")])
    made = environment(loader)
    made.globals |= {
        "colours": _COLOURS, "differential": _differential, "most_changed": _most_changed, "panels": _panels,
        "words": text,
    }  # fmt: skip
    return made
