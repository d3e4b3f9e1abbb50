"""What a THP setting will be after the next boot, as far as the input tells.

The default entry of the boot loader, else the present boot line as if it stayed; then what start-up files write, the
last of which wins. Where two of them differ and nothing says which runs last the value is `unknown`. What no place in
the input sets is the default of the distribution, which is assumed: a start-up file may be missing from the input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thpdiag.derive.boot_line import present
from thpdiag.derive.said import BOOT_LINE, Said, winner
from thpdiag.derive.set_up import same
from thpdiag.derive.settings import default, first
from thpdiag.model import Fact, State

UNKNOWN = "unknown"
USUAL = "the distribution's default"
MENU = "the boot menu"
_ALWAYS_TOLD = ("thp.enabled", "thp.defrag")


def next_boots(facts: Sequence[Fact], states: Sequence[State], found: Sequence[Said]) -> Iterator[Fact]:
    """setting.next_boot, and setting.kept where the present value is known."""
    if not present(facts) and not found and not any(f.name == "boot.entry" for f in facts):
        return
    running = latest(states)
    for setting in dict.fromkeys([*_ALWAYS_TOLD, *(one.setting for one in found if not one.size)]):
        fact = _next_boot(setting, facts, found)
        if fact is None:
            continue
        yield fact
        have = running.get(setting)
        if have is not None and fact.value != UNKNOWN:
            kept = "yes" if same(have.value, fact.value) else "no"
            yield Fact("setting.kept", kept, fact.cite, fact.labels, provenance=fact.provenance)


def latest(states: Sequence[State]) -> dict[str, Fact]:
    """The last measured value of each setting, if the order of the states is known."""
    if len(states) > 1 and any(s.order is None for s in states if s.settings):
        return {}
    found: dict[str, Fact] = {}
    for state in sorted(states, key=lambda s: s.order or 0):
        found |= {f.name: f for f in state.facts if f.name.startswith("thp.") and not f.labels and not f.provenance}
    return found


def _next_boot(setting: str, facts: Sequence[Fact], found: Sequence[Said]) -> Fact | None:
    own = [s for s in found if s.setting == setting and not s.size]
    base = _base(setting, facts, own)
    writers = [s for s in own if not s.effect.later and s.rank > 0]
    last, differ = winner(writers)
    if base is not None and (base.place == MENU and any(s.profile for s in own)):
        return _fact(setting, UNKNOWN, base, f"{MENU} and a profile of tuned")  # which may look at the boot line first
    if not last and not differ and (waiting := _not_in_menu(facts, own, base)):
        why = f"{waiting.place} says {waiting.value}, and whether the boot menu was made anew is not in the input"
        return _fact(setting, UNKNOWN, waiting, why)
    if last is not None and not last.effect.sure and base is not None and same(last.value, base.value):
        last = base
    if differ:
        return _fact(setting, UNKNOWN, differ[0], "places that differ, and it is not known which runs last")
    if last is not None and not last.effect.sure:
        return _fact(setting, UNKNOWN, last, f"{last.place}, and the version of tuned decides")
    chosen = last or base
    return _fact(setting, chosen.value, chosen, chosen.place) if chosen else None


def _not_in_menu(facts: Sequence[Fact], own: Sequence[Said], base: Said | None) -> Said | None:
    """What the settings of the boot loader say otherwise, if its menu is not in the input."""
    if any(f.name == "boot.entry" for f in facts):
        return None
    waiting = (s for s in own if not s.rank and not s.effect.later and s.place != BOOT_LINE)
    return next((s for s in waiting if base is None or not same(s.value, base.value)), None)


def _fact(setting: str, value: str, source: Said, place: str) -> Fact:
    labels = (("setting", setting), ("from", place))
    return Fact("setting.next_boot", value, source.cite, labels, provenance="assumed" if place == USUAL else "")


def _base(setting: str, facts: Sequence[Fact], own: Sequence[Said]) -> Said | None:
    """What the kernel starts with. A menu that says what the present boot line says is no news."""
    menu = menu_entry(facts) if setting == "thp.enabled" else None
    line = next((s for s in own if s.place == BOOT_LINE and not s.effect.later), None)
    usual = default(setting, facts)
    if menu is not None and menu.value != (line.value if line else "none"):
        word = usual.value if menu.value == "none" and usual else menu.value
        return Said(setting, UNKNOWN if word == "none" else str(word), MENU, 0, menu.cite)
    return line or (Said(setting, str(usual.value), USUAL, 0, usual.cite) if usual else None)


def menu_entry(facts: Sequence[Fact]) -> Fact | None:
    """The entry of the boot loader that is started next: the default one, else that of the running kernel.

    Its value is `unknown` where entries differ and nothing tells which one it is; None without a menu.
    """
    entries = [f for f in facts if f.name == "boot.entry" and f.label("kernel") != "kernelopts"]
    variable = next((f for f in facts if f.name == "boot.entry" and f.label("kernel") == "kernelopts"), None)
    if not entries:
        return variable
    release = first(facts, "kernel.release")
    chosen = [f for f in entries if f.label("default") == "yes"]
    chosen = chosen or [f for f in entries if release and f.label("kernel") == str(release.value)] or entries
    told = [variable if f.value == "kernelopts" and variable else f for f in chosen]
    if len({str(f.value) for f in told}) == 1 and told[0].value != "kernelopts":
        return told[0]
    return Fact("boot.entry", UNKNOWN, told[0].cite)
