"""Where the places that speak of a THP setting disagree: with the running kernel, with each other, with what is seen.

Kinds of setting.contradiction: `overridden` (something says otherwise than the running kernel has, and nobody is known
to have changed it by hand), `by_hand` (somebody did), `ineffective` (a start-up file says otherwise and cannot work),
`start_up` (two start-up files differ), `pending` (the boot menu says otherwise than the present boot line), `size` (one
size of huge pages is set otherwise than all), `traces` (huge pages exist although nothing allows them). That nothing
contradicts the running kernel is said too, as `none`, where its boot line was read.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from thpdiag.derive.boot_line import present
from thpdiag.derive.next_boot import menu_entry
from thpdiag.derive.said import BOOT_LINE, Said, winner
from thpdiag.derive.set_up import same
from thpdiag.derive.settings import TRACE, traces
from thpdiag.knowledge.paths import root_of
from thpdiag.model import Case, Citation, Event, Fact, State

NONE = "none"
MOST = 20  # contradictions of one state
_IDLE_SIZES = frozenset({"inherit", "never"})


def in_state(state: State, case: Case, found: Sequence[Said], lines: Sequence[Citation]) -> list[Fact]:
    """What disagrees with the values that the kernel shows in one state. `lines` are the boot lines of this boot."""
    told: dict[tuple[str, str], Fact] = {}
    running = {
        (f.name, f.label("size") or ""): f for f in state.facts if f.name.startswith("thp.") and not f.provenance
    }
    for key, have in running.items():
        own = [s for s in found if s.key == key]
        hand = _by_hand(have, state, case)
        for fact in _of_setting(have, own, hand, lines):
            told.setdefault((key[0], str(fact.value)), fact)
    top = running.get(("thp.enabled", ""))
    sizes = [_size(have, top) for (name, _), have in running.items() if top and name == "thp.size.enabled"]
    return [*told.values(), *(fact for fact in sizes if fact)][:MOST]


def _of_setting(have: Fact, own: Sequence[Said], hand: Citation | None, lines: Sequence[Citation]) -> Iterator[Fact]:
    roots = {root_of(cite.member) for cite in (*lines, *(one.cite for one in own))}
    last = _last_line(have, own)
    here = [one for one in own if _of_same_bundle(one, have, roots, last)]
    differ = [one for one in here if not same(one.value, have.value)]
    working = [one for one in differ if not one.effect.why]
    for one in working:
        culprit = _culprit(have, one, here)
        if hand is not None and culprit is None:
            text = f"{one.place} says {one.value}; somebody wrote {have.value} at a prompt ({hand})"
            yield _fact(have, text, "by_hand", one, "operator")
        else:
            by = _word(culprit) if culprit and not one.of_log else ""
            yield _fact(have, _overridden(one, have, culprit), "overridden", one, by)
    for one in differ if hand is None else ():
        if one.effect.broken:
            text = f"{one.place} says {one.value}, and the running kernel has {have.value}: {one.effect.why}"
            yield _fact(have, text, "ineffective", one, "")
    if not working and lines:
        yield _fact(have, NONE, "overridden", None, "")


def _last_line(have: Fact, own: Sequence[Said]) -> Said | None:
    """Of the boot lines that stand above a reading in the same file the nearest one."""
    above = [s for s in own if s.place == BOOT_LINE and s.cite.member == have.cite.member and _below(s.cite, have.cite)]
    return above[-1] if above else None


def _of_same_bundle(one: Said, have: Fact, roots: Container[str], last: Said | None) -> bool:
    """What one bundle of a host says is not held against what the kernel had when another one was made."""
    if last is not None and one.place == BOOT_LINE and one.cite.member == have.cite.member:
        return one is last
    root, told = root_of(have.cite.member), root_of(one.cite.member)
    return told in {"", root} or not root or root not in roots


def _below(one: Citation, other: Citation) -> bool:
    return (one.line or 0) <= (other.line or 0)


def _culprit(have: Fact, one: Said, here: Sequence[Said]) -> Said | None:
    """What writes the value that the kernel has after `one` wrote its own, if it is known to run."""
    later = [s for s in here if not s.effect.why and s.effect.runs and s.rank > one.rank and same(s.value, have.value)]
    last, _ = winner(later)
    return last


def _word(culprit: Said) -> str:
    name = "tuned" if culprit.profile else "start-up file"
    return name if culprit.effect.sure else f"{name}, by the kernel's release"


def _overridden(one: Said, have: Fact, culprit: Said | None) -> str:
    text = f"{one.place} says {one.value}, the running kernel has {have.value}"
    if culprit is None:
        return text
    if not culprit.effect.sure:
        return f"{text}: {culprit.place} may have written that, as tuned did before version 2.5"
    return f"{text}: {culprit.place} writes that later in the boot"


def _by_hand(have: Fact, state: State, case: Case) -> Citation | None:
    """Where somebody wrote the value that the kernel shows, if that was not after it was read."""
    return next((e.cite for e in (*state.events, *case.events) if _wrote(e, have)), None)


def _wrote(event: Event, have: Fact) -> bool:
    if event.kind != "setting_written" or event.fields.get("how") != "prompt" or have.label("size"):
        return False
    if event.fields.get("setting") != have.name or not same(event.fields.get("value", ""), have.value):
        return False
    return event.cite.member != have.cite.member or _below(event.cite, have.cite)


def _size(have: Fact, top: Fact) -> Fact | None:
    """A size that more mappings get than the setting for all sizes allows."""
    if str(have.value) in _IDLE_SIZES or same(have.value, top.value) or top.value == "always":
        return None
    size = have.label("size") or ""
    text = (
        f"enabled is {top.value}, but hugepages-{size}/enabled is {have.value}: pages of {size} are used all the same"
    )
    labels = (("setting", "thp.enabled"), ("kind", "size"), ("pages", size), ("running", str(top.value)))
    return Fact("setting.contradiction", text, have.cite, labels)


def in_case(case: Case, found: Sequence[Said]) -> list[Fact]:
    """What the places say against one another, and against what is seen, whatever the kernel has."""
    every = [*_start_up(found), *_pending(case.facts, found), *_traces(case, found)]
    return every[:MOST]


def _start_up(found: Sequence[Said]) -> Iterator[Fact]:
    for key in dict.fromkeys(one.key for one in found):
        working = [one for one in found if one.key == key and not one.effect.later and one.rank > 0]
        if len({one.value for one in working}) < 2:
            continue
        last, differ = winner(working)
        other = next(one for one in reversed(working) if not same(one.value, (last or differ[-1]).value))
        shown = last or differ[-1]
        order = f"{shown.place} runs last" if last else "which of them runs last cannot be told"
        text = f"{other.place} says {other.value}, {shown.place} says {shown.value}; {order}"
        labels = (("setting", key[0]), ("kind", "start_up"), ("wanted", other.value), ("other", str(other.cite)))
        yield Fact("setting.contradiction", text, shown.cite, labels)


def _pending(facts: Sequence[Fact], found: Sequence[Said]) -> Iterator[Fact]:
    menu, here = menu_entry(facts), present(facts)
    if menu is None or not here or menu.value in ("unknown", "kernelopts"):
        return
    line = next((s for s in found if s.place == BOOT_LINE and s.setting == "thp.enabled" and not s.effect.why), None)
    now = line.value if line else NONE
    if str(menu.value) != now:
        says = [
            "no transparent_hugepage=" if v == NONE else f"transparent_hugepage={v}" for v in (now, str(menu.value))
        ]
        text = f"this boot was made with {says[0]}, the boot menu has {says[1]}, which counts from the next boot on"
        labels = (("setting", "thp.enabled"), ("kind", "pending"), ("wanted", str(menu.value)), ("other", str(here[0])))
        yield Fact("setting.contradiction", text, menu.cite, labels)


def _traces(case: Case, found: Sequence[Said]) -> Iterator[Fact]:
    """Huge pages although every place says never and nobody read the setting."""
    if any(f.name == "thp.enabled" and not f.provenance for s in case.states for f in s.facts):
        return
    best, _ = winner([s for s in found if s.key == ("thp.enabled", "") and not s.effect.why])
    seen = traces(case.states)
    if best is None or best.value != "never" or seen is None:
        return
    mib = seen.values[TRACE] / 2**20
    text = (
        f"{best.place} says never, yet {mib:,.0f} MiB are in huge pages: they were on at some time since boot, or "
        "still are"
    )
    labels = (("setting", "thp.enabled"), ("kind", "traces"), ("wanted", "never"), ("other", str(best.cite)))
    yield Fact("setting.contradiction", text, seen.cite, labels)


def _fact(have: Fact, text: str, kind: str, one: Said | None, by: str) -> Fact:
    told = {
        "setting": have.name, "kind": kind, "wanted": one.value if one else "", "running": str(have.value), "by": by,
        "other": str(one.cite) if one else "", "size": have.label("size") or "",
    }  # fmt: skip
    return Fact("setting.contradiction", text, have.cite, tuple((k, v) for k, v in told.items() if v))
