"""Metrics, facts, symbol families and the requirements of checks, in words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from thpdiag.engine.quantity import format_bound, parse_quantity
from thpdiag.engine.schema import (
    Change,
    ChangeCheck,
    Check,
    EventCheck,
    FactCheck,
    Names,
    Process,
    ProcessCheck,
    Profile,
    ProfileCheck,
    RuleCheck,
    SeriesCheck,
    ToggleCheck,
    as_list,
)
from thpdiag.host.derived import ALLOCSTALLS, SHARES, SUMS
from thpdiag.knowledge.switches import compared_figures
from thpdiag.knowledge.symbols import families, task_groups
from thpdiag.knowledge.vocabulary import term
from thpdiag.model.text import entity_name, name_entity, process_name, sentence

# Metrics named after fields of /proc/vmstat, /proc/meminfo, the statistics per huge page size, and memory.stat.
_KERNEL_NAME = re.compile(
    r"(?:node_vmstat_(\w+)|node_memory_(\w+)_bytes|node_thp_(?!faults_total)(\w+)|cgroup_memory_(thp_\w+)_total)(?::rate)?"
)
_KERNEL_NAMES: Mapping[
    str, tuple[str, ...]
] = {  # fields of status, smaps, stat, vmstat, meminfo, memory.stat, and of the head of top
    "process_resident_memory_bytes": ("VmRSS", "Rss"),
    "process_virtual_memory_bytes": ("VmSize",),
    "process_anon_huge_bytes": ("AnonHugePages",),
    "process_lazy_free_bytes": ("LazyFree",),
    "process_locked_bytes": ("VmLck",),
    "process_anon_mapped_bytes": ("Anonymous",),
    "process_anon_proportional_bytes": ("Pss_Anon",),
    "node_forks_total": ("processes",),
    "node_procs_blocked": ("procs_blocked",),
    "swap_in_bytes:rate": ("pswpin",),
    "swap_out_bytes:rate": ("pswpout",),
    "cgroup_memory_anon_bytes": ("anon", "total_rss", "rss"),
    "cgroup_memory_anon_thp_bytes": ("anon_thp", "total_rss_huge", "rss_huge"),
    "cgroup_memory_max_events_total": ("max",),
    "cgroup_memory_high_events_total": ("high",),
    "memory.available_ratio": ("MemTotal", "MemAvailable", "Mem", "Swap"),
    "memory.hugetlb_ratio": ("MemTotal", "HugePages_Total", "Hugepagesize", "Hugetlb"),
    "memory.hugetlb_unused_ratio": ("MemTotal", "HugePages_Free", "HugePages_Rsvd", "Hugepagesize"),
    "memory.anon_unmapped_ratio": ("MemTotal", "Active(anon)", "Inactive(anon)", "AnonPages", "Shmem", "SwapCached"),
    "node_allocstall_total": ALLOCSTALLS,
}
_RULE_REMARK = re.compile(r" \((?:labels?|fields|yes, no|total since boot)\b[^()]*(?:\([^()]*\)[^()]*)*\)")


def metric_words(names: Sequence[str], entity: str = "") -> str:
    """Return metrics in words: the kernel's names where /proc/vmstat or meminfo has them, else the vocabulary's
    meaning."""
    words = " + ".join(map(_metric_name, names))
    return words if not entity or entity in words else sentence(name_entity(words, entity_name(entity)))


@lru_cache(4096)
def _metric_name(name: str) -> str:
    if match := _KERNEL_NAME.fullmatch(name):
        return str(match[match.lastindex or 0])
    if order := re.fullmatch(r"node_buddyinfo_blocks_order(\d+)", name):
        return f"free blocks of order {order[1]}"
    return term_meaning(name)


def kernel_names(name: str) -> tuple[str, ...]:
    """Return the names that kernel files use for a metric, or for the parts of a sum or share; empty if they have
    none."""
    if match := _KERNEL_NAME.fullmatch(name):
        return (str(match[match.lastindex or 0]),)
    if name.startswith("cpu_ratio."):
        return ("Cpu(s)",)
    parts = SUMS.get(name) or SHARES.get(name) or ()
    return _KERNEL_NAMES.get(name) or tuple(spelling for part in parts for spelling in kernel_names(part))


def term_meaning(name: str) -> str:
    """Return the meaning of a name from the vocabulary, without remarks that only rule authors need."""
    known = term(name) or term(name.removesuffix(":rate"))
    return _RULE_REMARK.sub("", known.means) if known else name


def fact_text(name: str, labels: str, value: str) -> str:
    """Return a fact as a sentence: settings by their kernel names, other facts by their meaning."""
    if name == "setting.contradiction":
        return value
    if name == "boot.transparent_hugepage":
        return f"the boot line has transparent_hugepage={value}"
    if _is_setting(name):
        return f"{fact_name(name)}{' of ' + labels if labels else ''} is {value}"
    return f"{fact_name(name).removeprefix('whether ')}{', ' + labels if labels else ''}: {value}"


def fact_name(name: str) -> str:
    """Return a setting by its kernel name, any other fact by its meaning."""
    if _is_setting(name):
        return name.removeprefix("sysctl.").replace("thp.khugepaged.", "thp.khugepaged/")
    return _metric_name(name)


def _is_setting(name: str) -> bool:
    known = term(name) or term(name.removesuffix(":rate"))
    return name.startswith(("thp.", "sysctl.")) and known is not None and known.kind == "setting"


def family_words(names: Names | None) -> str:
    """Return the titles of symbol families, joined by "or"; `=name` is one function."""
    return " or ".join(families()[n].title if n in families() else n.removeprefix("=") for n in as_list(names))


def callers_words(names: Names) -> str:
    """Return the titles of families that must all be callers, from the called one outwards."""
    return "called from " + " within ".join(family_words(name) for name in as_list(names))


# Requirements of checks


def requirement(check: Check) -> str:
    """Return the condition for a yes of the check, with its bounds as written in the rule."""
    match check:
        case FactCheck():
            return f"{fact_name(check.fact)} {_fact_condition(check)}"
        case SeriesCheck():
            as_ = "" if check.as_ == "level" else f" {check.as_.replace('_', ' ')}"
            duration = f" for {check.for_}" if check.for_ else ""
            return f"{metric_words([check.series])}{as_} {bound_words(check)}{duration}"
        case ChangeCheck():
            return _change_requirement(check.change)
        case ProfileCheck():
            spec = check.profile
            bound = f"at least {spec.at_least}" if spec.at_least is not None else f"below {spec.below}"
            return f"{signature_words(spec)}: {bound} {denominator_words(spec)}"
        case EventCheck():
            return f"{check.at_least} of {' or '.join(as_list(check.event))}{event_conditions(check)}"
        case ProcessCheck():
            return _process_requirement(check.process)
        case ToggleCheck():
            times = f"{parse_quantity(check.toggle.ratio):g} times"
            titles = ", ".join(compared_figures()[metric].title for metric in check.toggle.metrics)
            settings = " or ".join(check.toggle.settings)
            repetitions = f" {check.toggle.switches} times or more" if check.toggle.switches > 1 else ""
            return f"{settings} switched{repetitions}, one of these {times} as high before: {titles}"
        case RuleCheck():
            return f"{check.rule} {check.is_}"


def bound_words(check: SeriesCheck) -> str:
    """Return the bounds of a series check in the format of measured values."""
    bounds = (("above", check.above), ("below", check.below))
    return " and ".join(f"{word} {format_bound(bound)}" for word, bound in bounds if bound is not None)


def _fact_condition(check: FactCheck) -> str:
    if check.is_ is not None:
        return f"is {check.is_}"
    if check.one_of is not None:
        return f"is one of {', '.join(map(str, check.one_of))}"
    if check.is_not is not None:
        return f"is not {check.is_not}"
    if check.matches is not None:
        return f"matches {check.matches}"
    bounds = (("above", check.above), ("below", check.below))
    return " and ".join(f"{word} {bound}" for word, bound in bounds if bound is not None) or "is known"


def _change_requirement(change: Change) -> str:
    def bound_text(written: str | float) -> str:
        """Return a bound as written in the rule; a tiny ratio as `1 per N`."""
        if isinstance(written, str) and not written.replace(".", "").replace("e-", "").isdigit():
            return written
        value = parse_quantity(float(written))
        return f"1 per {1 / value:,.0f}" if 0 < value < 0.001 else f"{value:g}"

    limits = (("above", change.above), ("below", change.below), ("change of at least", change.at_least))
    bounds = [f"{word} {bound_text(limit)}" for word, limit in limits if limit is not None]
    noun = "change" if change.as_ == "growth" else "rise"
    noun = noun if change.within is None else f"{noun} in any {change.within}"
    per = f" per {metric_words(as_list(change.per))}" if change.per is not None else ""
    return f"{noun} of {metric_words(as_list(change.of))}{per}: {' and '.join(bounds)}"


def _process_requirement(check: Process) -> str:
    text = " or ".join(as_list(check.app)) if check.app else f"a process named {check.comm}"
    if check.args is not None:
        text = f"a command line with {check.args}"
    return text + (f" using more than {check.cpu_above} CPU" if check.cpu_above is not None else "")


def event_conditions(check: EventCheck) -> str:
    """Return the conditions of an event check in brackets; empty if there are none."""
    parts = [f"{k} {v.replace('!=', 'not')}" for k, v in check.where.items()]
    trace = [family_words(check.anywhere)] if check.anywhere else []
    trace += [callers_words(check.under)] if check.under else []
    without = [f"and without {family_words(check.not_anywhere)}"] if check.not_anywhere and trace else []
    parts += [f"with {' '.join([*trace, *without])} in the trace"] if trace else []
    return f" ({', '.join(parts)})" if parts else ""


def signature_words(check: Profile) -> str:
    """Return the call chains that a profile check looks for, in words."""
    text = family_words(check.self_ if check.self_ is not None else check.anywhere)
    text += " (top frame)" if check.self_ is not None else ""
    text += f" {callers_words(check.under)}" if check.under is not None else ""
    text += f", not for {family_words(check.not_under)}" if check.not_under is not None else ""
    if check.unnamed:
        return f"{text}, of tasks that the recording does not name"
    return text + (f", without {task_groups()[check.not_comm].title}" if check.not_comm is not None else "")


def denominator_words(check: Profile, group: str = "") -> str:
    """Return the samples of which a profile check computes a share, in words."""
    if check.of == "symbol":
        return f"of the samples in {family_words(check.self_ if check.self_ is not None else check.anywhere)}"
    if check.of == "all" and check.measures != "cpu":
        return "of the calls" if check.measures == "calls" else "of the time that tasks waited"
    if check.of == "all":
        return "of the non-idle samples" + (" that are listed" if check.listed else "")
    if check.of == "callers":
        return f"of the samples in {' within '.join(family_words(name) for name in as_list(check.under))}"
    name = process_name if check.of == "comm" else entity_name
    return f"of the non-idle samples of {name(group) if group else 'one ' + check.of}"
