"""From the call graphs of a perf report to stacks.

In which order, of what whole, and what is left over. Not a reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thpdiag.knowledge.symbols import normalise
from thpdiag.readers.perf_columns import OverheadRow
from thpdiag.readers.perf_report_tree import Measure, Node, counted, parse, paths, relative

Split = list[tuple[list[str], float]]  # names leaf first, share in percent
_ROUNDING = 0.006  # percent; perf prints two decimals
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


@dataclass(frozen=True, slots=True)
class Chains:
    """`of` holds one split per row. `order` is callee or caller; `fractal` says that shares were of the parent."""

    of: tuple[Split, ...]
    order: str
    fractal: bool


def chains(rows: Sequence[tuple[OverheadRow, Sequence[str]]]) -> Chains:
    """The stacks of all rows of one event. Order and kind of share hold for the whole text."""
    graphs = [(shown, parse(lines)) for shown, lines in rows]
    measure = Measure(any(relative(nodes, shown.total) for shown, nodes in graphs), _each(graphs))
    caller = _caller(graphs, measure)
    of = tuple(_split(shown, nodes, measure, caller=caller) for shown, nodes in graphs)
    return Chains(of, "caller" if caller else "callee", measure.fractal)


def _each(graphs: Sequence[tuple[OverheadRow, list[Node]]]) -> float:
    """Percent per counted sample, from the row with the most of them, which rounding hurts least."""
    most, total = max(((counted(nodes), shown.total) for shown, nodes in graphs), default=(0.0, 0.0))
    return total / most if most else 1.0


def _leafy(shown: OverheadRow) -> bool:
    return shown.own >= shown.total * _LEAF_ONLY


def _caller(graphs: Sequence[tuple[OverheadRow, list[Node]]], measure: Measure) -> bool:
    """Whether chains are printed root first: by rows that call nothing, whose function must be at the leaf end."""
    callee = caller = 0.0
    for shown, nodes in graphs:
        own = normalise(shown.symbol)
        for names, weight in paths(nodes, shown.total, measure):
            first, last = normalise(names[0]), normalise(names[-1])
            if first == last or len(names) < 2:
                continue
            if not own:
                caller += weight * (first in ROOTS)
                callee += weight * (last in ROOTS)
            elif last == own:
                caller += weight
            elif first == own and _leafy(shown):
                callee += weight
    return caller > callee


def _split(shown: OverheadRow, nodes: list[Node], measure: Measure, *, caller: bool) -> Split:
    """The row's own share over its chains."""
    own = normalise(shown.symbol)
    if shown.total and not shown.own:
        return []  # listed for its callees
    if shown.total > shown.own and not _leafy(shown):
        found = _under_callers(shown, nodes, measure) if caller else _common(shown, nodes)
    elif caller:
        found = [(_to_leaf(names[::-1], own, shown.symbol), w) for names, w in paths(nodes, shown.total, measure)]
    else:
        found = [(_to_leaf(names, own, shown.symbol), w) for names, w in paths(nodes, shown.total, measure)]
    return _fill(shown, found)


def _to_leaf(names: list[str], own: str, symbol: str) -> list[str]:
    """The chain leaf first with the row's function at its leaf, also where the graph was cut before it."""
    return names if not own or normalise(names[0]) == own else [symbol, *names]


def _under_callers(shown: OverheadRow, nodes: list[Node], measure: Measure) -> Split:
    """With Children columns, root first: only chains that end in the row's function are its own."""
    own = normalise(shown.symbol)
    return [
        (names[::-1], weight)
        for names, weight in paths(nodes, shown.total, measure)
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
    if not names or normalise(names[0]) != normalise(shown.symbol):
        return []
    return [(names, shown.own)]


def _fill(shown: OverheadRow, found: Split) -> Split:
    """Make the parts sum up to the row: too much is scaled down, what is missing has the row's function alone."""
    known = sum(weight for _, weight in found)
    if known > shown.own:
        found = [(names, weight * shown.own / known) for names, weight in found]
        known = shown.own
    left = shown.own - known
    if left > _ROUNDING or not found:
        found = [*found, ([shown.symbol] if shown.symbol else [], left)]
    elif left > 0:
        largest = max(range(len(found)), key=lambda i: found[i][1])
        found = [(n, w + left if i == largest else w) for i, (n, w) in enumerate(found)]
    return found
