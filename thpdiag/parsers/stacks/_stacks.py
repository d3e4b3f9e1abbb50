"""Helpers of the parsers of call stacks: building a `Profile` from stacks, and deciding what its weight measures.

Few of these formats state what they count, so the innermost functions decide: in a recording of waiting tasks they are
those of the scheduler, in one of calls the same function in each stack, in one of CPU time many. Whether the kernel was
recorded is decided likewise: in a recording of CPU time some sample is in the kernel unless the profiler cannot see it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from thpdiag.knowledge.symbols import families, families_of, is_unresolved, normalise
from thpdiag.model import Citation, Frame, Ledger, Measure, Profile, StackCounts, Stacks, Task
from thpdiag.model.parser import Content
from thpdiag.model.profile import NAMELESS, UNKNOWN_TASK
from thpdiag.parsers._lines import printable
from thpdiag.parsers.perf._texts import Frames

MAX_STACKS = 1_000_000  # different stacks or rows that are kept; a recording has about 10,000
MAX_DEPTH = 2_000  # functions of a stack: the kernel records 127, Java programs about 1,000
MAX_NAME_CHARS = 2_000  # of a function
MIN_KIND_SHARE = 0.95  # of the weight: a recording of waits or calls has a few damaged stacks
MIN_CALL_STACKS = 3  # stacks that all end in the same kernel function: its calls were counted
MAX_TRACER_FRAMES = 8  # innermost functions that may belong to the tracer
EVENTS = {
    Measure.OFF_CPU: "off-CPU time", Measure.CALLS: "calls", Measure.SNAPSHOT: "threads", Measure.OTHER: "values",
}  # fmt: skip
OFFSET = re.compile(r"\+(?:0x[0-9a-f]{1,16}|\d{1,9})$")
_TRACER = re.compile(r"bpf_(?:prog|trampoline)_\w+|(?:__)?bpf_\w+|__traceiter_\w+|perf_trace_\w+|trace_event_\w+")
_TRACED = re.compile(r"__traceiter_\w+|perf_trace_(?!run_bpf)\w+")
_SCHEDULER = re.compile(r"_*schedule\w*|finish_task_switch|preempt_schedule\w*|_*switch_to\w*")
_ENTRY = re.compile(
    r"(?:asm_)?(?:exc|sysvec)_\w+|asm_\w*interrupt|entry_(?:SYSCALL|INT80)\w*|do_syscall_64|system_call_fastpath"
    r"|(?:async_)?page_fault|ret_from_fork\w*|el0t?_\w+|invoke_syscall|_*x64_sys_\w+|tracesys"
)


def without_tracer(names: Sequence[str]) -> list[str]:
    """Return a stack, leaf first, without the functions of the tracer that took it."""
    start = next((place for place, name in enumerate(names) if not _TRACER.fullmatch(name)), len(names))
    return list(names[start:])


@lru_cache(maxsize=65536)
def bare_name(name: str) -> str:
    """Return the normalised name; cached, as an image repeats each some hundred times."""
    return normalise(name)


def is_entry(name: str) -> bool:
    """Whether a normalised name is of a function by which the kernel is entered."""
    return bool(_ENTRY.fullmatch(name))


@lru_cache(maxsize=65536)
def is_kernel_function(name: str) -> bool:
    """Whether a normalised name is a known function of the kernel."""
    return is_entry(name) or any(families()[family].objects is None for family in families_of(name))


def shows_kernel(frames: Iterable[Frame]) -> bool:
    """Whether a recording has functions of the kernel."""
    return any(frame.kernel or (frame.kernel is None and is_kernel_function(frame.name)) for frame in frames)


def with_measure(profile: Profile) -> Profile:
    """Return the profile with its measure, derived from the stacks where the source has none, and `shows_kernel`."""
    import numpy as np

    measures, frames = profile.measures, profile.frames
    if measures is None:
        weights = np.bincount(profile.rows.chain, profile.rows.weight, len(profile.chains)).tolist()
        leaves: dict[str, float] = {}
        traced, stacks = 0.0, len(weights)
        for chain, weight in zip(profile.chains, weights, strict=True):
            names = [frames[number].name for number in chain[:MAX_TRACER_FRAMES]]
            leaf = next((name for name in names if not _TRACER.fullmatch(name)), "")
            leaves[leaf] = leaves.get(leaf, 0.0) + weight
            traced += weight * any(_TRACED.fullmatch(name) for name in names[:3])
        measures = _measure(leaves, traced, stacks)
    event = profile.event or ("" if measures is Measure.CPU else EVENTS[measures])
    profile = replace(profile, event=event, measures=measures, shows_kernel=shows_kernel(frames))
    return _without_samples(profile) if measures in (Measure.OFF_CPU, Measure.OTHER) else profile


def _without_samples(profile: Profile) -> Profile:
    """Return a profile whose weights are no numbers of samples; the ledger counts its rows."""
    rows = replace(profile.rows, samples=profile.rows.samples * 0)
    ledger = replace(profile.ledger, read=len(rows), kept=len(rows), without_stack=0, unknown_symbol=0)
    facts = {name: text for name, text in profile.facts.items() if name != "counts"}
    return replace(profile, rows=rows, ledger=ledger, total_samples=None, facts=facts)


def _measure(leaves: Mapping[str, float], traced: float, stacks: int) -> Measure:
    """Return what is counted, by the weight of each innermost function."""
    total = sum(leaves.values())
    if total <= 0:
        return Measure.CPU
    if sum(weight for name, weight in leaves.items() if _SCHEDULER.fullmatch(name)) >= MIN_KIND_SHARE * total:
        return Measure.OFF_CPU
    is_one_function = len(leaves) == 1 and stacks >= MIN_CALL_STACKS and all(map(is_kernel_function, leaves))
    return Measure.CALLS if traced >= MIN_KIND_SHARE * total or is_one_function else Measure.CPU


@dataclass(slots=True)
class StackBuilder:
    """Stacks of one event, added up. A function is its name, or (name, object, whether it is of the kernel)."""

    frames: Frames = field(default_factory=Frames)
    counts: StackCounts = field(default_factory=StackCounts)
    odd: dict[str, int] = field(default_factory=dict)
    read: int = 0
    without_stack: int = 0
    unknown: int = 0
    first: Citation | None = None

    def frame(self, name: str, dso: str = "", *, kernel: bool | None = None) -> int:
        """Return the number of a function."""
        return self.frames.number(printable(name[:MAX_NAME_CHARS]), dso[:MAX_NAME_CHARS], kernel=kernel)

    def add(
        self, stack: Sequence[int], weight: float, cite: Citation, task: Task = UNKNOWN_TASK, samples: int = 0
    ) -> None:
        """Count a stack, leaf first; a weight that is not positive or too large is odd."""
        self.read += samples
        if not 0 < weight < 1e18:
            self.count_odd("no weight", samples)
            return
        if len(self.counts) >= MAX_STACKS:
            self.count_odd("more stacks than are kept", samples)
            return
        chain = self.counts.add(stack[:MAX_DEPTH], weight, samples, cite, task)
        if len(stack) > MAX_DEPTH:
            self.counts.cut(chain)
        self.first = self.first or cite
        self.without_stack += samples * (not stack)
        self.unknown += samples * bool(stack and is_unresolved(self.frames.name(stack[0])))

    def count_odd(self, reason: str, samples: int = 1) -> None:
        """Count something that was read and is not kept."""
        self.odd[reason] = self.odd.get(reason, 0) + max(1, samples)

    def profile(
        self,
        reader: str,
        cite: Citation,
        *,
        event: str = "",
        measures: Measure | None = None,
        stacks: Stacks = Stacks.FULL,
        facts: Mapping[str, str] | None = None,
        lost: int | None = None,
        unlisted: float = 0.0,
        percent: bool = False,
    ) -> Profile:
        """Return the profile; `measures` where the source states it, else the stacks decide."""
        frames, rows = self.frames.all(), self.counts.rows()
        samples = int(rows.samples.sum())
        profile = Profile(
            reader=reader,
            event=event,
            frames=frames,
            chains=self.counts.chains(),
            tasks=self.counts.tasks(),
            rows=rows,
            stacks=stacks,
            cite=cite,
            ledger=Ledger(
                self.read, samples, self.without_stack, self.unknown, odd=self.odd, lost=lost, unlisted=unlisted
            ),
            percent_only=percent,
            total_samples=samples or None,
            facts=dict(facts or {}),
            measures=measures,
        )
        return with_measure(profile)


@lru_cache(maxsize=65536)
def function_name(text: str) -> str:
    """Return a function without the offset in it: `compact_zone+213`."""
    return OFFSET.sub("", text.strip()) or NAMELESS


MAX_BYTES = 32 << 20  # of an image or document that is read as a whole; as Python objects it is 8 times as large


def read_bytes(content: Content) -> tuple[bytes, bool]:
    """Return the content of a member, and whether it is longer than the limit."""
    parts, size = [], 0
    for chunk in content.chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > MAX_BYTES:
            return b"".join(parts)[:MAX_BYTES], True
    return b"".join(parts), False


def read_text(content: Content) -> tuple[str, bool]:
    """Return the content of a member as text, and whether it is longer than the limit."""
    data, cut = read_bytes(content)
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return data.decode(encoding, "replace"), cut
