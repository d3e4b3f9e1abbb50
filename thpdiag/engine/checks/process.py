"""`process`: an application or a command that runs on the host, or that the bound process is."""

from __future__ import annotations

from collections.abc import Mapping

import re2

from thpdiag.derive.cpu_use import AVERAGE, LIFETIME, Use, uses
from thpdiag.derive.intervals import interval
from thpdiag.derive.series import Track
from thpdiag.engine.checks.series import bracketed, lines_of
from thpdiag.engine.classes import of_metric
from thpdiag.engine.judged import NO, YES, Judged, Scene, unknown
from thpdiag.engine.patterns import named
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
    commands = scene.of_process("process.command", who.get("pid"))
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
    if check.comm is not None and not named(check.comm, comm):
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
    seen = next((f for f in scene.facts("process.command") if f.label("part") is None), None)
    if seen is None and any(scene.facts("process.command")):
        return unknown("process.command", "not among the processes listed, which are not all", needed=wanted)
    if seen is None:
        return unknown("process.command", "the processes are not in the input", needed=wanted)
    return Judged(NO, "not among the processes listed", wanted, "state", seen.cite)


def _busy(check: Process, scene: Scene, wanted: str) -> Judged:
    """By the mean over what was recorded; a stretch of it that is worse is looked at on its own (engine/windows.py)."""
    found = list(uses(scene.tracks, lambda track: _is(check, track)))
    best = max(found, key=lambda use: (not use.of_its_life, use.mean), default=None)
    if best is None:
        return _unused(scene, wanted)
    bound, value, kind = quantity(check.cpu_above or 0), best.mean, of_metric(best.track.metric, "level")
    text = f"{best.track.name} uses {shown(value, 'ratio')} of a CPU{_over(best)}"
    if best.off and (value - best.off > bound) is not (value + best.off > bound):
        return unknown("process_cpu_ratio", f"{text}, which rounding leaves open", needed=wanted, kind=kind)
    answer, cite = YES if value > bound else NO, best.track.cite()
    reach = interval(best.points) if best.points is not None else 0.0
    weak = best.of_its_life
    return Judged(answer, text, wanted, kind, cite, value, "ratio", weak=weak, window=best.span, reach=reach)


def _over(use: Use) -> str:
    """Over which time it was so."""
    if use.of_its_life:
        return " averaged over its lifetime"
    if use.points is None or len(use.points) < 2:
        return ""
    values = use.points.values
    low, high = (shown(float(v), "ratio") for v in (values.min(), values.max()))
    between = "the same" if low == high else f"{low} to {high}"
    return f" on average, {between} in {len(use.points)} samples{bracketed([lines_of(use.points)])}"


def _unused(scene: Scene, wanted: str) -> Judged:
    """The process is not there; that is a no only where the use of others is known."""
    tracks = [*scene.tracks(AVERAGE), *scene.tracks(LIFETIME)]
    if not tracks:
        return unknown("process_cpu_ratio", "the CPU use of processes is not in the input", needed=wanted)
    kind = of_metric(tracks[0].metric, "last")
    return Judged(NO, "no such process among those listed", wanted, kind, tracks[0].cite())


def _is(check: Process, track: Track) -> bool:
    comm = dict(track.table.entity).get("comm", "")
    return named(check.comm or ".*", comm)
