"""Known issues of this host: entries of the catalogue (knowledge/known_issues/*.yaml) held against its facts.

Each condition is yes, no or unknown. An entry with a no is not told. One that lacks something is told as possible, if
the input shows what it is about: the application, the process or the kernel. What is only assumed or written in a
start-up file is unknown here. Nothing of this has a part in the verdict: it is about what the host is, not about what
was measured.
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

_kernel_version = lru_cache(64)(kernel_version)  # each entry asks again
YES, NO, UNKNOWN = Verdict3.YES, Verdict3.NO, Verdict3.UNKNOWN
RELEASE, VERSION, PROCESS = "kernel.release", "app.version", "process.command"
NEEDED = frozenset({RELEASE, "app", VERSION, PROCESS})  # without any of these no entry can match
BOOT = "# and take it out of the file or profile that sets it at boot: see the setting's next boot"
STATES = ("affected", "fixed-but-workaround-on", "workaround-on", "possible")
State = Literal["affected", "fixed-but-workaround-on", "workaround-on", "possible"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the host says to one condition: the facts, or the name of the one that is missing.

    `fixed`: the version is one that has the fix. `range` is the range of versions that decided.
    """

    value: Verdict3
    facts: tuple[Fact, ...] = ()
    missing: str = ""
    fixed: bool = False
    range: Range | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """An entry that is true of the host, or may be."""

    issue: KnownIssue
    state: State
    facts: tuple[Fact, ...]
    missing: tuple[str, ...]
    ranges: tuple[Range, ...]


def matches(diagnosis: Diagnosis) -> list[Match]:
    """The entries for the state of the host whose settings are told: what is certain and grave first."""
    if not any(fact.name in NEEDED for fact in diagnosis.case.facts):
        return []
    state = state_of_settings(diagnosis)
    view = next((view for view, _ in diagnosis.by_state if view.state is state), None)
    found = [one for issue in catalogue().issues if view and (one := match(issue, view))]
    return sorted(found, key=lambda one: (STATES.index(one.state), HARMS.index(one.issue.harm), one.issue.id))


def match(issue: KnownIssue, view: StateView) -> Match | None:
    """What an entry is for a host; None where a condition says no or nothing shows what it is about."""
    answers: list[Answer] = []
    for answer in _answers(issue, view):  # most entries end at the first
        if answer.value is NO:
            return None
        answers.append(answer)
    open_ = [one for one in answers if one.value is UNKNOWN]
    on, off, unread = _workaround(issue, view)
    if any(one.fixed for one in answers):
        state: State = "fixed-but-workaround-on"
        if open_ or off or not on or not issue.workaround.back:
            return None
    elif open_:
        state = "possible"
        if answers[0].value is not YES:
            return None
    else:
        state = "workaround-on" if on and not off and not unread else "affected"
    facts = (*(fact for one in answers for fact in one.facts), *on, *off)
    missing = (*(one.missing for one in open_), *(unread if state == "affected" else ()))
    ranges = tuple(one.range for one in answers if one.range)
    return Match(issue, state, tuple(dict.fromkeys(facts)), tuple(dict.fromkeys(missing)), ranges)


def _answers(issue: KnownIssue, view: StateView) -> Iterator[Answer]:
    """First what the entry is about."""
    if PROCESS in issue.needs:
        yield _process(str(issue.needs[PROCESS]["matches"]), view)
    if issue.app:
        yield _application(issue.app, view)
        if issue.versions:
            yield _application_version(issue, view)
    if issue.kernels:
        yield _kernel(issue.kernels, view)
    yield from (_fact(name, needed, view) for name, needed in issue.needs.items() if name != PROCESS)


def _lists_processes(view: StateView) -> bool:
    """Whether the input has a list of all processes."""
    return any(fact.label("part") is None for fact in view.facts(PROCESS))


def _process(pattern: str, view: StateView) -> Answer:
    wanted = re2.compile(pattern)
    for fact in view.facts(PROCESS):
        if wanted.search(f"{fact.label('comm') or ''} {fact.value}"):
            return Answer(YES, (fact,))
    return Answer(NO) if _lists_processes(view) else Answer(UNKNOWN, missing=PROCESS)


def _application(name: str, view: StateView) -> Answer:
    """A version that an application tells of itself shows that it runs, too."""
    told = [fact for fact in view.facts("app") if fact.value == name]
    told += [fact for fact in view.facts(VERSION) if fact.label("app") == name]
    if told:
        return Answer(YES, tuple(told[:1]))
    return Answer(NO) if _lists_processes(view) else Answer(UNKNOWN, missing="app")


def _application_version(issue: KnownIssue, view: StateView) -> Answer:
    facts = [fact for fact in view.facts(VERSION) if fact.label("app") == issue.app]
    return _merge([_compare_version(issue.versions, numbers(str(fact.value)), fact) for fact in facts], VERSION)


def _kernel(ranges: Sequence[Range], view: StateView) -> Answer:
    builds = {fact.cite: str(fact.value) for fact in view.facts("kernel.build")}
    only = next(iter(builds.values())) if len(set(builds.values())) == 1 else ""
    return _merge([_of_kernel(ranges, fact, builds.get(fact.cite, only)) for fact in view.facts(RELEASE)], RELEASE)


def _of_kernel(ranges: Sequence[Range], fact: Fact, build: str) -> Answer:
    """A line of kernels of which the entry says nothing is no: its makers may have taken anything into it, or not."""
    lines, version = _kernel_version(str(fact.value), build)
    if not lines:
        return Answer(UNKNOWN, missing=RELEASE)
    own = next((of for line in lines if (of := tuple(one for one in ranges if one.line == line))), ())
    return _compare_version(own, version, fact)


def _compare_version(ranges: Sequence[Range], version: tuple[int, ...], fact: Fact) -> Answer:
    if not version:
        return Answer(UNKNOWN, missing=fact.name)
    where, one = place_in(tuple(ranges), version)
    return Answer(NO) if where == "outside" else Answer(YES, (fact,), fixed=where == "fixed", range=one)


def _fact(name: str, needed: Mapping[str, Any], view: StateView) -> Answer:
    known = term(name)
    is_setting = known is not None and known.kind == "setting"
    facts = [fact for fact in view.facts(name) if not (fact.provenance and is_setting)]
    return _merge([Answer(YES if _fits(needed, fact.value) else NO, (fact,)) for fact in facts], name)


def _merge(answers: Sequence[Answer], name: str) -> Answer:
    """The answer of all facts of a name; unknown without any, and where they say different things."""
    if len({(one.value, one.fixed) for one in answers}) == 1:
        return answers[0]
    return Answer(UNKNOWN, missing=name)


def _fits(needed: Mapping[str, Any], value: str | float) -> bool:
    if "one_of" in needed:
        return str(value).lower() in map(str, needed["one_of"])
    if "from" in needed or "below" in needed:  # a version
        version = numbers(str(value))
        return version >= numbers(str(needed.get("from", "0"))) and version < numbers(str(needed.get("below", "9999")))
    if "matches" in needed:
        return bool(re2.search(str(needed["matches"]), str(value)))
    return not isinstance(value, str) and needed.get("least", value) <= value <= needed.get("most", value)


def _workaround(issue: KnownIssue, view: StateView) -> tuple[list[Fact], list[Fact], list[str]]:
    """The settings of the workaround: those in force, those that are not, the names of those that nobody read."""
    on: list[Fact] = []
    off: list[Fact] = []
    unread: list[str] = []
    for setting, words in issue.workaround.sets.items():
        name = fact_name(setting)
        fact = next((fact for fact in view.facts(name) if not fact.provenance), None)
        if fact is None:
            unread.append(name)
        else:
            (on if str(fact.value) in map(str, words) else off).append(fact)
    return on, off, unread


# What the document says


def requests(diagnosis: Diagnosis) -> Iterator[ExcerptRequest]:
    """The lines that are cited."""
    cites = (fact.cite for one in matches(diagnosis) for fact in one.facts)
    yield from (ExcerptRequest(cite.member, cite.line) for cite in cites if cite.member and cite.line)


def known_issues(diagnosis: Diagnosis, quotes: Quotes) -> list[IssueDocument]:
    """The entries as the result has them."""
    return [_document(one, diagnosis, quotes) for one in matches(diagnosis)]


def _document(one: Match, diagnosis: Diagnosis, quotes: Quotes) -> IssueDocument:
    issue, asked = one.issue, [known.ask_for for name in one.missing if (known := term(name))]
    return IssueDocument.model_construct(
        id=issue.id, title=issue.title, state=one.state, harm=issue.harm, defect=issue.defect, source=issue.source,
        date=issue.date, facts=[_describe(fact, quotes) for fact in one.facts],
        **present_keys(
            missing=list(one.missing), ask_for=list(dict.fromkeys(asked)), fixed=_fix_version(one) or None,
            doubt=issue.doubt or None,
        ),
        **_commands(one, diagnosis),
    )  # fmt: skip


def _describe(fact: Fact, quotes: Quotes) -> IssueFact:
    labels = " ".join(f"{key} {quoted(value)}" for key, value in fact.labels if key == "app")
    text = sentence(fact_text(fact.name, labels, quoted(str(fact.value))))
    return IssueFact.model_construct(text=text, **quoted_place(fact.cite, quotes))


def _fix_version(one: Match) -> str:
    """The first version with the fix, of this host's line; of all where the host's is not known."""
    issue = one.issue
    if issue.mended:
        return issue.mended
    ranges = one.ranges or (*issue.kernels, *issue.versions)
    told = [f"{line_title(r.line) if r.line else issue.app} {r.fixed}" for r in ranges if r.fixed]
    return ", ".join(dict.fromkeys(told))


def _commands(one: Match, diagnosis: Diagnosis) -> dict[str, Any]:
    """What to do now, how to make it last, how to take it back and when; nothing for what may not apply.

    Where it is on already nobody knows who made it last.
    """
    if one.state == "possible":
        return {}
    work, host = one.issue.workaround, host_view(diagnosis.case, state_of_settings(diagnosis))
    if one.state in ("fixed-but-workaround-on", "workaround-on"):
        undo = [*write_values(work.back, host), *work.undo, *([BOOT] if work.back else [])]
        return present_keys(undo=undo, until=work.until or None)
    values = values_to_write({"sets": work.sets}, host)
    old = write_values(work.back, host) if work.back else write_old_values(values, host)
    keepers = [app.name for app, stance in host.stances() if stance.word == "keep" and values.get("enabled") == "never"]
    first = [f"# {name} also runs here and needs huge pages: decide which matters more first" for name in keepers]
    first += ["# on the node, as root; a container cannot change this"] if host.container and values else []
    return present_keys(
        now=[*first, *write_values(values, host), *work.run], persist=list(persist(values, host)),
        undo=[*old, *persist(values, host, back=True), *work.undo], until=work.until or None,
        remedy=work.remedy or None,
    )  # fmt: skip
