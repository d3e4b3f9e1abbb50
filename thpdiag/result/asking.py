"""What to ask the customer for: what the verdict lacks, the most useful first, and no more than somebody will send."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote
from typing import Any

from thpdiag.capture import Section, sections
from thpdiag.diagnosis import Diagnosis
from thpdiag.engine.load import Rule
from thpdiag.engine.toggle_metrics import OTHER_SETTING
from thpdiag.knowledge.mechanisms import mechanisms
from thpdiag.model import Case, Finding, Verdict3
from thpdiag.ranking import LEADING
from thpdiag.result.absent import reasons
from thpdiag.result.requests import AGAIN, request
from thpdiag.result.sureness import classes_missing

# After a restart the kernel lies elsewhere; perf on that host has kept the symbols of then (perf-buildid-cache(1)).
NAMES_REQUEST = (
    "sudo cat /proc/kallsyms > kallsyms-$(uname -r) (on the host of {member}, before it is restarted; "
    "afterwards there: perf script --no-inline -i {member} > perf.script)"
)
MOST = 8  # requests; a longer list is not sent
MOST_REASONS = 3  # why something is not in the input; all stand with the rules that lack it
# Call stacks and counters decide most; the rest in the order of the number of rules that wait for it.
_FIRST = (re.compile("perf record .*"), re.compile("cat /proc/vmstat, .*"), re.compile("vmstat -n .*"))
_REPEATED = re.compile(r", (?:every|twice).*| \(once\)$")
_SCRIPT = "send the customer the script that 'thpdiag capture-script' prints, to be run while it hurts"
_MORE = "ask for what the script did not record"
_AGAIN = "let the script run again while the host is slow, and for longer: what it recorded does not show it"
_OF_CLASS = {
    "stack": "profile", "counter": "node_vmstat_compact_stall", "cpu": "cpu_ratio.sys_total",
    "effect": "process_resident_memory_bytes", "toggle": OTHER_SETTING,
}  # fmt: skip


def ask(diagnosis: Diagnosis) -> dict[str, Any]:
    """One request: for what would make the finding surer, or for what the open questions lack.

    What the capture script recorded is not asked for once more by name: the script is to run again, for longer.
    """
    lacking, recorded = [list(names) for names in _lacking(diagnosis)], _recorded(diagnosis.case)
    fresh = [[name for name in names if not _given(name, recorded)] for names in lacking]
    commands = [*_names(diagnosis, fresh), *_ordered([[request(name) for name in names] for names in fresh])][:MOST]
    about = "To be surer" if diagnosis.leader else "To decide it"
    if diagnosis.status in ("not_applicable", "nothing_found"):
        about = "If the host is slow all the same"
    if not commands and any(lacking) and diagnosis.status in ("found", "cannot_tell"):
        return {"text": f"{about}, {_AGAIN}.", "commands": [AGAIN], "missing": _wanted(lacking)}
    if not commands:
        return {"text": "The verdict needs no further data.", "commands": [], "missing": []}
    absent = reasons(diagnosis.case)(name for names in fresh for name in names)[:MOST_REASONS]
    text = " ".join([f"{about}, {_MORE if recorded else _SCRIPT}.", *absent])
    return {"text": text, "commands": commands, "missing": _wanted(fresh)}


def _wanted(names: Iterable[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(name for some in names for name in some if request(name)))


def _recorded(case: Case) -> list[Section]:
    """What the script recorded of this host: its log lies above it, in the same folder."""
    logs = [i.member for i in case.inputs if i.member.rpartition("/")[2] == "capture.log"]
    folders = [member.removesuffix("capture.log") for member in logs]
    read = [i.member for i in case.inputs if i.reader and i.member not in logs]
    files = {member.removeprefix(folder) for member in read for folder in folders if member.startswith(folder)}
    return [section for section in sections() if section.is_in(files)]


def _given(name: str, recorded: Iterable[Section]) -> bool:
    return any(section.gives(name) for section in recorded)


def _lacking(diagnosis: Diagnosis) -> Iterator[Sequence[str]]:
    """The vocabulary names that each question lacks whose answer can be the verdict; what is confirmed lacks nothing.

    A setting is switched to try a suspicion; who has none would not know which.
    """
    leader, outcomes = diagnosis.leader, diagnosis.outcomes
    if leader is not None:
        if leader.confidence != "confirmed":
            own = next(rule for rule in diagnosis.rules if rule.id == leader.outcome.rule)
            yield leader.outcome.missing
            yield _classes(leader, diagnosis)
            yield from (outcomes[i].missing for i in own.file.excluded_by if _is_open(i, diagnosis))
        return
    for rule in sorted(diagnosis.rules, key=lambda r: r.id):
        counts = rule.file.role in LEADING if diagnosis.status == "cannot_tell" else _is_alternative(rule)
        if counts and _is_open(rule.id, diagnosis):
            yield [name for name in outcomes[rule.id].missing if name != OTHER_SETTING]


def _names(diagnosis: Diagnosis, lacking: Iterable[Sequence[str]]) -> list[str]:
    """What names the kernel's functions in recordings that are there: no new recording is as good as that one."""
    if not any("profile" in names for names in lacking):
        return []
    profiles = [p for state in diagnosis.case.states for p in state.profiles]
    members = dict.fromkeys(p.cite.member for p in profiles if p.facts.get("symbols", "").startswith("none"))
    return [NAMES_REQUEST.format(member=quote(member.rpartition("/")[2])) for member in list(members)[:1]]


def _classes(finding: Finding, diagnosis: Diagnosis) -> list[str]:
    """What would raise the confidence, tried out; else a name for each class of evidence that is missing."""
    tried = [name for step in finding.outcome.raises for name in step.missing]
    missing = classes_missing(finding, diagnosis)
    return [*tried, *(_OF_CLASS[name] for name in missing if name in _OF_CLASS)]


def _is_open(rule: str, diagnosis: Diagnosis) -> bool:
    return rule in diagnosis.outcomes and diagnosis.outcomes[rule].value is Verdict3.UNKNOWN


def _is_alternative(rule: Rule) -> bool:
    """Where huge pages play no part only what is not about them is of use."""
    known = mechanisms().get(rule.file.mechanism)
    return known is not None and known.kind != "thp" and rule.file.role == "alternative"


def _ordered(requests: Sequence[Sequence[str]]) -> list[str]:
    """Each request once; one that another one contains is left out."""
    count = Counter(command for commands in requests for command in dict.fromkeys(commands) if command)
    ranked = sorted(count, key=lambda command: (_rank(command), -count[command]))
    return [c for c in ranked if not any(c != other and _parts(c) < _parts(other) for other in ranked)]


def _parts(command: str) -> frozenset[str]:
    """What a request gets: a file that is read again and again is also read twice, and once."""
    once = _REPEATED.sub("", command)
    twice = [f"{once}, twice"] if ", every" in command or ", twice" in command else []
    further = [command] if once != command and ", twice" not in command else []
    return frozenset([*once.split("; "), *twice, *further])


def _rank(command: str) -> int:
    return next((i for i, pattern in enumerate(_FIRST) if pattern.fullmatch(command)), len(_FIRST))
