"""What each place of the input says a THP setting is to be, and why it has an effect or none.

Boot line, start-up files, profiles of tuned, notes of saptune. None of them is what the running kernel has: that is in
sysfs. What is said in passing (a mail, a wiki, a shell's history) is not read as a start-up file at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from thpdiag.derive.boot_line import PARAMETERS, of_log, others, sizes
from thpdiag.derive.set_up import SetUp, same
from thpdiag.knowledge.start_up import looks_at_boot_line, of_note, of_profile, place
from thpdiag.model import Citation, Fact

BOOT_LINE = "the boot line"
_BROKEN = {
    "no shell": "a unit has no shell, so the > is one more word for echo",
    "below exit": "it stands below an exit",
    "sysctl": "sysctl cannot set files of /sys",
}
_AFTER_TUNED = 0.5
_RC_LOCAL = ("etc/rc.local", "etc/rc.d/rc.local")  # one file, a link to the other on RHEL
MOST = 200  # of what is said: those that write last


@dataclass(frozen=True, slots=True)
class Effect:
    """`why` it has none on the running kernel, `later` why none at the next boot; empty if it may have one.

    `sure` is False where the version of tuned decides and is not in the input.
    """

    why: str = ""
    later: str = ""
    sure: bool = True
    broken: bool = False  # it is meant to work and cannot
    runs: bool = False  # it is known to run at boot


@dataclass(frozen=True, slots=True)
class Said:
    """`place` is what people call it, `profile` that of tuned. `rank`: of two that have an effect the higher one wins.

    `of_log`: a log tells it, maybe of another boot.
    """

    setting: str
    value: str
    place: str
    rank: float
    cite: Citation
    size: str = ""
    profile: str = ""
    of_log: bool = False
    effect: Effect = Effect()

    @property
    def key(self) -> tuple[str, str]:
        return self.setting, self.size

    def idle(self, why: str, later: str | None = None) -> Said:
        """The same without an effect now, and at the next boot for the same reason if no other is given."""
        return replace(self, effect=replace(self.effect, why=why, later=why if later is None else later))


def said(facts: Sequence[Fact], have: SetUp) -> list[Said]:
    """Everything that is said, first the boot line, then in the order of boot."""
    found = [*_boot_lines(facts, have), *_one_profile([*_files(facts, have), *_as_shipped(facts, have)], have)]
    found.sort(key=lambda s: (s.rank, s.cite.member, s.cite.line or 0))
    return list(dict.fromkeys(found))[-MOST:]


def _boot_lines(facts: Sequence[Fact], have: SetUp) -> Iterator[Said]:
    elsewhere = {id(f) for f in others(facts)}
    for fact in facts:
        setting = PARAMETERS.get(fact.name)
        if setting is None:
            continue
        words = sizes(str(fact.value)) if setting == "thp.size.enabled" else [("", str(fact.value))]
        for size, value in words:
            one = Said(setting, value, BOOT_LINE, 0, fact.cite, size, of_log=of_log(fact))
            if id(fact) in elsewhere:
                yield one.idle("it is of another boot")
            else:
                refused = _refused(one, have)
                yield replace(one, effect=Effect(refused, refused, broken=bool(refused)))


def _refused(one: Said, have: SetUp) -> str:
    return f"this kernel does not know the word {one.value} there" if have.refuses(one.setting, one.value) else ""


def _files(facts: Sequence[Fact], have: SetUp) -> Iterator[Said]:
    """Of a directory that the host has not nothing is said where the same file writes to the other one too."""
    written = [(f, _of_file(f, have)) for f in facts if f.name == "rc.thp_write" and f.provenance != "prose"]
    working = {(f.label("path"), one.key) for f, one in written if not _elsewhere(f, have)}
    kept = [(f, one) for f, one in written if not _elsewhere(f, have) or (f.label("path"), one.key) not in working]
    ordered = sorted(kept, key=lambda pair: (pair[0].cite.member, pair[1].place, pair[1].key, pair[0].cite.line or 0))
    for _, group in groupby(ordered, key=lambda pair: (pair[0].cite.member, pair[1].place, pair[1].key)):
        yield from _of_one_file([one for _, one in group])


def _of_one_file(lines: Sequence[Said]) -> Iterator[Said]:
    """The last line of a file counts; of an init script nobody knows which branch runs."""
    works = [one for one in lines if not one.effect.why]
    undecided = len({one.value for one in works}) > 1 and "/init.d/" in f"/{works[-1].place}"
    for one in lines:
        if one in works and undecided:
            why = "the script writes several values, and which one depends on how it is called"
        elif one in works and one != works[-1]:
            why = "a later line of the file writes again"
        else:
            why = ""
        yield one.idle(one.effect.why or why, one.effect.later or why)


def _of_file(fact: Fact, have: SetUp) -> Said:
    path, setting = fact.label("path") or "", fact.label("setting") or ""
    kind = place(path, have.platform)
    rank = kind.rank + (_AFTER_TUNED if fact.label("after") == "tuned" else 0)
    name = f"tuned's profile {fact.label('profile')}" if fact.provenance == "tuned" else path or kind.name
    one = Said(setting, str(fact.value), name, rank, fact.cite, fact.label("size") or "")
    if fact.provenance == "tuned":
        one = replace(one, profile=fact.label("profile") or "")
    if fact.provenance == "boot line":
        return one.idle("it is for the next boot", _refused(one, have))
    idle = _not_in_force(fact, have)
    why = idle or _BROKEN.get(fact.label("broken") or "", "") or _elsewhere(fact, have)
    why = why or _refused(one, have) or _not_run(path, have)
    runs = _known_to_run(path, one, have)
    one = replace(one, effect=Effect(why, why, broken=bool(why and not idle), runs=runs))
    return one if why or not fact.label("plugin") else _beside_boot_line(one, have)


def _not_in_force(fact: Fact, have: SetUp) -> str:
    """Profiles and notes count only while they are active; files of a container never."""
    profile = fact.label("profile") or ""
    if have.container:
        return "it is a file of a container, and the host's start-up files are not in the input"
    if fact.provenance == "tuned":
        if have.profiles is None:
            return "which profile of tuned is active is not in the input"
        return "" if profile in have.profiles else f"the profile {profile} is not active"
    if fact.provenance == "saptune":
        if have.notes is None:
            return "which notes saptune applies is not in the input"
        return "" if profile in have.notes else f"saptune does not apply the note {profile}"
    return ""


def _elsewhere(fact: Fact, have: SetUp) -> str:
    directory = fact.label("directory")
    if not directory or directory not in have.missing:
        return ""
    return f"this kernel has no /sys/kernel/mm/{'redhat_' if directory == 'redhat' else ''}transparent_hugepage"


def _not_run(path: str, have: SetUp) -> str:
    unit = path.rpartition("/")[2]
    same_file = _RC_LOCAL if unit == "rc.local" else (path,)
    if any(have.runs.get(name) == "no" for name in same_file):
        return "the file is not executable"
    if have.runs.get(unit) == "no" and (unit.endswith(".service") or "init.d/" in path):
        return f"{unit} is not enabled"
    return ""


def _known_to_run(path: str, one: Said, have: SetUp) -> bool:
    """The active profile of tuned, what systemd-tmpfiles reads, and what is enabled or executable."""
    if not have.platform:
        return False  # without its release nobody knows its directories
    names = (path, path.rpartition("/")[2], *(_RC_LOCAL if "rc.local" in path else ()))
    return bool(one.profile) or "tmpfiles.d/" in path or any(have.runs.get(name) == "yes" for name in names)


def _beside_boot_line(one: Said, have: SetUp) -> Said:
    """From 2.5 on tuned does not touch what the boot line sets; without its version both may be."""
    if one.setting != "thp.enabled" or not have.on_boot_line:
        return one
    if not have.version:
        return replace(one, effect=replace(one.effect, sure=False))
    if not looks_at_boot_line(have.version):
        return one
    return one.idle(f"tuned {have.version} leaves enabled alone when the boot line sets it")


def _as_shipped(facts: Sequence[Fact], have: SetUp) -> Iterator[Said]:
    """What profiles and notes write that are active, but not in the input themselves."""
    shown = {f.label("profile") for f in facts if f.name in ("rc.thp_write", "rc.include")}
    if have.container:
        return
    for active in [f for f in facts if f.name == "tuned.profile"][-1:]:
        rank = place("etc/tuned/", have.platform).rank
        for name in [p for p in have.profiles or () if p not in shown]:
            words = f"tuned's profile {name}" + (f" (tuned {have.version})" if have.version and have.sure else "")
            for known in of_profile(name, have.version):
                effect = Effect(sure=have.sure, runs=True)
                one = Said(known.setting, known.value, words, rank, active.cite, profile=name, effect=effect)
                yield _beside_boot_line(one, have)
    for applied in [f for f in facts if f.name == "saptune.notes"][:1]:
        rank = place("etc/saptune/", have.platform).rank
        for note in sorted((have.notes or frozenset()) - shown):
            for known in of_note(note):
                yield Said(known.setting, known.value, f"saptune's note {note}", rank, applied.cite)


def _one_profile(found: Sequence[Said], have: SetUp) -> Iterator[Said]:
    """Of profiles that include one another the active one counts most; below etc more than below usr."""
    order = {name: at for at, name in enumerate(have.profiles or ())}
    first: dict[tuple[str, str], tuple[int, bool]] = {}

    def weight(one: Said) -> tuple[int, bool]:
        return order.get(one.profile, len(order)), "etc/" not in one.cite.member and "etc/" not in one.cite.text

    for one in found:
        if one.profile and not one.effect.why:
            first[one.key] = min(first.get(one.key, weight(one)), weight(one))
    for one in found:
        if one.profile and not one.effect.why and weight(one) != first[one.key]:
            yield one.idle("another file of the active profile says it again")
        else:
            yield one


def winner(found: Iterable[Said]) -> tuple[Said | None, list[Said]]:
    """Of those that have an effect the one that writes last; if that cannot be told, none, and those that differ."""
    every = list(found)
    if not every:
        return None, []
    last = max(one.rank for one in every)
    group = [one for one in every if one.rank == last]
    if all(same(one.value, group[0].value) for one in group):
        return group[0], []
    return None, group
