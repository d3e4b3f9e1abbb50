"""From the call graphs of a perf report to stacks: in which order they are printed, of what whole the shares are, what
is left over, and which chains are not there as a whole. Not a reader.

perf leaves out the first function of a graph with a single root where rows are sorted by symbol first, which it takes
for the row's own. Leaf first it is; root first it is not: then the outermost function is lost. Source: tools/perf/ui/
stdio/hist.c.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Flag, auto

from thpdiag.knowledge.symbols import families_of, normalise
from thpdiag.readers.perf.columns import OverheadRow
from thpdiag.readers.perf.report_tree import ROUNDING, Measure, Node, Path, barred, counted, parse, paths, relative

Split = list[Path]  # names leaf first, share in percent
_ADDRESS = re.compile(r"(?:0x[0-9a-f]{1,16}|[0-9a-f]{16}|0|\[unknown\])$")
_LEAF_ONLY = 0.995  # a row whose own share is nearly all of its total calls nothing that counts

# Functions that start a task or enter the kernel: a chain that begins with one is printed root first.
ROOTS = frozenset(
    {
        *("_start", "__libc_start_main", "__libc_start_call_main", "main"),
        *("start_thread", "clone", "__clone", "clone3", "__clone3"),
        *("page_fault", "asm_exc_page_fault", "async_page_fault"),
        *("system_call_fastpath", "entry_SYSCALL_64_after_hwframe", "entry_SYSCALL_64_fastpath"),
        *("ret_from_fork", "ret_from_fork_asm", "kernel_thread_helper", "child_rip"),
        *("secondary_startup_64", "start_secondary", "cpu_startup_entry", "start_kernel"),
    }
)
# Families whose functions are always called by other functions of the kernel: no chain ends with one.
_INNER = {
    *("compaction", "direct_compact", "thp_fault", "migrate", "zeroing", "reclaim", "page_alloc", "spin_lock"),
    *("lru_lock", "tlb_flush"),
}


@dataclass(frozen=True, slots=True)
class Chains:
    """`of` holds one split per row. `order` is callee or caller; `shares` says what those of branches are of."""

    of: tuple[Split, ...]
    order: str
    shares: str  # absolute; relative to the parent; numbers of samples where each weighs something else


@dataclass(frozen=True, slots=True)
class _Graph:
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
    fractal = Layout.LIVE not in layout and any(relative(nodes, shown.total) for shown, nodes in graphs)
    measures = _measures(graphs, fractal=fractal)
    caller = _caller(graphs, measures)
    rootless = Layout.BY_SYMBOL in layout and any(barred(lines) for _, lines in rows)
    of = tuple(
        _split(shown, nodes, _Graph(measure, caller, rootless))
        for (shown, nodes), measure in zip(graphs, measures, strict=True)
    )
    vary = len({measure.each for measure in measures}) > 1
    shares = "relative" if fractal else "numbers of samples whose periods vary" if vary else "absolute"
    return Chains(of, "caller" if caller else "callee", shares)


def _measures(graphs: Sequence[tuple[OverheadRow, list[Node]]], *, fractal: bool) -> list[Measure]:
    """What the numbers of each graph are worth: percent per counted sample, from the row with the most of them, which
    rounding hurts least. If that is too much for another row, periods vary: then each row has its own.
    """
    counts = [counted(nodes) for _, nodes in graphs]
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

    Programs call the kernel, never the other way round: that tells where functions have no names.
    """
    callee = caller = 0.0
    for (shown, nodes), measure in zip(graphs, measures, strict=True):
        own = normalise(shown.symbol)
        for names, weight, _ in paths(nodes, shown.total, measure):
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
    return caller > callee


def _outward(inner: str, outer: str) -> bool:
    """Whether a chain surely runs from `inner` out to `outer`."""
    kernel = [address.startswith("0xffff") and len(address) == 18 for address in (inner, outer)]
    return outer in ROOTS or (kernel == [True, False] and bool(_ADDRESS.match(outer)))


def _same(name: str, own: str) -> bool:
    """Whether a function of a graph is that of the row; addresses are printed in two ways, of the object and of the
    process.
    """
    return normalise(name) == own or bool(_ADDRESS.match(own) and _ADDRESS.match(name))


def _split(shown: OverheadRow, nodes: list[Node], how: _Graph) -> Split:
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
    for names, weight, cut in paths(nodes, shown.total, how.measure):
        whole = not own or _same(names[-1], own)
        lost = how.rootless and (stem or normalise(names[0]) not in ROOTS)
        cut = not whole or lost or (cut and not own)
        found.append(Path(names[::-1] if whole else [shown.symbol, *names[::-1]], weight, cut))
    return found


def _from_leaf(shown: OverheadRow, nodes: list[Node], how: _Graph) -> Split:
    """Leaf first, with the row's function put back where perf left it out."""
    own = normalise(shown.symbol)
    stem = len(nodes) == 1 and nodes[0].value is None
    other = any(not _same(n.names[0], own) for n in nodes if n.names)
    without = how.rootless and (stem or other)
    return [
        Path([shown.symbol, *names] if own and (without or not _same(names[0], own)) else names, weight, cut)
        for names, weight, cut in paths(nodes, shown.total, how.measure)
    ]


def _under_callers(shown: OverheadRow, nodes: list[Node], measure: Measure) -> Split:
    """With Children columns, root first: only chains that end in the row's function are its own."""
    own = normalise(shown.symbol)
    return [
        Path(names[::-1], weight)
        for names, weight, _ in paths(nodes, shown.total, measure)
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
    if not names or not _same(names[0], normalise(shown.symbol)):
        return []
    return [Path(names, shown.own, bool(nodes))]


def _fill(shown: OverheadRow, found: Split) -> Split:
    """Make the parts sum up to the row: what is missing has the row's function alone, rounding is shared out."""
    known = sum(path.share for path in found)
    left = shown.own - known
    if left > ROUNDING * (1 + len(found)) or known <= 0:
        return [*found, Path([shown.symbol] if shown.symbol else [], max(0.0, left), cut=True)]
    return [path._replace(share=path.share * shown.own / known) for path in found]
