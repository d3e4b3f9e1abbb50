"""One case per host: its records, cut into states, with what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from thpdiag.case.captures import between, latest_first
from thpdiag.case.collected import remarks
from thpdiag.case.hosts import Pile, hosts
from thpdiag.case.options import Options
from thpdiag.case.reading import Input
from thpdiag.case.states import effective, runtime_setting, states
from thpdiag.case.window import inside, unplaced
from thpdiag.derive.clock import on_one_clock
from thpdiag.derive.host import derived
from thpdiag.derive.repeated_messages import once
from thpdiag.model import Case, Event, Fact, Note


def cases(given: Input, options: Options) -> list[Case]:
    """One case per host, cut into states, with derived facts."""
    found = hosts(given.readings)
    piles = found.piles or [Pile("", "")]
    if options.case and len(piles) > 1:
        options = replace(options, case="")  # a name for one host names none of several
    return [derived(_case(pile, given, found.notes, options)) for pile in piles]


def _damaged(given: Input) -> tuple[frozenset[str], frozenset[str]]:
    """Members of which something is missing (`*` stands for an archive), and those that may hold wrong data."""
    named = frozenset(given.readings)
    hidden = {p.cite.member if given.readings.get(p.cite.member) else "*" for p in given.problems if p.hides_data}
    spoiled = frozenset(p.cite.member for p in given.problems if p.taints)
    tainted = named if spoiled - named else spoiled
    return frozenset(hidden | tainted), tainted


def _case(pile: Pile, given: Input, notes: Sequence[Note], options: Options) -> Case:
    placed, clock = on_one_clock(pile.records)
    placed = list(once(latest_first(placed)))
    window = options.window.on(clock.zone) if options.window else None
    records = effective(inside(placed, window, options.process, clock.joins))
    facts = [r for r in records if isinstance(r, Fact) and not runtime_setting(r.name) and r.name != "work.seconds"]
    operator = tuple(r for r in records if isinstance(r, Event) and r.fields.get("setting"))
    members_here = {r.cite.member for r in pile.records}
    own = [p for p in given.problems if p.cite.member in members_here or not given.readings.get(p.cite.member)]
    name = options.case or pile.host or pile.root or "host"
    inputs = tuple(i for i in given.inputs if i.member in members_here or not given.readings.get(i.member))
    own += [*clock.problems, *unplaced(placed, window, clock.joins)]
    facts += clock.facts
    told = (*notes, *remarks(pile.records), *clock.notes, *between(placed))
    damaged = _damaged(given)
    return Case(
        name, tuple(facts), states(records, clock), operator, tuple(own), inputs, told, *damaged, options.process,
        pile.host or pile.root,
    )  # fmt: skip
