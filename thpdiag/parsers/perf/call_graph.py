"""The call graphs of perf report: lines below a row, as nodes with shares, and the stacks that they tell.

            |
            ---compact_zone                     stdio: bars; `--12.34%--` opens a branch
               |--60.00%--try_to_compact_pages
               |          __alloc_pages_direct_compact
                --40.00%--kcompactd

   - generic_exec_single                        copied from the terminal browser: indentation, no bars
      - 99.92% smp_call_function_single         a `+` instead of `-`: closed, its branches are hidden
           smp_call_function_many

Also `-g flat` (a share alone, names below; the share of a chain includes that of chains which go on from its end) and
`-g folded` (`12.34% a;b;c`). In stdio a branch whose bar is in column c has its names in column c+11, which is where
the bars of its own branches are. Versions before 4.x print a blank after the dashes.

Graphs are printed leaf first (callee) or root first (caller), their shares are of everything or of the parent. perf
leaves out the first function of a graph with a single root where rows are sorted by symbol first, which it takes for
the row's own. Leaf first it is; root first it is not: then the outermost function is lost. Source: tools/perf/ui/
stdio/hist.c. Not a reader.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Flag, auto
from itertools import takewhile
from math import fsum  # the same on each version of Python, as sum is not
from typing import NamedTuple

from thpdiag.knowledge.symbols import families_of, normalise
from thpdiag.model.profile import HIDDEN
from thpdiag.parsers.perf._texts import plain_name, symbol_like

_BRANCH = re.compile(r"[\s|]*(?P<dash>--+)(?:\s?(?P<value>\d{1,18}(?:[.,]\d{1,2})?)(?P<unit>%?)--)?\s?(?P<name>\S.*)?$")
_BROWSER = re.compile(
    r"\s*(?P<sign>[+-]\s+)?(?:(?P<value>\d{1,3}[.,]\d{1,2}(?=%)|\d{1,18}(?=\s))(?P<unit>%?)\s+)?(?P<name>\S.*)$"
)
_FOLDED = re.compile(r"\s*(?:[+-]\s+)?(?P<value>\d{1,18}(?:[.,]\d{1,2})?)(?P<unit>%?)\s+(?P<names>\S.*)$")
_ALONE = re.compile(r"\s*(?P<value>\d{1,18}(?:[.,]\d{1,2})?)(?P<unit>%?)$")
_BLANK = " |\t"
_NAMES_AFTER_BAR = 11
ROUNDING = 0.006  # percent; perf prints two decimals
_ALONE_FROM = 10  # column
MIN_INDENT = 3  # columns of a graph with bars
_VALUED = re.compile(r"--\s?\d[\d.,]*%?--")
MAX_BRANCH_DEPTH = 300  # branches within branches; perf records 127 frames
_CUT = "..."
_WORD = re.compile(r"[A-Za-z_][\w.$@]{2,}$")


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


def share(text: str) -> float:
    """A percentage as printed, with decimal point or comma."""
    return float(text.rstrip("%").replace(",", "."))


@dataclass(slots=True)
class Node:
    """Functions that follow one another without a branch, then branches. `value` is as printed, None for the whole."""

    names: list[str]
    value: float | None = None
    column: int = 0
    counted: bool = False  # value is a number of samples or a period, not percent
    closed: bool = False  # in the browser: what follows is hidden
    children: list[Node] = field(default_factory=list)


def part(text: str) -> bool:
    """Whether a line can be part of a call graph (of any kind but a row)."""
    bare = text.strip(_BLANK)
    if not bare:
        return "|" in text
    if bare == "-" * len(bare):
        return False
    if bare.endswith(_CUT):
        return len(text) - len(text.lstrip(_BLANK)) >= _ALONE_FROM
    if match := _BRANCH.match(text):
        return not match["name"] or _function(match["name"])
    if text.lstrip().startswith("|"):
        return _function(bare)
    if _ALONE.match(text):  # of -g flat; or a function without name at address 0
        return "%" in text or len(text.expandtabs()) - len(bare) >= _ALONE_FROM or text == " 0"
    if (folded := _FOLDED.match(text)) and (folded["unit"] or ";" in folded["names"]):
        return symbol_like(folded["names"].split(";")[0])
    return _browser_part(text, bare)


def _browser_part(text: str, bare: str) -> bool:
    browser = _BROWSER.match(text)
    if not browser or not _function(browser["name"]) or bare.startswith("[<"):
        return False
    indented = text[:1].isspace() or bool(browser["sign"])
    if browser["value"] and not browser["unit"]:  # a chain of one function of -g folded,count is not indented
        return bool(_WORD.match(browser["name"]))
    return indented or bool(re.fullmatch(r"[A-Za-z_][\w.$@]{2,}", bare))


def _function(text: str) -> bool:
    return symbol_like(plain_name(text))


def has_bars(lines: Sequence[str]) -> bool:
    """Whether the graph is that of --stdio, with bars and dashes."""
    return any(_BRANCH.match(line) for line in lines)


def is_squeezed(lines: Sequence[str]) -> bool:
    """Whether the graph lost the blanks that tell which branch belongs to which: perf indents it by twelve."""
    return any(not line[:MIN_INDENT].isspace() for line in lines if _BRANCH.match(line))


def restore_indentation(lines: Sequence[str]) -> list[str] | None:
    """A graph that lost its blanks, with those of perf; None if its bars do not tell what belongs to what.

    Names follow their branch before any branch of its own. A branch has a bar for each branch above it that has a
    further sibling, and one of its own unless it is the last of its siblings; and no branch follows a last sibling on
    its level. So the number of bars leaves one level only.
    """
    if not any("|" in line for line in lines) and sum(bool(_VALUED.search(line)) for line in lines) > 1:
        return None
    found: list[str] = []
    above: list[bool] = []  # by level, the outermost first: whether the branch is the last of its siblings
    root, column = _ALONE_FROM + 2, 0
    for line in lines:
        bare = line.strip(_BLANK)
        branch = _BRANCH.match(line)
        if not bare:
            continue
        if not branch:
            found.append(" " * (column + _NAMES_AFTER_BAR) + bare)
            continue
        if branch["value"] is None:
            if found:
                return None
            found.append(" " * root + bare)
            root, column = root + 3, root + 3 - _NAMES_AFTER_BAR
            continue
        before = line[: branch.start("dash")]
        last = not before.endswith("|")
        bars = before.count("|") - (not last)
        levels = (
            level
            for level in range(len(above) + 1)
            if above[:level].count(False) == bars and not (level < len(above) and above[level])
        )
        if (level := next(levels, None)) is None or level > MAX_BRANCH_DEPTH:
            return None
        above[level:] = [last]
        column = root + level * _NAMES_AFTER_BAR
        found.append(" " * column + (" " if last else "|") + bare)
    return found


def is_cut(lines: Sequence[str]) -> bool:
    """Whether the graph lost the ends of its lines, so that branches are without their names and shares."""
    return any(line.endswith(_CUT) for line in lines)


def certain_part(lines: Sequence[str]) -> list[str]:
    """The functions that all chains of a damaged graph share: those above its first branch."""
    stem = list(takewhile(lambda line: not _VALUED.search(line) and not line.endswith(_CUT), lines))
    return [*stem, f"--1.00%--{HIDDEN}"]


def parse(lines: Sequence[str]) -> list[Node]:
    """The nodes of one row's call graph."""
    shown = [line.expandtabs() for line in lines if line.strip(_BLANK)]
    if has_bars(shown):
        return _parse_bars(shown)
    if any(_ALONE.match(line) for line in shown):
        return _parse_flat(shown)
    if shown and all(_semicolons(line) for line in shown):
        return [_parse_folded(line) for line in shown]
    return _parse_browser(shown)


def _semicolons(line: str) -> bool:
    """Whether the line is a whole chain; one of a single function has no `;`, but is not indented."""
    match = _FOLDED.match(line)
    return ";" in line or (match is not None and bool(match["unit"]) and not line[:1].isspace())


def _parse_bars(lines: Sequence[str]) -> list[Node]:
    top = Node([], column=-1)
    path = [top]
    for line in lines:
        start = len(line) - len(line.lstrip(_BLANK))
        branch = _BRANCH.match(line)
        while len(path) > 1 and (path[-1].column > start + (0 if branch else 1) or len(path) > MAX_BRANCH_DEPTH):
            path.pop()
        if not branch:
            path[-1].names.append(plain_name(line.strip(_BLANK)))
            continue
        root = branch["value"] is None
        column = start + 3 if root else start - 1 + _NAMES_AFTER_BAR
        names = [plain_name(branch["name"])] if branch["name"] else []
        node = Node(names, _value(branch), column, not root and not branch["unit"])
        path[-1].children.append(node)
        path.append(node)
    return top.children


def _value(match: re.Match[str]) -> float | None:
    return share(match["value"]) if match["value"] is not None else None


def _parse_flat(lines: Sequence[str]) -> list[Node]:
    nodes: list[Node] = []
    for line in lines:
        if match := _ALONE.match(line):
            nodes.append(Node([], _value(match), counted=not match["unit"]))
        elif nodes:
            nodes[-1].names.append(plain_name(line.strip()))
    return _subtract_continuations([n for n in nodes if n.names])


def _subtract_continuations(nodes: list[Node]) -> list[Node]:
    """Take from each chain the share of those that go on from its end."""
    stems = {tuple(n.names): n for n in nodes}
    shares = [(tuple(n.names), n.value or 0.0) for n in nodes]
    for names, value in shares:
        shorter = (stems.get(names[:end]) for end in range(len(names) - 1, 0, -1))
        if stem := next((n for n in shorter if n is not None), None):
            stem.value = max(0.0, (stem.value or 0.0) - value)
    return nodes


def _parse_folded(line: str) -> Node:
    match = _FOLDED.match(line)
    if not match:
        return Node([plain_name(n) for n in line.strip().split(";")])
    return Node([plain_name(n) for n in match["names"].split(";")], _value(match), counted=not match["unit"])


@dataclass(slots=True)
class _Line:
    column: int
    name: str
    value: float | None = None
    counted: bool = False
    sign: str = ""  # `-` before an opened branch, `+` before a closed one


def _parse_browser(lines: Sequence[str]) -> list[Node]:
    read = [_browser_line(line) for line in lines]
    collapsed = len(read) > 2 and max(r.column for r in read) - min(r.column for r in read) <= 2
    top = Node([], column=-1)
    path = [top]
    opened = False
    for entry in read:
        if entry.value is not None:
            _leave(path, entry, collapsed=collapsed, opened=opened)
            node = Node([entry.name], entry.value, entry.column, entry.counted)
            path[-1].children.append(node)
            path.append(node)
        else:
            while not collapsed and len(path) > 2 and path[-1].column > entry.column:
                path.pop()
            if path[-1] is top:
                node = Node([], None, entry.column)
                top.children.append(node)
                path.append(node)
            path[-1].names.append(entry.name)
        path[-1].closed |= entry.sign == "+"
        opened = entry.sign == "-"
    return top.children


def _browser_line(line: str) -> _Line:
    match = _BROWSER.match(line)
    if not match:
        return _Line(0, line.strip())
    first = match.start("value") if match["value"] else match.start("name")
    counted = bool(match["value"]) and not match["unit"]
    return _Line(first, plain_name(match["name"]), _value(match), counted, (match["sign"] or "")[:1])


def _leave(path: list[Node], entry: _Line, *, collapsed: bool, opened: bool) -> None:
    """Go back in the path to the node that a branch belongs to.

    Indentation tells; where it was collapsed, a branch belongs to an opened line right before it, else to the nearest
    node whose branches do not exceed 100 % with it.
    """
    if not collapsed:
        while len(path) > 1 and (path[-1].column >= entry.column or len(path) > MAX_BRANCH_DEPTH):
            path.pop()
        return
    if opened and len(path) <= MAX_BRANCH_DEPTH:
        return
    while len(path) > 1:
        path.pop()
        if fsum(c.value or 0 for c in path[-1].children) + (entry.value or 0) <= 100.5:
            return


def walk(nodes: Sequence[Node]) -> Iterator[Node]:
    """All nodes, parents first."""
    for node in nodes:
        yield node
        yield from walk(node.children)


def _parts_and_wholes(nodes: Sequence[Node], total: float) -> Iterator[tuple[float, float, float]]:
    """Of each place where a graph branches: what the branches add up to, what they are branches of, and by how much
    rounding may have made the sum wrong.
    """
    for whole, parts in [(total, nodes), *((total if n.value is None else n.value, n.children) for n in walk(nodes))]:
        shares = [node.value for node in parts if not node.counted and node.value is not None]
        if shares:
            yield fsum(shares), whole, max(10, len(shares)) * ROUNDING


def _sums(graphs: Sequence[tuple[OverheadRow, list[Node]]]) -> tuple[int, int]:
    """How often branches exceed the whole, as shares of the parent do (fractal), and how often they add up to it as
    shares of everything do (graph). Where the whole is nearly all both may be.
    """
    sums = [one for shown, nodes in graphs for one in _parts_and_wholes(nodes, shown.total)]
    exceeding = sum(parts > whole + error for parts, whole, error in sums)
    equal = sum(abs(parts - whole) <= error and whole < _NEARLY_ALL for parts, whole, error in sums)
    return exceeding, equal


def with_totals(
    rows: Sequence[tuple[OverheadRow, Sequence[str]]], *, unknown_own: bool
) -> list[tuple[OverheadRow, Sequence[str]]]:
    """The rows of `perf report -F overhead,...`: a share without callees beside the graph of the share with them.

    Root first such a graph has branches that begin with the row's function, for what it calls, beside those that end
    in it. Leaf first they only exceed the row, while those of functions that call nothing sum up to it; where shares
    are of the parent, all sum up to 100 %. `unknown_own`: the text has shares with callees only; those without them
    are what ends in the row's function.
    """
    graphs = [(shown, parse(lines)) for shown, lines in rows]
    if unknown_own:
        own = [min(_ending_in(shown.symbol, nodes), shown.total) for shown, nodes in graphs]
        return [(replace(shown, own=share), lines) for (shown, lines), share in zip(rows, own, strict=True)]
    parts = [_branches(shown, nodes) for shown, nodes in graphs]
    sums = [(shown.own, _sum_of_branches(nodes)) for shown, nodes in graphs]
    both = [(shown.own, ending) for (shown, _), (ending, below) in zip(rows, parts, strict=True) if ending and below]
    absolute = [_sums_up(own, share) for own, share in both or sums]
    if both and sum(absolute) <= len(both) / 2:  # shares of the parent
        totals = [
            shown.own * (ending + below) / ending if ending and below else shown.total
            for (shown, _), (ending, below) in zip(rows, parts, strict=True)
        ]
    elif any(absolute) and any(
        shown.symbol and share > own + 10 * ROUNDING for (shown, _), (own, share) in zip(rows, sums, strict=True)
    ):  # a row without a function, as --sort comm has, calls nothing
        totals = [max(shown.total, share) for (shown, _), (_, share) in zip(rows, sums, strict=True)]
    else:
        return list(rows)
    return [(replace(shown, total=total), lines) for (shown, lines), total in zip(rows, totals, strict=True)]


def _sums_up(own: float, share: float) -> bool:
    """Whether branches sum up to the row, and not to 100 % of it."""
    return 0 < own < _NEARLY_ALL and abs(share - own) <= max(10 * ROUNDING, _HIDDEN_PART * own)


def _branches(shown: OverheadRow, nodes: Sequence[Node]) -> tuple[float, float]:
    """What the roots of a graph sum up to, in percent as printed: those of chains that end in the row's function, and
    those that are this function and go on."""
    own = normalise(shown.symbol)
    ending = below = 0.0
    for node in nodes if own and len(nodes) > 1 else ():
        if not node.counted and node.names and node.names != [HIDDEN]:
            if same_function(node.names[0], own) and (len(node.names) > 1 or node.children):
                below += node.value or 0.0
            elif _ends_in(node, own):
                ending += node.value or 0.0
    return ending, below


def _ends_in(node: Node, own: str) -> bool:
    """Whether a chain from this node ends in a function."""
    if node.children:
        return any(_ends_in(child, own) for child in node.children)
    return same_function(node.names[-1], own)


def _sum_of_branches(nodes: Sequence[Node]) -> float:
    """What the branches nearest to the row sum up to, in percent as printed."""
    if len(nodes) == 1 and nodes[0].value is None:
        return _sum_of_branches(nodes[0].children)
    return fsum(node.value or 0.0 for node in nodes if not node.counted)


def _ending_in(symbol: str, nodes: Sequence[Node]) -> float:
    """The share of the chains that end in a function, root first."""
    own = normalise(symbol)
    found = (p for p in paths(nodes, 0.0, Measure()) if len(p.names) > 1 and normalise(p.names[-1]) == own)
    return fsum(path.share for path in found)


def sum_of_counts(nodes: Sequence[Node]) -> float:
    """The samples (or the period) at the branches nearest to the row, 0 if shares are printed as percent."""
    if len(nodes) == 1 and nodes[0].value is None:
        return sum_of_counts(nodes[0].children)
    return fsum(n.value or 0 for n in nodes if n.counted)


class Measure(NamedTuple):
    """What the numbers in a text are: percent of the parent or of everything, or counts worth `each` percent."""

    fractal: bool = False
    each: float = 1.0

    def share(self, node: Node, parent: float) -> float:
        """A node's share of everything in percent, of which its parent has `parent`."""
        if node.value is None:
            return parent
        if node.counted:
            return node.value * self.each
        return parent * node.value / 100 if self.fractal else node.value

    def rounding(self, parent: float) -> float:
        """By how much the share of a branch may be wrong, in percent of everything."""
        return ROUNDING * parent / 100 if self.fractal else ROUNDING


class Path(NamedTuple):
    """A chain as printed, with its own share of everything. `cut`: it may go on where the text does not show it.

    `calls`: its innermost function, one of the kernel, calls others that the text does not show.
    """

    names: list[str]
    share: float
    cut: bool = False
    calls: bool = False


def paths(nodes: Sequence[Node], total: float, measure: Measure) -> Iterator[Path]:
    """The chains; what branches leave over belongs to the stem, or to branches that are too small to be shown."""
    for node in nodes:
        yield from _paths(node, [], measure.share(node, total), measure)


def _paths(node: Node, before: list[str], own: float, measure: Measure) -> Iterator[Path]:
    names = before + [n for n in node.names if n != HIDDEN]
    left = own
    for child in node.children:
        if child.names == [HIDDEN]:
            continue
        value = measure.share(child, own)
        left -= value
        yield from _paths(child, names, value, measure)
    if names and left > (measure.rounding(own) * (1 + len(node.children)) if node.children else 1e-9):
        yield Path(names, left, bool(node.children) or node.closed)


Split = list[Path]  # names leaf first, share in percent
_ADDRESS = re.compile(r"(?:0x[0-9a-f]{1,16}|[0-9a-f]{16}|0|\[unknown\])$")
_NEARLY_ALL = 90.0  # percent; a larger share cannot be told from one of the parent
_HIDDEN_PART = 0.1  # of a row that perf may leave out of its graph, as branches are small
_SHORT_OF = 5.0  # percent of everything that no row of a text with Children columns holds as its own
_WHOLE = 101.0  # percent, with rounding
_LEAF_ONLY = 0.995  # a row whose own share is nearly all of its total calls nothing that counts

# Functions that enter the kernel, or run in it from the start.
_ENTRIES = frozenset(
    {
        *("page_fault", "asm_exc_page_fault", "async_page_fault"),
        *("system_call_fastpath", "entry_SYSCALL_64_after_hwframe", "entry_SYSCALL_64_fastpath"),
        *("ret_from_fork", "ret_from_fork_asm", "kernel_thread_helper", "child_rip"),
        *("secondary_startup_64", "start_secondary", "cpu_startup_entry", "start_kernel"),
    }
)
# With those that start a task: a chain that begins with one is printed root first.
ROOTS = _ENTRIES | {
    *("_start", "__libc_start_main", "__libc_start_call_main", "main"),
    *("start_thread", "clone", "__clone", "clone3", "__clone3"),
}
# Families whose functions are always called by other functions of the kernel: no chain ends with one.
_INNER = {
    *("compaction", "direct_compact", "thp_fault", "migrate", "zeroing", "reclaim", "page_alloc", "spin_lock"),
    *("lru_lock", "tlb_flush"),
}


class Chains(NamedTuple):
    """`of` holds one split per row. `order` is callee or caller; `shares` says what those of branches are of.

    `exceeding` is how often branches add up to more than what they are branches of.
    """

    of: tuple[Split, ...]
    order: str
    shares: str  # absolute; relative to the parent; numbers of samples where each weighs something else
    exceeding: int = 0


class _Graph(NamedTuple):
    """How the graphs of a text are to be read."""

    measure: Measure
    caller: bool
    rootless: bool  # perf left out the first function of graphs with a single root


class Layout(Flag):
    """What of perf's printing changes how its graphs are to be read.

    `LIVE`: perf top changes shares while it prints, so that parts may exceed their whole. `BY_SYMBOL`: rows are sorted
    by symbol alone, and the first function of a graph with a single root is left out.
    """

    PLAIN = 0
    LIVE = auto()
    BY_SYMBOL = auto()


def chains(rows: Sequence[tuple[OverheadRow, Sequence[str]]], layout: Layout = Layout.PLAIN) -> Chains:
    """The stacks of all rows of one event. Order and kind of share hold for the whole text."""
    graphs = [(shown, parse(lines)) for shown, lines in rows]
    exceeding, equal = (0, 0) if Layout.LIVE in layout else _sums(graphs)
    fractal = exceeding > equal
    measures = _measures(graphs, fractal=fractal)
    caller = _caller(graphs, measures)
    rootless = Layout.BY_SYMBOL in layout and any(has_bars(lines) for _, lines in rows)
    of = tuple(
        _split_row(shown, nodes, _Graph(measure, caller, rootless))
        for (shown, nodes), measure in zip(graphs, measures, strict=True)
    )
    if _total_share(of) + _SHORT_OF < max((shown.total for shown, _ in graphs), default=0.0):
        of = _with_callees(graphs, measures, of, caller=caller)
    vary = len({measure.each for measure in measures}) > 1
    shares = "relative" if fractal else "numbers of samples whose periods vary" if vary else "absolute"
    return Chains(of, "caller" if caller else "callee", shares, 0 if fractal else exceeding)


def _measures(graphs: Sequence[tuple[OverheadRow, list[Node]]], *, fractal: bool) -> list[Measure]:
    """What the numbers of each graph are worth: percent per counted sample, from the row with the most of them, which
    rounding hurts least. If that is too much for another row, periods vary: then each row has its own.
    """
    counts = [sum_of_counts(nodes) for _, nodes in graphs]
    most, total = max(((n, shown.total) for n, (shown, _) in zip(counts, graphs, strict=True)), default=(0.0, 0.0))
    each = total / most if most else 1.0
    vary = any(n * each > shown.total * 1.02 + ROUNDING for n, (shown, _) in zip(counts, graphs, strict=True))
    return [
        Measure(fractal, shown.total / n if vary and n else each) for n, (shown, _) in zip(counts, graphs, strict=True)
    ]


def _leafy(shown: OverheadRow) -> bool:
    return shown.own >= shown.total * _LEAF_ONLY


def _caller(graphs: Sequence[tuple[OverheadRow, list[Node]]], measures: Sequence[Measure]) -> bool:
    """Whether chains are printed root first: by rows that call nothing, whose function must be at the leaf end.

    Programs call the kernel, never the other way round: that tells where functions have no names. Where nothing does,
    it is perf's default: root first with Children columns, else leaf first.
    """
    callee = caller = 0.0
    for (shown, nodes), measure in zip(graphs, measures, strict=True):
        own = normalise(shown.symbol)
        for names, weight, *_ in paths(nodes, shown.total, measure):
            first, last = normalise(names[0]), normalise(names[-1])
            if first == last or len(names) < 2:
                continue
            if own and last == own:
                caller += weight
            elif own and _leafy(shown) and first == own:
                callee += weight
            else:
                caller += weight * _outward(last, first) * (not own or bool(_ADDRESS.match(own)))
                callee += weight * _outward(first, last) * _leafy(shown)
                if own and not _leafy(shown):  # its graph is that of all it calls, or of all that call it
                    caller += weight * (first in ROOTS and _inner([last]))
                    callee += weight * (last in ROOTS and _inner([first]))
    if caller == callee:
        return any(shown.total > shown.own for shown, _ in graphs)
    return caller > callee


def _outward(inner: str, outer: str) -> bool:
    """Whether a chain surely runs from `inner` out to `outer`."""
    kernel = [address.startswith("0xffff") and len(address) == 18 for address in (inner, outer)]
    return outer in ROOTS or (kernel == [True, False] and bool(_ADDRESS.match(outer)))


def same_function(name: str, own: str) -> bool:
    """Whether a function of a graph is that of the row; addresses are printed in two ways, of the object and of the
    process.
    """
    return normalise(name) == own or bool(_ADDRESS.match(own) and _ADDRESS.match(name))


def _split_row(shown: OverheadRow, nodes: list[Node], how: _Graph) -> Split:
    """The row's own share over its chains."""
    if shown.total and not shown.own:
        return []  # listed for its callees
    if shown.total > shown.own and not _leafy(shown):
        found = _under_callers(shown, nodes, how.measure) if how.caller else _common(shown, nodes)
    elif how.caller:
        found = _from_callers(shown, nodes, how)
    else:
        found = _from_leaf(shown, nodes, how)
    return [p._replace(cut=p.cut or _inner(p.names[-1:])) for p in _fill(shown, found)]


def _inner(last: Sequence[str]) -> bool:
    return any(name not in ROOTS and not _INNER.isdisjoint(families_of(name)) for name in map(normalise, last))


def _from_callers(shown: OverheadRow, nodes: list[Node], how: _Graph) -> Split:
    """Root first. Where the graph was cut before the row's function, functions between are missing."""
    own = normalise(shown.symbol)
    stem = len(nodes) == 1 and nodes[0].value is None
    found: Split = []
    for names, weight, cut, _ in paths(nodes, shown.total, how.measure):
        whole = not own or same_function(names[-1], own)
        lost = how.rootless and (stem or normalise(names[0]) not in ROOTS)
        cut = not whole or lost or (cut and not own)
        found.append(Path(names[::-1] if whole else [shown.symbol, *names[::-1]], weight, cut))
    return found


def _from_leaf(shown: OverheadRow, nodes: list[Node], how: _Graph) -> Split:
    """Leaf first, with the row's function put back where perf left it out."""
    own = normalise(shown.symbol)
    stem = len(nodes) == 1 and nodes[0].value is None
    other = any(not same_function(n.names[0], own) for n in nodes if n.names)
    without = how.rootless and (stem or other)
    return [
        Path([shown.symbol, *names] if own and (without or not same_function(names[0], own)) else names, weight, cut)
        for names, weight, cut, _ in paths(nodes, shown.total, how.measure)
    ]


def _under_callers(shown: OverheadRow, nodes: list[Node], measure: Measure) -> Split:
    """With Children columns, root first: only chains that end in the row's function are its own."""
    own = normalise(shown.symbol)
    return [
        Path(names[::-1], weight)
        for names, weight, *_ in paths(nodes, shown.total, measure)
        if len(names) > 1 and normalise(names[-1]) == own
    ]


def _common(shown: OverheadRow, nodes: list[Node]) -> Split:
    """With Children columns, leaf first.

    The graph is that of the total, so only what all its chains share is certain.
    """
    names: list[str] = []
    while len(nodes) == 1 and (not names or nodes[0].value is None):
        names += nodes[0].names
        nodes = nodes[0].children
    if not names or not same_function(names[0], normalise(shown.symbol)):
        return []
    return [Path(names, shown.own, bool(nodes))]


def _total_share(of: Sequence[Split]) -> float:
    return fsum(path.share for split in of for path in split)


def _with_callees(
    graphs: Sequence[tuple[OverheadRow, list[Node]]],
    measures: Sequence[Measure],
    of: tuple[Split, ...],
    *,
    caller: bool,
) -> tuple[Split, ...]:
    """The stacks of a text with Children columns that ends before the rows of what ran: by the shares with callees of
    the rows that are there. Those of what ran (`of`) where they hold more, or where the others contradict one another.
    """
    kernel = {normalise(shown.symbol) for shown, _ in graphs if shown.kernel}
    rows = [
        (shown, [p._replace(names=p.names[::-1]) if caller else p for p in paths(nodes, shown.total, measure)])
        for (shown, nodes), measure in zip(graphs, measures, strict=True)
    ]
    found = _below_outermost(rows, kernel) if caller else _above_each(rows, kernel)
    return found if _total_share(of) + _SHORT_OF < _total_share(found) <= _WHOLE else of


def _in_kernel(names: Sequence[str], kernel: set[str]) -> bool:
    """Whether the innermost function of a chain is one of the kernel: one that called it is."""
    found = map(normalise, names)
    return any(name in kernel or name in _ENTRIES or _inner([name]) for name in found)


def _below_outermost(rows: Sequence[tuple[OverheadRow, Split]], kernel: set[str]) -> tuple[Split, ...]:
    """Root first: the chains below each function that no graph of a row before it holds.

    The text may end within the last graph: then its last chain goes on.
    """
    of: list[Split] = []
    functions: dict[str, set[str]] = defaultdict(set)  # by task: those of the chains taken
    outermost: dict[str, set[str]] = defaultdict(set)
    last = next((path for path in reversed(rows[-1][1]) if not path.cut), None)
    for shown, split in rows:
        own, taken = normalise(shown.symbol), Split()
        for path in (split or [Path([shown.symbol], shown.own)]) if own not in functions[shown.comm] else ():
            names = {normalise(name) for name in path.names}
            if path.share > 0 and names.isdisjoint(outermost[shown.comm]):
                taken.append(path._replace(cut=True, calls=path.cut or path is last))
                functions[shown.comm] |= names
        outermost[shown.comm].add(own)
        of.append(taken)
    return _with_own(of, [shown for shown, _ in rows], kernel)


def _with_own(of: Sequence[Split], rows: Sequence[OverheadRow], kernel: set[str]) -> tuple[Split, ...]:
    """What belongs to a function and what it calls, apart where its row tells its own share; of what a program calls
    nothing is known.
    """
    own = {(shown.comm, normalise(shown.symbol)): shown.own for shown in rows}
    sums: dict[tuple[str, str], list[float]] = defaultdict(list)
    for shown, split in zip(rows, of, strict=True):
        for path in split:
            sums[shown.comm, normalise(path.names[0])].append(path.share)
    apart: list[Split] = []
    for shown, split in zip(rows, of, strict=True):
        taken = Split()
        for path in split:
            function = shown.comm, normalise(path.names[0])
            alone = 0.0 if path.calls else path.share
            if (share_ := own.get(function, 0.0)) > 0:
                if fsum(sums[function]) <= share_ + len(sums[function]) * ROUNDING:
                    alone = path.share
                elif len(sums[function]) == 1:
                    alone = min(share_, path.share)
            taken.append(path._replace(share=alone, calls=False))
            if _in_kernel(path.names, kernel):
                taken.append(path._replace(share=path.share - alone, calls=True))
        apart.append([path for path in taken if path.share > ROUNDING])
    return tuple(apart)


def _above_each(rows: Sequence[tuple[OverheadRow, Split]], kernel: set[str]) -> tuple[Split, ...]:
    """Leaf first: what a chain has more than those that go on from its function belongs to functions without a row.

    The text may end within the last graph: then the outer end of a chain is missing, as it is of chains that perf does
    not show: these go on from none.
    """
    if len(rows) > 1:
        rows = [*rows[:-1], (rows[-1][0], [])]
    rows = [(shown, [path for path in split if not path.cut]) for shown, split in rows]
    listed = {(shown.comm, *map(normalise, path.names[::-1])): path.share for shown, split in rows for path in split}
    below: dict[tuple[str, ...], float] = defaultdict(float)
    for chain, share_ in listed.items():
        if outer := next((chain[:end] for end in range(len(chain) - 1, 1, -1) if chain[:end] in listed), None):
            below[outer] += share_
    of: list[Split] = []
    for shown, split in rows:
        taken = Split()
        for path in split:
            left = path.share - below[(shown.comm, *map(normalise, path.names[::-1]))]
            own = left if _leafy(shown) else min(left, shown.own) if len(split) == 1 else 0.0
            taken.append(path._replace(share=own))
            if _in_kernel(path.names, kernel):
                taken.append(path._replace(share=left - own, calls=True))
        of.append([path for path in taken if path.share > ROUNDING])
    return tuple(of)


def _fill(shown: OverheadRow, found: Split) -> Split:
    """Make the parts sum up to the row: what is missing has the row's function alone, rounding is shared out."""
    known = fsum(path.share for path in found)
    left = shown.own - known
    if left > ROUNDING * (1 + len(found)) or known <= 0:
        return [*found, Path([shown.symbol] if shown.symbol else [], max(0.0, left), cut=True)]
    return [path._replace(share=path.share * shown.own / known) for path in found]
