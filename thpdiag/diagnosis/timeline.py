"""The timeline of the result: series by chart panel (at most 1,500 buckets each, 5,000 in all), episodes found by
checks, and operator actions.

The metrics of a finding's checks are always included, for the process or zone that it names. These series name the
rule.
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
MIN_BUCKETS = 200  # of a series among many
MAX_ALL_BUCKETS = 5000  # of a document, so that one page can show them
HOST_METRICS: Mapping[Panel, tuple[str, ...]] = {
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
WRITE_OUTCOMES = {
    "prompt": "wrote", "prose": "the text shows a write of", "no-effect": "tried without success to write",
    "failed": "failed to write", "sudo-redirect": "tried without success (shell redirection without root) to write",
}  # fmt: skip
BLOCKS_METRIC = "node_buddyinfo_blocks_order{}"
MAX_ORDERS = 11  # 0 to 10, the most of common kernels
_VIRTUAL = "process_virtual_memory_bytes"
PROCESS_METRICS = ("process_resident_memory_bytes", _VIRTUAL, "process_faults_total")
MAX_PROCESSES = 3
MAX_FINDING_SERIES = 24  # of a state, in addition to the default ones
PANEL_OF_PREFIX: Mapping[str, Panel] = {
    "cpu_ratio.": "cpu", "node_vmstat_": "huge_pages", "node_memory_": "memory", "process_": "processes",
    "node_buddyinfo_blocks_": "free_blocks", "node_thp_": "huge_pages", "node_allocstall": "huge_pages",
}  # fmt: skip
TOGGLE_METRICS: Mapping[str, tuple[str, ...]] = {
    "sys_share": ("cpu_ratio.sys_share", "cpu_ratio.sys_total", "cpu_ratio.sys_total_steal"),
    "sys_total": ("cpu_ratio.sys_total", "cpu_ratio.sys_total_steal"),
    "compact_stall_rate": ("node_vmstat_compact_stall",),
    "rss_slope": ("process_resident_memory_bytes",),
}  # series of the metrics that `toggle` compares
_PID = re.compile(r"(?<![0-9])([0-9]+)\)?\Z")
_ZONE_SECONDS = 900  # time zones differ by multiples of 15 minutes
_MAX_START_DIFFERENCE_SECONDS = 30  # between recorders started together


def timeline(diagnosis: Diagnosis, views: Sequence[StateView], signatures: Sequence[Signature] = ()) -> Timeline:
    """Return the timed series of the default metrics and of what findings found in call stacks."""
    anchors = diagnosis.case.anchors
    shares = [share_series(signature, anchors) for signature in signatures]
    tracks = [row for view in views for row in _tracks_with_rules(view.catalogue, diagnosis.findings)]
    limit = max(MIN_BUCKETS, min(MAX_BUCKETS, MAX_ALL_BUCKETS // max(1, len(tracks))))
    names = (finding.outcome.entity for finding in diagnosis.findings)
    entities = {f"process {pid[1]}": name for name in names if (pid := _PID.search(name))}
    return Timeline.model_construct(
        series=[
            *(series for series in shares if len(series.points) > 1),
            *(_series(track, panel, limit, rules, entities) for panel, track, rules in tracks),
        ],
        episodes=_episodes(diagnosis, signatures, anchors),
        actions=_actions(diagnosis),
        **present_keys(boot=_boot_time(anchors)),
    )


def _boot_time(anchors: Sequence[ClockAnchor]) -> BootTime | None:
    if not anchors:
        return None
    zero = anchors[0].zero
    return BootTime.model_construct(
        t=round(zero.seconds, 3), clock=zero.clock.value, within=round(anchors[0].within, 3)
    )


def _tracks_with_rules(
    catalogue: Catalogue, findings: Sequence[Finding]
) -> Iterator[tuple[Panel | None, Track, Sequence[str]]]:
    """The default tracks of a state, then further tracks of findings, each with the rules of its findings."""
    rules: dict[tuple[str, str], dict[str, None]] = {}
    further: dict[tuple[str, str], Track] = {}
    for finding in findings:
        for track in _tracks_of_finding(catalogue, finding):
            rules.setdefault((track.metric, track.name), {})[finding.outcome.rule] = None
            further.setdefault((track.metric, track.name), track)
    for panel, track in _default_tracks(catalogue):
        further.pop(key := (track.metric, track.name), None)
        yield panel, track, list(rules.get(key, ()))
    for key, track in list(further.items())[:MAX_FINDING_SERIES]:
        panels = (panel for begin, panel in PANEL_OF_PREFIX.items() if track.metric.startswith(begin))
        yield next(panels, None), track, list(rules[key])


def _tracks_of_finding(catalogue: Catalogue, finding: Finding) -> Iterator[Track]:
    """The tracks of the metrics in a finding's evidence, and all process metrics of its process."""
    outcome = finding.outcome
    if _PID.search(outcome.entity):
        for metric in PROCESS_METRICS:
            tracks = (t for t in catalogue.tracks(metric) if t.name == outcome.entity and t.has_times and len(t) > 1)
            yield from list(tracks)[:1]
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
            if track and track.metric.startswith(BLOCKS_METRIC.format("")):
                yield from _order_tracks(catalogue, track)
            elif track:
                yield track


def _metrics(answer: CheckResult) -> Sequence[str]:
    """The metrics of the check, or those by which a `toggle` check compared two states."""
    if isinstance(answer.check, ToggleCheck):
        return [name for figure in answer.check.toggle.metrics for name in TOGGLE_METRICS.get(figure, ())]
    return answer.check.metrics if answer.check else ()


def _track_of(tracks: Sequence[Track], entity: str, evidence: Evidence) -> Track | None:
    """The track of the finding's entity, or else that with the cited row, or else that of the host."""
    matches = [t for t in tracks if t.name == entity] or [t for t in tracks if _has_row(t, evidence.cite)]
    return next(iter(matches or [t for t in tracks if not t.name]), None)


def _has_row(track: Track, cite: Citation | None) -> bool:
    if cite is None or cite.line is None or cite.member != track.table.member:
        return False
    rows = track.samples
    return bool((rows.lines == cite.line).any()) if isinstance(rows, Series) else cite in (row.cite for row in rows)


def _default_tracks(catalogue: Catalogue) -> Iterator[tuple[Panel, Track]]:
    """The default tracks of a state by panel: of the host, of the processes that grew most, of the largest zone."""
    for panel, metrics in HOST_METRICS.items():
        for metric in metrics:
            tracks = [t for t in catalogue.tracks(metric) if t.has_times and len(t) > 1]
            # Sources whose values change first (vmstat 4.0.0 to 4.0.2 repeats the first row's memory), then dated ones.
            tracks.sort(key=lambda t: (not _range(t), is_undated(t)))
            yield from ((panel, t) for t in tracks[:1])
    threads = {t.name for t in catalogue.tracks(_VIRTUAL) if not t.column.any()}  # kernel threads have no memory
    for metric in PROCESS_METRICS:
        tracks = [t for t in catalogue.tracks(metric) if t.has_times and len(t) > 2]
        tracks = [t for t in tracks if t.name not in threads] or tracks  # only kernel threads: no program ran
        # Sources with the name of the process and the date come first.
        tracks.sort(key=lambda t: (t.name.startswith("process "), is_undated(t)))
        tracks = sorted(_first_source(tracks), key=lambda t: (-_range(t), -t.last, t.name))  # if none grew, the largest
        yield from (("processes", t) for t in tracks[:MAX_PROCESSES])
    zones = [t for t in catalogue.tracks(BLOCKS_METRIC.format(0)) if t.has_times and len(t) > 1]
    if zones:
        largest = max(zones, key=lambda t: (_free_pages(catalogue, t), t.name))
        yield from (("free_blocks", track) for track in _order_tracks(catalogue, largest))


def is_undated(track: Track) -> bool:
    """Return whether the times have no date."""
    return track.table.clock is not None and track.table.clock.is_of_one_member


def _range(track: Track) -> float:
    return float(track.column.max() - track.column.min())


def _order_tracks(catalogue: Catalogue, zone: Track) -> Iterator[Track]:
    """The free blocks of each order in the zone of a track, from the same source."""
    for order in range(MAX_ORDERS):
        yield from (t for t in catalogue.tracks(BLOCKS_METRIC.format(order)) if t.table is zone.table)


def _free_pages(catalogue: Catalogue, zone: Track) -> float:
    """The free pages of a zone in its last sample."""
    return sum(track.last * 2.0**order for order, track in enumerate(_order_tracks(catalogue, zone)))


def _first_source(tracks: Iterable[Track]) -> Iterator[Track]:
    """The first of several sources that recorded one process at one time. Sources with different clocks (top prints
    only the time of day) are taken as simultaneous if they began together, apart from the time zone. Processes are
    identified by pid: `churn (4711)` of one source is `process 4711` of another."""
    recording_times: dict[str, list[_RecordingTime]] = {}
    for track in tracks:
        pid, times = _PID.search(track.name), track.seconds
        if times is None or not len(times):
            continue
        recording_time = _RecordingTime(track.table.clock, float(times[0]), float(times[-1]))
        others = recording_times.setdefault(pid[1] if pid else track.name, [])
        if not any(map(recording_time.is_same, others)):
            others.append(recording_time)
            yield track


class _RecordingTime(NamedTuple):
    """The time range in which a source recorded a process, in seconds on its clock."""

    clock: Clock | None
    first: float
    last: float

    def is_same(self, other: _RecordingTime) -> bool:
        """Whether two sources recorded at the same time."""
        if self.clock is other.clock:
            return self.first <= other.last and other.first <= self.last
        difference = (self.first - other.first + _ZONE_SECONDS / 2) % _ZONE_SECONDS - _ZONE_SECONDS / 2
        is_relative = {Clock.BOOT, Clock.SESSION} & {self.clock, other.clock}
        return not is_relative and abs(difference) <= _MAX_START_DIFFERENCE_SECONDS


def _series(
    track: Track, panel: Panel | None, limit: int, rules: Sequence[str], entities: Mapping[str, str]
) -> TimelineSeries:
    """A series of the document. `entities` are the names of processes that this source knows only by pid."""
    metric_term = term(track.metric)
    is_counter = metric_term is not None and metric_term.kind == "counter"
    points = rates(track) if is_counter else track.points
    clock = track.table.clock.value if track.table.clock else None
    return TimelineSeries.model_construct(
        metric=f"{track.metric}{':rate' if is_counter else ''}", means=metric_words([track.metric]),
        unit="1/s" if is_counter else (metric_term.unit if metric_term else ""), source=track.place,
        **present_keys(
            panel=panel, entity=entities.get(track.name, track.name), clock=clock, rules=list(rules)
        ),
        points=buckets(points, limit) if points is not None else [],
    )  # fmt: skip


def buckets(points: Points, limit: int = MAX_BUCKETS) -> list[list[float | None]]:
    """Return [time, min, max, mean] per bucket, values with four digits; short series have a bucket per sample."""
    if not len(points):
        return []
    size = -(-len(points) // limit)
    values, starts = points.values, np.arange(0, len(points), size)
    columns = (
        points.index[starts],
        np.minimum.reduceat(values, starts),
        np.maximum.reduceat(values, starts),
        np.add.reduceat(values, starts) / np.diff(starts, append=len(values)),
    )
    return [
        [float(f"{time:.12g}"), *(float(f"{v:.4g}") for v in values)]
        for time, *values in zip(*(c.tolist() for c in columns), strict=True)
    ]


def _episodes(diagnosis: Diagnosis, signatures: Sequence[Signature], anchors: Sequence[ClockAnchor]) -> list[Episode]:
    """The windows of evidence. For a signature with an onset in its recording, the episode begins there."""
    onsets = {key: s.onset.at for s in signatures if s.onset for key in s.checks}
    recordings = {(p.cite.member, p.start, p.end): p for state in diagnosis.case.states for p in state.profiles}
    episodes = []
    for outcome in (finding.outcome for finding in diagnosis.findings):
        for evidence in outcome.evidence:
            if not evidence.window:
                continue
            first, last = evidence.window
            recording = recordings.get((evidence.cite.member if evidence.cite else "", first, last))
            first = onsets.get((outcome.rule, evidence.check), first)
            if recording and (axis := shared_axis(recording, anchors)):
                first, last = axis[0].wall_time(first), axis[0].wall_time(last)
            episodes.append(
                Episode.model_construct(
                    from_=first.seconds, to=last.seconds, clock=first.clock.value, text=evidence.text,
                    rule=outcome.rule,
                )
            )  # fmt: skip
    return episodes


def _actions(diagnosis: Diagnosis) -> list[Action]:
    actions = []
    for event in diagnosis.case.events:
        outcome = event.fields.get("how", "prompt")
        value = quoted(event.fields.get("value", ""))
        path = path_name(event.fields.get("path") or event.fields["setting"])
        text = sentence(f"{WRITE_OUTCOMES.get(outcome, outcome)} {value} to {path}")
        time: dict[str, Any] = {"t": event.time.seconds, "clock": event.time.clock.value} if event.time else {}
        actions.append(Action.model_construct(**time, text=text, **place(event.cite)))
    return actions
