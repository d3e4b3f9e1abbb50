"""Configured THP settings: the value that each place of the input configures, its effect, and the facts derived from
it.

Places are the boot line, start-up files, profiles of tuned and notes of saptune. None of them is the effective setting,
which is in sysfs. Values mentioned in running text (a mail, a wiki, a shell's history) are not read as a start-up file.

/proc/cmdline is the boot line of the running kernel. A boot line from a log is used only if no better one was read; of
several that differ, the last of one file. A boot line of an earlier boot does not affect the current one.

Facts are inferred values, values after a reboot, and contradictions between places.

- A setting that no part of the input shows in sysfs is inferred from what writes last at boot, if it has an effect and
  the order is known; else from the boot line; else from the default of the distribution and era, marked `assumed`. It
  is unknown if places contradict each other, or if huge pages exist that the value would forbid.
- After a reboot, the default entry of the boot loader applies, else the current boot line, assumed to stay; then what
  start-up files write, the last of which wins. If two of them differ and their order is unknown, the value is
  `unknown`. The default of the distribution is marked as assumed, because a start-up file may be missing from the
  input.
- Kinds of setting.contradiction: `overridden` (a place configures another value than the running kernel has, and no
  manual change is known), `by_hand` (a manual change is known), `ineffective` (a start-up file configures another value
  and cannot work), `start_up` (two start-up files differ), `pending` (the boot menu differs from the current boot
  line), `size` (one size of huge pages is set otherwise than all), `traces` (huge pages exist although nothing allows
  them). If the boot line was read and nothing contradicts the running kernel, the kind is `none`.
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

_WIDEST_LAST = ("never", "madvise", "inherit", "always")  # from the fewest huge pages to the most
PARAMETERS = {
    "boot.transparent_hugepage": "thp.enabled",
    "boot.transparent_hugepage_shmem": "thp.shmem_enabled",
    "boot.thp_anon": "thp.size.enabled",
}
BOOT_LINE = "the boot line"
MAX_SETTINGS = 200  # of those that write last
MAX_SIZES = 64
MAX_INCLUDES = 16  # profiles that include each other
_KILOBYTES = {"": 1, "K": 1, "M": 1024, "G": 1024 * 1024}
_SIZE = re.compile(r"\s*(\d{1,7})([KMG]?)\s*", re.IGNORECASE)
_SPELLINGS = {"yes": "1", "no": "0"}  # RHEL 6 prints yes where others print 1
_UNKNOWN_WORDS_PLATFORMS = frozenset({"el6", "el6.0"})  # 6.0 accepts madvise, 6.1 to 6.4 do not
_BROKEN_REASONS = {
    "no shell": "a unit has no shell, so the > is one more word for echo",
    "below exit": "it is below an exit",
    "sysctl": "sysctl cannot set files of /sys",
}
_AFTER_TUNED_RANK = 0.5  # added to the rank of a unit that is ordered after tuned
_RC_LOCAL = ("etc/rc.local", "etc/rc.d/rc.local")  # the same file; on RHEL one is a link to the other


def is_same_value(left: object, right: object) -> bool:
    """Whether two spellings of a value mean the same."""
    first, second = (str(value).strip().lower() for value in (left, right))
    return _SPELLINGS.get(first, first) == _SPELLINGS.get(second, second)


def is_from_log(fact: Fact) -> bool:
    """Whether a boot line is from a log: `Kernel command line: ...` or `Command line: ...`."""
    return "ommand line" in fact.cite.text


def _current_boot_lines(facts: Sequence[Fact]) -> list[Citation]:
    """Return the citations of the current boot's boot line: one, or one for each bundle of the host."""
    lines = [f for f in facts if f.name == "boot.cmdline"]
    lines = lines or [f for f in facts if f.name in PARAMETERS]  # parameters without their line
    lines.sort(key=lambda f: (f.cite.member, f.cite.line or 0))
    if direct := [f for f in lines if not is_from_log(f)]:
        return list({(root_of(f.cite.member), f.cite.member): f.cite for f in direct}.values())
    settings: dict[tuple[str, int | None], set[tuple[str, str]]] = {(f.cite.member, f.cite.line): set() for f in lines}
    for fact in facts:
        if fact.name in PARAMETERS and (place := (fact.cite.member, fact.cite.line)) in settings:
            settings[place].add((fact.name, str(fact.value)))
    differ = len({frozenset(of_line) for of_line in settings.values()}) > 1
    return [] if differ and len({f.cite.member for f in lines}) > 1 else [f.cite for f in lines[-1:]]


def parse_thp_anon(text: str) -> list[tuple[str, str]]:
    """Return sizes and words of thp_anon=: `16K-32K:always;2M:inherit` -> 16kB always, 32kB always, 2048kB inherit."""
    words: dict[str, str] = {}
    for part in text.split(";")[:MAX_SIZES]:
        names, _, word = part.partition(":")
        for name in names.split(",")[:MAX_SIZES]:
            first, _, last = name.partition("-")
            matches = [_SIZE.fullmatch(end) for end in (first, last or first)]
            size, largest = (int(m[1]) * _KILOBYTES[m[2].upper()] if m else 0 for m in matches)
            while 0 < size <= largest:
                words[f"{size}kB"] = word
                size *= 2
    return list(words.items())[:MAX_SIZES]


@dataclass(frozen=True, slots=True)
class BootConfig:
    """The facts that determine whether a start-up file takes effect on this host.

    `words_by_setting` are the words that the kernel lists, by setting; `missing` those of sysfs that do not
    exist. `run_states` states of units and paths whether they run at boot. `profiles` are the active one of tuned and
    its includes, highest priority first; None if the input does not name it. `is_certain` is False if the version of
    tuned is only inferred from the kernel. `lines` are the boot lines of this boot, `stale` the ids of facts of other
    boots; `has_parameter`: the boot line has transparent_hugepage=. `is_container`: the input is from inside a
    container, whose start-up files are not those of the kernel's host.
    """

    platform: str
    era: str
    words_by_setting: Mapping[str, frozenset[str]]
    missing: frozenset[str]
    run_states: Mapping[str, str]
    profiles: tuple[str, ...] | None
    notes: frozenset[str] | None
    version: str
    is_certain: bool
    lines: Sequence[Citation]
    stale: frozenset[int]
    has_parameter: bool
    is_container: bool

    def refusal(self, setting: str, value: str) -> str:
        """Return the reason if the kernel does not know the word; empty if it does or if that is unknown."""
        words = self.words_by_setting.get(setting)
        if words is None and self.platform not in _UNKNOWN_WORDS_PLATFORMS and (self.era or setting != "thp.defrag"):
            words = platforms.accepted_words(setting.removeprefix("thp.").replace(".", "/"), self.platform, self.era)
        is_accepted = words is None or value in words or value.isdigit()
        return "" if is_accepted else f"this kernel does not accept the value {quoted(value)} there"


def boot_config(facts: Sequence[Fact], states: Sequence[State]) -> BootConfig:
    """Return the boot configuration that the input shows."""
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
        words_by_setting={
            f.name.removesuffix(".accepts"): frozenset(str(f.value).split())
            for f in facts
            if f.name.endswith(".accepts")
        },
        missing=_missing_directories(facts, values.get("platform", "")),
        run_states={str(f.label("unit") or f.label("path")): str(f.value) for f in facts if f.name == "rc.state"},
        profiles=_active_profiles(facts),
        notes=frozenset(note for names in notes for note in names) if notes else None,
        version=version or platforms.tuned_version(values.get("kernel.release", "")),
        is_certain=bool(version),
        lines=lines,
        stale=frozenset({id(f) for f in boot} - {id(f) for f in current}),
        has_parameter=any(f.name == "boot.transparent_hugepage" for f in current),
        is_container="host.container" in values,
    )


def profile_switches(records: Iterable[Record]) -> Iterator[Event]:
    """Yield the writes of `tuned-adm profile` at a prompt, from the profile's own file or the shipped one.

    Settings are unclear if the profile is unknown, or if the previous profile set them and this one does not.
    """
    records = list(records)
    facts = [record for record in records if isinstance(record, Fact)]
    written = {(f.label("profile"), f.label("setting")): str(f.value) for f in facts if f.name == "rc.thp_write"}
    release = next((str(f.value) for f in facts if f.name == "kernel.release"), "")
    version = next((str(f.value) for f in facts if f.name == "tuned.version"), "") or platforms.tuned_version(release)
    before = dict[str, str]()
    for event in records:
        if not isinstance(event, Event) or event.fields.get("what") != "tuning profile":
            continue
        name = event.fields["of"]
        shipped = platforms.settings_of_switched_profile(name, version)
        after = {setting: value for (profile, setting), value in written.items() if profile == name and setting}
        after = after or dict(shipped or {})
        unknown = MAIN_SETTINGS if not after and shipped is None else before.keys() - after.keys()
        for setting, value in (*after.items(), *((setting, "") for setting in sorted(unknown))):
            fields = {"setting": setting, "value": value, "how": "prompt" if value else "unclear", "profile": name}
            yield Event("setting_written", event.cite, event.time, fields)
        before = after


def _missing_directories(facts: Sequence[Fact], platform: str) -> frozenset[str]:
    """Return which THP directories of sysfs do not exist: `redhat` (redhat_transparent_hugepage) or `mainline`."""

    def kind(directory: str | None) -> str:
        return "" if not directory else "redhat" if directory.startswith("redhat_") else "mainline"

    listed = [f for f in facts if f.name == "thp.directory"]
    gone = {kind(f.label("directory")) for f in listed if f.value == "absent"}
    if re.fullmatch(r"el6\.[0-3]", platform):
        gone.add("mainline")
    elif platform and not platform.startswith("el6"):
        gone.add("redhat")
    return frozenset(gone - {kind(str(f.value)) for f in listed if f.value != "absent"} - {""})


def _active_profiles(facts: Sequence[Fact]) -> tuple[str, ...] | None:
    """Return the active profile of tuned and its includes; of several merged profiles the last has priority."""
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
    """A value that a place of the input configures, and its effect.

    `place` is its display name, `profile` the profile of tuned. Of two that take effect, the higher `rank` wins.
    `from_log`: it is from a log, maybe of another boot. `reason` states why it has no effect on the running kernel,
    `boot_reason` why it has none at the next boot; empty if it may have one. `is_certain` is False if it depends
    on the version of tuned, which is not in the input.
    """

    setting: str
    value: str
    place: str
    rank: float
    cite: Citation
    size: str = ""
    profile: str = ""
    from_log: bool = False
    reason: str = ""
    boot_reason: str = ""
    is_certain: bool = True
    broken: bool = False  # it is meant to take effect and cannot
    runs_at_boot: bool = False  # False also if that is unknown

    def __post_init__(self) -> None:
        for name in ("place", "reason", "boot_reason"):
            object.__setattr__(self, name, sentence(getattr(self, name)))

    @property
    def key(self) -> tuple[str, str]:
        return self.setting, self.size

    def without_effect(self, reason: str) -> ConfiguredSetting:
        """Return a copy without an effect now and at the next boot."""
        return replace(self, reason=reason, boot_reason=reason)


def configured_settings(facts: Sequence[Fact], boot: BootConfig) -> list[ConfiguredSetting]:
    """Return the settings of all places: first the boot line, then in the order of boot."""
    settings = [
        *_settings_of_boot_lines(facts, boot),
        *_rank_profiles([*_settings_of_files(facts, boot), *_shipped_settings(facts, boot)], boot),
    ]
    settings.sort(key=lambda s: (s.rank, s.cite.member, s.cite.line or 0))
    return list(dict.fromkeys(settings))[-MAX_SETTINGS:]


def _settings_of_boot_lines(facts: Sequence[Fact], boot: BootConfig) -> Iterator[ConfiguredSetting]:
    for fact in facts:
        if (setting := PARAMETERS.get(fact.name)) is None:
            continue
        words = parse_thp_anon(str(fact.value)) if setting == "thp.size.enabled" else [("", str(fact.value))]
        for size, value in words:
            entry = ConfiguredSetting(setting, value, BOOT_LINE, 0, fact.cite, size, from_log=is_from_log(fact))
            refusal = boot.refusal(setting, value)
            if id(fact) in boot.stale:
                yield entry.without_effect("it is of another boot")
            else:
                yield replace(entry, reason=refusal, boot_reason=refusal, broken=bool(refusal))


def _settings_of_files(facts: Sequence[Fact], boot: BootConfig) -> Iterator[ConfiguredSetting]:
    """Yield what start-up files write. The last line of a file counts; the branch that an init script runs is unknown.

    A line for a missing directory is left out if the same file also writes to the existing one.
    """
    written = [
        (f, _setting_of_line(f, boot), f.label("directory") in boot.missing)
        for f in facts
        if f.name == "rc.thp_write" and f.provenance != "prose"
    ]
    keys = {(f.label("path"), entry.key) for f, entry, is_missing in written if not is_missing}
    kept = [entry for f, entry, is_missing in written if not is_missing or (f.label("path"), entry.key) not in keys]
    kept.sort(key=lambda entry: (entry.cite.member, entry.place, entry.key, entry.cite.line or 0))
    for _, group in groupby(kept, key=lambda entry: (entry.cite.member, entry.place, entry.key)):
        lines = list(group)
        effective = [entry for entry in lines if not entry.reason]
        undecided = len({entry.value for entry in effective}) > 1 and "/init.d/" in f"/{effective[-1].place!s}"
        for entry in lines:
            reason = ""
            if entry in effective and undecided:
                reason = "the script writes several values, and which one depends on how it is called"
            elif entry in effective and entry != effective[-1]:
                reason = "a later line of the file writes again"
            yield replace(entry, reason=entry.reason or reason, boot_reason=entry.boot_reason or reason)


def _setting_of_line(fact: Fact, boot: BootConfig) -> ConfiguredSetting:
    path, profile = fact.label("path") or "", fact.label("profile") or ""
    is_tuned = fact.provenance == "tuned"
    kind = platforms.start_up_place(path, boot.platform)
    place = f"tuned's profile {quoted(profile)}" if is_tuned else quoted(path) or kind.name
    rank = kind.rank + (_AFTER_TUNED_RANK if fact.label("after") == "tuned" else 0)
    size, profile_of_tuned = fact.label("size") or "", profile if is_tuned else ""
    entry = ConfiguredSetting(
        fact.label("setting") or "", str(fact.value), place, rank, fact.cite, size, profile_of_tuned
    )
    refusal = boot.refusal(entry.setting, entry.value)
    if fact.provenance == "boot line":
        return replace(entry, reason="it is for the next boot", boot_reason=refusal)
    inactive = _inactive_reason(fact.provenance, profile, boot)
    reason = inactive or _BROKEN_REASONS.get(fact.label("broken") or "", "")
    if not reason and fact.label("directory") in boot.missing:
        prefix = "redhat_" if fact.label("directory") == "redhat" else ""
        reason = f"this kernel has no /sys/kernel/mm/{prefix}transparent_hugepage"
    reason = reason or refusal or _not_run_reason(path, boot)
    # The active profile of tuned, files of systemd-tmpfiles, and enabled or executable files are known to run; but the
    # directories that a host uses are unknown without its release.
    names = (path, path.rpartition("/")[2], *(_RC_LOCAL if "rc.local" in path else ()))
    enabled = bool(entry.profile) or "tmpfiles.d/" in path or any(boot.run_states.get(name) == "yes" for name in names)
    broken, runs = bool(reason and not inactive), bool(boot.platform) and enabled
    entry = replace(entry, reason=reason, boot_reason=reason, broken=broken, runs_at_boot=runs)
    return entry if reason or not fact.label("plugin") else _apply_boot_line(entry, boot)


def _inactive_reason(source: str, profile: str, boot: BootConfig) -> str:
    """Return why a place is inactive: a profile or note that is not applied, or a file of a container."""
    if boot.is_container:
        return "it is a file of a container, and the host's start-up files are not in the input"
    if source == "tuned":
        if boot.profiles is None:
            return "which profile of tuned is active is not in the input"
        return "" if profile in boot.profiles else f"the profile {quoted(profile)} is not active"
    if source == "saptune":
        if boot.notes is None:
            return "which notes saptune applies is not in the input"
        return "" if profile in boot.notes else f"saptune does not apply the note {quoted(profile)}"
    return ""


def _not_run_reason(path: str, boot: BootConfig) -> str:
    unit = path.rpartition("/")[2]
    same_file = _RC_LOCAL if unit == "rc.local" else (path,)
    if any(boot.run_states.get(name) == "no" for name in same_file):
        return "the file is not executable"
    if boot.run_states.get(unit) == "no" and (unit.endswith(".service") or "init.d/" in path):
        return f"{quoted(unit)} is not enabled"
    return ""


def _apply_boot_line(entry: ConfiguredSetting, boot: BootConfig) -> ConfiguredSetting:
    """Return a profile's setting; from 2.5 on, tuned obeys the boot line, without its version that is uncertain."""
    if entry.setting != "thp.enabled" or not boot.has_parameter:
        return entry
    if not boot.version:
        return replace(entry, is_certain=False)
    if not platforms.respects_boot_line(boot.version):
        return entry
    return entry.without_effect(f"tuned {quoted(boot.version)} leaves enabled alone when the boot line sets it")


def _shipped_settings(facts: Sequence[Fact], boot: BootConfig) -> Iterator[ConfiguredSetting]:
    """Yield what active profiles and notes write whose files are not in the input."""
    if boot.is_container:
        return
    shown = {f.label("profile") for f in facts if f.name in ("rc.thp_write", "rc.include")}
    version = f" (tuned {quoted(boot.version)})" if boot.version and boot.is_certain else ""
    for active in [f for f in facts if f.name == "tuned.profile"][-1:]:
        rank = platforms.start_up_place("etc/tuned/", boot.platform).rank
        for name in [p for p in boot.profiles or () if p not in shown]:
            place = f"tuned's profile {quoted(name)}{version}"
            for known in platforms.settings_of_profile(name, boot.version):
                entry = ConfiguredSetting(known.setting, known.value, place, rank, active.cite, profile=name)
                yield _apply_boot_line(replace(entry, is_certain=boot.is_certain, runs_at_boot=True), boot)
    for applied in [f for f in facts if f.name == "saptune.notes"][:1]:
        rank = platforms.start_up_place("etc/saptune/", boot.platform).rank
        for note in sorted((boot.notes or frozenset()) - shown):
            place = f"saptune's note {quoted(note)}"
            for known in platforms.settings_of_note(note):
                yield ConfiguredSetting(known.setting, known.value, place, rank, applied.cite)


def _rank_profiles(settings: Sequence[ConfiguredSetting], boot: BootConfig) -> Iterator[ConfiguredSetting]:
    """Yield the settings; the including profile overrides included ones, and /etc overrides /usr."""
    order = {name: number for number, name in enumerate(boot.profiles or ())}

    def priority(entry: ConfiguredSetting) -> tuple[int, bool]:
        return order.get(entry.profile, len(order)), "etc/" not in entry.cite.member and "etc/" not in entry.cite.text

    first: dict[tuple[str, str], tuple[int, bool]] = {}
    active = [entry for entry in settings if entry.profile and not entry.reason]
    for entry in active:
        first[entry.key] = min(first.get(entry.key, priority(entry)), priority(entry))
    for entry in settings:
        is_overridden = entry.profile and not entry.reason and priority(entry) != first[entry.key]
        yield entry.without_effect("another file of the active profile sets it again") if is_overridden else entry


def last_writer(candidates: Iterable[ConfiguredSetting]) -> tuple[ConfiguredSetting | None, list[ConfiguredSetting]]:
    """Return the setting that takes effect last; if that is unknown, None and the candidates that differ."""
    settings = list(candidates)
    if not settings:
        return None, []
    last_rank = max(s.rank for s in settings)
    last_settings = [s for s in settings if s.rank == last_rank]
    if all(is_same_value(s.value, last_settings[0].value) for s in last_settings):
        return last_settings[0], []
    return None, last_settings


HUGE_PAGE_TRACE = "node_memory_AnonHugePages_bytes"
UNKNOWN, NONE = "unknown", "none"
DEFAULT_PLACE, MENU_PLACE = "the distribution's default", "the boot menu"
VERSION_CAVEAT = "if tuned is of a version that does that; its version is not in the input"
MAIN_SETTINGS = ("thp.enabled", "thp.defrag")
MAX_CONFIGURED = 100  # facts of configured settings
MAX_CONTRADICTIONS = 20  # per state
_PASSIVE_SIZE_WORDS = frozenset({"inherit", "never"})


def add_setting_facts(case: Case) -> tuple[tuple[Fact, ...], tuple[State, ...]]:
    """Return facts and states with setting facts; boot lines of other boots remain only in setting.said."""
    all_facts = (*case.facts, *(f for s in case.states for f in s.facts if not f.name.startswith("thp.")))
    boot = boot_config(all_facts, case.states)
    settings, lines = configured_settings(all_facts, boot), boot.lines
    facts, all_facts = (tuple(f for f in group if id(f) not in boot.stale) for group in (case.facts, all_facts))
    current = replace(case, facts=all_facts)
    contradictions = [
        *_conflicting_start_up(settings),
        *_pending_change(all_facts, settings, lines),
        *_huge_page_traces(current, settings),
    ]
    further = [
        *_inferred_settings(all_facts, case.states, settings),
        *_configured_facts(settings),
        *(_settings_after_reboot(all_facts, case.states, settings, lines)),
        *contradictions[:MAX_CONTRADICTIONS],
    ]
    states = (replace(s, facts=(*s.facts, *_contradictions_in_state(s, current, settings, lines))) for s in case.states)
    return (*facts, *further), tuple(states)


def _configured_facts(settings: Sequence[ConfiguredSetting]) -> Iterator[Fact]:
    for entry in settings[:MAX_CONFIGURED]:
        labels = {
            "setting": entry.setting,
            "place": entry.place,
            "counts": "no" if entry.reason else "yes",
            "why": entry.reason or ("" if entry.is_certain else VERSION_CAVEAT),
            "size": entry.size,
            "from": "" if entry.place == BOOT_LINE else "start-up file",
            "runs": "yes" if entry.runs_at_boot and entry.is_certain and not entry.reason else "",
        }
        yield Fact("setting.said", entry.value, entry.cite, tuple((key, word) for key, word in labels.items() if word))


def _contradiction(text: str, cite: Citation, setting: str, kind: str, **labels: str) -> Fact:
    """Return a fact that states what contradicts; empty labels are left out."""
    words = {"setting": setting, "kind": kind, **labels}
    return Fact(
        "setting.contradiction", sentence(text), cite, tuple((key, word) for key, word in words.items() if word)
    )


def first_fact(facts: Iterable[Fact], name: str) -> Fact | None:
    """Return the first measured fact of a name, else the first that is only mentioned in a text."""
    matches = [f for f in facts if f.name == name]
    return next((f for f in matches if not f.provenance), matches[0] if matches else None)


def facts_of_kernel(facts: Iterable[Fact], release: Fact | None) -> list[Fact]:
    """Return the facts without those from a configuration in /boot of another kernel than the running one."""
    running = str(release.value) if release else ""
    return [f for f in facts if (owner := f.label("release")) is None or not running or owner == running]


def default_setting(setting: str, facts: Sequence[Fact]) -> Fact | None:
    """Return the default of the distribution and its kernel, marked as assumed.

    None if the kernel has no transparent huge pages, or if the input shows a setting without the name of its file,
    which may be this one with another value. In a container, the distribution is that of the container and does not
    determine the kernel.
    """
    if first_fact(facts, "setting.unplaced") is not None:
        return None
    if (applicable := first_fact(facts, "thp.applicable")) is not None and applicable.value == "no":
        return None
    release, system = first_fact(facts, "kernel.release"), first_fact(facts, "os.name")
    if first_fact(facts, "host.container") is not None:
        system = None
    source, name = release or system, str(release.value) if release else ""
    value = ""
    if source and setting == "thp.defrag":
        value = kernel_era.defrag if (kernel_era := era(name)) else ""
    elif source and setting == "thp.enabled":
        value = defaults[0] if (defaults := enabled_default(name, str(system.value) if system else "")) else ""
    if setting == "thp.enabled" and (fact := first_fact(facts_of_kernel(facts, release), "kernel.thp_default")):
        source, value = fact, str(fact.value)
    return Fact(setting, value, source.cite, provenance="assumed") if source and value else None


def _has_backports(release: Fact | None) -> bool:
    """Whether the distribution backports so much code that the release number says little: RHEL from 9 on, SUSE."""
    return release is not None and re.search(r"\.el(?:9|1\d)|-default$", str(release.value)) is not None


def smaller_sizes(facts: Sequence[Fact]) -> Iterator[Fact]:
    """Yield thp.smaller_sizes: the widest word of all sizes but the largest; `inherit` means that of enabled.

    Kernels before 6.8 have one size, except those of distributions with backports.
    """
    words = [f for f in facts if f.name == "thp.size.enabled" and f.value in _WIDEST_LAST]
    sizes = {f: int((f.label("size") or "0kB")[:-2]) for f in words}
    smaller = [fact for fact, size in sizes.items() if size < max(sizes.values())]
    known = first_fact(facts, "kernel.era")
    if smaller:
        widest = max(smaller, key=lambda fact: _WIDEST_LAST.index(str(fact.value)))
        enabled = first_fact(facts, "thp.enabled") if widest.value == "inherit" else None
        yield replace(widest, name="thp.smaller_sizes", value=enabled.value if enabled else widest.value)
    elif known and known.value != platforms.ERA_OF_SIZES and not _has_backports(first_fact(facts, "kernel.release")):
        yield replace(known, name="thp.smaller_sizes", value="never")


def assumed_settings(state: State, facts: Sequence[Fact]) -> Iterator[Fact]:
    """Yield defaults for a state without measured settings, even if other states of the case have them.

    A default is left out if a place configures another value.
    """
    known = {f.name for f in (*state.facts, *facts)} | set(state.settings)
    for setting in MAIN_SETTINGS:
        if setting in known or (default := default_setting(setting, facts)) is None:
            continue
        entry = [f for f in facts if f.name == "setting.said" and f.label("setting") == setting]
        effective = (f for f in entry if f.label("counts") == "yes" and not f.label("size"))
        if all(is_same_value(f.value, default.value) for f in effective):
            yield default


def _inferred_settings(
    facts: Sequence[Fact], states: Sequence[State], settings: Sequence[ConfiguredSetting]
) -> Iterator[Fact]:
    """Yield settings that no state shows, inferred from the next best place."""
    known = {f.name for f in facts}.union(*({f.name for f in s.facts} | set(s.settings) for s in states))
    for setting in sorted({*MAIN_SETTINGS, *(s.setting for s in settings if not s.size)} - known):
        effective = [s for s in settings if s.setting == setting and not s.size and not s.reason]
        default = default_setting(setting, facts)
        best, _ = last_writer(effective)
        certain, _ = last_writer(s for s in effective if s.is_certain)
        is_default = best and not best.is_certain and default and is_same_value(best.value, default.value)
        if not effective or (is_default and not certain):
            yield from [default] if default else []
        elif best and (best.is_certain or (certain and is_same_value(best.value, certain.value))):
            result = best if best.is_certain or certain is None else certain
            if setting == "thp.enabled" and result.value == "never" and _last_huge_page_trace(states):
                continue
            value = int(result.value) if result.value.isdecimal() and len(result.value) < 16 else result.value
            source = "boot line" if result.place == BOOT_LINE else "tuned" if result.profile else "rc file"
            yield Fact(setting, value, result.cite, provenance=source)


def _last_huge_page_trace(states: Sequence[State]) -> Sample | None:
    """Return the last row that shows memory in huge pages."""
    last = last_row_having((sample for state in states for sample in state.samples), HUGE_PAGE_TRACE)
    return last if last is not None and last.values[HUGE_PAGE_TRACE] > 0 else None


def _settings_after_reboot(
    facts: Sequence[Fact], states: Sequence[State], settings: Sequence[ConfiguredSetting], lines: Sequence[Citation]
) -> Iterator[Fact]:
    """Yield setting.next_boot, and setting.kept if the current value is known."""
    if not lines and not settings and not any(f.name == "boot.entry" for f in facts):
        return
    running: dict[str, Fact] = {}  # the last measured value of each setting, if the order of the states is known
    if len(states) < 2 or all(s.order is not None for s in states if s.settings):
        for state in sorted(states, key=lambda s: s.order or 0):
            running |= {
                f.name: f for f in state.facts if f.name.startswith("thp.") and not f.labels and not f.provenance
            }
    for setting in dict.fromkeys([*MAIN_SETTINGS, *(s.setting for s in settings if not s.size)]):
        general = [s for s in settings if s.setting == setting and not s.size]
        if (after_reboot := _setting_after_reboot(setting, facts, general)) is None:
            continue
        value, source, place = after_reboot
        labels, provenance = (("setting", setting), ("from", place)), "assumed" if place == DEFAULT_PLACE else ""
        yield Fact("setting.next_boot", value, source.cite, labels, provenance=provenance)
        if setting in running and value != UNKNOWN:
            kept = "yes" if is_same_value(running[setting].value, value) else "no"
            yield Fact("setting.kept", kept, source.cite, labels, provenance=provenance)


def _setting_after_reboot(
    setting: str, facts: Sequence[Fact], settings: Sequence[ConfiguredSetting]
) -> tuple[str, ConfiguredSetting, str] | None:
    """Return the value of a setting after a reboot, what sets it, and its place in words."""
    base = _initial_setting(setting, facts, settings)
    writer, conflicting = last_writer(s for s in settings if not s.boot_reason and s.rank > 0)
    if base is not None and base.place == MENU_PLACE and any(s.profile for s in settings):
        return UNKNOWN, base, f"{MENU_PLACE} and a profile of tuned"  # tuned may obey the boot line
    if not writer and not conflicting and not any(f.name == "boot.entry" for f in facts):
        pending = (s for s in settings if not s.rank and not s.boot_reason and s.place != BOOT_LINE)
        changed = next((s for s in pending if base is None or not is_same_value(s.value, base.value)), None)
        if changed is not None:
            sets = f"{changed.place} sets {quoted(changed.value)}"
            reason = f"{sets}, and the input does not show if the boot menu was regenerated"
            return UNKNOWN, changed, sentence(reason)
    if conflicting:
        return UNKNOWN, conflicting[0], "places that differ, and it is not known which runs last"
    if writer is not None and not writer.is_certain:
        if base is None or not is_same_value(writer.value, base.value):
            return UNKNOWN, writer, sentence(f"{writer.place}, and the version of tuned decides")
        writer = base
    chosen = writer or base
    return (chosen.value, chosen, chosen.place) if chosen else None


def _initial_setting(
    setting: str, facts: Sequence[Fact], settings: Sequence[ConfiguredSetting]
) -> ConfiguredSetting | None:
    """Return the setting with which the kernel starts; a boot menu counts only if it differs from the boot line."""
    menu = _menu_entry(facts) if setting == "thp.enabled" else None
    line = next((s for s in settings if s.place == BOOT_LINE and not s.boot_reason), None)
    default = default_setting(setting, facts)
    if menu is not None and menu.value != (line.value if line else NONE):
        word = default.value if menu.value == NONE and default else menu.value
        return ConfiguredSetting(setting, UNKNOWN if word == NONE else str(word), MENU_PLACE, 0, menu.cite)
    return line or (ConfiguredSetting(setting, str(default.value), DEFAULT_PLACE, 0, default.cite) if default else None)


def _menu_entry(facts: Sequence[Fact]) -> Fact | None:
    """Return the boot loader entry that is started next: the default one, else that of the running kernel.

    Its value is `unknown` if entries differ and the right one is unknown; None without a menu.
    """
    entries = [f for f in facts if f.name == "boot.entry" and f.label("kernel") != "kernelopts"]
    variable = next((f for f in facts if f.name == "boot.entry" and f.label("kernel") == "kernelopts"), None)
    if not entries:
        return variable
    release = first_fact(facts, "kernel.release")
    candidates = [f for f in entries if f.label("default") == "yes"]
    candidates = candidates or [f for f in entries if release and f.label("kernel") == str(release.value)] or entries
    resolved = [variable if f.value == "kernelopts" and variable else f for f in candidates]
    if len({str(f.value) for f in resolved}) == 1 and resolved[0].value != "kernelopts":
        return resolved[0]
    return Fact("boot.entry", UNKNOWN, resolved[0].cite)


def _contradictions_in_state(
    state: State, case: Case, settings: Sequence[ConfiguredSetting], lines: Sequence[Citation]
) -> list[Fact]:
    """Return the contradictions to the kernel's values in a state; `lines` are the boot lines of this boot."""
    contradictions: dict[tuple[str, str], Fact] = {}
    running = {
        (f.name, f.label("size") or ""): f for f in state.facts if f.name.startswith("thp.") and not f.provenance
    }
    general = running.get(("thp.enabled", ""))
    sizes: list[Fact] = []
    for key, shown in running.items():
        manual_write = next((e.cite for e in (*state.events, *case.events) if _is_manual_write(e, shown)), None)
        for fact in _contradictions_of_setting(shown, [s for s in settings if s.key == key], manual_write, lines):
            contradictions.setdefault((key[0], str(fact.value)), fact)
        if general is None or key[0] != "thp.size.enabled" or str(shown.value) in _PASSIVE_SIZE_WORDS:
            continue
        if general.value != "always" and not is_same_value(shown.value, general.value):
            text = (
                f"enabled is {quoted(general.value)}, but hugepages-{key[1]}/enabled is {quoted(shown.value)}: "
                f"pages of {key[1]} are used all the same"
            )
            labels = {"pages": key[1], "running": str(general.value)}
            sizes.append(_contradiction(text, shown.cite, general.name, "size", **labels))
    return [*contradictions.values(), *sizes][:MAX_CONTRADICTIONS]


def _is_above(left: Citation, right: Citation) -> bool:
    return (left.line or 0) <= (right.line or 0)


def _is_manual_write(event: Event, shown: Fact) -> bool:
    """Whether a write at a prompt set the shown value before it was read."""
    if event.kind != "setting_written" or event.fields.get("how") != "prompt" or shown.label("size"):
        return False
    if event.fields.get("setting") != shown.name or not is_same_value(event.fields.get("value", ""), shown.value):
        return False
    return event.cite.member != shown.cite.member or _is_above(event.cite, shown.cite)


def _contradictions_of_setting(
    shown: Fact, settings: Sequence[ConfiguredSetting], manual_write: Citation | None, lines: Sequence[Citation]
) -> Iterator[Fact]:
    def contradiction(text: str, kind: str, entry: ConfiguredSetting | None = None, by: str = "") -> Fact:
        wanted, other = (entry.value, str(entry.cite)) if entry else ("", "")
        labels = {"wanted": wanted, "running": str(shown.value), "by": by, "other": other}
        return _contradiction(text, shown.cite, shown.name, kind, **labels, size=shown.label("size") or "")

    relevant = _settings_of_same_bundle(shown, settings, lines)
    differing = [entry for entry in relevant if not is_same_value(entry.value, shown.value)]
    effective = [entry for entry in differing if not entry.reason]
    for entry in effective:
        later = [s for s in relevant if not s.reason and s.runs_at_boot and s.rank > entry.rank]
        writer, _ = last_writer(s for s in later if is_same_value(s.value, shown.value))
        if writer is None and manual_write is not None:
            wrote = f"{quoted(shown.value)} was written at a prompt ({path_name(manual_write)})"
            text = f"{entry.place} sets {quoted(entry.value)}; {wrote}"
            yield contradiction(text, "by_hand", entry, "operator")
        else:
            how, by = "", "tuned" if writer and writer.profile else "start-up file" if writer else ""
            if writer and writer.is_certain:
                how = f": {writer.place} writes that later in the boot"
            elif writer:
                how = f": {writer.place} may have written that, as tuned did before version 2.5"
                by += ", by the kernel's release"
            text = f"{entry.place} sets {quoted(entry.value)}, the running kernel has {quoted(shown.value)}{how}"
            yield contradiction(text, "overridden", entry, "" if entry.from_log else by)
    for entry in differing if manual_write is None else ():
        if entry.broken:
            running = f"the running kernel has {quoted(shown.value)}: {entry.reason}"
            yield contradiction(f"{entry.place} sets {quoted(entry.value)}, and {running}", "ineffective", entry)
    if not effective and lines:
        yield contradiction(NONE, "overridden")


def _settings_of_same_bundle(
    shown: Fact, settings: Sequence[ConfiguredSetting], lines: Sequence[Citation]
) -> list[ConfiguredSetting]:
    """Return the settings that were read in the same bundle as the shown value; other bundles may be of another time.

    If boot lines precede the value in the same file, only the nearest one counts.
    """
    roots = {root_of(cite.member) for cite in (*lines, *(s.cite for s in settings))}
    root = root_of(shown.cite.member)
    same_file = [s for s in settings if s.place == BOOT_LINE and s.cite.member == shown.cite.member]
    preceding = [s for s in same_file if _is_above(s.cite, shown.cite)]
    if preceding:
        settings = [s for s in settings if s.place != BOOT_LINE or s is preceding[-1]]
    nearest = preceding[-1] if preceding else None
    return [s for s in settings if s is nearest or root_of(s.cite.member) in {"", root} or root not in roots]


def _conflicting_start_up(settings: Sequence[ConfiguredSetting]) -> Iterator[Fact]:
    """Yield start-up files that write different values."""
    for key in dict.fromkeys(s.key for s in settings):
        effective = [s for s in settings if s.key == key and not s.boot_reason and s.rank > 0]
        if len({s.value for s in effective}) < 2:
            continue
        last, conflicting = last_writer(effective)
        winner = last or conflicting[-1]
        other = next(s for s in reversed(effective) if not is_same_value(s.value, winner.value))
        order = f"{winner.place} runs last" if last else "it is unknown which of them runs last"
        text = f"{other.place} sets {quoted(other.value)}, {winner.place} sets {quoted(winner.value)}; {order}"
        yield _contradiction(text, winner.cite, key[0], "start_up", wanted=other.value, other=str(other.cite))


def _pending_change(
    facts: Sequence[Fact], settings: Sequence[ConfiguredSetting], lines: Sequence[Citation]
) -> Iterator[Fact]:
    """Yield the boot menu as a contradiction if it differs from the current boot line."""
    menu = _menu_entry(facts)
    if menu is None or not lines or menu.value in (UNKNOWN, "kernelopts"):
        return
    line = next((s for s in settings if s.place == BOOT_LINE and s.setting == "thp.enabled" and not s.reason), None)
    values = line.value if line else NONE, str(menu.value)
    if values[0] != values[1]:
        texts = [f"transparent_hugepage={quoted(v)}" if v != NONE else "no transparent_hugepage=" for v in values]
        text = f"this boot was made with {texts[0]}, the boot menu has {texts[1]}, which counts from the next boot on"
        yield _contradiction(text, menu.cite, "thp.enabled", "pending", wanted=values[1], other=str(lines[0]))


def _huge_page_traces(case: Case, settings: Sequence[ConfiguredSetting]) -> Iterator[Fact]:
    """Yield huge pages although every place is never and the setting was not read."""
    if any(f.name == "thp.enabled" and not f.provenance for s in case.states for f in s.facts):
        return
    best, _ = last_writer(s for s in settings if s.key == ("thp.enabled", "") and not s.reason)
    if best is None or best.value != "never" or (row := _last_huge_page_trace(case.states)) is None:
        return
    text = (
        f"{best.place} is never, but {row.values[HUGE_PAGE_TRACE] / 2**20:,.0f} MiB are in huge pages: they were on "
        "at some time since boot, or still are"
    )
    yield _contradiction(text, row.cite, "thp.enabled", "traces", wanted="never", other=str(best.cite))
