"""What the verdict lacks: how sure a finding is, why something is not in the input, what to ask the customer for.

That sos gave up on something, was told to leave it out or is too old to know it is another thing than a host that has
no such file, and it says how to get it. A request names the most useful first, and no more than somebody will send.
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
from thpdiag.diagnosis.ranking import LEADING, THP, mechanism_kind
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
# After a restart the kernel lies elsewhere; perf on that host has kept the symbols of then (perf-buildid-cache(1)).
NAMES_REQUEST = (
    "sudo cat /proc/kallsyms > kallsyms-$(uname -r) (on the host of {member}, before it is restarted; "
    "afterwards there: perf script --no-inline -i {member} > perf.script)"
)
LOG = "capture.log"  # of the capture script
LONGER = 600  # seconds
AGAIN = f"sh thp-capture.sh -d {LONGER}"
RAISING = DYNAMIC | {"toggle"}  # classes that can make a finding surer
MAX_REQUESTS = 8  # a longer list is not sent
MAX_REASONS = 3  # why something is not in the input; all stand with the rules that lack it
# Call stacks and counters decide most; the rest in the order of the number of rules that wait for it.
_FIRST = (re.compile("perf record .*"), re.compile("cat /proc/vmstat, .*"), re.compile("vmstat -n .*"))
_ONCE = re.compile("cat |find |grep ")
_TOLD_BY = {"kernel.era": "kernel.release"}  # facts that follow from another one, where anything does
_MEASURED_AS = {"note.counter_rising": "node_vmstat_compact_stall"}  # what people write of, and a figure of it
_ONLY_IN_MEMINFO = "node_memory_VmallocTotal_bytes"  # in all of them, far down, and in no other tool's output
_ONLY_IN_SYSCTL = "sysctl.vm.extfrag_threshold"  # in all of them from 2.6.35 on, and hardly asked for alone
_REPEATED = re.compile(r", (?:every|twice).*| \(once\)$")
_SCRIPT = "send the customer the script that 'thpdiag capture-script' prints, to run while the host is slow"
_MORE = "ask for what the script did not record"
_AGAIN = "run the script again, for longer, while the host is slow: the recording does not show it"
_OF_CLASS = {
    "stack": "profile", "counter": "node_vmstat_compact_stall", "cpu": "cpu_ratio.sys_total",
    "effect": "process_resident_memory_bytes", "toggle": OTHER_SETTING,
}  # fmt: skip


def request(name: str) -> str:
    """The command that gets a vocabulary name from a customer."""
    known = term(name) or event(name)
    return _PROFILE_REQUESTS.get(name) or (known.ask_for if known else "")


Requests = Callable[[Iterable[str]], list[str]]


def over_time(command: str) -> str:
    """The command that gets over time what another one shows once."""
    return f"{command}, every 10 s" if _ONCE.match(command) and not _REPEATED.search(command) else command


def open_requests(diagnosis: Diagnosis) -> Requests:
    """What gives the commands for names, each once, without those that would bring what is in the input.

    What was looked at once is asked for over time. What the capture script recorded is not asked for once more by name:
    where it is about what happens, the script is to run again, for longer.
    """
    recorded = _recorded_sections(diagnosis.case)
    views = [view for view, _ in diagnosis.by_state]

    @cache
    def is_recorded(name: str) -> bool:
        return any(section.gives(_MEASURED_AS.get(name, name)) for section in recorded)

    @cache
    def command(name: str) -> str:
        if is_recorded(name):
            giving = (section for section in recorded if section.gives(_MEASURED_AS.get(name, name)))
            return AGAIN if any(section.lasts for section in giving) else ""
        if name.startswith("thp.") and diagnosis.status == "not_applicable":
            return ""  # a kernel without huge pages has no settings of them
        if any(fact for view in views for fact in view.facts(_TOLD_BY.get(name, "")) if not fact.provenance):
            return ""
        known = any(view.has_recorded(name) for view in views)
        if not known and name.startswith("node_memory_") and any(view.has_recorded(_ONLY_IN_MEMINFO) for view in views):
            return ""  # a field that this kernel does not have
        if name.startswith("sysctl.") and any(view.facts(_ONLY_IN_SYSCTL) for view in views):
            return ""  # a setting that it does not have
        return over_time(request(name)) if known else request(name)

    def commands(names: Iterable[str]) -> list[str]:
        names = list(names)
        found = dict.fromkeys(filter(None, map(command, names)))
        in_vain = {request(name) for name in names if is_recorded(name)}
        in_vain |= {one for one in found if over_time(one) != one and over_time(one) in found}
        return [one for one in found if one not in in_vain]

    return commands


# How sure a finding is


def sureness(finding: Finding, diagnosis: Diagnosis) -> dict[str, Any]:
    """The keys of a finding that say how sure it is; what would make it surer may be there already."""
    steps = [s for s in finding.outcome.raises if CONFIDENCES.index(s.to) > CONFIDENCES.index(finding.confidence)]
    requests = open_requests(diagnosis)
    return {
        "classes_spoken": list(finding.outcome.spoken),
        "classes_missing": missing_classes(finding, diagnosis),
        "raises": [
            Raise.model_construct(
                to=cast("Any", step.to), classes=cast("Any", list(step.classes)), ask_for=requests(step.missing)
            )
            for step in steps
        ],
    }


def missing_classes(finding: Finding, diagnosis: Diagnosis) -> list[str]:
    """The classes of evidence that the rules about the mechanism ask for, and of which the input holds nothing in the
    same state, whatever it says."""
    own = finding.outcome
    rules = (diagnosis.rule_by_id[own.rule], *diagnosis.leading_rules.get(finding.mechanism, ()))
    wanted = {check_class(check) for rule in rules for check in rule.checks.values()} & RAISING
    outcomes = [own, *(diagnosis.outcomes[rule.id] for rule in rules)]
    heard = {one for outcome in outcomes if outcome.state == own.state for one in outcome.heard}
    return sorted(wanted - set(own.spoken) - heard)


# Why something is not in the input


def missing_reasons(case: Case) -> Callable[[Iterable[str]], list[str]]:
    """What gives a sentence for each thing that names of the vocabulary stand for and the collector did not bring."""
    facts = [fact for fact in case.facts if fact.name.startswith("capture.")]
    present = {path for item in case.inputs if facts and item.reader and (path := collected_file(item.member))}
    tools = (str(fact.value).split()[0] for fact in facts if fact.name == "capture.tool")
    tool = SUPPORTCONFIG if SUPPORTCONFIG in tools else SOS

    def reasons(names: Iterable[str]) -> list[str]:
        wanted = dict.fromkeys(row for name in names if (row := collector_source(name, tool))) if facts else {}
        return [reason for row in wanted if (reason := _reason(row, facts, present, tool))]

    return reasons


def _reason(row: CollectorSource, facts: list[Fact], present: set[str], tool: str) -> str:
    """Of several captures the last one tells."""
    stopped = [f for f in facts if f.name == "capture.timed_out" and f.label("plugin") in (None, *row.plugins)]
    stopped = [f for f in stopped if not (ran := f.label("command")) or (row.command and row.command.fullmatch(ran))]
    there = any(row.paths.fullmatch(path) for path in present)
    if stopped:
        plugin, seconds = stopped[0].label("plugin"), stopped[0].label("seconds")
        limit = f", after {seconds} s" if seconds else ""
        where = f" (plugin {quoted(plugin)}{limit})" if plugin else ""
        if stopped[0].label("command"):
            return sentence(f"{row.what} is missing or incomplete because {tool} stopped the command{where}.")
        if not there:
            return sentence(f"{row.what} is missing because {tool} timed out collecting it{where}.")
    return "" if there else _left_out(row, facts, tool)


def _left_out(row: CollectorSource, facts: list[Fact], tool: str) -> str:
    versions = [str(f.value).removeprefix(f"{tool} ") for f in facts if f.name == "capture.tool"]
    if row.since and versions and all(is_older(version, row.since) for version in versions):
        return f"{row.what} is missing because {tool} {versions[-1]} does not copy it; {tool} {row.since} and later do."
    ran = [set(str(f.value).split()) for f in facts if f.name == "capture.plugins"]
    if ran and not any(plugins & set(row.plugins) for plugins in ran):
        part = row.plugins[0].replace("_", " ")
        return f"{row.what} is missing because {tool} did not run its {'plugin' if tool == SOS else 'part'} {part}."
    return ""


# What to ask for


def customer_request(diagnosis: Diagnosis) -> Request:
    """One request: for what would make the finding surer, or for what the open questions lack."""
    lacking = [list(names) for names in _lacking_names(diagnosis)]
    recorded, requests = _recorded_sections(diagnosis.case), open_requests(diagnosis)
    fresh = [[name for name in names if not any(s.gives(name) for s in recorded)] for names in lacking]
    commands = [*_symbol_requests(diagnosis, fresh), *_order_requests([requests(names) for names in fresh])]
    about = "To be more certain" if diagnosis.leader else "To decide it"
    if diagnosis.status in ("not_applicable", "nothing_found"):
        about = "If the host is slow anyway"
    if not commands and any(lacking) and diagnosis.status in ("found", "cannot_tell"):
        return Request.model_construct(text=f"{about}, {_AGAIN}.", commands=[AGAIN], missing=_askable(lacking))
    if not commands:
        return Request.model_construct(text="The verdict needs no further data.", commands=[], missing=[])
    reasons = missing_reasons(diagnosis.case)(name for names in fresh for name in names)[:MAX_REASONS]
    text = sentence(" ".join([f"{about}, {_MORE if recorded else _SCRIPT}.", *map(format, reasons)]))
    return Request.model_construct(text=text, commands=commands[:MAX_REQUESTS], missing=_askable(fresh))


def _recorded_sections(case: Case) -> Sequence[Section]:
    """What the capture script recorded. Its log lies above what it recorded of this host, in the same folder."""
    read = {item.member: item.member.rpartition("/")[2] for item in case.inputs}
    folders = [member[: -len(LOG)] for member, name in read.items() if name == LOG]
    others = [item.member for item in case.inputs if item.reader and read[item.member] != LOG]
    files = {member[len(folder) :] for member in others for folder in folders if member.startswith(folder)}
    return [section for section in sections() if section.is_in(files)]


def _askable(names: Iterable[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(name for some in names for name in some if request(name)))


def _lacking_names(diagnosis: Diagnosis) -> Iterator[Sequence[str]]:
    """The vocabulary names that each question lacks whose answer can be the verdict; what is confirmed lacks nothing.

    A setting is switched to try a suspicion; who has none would not know which. Where huge pages play no part only what
    is not about them is of use.
    """
    leader, outcomes = diagnosis.leader, diagnosis.outcomes
    undecided = {name for name, outcome in outcomes.items() if outcome.value is Verdict3.UNKNOWN}
    if leader is not None:
        if leader.confidence != "confirmed":
            own = diagnosis.rule_by_id[leader.outcome.rule]
            yield leader.outcome.missing
            # What would raise the confidence, tried out; else a name for each class of evidence that is missing.
            tried = [name for step in leader.outcome.raises for name in step.missing]
            yield [*tried, *(_OF_CLASS[one] for one in missing_classes(leader, diagnosis) if one in _OF_CLASS)]
            yield from (outcomes[name].missing for name in own.file.excluded_by if name in undecided)
        return
    for rule in sorted(diagnosis.rules, key=lambda r: r.id):
        counts = rule.file.role in LEADING
        if diagnosis.status != "cannot_tell":
            counts = rule.file.role == "alternative" and mechanism_kind(rule.file.mechanism) not in {"", THP}
        if counts and rule.id in undecided:
            yield [name for name in outcomes[rule.id].missing if name != OTHER_SETTING]


def _symbol_requests(diagnosis: Diagnosis, lacking: Iterable[Sequence[str]]) -> list[str]:
    """What names the kernel's functions in recordings that are there: no new recording is as good as that one."""
    if not any("profile" in names for names in lacking):
        return []
    profiles = [p for state in diagnosis.case.states for p in state.profiles]
    members = dict.fromkeys(p.cite.member for p in profiles if p.facts.get("symbols", "").startswith("none"))
    return [
        sentence(NAMES_REQUEST.format(member=path_name(quote(member.rpartition("/")[2]))))
        for member in list(members)[:1]
    ]


def _order_requests(wanted: Sequence[Sequence[str]]) -> list[str]:
    """Each request once; one that another one contains is left out."""
    count = Counter(command for commands in wanted for command in dict.fromkeys(commands) if command)

    def rank(command: str) -> tuple[int, int]:
        first = next((i for i, pattern in enumerate(_FIRST) if pattern.fullmatch(command)), len(_FIRST))
        return first, -count[command]

    ranked = sorted(count, key=rank)
    parts = {command: _parts(command) for command in ranked}
    return [c for c in ranked if not any(c != other and parts[c] < parts[other] for other in ranked)]


def _parts(command: str) -> frozenset[str]:
    """What a request gets: a file that is read again and again is also read twice, and once."""
    once = _REPEATED.sub("", command)
    twice = [f"{once}, twice"] if ", every" in command or ", twice" in command else []
    further = [command] if once != command and ", twice" not in command else []
    return frozenset([*once.split("; "), *twice, *further])
