"""Configuration for the next boot: boot loader menus, start-up files, systemd units.

Boot loader menus: the kernels with their parameter transparent_hugepage=.

    kernel /vmlinuz-2.6.32-431.el6.x86_64 ro root=/dev/sda1 transparent_hugepage=never
    linux16 /vmlinuz-3.10.0-229.el7.x86_64 root=/dev/sda1 ro quiet
    options root=UUID=1b1c ro $kernelopts

One boot.entry per kernel line: the value, `none` without the parameter, or `kernelopts` if the line uses the variable
of grubenv (the line of grubenv is an entry with the kernel `kernelopts`). Labels: path, kernel (its release), default
(yes, no; absent if the menu does not define it). Rescue entries are left out. The menu applies to the next boot, not to
the running kernel. Source: GRUB 0.97 and 2 manuals, Boot Loader Specification, grub2's blscfg.

Start-up files that write THP settings: rc.local, init scripts, systemd units, sysfs.conf, tmpfiles.d, tuned
profiles, boot loaders.

    echo never > /sys/kernel/mm/redhat_transparent_hugepage/enabled
    kernel/mm/transparent_hugepage/enabled = never

One rc.thp_write per setting, value and directory of a file, with the labels setting (`thp.enabled`), path, and if the
file shows them: directory (of sysfs: mainline, redhat), size (of hugepages-64kB), profile (of tuned; note of saptune),
plugin (`vm`: a line of tuned that may be skipped if the boot line has the parameter), after (ordering of a unit),
broken (below exit, no shell). Provenance: `boot line` for settings of a boot loader, `tuned` and `saptune` (which apply
only when active), else `rc file`. The value is the one that the file would write, not the current one. rc.include lists
the profiles that a tuned profile includes, saptune.notes the applied notes. These files are read only if the path
identifies them, or from `grep -r` output that names them: at a prompt the same command is an operator action. Shell
variables to which the file assigns the directory are resolved; loops are not. Source: sysfsutils, systemd
tmpfiles.d(5), tuned 0.2 and 2.x, saptune 3, grub.

State of start-up files and services: `systemctl list-unit-files`, `chkconfig --list`, `ls -l` of rc.local.

    disable-thp.service                         enabled         disabled
    disable-thp     0:off   1:off   2:on    3:on    4:on    5:on    6:off
    -rw-r--r--. 1 root root 473 Sep 14  2017 /etc/rc.d/rc.local

One rc.state per service or file: `yes`, `no`. Labels: unit, or path. The systemd states enabled, disabled and masked
are read; static, indirect and generated units run if another unit requires them, so they are left out. chkconfig: on in
runlevel 3 or 5. With systemd, rc.local runs only if it is executable. Source: systemctl(1), chkconfig(8),
systemd-rc-local-generator(8).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from thpdiag.model import Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, with_errors

_KERNEL = re.compile(r"\s*(?:kernel|linux(?:16|efi)?)\s+(\S{1,300})(.*)$")
_OPTIONS = re.compile(r"\s*options\s(.*)$")
_GRUBENV = re.compile(r"kernelopts=(.*)$")
_DEFAULT = re.compile(r"\s*default[\s=]\s*(\d{1,4})\s*$")
_THP = re.compile(r"(?:^|[\s\"'])transparent_hugepage=([\w+]{1,40})(?=[\s\"']|$)")
_IMAGE = re.compile(r"vmlinu[xz]-(\d[\w.+~-]{0,100})$")
_RESCUE = re.compile(r"rescue|\srecovery\b|\ssingle\b|systemd\.unit=(?:rescue|emergency)|memtest", re.IGNORECASE)
_ENTRY = re.compile(r"loader/entries/(?:[0-9a-f]{32}-)?([^/]{1,150})\.conf$")
MAX_MENU_ENTRIES = 200


def parse_boot_menu(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield boot.entry for each kernel line."""
    default = ""
    entries: list[tuple[int, str, str, str]] = []
    file = _ENTRY.search(source.path)
    for number, line in lines:
        if match := _DEFAULT.match(line):
            default = match[1]
        elif len(entries) < MAX_MENU_ENTRIES and (entry := _parse_entry(line, file[1] if file else "")):
            entries.append((number, line, *entry))
    for index, (number, line, kernel, options) in enumerate(entries):
        if not _RESCUE.search(f"{kernel} {options}"):
            default_label = [("default", "yes" if str(index) == default else "no")] if default else []
            labels = (("path", source.path), ("kernel", kernel), *default_label)
            words = _THP.findall(options)  # the kernel uses the last value of a repeated parameter
            word = words[-1] if words else "kernelopts" if "$kernelopts" in options else "none"
            yield Fact("boot.entry", word, source.cite(number, line), labels, source.time)


def _parse_entry(line: str, file_kernel: str) -> tuple[str, str] | None:
    """Return kernel and parameters of a line; `file_kernel` is the kernel in the name of a single-entry file."""
    if line.lstrip().startswith("#"):
        return None
    if variable := _GRUBENV.match(line):
        return "kernelopts", variable[1]
    if file_kernel:
        options = _OPTIONS.match(line)
        return (file_kernel, options[1]) if options else None
    kernel = _KERNEL.match(line)
    if kernel is None:
        return None
    image = _IMAGE.search(kernel[1])
    return image[1] if image else kernel[1].rpartition("/")[2], kernel[2]


BOOT_MENU = Parser(
    "boot_menu", "boot loader's menu: grub.conf, grub.cfg, loader/entries", parse_boot_menu,
    paths=(
        re.compile(r"(?:^|/)etc/(?:grub\.conf|grub2(?:-efi)?\.cfg)$"),
        re.compile(r"(?:^|/)boot/(?:.*/)?(?:grub\.cfg|grub\.conf|menu\.lst|grubenv|loader/entries/[^/]+)$"),
    ),
)  # fmt: skip


_DIRECTORY = r"(?:/?sys/)?kernel/mm/(?:redhat_|\*|\$\{?\w+\}?_)?transparent_hugepage"
_KNOB = r"((?:khugepaged/|hugepages-\d{1,7}kB/)?\w{1,40})"
_WORD = r"['\"]?([\w+]{1,40})['\"]?"
_ECHO = re.compile(
    rf"\becho\s+(?:-n\s+)?{_WORD}\s*(?:>>?|\|\s*(?:sudo\s+)?(?:/usr/bin/)?tee(?:\s+-a)?)\s*['\"]?({_DIRECTORY}|\$\{{?\w+\}}?)/{_KNOB}"
)
_SYSFS = re.compile(rf"\s*({_DIRECTORY})/{_KNOB}\s*=\s*{_WORD}\s*$")
_TMPFILES = re.compile(rf"\s*[wfF][+!-]*\s+({_DIRECTORY})/{_KNOB}(?:\s+-){{4}}\s+{_WORD}\s*$")
_TUNED = re.compile(rf"\s*(transparent_hugepages?(?:\.defrag)?)\s*=\s*{_WORD}\s*$")
_SAPTUNE = re.compile(rf"\s*THP\s*=\s*{_WORD}\s*$")
_KTUNE = re.compile(r"\s*set_transparent_hugepages\s+(\w{1,20})\b")
_BOOT = re.compile(r"[\s\"'=]transparent_hugepage=(always|madvise|never)\b")
_ASSIGNED = re.compile(rf"\s*(?:export\s+|local\s+|Environment=)?(\w{{1,60}})=['\"]?({_DIRECTORY})/?['\"]?\s*(?:;.*)?$")
_GREP = re.compile(r"(/?(?:etc|boot|usr|lib|run)/[^\s:]{1,200}):(?:\d{1,7}:)?(.*)$")
_PROFILE = re.compile(r"(?:tuned(?:/profiles)?|tune-profiles)/([\w.-]+)/[^/]+$")
_NOTE = re.compile(r"saptune/(?:extra|override|notes|working/notes)/([\w.-]{1,80}?)(?:-[^/]*)?(?:\.conf)?$")
_LOADER = re.compile(r"grub|menu\.lst|loader/entries|kernel/cmdline$")
_INCLUDE = re.compile(r"\s*include\s*=\s*([\w.-]{1,80}(?:[ ,]+[\w.-]{1,80}){0,8})\s*$")
_NOTES = re.compile(r"\s*(?:TUNE_FOR_NOTES|NOTE_APPLY_ORDER)=['\"]?([\w. -]{0,200}?)\s*(?:['\"]\s*)?$")
_COMMENT = re.compile(r"\s*(?:#|;(?!;))")  # `;;` ends a branch of a shell `case`
_AFTER = re.compile(r"\s*After\s*=\s*(\S.{0,400})$")
_EXEC = re.compile(r"\s*Exec(\w+)\s*=(.*)$")
_SHELL = re.compile(r"\b(?:ba|da|k|z)?sh\b\s+-\w*c\b")
_EXIT = re.compile(r"exit\b")
_PLAIN = re.compile(r"mm/transparent_hugepage$")
_SETTING = re.compile(
    r"(?:(?:hugepages-\d{1,7}kB/)?(?:enabled|shmem_enabled)|defrag|use_zero_page|shrink_underused|"
    r"khugepaged/(?:defrag|pages_to_scan|\w+_sleep_millisecs|max_ptes_\w+))$"
)
_RC_FILES_OPENS = re.compile(
    r"/?(?:etc|boot|usr|lib|run)/[^\s:]{1,200}:(?:\d{1,7}:)?.{0,400}(?:transparent_hugepages?\b|set_transparent_hugepages)"
)


ANY_DIRECTORY = "/sys/kernel/mm/*transparent_hugepage"  # for a variable that a script sets to different directories


class _Write(NamedTuple):
    """A write of a setting by a line; `directory` is that of sysfs, if the line names one."""

    knob: str
    value: str
    directory: str = ""
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class _File:
    """State of one start-up file; `has_exited` is set below an unconditional `exit`."""

    path: str
    variables: dict[str, str] = field(default_factory=dict)
    after: str = ""
    has_exited: bool = False
    writes: set[_Write] = field(default_factory=set)


@with_errors("rc_files")
def parse_rc_files(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield rc.thp_write once for each setting, value and directory of a file; rc.include and saptune.notes."""
    files = dict[str, _File]()
    for number, line in lines:
        grep = _GREP.match(line)
        path, text = (grep[1].lstrip("/"), grep[2]) if grep else (source.path or source.member, line)
        file = files.setdefault(path, _File(path))
        if _COMMENT.match(text):
            continue
        yield from _references(source, number, line, path, text)
        _update_file(file, text)
        for write in _parse_writes(text, file):
            if not _SETTING.match(write.knob):
                errors.note(number, line, "writes a THP setting that this version does not know")
            elif write not in file.writes:
                file.writes.add(write)
                yield _write_fact(source, number, line, file, write)


def _references(source: Source, number: int, line: str, path: str, text: str) -> Iterator[Fact]:
    """Yield the profiles that a profile of tuned includes, and the notes that saptune applies."""
    if (profile := _PROFILE.search(path)) and (include := _INCLUDE.match(text)):
        names, labels = " ".join(re.split(r"[ ,]+", include[1])), (("profile", profile[1]), ("path", path))
        yield Fact("rc.include", names, source.cite(number, line), labels, source.time)
    elif path.endswith("sysconfig/saptune") and (notes := _NOTES.match(text)) and notes[1]:
        yield Fact("saptune.notes", notes[1], source.cite(number, line), time=source.time)


def _update_file(file: _File, text: str) -> None:
    """Update the state that affects the following lines: variables, ordering, exit."""
    if assignment := _ASSIGNED.match(text):
        name, directory = assignment.groups()
        file.variables[name] = directory if file.variables.get(name, directory) == directory else ANY_DIRECTORY
    elif file.path.endswith(".service") and (after := _AFTER.match(text)):
        file.after = f"{file.after} {after[1]}".strip()
    elif _EXIT.match(text) and file.path.endswith("rc.local"):
        file.has_exited = True


def _write_fact(source: Source, number: int, line: str, file: _File, write: _Write) -> Fact:
    size, _, knob = write.knob.rpartition("/") if write.knob.startswith("hugepages-") else ("", "", write.knob)
    setting = f"thp.size.{knob}" if size else f"thp.{knob.replace('/', '.')}"
    labels = [("setting", setting), ("path", file.path)]
    provenance = "boot line" if _LOADER.search(file.path) else "rc file"
    if profile := _PROFILE.search(file.path):
        labels.append(("profile", profile[1]))
        provenance = "tuned"
    elif note := _NOTE.search(file.path):
        labels.append(("profile", note[1]))
        provenance = "saptune"
    optional = {
        "directory": "redhat" if "redhat_" in write.directory else "mainline" if _PLAIN.search(write.directory) else "",
        "size": size.removeprefix("hugepages-"),
        "after": "tuned" if re.search(r"\btuned\.service\b", file.after) else "",
        "broken": "below exit" if file.has_exited else "",
        **dict(write.labels),
    }
    labels += [(key, value) for key, value in optional.items() if value]
    return Fact("rc.thp_write", write.value, source.cite(number, line), tuple(labels), source.time, provenance)


def _parse_writes(text: str, file: _File) -> Iterator[_Write]:
    """Yield the settings that a line writes, with their values."""
    command = _EXEC.match(text) if file.path.endswith(".service") else None
    if command and not command[1].startswith("Start"):
        return  # a command that runs when the unit is stopped or reloaded
    labels = () if command is None or _SHELL.search(command[2]) else (("broken", "no shell"),)
    for value, target, knob in _ECHO.findall(text):
        directory = file.variables.get(target.strip("${}"), "") if target.startswith("$") else target
        if directory:
            yield _Write(knob, value, directory, labels)
    for pattern in (_SYSFS, _TMPFILES):
        if match := pattern.match(text):
            yield _Write(match[2], match[3], match[1])
    yield from _parse_tuning(text, file.path)
    if _LOADER.search(file.path) and (words := _BOOT.findall(f" {text}")):
        yield _Write("enabled", words[-1])


def _parse_tuning(text: str, path: str) -> Iterator[_Write]:
    """Yield the settings of a line in a tuned profile, its script, or a note of saptune."""
    if _PROFILE.search(path):
        if tuned := _TUNED.match(text):
            knob = "defrag" if tuned[1].endswith("defrag") else "enabled"
            yield _Write(knob, tuned[2], labels=(("plugin", "vm"),))
        elif ktune := _KTUNE.match(text):
            yield _Write("enabled", ktune[1])
    elif _NOTE.search(path) and (note := _SAPTUNE.match(text)):
        yield _Write("enabled", note[1])


RC_FILES = Parser(
    "rc_files", "start-up files that write THP settings", parse_rc_files, opens=_RC_FILES_OPENS,
    continues=_RC_FILES_OPENS.match, priority=2,
    paths=(
        re.compile(
            r"(?:^|/)etc/(?:rc\.d/)?(?:rc\.local|(?:init|rc\d)\.d/[^/]+)$|(?:^|/)etc/(?:local|cron|conf)\.d/[^/]+$"
        ),
        re.compile(r"(?:^|/)(?:etc|lib|run)/systemd/system/.+\.service$"),
        re.compile(r"(?:^|/)(?:etc|lib|run)/(?:sysfs\.conf|(?:sysfs|tmpfiles)\.d/[^/]+)$"),
        re.compile(r"(?:^|/)(?:etc|lib)/(?:tuned|tune-profiles)/.+/[^/]+$|(?:^|/)etc/(?:tuned|ktune)\.conf$"),
        re.compile(r"(?:^|/)etc/(?:default/grub(?:\.d/[^/]+)?|kernel/cmdline)$"),
        re.compile(r"(?:^|/)(?:etc|var/lib|usr/share)/saptune/.+$|(?:^|/)etc/sysconfig/saptune$"),
    ),
)  # fmt: skip


_NAME = r"[\w@.:\\+-]{1,120}"
_UNIT = re.compile(rf"\s{{0,4}}({_NAME}\.service)\s+([a-z-]{{4,20}})(?:\s+[a-z-]{{1,20}})?\s*$")
_RUNLEVELS = re.compile(rf"({_NAME})\s+(?:\d:(?:on|off)\s*){{7}}$")
_MODE = re.compile(r"-([rwxst-]{9})\S?\s.{0,120}\s/?(etc/(?:rc\.d/)?rc\.local|etc/init\.d/(?:boot|after)\.local)\s*$")
_STATES = {"enabled": "yes", "enabled-runtime": "no", "disabled": "no", "masked": "no"}
_START_UP_STATE_OPENS = re.compile(rf"UNIT FILE\s+STATE\b|{_UNIT.pattern}|{_RUNLEVELS.pattern}|{_MODE.pattern}")
_ROW = re.compile(
    rf"{_START_UP_STATE_OPENS.pattern}|\s{{0,4}}{_NAME}\.(?:mount|path|scope|slice|socket|target|timer|automount|swap|device)\s"
    r"|\d+ unit files listed"
)


def parse_start_up_state(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield rc.state of each service or file in the lines."""
    for number, line in lines:
        state, label = "", ("unit", "")
        if unit := _UNIT.match(line):
            state, label = _STATES.get(unit[2], ""), ("unit", unit[1])
        elif levels := _RUNLEVELS.match(line):
            state, label = "yes" if re.search(r"[35]:on", line) else "no", ("unit", levels[1])
        elif mode := _MODE.match(line):
            state, label = "yes" if "x" in mode[1] else "no", ("path", mode[2])
        if state:
            yield Fact("rc.state", state, source.cite(number, line), (label,), source.time)


START_UP_STATE = Parser(
    "start_up_state", "what runs at boot: systemctl list-unit-files, chkconfig --list, ls -l rc.local",
    parse_start_up_state, opens=_START_UP_STATE_OPENS, continues=_ROW.match,
    paths=(re.compile(r"(?:^|/)sos_commands/\w+/(?:systemctl_list-unit-files|chkconfig_--list)[^/]*$"),),
)  # fmt: skip
