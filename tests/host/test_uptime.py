"""How long a host had been up, whatever of its capture tells it, and what becomes of its totals since boot."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import STRICT, document, rules
from thpdiag.pipeline import analyze

PROMPT = "[root@db1 ~]# "
DATE = f"{PROMPT}date\nFri Nov 20 03:35:13 UTC 2026\n"
FEW = f"{PROMPT}grep compact_ /proc/vmstat\ncompact_stall 20000\ncompact_fail 20000000\n"
TOTALS = f"""{PROMPT}grep compact_ /proc/vmstat
compact_stall 21275000
compact_fail 20000000
compact_success 1275000
"""
PS = "  PID                  STARTED COMMAND\n"
EF = "UID          PID    PPID  C STIME TTY          TIME CMD\n"
LAST = "reboot   system boot  3.10.0-957.el7.x "
DAY = 86_400.0

SOURCES = {
    "ps -o lstart": (f"ps -eo pid,lstart,args\n{PS}    1 Sun Nov  8 03:30:13 2026 /sbin/init\n", 12.0),
    "ps -o lstart of kthreadd": (f"ps -eo pid,lstart,args\n{PS}    2 Sun Nov  8 03:30:13 2026 [kthreadd]\n", 12.0),
    "ps -ef": (f"ps -ef\n{EF}root           1       0  0 Nov08 ?        00:00:02 /usr/lib/systemd/systemd\n", 12.0),
    "ps -ef of this day": (f"ps -ef\n{EF}root           1       0  0 00:35 ?        00:00:02 /sbin/init\n", 0.125),
    "ps -o etime": ("ps -o pid,etime,args -p 1\n  PID     ELAPSED COMMAND\n    1 12-00:05:00 /sbin/init\n", 12.0),
    "ps of a container": (f"ps -eo pid,lstart,args\n{PS}    1 Sun Nov  8 03:30:13 2026 java -jar app.jar\n", None),
    "who -b": ("who -b\n         system boot  2026-11-08 03:30\n", 12.0),
    "who -b without a year": ("who -b\n         system boot  Nov  8 03:30\n", 12.0),
    "uptime -s": ("uptime -s\n2026-11-08 03:30:13\n", 12.0),
    "last reboot": (f"last reboot\n{LAST}Sun Nov  8 03:30   still running\n{LAST}Sat Nov  7 01:30 - 03:30\n", 12.0),
    "last -F": (f"last -F reboot\n{LAST}Sun Nov  8 03:30:13 2026   still running\n", 12.0),
    "of another weekday": (f"last reboot\n{LAST}Sat Nov  8 03:30   still running\n", 365 + 12.0),
    "list of boots": (
        f"journalctl --list-boots\n-1 {'5' * 32} Sat 2026-11-07 01:30:02 UTC—Sun 2026-11-08 03:29:50 UTC\n"
        f" 0 {'6' * 32} Sun 2026-11-08 03:30:13 UTC—Fri 2026-11-20 03:35:13 UTC\n", 12.0,
    ),
    "list of boots since 254": (
        f"journalctl --list-boots\nIDX BOOT ID                          FIRST ENTRY                 LAST ENTRY\n"
        f"  0 {'6' * 32} Sun 2026-11-08 03:30:13 UTC Fri 2026-11-20 03:35:13 UTC\n", 12.0,
    ),
}  # fmt: skip


def rate_of(result: dict[str, Any]) -> list[str]:
    """The findings about totals since boot, with their confidence."""
    return [f["confidence"] for f in result["findings"] if f["rule"] == "THP-013"]


@pytest.mark.parametrize(("text", "days"), SOURCES.values(), ids=SOURCES)
def test_the_uptime_follows_from_what_tells_the_boot(text: str, days: float | None) -> None:
    """With the date of the capture; the total is then a rate, and possible at most."""
    result = document(f"{DATE}{PROMPT}{text}{TOTALS}".encode())
    assert result["problems"] == []
    assert result["host"].get("uptime") == (None if days is None else pytest.approx(days * DAY, abs=0.5 * DAY))
    assert rate_of(result) == ([] if days is None else ["possible"])


DMESG = "".join(f"[{second:5d}.000000] eth0: link is up\n" for second in range(4000, 4021))


@pytest.mark.parametrize(
    ("text", "fires", "asks"),
    [
        # 20,000 stalls in 20 days are few, whatever came after; in an hour they are many, in a year they may not be
        (f"dmesg\n[1728000.000000] eth0: link is up\n{FEW}", [], False),
        (f"dmesg\n{DMESG}{FEW}", [], True),
        (f"cat /var/log/messages.1\n[1728000.000000] eth0: link is up\n{FEW}", [], True),
    ],
    ids=["long", "short", "another log"],
)  # fmt: skip
def test_the_last_line_of_dmesg_is_a_bound(text: str, fires: list[str], asks: bool) -> None:
    """The host has been up for longer: the rate is at most so high."""
    result = document((PROMPT + text).encode())
    assert "uptime" not in result["host"]
    assert rate_of(result) == fires
    outcome = {rule["id"]: rule["outcome"] for rule in result["rules"]}["THP-013"]
    assert outcome == ("unknown" if asks else "silent")


def test_uptimes_that_contradict_are_a_problem_that_names_both() -> None:
    """Neither counts then; the list of processes of a host that was booted since, say."""
    text = f"{DATE}{PROMPT}{SOURCES['who -b'][0]}{PROMPT}dmesg\n[3456000.000000] eth0: link is up\n{TOTALS}"
    result = document(text.encode())
    assert "uptime" not in result["host"]
    (problem,) = result["problems"]
    assert re.search(
        r"two uptimes .* \(by who\), at least 3456000 s in .* \(the last message of dmesg\)", problem["text"]
    )
    assert rate_of(result) == []


@pytest.mark.parametrize(("stalls", "outcome"), [(80_000, "fires"), (52_000, "unknown"), (30_000, "silent")])
def test_what_is_not_known_of_the_uptime_is_not_known_of_the_rate(tmp_path: Path, stalls: int, outcome: str) -> None:
    """The day in the name of a sosreport is right to a day: of 12 days a rate is right to a twelfth."""
    root = tmp_path / "sosreport-db1-2026-11-20-abcdefg"
    (root / "proc").mkdir(parents=True)
    (root / "proc/vmstat").write_text(f"compact_stall {stalls}\ncompact_fail 40000\n")
    (root / "proc/stat").write_text("cpu  100 0 100 1000 0 0 0 0 0 0\nbtime 1794139200\n")  # 2026-11-08 12:00 UTC
    result = analyze([tmp_path], rules(), STRICT)
    assert {rule["id"]: rule["outcome"] for rule in result["rules"]}["THP-013"] == outcome


@pytest.mark.parametrize("dated", [True, False])
@pytest.mark.parametrize("first", ["a", "b"])
def test_each_capture_of_a_host_has_its_own_uptime(tmp_path: Path, first: str, *, dated: bool) -> None:
    """Of two the later one counts, with its own uptime, whatever the names of the folders."""
    for name, days, stalls in ((first, 1, 1_000_000), ("b" if first == "a" else "a", 300, 1_010_000)):
        root = tmp_path / name / f"sosreport-db1-{name}"
        (root / "proc").mkdir(parents=True)
        (root / "sos_commands/date").mkdir(parents=True)
        (root / "hostname").write_text("db1\n")
        (root / "proc/vmstat").write_text(f"compact_stall {stalls}\ncompact_fail 40000\n")
        (root / "proc/stat").write_text("cpu  100 0 100 1000 0 0 0 0 0 0\nbtime 1794139200\n")
        (root / "proc/uptime").write_text(f"{days * 86400}.25 100.00\n")
        if dated:
            year = "Mon Nov  9 12:00:05 UTC 2026" if days == 1 else "Sat Sep  4 12:00:05 UTC 2027"
            (root / "sos_commands/date/date").write_text(f"{year}\n")
    result = analyze([tmp_path], rules(), STRICT)
    assert result["host"]["uptime"] == 300 * DAY + 0.25
    assert rate_of(result) == []  # 1,010,000 in 300 days are 0.039/s
