"""Bundles of cloud providers' collectors: each is one host, also of several in a folder."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

from thpdiag.host.cases import host_cases
from thpdiag.host.options import Options
from thpdiag.host.reading import read_input

UNAME = "Linux {name} 5.10.223-212.873.amzn2.x86_64 #1 SMP Wed Aug 7 16:53:59 UTC 2024 x86_64 x86_64 x86_64 GNU/Linux\n"
VMSTAT = """procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 2  0      0 904384   2108 818940    0    0     0     0  200  300 10 60 30  0  0
 2  0      0 904384   2108 818940    0    0     0     0  200  300 10 62 28  0  0
"""


def pack(path: Path, files: dict[str, str]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))


def names(folder: Path) -> set[str]:
    """The hosts of an input."""
    return {case.host for case in host_cases(read_input([folder], Options()), Options())}


def test_two_nodes_of_eks_are_two_hosts(tmp_path: Path) -> None:
    """What has no name of a host is that of its archive."""
    for number in (1, 2):
        files = {"kernel/uname.txt": UNAME.format(name=f"node{number}"), "system/vmstat.txt": VMSTAT}
        pack(tmp_path / f"eks_i-0abc{number}_2024-08-06_1000-UTC_0.7.9.tar.gz", files)
    assert names(tmp_path) == {"node1", "node2"}


def test_a_run_of_ec2rl_is_one_host(tmp_path: Path) -> None:
    """The output of each module stands below a line of its own."""
    log = f"I will collect vmstat output from this alami2 box 5 times.\n{VMSTAT}"
    run = "2024-08-06T10_00_01.893145/mod_out/run"
    pack(tmp_path / "ec2rl.tar.gz", {f"{run}/vmstat.log": log, f"{run}/kernelinfo.log": UNAME.format(name="node1")})
    assert names(tmp_path) == {"node1"}


def test_two_disks_of_azure_are_two_hosts(tmp_path: Path) -> None:
    """Each holds files by their paths."""
    with zipfile.ZipFile(tmp_path / "InspectIaaSDisk.zip", "w") as archive:
        for number in (0, 1):
            line = f"vm{number} kernel: [    0.000000] Linux version 6.5.0-102{number}-azure (b@x) #26 SMP"
            archive.writestr(f"device_{number}/var/log/kern.log", f"Aug  5 10:00:00 {line}\n")
            archive.writestr(f"device_{number}/etc/os-release", 'PRETTY_NAME="Ubuntu 22.04.4 LTS"\nID=ubuntu\n')
    assert names(tmp_path) == {"vm0", "vm1"}
