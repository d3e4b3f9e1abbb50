"""A profile as folded stacks, as a speedscope file, or completely as one JSON document.

    java;start_thread;page_fault;do_huge_pmd_anonymous_page;compact_zone 417         folded, root first

    {"$schema": ..., "shared": {"frames": [{"name": "main"}]}, "profiles": [{"type": "sampled", "unit": "none",
     "startValue": 0, "endValue": 417, "samples": [[0, 1]], "weights": [417]}]}      speedscope

Samples are summed by task, process, command or CPU. Idle samples are left out by default, and counted. Frames that
differ only in address or object are merged. Names are written as stackcollapse-perf.pl does, so that its viewers and
filters work: `[libjvm.so]` for a function without a name in that object, `_[k]` after a kernel function on request,
`java-1234/1240` for a thread. Folded text replaces what it cannot contain: `;` by `:`, control characters by their
escapes. Lines are sorted, samples without a stack last. Source of the second format: speedscope's documentation of its
file format. The JSON document is described by profile.schema.json in this folder; it has everything except the time of
single samples (`heat` has their number) and what `--by` sums up.
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
MAX_COUNT = float(1 << 62)
COUNTS_PER_PERCENT = 1000  # perf prints two decimals, products of shares have more


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
    """The task or CPU of samples, as far as the groups distinguish them."""

    task: Task = field(default_factory=Task)
    cpu: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Columns of equal length: `weight` and `samples` of chain number `chain` in group number `group`.

    `rows` are the samples themselves, `idle_samples` and `idle_weight` those of idle CPUs, included if `idle`;
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
    """Return the samples of a profile, or of one process (pid or command), summed by chain and group."""
    all_rows, busy = profile.rows, compiled_profile(profile).rows
    if process:
        is_wanted = np.fromiter((process in (t.comm, str(t.pid)) for t in profile.tasks), np.bool_, len(profile.tasks))
        all_rows, busy = all_rows.only(is_wanted[all_rows.task]), busy.only(is_wanted[busy.task])
    rows = all_rows if idle else busy
    if by is By.CPU:
        cpus, group = np.unique(rows.cpu, return_inverse=True)
        groups = tuple(Group(cpu=None if cpu == UNKNOWN else cpu) for cpu in cpus.tolist())
    else:
        numbers: dict[Task, int] = {}
        task_groups = [numbers.setdefault(TASKS[by](task), len(numbers)) for task in profile.tasks]
        groups, group = tuple(map(Group, numbers)), np.array(task_groups, np.int64)[rows.task]
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
        idle_samples=int(all_rows.samples.sum() - busy.samples.sum()),
        idle_weight=float(all_rows.weight.sum() - busy.weight.sum()),
        unlisted=0.0 if process else profile.ledger.unlisted,
    )


def counts(stacks: Counted, weight: Weight) -> tuple[Ints, str]:
    """Return an integer for each row, and what it counts.

    Percentages become thousandths of a percent, at least one, so that they stay visible and viewers need no fractions.
    """
    if weight is Weight.SAMPLES and len(stacks.samples) and stacks.samples.min() > 0:
        return stacks.samples, "samples"
    in_percent = stacks.profile.percent_only
    numbers = np.nan_to_num(np.rint(stacks.weight * (COUNTS_PER_PERCENT if in_percent else 1)))
    unit = "thousandths of a percent" if in_percent else "period"
    return numbers.clip(int(in_percent), MAX_COUNT).astype(np.int64), unit


TASKS: dict[By, Callable[[Task], Task]] = {
    By.COMM: lambda task: Task(task.comm),
    By.PID: lambda task: Task(task.comm, task.pid),
    By.TID: lambda task: task,
    By.NONE: lambda _task: Task(),
}


KERNEL = "[kernel.kallsyms]"
UNLISTED = "[unlisted]"  # what a table of percentages leaves out


def safe(name: str) -> str:
    """Return the name on one line and without a `;`."""
    return visible(name).replace(";", ":").strip()


def label(frame: Frame, kernel_mark: str = "") -> str:
    """Return the function's name, else the object that contains it."""
    name, dso = frame.name, frame.dso
    if is_unresolved(name):
        if not dso or dso == NAMELESS:
            name = KERNEL if frame.kernel else name
        else:
            name = dso if dso.startswith("[") and dso.endswith("]") else f"[{dso.rpartition('/')[2] or dso}]"
    return (safe(name) or NAMELESS) + kernel_mark * bool(frame.kernel)


def root(group: Group, by: By) -> str:
    """Return the text before the first function; empty for `By.NONE`."""
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
    """`counts[i]` of stack `stacks[of_row[i]]` under root `roots[i]`, in `unit`.

    Stacks, root first, and roots are indices of `labels`.
    """

    labels: tuple[str, ...]
    stacks: list[list[int]]
    roots: list[int]
    of_row: list[int]
    counts: list[int]
    unit: str


def label_stacks(counted: Counted, weight: Weight = Weight.SAMPLES, kernel_mark: str = "") -> Labelled:
    """Return the stacks of a profile by their labels."""
    chains, numbers = counted.profile.chains, dict[str, int]()
    frame_labels = np.fromiter(
        (numbers.setdefault(label(f, kernel_mark), len(numbers)) for f in counted.profile.frames), np.int64
    )
    values = frame_labels[chains.frames]
    first, same = distinct(values, chains.starts)
    # Two groups may have the same name; -1: no root, so that a sample without a stack gets a frame instead.
    names = [root(group, counted.by) for group in counted.groups]
    group_labels = np.array([numbers.setdefault(n, len(numbers)) if n else -1 for n in names], np.int64).reshape(-1)
    width = max(1, len(first))
    keys, place = np.unique((group_labels[counted.group] + 1) * width + same[counted.chain], return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    numbers_of_row, unit = counts(counted, weight)
    np.add.at(sums, place, numbers_of_row)
    used, of_row = np.unique(keys % width, return_inverse=True)
    begins, ends = chains.starts[first[used]].tolist(), chains.starts[first[used] + 1].tolist()
    stacks = [values[b:e][::-1].tolist() for b, e in zip(begins, ends, strict=True)]
    roots = (keys // width - 1).tolist()
    if -1 in roots and [] in stacks:
        stacks[stacks.index([])] = [numbers.setdefault(NAMELESS, len(numbers))]
    labelled = Labelled(tuple(numbers), stacks, roots, of_row.tolist(), sums.tolist(), unit)
    listed = float(counted.weight.sum())
    rest = round(counted.unlisted * float(sums.sum()) / listed) if counted.profile.percent_only and listed > 0 else 0
    return _with_rest(labelled, root(Group(), counted.by), rest) if rest else labelled


def _with_rest(labelled: Labelled, name: str, rest: int) -> Labelled:
    """Add what the source does not list, so that shares in the picture are those of all samples."""
    labels = dict.fromkeys((*labelled.labels, UNLISTED, *([name] if name else [])))
    numbers = {label: number for number, label in enumerate(labels)}
    return replace(
        labelled,
        labels=tuple(labels),
        stacks=[*labelled.stacks, [numbers[UNLISTED]]],
        roots=[*labelled.roots, numbers[name] if name else -1],
        of_row=[*labelled.of_row, len(labelled.stacks)],
        counts=[*labelled.counts, rest],
    )


def folded_text(labelled: Labelled) -> str:
    """Return the text, with a line end after each stack."""
    names = labelled.labels
    texts = [";".join([names[i] for i in stack]) for stack in labelled.stacks]
    lines = [
        (f"{names[root]};{texts[stack]}" if texts[stack] else names[root]) if root >= 0 else texts[stack]
        for root, stack in zip(labelled.roots, labelled.of_row, strict=True)
    ]
    counted = sorted(zip(lines, labelled.counts, strict=True), key=lambda item: (";" not in item[0], item))
    return "".join([f"{line} {count}\n" for line, count in counted])


SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(labelled: Labelled, title: str) -> Mapping[str, Any]:
    """Return the document; the name of the profile has the unit of the weights."""
    rows = zip(labelled.roots, labelled.of_row, strict=True)
    return {
        "$schema": SPEEDSCOPE_SCHEMA,
        "exporter": f"thpdiag {__version__}",
        "name": title,
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": label} for label in labelled.labels]},
        "profiles": [
            {
                "type": "sampled",
                "name": f"{title}, {labelled.unit}",
                "unit": "none",
                "startValue": 0,
                "endValue": sum(labelled.counts),
                "samples": [([root] if root >= 0 else []) + labelled.stacks[stack] for root, stack in rows],
                "weights": labelled.counts,
            }
        ],
    }


PARTS = 50  # of a second
BINS = round(1 / BIN)


def heat(profile: Profile, rows: Rows) -> dict[str, Any] | None:
    """Return the cells, None if the profile has no times or no numbers of samples."""
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
    """Return the JSON Schema (draft 2020-12) of the document."""
    text = files(__package__).joinpath("profile.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def document(counted: Counted, options: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the document; `options` are those that selected its content."""
    profile = counted.profile
    return {
        "schema": DOCUMENT_SCHEMA,
        "tool": {"version": __version__, "options": dict(options or {})},
        "source": _drop_none(
            {"member": profile.cite.member, "line": profile.cite.line, "reader": profile.reader, "event": profile.event}
        ),
        "capabilities": _capabilities(profile),
        **_drop_none({"start": _moment(profile.start), "end": _moment(profile.end), "stated": profile.total_samples}),
        "totals": _totals(counted),
        **_columns(counted),
        "heat": heat(profile, counted.rows),
        "families": _families(profile),
        "ledger": _drop_none(
            {name: getattr(profile.ledger, name) for name in LEDGER} | {"odd": dict(profile.ledger.odd)}
        ),
        "facts": dict(profile.facts),
    }


def _drop_none(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values that are not None: an absent key is unknown."""
    return {key: value for key, value in values.items() if value is not None}


def _moment(moment: Moment | None) -> dict[str, object] | None:
    return None if moment is None else {"seconds": moment.seconds, "clock": str(moment.clock)}


def _number(value: float) -> float | int:
    """Return integers without a decimal point."""
    return int(value) if value.is_integer() else value


def _capabilities(profile: Profile) -> dict[str, object]:
    """Return which information the source contains."""
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


def _totals(counted: Counted) -> dict[str, object]:
    return {
        "samples": int(counted.samples.sum()),
        "weight": _number(float(counted.weight.sum())),
        "idle": "included" if counted.idle else "left_out",
        "idle_samples": counted.idle_samples,
        "idle_weight": _number(counted.idle_weight),
    }


def _columns(counted: Counted) -> dict[str, Any]:
    """Return frames, stacks, tasks and rows; the first three only if a row uses them, numbered anew."""
    chains = counted.profile.chains
    chain, stack = np.unique(counted.chain, return_inverse=True)
    group, task = np.unique(counted.group, return_inverse=True)
    begins, lengths = chains.starts[chain], np.diff(chains.starts)[chain]
    frame, flat = np.unique(chains.frames[list_indices(begins, lengths)], return_inverse=True)
    starts, numbers = starts_of(lengths).tolist(), flat.tolist()
    return {
        "by": str(counted.by),
        "frames": [
            _drop_none({"name": f.name, "dso": f.dso or None, "kernel": f.kernel, "address": f.address})
            for f in (counted.profile.frames[i] for i in frame.tolist())
        ],
        "stacks": [numbers[b:e] for b, e in pairwise(starts)],
        "cut": [] if chains.cut is None else np.flatnonzero(chains.cut[chain]).tolist(),
        "tasks": [
            _drop_none({"comm": g.task.comm or None, "pid": g.task.pid, "tid": g.task.tid, "cpu": g.cpu})
            for g in (counted.groups[i] for i in group.tolist())
        ],
        "rows": {
            "stack": stack.tolist(),
            "task": task.tolist(),
            "weight": [_number(w) for w in counted.weight.tolist()],
            "samples": counted.samples.tolist(),
        },
    }


def _families(profile: Profile) -> dict[str, float]:
    """Return the share of each symbol family in all non-idle weight, whatever options were given."""
    compiled = compiled_profile(profile)
    shares = {name: compiled.share(name) for name in sorted(families())}
    return {name: float(f"{share:.6g}") for name, share in shares.items() if share > 0}
