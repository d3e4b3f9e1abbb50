"""The THP state of constructed hosts: what is in force and how that is known, what will hold, and what disagrees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from analyze_bytes import STRICT, document, judged
from reduced_inputs import surer_findings, variants
from thpdiag.host.cases import host_cases
from thpdiag.host.options import Options
from thpdiag.host.reading import read_input
from thpdiag.model import Case, Fact

THP = "sys/kernel/mm/transparent_hugepage/"
REDHAT = "sys/kernel/mm/redhat_transparent_hugepage/"
ON, OFF, ASKED = "[always] madvise never\n", "always madvise [never]\n", "always [madvise] never\n"
ON_6 = "[always] never\n"
ROOT = "[root@demo ~]# "


def cmdline(*words: str) -> dict[str, str]:
    return {"proc/cmdline": f"ro root=/dev/sda1 {' '.join(words)} quiet\n"}


def kernel(release: str) -> dict[str, str]:
    return {"proc/version": f"Linux version {release} (builder@demo) (gcc) #1 SMP Wed Mar 7 00:52:02 GMT 2012\n"}


NEVER_LINE, PLAIN_LINE = cmdline("transparent_hugepage=never"), cmdline()
EL62, EL65, EL66 = (kernel(f"2.6.32-{b}.el6.x86_64") for b in ("220.7.1", "431", "504"))
EL64 = kernel("2.6.32-358.el6.x86_64")
EL71, EL79 = kernel("3.10.0-229.14.1.el7.x86_64"), kernel("3.10.0-1160.el7.x86_64")
EL8 = kernel("4.18.0-553.el8.x86_64")
SERVER = {"sos_commands/tuned/tuned-adm_active": "Current active profile: throughput-performance\n"}
DATABASE = {"sos_commands/tuned/tuned-adm_active": "Current active profile: mine\n"}


def installed(version: str) -> dict[str, str]:
    return {"installed-rpms": f"tuned-{version}-1.el7.noarch                Wed 05 Aug 2015 10:00:00 AM UTC\n"}


def echo(value: str, directory: str = THP, file: str = "enabled") -> str:
    return f"echo {value} > /{directory}{file}\n"


def rc_local(value: str, directory: str = THP, file: str = "enabled") -> dict[str, str]:
    return {"etc/rc.d/rc.local": f"#!/bin/sh\ntouch /var/lock/subsys/local\n{echo(value, directory, file)}"}


def unit(value: str, after: str = "", shell: str = "/bin/sh -c") -> dict[str, str]:
    command = f"{shell} 'echo {value} > /{THP}enabled'" if shell else f"/bin/echo {value} > /{THP}enabled"
    return {"etc/systemd/system/thp.service": f"[Unit]\nAfter={after}\n[Service]\nExecStart={command}\n"}


def profile(text: str, name: str = "mine", top: str = "etc/tuned") -> dict[str, str]:
    return {f"{top}/{name}/tuned.conf": text}


@dataclass(frozen=True)
class Row:
    """A host. `holds` is value and provenance of enabled, None if unknown; `told` kinds and words of contradictions."""

    name: str
    files: list[Mapping[str, str]]
    holds: tuple[str, str] | None
    next_boot: str | None = None
    told: dict[str, str] = field(default_factory=dict)
    setting: str = "thp.enabled"


ROWS = [
    Row("nothing but the kernel", [EL79], ("always", "assumed")),
    Row("sysfs alone", [EL79, {THP + "enabled": OFF}], ("never", "")),
    Row("sysfs and boot line agree", [EL79, NEVER_LINE, {THP + "enabled": OFF}], ("never", ""), "never"),
    Row("boot line alone", [EL79, NEVER_LINE], ("never", "boot line"), "never"),
    Row("plain boot line, nothing else", [EL79, PLAIN_LINE], ("always", "assumed"), "always"),
    Row("the last of two words", [EL79, cmdline("transparent_hugepage=always", "transparent_hugepage=never")],
        ("never", "boot line"), "never"),
    Row("an unknown word on the boot line", [EL79, cmdline("transparent_hugepage=off")],
        ("always", "assumed"), "always"),
    Row("madvise on the boot line of RHEL 6.2", [EL62, cmdline("transparent_hugepage=madvise")],
        ("always", "assumed"), "always"),
    Row("the same, and what is running", [EL64, cmdline("transparent_hugepage=madvise"), {REDHAT + "enabled": ON_6}],
        ("always", ""), "always", {"ineffective": "this kernel does not accept the value madvise"}),
    Row("madvise on the boot line of RHEL 6.6", [EL66, cmdline("transparent_hugepage=madvise")],
        ("madvise", "boot line"), "madvise"),
    Row("old tuned in the list of packages", [EL71, NEVER_LINE, {THP + "enabled": ON}, SERVER, installed("2.4.1")],
        ("always", ""), "always", {"overridden": "tuned 2.4.1) writes that later"}),
    Row("new tuned leaves the boot line alone", [EL71, NEVER_LINE, {THP + "enabled": ON}, SERVER, installed("2.11.0")],
        ("always", ""), "never", {"overridden": "the boot line sets never, the running kernel has always"}),
    Row("RHEL 7.1 without a list of packages", [EL71, NEVER_LINE, {THP + "enabled": ON}, SERVER],
        ("always", ""), "unknown", {"overridden": "may have written that"}),
    Row("old tuned without sysfs", [EL71, NEVER_LINE, SERVER, installed("2.4.1")], ("always", "tuned"), "always"),
    Row("tuned of unknown version without sysfs", [EL71, NEVER_LINE, SERVER], None, "unknown"),
    Row("own profile that includes the server's", [
        EL71, PLAIN_LINE, {THP + "enabled": OFF}, DATABASE, installed("2.4.1"),
        profile("[main]\ninclude=throughput-performance\n[vm]\ntransparent_hugepages=never\n")],
        ("never", ""), "never"),
    Row("an included profile decides", [
        EL79, PLAIN_LINE, {THP + "enabled": ON}, DATABASE, installed("2.11.0"),
        profile("[main]\ninclude=oracle\n"), profile("[vm]\ntransparent_hugepages=never\n", "oracle", "usr/lib/tuned")],
        ("always", ""), "never", {"overridden": "tuned's profile oracle sets never"}),
    Row("a profile that is not active", [
        EL79, PLAIN_LINE, {THP + "enabled": ON}, SERVER, installed("2.11.0"),
        profile("[vm]\ntransparent_hugepages=never\n", "oracle", "usr/lib/tuned")], ("always", ""), "always"),
    Row("profiles, and nobody says which is active", [
        EL79, PLAIN_LINE, profile("[vm]\ntransparent_hugepages=never\n", "oracle", "usr/lib/tuned")],
        ("always", "assumed"), "always"),
    Row("a profile that includes itself", [
        EL79, PLAIN_LINE, DATABASE, profile("[main]\ninclude=mine\n[vm]\ntransparent_hugepages=never\n")],
        ("never", "tuned"), "never"),
    Row("rc.local alone", [EL66, PLAIN_LINE, rc_local("never")], ("never", "rc file"), "never"),
    Row("rc.local and the kernel disagree", [EL66, PLAIN_LINE, rc_local("never"), {THP + "enabled": ON}],
        ("always", ""), "never", {"overridden": "etc/rc.d/rc.local sets never, the running kernel has always"}),
    Row("rc.local that is not executable", [
        EL79, PLAIN_LINE, rc_local("never"), {THP + "enabled": ON},
        {"ticket.txt": "# ls -l /etc/rc.d/rc.local\n-rw-r--r--. 1 root root 586 Jun 26  2015 /etc/rc.d/rc.local\n"}],
        ("always", ""), "always", {"ineffective": "the file is not executable"}),
    Row("a directory that RHEL 6.2 has not", [EL62, PLAIN_LINE, rc_local("never"), {REDHAT + "enabled": ON_6}],
        ("always", ""), "always", {"ineffective": "no /sys/kernel/mm/transparent_hugepage"}),
    Row("the directory of RHEL 6 on RHEL 8", [EL8, PLAIN_LINE, rc_local("never", REDHAT), {THP + "enabled": ON}],
        ("always", ""), "always", {"ineffective": "no /sys/kernel/mm/redhat_transparent_hugepage"}),
    Row("a script for both directories", [
        EL62, PLAIN_LINE, {REDHAT + "enabled": "always [never]\n"},
        {"etc/rc.d/rc.local": echo("never") + echo("never", REDHAT)}], ("never", ""), "never"),
    Row("a line below an exit", [
        EL79, PLAIN_LINE, {"etc/rc.local": f"#!/bin/sh -e\nexit 0\n{echo('never')}", THP + "enabled": ON}],
        ("always", ""), "always", {"ineffective": "below an exit"}),
    Row("madvise in rc.local of RHEL 6.4", [EL64, PLAIN_LINE, rc_local("madvise"), {THP + "enabled": ON_6}],
        ("always", ""), "always", {"ineffective": "this kernel does not accept the value madvise"}),
    Row("a unit that is not enabled", [
        EL79, PLAIN_LINE, unit("never"), {THP + "enabled": ON},
        {"sos_commands/systemd/systemctl_list-unit-files": "UNIT FILE   STATE\nthp.service   disabled\n"}],
        ("always", ""), "always", {"ineffective": "thp.service is not enabled"}),
    Row("a unit without a shell", [EL79, PLAIN_LINE, unit("never", shell=""), {THP + "enabled": ON}],
        ("always", ""), "always", {"ineffective": "no shell"}),
    Row("a sysctl file", [
        EL79, PLAIN_LINE, {"etc/sysctl.conf": "kernel.mm.transparent_hugepage.enabled = never\n", THP + "enabled": ON}],
        ("always", ""), "always", {"ineffective": "sysctl cannot set"}),
    Row("a unit and tmpfiles differ", [
        EL79, PLAIN_LINE, unit("madvise"), {"etc/tmpfiles.d/thp.conf": f"w /{THP}enabled - - - - never\n"}],
        ("madvise", "rc file"), "madvise", {"start_up": "thp.service runs last"}),
    Row("a unit and rc.local differ since systemd", [EL79, PLAIN_LINE, unit("madvise"), rc_local("never")],
        None, "unknown", {"start_up": "it is unknown which of them runs last"}),
    Row("an init script and rc.local differ on RHEL 6", [
        EL66, PLAIN_LINE, rc_local("never"), {"etc/init.d/thp": echo("madvise")}],
        ("never", "rc file"), "never", {"start_up": "rc.local runs last"}),
    Row("an init script with start and stop", [
        EL66, PLAIN_LINE, {"etc/init.d/thp": f"case $1 in start) {echo('never')};; stop) {echo('always')};; esac\n"}],
        ("always", "assumed"), "always"),
    Row("a unit that waits for tuned", [
        EL71, PLAIN_LINE, SERVER, installed("2.4.1"), unit("never", "tuned.service"), {THP + "enabled": OFF},
        {"sos_commands/systemd/systemctl_list-unit-files": "UNIT FILE   STATE\nthp.service   enabled\n"}],
        ("never", ""), "never", {"overridden": "thp.service writes that later", "start_up": "thp.service runs last"}),
    Row("the boot menu is ahead of the boot line", [
        EL66, PLAIN_LINE, {THP + "enabled": ON}, {"etc/grub.conf": (
            "default=0\n\tkernel /vmlinuz-2.6.32-504.el6.x86_64 ro root=/dev/sda1 transparent_hugepage=never\n"
            "\tkernel /vmlinuz-2.6.32-431.el6.x86_64 ro root=/dev/sda1\n")}],
        ("always", ""), "never", {"pending": "which counts from the next boot on"}),
    Row("another entry of the boot menu", [
        EL66, PLAIN_LINE, {THP + "enabled": ON}, {"etc/grub.conf": (
            "default=0\n\tkernel /vmlinuz-2.6.32-504.el6.x86_64 ro root=/dev/sda1\n"
            "\tkernel /vmlinuz-2.6.32-431.el6.x86_64 ro root=/dev/sda1 transparent_hugepage=never\n")}],
        ("always", ""), "always"),
    Row("settings of the boot loader only", [
        EL79, PLAIN_LINE, {THP + "enabled": ON},
        {"etc/default/grub": 'GRUB_CMDLINE_LINUX="quiet transparent_hugepage=never"\n'}], ("always", ""), "unknown"),
    Row("settings and menu of the boot loader", [
        EL79, PLAIN_LINE, {THP + "enabled": ON}, {
            "etc/default/grub": 'GRUB_CMDLINE_LINUX="quiet transparent_hugepage=never"\n',
            "boot/grub2/grub.cfg": "\tlinux16 /vmlinuz-3.10.0-1160.el7.x86_64 root=/dev/sda1 ro\n"}],
        ("always", ""), "always"),
    Row("a script that looks which directory there is", [
        EL79, PLAIN_LINE, {THP + "enabled": ON}, {"etc/init.d/disable-thp": (
            f"if [ -d /{THP} ]; then\n  path=/{THP[:-1]}\nelif [ -d /{REDHAT} ]; then\n  path=/{REDHAT[:-1]}\nfi\n"
            "echo 'never' > ${path}/enabled\n")}],
        ("always", ""), "never", {"overridden": "disable-thp sets never"}),
    Row("a note of saptune that is applied", [
        EL79, PLAIN_LINE, {"etc/sysconfig/saptune": 'TUNE_FOR_NOTES="2684254"\n'},
        {"etc/saptune/extra/2684254.conf": "[vm]\nTHP=never\n"}, {THP + "enabled": ON}],
        ("always", ""), "never", {"overridden": "2684254.conf sets never"}),
    Row("a note of saptune that is not applied", [
        EL79, PLAIN_LINE, {"etc/sysconfig/saptune": 'TUNE_FOR_NOTES="1980196"\n'},
        {"etc/saptune/extra/2684254.conf": "[vm]\nTHP=never\n"}, {THP + "enabled": ON}], ("always", ""), "always"),
    Row("the boot line of an earlier boot in a log", [
        EL79, PLAIN_LINE, {THP + "enabled": ON},
        {"var/log/messages": "Jan  1 00:00:01 demo kernel: Kernel command line: ro transparent_hugepage=never\n"}],
        ("always", ""), "always"),
    Row("huge pages although the boot line says never", [
        EL79, NEVER_LINE, {"proc/meminfo": "MemTotal:  16266504 kB\nAnonHugePages:   2457600 kB\n"}],
        None, "never", {"traces": "2,400 MiB are in huge pages"}),
    Row("one size is on by itself", [
        kernel("6.12.0-55.el10.x86_64"), {
            THP + "enabled": OFF, THP + "hugepages-64kB/enabled": "[always] inherit madvise never\n",
            THP + "hugepages-2048kB/enabled": "always [inherit] madvise never\n"}],
        ("never", ""), None, {"size": "hugepages-64kB/enabled is always"}),
    Row("changed by hand", [
        EL79, NEVER_LINE, {"ticket.txt": f"{ROOT}echo always > /{THP}enabled\n{ROOT}cat /{THP}enabled\n{ON}"}],
        ("always", ""), "never", {"by_hand": "always was written at a prompt (ticket.txt:1)"}),
    Row("the start-up files of a container", [
        EL79, PLAIN_LINE, rc_local("never"), {THP + "enabled": ON},
        {"sos_commands/host/systemd-detect-virt": "docker\n"}],
        ("always", ""), "always"),
    Row("in a mail and a history, without effect", [
        EL79, PLAIN_LINE, {"mail.txt": f"A wiki says:\n> echo never > /{THP}enabled\nor transparent_hugepage=never\n",
        "root/.bash_history": echo("never")}], ("always", "assumed"), "always"),
    Row("defrag: a word that the kernel does not know", [
        EL79, PLAIN_LINE, rc_local("defer", file="defrag"), {THP + "defrag": ON}],
        ("always", ""), "always", {"ineffective": "this kernel does not accept the value defer"}, "thp.defrag"),
    Row("defrag: tuned's [sysfs] and the kernel disagree", [
        EL8, PLAIN_LINE, DATABASE, profile(f"[sysfs]\n/{THP}defrag=never\n"),
        {THP + "defrag": "always defer defer+madvise [madvise] never\n"}],
        ("madvise", ""), "never", {"overridden": "tuned's profile mine sets never"}, "thp.defrag"),
    Row("khugepaged: no and 0 mean the same", [
        kernel("2.6.32-754.el6.x86_64"), PLAIN_LINE, rc_local("no", REDHAT, "khugepaged/defrag"),
        {REDHAT + "khugepaged/defrag": "0\n"}], ("0", ""), "no", {}, "thp.khugepaged.defrag"),
]  # fmt: skip


def host(folder: Path, files: list[Mapping[str, str]]) -> Case:
    for path, text in ((path, text) for part in files for path, text in part.items()):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    options = Options(strict=True)
    (one,) = host_cases(read_input([folder], options), options)
    return one


def facts(case: Case, name: str, setting: str) -> list[Fact]:
    every = (*case.facts, *(f for s in case.states for f in s.facts))
    return [f for f in every if f.name == name and f.label("setting") == setting]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name.replace(" ", "-"))
def test_what_is_in_force_and_what_will_hold(row: Row, tmp_path: Path) -> None:
    """The value and how it is known; the value after a boot; each contradiction and no other."""
    case = host(tmp_path / "host", row.files)

    known = [f for f in (*case.states[-1].facts, *case.facts) if f.name == row.setting and not f.labels]
    assert [(str(f.value), f.provenance) for f in known[:1]] == ([row.holds] if row.holds else [])
    if row.next_boot is not None:
        assert [str(f.value) for f in facts(case, "setting.next_boot", row.setting)] == [row.next_boot]
    told = {
        str(f.label("kind")): str(f.value)
        for f in facts(case, "setting.contradiction", row.setting)
        if f.value != "none"
    }
    assert told.keys() == row.told.keys()
    assert [words for kind, words in row.told.items() if words not in told[kind]] == []


@pytest.mark.parametrize("row", [row for row in ROWS if len(row.files) > 4 and row.told], ids=lambda row: row.name)
def test_with_a_file_less_no_finding_is_surer(row: Row, tmp_path: Path) -> None:
    """What a list of packages or of units excludes is at most possible without it."""
    host(tmp_path / "host", row.files)
    given = read_input([tmp_path / "host"], STRICT)
    full = judged(given)
    for words, rest in variants(given):
        if words.startswith("member "):
            assert surer_findings(full, judged(rest)) == [], words


def test_a_setting_under_two_states(tmp_path: Path) -> None:
    """Before somebody wrote never the boot line was overridden; afterwards it is what the kernel has again."""
    text = (
        f"{ROOT}cat /{THP}enabled\n{ON}{ROOT}echo never > /{THP}enabled\n{ROOT}cat /{THP}enabled\n{OFF}{ROOT}uptime\n"
    )
    case = host(tmp_path / "host", [EL79, NEVER_LINE, {"ticket.txt": text}])

    told = [
        [f.label("kind") for f in s.facts if f.name == "setting.contradiction" and f.value != "none"]
        for s in case.states
    ]
    assert [(s.settings.get("thp.enabled"), kinds) for s, kinds in zip(case.states, told, strict=True)] == [
        ("always", ["overridden"]), ("never", []),
    ]  # fmt: skip


def test_two_bundles_of_a_host_keep_their_boot_lines(tmp_path: Path) -> None:
    """What the boot line says after the reboot is not held against what the kernel had before."""
    before, after = "sosreport-demo-2026-11-19-aaaaaaa/", "sosreport-demo-2026-11-20-bbbbbbb/"
    files = {
        before: {**EL79, **PLAIN_LINE, THP + "enabled": ON},
        after: {**EL79, **NEVER_LINE, THP + "enabled": OFF},
    }
    uname = "Linux demo 3.10.0-1160.el7.x86_64 #1 SMP Tue Sep 15 15:05:51 UTC 2015 x86_64 x86_64 x86_64 GNU/Linux\n"
    parts = [{f"{root}{path}": text for path, text in {**own, "sos_commands/kernel/uname_-a": uname}.items()}
             for root, own in files.items()]  # fmt: skip
    case = host(tmp_path / "host", parts)

    assert [f for f in facts(case, "setting.contradiction", "thp.enabled") if f.value != "none"] == []


HOSTILE = [
    ("a boot line of many sizes", {"proc/cmdline": f"ro root=/dev/sda1 thp_anon={'1K-9999999G:always;' * 8}x\n"}),
    ("sizes that never end", {"proc/cmdline": "ro root=/dev/sda1 thp_anon=0K-16K:always,,;;:;-:never;1K-:x\n"}),
    ("words of terminals", {"proc/cmdline": "ro root=/dev/sda1 transparent_hugepage=\x1b[31mnever\n"}),
    ("profiles in a circle", {
        "etc/tuned/active_profile": "a b\n", "etc/tuned/a/tuned.conf": "[main]\ninclude=b\n",
        "etc/tuned/b/tuned.conf": "[main]\ninclude=a b c d e f g h\n[vm]\ntransparent_hugepages=<script>\n"}),
    ("a thousand start-up files", {
        f"etc/init.d/thp{n}": echo(("never", "always", "madvise")[n % 3]) for n in range(1000)}),
    ("a menu of a thousand entries", {"etc/grub.conf": "default=99999\n" + "kernel /vmlinuz-1 ro\n" * 1000}),
    ("a version that is no number", {**SERVER, "rpm.txt": f"tuned-{'9' * 3}.{'9' * 3}-1.el7.noarch\n"}),
    ("modes and units of nobody", {"etc/rc.local": echo("never"), "t.txt": (
        "thp.service enabled\n@.service  masked\n-rwxrwxrwx 1 root root 1 Jan 1 2020 /etc/rc.local\n")}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "files"), HOSTILE, ids=[name.replace(" ", "-") for name, _ in HOSTILE])
def test_what_makes_no_sense_breaks_nothing(name: str, files: dict[str, str], tmp_path: Path) -> None:
    """Some hundred facts at most, and the value that the kernel shows stays what it is."""
    case = host(tmp_path / "host", [EL79, {THP + "enabled": ON}, files])

    every = [f for f in (*case.facts, *(f for s in case.states for f in s.facts)) if f.name.startswith("setting.")]
    assert len(every) < 300
    assert [f.value for f in case.states[-1].facts if f.name == "thp.enabled"] == ["always"]


@pytest.mark.parametrize(
    ("text", "enabled"),
    [
        ("", "always"),
        ("THP settings:\nalways madvise [never]\nalways defer defer+madvise [madvise] never\n", None),
        (f"{ROOT}cat /sys/kernel/mm/transparent_hugepage/enabled\nalways madvise [never]\n", "never"),
    ],
)
def test_a_value_without_a_name_is_never_shadowed_by_a_default(text: str, enabled: str | None) -> None:
    """It may be this setting's; what the distribution usually has is then no answer, and the files are asked for."""
    told = document(f"{ROOT}uname -r\n5.14.0-427.el9.x86_64\n{text}".encode())
    assert told["host"].get("settings", {}).get("thp.enabled", {}).get("value") == enabled
    asking = {command for one in told["unknown"] if "thp.enabled" in one["missing"] for command in one["ask_for"]}
    assert any("transparent_hugepage" in command for command in asking) is (enabled != "never")
