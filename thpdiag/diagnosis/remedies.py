"""What to do about a mechanism on exactly this host: the remedies that its rule names, checked and written out.

The smallest scope comes first: where the finding is of a process or control group whose service, container or guest the
input tells, what that one can do by itself stands before what changes the whole host, also where the rule names it not.

A remedy that does not cure the mechanism, that this kernel cannot take, that is in force already or that takes huge
pages from an application that wants them is left out, whatever the rule says. What follows from the cause goes away
with it; what the cause's own advice sets, no other finding sets otherwise. Texts and commands: remedies.yaml.

Sysctls are the settings whose names begin with `vm.` or `kernel.`; all others stand in the directory of huge pages, of
which only `enabled` has a parameter on the kernel command line.
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
_BOTH = " ".join(f"/sys/kernel/mm/{name}" for name in DIRECTORIES)
ASKED = "process_asked_huge_bytes"
MUCH = 2.0**30  # bytes; a judgment: whose faults hold a process up fill gigabytes, and small heaps of others ask too
MAX_REMEDIES = 5  # per finding: a reader who needs more has another problem
UNIT = "/etc/systemd/system/thp-settings.service"  # one for all settings that are chosen, a line each
UNIT_ABOVE = "# in the unit of step {}:"
ENABLE = "systemctl enable thp-settings.service"
INSTEAD = ("defrag-never", "khugepaged-max-ptes-none", "thp-keep")  # where huge pages must stay
OF_ONE_PROGRAM = ("process-opt-out", "process-huge-pages")  # where the service is known, for all that they cure
TO_KNOW = ("collect-more", "toggle-test")  # steps that cure nothing and show what would
# What may stand in a command that somebody runs as root. A customer's file says what it likes.
_WORD = re.compile(r"[A-Za-z0-9_+.-]{1,40}")
_PLACEHOLDER = re.compile(r"@([a-z]+)@")
_WITH_MADVISE = re.compile("madvise|defer")  # words that a plain kernel does not take
_OF_ENVIRONMENT = {"persist": "write", "undo_persist": "back"}
_PROCESS = re.compile(r"(?P<comm>.{1,200}) \((?P<pid>\d{1,8})(?:, .{1,60})?\)")
_CONTAINER = re.compile(r"(?:^|/)(?:kubepods|docker|crio|libpod|cri-containerd|lxc)[-./]|(?:^|/)lxc\.payload")
_GUEST = re.compile(r"(?:^|/)machine-qemu\S*\.scope|(?:^|/)machine/")
_SERVICE = re.compile(r"(?:^|/)(?P<unit>[A-Za-z0-9_@.-]{1,80}\.service)(?:/|$)")
_OF_HOST = re.compile(r"> /(?:sys|proc/sys)/|> @dir@|sysctl -w|tuned-adm|mount ")


@dataclass(frozen=True, slots=True)
class HostView:
    """`settings` are the values in force (`thp.enabled` -> `always`), those in `assumed` were not read from the kernel.

    `directory` is the name below /sys/kernel/mm, empty if unknown. `bootline` is the value of transparent_hugepage=
    there. `asks`: a process holds much memory that asked for huge pages itself.
    `versions` are those of applications, `os` is the release of the distribution. `container` names what kind of
    container the input is from. `units` are systemd's units of which what was found may be one, the likeliest first;
    `inside` says that it runs in a `container` or is a `guest`.
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
        """The era as read, else that of the distribution's own kernel."""
        return self.era or platforms.era_of_platform(self.platform)

    @property
    def place(self) -> str:
        """The directory to print: on RHEL 6 the one that all its releases have. Empty: print both with a test."""
        if self.platform:
            return platforms.directory(self.platform)
        return self.directory if self.directory in DIRECTORIES else ""

    def takes(self, setting: str, value: str) -> bool:
        """Whether the kernel accepts a word for a setting (`enabled`, `defrag`, `khugepaged/defrag`).

        Of a host that shows RHEL 6's directory and nothing else the strictest release is taken.
        """
        words = self.accepts.get(f"thp.{setting.replace('/', '.')}")
        if words is None:
            platform = self.platform or ("el6.1" if self.directory == DIRECTORIES[1] else "")
            words = platforms.accepted_words(setting, platform, self.age)
        return words is None or value in words

    def stances(self) -> Iterator[tuple[applications.Application, applications.Stance]]:
        """The applications of this host and what their makers say for it."""
        known = {"platform": self.platform, "os": self.os, "arch": self.arch, "kernel": self.kernel}
        for name in self.apps:
            if app := applications.application(name):
                yield app, applications.stance(app, {**known, "version": self.versions.get(name, "")})

    @property
    def boot_word(self) -> str:
        """The word for `enabled` on the boot line, if this kernel takes it."""
        return self.bootline if self.bootline and self.takes("enabled", self.bootline) else "never"

    def measured_value(self, name: str) -> str | None:
        """The value of a setting as the kernel shows it; None if it is assumed or unfit for a command."""
        value = self.settings.get(name)
        return value if value is not None and name not in self.assumed and _WORD.fullmatch(value) else None


def host_view(case: Case, state: State | None, entity: str = "") -> HostView:
    """The host as it was in a state, with the service of the process or control group that was found."""
    facts = [*case.facts, *(state.facts if state else ())]
    latest = {fact.name: str(fact.value) for fact in facts}
    settings, assumed = _settings(facts)
    if state:
        settings.update({name: str(value) for name, value in state.settings.items()})
        assumed -= set(state.settings)
    asking = (row.values.get(ASKED, 0.0) for row in (state.samples if state else ()) if isinstance(row, Sample))
    tuned = latest.get("tuned.profile", "")  # several of them with blanks between
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
        tuned=tuned if all(map(_WORD.fullmatch, tuned.split())) else "",
        bootline=_word(latest.get("boot.transparent_hugepage", "")),
        container=_word(latest.get("host.container", "")), asks=any(size >= MUCH for size in asking),
        versions={f.label("app") or "": str(f.value) for f in facts if f.name == "app.version"},
        os=latest.get("os.version", ""), arch=latest.get("kernel.arch", ""), kernel=latest.get("kernel.release", ""),
        units=units, inside=inside,
    )  # fmt: skip


def service_of(entity: str, facts: Iterable[Fact]) -> tuple[tuple[str, ...], str]:
    """The systemd units of which a process or control group may be, and whether it is a container or a guest.

    A control group has the unit in its path. A process is in the unit of its control group where that is known, else of
    a known application, whose packages call their unit so.
    """
    if entity.startswith("cgroup "):
        return _service_of_group(entity.removeprefix("cgroup "))
    found = _PROCESS.fullmatch(entity)
    if not found:
        return (), ""
    of_process = [fact for fact in facts if fact.label("pid") == found["pid"]]
    commands = (f for f in of_process if f.name == "process.command" and f.label("comm") == found["comm"])
    apps = applications.running_applications(found["comm"], next((str(f.value) for f in commands), ""))
    if any(app.name == "kvm" for app in apps):
        return (), "guest"
    groups = [str(f.value) for f in of_process if f.name == "process.cgroup"]
    if groups and any(known := _service_of_group(groups[-1])):
        return known
    units = dict.fromkeys(unit if "." in unit else f"{unit}.service" for app in apps for unit in app.units)
    return tuple(units), ""


def _service_of_group(path: str) -> tuple[tuple[str, ...], str]:
    inside = "container" if _CONTAINER.search(path) else "guest" if _GUEST.search(path) else ""
    unit = None if inside or "/user.slice/" in path else _SERVICE.search(path)  # there it is the user's whole session
    return ((unit["unit"],) if unit else ()), inside


def _word(value: str) -> str:
    return value if _WORD.fullmatch(value) else ""


def _settings(facts: Iterable[Fact]) -> tuple[dict[str, str], set[str]]:
    """Values in force, and the names of those that are only inferred. What was measured wins."""
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


# Commands that write a setting now, keep it over a boot and bring the old value back


def fill(text: str, words: Mapping[str, str]) -> str:
    """A template with its placeholders replaced; an unknown one is a mistake of ours."""
    return _PLACEHOLDER.sub(lambda found: words[found[1]], text)


def in_directory(command: str, host: HostView) -> str:
    """A command with the directory of huge pages in it; both with a test where the host does not tell."""
    if "@dir@" not in command:
        return command
    if host.place:
        return command.replace("@dir@", f"/sys/kernel/mm/{host.place}")
    return f"for d in {_BOTH}; do if [ -d $d ]; then {command.partition('   #')[0].replace('@dir@', '$d')}; fi; done"


def fact_name(setting: str) -> str:
    """The name of a setting in the vocabulary."""
    return f"sysctl.{setting}" if _is_sysctl(setting) else f"thp.{setting.replace('/', '.')}"


def _is_sysctl(setting: str) -> bool:
    return setting.startswith(("vm.", "kernel."))


def _file_name(setting: str) -> str:
    return setting.replace("/", "-").replace("_", "-")


def note_old_values(settings: Iterable[str], host: HostView) -> Iterator[str]:
    """Note the old values of settings, unless the input says them; what was noted first stays."""
    for name in settings:
        if host.measured_value(fact_name(name)):
            continue
        noted = f"~/thp-{_file_name(name)}.before"
        read = rf"sed 's/.*\[//; s/\].*//' @dir@/{name} > {noted}"
        read = f"sysctl {name} > {noted}" if _is_sysctl(name) else in_directory(read, host)
        yield f"[ -e {noted} ] || {read}"


def write_values(settings: Mapping[str, str], host: HostView) -> Iterator[str]:
    """Write the values; before that note what they replace."""
    yield from note_old_values(settings, host)
    for name, value in settings.items():
        yield f"sysctl -w {name}={value}" if _is_sysctl(name) else in_directory(f"echo {value} > @dir@/{name}", host)


def write_old_values(settings: Iterable[str], host: HostView) -> Iterator[str]:
    """Write the old values: those of the input, else those noted before."""
    for name in settings:
        old, noted = host.measured_value(fact_name(name)), f"~/thp-{_file_name(name)}.before"
        if _is_sysctl(name):
            yield f"sysctl -w {name}={old}" if old else f"sysctl -p {noted}"
        else:
            yield in_directory(f"echo {old} > @dir@/{name}" if old else f"cat {noted} > @dir@/{name}", host)


def persist(settings: Mapping[str, str], host: HostView, *, back: bool = False) -> Iterator[str]:
    """The kernel command line for `enabled`, a start-up file for what has no parameter there.

    `back`: take back what that wrote; the boot line gets its old word again if it had one.
    """
    family, templates = host.family, []
    for name, value in settings.items():
        if _is_sysctl(name):
            templates.append((family.sysctl_back if back else family.sysctl, {"setting": name, "value": value}))
        elif name == "enabled" and family.boot and value != host.bootline:
            if not back:
                templates.append(((*family.boot, *family.boot_check), {"value": value}))
            else:
                templates.append((family.boot if host.bootline else family.boot_back, {"value": host.bootline}))
    at_start = {n: v for n, v in settings.items() if not _is_sysctl(n)}  # of nodes of a cluster: whenever one is added
    late = {n: v for n, v in at_start.items() if n != "enabled" or not family.boot}
    if late:
        templates.append((family.start_back if back else family.start, _start_words(late, host)))
    if at_start and "kubernetes" in host.apps:
        templates.append((family.kubernetes_back if back else family.kubernetes, _start_words(at_start, host)))
    return (fill(text, words) for texts, words in templates for text in texts)


def _start_words(settings: Mapping[str, str], host: HostView) -> dict[str, str]:
    """`before` are the systemd units of the applications that run here: what must find the settings in force."""
    units = dict.fromkeys(unit for app, _ in host.stances() for unit in app.units)
    drops = {n: f"sed -i '/^# {_file_name(n)}$/,+1d' {UNIT}" for n in settings}
    writes = {n: in_directory(f"echo {v} > @dir@/{n}", host) for n, v in settings.items()}
    adds = (
        f"""{drops[n]}\nprintf '%s\\n' '# {_file_name(n)}' 'ExecStart=/bin/sh -c "{line}"' >> {UNIT}"""
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


# Which remedies, and what each says


def remedies_of(finding: Finding, diagnosis: Diagnosis) -> list[Remedy]:
    """What to do about a finding, given what is done about the leader."""
    leader = diagnosis.leader
    own = _advice_on(finding, diagnosis)
    if leader is None or finding.outcome.rule == leader.outcome.rule:
        return with_one_unit(own)
    if finding.outcome.rule in leader.consequences or _is_explained_away(finding, leader):
        return []
    above = {item.id for item in _advice_on(leader, diagnosis)}
    decided = {setting for name in above for setting in _settings_written(name)}
    return with_one_unit([one for one in own if one.id in above or not decided & _settings_written(one.id)])


def with_one_unit(items: Sequence[Remedy]) -> list[Remedy]:
    """The steps; of the unit that all of them write their lines into, only the first has the text and enables it."""
    if not items:
        return []
    first = next((n for n, item in enumerate(items, 1) if any(map(_is_unit, item.persist))), len(items))
    written = {command for command in items[first - 1].persist if _is_unit(command) or command.endswith(ENABLE)}
    later = []
    for item in items[first:]:
        rest = [command for command in item.persist if command not in written]
        if len(rest) < len(item.persist):
            item = item.model_copy(update={"persist": [UNIT_ABOVE.format(first), *rest]})
        later.append(item)
    return [*items[:first], *later]


def _is_unit(command: str) -> bool:
    return "\n[Unit]\n" in command


def host_state(finding: Finding, diagnosis: Diagnosis) -> State | None:
    """The state in which it was found."""
    return next((state for state in diagnosis.case.states if state.id == finding.outcome.state), None)


def _advice_on(finding: Finding, diagnosis: Diagnosis) -> list[Remedy]:
    """By the remedies of the rule; what is confirmed needs no more data."""
    rule = diagnosis.rule_by_id[finding.outcome.rule]
    ids = [name for name in rule.file.remedies if name not in TO_KNOW or finding.confidence != "confirmed"]
    host = host_view(diagnosis.case, host_state(finding, diagnosis), finding.outcome.entity)
    if ids and (host.units or host.inside):
        ids += [name for name in OF_ONE_PROGRAM if cures(remedies()[name], finding.mechanism)]
    return advice(ids, finding.mechanism, host)


def _is_explained_away(finding: Finding, leader: Finding) -> bool:
    """Whether something else than huge pages explains what it saw; call stacks show a share of its own all the same."""
    other = mechanism_kind(leader.mechanism) not in {"", THP} and leader.outcome.rule in finding.demoted_by
    return other and "stack" not in finding.outcome.spoken


def _settings_written(remedy: str) -> set[str]:
    """The settings that a remedy may write."""
    row = remedies()[remedy]
    return {setting for one in (row, *row.get("variants", ())) for setting in one.get("sets", ())}


def advice(ids: Sequence[str], mechanism: str, host: HostView) -> list[Remedy]:
    """The remedies for a finding, least invasive first, each with its commands for this host.

    Data comes first where the rule says that it proves nothing yet.
    """
    rows = _rows(ids, mechanism, host)
    keeper = next((app.name for app, stance in host.stances() if stance.word == "keep"), "")
    stays = ""
    if keeper and any(row.get("takes_away") for row in rows.values()):
        rows = {i: row for i, row in _rows((*ids, *INSTEAD), mechanism, host).items() if not row.get("takes_away")}
        stays = f" Huge pages stay on, because {keeper} gains from them."
    if ids and not rows:
        rows = _rows(["collect-more"], mechanism, host)

    def order(row: Row) -> int:
        place: int = row.get("orders", {}).get(mechanism, row["order"])
        return 0 if row["id"] == ids[0] == "collect-more" else place

    ordered = sorted(rows.values(), key=order)[:MAX_REMEDIES]
    return [_remedy(row, mechanism, host, "" if number else stays) for number, row in enumerate(ordered)]


def _rows(ids: Sequence[str], mechanism: str, host: HostView) -> dict[str, Row]:
    """What is left of the remedies named. Settings bring their own commands to last and need no `persist-setting`."""
    rows = {name: row for name in dict.fromkeys(ids) if (row := _chosen_row(name, mechanism, host))}
    if any("values" in row for row in rows.values()):
        rows.pop("persist-setting", None)
    return rows


def _chosen_row(name: str, mechanism: str, host: HostView) -> Row | None:
    """The remedy with what its variant for this host adds; None if it is not for this mechanism or host."""
    row: dict[str, Any] = {"id": name, "for": mechanism, **remedies()[name]}
    if not cures(row, mechanism) or _is_refused(row, mechanism, host):
        return None
    if "variants" in row:
        variant = next((v for v in row["variants"] if _fits(v, mechanism, host)), None)
        if variant is None:
            return None
        row |= variant
    if "sets" in row:
        row["values"] = values_to_write(row, host)
        return row if row["values"] else None
    if "keeps" not in row:
        return row
    # Settings that shall last; none if they do already.
    limited = {
        n: v for n in row.get("in_force", ()) if (v := host.measured_value(fact_name(n))) not in (None, "always")
    }
    row["keeps"] = limited or {n: host.boot_word if v == "@boot@" else v for n, v in row["keeps"].items()}
    row["takes_away"] = "enabled" in row["keeps"]
    return row if any(persist(row["keeps"], host)) else None


def _fits(variant: Row, mechanism: str, host: HostView) -> bool:
    """Whether all conditions of a row hold: regular expressions on the whole name; of applications one must fit.

    Versions are those of the application that the row is about; empty words where they are not known.
    """
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
    if "kernel_from" in variant and not _is_from(host.kernel, str(variant["kernel_from"])):
        return False
    return named and all(host.measured_value(name) in values for name, values in variant.get("measured", {}).items())


def _is_from(kernel: str, first: str) -> bool:
    """Whether a kernel is this one or a later one, by its number."""
    return bool(kernel) and numbers(kernel) >= numbers(first)


def _is_refused(row: Row, mechanism: str, host: HostView) -> bool:
    """A setting as it is measured here, or a program that asks for huge pages, can make a remedy pointless."""
    asks = host.asks or any(app.asks for app, _ in host.stances())
    return any(
        re.fullmatch(case["mechanism"], mechanism)
        and (host.measured_value(case["setting"]) in case["values"] if "setting" in case else asks)
        for case in row.get("refused", ())
    )


def values_to_write(row: Row, host: HostView) -> dict[str, str]:
    """What to write: per setting the first word that the kernel takes; nothing if it takes none or all is in force."""
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
    """Whether a number was measured and does not lie between two."""
    return value is not None and value.isdecimal() and not first <= int(value) <= last


def _remedy(row: Row, mechanism: str, host: HostView, stays: str) -> Remedy:
    noted, values = row.get("undo_of", ()), row.get("values", {})
    lasting: Mapping[str, str] = values or row.get("keeps", {})
    old, back = list(write_old_values(values or noted, host)), _own_commands(row, "undo", host)
    makers = [app.name for app, stance in host.stances() if stance.word == "disable" and row["id"] == "thp-never"]
    advised = f" The vendor of {' and '.join(makers)} also advises it." if makers else ""
    # The settings are the kernel's, so a container sees them read-only.
    writes = "values" in row or any(_OF_HOST.search(text) for text in row.get("now", ()))
    on_node = ["# on the node, as root; a container cannot change this"] if host.container and writes else []
    lasts = [*persist(lasting, host), *_own_commands(row, "persist", host)]
    restart = fill(row["restart"], {"service": _service_words(host)})
    return Remedy.model_construct(
        id=row["id"], reason=row.get("because", {}).get(mechanism, row["reason"]) + advised + stays,
        platform=host.platform or "any Linux",
        now=[
            *on_node, *note_old_values(noted, host), *write_values(values, host), *_own_commands(row, "now", host),
        ],
        persist=lasts,
        verify=_verification(row, mechanism, host),
        undo=[*old, *persist(lasting, host, back=True), *_own_commands(row, "undo_persist", host), *back],
        undo_now=[*old, *back], cost=row["cost"] + _further_cost(row, host), safety=row["live"],
        restart=restart, **present_keys(fields=_customers_units(host, [*lasts, restart])),
    )  # fmt: skip


def _customers_units(host: HostView, texts: Sequence[str]) -> list[NameInText]:
    """Units in these texts that are not those of known applications: the customer called them so."""
    known = {unit if "." in unit else f"{unit}.service" for app in applications.applications() for unit in app.units}
    return [
        NameInText.model_construct(kind="path", value=unit)
        for unit in host.units
        if unit not in known and any(unit in text for text in texts)
    ]


def _service_words(host: HostView) -> str:
    return " or ".join(host.units[:3]) or "the program"


def _own_commands(row: Row, key: str, host: HostView) -> list[str]:
    """Commands of the remedy's own. `wide` is the word for `enabled` where nobody chose one: the mildest that takes
    huge pages from those who did not ask."""
    wide = "madvise" if host.takes("enabled", "madvise") else "never"
    if host.bootline or row["for"] in ("setting-overridden", "fix-without-effect"):
        wide = host.boot_word
    words = {
        "boot": host.boot_word, "profile": host.tuned or "$(cat ~/tuned.before)", "wide": wide,
        "units": " ".join(host.units), "flags": str(row.get("flags", 0)), "thp": str(row.get("thp", "disable")),
    }  # fmt: skip
    texts = row.get(key, ())
    if host.units and host.platform and "environment" in row and (part := _OF_ENVIRONMENT.get(key)):
        texts, words["variable"] = environment()[part], row["environment"]
    return [fill(in_directory(text, host), words) for text in texts]


def _verification(row: Row, mechanism: str, host: HostView) -> Verification | None:
    told = row["verify"] if "verify" in row else next(v for v in verifications(mechanism) if _fits(v, mechanism, host))
    if told is None:
        return None
    how = in_directory(told["how"], host)
    return Verification.model_construct(metric=told["metric"], expect=told["expect"], how=how)


def _further_cost(row: Row, host: HostView) -> str:
    """What an application says for whom it depends, in words that this kernel takes (RHEL 6.1 to 6.4 has no settings
    for single mappings), and who would miss huge pages."""
    plain = not host.takes("enabled", "madvise")
    depends = [(app.name, s.advice) for app, s in host.stances() if s.word == "depends" and row.get("takes_away")]
    told = "".join(f" {name}: {advice}." for name, advice in depends if not (plain and _WITH_MADVISE.search(advice)))
    asking = [app.name for app, s in host.stances() if app.asks and s.word == "madvise" and row["id"] == "thp-never"]
    return told + "".join(f" {name} asks for huge pages itself and loses them." for name in asking)
