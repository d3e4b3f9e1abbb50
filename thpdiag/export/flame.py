"""A profile as folded stacks, as speedscope's file, and all of it as one JSON document.

    java;start_thread;page_fault;do_huge_pmd_anonymous_page;compact_zone 417         folded, root first

    {"$schema": ..., "shared": {"frames": [{"name": "main"}]}, "profiles": [{"type": "sampled", "unit": "none",
     "startValue": 0, "endValue": 417, "samples": [[0, 1]], "weights": [417]}]}      speedscope

Samples are added up by task, process, command or CPU. Idle ones are left out unless they are asked for; what was left
out is counted. What differs only in address or object is one. Names are written as stackcollapse-perf.pl does, so that
its viewers and filters fit: `[libjvm.so]` for a function without a name in that object, `_[k]` behind a kernel function
on request, `java-1234/1240` for a thread. What folded text cannot carry is replaced: `;` by `:`, control characters by
their escapes. Lines are sorted, those of samples without a stack stand last. Source of the second: speedscope's
documentation of its file format. The JSON document is described by profile.schema.json beside this file; nothing of the
profile is lost in it but the time of single samples (`heat` tells their number) and what `--by` adds up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thpdiag import __version__
from thpdiag.engine.state_view import compiled_profile
from thpdiag.knowledge.symbols import families, is_unresolved
from thpdiag.model import Frame, Moment, Profile, Rows, Task
from thpdiag.model.profile import BIN, NAMELESS, UNKNOWN
from thpdiag.model.ragged import distinct, list_indices, starts_of
from thpdiag.report.escaping import visible

Ints = NDArray[np.int64]
MOST = float(1 << 62)
PERCENT = 1000  # counts per percent: perf prints two decimals, shares of shares have more


class By(StrEnum):
    """The root of each stack."""

    COMM = "comm"
    PID = "pid"
    TID = "tid"
    CPU = "cpu"
    NONE = "none"


class Weight(StrEnum):
    """What is counted."""

    SAMPLES = "samples"
    PERIOD = "period"


@dataclass(frozen=True, slots=True)
class Group:
    """Who ran, as far as the groups tell them apart."""

    task: Task = field(default_factory=Task)
    cpu: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Columns of equal length: `weight` and `samples` of chain number `chain` in group number `group`.

    `rows` are the samples themselves, `idle_samples` and `idle_weight` those of idle CPUs, which are in them if `idle`;
    `unlisted` is what a table of percentages leaves out.
    """

    profile: Profile
    by: By
    groups: tuple[Group, ...]
    chain: Ints
    group: Ints
    weight: NDArray[np.float64]
    samples: Ints
    rows: Rows
    idle: bool
    idle_samples: int
    idle_weight: float
    unlisted: float


def count_stacks(profile: Profile, by: By = By.COMM, *, idle: bool = False, process: str = "") -> Counted:
    """The samples of a profile, of one process (its pid or command) if one is named, added up by chain and group."""
    every, busy = profile.rows, compiled_profile(profile).rows
    if process:
        mine = np.fromiter((process in (t.comm, str(t.pid)) for t in profile.tasks), np.bool_, len(profile.tasks))
        every, busy = every.only(mine[every.task]), busy.only(mine[busy.task])
    rows = every if idle else busy
    if by is By.CPU:
        cpus, group = np.unique(rows.cpu, return_inverse=True)
        groups = tuple(Group(cpu=None if cpu == UNKNOWN else cpu) for cpu in cpus.tolist())
    else:
        numbers: dict[Task, int] = {}
        of_task = [numbers.setdefault(TASKS[by](task), len(numbers)) for task in profile.tasks]
        groups, group = tuple(map(Group, numbers)), np.array(of_task, np.int64)[rows.task]
    count = max(1, len(profile.chains))
    keys, place = np.unique(group.astype(np.int64) * count + rows.chain, return_inverse=True)
    samples = np.zeros(len(keys), np.int64)
    np.add.at(samples, place, rows.samples)
    return Counted(
        profile=profile,
        by=by,
        groups=groups,
        chain=keys % count,
        group=keys // count,
        weight=np.bincount(place, rows.weight, len(keys)).astype(np.float64, copy=False),
        samples=samples,
        rows=rows,
        idle=idle,
        idle_samples=int(every.samples.sum() - busy.samples.sum()),
        idle_weight=float(every.weight.sum() - busy.weight.sum()),
        unlisted=0.0 if process else profile.ledger.unlisted,
    )


def counts(known: Counted, weight: Weight) -> tuple[Ints, str]:
    """A whole number for each row, and what it counts.

    Percentages become thousandths of a percent, at least one; so they stay visible and viewers need no fractions.
    """
    if weight is Weight.SAMPLES and len(known.samples) and known.samples.min() > 0:
        return known.samples, "samples"
    scale = PERCENT if known.profile.percent_only else 1
    numbers = np.nan_to_num(np.rint(known.weight * scale)).clip(int(known.profile.percent_only), MOST).astype(np.int64)
    return numbers, "thousandths of a percent" if known.profile.percent_only else "period"


TASKS: dict[By, Callable[[Task], Task]] = {
    By.COMM: lambda task: Task(task.comm),
    By.PID: lambda task: Task(task.comm, task.pid),
    By.TID: lambda task: task,
    By.NONE: lambda _task: Task(),
}


KERNEL = "[kernel.kallsyms]"
UNLISTED = "[unlisted]"  # what a table of percentages leaves out


def safe(name: str) -> str:
    """The name on one line and without a `;`."""
    return visible(name).replace(";", ":").strip()


def label(frame: Frame, kernel_mark: str = "") -> str:
    """The function's name, else the object that it is in."""
    name, dso = frame.name, frame.dso
    if is_unresolved(name):
        if not dso or dso == NAMELESS:
            name = KERNEL if frame.kernel else name
        else:
            name = dso if dso.startswith("[") and dso.endswith("]") else f"[{dso.rpartition('/')[2] or dso}]"
    return (safe(name) or NAMELESS) + kernel_mark * bool(frame.kernel)


def root(group: Group, by: By) -> str:
    """What stands before the first function; nothing for `By.NONE`."""
    task = group.task
    if by is By.NONE:
        return ""
    if by is By.CPU:
        return f"cpu{'?' if group.cpu is None else group.cpu}"
    name = safe(task.comm) or "?"
    if by is By.COMM:
        return name
    thread = f"/{task.tid}" if by is By.TID and task.tid is not None else ""
    return f"{name}-{'?' if task.pid is None else task.pid}{thread}"


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """`counts[i]` of stack `stacks[of_row[i]]` under root `roots[i]`; what `unit` they are.

    Stacks and roots hold numbers of `labels`, the root of the stack first.
    """

    labels: tuple[str, ...]
    stacks: list[list[int]]
    roots: list[int]
    of_row: list[int]
    counts: list[int]
    unit: str


def label_stacks(known: Counted, weight: Weight = Weight.SAMPLES, kernel_mark: str = "") -> Labelled:
    """The stacks of a profile by their labels."""
    chains, numbers = known.profile.chains, dict[str, int]()
    of_frame = np.fromiter(
        (numbers.setdefault(label(f, kernel_mark), len(numbers)) for f in known.profile.frames), np.int64
    )
    values = of_frame[chains.frames]
    first, same = distinct(values, chains.starts)
    # Two groups may have one name; -1: there is no root, and a sample without a stack gets a frame instead.
    names = [root(group, known.by) for group in known.groups]
    of_group = np.array([numbers.setdefault(n, len(numbers)) if n else -1 for n in names], np.int64).reshape(-1)
    width = max(1, len(first))
    keys, place = np.unique((of_group[known.group] + 1) * width + same[known.chain], return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    numbers_of_row, unit = counts(known, weight)
    np.add.at(sums, place, numbers_of_row)
    used, of_row = np.unique(keys % width, return_inverse=True)
    begins, ends = chains.starts[first[used]].tolist(), chains.starts[first[used] + 1].tolist()
    stacks = [values[b:e][::-1].tolist() for b, e in zip(begins, ends, strict=True)]
    roots = (keys // width - 1).tolist()
    if -1 in roots and [] in stacks:
        stacks[stacks.index([])] = [numbers.setdefault(NAMELESS, len(numbers))]
    found = Labelled(tuple(numbers), stacks, roots, of_row.tolist(), sums.tolist(), unit)
    told = float(known.weight.sum())
    rest = round(known.unlisted * float(sums.sum()) / told) if known.profile.percent_only and told > 0 else 0
    return _with_rest(found, root(Group(), known.by), rest) if rest else found


def _with_rest(found: Labelled, name: str, rest: int) -> Labelled:
    """With what the source does not list, so that shares in the picture are those of all samples."""
    labels = dict.fromkeys((*found.labels, UNLISTED, *([name] if name else [])))
    numbers = {label: number for number, label in enumerate(labels)}
    return replace(
        found,
        labels=tuple(labels),
        stacks=[*found.stacks, [numbers[UNLISTED]]],
        roots=[*found.roots, numbers[name] if name else -1],
        of_row=[*found.of_row, len(found.stacks)],
        counts=[*found.counts, rest],
    )


def folded_text(known: Labelled) -> str:
    """The text, with a line end after each stack."""
    names = known.labels
    texts = [";".join([names[i] for i in stack]) for stack in known.stacks]
    lines = [
        (f"{names[root]};{texts[stack]}" if texts[stack] else names[root]) if root >= 0 else texts[stack]
        for root, stack in zip(known.roots, known.of_row, strict=True)
    ]
    both = sorted(zip(lines, known.counts, strict=True), key=lambda item: (";" not in item[0], item))
    return "".join([f"{line} {count}\n" for line, count in both])


SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(known: Labelled, title: str) -> Mapping[str, Any]:
    """The document; what the weights count stands in the name of the profile."""
    rows = zip(known.roots, known.of_row, strict=True)
    return {
        "$schema": SPEEDSCOPE_SCHEMA,
        "exporter": f"thpdiag {__version__}",
        "name": title,
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": label} for label in known.labels]},
        "profiles": [
            {
                "type": "sampled",
                "name": f"{title}, {known.unit}",
                "unit": "none",
                "startValue": 0,
                "endValue": sum(known.counts),
                "samples": [([root] if root >= 0 else []) + known.stacks[stack] for root, stack in rows],
                "weights": known.counts,
            }
        ],
    }


PARTS = 50  # of a second
BINS = round(1 / BIN)


def heat(profile: Profile, rows: Rows) -> dict[str, Any] | None:
    """The cells, None if the profile has no times or no numbers of samples."""
    known = rows.only(rows.bin != UNKNOWN)
    if not profile.has_time or not len(known) or known.samples.max() <= 0:
        return None
    seconds = profile.start.seconds if profile.start else 0.0
    bins = known.bin.astype(np.int64) + round(seconds % 1 * BINS)
    cells, place = np.unique(bins // BINS * PARTS + bins % BINS * PARTS // BINS, return_inverse=True)
    samples = np.zeros(len(cells), np.int64)
    np.add.at(samples, place, known.samples)
    return {
        "from": int(seconds // 1),
        **({"clock": str(profile.start.clock)} if profile.start else {}),
        "parts": PARTS,
        "second": (cells // PARTS).tolist(),
        "part": (cells % PARTS).tolist(),
        "samples": samples.tolist(),
    }


DOCUMENT_SCHEMA = "thpdiag/profile/1"
LEDGER = ("read", "kept", "without_stack", "unknown_symbol", "truncated", "odd", "throttled", "unlisted", "lost")


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the document."""
    text = files(__package__).joinpath("profile.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def document(known: Counted, options: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The document; `options` are those that chose what is in it."""
    profile = known.profile
    return {
        "schema": DOCUMENT_SCHEMA,
        "tool": {"version": __version__, "options": dict(options or {})},
        "source": _drop_none(
            {"member": profile.cite.member, "line": profile.cite.line, "reader": profile.reader, "event": profile.event}
        ),
        "capabilities": _capabilities(profile),
        **_drop_none({"start": _moment(profile.start), "end": _moment(profile.end), "stated": profile.total_samples}),
        "totals": _totals(known),
        **_columns(known),
        "heat": heat(profile, known.rows),
        "families": _families(profile),
        "ledger": _drop_none(
            {name: getattr(profile.ledger, name) for name in LEDGER} | {"odd": dict(profile.ledger.odd)}
        ),
        "facts": dict(profile.facts),
    }


def _drop_none(values: Mapping[str, object]) -> dict[str, object]:
    """What is not None: absent is unknown."""
    return {key: value for key, value in values.items() if value is not None}


def _moment(moment: Moment | None) -> dict[str, object] | None:
    return None if moment is None else {"seconds": moment.seconds, "clock": str(moment.clock)}


def _number(value: float) -> float | int:
    """Whole numbers without a point."""
    return int(value) if value.is_integer() else value


def _capabilities(profile: Profile) -> dict[str, object]:
    """What the source can tell."""
    nameless = any(f.kernel and is_unresolved(f.name) for f in profile.frames)
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
        "idle": "included" if known.idle else "left_out",
        "idle_samples": known.idle_samples,
        "idle_weight": _number(known.idle_weight),
    }


def _columns(known: Counted) -> dict[str, Any]:
    """Frames, stacks, tasks and rows, of the first three only those that some row uses, numbered anew."""
    chains = known.profile.chains
    chain, stack = np.unique(known.chain, return_inverse=True)
    group, task = np.unique(known.group, return_inverse=True)
    begins, lengths = chains.starts[chain], np.diff(chains.starts)[chain]
    frame, flat = np.unique(chains.frames[list_indices(begins, lengths)], return_inverse=True)
    starts, numbers = starts_of(lengths).tolist(), flat.tolist()
    return {
        "by": str(known.by),
        "frames": [
            _drop_none({"name": f.name, "dso": f.dso or None, "kernel": f.kernel, "address": f.address})
            for f in (known.profile.frames[i] for i in frame.tolist())
        ],
        "stacks": [numbers[b:e] for b, e in pairwise(starts)],
        "cut": [] if chains.cut is None else np.flatnonzero(chains.cut[chain]).tolist(),
        "tasks": [
            _drop_none({"comm": g.task.comm or None, "pid": g.task.pid, "tid": g.task.tid, "cpu": g.cpu})
            for g in (known.groups[i] for i in group.tolist())
        ],
        "rows": {
            "stack": stack.tolist(),
            "task": task.tolist(),
            "weight": [_number(w) for w in known.weight.tolist()],
            "samples": known.samples.tolist(),
        },
    }


def _families(profile: Profile) -> dict[str, float]:
    """Of all non-idle weight, whatever was asked for, what has a function of the family in its stack."""
    known = compiled_profile(profile)
    shares = {name: known.share(name) for name in sorted(families())}
    return {name: float(f"{share:.6g}") for name, share in shares.items() if share > 0}
