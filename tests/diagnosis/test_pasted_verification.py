"""What a customer sends back after the advice: the Verify command of a remedy at a prompt, with its output.

Each runs here, without its pauses, and is pasted behind a prompt; every part of the output must be read by a parser,
and where the command prints a thing twice, the time between must be that which the command names.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import Run
from thpdiag.diagnosis.remedies import HostView, in_directory
from thpdiag.knowledge.yaml_nodes import load_shipped

HOST = HostView("debian12")
ROUNDS = 4  # of a loop that has no end
# Tools that wait print their rows at once here. `sleep` returns at once, and ends a loop after some rounds; perf looks
# for programs on a path of its own.
FAKES = {
    "sleep": 'echo >> "$HERE/slept"; [ "$(wc -l < "$HERE/slept")" -le 40 ]',
    "vmstat": """n=${2:-1}; "$REAL/vmstat" | head -2
while [ $n -gt 0 ]; do "$REAL/vmstat" | tail -1; n=$((n - 1)); done""",
    "top": """for last; do :; done
while [ $last -gt 0 ]; do "$REAL/top" -b -n 1; last=$((last - 1)); done""",
    "perf": """case "$*" in *thp.data*) data=thp.data;; *) data=perf.data;; esac
case $1 in record) exec "$REAL/perf" record -a -g -F 99 -o $data -- true;; esac
what=$1; shift; exec "$REAL/perf" $what -i $data "$@" """,
}
SESSION = " s into the session"
# What `grep` looks for may not be there: processes of the kernel that are called otherwise, no call chains, no swap.
MAY_PRINT_NOTHING = frozenset({"perf_report", "cgroup_memory"})
NOT_HERE = re.compile(r"thpdiag|tuned-adm|saptune|redis-cli")  # no recording of the host, or programs of another host
# Which parser reads what: where a command matches, it must be among the readers of the session.
READERS = {
    r"/proc/vmstat": "proc_vmstat", r"/proc/meminfo": "proc_meminfo", r"/proc/buddyinfo": "buddyinfo",
    r"\bps -eo": "ps", r"(?<!/)\bvmstat \d": "vmstat", r"\btop -b": "top", r"perf report": "perf_report",
    r"transparent_hugepage/\S*(?:enabled|defrag|anon_fault_alloc)": "thp_sysfs",
    r"memory\.(?:events|stat)": "cgroup_memory",
}  # fmt: skip
PAUSES = re.compile(r"\b(?:sleep|vmstat|top -b -d) (?P<seconds>\d+)(?: (?P<count>\d+)| -n (?P<rounds>\d+))?")


def _commands(part: object) -> Iterator[str]:
    """The Verify commands of all remedies and mechanisms."""
    if isinstance(part, dict):
        for key, inner in part.items():
            yield from (inner,) if key == "how" and isinstance(inner, str) else _commands(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _commands(inner)


COMMANDS = [in_directory(how, HOST) for how in dict.fromkeys(_commands(load_shipped("remedies.yaml")))]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which nothing waits."""
    folder = tmp_path_factory.mktemp("programs")
    real = str(Path(shutil.which("vmstat") or "/usr/bin/vmstat").parent)
    for name, body in FAKES.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HERE": str(folder), "REAL": real, "LC_ALL": "C"}


def _output(command: str, programs: dict[str, str], folder: Path) -> str:
    """What the command prints; that of a loop up to some rounds."""
    (Path(programs["HERE"]) / "slept").write_text("\n" * (40 - ROUNDS if command.startswith("while") else 0))
    done = subprocess.run(
        ["bash", "-c", command],
        env=programs,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout


def _seconds(command: str) -> float:
    """From the first output of what is printed twice to the last: the pauses that the command names."""
    names = command.partition("perf record")[0]
    found = list(PAUSES.finditer(names))
    if command.startswith("while"):
        return float(found[0]["seconds"]) * (ROUNDS - 1)
    if command.startswith("for i in"):
        return float(found[0]["seconds"]) * 9
    rows = [(float(m["seconds"]), int(m["count"] or m["rounds"] or 2)) for m in found]
    return sum(seconds * (count - 1) for seconds, count in rows)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_verification_that_is_pasted_back_is_read(
    command: str, programs: dict[str, str], tmp_path: Path, run: Run
) -> None:
    """Every part of the output by its parser, and pairs with the time that the command names."""
    if found := NOT_HERE.search(command):
        pytest.skip(f"{found[0]} is not to be run here")
    if "perf record" in command and not shutil.which("perf"):
        pytest.skip("no perf here")
    output = _output(command, programs, tmp_path)
    if not output.strip():
        pytest.skip("it prints nothing here: a file of /proc or /sys, or what it looks for, is missing")
    (tmp_path / "session.txt").write_text(f"[root@db1 ~]# {command}\n{output}[root@db1 ~]# \n")
    result = run("analyze", tmp_path / "session.txt", "-f", "json").document
    read = {row["reader"]: row for row in result["inputs"]}
    named = {reader for pattern, reader in READERS.items() if re.search(pattern, command)}
    assert named - MAY_PRINT_NOTHING <= set(read), f"{output}\nwas read by {sorted(read)}"
    for reader in ("proc_vmstat", "proc_meminfo", "buddyinfo", "ps", "thp_sysfs"):
        row = read.get(reader)
        if row is None or "date +%T" in command or not PAUSES.search(command) or len(_outputs(reader, command)) < 2:
            continue
        first, last = (float(row[end].removesuffix(SESSION)) for end in ("first", "last"))
        assert last - first == _seconds(command), row


def _outputs(reader: str, command: str) -> list[str]:
    """The commands in it whose output a parser reads."""
    (pattern,) = [pattern for pattern, name in READERS.items() if name == reader][:1]
    return [part for part in command.split(";") if re.search(pattern, part)]


def test_most_verifications_are_read_here() -> None:
    """Not all can be tried on every machine; that there are commands to try is certain."""
    assert len(COMMANDS) > 40
    assert sum("sleep" in command or "vmstat " in command for command in COMMANDS) > 20


def _host(seconds: int, stalls: int, *, by_hand: bool) -> str:
    """A session in which compact_stall rises while huge page faults compact memory."""
    grep = 'grep -E "compact_(stall|fail)|thp_fault" /proc/vmstat'
    first = "compact_stall 1000\ncompact_fail 900\nthp_fault_alloc 5000\nthp_fault_fallback 4000\n"
    second = (
        f"compact_stall {1000 + stalls}\ncompact_fail {900 + stalls}\nthp_fault_alloc 5900\nthp_fault_fallback 9000\n"
    )
    typed = f"{grep}; sleep {seconds}; {grep}\n{first}{second}"
    if by_hand:
        typed = f"{grep}\n{first}[root@db1 ~]# sleep {seconds}\n[root@db1 ~]# {grep}\n{second}"
    settings = "".join(
        f"[root@db1 ~]# cat /sys/kernel/mm/transparent_hugepage/{name}\n[always] {others}\n"
        for name, others in (("enabled", "madvise never"), ("defrag", "defer defer+madvise madvise never"))
    )
    return f"[root@db1 ~]# uname -r\n6.1.0-30-amd64\n{settings}[root@db1 ~]# {typed}"


@pytest.mark.parametrize(
    ("stalls", "by_hand", "outcome"),
    [
        (1500, False, "fires"),
        (1500, True, "unknown"),
        (15000, True, "fires"),
        (30, False, "silent"),
        (30, True, "silent"),
    ],
)
def test_a_rate_of_a_command_is_a_bound(stalls: int, by_hand: bool, outcome: str, tmp_path: Path, run: Run) -> None:
    """More time may have passed than the command names, most of all where it was typed by hand; never less."""
    (tmp_path / "session.txt").write_text(_host(600, stalls, by_hand=by_hand))
    result = run("analyze", tmp_path / "session.txt", "-f", "json").document
    (rule,) = [rule for rule in result["rules"] if rule["id"] == "THP-012"]
    assert rule["outcome"] == outcome
    assert "time from `sleep 600`" in str(rule["tree"])
