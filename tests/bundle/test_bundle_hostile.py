"""Hostile archives: none reaches the host, none hangs, none swells, and what was held back is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostile_archives import CASES, Hostile, small_limits

PROOF = os.environ.get("THPDIAG_PROOF") == "1"
CPU_SECONDS = 10
MEMORY = 256 << 20

# Reads everything that an archive has. The limits on the process are a net against hangs; the measured figures are
# what counts.
CHILD = """
import collections, json, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
from pathlib import Path
from thpdiag.bundle import Limits, Member, members
canary, found, count, own, problems, seen = sys.argv[3], collections.deque(maxlen=100), 0, 0, [], False
for one in members([Path(sys.argv[1])], lambda path: path.startswith(sys.argv[4]), Limits(**json.loads(sys.argv[2]))):
    if not isinstance(one, Member):
        problems.append(one)
        own += 1
        continue
    found.append(one.path)
    count += 1
    for number, line in one.lines():
        seen = seen or canary in line
    one.finish()
    problems += one.problems
usage = resource.getrusage(resource.RUSAGE_SELF)
# VmHWM and not ru_maxrss, which exec takes over from the process of the test.
peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
json.dump({
    "members": list(found), "count": count, "own": own, "canary": seen, "cpu": usage.ru_utime + usage.ru_stime,
    "memory": peak * 1024, "problems": [[p.cite.member, p.text, p.kind, p.hides_data] for p in problems],
}, sys.stdout)
"""


def read_in_child(archive: Path, limits: dict[str, int], canary: str, wants: str) -> dict:
    command = [sys.executable, "-c", CHILD, str(archive), json.dumps(limits), canary, wants]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=archive.parent)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hostile_archive_is_contained_and_named(case: Hostile, tmp_path: Path) -> None:
    """The child ends within 10 s of CPU and 256 MB, touches nothing outside, and a problem names what was held back.

    An ordinary member behind the hostile one is found, or a problem says that members may be hidden.
    """
    canary = "root:x:0:0"  # the first line of /etc/passwd, which several archives point at
    archive = tmp_path / "in" / "archive"
    archive.parent.mkdir()
    with archive.open("wb") as out:
        case.write(out, case.full if PROOF else case.small)
    got = read_in_child(archive, {} if PROOF else small_limits(case), canary, case.wants)
    assert got["cpu"] < CPU_SECONDS
    assert got["memory"] < MEMORY
    assert not got["canary"]
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "archive"]
    assert case.says in " | ".join(text for _, text, _, _ in got["problems"])
    assert not any(str(tmp_path) in " ".join(map(str, problem)) for problem in got["problems"])
    assert got["own"] < 50  # problems of the archive are folded; those of single members are theirs
    assert "proc/after" in got["members"] or any(hides for *_, hides in got["problems"])
