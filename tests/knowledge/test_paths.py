"""Which members of a bundle are read, and whose copy they are."""

from __future__ import annotations

import pytest

from thpdiag.knowledge.paths import is_wanted, root_of, system_path

SOS = "sosreport-web1-2026-11-20-abcdefg"


@pytest.mark.parametrize(
    "path",
    [
        f"{SOS}/proc/vmstat",
        f"{SOS}/proc/4711/smaps_rollup",
        f"{SOS}/sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
        f"{SOS}/sos_commands/process/ps_auxwww",
        f"{SOS}/sos_commands/sar/sar20",
        f"{SOS}/sos_commands/sar/sa20.xml",
        f"{SOS}/sos_commands/sar/sadf_-x_.var.log.sa.sa20",
        f"{SOS}/var/log/sysstat/sa20",
        f"{SOS}/var/log/sysstat/sar20",
        f"{SOS}/var/log/sa/sa20.xz",
        f"{SOS}/sos_commands/kernel/dmesg",
        f"{SOS}/sos_strings/logs/var.log.messages.tailed",
        f"{SOS}/sos_commands/logs/journalctl_--no-pager_--boot_-1",
        f"{SOS}/sos_commands/general/dmesg_now",
        f"{SOS}/sos_reports/manifest.json",
        f"{SOS}/sos_logs/ui.log",
        f"{SOS}/version.txt",
        f"{SOS}/var/log/messages-20261115.gz",
        f"{SOS}/var/log/sa/sa20",
        f"{SOS}/etc/redhat-release",
        f"{SOS}/etc/tuned/active_profile",
        f"{SOS}/installed-rpms",
        f"{SOS}/sos_commands/rpm/sh_-c_rpm_--nodigest_-qa_--qf_NAME",
        f"{SOS}/sos_commands/dpkg/dpkg_-l",
        "insights-web1-20261120033500/data/insights_commands/uname_-a",
        "must-gather/nodes/worker-0/proc_cmdline",
        "proc/buddyinfo",
        "perf.data",
        "ticket 4711.txt",
        "collectl/web1-20261120-033544.raw.gz",
    ],
)
def test_members_that_are_read(path: str) -> None:
    """Known files of a system tree, and whatever else may be text."""
    assert is_wanted(path)


@pytest.mark.parametrize(
    "path",
    [
        f"{SOS}/etc/passwd",
        f"{SOS}/proc/4711/environ",
        f"{SOS}/sys/devices/system/cpu/cpu0/cache/index0/size",
        f"{SOS}/sos_commands/networking/ip_-s_-d_link",
        f"{SOS}/sos_commands/process/lsof_-b",
        f"{SOS}/usr/lib/libc.so.6",
        f"{SOS}/var/log/secure",
        f"{SOS}/sos_commands/cloud_init/journalctl_--no-pager_--unit_cloud-init",
        f"{SOS}/sos_reports/sos.html",
        f"{SOS}/sos_containers/web/proc/vmstat",
        "must-gather/namespaces/default/core/pods.yaml",
        "must-gather/namespaces/vms/pods/virt-launcher-vm1/guest-console-log/guest-console-log/logs/current.log",
        "screenshot.PNG",
        "tuned-2.4.1-1.el7.noarch.rpm",
    ],
)
def test_members_that_are_not_read(path: str) -> None:
    """The rest of a host's files says nothing about memory, some of it is private."""
    assert not is_wanted(path)


@pytest.mark.parametrize(
    ("path", "on_host", "root"),
    [
        (f"{SOS}/proc/vmstat", "proc/vmstat", SOS),
        (f"var/tmp/{SOS}/proc/vmstat", "proc/vmstat", f"var/tmp/{SOS}"),
        ("./proc/vmstat", "proc/vmstat", ""),
        ("host1/etc/os-release", "etc/os-release", "host1"),
        (f"{SOS}/installed-rpms", None, SOS),
        ("must-gather/nodes/worker-0/proc/vmstat", "proc/vmstat", "must-gather/nodes/worker-0"),
        ("must-gather/nodes/worker-1/dmesg", None, "must-gather/nodes/worker-1"),
        ("must-gather/nodes/w/sysinfo.tgz/proc/vmstat", "proc/vmstat", "must-gather/nodes/w"),
        (f"{SOS}/etc/kubernetes/nodes/w/kubelet.conf", "etc/kubernetes/nodes/w/kubelet.conf", SOS),
        (f"sos-collector-x/{SOS}.tar.xz/{SOS}/proc/vmstat", "proc/vmstat", f"sos-collector-x/{SOS}.tar.xz/{SOS}"),
        ("insights-web1-20261120033500/data/proc/meminfo", "proc/meminfo", "insights-web1-20261120033500"),
        ("ticket.txt", None, ""),
        ("proc", None, ""),
        ("", None, ""),
    ],
)
def test_the_path_on_the_host_and_the_root_of_its_copy(path: str, on_host: str | None, root: str) -> None:
    """Members of one host share their root."""
    assert system_path(path) == on_host
    assert root_of(path) == root
