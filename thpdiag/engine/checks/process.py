"""`process`: an application or a command that runs on the host, or that the bound process is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import re2

from thpdiag.derive.intervals import interval
from thpdiag.derive.series import Track
from thpdiag.engine.classes import of_metric
from thpdiag.engine.judged import NO, YES, Judged, Scene, unknown
from thpdiag.engine.quantity import quantity, shown
from thpdiag.engine.schema import Process, listed
from thpdiag.knowledge.applications import running


def judge(check: Process, scene: Scene) -> Judged:
    """Yes if one runs (and uses that much CPU); no only if the processes were listed."""
    wanted = _wanted(check)
    if scene.bound_kind == "process" and scene.entity is not None:
        return _bound(check, scene, dict(scene.entity), wanted)
    if check.app is not None:
        found = [f for f in scene.facts("app") if f.value in listed(check.app)]
        if found:
            return Judged(YES, f"{found[0].value} runs here", wanted, "state", found[0].cite, str(found[0].value))
        return _absent(scene, wanted)
    if check.cpu_above is not None:
        return _busy(check, scene, wanted)
    alive = [f for f in scene.facts("process.command") if _fits(check, f.label("comm") or "", str(f.value))]
    if alive:
        return Judged(YES, f"{alive[0].label('comm')} runs here", wanted, "state", alive[0].cite)
    return _absent(scene, wanted)


def _bound(check: Process, scene: Scene, who: Mapping[str, str], wanted: str) -> Judged:
    """Of the process that the rule is bound to: what it is, as its command line and its name tell."""
    if check.cpu_above is not None:
        return _busy(check, scene, wanted)
    commands = [f for f in scene.facts("process.command") if f.label("pid") == who.get("pid")]
    names = [(f.label("comm") or "", str(f.value)) for f in commands]
    if not names and "comm" in who and check.args is None:
        names = [(who["comm"], "")]
    if not names:
        return unknown("process.command", "which program this is does not stand in the input", needed=wanted)
    cite = commands[0].cite if commands else None
    for comm, line in names:
        apps = [app.name for app in running(comm, line) if app.name in listed(check.app)]
        if apps or (check.app is None and _fits(check, comm, line)):
            return Judged(YES, f"it is {(apps or [comm])[0]}", wanted, "state", cite, (apps or [comm])[0])
    return Judged(NO, f"its name is {names[0][0]}", wanted, "state", cite, names[0][0])


def _fits(check: Process, comm: str, line: str) -> bool:
    if check.comm is not None and not _called(check.comm, comm):
        return False
    if check.args is not None and not re2.search(check.args, line):
        return False
    return check.comm is not None or check.args is not None


def _wanted(check: Process) -> str:
    what = " or ".join(listed(check.app)) if check.app else f"a process named {check.comm}"
    if check.args is not None:
        what = f"a command line with {check.args}"
    return what + (f" using more than {check.cpu_above} CPU" if check.cpu_above is not None else "")


def _absent(scene: Scene, wanted: str) -> Judged:
    seen = next(scene.facts("process.command"), None)
    if seen is None:
        return unknown("process.command", "the processes are not in the input", needed=wanted)
    return Judged(NO, "not among the processes listed", wanted, "state", seen.cite)


def _busy(check: Process, scene: Scene, wanted: str) -> Judged:
    tracks = [*scene.tracks("process_cpu_ratio"), *scene.tracks("process_cpu_ratio.lifetime")]
    if not tracks:
        return unknown("process_cpu_ratio", "the CPU use of processes is not in the input", needed=wanted)
    bound = quantity(check.cpu_above or 0)
    matching = [t for t in tracks if _is(check, t)]
    best = max(matching, key=lambda t: t.last, default=None)
    if best is None:
        kind = of_metric(tracks[0].metric, "last")
        return Judged(NO, "no such process among those listed", wanted, kind, tracks[0].cite())
    value, kind = best.last, of_metric(best.metric, "last")
    text = f"{best.name} uses {shown(value, 'ratio')} of a CPU"
    if best.metric.endswith(".lifetime"):
        text += " averaged over its lifetime"
    weak = best.metric.endswith(".lifetime")
    off = best.resolution
    if off and (value - off > bound) is not (value + off > bound):
        return unknown("process_cpu_ratio", f"{text}, which rounding leaves open", needed=wanted, kind=kind)
    at, answer = best.samples[-1].time, YES if value > bound else NO
    window = None if weak or at is None else (at, at)
    reach = 0.0 if window is None else interval(best.points)
    return Judged(answer, text, wanted, kind, best.cite(), value, "ratio", weak=weak, window=window, reach=reach)


def _is(check: Process, track: Track) -> bool:
    comm = dict(track.table.entity).get("comm", "")
    return _called(check.comm or ".*", comm)


@lru_cache(2**16)
def _called(pattern: str, comm: str) -> bool:
    """Asked again and again: the same few names, in listings of thousands of processes."""
    return bool(re2.fullmatch(pattern, comm))
