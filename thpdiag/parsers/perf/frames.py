"""What the readers of perf texts share: frames and stacks by number, what is kernel, what can be a function name.

Not a reader.
"""

from __future__ import annotations

import re

from thpdiag.knowledge.symbols import normalise
from thpdiag.model import Frame
from thpdiag.model.profile import NAMELESS

_KERNEL_DSO = re.compile(
    r"\[(?:guest\.)?kernel(?:\.(?:kallsyms|vmlinux)(?:\.\d+)?)?\](?:\.[\w.]+)?$"  # [kernel.kallsyms].init.text
    r"|(?:.*/)?vmlinu[xz](?:-[\w.+~-]+)?$"
    r"|.*\.ko(?:\.(?:gz|xz|zst))?$"
    r"|bpf_(?:prog|trampoline|dispatcher)_\w+$|bpf$"
    r"|\[(?!vdso|vsyscall|unknown|heap|stack|anon|uprobes|JIT|\.)\w[\w-]*\]$"  # a module: [nf_conntrack]
)
_LETTERS = {"k": True, ".": False, "g": True, "u": False, "h": True, "H": True}
_BRACKETED = re.compile(r"<[^<>]*>|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
_CPP = re.compile(
    r"::|\boperator\b|^(?:void|bool|int|decltype|vtable|typeinfo|non-virtual thunk|auto|std|unsigned|char|long|guard)\b"
)
_JIT = re.compile(r"(?:[A-Z][A-Za-z]+:[~*^]?\S)")  # LazyCompile:~body_0 file.js:1
_PLAIN = re.compile(r"[\w.$@~*/\[(<:-]")
_PLACE = re.compile(  # what `-g address`, `-g srcline` and `--branch-history` print behind a name
    r"(?:\s\+\d{1,9}|\s[^\s:()]{1,200}\.\w{1,4}:\d{1,9}|\s\((?:cycles|predicted|abort|iter|avg_cycles)\b[^()]{0,80}\))+$"
)
LONGEST_NAME = 2000


def kernel_dso(dso: str) -> bool | None:
    """Whether code of this object runs in the kernel; None if there is no name."""
    if not dso or dso == NAMELESS:
        return None
    return bool(_KERNEL_DSO.match(dso))


def kernel_letter(letter: str) -> bool | None:
    """What the letter before a symbol says: `[k]` kernel, `[.]` program, `[g]` `[u]` guest, `[H]` hypervisor."""
    return _LETTERS.get(letter)


def plain_name(text: str) -> str:
    """A line of a call graph without the place in the function: `compute churn.c:28`, `compact_zone +213`."""
    return text if len(text) > LONGEST_NAME or _JIT.match(text) else _PLACE.sub("", text)


def symbol_like(text: str) -> bool:
    """Whether a line of a call graph can be a function name, and not a sentence.

    Names have no blanks outside brackets, but for C++ (`operator new`, return types of templates) and scripts.
    """
    if not text or len(text) > LONGEST_NAME or not _PLAIN.match(text):
        return False
    if " " not in text and "\t" not in text:
        return not text.endswith((",", ";", "?", "!")) and text.strip("-_=.:|+") != ""
    bare, before = text, ""
    while bare != before:
        bare, before = _BRACKETED.sub("", bare), bare
    if " " not in bare.strip() and "\t" not in bare.strip():
        return bool(bare.strip()) or text.startswith("[")
    return bool(_CPP.search(bare) or _JIT.match(text))


class Frames:
    """The distinct frames of a profile, numbered in the order seen."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str, bool | None], int] = {}
        self._of_frame: dict[Frame, int] = {}
        self._frames: list[Frame] = []

    def number(self, name: str, dso: str = "", *, kernel: bool | None = None) -> int:
        """The number of a frame; the name is normalised here."""
        key = (name, dso, kernel)
        if (known := self._numbers.get(key)) is None:
            frame = Frame(normalise(name) or NAMELESS, dso, kernel_dso(dso) if kernel is None else kernel)
            if (known := self._of_frame.setdefault(frame, len(self._frames))) == len(self._frames):
                self._frames.append(frame)
            self._numbers[key] = known
        return known

    def name(self, number: int) -> str:
        return self._frames[number].name

    def all(self) -> tuple[Frame, ...]:
        return tuple(self._frames)
