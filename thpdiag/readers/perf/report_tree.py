"""The call graphs of perf report: lines below a row, as nodes with shares.

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
the bars of its own branches are. Versions before 4.x print a blank after the dashes. Not a reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from thpdiag.readers.perf.columns import share
from thpdiag.readers.perf.stacks import plain_name, symbol_like

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
DEEPEST = 300  # branches within branches; perf records 127 frames
_HIDDEN = "[...]"
_WORD = re.compile(r"[A-Za-z_][\w.$@]{2,}$")


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
    if found := _BRANCH.match(text):
        return not found["name"] or _function(found["name"])
    if text.lstrip().startswith("|"):
        return _function(bare)
    if _ALONE.match(text):  # of -g flat; or a function without name at address 0
        return "%" in text or len(text.expandtabs()) - len(bare) >= _ALONE_FROM
    if (folded := _FOLDED.match(text)) and (folded["unit"] or ";" in folded["names"]):
        return symbol_like(folded["names"].split(";")[0])
    return _browser_part(text, bare)


def _browser_part(text: str, bare: str) -> bool:
    browser = _BROWSER.match(text)
    if not browser or not _function(browser["name"]) or bare.startswith("[<"):
        return False
    indented = text[:1].isspace() or bool(browser["sign"])
    if browser["value"] and not browser["unit"]:
        return indented and bool(_WORD.match(browser["name"]))
    return indented or bool(re.fullmatch(r"[A-Za-z_][\w.$@]{2,}", bare))


def _function(text: str) -> bool:
    return symbol_like(plain_name(text))


def barred(lines: Sequence[str]) -> bool:
    """Whether the graph is that of --stdio, with bars and dashes."""
    return any(_BRANCH.match(line) for line in lines)


def parse(lines: Sequence[str]) -> list[Node]:
    """The nodes of one row's call graph."""
    shown = [line.expandtabs() for line in lines if line.strip(_BLANK)]
    if barred(shown):
        return _bars(shown)
    if any(_ALONE.match(line) for line in shown):
        return _flat(shown)
    if shown and all(_semicolons(line) for line in shown):
        return [_folded(line) for line in shown]
    return _browser(shown)


def _semicolons(line: str) -> bool:
    """Whether the line is a whole chain; one of a single function has no `;`, but is not indented."""
    found = _FOLDED.match(line)
    return ";" in line or (found is not None and bool(found["unit"]) and not line[:1].isspace())


def _bars(lines: Sequence[str]) -> list[Node]:
    top = Node([], column=-1)
    path = [top]
    for line in lines:
        start = len(line) - len(line.lstrip(_BLANK))
        branch = _BRANCH.match(line)
        while len(path) > 1 and (path[-1].column > start + (0 if branch else 1) or len(path) > DEEPEST):
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


def _value(found: re.Match[str]) -> float | None:
    return share(found["value"]) if found["value"] is not None else None


def _flat(lines: Sequence[str]) -> list[Node]:
    nodes: list[Node] = []
    for line in lines:
        if found := _ALONE.match(line):
            nodes.append(Node([], _value(found), counted=not found["unit"]))
        elif nodes:
            nodes[-1].names.append(plain_name(line.strip()))
    return _own([n for n in nodes if n.names])


def _own(nodes: list[Node]) -> list[Node]:
    """Take from each chain the share of those that go on from its end."""
    stems = {tuple(n.names): n for n in nodes}
    shares = [(tuple(n.names), n.value or 0.0) for n in nodes]
    for names, value in shares:
        shorter = (stems.get(names[:end]) for end in range(len(names) - 1, 0, -1))
        if stem := next((n for n in shorter if n is not None), None):
            stem.value = max(0.0, (stem.value or 0.0) - value)
    return nodes


def _folded(line: str) -> Node:
    found = _FOLDED.match(line)
    if not found:
        return Node([plain_name(n) for n in line.strip().split(";")])
    return Node([plain_name(n) for n in found["names"].split(";")], _value(found), counted=not found["unit"])


@dataclass(slots=True)
class _Line:
    column: int
    name: str
    value: float | None = None
    counted: bool = False
    sign: str = ""  # `-` before an opened branch, `+` before a closed one


def _browser(lines: Sequence[str]) -> list[Node]:
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
    found = _BROWSER.match(line)
    if not found:
        return _Line(0, line.strip())
    first = found.start("value") if found["value"] else found.start("name")
    counted = bool(found["value"]) and not found["unit"]
    return _Line(first, plain_name(found["name"]), _value(found), counted, (found["sign"] or "")[:1])


def _leave(path: list[Node], entry: _Line, *, collapsed: bool, opened: bool) -> None:
    """Go back in the path to the node that a branch belongs to.

    Indentation tells; where it was collapsed, a branch belongs to an opened line right before it, else to the nearest
    node whose branches do not exceed 100 % with it.
    """
    if not collapsed:
        while len(path) > 1 and (path[-1].column >= entry.column or len(path) > DEEPEST):
            path.pop()
        return
    if opened and len(path) <= DEEPEST:
        return
    while len(path) > 1:
        path.pop()
        if sum(c.value or 0 for c in path[-1].children) + (entry.value or 0) <= 100.5:
            return


def walk(nodes: Sequence[Node]) -> Iterator[Node]:
    """All nodes, parents first."""
    for node in nodes:
        yield node
        yield from walk(node.children)


def relative(nodes: Sequence[Node], total: float) -> bool:
    """Whether the shares are of the parent (fractal), not of everything (graph): somewhere parts exceed the whole."""
    if _exceeds(nodes, total):
        return True
    return any(
        not node.counted and _exceeds(node.children, total if node.value is None else node.value)
        for node in walk(nodes)
    )


def _exceeds(parts: Sequence[Node], whole: float) -> bool:
    shares = [n.value or 0 for n in parts if not n.counted]
    return sum(shares) > whole + max(10, len(shares)) * ROUNDING


def counted(nodes: Sequence[Node]) -> float:
    """The samples (or the period) at the branches nearest to the row, 0 if shares are printed as percent."""
    if len(nodes) == 1 and nodes[0].value is None:
        return counted(nodes[0].children)
    return sum(n.value or 0 for n in nodes if n.counted)


@dataclass(frozen=True, slots=True)
class Measure:
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
    """A chain as printed, with its own share of everything. `cut`: it may go on where the text does not show it."""

    names: list[str]
    share: float
    cut: bool = False


def paths(nodes: Sequence[Node], total: float, measure: Measure) -> Iterator[Path]:
    """The chains; what branches leave over belongs to the stem, or to branches that are too small to be shown."""
    for node in nodes:
        yield from _paths(node, [], measure.share(node, total), measure)


def _paths(node: Node, before: list[str], own: float, measure: Measure) -> Iterator[Path]:
    names = before + [n for n in node.names if n != _HIDDEN]
    left = own
    for child in node.children:
        if child.names == [_HIDDEN]:
            continue
        value = measure.share(child, own)
        left -= value
        yield from _paths(child, names, value, measure)
    if names and left > (measure.rounding(own) * (1 + len(node.children)) if node.children else 1e-9):
        yield Path(names, left, bool(node.children) or node.closed)
