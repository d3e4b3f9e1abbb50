"""Names for the kernel functions of native recordings, from the tables anywhere in the input.

A table fits by what it says of itself (build id, release, the slide), not by the host it was found with: one who sends
a recording sends its kallsyms in another mail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from thpdiag.knowledge.paths import root_of, system_path
from thpdiag.model import Citation, Fact, Problem, ProblemKind, Profile, Record, SymbolList, SymbolTable
from thpdiag.recognise import Reading, Recogniser

Readings = Mapping[str, Sequence[Reading]]
Again = Callable[[set[str]], Readings]
GONE = "cannot be read a second time as it was, so that its names are missing"


def with_symbols(
    readings: Readings, recogniser: Recogniser, again: Again
) -> tuple[dict[str, list[Reading]], list[Problem]]:
    """The readings with named kernel functions and without tables, and what is to be said about those.

    Lists are looked into only if a recording asks for names, and then all of them once; those that were left where they
    are have to be read `again`.
    """
    problems: dict[Problem, None] = {}
    named: dict[str, list[Reading]] = {}
    tables: list[SymbolTable] | None = None
    for member, found in readings.items():
        named[member] = []
        for reading in found:
            if isinstance(reading.record, SymbolList | SymbolTable):
                continue
            if isinstance(reading.record, Profile) and reading.record.kernel is not None:
                from thpdiag.derive.kernel_symbols import symbolised  # numpy: only where there is a profile

                if tables is None:
                    whole, gone = _whole(readings, again)
                    tables, odd = _tables(whole, recogniser)
                    problems |= dict.fromkeys([*gone, *odd])
                profile, said = symbolised(reading.record, tables)
                problems |= dict.fromkeys(said)
                named[member].append(replace(reading, record=profile))
            else:
                named[member].append(reading)
    return named, list(problems)


def _whole(readings: Readings, again: Again) -> tuple[Readings, list[Problem]]:
    """The readings with all of each list, and of which of them nothing more can be had."""
    left = {member for member, found in readings.items() if any(map(_is_left, found))}
    more = again(left) if left else {}
    held = {m: [*(one for one in readings[m] if not _is_left(one)), *more.get(m, ())] for m in left}
    return {**readings, **held}, [Problem(Citation(m), GONE, ProblemKind.UNREADABLE) for m in sorted(left - set(more))]


def _is_left(reading: Reading) -> bool:
    return isinstance(reading.record, SymbolList) and not reading.record.whole


def _tables(readings: Readings, recogniser: Recogniser) -> tuple[list[SymbolTable], list[Problem]]:
    """All tables of the input, and what is wrong with the lists of which they are made."""
    tables: list[SymbolTable] = []
    problems: list[Problem] = []
    for reading in (reading for found in readings.values() for reading in found):
        record = reading.record
        if isinstance(record, SymbolTable):
            tables.append(_of_its_host(record, readings))
        if not isinstance(record, SymbolList):
            continue
        for made in recogniser.spared(reading.reader, record.cite, _made(record)):
            if isinstance(made, SymbolTable):
                tables.append(_of_its_host(made, readings))
            elif isinstance(made, Problem):
                problems.append(made)
    return tables, problems


def _made(listed: SymbolList) -> Iterator[Record]:
    """The table of a list, and what is odd about it."""
    from thpdiag.symbol_tables import kallsyms  # numpy: only where there is a profile

    table, odd = kallsyms.read(listed)
    yield table
    yield from odd


def _of_its_host(table: SymbolTable, readings: Readings) -> SymbolTable:
    """/proc/kallsyms does not say of which kernel it is; the rest of the same copy of the host's files does."""
    member = table.cite.member
    if table.release or table.build_id or system_path(member) != "proc/kallsyms":
        return table
    told = {
        str(fact.value)
        for other, found in readings.items()
        if root_of(other) == root_of(member) and system_path(other) is not None
        for fact in (reading.record for reading in found)
        if isinstance(fact, Fact) and fact.name == "kernel.release"
    }
    return replace(table, release=told.pop()) if len(told) == 1 else table
