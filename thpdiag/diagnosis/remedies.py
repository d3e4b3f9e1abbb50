"""Remedies for a mechanism on this host: those that its rule names, checked and filled in.

The smallest scope comes first: if a finding is about a process or control group whose service, container or guest is
known, steps for that alone precede steps for the whole host, even if the rule does not name them.

A remedy is left out if it does not cure the mechanism, if this kernel does not accept it, if it is in force already, or
if it takes huge pages from an application that wants them. Consequences of a cause have no remedies of their own, and
no other finding gives a different value to a setting that the remedies of the cause set. Texts and commands:
remedies.yaml.

Settings whose names begin with `vm.` or `kernel.` are sysctls; all others are in the directory of huge pages, of which
only `enabled` has a parameter on the kernel command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from thpdiag.diagnosis.diagnose import Diagnosis
from thpdiag.diagnosis.ranking import THP, mechanism_kind
from thpdiag.knowledge import applications, platforms
from thpdiag.knowledge.known_issues import numbers
from thpdiag.knowledge.mechanisms import Row, cures, environment, remedies, verifications
from thpdiag.model import Case, Fact, Finding, Sample, State
from thpdiag.model.document import NameInText, present_keys
from thpdiag.model.result import Remedy, Verification

DIRECTORIES = ("transparent_hugepage", "redhat_transparent_hugepage")
_ALL_PATHS = " ".join(f"/sys/kernel/mm/{name}" for name in DIRECTORIES)
ASKED_METRIC = "process_asked_huge_bytes"
MIN_ASKED_BYTES = (
    2.0**30
)  # an estimate: processes slowed by faults fill gigabytes, and many programs ask for small heaps
MAX_REMEDIES = 5  # per finding
UNIT_FILE = "/etc/systemd/system/thp-settings.service"  # one unit for all settings, a line each
UNIT_REFERENCE = "# in the unit of step {}:"
ENABLE_COMMAND = "systemctl enable thp-settings.service"
KEEPING_REMEDIES = ("defrag-never", "khugepaged-max-ptes-none", "thp-keep")  # if huge pages must stay on
PROGRAM_REMEDIES = ("process-opt-out", "process-huge-pages")  # added if the service is known
DATA_REMEDIES = ("collect-more", "toggle-test")  # steps that cure nothing but get more data
# Words allowed in a command that is run as root. The input is not trusted.
_SAFE_WORD = re.compile(r"[A-Za-z0-9_+.-]{1,40}")
_PLACEHOLDER = re.compile(r"@([a-z]+)@")
_MADVISE_WORD = re.compile("madvise|defer")  # values that old kernels do not accept
_ENVIRONMENT_TEMPLATES = {"persist": "write", "undo_persist": "back"}
_PROCESS_ENTITY = re.compile(r"(?P<comm>.{1,200}) \((?P<pid>\d{1,8})(?:, .{1,60})?\)")
_CONTAINER = re.compile(r"(?:^|/)(?:kubepods|docker|crio|libpod|cri-containerd|lxc)[-./]|(?:^|/)lxc\.payload")
_GUEST = re.compile(r"(?:^|/)machine-qemu\S*\.scope|(?:^|/)machine/")
_SERVICE = re.compile(r"(?:^|/)(?P<unit>[A-Za-z0-9_@.-]{1,80}\.service)(?:/|$)")
_HOST_COMMAND = re.compile(r"> /(?:sys|proc/sys)/|> @dir@|sysctl -w|tuned-adm|mount ")


@dataclass(frozen=True, slots=True)
class HostView:
    """Properties of a host that select and fill in remedies.

    - `settings`: values in force (`thp.enabled` -> `always`); those in `assumed` were not read from the kernel.
    - `directory`: the name below /sys/kernel/mm, empty if unknown; `accepts`: the words that each setting accepts.
    - `bootline`: the value of transparent_hugepage= on the boot line.
    - `asks`: a process has much memory for which it requested huge pages itself.
    - `versions`: those of applications; `os`: the release of the distribution.
    - `container`: the kind of container that the input is from.
    - `units`: the systemd units that the finding may be about, the likeliest first.
    - `inside`: "container" or "guest" if the finding is about one.
    """

    platform: str = ""
    era: str = ""
    directory: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    accepts: Mapping[str, frozenset[str]] = field(default_factory=dict)
    apps: tuple[str, ...] = ()
    tuned: str = ""
    bootline: str = ""
    container: str = ""
    asks: bool = False
    assumed: frozenset[str] = frozenset()
    versions: Mapping[str, str] = field(default_factory=dict)
    os: str = ""
    arch: str = ""
    kernel: str = ""
    units: tuple[str, ...] = ()
    inside: str = ""

    @property
    def family(self) -> platforms.Family:
        return platforms.family(self.platform)

    @property
    def age(self) -> str:
        """The era from the input, or else that of the distribution's own kernel."""
        return self.era or platforms.era_of_platform(self.platform)

    @property
    def place(self) -> str:
        """The directory to print; on RHEL 6 the one of all its releases. Empty: print both, with a test."""
        if self.platform:
            return platforms.directory(self.platform)
        return self.directory if self.directory in DIRECTORIES else ""

    def takes(self, setting: str, value: str) -> bool:
        """Return whether the kernel accepts a value for a setting (`enabled`, `defrag`, `khugepaged/defrag`). For a
        host that only shows RHEL 6's directory the strictest release is assumed."""
        words = self.accepts.get(f"thp.{setting.replace('/', '.')}")
        if words is None:
            platform = self.platform or ("el6.1" if self.directory == DIRECTORIES[1] else "")
            words = platforms.accepted_words(setting, platform, self.age)
        return words is None or value in words

    def stances(self) -> Iterator[tuple[applications.Application, applications.Stance]]:
        """Yield the applications of this host and the advice of their makers."""
        known = {"platform": self.platform, "os": self.os, "arch": self.arch, "kernel": self.kernel}
        for name in self.apps:
            if app := applications.application(name):
                yield app, applications.stance(app, {**known, "version": self.versions.get(name, "")})

    @property
    def boot_word(self) -> str:
        """The value for `enabled` on the boot line, if this kernel accepts it."""
        return self.bootline if self.bootline and self.takes("enabled", self.bootline) else "never"

    def measured_value(self, name: str) -> str | None:
        """Return the value of a setting as read from the kernel; None if it is assumed or unsafe in a command."""
        value = self.settings.get(name)
        return value if value is not None and name not in self.assumed and _SAFE_WORD.fullmatch(value) else None


def host_view(case: Case, state: State | None, entity: str = "") -> HostView:
    """Return the host in a state, with the service of the process or control group of the finding."""
    facts = [*case.facts, *(state.facts if state else ())]
    latest = {fact.name: str(fact.value) for fact in facts}
    settings, assumed = _settings(facts)
    if state:
        settings.update({name: str(value) for name, value in state.settings.items()})
        assumed -= set(state.settings)
    asking = (row.values.get(ASKED_METRIC, 0.0) for row in (state.samples if state else ()) if isinstance(row, Sample))
    tuned = latest.get("tuned.profile", "")  # may be several, separated by blanks
    units, inside = service_of(entity, facts)
    return HostView(
        platform=latest.get("platform", ""), era=latest.get("kernel.era", ""),
        directory=latest.get("thp.directory", ""), settings=settings, assumed=frozenset(assumed),
        accepts={
            f.name.removesuffix(".accepts"): frozenset(str(f.value).split())
            for f in facts
            if f.name.endswith(".accepts")
        },
        apps=tuple(dict.fromkeys(str(f.value) for f in facts if f.name == "app")),
        tuned=tuned if all(map(_SAFE_WORD.fullmatch, tuned.split())) else "",
        bootline=_safe_word(latest.get("boot.transparent_hugepage", "")),
        container=_safe_word(latest.get("host.container", "")), asks=any(size >= MIN_ASKED_BYTES for size in asking),
        versions={f.label("app") or "": str(f.value) for f in facts if f.name == "app.version"},
        os=latest.get("os.version", ""), arch=latest.get("kernel.arch", ""), kernel=latest.get("kernel.release", ""),
        units=units, inside=inside,
    )  # fmt: skip


def service_of(entity: str, facts: Iterable[Fact]) -> tuple[tuple[str, ...], str]:
    """Return the systemd units that a process or control group may belong to, and "container" or "guest" if it is in
    one.

    A control group has the unit in its path. A process has the unit of its control group if that is known, else that of
    the known application, whose packages use fixed unit names.
    """
    if entity.startswith("cgroup "):
        return _service_of_cgroup(entity.removeprefix("cgroup "))
    match = _PROCESS_ENTITY.fullmatch(entity)
    if not match:
        return (), ""
    facts_of_process = [fact for fact in facts if fact.label("pid") == match["pid"]]
    commands = (f for f in facts_of_process if f.name == "process.command" and f.label("comm") == match["comm"])
    apps = applications.running_applications(match["comm"], next((str(f.value) for f in commands), ""))
    if any(app.name == "kvm" for app in apps):
        return (), "guest"
    cgroups = [str(f.value) for f in facts_of_process if f.name == "process.cgroup"]
    if cgroups and any(service := _service_of_cgroup(cgroups[-1])):
        return service
    units = dict.fromkeys(unit if "." in unit else f"{unit}.service" for app in apps for unit in app.units)
    return tuple(units), ""


def _service_of_cgroup(path: str) -> tuple[tuple[str, ...], str]:
    inside = "container" if _CONTAINER.search(path) else "guest" if _GUEST.search(path) else ""
    unit = None if inside or "/user.slice/" in path else _SERVICE.search(path)  # a user slice is the whole session
    return ((unit["unit"],) if unit else ()), inside


def _safe_word(value: str) -> str:
    return value if _SAFE_WORD.fullmatch(value) else ""


def _settings(facts: Iterable[Fact]) -> tuple[dict[str, str], set[str]]:
    """The values in force, and the names of those that are only inferred. Measured values take precedence."""
    settings: dict[str, str] = {}
    inferred: set[str] = set()
    for fact in facts:
        if fact.labels or not fact.name.startswith(("thp.", "sysctl.")) or fact.name.endswith(".accepts"):
            continue
        if not fact.provenance:
            inferred.discard(fact.name)
        elif fact.name in settings:
            continue
        else:
            inferred.add(fact.name)
        settings[fact.name] = str(fact.value)
    return settings, inferred


# Commands that write a setting, make it persistent, and restore the old value


def fill(text: str, words: Mapping[str, str]) -> str:
    """Return a template with its placeholders replaced."""
    return _PLACEHOLDER.sub(lambda match: words[match[1]], text)


def in_directory(command: str, host: HostView) -> str:
    """Return a command with the directory of huge pages; with a loop over both if the directory is unknown."""
    if "@dir@" not in command:
        return command
    if host.place:
        return command.replace("@dir@", f"/sys/kernel/mm/{host.place}")
    return (
        f"for d in {_ALL_PATHS}; do if [ -d $d ]; then {command.partition('   #')[0].replace('@dir@', '$d')}; fi; done"
    )


def fact_name(setting: str) -> str:
    """Return the vocabulary name of a setting."""
    return f"sysctl.{setting}" if _is_sysctl(setting) else f"thp.{setting.replace('/', '.')}"


def _is_sysctl(setting: str) -> bool:
    return setting.startswith(("vm.", "kernel."))


def _file_name(setting: str) -> str:
    return setting.replace("/", "-").replace("_", "-")


def note_old_values(settings: Iterable[str], host: HostView) -> Iterator[str]:
    """Save the old values of settings that are not in the input. Existing saved values are kept."""
    for name in settings:
        if host.measured_value(fact_name(name)):
            continue
        file = f"~/thp-{_file_name(name)}.before"
        read = rf"sed 's/.*\[//; s/\].*//' @dir@/{name} > {file}"
        read = f"sysctl {name} > {file}" if _is_sysctl(name) else in_directory(read, host)
        yield f"[ -e {file} ] || {read}"


def write_values(settings: Mapping[str, str], host: HostView) -> Iterator[str]:
    """Write the values, after saving those they replace."""
    yield from note_old_values(settings, host)
    for name, value in settings.items():
        yield f"sysctl -w {name}={value}" if _is_sysctl(name) else in_directory(f"echo {value} > @dir@/{name}", host)


def write_old_values(settings: Iterable[str], host: HostView) -> Iterator[str]:
    """Restore the old values: those in the input, or else the saved ones."""
    for name in settings:
        old, file = host.measured_value(fact_name(name)), f"~/thp-{_file_name(name)}.before"
        if _is_sysctl(name):
            yield f"sysctl -w {name}={old}" if old else f"sysctl -p {file}"
        else:
            yield in_directory(f"echo {old} > @dir@/{name}" if old else f"cat {file} > @dir@/{name}", host)


def persist(settings: Mapping[str, str], host: HostView, *, back: bool = False) -> Iterator[str]:
    """Make values persistent: `enabled` on the kernel command line, all others in a start-up file. `back` reverts
    that. The boot line gets its old value again if it had one."""
    family, templates = host.family, []
    for name, value in settings.items():
        if _is_sysctl(name):
            templates.append((family.sysctl_back if back else family.sysctl, {"setting": name, "value": value}))
        elif name == "enabled" and family.boot and value != host.bootline:
            if not back:
                templates.append(((*family.boot, *family.boot_check), {"value": value}))
            else:
                templates.append((family.boot if host.bootline else family.boot_back, {"value": host.bootline}))
    at_start = {n: v for n, v in settings.items() if not _is_sysctl(n)}  # in a cluster also for new nodes
    start_only = {n: v for n, v in at_start.items() if n != "enabled" or not family.boot}
    if start_only:
        templates.append((family.start_back if back else family.start, _start_file_values(start_only, host)))
    if at_start and "kubernetes" in host.apps:
        templates.append((family.kubernetes_back if back else family.kubernetes, _start_file_values(at_start, host)))
    return (fill(text, words) for texts, words in templates for text in texts)


def _start_file_values(settings: Mapping[str, str], host: HostView) -> dict[str, str]:
    """The values of start-up templates. `before` are the systemd units of the applications, which must start later."""
    units = dict.fromkeys(unit for app, _ in host.stances() for unit in app.units)
    drops = {n: f"sed -i '/^# {_file_name(n)}$/,+1d' {UNIT_FILE}" for n in settings}
    writes = {n: in_directory(f"echo {v} > @dir@/{n}", host) for n, v in settings.items()}
    adds = (
        f"""{drops[n]}\nprintf '%s\\n' '# {_file_name(n)}' 'ExecStart=/bin/sh -c "{line}"' >> {UNIT_FILE}"""
        for n, line in writes.items()
    )
    return {
        "drops": "\n".join(drops.values()),
        "adds": "\n".join(adds),
        "name": _file_name(next(iter(settings))),
        "writes": "; ".join(writes.values()),
        "sysfs": "\n".join(f"kernel/mm/transparent_hugepage/{n} = {v}" for n, v in settings.items()),
        "before": " ".join(u if "." in u else f"{u}.service" for u in units) or "multi-user.target",
    }


# Selection of remedies


def remedies_of(finding: Finding, diagnosis: Diagnosis) -> list[Remedy]:
    """Return the remedies of a finding, given those of the leader."""
    leader = diagnosis.leader
    items = _advice_on_finding(finding, diagnosis)
    if leader is None or finding.outcome.rule == leader.outcome.rule:
        return with_one_unit(items)
    if finding.outcome.rule in leader.consequences or _is_explained_away(finding, leader):
        return []
    lead_ids = {item.id for item in _advice_on_finding(leader, diagnosis)}
    decided = {setting for name in lead_ids for setting in _settings_written(name)}
    return with_one_unit([item for item in items if item.id in lead_ids or not decided & _settings_written(item.id)])


def with_one_unit(items: Sequence[Remedy]) -> list[Remedy]:
    """Return the steps; only the first that uses the shared unit contains its text and enables it."""
    if not items:
        return []
    first = next((n for n, item in enumerate(items, 1) if any(map(_is_unit, item.persist))), len(items))
    written = {command for command in items[first - 1].persist if _is_unit(command) or command.endswith(ENABLE_COMMAND)}
    later = []
    for item in items[first:]:
        rest = [command for command in item.persist if command not in written]
        if len(rest) < len(item.persist):
            item = item.model_copy(update={"persist": [UNIT_REFERENCE.format(first), *rest]})
        later.append(item)
    return [*items[:first], *later]


def _is_unit(command: str) -> bool:
    return "\n[Unit]\n" in command


def host_state(finding: Finding, diagnosis: Diagnosis) -> State | None:
    """Return the state of a finding."""
    return next((state for state in diagnosis.case.states if state.id == finding.outcome.state), None)


def _advice_on_finding(finding: Finding, diagnosis: Diagnosis) -> list[Remedy]:
    """The remedies that the rule names. A confirmed finding needs no more data."""
    rule = diagnosis.rule_by_id[finding.outcome.rule]
    ids = [name for name in rule.file.remedies if name not in DATA_REMEDIES or finding.confidence != "confirmed"]
    host = host_view(diagnosis.case, host_state(finding, diagnosis), finding.outcome.entity)
    if ids and (host.units or host.inside):
        ids += [name for name in PROGRAM_REMEDIES if cures(remedies()[name], finding.mechanism)]
    return advice(ids, finding.mechanism, host)


def _is_explained_away(finding: Finding, leader: Finding) -> bool:
    """Whether a cause other than huge pages explains the finding, which has no call stacks of its own."""
    other = mechanism_kind(leader.mechanism) not in {"", THP} and leader.outcome.rule in finding.demoted_by
    return other and "stack" not in finding.outcome.evidence_classes


def _settings_written(remedy: str) -> set[str]:
    """The settings that a remedy may write."""
    row = remedies()[remedy]
    return {setting for variant in (row, *row.get("variants", ())) for setting in variant.get("sets", ())}


def advice(ids: Sequence[str], mechanism: str, host: HostView) -> list[Remedy]:
    """Return the remedies for a finding, least invasive first, each with its commands for this host. If the rule
    names `collect-more` first, that comes first."""
    rows = _usable_remedies(ids, mechanism, host)
    keeper = next((app.name for app, stance in host.stances() if stance.word == "keep"), "")
    stays = ""
    if keeper and any(row.get("takes_away") for row in rows.values()):
        rows = {
            i: row
            for i, row in _usable_remedies((*ids, *KEEPING_REMEDIES), mechanism, host).items()
            if not row.get("takes_away")
        }
        stays = f" Huge pages stay on, because {keeper} gains from them."
    if ids and not rows:
        rows = _usable_remedies(["collect-more"], mechanism, host)

    def order(row: Row) -> int:
        place: int = row.get("orders", {}).get(mechanism, row["order"])
        return 0 if row["id"] == ids[0] == "collect-more" else place

    ordered = sorted(rows.values(), key=order)[:MAX_REMEDIES]
    return [_remedy(row, mechanism, host, "" if number else stays) for number, row in enumerate(ordered)]


def _usable_remedies(ids: Sequence[str], mechanism: str, host: HostView) -> dict[str, Row]:
    """The named remedies that are usable. Remedies with settings are persistent and need no `persist-setting`."""
    rows = {name: row for name in dict.fromkeys(ids) if (row := _chosen_row(name, mechanism, host))}
    if any("values" in row for row in rows.values()):
        rows.pop("persist-setting", None)
    return rows


def _chosen_row(name: str, mechanism: str, host: HostView) -> Row | None:
    """The remedy with its variant for this host; None if it is not for this mechanism or host."""
    row: dict[str, Any] = {"id": name, "for": mechanism, **remedies()[name]}
    if not cures(row, mechanism) or _is_refused(row, mechanism, host):
        return None
    if "variants" in row:
        variant = next((v for v in row["variants"] if _matches_host(v, mechanism, host)), None)
        if variant is None:
            return None
        row |= variant
    if "sets" in row:
        row["values"] = values_to_write(row, host)
        return row if row["values"] else None
    if "keeps" not in row:
        return row
    # Settings to make persistent, unless they are already.
    limited = {
        n: v for n in row.get("in_force", ()) if (v := host.measured_value(fact_name(n))) not in (None, "always")
    }
    row["keeps"] = limited or {n: host.boot_word if v == "@boot@" else v for n, v in row["keeps"].items()}
    row["takes_away"] = "enabled" in row["keeps"]
    return row if any(persist(row["keeps"], host)) else None


def _matches_host(variant: Row, mechanism: str, host: HostView) -> bool:
    """Whether all conditions of a row hold. Regular expressions must match the whole name, those of applications one
    name. Versions are those of the row's application; empty if unknown."""
    apps = [app for app in host.apps if re.fullmatch(variant.get("app", ".*"), app)]
    has: dict[str, Sequence[str]] = {
        "platform": (host.platform,), "era": (host.age,), "mechanism": (mechanism,), "app": host.apps,
        "tuned": (host.tuned,), "version": [host.versions.get(app, "") for app in apps], "inside": (host.inside,),
    }  # fmt: skip
    named = all(any(re.fullmatch(variant[key], n) for n in names) for key, names in has.items() if key in variant)
    if variant.get("unit") and not host.units:
        return False
    if "not_app" in variant and any(re.fullmatch(variant["not_app"], app) for app in host.apps):
        return False
    if "kernel_from" in variant and not (host.kernel and numbers(host.kernel) >= numbers(str(variant["kernel_from"]))):
        return False
    return named and all(host.measured_value(name) in values for name, values in variant.get("measured", {}).items())


def _is_refused(row: Row, mechanism: str, host: HostView) -> bool:
    """Whether a measured setting or a program that asks for huge pages makes a remedy pointless."""
    asks = host.asks or any(app.asks for app, _ in host.stances())
    return any(
        re.fullmatch(case["mechanism"], mechanism)
        and (host.measured_value(case["setting"]) in case["values"] if "setting" in case else asks)
        for case in row.get("refused", ())
    )


def values_to_write(row: Row, host: HostView) -> dict[str, str]:
    """Return the values to write: per setting the first that the kernel accepts; empty if it accepts none or all are
    in force."""
    values: dict[str, str] = {}
    for setting, words in row["sets"].items():
        word = next((w for w in words if host.takes(setting, w)), None)
        if word is None:
            return {}
        if "within" in row and not _is_outside(host.measured_value(fact_name(setting)), *row["within"][setting]):
            continue
        if host.measured_value(fact_name(setting)) not in {word, *row.get("leave", {}).get(setting, ())}:
            values[setting] = word
    return values


def _is_outside(value: str | None, first: int, last: int) -> bool:
    """Whether a number was measured and is outside a range."""
    return value is not None and value.isdecimal() and not first <= int(value) <= last


def _remedy(row: Row, mechanism: str, host: HostView, suffix: str) -> Remedy:
    saved, values = row.get("undo_of", ()), row.get("values", {})
    lasting: Mapping[str, str] = values or row.get("keeps", {})
    old, back = list(write_old_values(values or saved, host)), _remedy_commands(row, "undo", host)
    vendors = [app.name for app, stance in host.stances() if stance.word == "disable" and row["id"] == "thp-never"]
    advised = f" The vendor of {' and '.join(vendors)} also advises it." if vendors else ""
    # The settings belong to the kernel, so they are read-only in a container.
    writes = "values" in row or any(_HOST_COMMAND.search(text) for text in row.get("now", ()))
    on_node = ["# on the node, as root; a container cannot change this"] if host.container and writes else []
    lasts = [*persist(lasting, host), *_remedy_commands(row, "persist", host)]
    restart = fill(row["restart"], {"service": " or ".join(host.units[:3]) or "the program"})
    return Remedy.model_construct(
        id=row["id"], reason=row.get("because", {}).get(mechanism, row["reason"]) + advised + suffix,
        platform=host.platform or "any Linux",
        now=[
            *on_node, *note_old_values(saved, host), *write_values(values, host), *_remedy_commands(row, "now", host),
        ],
        persist=lasts,
        verify=_verification(row, mechanism, host),
        undo=[*old, *persist(lasting, host, back=True), *_remedy_commands(row, "undo_persist", host), *back],
        undo_now=[*old, *back], cost=row["cost"] + _application_costs(row, host), safety=row["live"],
        restart=restart, **present_keys(fields=_private_unit_names(host, [*lasts, restart])),
    )  # fmt: skip


def _private_unit_names(host: HostView, texts: Sequence[str]) -> list[NameInText]:
    """Units in these texts that do not belong to known applications: their names are the customer's."""
    known = {unit if "." in unit else f"{unit}.service" for app in applications.applications() for unit in app.units}
    return [
        NameInText.model_construct(kind="path", value=unit)
        for unit in host.units
        if unit not in known and any(unit in text for text in texts)
    ]


def _remedy_commands(row: Row, key: str, host: HostView) -> list[str]:
    """The commands of the remedy itself. `wide` is the mildest value of `enabled` that takes huge pages from
    programs that did not ask for them, unless the boot line has one."""
    wide = "madvise" if host.takes("enabled", "madvise") else "never"
    if host.bootline or row["for"] in ("setting-overridden", "fix-without-effect"):
        wide = host.boot_word
    words = {
        "boot": host.boot_word, "profile": host.tuned or "$(cat ~/tuned.before)", "wide": wide,
        "units": " ".join(host.units), "flags": str(row.get("flags", 0)), "thp": str(row.get("thp", "disable")),
    }  # fmt: skip
    texts = row.get(key, ())
    if host.units and host.platform and "environment" in row and (part := _ENVIRONMENT_TEMPLATES.get(key)):
        texts, words["variable"] = environment()[part], row["environment"]
    return [fill(in_directory(text, host), words) for text in texts]


def _verification(row: Row, mechanism: str, host: HostView) -> Verification | None:
    verification = (
        row["verify"]
        if "verify" in row
        else next(v for v in verifications(mechanism) if _matches_host(v, mechanism, host))
    )
    if verification is None:
        return None
    how = in_directory(verification["how"], host)
    return Verification.model_construct(metric=verification["metric"], expect=verification["expect"], how=how)


def _application_costs(row: Row, host: HostView) -> str:
    """The effect on applications that depend on huge pages, and on those that ask for them. Advice with values that
    this kernel does not accept is left out (RHEL 6.1 to 6.4 has no settings for single mappings)."""
    is_old = not host.takes("enabled", "madvise")
    depends = [(app.name, s.advice) for app, s in host.stances() if s.word == "depends" and row.get("takes_away")]
    costs = "".join(f" {name}: {advice}." for name, advice in depends if not (is_old and _MADVISE_WORD.search(advice)))
    asking = [app.name for app, s in host.stances() if app.asks and s.word == "madvise" and row["id"] == "thp-never"]
    return costs + "".join(f" {name} asks for huge pages itself and loses them." for name in asking)
