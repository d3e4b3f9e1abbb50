"""The straight line: bundle, readers, case, derive, engine, diagnosis, result. Read this first.

paths -> members -> readings -> hosts -> cases with states -> outcomes of rules -> diagnosis -> result document
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from thpdiag.bundle import Limits, Member, members
from thpdiag.case.hosts import Pile, hosts
from thpdiag.case.states import effective, runtime_setting, states
from thpdiag.case.window import Window, inside
from thpdiag.derive.host import derived
from thpdiag.diagnosis import Diagnosis, Judgement, diagnose
from thpdiag.engine.load import Rule
from thpdiag.engine.match import match
from thpdiag.engine.scenes import scenes
from thpdiag.knowledge.paths import wants
from thpdiag.model import (
    Case,
    Citation,
    Event,
    Fact,
    InputRecord,
    Note,
    Problem,
    ProblemKind,
    Profile,
    RuleOutcome,
    Verdict3,
)
from thpdiag.readers import all_readers
from thpdiag.recognise import Reading, Recogniser
from thpdiag.result.document import document

NOISE = 0.05  # share of NUL bytes in the head of a member above which it is no text
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What changes the analysis. `process` keeps one process (pid or name); `case` names the case in the report.

    `told` are the options as the user wrote them, for the document.
    """

    window: Window | None = None
    case: str = ""
    process: str = ""
    limits: Limits = field(default_factory=Limits)
    strict: bool = False
    told: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Input:
    """Everything that was read: readings by member, what became of each member, and what went wrong."""

    readings: Mapping[str, Sequence[Reading]]
    inputs: Sequence[InputRecord]
    problems: Sequence[Problem]


def analyze(
    paths: Sequence[Path], rules: Sequence[Rule], options: Options | None = None,
    *, stdin: BinaryIO | None = None, progress: Progress | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The result document of what is at the paths (`-` is standard input)."""
    options = options or Options()
    given = read(paths, options, stdin=stdin, progress=progress)
    diagnoses = [diagnosed(case, rules, options) for case in cases(given, options)]
    if options.window:
        whole = cases(given, replace(options, window=None))
        diagnoses = [with_outside(d, case, rules, options) for d, case in zip(diagnoses, whole, strict=True)]
    return document(diagnoses, options.told)


def read(
    paths: Sequence[Path], options: Options, *, stdin: BinaryIO | None = None, progress: Progress | None = None
) -> Input:
    """Recognise and read every member that may hold evidence."""
    recogniser = Recogniser(all_readers(), strict="strict" if options.strict else None)
    readings: dict[str, list[Reading]] = {}
    inputs: list[InputRecord] = []
    problems: list[Problem] = []
    for member in members(paths, wants, options.limits, stdin):
        if isinstance(member, Problem):
            problems.append(member)
            continue
        if progress:
            progress(member.path)
        found = _read(member, recogniser)
        member.finish()
        readings.setdefault(member.path, []).extend(found)
        own = [r.record for r in found if isinstance(r.record, Problem)]
        problems += [*own, *member.problems]
        inputs += _inputs(member, found, len(own) + len(member.problems))
    return Input(
        {member: readings[member] for member in sorted(readings, key=_place)},
        sorted(inputs, key=lambda i: _place(i.member)),
        sorted(problems, key=lambda p: _place(p.cite.member)),
    )


def _place(member: str) -> list[str]:
    """By folder, as a directory is walked: what an archive says does not depend on the order of its members."""
    return member.split("/")


def _read(member: Member, recogniser: Recogniser) -> list[Reading]:
    head = member.head()
    if head[:8] in (b"PERFILE2", b"2ELIFREP"):
        text = "a perf.data recording, which this version does not read; send `perf script --no-inline -i FILE` as text"
        return [_problem(member, text, ProblemKind.UNREADABLE)]
    if head.count(0) > NOISE * len(head) and head[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        return [_problem(member, "not text", ProblemKind.UNRECOGNISED)]
    return list(recogniser.read(member.path, member.lines(), head.decode("utf-8", "replace")))


def _problem(member: Member, text: str, kind: ProblemKind) -> Reading:
    return Reading(Problem(Citation(member.path), text, kind), "", ("", ""))


def _inputs(member: Member, found: Sequence[Reading], problems: int) -> list[InputRecord]:
    """One line per reader that found something in the member, or one that says that none did."""
    by_reader: dict[str, list[Reading]] = {}
    for reading in found:
        if not isinstance(reading.record, Problem):
            by_reader.setdefault(reading.reader, []).append(reading)
    if not by_reader:
        return [InputRecord(member.path, "", 0, sha256=member.sha256, problems=problems)]
    rows = []
    for reader, items in by_reader.items():
        times = [t for r in items if (t := getattr(r.record, "time", None) or getattr(r.record, "start", None))]
        same = times if len({t.clock for t in times}) == 1 else []
        first, last = (min(same), max(same)) if same else (None, None)
        rows.append(InputRecord(member.path, reader, _count(items), first, last, member.sha256, problems))
    return rows


def _count(items: Sequence[Reading]) -> int:
    """Samples for recordings of stacks (rows where there are only shares); rows, snapshots, facts, events otherwise."""
    return sum(r.record.ledger.read or len(r.record.rows) if isinstance(r.record, Profile) else 1 for r in items)


def cases(given: Input, options: Options) -> list[Case]:
    """One case per host, cut into states, with derived facts."""
    found = hosts(given.readings)
    piles = found.piles or [Pile("", "")]
    if options.case and len(piles) > 1:
        options = replace(options, case="")  # a name for one host names none of several
    return [derived(_case(pile, given, found.notes, options)) for pile in piles]


def _damaged(given: Input) -> tuple[frozenset[str], frozenset[str]]:
    """Members of which something is missing (`*` stands for an archive), and those that may hold wrong data."""
    named = frozenset(given.readings)
    hidden = {p.cite.member if given.readings.get(p.cite.member) else "*" for p in given.problems if p.hides_data}
    spoiled = frozenset(p.cite.member for p in given.problems if p.taints)
    tainted = named if spoiled - named else spoiled
    return frozenset(hidden | tainted), tainted


def _case(pile: Pile, given: Input, notes: Sequence[Note], options: Options) -> Case:
    records = effective(inside(pile.records, options.window, options.process))
    facts = [r for r in records if isinstance(r, Fact) and not runtime_setting(r.name) and r.name != "work.seconds"]
    operator = tuple(r for r in records if isinstance(r, Event) and r.fields.get("setting"))
    members_here = {r.cite.member for r in pile.records}
    own = [p for p in given.problems if p.cite.member in members_here or not given.readings.get(p.cite.member)]
    name = options.case or pile.host or pile.root or "host"
    inputs = tuple(i for i in given.inputs if i.member in members_here or not i.reader)
    return Case(name, tuple(facts), states(records), operator, tuple(own), inputs, tuple(notes), *_damaged(given))


def diagnosed(case: Case, rules: Sequence[Rule], options: Options) -> Diagnosis:
    """Judge all rules in all states and make one diagnosis of it."""
    case, judged = _judged(case, rules, options)
    return diagnose(case, rules, judged)


def with_outside(inside_window: Diagnosis, whole: Case, rules: Sequence[Rule], options: Options) -> Diagnosis:
    """The diagnosis of the time asked for, with what only shows outside of it as `possible`."""
    case, judged = _judged(inside_window.case, rules, options)
    _, further = _judged(whole, rules, options)
    outside = [(scene, {i: _outside(o) for i, o in outcomes.items()}) for scene, outcomes in further]
    return diagnose(case, rules, [*judged, *outside])


def _outside(outcome: RuleOutcome) -> RuleOutcome:
    """An outcome of another time: a yes is a hypothesis, anything else says nothing about the window."""
    if outcome.value is not Verdict3.YES:
        return replace(outcome, value=Verdict3.UNKNOWN, against=(), missing=())
    return replace(outcome, confidence="possible", raise_confidence=("evidence from the time that was asked for",))


def _judged(case: Case, rules: Sequence[Rule], options: Options) -> tuple[Case, list[Judgement]]:
    bugs: list[Problem] | None = None if options.strict else []
    judged: list[Judgement] = [(scene, match(rules, scene, bugs=bugs)) for scene in scenes(case)]
    return replace(case, problems=(*case.problems, *(bugs or ()))), judged
