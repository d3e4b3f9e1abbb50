"""Helpers of the parsers of perf texts: frames by number, kernel objects, function names, the comment header.

    # hostname : db12
    # os release : 3.10.0-229.14.1.el7.x86_64

perf report and perf script print the header before their data with `--header`, and always before 3.15; perf.data has
the same in its features.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from thpdiag.knowledge.symbols import normalise
from thpdiag.model import Citation, Fact, Frame
from thpdiag.model.profile import NAMELESS

_KERNEL_DSO = re.compile(
    r"\[(?:guest\.)?kernel(?:\.(?:kallsyms|vmlinux)(?:\.\d+)?)?\](?:\.[\w.]+)?$"  # [kernel.kallsyms].init.text
    r"|(?:.*/)?vmlinu[xz](?:-[\w.+~-]+)?$"
    r"|.*\.ko(?:\.(?:gz|xz|zst))?$"
    r"|bpf_(?:prog|trampoline|dispatcher)_\w+$|bpf$"
    r"|\[(?!vdso|vsyscall|unknown|heap|stack|anon|uprobes|JIT|\.)\w[\w-]*\]$"  # a module: [nf_conntrack]
)
_KERNEL_BY_LETTER = {"k": True, ".": False, "g": True, "u": False, "h": True, "H": True}
_BRACKETS = re.compile(r"<[^<>]*>|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
_CPP_NAME = re.compile(
    r"::|\boperator\b|^(?:void|bool|int|decltype|vtable|typeinfo|non-virtual thunk|auto|std|unsigned|char|long|guard)\b"
)
_JIT_NAME = re.compile(r"(?:[A-Z][A-Za-z]+:[~*^]?\S)")  # LazyCompile:~body_0 file.js:1
_NAME_START = re.compile(r"[\w.$@~*/\[(<:-]")
_LOCATION = re.compile(  # printed after a name with `-g address`, `-g srcline`, `--branch-history` (several)
    r"(?:\s\+\d{1,9}|\s[^\s:()]{1,200}\.\w{1,4}:\d{1,9}|\s\((?:cycles|predicted|abort|iter|avg_cycles)\b[^()]{0,80}\))$"
)
MAX_NAME_CHARS = 2000


def kernel_dso(dso: str) -> bool | None:
    """Whether code of this object runs in the kernel; None if the object has no name."""
    if not dso or dso == NAMELESS:
        return None
    return bool(_KERNEL_DSO.match(dso))


def kernel_letter(letter: str) -> bool | None:
    """Whether the letter before a symbol is the kernel's: `[k]`; `[.]` program, `[g]` `[u]` guest, `[H]` hypervisor."""
    return _KERNEL_BY_LETTER.get(letter)


def plain_name(text: str) -> str:
    """Return a line of a call graph without the place in the function: `compute churn.c:28`, `compact_zone +213`."""
    if len(text) > MAX_NAME_CHARS or _JIT_NAME.match(text):
        return text
    while (shorter := _LOCATION.sub("", text)) != text:
        text = shorter
    return text


def symbol_like(text: str) -> bool:
    """Whether a line of a call graph can be a function name, and not a sentence.

    Names have no blanks outside brackets, except in C++ (`operator new`, return types of templates) and scripts.
    """
    if not text or len(text) > MAX_NAME_CHARS or not _NAME_START.match(text):
        return False
    if " " not in text and "\t" not in text:
        return not text.endswith((",", ";", "?", "!")) and text.strip("-_=.:|+") != ""
    stripped, previous = text, ""
    while stripped != previous:
        stripped, previous = _BRACKETS.sub("", stripped), stripped
    if " " not in stripped.strip() and "\t" not in stripped.strip():
        return bool(stripped.strip()) or text.startswith("[")
    return bool(_CPP_NAME.search(stripped) or _JIT_NAME.match(text))


class Frames:
    """The distinct frames of a profile, numbered in the order of appearance."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str, bool | None], int] = {}
        self._by_frame: dict[Frame, int] = {}
        self._frames: list[Frame] = []

    def number(self, name: str, dso: str = "", *, kernel: bool | None = None) -> int:
        """Return the number of a frame; the name is normalised here."""
        key = (name, dso, kernel)
        if (number := self._numbers.get(key)) is None:
            frame = Frame(normalise(name) or NAMELESS, dso, kernel_dso(dso) if kernel is None else kernel)
            if (number := self._by_frame.setdefault(frame, len(self._frames))) == len(self._frames):
                self._frames.append(frame)
            self._numbers[key] = number
        return number

    def name(self, number: int) -> str:
        return self._frames[number].name

    def all(self) -> tuple[Frame, ...]:
        return tuple(self._frames)


_HEADER_LINE = re.compile(r"#\s(?P<key>[a-z][\w ,/-]{1,40}?)\s*:(?:\s+(?P<value>.*))?$")
_HEADER_NAMES = {
    "captured on": "captured_on",
    "hostname": "hostname",
    "os release": "release",
    "perf version": "perf_version",
    "arch": "arch",
    "nrcpus online": "cpus",
    "cpudesc": "cpu",
    "total memory": "memory",
    "cmdline": "cmdline",
    "time of first sample": "first_sample",
    "time of last sample": "last_sample",
    "clockid": "clockid",
    "reference time": "reference_time",  # both clocks at one moment, with `perf record -k`
}
HEADER_OPENS = r"#\s={8}"
HEADER_COMMENT = re.compile(
    r"\s*#(?:\s*$|\s(?:={4,}|\.{3,}|[a-z][\w ,/-]{1,40}?\s*:(?:\s|$)"
    r"|To display|Total Lost|Samples|Events|Event count|Overhead|Children|Self\b"
    r"|\(Tip|\(Cannot|\(For|[A-Z0-9_]+ info available|Baseline|[a-z ]+ info available|Processed|group|branch)|\s{2,})"
)
_MAX_VALUE_CHARS = 400  # characters of a value that are kept


def header_fact(text: str) -> tuple[str, str] | None:
    """Return name and value of a header line that is used, else None."""
    match = _HEADER_LINE.match(text.strip())
    if not match or not (name := _HEADER_NAMES.get(match["key"].strip())):
        return None
    value = (match["value"] or "").strip()[:_MAX_VALUE_CHARS]
    return (name, value) if value else None


def host_facts(header: Mapping[str, str], cite: Citation) -> Iterator[Fact]:
    """Yield the facts of the host in a header, given by the names that `header_fact` returns."""
    for name, key in (("host.name", "hostname"), ("kernel.release", "release"), ("kernel.arch", "arch")):
        if value := header.get(key):
            yield Fact(name, value, cite)
    if (cpus := header.get("cpus", "")).isdecimal() and int(cpus[:9]) > 0:
        yield Fact("cpu.count", int(cpus[:9]), cite)
