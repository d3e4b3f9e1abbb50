"""The rows of perf top and perf report: shares, then any of task, object and symbol.

    12.34%  java     [kernel.kallsyms]  [k] compact_zone          perf report
    13.33%   0.00%  java  [kernel.kallsyms]  [k] compact_zone     two events in a group: a share of each
    22.25%  [kernel]       [k] clear_page_erms                    perf top
    55.35%     0.00%  churn  libc.so.6  [.] start_thread          with Children and Self
-   2.76%     m0d  [kernel.kallsyms]   [k] generic_exec_single    copied from the terminal browser

Which columns there are is the user's choice (`--sort`); the header names them, and where it was cut off the row
itself must do. Not a reader.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from thpdiag.readers.perf.stacks import kernel_dso, kernel_letter

PERCENT = r"\d{1,3}[.,]\d{1,2}%"
_ROW = re.compile(rf"(?P<lead>\s*(?:[+-]\s*)?)(?P<shares>{PERCENT}(?:\s+{PERCENT}){{0,5}})(?:\s+(?P<rest>\S.*))?$")
_SYMBOL = re.compile(r"(?:^|\s)(?:0x[0-9a-f]{1,16}\s+[\w!.-]\s+)?\[(?P<letter>[k.guhHm])\]\s+(?P<symbol>\S.*)$")
_SHARE_FIELD = re.compile(rf"{PERCENT}(?:\s+{PERCENT}){{0,5}}")
_COUNTS = re.compile(r"\d{1,18}(?=\s)")
_DIFFERENCE = re.compile(r"[+-]\d")
_PID = re.compile(r"(?:(?P<pid>\d{1,10}):\s*(?P<comm>\S.*)|(?P<comm2>\S.*?):\s*(?P<pid2>\d{1,10}))$")
_SHARED_OBJECT = re.compile(r"[\[/]|.*\.(?:so|ko|map)\b|vmlinu|bpf_prog|.*\(deleted\)$")
_KNOWN = re.compile(
    r"Overhead|Children|Self|guest sys|guest usr|sys|usr?|Samples|Period"
    r"|(?:Pid|Tid|Thread|PID|TID)\s*:\s*Command|Command\s*:\s*(?:Pid|Tid)"
    r"|Command|Shared Object|Symbol|CPU|Parent symbol|Source:Line|Source File|Socket|Weight|Time"
)
_SHARES = {"Overhead", "Children", "Self", "guest sys", "guest usr", "sys", "us", "usr"}
_NUMBERS = {"Samples", "Period", "Weight"}


@dataclass(frozen=True, slots=True)
class Columns:
    """What the header says: share columns, then numbers, then names. `children`: the first share includes callees."""

    names: tuple[str, ...] = ()
    children: bool = False
    numbers: tuple[str, ...] = ()
    levels: bool = False  # --hierarchy
    shares: int = 1  # how many columns of shares
    events: int = 1  # in a group each share and number is there once per event
    alone: str = "Command"  # what a single column is if nothing tells


@dataclass(frozen=True, slots=True)
class OverheadRow:
    """One row. `total` includes callees where the text shows that (else it equals `own`), both in percent.

    `others` are own share and samples of the further events of a group.
    """

    own: float
    total: float
    samples: int = 0
    comm: str = ""
    pid: int | None = None
    dso: str = ""
    symbol: str = ""
    kernel: bool | None = None
    marked: bool = False  # has the letter of perf before its symbol, so that it cannot be a line of a call graph
    column: int = 0  # where the first share ends
    sign: str = ""  # of the terminal browser: `-` opened, `+` closed
    gap: int = 0  # blanks between the shares and what follows
    cpu: int | None = None
    shares: tuple[float, ...] = ()  # all, as printed
    others: tuple[tuple[float, int], ...] = ()


def columns(header: str) -> Columns:
    """The columns of a header line."""
    found = [re.sub(r"\s*:\s*", ":", name) for name in _KNOWN.findall(header)]
    names = tuple(n for n in found if n not in _SHARES and n not in _NUMBERS)
    numbers = tuple(n for n in found if n in _NUMBERS)
    shares = max(1, sum(n in _SHARES for n in found))
    return Columns(names, "Children" in found, numbers, " / " in header, shares=shares)


def share(text: str) -> float:
    """A percentage as printed, with decimal point or comma."""
    return float(text.rstrip("%").replace(",", "."))


def row(text: str, known: Columns) -> OverheadRow | None:
    """A line as a row, None if it is something else."""
    found = _ROW.match(text)
    if not found:
        return None
    shares = tuple(share(s) for s in found["shares"].split())
    owns, total = _shares(shares, known)
    samples, rest = _numbers(found["rest"] or "", known)
    if "CPU" not in known.names and _DIFFERENCE.match(rest):
        return None  # perf diff
    marker = _SYMBOL.search(rest)
    middle = rest[: marker.start()].strip() if marker else rest
    names = _Names(symbol=middle) if known.levels else _names(middle, known, marked=bool(marker))
    kernel = kernel_dso(names.dso)
    if marker:
        names.symbol = marker["symbol"].strip()
        letter = kernel_letter(marker["letter"])
        kernel = letter if letter is not None else kernel
    return OverheadRow(
        owns[0], total, samples[0], names.comm, names.pid, names.dso, names.symbol, kernel, bool(marker),
        column=len(found["lead"].expandtabs()) + len(found["shares"].split()[0]),
        sign=found["lead"].strip(), gap=found.start("rest") - found.end("shares") if found["rest"] else 0,
        cpu=names.cpu, shares=shares, others=tuple(zip(owns[1:], samples[1:], strict=False)),
    )  # fmt: skip


def _shares(shares: Sequence[float], known: Columns) -> tuple[Sequence[float], float]:
    """The own share of each event, and the total of the first.

    Two shares without a header are taken for Children and Self, perf's default since 3.16.
    """
    if known.events > 1 and len(shares) >= known.events * (2 if known.children else 1):
        first = known.events if known.children else 0
        return shares[first : first + known.events], shares[0]
    if len(shares) > 1 and (known.children or (not known.names and shares[0] >= shares[1])):
        return shares[1:2], shares[0]
    return shares[:1], shares[0]


def _numbers(rest: str, known: Columns) -> tuple[list[int], str]:
    """The number of samples of each event if printed, and what stands after the numbers."""
    columns = [name for name in known.numbers for _ in range(known.events)]
    samples: list[int] = []
    position = 0
    while found := _COUNTS.match(rest):
        if known.names and position >= len(columns):
            break
        if columns[position : position + 1] == ["Samples"]:
            samples.append(int(found[0]))
        rest, position = rest[found.end() :].lstrip(), position + 1
    return (samples + [0] * known.events)[: known.events], rest


@dataclass(slots=True)
class _Names:
    comm: str = ""
    pid: int | None = None
    dso: str = ""
    symbol: str = ""
    cpu: int | None = None


def _names(middle: str, known: Columns, *, marked: bool) -> _Names:
    """Task, object, symbol and CPU out of the columns before the symbol, or of all columns if there is no marker."""
    wanted = [n for n in known.names if not (marked and n == "Symbol")]
    parts = re.split(r"\s{2,}|\t+", middle) if middle else []
    if len(parts) != len(wanted):
        parts, wanted = _fit(middle, parts, wanted, known.alone, marked=marked)
    names = _Names()
    for name, value in zip(wanted, parts, strict=False):
        if ":" in name and (found := _PID.match(value)):
            names.comm, names.pid = (found["comm"] or found["comm2"]).strip(), int(found["pid"] or found["pid2"])
        elif name in {"Command"} or ":" in name:
            names.comm = value
        elif name == "Shared Object":
            names.dso = value
        elif name == "Symbol":
            names.symbol = value
        elif name == "CPU" and value.isdecimal():  # -001: not recorded
            names.cpu = int(value)
    return names


def _fit(middle: str, parts: list[str], wanted: list[str], alone: str, *, marked: bool) -> tuple[list[str], list[str]]:
    """Columns without a header, or whose blanks were collapsed: the object looks like one, the rest is the task."""
    if not middle:
        return [], []
    if len(wanted) == 1:
        return [middle], wanted
    words = parts if len(parts) > 1 else middle.rsplit(None, 1)
    if not marked and not wanted and len(parts) == 1 and not _SHARED_OBJECT.match(words[-1]):
        return [middle], [alone]
    if len(words) == 1:
        return words, ["Shared Object" if _SHARED_OBJECT.match(middle) else alone]
    if wanted and "Shared Object" not in wanted:
        return [middle], [wanted[0]]
    return ["  ".join(words[:-1]), words[-1]], ["Command", "Shared Object"]


def kind(shown: OverheadRow) -> str:
    """The column that rows without a header are sorted by first."""
    return "Command" if shown.comm else "Shared Object" if shown.dso else "Symbol"


def separated(text: str, known: Columns, sign: str) -> OverheadRow | None:
    """A row of `perf report -t SIGN`; the last column may contain the sign."""
    count = known.shares + len(known.numbers) + len(known.names)
    fields = [f.strip() for f in text.split(sign, count - 1)]
    if len(fields) < known.shares or not all(_SHARE_FIELD.fullmatch(f) for f in fields[: known.shares]):
        return None
    return row("  ".join(fields), known)
