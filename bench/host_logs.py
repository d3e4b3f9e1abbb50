"""The logs that the report of a bare virtual machine lacks: a server's syslog and kern.log.

Every line is from this machine: its kernel (dmesg), its packages (dpkg.log), its services (systemctl), and names and
pids of its processes. Order, times and frequencies are synthetic, the same from run to run.
"""

from __future__ import annotations

import lzma
import random
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

FIRST = datetime(2026, 11, 15, tzinfo=UTC)
PART = 5000  # lines
KERNEL = 12  # one of 12 lines of syslog is from the kernel and repeated in kern.log
HOST = "vm"
_STAMP = re.compile(r"^\[ *([\d.]+)\] ")


def logs(packed: int, preset: int) -> dict[str, bytes]:
    """Return `var/log/syslog` and `var/log/kern.log` of about this many bytes under xz."""
    lines, packer, syslog, size = _lines(), lzma.LZMACompressor(preset=preset), bytearray(), 0
    while size < packed:
        part = "".join(islice(lines, PART)).encode()
        size += len(packer.compress(part))
        syslog += part
    kern = b"".join(line for line in syslog.splitlines(keepends=True) if b" kernel: " in line)
    return {"var/log/syslog": bytes(syslog), "var/log/kern.log": kern}


def _lines() -> Iterator[str]:
    choice = random.Random(7)
    kernel, others, at = _kernel(), [*_packages(), *_services()], FIRST
    processes = _said("ps", "-eo", "comm=,pid=")
    while True:
        at += timedelta(seconds=choice.expovariate(1 / 9))
        stamp = f"{at:%b} {at.day:2} {at:%H:%M:%S} {HOST}"
        if choice.randrange(KERNEL) == 0:
            since = (at - FIRST).total_seconds() + 1000
            yield f"{stamp} kernel: [{since:12.6f}] {choice.choice(kernel)}\n"
        else:
            name, pid = choice.choice(processes).rsplit(maxsplit=1)
            yield f"{stamp} {name.strip().replace(' ', '_')}[{pid}]: {choice.choice(others)}\n"


def _kernel() -> list[str]:
    return [_STAMP.sub("", line) for line in _said("dmesg")] or ["no message"]


def _packages() -> list[str]:
    """`2026-11-20 11:55:51 status installed libc6:amd64 2.36` without its time."""
    log = Path("/var/log/dpkg.log")
    return [line[20:] for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []


def _services() -> list[str]:
    files = _said("systemctl", "list-unit-files", "--no-legend", "--no-pager")
    return [f"{word} {line.split()[0]}." for line in files for word in ("Starting", "Started", "Stopped")] or ["-"]


def _said(*command: str) -> list[str]:
    run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return [line for line in run.stdout.splitlines() if line.strip()]
