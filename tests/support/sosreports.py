"""Small sosreports in the layout of each generation of sos, and the forms in which they reach support."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT_NAME = "sosreport-web1-2026-11-20-abcdefg"
UNAME = "Linux web1 3.10.0-229.14.1.el7.x86_64 #1 SMP Tue Sep 15 15:05:51 UTC 2015 x86_64 x86_64 x86_64 GNU/Linux\n"
DATE, DATE_UTC = "Fri Nov 20 10:47:03 CET 2026\n", "Fri Nov 20 09:47:03 UTC 2026\n"
UPTIME = " 10:47:03 up 190 days,  3:12,  2 users,  load average: 0.00, 0.01, 0.05\n"
DMESG = "[    0.000000] Linux version 3.10.0-229.14.1.el7.x86_64\n[ 1200.500000] Out of memory: Kill process 31337\n"
MESSAGES = (
    "Nov 20 09:00:01 web1 kernel: INFO: task java:4711 blocked for more than 120 seconds.\n"
    "Nov 20 09:00:02 web1 systemd: Started Session 12 of user root.\n"
)
TAIL = f"y: ended half-way through a line\n{MESSAGES}"
FREE = (
    "              total        used        free      shared  buff/cache   available\n"
    "Mem:       16266504     4096000     8000000       10240     4170504    11000000\n"
    "Swap:             0           0           0\n"
)
FREE_M = (
    "              total        used        free      shared  buff/cache   available\n"
    "Mem:          15885        4000        7812          10        4072       10742\n"
    "Swap:             0           0           0\n"
)
PS = (
    "USER       PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n"
    "root         1  0.0  0.0  51648  7608 ?        Ss   May14   1:02 /usr/lib/systemd/systemd\n"
    "redis     4711 12.0 40.0 8000000 6000000 ?     Ssl  May14 900:00 /usr/bin/redis-server 127.0.0.1:6379\n"
)
SYSCTL = "vm.compaction_proactiveness = 20\nvm.min_free_kbytes = 67584\nvm.swappiness = 60\n"
VMSTAT = "nr_free_pages 2000000\npgfault 100000\nthp_fault_alloc 49805\ncompact_stall 12\ncompact_fail 3\n"
MEMINFO = "MemTotal:       16266504 kB\nMemFree:         8000000 kB\nAnonHugePages:   2457600 kB\n"
BUDDYINFO = "Node 0, zone   Normal    100     50     20     10      5      4      3      2      1      8    900\n"
ENABLED = "[always] madvise never\n"


@dataclass(frozen=True, slots=True)
class Report:
    """Files and links below the root folder; a target is relative to the link, as sos writes it."""

    files: Mapping[str, str]
    links: Mapping[str, str] = field(default_factory=dict)

    def but(self, files: Mapping[str, str], links: Mapping[str, str] | None = None) -> Report:
        return Report({**self.files, **files}, {**self.links, **(links or {})})

    def without(self, *starts: str) -> Report:
        kept = {path: text for path, text in self.files.items() if not path.startswith(starts)}
        return Report(kept, {link: to for link, to in self.links.items() if not to.startswith(starts)})


_PROC = {
    "proc/vmstat": VMSTAT, "proc/meminfo": MEMINFO, "proc/buddyinfo": BUDDYINFO,
    "etc/redhat-release": "CentOS Linux release 7.1.1503 (Core)\n", "etc/passwd": "root:x:0:0::/root:/bin/bash\n",
}  # fmt: skip
_COMMANDS = {
    "sos_commands/kernel/uname_-a": UNAME, "sos_commands/kernel/sysctl_-a": SYSCTL, "sos_commands/kernel/dmesg": DMESG,
    "sos_commands/memory/free": FREE, "sos_commands/memory/free_-m": FREE_M, "sos_commands/process/ps_auxwww": PS,
    "sos_commands/networking/netstat_-W_-neopa": "Active Internet connections\n",
}  # fmt: skip
_LINKS = {
    "uname": "sos_commands/kernel/uname_-a", "free": "sos_commands/memory/free", "ps": "sos_commands/process/ps_auxwww",
    "netstat": "sos_commands/networking/netstat_-W_-neopa",
}  # fmt: skip
_GENERAL = {
    "sos_commands/general/date": DATE, "sos_commands/general/uptime": UPTIME, "sos_commands/general/hostname": "web1\n",
}  # fmt: skip
_HOST = {
    "sos_commands/date/date": DATE, "sos_commands/date/date_--utc": DATE_UTC, "sos_commands/host/uptime": UPTIME,
    "sos_commands/host/hostname": "web1\n",
}  # fmt: skip
_TAILED = "sos_strings/logs/var.log.messages.tailed"
_TAIL = ({_TAILED: TAIL}, {"var/log/messages": f"../../{_TAILED}"})
_THP = "sys/kernel/mm/transparent_hugepage"


def _linked(folder: str) -> dict[str, str]:
    return {name: f"sos_commands/{folder}/{name}" for name in ("uptime", "hostname")}


def manifest(version: str = "4.0", /, **plugins: object) -> str:
    """Return a manifest of sos with these plugins in addition to successful ones."""
    ran = dict.fromkeys(("boot", "date", "host", "kernel", "memory", "process", "processor", "sar", "tuned"), _RAN)
    whole = {
        "version": version, "start_time": "2026-11-20 10:46:58.5", "end_time": "2026-11-20 10:51:27.0",
        "components": {"report": {"sysroot": "/", "plugins": {**ran, **plugins}}},
    }  # fmt: skip
    return json.dumps(whole, indent=4)


_RAN = {"timeout_hit": False, "commands": [], "files": []}

GENERATIONS: Mapping[str, Report] = {
    "2.2": Report(
        {**_PROC, **_COMMANDS, **_GENERAL, "sos_commands/general/dmesg_now": DMESG, "var/log/messages": MESSAGES},
        {**_LINKS, **_linked("general"), "date": "sos_commands/general/date"},
    ),
    "3.2": Report(
        {**_PROC, **_COMMANDS, **_GENERAL, "version.txt": "sosreport: 3.2\n"},
        {**_LINKS, **_linked("general"), "date": "sos_commands/general/date"},
    ).but(*_TAIL),
    "3.9": Report(
        {**_PROC, **_COMMANDS, **_HOST, f"{_THP}/enabled": ENABLED, "version.txt": "sosreport: 3.9\n"},
        {**_LINKS, **_linked("host"), "date": "sos_commands/date/date"},
    ).but(*_TAIL),
    "4.0": Report(
        {**_PROC, **_COMMANDS, **_HOST, f"{_THP}/enabled": ENABLED, "version.txt": "sosreport: 4.0",
         "sos_reports/manifest.json": manifest()},
        {**_LINKS, **_linked("host"), "date": "sos_commands/date/date"},
    ).but(*_TAIL),
    "4.10": Report(
        {**_PROC, **_COMMANDS, **_HOST, f"{_THP}/enabled": ENABLED, f"{_THP}/defrag": "always defer [madvise] never\n",
         f"{_THP}/khugepaged/max_ptes_none": "511\n", "version.txt": "sos report: 4.10.0",
         "sos_reports/manifest.json": manifest("4.10.0"),
         "sos_containers/web/proc/meminfo": MEMINFO.replace("16266504", "524288"),
         "sos_containers/web/sos_commands/podman/ps": PS},
        {**_LINKS, **_linked("host"), "date": "sos_commands/date/date"},
    ).but(*_TAIL),
}  # fmt: skip


def folder(report: Report, at: Path) -> Path:
    """Write it unpacked, with links."""
    for path, text in report.files.items():
        target = at / ROOT_NAME / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    for path, target_text in report.links.items():
        link = at / ROOT_NAME / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target_text)
    return at


def copied(report: Report, at: Path) -> Path:
    """Write it unpacked on a file system without links: each is a second file."""
    given = {link: report.files[to.replace("../", "")] for link, to in report.links.items()}
    return folder(Report({**report.files, **given}), at)


def dropped(report: Report, at: Path) -> Path:
    """Write it unpacked by a program that leaves links out."""
    return folder(Report(report.files), at)


def packed(report: Report, at: Path) -> Path:
    """Return it as sos packs it: links at the root before their targets."""
    target = at / f"{ROOT_NAME}.tar.xz"
    at.mkdir(exist_ok=True)
    target.write_bytes(archive(report))
    return target


def archive(report: Report, root: str = ROOT_NAME) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:xz", preset=0) as tar:
        for path in sorted([*report.files, *report.links]):
            info = tarfile.TarInfo(f"{root}/{path}")
            if path in report.links:
                info.type, info.linkname = tarfile.SYMTYPE, report.links[path]
                tar.addfile(info)
                continue
            data = report.files[path].encode()
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


WAYS: Mapping[str, Callable[[Report, Path], Path]] = {
    "unpacked": folder, "links copied": copied, "links dropped": dropped, "packed": packed,
}  # fmt: skip
