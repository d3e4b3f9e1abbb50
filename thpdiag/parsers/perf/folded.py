"""Folded stacks: one line per stack, root first, a count at the end.

    java;start_thread;page_fault_[k];do_huge_pmd_anonymous_page_[k];compact_zone_[k] 417

Written by stackcollapse-perf.pl, inferno and perf's own flamegraph scripts, which put the task first (`java`, with
`--pid` and `--tid` `java-1234/1240`), by bpftrace and BCC's profile (which put a frame `-` between program and
kernel), and by hand. Marks behind a name: `_[k]` kernel, `_[j]` runtime, `_[i]` inlined, `_[w]` waker. Counts are
samples, or the sum of their periods (collapsers of perf script add up what stands before the event); the file does not
say which; of waits and of calls (offcputime -f) the innermost functions show it. Where most are in the tens of
thousands they are periods: then the samples are known if the period is constant, else there is at least one for each
line. Source: FlameGraph's and inferno's collapsers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from statistics import median
from typing import NamedTuple

from thpdiag.knowledge.symbols import families_of, is_unresolved, normalise
from thpdiag.model import Citation, Ledger, Measure, Profile, Record, StackCounts, Stacks, Task
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.model.profile import NAMELESS
from thpdiag.parsers._lines import ParseErrors
from thpdiag.parsers.perf._texts import Frames, symbol_like
from thpdiag.parsers.perf.call_graph import ROOTS
from thpdiag.parsers.stacks._stacks import with_measure

_LINE = re.compile(r"(?P<stack>\S.*?)\s(?P<count>\d{1,18}(?:\.\d{1,9})?)$")
_PLACE = re.compile(r"_\[(?P<letter>[kijw])\]$")
_TASK = re.compile(r"(?P<comm>\S.*?)-(?P<pid>\d{1,10}|\?)(?:/(?P<tid>\d{1,10}))?$")
_OPENS = re.compile(r"[^\s;,|\"<>=]{1,64}(?: [^\s;]{1,40}){0,3};\S.*\s\d+(?:\.\d+)?$")
_CUT = re.compile(r"[^\s;,|\"<>=$]{1,64}(?: [^\s;]{1,40}){0,3}(?:;[^\s;=]+)+;?")
_LETTERS = re.compile(r"[A-Za-z_]{2}")
_BORDERS = {"-", "--"}
_PERIODS = 10_000  # half of the stacks of a recording are seldom, so that numbers of samples are far smaller
_LOOKED_AT = 200  # stacks by which the first field is judged


class FoldedStack(NamedTuple):
    """A stack, root first; before its functions may stand who ran."""

    names: list[str]
    weight: float
    cite: Citation


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One profile. Lines that are no stack are counted in one problem."""
    stacks: list[FoldedStack] = []
    errors = ParseErrors(source, PARSER.name)
    for number, text in lines:
        match = _LINE.match(text.strip())
        names = [n.strip() for n in match["stack"].replace(";::", "\0::").split(";")] if match else []
        names = [n.replace("\0", ";") for n in names if n]  # Lorg/Inner;::step, a name of the Java runtime
        if match and names:
            stacks.append(FoldedStack(names, float(match["count"]), source.cite(number, text)))
        elif text.strip() and text[0] != "#":
            errors.note(number, text, "a line among folded stacks that is not `a;b;c count`")
    problems = errors.problems()
    yield from problems
    if stacks:
        odd = sum(problem.count for problem in problems)
        yield profile_of_stacks(PARSER.name, stacks, {"no folded stack": odd} if odd else {})


def profile_of_stacks(
    reader: str, stacks: Sequence[FoldedStack], odd: Mapping[str, int], measures: Measure | None = None
) -> Profile:
    """The profile of stacks that say neither what is counted nor where the kernel begins, but by marks and names."""
    first = [stack.names[0] for stack in stacks[:_LOOKED_AT]]
    # Collapsers write the task into the first field, unless most of these are functions that start a task.
    with_task = 2 * sum(map(_is_root, first)) < len(first)
    with_ids = with_task and all(map(_TASK.match, first))
    marked = any(name.endswith("_[k]") for stack in stacks for name in stack.names)
    period = _period([s.weight for s in stacks])
    counts, frames, facts = StackCounts(), Frames(), {}
    if period is not None:
        facts["counts"] = f"periods of {period} each" if period else "periods; at least one sample a line"
    samples = lonely = unknown = 0
    for names, count, cite in stacks:
        who = _task(names[0], with_ids=with_ids) if with_task else Task()
        chain = _chain(frames, names[1:] if with_task else names, who.comm, marked=marked)
        number = int(count) // (period or 1) if period != 0 else 1
        counts.add(chain, count, number, cite, who)
        samples += number
        lonely += number * (not chain)
        unknown += number * bool(chain and is_unresolved(frames.name(chain[0])))
    profile = Profile(
        reader=reader,
        event="",
        frames=frames.all(),
        chains=counts.chains(),
        tasks=counts.tasks(),
        rows=counts.rows(),
        stacks=Stacks.FULL,
        cite=stacks[0].cite,
        ledger=Ledger(samples, samples, lonely, unknown, odd=dict(odd)),
        total_samples=samples if period != 0 else None,
        facts=facts,
        measures=measures,
    )
    return with_measure(profile)


def _period(counts: list[float]) -> int | None:
    """The period of each sample where counts are sums of periods, 0 if it varies; None where they are samples."""
    if median(counts) < _PERIODS or not all(count.is_integer() for count in counts):
        return None
    common = gcd(*(int(count) for count in counts))
    return common if common >= _PERIODS else 0


def _is_root(name: str) -> bool:
    bare = normalise(name)
    return bool(_PLACE.search(name)) or bare in ROOTS or is_unresolved(bare) or "::" in bare or bool(families_of(bare))


def _task(text: str, *, with_ids: bool) -> Task:
    """Who ran."""
    if not with_ids or not (match := _TASK.match(text)):
        return Task(text)
    pid = int(match["pid"]) if match["pid"] != "?" else None
    return Task(match["comm"], pid, int(match["tid"]) if match["tid"] else None)


def _chain(frames: Frames, names: list[str], comm: str, *, marked: bool) -> list[int]:
    """The frames, leaf first; `marked`: functions of the kernel have a mark in this text."""
    numbers: list[int] = []
    border = False
    for name in names:
        if name in _BORDERS:
            border = True
            continue
        place = _PLACE.search(name)
        kernel = place["letter"] in "kw" if place else True if border else None
        dso = name if name.startswith("[") and name.endswith("]") and name != NAMELESS else ""  # `[libc.so.6]`
        # `[gcc]` is the program of that name, which the kernel cuts to 15 characters, and not a kernel module
        if dso and kernel is None and (marked or (comm and dso[1:-1][:15] == comm)):
            kernel = False
        numbers.append(frames.number(NAMELESS if dso else name, dso, kernel=kernel))
    return numbers[::-1]


def _believable(text: str) -> bool:
    """Whether it is a stack and no sentence or table: at least two fields, each a name; the task may have blanks."""
    match = _LINE.match(text.strip())
    if not match:
        return False
    names = [n for n in match["stack"].split(";") if n]
    if len(names) < 2 or len(names[0]) > 80:
        return False
    return all(
        n in _BORDERS or (symbol_like(n) and _LETTERS.search(n) and "=" not in n.split("(")[0]) for n in names[1:]
    )


def continues(text: str) -> bool:
    """Anything with a `;` and a count; a task alone with a count (samples without stack); a stack cut off before it."""
    match = _LINE.match(text.strip())
    if match is None:
        return _CUT.fullmatch(text.strip()) is not None
    return ";" in match["stack"] or " " not in match["stack"]


def _confirm(ahead: list[str]) -> bool:
    """Two stacks in a row, or one with a mark of the kernel, or one of three functions of which we know one."""
    if not _believable(ahead[0]):
        return False
    if "_[k]" in ahead[0] or (len(ahead) > 1 and _believable(ahead[1])):
        return True
    names = [normalise(n) for n in ahead[0].rsplit(None, 1)[0].split(";")]
    return len(names) > 2 and any(n in ROOTS or families_of(n) for n in names)


PARSER = Parser(
    "folded", "folded stacks (stackcollapse-perf, inferno, BCC profile)", read, opens=_OPENS, continues=continues,
    confirm=_confirm,
)  # fmt: skip
