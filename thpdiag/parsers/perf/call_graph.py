"""Call graphs of perf report and perf top: the lines below a row as nodes with shares, and as stacks.

            |
            ---compact_zone                     stdio: bars; `--12.34%--` opens a branch
               |--60.00%--try_to_compact_pages
               |          __alloc_pages_direct_compact
                --40.00%--kcompactd

   - generic_exec_single                        copied from the terminal browser: indentation, no bars
      - 99.92% smp_call_function_single         a `+` instead of `-`: closed, its branches are hidden
           smp_call_function_many

`-g flat` prints a share alone and the names below it; the share of a chain includes that of longer chains that begin
with it. `-g folded` prints `12.34% a;b;c`. In stdio a branch whose bar is in column c has its names in column c+11, as
have the bars of its own branches. Versions before 4.x print a blank after the dashes.

Graphs are printed leaf first (callee order) or root first (caller order); shares are of everything or of the parent.
Where rows are sorted by symbol first, perf omits the first function of a graph with a single root, because it assumes
that this is the row's function. That holds leaf first; root first the outermost function is lost.
Source: tools/perf/ui/stdio/hist.c.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Flag, auto
from itertools import takewhile
from math import fsum  # unlike sum, the same on every version of Python
from typing import NamedTuple

from thpdiag.knowledge.symbols import families_of, normalise
from thpdiag.model.profile import HIDDEN
from thpdiag.parsers.perf._texts import plain_name, symbol_like

_BRANCH = re.compile(r"[\s|]*(?P<dash>--+)(?:\s?(?P<value>\d{1,18}(?:[.,]\d{1,2})?)(?P<unit>%?)--)?\s?(?P<name>\S.*)?$")
_BROWSER = re.compile(
    r"\s*(?P<sign>[+-]\s+)?(?:(?P<value>\d{1,3}[.,]\d{1,2}(?=%)|\d{1,18}(?=\s))(?P<unit>%?)\s+)?(?P<name>\S.*)$"
)
_FOLDED = re.compile(r"\s*(?:[+-]\s+)?(?P<value>\d{1,18}(?:[.,]\d{1,2})?)(?P<unit>%?)\s+(?P<names>\S.*)$")
_LONE_SHARE = re.compile(r"\s*(?P<value>\d{1,18}(?:[.,]\d{1,2})?)(?P<unit>%?)$")
_BLANKS = " |\t"
_NAME_OFFSET = 11
ROUNDING = 0.006  # percent; the rounding error of perf's two decimals
_MIN_LONE_COLUMN = 10  # least column of a share alone (-g flat)
MIN_INDENT = 3  # blanks before each line of a graph with bars
_BRANCH_WITH_VALUE = re.compile(r"--\s?\d[\d.,]*%?--")
MAX_BRANCH_DEPTH = 300  # branches within branches; perf records 127 frames
_ELLIPSIS = "..."
_WORD = re.compile(r"[A-Za-z_][\w.$@]{2,}")


@dataclass(frozen=True, slots=True)
class OverheadRow:
    """One row; shares in percent. `total` includes callees where the text shows that, else it equals `self_share`.

    `others` holds self share and samples of the other events of a group.
    """

    self_share: float
    total: float
    samples: int = 0
    comm: str = ""
    pid: int | None = None
    dso: str = ""
    symbol: str = ""
    kernel: bool | None = None
    marked: bool = False  # has perf's letter ([k], [.]) before its symbol, so it is no line of a call graph
    column: int = 0  # in which the first share ends
    sign: str = ""  # in the terminal browser: `-` open, `+` closed
    gap: int = 0  # blanks after the shares
    cpu: int | None = None
    shares: tuple[float, ...] = ()  # all shares as printed
    others: tuple[tuple[float, int], ...] = ()


def parse_percent(text: str) -> float:
    """A percentage as printed, with decimal point or comma."""
    return float(text.rstrip("%").replace(",", "."))


@dataclass(slots=True)
class Node:
    """Functions that follow one another without a branch, then branches. `value` is as printed, None if nothing is."""

    names: list[str]
    value: float | None = None
    column: int = 0
    counted: bool = False  # `value` is a number of samples or a period, not percent
    closed: bool = False  # in the browser: its branches are hidden
    children: list[Node] = field(default_factory=list)


RowLines = tuple[OverheadRow, Sequence[str]]
RowGraph = tuple[OverheadRow, list[Node]]


def is_graph_line(text: str) -> bool:
    """Whether a line can be part of a call graph of any kind."""
    bare = text.strip(_BLANKS)
    if not bare:
        return "|" in text
    if bare == "-" * len(bare):
        return False
    if bare.endswith(_ELLIPSIS):
        return len(text) - len(text.lstrip(_BLANKS)) >= _MIN_LONE_COLUMN
    if match := _BRANCH.match(text):
        return not match["name"] or symbol_like(plain_name(match["name"]))
    if text.lstrip().startswith("|"):
        return symbol_like(plain_name(bare))
    if _LONE_SHARE.match(text):  # of -g flat, or a function without a name at address 0
        return "%" in text or len(text.expandtabs()) - len(bare) >= _MIN_LONE_COLUMN or text == " 0"
    if (folded := _FOLDED.match(text)) and (folded["unit"] or ";" in folded["names"]):
        return symbol_like(folded["names"].split(";")[0])
    return _is_browser_line(text, bare)


def _is_browser_line(text: str, bare: str) -> bool:
    browser = _BROWSER.match(text)
    if not browser or not symbol_like(plain_name(browser["name"])) or bare.startswith("[<"):
        return False
    indented = text[:1].isspace() or bool(browser["sign"])
    if browser["value"] and not browser["unit"]:  # -g folded,count does not indent a chain of one function
        return bool(_WORD.fullmatch(browser["name"]))
    return indented or bool(_WORD.fullmatch(bare))


def has_bars(lines: Sequence[str]) -> bool:
    """Whether the graph has the bars and dashes of --stdio."""
    return any(_BRANCH.match(line) for line in lines)


def is_squeezed(lines: Sequence[str]) -> bool:
    """Whether the graph lost its blanks, which show the parent of each branch: perf indents it by twelve."""
    return any(not line[:MIN_INDENT].isspace() for line in lines if _BRANCH.match(line))


def restore_indentation(lines: Sequence[str]) -> list[str] | None:
    """Return a graph that lost its blanks with perf's blanks, None if its bars are ambiguous.

    Names follow their branch before any branch of its own. A branch has a bar for each branch above it that has a
    further sibling, and one of its own unless it is the last sibling; no branch follows a last sibling on the same
    level. So the number of bars leaves one level only.
    """
    if not any("|" in line for line in lines) and sum(bool(_BRANCH_WITH_VALUE.search(line)) for line in lines) > 1:
        return None
    restored: list[str] = []
    above: list[bool] = []  # by level, outermost first: the branch is the last of its siblings
    root, column = _MIN_LONE_COLUMN + 2, 0
    for line in lines:
        bare = line.strip(_BLANKS)
        branch = _BRANCH.match(line)
        if not bare:
            continue
        if not branch:
            restored.append(" " * (column + _NAME_OFFSET) + bare)
            continue
        if branch["value"] is None:
            if restored:
                return None
            restored.append(" " * root + bare)
            root, column = root + 3, root + 3 - _NAME_OFFSET
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
        column = root + level * _NAME_OFFSET
        restored.append(" " * column + (" " if last else "|") + bare)
    return restored


def is_cut(lines: Sequence[str]) -> bool:
    """Whether the graph lost the ends of its lines, so that branches have neither names nor shares."""
    return any(line.endswith(_ELLIPSIS) for line in lines)


def shared_stem(lines: Sequence[str]) -> list[str]:
    """Return the functions that all chains of a damaged graph share: those above its first branch."""
    shared = list(takewhile(lambda line: not _BRANCH_WITH_VALUE.search(line) and not line.endswith(_ELLIPSIS), lines))
    return [*shared, f"--1.00%--{HIDDEN}"]


def parse_graph(lines: Sequence[str]) -> list[Node]:
    """Return the nodes of one row's call graph."""
    filled = [line.expandtabs() for line in lines if line.strip(_BLANKS)]
    if has_bars(filled):
        return _parse_bars(filled)
    if any(_LONE_SHARE.match(line) for line in filled):
        return _parse_flat(filled)
    if filled and all(_is_folded_line(line) for line in filled):
        return [_parse_folded(line) for line in filled]
    return _parse_browser(filled)


def _is_folded_line(line: str) -> bool:
    """Whether the line is a complete chain; one of a single function has no `;`, but is not indented."""
    match = _FOLDED.match(line)
    return ";" in line or (match is not None and bool(match["unit"]) and not line[:1].isspace())


def _parse_bars(lines: Sequence[str]) -> list[Node]:
    top = Node([], column=-1)
    path = [top]
    for line in lines:
        start = len(line) - len(line.lstrip(_BLANKS))
        branch = _BRANCH.match(line)
        while len(path) > 1 and (path[-1].column > start + (0 if branch else 1) or len(path) > MAX_BRANCH_DEPTH):
            path.pop()
        if not branch:
            path[-1].names.append(plain_name(line.strip(_BLANKS)))
            continue
        root = branch["value"] is None
        column = start + 3 if root else start - 1 + _NAME_OFFSET
        names = [plain_name(branch["name"])] if branch["name"] else []
        node = Node(names, _value(branch), column, not root and not branch["unit"])
        path[-1].children.append(node)
        path.append(node)
    return top.children


def _value(match: re.Match[str]) -> float | None:
    return parse_percent(match["value"]) if match["value"] is not None else None


def _parse_flat(lines: Sequence[str]) -> list[Node]:
    nodes: list[Node] = []
    for line in lines:
        if match := _LONE_SHARE.match(line):
            nodes.append(Node([], _value(match), counted=not match["unit"]))
        elif nodes:
            nodes[-1].names.append(plain_name(line.strip()))
    return _subtract_continuations([n for n in nodes if n.names])


def _subtract_continuations(nodes: list[Node]) -> list[Node]:
    """Subtract from each chain the shares of longer chains that begin with it."""
    nodes_by_names = {tuple(n.names): n for n in nodes}
    shares = [(tuple(n.names), n.value or 0.0) for n in nodes]
    for names, value in shares:
        prefixes = (nodes_by_names.get(names[:end]) for end in range(len(names) - 1, 0, -1))
        if prefix_node := next((n for n in prefixes if n is not None), None):
            prefix_node.value = max(0.0, (prefix_node.value or 0.0) - value)
    return nodes


def _parse_folded(line: str) -> Node:
    match = _FOLDED.match(line)
    if not match:
        return Node([plain_name(n) for n in line.strip().split(";")])
    return Node([plain_name(n) for n in match["names"].split(";")], _value(match), counted=not match["unit"])


@dataclass(slots=True)
class _BrowserLine:
    column: int
    name: str
    value: float | None = None
    counted: bool = False
    sign: str = ""  # `-` before an opened branch, `+` before a closed one


def _parse_browser(lines: Sequence[str]) -> list[Node]:
    entries = [_browser_line(line) for line in lines]
    collapsed = len(entries) > 2 and max(r.column for r in entries) - min(r.column for r in entries) <= 2
    top = Node([], column=-1)
    path = [top]
    after_open = False
    for entry in entries:
        if entry.value is not None:
            _pop_to_parent(path, entry, collapsed=collapsed, after_open=after_open)
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
        after_open = entry.sign == "-"
    return top.children


def _browser_line(line: str) -> _BrowserLine:
    match = _BROWSER.match(line)
    if not match:
        return _BrowserLine(0, line.strip())
    column = match.start("value") if match["value"] else match.start("name")
    counted = bool(match["value"]) and not match["unit"]
    return _BrowserLine(column, plain_name(match["name"]), _value(match), counted, (match["sign"] or "")[:1])


def _pop_to_parent(path: list[Node], line: _BrowserLine, *, collapsed: bool, after_open: bool) -> None:
    """Shorten the path to the parent of a branch.

    Indentation shows the parent. Where it was collapsed, this is the open line directly above, else the nearest node
    whose branches do not exceed 100 % with this one.
    """
    if not collapsed:
        while len(path) > 1 and (path[-1].column >= line.column or len(path) > MAX_BRANCH_DEPTH):
            path.pop()
        return
    if after_open and len(path) <= MAX_BRANCH_DEPTH:
        return
    while len(path) > 1:
        path.pop()
        if fsum(c.value or 0 for c in path[-1].children) + (line.value or 0) <= 100.5:
            return


def walk_nodes(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield all nodes, parents first."""
    for node in nodes:
        yield node
        yield from walk_nodes(node.children)


def _branch_sums(nodes: Sequence[Node], total: float) -> Iterator[tuple[float, float, float]]:
    """Yield the sum of the branches at each fork, the share of their parent, and the rounding error of the sum."""
    for whole, parts in [
        (total, nodes),
        *((total if n.value is None else n.value, n.children) for n in walk_nodes(nodes)),
    ]:
        shares = [node.value for node in parts if not node.counted and node.value is not None]
        if shares:
            yield fsum(shares), whole, max(10, len(shares)) * ROUNDING


def _compare_branch_sums(graphs: Sequence[RowGraph]) -> tuple[int, int]:
    """Count the forks whose branches exceed their parent, and those whose branches add up to it.

    Shares of the parent (fractal) exceed it, shares of everything (graph) add up to it. Where the parent has nearly
    all, both may be so.
    """
    sums = [branch_sum for row, nodes in graphs for branch_sum in _branch_sums(nodes, row.total)]
    exceeding = sum(parts > whole + error for parts, whole, error in sums)
    equal = sum(abs(parts - whole) <= error and whole < _MAX_DISTINCT_PERCENT for parts, whole, error in sums)
    return exceeding, equal


def correct_totals(rows: Sequence[RowLines], *, has_totals_only: bool) -> list[RowLines]:
    """Return the rows of `perf report -F overhead,...` with totals that fit their graphs.

    perf prints the share without callees next to the graph of the share with them. Root first such a graph has branches
    that end in the row's function and branches that begin with it, for its callees. Leaf first the branches only exceed
    the row, while those of functions without callees add up to it. Where shares are of the parent, all add up to 100 %.
    `has_totals_only`: the text has shares with callees only; the share without them is that of the chains that end in
    the row's function.
    """
    graphs = [(row, parse_graph(lines)) for row, lines in rows]
    if has_totals_only:
        ending = (min(_ending_share(row.symbol, nodes), row.total) for row, nodes in graphs)
        return [(replace(row, self_share=share), lines) for (row, lines), share in zip(rows, ending, strict=True)]
    parts = [_ending_and_calling_shares(row, nodes) for row, nodes in graphs]
    sums = [(row.self_share, _branch_total(nodes)) for row, nodes in graphs]
    both = [(row.self_share, ending) for (row, _), (ending, below) in zip(rows, parts, strict=True) if ending and below]
    absolute = [_matches_row(self_share, share) for self_share, share in both or sums]
    if both and sum(absolute) <= len(both) / 2:  # shares are of the parent
        totals = [
            row.self_share * (ending + below) / ending if ending and below else row.total
            for (row, _), (ending, below) in zip(rows, parts, strict=True)
        ]
    # a row without a function (--sort comm) calls nothing
    elif any(absolute) and any(r.symbol and s > o + 10 * ROUNDING for (r, _), (o, s) in zip(rows, sums, strict=True)):
        totals = [max(row.total, share) for (row, _), (_, share) in zip(rows, sums, strict=True)]
    else:
        return list(rows)
    return [(replace(row, total=total), lines) for (row, lines), total in zip(rows, totals, strict=True)]


def _matches_row(self_share: float, branches: float) -> bool:
    """Whether branches add up to the row, and not to 100 % of it."""
    error = max(10 * ROUNDING, _MAX_HIDDEN_RATIO * self_share)
    return 0 < self_share < _MAX_DISTINCT_PERCENT and abs(branches - self_share) <= error


def _ending_and_calling_shares(row: OverheadRow, nodes: Sequence[Node]) -> tuple[float, float]:
    """Return the shares as printed of the chains that end in the row's function, and of those that begin with it."""
    function = normalise(row.symbol)
    ending = below = 0.0
    for node in nodes if function and len(nodes) > 1 else ():
        if not node.counted and node.names and node.names != [HIDDEN]:
            if same_function(node.names[0], function) and (len(node.names) > 1 or node.children):
                below += node.value or 0.0
            elif _chain_ends_in(node, function):
                ending += node.value or 0.0
    return ending, below


def _chain_ends_in(node: Node, function: str) -> bool:
    """Whether a chain from this node ends in a function."""
    if node.children:
        return any(_chain_ends_in(child, function) for child in node.children)
    return same_function(node.names[-1], function)


def _branch_total(nodes: Sequence[Node]) -> float:
    """Return the sum of the branches nearest to the row, in percent as printed."""
    if len(nodes) == 1 and nodes[0].value is None:
        return _branch_total(nodes[0].children)
    return fsum(node.value or 0.0 for node in nodes if not node.counted)


def _ending_share(symbol: str, nodes: Sequence[Node]) -> float:
    """Return the share of the chains that end in a function, root first."""
    function = normalise(symbol)
    chains = (p for p in paths(nodes, 0.0, ShareScale()) if len(p.names) > 1 and normalise(p.names[-1]) == function)
    return fsum(path.share for path in chains)


def sum_of_counts(nodes: Sequence[Node]) -> float:
    """Return the samples (or the period) at the branches nearest to the row, 0 if shares are percent."""
    if len(nodes) == 1 and nodes[0].value is None:
        return sum_of_counts(nodes[0].children)
    return fsum(n.value or 0 for n in nodes if n.counted)


class ShareScale(NamedTuple):
    """The unit of a text's numbers: percent of the parent, percent of everything, or counts."""

    fractal: bool = False
    percent_per_count: float = 1.0

    def share(self, node: Node, parent: float) -> float:
        """A node's share of everything in percent, of which its parent has `parent`."""
        if node.value is None:
            return parent
        if node.counted:
            return node.value * self.percent_per_count
        return parent * node.value / 100 if self.fractal else node.value

    def rounding(self, parent: float) -> float:
        """Return the rounding error of a branch's share, in percent of everything."""
        return ROUNDING * parent / 100 if self.fractal else ROUNDING


class Path(NamedTuple):
    """A chain as printed, with its own share of everything. `cut`: it may go on where the text does not show it.

    `calls`: its innermost function, one of the kernel, calls others that the text does not show.
    """

    names: list[str]
    share: float
    cut: bool = False
    calls: bool = False


def paths(nodes: Sequence[Node], total: float, scale: ShareScale) -> Iterator[Path]:
    """Yield the chains. What branches leave over belongs to the stem, or to branches that are too small to be shown."""
    for node in nodes:
        yield from _node_paths(node, [], scale.share(node, total), scale)


def _node_paths(node: Node, before: list[str], share: float, scale: ShareScale) -> Iterator[Path]:
    names = before + [n for n in node.names if n != HIDDEN]
    remainder = share
    for child in node.children:
        if child.names == [HIDDEN]:
            continue
        value = scale.share(child, share)
        remainder -= value
        yield from _node_paths(child, names, value, scale)
    if names and remainder > (scale.rounding(share) * (1 + len(node.children)) if node.children else 1e-9):
        yield Path(names, remainder, bool(node.children) or node.closed)


RowPaths = list[Path]  # names leaf first, share in percent
_ADDRESS = re.compile(r"(?:0x[0-9a-f]{1,16}|[0-9a-f]{16}|0|\[unknown\])$")
_MAX_DISTINCT_PERCENT = 90.0  # percent; a larger share looks the same as one of the parent
_MAX_HIDDEN_RATIO = 0.1  # share of a row that perf may omit from its graph because branches are small
_MIN_MISSING_PERCENT = 5.0  # percent that the rows may lack before a text with Children columns counts as cut
_MAX_SUM_PERCENT = 101.0  # percent: all, with rounding
_MIN_LEAF_RATIO = 0.995  # self share by total of a row that calls nothing significant

# Functions by which the kernel is entered, and the first functions of kernel threads.
_ENTRIES = frozenset(
    {
        *("page_fault", "asm_exc_page_fault", "async_page_fault"),
        *("system_call_fastpath", "entry_SYSCALL_64_after_hwframe", "entry_SYSCALL_64_fastpath"),
        *("ret_from_fork", "ret_from_fork_asm", "kernel_thread_helper", "child_rip"),
        *("secondary_startup_64", "start_secondary", "cpu_startup_entry", "start_kernel"),
    }
)
# Also the functions that start a task: a chain that begins with one of these is printed root first.
ROOTS = _ENTRIES | {
    *("_start", "__libc_start_main", "__libc_start_call_main", "main"),
    *("start_thread", "clone", "__clone", "clone3", "__clone3"),
}
# Families whose functions are always called by other kernel functions: a chain that ends with one was cut.
_INNER_FAMILIES = {
    *("compaction", "direct_compact", "thp_fault", "migrate", "zeroing", "reclaim", "page_alloc", "spin_lock"),
    *("lru_lock", "tlb_flush"),
}


class SplitRows(NamedTuple):
    """The chains of each row, and how the text is to be read. `order` is callee or caller.

    `exceeding` counts the forks whose branches add up to more than their parent.
    """

    by_row: tuple[RowPaths, ...]
    order: str
    shares: str  # absolute, relative (to the parent), or numbers of samples whose periods vary
    exceeding: int = 0


class _GraphLayout(NamedTuple):
    """How the graphs of a text are to be read."""

    scale: ShareScale
    is_caller_order: bool
    lacks_root: bool  # perf omitted the first function of graphs with a single root


class Layout(Flag):
    """Properties of perf's output that change how its graphs are to be read.

    `LIVE`: perf top changes shares while it prints, so that branches may exceed their parent. `BY_SYMBOL`: rows are
    sorted by symbol alone, and the first function of a graph with a single root is omitted.
    """

    PLAIN = 0
    LIVE = auto()
    BY_SYMBOL = auto()


def split_rows(rows: Sequence[RowLines], layout: Layout = Layout.PLAIN) -> SplitRows:
    """Return the stacks of all rows of one event. Order and kind of share are the same in the whole text."""
    graphs = [(row, parse_graph(lines)) for row, lines in rows]
    exceeding, equal = (0, 0) if Layout.LIVE in layout else _compare_branch_sums(graphs)
    fractal = exceeding > equal
    scales = _share_scales(graphs, fractal=fractal)
    is_caller_order = _is_caller_order(graphs, scales)
    lacks_root = Layout.BY_SYMBOL in layout and any(has_bars(lines) for _, lines in rows)
    by_row = tuple(
        _split_row(row, nodes, _GraphLayout(scale, is_caller_order, lacks_root))
        for (row, nodes), scale in zip(graphs, scales, strict=True)
    )
    if _total_share(by_row) + _MIN_MISSING_PERCENT < max((row.total for row, _ in graphs), default=0.0):
        by_row = _split_by_totals(graphs, scales, by_row, is_caller_order=is_caller_order)
    varies = len({scale.percent_per_count for scale in scales}) > 1
    shares = "relative" if fractal else "numbers of samples whose periods vary" if varies else "absolute"
    return SplitRows(by_row, "caller" if is_caller_order else "callee", shares, 0 if fractal else exceeding)


def _share_scales(graphs: Sequence[RowGraph], *, fractal: bool) -> list[ShareScale]:
    """Return the scale of each graph.

    Percent per counted sample comes from the row with the most samples, where rounding matters least. If that is too
    much for another row, periods vary, and each row has its own scale.
    """
    counts = [sum_of_counts(nodes) for _, nodes in graphs]
    max_count, total = max(((n, row.total) for n, (row, _) in zip(counts, graphs, strict=True)), default=(0.0, 0.0))
    each = total / max_count if max_count else 1.0
    varies = any(n * each > row.total * 1.02 + ROUNDING for n, (row, _) in zip(counts, graphs, strict=True))
    return [
        ShareScale(fractal, row.total / n if varies and n else each) for n, (row, _) in zip(counts, graphs, strict=True)
    ]


def _is_leaf(row: OverheadRow) -> bool:
    return row.self_share >= row.total * _MIN_LEAF_RATIO


def _is_caller_order(graphs: Sequence[RowGraph], scales: Sequence[ShareScale]) -> bool:
    """Whether chains are printed root first: in rows that call nothing, the row's function must be at the leaf end.

    Programs call the kernel, never the reverse: that decides where functions have no names. Without any evidence it is
    perf's default: root first with Children columns, else leaf first.
    """
    callee = caller = 0.0
    for (row, nodes), scale in zip(graphs, scales, strict=True):
        function = normalise(row.symbol)
        for names, weight, *_ in paths(nodes, row.total, scale):
            first, last = normalise(names[0]), normalise(names[-1])
            if first == last or len(names) < 2:
                continue
            if function and last == function:
                caller += weight
            elif function and _is_leaf(row) and first == function:
                callee += weight
            else:
                caller += weight * _runs_outward(last, first) * (not function or bool(_ADDRESS.match(function)))
                callee += weight * _runs_outward(first, last) * _is_leaf(row)
                if function and not _is_leaf(row):  # its graph shows its callees, or its callers
                    caller += weight * (first in ROOTS and _lacks_caller([last]))
                    callee += weight * (last in ROOTS and _lacks_caller([first]))
    if caller == callee:
        return any(row.total > row.self_share for row, _ in graphs)
    return caller > callee


def _runs_outward(inner: str, outer: str) -> bool:
    """Whether a chain certainly runs from `inner` out to `outer`."""
    kernel = [address.startswith("0xffff") and len(address) == 18 for address in (inner, outer)]
    return outer in ROOTS or (kernel == [True, False] and bool(_ADDRESS.match(outer)))


def same_function(name: str, function: str) -> bool:
    """Whether a function of a graph is that of the row. An address may be that of the object or of the process."""
    return normalise(name) == function or bool(_ADDRESS.match(function) and _ADDRESS.match(name))


def _split_row(row: OverheadRow, nodes: list[Node], layout: _GraphLayout) -> RowPaths:
    """Split the row's self share over its chains."""
    if row.total and not row.self_share:
        return []  # listed only because of its callees
    if row.total > row.self_share and not _is_leaf(row):
        split = _split_caller_total(row, nodes, layout.scale) if layout.is_caller_order else _shared_chain(row, nodes)
    elif layout.is_caller_order:
        split = _split_caller_order(row, nodes, layout)
    else:
        split = _split_callee_order(row, nodes, layout)
    return [p._replace(cut=p.cut or _lacks_caller(p.names[-1:])) for p in _scale_to_row(row, split)]


def _lacks_caller(last: Sequence[str]) -> bool:
    return any(name not in ROOTS and not _INNER_FAMILIES.isdisjoint(families_of(name)) for name in map(normalise, last))


def _split_caller_order(row: OverheadRow, nodes: list[Node], layout: _GraphLayout) -> RowPaths:
    """Split a row root first. Where the graph was cut before the row's function, functions between are missing."""
    function = normalise(row.symbol)
    is_single = len(nodes) == 1 and nodes[0].value is None
    split: RowPaths = []
    for names, weight, cut, _ in paths(nodes, row.total, layout.scale):
        is_complete = not function or same_function(names[-1], function)
        is_rootless = layout.lacks_root and (is_single or normalise(names[0]) not in ROOTS)
        cut = not is_complete or is_rootless or (cut and not function)
        split.append(Path(names[::-1] if is_complete else [row.symbol, *names[::-1]], weight, cut))
    return split


def _split_callee_order(row: OverheadRow, nodes: list[Node], layout: _GraphLayout) -> RowPaths:
    """Split a row leaf first, with the row's function restored where perf omitted it."""
    function = normalise(row.symbol)
    is_single = len(nodes) == 1 and nodes[0].value is None
    has_other = any(not same_function(n.names[0], function) for n in nodes if n.names)
    adds_leaf = layout.lacks_root and (is_single or has_other)
    return [
        Path(
            [row.symbol, *names] if function and (adds_leaf or not same_function(names[0], function)) else names,
            weight,
            cut,
        )
        for names, weight, cut, _ in paths(nodes, row.total, layout.scale)
    ]


def _split_caller_total(row: OverheadRow, nodes: list[Node], scale: ShareScale) -> RowPaths:
    """With Children columns, root first: only chains that end in the row's function are its own."""
    function = normalise(row.symbol)
    return [
        Path(names[::-1], weight)
        for names, weight, *_ in paths(nodes, row.total, scale)
        if len(names) > 1 and normalise(names[-1]) == function
    ]


def _shared_chain(row: OverheadRow, nodes: list[Node]) -> RowPaths:
    """With Children columns, leaf first: the graph is that of the total, so only the stem of all chains is certain."""
    names: list[str] = []
    while len(nodes) == 1 and (not names or nodes[0].value is None):
        names += nodes[0].names
        nodes = nodes[0].children
    if not names or not same_function(names[0], normalise(row.symbol)):
        return []
    return [Path(names, row.self_share, bool(nodes))]


def _total_share(by_row: Sequence[RowPaths]) -> float:
    return fsum(path.share for split in by_row for path in split)


def _split_by_totals(
    graphs: Sequence[RowGraph], scales: Sequence[ShareScale], self_split: tuple[RowPaths, ...], *, is_caller_order: bool
) -> tuple[RowPaths, ...]:
    """Return the stacks of a text with Children columns that ends before the rows of the functions that ran.

    They come from the shares with callees of the rows that are there, unless `self_split` has more, or those shares
    contradict one another.
    """
    kernel = {normalise(row.symbol) for row, _ in graphs if row.kernel}
    rows = [
        (row, [p._replace(names=p.names[::-1]) if is_caller_order else p for p in paths(nodes, row.total, scale)])
        for (row, nodes), scale in zip(graphs, scales, strict=True)
    ]
    split = _split_outermost(rows, kernel) if is_caller_order else _split_callee_totals(rows, kernel)
    is_better = _total_share(self_split) + _MIN_MISSING_PERCENT < _total_share(split) <= _MAX_SUM_PERCENT
    return split if is_better else self_split


def _has_kernel_leaf(names: Sequence[str], kernel: set[str]) -> bool:
    """Whether a chain has a kernel function: then its innermost function is one too."""
    normalised = map(normalise, names)
    return any(name in kernel or name in _ENTRIES or _lacks_caller([name]) for name in normalised)


def _split_outermost(rows: Sequence[tuple[OverheadRow, RowPaths]], kernel: set[str]) -> tuple[RowPaths, ...]:
    """Root first: return the chains below each function that is in no graph of a row before it.

    The text may end within the last graph: then its last chain may go on.
    """
    by_row: list[RowPaths] = []
    functions: dict[str, set[str]] = defaultdict(set)  # by task, of the chains taken
    outermost: dict[str, set[str]] = defaultdict(set)
    last = next((path for path in reversed(rows[-1][1]) if not path.cut), None)
    for row, split in rows:
        function, taken = normalise(row.symbol), RowPaths()
        for path in (split or [Path([row.symbol], row.self_share)]) if function not in functions[row.comm] else ():
            names = {normalise(name) for name in path.names}
            if path.share > 0 and names.isdisjoint(outermost[row.comm]):
                taken.append(path._replace(cut=True, calls=path.cut or path is last))
                functions[row.comm] |= names
        outermost[row.comm].add(function)
        by_row.append(taken)
    return _separate_self_shares(by_row, [row for row, _ in rows], kernel)


def _separate_self_shares(
    by_row: Sequence[RowPaths], rows: Sequence[OverheadRow], kernel: set[str]
) -> tuple[RowPaths, ...]:
    """Separate the self share of each function from what it calls, where its row has the self share.

    Nothing is known of the callees of a program's functions.
    """
    printed_shares = {(row.comm, normalise(row.symbol)): row.self_share for row in rows}
    sums: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row, split in zip(rows, by_row, strict=True):
        for path in split:
            sums[row.comm, normalise(path.names[0])].append(path.share)
    separated: list[RowPaths] = []
    for row, split in zip(rows, by_row, strict=True):
        taken = RowPaths()
        for path in split:
            function = row.comm, normalise(path.names[0])
            share = 0.0 if path.calls else path.share
            if (printed := printed_shares.get(function, 0.0)) > 0:
                if fsum(sums[function]) <= printed + len(sums[function]) * ROUNDING:
                    share = path.share
                elif len(sums[function]) == 1:
                    share = min(printed, path.share)
            taken.append(path._replace(share=share, calls=False))
            if _has_kernel_leaf(path.names, kernel):
                taken.append(path._replace(share=path.share - share, calls=True))
        separated.append([path for path in taken if path.share > ROUNDING])
    return tuple(separated)


def _split_callee_totals(rows: Sequence[tuple[OverheadRow, RowPaths]], kernel: set[str]) -> tuple[RowPaths, ...]:
    """Leaf first: the share of a chain minus that of chains that go on from it belongs to functions without a row.

    The text may end within the last graph, so the outer end of a chain may be missing, as it is of chains that perf
    does not show; these go on from no other chain.
    """
    if len(rows) > 1:
        rows = [*rows[:-1], (rows[-1][0], [])]
    rows = [(row, [path for path in split if not path.cut]) for row, split in rows]
    listed = {(row.comm, *map(normalise, path.names[::-1])): path.share for row, split in rows for path in split}
    below: dict[tuple[str, ...], float] = defaultdict(float)
    for chain, share_of_chain in listed.items():
        if outer := next((chain[:end] for end in range(len(chain) - 1, 1, -1) if chain[:end] in listed), None):
            below[outer] += share_of_chain
    by_row: list[RowPaths] = []
    for row, split in rows:
        taken = RowPaths()
        for path in split:
            remainder = path.share - below[(row.comm, *map(normalise, path.names[::-1]))]
            self_share = remainder if _is_leaf(row) else min(remainder, row.self_share) if len(split) == 1 else 0.0
            taken.append(path._replace(share=self_share))
            if _has_kernel_leaf(path.names, kernel):
                taken.append(path._replace(share=remainder - self_share, calls=True))
        by_row.append([path for path in taken if path.share > ROUNDING])
    return tuple(by_row)


def _scale_to_row(row: OverheadRow, split: RowPaths) -> RowPaths:
    """Make the chains add up to the row: what is missing belongs to the row's function, rounding is distributed."""
    known = fsum(path.share for path in split)
    missing = row.self_share - known
    if missing > ROUNDING * (1 + len(split)) or known <= 0:
        return [*split, Path([row.symbol] if row.symbol else [], max(0.0, missing), cut=True)]
    return [path._replace(share=path.share * row.self_share / known) for path in split]
