"""Symbol families on call stacks: which names belong, and whether families stand in order with gaps.

Single stacks (kernel logs) are judged here; whole profiles are compiled first (`thpdiag.engine.compiled_profile`).

Which events of a recording measure CPU time. Shares of samples mean time only there.

`perf record -e compaction:mm_compaction_begin -g` samples compaction and nothing else: all of its stacks hold it, were
it one a day. Page faults, cache misses and instructions are counted as well, not timed. Clocks and cycles are time, and
so is what has no name (folded stacks) or a raw one (`r3c`): nobody records with those to count. Names: `perf list`,
tools/perf/util/parse-events.c; modifiers behind a colon are in perf-list(1).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache

from thpdiag.knowledge.symbols import families_of, is_unresolved, normalise
from thpdiag.model import Event, Measure, Profile
from thpdiag.model.text import function_name, quoted, sentence

Wanted = Sequence[Sequence[str]]  # one entry per place from the leaf outwards; each a choice of families


class Place(Enum):
    """Where in a chain a function must stand."""

    SELF = "self"
    ANYWHERE = "anywhere"


@lru_cache(maxsize=65536)
def function_families(name: str) -> frozenset[str]:
    """The families a function name belongs to.

    The name itself counts as a family (`=name`), so that rules may name one.
    """
    plain = normalise(name)
    return frozenset(families_of(plain)) | {f"={plain}"}


def matches_in_order(names: Sequence[str], wanted: Wanted) -> bool:
    """Whether frames (leaf first) hold one of each wanted choice, in order from the leaf outwards, gaps allowed."""
    at = 0
    for name in names:
        if at < len(wanted) and not function_families(name).isdisjoint(wanted[at]):
            at += 1
    return at >= len(wanted)


def format_stack(names: Sequence[str], most: int = 6) -> str:
    """A chain as `leaf < caller < ...` for people, shortened in the middle; callers without a name tell nothing."""
    named = max((at + 1 for at, name in enumerate(names) if not is_unresolved(name)), default=len(names))
    names = names[:named]
    if len(names) > most:
        names = [*names[: most - 2], "...", *names[-1:]]
    return sentence(" < ".join(name if name == "..." else function_name(name) for name in names))


# Frames of every wait and of every report, above what the message is about.
_REPORTING = re.compile(
    r"_*switch_to\w*|_*(?:io_)?schedule\w*|preempt_schedule\w*|\w*wait_on_bit|bit_wait\w*|\w*wait_for_(?:common|completion)\w*"
    r"|_*down(?:_common|_read\w*|_write\w*|_killable|_interruptible|_timeout)?|(?:call_)?rwsem_down_\w+|rwsem_\w*wait\w*"
    r"|_*(?:ww_)?mutex_lock\w*|percpu_rwsem_wait|_*percpu_down_\w+|_*rt_(?:mutex|spin|read|write)_\w*lock\w*"
    r"|rtlock_slowlock\w*|_*rwbase_(?:read|write)_lock\w*|rt_mutex_schedule"  # of PREEMPT_RT
    r"|prepare_to_wait\w*|finish_wait|\w+_wake_function|dump_\w+|show_stack|warn_alloc\w*|watchdog_timer_fn"
    r"|\w*apic_timer_interrupt|oom_kill_process|out_of_memory|sched_show_task|rcu_dump_cpu_stacks|nmi_\w+|trigger_\w+"
)
_ALLOCATING = re.compile(
    r"\w*(?:get_free_page|vmalloc|vm_area_alloc_pages)\w*|(?:kmem_|fallback_|_{0,4}cache_)\w*alloc\w*"
)


def telling_function(event: Event) -> str:
    """The first function of a report's trace that says what it is about: what is waited for, who wanted memory.

    Where every frame was only found on the stack, as on RHEL 6, these are better than nothing. Of work
    that was not done it is what keeps its workers.
    """
    for names in (event.stack, event.fields.get("unreliable", "").split(), event.fields.get("work", "").split()):
        for name in names:
            if _REPORTING.fullmatch(name) or (
                event.kind.startswith("allocation")
                and (_ALLOCATING.fullmatch(name) or not function_families(name).isdisjoint(("page_alloc", "slab")))
            ):
                continue
            return name
    return ""


_TRACEPOINT = re.compile(r"(?P<system>[A-Za-z_][\w-]*):(?P<name>[A-Za-z0-9_]\w*)")
_MODIFIERS = re.compile(r"[ukhIGHpPSDWebRX]+")
_COUNTED = frozenset({
    "faults", "switches", "cs", "migrations", "dummy", "output", "tracepoint", "breakpoint", "instructions", "inst",
    "uops", "branches", "branch", "misses", "miss", "loads", "load", "stores", "store", "references", "prefetches",
})  # fmt: skip
_WORD = re.compile(r"[a-z]+")


_PROGRAM_ALONE = re.compile(r".*[:/](?=[a-zA-Z]*u)(?![a-zA-Z]*[kh])[uGHpPSDWebRX]+/?")  # cycles:u, cpu_core/cycles/u


def samples_cpu_time(profile: Profile) -> bool:
    """Whether the samples were taken by time."""
    if profile.measures is not None:
        return profile.measures is Measure.CPU
    event = profile.event.split("{")[-1].split(",")[0].strip()  # a group is sampled by its first event
    point = _TRACEPOINT.match(event)
    if point and not _MODIFIERS.fullmatch(point["name"]):
        return False
    return _COUNTED.isdisjoint(_WORD.findall(event.lower()))


def sees_kernel(profile: Profile) -> bool:
    """Whether the recording would show what the kernel did."""
    return profile.shows_kernel and not _PROGRAM_ALONE.fullmatch(profile.event)


def cpu_time_profiles(profiles: Sequence[Profile]) -> list[Profile]:
    """Those that measure CPU time, of the kernel too."""
    return measured_profiles(profiles, Measure.CPU)


def measured_profiles(profiles: Sequence[Profile], measures: Measure) -> list[Profile]:
    """Those of which a share is a share of this, of the kernel too."""
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
    """What a recording counts that does not measure CPU time in the kernel, as the end of a sentence."""
    if samples_cpu_time(profile):
        return "shows the program alone, and not what the kernel did"
    if profile.measures is None:
        return f"counts {quoted(profile.event)}, which does not show where CPU time goes"
    return f"counts {NOT_CPU_TIME[profile.measures]}, which does not show where CPU time goes"
