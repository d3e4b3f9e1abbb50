"""Parser of kernel symbol lists as text: /proc/kallsyms and System.map.

One symbol per line, `ADDRESS TYPE NAME`, in kallsyms followed by a tab and `[MODULE]` for those of modules (kernel
kernel/kallsyms.c, s_show; System.map is nm's output, kernel scripts/mksysmap). The address is as wide as a pointer in
hex. If kptr_restrict hides addresses, they are all 0; kernels before 4.15 print `(null)` then. Types are those of nm.
The selection of names follows perf (tools/perf/util/symbol.c): functions are `t` and `w` in either case; names that
begin with `$` mark sections of ARM code; of several names at one address the last one has a length and is used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Citation, Problem, ProblemKind, SymbolList, SymbolTable
from thpdiag.model.profile import width_of

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Marks = NDArray[np.bool_]

ANCHORS = ("_text", "_stext")
HIDDEN = (
    "all addresses are 0: kptr_restrict hid them from the user who read the file; read it as root:"
    " `sudo cat /proc/kallsyms > kallsyms-$(uname -r)`"
)
_FUNCTION, _BORDER = 1, 2
_MAX_MODULE_CHARS = 64  # MODULE_NAME_LEN of the kernel
_NIBBLES = np.full(256, 255, np.uint8)
_NIBBLES[list(b"0123456789abcdef")] = np.arange(16, dtype=np.uint8)
_NIBBLES[list(b"ABCDEF")] = np.arange(10, 16, dtype=np.uint8)
_CLASSES = np.zeros(256, np.uint8)
_CLASSES[list(b"tTwW")] = _FUNCTION
_CLASSES[list(b"dDbBrR")] = _BORDER  # data: the function before it ends there


def read(listed: SymbolList) -> tuple[SymbolTable, list[Problem]]:
    """Return the symbol table and problems of a list. The list must begin with a symbol (`width_of`)."""
    text = listed.text
    buffer = np.frombuffer(text, np.uint8)
    starts, ends = _lines(text, buffer)
    names = starts + width_of(text) + 3
    fits, addresses = _columns(buffer, starts, ends, width_of(text))
    problems = _invalid_lines(listed.cite, starts, ends, fits)
    classes = np.where(fits, _CLASSES[buffer[np.where(fits, names - 2, 0)]], 0)
    functions = classes == _FUNCTION
    zeroed = bool(functions.any()) and not addresses[functions].any()
    if zeroed:
        problems.append(Problem(listed.cite, HIDDEN, ProblemKind.UNREADABLE, hides=False))
    classes[(addresses == 0) | (buffer[np.where(fits, names, 0)] == ord("$"))] = 0
    module, modules, name_ends = _modules(text, buffer, starts, ends)
    anchors = _anchors(text, starts, addresses, fits)
    order = _order(addresses, classes, [line for line, _ in anchors])
    table = SymbolTable(
        listed.cite,
        listed.kind,
        addresses[order],
        names[order],
        np.where(classes[order] == _FUNCTION, name_ends[order], names[order]),
        text,
        module[order],
        modules,
        tuple((name, int(addresses[line])) for line, name in anchors),
        listed.release,
        listed.build_id,
        zeroed,
    )
    return table, problems


def _lines(text: bytes, buffer: Bytes) -> tuple[Ints, Ints]:
    """Return start and end of each line, without line ends."""
    ends = np.flatnonzero(buffer == ord("\n"))
    if not text.endswith(b"\n"):
        ends = np.append(ends, len(text))
    starts = np.zeros(len(ends), np.int64)
    starts[1:] = ends[:-1] + 1
    if b"\r" in text:
        ends = ends - ((ends > starts) & (buffer[np.maximum(ends - 1, 0)] == ord("\r")))
    return starts, ends


def _columns(buffer: Bytes, starts: Ints, ends: Ints, width: int) -> tuple[Marks, NDArray[np.uint64]]:
    """Return which lines are `ADDRESS TYPE NAME`, and their addresses."""
    fits = ends - starts >= width + 4
    where = np.where(fits, starts, 0)
    fits &= (buffer[where + width] == ord(" ")) & (buffer[where + width + 2] == ord(" "))
    digits = np.lib.stride_tricks.sliding_window_view(buffer, width)[where]
    nibbles = _NIBBLES[digits]
    hidden = (nibbles > 15).any(axis=1)
    if hidden.any():
        null = np.frombuffer(b"(null)".rjust(width), np.uint8)
        nulls = (digits == null).all(axis=1)
        nibbles[nulls] = 0
        fits &= ~hidden | nulls
    octets = np.ascontiguousarray(nibbles[:, ::2] << 4 | nibbles[:, 1::2])
    return fits, octets.view(f">u{width // 2}").ravel().astype(np.uint64)


def _invalid_lines(cite: Citation, starts: Ints, ends: Ints, fits: Marks) -> list[Problem]:
    invalid = np.flatnonzero(~fits & (ends > starts))
    if not len(invalid):
        return []
    first = Citation(cite.member, int(invalid[0]) + 1)
    return [Problem(first, "lines are not `address type name`; they were left out", count=len(invalid))]


def _modules(text: bytes, buffer: Bytes, starts: Ints, ends: Ints) -> tuple[NDArray[np.int32], tuple[str, ...], Ints]:
    """Return the module number of each line, the names of modules, and the end of each symbol name.

    The lines of a module are adjacent; each run of lines is looked up once.
    """
    module = np.zeros(len(starts), np.int32)
    tabs = np.flatnonzero(buffer == ord("\t"))
    if not len(tabs):
        return module, ("",), ends
    lines = np.searchsorted(starts, tabs, "right") - 1
    lines, first = np.unique(lines, return_index=True)
    tabs = tabs[first]
    lengths = np.clip(ends[lines] - tabs, 0, _MAX_MODULE_CHARS)
    padded = np.concatenate((buffer, np.zeros(_MAX_MODULE_CHARS, np.uint8)))
    words = np.lib.stride_tricks.sliding_window_view(padded, _MAX_MODULE_CHARS)[tabs]
    words[np.arange(_MAX_MODULE_CHARS) >= lengths[:, None]] = 0
    changed = np.ones(len(lines), np.bool_)
    changed[1:] = (words[1:].view(np.uint64) != words[:-1].view(np.uint64)).any(axis=1)
    numbers: dict[str, int] = {"": 0}
    runs = [
        numbers.setdefault(word.tobytes().rstrip(b"\0").strip(b"\t []").decode("utf-8", "replace"), len(numbers))
        for word in words[changed]
    ]
    module[lines] = np.array(runs, np.int32)[np.cumsum(changed) - 1]
    ends = ends.copy()
    ends[lines] = tabs
    return module, tuple(numbers), ends


def _anchors(text: bytes, starts: Ints, addresses: NDArray[np.uint64], fits: Marks) -> list[tuple[int, str]]:
    """Return line and name of the symbols that mark the beginning of the kernel."""
    anchors = []
    for name in ANCHORS:
        word, at = f" {name}".encode(), -1
        while (at := text.find(word, at + 1)) >= 0:
            line = int(np.searchsorted(starts, at, "right")) - 1
            if text[at + len(word) : at + len(word) + 1] in (b"\n", b"\r", b"") and fits[line] and addresses[line]:
                anchors.append((line, name))
                break
    return anchors


def _order(addresses: NDArray[np.uint64], classes: Bytes, anchors: list[int]) -> Ints:
    """Return the lines to keep, sorted by address.

    At equal addresses, anchors and data come before functions, so that a function is used. Data are kept only directly
    after a function.
    """
    functions = classes == _FUNCTION
    functions[anchors] = False
    others = classes != 0
    others &= ~functions
    lines = np.concatenate((np.flatnonzero(others), np.flatnonzero(functions)))
    lines = lines[np.argsort(addresses[lines], kind="stable")]
    border = classes[lines] == _BORDER
    border[1:] &= border[:-1]
    border[:1] = False
    kept: Ints = lines[~border]
    return kept
