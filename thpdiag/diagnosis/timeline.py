"""The timeline of the result: series in at most 1,500 buckets each and 5,000 in all, by the panel of the chart that
they belong to; episodes that checks found; operator actions.

What a finding speaks of is there, whatever else moved more: the metrics of its checks, of the process or the zone that
it names. These series name the rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from thpdiag.diagnosis.diagnose import Diagnosis
from thpdiag.diagnosis.excerpts import place
from thpdiag.diagnosis.profiles import Signature, share_series
from thpdiag.diagnosis.times import shared_axis
from thpdiag.engine.check_result import CheckResult
from thpdiag.engine.schema import ToggleCheck
from thpdiag.engine.state_view import StateView
from thpdiag.engine.wording import metric_words
from thpdiag.host.catalogue import Catalogue
from thpdiag.host.rates import rates
from thpdiag.host.series import Points, Track
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Citation, Clock, Evidence, Finding, Series
from thpdiag.model.document import present_keys
from thpdiag.model.facts import ClockAnchor
from thpdiag.model.numeric import np
from thpdiag.model.result import Action, BootTime, Episode, Panel, Timeline, TimelineSeries
from thpdiag.model.text import path_name, quoted, sentence

MAX_BUCKETS = 1500  # of a series
LEAST_BUCKETS = 200  # of a series among many
ALL_BUCKETS = 5000  # of a document: a page holds them all
OF_HOST: Mapping[Panel, tuple[str, ...]] = {
    "cpu": (
        "cpu_ratio.sys_total", "cpu_ratio.sys_total_steal", "cpu_ratio.user_total", "cpu_ratio.softirq",
        "cpu_ratio.iowait",
    ),
    "huge_pages": (
        "node_vmstat_compact_stall", "node_vmstat_compact_fail", "node_vmstat_thp_fault_alloc",
        "node_vmstat_thp_fault_fallback", "node_vmstat_thp_collapse_alloc",
    ),
    "memory": ("node_memory_AnonHugePages_bytes", "node_memory_MemFree_bytes"),
}  # fmt: skip
HOW = {
    "prompt": "wrote", "prose": "the text shows a write of", "no-effect": "tried without success to write",
    "failed": "failed to write", "sudo-redirect": "tried without success (shell redirection without root) to write",
}  # fmt: skip
BLOCKS = "node_buddyinfo_blocks_order{}"
ORDERS = 11  # 0 to 10, more than most kernels have
_VIRTUAL = "process_virtual_memory_bytes"
OF_PROCESSES = ("process_resident_memory_bytes", _VIRTUAL, "process_faults_total")
MAX_PROCESSES = 3
MAX_NAMED = 24  # series of a state that only findings speak of
PANELS: Mapping[str, Panel] = {
    "cpu_ratio.": "cpu", "node_vmstat_": "huge_pages", "node_memory_": "memory", "process_": "processes",
    "node_buddyinfo_blocks_": "free_blocks", "node_thp_": "huge_pages", "node_allocstall": "huge_pages",
}  # fmt: skip
OF_TOGGLES: Mapping[str, tuple[str, ...]] = {
    "sys_share": ("cpu_ratio.sys_share", "cpu_ratio.sys_total", "cpu_ratio.sys_total_steal"),
    "sys_total": ("cpu_ratio.sys_total", "cpu_ratio.sys_total_steal"),
    "compact_stall_rate": ("node_vmstat_compact_stall",),
    "rss_slope": ("process_resident_memory_bytes",),
}  # of the figures that `toggle` compares, those that are series
_PID = re.compile(r"(?<![0-9])([0-9]+)\)?\Z")
_ZONE = 900  # seconds: time zones differ by whole quarters of an hour
_BEGUN_TOGETHER = 30  # seconds


def timeline(diagnosis: Diagnosis, views: Sequence[StateView], seen: Sequence[Signature] = ()) -> Timeline:
    """Series with times, of the metrics a reader of the report looks for first, and of what findings saw in stacks."""
    anchors = diagnosis.case.anchors
    shares = [share_series(one, anchors) for one in seen]
    tracks = [one for view in views for one in _with_rules(view.catalogue, diagnosis.findings)]
    most = max(LEAST_BUCKETS, min(MAX_BUCKETS, ALL_BUCKETS // max(1, len(tracks))))
    named = (one.outcome.entity for one in diagnosis.findings)
    entities = {f"process {pid[1]}": entity for entity in named if (pid := _PID.search(entity))}
    return Timeline.model_construct(
        series=[
            *(one for one in shares if len(one.points) > 1),  # one point is no course
            *(_series(track, panel, most, rules, entities) for panel, track, rules in tracks),
        ],
        episodes=_episodes(diagnosis, seen, anchors),
        actions=_actions(diagnosis),
        **present_keys(boot=_boot(anchors)),
    )


def _boot(anchors: Sequence[ClockAnchor]) -> BootTime | None:
    """By the most exact clock."""
    if not anchors:
        return None
    zero = anchors[0].zero
    return BootTime.model_construct(
        t=round(zero.seconds, 3), clock=zero.clock.value, within=round(anchors[0].within, 3)
    )


def _with_rules(
    catalogue: Catalogue, findings: Sequence[Finding]
) -> Iterator[tuple[Panel | None, Track, Sequence[str]]]:
    """What is drawn of a state, then what findings speak of beyond that; each with the rules of the findings."""
    rules: dict[tuple[str, str], dict[str, None]] = {}
    further: dict[tuple[str, str], Track] = {}
    for finding in findings:
        for track in _named_tracks(catalogue, finding):
            rules.setdefault((track.metric, track.name), {})[finding.outcome.rule] = None
            further.setdefault((track.metric, track.name), track)
    for panel, track in _tracks(catalogue):
        further.pop(key := (track.metric, track.name), None)
        yield panel, track, list(rules.get(key, ()))
    for key, track in list(further.items())[:MAX_NAMED]:
        panels = (panel for begin, panel in PANELS.items() if track.metric.startswith(begin))
        yield next(panels, None), track, list(rules[key])


def _named_tracks(catalogue: Catalogue, finding: Finding) -> Iterator[Track]:
    """The tracks of the metrics that a finding's evidence is about; of its process all that is drawn of processes."""
    outcome = finding.outcome
    if _PID.search(outcome.entity):
        for metric in OF_PROCESSES:
            own = (t for t in catalogue.tracks(metric) if t.name == outcome.entity and t.has_times and len(t) > 1)
            yield from list(own)[:1]
    for evidence in outcome.evidence:
        answer = outcome.answers.get(evidence.check)
        for metric in _metrics(answer) if isinstance(answer, CheckResult) else ():
            drawable = [
                track
                for name in (metric, f"{metric}:rate")
                for track in catalogue.tracks(name)
                if track.has_times and len(track) > 1
            ]
            track = _track_of(drawable, outcome.entity, evidence)
            if track and track.metric.startswith(BLOCKS.format("")):
                yield from _orders(catalogue, track)
            elif track:
                yield track


def _metrics(answer: CheckResult) -> Sequence[str]:
    """The metrics of the check, or of what a switch was compared by."""
    if isinstance(answer.check, ToggleCheck):
        return [name for figure in answer.check.toggle.metrics for name in OF_TOGGLES.get(figure, ())]
    return answer.check.metrics if answer.check else ()


def _track_of(tracks: Sequence[Track], entity: str, evidence: Evidence) -> Track | None:
    """That of the entity of the finding, else the one whose row the evidence cites, else that of the host."""
    own = [t for t in tracks if t.name == entity] or [t for t in tracks if _holds(t, evidence.cite)]
    return next(iter(own or [t for t in tracks if not t.name]), None)


def _holds(track: Track, cite: Citation | None) -> bool:
    """Whether the cited line is one of its rows."""
    if cite is None or cite.line is None or cite.member != track.table.member:
        return False
    rows = track.samples
    return bool((rows.lines == cite.line).any()) if isinstance(rows, Series) else cite in (row.cite for row in rows)


def _tracks(catalogue: Catalogue) -> Iterator[tuple[Panel, Track]]:
    """What is drawn of a state, by panel: of the host, of the processes that grew most, of the largest zone."""
    for panel, metrics in OF_HOST.items():
        for metric in metrics:
            tracks = [t for t in catalogue.tracks(metric) if t.has_times and len(t) > 1]
            # Sources that move come first (vmstat 4.0.0 to 4.0.2 repeats the memory of its first row), then dated ones.
            tracks.sort(key=lambda t: (not _range(t), is_undated(t)))
            yield from ((panel, t) for t in tracks[:1])
    threads = {t.name for t in catalogue.tracks(_VIRTUAL) if not t.column.any()}  # of the kernel: no memory
    for metric in OF_PROCESSES:
        tracks = [t for t in catalogue.tracks(metric) if t.has_times and len(t) > 2]
        tracks = [t for t in tracks if t.name not in threads] or tracks  # none but those tells that no program ran
        # Sources that tell the name of the process and the date come first.
        tracks.sort(key=lambda t: (t.name.startswith("process "), is_undated(t)))
        tracks = sorted(_first_source(tracks), key=lambda t: (-_range(t), -t.last, t.name))  # still ones: the largest
        yield from (("processes", t) for t in tracks[:MAX_PROCESSES])
    zones = [t for t in catalogue.tracks(BLOCKS.format(0)) if t.has_times and len(t) > 1]
    if zones:
        largest = max(zones, key=lambda t: (_free_pages(catalogue, t), t.name))
        yield from (("free_blocks", track) for track in _orders(catalogue, largest))


def is_undated(track: Track) -> bool:
    """Whether its times have no date."""
    return track.table.clock is not None and track.table.clock.is_of_one_member


def _range(track: Track) -> float:
    return float(track.column.max() - track.column.min())


def _orders(catalogue: Catalogue, zone: Track) -> Iterator[Track]:
    """The free blocks of each order in the zone of a track, by the same source."""
    for order in range(ORDERS):
        yield from (t for t in catalogue.tracks(BLOCKS.format(order)) if t.table is zone.table)


def _free_pages(catalogue: Catalogue, zone: Track) -> float:
    """Of a zone in its last sample."""
    return sum(track.last * 2.0**order for order, track in enumerate(_orders(catalogue, zone)))


def _first_source(tracks: Iterable[Track]) -> Iterator[Track]:
    """Of sources that watched one process at one time the first; others say the same again.

    Of two with other clocks (top tells the time of day only) that is so if they began together, but for the time zone.
    A process goes by its id: `churn (4711)` of one source is `process 4711` of another.
    """
    seen: dict[str, list[_Watch]] = {}
    for track in tracks:
        pid, times = _PID.search(track.name), track.seconds
        if times is None or not len(times):
            continue
        watch = _Watch(track.table.clock, float(times[0]), float(times[-1]))
        others = seen.setdefault(pid[1] if pid else track.name, [])
        if not any(map(watch.is_same, others)):
            others.append(watch)
            yield track


class _Watch(NamedTuple):
    """From when to when a source watched a process, in seconds on its clock."""

    clock: Clock | None
    first: float
    last: float

    def is_same(self, other: _Watch) -> bool:
        """Whether two sources watched at one time."""
        if self.clock is other.clock:
            return self.first <= other.last and other.first <= self.last
        apart = (self.first - other.first + _ZONE / 2) % _ZONE - _ZONE / 2
        counted = {Clock.BOOT, Clock.SESSION} & {self.clock, other.clock}
        return not counted and abs(apart) <= _BEGUN_TOGETHER


def _series(
    track: Track, panel: Panel | None, most: int, rules: Sequence[str], entities: Mapping[str, str]
) -> TimelineSeries:
    """`entities` are the names of processes that this source knows by their pid alone."""
    known = term(track.metric)
    counter = known is not None and known.kind == "counter"
    points = rates(track) if counter else track.points
    clock = track.table.clock.value if track.table.clock else None
    return TimelineSeries.model_construct(
        metric=f"{track.metric}{':rate' if counter else ''}", means=metric_words([track.metric]),
        unit="1/s" if counter else (known.unit if known else ""), source=track.place,
        **present_keys(
            panel=panel, entity=entities.get(track.name, track.name), clock=clock, rules=list(rules)
        ),
        points=buckets(points, most) if points is not None else [],
    )  # fmt: skip


def buckets(points: Points, most: int = MAX_BUCKETS) -> list[list[float | None]]:
    """[time, min, max, mean] per bucket, values to four digits; a bucket is one sample while there are few enough."""
    if not len(points):
        return []
    size = -(-len(points) // most)
    values, starts = points.values, np.arange(0, len(points), size)
    columns = (
        points.index[starts],
        np.minimum.reduceat(values, starts),
        np.maximum.reduceat(values, starts),
        np.add.reduceat(values, starts) / np.diff(starts, append=len(values)),
    )
    return [
        [float(f"{at:.12g}"), *(float(f"{v:.4g}") for v in values)]
        for at, *values in zip(*(c.tolist() for c in columns), strict=True)
    ]


def _episodes(diagnosis: Diagnosis, seen: Sequence[Signature], anchors: Sequence[ClockAnchor]) -> list[Episode]:
    """Stretches that findings speak of; what began while recording stacks, from then on."""
    onsets = {by: s.onset.at for s in seen if s.onset for by in s.spoken_by}
    recordings = {(p.cite.member, p.start, p.end): p for state in diagnosis.case.states for p in state.profiles}
    found = []
    for outcome in (finding.outcome for finding in diagnosis.findings):
        for evidence in outcome.evidence:
            if not evidence.window:
                continue
            first, last = evidence.window
            recording = recordings.get((evidence.cite.member if evidence.cite else "", first, last))
            first = onsets.get((outcome.rule, evidence.check), first)
            if recording and (axis := shared_axis(recording, anchors)):
                first, last = axis[0].wall_time(first), axis[0].wall_time(last)
            found.append(
                Episode.model_construct(
                    from_=first.seconds, to=last.seconds, clock=first.clock.value, text=evidence.text,
                    rule=outcome.rule,
                )
            )  # fmt: skip
    return found


def _actions(diagnosis: Diagnosis) -> list[Action]:
    found = []
    for event in diagnosis.case.events:
        how = event.fields.get("how", "prompt")
        value = quoted(event.fields.get("value", ""))
        path = path_name(event.fields.get("path") or event.fields["setting"])
        text = sentence(f"{HOW.get(how, how)} {value} to {path}")
        time: dict[str, Any] = {"t": event.time.seconds, "clock": event.time.clock.value} if event.time else {}
        found.append(Action.model_construct(**time, text=text, **place(event.cite)))
    return found
