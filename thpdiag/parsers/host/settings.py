"""Kernel settings other than THP: sysctl, KSM, tuned, and the build configuration.

Settings of vm.* and some of kernel.*: `sysctl -a`, sysctl.conf, the files of /proc/sys.

    vm.swappiness = 60
    /proc/sys/vm/zone_reclaim_mode:0

Units as the kernel documents them (kilobytes, ratios, pages), kept as printed; several numbers on one line remain one
text. sysctl.conf and sysctl.d configure the boot, not the running kernel: their facts have the provenance `rc file`. A
line there for a file of /sys (kernel.mm.transparent_hugepage.enabled) has no effect: it gives rc.thp_write with the
label broken. All of vm.* is read; of kernel.* NUMA balancing and the lockup detectors; the other settings do not affect
memory. Source: sysctl(8), kernel tree, Documentation/admin-guide/sysctl.

/sys/kernel/mm/ksm: merging of equal pages (KSM), one number per file.

    /sys/kernel/mm/ksm/run:1
    /sys/kernel/mm/ksm/pages_sharing:4096

run, pages_to_scan and sleep_millisecs are settings (ksm.run ...); pages_shared, pages_sharing, pages_unshared,
pages_volatile, ksm_zero_pages (6.6) are gauges in pages, full_scans and pages_scanned (6.6) counters: X becomes
node_ksm_X. Other tuning files are not read (merge_across_nodes, max_page_sharing, stable_node_*, smart_scan, advisor_*
from 6.8, general_profit in bytes). Source: kernel tree, mm/ksm.c, Documentation/admin-guide/mm/ksm.rst.

Active profile and version of tuned: `tuned-adm active`, `tuned-adm list`, etc/tuned/active_profile, `rpm -q tuned`.

    Current active profile: throughput-performance
    tuned-2.4.1-1.el7.noarch

RHEL 6 prints the state of its services below the profile. If no profile is active, the value is `none`. Several merged
profiles are one value with blanks. The file contains only the name, so it is identified by its path. Source:
tuned-adm(8) of tuned 0.2 (RHEL 6) and 2.x.

Build configuration of the kernel: /boot/config-RELEASE, /proc/config.gz, or lines that grep selected from them.

    CONFIG_TRANSPARENT_HUGEPAGE=y
    # CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS is not set
    CONFIG_TRANSPARENT_HUGEPAGE_MADVISE=y

A missing option gives no fact, with one exception: if `grep HUGE` printed lines and none of them has
TRANSPARENT_HUGEPAGE, the kernel does not have it. Its value is y; m and strings occur for other options.
Source: kernel tree, scripts/kconfig/confdata.c; mm/Kconfig.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, ValueRows, count_of, lines_of_files, snapshots, with_errors

_TREES = r"(?:abi|crypto|debug|dev|fs|kernel|net|sunrpc|user|vm)"
_LINE = re.compile(rf"-?\s*({_TREES}[./][\w./:*+@-]{{1,250}})\s*=(.*)$")
_GREP = re.compile(r"\S{0,100}proc/sys/((?:vm|kernel)/\w+):(.*)$")
_SYSCTL_OPENS = re.compile(
    rf"-?(?:vm|kernel|abi|crypto|debug|dev|fs|net|user)\.\w[\w.:*+@-]*\s?=|-?{_TREES}/\w[\w/]*\s?=\s?\S|"
    r"\S{0,100}proc/sys/(?:vm|kernel)/\w+:\s*\S|sysctl: (?:reading|permission denied|cannot stat)"
)
_MESSAGE = re.compile(r"sysctl: |[#;]")
_SYSCTL_CONTINUES = re.compile(rf"{_SYSCTL_OPENS.pattern}|sysctl: ")
_SYSCTL_FILE = re.compile(r"(?:^|/)proc/sys/((?:vm|kernel)/\w+)$")
_NO_BLANK = re.compile(r"-?\w[\w./-]*=")  # style of sysctl.conf; the command prints blanks around the sign
_CONFIGURATION = re.compile(r"sysctl(?:\.d/[^/]+)?\.conf$")
_WANTED = re.compile(
    r"vm\.[\w.]+$|kernel\.(?:numa_\w+|hung_task_\w+|softlockup_\w+|hardlockup_\w+|watchdog\w*|nmi_watchdog)$"
)
_SYSFS_NAME = re.compile(r"kernel\.mm\.(?:redhat_)?transparent_hugepage\.((?:khugepaged\.)?\w{1,40})$")
_NUMBER = re.compile(r"-?\d{1,19}$")


@with_errors("sysctl")
def parse_sysctl(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """Yield sysctl.NAME for each setting that is read."""
    is_configuration = _CONFIGURATION.search(source.path or source.member)
    file = _SYSCTL_FILE.search(source.path)
    for number, line in lines:
        name, text = _parse_pair(line, file[1] if file else "")
        if not name:
            if line.strip() and not _MESSAGE.match(line.strip()):
                odd.note(number, line, "not a `name = value` line")
        elif is_configuration and (knob := _SYSFS_NAME.match(name)):
            labels = (("setting", f"thp.{knob[1]}"), ("path", source.path or source.member), ("broken", "sysctl"))
            yield Fact("rc.thp_write", text, source.cite(number, line), labels, source.time, "rc file")
        elif _WANTED.match(name):
            value = _parse_value(text)
            if value is None:
                odd.note(number, line, "a value that is neither numbers nor one word; it is left out")
                continue
            provenance = "rc file" if is_configuration or _NO_BLANK.match(line) else ""
            yield Fact(f"sysctl.{name}", value, source.cite(number, line), time=source.time, provenance=provenance)


def _parse_pair(line: str, file_setting: str) -> tuple[str, str]:
    """Return name and value of a line; `file_setting` is the setting if the file is one of /proc/sys."""
    if pair := _GREP.match(line) or _LINE.match(line):
        return pair[1].replace("/", "."), pair[2].strip()
    return file_setting.replace("/", "."), line.strip()


def _parse_value(text: str) -> int | str | None:
    if _NUMBER.match(text):
        return int(text)
    words = text.split()
    return " ".join(words) if len(words) == 1 or (words and all(_NUMBER.match(word) for word in words)) else None


SYSCTL = Parser(
    "sysctl", "sysctl -a, sysctl.conf and /proc/sys", parse_sysctl, opens=_SYSCTL_OPENS,
    continues=_SYSCTL_CONTINUES.match,
    paths=(_SYSCTL_FILE, re.compile(r"(?:^|/)sysctl\.conf$|(?:^|/)sysctl\.d/[^/]+\.conf$")),
)  # fmt: skip


_KSM_SYSFS_FILE = re.compile(r"sys/kernel/mm/ksm/(\w+)$")
_SETTINGS = frozenset({"run", "pages_to_scan", "sleep_millisecs"})
_COUNTS = frozenset(
    {
        "pages_shared", "pages_sharing", "pages_unshared", "pages_volatile", "pages_skipped", "ksm_zero_pages",
        "full_scans", "pages_scanned",
    }
)  # fmt: skip
_KSM_SYSFS_OPENS = re.compile(
    r"(?:\S{0,100}?/)?sys/kernel/mm/ksm/\w+:\S+\s*$|==> \S{0,100}sys/kernel/mm/ksm/\w+ <==\s*$"
)
_KSM_SYSFS_CONTINUES = re.compile(rf"{_KSM_SYSFS_OPENS.pattern}|\d{{1,19}}\s*$")


@snapshots("ksm_sysfs")
def parse_ksm_sysfs(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """Yield a fact per setting, and one sample of the system per snapshot."""
    rows = ValueRows(source, KSM_SYSFS.name, "system")
    for number, line, path, text in lines_of_files(source, lines):
        file = _KSM_SYSFS_FILE.search(path)
        name = file[1] if file else ""
        if name not in _SETTINGS | _COUNTS or (value := count_of(number, line, text, odd)) is None:
            continue
        if name in _SETTINGS:
            yield Fact(f"ksm.{name}", value, source.cite(number, line), time=source.time)
        else:
            yield from rows.add((), f"node_ksm_{name.removeprefix('ksm_')}", value, number, line)
    yield from rows.finish()


KSM_SYSFS = Parser(
    "ksm_sysfs", "merging of equal pages in /sys/kernel/mm/ksm", parse_ksm_sysfs, opens=_KSM_SYSFS_OPENS,
    continues=_KSM_SYSFS_CONTINUES.match, paths=(re.compile(r"(?:^|/)sys/kernel/mm/ksm/\w+$"),),
)  # fmt: skip


_ACTIVE = re.compile(r"Current active profile:\s*(\S.{0,200}?)\s*$")
_NONE = re.compile(r"No current active profile")
_RPM = re.compile(r"(?:ii\s+)?tuned[-\s]+(\d{1,3}(?:\.\d{1,3}){1,3})(?:[-+~]\S*)?(?:\s.*)?$")
_PROFILE = re.compile(r"[\w.-]{1,80}(?: [\w.-]{1,80}){0,8}\s*$")
_TUNED_OPENS = re.compile(
    r"Current active profile:\s*\S|No current active profile|Available profiles:|(?:ii\s+)?tuned[-\s]+\d{1,3}\.\d|"
    r"package tuned is not installed|Preset profile:"
)
_OTHER = re.compile(
    r"Available profiles:|Preset profile:|Service k?tuned?|Cannot talk to|It seems that|DBus call|You need to|"
    r"package tuned is not|Note: |Requested |- [\w.-]"
)


@with_errors("tuned")
def parse_tuned(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """Yield tuned.profile and tuned.version."""
    is_file = re.search(r"active[-_]profile$", source.path)
    for number, line in lines:
        text, cite = line.strip(), source.cite(number, line)
        if active := _ACTIVE.match(text):
            yield Fact("tuned.profile", active[1], cite, time=source.time)
        elif _NONE.match(text):
            yield Fact("tuned.profile", "none", cite, time=source.time)
        elif version := _RPM.match(text):
            yield Fact("tuned.version", version[1], cite, time=source.time)
        elif is_file and _PROFILE.match(text):
            yield Fact("tuned.profile", text, cite, time=source.time)
        elif text and not _OTHER.match(text):
            odd.note(number, line, "not a line of tuned-adm")


TUNED = Parser(
    "tuned", "tuned-adm and tuned's version", parse_tuned, opens=_TUNED_OPENS,
    continues=re.compile(rf"{_TUNED_OPENS.pattern}|{_OTHER.pattern}").match,
    paths=(re.compile(r"(?:^|/)etc/tuned/active_profile$|(?:^|/)etc/tune-profiles/active-profile$"),),
)  # fmt: skip


KERNEL_CONFIG_NAME = "kernel_config"
_CONFIG_PREFIX = r"(?:\S{0,200}config\S{0,120}?:)?"
_CONFIG_SET = re.compile(
    rf"{_CONFIG_PREFIX}(?P<option>CONFIG_[A-Za-z0-9_]{{1,100}})="
    r"(?P<value>[ymn]|-?\d.{0,20}|0x[0-9a-fA-F]{1,16}|\".{0,400}\")$"
)
_CONFIG_UNSET = re.compile(rf"{_CONFIG_PREFIX}# (?P<option>CONFIG_[A-Za-z0-9_]{{1,100}}) is not set$")
_THP = "CONFIG_TRANSPARENT_HUGEPAGE"
_DEFAULTS = {f"{_THP}_{name.upper()}": name for name in ("always", "madvise", "never")}
_CONFIG_RELEASE = re.compile(r"config-(?P<release>[\w.+~-]{3,100})")  # several kernels may be installed
_CONFIG_FIRST = re.compile(r"# Automatically generated (?:file|make config)")
_GREP_HUGE = re.compile(r"\bz?[ef]?grep\b(?!.* -[a-zA-Z]*v).{0,80}?\bHUGE(?:PAGE)?\b.{0,80}config")


@with_errors(KERNEL_CONFIG_NAME)
def parse_kernel_config(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield whether the kernel has transparent huge pages, and the value of `enabled` at boot."""
    first: tuple[int, str] | None = None
    has_huge = has_thp = False  # whether a line names an option of huge pages, and of transparent huge pages
    release = _CONFIG_RELEASE.search(source.path) or _CONFIG_RELEASE.search(source.command)
    labels = (("release", release["release"]),) if release else ()
    for number, text in lines:
        line = text.strip()
        match = _CONFIG_SET.match(line) or _CONFIG_UNSET.match(line)
        if match is None:
            if line and not line.startswith("#"):
                errors.note(number, text, "not a line of a kernel's configuration")
            continue
        option, is_yes = match["option"], match.re is _CONFIG_SET and match["value"] == "y"
        first = first or (number, text)
        has_huge, has_thp = has_huge or "HUGE" in option, has_thp or option.startswith(_THP)
        cite = source.cite(number, text)
        if option == _THP:
            yield Fact("kernel.thp_built_in", "yes" if is_yes else "no", cite, labels)
        elif option in _DEFAULTS and is_yes:
            yield Fact("kernel.thp_default", _DEFAULTS[option], cite, labels)
    if first and has_huge and not has_thp and _GREP_HUGE.search(source.command):
        yield Fact("kernel.thp_built_in", "no", source.cite(*first), labels)


def _is_config_line(text: str) -> bool:
    line = text.strip()
    return not line or line.startswith("#") or bool(_CONFIG_SET.match(line))


KERNEL_CONFIG = Parser(
    KERNEL_CONFIG_NAME, "configuration of the kernel's build", parse_kernel_config, continues=_is_config_line,
    opens=re.compile(rf"{_CONFIG_FIRST.pattern}|{_CONFIG_PREFIX}(?:# )?CONFIG_[A-Za-z0-9_]{{1,100}}(?:=| is not set$)"),
    confirm=lambda ahead: all(map(_is_config_line, ahead[:3])),
    paths=(re.compile(r"(?:^|/)(?:boot/config-[^/]+|proc/config(?:\.gz)?)$"),),
)  # fmt: skip
