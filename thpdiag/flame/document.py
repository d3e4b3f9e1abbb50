"""A profile as one JSON document, described by profile.schema.json beside this file.

Nothing of the profile is lost but the time of single samples (`heat` tells their number) and what `--by` adds up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np

from thpdiag import __version__
from thpdiag.engine.profiles import compiled
from thpdiag.flame.counted import Counted, Group, Idle
from thpdiag.flame.heat import heat
from thpdiag.knowledge.symbols import families, unresolved
from thpdiag.model import Frame, Moment, Profile
from thpdiag.model.profile import UNKNOWN
from thpdiag.ragged import gathered, starts_of

SCHEMA = "thpdiag/profile/1"


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the document."""
    text = files("thpdiag.flame").joinpath("profile.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def document(known: Counted, options: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The document; `options` are those that chose what is in it."""
    profile = known.profile
    return {
        "schema": SCHEMA,
        "tool": {"version": __version__, "options": dict(options or {})},
        "source": _known(
            {"member": profile.cite.member, "line": profile.cite.line, "reader": profile.reader, "event": profile.event}
        ),
        "capabilities": _capabilities(profile),
        **_known({"start": _moment(profile.start), "end": _moment(profile.end), "stated": profile.total_samples}),
        "totals": _totals(known),
        **_columns(known),
        "heat": heat(profile, known.rows),
        "families": _families(profile),
        "ledger": _ledger(profile),
        "facts": dict(profile.facts),
    }


def _known(values: Mapping[str, object]) -> dict[str, object]:
    """What is not None: absent is unknown."""
    return {key: value for key, value in values.items() if value is not None}


def _moment(moment: Moment | None) -> dict[str, object] | None:
    return None if moment is None else {"seconds": moment.seconds, "clock": str(moment.clock)}


def _number(value: float) -> float | int:
    """Whole numbers without a point."""
    return int(value) if value.is_integer() else value


def _capabilities(profile: Profile) -> dict[str, object]:
    """What the source can tell."""
    nameless = any(f.kernel and unresolved(f.name) for f in profile.frames)
    return {
        "stacks": str(profile.stacks),
        "time": profile.has_time,
        "cpu": bool((profile.rows.cpu != UNKNOWN).any()),
        "comm": any(t.comm for t in profile.tasks),
        "pid": any(t.pid is not None for t in profile.tasks),
        "tid": any(t.tid is not None for t in profile.tasks),
        "samples": bool((profile.rows.samples > 0).any()),
        "weight": "percent" if profile.percent_only else "period or samples",
        "kernel_names": not nameless,
    }


def _totals(known: Counted) -> dict[str, object]:
    return {
        "samples": int(known.samples.sum()),
        "weight": _number(float(known.weight.sum())),
        "idle": "included" if known.idle is Idle.INCLUDED else "left_out",
        "idle_samples": known.idle_samples,
        "idle_weight": _number(known.idle_weight),
    }


def _columns(known: Counted) -> dict[str, Any]:
    """Frames, stacks, tasks and rows, of the first three only those that some row uses, numbered anew."""
    chains = known.profile.chains
    chain, stack = np.unique(known.chain, return_inverse=True)
    group, task = np.unique(known.group, return_inverse=True)
    begins, lengths = chains.starts[chain], np.diff(chains.starts)[chain]
    frame, flat = np.unique(chains.frames[gathered(begins, lengths)], return_inverse=True)
    starts, numbers = starts_of(lengths).tolist(), flat.tolist()
    return {
        "by": str(known.by),
        "frames": [_frame(known.profile.frames[i]) for i in frame.tolist()],
        "stacks": [numbers[b:e] for b, e in pairwise(starts)],
        "cut": [] if chains.cut is None else np.flatnonzero(chains.cut[chain]).tolist(),
        "tasks": [_task(known.groups[i]) for i in group.tolist()],
        "rows": {
            "stack": stack.tolist(),
            "task": task.tolist(),
            "weight": [_number(w) for w in known.weight.tolist()],
            "samples": known.samples.tolist(),
        },
    }


def _frame(frame: Frame) -> dict[str, object]:
    told = {"name": frame.name, "dso": frame.dso or None, "kernel": frame.kernel, "address": frame.address}
    return _known(told)


def _task(group: Group) -> dict[str, object]:
    task = group.task
    return _known({"comm": task.comm or None, "pid": task.pid, "tid": task.tid, "cpu": group.cpu})


def _families(profile: Profile) -> dict[str, float]:
    """Of all non-idle weight, whatever was asked for, what has a function of the family in its stack."""
    known = compiled(profile)
    shares = {name: known.share(name) for name in sorted(families())}
    return {name: float(f"{share:.6g}") for name, share in shares.items() if share > 0}


def _ledger(profile: Profile) -> dict[str, object]:
    told = profile.ledger
    return {
        "read": told.read, "kept": told.kept, "without_stack": told.without_stack,
        "unknown_symbol": told.unknown_symbol, "truncated": told.truncated, "odd": dict(told.odd),
        "throttled": told.throttled, "unlisted": told.unlisted, **_known({"lost": told.lost}),
    }  # fmt: skip
