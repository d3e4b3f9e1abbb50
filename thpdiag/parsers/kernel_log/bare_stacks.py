"""Kernel stacks that a program or a person printed without the kernel's own dress: symbols of addresses, one a line.

    ffffffff87a62890 T copy_page                copy_page+0x7                copy_page
    ffffffff872aafa0 T migrate_pages            migrate_page_copy+0x18a      migrate_pages
    ffffffff8724e6c0 t compact_zone             migrate_pages+0x52c          compact_zone

Leaf first, under any headline. The lines of a symbol table (nm, /proc/kallsyms) that somebody looked up for each
address, with or without empty lines between; offsets without the size of the function, as the runtimes of programs
print them; or names alone. A table of symbols is sorted, a stack is not; a list of functions to trace is in no order of
calls. Names alone count from five on, all others from four. Each stack is one task at one moment, of weight one, and of
nobody knows which task.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, takewhile

from thpdiag.knowledge.symbols import families_of, normalise
from thpdiag.model import Event, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import any_of
from thpdiag.parsers.stacks._stacks import is_entry, is_kernel_function

_NAME = r"[A-Za-z_][\w.]{2,100}"
_MODULE = r"(?:\s{1,8}\[[\w -]{1,60}\])?\s{0,8}$"
_TABLE = re.compile(rf"\s{{0,8}}(?P<address>[0-9a-f]{{8,16}}) (?:[a-zA-Z] )?(?P<name>{_NAME}){_MODULE}")
_OFFSET = re.compile(rf"\s{{0,8}}(?P<name>{_NAME})\+0x[0-9a-f]{{1,8}}{_MODULE}")
_BARE = re.compile(r"\s{0,4}(?P<name>[a-z_][a-z0-9]{0,40}_[\w.]{2,80}|page_fault|schedule)\s{0,8}$")
_FORMS = (_TABLE, _OFFSET, _BARE)
_UNKNOWN = re.compile(r"\s{0,8}0x[0-9a-f]{8,16}(?: \(\d{1,20} bytes after last symbol\))?\s{0,8}$")
_COUNT = re.compile(
    r"\s{0,12}(?:\d{1,19}\s*$|-\s{1,20}\S|b?'?[\w./:-]{1,16}'? [(\[]\d{1,10}[)\]])"
)  # below a stack of BCC
_OPENS = re.compile(
    "|".join(form.pattern.replace("(?P<address>", "(?:").replace("(?P<name>", "(?:") for form in _FORMS)
)
_OUTER = ("page_fault", "syscall", "khugepaged", "kcompactd", "kswapd", "fork")
_CALLED_BY = ("compaction", "direct_compact", "page_alloc", "thp_fault", "page_fault")  # each by those behind it
_CALLED = frozenset(_CALLED_BY)
MIN_FRAMES, MIN_NAMES = 4, 5  # frames, and of names alone
LAST = 4  # functions, of which one enters the kernel
MIN_KNOWN = 0.5  # share of the frames that are functions of the kernel as far as we know them
MAX_LINES = 20_000  # of a block
LOOKAHEAD = 60  # lines: of a stack with an empty line below each frame


def _frames(lines: list[str]) -> tuple[re.Pattern[str], list[re.Match[str]], list[str]]:
    """The form of the first line, the lines of it, and those from the first of another kind on."""
    form = next(form for form in _FORMS if form.match(lines[0]))
    frames: list[re.Match[str]] = []
    for at, line in enumerate(lines):
        if match := form.match(line):
            frames.append(match)
        elif not (_UNKNOWN.match(line) or (form is _TABLE and not line.strip())):
            return form, frames, lines[at:]
    return form, frames, []


def _confirm(lines: list[str]) -> bool:
    form, frames, rest = _frames(lines)
    names = [normalise(frame["name"]) for frame in frames]
    known = sum(map(is_kernel_function, names))
    if len(names) < (MIN_NAMES if form is _BARE else MIN_FRAMES) or known < max(2, MIN_KNOWN * len(names)):
        return False
    if form is _OFFSET:
        return True
    # a task or a number below a stack that goes on in functions of a program: one of BCC's tables
    is_counted = any(map(_COUNT.match, takewhile(str.strip, rest)))
    return not _is_sorted(form, frames) and (form is _TABLE or (_is_entered(names) and not is_counted))


def _is_sorted(form: re.Pattern[str], frames: list[re.Match[str]]) -> bool:
    """Whether it is a table of symbols: by address or by name."""
    keys = [[frame["name"] for frame in frames]]
    if form is _TABLE:
        keys.append([frame["address"].rjust(16, "0") for frame in frames])
    return any(key in (sorted(key), sorted(key, reverse=True)) for key in keys)


def _is_entered(names: list[str]) -> bool:
    """Whether it is in the order of calls: the last functions are of those by which the kernel is entered."""
    outer = [is_entry(name) or any(family in _OUTER for family in families_of(name)) for name in names]
    depths = [max(map(_CALLED_BY.index, known)) for n in names if (known := _CALLED.intersection(families_of(n)))]
    return any(outer[-LAST:]) and not outer[0] and depths == sorted(depths)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """A task_stack of each. A block may hold several, with lines of text between."""
    block = list(islice(lines, MAX_LINES))
    end = 0
    for at, (number, text) in enumerate(block):
        if at < end or not _OPENS.match(text) or not _confirm(below := [one for _, one in block[at : at + LOOKAHEAD]]):
            continue
        _, frames, rest = _frames(below)
        end = at + len(below) - len(rest)
        names = tuple(normalise(frame["name"]) for frame in frames)
        yield Event("task_stack", source.cite(number, text), source.time, {"how": "paste"}, names)


PARSER = Parser(
    "bare_stack", "kernel stack as a list of symbols", read, opens=_OPENS,
    continues=any_of(*_FORMS, _UNKNOWN, blank=True), confirm=_confirm, priority=-5, lookahead=LOOKAHEAD,
)  # fmt: skip
