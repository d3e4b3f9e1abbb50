"""Symbol families in call stacks: the families of a function, and stacks that contain families in a given order.

Single stacks (kernel logs) are matched here; whole profiles are compiled first (`thpdiag.engine.compiled_profile`).

Also which events of a recording measure CPU time. Only there are shares of samples shares of time.

`perf record -e compaction:mm_compaction_begin -g` samples compaction and nothing else: all of its stacks contain it,
even if it happened once a day. Page faults, cache misses and instructions are counts as well, not time. Clocks and
cycles are time. Events without a name (folded stacks) or with a raw one (`r3c`) are taken as time, because they are
hardly ever recorded for counting. Names: `perf list`, tools/perf/util/parse-events.c; modifiers after a colon are in
perf-list(1).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache

from thpdiag.knowledge.symbols import families_of, is_unresolved, normalise
from thpdiag.model import Event, Measure, Profile
from thpdiag.model.text import function_name, quoted, sentence

FamilyChoices = Sequence[Sequence[str]]  # one entry per frame to find, from the leaf outwards: a choice of families


class Place(Enum):
    """The position that a function must have in a call chain."""

    SELF = "self"
    ANYWHERE = "anywhere"


@lru_cache(maxsize=65536)
def function_families(name: str) -> frozenset[str]:
    """Return the families of a function, including `=name`, the family of that function alone."""
    plain = normalise(name)
    return frozenset(families_of(plain)) | {f"={plain}"}


def matches_in_order(names: Sequence[str], wanted: FamilyChoices) -> bool:
    """Whether frames (leaf first) include one of each choice in `wanted`, in that order; other frames may be
    between."""
    position = 0
    for name in names:
        if position < len(wanted) and not function_families(name).isdisjoint(wanted[position]):
            position += 1
    return position >= len(wanted)


def format_stack(names: Sequence[str], limit: int = 6) -> str:
    """Return a chain as `leaf < caller < ...`, shortened in the middle, without unresolved outer callers."""
    count = max((i + 1 for i, name in enumerate(names) if not is_unresolved(name)), default=len(names))
    names = names[:count]
    if len(names) > limit:
        names = [*names[: limit - 2], "...", *names[-1:]]
    return sentence(" < ".join(name if name == "..." else function_name(name) for name in names))


# Frames of every wait and of every kernel report; the function of interest is the next caller.
_WAIT_OR_REPORT_FRAME = re.compile(
    r"_*switch_to\w*|_*(?:io_)?schedule\w*|preempt_schedule\w*|\w*wait_on_bit|bit_wait\w*|\w*wait_for_(?:common|completion)\w*"
    r"|_*down(?:_common|_read\w*|_write\w*|_killable|_interruptible|_timeout)?|(?:call_)?rwsem_down_\w+|rwsem_\w*wait\w*"
    r"|_*(?:ww_)?mutex_lock\w*|percpu_rwsem_wait|_*percpu_down_\w+|_*rt_(?:mutex|spin|read|write)_\w*lock\w*"
    r"|rtlock_slowlock\w*|_*rwbase_(?:read|write)_lock\w*|rt_mutex_schedule"  # of PREEMPT_RT
    r"|prepare_to_wait\w*|finish_wait|\w+_wake_function|dump_\w+|show_stack|warn_alloc\w*|watchdog_timer_fn"
    r"|\w*apic_timer_interrupt|oom_kill_process|out_of_memory|sched_show_task|rcu_dump_cpu_stacks|nmi_\w+|trigger_\w+"
)
_ALLOCATOR_FRAME = re.compile(
    r"\w*(?:get_free_page|vmalloc|vm_area_alloc_pages)\w*|(?:kmem_|fallback_|_{0,4}cache_)\w*alloc\w*"
)


def subject_function(event: Event) -> str:
    """Return the first function in the trace of a report that shows its subject: what is waited for, or who allocates
    memory.

    Frames that were only found on the stack (`unreliable`) are used if there are no others, as on RHEL 6. For a
    workqueue lockup it is the work that occupies the workers.
    """
    for names in (event.stack, event.fields.get("unreliable", "").split(), event.fields.get("work", "").split()):
        for name in names:
            if _WAIT_OR_REPORT_FRAME.fullmatch(name) or (
                event.kind.startswith("allocation")
                and (_ALLOCATOR_FRAME.fullmatch(name) or not function_families(name).isdisjoint(("page_alloc", "slab")))
            ):
                continue
            return name
    return ""


_TRACEPOINT = re.compile(r"(?P<system>[A-Za-z_][\w-]*):(?P<name>[A-Za-z0-9_]\w*)")
_MODIFIERS = re.compile(r"[ukhIGHpPSDWebRX]+")
_COUNTED_EVENTS = frozenset({
    "faults", "switches", "cs", "migrations", "dummy", "output", "tracepoint", "breakpoint", "instructions", "inst",
    "uops", "branches", "branch", "misses", "miss", "loads", "load", "stores", "store", "references", "prefetches",
})  # fmt: skip
_WORD = re.compile(r"[a-z]+")


_USER_SPACE_EVENT = re.compile(r".*[:/](?=[a-zA-Z]*u)(?![a-zA-Z]*[kh])[uGHpPSDWebRX]+/?")  # cycles:u, cpu_core/cycles/u


def samples_cpu_time(profile: Profile) -> bool:
    """Whether samples are taken by time."""
    if profile.measures is not None:
        return profile.measures is Measure.CPU
    event = profile.event.split("{")[-1].split(",")[0].strip()  # a group is sampled by its first event
    point = _TRACEPOINT.match(event)
    if point and not _MODIFIERS.fullmatch(point["name"]):
        return False
    return _COUNTED_EVENTS.isdisjoint(_WORD.findall(event.lower()))


def sees_kernel(profile: Profile) -> bool:
    """Whether the recording includes kernel functions."""
    return profile.shows_kernel and not _USER_SPACE_EVENT.fullmatch(profile.event)


def cpu_time_profiles(profiles: Sequence[Profile]) -> list[Profile]:
    """Return the profiles that measure CPU time and include the kernel."""
    return measured_profiles(profiles, Measure.CPU)


def measured_profiles(profiles: Sequence[Profile], measures: Measure) -> list[Profile]:
    """Return the profiles that measure the given quantity and include the kernel."""
    if measures is Measure.CPU:
        return [profile for profile in profiles if samples_cpu_time(profile) and sees_kernel(profile)]
    return [profile for profile in profiles if profile.measures is measures and sees_kernel(profile)]


NOT_CPU_TIME = {
    Measure.OFF_CPU: "time in which tasks did not run",
    Measure.CALLS: "calls",
    Measure.SNAPSHOT: "threads at one moment",
    Measure.OTHER: "something other than CPU time",
}


def measure_words(profile: Profile) -> str:
    """Return, as the end of a sentence, what a recording measures instead of CPU time in the kernel."""
    if samples_cpu_time(profile):
        return "shows the program alone, and not what the kernel did"
    if profile.measures is None:
        return f"counts {quoted(profile.event)}, which does not show where CPU time goes"
    return f"counts {NOT_CPU_TIME[profile.measures]}, which does not show where CPU time goes"
