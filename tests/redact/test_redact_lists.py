"""The lists of what redaction leaves hold what the advice names, and no words of people."""

from __future__ import annotations

# ruff: noqa: E501 (lines of other programs)
import re

import pytest
import yaml

from conftest import ROOT
from thpdiag.redact import allowed
from thpdiag.redact.names import Names
from thpdiag.redact.words import Words, path


def test_applications_keep_their_names() -> None:
    """The advice names applications, so those that the knowledge knows by a plain name are no secrets."""
    known = yaml.safe_load((ROOT / "thpdiag" / "knowledge" / "applications.yaml").read_text(encoding="utf-8"))
    commands = [row["comm"] for row in known.values() if re.fullmatch(r"[a-z|-]+", row.get("comm") or "")]
    plain = [name for comm in commands for name in comm.split("|")]
    assert [name for name in [*known, *plain] if not allowed.is_program(name)] == []


@pytest.mark.parametrize(
    "name",
    ["oscar", "Paris", "Zurich", "compiler_acme", "acme", "threads", "GCorp", "osprey", "mainframe", "kworkers", "rootkit", "javacorp", "xfs_acme",
     "ora_pmon_PAYROLL", "systemdacme", "g1acme"],
)  # fmt: skip
def test_a_pattern_takes_no_more_than_it_means(name: str) -> None:
    """Patterns of known programs and functions hold for whole names only."""
    assert not allowed.is_program(name)
    assert not allowed.is_function(name)


@pytest.mark.parametrize(("given", "wanted"), [
    ("sos_commands/memory/free", "sos_commands/memory/free"),
    ("proc/4711/status", "proc/4711/status"),
    ("var/log/sa/sa20", "var/log/sa/sa20"),
    ("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled", "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled"),
    ("/home/anna/run.sh", "/home/user1/run.sh"),
    ("/mnt/acme/orders.tar.gz", "/mnt/dir1/file1.tar.gz"),
    ("acme-web.service", "file1.service"),
    ("/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libc.so.6"),
])  # fmt: skip
def test_paths(given: str, wanted: str) -> None:
    """What every host has stays, the rest is told by what it is."""
    assert path(given, Names()) == wanted


@pytest.mark.parametrize("line", [
    "AnonHugePages:   1048576 kB", "compact_stall 4711", "Node 0, zone   Normal 131388 171755 146598",
    "12:23:49     all   53.00   15.50   31.50    0.00    0.00", "always [madvise] never", "7  1      0 222572  60720 23997280    0    0",
    "11:56:51     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle",
    "    36 root      20   0       0      0      0 S   0.0   0.0   0:08.15 kcompactd0", "2026-11-20T12:36:59.123Z up 1 day,  1:00",
    "\tffffffff815d0a7b __compact_zone+0x2b ([kernel.kallsyms])", "\t          10ab59 __memset_avx2 (/usr/lib/x86_64-linux-gnu/libc.so.6)",
    "cpu  3093009 987667 456497 944384 5662 0 8300 10601 0 0", "java 1202 [001] 100.5: 10101 cpu-clock:ppp:",
    "page allocation failure: order:9, mode:0x10c0d0", "127.0.0.1 ::1 0.0.0.0",
])  # fmt: skip
def test_what_a_tool_prints_stays(line: str) -> None:
    """A quoted line of a tool can still be read."""
    assert Words(Names()).line(line) == line


@pytest.mark.parametrize(("given", "wanted"), [
    ("2.6.32-504.el6.x86_64", "2.6.32-504.el6.x86_64"),
    ("4.4.0-142-generic", "4.4.0-142-generic"),
    ("4.18.0-305.acme.corp.x86_64", "4.18.0-305"),
    ("6.18.44-acme+", "6.18.44"),
    ("5.14.0-427.13.1.el9_4.x86_64", "5.14.0-427.13.1.el9_4.x86_64"),
    ("2.6.32.59-0.7-default", "2.6.32.59-0.7-default"),
])  # fmt: skip
def test_a_kernel_loses_what_the_customer_added(given: str, wanted: str) -> None:
    """The release tells the family of kernels, which the diagnosis rests on, and nobody's name."""
    assert Words(Names()).release(given) == wanted
    assert Words(Names()).line(given).rstrip("+") == wanted
