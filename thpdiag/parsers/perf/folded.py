"""Folded stacks: one line per stack, root first, a count at the end.

    java;start_thread;page_fault_[k];do_huge_pmd_anonymous_page_[k];compact_zone_[k] 417

Written by stackcollapse-perf.pl, inferno and perf's own flamegraph scripts, which put the task first (`java`, with
`--pid` and `--tid` `java-1234/1240`), by bpftrace and BCC's profile (which put a frame `-` between program and
kernel), and by hand. Marks after a name: `_[k]` kernel, `_[j]` runtime, `_[i]` inlined, `_[w]` waker. Counts are
samples, or the sum of their periods (collapsers of perf script add up the number before the event); the file does not
state which. Waits and calls (offcputime -f) are recognised by the innermost functions. If half of the counts are 10,000
or more they are periods: then the number of samples is known if the period is constant, else it is at least one per
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
_MARK = re.compile(r"_\[(?P<letter>[kijw])\]$")
_TASK = re.compile(r"(?P<comm>\S.*?)-(?P<pid>\d{1,10}|\?)(?:/(?P<tid>\d{1,10}))?$")
_OPENS = re.compile(r"[^\s;,|\"<>=]{1,64}(?: [^\s;]{1,40}){0,3};\S.*\s\d+(?:\.\d+)?$")
_CUT_STACK = re.compile(r"[^\s;,|\"<>=$]{1,64}(?: [^\s;]{1,40}){0,3}(?:;[^\s;=]+)+;?")
_LETTERS = re.compile(r"[A-Za-z_]{2}")
_BORDERS = {"-", "--"}
_MIN_PERIOD = 10_000  # median count of periods: half of the stacks are rare, so counts of samples are far smaller
_MAX_CHECKED_STACKS = 200  # whose first field decides whether it is the task


class FoldedStack(NamedTuple):
    """A stack, root first; the task may come before its functions."""

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
        names = [n.replace("\0", ";") for n in names if n]  # `Lorg/Inner;::step` is one name of the Java runtime
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
    """Return the profile of stacks without a unit, whose kernel functions are known only by marks and names."""
    first_fields = [stack.names[0] for stack in stacks[:_MAX_CHECKED_STACKS]]
    # Collapsers write the task into the first field, unless most first fields are functions that start a task.
    with_task = 2 * sum(map(_is_root, first_fields)) < len(first_fields)
    with_ids = with_task and all(map(_TASK.match, first_fields))
    has_marks = any(name.endswith("_[k]") for stack in stacks for name in stack.names)
    period = _period([s.weight for s in stacks])
    counts, frames, facts = StackCounts(), Frames(), {}
    if period is not None:
        facts["counts"] = f"periods of {period} each" if period else "periods; at least one sample a line"
    samples = without_stack = unknown = 0
    for names, count, cite in stacks:
        task = _task(names[0], with_ids=with_ids) if with_task else Task()
        chain = _chain(frames, names[1:] if with_task else names, task.comm, has_marks=has_marks)
        number = int(count) // (period or 1) if period != 0 else 1
        counts.add(chain, count, number, cite, task)
        samples += number
        without_stack += number * (not chain)
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
        ledger=Ledger(samples, samples, without_stack, unknown, odd=dict(odd)),
        total_samples=samples if period != 0 else None,
        facts=facts,
        measures=measures,
    )
    return with_measure(profile)


def _period(counts: list[float]) -> int | None:
    """Return the period of each sample where counts are sums of periods, 0 if it varies; None if they are samples."""
    if median(counts) < _MIN_PERIOD or not all(count.is_integer() for count in counts):
        return None
    divisor = gcd(*(int(count) for count in counts))
    return divisor if divisor >= _MIN_PERIOD else 0


def _is_root(name: str) -> bool:
    bare = normalise(name)
    return bool(_MARK.search(name)) or bare in ROOTS or is_unresolved(bare) or "::" in bare or bool(families_of(bare))


def _task(text: str, *, with_ids: bool) -> Task:
    if not with_ids or not (match := _TASK.match(text)):
        return Task(text)
    pid = int(match["pid"]) if match["pid"] != "?" else None
    return Task(match["comm"], pid, int(match["tid"]) if match["tid"] else None)


def _chain(frames: Frames, names: list[str], comm: str, *, has_marks: bool) -> list[int]:
    """Return the frames, leaf first; with `has_marks`, kernel functions have a mark in this text."""
    numbers: list[int] = []
    after_border = False
    for name in names:
        if name in _BORDERS:
            after_border = True
            continue
        mark = _MARK.search(name)
        kernel = mark["letter"] in "kw" if mark else True if after_border else None
        dso = name if name.startswith("[") and name.endswith("]") and name != NAMELESS else ""  # `[libc.so.6]`
        # `[gcc]` is the program gcc, cut by the kernel to 15 characters, and not a kernel module
        if dso and kernel is None and (has_marks or (comm and dso[1:-1][:15] == comm)):
            kernel = False
        numbers.append(frames.number(NAMELESS if dso else name, dso, kernel=kernel))
    return numbers[::-1]


def _is_stack(text: str) -> bool:
    """Whether it is a stack, and no sentence or table: at least two fields, each a name; the task may have blanks."""
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
    """Whether the line has `;` and a count, or is a task with a count (samples without stack), or a cut stack."""
    match = _LINE.match(text.strip())
    if match is None:
        return _CUT_STACK.fullmatch(text.strip()) is not None
    return ";" in match["stack"] or " " not in match["stack"]


def _confirm(ahead: list[str]) -> bool:
    """Whether there are two stacks in a row, one with a mark of the kernel, or one with a known function of three."""
    if not _is_stack(ahead[0]):
        return False
    if "_[k]" in ahead[0] or (len(ahead) > 1 and _is_stack(ahead[1])):
        return True
    names = [normalise(n) for n in ahead[0].rsplit(None, 1)[0].split(";")]
    return len(names) > 2 and any(n in ROOTS or families_of(n) for n in names)


PARSER = Parser(
    "folded", "folded stacks (stackcollapse-perf, inferno, BCC profile)", read, opens=_OPENS, continues=continues,
    confirm=_confirm,
)  # fmt: skip
