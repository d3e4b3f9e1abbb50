"""What may stay: words of our own sentences, words of tools and kernel messages, known programs, functions, paths.

The lists are files, so that a security officer can read them. `told.txt` is made of the texts of our rules, knowledge
and code by the tests; it counts in our own sentences only. In a quoted line of the customer count the words of
`lines.txt` and, of our own, those that are spelled as kernel and tools spell names (`compact_stall`).
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

# A word with all that can be part of a name: db-1.example.com, a%20b, me@host, café in either form of Unicode
ATOM = r"[^\W][\w.@+%~$&\u0300-\u036f\u200b-\u200f-]*"
EDGE = ".@+%~$&-\u200b\u200c\u200d\u200e\u200f"
_SPELLED = re.compile(r"[a-z]\w*_\w+|(?:vm|kernel|cpu_ratio|process_cpu_ratio|thp)(?:\.\w+)+")
_COMMENT = re.compile(r"^#.*$", re.MULTILINE)
# Names that the kernel and its drivers give to devices
DEVICE = re.compile(
    r"(?:sd[a-z]{1,3}|vd[a-z]{1,2}|xvd[a-z]{1,2}|hd[a-z])\d{0,3}|nvme\d+(?:c\d+)?n\d+(?:p\d+)?|dm-\d+|md\d{1,3}|loop\d+|sr\d|fd\d"
    r"|(?:eth|bond|wlan|ens|eno|em|tun|tap|veth|tty|ttyS|pts|lo|cpu|node|zone|order|hctx)\d{0,4}"
)
_UNIT = r"(?:%|[kKMGTPE]i?[bB]?|B|[munp]?s|us|x|[hHzZ]|[mM][hH]z|G[hH]z|th|st|nd|rd|d|[+])?"
NUMBER = re.compile(
    rf"[+-]?\d{{1,40}}(?:\.\d+)?(?:[eE][+-]?\d{{1,3}})?{_UNIT}|0[xX][0-9a-fA-F]{{1,16}}|\d+(?:\.\d+){{2}}|\d{{1,9}}-\d{{1,9}}"
    r"|\d+(?:\.\d+)?[gmtk]|\d{1,3}\.\d%(?:us|sy|ni|id|wa|hi|si|st)|\d{1,5}m\d{1,2}\.\d{1,3}s|\d{1,4}(?:~\d\d\.\d\d(?:\.\d)?)?-Ubuntu|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\d\d|[DRSTtWXZI][<NLsl+]{0,4}"
    r"|\d{4}-\d\d-\d\d(?:[T_-]\d\d)?|\d\d-\d\d-\d\d|\d\d(?:\.\d+)?[+-]\d\d|\d{8}-\d{6}|\d{1,2}[A-Z][a-z]{2}(?:\d{2}|\d{4})|\d{1,3}-\d\d",
    re.ASCII,
)
# Ids of rules, addresses in the kernel, sizes of huge pages
OF_KERNEL = re.compile(
    r"(?:THP|ALT|CTX)-\d{1,4}|E\d|ffff[0-9a-f]{12}|0{8,16}|hugepages-\d+[kK][bB]|node\d+|cpu\d+"
    r"|_{0,3}GFP_(?:KERNEL|ATOMIC|NOIO|NOFS|NOWAIT|USER|HIGHUSER|HIGHUSER_MOVABLE|TRANSHUGE|TRANSHUGE_LIGHT|COMP|ZERO|NOWARN|NORETRY"
    r"|RETRY_MAYFAIL|NOFAIL|HIGH|IO|FS|DIRECT_RECLAIM|KSWAPD_RECLAIM|RECLAIM|THISNODE|ACCOUNT|MOVABLE|RECLAIMABLE|HARDWALL|MEMALLOC|DMA|DMA32)",
    re.ASCII,
)


@cache
def listed(name: str) -> frozenset[str]:
    """The words of a list, casefolded."""
    return frozenset(_text(name).casefold().split())


@cache
def extensions() -> frozenset[str]:
    """Ends of file names."""
    return listed("extensions")


@cache
def told() -> frozenset[str]:
    """Words of our own sentences."""
    return listed("told") | quoted()


@cache
def told_parts() -> frozenset[str]:
    """What words of our own sentences are made of: of `max_ptes_none` also `ptes`."""
    return frozenset(part for word in told() for part in re.split(r"[\W_]+", word))


@cache
def told_paths() -> frozenset[str]:
    """Segments of paths in our own sentences and commands, as they are spelled."""
    return frozenset(_text("told_paths").split())


@cache
def quoted() -> frozenset[str]:
    """Words that may stay in a line of the customer."""
    return listed("lines") | frozenset(word for word in listed("told") if _SPELLED.fullmatch(word))


@cache
def modules() -> frozenset[str]:
    """Kernel modules that any host may have, as the kernel spells them."""
    return listed("modules")


@cache
def of_paths() -> frozenset[str]:
    """Words of which segments of a path may be made."""
    return listed("paths") | extensions()


def is_program(name: str) -> bool:
    """Whether a program, user or kernel thread is one that every host may have."""
    return bool(_patterns("programs").fullmatch(name))


def is_function(name: str) -> bool:
    """Whether a function belongs to libc, an allocator or a runtime."""
    return bool(_patterns("functions").fullmatch(name))


@cache
def _patterns(name: str) -> re.Pattern[str]:
    return re.compile("|".join(filter(None, _text(name).splitlines())))


def _text(name: str) -> str:
    text = files("thpdiag.redact").joinpath("lists", f"{name}.txt").read_text(encoding="utf-8")
    return _COMMENT.sub("", text)
