"""Configured THP settings: the value that each place of the input wants and why it takes effect, and facts of them.

Boot line, start-up files, profiles of tuned, notes of saptune. None of them is what the running kernel has: that is in
sysfs. What is said in passing (a mail, a wiki, a shell's history) is not read as a start-up file at all.

/proc/cmdline is the boot line of the running kernel. What a log says counts where nothing better was read, and of
several that differ the last of one file. A boot line of an earlier boot says nothing about now.

Facts are inferred values, values after a reboot, and contradictions between places.

- A setting that no part of the input shows in sysfs is inferred from what writes last at boot, as far as it has an
  effect and the order is known; else the boot line; else the default of the distribution and era, marked `assumed`.
  Nothing is inferred where places contradict each other, or where huge pages exist that should not: then it is
  unknown.
- After a reboot counts the default entry of the boot loader, else the present boot line as if it stayed; then what
  start-up files write, the last of which wins. Where two of them differ and nothing says which runs last the value is
  `unknown`. The default of the distribution is assumed: a start-up file may be missing from the input.
- Kinds of setting.contradiction: `overridden` (something says otherwise than the running kernel has, and nobody is
  known to have changed it by hand), `by_hand` (somebody did), `ineffective` (a start-up file says otherwise and cannot
  work), `start_up` (two start-up files differ), `pending` (the boot menu says otherwise than the present boot line),
  `size` (one size of huge pages is set otherwise than all), `traces` (huge pages exist although nothing allows them).
  That nothing contradicts the running kernel is said too, as `none`, where its boot line was read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from thpdiag.host.series import last_row_having
from thpdiag.knowledge import platforms
from thpdiag.knowledge.paths import root_of
from thpdiag.knowledge.platforms import enabled_default, era
from thpdiag.model import Case, Citation, Event, Fact, Record, Sample, State
from thpdiag.model.text import path_name, quoted, sentence

_WIDEST = ("never", "madvise", "inherit", "always")
PARAMETERS = {
    "boot.transparent_hugepage": "thp.enabled",
    "boot.transparent_hugepage_shmem": "thp.shmem_enabled",
    "boot.thp_anon": "thp.size.enabled",
}
BOOT_LINE = "the boot line"
MAX_SETTINGS = 200  # those that write last
MAX_SIZES = 64
MAX_INCLUDES = 16  # profiles that include one another
_KILOBYTES = {"": 1, "K": 1, "M": 1024, "G": 1024 * 1024}
_SIZE = re.compile(r"\s*(\d{1,7})([KMG]?)\s*", re.IGNORECASE)
_OTHER_SPELLING = {"yes": "1", "no": "0"}  # RHEL 6 prints yes where others print 1
_NOT_CLAIMED = frozenset({"el6", "el6.0"})  # 6.0 knows madvise, 6.1 to 6.4 do not
_WHY_BROKEN = {
    "no shell": "a unit has no shell, so the > is one more word for echo",
    "below exit": "it is below an exit",
    "sysctl": "sysctl cannot set files of /sys",
}
_AFTER_TUNED = 0.5
_RC_LOCAL = ("etc/rc.local", "etc/rc.d/rc.local")  # one file, a link to the other on RHEL


def is_same_value(one: object, other: object) -> bool:
    """Whether two spellings of a value mean the same."""
    left, right = (str(value).strip().lower() for value in (one, other))
    return _OTHER_SPELLING.get(left, left) == _OTHER_SPELLING.get(right, right)


def is_from_log(fact: Fact) -> bool:
    """`Kernel command line: ...` or `Command line: ...`"""
    return "ommand line" in fact.cite.text


def _current_boot_lines(facts: Sequence[Fact]) -> list[Citation]:
    """Where the boot lines of the present boot stand: one, or one for each bundle of the host."""
    lines = [f for f in facts if f.name == "boot.cmdline"]
    lines = lines or [f for f in facts if f.name in PARAMETERS]  # told without the line
    lines.sort(key=lambda f: (f.cite.member, f.cite.line or 0))
    if own := [f for f in lines if not is_from_log(f)]:
        return list({(root_of(f.cite.member), f.cite.member): f.cite for f in own}.values())
    settings: dict[tuple[str, int | None], set[tuple[str, str]]] = {(f.cite.member, f.cite.line): set() for f in lines}
    for fact in facts:
        if fact.name in PARAMETERS and (place := (fact.cite.member, fact.cite.line)) in settings:
            settings[place].add((fact.name, str(fact.value)))
    differ = len({frozenset(of_line) for of_line in settings.values()}) > 1
    return [] if differ and len({f.cite.member for f in lines}) > 1 else [f.cite for f in lines[-1:]]


def parse_thp_anon(text: str) -> list[tuple[str, str]]:
    """Sizes and words of thp_anon=: `16K-32K:always;2M:inherit` -> 16kB always, 32kB always, 2048kB inherit."""
    words: dict[str, str] = {}
    for part in text.split(";")[:MAX_SIZES]:
        names, _, word = part.partition(":")
        for name in names.split(",")[:MAX_SIZES]:
            first, _, last = name.partition("-")
            found = [_SIZE.fullmatch(end) for end in (first, last or first)]
            size, largest = (int(m[1]) * _KILOBYTES[m[2].upper()] if m else 0 for m in found)
            while 0 < size <= largest:
                words[f"{size}kB"] = word
                size *= 2
    return list(words.items())[:MAX_SIZES]


@dataclass(frozen=True, slots=True)
class BootConfig:
    """What decides whether a start-up file works on this host.

    `accepts` are words by setting as the kernel lists them; `missing` the directories of sysfs that do not exist.
    `runs` tells of units and paths whether they run at boot. `profiles` are the active one of tuned and what it
    includes, the one that counts most first; None if the input does not name it. `sure` is False for a version of tuned
    that is known by the kernel alone. `lines` are the boot lines of this boot, `stale` the facts (by identity) of
    others; `on_boot_line`: the line of this boot has transparent_hugepage=.
    `container`: the input is from inside of one, so that its start-up files are not those of the kernel's host.
    """

    platform: str
    era: str
    accepts: Mapping[str, frozenset[str]]
    missing: frozenset[str]
    runs: Mapping[str, str]
    profiles: tuple[str, ...] | None
    notes: frozenset[str] | None
    version: str
    sure: bool
    lines: Sequence[Citation]
    stale: frozenset[int]
    on_boot_line: bool
    container: bool

    def refusal(self, setting: str, value: str) -> str:
        """That the kernel does not know the word; empty where it does, or where that cannot be told."""
        words = self.accepts.get(setting)
        if words is None and self.platform not in _NOT_CLAIMED and (self.era or setting != "thp.defrag"):
            words = platforms.accepted_words(setting.removeprefix("thp.").replace(".", "/"), self.platform, self.era)
        known = words is None or value in words or value.isdigit()
        return "" if known else f"this kernel does not accept the value {quoted(value)} there"


def boot_config(facts: Sequence[Fact], states: Sequence[State]) -> BootConfig:
    """What the input tells of it."""
    facts = [*facts, *(f for s in states for f in s.facts)]
    values = {f.name: str(f.value) for f in facts}
    version = {f.name: str(f.value) for f in facts if not f.provenance}.get("tuned.version", "")
    boot = [f for f in facts if f.name in PARAMETERS or f.name == "boot.cmdline"]
    lines = _current_boot_lines(boot)
    places = {(cite.member, cite.line) for cite in lines}
    current = [f for f in boot if (f.cite.member, f.cite.line) in places]
    notes = [str(f.value).split() for f in facts if f.name == "saptune.notes"]
    return BootConfig(
        platform=values.get("platform", ""),
        era=values.get("kernel.era", ""),
        accepts={
            f.name.removesuffix(".accepts"): frozenset(str(f.value).split())
            for f in facts
            if f.name.endswith(".accepts")
        },
        missing=_missing_directories(facts, values.get("platform", "")),
        runs={str(f.label("unit") or f.label("path")): str(f.value) for f in facts if f.name == "rc.state"},
        profiles=_active_profiles(facts),
        notes=frozenset(note for some in notes for note in some) if notes else None,
        version=version or platforms.tuned_version(values.get("kernel.release", "")),
        sure=bool(version),
        lines=lines,
        stale=frozenset({id(f) for f in boot} - {id(f) for f in current}),
        on_boot_line=any(f.name == "boot.transparent_hugepage" for f in current),
        container="host.container" in values,
    )


def profile_switches(records: Iterable[Record]) -> Iterator[Event]:
    """What `tuned-adm profile` at a prompt writes, by the profile's own file or as it is shipped.

    What a profile that is not known sets is open, and so is what one leaves as it was that follows one that set it.
    """
    records = list(records)
    facts = [record for record in records if isinstance(record, Fact)]
    own = {(f.label("profile"), f.label("setting")): str(f.value) for f in facts if f.name == "rc.thp_write"}
    release = next((str(f.value) for f in facts if f.name == "kernel.release"), "")
    version = next((str(f.value) for f in facts if f.name == "tuned.version"), "") or platforms.tuned_version(release)
    before = dict[str, str]()
    for event in records:
        if not isinstance(event, Event) or event.fields.get("what") != "tuning profile":
            continue
        name = event.fields["of"]
        shipped = platforms.settings_of_switched_profile(name, version)
        after = {setting: value for (profile, setting), value in own.items() if profile == name and setting}
        after = after or dict(shipped or {})
        unknown = MAIN_SETTINGS if not after and shipped is None else before.keys() - after.keys()
        for setting, value in (*after.items(), *((setting, "") for setting in sorted(unknown))):
            fields = {"setting": setting, "value": value, "how": "prompt" if value else "unclear", "profile": name}
            yield Event("setting_written", event.cite, event.time, fields)
        before = after


def _missing_directories(facts: Sequence[Fact], platform: str) -> frozenset[str]:
    """Which of the two directories of sysfs, redhat_transparent_hugepage and that of mainline, do not exist."""

    def short(directory: str | None) -> str:
        return "" if not directory else "redhat" if directory.startswith("redhat_") else "mainline"

    seen = [f for f in facts if f.name == "thp.directory"]
    gone = {short(f.label("directory")) for f in seen if f.value == "absent"}
    if re.fullmatch(r"el6\.[0-3]", platform):
        gone.add("mainline")
    elif platform and not platform.startswith("el6"):
        gone.add("redhat")
    return frozenset(gone - {short(str(f.value)) for f in seen if f.value != "absent"} - {""})


def _active_profiles(facts: Sequence[Fact]) -> tuple[str, ...] | None:
    """The active profile of tuned and what it includes; of several merged ones the last counts most."""
    active = [str(f.value) for f in facts if f.name == "tuned.profile"]
    if not active:
        return None
    included = {f.label("profile"): str(f.value).split() for f in facts if f.name == "rc.include"}
    chain: list[str] = []
    todo = [name for name in reversed(active[-1].split()) if name != "none"]
    while todo and len(chain) < MAX_INCLUDES:
        name = todo.pop(0)
        if name not in chain:
            chain.append(name)
            todo = [*reversed(included.get(name, [])), *todo]
    return tuple(chain)


@dataclass(frozen=True, slots=True)
class ConfiguredSetting:
    """A value that a place of the input wants, and its effect.

    `place` is what people call it, `profile` that of tuned. `rank`: of two that have an effect the higher one wins.
    `of_log`: a log tells it, maybe of another boot. `why` it has no effect on the running kernel, `later` why none at
    the next boot; empty if it may have one. `sure` is False where the version of tuned decides and is not in the input.
    """

    setting: str
    value: str
    place: str
    rank: float
    cite: Citation
    size: str = ""
    profile: str = ""
    of_log: bool = False
    why: str = ""
    later: str = ""
    sure: bool = True
    broken: bool = False  # it is meant to work and cannot
    runs: bool = False  # it is known to run at boot

    def __post_init__(self) -> None:
        for name in ("place", "why", "later"):
            object.__setattr__(self, name, sentence(getattr(self, name)))

    @property
    def key(self) -> tuple[str, str]:
        return self.setting, self.size

    def without_effect(self, why: str) -> ConfiguredSetting:
        """The same without an effect now and at the next boot."""
        return replace(self, why=why, later=why)


def configured_settings(facts: Sequence[Fact], have: BootConfig) -> list[ConfiguredSetting]:
    """What all places want, first the boot line, then in the order of boot."""
    found = [
        *_settings_of_boot_lines(facts, have),
        *_rank_profiles([*_settings_of_files(facts, have), *_shipped_settings(facts, have)], have),
    ]
    found.sort(key=lambda s: (s.rank, s.cite.member, s.cite.line or 0))
    return list(dict.fromkeys(found))[-MAX_SETTINGS:]


def _settings_of_boot_lines(facts: Sequence[Fact], have: BootConfig) -> Iterator[ConfiguredSetting]:
    for fact in facts:
        if (setting := PARAMETERS.get(fact.name)) is None:
            continue
        words = parse_thp_anon(str(fact.value)) if setting == "thp.size.enabled" else [("", str(fact.value))]
        for size, value in words:
            one = ConfiguredSetting(setting, value, BOOT_LINE, 0, fact.cite, size, of_log=is_from_log(fact))
            refused = have.refusal(setting, value)
            if id(fact) in have.stale:
                yield one.without_effect("it is of another boot")
            else:
                yield replace(one, why=refused, later=refused, broken=bool(refused))


def _settings_of_files(facts: Sequence[Fact], have: BootConfig) -> Iterator[ConfiguredSetting]:
    """What start-up files write: the last line of a file counts; of an init script nobody knows which branch runs.

    Of a directory that the host has not nothing is said where the same file writes to the other one too.
    """
    written = [
        (f, _setting_of_line(f, have), f.label("directory") in have.missing)
        for f in facts
        if f.name == "rc.thp_write" and f.provenance != "prose"
    ]
    working = {(f.label("path"), one.key) for f, one, missing in written if not missing}
    kept = [one for f, one, missing in written if not missing or (f.label("path"), one.key) not in working]
    kept.sort(key=lambda one: (one.cite.member, one.place, one.key, one.cite.line or 0))
    for _, group in groupby(kept, key=lambda one: (one.cite.member, one.place, one.key)):
        lines = list(group)
        works = [one for one in lines if not one.why]
        undecided = len({one.value for one in works}) > 1 and "/init.d/" in f"/{works[-1].place!s}"
        for one in lines:
            why = ""
            if one in works and undecided:
                why = "the script writes several values, and which one depends on how it is called"
            elif one in works and one != works[-1]:
                why = "a later line of the file writes again"
            yield replace(one, why=one.why or why, later=one.later or why)


def _setting_of_line(fact: Fact, have: BootConfig) -> ConfiguredSetting:
    path, profile = fact.label("path") or "", fact.label("profile") or ""
    of_tuned = fact.provenance == "tuned"
    kind = platforms.start_up_place(path, have.platform)
    one = ConfiguredSetting(
        fact.label("setting") or "",
        str(fact.value),
        f"tuned's profile {quoted(profile)}" if of_tuned else quoted(path) or kind.name,
        kind.rank + (_AFTER_TUNED if fact.label("after") == "tuned" else 0),
        fact.cite,
        fact.label("size") or "",
        profile if of_tuned else "",
    )
    refused = have.refusal(one.setting, one.value)
    if fact.provenance == "boot line":
        return replace(one, why="it is for the next boot", later=refused)
    idle = _why_not_active(fact.provenance, profile, have)
    why = idle or _WHY_BROKEN.get(fact.label("broken") or "", "")
    if not why and fact.label("directory") in have.missing:
        prefix = "redhat_" if fact.label("directory") == "redhat" else ""
        why = f"this kernel has no /sys/kernel/mm/{prefix}transparent_hugepage"
    why = why or refused or _why_not_run(path, have)
    # The active profile of tuned, what systemd-tmpfiles reads, and what is enabled or executable are known to run; but
    # without the host's release nobody knows its directories.
    names = (path, path.rpartition("/")[2], *(_RC_LOCAL if "rc.local" in path else ()))
    enabled = bool(one.profile) or "tmpfiles.d/" in path or any(have.runs.get(name) == "yes" for name in names)
    one = replace(one, why=why, later=why, broken=bool(why and not idle), runs=bool(have.platform) and enabled)
    return one if why or not fact.label("plugin") else _against_boot_line(one, have)


def _why_not_active(source: str, profile: str, have: BootConfig) -> str:
    """Profiles and notes count only while they are active; files of a container never."""
    if have.container:
        return "it is a file of a container, and the host's start-up files are not in the input"
    if source == "tuned":
        if have.profiles is None:
            return "which profile of tuned is active is not in the input"
        return "" if profile in have.profiles else f"the profile {quoted(profile)} is not active"
    if source == "saptune":
        if have.notes is None:
            return "which notes saptune applies is not in the input"
        return "" if profile in have.notes else f"saptune does not apply the note {quoted(profile)}"
    return ""


def _why_not_run(path: str, have: BootConfig) -> str:
    unit = path.rpartition("/")[2]
    same_file = _RC_LOCAL if unit == "rc.local" else (path,)
    if any(have.runs.get(name) == "no" for name in same_file):
        return "the file is not executable"
    if have.runs.get(unit) == "no" and (unit.endswith(".service") or "init.d/" in path):
        return f"{quoted(unit)} is not enabled"
    return ""


def _against_boot_line(one: ConfiguredSetting, have: BootConfig) -> ConfiguredSetting:
    """From 2.5 on tuned does not touch what the boot line sets; without its version both may be."""
    if one.setting != "thp.enabled" or not have.on_boot_line:
        return one
    if not have.version:
        return replace(one, sure=False)
    if not platforms.respects_boot_line(have.version):
        return one
    return one.without_effect(f"tuned {quoted(have.version)} leaves enabled alone when the boot line sets it")


def _shipped_settings(facts: Sequence[Fact], have: BootConfig) -> Iterator[ConfiguredSetting]:
    """What profiles and notes write that are active, but not in the input themselves."""
    if have.container:
        return
    shown = {f.label("profile") for f in facts if f.name in ("rc.thp_write", "rc.include")}
    version = f" (tuned {quoted(have.version)})" if have.version and have.sure else ""
    for active in [f for f in facts if f.name == "tuned.profile"][-1:]:
        rank = platforms.start_up_place("etc/tuned/", have.platform).rank
        for name in [p for p in have.profiles or () if p not in shown]:
            place = f"tuned's profile {quoted(name)}{version}"
            for known in platforms.settings_of_profile(name, have.version):
                one = ConfiguredSetting(known.setting, known.value, place, rank, active.cite, profile=name)
                yield _against_boot_line(replace(one, sure=have.sure, runs=True), have)
    for applied in [f for f in facts if f.name == "saptune.notes"][:1]:
        rank = platforms.start_up_place("etc/saptune/", have.platform).rank
        for note in sorted((have.notes or frozenset()) - shown):
            place = f"saptune's note {quoted(note)}"
            for known in platforms.settings_of_note(note):
                yield ConfiguredSetting(known.setting, known.value, place, rank, applied.cite)


def _rank_profiles(found: Sequence[ConfiguredSetting], have: BootConfig) -> Iterator[ConfiguredSetting]:
    """Of profiles that include one another the active one counts most; below etc more than below usr."""
    order = {name: at for at, name in enumerate(have.profiles or ())}

    def weight(one: ConfiguredSetting) -> tuple[int, bool]:
        return order.get(one.profile, len(order)), "etc/" not in one.cite.member and "etc/" not in one.cite.text

    first: dict[tuple[str, str], tuple[int, bool]] = {}
    active = [one for one in found if one.profile and not one.why]
    for one in active:
        first[one.key] = min(first.get(one.key, weight(one)), weight(one))
    for one in found:
        again = one.profile and not one.why and weight(one) != first[one.key]
        yield one.without_effect("another file of the active profile sets it again") if again else one


def last_writer(found: Iterable[ConfiguredSetting]) -> tuple[ConfiguredSetting | None, list[ConfiguredSetting]]:
    """Of those that have an effect the one that writes last; if that cannot be told, none, and those that differ."""
    settings = list(found)
    if not settings:
        return None, []
    last = max(one.rank for one in settings)
    group = [one for one in settings if one.rank == last]
    if all(is_same_value(one.value, group[0].value) for one in group):
        return group[0], []
    return None, group


HUGE_PAGE_TRACE = "node_memory_AnonHugePages_bytes"
UNKNOWN, NONE = "unknown", "none"
USUAL, MENU = "the distribution's default", "the boot menu"
UNSURE = "if tuned is of a version that does that; its version is not in the input"
MAIN_SETTINGS = ("thp.enabled", "thp.defrag")
MAX_CONFIGURED = 100  # facts of what places want
MAX_CONTRADICTIONS = 20  # of one state
_IDLE_SIZES = frozenset({"inherit", "never"})


def add_setting_facts(case: Case) -> tuple[tuple[Fact, ...], tuple[State, ...]]:
    """Facts and states with it. Boot lines of other boots are told in setting.said and are no facts any more."""
    all_facts = (*case.facts, *(f for s in case.states for f in s.facts if not f.name.startswith("thp.")))
    boot = boot_config(all_facts, case.states)
    configured, lines = configured_settings(all_facts, boot), boot.lines
    facts, all_facts = (tuple(f for f in chosen if id(f) not in boot.stale) for chosen in (case.facts, all_facts))
    known = replace(case, facts=all_facts)
    contradictions = [
        *_differing_start_up(configured),
        *_pending(all_facts, configured, lines),
        *_traces(known, configured),
    ]
    further = [
        *_inferred_settings(all_facts, case.states, configured),
        *_configured_facts(configured),
        *(_settings_after_reboot(all_facts, case.states, configured, lines)),
        *contradictions[:MAX_CONTRADICTIONS],
    ]
    states = (replace(s, facts=(*s.facts, *_contradictions_in_state(s, known, configured, lines))) for s in case.states)
    return (*facts, *further), tuple(states)


def _configured_facts(found: Sequence[ConfiguredSetting]) -> Iterator[Fact]:
    for one in found[:MAX_CONFIGURED]:
        labels = {
            "setting": one.setting,
            "place": one.place,
            "counts": "no" if one.why else "yes",
            "why": one.why or ("" if one.sure else UNSURE),
            "size": one.size,
            "from": "" if one.place == BOOT_LINE else "start-up file",
            "runs": "yes" if one.runs and one.sure and not one.why else "",
        }
        yield Fact("setting.said", one.value, one.cite, tuple((key, word) for key, word in labels.items() if word))


def _contradiction(text: str, cite: Citation, setting: str, kind: str, **labels: str) -> Fact:
    """A fact that says what disagrees, and where; labels without a word are left out."""
    words = {"setting": setting, "kind": kind, **labels}
    return Fact(
        "setting.contradiction", sentence(text), cite, tuple((key, word) for key, word in words.items() if word)
    )


def first_fact(facts: Iterable[Fact], name: str) -> Fact | None:
    """The first measured fact of a name, else one that the text merely tells."""
    found = [f for f in facts if f.name == name]
    return next((f for f in found if not f.provenance), found[0] if found else None)


def of_running_kernel(facts: Iterable[Fact], release: Fact | None) -> list[Fact]:
    """Without what a configuration in /boot says of another kernel that is installed."""
    running = str(release.value) if release else ""
    return [f for f in facts if (of := f.label("release")) is None or not running or of == running]


def default_setting(setting: str, facts: Sequence[Fact]) -> Fact | None:
    """What the distribution and its kernel have where nobody changed it, marked as assumed.

    Nothing where the input shows a setting without the name of its file: it may be this one, and say otherwise.
    Inside a container the distribution is the container's and says nothing of the kernel.
    """
    if first_fact(facts, "setting.unplaced") is not None:
        return None
    release, system = first_fact(facts, "kernel.release"), first_fact(facts, "os.name")
    if first_fact(facts, "host.container") is not None:
        system = None
    source, name = release or system, str(release.value) if release else ""
    value = ""
    if source and setting == "thp.defrag":
        value = known.defrag if (known := era(name)) else ""
    elif source and setting == "thp.enabled":
        value = usual[0] if (usual := enabled_default(name, str(system.value) if system else "")) else ""
    if setting == "thp.enabled" and (built := first_fact(of_running_kernel(facts, release), "kernel.thp_default")):
        source, value = built, str(built.value)
    return Fact(setting, value, source.cite, provenance="assumed") if source and value else None


def _takes_in_code(release: Fact | None) -> bool:
    """Whether a release number says little, as the distribution brings later code to it: RHEL from 9 on, SUSE."""
    return release is not None and re.search(r"\.el(?:9|1\d)|-default$", str(release.value)) is not None


def smaller_sizes(facts: Sequence[Fact]) -> Iterator[Fact]:
    """thp.smaller_sizes: the widest word of all sizes of huge pages but the largest; `inherit` is what enabled says.

    Kernels before 6.8 have one size, but for those of distributions that take in code of later ones for years.
    """
    sizes = {
        f: int((f.label("size") or "0kB")[:-2]) for f in facts if f.name == "thp.size.enabled" and f.value in _WIDEST
    }
    below = [fact for fact, size in sizes.items() if size < max(sizes.values())]
    known = first_fact(facts, "kernel.era")
    if below:
        widest = max(below, key=lambda fact: _WIDEST.index(str(fact.value)))
        enabled = first_fact(facts, "thp.enabled") if widest.value == "inherit" else None
        yield replace(widest, name="thp.smaller_sizes", value=enabled.value if enabled else widest.value)
    elif known and known.value != platforms.ERA_OF_SIZES and not _takes_in_code(first_fact(facts, "kernel.release")):
        yield replace(known, name="thp.smaller_sizes", value="never")


def assumed_settings(state: State, facts: Sequence[Fact]) -> Iterator[Fact]:
    """Defaults for a state in which nobody measured the settings, though other states of the case show them.

    Not where the input says that the setting is meant to be otherwise.
    """
    have = {f.name for f in (*state.facts, *facts)} | set(state.settings)
    for setting in MAIN_SETTINGS:
        if setting in have or (usual := default_setting(setting, facts)) is None:
            continue
        wanted = [f for f in facts if f.name == "setting.said" and f.label("setting") == setting]
        effective = (f for f in wanted if f.label("counts") == "yes" and not f.label("size"))
        if all(is_same_value(f.value, usual.value) for f in effective):
            yield usual


def _inferred_settings(
    facts: Sequence[Fact], states: Sequence[State], found: Sequence[ConfiguredSetting]
) -> Iterator[Fact]:
    """Settings that no state shows, from the next best place."""
    known = {f.name for f in facts}.union(*({f.name for f in s.facts} | set(s.settings) for s in states))
    for setting in sorted({*MAIN_SETTINGS, *(one.setting for one in found if not one.size)} - known):
        working = [one for one in found if one.setting == setting and not one.size and not one.why]
        usual = default_setting(setting, facts)
        best, _ = last_writer(working)
        sure, _ = last_writer(one for one in working if one.sure)
        if not working or (best and not best.sure and not sure and usual and is_same_value(best.value, usual.value)):
            yield from [usual] if usual else []
        elif best and (best.sure or (sure and is_same_value(best.value, sure.value))):
            chosen = best if best.sure or sure is None else sure
            if setting == "thp.enabled" and chosen.value == "never" and _last_huge_page_trace(states):
                continue
            value = int(chosen.value) if chosen.value.isdecimal() and len(chosen.value) < 16 else chosen.value
            source = "boot line" if chosen.place == BOOT_LINE else "tuned" if chosen.profile else "rc file"
            yield Fact(setting, value, chosen.cite, provenance=source)


def _last_huge_page_trace(states: Sequence[State]) -> Sample | None:
    """The last row that shows memory in huge pages."""
    last = last_row_having((sample for state in states for sample in state.samples), HUGE_PAGE_TRACE)
    return last if last is not None and last.values[HUGE_PAGE_TRACE] > 0 else None


def _settings_after_reboot(
    facts: Sequence[Fact], states: Sequence[State], found: Sequence[ConfiguredSetting], lines: Sequence[Citation]
) -> Iterator[Fact]:
    """setting.next_boot, and setting.kept where the present value is known."""
    if not lines and not found and not any(f.name == "boot.entry" for f in facts):
        return
    running: dict[str, Fact] = {}  # the last measured value of each setting, if the order of the states is known
    if len(states) < 2 or all(s.order is not None for s in states if s.settings):
        for state in sorted(states, key=lambda s: s.order or 0):
            running |= {
                f.name: f for f in state.facts if f.name.startswith("thp.") and not f.labels and not f.provenance
            }
    for setting in dict.fromkeys([*MAIN_SETTINGS, *(one.setting for one in found if not one.size)]):
        if (told := _next_boot(setting, facts, [s for s in found if s.setting == setting and not s.size])) is None:
            continue
        value, source, place = told
        labels, provenance = (("setting", setting), ("from", place)), "assumed" if place == USUAL else ""
        yield Fact("setting.next_boot", value, source.cite, labels, provenance=provenance)
        if setting in running and value != UNKNOWN:
            kept = "yes" if is_same_value(running[setting].value, value) else "no"
            yield Fact("setting.kept", kept, source.cite, labels, provenance=provenance)


def _next_boot(
    setting: str, facts: Sequence[Fact], own: Sequence[ConfiguredSetting]
) -> tuple[str, ConfiguredSetting, str] | None:
    """The value after a reboot, what sets it, and the words for that place; `own` is configured for the setting."""
    base = _kernel_start(setting, facts, own)
    last, differ = last_writer(s for s in own if not s.later and s.rank > 0)
    if base is not None and base.place == MENU and any(s.profile for s in own):
        return UNKNOWN, base, f"{MENU} and a profile of tuned"  # which may look at the boot line first
    if not last and not differ and not any(f.name == "boot.entry" for f in facts):
        waiting = (s for s in own if not s.rank and not s.later and s.place != BOOT_LINE)
        one = next((s for s in waiting if base is None or not is_same_value(s.value, base.value)), None)
        if one is not None:
            why = f"{one.place} sets {quoted(one.value)}, and the input does not show if the boot menu was regenerated"
            return UNKNOWN, one, sentence(why)
    if differ:
        return UNKNOWN, differ[0], "places that differ, and it is not known which runs last"
    if last is not None and not last.sure:
        if base is None or not is_same_value(last.value, base.value):
            return UNKNOWN, last, sentence(f"{last.place}, and the version of tuned decides")
        last = base
    chosen = last or base
    return (chosen.value, chosen, chosen.place) if chosen else None


def _kernel_start(setting: str, facts: Sequence[Fact], own: Sequence[ConfiguredSetting]) -> ConfiguredSetting | None:
    """What the kernel starts with. A menu that says what the present boot line says is no news."""
    menu = _menu_entry(facts) if setting == "thp.enabled" else None
    line = next((s for s in own if s.place == BOOT_LINE and not s.later), None)
    usual = default_setting(setting, facts)
    if menu is not None and menu.value != (line.value if line else NONE):
        word = usual.value if menu.value == NONE and usual else menu.value
        return ConfiguredSetting(setting, UNKNOWN if word == NONE else str(word), MENU, 0, menu.cite)
    return line or (ConfiguredSetting(setting, str(usual.value), USUAL, 0, usual.cite) if usual else None)


def _menu_entry(facts: Sequence[Fact]) -> Fact | None:
    """The entry of the boot loader that is started next: the default one, else that of the running kernel.

    Its value is `unknown` where entries differ and nothing tells which one it is; None without a menu.
    """
    entries = [f for f in facts if f.name == "boot.entry" and f.label("kernel") != "kernelopts"]
    variable = next((f for f in facts if f.name == "boot.entry" and f.label("kernel") == "kernelopts"), None)
    if not entries:
        return variable
    release = first_fact(facts, "kernel.release")
    chosen = [f for f in entries if f.label("default") == "yes"]
    chosen = chosen or [f for f in entries if release and f.label("kernel") == str(release.value)] or entries
    shown = [variable if f.value == "kernelopts" and variable else f for f in chosen]
    if len({str(f.value) for f in shown}) == 1 and shown[0].value != "kernelopts":
        return shown[0]
    return Fact("boot.entry", UNKNOWN, shown[0].cite)


def _contradictions_in_state(
    state: State, case: Case, found: Sequence[ConfiguredSetting], lines: Sequence[Citation]
) -> list[Fact]:
    """What disagrees with the values that the kernel shows in one state. `lines` are the boot lines of this boot."""
    contradictions: dict[tuple[str, str], Fact] = {}
    running = {
        (f.name, f.label("size") or ""): f for f in state.facts if f.name.startswith("thp.") and not f.provenance
    }
    top = running.get(("thp.enabled", ""))
    sizes: list[Fact] = []
    for key, have in running.items():
        hand = next((e.cite for e in (*state.events, *case.events) if _wrote(e, have)), None)
        for fact in _contradictions_of_setting(have, [s for s in found if s.key == key], hand, lines):
            contradictions.setdefault((key[0], str(fact.value)), fact)
        if top is None or key[0] != "thp.size.enabled" or str(have.value) in _IDLE_SIZES:
            continue
        if top.value != "always" and not is_same_value(have.value, top.value):
            text = (
                f"enabled is {quoted(top.value)}, but hugepages-{key[1]}/enabled is {quoted(have.value)}: "
                f"pages of {key[1]} are used all the same"
            )
            sizes.append(_contradiction(text, have.cite, top.name, "size", pages=key[1], running=str(top.value)))
    return [*contradictions.values(), *sizes][:MAX_CONTRADICTIONS]


def _is_above(one: Citation, other: Citation) -> bool:
    return (one.line or 0) <= (other.line or 0)


def _wrote(event: Event, have: Fact) -> bool:
    """Whether somebody wrote the value that the kernel shows at a prompt, if that was not after it was read."""
    if event.kind != "setting_written" or event.fields.get("how") != "prompt" or have.label("size"):
        return False
    if event.fields.get("setting") != have.name or not is_same_value(event.fields.get("value", ""), have.value):
        return False
    return event.cite.member != have.cite.member or _is_above(event.cite, have.cite)


def _contradictions_of_setting(
    have: Fact, own: Sequence[ConfiguredSetting], hand: Citation | None, lines: Sequence[Citation]
) -> Iterator[Fact]:
    def contradiction(text: str, kind: str, one: ConfiguredSetting | None = None, by: str = "") -> Fact:
        wanted, other = (one.value, str(one.cite)) if one else ("", "")
        labels = {"wanted": wanted, "running": str(have.value), "by": by, "other": other}
        return _contradiction(text, have.cite, have.name, kind, **labels, size=have.label("size") or "")

    here = _of_same_bundle(have, own, lines)
    differ = [one for one in here if not is_same_value(one.value, have.value)]
    working = [one for one in differ if not one.why]
    for one in working:
        # what writes the value that the kernel has after `one` wrote its own, if it is known to run
        later = (s for s in here if not s.why and s.runs and s.rank > one.rank and is_same_value(s.value, have.value))
        culprit, _ = last_writer(later)
        if culprit is None and hand is not None:
            wrote = f"{quoted(have.value)} was written at a prompt ({path_name(hand)})"
            text = f"{one.place} sets {quoted(one.value)}; {wrote}"
            yield contradiction(text, "by_hand", one, "operator")
        else:
            how, by = "", "tuned" if culprit and culprit.profile else "start-up file" if culprit else ""
            if culprit and culprit.sure:
                how = f": {culprit.place} writes that later in the boot"
            elif culprit:
                how = f": {culprit.place} may have written that, as tuned did before version 2.5"
                by += ", by the kernel's release"
            text = f"{one.place} sets {quoted(one.value)}, the running kernel has {quoted(have.value)}{how}"
            yield contradiction(text, "overridden", one, "" if one.of_log else by)
    for one in differ if hand is None else ():
        if one.broken:
            text = f"{one.place} sets {quoted(one.value)}, and the running kernel has {quoted(have.value)}: {one.why}"
            yield contradiction(text, "ineffective", one)
    if not working and lines:
        yield contradiction(NONE, "overridden")


def _of_same_bundle(have: Fact, own: Sequence[ConfiguredSetting], lines: Sequence[Citation]) -> list[ConfiguredSetting]:
    """What one bundle of a host says is not held against what the kernel had when another one was made.

    Where a boot line stands above a reading in the same file only the nearest one counts.
    """
    roots = {root_of(cite.member) for cite in (*lines, *(one.cite for one in own))}
    root = root_of(have.cite.member)
    beside = [one for one in own if one.place == BOOT_LINE and one.cite.member == have.cite.member]
    above = [one for one in beside if _is_above(one.cite, have.cite)]
    return [
        one
        for one in own
        if (
            one is above[-1]
            if above and one.place == BOOT_LINE
            else root_of(one.cite.member) in {"", root} or root not in roots
        )
    ]


def _differing_start_up(found: Sequence[ConfiguredSetting]) -> Iterator[Fact]:
    """Start-up files that write different values."""
    for key in dict.fromkeys(one.key for one in found):
        working = [one for one in found if one.key == key and not one.later and one.rank > 0]
        if len({one.value for one in working}) < 2:
            continue
        last, differ = last_writer(working)
        shown = last or differ[-1]
        other = next(one for one in reversed(working) if not is_same_value(one.value, shown.value))
        order = f"{shown.place} runs last" if last else "it is unknown which of them runs last"
        text = f"{other.place} sets {quoted(other.value)}, {shown.place} sets {quoted(shown.value)}; {order}"
        yield _contradiction(text, shown.cite, key[0], "start_up", wanted=other.value, other=str(other.cite))


def _pending(facts: Sequence[Fact], found: Sequence[ConfiguredSetting], lines: Sequence[Citation]) -> Iterator[Fact]:
    """A boot menu that says otherwise than the present boot line."""
    menu = _menu_entry(facts)
    if menu is None or not lines or menu.value in (UNKNOWN, "kernelopts"):
        return
    line = next((s for s in found if s.place == BOOT_LINE and s.setting == "thp.enabled" and not s.why), None)
    now, then = line.value if line else NONE, str(menu.value)
    if then != now:
        says = [f"transparent_hugepage={quoted(v)}" if v != NONE else "no transparent_hugepage=" for v in (now, then)]
        text = f"this boot was made with {says[0]}, the boot menu has {says[1]}, which counts from the next boot on"
        yield _contradiction(text, menu.cite, "thp.enabled", "pending", wanted=then, other=str(lines[0]))


def _traces(case: Case, found: Sequence[ConfiguredSetting]) -> Iterator[Fact]:
    """Huge pages although every place says never and nobody read the setting."""
    if any(f.name == "thp.enabled" and not f.provenance for s in case.states for f in s.facts):
        return
    best, _ = last_writer(s for s in found if s.key == ("thp.enabled", "") and not s.why)
    if best is None or best.value != "never" or (seen := _last_huge_page_trace(case.states)) is None:
        return
    text = (
        f"{best.place} is never, but {seen.values[HUGE_PAGE_TRACE] / 2**20:,.0f} MiB are in huge pages: they were on "
        "at some time since boot, or still are"
    )
    yield _contradiction(text, seen.cite, "thp.enabled", "traces", wanted="never", other=str(best.cite))
