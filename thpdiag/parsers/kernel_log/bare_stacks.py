"""Kernel stacks that are not in the kernel's own format: the symbol of an address per line.

    ffffffff87a62890 T copy_page                copy_page+0x7                copy_page
    ffffffff872aafa0 T migrate_pages            migrate_page_copy+0x18a      migrate_pages
    ffffffff8724e6c0 t compact_zone             migrate_pages+0x52c          compact_zone

Leaf first, under any headline. Three forms: the line of a symbol table (nm, /proc/kallsyms) for each address, with or
without empty lines between; offsets without the size of the function, as printed by runtimes of programs; or names
alone. A table of symbols is sorted, a stack is not; a list of functions to trace is not in the order of calls. Names
alone count from five lines on, the other forms from four. Each stack is one unknown task at one moment, of weight one.
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
_SYMBOL_LINE = re.compile(rf"\s{{0,8}}(?P<address>[0-9a-f]{{8,16}}) (?:[a-zA-Z] )?(?P<name>{_NAME}){_MODULE}")
_NAME_WITH_OFFSET = re.compile(rf"\s{{0,8}}(?P<name>{_NAME})\+0x[0-9a-f]{{1,8}}{_MODULE}")
_NAME_ALONE = re.compile(r"\s{0,4}(?P<name>[a-z_][a-z0-9]{0,40}_[\w.]{2,80}|page_fault|schedule)\s{0,8}$")
_FORMS = (_SYMBOL_LINE, _NAME_WITH_OFFSET, _NAME_ALONE)
_UNKNOWN = re.compile(r"\s{0,8}0x[0-9a-f]{8,16}(?: \(\d{1,20} bytes after last symbol\))?\s{0,8}$")
_TASK_OR_COUNT = re.compile(
    r"\s{0,12}(?:\d{1,19}\s*$|-\s{1,20}\S|b?'?[\w./:-]{1,16}'? [(\[]\d{1,10}[)\]])"
)  # below a stack of BCC
_OPENS = re.compile(
    "|".join(form.pattern.replace("(?P<address>", "(?:").replace("(?P<name>", "(?:") for form in _FORMS)
)
_ENTRY_FAMILIES = ("page_fault", "syscall", "khugepaged", "kcompactd", "kswapd", "fork")
# families, each of which is called by those after it
_CALL_ORDER = ("compaction", "direct_compact", "page_alloc", "thp_fault", "page_fault")
_ORDERED_FAMILIES = frozenset(_CALL_ORDER)
MIN_FRAMES, MIN_NAMES = 4, 5  # frames of a stack; of names alone
MAX_ENTRY_FRAMES = 4  # outermost functions, one of which enters the kernel
MIN_KNOWN_SHARE = 0.5  # of the frames that are known functions of the kernel
MAX_LINES = 20_000  # of a block
LOOKAHEAD = 60  # lines of a stack with an empty line after each frame


def _split_frames(lines: list[str]) -> tuple[re.Pattern[str], list[re.Match[str]], list[str]]:
    """Return the form of the first line, its frames, and the lines from the first of another kind on."""
    form = next(form for form in _FORMS if form.match(lines[0]))
    frames: list[re.Match[str]] = []
    for index, line in enumerate(lines):
        if match := form.match(line):
            frames.append(match)
        elif not (_UNKNOWN.match(line) or (form is _SYMBOL_LINE and not line.strip())):
            return form, frames, lines[index:]
    return form, frames, []


def _confirm(lines: list[str]) -> bool:
    form, frames, rest = _split_frames(lines)
    names = [normalise(frame["name"]) for frame in frames]
    known = sum(map(is_kernel_function, names))
    if len(names) < (MIN_NAMES if form is _NAME_ALONE else MIN_FRAMES) or known < max(2, MIN_KNOWN_SHARE * len(names)):
        return False
    if form is _NAME_WITH_OFFSET:
        return True
    # a task or a number below the stack, which continues in functions of a program: a table of BCC
    is_counted = any(map(_TASK_OR_COUNT.match, takewhile(str.strip, rest)))
    return not _is_sorted(form, frames) and (form is _SYMBOL_LINE or (_is_entered(names) and not is_counted))


def _is_sorted(form: re.Pattern[str], frames: list[re.Match[str]]) -> bool:
    """Whether it is a table of symbols, sorted by address or by name."""
    keys = [[frame["name"] for frame in frames]]
    if form is _SYMBOL_LINE:
        keys.append([frame["address"].rjust(16, "0") for frame in frames])
    return any(key in (sorted(key), sorted(key, reverse=True)) for key in keys)


def _is_entered(names: list[str]) -> bool:
    """Whether it is in the order of calls: one of the last functions enters the kernel."""
    outer = [is_entry(name) or any(family in _ENTRY_FAMILIES for family in families_of(name)) for name in names]
    known = (_ORDERED_FAMILIES.intersection(families_of(name)) for name in names)
    depths = [max(map(_CALL_ORDER.index, families)) for families in known if families]
    return any(outer[-MAX_ENTRY_FRAMES:]) and not outer[0] and depths == sorted(depths)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """A task_stack for each stack. A block may have several, with lines of text between."""
    block = list(islice(lines, MAX_LINES))
    end = 0
    for index, (number, text) in enumerate(block):
        if index < end or not _OPENS.match(text):
            continue
        below = [line for _, line in block[index : index + LOOKAHEAD]]
        if not _confirm(below):
            continue
        _, frames, rest = _split_frames(below)
        end = index + len(below) - len(rest)
        names = tuple(normalise(frame["name"]) for frame in frames)
        yield Event("task_stack", source.cite(number, text), source.time, {"how": "paste"}, names)


PARSER = Parser(
    "bare_stack", "kernel stack as a list of symbols", read, opens=_OPENS,
    continues=any_of(*_FORMS, _UNKNOWN, blank=True), confirm=_confirm, priority=-5, lookahead=LOOKAHEAD,
)  # fmt: skip
