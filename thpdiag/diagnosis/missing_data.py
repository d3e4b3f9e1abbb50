"""Missing data: what would raise the confidence, why something is not in the input, and what to request from the
customer.

That sos timed out, was told to skip something, or is too old to copy it differs from a file that the host does not
have, and each case names how to get it. A request starts with the most useful data and is short enough to be answered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from shlex import quote
from typing import Any, cast

from thpdiag.diagnosis.capture import Section, sections
from thpdiag.diagnosis.diagnose import Diagnosis
from thpdiag.diagnosis.ranking import LEADING_ROLES, THP, mechanism_kind
from thpdiag.engine.check_result import DYNAMIC, check_class
from thpdiag.engine.schema import OTHER_SETTING
from thpdiag.knowledge.paths import (
    SOS,
    SUPPORTCONFIG,
    CollectorSource,
    collected_file,
    collector_source,
    is_older,
)
from thpdiag.knowledge.vocabulary import event, term
from thpdiag.model import CONFIDENCES, Case, Fact, Finding, Verdict3
from thpdiag.model.result import Raise, Request
from thpdiag.model.text import path_name, quoted, sentence

_PROFILE_REQUESTS = {
    "profile": "perf record -a -g -F 99 -o thp.data -- sleep 30; "
    "perf script --no-inline -i thp.data > thp.script || perf script -i thp.data > thp.script",
    "profile.off_cpu": "offcputime-bpfcc -K -f 30",
    "profile.calls": "stackcount-bpfcc -P -D 30 try_to_compact_pages",
}
# After a restart the kernel's addresses differ. perf on that host has cached the old symbols (perf-buildid-cache(1)).
SYMBOLS_REQUEST = (
    "sudo cat /proc/kallsyms > kallsyms-$(uname -r) (on the host of {member}, before it is restarted; "
    "afterwards there: perf script --no-inline -i {member} > perf.script)"
)
CAPTURE_LOG = "capture.log"  # of the capture script
REPEAT_SECONDS = 600  # seconds
REPEAT_COMMAND = f"sh thp-capture.sh -d {REPEAT_SECONDS}"
RAISING_CLASSES = DYNAMIC | {"toggle"}  # classes of evidence that can raise the confidence
MAX_REQUESTS = 8  # customers do not answer longer lists
MAX_REASONS = 3  # in the request; the unknown rules list all
# Requests with priority: call stacks and counters decide most. The others are sorted by the number of rules.
_PRIORITY = (re.compile("perf record .*"), re.compile("cat /proc/vmstat, .*"), re.compile("vmstat -n .*"))
_SNAPSHOT = re.compile("cat |find |grep ")
_DERIVED_FROM = {"kernel.era": "kernel.release"}  # a fact that is derived from another one, if at all
_MEASURED_AS = {"note.counter_rising": "node_vmstat_compact_stall"}  # a statement of people, and the metric it is about
_MEMINFO_MARKER = "node_memory_VmallocTotal_bytes"  # in every complete /proc/meminfo and in no other source
_SYSCTL_MARKER = "sysctl.vm.extfrag_threshold"  # in every complete list since 2.6.35, hardly ever printed alone
_REPETITION = re.compile(r", (?:every|twice).*| \(once\)$")
_SCRIPT_TEXT = "send the customer the script that 'thpdiag capture-script' prints, to run while the host is slow"
_MORE_TEXT = "ask for what the script did not record"
_REPEAT_TEXT = "run the script again, for longer, while the host is slow: the recording does not show it"
_METRIC_OF_CLASS = {
    "stack": "profile", "counter": "node_vmstat_compact_stall", "cpu": "cpu_ratio.sys_total",
    "effect": "process_resident_memory_bytes", "toggle": OTHER_SETTING,
}  # fmt: skip


def request(name: str) -> str:
    """Return the command that gets the data for a vocabulary name."""
    known = term(name) or event(name)
    return _PROFILE_REQUESTS.get(name) or (known.ask_for if known else "")


Requests = Callable[[Iterable[str]], list[str]]


def over_time(command: str) -> str:
    """Return a command that repeats a snapshot, if the command is one."""
    return f"{command}, every 10 s" if _SNAPSHOT.match(command) and not _REPETITION.search(command) else command


def open_requests(diagnosis: Diagnosis) -> Requests:
    """Return a function from names to commands, each once, without commands for data that is in the input.

    Data of a single snapshot is requested over time. Data that the capture script recorded is not requested by name: if
    it is about events over time, the script is to run again, for longer.
    """
    recorded = _recorded_sections(diagnosis.case)
    views = [view for view, _ in diagnosis.by_state]

    @cache
    def is_recorded(name: str) -> bool:
        return any(section.gives(_MEASURED_AS.get(name, name)) for section in recorded)

    @cache
    def command(name: str) -> str:
        if is_recorded(name):
            suppliers = (section for section in recorded if section.gives(_MEASURED_AS.get(name, name)))
            return REPEAT_COMMAND if any(section.lasts for section in suppliers) else ""
        if name.startswith("thp.") and diagnosis.status == "not_applicable":
            return ""  # a kernel without huge pages does not have these settings
        if any(fact for view in views for fact in view.facts(_DERIVED_FROM.get(name, "")) if not fact.provenance):
            return ""
        known = any(view.has_recorded(name) for view in views)
        if not known and name.startswith("node_memory_") and any(view.has_recorded(_MEMINFO_MARKER) for view in views):
            return ""  # a field that this kernel does not have
        if name.startswith("sysctl.") and any(view.facts(_SYSCTL_MARKER) for view in views):
            return ""  # a setting that this kernel does not have
        return over_time(request(name)) if known else request(name)

    def commands(names: Iterable[str]) -> list[str]:
        names = list(names)
        wanted = dict.fromkeys(filter(None, map(command, names)))
        redundant = {request(name) for name in names if is_recorded(name)}
        redundant |= {text for text in wanted if over_time(text) != text and over_time(text) in wanted}
        return [text for text in wanted if text not in redundant]

    return commands


# Confidence


def confidence_keys(finding: Finding, diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the keys of a finding about its evidence classes and the data that would raise its confidence."""
    steps = [s for s in finding.outcome.raises if CONFIDENCES.index(s.to) > CONFIDENCES.index(finding.confidence)]
    requests = open_requests(diagnosis)
    return {
        "classes_spoken": list(finding.outcome.evidence_classes),
        "classes_missing": missing_classes(finding, diagnosis),
        "raises": [
            Raise.model_construct(
                to=cast("Any", step.to), classes=cast("Any", list(step.classes)), ask_for=requests(step.missing)
            )
            for step in steps
        ],
    }


def missing_classes(finding: Finding, diagnosis: Diagnosis) -> list[str]:
    """Return the classes of evidence that the rules about the mechanism need and that the input lacks in the same
    state."""
    outcome = finding.outcome
    rules = (diagnosis.rule_by_id[outcome.rule], *diagnosis.leading_rules.get(finding.mechanism, ()))
    wanted = {check_class(check) for rule in rules for check in rule.checks.values()} & RAISING_CLASSES
    outcomes = [outcome, *(diagnosis.outcomes[rule.id] for rule in rules)]
    available = {class_ for other in outcomes if other.state == outcome.state for class_ in other.available_classes}
    return sorted(wanted - set(outcome.evidence_classes) - available)


# Why something is not in the input


def missing_reasons(case: Case) -> Callable[[Iterable[str]], list[str]]:
    """Return a function from names to sentences: why the collector (sos, supportconfig) did not bring their data."""
    facts = [fact for fact in case.facts if fact.name.startswith("capture.")]
    present = {path for item in case.inputs if facts and item.reader and (path := collected_file(item.member))}
    tools = (str(fact.value).split()[0] for fact in facts if fact.name == "capture.tool")
    tool = SUPPORTCONFIG if SUPPORTCONFIG in tools else SOS

    def reasons(names: Iterable[str]) -> list[str]:
        wanted = dict.fromkeys(row for name in names if (row := collector_source(name, tool))) if facts else {}
        return [reason for row in wanted if (reason := _reason(row, facts, present, tool))]

    return reasons


def _reason(row: CollectorSource, facts: list[Fact], present: set[str], tool: str) -> str:
    """The reason for one source; of several captures the last one counts."""
    stopped = [f for f in facts if f.name == "capture.timed_out" and f.label("plugin") in (None, *row.plugins)]
    stopped = [f for f in stopped if not (ran := f.label("command")) or (row.command and row.command.fullmatch(ran))]
    is_present = any(row.paths.fullmatch(path) for path in present)
    if stopped:
        plugin, seconds = stopped[0].label("plugin"), stopped[0].label("seconds")
        limit = f", after {seconds} s" if seconds else ""
        where = f" (plugin {quoted(plugin)}{limit})" if plugin else ""
        if stopped[0].label("command"):
            return sentence(f"{row.what} is missing or incomplete because {tool} stopped the command{where}.")
        if not is_present:
            return sentence(f"{row.what} is missing because {tool} timed out collecting it{where}.")
    return "" if is_present else _not_collected_reason(row, facts, tool)


def _not_collected_reason(row: CollectorSource, facts: list[Fact], tool: str) -> str:
    versions = [str(f.value).removeprefix(f"{tool} ") for f in facts if f.name == "capture.tool"]
    if row.since and versions and all(is_older(version, row.since) for version in versions):
        return f"{row.what} is missing because {tool} {versions[-1]} does not copy it; {tool} {row.since} and later do."
    plugin_sets = [set(str(f.value).split()) for f in facts if f.name == "capture.plugins"]
    if plugin_sets and not any(plugins & set(row.plugins) for plugins in plugin_sets):
        plugin = row.plugins[0].replace("_", " ")
        return f"{row.what} is missing because {tool} did not run its {'plugin' if tool == SOS else 'part'} {plugin}."
    return ""


# What to ask for


def customer_request(diagnosis: Diagnosis) -> Request:
    """Return one request for the data that would raise the confidence, or that the open questions need."""
    missing = [list(names) for names in _missing_names(diagnosis)]
    recorded, requests = _recorded_sections(diagnosis.case), open_requests(diagnosis)
    unrecorded = [[name for name in names if not any(s.gives(name) for s in recorded)] for names in missing]
    commands = [*_symbol_requests(diagnosis, unrecorded), *_order_requests([requests(names) for names in unrecorded])]
    purpose = "To be more certain" if diagnosis.leader else "To decide it"
    if diagnosis.status in ("not_applicable", "nothing_found"):
        purpose = "If the host is slow anyway"
    if not commands and any(missing) and diagnosis.status in ("found", "cannot_tell"):
        return Request.model_construct(
            text=f"{purpose}, {_REPEAT_TEXT}.", commands=[REPEAT_COMMAND], missing=_requestable(missing)
        )
    if not commands:
        return Request.model_construct(text="The verdict needs no further data.", commands=[], missing=[])
    reasons = missing_reasons(diagnosis.case)(name for names in unrecorded for name in names)[:MAX_REASONS]
    text = sentence(" ".join([f"{purpose}, {_MORE_TEXT if recorded else _SCRIPT_TEXT}.", *map(format, reasons)]))
    return Request.model_construct(text=text, commands=commands[:MAX_REQUESTS], missing=_requestable(unrecorded))


def _recorded_sections(case: Case) -> Sequence[Section]:
    """The sections that the capture script recorded. Its log is at the root of its folder for this host."""
    names = {item.member: item.member.rpartition("/")[2] for item in case.inputs}
    folders = [member[: -len(CAPTURE_LOG)] for member, name in names.items() if name == CAPTURE_LOG]
    others = [item.member for item in case.inputs if item.reader and names[item.member] != CAPTURE_LOG]
    files = {member[len(folder) :] for member in others for folder in folders if member.startswith(folder)}
    return [section for section in sections() if section.is_in(files)]


def _requestable(names: Iterable[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(name for some in names for name in some if request(name)))


def _missing_names(diagnosis: Diagnosis) -> Iterator[Sequence[str]]:
    """The vocabulary names that each open question lacks, for questions whose answer may be the verdict. A confirmed
    finding lacks nothing. Switching a setting is only requested to test a suspicion. If huge pages play no part,
    only rules about other causes count."""
    leader, outcomes = diagnosis.leader, diagnosis.outcomes
    undecided = {name for name, outcome in outcomes.items() if outcome.value is Verdict3.UNKNOWN}
    if leader is not None:
        if leader.confidence != "confirmed":
            excluders = diagnosis.rule_by_id[leader.outcome.rule].file.excluded_by
            yield leader.outcome.missing
            # The names that would raise the confidence, then one for each missing class of evidence.
            raising = [name for step in leader.outcome.raises for name in step.missing]
            classes = missing_classes(leader, diagnosis)
            yield [*raising, *(_METRIC_OF_CLASS[c] for c in classes if c in _METRIC_OF_CLASS)]
            yield from (outcomes[name].missing for name in excluders if name in undecided)
        return
    for rule in sorted(diagnosis.rules, key=lambda r: r.id):
        is_relevant = rule.file.role in LEADING_ROLES
        if diagnosis.status != "cannot_tell":
            is_relevant = rule.file.role == "alternative" and mechanism_kind(rule.file.mechanism) not in {"", THP}
        if is_relevant and rule.id in undecided:
            yield [name for name in outcomes[rule.id].missing if name != OTHER_SETTING]


def _symbol_requests(diagnosis: Diagnosis, missing: Iterable[Sequence[str]]) -> list[str]:
    """Requests for the symbols of existing recordings, which are better than new recordings."""
    if not any("profile" in names for names in missing):
        return []
    profiles = [p for state in diagnosis.case.states for p in state.profiles]
    members = dict.fromkeys(p.cite.member for p in profiles if p.facts.get("symbols", "").startswith("none"))
    return [
        sentence(SYMBOLS_REQUEST.format(member=path_name(quote(member.rpartition("/")[2]))))
        for member in list(members)[:1]
    ]


def _order_requests(wanted: Sequence[Sequence[str]]) -> list[str]:
    """Each request once, by priority, without those that are part of another one."""
    count = Counter(command for commands in wanted for command in dict.fromkeys(commands) if command)

    def rank(command: str) -> tuple[int, int]:
        first = next((i for i, pattern in enumerate(_PRIORITY) if pattern.fullmatch(command)), len(_PRIORITY))
        return first, -count[command]

    ranked = sorted(count, key=rank)
    parts = {command: _parts(command) for command in ranked}
    return [c for c in ranked if not any(c != other and parts[c] < parts[other] for other in ranked)]


def _parts(command: str) -> frozenset[str]:
    """The data that a request gets: a repeated snapshot includes the one taken twice, and that the single one."""
    single = _REPETITION.sub("", command)
    pair = [f"{single}, twice"] if ", every" in command or ", twice" in command else []
    repeated = [command] if single != command and ", twice" not in command else []
    return frozenset([*single.split("; "), *pair, *repeated])
