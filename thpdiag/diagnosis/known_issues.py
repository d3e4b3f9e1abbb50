"""Known issues of this host: entries of the catalogue (knowledge/known_issues/*.yaml) whose conditions match its facts.

Each condition is yes, no or unknown. An entry with a no is omitted. An entry that lacks data is listed as possible if
the input shows its subject: the application, the process or the kernel. Assumed values and those of start-up files
count as unknown. Known issues do not affect the verdict, because they describe the host and not what was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import re2

from thpdiag.diagnosis.diagnose import Diagnosis
from thpdiag.diagnosis.excerpts import Quotes, quoted_place
from thpdiag.diagnosis.host_document import state_of_settings
from thpdiag.diagnosis.remedies import fact_name, host_view, persist, values_to_write, write_old_values, write_values
from thpdiag.engine.state_view import StateView
from thpdiag.engine.wording import fact_text
from thpdiag.knowledge.known_issues import (
    HARMS,
    KnownIssue,
    Range,
    catalogue,
    kernel_version,
    line_title,
    numbers,
    place_in,
)
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Fact, Verdict3
from thpdiag.model.document import present_keys
from thpdiag.model.facts import ExcerptRequest
from thpdiag.model.result import IssueFact
from thpdiag.model.result import KnownIssue as IssueDocument
from thpdiag.model.text import quoted, sentence

_kernel_version = lru_cache(64)(kernel_version)  # needed for each entry
YES, NO, UNKNOWN = Verdict3.YES, Verdict3.NO, Verdict3.UNKNOWN
RELEASE, VERSION, PROCESS = "kernel.release", "app.version", "process.command"
REQUIRED_FACTS = frozenset({RELEASE, "app", VERSION, PROCESS})  # without any of these no entry can match
BOOT_REMARK = "# and take it out of the file or profile that sets it at boot: see the setting's next boot"
STATES = ("affected", "fixed-but-workaround-on", "workaround-on", "possible")
State = Literal["affected", "fixed-but-workaround-on", "workaround-on", "possible"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one condition: the facts, or the name of the missing one.

    `fixed`: the version has the fix. `range` is the range of versions that decided.
    """

    value: Verdict3
    facts: tuple[Fact, ...] = ()
    missing: str = ""
    fixed: bool = False
    range: Range | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """An entry that applies to the host, or may apply."""

    issue: KnownIssue
    state: State
    facts: tuple[Fact, ...]
    missing: tuple[str, ...]
    ranges: tuple[Range, ...]


def matches(diagnosis: Diagnosis) -> list[Match]:
    """Return the entries for the state whose settings are reported, certain ones first, then by harm."""
    if not any(fact.name in REQUIRED_FACTS for fact in diagnosis.case.facts):
        return []
    state = state_of_settings(diagnosis)
    view = next((view for view, _ in diagnosis.by_state if view.state is state), None)
    result = [entry for issue in catalogue().issues if view and (entry := match(issue, view))]
    return sorted(result, key=lambda entry: (STATES.index(entry.state), HARMS.index(entry.issue.harm), entry.issue.id))


def match(issue: KnownIssue, view: StateView) -> Match | None:
    """Return the match of an entry with a host; None if a condition is no or nothing shows the subject."""
    answers: list[Answer] = []
    for answer in _answers(issue, view):  # most entries end at the first
        if answer.value is NO:
            return None
        answers.append(answer)
    undecided = [answer_ for answer_ in answers if answer_.value is UNKNOWN]
    is_set, not_set, unread = _workaround(issue, view)
    if any(answer_.fixed for answer_ in answers):
        state: State = "fixed-but-workaround-on"
        if undecided or not_set or not is_set or not issue.workaround.back:
            return None
    elif undecided:
        state = "possible"
        if answers[0].value is not YES:
            return None
    else:
        state = "workaround-on" if is_set and not not_set and not unread else "affected"
    facts = (*(fact for answer_ in answers for fact in answer_.facts), *is_set, *not_set)
    missing = (*(answer_.missing for answer_ in undecided), *(unread if state == "affected" else ()))
    ranges = tuple(answer_.range for answer_ in answers if answer_.range)
    return Match(issue, state, tuple(dict.fromkeys(facts)), tuple(dict.fromkeys(missing)), ranges)


def _answers(issue: KnownIssue, view: StateView) -> Iterator[Answer]:
    """Yield the answers to the conditions, those about the subject first."""
    if PROCESS in issue.needs:
        yield _process_answer(str(issue.needs[PROCESS]["matches"]), view)
    if issue.app:
        yield _application_answer(issue.app, view)
        if issue.versions:
            yield _application_version_answer(issue, view)
    if issue.kernels:
        yield _kernel_answer(issue.kernels, view)
    yield from (_fact_answer(name, needed, view) for name, needed in issue.needs.items() if name != PROCESS)


def _lists_processes(view: StateView) -> bool:
    return any(fact.label("part") is None for fact in view.facts(PROCESS))


def _process_answer(pattern: str, view: StateView) -> Answer:
    regex = re2.compile(pattern)
    for fact in view.facts(PROCESS):
        if regex.search(f"{fact.label('comm') or ''} {fact.value}"):
            return Answer(YES, (fact,))
    return Answer(NO) if _lists_processes(view) else Answer(UNKNOWN, missing=PROCESS)


def _application_answer(name: str, view: StateView) -> Answer:
    """An application runs if it is listed, or if its version is known."""
    facts = [fact for fact in view.facts("app") if fact.value == name]
    facts += [fact for fact in view.facts(VERSION) if fact.label("app") == name]
    if facts:
        return Answer(YES, tuple(facts[:1]))
    return Answer(NO) if _lists_processes(view) else Answer(UNKNOWN, missing="app")


def _application_version_answer(issue: KnownIssue, view: StateView) -> Answer:
    facts = [fact for fact in view.facts(VERSION) if fact.label("app") == issue.app]
    return _merge([_compare_version(issue.versions, numbers(str(fact.value)), fact) for fact in facts], VERSION)


def _kernel_answer(ranges: Sequence[Range], view: StateView) -> Answer:
    builds = {fact.cite: str(fact.value) for fact in view.facts("kernel.build")}
    only = next(iter(builds.values())) if len(set(builds.values())) == 1 else ""
    return _merge([_compare_kernel(ranges, fact, builds.get(fact.cite, only)) for fact in view.facts(RELEASE)], RELEASE)


def _compare_kernel(ranges: Sequence[Range], fact: Fact, build: str) -> Answer:
    """A kernel line that the entry does not list is no: its vendor may or may not have backported the change."""
    lines, version = _kernel_version(str(fact.value), build)
    if not lines:
        return Answer(UNKNOWN, missing=RELEASE)
    line_ranges = next((r for line in lines if (r := tuple(r for r in ranges if r.line == line))), ())
    return _compare_version(line_ranges, version, fact)


def _compare_version(ranges: Sequence[Range], version: tuple[int, ...], fact: Fact) -> Answer:
    if not version:
        return Answer(UNKNOWN, missing=fact.name)
    position, range_ = place_in(tuple(ranges), version)
    return Answer(NO) if position == "outside" else Answer(YES, (fact,), fixed=position == "fixed", range=range_)


def _fact_answer(name: str, needed: Mapping[str, Any], view: StateView) -> Answer:
    known = term(name)
    is_setting = known is not None and known.kind == "setting"
    facts = [fact for fact in view.facts(name) if not (fact.provenance and is_setting)]
    return _merge([Answer(YES if _matches_value(needed, fact.value) else NO, (fact,)) for fact in facts], name)


def _merge(answers: Sequence[Answer], name: str) -> Answer:
    """The answer of all facts of a name; unknown without facts, and if they differ."""
    if len({(answer.value, answer.fixed) for answer in answers}) == 1:
        return answers[0]
    return Answer(UNKNOWN, missing=name)


def _matches_value(needed: Mapping[str, Any], value: str | float) -> bool:
    if "one_of" in needed:
        return str(value).lower() in map(str, needed["one_of"])
    if "from" in needed or "below" in needed:  # a version
        version = numbers(str(value))
        return version >= numbers(str(needed.get("from", "0"))) and version < numbers(str(needed.get("below", "9999")))
    if "matches" in needed:
        return bool(re2.search(str(needed["matches"]), str(value)))
    return not isinstance(value, str) and needed.get("least", value) <= value <= needed.get("most", value)


def _workaround(issue: KnownIssue, view: StateView) -> tuple[list[Fact], list[Fact], list[str]]:
    """The settings of the workaround: facts that are in force, facts that are not, and names that are not in the
    input."""
    is_set: list[Fact] = []
    not_set: list[Fact] = []
    unread: list[str] = []
    for setting, words in issue.workaround.sets.items():
        name = fact_name(setting)
        fact = next((fact for fact in view.facts(name) if not fact.provenance), None)
        if fact is None:
            unread.append(name)
        else:
            (is_set if str(fact.value) in map(str, words) else not_set).append(fact)
    return is_set, not_set, unread


# Documents


def requests(diagnosis: Diagnosis) -> Iterator[ExcerptRequest]:
    """Yield the lines that the entries cite."""
    cites = (fact.cite for entry in matches(diagnosis) for fact in entry.facts)
    yield from (ExcerptRequest(cite.member, cite.line) for cite in cites if cite.member and cite.line)


def known_issues(diagnosis: Diagnosis, quotes: Quotes) -> list[IssueDocument]:
    """Return the entries of the result."""
    return [_document(entry, diagnosis, quotes) for entry in matches(diagnosis)]


def _document(entry: Match, diagnosis: Diagnosis, quotes: Quotes) -> IssueDocument:
    issue, requests = entry.issue, [term_.ask_for for name in entry.missing if (term_ := term(name))]
    return IssueDocument.model_construct(
        id=issue.id, title=issue.title, state=entry.state, harm=issue.harm, defect=issue.defect, source=issue.source,
        date=issue.date, facts=[_describe(fact, quotes) for fact in entry.facts],
        **present_keys(
            missing=list(entry.missing), ask_for=list(dict.fromkeys(requests)), fixed=_fix_version(entry) or None,
            doubt=issue.doubt or None,
        ),
        **_commands(entry, diagnosis),
    )  # fmt: skip


def _describe(fact: Fact, quotes: Quotes) -> IssueFact:
    labels = " ".join(f"{key} {quoted(value)}" for key, value in fact.labels if key == "app")
    text = sentence(fact_text(fact.name, labels, quoted(str(fact.value))))
    return IssueFact.model_construct(text=text, **quoted_place(fact.cite, quotes))


def _fix_version(entry: Match) -> str:
    """The first version with the fix in this host's line; in all lines if the host's is unknown."""
    issue = entry.issue
    if issue.mended:
        return issue.mended
    ranges = entry.ranges or (*issue.kernels, *issue.versions)
    versions = [f"{line_title(r.line) if r.line else issue.app} {r.fixed}" for r in ranges if r.fixed]
    return ", ".join(dict.fromkeys(versions))


def _commands(entry: Match, diagnosis: Diagnosis) -> dict[str, Any]:
    """The commands to apply the workaround now and permanently, to undo it, and until when it is needed; none if the
    entry is only possible. If the workaround is on already, it is unknown what makes it permanent."""
    if entry.state == "possible":
        return {}
    work, host = entry.issue.workaround, host_view(diagnosis.case, state_of_settings(diagnosis))
    if entry.state in ("fixed-but-workaround-on", "workaround-on"):
        undo = [*write_values(work.back, host), *work.undo, *([BOOT_REMARK] if work.back else [])]
        return present_keys(undo=undo, until=work.until or None)
    values = values_to_write({"sets": work.sets}, host)
    old = write_values(work.back, host) if work.back else write_old_values(values, host)
    keepers = [app.name for app, stance in host.stances() if stance.word == "keep" and values.get("enabled") == "never"]
    remarks = [f"# {name} also runs here and needs huge pages: decide which matters more first" for name in keepers]
    remarks += ["# on the node, as root; a container cannot change this"] if host.container and values else []
    return present_keys(
        now=[*remarks, *write_values(values, host), *work.run], persist=list(persist(values, host)),
        undo=[*old, *persist(values, host, back=True), *work.undo], until=work.until or None,
        remedy=work.remedy or None,
    )  # fmt: skip
